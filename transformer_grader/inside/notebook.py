"""What a notebook file holds, read inside the sandbox: its code, its open answers. Its metadata is never trusted."""

import ast
import json
import re
import symtable

MAGIC = re.compile(r"^(\s*)(?:%{1,2}\w|!|\?|\w[\w.]*\?{1,2}\s*$)")
ASSIGNED = re.compile(r"^(\s*)(\w+)\s*=\s*[!%].*$")
SKIPPED = {"bash", "sh", "script", "html", "javascript", "js", "latex", "markdown", "writefile", "perl", "ruby", "svg"}
OPEN = re.compile(r"\**Answer (\d+\.\d+)\**")
OURS = re.compile(
    r"exercises\.(check|use|reset|example)\([^\n]*\)\s*"
    r"|from pathlib import Path\s+from transformer_lib\.exercises import checking, store\s+"
    r"checking\.judge\(store\.parsed\([^\n]*\)\s*"
)
ANSWER_CHARACTERS = 8000
LARGEST = 1 << 20  # characters of a cell that is parsed before it's run
KINDS = {b"PK": "a zip archive", b"Rar!": "an archive", b"\x1f\x8b": "an archive", b"%PDF": "a PDF", b"<": "a web page"}


class Cell:
    """A code cell: its text, the identifiers that it or its metadata carry; once prepared, its source as Python."""

    def __init__(self, text, names):
        self.text, self.names, self.source, self.tree = text, names, "", None

    def prepare(self):
        """Make Python of the text; a hostile text can end the process here."""
        self.source = python(self.text)
        self.tree = tree(self.source)


def read(data):
    """Return a notebook's code cells, and its open answers by exercise; ValueError if it isn't a notebook."""
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        known = (kind for mark, kind in KINDS.items() if data[:64].lstrip().startswith(mark))
        raise ValueError(f"not a notebook: {next(known, type(error).__name__)}") from error
    if not isinstance(found, dict):
        raise ValueError("not a notebook: no object")
    raw = found.get("cells")
    if not isinstance(raw, list):  # format 3 keeps them in worksheets
        sheets = [s for s in _list(found.get("worksheets")) if isinstance(s, dict)]
        raw = [cell for sheet in sheets for cell in _list(sheet.get("cells"))]
    raw = [cell for cell in raw if isinstance(cell, dict) and isinstance(cell.get("cell_type"), str)]
    if not raw:
        raise ValueError("not a notebook: no cells")
    code = [Cell(_text(c), _names(c)) for c in raw if c.get("cell_type") == "code"]
    return code, _answers(raw)


def _list(value):
    return value if isinstance(value, list) else []


def _text(cell):
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def _names(cell):
    """Return what may identify a cell: its id, nbgrader's id."""
    metadata = cell.get("metadata") if isinstance(cell.get("metadata"), dict) else {}
    grading = metadata.get("nbgrader") if isinstance(metadata.get("nbgrader"), dict) else {}
    found = (cell.get("id"), metadata.get("id"), grading.get("grade_id"))
    return [name for name in found if isinstance(name, str)]


def _answers(raw):
    """Return exercise -> text of its open answer: by its heading "Answer 2.6", else by the cell's id."""
    answers = {}
    for cell in raw:
        if cell.get("cell_type") not in ("markdown", "raw"):
            continue
        text = _text(cell)
        match = OPEN.match(text.lstrip())
        named = [re.fullmatch(r"answer-(\d+)-(\d+)", name) for name in _names(cell)]
        number = match.group(1) if match else next((f"{n.group(1)}.{n.group(2)}" for n in named if n), None)
        body = OPEN.sub("", text.lstrip(), count=1).strip() if match else text.strip()
        if number and body and "*Your answer here.*" not in body:
            answers[number] = body[:ANSWER_CHARACTERS]
    return answers


def python(source):
    """Return a cell's source with magics and shell lines made harmless; unchanged where it is Python as it stands."""
    if len(source) > LARGEST or parses(source):
        return source
    lines = source.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        if lines[first][2:].split(" ")[0].strip() in SKIPPED:
            return ""
        lines[first] = ""
    kept = [ASSIGNED.sub(r"\1\2 = None", line) for line in lines]
    return "\n".join(MAGIC.match(line).group(1) + "pass" if MAGIC.match(line) else line for line in kept)


def parses(source):
    """Tell whether a text is Python."""
    return tree(source) is not None


def tree(source):
    """Return a text's syntax tree, None if it has none or is too large."""
    if len(source) > LARGEST:
        return None
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def checks(cells):
    """Return exercise -> (what stands second in its last `check(...)`, what `names=` is), as expressions' text."""
    found = {}
    for cell in cells:
        for node in ast.walk(cell.tree or ast.Module([], [])):
            if not isinstance(node, ast.Call) or len(node.args) < 2 or not isinstance(node.args[0], ast.Constant):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == "check" and isinstance(node.args[0].value, str):
                names = next((ast.unparse(k.value) for k in node.keywords if k.arg == "names"), None)
                found[node.args[0].value] = (ast.unparse(node.args[1]), names)
    return found


def defined(cell):
    """Return the names of the functions and classes that a cell defines, in order."""
    body = (cell.tree or ast.Module([], [])).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def bound(cell):
    """Return the names that a cell gives a value to, outside of functions."""
    top = _symbols(cell)
    return {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()} if top else set()


def needed(cell):
    """Return the names that a cell's functions and classes will look for outside of themselves, once called."""
    waiting, found = list(top.get_children()) if (top := _symbols(cell)) else [], set()
    while waiting:
        one = waiting.pop()
        found |= {s.get_name() for s in one.get_symbols() if s.is_global() and s.is_referenced()}
        waiting += one.get_children()
    return found


def _symbols(cell):
    try:
        return symtable.symtable(cell.source, "", "exec") if cell.tree is not None else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
