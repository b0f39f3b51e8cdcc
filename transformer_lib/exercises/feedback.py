"""What a reader is told: one small object, whose text is the same on every run."""

import textwrap
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import comparison, diagnosis, distributions, raised, relations, values
from transformer_lib.exercises.declared import Case, Exercise, Outcome

NOT_ATTEMPTED = "not attempted yet"
WIDTH = 100  # characters a line


@dataclass(frozen=True, repr=False)
class Feedback:
    """The result of a check: it prints as text, and counts as True if the answer is right.

    Args:
        status: "right", "not attempted yet", "misconception", "wrong", "error", "open" for a question, or "unfit": the
            values are right, but it can be no part of the library.
        misconception: the short name of the known mistake that the answer looks like.
    """

    exercise: str
    status: str
    text: str
    misconception: str | None = None

    def __bool__(self) -> bool:
        return self.status == "right"

    def __repr__(self) -> str:
        return self.text


def right(exercise: Exercise, unfit: str | None = None, note: str | None = None) -> Feedback:
    """Return what is said of a right answer, why the library can't use it, if so, and what else is worth knowing."""
    count = len(exercise.cases)
    lines = [f"{exercise.id} right: {exercise.entry} gives the right answer on all {count} inputs."]
    lines += [f"But {unfit} exercises.use(...) will refuse it."] if unfit else []
    lines += [f"Note: {note}"] if note else []
    return Feedback(exercise.id, "right", "\n".join(lines))


def not_attempted(exercise: Exercise, reason: str = "") -> Feedback:
    """Return what is said of a stub."""
    return Feedback(exercise.id, NOT_ATTEMPTED, f"{exercise.id} {NOT_ATTEMPTED}: {exercise.title}.{reason}")


def open_question(exercise: Exercise, answer: Any) -> Feedback:
    """Return the rubric of a question, which a person marks, and how long the answer is if there is one."""
    text = f"{exercise.id} is an open question: a person marks it, out of {exercise.points} points."
    if isinstance(answer, str) and answer.strip():
        text += f" Your answer has {len(answer.split())} words."
    lines = [f"  {points} {'point' if points == 1 else 'points'}: {line}" for points, line in exercise.rubric]
    return Feedback(exercise.id, "open", "\n".join([text, *lines]))


def wrong(
    exercise: Exercise,
    verdicts: list[bool],
    number: int,
    outcomes: list[Outcome],
    known: tuple[str, str] | None,
    partly: str,
) -> Feedback:
    """Return what is said of a wrong answer.

    Args:
        verdicts: for each case, whether the answer is right there.
        number: the case to show.
        known: name and sentence of the mistake that the answer looks like.
        partly: what is said if it looks like that mistake on some cases only.
    """
    case, wanted, got = exercise.cases[number], exercise.right[number], outcomes[number]
    status = "misconception" if known and not partly else "error" if got.errors else "wrong"
    lines = [f"{exercise.id} not right yet: {sum(verdicts)} of {len(verdicts)} inputs come out right."]
    if known:
        lines.append(textwrap.fill(f"{partly or 'This looks like a mistake that many make:'} {known[1]}", WIDTH))
    part, both = comparison.compared(got, wanted, case)
    lines += [f'On the input "{case.name}", {_call(exercise, case)}{part}:', *both]
    if status != "misconception":
        constant = None if any(verdicts) else relations.constant([outcome.value for outcome in outcomes])
        lines += [constant] if constant else _difference(exercise, outcomes, verdicts, number)
        lines += _pattern(exercise, verdicts)
    else:
        lines += _shapes(got, wanted)
    if status != "misconception" or exercise.kind == "error":
        lines += [textwrap.fill(hint, WIDTH) for hint in raised.hints(exercise, outcomes, number)]
    example = f'exercises.example("{exercise.id}", "{case.name}")'
    if exercise.kind == "module":
        lines.append(f"To try it yourself: {example} returns that input.")
    else:
        lines.append(f"To try it yourself: {exercise.entry}(*{example}.values())")
    return Feedback(exercise.id, status, "\n".join(lines), known[0] if known and not partly else None)


def unstable(exercise: Exercise, complaint: str) -> Feedback:
    """Return what is said of an answer that is right on the stored inputs only."""
    text = f"{exercise.id} not right yet: the inputs that ship come out right, but {complaint.rstrip('.?')}"
    return Feedback(exercise.id, "wrong", textwrap.fill(text + ("?" if complaint.endswith("?") else "."), WIDTH))


def edits(names: list[str]) -> str | None:
    """Return what is said of an answer that changes some of its arguments; None where there are none."""
    if not names:
        return None
    return f"it changes its argument {' and '.join(names)} in place, which spoils it for the caller. Work on a copy."


def _call(exercise: Exercise, case: Case) -> str:
    arguments = [f"{n} {list(v.shape)}" if isinstance(v, Tensor) else f"{n} = {v!r}" for n, v in case.inputs.items()]
    made = ", ".join(f"{name}={value!r}" for name, value in case.constructor.items())
    return f"{exercise.entry}{f'({made})' if made else ''}({', '.join(arguments)})"


def _difference(exercise: Exercise, outcomes: list[Outcome], verdicts: list[bool], number: int) -> list[str]:
    """Say how the two differ on an input, where that can be found out: in type, in shape, in numbers."""
    got, wanted = outcomes[number], exercise.right[number]
    if got.errors or wanted.errors:
        return []
    value, target, _ = comparison.differing(got.value, wanted.value)
    if not isinstance(target, Tensor):
        return [] if isinstance(value, type(target)) else [_type_wanted(value, type(target).__name__)]
    if not isinstance(value, Tensor):
        return [_type_wanted(value, "tensor")]
    lines = _shapes(got, wanted)
    if values.kind(value) != values.kind(target):
        lines.append(f"The numbers should be {values.kind(target)} ({target.dtype}), yours are {value.dtype}.")
    else:
        misleading = _misleading(exercise, outcomes, verdicts)
        lines += diagnosis.hints(value, target, exercise.cases[number].inputs, exercise.tolerance, misleading)
    return lines


def _misleading(exercise: Exercise, outcomes: list[Outcome], verdicts: list[bool]) -> set[diagnosis.Rule]:
    """Return the rules that one input might seem to follow, though another shows that they say nothing.

    Those of weights, unless weights are wanted on every input; and that it's close, unless all that's wrong is close.
    """
    weights = distributions.wanted([right.value for right in exercise.right if not right.errors])
    off = [
        comparison.differing(got.value, right.value)[:2]
        for got, right, ok in zip(outcomes, exercise.right, verdicts, strict=True)
        if not ok
    ]
    close = all(comparison.comparable(*both) and relations.close(*both, exercise.tolerance) for both in off)
    return (set() if weights else set(distributions.RULES)) | (set() if close else {diagnosis.rounded})


def _shapes(got: Outcome, wanted: Outcome) -> list[str]:
    value, target, _ = comparison.differing(got.value, wanted.value)
    if not isinstance(value, Tensor) or not isinstance(target, Tensor) or value.shape == target.shape:
        return []
    return [f"The shape should be {list(target.shape)}, yours is {list(value.shape)}."]


def _type_wanted(value: Any, wanted: str) -> str:
    extra = " (torch.from_numpy makes one, but gradients stop there)" if type(value).__name__ == "ndarray" else ""
    return f"{comparison.a(wanted).capitalize()} was wanted{extra}, yours is {comparison.a(type(value).__name__)}."


def _pattern(exercise: Exercise, verdicts: list[bool]) -> list[str]:
    """Say what the failing inputs have in common: an argument that only they have, or batch dimensions."""
    for name in sorted({name for case in exercise.cases for name in case.inputs}):
        if _only_failing([case.inputs.get(name) is not None for case in exercise.cases], verdicts):
            return [f"Without {name} all is right: look at what you do with it."]
    if _only_failing([_dimensions(case) > 2 for case in exercise.cases], verdicts, every=True):
        return ["Without batch dimensions all is right: count axes from the end (dim=-1, transpose(-2, -1))."]
    return []


def _only_failing(has: list[bool], verdicts: list[bool], every: bool = False) -> bool:
    """Tell whether all inputs without a trait come out right, and some (or every one) with it don't."""
    without = [ok for ok, there in zip(verdicts, has, strict=True) if not there]
    having = [ok for ok, there in zip(verdicts, has, strict=True) if there]
    return bool(without and having) and all(without) and not (any(having) if every else all(having))


def _dimensions(case: Case) -> int:
    return max((v.dim() for v in case.inputs.values() if isinstance(v, torch.Tensor)), default=0)
