"""What must not matter to a right answer: float64 for float32, how numbers lie in memory, and an earlier call."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import protocols, ways
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


def again(x: Tensor) -> Tensor:
    """Return the tensor as it is: what counts is the second call with it."""
    return x


def with_gradients(x: Tensor) -> Tensor:
    """Return numbers in float64: a gradient is compared with small differences."""
    return doubled(x)


VARIATIONS: dict[str, tuple[Change, str]] = {
    "in float64": (doubled, "Is a dtype fixed somewhere (torch.zeros without dtype=, .float())?"),
    "in memory that isn't contiguous": (scattered, "reshape works there, view doesn't."),
    "in a second call": (again, "Is something kept from the first call, or is what was given changed in place?"),
    "with gradients": (with_gradients, "Does .detach(), .item(), .data, no_grad or writing in place cut them off?"),
}
WAYS = {again: "twice", with_gradients: "with gradients"}


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
    """Return the case with its tensors changed, or called in another way; None where that changes nothing."""
    if change is with_gradients and (not case.state or "caches" in case.inputs):
        return None  # of functions only numbers are wanted; and what is cached isn't learnt from
    inputs = {name: change(value) if isinstance(value, Tensor) else value for name, value in case.inputs.items()}
    if change in WAYS:
        return called(replace(case, inputs=inputs), WAYS[change])
    tensors = [(old, inputs[name]) for name, old in case.inputs.items() if isinstance(old, Tensor)]
    if all(new.dtype == old.dtype and new.stride() == old.stride() for old, new in tensors):
        return None
    return replace(case, inputs=inputs)


def called(case: Case, way: str) -> Case:
    """Return the case, to be called in one of the ways that `ways` knows."""
    return replace(case, constructor=case.constructor | {ways.WAY: way})
