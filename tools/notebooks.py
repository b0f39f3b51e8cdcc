"""Run notebooks and store their outputs in a fixed form; or check, without running, that what is stored is in order.

`python -m tools.notebooks [NAMES]` checks; `--write` runs and writes the outputs back, all of a notebook or nothing;
`--time` runs, writes nothing, and prints each notebook's wall time and peak memory. A name is a part of a path.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert.filters import strip_ansi
from nbformat import NotebookNode

from tools import ROOT, cells, hygiene, outputs, report

FOLDERS = ("notebooks", "solutions")
SECONDS_A_CELL = 120
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # as in `make test`; sums depend on it in the last digit
PEAK = """import pathlib, re, resource, sys
status = pathlib.Path("/proc/self/status")  # resource's own figure counts the process that started this one, too
high = re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text()) if status.exists() else None
unit = 1 if sys.platform == "darwin" else 1024
print(1024 * int(high[1]) if high else unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"""


def chosen(names: list[str], root: Path = ROOT) -> list[Path]:
    """Return the notebooks whose path holds one of the names, all without names; ValueError if a name fits none."""
    paths = cells.notebooks(root, *FOLDERS)
    for name in names:
        if not any(name in path.relative_to(root).as_posix() for path in paths):
            raise ValueError(f"a name must be part of a notebook's path below {' or '.join(FOLDERS)}, got {name!r}")
    return [path for path in paths if not names or any(name in path.relative_to(root).as_posix() for name in names)]


def run(path: Path, seconds_a_cell: int = SECONDS_A_CELL) -> tuple[NotebookNode, float, int]:
    """Run a notebook in its own folder; return it with its outputs, the wall time in seconds and the peak in bytes."""
    notebook = cells.read(path)
    notebook.metadata.kernelspec = nbformat.from_dict(cells.KERNEL)
    notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
    client = NotebookClient(
        notebook,
        timeout=seconds_a_cell,
        kernel_name=cells.KERNEL["name"],
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        record_timing=False,
    )
    start = time.perf_counter()
    client.execute(env={**os.environ, **THREADS})
    seconds = time.perf_counter() - start
    peak = int(notebook.cells.pop().outputs[0].text)
    return outputs.normalise(notebook), seconds, peak


def write(paths: list[Path], root: Path, keep: bool) -> list[str]:
    """Run each notebook and print what it took; store its outputs if `keep`; return the failures."""
    failures: list[str] = []
    for path in paths:
        name = path.relative_to(root)
        try:
            notebook, seconds, peak = run(path)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failures.append(f"{name}: left as it was, since it doesn't run to its end:\n{strip_ansi(str(error))}")
            continue
        changed = keep and cells.write(notebook, path)
        print(f"{name}: {seconds:.1f} s, {peak / 2**20:,.0f} MiB{', outputs changed' if changed else ''}", flush=True)
    return failures


def problems(paths: list[Path], root: Path = ROOT) -> list[str]:
    """Say which of the rules for stored notebooks are broken."""
    found: list[str] = []
    for path in paths:
        try:
            found += hygiene.problems(cells.read(path), path, root)
        except ValueError as error:
            found.append(str(error))
    return found


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check notebooks, or run them and store what they print."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a path; all notebooks without one")
    parser.add_argument("--write", action="store_true", help="run, and write the outputs back")
    parser.add_argument("--time", action="store_true", help="run, write nothing, print wall time and peak memory")
    options = parser.parse_args(arguments)
    repair = "edit the notebook, then: make notebooks (or, for some: python -m tools.notebooks --write NAME)"
    try:
        paths = chosen(options.names, root)
    except ValueError as error:
        return report([str(error)], "python -m tools.notebooks lists all")
    failures = write(paths, root, options.write) if options.write or options.time else []
    return report(failures + ([] if options.time else problems(paths, root)), repair)


if __name__ == "__main__":
    sys.exit(main())
