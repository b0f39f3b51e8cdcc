"""How long does a forward pass take, against the length of the input? (chapter 01; recorded, never compared)"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from transformer_lib.experiments import networks
from transformer_lib.experiments.steps import cpu_seconds

D_MODEL, WIDTH, REPEATS = 64, 3, 5
LENGTHS = {1: (64, 128, 256, 512, 1024, 2048, 4096, 8192), 16: (64, 128, 256, 512, 1024)}  # sequences: lengths


def layers() -> dict[str, Callable[[Any], Any]]:
    """Return what is timed: one layer of each kind at d_model = 64, recurrences as PyTorch runs them."""
    attention = networks.OneAttention(D_MODEL)
    return {
        "Elman": nn.RNN(D_MODEL, D_MODEL, batch_first=True),
        "LSTM": nn.LSTM(D_MODEL, D_MODEL, batch_first=True),
        "convolution": networks.CausalCNN(D_MODEL, WIDTH, [1]),
        "attention": attention,
        "attention, fused": attention.fused,
    }


def record(seed: int) -> dict[str, Any]:
    """Return milliseconds of the processor for each layer, batch and length, in a dictionary for `tools.record`."""
    milliseconds: dict[str, dict[str, list[float]]] = {}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for batch, lengths in LENGTHS.items():
            milliseconds[str(batch)] = {
                name: [_rounded(cpu_seconds(partial(layer, torch.randn(batch, n, D_MODEL)), REPEATS)) for n in lengths]
                for name, layer in layers().items()
            }
    return {"d_model": D_MODEL, "lengths": {str(k): list(v) for k, v in LENGTHS.items()}, "milliseconds": milliseconds}


def _rounded(seconds: float) -> float:
    return float(f"{1000 * seconds:.3g}")
