"""Trained on 32 positions, tested on 256: which position scheme still works? (chapter 04)"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, masks, positional, relative, toy_tasks
from transformer_lib.experiments.steps import take_step
from transformer_lib.toy_tasks import FIRST_SYMBOL, NOTHING

SCHEMES = ("sinusoidal", "learned", "shaw", "t5", "rotary", "alibi")
TRAINED, TESTED, BIN = 32, 256, 16  # positions
SYMBOLS, D_MODEL, HEADS, BATCH, RATE, SEQUENCES = 16, 32, 4, 32, 3e-3, 64
VOCABULARY = FIRST_SYMBOL + SYMBOLS
Data = tuple[Int[Tensor, "batch position"], Int[Tensor, "batch position"]]


def three_back(count: int, length: int, generator: torch.Generator) -> Data:
    """Return random symbols, and for each place the symbol three places before it."""
    symbols = torch.randint(FIRST_SYMBOL, VOCABULARY, (count, length), generator=generator)
    return symbols, toy_tasks.shifted(symbols, 3)


def latest_marked(count: int, length: int, generator: torch.Generator) -> Data:
    """Return symbols of two kinds, one place in eight being marked, and for each place the latest marked symbol."""
    half = FIRST_SYMBOL + SYMBOLS // 2
    is_marked = torch.rand(count, length, generator=generator) < 1 / 8
    marked = torch.randint(FIRST_SYMBOL, half, (count, length), generator=generator)
    others = torch.randint(half, VOCABULARY, (count, length), generator=generator)
    symbols = torch.where(is_marked, marked, others)
    latest = torch.where(is_marked, torch.arange(length), -1).cummax(dim=1).values
    return symbols, torch.where(latest < 0, NOTHING, symbols.gather(1, latest.clamp(min=0)))


def in_order(count: int, length: int, generator: torch.Generator) -> Data:
    """Return random symbols, and the same symbols in rising order."""
    symbols = torch.randint(FIRST_SYMBOL, VOCABULARY, (count, length), generator=generator)
    return symbols, symbols.sort(dim=1).values


def ranks(count: int, length: int, generator: torch.Generator) -> Data:
    """Return random symbols, and for each place FIRST_SYMBOL + how many places hold smaller symbols."""
    symbols = torch.randint(FIRST_SYMBOL, VOCABULARY, (count, length), generator=generator)
    return symbols, FIRST_SYMBOL + (symbols.unsqueeze(1) < symbols.unsqueeze(2)).sum(dim=2)


TASKS: dict[str, Callable[[int, int, torch.Generator], Data]] = {
    "three back": three_back,
    "latest marked": latest_marked,
    "sort": in_order,
    "rank": ranks,
}


class Racer(nn.Module):
    """Symbols in, one answer for each place out; what differs between racers is the position scheme alone.

    Args:
        scheme: one of `SCHEMES`, or "none". The learned table has a row for each of the `TESTED` positions, of which
            training reaches the first only. T5's buckets and Shaw's offsets end at 16, half the trained length.
        causal: whether later places are hidden.
    """

    def __init__(self, scheme: str, layers: int = 2, causal: bool = True) -> None:
        super().__init__()
        checks.one_of((*SCHEMES, "none"), scheme=scheme)
        self.causal = causal
        self.symbol, self.answer = nn.Embedding(VOCABULARY, D_MODEL), nn.Linear(D_MODEL, VOCABULARY)
        self.learned = positional.LearnedPositions(TESTED, D_MODEL) if scheme == "learned" else None
        sinusoids = positional.sinusoidal_positions(TESTED, D_MODEL) if scheme == "sinusoidal" else None
        self.register_buffer("sinusoids", sinusoids)
        stack = [
            encoder_decoder.EncoderLayer(D_MODEL, HEADS, 2 * D_MODEL, position=self._relative(scheme))
            for _ in range(layers)
        ]
        self.encoder = encoder_decoder.Encoder(stack)

    def _relative(self, scheme: str) -> positional.PositionScheme | None:
        d_k = D_MODEL // HEADS
        made = {
            "shaw": lambda: relative.ShawPositions(d_k, max_distance=16),
            "t5": lambda: relative.BucketBias(HEADS, buckets=32, max_distance=16),
            "rotary": lambda: relative.RotaryPositions(d_k),
            "alibi": lambda: relative.LinearBias(HEADS),
        }
        return made[scheme]() if scheme in made else None

    def forward(
        self,
        symbols: Int[Tensor, "batch position"],
        first: int = 0,
        mask: Bool[Tensor, "position position"] | None = None,
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Return the logits of each place's answer; positions count from `first`; without a mask, by `causal`."""
        length = symbols.size(1)
        x = self.symbol(symbols)
        if self.learned is not None:
            x = x + self.learned(length, first)
        if self.sinusoids is not None:
            x = x + self.sinusoids[first : first + length]
        if mask is None and self.causal:
            mask = masks.causal_mask(length)
        return self.answer(self.encoder(x, mask))


@dataclass(frozen=True, kw_only=True)
class Result:
    """How well a trained racer answers; places whose answer is `NOTHING` don't count.

    Args:
        accuracy: share of answers right in sequences of `TESTED` symbols, in bins of `BIN` positions.
        moved: share right in sequences of `TRAINED` symbols whose positions are numbered from 0, 32, ..., 224.
        loss: of the last training step, in nats per answer.
    """

    accuracy: list[float]
    moved: list[float]
    loss: float

    def between(self, first: int, last: int) -> float:
        """Return the mean accuracy of the positions from `first` to `last` - 1, both multiples of `BIN`."""
        chosen = self.accuracy[first // BIN : last // BIN]
        return sum(chosen) / len(chosen)


def race(task: str, scheme: str, *, seed: int, steps: int = 300, layers: int = 2, random_start: bool = False) -> Result:
    """Train one racer on sequences of `TRAINED` symbols, then test it on sequences of `TESTED`.

    Under the causal mask a place's answer doesn't depend on what follows, so that the accuracy at position p is that
    of the last place of a sequence of length p + 1.

    Args:
        random_start: number the positions of each training batch from a random one, so that all get trained.
    """
    checks.one_of(tuple(TASKS), task=task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, generator = Racer(scheme, layers), torch.Generator().manual_seed(seed)
        loss = fit(model, task, generator, steps=steps, last_start=TESTED - TRAINED if random_start else 0)
        return tested(model, task, generator, loss)


def fit(
    model: Racer, task: str, generator: torch.Generator, *, steps: int, length: int = TRAINED, last_start: int = 0
) -> float:
    """Train a racer by Adam, the rate falling to 0; return the last loss in nats per answer.

    Args:
        last_start: the positions of a batch are numbered from a random one between 0 and this.
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, fused=True)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, step / 20, 3 * (steps + 1 - step) / steps)
        symbols, answers = TASKS[task](BATCH, length, generator)
        first = int(torch.randint(last_start + 1, (), generator=generator))
        loss = F.cross_entropy(model(symbols, first).flatten(0, 1), answers.flatten())
        last = take_step(optimizer, loss)
    return last


def tested(model: Racer, task: str, generator: torch.Generator, loss: float) -> Result:
    """Return how a racer does on `SEQUENCES` new sequences of either length, together with its last loss."""
    right, counts = (
        x.unflatten(0, (-1, BIN)).sum(dim=1) for x in _right(model, TASKS[task](SEQUENCES, TESTED, generator))
    )
    short = TASKS[task](SEQUENCES, TRAINED, generator)
    moved = [_right(model, short, first) for first in range(0, TESTED, TRAINED)]
    shares = [(correct.sum() / counted.sum()).item() for correct, counted in moved]
    return Result(accuracy=(right / counts).tolist(), moved=shares, loss=loss)


@torch.no_grad()
def _right(model: Racer, data: Data, first: int = 0) -> tuple[Float[Tensor, " position"], Float[Tensor, " position"]]:
    """Return, for each position, how many answers are right and how many count."""
    symbols, answers = data
    counts = answers != NOTHING
    right = (model(symbols, first).argmax(dim=-1) == answers) & counts
    return right.float().sum(dim=0), counts.float().sum(dim=0)


def record(seed: int) -> dict[str, Any]:
    """Return the accuracies of the full race: both tasks, all schemes, and sinusoids with random starts."""
    runs = {
        task: {scheme: race(task, scheme, seed=seed) for scheme in ("none", *SCHEMES)}
        | {"sinusoidal, random start": race(task, "sinusoidal", seed=seed, random_start=True)}
        for task in ("three back", "latest marked")
    }
    return {
        task: {name: [round(share, 3) for share in result.accuracy] for name, result in of_task.items()}
        for task, of_task in runs.items()
    }
