"""What a notebook file holds, read inside the sandbox: its code, its open answers. Its metadata is never trusted."""

import ast
import json
import re
import symtable

import prose

MAGIC = re.compile(r"^(\s*)(?:%{1,2}\w|!|\?|\w[\w.]*\?{1,2}\s*$)")
ASSIGNED = re.compile(r"^(\s*)(\w+)\s*=\s*[!%].*$")
SKIPPED = {"bash", "sh", "script", "html", "javascript", "js", "latex", "markdown", "writefile", "perl", "ruby", "svg"}
FILE = r"Path\(\W*data/(\d+\.\d+)\.json\W*\)\.read_text\([^()]*\)"
JUDGED = re.compile(rf"(?:\bchecking\.)?\bjudge\(\s*store\.parsed\(\s*{FILE}\s*\)")  # a variant's check
BARE = re.compile(
    r"(?:from pathlib import Path\s+from transformer_lib\.exercises import checking, store\s+)?"
    r"exercises\.(check|use|reset|example)\([^\n]*\)\s*"
)
LARGEST = 100_000  # characters of a cell that is looked into before it's run
KINDS = {b"PK": "a zip archive", b"Rar!": "an archive", b"\x1f\x8b": "an archive", b"%PDF": "a PDF", b"<": "a web page"}


class Cell:
    """A code cell: its text and the identifiers that it or its metadata carry; once prepared, what it is in Python.

    Args:
        source: the text as Python.
        defined: the names of the functions and classes that it defines, in order.
        bound: the names that it gives a value to, outside of functions.
        needed: the names that its functions and classes will look for outside of themselves, once called.
        checks: the calls of `check` and `use` that stand in it, as text.
        given: whether it is as the notebook came with it.
    """

    def __init__(self, text, names):
        self.text, self.names, self.source, self.given = text, names, "", False
        self.defined, self.bound, self.needed, self.checks = [], set(), set(), []

    @property
    def bare(self):
        """Whether it holds nothing but calls of the library's checks."""
        return BARE.fullmatch(self.source) is not None

    def prepare(self):
        """Find out what the cell is in Python; a hostile text can end the process here."""
        text = self.text if len(self.text) > LARGEST else JUDGED.sub(r'exercises.check("\1"', self.text)
        self.source, parsed = python(text)
        if parsed is not None:  # not kept: it's a thousand times as large as the text
            self.defined = [n.name for n in parsed.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            self.checks = checks(parsed)
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


def python(source):
    """Return a cell's source with magics and shell lines made harmless, unchanged where it is Python; and its tree."""
    if len(source) > LARGEST or (parsed := tree(source)) is not None:
        return source, None if len(source) > LARGEST else parsed
    lines = source.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        if lines[first][2:].split(" ")[0].strip() in SKIPPED:
            return "", None
        lines[first] = ""
    source = "\n".join(_without_magics(lines))
    return source, tree(source)


def _without_magics(lines):
    """Yield lines in which magics do nothing, and neither do the lines on which they go on."""
    goes_on = False
    for line in lines:
        match = MAGIC.match(line)
        if goes_on or match or ASSIGNED.match(line):
            yield "" if goes_on else match.group(1) + "pass" if match else ASSIGNED.sub(r"\1\2 = None", line)
            goes_on = line.rstrip().endswith("\\")
        else:
            yield line


def tree(source):
    """Return a text's syntax tree, None if it has none."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


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
