"""What authors of exercises need again and again: numbers to draw, and answers made from the right one.

Only `solutions/<chapter>/probes.py` use this; nothing of it ships as a value.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lib.exercises.declared import Probe


def draw(generator: torch.Generator, *shape: int, mean: float = 0.0, scale: float = 1.0) -> Float[Tensor, "..."]:
    """Return normal numbers with two decimals and a little, so that what is stored is exactly what was used."""
    return ((torch.randn(shape, generator=generator) * scale + mean) * 100).round() / 100 + 0.001


def sizes(generator: torch.Generator, count: int, low: int = 2, high: int = 6) -> list[int]:
    """Return as many sizes from low to high, no two alike, so that no axis can be taken for another."""
    return (torch.randperm(high - low + 1, generator=generator)[:count] + low).tolist()


def pick(generator: torch.Generator, low: int, high: int) -> int:
    """Return an integer from low to high."""
    return int(torch.randint(low, high + 1, (), generator=generator))


def probe(id: str, title: str, kind: str, entry: str, numbers: tuple[int, int, int], **more: Any) -> Probe:
    """Return a probe.

    Args:
        numbers: its points, its minutes and its difficulty.
        more: its other fields.
    """
    points, minutes, difficulty = numbers
    fields = {"points": points, "minutes": minutes, "difficulty": difficulty} | more
    return Probe(id=id, title=title, kind=kind, entry=entry, **fields)


def with_errors(right: Callable[..., Any], change: Callable[[Exception], Exception]) -> Callable[..., Any]:
    """Return the right answer, but that its errors are others.

    Args:
        change: makes the error that is raised from the right one.
    """

    def answer(*inputs: Any) -> Any:
        try:
            return right(*inputs)
        except (TypeError, ValueError) as error:
            raise change(error) from error

    return answer


def guarded(right: Callable[..., Any], answer: Callable[..., Any]) -> Callable[..., Any]:
    """Return an answer that raises what the right one raises, and else gives something of its own."""

    def both(*inputs: Any) -> Any:
        right(*inputs)
        return answer(*inputs)

    return both
