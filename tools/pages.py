"""What the tools share that make a page of `book/` from data: the table of contents, links, and the command itself."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import yaml

from tools import ROOT, cells, report


class Entry(NamedTuple):
    """A line of the table of contents: a page's name, such as "book/start", or the caption of a part.

    Args:
        depth: 0 for the first page and the captions, 1 below a caption, 2 below a page.
    """

    depth: int
    name: str
    is_page: bool = True


def contents(root: Path = ROOT) -> list[Entry]:
    """Return the table of contents in the order of reading."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    found = [Entry(0, toc["root"])]
    for part in toc["parts"]:
        found.append(Entry(0, part["caption"], is_page=False))
        for page in part["chapters"]:
            found += [Entry(1, page["file"]), *(Entry(2, section["file"]) for section in page.get("sections", ()))]
    return found


def names(root: Path = ROOT) -> list[str]:
    """Return the names of all pages that the book shows, in the order of reading."""
    return [entry.name for entry in contents(root) if entry.is_page]


def target(name: str, root: Path = ROOT) -> Path | None:
    """Return what a short name stands for: "03" chapter 3, "clinic_1" that notebook, "card" that page; None if nothing.

    The path is relative to `root`.
    """
    found = [path for path in cells.notebooks(root, "notebooks") if path.name.startswith(f"{name}_")]
    page = root / "book" / f"{name}.md"
    return (found[0] if found else page).relative_to(root) if found or page.exists() else None


def label(path: Path, root: Path = ROOT) -> str:
    """Return what a link to a page says: the chapter's number, the clinic's, or a page's own heading."""
    if path.suffix == ".ipynb":
        number = cells.chapter(path)
        return f"chapter {number}" if number else " ".join(path.stem.split("_")[:2])
    heading = re.search(r"^# (.+)$", (root / path).read_text(encoding="utf-8"), re.MULTILINE)
    return heading.group(1) if heading else path.stem


def link(path: Path, root: Path = ROOT) -> str:
    """Return a Markdown link from a page of `book/`."""
    return f"[{label(path, root)}]({path.name if path.parent.name == 'book' else f'../{path.as_posix()}'})"


def stale(page: Path, text: str, data: Path, root: Path = ROOT) -> list[str]:
    """Say whether a page isn't the one that its data make."""
    path = root / page
    same = path.exists() and path.read_text(encoding="utf-8") == text
    return [] if same else [f"{page}: isn't what {data} says"]


def run(
    arguments: list[str] | None,
    tool: str,
    about: str | None,
    write: Callable[[], object],
    check: Callable[[], list[str]],
) -> int:
    """Check a page, after writing it where `--write` asks for that; return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m tools.{tool}", description=about)
    parser.add_argument("--write", action="store_true", help="make the page")
    if parser.parse_args(arguments).write:
        write()
    return report(check(), f"edit what is named, then: python -m tools.{tool} --write")
