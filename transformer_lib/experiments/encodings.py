"""Sinusoids of other bases and sizes, and tasks that need a place or none: what suits what? (chapter 04)"""

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lib import checks
from transformer_lib.experiments import extrapolation
from transformer_lib.experiments.extrapolation import D_MODEL, TESTED, Racer

SHORT = 12  # symbols in a sequence to be sorted
AMPLITUDES = {  # of the embeddings (standard deviation) and of the positions (a vector's length; their own is 4)
    "paper's sizes": (1.0, 4.0),
    "small embeddings": (0.02, 4.0),
    "both small": (0.02, 0.25),
    "small positions": (1.0, 0.25),
    "paper's, a sixteenth": (1 / 16, 0.25),
}


def sinusoids_with_base(length: int, d_model: int, base: float) -> Float[Tensor, "position d_model"]:
    """Return what `positional.sinusoidal_positions` does, with another number in the place of 10000."""
    checks.positive(length=length, d_model=d_model)
    checks.above_zero(base=base)
    angle = torch.arange(length).unsqueeze(1) * base ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(start_dim=1)


def with_base(base: float, *, seed: int, steps: int = 300) -> extrapolation.Result:
    """Run "three back" of the race with one layer, and with sinusoids of another base."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, generator = Racer("sinusoidal", layers=1), torch.Generator().manual_seed(seed)
        model.sinusoids = sinusoids_with_base(TESTED, D_MODEL, base)
        loss = extrapolation.fit(model, "three back", generator, steps=steps)
        return extrapolation.tested(model, "three back", generator, loss)


def with_amplitudes(embedding: float, position: float, *, seed: int, steps: int = 100) -> float:
    """Return one layer's loss on "three back" after so many steps, in nats per answer; guessing costs ln 16 = 2.77.

    Args:
        embedding: standard deviation of the embeddings' elements at the start.
        position: length of every position's vector; the sinusoids' own is sqrt(d_model / 2) = 4.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, generator = Racer("sinusoidal", layers=1), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            model.symbol.weight *= embedding
            model.sinusoids *= position / (D_MODEL / 2) ** 0.5
        return extrapolation.fit(model, "three back", generator, steps=steps)


def unmasked(task: str, scheme: str, *, seed: int, steps: int = 300) -> float:
    """Return the share of places answered right by an encoder, trained and tested on `SHORT` symbols.

    Args:
        task: "sort" or "rank".
    """
    checks.one_of(("sort", "rank"), task=task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, generator = Racer(scheme, causal=False), torch.Generator().manual_seed(seed)
        extrapolation.fit(model, task, generator, steps=steps, length=SHORT)
        symbols, answers = extrapolation.TASKS[task](256, SHORT, generator)
        with torch.no_grad():
            return (model(symbols).argmax(dim=-1) == answers).float().mean().item()
