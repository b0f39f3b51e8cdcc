"""Listings: notebook cells that show the library's own text.

A *listing* is a code cell whose first line is `# transformer_lib/<module>.py`; top-level definitions of that module
follow, copied to the letter, and nothing else. `python -m tools.listings` checks that listings are equal to the
library, complete and in order; `--write` copies from the library to the notebooks, never back. A new listing is
begun with bare names, one a line, which `--write` replaces by their definitions.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

from nbformat import NotebookNode

from tools import LIBRARY, ROOT, cells, report

HEADER = re.compile(rf"# {LIBRARY}/(\w+(?:/\w+)*)\.py")


def definitions(source: str) -> dict[str, str]:
    """Return the text of each top-level function, class and assigned name, decorators and docstrings included."""
    lines = source.splitlines()
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        for name in _names(node):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            found[name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def _names(node: ast.stmt) -> list[str]:
    """Return what a statement defines; a bare name counts as itself, a placeholder for its definition."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Name):
        return [node.value.id]
    return []


def library(root: Path) -> dict[str, dict[str, str]]:
    """Return module -> name -> text for each module of the library; a package's modules are named `a/b`."""
    folder = root / LIBRARY
    paths = (path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py")
    return {
        path.relative_to(folder).with_suffix("").as_posix(): definitions(path.read_text(encoding="utf-8"))
        for path in paths
    }


def listed_module(cell: NotebookNode) -> str | None:
    """Return the module that a cell lists, or None if it isn't a listing."""
    match = HEADER.fullmatch(cell.source.partition("\n")[0].rstrip()) if cell.cell_type == "code" else None
    return match.group(1) if match else None


def listed_names(cell: NotebookNode) -> list[str]:
    """Return the names that a listing lists; ValueError where it holds anything but definitions."""
    names: list[str] = []
    try:
        body = ast.parse(cell.source).body
    except SyntaxError as error:
        raise ValueError(f"a listing must be Python, got {error}") from error
    for node in body:
        if not _names(node):
            raise ValueError(
                "a listing must hold top-level definitions only (imports stand in an earlier cell), "
                f"got {ast.unparse(node).splitlines()[0]!r}"
            )
        names += _names(node)
    return names


def listing(module: str, names: list[str], source: dict[str, str]) -> str:
    """Return the text of a listing: its header, then the definitions as a formatter spaces them."""
    blocks: list[str] = []
    for name in names:
        if name not in source:
            raise ValueError(f"{LIBRARY}/{module}.py must define {name}, got only {', '.join(source) or 'nothing'}")
        if source[name] not in blocks:  # one statement may assign two names
            blocks.append(source[name])
    text = f"# {LIBRARY}/{module}.py\n"
    for before, block in zip(["", *blocks], blocks, strict=False):
        apart = before and not (_is_constant(before) and _is_constant(block))
        text += "\n\n" * bool(apart) + block + "\n"
    return text.rstrip()


def _is_constant(definition: str) -> bool:
    return not definition.startswith(("def ", "class ", "async ", "@"))


def renewed(cell: NotebookNode, sources: dict[str, dict[str, str]]) -> str:
    """Return what a listing's text should be; ValueError where the library has no such module or name."""
    module = listed_module(cell)
    if module not in sources:
        raise ValueError(f"a listing's first line must name a module of {LIBRARY}, got {module}")
    names = listed_names(cell)
    if not names:
        raise ValueError(f"a listing of {module} must list something, got an empty cell")
    return listing(module, names, sources[module])


def equal(root: Path = ROOT) -> list[str]:
    """Say which listing differs from the library's text."""
    found: list[str] = []
    sources = library(root)
    for path in cells.notebooks(root, "notebooks", "solutions"):
        for number, cell in enumerate(cells.read(path).cells):
            if not listed_module(cell):
                continue
            where = f"{path.relative_to(root)}, cell {number}"
            try:
                if cell.source.rstrip() != renewed(cell, sources):
                    found.append(f"{where}: the listing of {listed_module(cell)} isn't what the library says")
            except ValueError as error:
                found.append(f"{where}: {error}")
    return found


def write(root: Path = ROOT) -> list[str]:
    """Copy the library's text into each listing; return what changed and what couldn't be repaired."""
    sources = library(root)
    messages: list[str] = []
    for path in cells.notebooks(root, "notebooks", "solutions"):
        notebook = cells.read(path)
        stale = [
            cell for cell in notebook.cells if listed_module(cell) and cell.source.rstrip() != _text(cell, sources)
        ]
        for cell in stale:
            cell.source = _text(cell, sources)
        if stale:
            cells.write(notebook, path)
            messages.append(f"{path.relative_to(root)}: {len(stale)} renewed; run it again: make notebooks")
    return messages


def _text(cell: NotebookNode, sources: dict[str, dict[str, str]]) -> str:
    try:
        return renewed(cell, sources)
    except ValueError:  # left as it is; `equal` says why
        return cell.source


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check that listings are equal, complete and in order, after a repair where `--write` asks for one."""
    from tools import order

    parser = argparse.ArgumentParser(prog="python -m tools.listings", description=__doc__)
    parser.add_argument("--write", action="store_true", help="copy the library's text into the listings")
    if parser.parse_args(arguments).write:
        for message in write(root):
            print(message)
    problems = equal(root) + order.complete(root) + order.in_order(root)
    return report(problems, "make listings (copies library to notebook), or edit the notebook where it can't")


if __name__ == "__main__":
    sys.exit(main())
