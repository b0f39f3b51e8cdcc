"""How long until the first result? Importing, and translating one sentence, each in a new process."""

from __future__ import annotations

import importlib.util
import resource
import statistics
import subprocess
import sys
from functools import partial
from typing import Any

from benchmarks import rounds
from tools import ROOT

TORCH = "import torch"
SENTENCE = "Ein Hund rennt durch den Schnee."
CODES = {
    TORCH: "import torch",
    "import transformer_lib and its model": "from transformer_lib import model, training, decoding",
    "translate a first sentence": f"from transformer_lib import translator as t; t.shipped().translate([{SENTENCE!r}])",
}
PEERS = {
    "import transformers' Marian": ("transformers", "from transformers import MarianMTModel"),
    "import x_transformers": ("x_transformers", "import x_transformers"),
}


def cpu_seconds(code: str) -> float:
    """Return the processor's time that a new Python takes for the code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(count: int = rounds.ROUNDS) -> dict[str, Any]:
    """Return the median CPU seconds of each start, and its ratio to importing torch alone."""
    codes = CODES | {name: code for name, (package, code) in PEERS.items() if importlib.util.find_spec(package)}
    seconds = rounds.in_turns({name: partial(cpu_seconds, code) for name, code in codes.items()}, count, before=1)
    middle = {name: statistics.median(own) for name, own in seconds.items()}
    return {
        "rows": {
            name: {
                "seconds": round(own, 2),
                "lowest": round(min(seconds[name]), 2),
                "highest": round(max(seconds[name]), 2),
                "ratio": round(own / middle[TORCH], 3),
            }
            for name, own in middle.items()
        }
    }
