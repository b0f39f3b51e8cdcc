"""How many target tokens a second does each library train on? The same batches of Multi30k, on one thread.

`python -m benchmarks.training NAME` prints one contender's CPU seconds for some batches; `run` lets them take turns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import corpus, rounds, translators
from benchmarks.translators import SIZES, TorchTransformer
from transformer_lib import fast, training
from transformer_lib.data import Batch

TORCH, OURS = "torch.nn.Transformer, float32", "this book, fast, default"
BATCHES = 4  # a round
STEP_SIZE = 1e-4
Loss = Callable[[nn.Module, Batch], Tensor]


@dataclass
class Trainee:
    """A model with all that one training step of it takes."""

    make: Callable[[], nn.Module]
    loss: Loss = translators.logits_loss
    precision: torch.dtype = torch.float32
    fused: bool = False  # Adam in one kernel
    ours: bool = False  # the library's fast forms
    parts: dict[str, Any] = field(default_factory=dict)

    def prepare(self, batch: Batch) -> None:
        """Make the model from seed 0 and its optimiser; one forward pass lets lazy layers learn their sizes."""
        torch.manual_seed(0)
        model = self.make().train()
        with torch.no_grad():
            model(batch.source, batch.target_input)
        optimizer = torch.optim.Adam(model.parameters(), lr=STEP_SIZE, betas=(0.9, 0.98), eps=1e-9, fused=self.fused)
        self.parts = {"model": model, "optimizer": optimizer}

    def steps(self, batches: list[Batch]) -> list[float]:
        """Take a step on each batch; return the losses."""
        if not self.parts:
            self.prepare(batches[0])

        def loss(model: nn.Module, batch: Batch) -> Tensor:
            with training.autocast("cpu", self.precision):
                return self.loss(model, batch)

        with fast.enabled() if self.ours else nullcontext():
            parts = self.parts["model"], batches, loss, self.parts["optimizer"], lambda step: STEP_SIZE
            return list(training.train(*parts))


def trainees() -> dict[str, Trainee]:
    """Return the contenders; those whose package isn't installed are left out."""
    low = training.best_precision("cpu")
    found = {
        TORCH: Trainee(lambda: TorchTransformer(SIZES)),
        "torch.nn.Transformer, autocast": Trainee(lambda: TorchTransformer(SIZES), precision=low),
        "torch.nn.Transformer as ours, float32": Trainee(_as_ours, fused=True),
        "torch.nn.Transformer as ours, autocast": Trainee(_as_ours, precision=low, fused=True),
        "this book, as listed": Trainee(translators.ours, training.translation_loss),
        "this book, fast, float32": Trainee(translators.ours, fast.translation_loss, fused=True, ours=True),
        OURS: Trainee(translators.ours, fast.translation_loss, low, fused=True, ours=True),
    }
    for name, make in translators.installed().items():
        found[f"{name}, float32"] = Trainee(lambda make=make: make(SIZES))
        found[f"{name}, autocast"] = Trainee(lambda make=make: make(SIZES), precision=low)
    return found


def _as_ours() -> nn.Module:
    """Return torch's module with the book's choices: one table, and dropout only where the paper has it."""
    return TorchTransformer(SIZES, tied=True, paper_dropout=True)


def products(batch: Batch) -> list[tuple[int, int, int]]:
    """Return (rows, width in, width out) of each product with a weight matrix in the forward pass over a batch."""
    d, source, target = SIZES.d_model, batch.source.numel(), batch.target_input.numel()
    inner = [(d, SIZES.d_ff), (SIZES.d_ff, d)]
    encoder = [(source, *sides) for sides in [(d, 3 * d), (d, d), *inner]]
    decoder = [(target, *sides) for sides in [(d, 3 * d), (d, d), (d, d), (d, d), *inner]] + [(source, d, 2 * d)]
    return SIZES.layers * (encoder + decoder) + [(target, d, SIZES.vocabulary)]


def multiply(batches: list[Batch], precision: torch.dtype) -> None:
    """Compute the products that a step can't do without: for each of `products`, one forward and two backward."""
    for batch in batches:
        for rows, wide, narrow in products(batch):
            x, weight = torch.ones(rows, wide, dtype=precision), torch.ones(narrow, wide, dtype=precision)
            y = x @ weight.T
            y @ weight  # the gradient of x has this shape, and that of the weight the next one
            y.T @ x


def contenders() -> dict[str, Callable[[list[Batch]], Any]]:
    """Return what each contender does with the batches: a step on each, or nothing but the products."""
    found: dict[str, Callable[[list[Batch]], Any]] = {name: each.steps for name, each in trainees().items()}
    for name, precision in (("float32", torch.float32), ("default", training.best_precision("cpu"))):
        found[f"products with the weights alone, {name}"] = partial(multiply, precision=precision)
    return found


def run(count: int = rounds.ROUNDS) -> dict[str, Any]:
    """Return each contender's target tokens a second, and its ratio to `torch.nn.Transformer` in float32."""
    tokens = float(sum(batch.target_tokens for batch in corpus.training_batches()[:BATCHES]))
    kept = [name + rounds.KEPT for name in trainees() if name.startswith(("torch", "this book, fast"))]
    seconds = rounds.apart("training", [*contenders(), *kept, OURS + rounds.FEW], count)
    return {"target tokens a round": tokens, "rows": rounds.ratios(seconds, TORCH, dict.fromkeys(seconds, tokens))}


def main() -> None:
    """Train one contender on the batches twice; print the seconds of the second time."""
    steps, batches = contenders()[rounds.settled(sys.argv[1])], corpus.training_batches()[:BATCHES]
    rounds.print_seconds(lambda: steps(batches))


if __name__ == "__main__":
    main()
