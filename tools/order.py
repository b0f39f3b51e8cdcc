"""Listings are complete (each public name in exactly one chapter) and in order (no chapter uses what comes later).

`python -m tools.listings` checks both; which module belongs to which chapter stands in `tools/floors.py`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from nbformat import NotebookNode

from tools import LIBRARY, ROOT, cells, floors, listings

BORROWED = re.compile(r"borrowed,?\s+opened\s+in\s+chapter\s+(\d+)", re.IGNORECASE)


def listed(root: Path) -> dict[tuple[str, str], list[str]]:
    """Return (module, name) -> the chapter notebooks that list it, with one entry a listing."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in cells.notebooks(root, "notebooks"):
        for cell in cells.read(path).cells:
            if module := listings.listed_module(cell):
                for name in _safely_listed(cell):
                    found[module, name].append(path.name)
    return found


def _safely_listed(cell: NotebookNode) -> list[str]:
    try:
        return listings.listed_names(cell)
    except ValueError:  # `equal` reports it
        return []


def home(module: str, name: str | None) -> int | None:
    """Return the chapter that lists a name of the mathematics; None for a module that may be imported anywhere."""
    return floors.LISTED_LATER.get((module, name or ""), floors.CHAPTER.get(module))


def complete(root: Path = ROOT) -> list[str]:
    """Say which public name of floors 0 to 3 isn't listed in its chapter, as far as chapters exist, or twice."""
    found: list[str] = []
    where = listed(root)
    written = {cells.chapter(path) for path in cells.notebooks(root, "notebooks")}
    for module, source in listings.library(root).items():
        for name in (n for n in source if not n.startswith("_") and module in floors.CHAPTER):
            places, chapter = where.get((module, name), []), home(module, name)
            if chapter in written and not places:
                found.append(f"{LIBRARY}/{module}.py: {name} must be listed in chapter {chapter:02d}, got no listing")
            found += [
                f"notebooks/{place}: {module}.{name} belongs to chapter {chapter:02d} (table in tools/floors.py)"
                for place in places
                if cells.chapter(Path(place)) != chapter
            ]
    found += [f"{m}.{n} must be listed once, got {', '.join(p)}" for (m, n), p in where.items() if len(p) > 1]
    return found


def in_order(root: Path = ROOT) -> list[str]:
    """Say where a chapter uses a name of floors 0 to 3 that only a later chapter lists, without calling it borrowed."""
    found: list[str] = []
    for path in cells.notebooks(root, "notebooks"):
        if (chapter := cells.chapter(path)) is not None:
            found += [f"{path.relative_to(root)}, {problem}" for problem in _out_of_order(cells.read(path), chapter)]
    return found


def _out_of_order(notebook: NotebookNode, chapter: int) -> list[str]:
    """Follow a notebook's cells: a loan is announced in the importing cell or in the markdown right before it."""
    found: list[str] = []
    borrowed: set[int] = set()
    modules: dict[str, str] = {}
    before = ""
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            borrowed |= {int(n) for n in BORROWED.findall(before + cell.source)}
            for module, name in _uses(cell, modules):
                opened = home(module, name)
                if opened is not None and opened > chapter and opened not in borrowed:
                    what = f"{module}.{name}" if name else module
                    found.append(f'cell {number}: {what} needs a line "borrowed, opened in chapter {opened:02d}"')
        before = cell.source if cell.cell_type == "markdown" else ""
    return found


def _uses(cell: NotebookNode, modules: dict[str, str]) -> list[tuple[str, str | None]]:
    """Return the library's names that a cell imports or takes from a module; `modules` keeps the aliases."""
    try:
        module = cells.tree(cell.source)
    except SyntaxError:
        return []
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == LIBRARY:
            modules.update({a.asname or a.name: a.name for a in node.names})
        elif isinstance(node, ast.Import):
            modules.update({a.asname: a.name.split(".")[1] for a in node.names if a.asname and LIBRARY + "." in a.name})
    uses = [(m, n) for m, n, _ in floors.imports(module)]
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            later = (modules[node.value.id], node.attr)
            uses += [later] if later in floors.LISTED_LATER else []
    return uses
