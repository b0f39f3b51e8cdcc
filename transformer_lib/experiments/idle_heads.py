"""Where does a head look when it has nothing to look for? (chapter 03)"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib import checks, head_statistics, multi_head, observe
from transformer_lib.experiments.steps import take_step

SYMBOLS, LENGTH, D_MODEL, BATCH, RATE = 8, 12, 64, 32, 2e-3
FIRST = SYMBOLS  # the id of the token that some sequences begin with


class ResidualLayer(nn.Module):
    """One multi-head attention with a residual; an embedding with learned positions before it, a readout after it.

    No place may attend to itself: what it holds comes by the residual.

    Args:
        first: whether sequences begin with an extra token of their own.
    """

    def __init__(self, heads: int, first: bool) -> None:
        super().__init__()
        self.symbol = nn.Embedding(SYMBOLS + 1, D_MODEL)
        self.position = nn.Parameter(torch.randn(LENGTH + first, D_MODEL))
        self.attention = multi_head.MultiHeadAttention(D_MODEL, heads)
        self.answer = nn.Linear(D_MODEL, SYMBOLS)

    def forward(self, symbols: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position symbol"]:
        """Return a logit for each symbol at each place."""
        x = (self.symbol(symbols) + self.position) / math.sqrt(2)
        others = ~torch.eye(symbols.size(1), dtype=torch.bool)
        return self.answer(x + self.attention(x, x, others))


@dataclass(frozen=True, kw_only=True)
class Parked:
    """What a trained layer does with its attention; one number a head.

    Args:
        accuracy: share of answers right, on sequences not trained on.
        on_first: mean weight that idle places give to the first token.
        on_wanted: mean weight that asking places give to the place they need.
        weights: each head's map for `tokens`.
        tokens: one new sequence, to show.
    """

    accuracy: float
    on_first: list[float]
    on_wanted: list[float]
    weights: Float[Tensor, "heads query key"]
    tokens: list[int]


def train_idle(heads: int = 1, *, first: bool, seed: int, steps: int = 400) -> Parked:
    """Train a layer in which half of the places need nothing from the others; Adam, 32 sequences a step.

    A place with an even symbol asks: its answer is the symbol just before it. One with an odd symbol is idle: its
    answer is its own symbol. The first symbol of a sequence is idle, too.

    Args:
        first: whether sequences begin with an extra token, which carries no information.
    """
    checks.positive(heads=heads, steps=steps)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ResidualLayer(heads, first)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    symbols, answers, _ = _sequences(steps * BATCH, first, generator)
    for source, target in zip(symbols.split(BATCH), answers.split(BATCH), strict=True):
        loss = F.cross_entropy(model(source)[:, int(first) :].flatten(0, 1), target.flatten())
        take_step(optimizer, loss)
    return _tested(model, first, generator)


def record(seed: int) -> dict[str, Any]:
    """Return what one head does with and without a first token."""
    runs = {name: train_idle(first=name == "with", seed=seed) for name in ("with", "without")}
    return {
        name: {
            "accuracy": round(run.accuracy, 3),
            "on_first": [round(weight, 3) for weight in run.on_first],
            "on_wanted": [round(weight, 3) for weight in run.on_wanted],
        }
        for name, run in runs.items()
    }


def _sequences(
    count: int, first: bool, generator: torch.Generator
) -> tuple[Int[Tensor, "..."], Int[Tensor, "..."], Bool[Tensor, "..."]]:
    """Return symbols, answers, and which of the symbols ask."""
    drawn = torch.randint(SYMBOLS, (count, LENGTH), generator=generator)
    asks = drawn % 2 == 0
    asks[:, 0] = False
    answers = torch.where(asks, drawn.roll(1, dims=1), drawn)
    symbols = torch.cat([torch.full((count, int(first)), FIRST), drawn], dim=1)
    return symbols, answers, asks


@torch.no_grad()
def _tested(model: ResidualLayer, first: bool, generator: torch.Generator) -> Parked:
    symbols, answers, asks = _sequences(500, first, generator)
    with observe.record_attention(model) as found:
        right = model(symbols)[:, int(first) :].argmax(-1) == answers
    weights = found["attention"][0]
    asking = F.pad(asks, (int(first), 0))
    idle = ~asking
    idle[:, : int(first) + 1] = False  # the first token itself, and the first symbol, which has no choice of a place
    return Parked(
        accuracy=right.float().mean().item(),
        on_first=weights[..., 0].movedim(1, 0)[:, idle].mean(1).tolist(),
        on_wanted=head_statistics.weight_at_offset(weights, -1, asking).tolist(),
        weights=weights[0],
        tokens=symbols[0].tolist(),
    )
