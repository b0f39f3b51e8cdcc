"""`check`: compare an answer with the right values, and with those of every known wrong answer."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from transformer_lib.exercises import comparison, feedback, originals, properties, protocols, store, values, variations
from transformer_lib.exercises.declared import Exercise, KnownMistake, Outcome
from transformer_lib.exercises.feedback import Feedback


def check(number: str, answer: Any = None, names: Mapping[str, str] | None = None) -> Feedback:
    """Return what is right or wrong with an answer; it never raises because of the answer.

    Args:
        number: the exercise, such as "2.1".
        answer: the reader's function or class, not called; None or ... if there is none yet.
        names: for a module: the parameters' names that the exercise asks for -> the reader's own.

    Raises:
        ValueError: there is no such exercise.
    """
    return judge(store.load(number), answer, names)


def example(number: str, case: str | None = None) -> dict[str, Any]:
    """Return one of the inputs that an exercise is checked with, the smallest unless a name is given.

    Raises:
        ValueError: there is no such exercise or input.
    """
    cases = {case.name: case for case in store.load(number).cases}
    if not cases or (case is not None and case not in cases):
        raise ValueError(f"the input of {number} must be one of {', '.join(map(repr, cases)) or 'none'}, got {case!r}")
    return values.copied(cases[case or next(iter(cases))].inputs)


def judge(exercise: Exercise, answer: Any, names: Mapping[str, str] | None = None) -> Feedback:
    """Return the feedback on an answer to an exercise that need not ship."""
    if exercise.kind == "prose":
        return feedback.open_question(exercise, answer)
    if answer is None or answer is ...:
        return feedback.not_attempted(exercise)
    if not callable(answer) or (exercise.kind == "module" and isinstance(answer, nn.Module)):
        return _not_callable(exercise, answer)
    try:
        return _judged(exercise, answer, names)
    except Exception as error:  # an answer may return anything; what can't be compared must not stop a notebook
        text = f"{exercise.id} not right yet: what {exercise.entry} returns can't be compared ({error})."
        return Feedback(exercise.id, "error", " ".join(text.split()))


def _judged(exercise: Exercise, answer: Callable[..., Any], names: Mapping[str, str] | None) -> Feedback:
    """Return the feedback on an answer that can be called."""
    runs = [protocols.run(exercise.kind, answer, case, names) for case in exercise.cases]
    outcomes = [outcome for outcome, _ in runs]
    if (stub := _stub(exercise, outcomes)) is not None:
        return stub
    verdicts = [
        protocols.agrees(got, wanted, exercise.tolerance, case.mentions)
        for got, wanted, case in zip(outcomes, exercise.right, exercise.cases, strict=True)
    ]
    if not all(verdicts):
        return _wrong(exercise, outcomes, verdicts)
    touched = {
        name
        for case, (_, after) in zip(exercise.cases, runs, strict=True)
        for name in values.edited(case.inputs, after)
    }
    complaint = (
        feedback.edits(sorted(touched))
        or originals.borrowed(exercise, answer, names)
        or properties.broken(exercise, answer, names)
        or variations.broken(exercise, answer, names)
    )
    if complaint:
        return feedback.unstable(exercise, complaint)
    return feedback.right(exercise, properties.unfit(exercise, answer), variations.narrows(exercise, answer, names))


def _not_callable(exercise: Exercise, answer: Any) -> Feedback:
    what = comparison.described(answer)
    text = (
        f"{exercise.id}: pass {exercise.entry} itself, not what comes of calling it: "
        f'exercises.check("{exercise.id}", {exercise.entry}); got {what}.'
    )
    return Feedback(exercise.id, "error", text)


def _stub(exercise: Exercise, outcomes: list[Outcome]) -> Feedback | None:
    """Return "not attempted" for a stub: it raises NotImplementedError, or gives back nothing, whatever it's given."""
    if all("NotImplementedError" in outcome.errors for outcome in outcomes):
        return feedback.not_attempted(exercise)
    if all(not outcome.errors and (outcome.value is None or outcome.value is ...) for outcome in outcomes):
        return feedback.not_attempted(exercise, " (It returned nothing; if you have written it, is a return missing?)")
    return None


def _wrong(exercise: Exercise, outcomes: list[Outcome], verdicts: list[bool]) -> Feedback:
    """Name the mistake that the answer equals on every input; failing that, the one it equals most often."""
    failing = [number for number, ok in enumerate(verdicts) if not ok]
    best, shared, nearest = None, [], (0, 0)
    for mistake in exercise.wrong:
        alike = [n for n in range(len(outcomes)) if _alike(exercise, outcomes[n], mistake, n)]
        if len(alike) == len(outcomes):
            return _said(exercise, verdicts, failing[0], outcomes, mistake, "")
        hits = [n for n in failing if n in alike and (exercise.kind == "error" or not outcomes[n].errors)]
        if hits and (len(hits), len(alike)) > nearest:  # of two alike where it's wrong, the one that's right elsewhere
            best, shared, nearest = mistake, hits, (len(hits), len(alike))
    if best is None or 2 * len(shared) <= len(failing):  # on a few inputs any two mistakes may agree
        return _said(exercise, verdicts, failing[0], outcomes, None, "")
    if len(shared) == len(failing):
        partly = "On every input that comes out wrong, it looks like this mistake:"
    else:
        partly = f"On {len(shared)} of the {len(failing)} inputs that come out wrong, it looks like this mistake:"
    return _said(exercise, verdicts, shared[0], outcomes, best, partly)


def _alike(exercise: Exercise, got: Outcome, mistake: KnownMistake, number: int) -> bool:
    return protocols.agrees(got, mistake.outcomes[number], exercise.tolerance)


def _said(
    exercise: Exercise,
    verdicts: list[bool],
    number: int,
    outcomes: list[Outcome],
    mistake: KnownMistake | None,
    partly: str,
) -> Feedback:
    known = (mistake.name, mistake.sentence) if mistake else None
    return feedback.wrong(exercise, verdicts, number, outcomes, known, partly)
