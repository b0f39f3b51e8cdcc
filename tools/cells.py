"""Read and write notebooks in one fixed form, and look at their cells.

The form is the same whoever saved the notebook last (Jupyter, Colab, a script): fixed kernel, no foreign metadata,
ids that don't change from run to run, so that a diff shows what somebody changed and nothing else.
"""

from __future__ import annotations

import ast
import hashlib
import io
import os
import re
import tempfile
import tokenize
from collections import Counter
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"file_extension": ".py", "mimetype": "text/x-python", "name": "python", "pygments_lexer": "ipython3"}
CELL_METADATA = {"tags", "slideshow", "nbgrader", "mystnb"}  # everything else is some editor's own
RANDOM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}|[0-9A-Za-z_-]{12}")


def read(path: Path) -> NotebookNode:
    """Return the notebook at `path`, valid and in the newest minor format; ValueError if it isn't one."""
    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except (nbformat.ValidationError, nbformat.reader.NotJSONError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} must be a notebook in format 4, got {type(error).__name__}: {error}") from error
    return notebook


def written(notebook: NotebookNode) -> str:
    """Return the notebook's one text in the fixed form; the same for the same cells."""
    return nbformat.writes(normalise(notebook)).rstrip("\n") + "\n"


def write(notebook: NotebookNode, path: Path) -> bool:
    """Write the notebook in the fixed form, all or nothing; return whether the file changed."""
    return write_text(path, written(notebook))


def write_text(path: Path, text: str) -> bool:
    """Put `text` at `path`, all or nothing; return whether the file changed."""
    if path.exists() and path.read_bytes() == text.encode():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Return a copy with a fixed kernel, no foreign metadata and lasting ids."""
    notebook = nbformat.from_dict(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": LANGUAGE})
    taken: set[str] = set()
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in CELL_METADATA and v})
        seen[cell.source] += 1
        cell.id = _lasting_id(cell, seen[cell.source], taken)
        taken.add(cell.id)
        cell.source = cell.source.rstrip()
    return notebook


def _lasting_id(cell: NotebookNode, occurrence: int, taken: set[str]) -> str:
    """Keep an id that a person chose; replace a missing, double or random one by a digest of the cell."""
    given = cell.get("id", "")
    if given and given not in taken and not RANDOM_ID.fullmatch(given):
        return given
    for attempt in range(1000):
        digest = hashlib.sha256(f"{cell.cell_type}\n{occurrence + attempt}\n{cell.source}".encode()).hexdigest()
        if f"cell-{digest[:8]}" not in taken:
            return f"cell-{digest[:8]}"
    raise AssertionError("a thousand digests were taken")


def tags(cell: NotebookNode) -> list[str]:
    """Return the cell's tags, an empty list where it has none."""
    return cell.metadata.get("tags", [])


def python(source: str) -> str:
    """Return a cell's source with magics and shell lines turned into Python."""
    return TransformerManager().transform_cell(source)


def tree(source: str) -> ast.Module:
    """Return the syntax tree of a code cell; SyntaxError if it has none."""
    return ast.parse(python(source))


def code_lines(source: str) -> int:
    """Count the lines that hold code: no blank lines, comments or docstrings; SyntaxError if it isn't Python."""
    text = python(source)
    module = ast.parse(text)
    lines: set[int] = set()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(module))


def _docstring_lines(module: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            lines.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def notebooks(root: Path, *folders: str) -> list[Path]:
    """Return every notebook below the named folders, sorted, without Jupyter's own backup copies."""
    found = (path for folder in folders for path in (root / folder).rglob("*.ipynb"))
    return sorted(path for path in found if ".ipynb_checkpoints" not in path.parts)


def title(notebook: NotebookNode) -> str | None:
    """Return the notebook's first heading of the first level; None where it has none."""
    lines = (line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines())
    return next((line.lstrip("# ") for line in lines if line.startswith("# ")), None)


def chapter(path: Path) -> int | None:
    """Return the chapter's number, from a name such as `02_attention.ipynb` or a folder `02_attention/`; else None."""
    for part in (path.name, path.parent.name):
        if match := re.match(r"(\d\d)_", part):
            return int(match.group(1))
    return None
