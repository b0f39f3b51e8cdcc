"""The page of recorded runs, `book/results.md`, made from `book/results/*.json`.

`python -m tools.results` checks that the page is what the records say and that each is shown in a chapter; `--write`
makes it.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

from tools import LIBRARY, ROOT, cells, pages

PAGE, RECORDS = Path("book/results.md"), Path("book/results")
SEEDS = 3
MOST = 60  # rows of a table; the file has the rest
HEAD = """\
# Recorded runs

Some experiments are too long for a notebook. They are run once in full, with three seeds; what they found is kept in a
file, with the command that made it, the machine, the versions and the computing time. The chapters draw these files
and say *recorded*. You can make each of them again: `make record NAME=...` (`minilm` needs a package more, and names
it). On another processor the figures differ a little; what the chapters conclude from them is asserted with a margin.
"""


def records(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Return each record by its name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((root / RECORDS).glob("*.json"))}


def code(root: Path = ROOT) -> dict[Path, str]:
    """Return the code of each notebook."""
    read = {path: cells.read(path).cells for path in cells.notebooks(root, "notebooks")}
    return {path: "\n".join(c.source for c in found if c.cell_type == "code") for path, found in read.items()}


def chapters(name: str, notebooks: dict[Path, str]) -> list[Path]:
    """Return the notebooks whose code reads a record."""
    spelt = (f'"{name}"', f"'{name}'", f"{name}.json")
    return [path for path, source in notebooks.items() if any(word in source for word in spelt)]


def page(found: dict[str, dict[str, Any]], notebooks: dict[Path, str], root: Path = ROOT) -> str:
    """Return the whole page as MyST Markdown."""
    parts = [HEAD]
    for name, record in found.items():
        shown = chapters(name, notebooks)
        parts += [translator(name, record) if "test" in record else experiment(name, record, shown, root)]
    return "\n".join(parts).rstrip("\n") + "\n"


def about(name: str, record: dict[str, Any]) -> str:
    """Return what a record depends on, as a list."""
    versions = ", ".join(f"{package} {version}" for package, version in record["versions"].items())
    return (
        f"- command: `{record['command']}`\n- machine: {record['machine']}\n- versions: {versions}\n"
        f"- file: `{RECORDS / name}.json`\n"
    )


def experiment(name: str, record: dict[str, Any], shown_in: list[Path], root: Path) -> str:
    """Return the section of an experiment: what it is, where it's shown, and its figures over the seeds."""
    source = (root / LIBRARY / "experiments" / f"{name}.py").read_text(encoding="utf-8")
    what = (ast.get_docstring(ast.parse(source)) or "").split("\n")[0]
    shown = ", ".join(f"[{_place(path)}](../notebooks/{path.name})" for path in shown_in)
    runs = record["runs"]
    lines = [
        f"## {name.replace('_', ' ').capitalize()}\n",
        f"{what} Shown in {shown}.\n",
        about(name, record) + f"- seeds: {', '.join(str(run['seed']) for run in runs)}",
        f"- computing time: {sum(run['cpu_seconds'] for run in runs) / 60:.1f} CPU-minutes\n",
        "````{dropdown} The figures",
        table(runs),
        "````\n",
    ]
    return "\n".join(lines)


def _place(path: Path) -> str:
    number = cells.chapter(path)
    return cells.title(cells.read(path)) or path.stem if number is None else f"chapter {number}"


def table(runs: list[dict[str, Any]]) -> str:
    """Return the mean and the range over seeds of each number that the runs hold."""
    leaves = [dict(numbers({key: run[key] for key in run if key not in ("seed", "cpu_seconds")})) for run in runs]
    lines = ["| Measured | Mean over the seeds | Least | Most |", "|---|---:|---:|---:|"]
    for name in leaves[0]:
        values = [found[name] for found in leaves if name in found]
        mean = sum(values) / len(values)
        lines.append(f"| {name} | {mean:.4g} | {min(values):.4g} | {max(values):.4g} |")
    more = len(lines) - 2 - MOST
    return "\n".join(lines[: 2 + MOST]) + (f"\n\nThe file holds {more} more.\n" if more > 0 else "\n")


def numbers(value: Any, name: str = "") -> list[tuple[str, float]]:
    """Return each number in nested dictionaries and lists with its path in words."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return []
    if isinstance(value, (int, float)):
        return [(name, float(value))]
    inside = value.items() if isinstance(value, dict) else enumerate(value, start=1)
    return [one for key, part in inside for one in numbers(part, f"{name}, {key}".lstrip(", ").replace("_", " "))]


def translator(name: str, record: dict[str, Any]) -> str:
    """Return the section of a training run of the translator: size, time, scores with their signatures."""
    settings = ", ".join(f"{key} {value}" for key, value in record["settings"].items())
    lines = [
        f"## {name.replace('_', ' ').capitalize()}\n",
        f"{about(name, record)}- settings: {settings}",
        f"- size: {record['parameters']:,} parameters",
        f"- {record['steps']:,} steps in {record['cpu_minutes']} CPU-minutes",
        f"- sacreBLEU's signature: `{next(iter(record['test'].values()))['sacrebleu_signature']}`\n",
        "| Decoding | sacreBLEU, cased |",
        "|---|---:|",
    ]
    lines += [f"| {way} | {found['sacrebleu']} |" for way, found in record["test"].items()]
    return "\n".join(lines) + "\n"


def problems(root: Path = ROOT) -> list[str]:
    """Say whether the page is stale, which record no chapter shows, and which has fewer than three seeds."""
    path, found, notebooks = root / PAGE, records(root), code(root)
    runs = {name: record["runs"] for name, record in found.items() if "runs" in record}
    said = [f"{RECORDS / name}.json: no chapter shows it" for name in runs if not chapters(name, notebooks)]
    said += [f"{RECORDS / name}.json: must have {SEEDS} seeds" for name, seeds in runs.items() if len(seeds) < SEEDS]
    stale = not path.exists() or path.read_text(encoding="utf-8") != page(found, notebooks, root)
    return said + [f"{PAGE}: isn't what {RECORDS} holds"] * stale


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the page, after writing it where `--write` asks for that."""
    write = lambda: cells.write_text(root / PAGE, page(records(root), code(root), root))  # noqa: E731
    return pages.run(arguments, "results", __doc__, write, lambda: problems(root))


if __name__ == "__main__":
    sys.exit(main())
