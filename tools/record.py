"""Make the full run of an experiment for some seeds, and keep what it found with command, machine and versions.

`python -m tools.record recall` calls `transformer_lib.experiments.recall.record(seed)` for seeds 1, 2 and 3. It writes
after each seed, and goes on from there when it was stopped. Without a name it checks that the copies are equal.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tools import LIBRARY, ROOT, report
from transformer_lib import files

RESULTS, COPIES = Path("book/results"), Path(LIBRARY, "records")
FIELDS = ("command", "machine", "versions", "runs")


def processor() -> str:
    """Return the processor's name as the system tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def surroundings(packages: Sequence[str] = ("torch", "numpy")) -> dict[str, Any]:
    """Return what a measurement may depend on: the machine, its threads and the versions."""
    threads = torch.get_num_threads()
    versions = {"python": platform.python_version()} | {name: version(name) for name in packages}
    return {"machine": f"{processor()}, {threads} thread{'s' if threads > 1 else ''}", "versions": versions}


def run(
    name: str, seeds: list[int], function: Callable[[int], dict[str, Any]], root: Path = ROOT, fresh: bool = False
) -> None:
    """Add the run of each seed that the record lacks; write the record and its copy after each.

    Args:
        fresh: whether to forget the runs that are there; they stay until the first new one is done.
    """
    path = root / RESULTS / f"{name}.json"
    same = {"command": f"python -m tools.record {name}", **surroundings()}
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() and not fresh else {}
    runs = {found["seed"]: found for found in old.get("runs", []) if all(old.get(key) == same[key] for key in same)}
    for seed in seeds:
        if seed in runs:
            continue
        started = time.process_time()
        found = function(seed)
        runs[seed] = {"seed": seed, "cpu_seconds": round(time.process_time() - started, 1), **found}
        text = json.dumps(same | {"runs": [runs[key] for key in sorted(runs)]}, indent=1, ensure_ascii=False) + "\n"
        for folder in (RESULTS, COPIES):
            files.write_whole(root / folder / f"{name}.json", text.encode())


def problems(root: Path = ROOT) -> list[str]:
    """Say which record lacks a part or its run's function, and which copy differs."""
    found = []
    for copy in sorted((root / COPIES).glob("*.json")):
        original = root / RESULTS / copy.name
        if not original.exists() or original.read_bytes() != copy.read_bytes():
            found.append(f"{COPIES / copy.name}: isn't what {RESULTS / copy.name} says")
            continue
        record = json.loads(copy.read_text(encoding="utf-8"))
        found += [f"{COPIES / copy.name}: lacks {field!r}" for field in FIELDS if not record.get(field)]
        source = root / LIBRARY / "experiments" / f"{copy.stem}.py"
        if not source.exists() or "def record(seed: int)" not in source.read_text(encoding="utf-8"):
            found.append(f"{COPIES / copy.name}: no experiments.{copy.stem} with record(seed) that makes it")
    return found


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Make one record, or check them all."""
    parser = argparse.ArgumentParser(prog="python -m tools.record", description=__doc__)
    parser.add_argument("name", nargs="?", help="a module of transformer_lib.experiments with record(seed)")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are there")
    options = parser.parse_args(arguments)
    if options.name:
        function = importlib.import_module(f"{LIBRARY}.experiments.{options.name}").record
        run(options.name, options.seeds, function, root, options.fresh)
    return report(problems(root), "python -m tools.record NAME")


if __name__ == "__main__":
    sys.exit(main())
