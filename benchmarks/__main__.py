"""Measure, and keep what was found: `python -m benchmarks [NAME ...]` (or `make bench`).

Each benchmark writes `book/results/benchmarks/NAME.json` with the machine and the versions; the page is
made from these files by `python -m tools.speed --write`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import sys
import warnings

# Peers are installed beside the environment; one thread, here and in the processes that are started.
PEERS = os.path.join("_build", "peers")
if os.path.isdir(PEERS):
    sys.path.append(os.path.abspath(PEERS))
    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.abspath(PEERS), os.environ.get("PYTHONPATH", "")]).rstrip(":")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

from tools import ROOT  # noqa: E402
from tools.record import surroundings  # noqa: E402
from tools.train import keep_memory  # noqa: E402
from transformer_lib import files  # noqa: E402

NAMES = ("training", "decoding", "loading", "memory", "attention", "startup", "notebooks")
RESULTS = ROOT / "book" / "results" / "benchmarks"
PACKAGES = ("torch", "transformers", "x-transformers", "d2l")


def installed() -> list[str]:
    """Return which of the packages are there."""
    return [name for name in PACKAGES if importlib.util.find_spec(name.replace("-", "_")) is not None]


def main() -> None:
    """Run the benchmarks that were asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument(
        "--rounds", type=int, default=5, help="rounds in which every contender has its turn (default 5)"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"NAME must be one of {', '.join(NAMES)}, got {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    keep_memory()
    warnings.filterwarnings("ignore", "enable_nested_tensor is True")
    for name in options.names or NAMES:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"{name}: {module.__doc__.splitlines()[0]}", flush=True)
        found = {"command": f"python -m benchmarks {name}", "rounds": options.rounds, **surroundings(installed())}
        found |= module.run(options.rounds)
        files.write_whole(RESULTS / f"{name}.json", (json.dumps(found, indent=1) + "\n").encode())
        for row, values in found.get("rows", {}).items():
            print(f"  {row:52} " + "  ".join(f"{key} {value}" for key, value in values.items()), flush=True)


if __name__ == "__main__":
    main()
