"""What a notebook file holds, read inside the sandbox: its code, its open answers. Its metadata is never trusted."""

import ast
import json
import re
import symtable

from translate import checked, only_ours, python

OPEN = re.compile(r"\**Answer (\d+\.\d+)\**")
ANSWERS, ANSWER_CHARACTERS = 20, 8000  # at most, so that they fit into one message
KINDS = {b"PK": "a zip archive", b"Rar!": "an archive", b"\x1f\x8b": "an archive", b"%PDF": "a PDF", b"<": "a web page"}


class Cell:
    """A code cell: its text and the identifiers that it or its metadata carry; once prepared, what it is in Python.

    Args:
        source: the text as Python.
        defined: the names of the functions and classes that it defines, in order.
        bound: the names that it gives a value to, outside of functions.
        needed: the names that its functions and classes will look for outside of themselves, once called.
        checks: exercise -> what stands second in its last `check(...)`, and what `names=` is, as expressions' text.
        checked: the exercises and the names that stand in its checks.
        ours: whether it does nothing but check, or call another function of the exercises' own.
    """

    def __init__(self, text, names):
        self.text, self.names, self.source = text, names, ""
        self.defined, self.bound, self.needed, self.checks = [], set(), set(), {}
        self.checked, self.ours = set(), False

    def prepare(self):
        """Find out what the cell is in Python; a hostile text can end the process here."""
        self.source, parsed = python(self.text)
        if parsed is not None:  # not kept: it's a thousand times as large as the text
            self.defined = [n.name for n in parsed.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            self.checks = checks(parsed)
            self.checked, self.ours = checked(parsed), only_ours(parsed)
            self.bound, self.needed = scopes(self.source)


def read(data):
    """Return a notebook's code cells, and its open answers by exercise; ValueError if it isn't a notebook."""
    try:
        found = json.loads(data.decode(json.detect_encoding(data), "replace").rstrip("\0"))
    except (RecursionError, ValueError) as error:
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
        if number and body and "*Your answer here.*" not in body and len(answers | {number: 0}) <= ANSWERS:
            answers[number] = body[:ANSWER_CHARACTERS]
    return answers


def checks(parsed):
    """Return exercise -> (what stands second in its last `check(...)`, what `names=` is), as expressions' text."""
    found = {}
    for node in ast.walk(parsed):
        if not isinstance(node, ast.Call) or len(node.args) < 2 or not isinstance(node.args[0], ast.Constant):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "check" and isinstance(node.args[0].value, str):
            names = next((ast.unparse(k.value) for k in node.keywords if k.arg == "names"), None)
            found[node.args[0].value] = (ast.unparse(node.args[1]), names)
    return found


def scopes(source):
    """Return the names that a text gives a value to, outside of functions, and those that its functions look for."""
    try:
        top = symtable.symtable(source, "", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    needed, waiting = set(), list(top.get_children())
    while waiting:
        one = waiting.pop()
        needed |= {s.get_name() for s in one.get_symbols() if s.is_global() and s.is_referenced()}
        waiting += one.get_children()
    return {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}, needed
