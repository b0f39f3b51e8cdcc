"""The rules that a stored notebook keeps, checked without running it: `python -m tools.notebooks` reports them.

Short cells, sentences between them, outputs that are there and last, figures with a caption and an alternative text.
"""

from __future__ import annotations

import ast
import base64
import re
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from tools import cells, listings, outputs, repository

CELL_LINES, LISTING_LINES = 12, 25  # of code: blank lines, comments and docstrings don't count
PICTURE_BYTES, NOTEBOOK_BYTES = 80 * 1024, 700 * 1024
IGNORED_SHARE = 1 / 5  # of the code cells may carry nbval-ignore-output
CAPTION = re.compile(r"\*\*Figure (?:\d+\.)?(\d+)\.\*\*\s+\S.{20,}", re.DOTALL)
MOVING = re.compile(r"<script\s[^>]*src=")  # a figure that the page's own script draws; its caption is in its cell
IGNORE, RAISES = "nbval-ignore-output", "raises-exception"
SKIPPING = {"nbval-skip", "skip-execution"}


def problems(notebook: NotebookNode, path: Path, root: Path) -> list[str]:
    """Say which rule a notebook breaks, and in which cell (counted from 0)."""
    where = str(path.relative_to(root))
    found = [f"{where}, cell {number}: {what}" for number, what in _in_cells(notebook, root)]
    found += [f"{where}: {what}" for what in _in_whole(notebook, path)]
    return found


def _in_whole(notebook: NotebookNode, path: Path) -> Iterator[str]:
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if not code or not repository.is_colab_cell(code[0]):
        yield "the first code cell must be the install cell (make repository puts it there)"
    if (size := path.stat().st_size) > NOTEBOOK_BYTES:
        yield f"a notebook must be at most {NOTEBOOK_BYTES:,} bytes, got {size:,}"
    ignored = sum(IGNORE in cells.tags(cell) for cell in code)
    if ignored > IGNORED_SHARE * len(code):
        yield f"at most one code cell in five may carry {IGNORE}, got {ignored} of {len(code)}"
    if cells.written(notebook) != path.read_text(encoding="utf-8"):
        yield "not in the stored form (make notebooks writes it)"


def _in_cells(notebook: NotebookNode, root: Path) -> Iterator[tuple[int, str]]:
    counted = figures = in_a_row = 0
    for number, cell in enumerate(notebook.cells):
        following = notebook.cells[number + 1 :]
        in_a_row = in_a_row + 1 if cell.cell_type == "code" else 0
        if MOVING.search(cell.source) and cell.cell_type == "markdown":
            figures += 1
            yield from ((number, what) for what in _moving(cell, figures))
        if cell.cell_type != "code":
            continue
        counted += 1
        if in_a_row > 2:
            yield number, "at most two code cells may follow each other without a sentence between, got a third"
        rules = [_source(cell), _run(cell, counted), _lasting(cell, root), _ignored(cell, following)]
        yield from ((number, what) for rule in rules for what in rule)
        pictures = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        figures += bool(pictures)
        yield from ((number, what) for what in _pictures(pictures, following, figures))


def _source(cell: NotebookNode) -> Iterator[str]:
    try:
        lines = cells.code_lines(cell.source)
    except SyntaxError as error:
        yield f"a code cell must be Python, got {error}"
        return
    limit = LISTING_LINES if listings.listed_module(cell) else CELL_LINES
    if not 0 < lines <= limit:
        yield f"a cell must hold 1 to {limit} lines of code, got {lines}"
    if skipping := SKIPPING.intersection(cells.tags(cell)):
        yield f"each cell must be run by the tests, got the tag {', '.join(skipping)}"


def _run(cell: NotebookNode, counted: int) -> Iterator[str]:
    if cell.execution_count != counted:
        yield f"the execution count must be {counted}, got {cell.execution_count} (run it: make notebooks)"
    raised = [output for output in cell.outputs if output.output_type == "error"]
    if raised and RAISES not in cells.tags(cell):
        yield f"an error must carry the tag {RAISES}, got {raised[0].ename}: {raised[0].evalue}"
    if RAISES in cells.tags(cell) and not raised:
        yield f"a cell with the tag {RAISES} must raise, got no error"


def _lasting(cell: NotebookNode, root: Path) -> Iterator[str]:
    """Find what another machine or another run would print differently."""
    if any(output.get("name") == "stderr" for output in cell.outputs) and IGNORE not in cells.tags(cell):
        yield "nothing may be written to stderr (a warning?), got some"
    if any(outputs.WIDGET in output.get("data", {}) for output in cell.outputs):
        yield "a widget's state isn't stored, so that its view must not be either"
    for text in outputs.texts(cell):
        if outputs.PROGRESS.search(text):
            yield "a progress bar must stay out of the stored output, got one"
        if match := outputs.ADDRESS.search(text):
            yield f"an address in memory changes with each run, got {match.group(0)}"
        if str(root) in text or str(Path.home()) + "/" in text:
            yield "a path of this machine must stay out of the stored output, got one"


def _ignored(cell: NotebookNode, following: list[NotebookNode]) -> Iterator[str]:
    after = next((later for later in following if later.cell_type == "code"), None)
    if IGNORE in cells.tags(cell) and (after is None or not asserts(after.source)):
        yield f"a cell with the tag {IGNORE} must be followed by a code cell that asserts what matters about it"


def asserts(source: str) -> bool:
    """Tell whether a code cell holds an assertion: `assert`, or a call such as `torch.testing.assert_close`."""
    try:
        nodes = list(ast.walk(cells.tree(source)))
    except SyntaxError:
        return False
    called = [ast.unparse(node.func).rpartition(".")[2] for node in nodes if isinstance(node, ast.Call)]
    return any(isinstance(node, ast.Assert) for node in nodes) or any(name.startswith("assert") for name in called)


def _moving(cell: NotebookNode, figures: int) -> Iterator[str]:
    caption = CAPTION.search(cell.source)
    if not caption or int(caption.group(1)) != figures:
        yield f"a moving figure's cell must hold its caption, '**Figure {figures}.** What to conclude ...'"


def _pictures(pictures: list[NotebookNode], following: list[NotebookNode], figures: int) -> Iterator[str]:
    """Check what belongs to each figure: an alternative text, a size that loads, a caption that concludes."""
    for output in pictures:
        if not output.metadata.get("image/png", {}).get("alt", "").strip():
            yield "a figure must carry an alternative text (visualisation.show(figure, alt=...)), got none"
        if (size := len(base64.b64decode(output.data["image/png"]))) > PICTURE_BYTES:
            yield f"a picture must be at most {PICTURE_BYTES:,} bytes, got {size:,}"
    if pictures:
        below = following[0] if following and following[0].cell_type == "markdown" else None
        caption = CAPTION.match(below.source) if below else None
        if not caption or int(caption.group(1)) != figures:
            got = repr(below.source[:40]) if below else "no markdown"
            yield f"the next cell must begin with a caption, '**Figure {figures}.** What to conclude ...', got {got}"
