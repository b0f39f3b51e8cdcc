"""What must not matter to a right answer: float64 for float32, and how numbers lie in memory."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import protocols
from transformer_lib.exercises.declared import Case, Exercise

Change = Callable[[Tensor], Tensor]


def doubled(x: Tensor) -> Tensor:
    """Return numbers of floating point in float64; others as they are."""
    return x.double() if x.is_floating_point() else x


def scattered(x: Tensor) -> Tensor:
    """Return the same numbers, the last two axes exchanged in memory; a vector with gaps."""
    if x.dim() > 1:
        return x.transpose(-2, -1).contiguous().transpose(-2, -1)
    return x.repeat_interleave(2)[::2] if x.dim() else x


VARIATIONS: dict[str, tuple[Change, str]] = {
    "in float64": (doubled, "Is a dtype fixed somewhere (torch.zeros without dtype=, .float())?"),
    "in memory that isn't contiguous": (scattered, "reshape works there, view doesn't."),
}


def broken(exercise: Exercise, answer: Callable[..., Any], names: Mapping[str, str] | None = None) -> str | None:
    """Return what goes wrong where the stored numbers are passed in another form; None if nothing does."""
    for case, right in zip(exercise.cases, exercise.right, strict=True):
        for how, (change, why) in {} if right.errors else VARIATIONS.items():
            if (other := varied(case, change)) is None:
                continue
            got, _ = protocols.run(exercise.kind, answer, other, names)
            told = f'on the numbers of "{case.name}" {how}'
            if got.errors:
                return f"{told} it raises {got.errors[0]}: {got.message.rstrip('.')}. {why}"
            if not protocols.agrees(got, right, exercise.tolerance):
                return f"{told} something else comes out. {why}"
    return None


def narrows(exercise: Exercise, answer: Callable[..., Any], names: Mapping[str, str] | None = None) -> str | None:
    """Return a note where numbers given in float64 come back in float32, with half of their digits; None otherwise."""
    for case, right in zip(exercise.cases, exercise.right, strict=True):
        if right.errors or (other := varied(case, doubled)) is None:
            continue
        got, _ = protocols.run(exercise.kind, answer, other, names)
        parts = got.value if isinstance(got.value, list | tuple) else [got.value]
        if any(isinstance(part, Tensor) and part.dtype == torch.float32 for part in parts):
            return "given float64, it returns float32: torch.zeros and torch.tensor need dtype=, and .float() rounds."
    return None


def varied(case: Case, change: Change) -> Case | None:
    """Return the case with its tensors changed; None where that changes nothing."""
    inputs = {name: change(value) if isinstance(value, Tensor) else value for name, value in case.inputs.items()}
    tensors = [(old, inputs[name]) for name, old in case.inputs.items() if isinstance(old, Tensor)]
    if all(new.dtype == old.dtype and new.stride() == old.stride() for old, new in tensors):
        return None
    return replace(case, inputs=inputs)
