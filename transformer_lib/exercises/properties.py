"""What must hold of a right answer whatever it is given: tried on fresh inputs, for which no answer is stored."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import protocols, variations
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


UNTRAINED = ("sampling.",)  # whose pieces stand where nothing is learnt: no gradient need flow through them
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


def learns(exercise: Exercise, answer: Callable[..., Any]) -> bool:
    """Tell whether the right gradients flow through the answer, from its output back to its inputs, if any."""
    for case, right in zip(exercise.cases, exercise.right, strict=True):
        if right.errors or (other := variations.varied(case, variations.doubled)) is None:
            continue
        if protocols.run(exercise.kind, answer, variations.called(other, "with gradients"))[0].errors:
            return False
    return True


def unfit(exercise: Exercise, answer: Callable[..., Any]) -> str | None:
    """Return why an answer with the right values can't take the library's place; None if nothing speaks against it."""
    if exercise.replaces is None or exercise.replaces.startswith(UNTRAINED) or learns(exercise, answer):
        return None
    return (
        "no gradient flows back through it, or a wrong one (.item(), .detach(), torch.tensor(...)?), "
        "so nothing could learn."
    )
