"""How much memory does training take? Each library in a process of its own: the most that it ever held.

`python -m benchmarks.memory NAME` is such a process; `run` starts one for each.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks import corpus, rounds
from benchmarks.training import TORCH, trainees
from transformer_lib.experiments.scale import peak_bytes

BATCHES = 12
NOTHING = "Python with torch, nothing trained"
LEAN = [name + rounds.FEW for name in ("torch.nn.Transformer, autocast", "this book, fast, default")]


def run(count: int = 3) -> dict[str, Any]:
    """Return each contender's peak in MiB, the median of several processes, and its share of torch's."""
    corpus.tokeniser()
    found = rounds.apart("memory", [NOTHING, *trainees(), *LEAN], count)
    middle = {name: sorted(own)[len(own) // 2] for name, own in found.items()}
    return {
        "rows": {
            name: {"ratio": round(own / middle[TORCH], 3), "MiB": round(own), "without torch itself": round(own - low)}
            for name, own in middle.items()
            for low in [middle[NOTHING]]
        }
    }


def main() -> None:
    """Train one contender; print this process's peak."""
    name = rounds.settled(sys.argv[1])
    if name != NOTHING:
        trainees()[name].steps(corpus.training_batches()[:BATCHES])
    print(peak_bytes() / 2**20)


if __name__ == "__main__":
    main()
