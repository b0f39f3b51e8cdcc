"""Why do racers fall? New positions, distant keys or many of them; more training; a wrong axis (chapter 04)."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lib import checks, masks
from transformer_lib.experiments import extrapolation
from transformer_lib.experiments.extrapolation import SEQUENCES, TESTED, TRAINED, Racer

KEYS = ("all", "the last 32", "32, half of them far")
FROM = 128  # accuracies are those of the positions from here to the end


class WrongAxis(Racer):
    """A racer with sinusoids added along the batch: a sentence's number in the place of a token's position."""

    def __init__(self) -> None:
        super().__init__("sinusoidal", layers=1)

    def forward(
        self,
        symbols: Int[Tensor, "batch position"],
        first: int = 0,
        mask: Bool[Tensor, "position position"] | None = None,
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Return the logits of each place's answer, under the causal mask or another."""
        x = self.symbol(symbols) + self.sinusoids[: len(symbols)].unsqueeze(1)
        return self.answer(self.encoder(x, masks.causal_mask(symbols.size(1)) if mask is None else mask))


def visible(keys: str, length: int, generator: torch.Generator) -> Bool[Tensor, "query key"]:
    """Return which keys a query sees when a sequence is longer than any in training; never a later one.

    Args:
        keys: "all"; "the last 32", as many and as near as in training; or "32, half of them far": the last 16, and 16
            chosen at random among those 32 positions away or more (fewer where there aren't as many).
    """
    checks.one_of(KEYS, keys=keys)
    checks.positive(length=length)
    causal = masks.causal_mask(length)
    distance = torch.arange(length).unsqueeze(1) - torch.arange(length)
    if keys == "all":
        return causal
    if keys == "the last 32":
        return causal & (distance < TRAINED)
    half = TRAINED // 2
    chance = torch.rand(length, length, generator=generator).masked_fill(distance < TRAINED, -1.0)
    chosen = torch.zeros_like(causal).scatter(1, chance.topk(min(half, length), dim=1).indices, True)
    return causal & ((distance < half) | (chosen & (distance >= TRAINED)))


def accuracies(
    scheme: str, *, seed: int, steps: int = 300, layers: int = 2, random_start: bool = False
) -> dict[str, float]:
    """Train a racer on "three back" as the race does; return its accuracy at the end for each choice of keys."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, generator = Racer(scheme, layers), torch.Generator().manual_seed(seed)
        last_start = TESTED - TRAINED if random_start else 0
        extrapolation.fit(model, "three back", generator, steps=steps, last_start=last_start)
        return {keys: _at_the_end(model, keys, generator) for keys in KEYS}


@torch.no_grad()
def _at_the_end(model: Racer, keys: str, generator: torch.Generator) -> float:
    symbols, answers = extrapolation.three_back(SEQUENCES, TESTED, generator)
    said = model(symbols, mask=visible(keys, TESTED, generator)).argmax(dim=-1)
    return (said == answers)[:, FROM:].float().mean().item()


def along_the_wrong_axis(*, seed: int, steps: int = 300) -> extrapolation.Result:
    """Train and test a `WrongAxis` on "three back"."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, generator = WrongAxis(), torch.Generator().manual_seed(seed)
        return extrapolation.tested(
            model, "three back", generator, extrapolation.fit(model, "three back", generator, steps=steps)
        )


def record(seed: int) -> dict[str, Any]:
    """Return accuracies by keys, ALiBi's within the trained length after 1,200 steps, and the wrong axis's."""
    runs = {scheme: accuracies(scheme, seed=seed) for scheme in extrapolation.SCHEMES if scheme != "alibi"}
    runs["sinusoidal, random start"] = accuracies("sinusoidal", seed=seed, steps=600, layers=1, random_start=True)
    longer, wrong = (
        extrapolation.race("three back", "alibi", seed=seed, steps=1200),
        along_the_wrong_axis(seed=seed),
    )
    return {
        "keys": {name: {keys: round(share, 3) for keys, share in run.items()} for name, run in runs.items()},
        "alibi, 1200 steps": round(longer.between(0, TRAINED), 3),
        "wrong axis": {"accuracy": round(wrong.between(0, TRAINED), 3), "loss": round(wrong.loss, 3)},
    }
