"""Does a larger learning rate change who remembers one token? (chapter 01; `recall` has the same runs at 0.003)"""

from typing import Any

from transformer_lib.experiments.recall import STEPS, train_to_recall

RATE = 1e-2
DISTANCES = (8, 32, 128)
NAMES = ("Elman", "LSTM", "LSTM, open", "attention")  # plain windows see 17 places, dilated ones are right at 0.003


def record(seed: int) -> dict[str, Any]:
    """Return each network's share of right answers at each distance, in a dictionary for `tools.record`."""
    accuracy = {
        name: [
            round(train_to_recall(name, distance, seed=seed, steps=STEPS, rate=RATE).accuracy, 3)
            for distance in DISTANCES
        ]
        for name in NAMES
    }
    return {"steps": STEPS, "rate": RATE, "distances": list(DISTANCES), "accuracy": accuracy}
