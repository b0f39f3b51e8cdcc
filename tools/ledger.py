"""The ledger of claims: `book/claims.yaml` is data, and the page `book/claims.md` is made from it.

`python -m tools.ledger` checks both against the notebooks and the bibliography; `--write` makes the page. A claim's
cell is named by its target, `(cell-c2-1-09)=` in the text before it. What a claim says was measured, in braces, must be
what the cells there have printed.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tools import ROOT, cells, ledger_page, pages

DATA, PAGE, BIBLIOGRAPHY = Path("book/claims.yaml"), Path("book/claims.md"), Path("book/references.bib")
VERDICTS = ("holds", "holds with limits", "imprecise", "false", "a way of seeing")
HEADING = re.compile(r"^#{2,4} ", re.MULTILINE)
TARGET = re.compile(r"^\((cell-[0-9a-z-]+)\)=", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.,]\d+)*")
NOT_COMPUTED = ("Figure:", "VBox(", "HBox(")  # words about a picture or a control
CHECK = re.compile(r"\bassert\b|\bassert_close\(")
KEYS = {"id", "core", "chapter", "claim", "zh", "verdict", "right", "sources", "cell", "measured"}


@dataclass
class Shown:
    """The cells that a target leads to: what they hold, what they have printed, and whether each was run."""

    notebook: str
    sources: list[str] = field(default_factory=list)
    printed: str = ""
    run: bool = True

    @property
    def asserts(self) -> bool:
        return any(CHECK.search(source) for source in self.sources)


def claims(root: Path = ROOT) -> list[dict]:
    """Return the rows of the ledger in the order of the file."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((root / DATA).read_text(encoding="utf-8"), Loader=loader)["claims"]


def shown(root: Path = ROOT) -> dict[str, Shown]:
    """Return for each target in a chapter the code cells from there to the next target or heading."""
    found: dict[str, Shown] = {}
    for path in cells.notebooks(root, "notebooks"):
        current: list[str] = []
        for cell in cells.read(path).cells:
            if cell.cell_type == "markdown" and (names := TARGET.findall(cell.source)):
                current = names
                found |= {name: Shown(path.stem) for name in names}
            elif cell.cell_type == "markdown" and HEADING.search(cell.source):
                current = [name for name in current if not found[name].sources]  # one may stand before a heading
            elif cell.cell_type == "code":
                for name in current:
                    _add(found[name], cell)
    return found


def _add(to: Shown, cell) -> None:
    to.sources.append(cell.source)
    to.run &= cell.execution_count is not None
    for output in cell.outputs:
        text = output.get("text", "") or output.get("data", {}).get("text/plain", "")
        text = "".join(text) if isinstance(text, list) else text
        if not text.startswith(NOT_COMPUTED):
            to.printed += "\n" + text


def problems(root: Path = ROOT) -> list[str]:
    """Say which row is malformed, unproven or out of date."""
    rows, targets = claims(root), shown(root)
    written = _written(root)
    keys = set(re.findall(r"@\w+\{(\w+),", (root / BIBLIOGRAPHY).read_text(encoding="utf-8")))
    found = [f"{DATA}: {problem}" for row in rows for problem in _row(row, targets, written, keys)]
    ids = [row["id"] for row in rows]
    found += [f"{DATA}: {one} stands there twice" for one in sorted({i for i in ids if ids.count(i) > 1})]
    named = {row["cell"] for row in rows}
    found += [
        f"notebooks/{where.notebook}.ipynb: {target} belongs to no claim in {DATA}"
        for target, where in targets.items()
        if re.match(r"cell-c\d", target) and target not in named
    ]
    page = root / PAGE
    if not page.exists() or page.read_text(encoding="utf-8") != ledger_page.page(rows, targets, written):
        found.append(f"{PAGE}: isn't what {DATA} says")
    return found


def _written(root: Path) -> set[str]:
    """Return the numbers of the chapters that are there; a notebook of the clinic has none."""
    numbers = (cells.chapter(path) for path in cells.notebooks(root, "notebooks"))
    return {f"{number:02d}" for number in numbers if number is not None}


def _row(row: dict, targets: dict[str, Shown], written: set[str], keys: set[str]) -> list[str]:
    if set(row) != KEYS:
        return [f"{row.get('id')} must have {sorted(KEYS)}, got {sorted(row)}"]
    name, cell = row["id"], row["cell"]
    found = [f"{name} must have a text for {key!r}" for key in ("claim", "right", "zh") if not row[key]]
    if row["verdict"] not in VERDICTS:
        found.append(f"{name}: verdict must be one of {VERDICTS}, got {row['verdict']!r}")
    for source in row["sources"]:
        if (key := source.split(" ")[0]) not in keys:
            found.append(f"{name}: a source must begin with a key of {BIBLIOGRAPHY}, got {key!r}")
    if cell:
        return found + _cell(row, targets)
    if row["measured"]:
        found.append(f"{name}: a measurement must have its cell, got none")
    if row["core"] and row["chapter"] in written:
        found.append(f"{name}: a core claim must have a cell in chapter {row['chapter']}, got none")
    if not row["core"] and not row["sources"] and row["chapter"] in {*written, "start"}:
        found.append(f"{name}: a claim must have a cell or a source, got neither")
    return found


def _cell(row: dict, targets: dict[str, Shown]) -> list[str]:
    name, cell = row["id"], row["cell"]
    if cell not in targets:
        return [f"{name}: no notebook has the target ({cell})="]
    where = targets[cell]
    found = []
    if not where.asserts:
        found.append(f"{name}: the cells at {cell} must assert something")
    if not where.run:
        found.append(f"{name}: the cells at {cell} must all have been run")
    printed, written = _numbers(where.printed), _numbers("\n".join(where.sources))
    for figure in re.findall(r"\{(.*?)\}", row["measured"]):
        if not _numbers(figure) or _numbers(figure) - printed:
            found.append(f"{name}: measured {figure!r} must be printed at {cell}, got {where.printed.strip()!r} there")
    beside = _numbers(re.sub(r"\{.*?\}", "", row["measured"])) - written - printed
    if beside:
        found.append(f"{name}: {sorted(beside)} must stand in the code at {cell}; what it prints goes in braces")
    if row["core"] and printed and not row["measured"]:
        found.append(f"{name}: the cells at {cell} print numbers; say what they show under 'measured'")
    return found


def _numbers(text: str) -> set[str]:
    return set(NUMBER.findall(text.replace("\u2212", "-")))


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the ledger, after writing its page where `--write` asks for that."""
    made = lambda: ledger_page.page(claims(root), shown(root), _written(root))  # noqa: E731
    write = lambda: cells.write_text(root / PAGE, made())  # noqa: E731
    return pages.run(arguments, "ledger", __doc__, write, lambda: problems(root))


if __name__ == "__main__":
    sys.exit(main())
