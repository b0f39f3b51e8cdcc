"""The whole book as one PDF: each built page printed by Chromium, then put together in the order of the book.

`python -m tools.pdf` writes `_build/book.pdf`; the book must have been built.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from pypdf import PdfReader, PdfWriter
from tqdm.auto import tqdm

from tools import ROOT, chromium, pages

SECONDS = 180  # for one page, on a busy machine


def print_page(browser: str, page: Path, to: Path) -> None:
    """Print one built page, with no host but this computer's own files.

    Raises:
        RuntimeError: the browser wrote no PDF.
    """
    with tempfile.TemporaryDirectory() as profile:
        options = [chromium.NO_HOST, f"--user-data-dir={profile}", "--virtual-time-budget=20000"]
        printing = ["--no-pdf-header-footer", f"--print-to-pdf={to}", page.as_uri()]
        command = [browser, *chromium.FLAGS, *options, *printing]
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if not to.exists():
        raise RuntimeError(f"{page} must become a PDF, got none from {browser}: {run.stderr[-500:]}")


def book(browser: str, html: Path, to: Path, root: Path = ROOT) -> int:
    """Write the whole book to one file with an outline; return how many sheets it has."""
    writer, marks = PdfWriter(), []
    with tempfile.TemporaryDirectory() as folder:
        for number, entry in enumerate(tqdm(pages.contents(root), unit="page")):
            title, first = entry.name, len(writer.pages)
            if entry.is_page:
                printed = Path(folder) / f"{number}.pdf"
                print_page(browser, html / f"{entry.name}.html", printed)
                title = _title(printed) or title
                writer.append(printed, import_outline=False)
            marks.append((entry.depth, title, first))
    _outline(writer, marks)
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_suffix(".part")
    writer.write(part)
    part.replace(to)
    return len(writer.pages)


def _title(printed: Path) -> str:
    """Return the page's own title, without the book's."""
    return str((PdfReader(printed).metadata or {}).get("/Title") or "").split(" \N{EM DASH} ")[0]


def _outline(writer: PdfWriter, marks: list[tuple[int, str, int]]) -> None:
    above: dict[int, object] = {}
    for depth, title, first in marks:
        above[depth] = writer.add_outline_item(title, first, parent=above.get(depth - 1))


def main(arguments: list[str] | None = None) -> int:
    """Print the book that `make book` has built."""
    parser = argparse.ArgumentParser(prog="python -m tools.pdf", description=__doc__)
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built book")
    parser.add_argument("--to", type=Path, default=ROOT / "_build" / "book.pdf", help="the file to write")
    options = parser.parse_args(arguments)
    missing = [name for name in pages.names() if not (options.html / f"{name}.html").exists()]
    if missing:
        sys.exit(f"make pdf: {options.html} must hold the built book, got no {missing[0]}.html: make book")
    if (browser := chromium.program()) is None:
        sys.exit(f"make pdf: needs Chromium, got none of {', '.join(chromium.NAMES)} on this machine")
    print(f"{options.to}: {book(browser, options.html, options.to)} sheets")
    return 0


if __name__ == "__main__":
    sys.exit(main())
