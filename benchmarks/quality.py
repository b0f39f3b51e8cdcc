"""Gather the records of training runs into one table: `python -m benchmarks.quality FOLDER ...`, folders of make train.

It adds to what is there; a run of the same name takes the place of the old one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tools import ROOT
from tools.training_run import UNSAID
from transformer_lib import files

RECORD = ROOT / "book" / "results" / "benchmarks" / "quality.json"
COLUMNS = ("beam 5", "greedy", "validation loss", "CPU-minutes", "parameters")


def name(settings: dict[str, Any]) -> str:
    """Return what tells a run from the others."""
    s = UNSAID | settings
    parts = [f"{s['layers']} + {s['layers']} layers", f"width {s['d_model']}", f"dropout {s['dropout']:g}"]
    if s["bpe_dropout"]:
        parts.append(f"BPE dropout {s['bpe_dropout']:g}")
    if s["positions"] != UNSAID["positions"]:
        parts.append(f"{s['positions']} positions")
    return ", ".join([*parts, f"{s['epochs']} epochs", f"seed {s['seed']}"])


def row(record: dict[str, Any]) -> dict[str, Any]:
    """Return what the table shows of a run, and what it takes to make it again."""
    test, settings = record["test"], UNSAID | record["settings"]
    return {
        "name": name(settings),
        "settings": settings,
        "beam 5": test["beam 5"]["sacrebleu"],
        "greedy": test["greedy"]["sacrebleu"],
        "validation loss": round(min(epoch["validation_loss"] for epoch in record["curve"]), 3),
        "CPU-minutes": record["cpu_minutes"],
        "parameters": record["parameters"],
        "machine": record["machine"],
        "versions": record["versions"],
        "curve": record["curve"],
    }


def main() -> None:
    """Read each folder's record; write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, help="folders that hold a finished run's translator_*.json")
    old = json.loads(RECORD.read_text()) if RECORD.exists() else {"runs": []}
    runs = {run["name"]: run for run in old["runs"]}
    for folder in parser.parse_args().folders:
        found = sorted(folder.glob("translator_*.json")) if folder.is_dir() else [folder]
        if not found:
            parser.error(f"{folder} must hold translator_*.json, which make train writes at its end")
        for path in found:
            record = json.loads(path.read_text())
            one = row(record)
            runs[one["name"]] = one
            signature = record["test"]["beam 5"]["sacrebleu_signature"]
    ordered = sorted(runs.values(), key=lambda run: (run["parameters"], run["CPU-minutes"]))
    content = {"columns": COLUMNS, "signature": signature, "runs": ordered}
    files.write_whole(RECORD, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
