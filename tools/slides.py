"""Slides: one deck a chapter, made from the notebook's slide tags; it shows what the committed notebook holds.

A cell is on a slide when its metadata say `slideshow: {slide_type: ...}`: `slide` begins one, `subslide` one below
it, `fragment` appears at a key press, `-` goes on with the slide, `notes` is for the speaker, `skip` (or nothing) is
left out. `python -m tools.slides` checks the tags; `--write` writes the decks into the built book, whose own copies
of reveal.js and MathJax they use: no network is needed.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
import sys
from pathlib import Path

import nbformat
import yaml
from nbconvert import SlidesExporter
from nbconvert.preprocessors import TagRemovePreprocessor
from nbformat import NotebookNode
from pybtex.database import Entry, parse_file
from pybtex.richtext import Text
from pygments.formatters import HtmlFormatter

from tools import ROOT, cells, report

KINDS = ("slide", "subslide", "fragment", "-", "notes", "skip")
WIDTH, HEIGHT = 1280, 720
VENDOR = "book/_static/vendor"
MATHJAX = "tex-svg.js"
LINK = re.compile(r'(<a\s[^>]*?href=")(?!/)([^":]+)(?=")')  # to a place of this book, not of another host
TARGET = re.compile(r"^\([\w-]+\)=\n+", re.MULTILINE)
CITATION = re.compile(r"\{cite\}`([^`]+)`")
DECK = Path(__file__).with_name("deck")
HIDE = TagRemovePreprocessor(  # the book's tags hold on slides, too
    remove_input_tags={"remove-input", "hide-input"}, remove_all_outputs_tags={"remove-output", "hide-output"}
)


def kind(cell: NotebookNode) -> str:
    """Return how a cell takes part in the deck; `skip` where it isn't tagged."""
    return cell.metadata.get("slideshow", {}).get("slide_type", "skip") or "skip"


def chapters(root: Path = ROOT) -> list[Path]:
    """Return the chapter notebooks that have slides."""
    paths = [path for path in cells.notebooks(root, "notebooks") if cells.chapter(path) is not None]
    return [path for path in paths if any(kind(cell) != "skip" for cell in cells.read(path).cells)]


def problems(root: Path = ROOT) -> list[str]:
    """Say which slide tag is unknown, stands before the first slide, or puts a speaker's notes on the page."""
    found: list[str] = []
    for path in chapters(root):
        begun = False
        for number, cell in enumerate(cells.read(path).cells):
            where = f"{path.relative_to(root)}, cell {number}"
            begun = begun or kind(cell) == "slide"
            if kind(cell) not in KINDS:
                found.append(f"{where}: slide_type must be one of {', '.join(KINDS)}, got {kind(cell)!r}")
            elif kind(cell) != "skip" and not begun:
                found.append(f"{where}: the deck must begin with a cell of type slide, got {kind(cell)}")
            if kind(cell) == "notes" and "remove-cell" not in cells.tags(cell):
                found.append(f"{where}: notes must carry the tag remove-cell, or the page shows them")
    return found


def deck(path: Path, vendor: str) -> str:
    """Return a chapter's deck as HTML; `vendor` is where it finds reveal.js and MathJax, relative to itself."""
    notebook = _shown(cells.read(path), path.parents[1])
    exporter = SlidesExporter(
        template_name="reveal",
        template_file="deck.html.j2",
        extra_template_paths=[str(DECK)],
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    style = (DECK / "deck.css").read_text(encoding="utf-8") + HtmlFormatter().get_style_defs(".highlight")
    settings = {"title": cells.title(notebook) or path.stem, "style": style, "vendor": vendor, "mathjax": MATHJAX}
    settings["place"] = _place(path)
    page = {"chapter": f"../notebooks/{path.stem}.html", "width": WIDTH, "height": HEIGHT}
    html = exporter.from_notebook_node(notebook, resources={"deck": settings | page})[0]
    html = html.replace("<script src=", "<script defer src=")  # a moving figure's; the slide is shown before it moves
    return LINK.sub(lambda link: link[1] + _from_deck(link[2], path), html)


def _from_deck(address: str, path: Path) -> str:
    """Return where a notebook's link leads, seen from its deck in the folder beside; sources become their pages."""
    place, mark, anchor = address.partition("#")
    place = posixpath.normpath(posixpath.join("..", path.parent.name, place or path.name))
    return re.sub(r"\.(ipynb|md)$", ".html", place) + mark + anchor


def _shown(notebook: NotebookNode, root: Path) -> NotebookNode:
    """Return the notebook's tagged cells, without the inputs and outputs that the page hides, in plain Markdown."""
    works = root / "book" / "references.bib"
    names = {key: _name(work) for key, work in parse_file(works).entries.items()} if works.exists() else {}
    for cell in notebook.cells:
        cell.metadata["slideshow"] = nbformat.from_dict({"slide_type": kind(cell)})
        if cell.cell_type == "markdown":
            cell.source = CITATION.sub(lambda found: _citation(found[1], names), TARGET.sub("", cell.source))
    notebook.cells = [cell for cell in notebook.cells if kind(cell) != "skip"]
    return HIDE.preprocess(notebook, {})[0]


def _citation(keys: str, names: dict[str, str]) -> str:
    known = "; ".join(names.get(key.strip(), key.strip()) for key in keys.split(","))
    return f"[[{known}](../book/bibliography.md)]"


def _name(work: Entry) -> str:
    """Return how the pages cite a work: its authors, of more than two the first, and its year."""
    authors = [str(Text.from_latex(" ".join(author.last_names))) for author in work.persons["author"]]
    return f"{' and '.join(authors) if len(authors) < 3 else f'{authors[0]} et al.'}, {work.fields['year']}"


def _place(path: Path) -> str:
    """Return whose chapter this is, for below the title."""
    settings = path.parents[1] / "_config.yml"
    book = yaml.safe_load(settings.read_text(encoding="utf-8"))["title"].split(":")[0] if settings.exists() else ""
    return ", ".join(filter(None, (book, f"chapter {cells.chapter(path)}")))


def write(built: Path, root: Path = ROOT) -> list[Path]:
    """Write each deck to `slides/NN.html` in the built book, with the scripts it needs; return the decks."""
    vendor = built / "_static" / "vendor"
    for name in ("reveal", "mathjax"):
        shutil.copytree(root / VENDOR / name, vendor / name, dirs_exist_ok=True)
    decks: list[Path] = []
    for path in chapters(root):
        decks.append(built / "slides" / f"{cells.chapter(path):02d}.html")
        cells.write_text(decks[-1], deck(path, "../_static/vendor"))
    return decks


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the slide tags; write the decks where `--write` asks for them."""
    parser = argparse.ArgumentParser(prog="python -m tools.slides", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the decks into the built book")
    parser.add_argument("--into", type=Path, help="the built book's folder; _build/html without it")
    parser.add_argument("--root", type=Path, default=root, help="the book's sources; this repository without it")
    options = parser.parse_args(arguments)
    found = problems(options.root)
    if options.write and not found:
        for path in write(options.into or options.root / "_build" / "html", options.root):
            print(path)
    return report(found, "edit the notebook's slide tags, then: make slides")


if __name__ == "__main__":
    sys.exit(main())
