"""How do time and memory of training grow with length, width, depth, batch and vocabulary? (chapter 07; recorded)"""

import math
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from transformer_lib import checks, training
from transformer_lib.config import TransformerConfig
from transformer_lib.data import END, START, Batch
from transformer_lib.experiments.steps import cpu_seconds
from transformer_lib.model import Transformer

BASE = TransformerConfig(vocabulary=2000, d_model=128, heads=4, d_ff=512, layers=2, dropout=0.1, max_length=2048)
ROWS, LENGTH, REPEATS = 8, 32, 3
AXES: dict[str, tuple[int, ...]] = {
    "length": (16, 32, 64, 128, 256, 512),
    "width": (64, 128, 256, 512),
    "layers": (1, 2, 4, 8),
    "batch": (4, 8, 16, 32, 64),
    "vocabulary": (1000, 2000, 4000, 8000, 16000),
}


def case(axis: str, size: int) -> tuple[TransformerConfig, int, int]:
    """Return (config, rows, length) with one size changed; the feed-forward network grows with the width.

    Raises:
        ValueError: there is no such axis.
    """
    checks.one_of(tuple(AXES), axis=axis)
    changes = {"width": {"d_model": size, "d_ff": 4 * size}, "layers": {"layers": size}, "vocabulary": {axis: size}}
    config = replace(BASE, **changes.get(axis, {}))
    return config, size if axis == "batch" else ROWS, size if axis == "length" else LENGTH


def multiplications(config: TransformerConfig, rows: int, source: int, target: int) -> int:
    """Return the multiplications of one forward pass, in matrix products, on `rows` pairs of these lengths in tokens.

    Per source token and encoder layer: 4 d^2 for the projections, 2 n d for the scores and the mix, 2 d d_ff. A decoder
    layer has a second attention, whose keys and values come from the source. Then d for each token of the vocabulary.
    Masked scores are computed, too.
    """
    checks.positive(rows=rows, source=source, target=target)
    d, feed_forward = config.d_model, 2 * config.d_model * config.d_ff
    encoder = source * (4 * d**2 + 2 * source * d + feed_forward)
    decoder = target * (6 * d**2 + 2 * (target + source) * d + feed_forward) + source * 2 * d**2
    return rows * (config.layers * (encoder + decoder) + target * d * config.vocabulary)


def parameters(config: TransformerConfig) -> int:
    """Return the number of parameters of a pre-norm Transformer without attention biases, sinusoids as positions."""
    d, norm = config.d_model, 2 * config.d_model
    feed_forward = 2 * d * config.d_ff + config.d_ff + d
    layer = 4 * d**2 + 8 * d**2 + 2 * feed_forward + 5 * norm
    return config.vocabulary * d + config.layers * layer + 2 * norm


def training_memory(config: TransformerConfig, rows: int, source: int, target: int) -> int:
    """Return the bytes that a training step takes at its peak, in float32 with Adam, in the form that chapters list.

    Weights, and Adam's two averages: 3 numbers a parameter. Then the larger of two moments: when the loss is known, the
    values that the backward pass needs are there; when the backward pass is over, one gradient a parameter.
    """
    checks.positive(rows=rows, source=source, target=target)
    count = parameters(config)
    return 4 * (3 * count + max(count, rows * _kept(config, source, target)))


def _kept(c: TransformerConfig, source: int, target: int) -> int:
    """Return how many numbers one pair keeps for the backward pass, and the loss works with at its peak.

    An attention keeps, of the width d: its input and its normed input, queries, keys, values, the mix, and the
    dropout's factors; of each score, the weight before and after masked rows are set to zero. A feed-forward network
    keeps its input, its normed input, the hidden layer and the factors. The loss holds three numbers for each token of
    the vocabulary at a time, such as logits, those of real tokens, and their log-probabilities.
    """
    d, scores = c.d_model, 2 * c.heads
    encoder = source * (7 * d + scores * source) + source * (3 * d + c.d_ff)
    decoder = target * (7 * d + scores * target) + target * (5 * d + scores * source) + source * 2 * d
    decoder += target * (3 * d + c.d_ff)
    return c.layers * (encoder + decoder) + 4 * d * (source + target) + 3 * target * c.vocabulary


def exponent(sizes: Sequence[int | float], costs: Sequence[int | float]) -> float:
    """Return the slope of the straight line through (log size, log cost), by least squares.

    A cost that grows with the square has 2.

    Raises:
        ValueError: there are fewer than two sizes, not as many costs, or one that is not above 0.
    """
    if len(sizes) < 2 or len(sizes) != len(costs) or min(*sizes, *costs) <= 0:
        raise ValueError(f"wanted as many sizes as costs, at least 2, all above 0, got {list(sizes)} and {list(costs)}")
    x, y = ([math.log(value) for value in values] for values in (sizes, costs))
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def random_batch(vocabulary: int, rows: int, length: int, generator: torch.Generator) -> Batch:
    """Return pairs of random words without padding: `length` tokens in each source and in each target input."""
    checks.positive(rows=rows, length=length)
    words = torch.randint(END + 1, vocabulary, (2, rows, length), generator=generator)
    start, end = (torch.full((rows, 1), token) for token in (START, END))
    return Batch(words[0], torch.cat([start, words[1, :, 1:], end], dim=1))


def step_seconds(config: TransformerConfig, rows: int, length: int, repeats: int = REPEATS) -> float:
    """Return the processor's time for one training step, the shortest of several after one to warm up."""
    batch = random_batch(config.vocabulary, rows, length, torch.Generator().manual_seed(0))
    model = Transformer(config)
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        list(training.train(model, [batch], training.translation_loss, optimizer, lambda step: 1e-4))

    return cpu_seconds(step, repeats)


def step_bytes(config: TransformerConfig, rows: int, length: int) -> int:
    """Return the bytes that training steps add to a process at their peak; measured in a process of its own.

    The C library is told to give every freed block of 64 KiB or more back at once. By itself it keeps some for later:
    then a process holds up to half as much again as its tensors need.
    """
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # read when the new process starts
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(_step_bytes, asdict(config), rows, length).result()
    finally:
        del os.environ["MALLOC_MMAP_THRESHOLD_"]


def _step_bytes(sizes: dict[str, Any], rows: int, length: int) -> int:
    torch.set_num_threads(1)
    small = replace(BASE, d_model=16, d_ff=16, vocabulary=10, layers=1)
    step_seconds(small, 1, 2, repeats=1)  # loads what torch loads at a first step
    before = peak_bytes()
    step_seconds(TransformerConfig(**sizes), rows, length, repeats=1)
    return peak_bytes() - before


def peak_bytes() -> int:
    """Return the most bytes that this process has held.

    Linux keeps it by process and forgets it when another program is loaded, unlike `ru_maxrss`, which a child inherits.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


MEMORY_CASES = [  # changes of BASE, rows, length
    ({}, 32, 64),
    ({"vocabulary": 8000}, 32, 32),
    ({"d_model": 256, "d_ff": 1024, "heads": 8, "layers": 3, "vocabulary": 8000}, 64, 32),
    ({"d_model": 512, "d_ff": 2048, "heads": 8, "layers": 6}, 8, 32),
    ({"layers": 6}, 32, 64),
    ({}, 4, 512),
    ({"heads": 8}, 2, 1024),
]


def record(seed: int) -> dict[str, Any]:
    """Return seconds and multiplications along each axis, and memory predicted and measured, for `tools.record`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        axes = {axis: _along(axis) for axis in AXES}
        memory = []
        for changes, rows, length in MEMORY_CASES:
            config = replace(BASE, **changes)
            predicted = training_memory(config, rows, length, length)
            found = {"predicted": round(predicted / 2**20), "measured": round(step_bytes(config, rows, length) / 2**20)}
            memory.append({"changes": changes, "rows": rows, "length": length} | found)
    return {"axes": axes, "MiB": memory}


def _along(axis: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"sizes": list(AXES[axis]), "milliseconds": [], "multiplications": []}
    for size in AXES[axis]:
        config, rows, length = case(axis, size)
        found["milliseconds"].append(float(f"{1000 * step_seconds(config, rows, length):.3g}"))
        found["multiplications"].append(3 * multiplications(config, rows, length, length))
    return found
