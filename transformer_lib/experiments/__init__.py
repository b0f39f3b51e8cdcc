"""Experiments that are too long for a cell: one function each. They seed themselves and print nothing.

A module with a function `record(seed)` has a full run, too long for a notebook. `python -m tools.record NAME` makes it
for three seeds and writes `book/results/NAME.json`; a copy comes with the library, so that a notebook can show it.
"""

import json
from importlib import resources
from typing import Any

import transformer_lib


def recorded(name: str) -> list[dict[str, Any]]:
    """Return what the full run of an experiment found: one dictionary for each seed, with its `seed`.

    `book/results/<name>.json` says with which command, machine and versions.

    Args:
        name: the experiment's module, such as "recall".

    Raises:
        ValueError: there is no such record.
    """
    return record_of(name)["runs"]


def record_of(name: str) -> dict[str, Any]:
    """Return a whole record: command, machine, versions, CPU seconds and the runs.

    Raises:
        ValueError: there is no such record.
    """
    folder = resources.files(transformer_lib) / "records"
    known = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    if name not in known:
        raise ValueError(f"name must be one of {known}, got {name!r}")
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
