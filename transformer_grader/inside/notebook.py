"""What a notebook file holds, read inside the sandbox: its code, its open answers. Its metadata is never trusted."""

import ast
import json
import re
import symtable

import prose
from translate import LARGEST, checked, only_ours, python

FILE = r"Path\(\W*data/(\d+\.\d+)\.json\W*\)\.read_text\([^()]*\)"
JUDGED = re.compile(rf"(?:\bchecking\.)?\bjudge\(\s*store\.parsed\(\s*{FILE}\s*\)")  # a variant's check
KINDS = {b"PK": "a zip archive", b"Rar!": "an archive", b"\x1f\x8b": "an archive", b"%PDF": "a PDF", b"<": "a web page"}


class Cell:
    """A code cell: its text and the identifiers that it or its metadata carry; once prepared, what it is in Python.

    Args:
        source: the text as Python.
        defined: the names of the functions and classes that it defines, in order.
        bound: the names that it gives a value to, outside of functions.
        needed: the names that its functions and classes will look for outside of themselves, once called.
        checks: the calls of `check` and `use` that stand in it, as text.
        checked: the exercises and the names that stand in its checks.
        given: whether it is as the notebook came with it.
        ours: whether it does nothing but check, or call another function of the exercises' own.
    """

    def __init__(self, text, names):
        self.text, self.names, self.source = text, names, ""
        self.defined, self.bound, self.needed, self.checks, self.checked = [], set(), set(), [], set()
        self.given = self.ours = False

    def prepare(self):
        """Find out what the cell is in Python; a hostile text can end the process here."""
        text = self.text if len(self.text) > LARGEST else JUDGED.sub(r'exercises.check("\1"', self.text)
        self.source, parsed = python(text)
        if parsed is not None:  # not kept: it's a thousand times as large as the text
            self.defined = [n.name for n in parsed.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            self.checks = checks(parsed)
            self.checked, self.ours = checked(parsed), only_ours(parsed)
            self.bound, self.needed = scopes(self.source)


def read(data, given=()):
    """Return a notebook's code cells, and its open answers by exercise; ValueError if it isn't a notebook.

    Args:
        given: digests of the cells that it came with.
    """
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
    return code, prose.answers(_parts(raw, set(given)))


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


def _parts(raw, given):
    """Yield the cells in which an open answer may stand, or end."""
    for cell in raw:
        if cell.get("cell_type") in ("code", "markdown", "raw"):
            text = _text(cell)
            yield prose.Part(cell["cell_type"] == "code", text, _names(cell), prose.digest(text) in given)


def checks(parsed):
    """Return the calls of `check` and `use` in a tree, as text."""
    calls = [node for node in ast.walk(parsed) if isinstance(node, ast.Call)]
    names = [node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "") for node in calls]
    return [ast.unparse(node) for node, name in zip(calls, names, strict=True) if name in ("check", "use")]


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
