"""What must hold of a right answer whatever it is given: tried on fresh inputs, for which no answer is stored."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import protocols, values
from transformer_lib.exercises.declared import Case, Exercise


def fresh(case: Case, seed: int) -> Case:
    """Return the case with other numbers in its floating-point inputs, of about the same size."""
    generator = torch.Generator().manual_seed(seed)
    inputs = {}
    for name, value in case.inputs.items():
        moved = isinstance(value, Tensor) and value.is_floating_point()
        noise = torch.randn(value.shape, generator=generator, dtype=value.dtype) if moved else None
        inputs[name] = value + noise / 2 if moved else value
    return Case(case.name, inputs, case.constructor, case.state, case.mentions, case.telling)


def rows_sum_to_one(output: Any, case: Case) -> str | None:
    """Demand weights of at least 0 in rows that sum to 1, or to 0 where the mask allows nothing."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return "a tensor of floating point was wanted"
    sums = output.detach().double().sum(dim=-1)
    wanted = torch.ones_like(sums)
    if isinstance(mask := case.inputs.get("mask"), Tensor):
        wanted = mask.expand(output.shape).any(dim=-1).to(sums.dtype)
    off = (sums - wanted).abs().nan_to_num(nan=1.0)
    if off.max() > 1e-4:
        worst = off.flatten().argmax()
        return f"a row sums to {sums.flatten()[worst]:.5g}, where {wanted.flatten()[worst]:.0f} was wanted"
    return None if output.min() >= -1e-6 else f"a weight is negative: {output.min():.2g}"


PROPERTIES: dict[str, Callable[[Any, Case], str | None]] = {"rows sum to 1": rows_sum_to_one}


def broken(exercise: Exercise, answer: Callable[..., Any], names: Mapping[str, str] | None = None) -> str | None:
    """Return what is wrong with the answer on fresh inputs; None if every property holds."""
    for number, (case, right) in enumerate(zip(exercise.cases, exercise.right, strict=True)):
        if right.errors or not exercise.properties:
            continue
        other = fresh(case, seed=1000 + number)
        outcome, _ = protocols.run(exercise.kind, answer, other, names)
        if outcome.errors:
            return f'on other numbers of the shapes of "{case.name}", it raised {outcome.errors[0]}: {outcome.message}'
        for name in exercise.properties:
            if complaint := PROPERTIES[name](outcome.value, other):
                return f'on other numbers of the shapes of "{case.name}", {complaint}'
    return None


@torch.enable_grad()
def learns(exercise: Exercise, answer: Callable[..., Any]) -> bool:
    """Tell whether gradients flow through the answer: from its output back to its floating-point inputs, if any."""
    case = exercise.cases[0]
    inputs = values.copied(case.inputs)
    leaves = [v.requires_grad_() for v in inputs.values() if isinstance(v, Tensor) and v.is_floating_point()]
    if not leaves:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of float(...) on what needs a gradient, which is found out here anyway
            output = protocols.CALL[exercise.kind](answer, case, inputs, None)
        first = output[0] if isinstance(output, list | tuple) else output
        gradients = torch.autograd.grad((first * first).sum(), leaves, allow_unused=True)
    except Exception:
        return False
    return all(gradient is not None for gradient in gradients)


def unfit(exercise: Exercise, answer: Callable[..., Any]) -> str | None:
    """Return why an answer with the right values can't take the library's place; None if nothing speaks against it."""
    if exercise.replaces is None:
        return None
    if borrows(exercise, answer):
        return f"it calls the library's {exercise.entry}, whose place it is to take."
    if not learns(exercise, answer):
        return "no gradient flows back through it (.item(), .detach(), torch.tensor(...)?), so nothing could learn."
    return None


def borrows(exercise: Exercise, answer: Callable[..., Any]) -> bool:
    """Tell whether the answer calls the piece of the library that it is to replace, itself or by way of another."""
    path, _, name = (exercise.replaces or "").rpartition(".")
    module = importlib.import_module(f"transformer_lib.{path}")
    piece, calls = getattr(module, name), []

    def watched(*arguments: Any, **named: Any) -> Any:
        calls.append(name)
        return piece(*arguments, **named)

    setattr(module, name, watched)
    try:
        for case in exercise.cases:
            protocols.run(exercise.kind, answer, case)
    finally:
        setattr(module, name, piece)
    return bool(calls)
