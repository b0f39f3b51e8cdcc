"""Whether inputs tell right from wrong, also from a table of the public answers with something wrong for the rest."""

from typing import Any

from torch import Tensor

from transformer_lib.exercises import protocols, values
from transformer_lib.exercises.declared import Case, Exercise, Outcome

MARGIN = 20  # how many tolerances the right answer and a wrong one must lie apart somewhere


def clearly(one: Outcome, other: Outcome, tolerance: float) -> bool:
    """Tell whether two outcomes differ by more than machines do."""
    return one.message != other.message or not protocols.agrees(one, other, MARGIN * tolerance)


def tells(exercise: Exercise) -> bool:
    """Tell whether every known mistake differs clearly from the right answer on some input."""
    return all(
        any(clearly(a, b, exercise.tolerance) for a, b in zip(mistake.outcomes, exercise.right, strict=True))
        for mistake in exercise.wrong
    )


def unlike(cases: list[Case], others: list[Case]) -> bool:
    """Tell whether some inputs differ from those that ship with the library."""
    return len(cases) != len(others) or any(
        not values.same(tuple(part[name] for name in part), tuple(other.get(name) for name in part), 0.0)
        for case, public in zip(cases, others, strict=True)
        for part, other in ((case.inputs, public.inputs), (case.state, public.state))
    )


def covered(exercise: Exercise, public: list[tuple[Case, Outcome]]) -> list[str]:
    """Return the known mistakes that such a table hides: they are right on each input for which it can't stand in.

    It is found by shapes, dtypes and plain values, and stands in for an input where the right outcome is its own.
    """
    table: dict[Any, list[Outcome]] = {}
    for case, right in public:
        table.setdefault(signature(case), []).append(right)
    fresh = [
        n
        for n, (case, right) in enumerate(zip(exercise.cases, exercise.right, strict=True))
        if not any(protocols.agrees(known, right, exercise.tolerance) for known in table.get(signature(case), ()))
    ]
    return [
        mistake.name
        for mistake in exercise.wrong
        if not any(clearly(mistake.outcomes[n], exercise.right[n], exercise.tolerance) for n in fresh)
    ]


def signature(value: Any) -> Any:
    """Return what a value, or a call, is, without the numbers of its tensors."""
    if isinstance(value, Case):
        return tuple(signature(part) for part in (value.inputs, value.constructor, value.state))
    if isinstance(value, Tensor):
        return value.dtype, tuple(value.shape)
    if isinstance(value, dict):
        return tuple((name, signature(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(signature(part) for part in value)
    return repr(value)
