"""Hints for an answer that raises an error, or that should have raised one."""

from transformer_lib.exercises import comparison, protocols
from transformer_lib.exercises.declared import Case, Exercise, Outcome

SIZES = ("must match the size of tensor", "must match the existing size", "shapes cannot be multiplied")


def hints(exercise: Exercise, outcomes: list[Outcome], number: int) -> list[str]:
    """Return what is to be said where one of the two is an error; nothing where both are values."""
    case, wanted, got = exercise.cases[number], exercise.right[number], outcomes[number]
    if wanted.errors:
        return [_unlike(got, wanted, case)]
    return _unwanted(exercise, outcomes, got, case) if got.errors else []


def _unlike(got: Outcome, wanted: Outcome, case: Case) -> str:
    name = wanted.errors[0]
    if not got.errors:
        return f"No error is raised here, where {name} was wanted: {comparison.described(got.value)} comes back."
    if name in got.errors and protocols.mixed(got) and not protocols.mixed(wanted):
        return f"{got.errors[0]} is a TypeError and a ValueError at once. Say which one it is: {name} was wanted."
    if name in got.errors:
        missing = [f"[{w}]" if ", " in w else w for w in case.mentions if w.lower() not in got.message.lower()]
        return f"{name} is right, but its text lacks {' and '.join(missing)}."
    if "AssertionError" in got.errors:
        return f"An assertion isn't enough, since python -O leaves it out: raise {name}."
    where = " It comes from inside torch: catch it and raise your own." if got.errors[0] == "RuntimeError" else ""
    return f"{got.errors[0]} is raised where {name} was wanted.{where}"


def _unwanted(exercise: Exercise, outcomes: list[Outcome], got: Outcome, case: Case) -> list[str]:
    given = {name: value for other in exercise.cases for name, value in other.inputs.items()}
    absent = sorted(given.keys() - case.inputs.keys())
    told = "NoneType" in got.message or "missing" in got.message and "required" in got.message
    if absent and (told or _only_without(absent[0], exercise, outcomes)):
        if isinstance(given[absent[0]], (int, float)):
            return [f"No {absent[0]} is passed here: give it a default in the signature, the one that the task names."]
        return [f"No {absent[0]} is passed here: it may be None ({absent[0]}=None), and then there's nothing to apply."]
    if any(words in got.message for words in SIZES):
        text = (
            "Two tensors' axes don't line up. Axes are matched from the last; to let every row of one meet every row "
        )
        return [text + "of the other, give each an axis of size 1 for the other's (unsqueeze)."]
    return []


def _only_without(name: str, exercise: Exercise, outcomes: list[Outcome]) -> bool:
    """Tell whether each input without an argument raises an error, and none with it does."""
    pairs = zip(exercise.cases, outcomes, strict=True)
    return all(bool(outcome.errors) == (name not in case.inputs) for case, outcome in pairs)
