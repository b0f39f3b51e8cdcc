"""The index of terms: `book/terms.md`, made from the terms in `book/notation.md` and the text of the chapters.

`python -m tools.terms` checks that the page is what they say; `--write` makes it. A term of the notation's table, or
one that stands before its Chinese name in the paragraphs below it, is looked for in the chapters' text.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from tools import ROOT, cells, pages

DATA, PAGE = Path("book/notation.md"), Path("book/terms.md")
ROW = re.compile(r"^\| (?P<term>[^|]+) \|(?P<symbol>[^|]*)\| (?P<zh>[^|]*[一-鿿][^|]*) \|", re.MULTILINE)
BESIDE = re.compile(r"(?:the )?(?P<term>[A-Za-z][\w'/() -]*?) (?P<zh>[一-鿿]+)")
SPELT = {  # terms of which the chapters speak by another word
    "beam width": r"beam width|width of the beam|beam of",
    "bucket bias": r"bucket bias|buckets?|T5",
    "depth": r"depth|number of layers",
    "feed-forward width": r"d_\{?(?:\\text\{)?ff",
    "head width": r"d_k|head width",
    "inner and outer map": r"feed-forward",
    "linear bias": r"linear bias|ALiBi",
    "model width": r"d_model|d_\{\\text\{model\}\}",
    "nucleus (top-p)": r"nucleus|top-p|top_p",
    "output of a head": r"output of a head|head's output|heads' outputs",
    "output projection": r"W_O\b|output projection",
    "position bias": r"position bias|linear bias|ALiBi",
    "query and key projections": r"W_Q\b|query projection",
    "rotary positions": r"rotary|RoPE",
    "token vectors, input": r"token vectors?|word vectors?",
    "value projection": r"W_V\b|value projection",
}
HEAD = """\
# Index of terms

{total} terms in English and Chinese, in the order of the English, and the chapters whose text uses them; where none
does, the notebooks of the clinic. What each means stands under [notation](notation.md).

:::{{div}} terms-table
| Term | 中文 | Used in | Symbol |
|---|---|---|---|
"""


class Term(NamedTuple):
    """A term, its Chinese name, and its symbol where it has one."""

    english: str
    zh: str
    symbol: str = ""


def terms(text: str) -> list[Term]:
    """Return the terms that the notation page names, in the order of the alphabet, each once."""
    rows = [match for match in ROW.finditer(text) if match["zh"].strip() != "中文"]  # without the table's head
    found = [Term(match["term"].strip(), match["zh"].strip(), match["symbol"].strip()) for match in rows]
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    for part in re.split(r"[,:;.]\s", " ".join(prose)):
        for match in BESIDE.finditer(part):
            name = re.sub(r"^.* (?:is|it's) the ", "", match["term"])
            found.append(Term(name[0].lower() + name[1:], match["zh"]))
    once = {term.english: term for term in reversed(found)}  # the table's, which has the symbol, wins
    return sorted(once.values(), key=lambda term: term.english.lower())


def texts(root: Path = ROOT) -> dict[Path, str]:
    """Return the text, without code, of each notebook that the book shows."""
    shown = set(pages.names(root))
    paths = [path.relative_to(root) for path in cells.notebooks(root, "notebooks")]
    read = {path: cells.read(root / path).cells for path in paths if path.with_suffix("").as_posix() in shown}
    return {path: "\n".join(c.source for c in found if c.cell_type == "markdown") for path, found in read.items()}


def uses(term: str, notebooks: dict[Path, str]) -> list[Path]:
    """Return the chapters that speak of a term; if there are none, the notebooks of the clinic that do."""
    pattern = SPELT.get(term, re.escape(term).replace(r"\ ", r"\s+") + r"(?:s|es)?\b")
    found = [path for path, text in notebooks.items() if re.search(rf"(?<![\w-])(?:{pattern})", text, re.I)]
    chapters = [path for path in found if cells.chapter(path) is not None]
    return chapters or found


def page(text: str, notebooks: dict[Path, str]) -> str:
    """Return the whole page as MyST Markdown."""
    found, lines = terms(text), []
    for term in found:
        links = [f"[{_short(path)}](../{path.as_posix()})" for path in uses(term.english, notebooks)]
        used = ", ".join(links) or "[notation](notation.md)"
        lines.append(f"| {term.english} | {term.zh} | {used} | {term.symbol} |")
    return HEAD.format(total=len(found)) + "\n".join(lines) + "\n:::\n"


def _short(path: Path) -> str:
    return str(cells.chapter(path) or pages.label(path))


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the page, after making it where `--write` asks for that."""
    made = page((root / DATA).read_text(encoding="utf-8"), texts(root))
    write = lambda: cells.write_text(root / PAGE, made)  # noqa: E731
    return pages.run(arguments, "terms", __doc__, write, lambda: pages.stale(PAGE, made, DATA, root))


if __name__ == "__main__":
    sys.exit(main())
