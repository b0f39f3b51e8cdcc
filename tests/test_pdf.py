"""The PDF has the book's pages in their order, with an outline; what is missing is said before anything is printed."""

import pytest
import yaml
from browser import needs_chromium
from pypdf import PdfReader

from tools import ROOT, pages, pdf

CONTENTS = {"root": "book/start", "parts": [{"caption": "Chapters", "chapters": [{"file": "notebooks/01_first"}]}]}
PAGE = "<!doctype html><html lang=en><title>{0} \N{EM DASH} The book</title><h1>{0}</h1>"


def small_book(root):
    (root / "_toc.yml").write_text(yaml.safe_dump(CONTENTS), encoding="utf-8")
    for name, title in (("book/start", "Begin"), ("notebooks/01_first", "First")):
        path = root / "html" / f"{name}.html"
        path.parent.mkdir(parents=True)
        path.write_text(PAGE.format(title), encoding="utf-8")


@needs_chromium
@pytest.mark.slow
def test_pages_come_in_order_under_their_parts(tmp_path):
    small_book(tmp_path)
    assert pdf.book(pdf.chromium.program(), tmp_path / "html", tmp_path / "book.pdf", tmp_path) == 2
    reader = PdfReader(tmp_path / "book.pdf")
    assert [page.extract_text().strip() for page in reader.pages] == ["Begin", "First"]
    first, part, inside = reader.outline
    assert (first.title, part.title, [mark.title for mark in inside]) == ("Begin", "Chapters", ["First"])
    assert [reader.get_destination_page_number(mark) for mark in (first, part, *inside)] == [0, 1, 1]
    assert not list(tmp_path.glob("*.part"))


def test_the_whole_table_of_contents_is_read_in_order():
    names = [entry.name for entry in pages.contents(ROOT)]
    assert names[:3] == ["book/start", "Chapters", "notebooks/01_why_not_rnn_cnn"]
    assert names[3] == "exercises/01_why_not_rnn_cnn/why_not_rnn_cnn" and "book/about" in names


def test_a_book_that_was_not_built_is_named(tmp_path):
    with pytest.raises(SystemExit, match="book/start.html: make book"):
        pdf.main(["--html", str(tmp_path), "--to", str(tmp_path / "book.pdf")])
    assert not (tmp_path / "book.pdf").exists()


def test_without_a_browser_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(pdf.pages, "names", list)
    monkeypatch.setattr(pdf.chromium, "program", lambda: None)
    with pytest.raises(SystemExit, match="needs Chromium, got none of chromium"):
        pdf.main(["--html", str(tmp_path)])
