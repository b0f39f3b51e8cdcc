"""The page of recorded runs says what the records hold, and every record is shown in a chapter, with three seeds."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import cells, results


@pytest.fixture
def book(tmp_path):
    source = tmp_path / "transformer_lib" / "experiments" / "toy.py"
    source.parent.mkdir(parents=True)
    source.write_text('"""What a toy finds.\n\nMore.\n"""\n')
    runs = [
        {"seed": s, "cpu_seconds": 30, "loss": {"with": [s, 2 * s], "text": "no", "right": True}} for s in (1, 2, 3)
    ]
    record = {"command": "python -m tools.record toy", "machine": "here", "versions": {"torch": "2"}, "runs": runs}
    files = {"toy": record}
    for name, content in files.items():
        path = tmp_path / results.RECORDS / f"{name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    notebook = new_notebook(cells=[new_code_cell('experiments.recorded("toy")')])
    cells.write(notebook, tmp_path / "notebooks" / "04_toy.ipynb")
    assert results.main(["--write"], tmp_path) == 0
    return tmp_path


def test_the_page_says_how_each_record_was_made_and_what_came_of_it(book):
    page = (book / results.PAGE).read_text()
    for said in ("What a toy finds.", "tools.record toy", "here", "torch 2", "seeds: 1, 2, 3", "1.5 CPU-minutes"):
        assert said in page
    assert "| loss, with, 1 | 2 | 1 | 3 |" in page and "| loss, with, 2 | 4 | 2 | 6 |" in page
    assert "text" not in page and "[chapter 4](../notebooks/04_toy.ipynb)" in page


def test_a_notebook_without_a_number_is_named_by_its_title(book):
    cells_of_it = [new_markdown_cell("# What it costs\n\nMuch."), new_code_cell('experiments.recorded("toy")')]
    cells.write(new_notebook(cells=cells_of_it), book / "notebooks" / "costs.ipynb")
    assert results.main(["--write"], book) == 0
    assert "[What it costs](../notebooks/costs.ipynb)" in (book / results.PAGE).read_text()


@pytest.mark.parametrize("fault", ["stale", "unused", "one seed"])
def test_a_planted_fault_is_found(book, fault):
    path = book / results.RECORDS / "toy.json"
    if fault == "stale":
        path.write_text(path.read_text().replace('"here"', '"elsewhere"'))
    elif fault == "one seed":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"runs": json.loads(path.read_text())["runs"][:1]}))
        results.main(["--write"], book)
    else:
        (book / "notebooks" / "04_toy.ipynb").unlink()
        results.main(["--write"], book)
    assert results.problems(book)


def test_the_books_own_page_is_in_order():
    assert results.problems() == []
