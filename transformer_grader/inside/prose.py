"""A notebook's open answers: what is written below a heading such as "Answer 3.7", or below the question itself."""

import hashlib
import re
from collections import namedtuple

Part = namedtuple("Part", "code text names given")  # a cell: is it code, its text, its ids, does it stand as given
WORDS = (
    r"(?:my\s+)?(answer|{})(?:\s+(?:to|for|of))?(?:\s+question)?[\s:#_-]*(\d+)[._-](\d+)(?![\d.]*\d)[*_]*[:.)]?[*_]*"
)
FIRST = re.compile(r"(?:<\w+>|print\(|[#>\s*_\"'])*" + WORDS.format("question"), re.IGNORECASE)
INNER = re.compile(r"^[ \t]*(?:<\w+>|[#>*_])(?:<\w+>|[#> \t*_])*" + WORDS.format("(?!)"), re.IGNORECASE | re.MULTILINE)
CHECKED = re.compile(r"\b(check)\(\W*(\d+)\.(\d+)[\"']\s*,\s*(?:answer\s*=\s*)?[rf]?[\"']+")  # of a text
NUMBERED = re.compile(r"(\w+)-(\d+)-(\d+)")
PLACEHOLDER = re.compile(r"[*_]*your answer here\.?[*_]*", re.IGNORECASE)
ANSWERS, CHARACTERS = 20, 8000  # at most, so that they fit into one message
CUT = "\n\n[Cut here by the grader: the answer has {} characters; the rest stands in the notebook.]"


def digest(text):
    """Return a digest of a cell's text, the same whatever ends its lines."""
    lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
    return hashlib.sha256(lines.encode(errors="replace")).hexdigest()


def answers(parts):
    """Return exercise -> text of its open answer.

    An answer goes on, over cells of text, up to the next heading or the next cell that stands as it was given.
    """
    found, number = {}, None
    for part in parts:
        for now, text in pieces(part, number):
            if (text := PLACEHOLDER.sub("", text).strip()) and now and text not in found.get(now, ()):
                found.setdefault(now, []).append(text)
            number = now
    return {number: bounded("\n\n".join(texts)) for number, texts in list(found.items())[:ANSWERS]}


def pieces(part, number):
    """Yield a cell's texts, each with the exercise that it answers; `number` is the one that was being answered."""
    headings = [first] if (first := FIRST.match(part.text)) else []
    headings += INNER.finditer(part.text, first.end() if first else 0)
    headings += CHECKED.finditer(part.text) if part.code and not headings else []
    named = [match for name in part.names if (match := NUMBERED.fullmatch(name))]
    if (part.given and not headings) or (part.code and named):
        number = None
    elif answer := next((match for match in named if match.group(1) == "answer"), None):
        number = f"{answer.group(2)}.{answer.group(3)}"
    ends = [heading.start() for heading in headings] + [len(part.text)]
    before = part.text[: ends[0]]
    worded = not part.code or all(line.strip()[:1] in ("", "#") for line in before.splitlines())
    yield number, before if worded else ""
    for heading, end in zip(headings, ends[1:], strict=True):
        text = part.text[heading.end() : end]
        asked = heading.group(1).lower() == "question"  # its own text isn't part of the answer
        yield f"{heading.group(2)}.{heading.group(3)}", text.rpartition("</details>")[2] if asked else text


def bounded(text):
    """Return a text, cut to what fits into a message; where it's cut, it says so."""
    if len(text) <= CHARACTERS:
        return text
    note = CUT.format(f"{len(text):,}")
    return text[: CHARACTERS - len(note)] + note
