"""Listings are what the library says; each public name of the mathematics is in one chapter; none comes too early."""

import ast

import pytest
import sample_book
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools import cells, floors, listings, order


@pytest.fixture
def book(tmp_path):
    sample_book.make(tmp_path)
    return tmp_path


def append(book, *new, name="02_sample.ipynb"):
    path = book / "notebooks" / name
    notebook = cells.read(path) if path.exists() else new_notebook()
    notebook.cells.extend(new)
    cells.write(notebook, path)


def test_the_books_listings_are_equal_to_the_library():
    assert listings.equal() == []


def test_the_books_chapters_list_every_public_name_once():
    assert order.complete() == []


def test_the_books_chapters_use_only_what_has_been_listed():
    assert order.in_order() == []


def test_the_librarys_modules_import_only_from_below():
    assert floors.problems() == []


def test_a_book_in_order_has_no_problem(book):
    assert listings.equal(book) + order.complete(book) + order.in_order(book) + floors.problems(book) == []


def test_an_altered_listing_is_found_and_repaired_from_the_library(book):
    path, altered = book / "notebooks" / "02_sample.ipynb", sample_book.LISTING.replace("2 * x", "3 * x", 1)
    before = cells.read(path)
    sample_book.change(path, 3, source=f"# transformer_lib/attention.py\n{altered}")
    assert "cell 3: the listing of attention" in listings.equal(book)[0]
    assert listings.main([], book) == 1
    assert listings.main(["--write"], book) == 0
    assert cells.read(path) == before  # counts and outputs too
    assert (book / "transformer_lib" / "attention.py").read_text() == sample_book.ATTENTION


def test_a_changed_library_says_that_the_notebook_must_be_run_again(book):
    source = book / "transformer_lib" / "attention.py"
    source.write_text(source.read_text().replace("Return half of x.", "Return one half of x."))
    assert len(listings.equal(book)) == 1
    assert listings.write(book) == ["notebooks/02_sample.ipynb: 1 renewed; run it again: make notebooks"]
    assert "Return one half of x." in cells.read(book / "notebooks" / "02_sample.ipynb").cells[3].source


def test_bare_names_are_filled_with_their_definitions(book):
    sample_book.change(
        book / "notebooks" / "02_sample.ipynb",
        3,
        source="# transformer_lib/attention.py\nSCALE\nSHIFT\ndoubled\nhalved",
    )
    listings.write(book)
    filled = cells.read(book / "notebooks" / "02_sample.ipynb").cells[3].source
    assert filled == f"# transformer_lib/attention.py\n{sample_book.LISTING}"


def test_a_listing_with_anything_but_definitions_is_refused(book):
    append(book, new_code_cell("# transformer_lib/attention.py\nimport math\nhalved(2)"))
    assert "definitions only" in listings.equal(book)[0]
    assert "got 'import math'" in listings.equal(book)[0]


def test_a_listing_of_what_the_library_lacks_is_refused(book):
    append(book, new_code_cell("# transformer_lib/attention.py\ndef tripled(x):\n    return 3 * x"))
    append(book, new_code_cell("# transformer_lib/nowhere.py\nNAME = 1"))
    assert "must define tripled, got only SCALE, SHIFT, doubled" in listings.equal(book)[0]
    assert "must name a module" in listings.equal(book)[1]


def test_a_public_name_without_a_listing_is_found(book):
    with open(book / "transformer_lib" / "attention.py", "a") as file:
        file.write("\n\ndef forgotten() -> None:\n    return None\n")
    assert order.complete(book) == [
        "transformer_lib/attention.py: forgotten must be listed in chapter 02, got no listing"
    ]


def test_completeness_waits_for_the_chapter(book):
    assert order.complete(book) == []  # masks belongs to chapter 05, which isn't there yet
    append(book, new_markdown_cell("# Masks"), name="05_masks.ipynb")
    assert "causal_mask must be listed in chapter 05" in order.complete(book)[0]


def test_a_name_listed_twice_or_in_a_foreign_chapter_is_found(book):
    append(book, new_code_cell(f"# transformer_lib/masks.py\n{sample_book.MASKS}"))
    assert order.complete(book) == [
        "notebooks/02_sample.ipynb: masks.causal_mask belongs to chapter 05 (table in tools/floors.py)"
    ]
    append(book, new_code_cell(f"# transformer_lib/masks.py\n{sample_book.MASKS}"), name="05_masks.ipynb")
    assert "masks.causal_mask must be listed once, got 02_sample.ipynb, 05_masks.ipynb" in order.complete(book)


@pytest.mark.parametrize(
    "source",
    [
        "from transformer_lib import attention, masks",
        "from transformer_lib.masks import causal_mask",
        "import transformer_lib.masks as masks",
        "%matplotlib inline\nfrom transformer_lib import masks",
    ],
)
def test_what_comes_later_must_be_called_borrowed(book, source):
    append(book, new_code_cell(source))
    assert 'needs a line "borrowed, opened in chapter 05"' in order.in_order(book)[0]


@pytest.mark.parametrize("announced_in", ["markdown", "comment"])
def test_a_borrowed_name_may_be_used(book, announced_in):
    use = "from transformer_lib import masks"
    loan = "`masks` is borrowed, opened in chapter 05."
    append(book, *([new_markdown_cell(loan), new_code_cell(use)] if announced_in == "markdown" else []))
    append(book, *([new_code_cell(f"{use}  # {loan}")] if announced_in == "comment" else []))
    append(book, new_code_cell("from transformer_lib.masks import causal_mask"))
    assert order.in_order(book) == []


def test_a_loan_names_the_right_chapter(book):
    append(book, new_code_cell("from transformer_lib import masks  # borrowed, opened in chapter 6"))
    assert len(order.in_order(book)) == 1


def test_modules_beside_the_mathematics_may_be_imported_anywhere(book):
    append(book, new_code_cell("from transformer_lib import data, visualisation\nfrom transformer_lib.toy import copy"))
    assert order.in_order(book) == []


def test_a_name_that_a_later_chapter_lists_is_found_in_its_module(book, monkeypatch):
    monkeypatch.setitem(floors.LISTED_LATER, ("attention", "halved"), 11)
    append(book, new_code_cell("from transformer_lib import attention\nattention.halved(2)"))
    assert 'attention.halved needs a line "borrowed, opened in chapter 11"' in order.in_order(book)[0]


@pytest.mark.parametrize(
    "line",
    ["from transformer_lib import model", "from .model import X", "def f():\n    import transformer_lib.model"],
)
def test_an_import_from_above_is_found(book, line):
    with open(book / "transformer_lib" / "masks.py", "a") as file:
        file.write(f"\n\n{line}\n")
    assert "masks may not import model" in floors.problems(book)[0]


def test_a_module_without_a_floor_is_found(book):
    (book / "transformer_lib" / "novelty.py").write_text("")
    assert "novelty has no floor" in floors.problems(book)[0]


def test_a_listing_parses_to_the_same_tree_as_the_library():
    """An oracle that shares no code with the tool: Python's own parser, definition by definition."""
    source = sample_book.ATTENTION
    texts = listings.definitions(source)
    trees = {ast.unparse(node) for node in ast.parse(source).body}
    assert list(texts) == ["SCALE", "SHIFT", "doubled", "halved", "_private"]
    assert {ast.unparse(ast.parse(text).body[0]) for text in texts.values()} < trees
    assert texts["SCALE"].endswith("# of the scores")
    assert texts["doubled"].startswith("@staticmethod\n")
