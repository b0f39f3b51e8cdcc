"""How long does each notebook of the book run? Executed one after the other, in a kernel of its own."""

from __future__ import annotations

import resource
import time
from typing import Any

import nbformat
from nbclient import NotebookClient

from tools import ROOT

FOLDERS = ("notebooks", "solutions/*")


def run(count: int = 1) -> dict[str, Any]:
    """Return each notebook's seconds by the clock and of the processor, and the sums; once, whatever `count` says."""
    rows = {}
    for folder in FOLDERS:
        for path in sorted(ROOT.glob(f"{folder}/*.ipynb")):
            before, started = _children(), time.perf_counter()
            notebook = nbformat.read(path, as_version=4)
            NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
            rows[path.relative_to(ROOT).as_posix()] = {
                "seconds": round(time.perf_counter() - started, 1),
                "cpu seconds": round(_children() - before, 1),
            }
    total = {key: round(sum(row[key] for row in rows.values()), 1) for key in ("seconds", "cpu seconds")}
    return {"rounds": 1, "rows": rows | {"all": total}}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
