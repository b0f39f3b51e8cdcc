"""A book of one chapter, small and in order, for the tests of the tools: each test plants one fault in it."""

import base64
import struct
import zlib
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools import cells, exercises, repository

ATTENTION = '''"""Attention."""

import math

SCALE = 0.5  # of the scores
SHIFT = 1.0


@staticmethod
def doubled(x: float) -> float:
    """Return twice x.

    2 x
    """
    return 2 * x


def halved(x: float) -> float:
    """Return half of x."""
    return SCALE * x  # a comment that stays


def _private() -> None:
    return math.pi
'''
LISTING = ATTENTION[ATTENTION.index("SCALE") : ATTENTION.index("\n\n\ndef _private")]
MASKS = 'def causal_mask(length: int) -> int:\n    """Return a mask."""\n    return length\n'
CONFIG = 'title: sample\n\nrepository:\n  url: ""\n  branch: "main"\n  path_to_book: ""\n\nhtml: {}  # kept\n'
README = "# Sample\n\n<!-- launch -->\n<!-- end of launch -->\n\nThe end.\n"
ANSWER = '''def tripled(x):
    """Return three times x."""
    ### BEGIN SOLUTION
    return 3 * x
    ### END SOLUTION
'''
CAPTION = "**Figure 1.** The line rises from one to two, as the formula says it must."


def png(size: int = 0) -> str:
    """Return a picture of one grey pixel, with `size` bytes of comment to make it heavy."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    body = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\x80"))
    picture = b"\x89PNG\r\n\x1a\n" + body + chunk(b"tEXt", b"Comment\0" + b"x" * size) + chunk(b"IEND", b"")
    return base64.b64encode(picture).decode()


def figure(alt: str = "A rising line", size: int = 0) -> NotebookNode:
    """Return the output of `visualisation.show(figure, alt=...)`."""
    metadata = {"image/png": {"alt": alt}} if alt else {}
    return new_output("display_data", data={"image/png": png(size), "text/plain": "<Image>"}, metadata=metadata)


def run(cell: NotebookNode, count: int) -> NotebookNode:
    """Return a code cell as a run leaves it."""
    cell.execution_count = count
    return cell


def chapter() -> NotebookNode:
    """Return the sample's one chapter, as `make notebooks` would store it."""
    four = new_output("execute_result", data={"text/plain": "4.0"}, execution_count=3)
    parts = [
        new_markdown_cell("# Doubling", metadata={"slideshow": {"slide_type": "slide"}}),
        new_code_cell(repository.colab_cell("", "main"), metadata={"tags": [repository.FOLDED]}),
        new_markdown_cell("What doubles?"),
        new_code_cell(f"# transformer_lib/attention.py\n{LISTING}"),
        new_markdown_cell("Twice two is four."),
        new_code_cell("doubled(2.0)", outputs=[four], metadata={"slideshow": {"slide_type": "slide"}}),
        new_code_cell("assert doubled(2.0) == 4.0", outputs=[figure()]),
        new_markdown_cell(CAPTION),
        new_markdown_cell("Say it slowly.", metadata={"slideshow": {"slide_type": "notes"}, "tags": ["remove-cell"]}),
        new_code_cell("assert halved(2.0) == 1.0"),
    ]
    code = [cell for cell in parts if cell.cell_type == "code"]
    for count, cell in enumerate(code, start=1):
        run(cell, count)
    return cells.normalise(new_notebook(cells=parts))


def solution() -> NotebookNode:
    """Return the sample's graded notebook with its answers."""
    parts = [
        new_markdown_cell("# Exercises"),
        run(new_code_cell(repository.colab_cell("", "main")), 1),
        new_markdown_cell("Write `tripled`."),
        run(new_code_cell(ANSWER, metadata={"nbgrader": {"solution": True, "grade": False, "grade_id": "a"}}), 2),
        run(new_code_cell("assert tripled(1) == 3"), 3),
        new_markdown_cell("Why?\n\n### BEGIN SOLUTION\nBecause.\n### END SOLUTION"),
    ]
    return cells.normalise(new_notebook(cells=parts))


def make(root: Path) -> Path:
    """Write the sample book below `root`; every tool finds it in order. Return the chapter's path."""
    texts = {
        "transformer_lib/__init__.py": "",
        "transformer_lib/attention.py": ATTENTION,
        "transformer_lib/masks.py": MASKS,
        "_config.yml": CONFIG,
        "README.md": README,
        "CITATION.cff": "title: sample\n",
    }
    for name, text in texts.items():
        cells.write_text(root / name, text)
    path = root / "notebooks" / "02_sample.ipynb"
    cells.write(chapter(), path)
    cells.write(solution(), root / "solutions" / "02_sample" / "sample.ipynb")
    repository.write("", "main", root)
    exercises.write(root)
    return path


def change(path: Path, number: int, **fields) -> None:
    """Plant a fault: give the cell at a number other fields."""
    notebook = cells.read(path)
    for field, value in fields.items():
        notebook.cells[number][field] = value
    cells.write(notebook, path)
