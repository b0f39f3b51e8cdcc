"""From what came back to points: compared here, outside the sandbox, with the right values and with known mistakes."""

import builtins
from dataclasses import dataclass

from transformer_grader.task import Transcript
from transformer_lib.exercises import protocols, variations
from transformer_lib.exercises.declared import Exercise, KnownMistake, Outcome, Probe

FRAGILE = 0.75  # of the points, for an answer that is right on float32 as it comes, and wrong on the same numbers else
UNCHANGED = 0.0  # for an answer to a private variant that is the public one's
TOLD = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, Exception)}


@dataclass(frozen=True)
class Mark:
    """The mark of one exercise.

    Args:
        status: "right", "fragile", "misconception", "partly", "wrong", "error", "borrowed", "not attempted", "timeout",
            "crashed", "unreadable".
        misconception: the short name of the known mistake that the answer is, or seems to be.
        told: what the student may read; it holds no hidden input and nothing that the sandbox has sent as text.
    """

    exercise: str
    points: float
    out_of: int
    status: str
    told: str
    misconception: str | None = None


def mark(probe: Probe, exercise: Exercise, transcript: Transcript) -> Mark:
    """Return the mark of one exercise from a submission's transcript."""

    def given(status: str, told: str, share: float = 0.0, name: str | None = None) -> Mark:
        return Mark(probe.id, round(probe.points * share, 2), probe.points, status, told, name)

    if (lost := transcript.lost.get(probe.id)) is not None:
        return given(lost, LOST[lost])
    outcomes = [transcript.outcomes.get((probe.id, "", n)) for n in range(len(exercise.cases))]
    if None in outcomes:
        if transcript.trouble:
            return given(transcript.trouble[0], LOST[transcript.trouble[0]])
        return given("not attempted", f"No {probe.entry} was found in your notebook.")
    if probe.id in transcript.borrowed:
        return given("borrowed", BORROWED)
    if _is_stub(outcomes):
        return given("not attempted", f"{probe.entry} isn't written yet, or returns nothing.")
    verdicts = [
        protocols.agrees(got, wanted, exercise.tolerance, case.mentions)
        for got, wanted, case in zip(outcomes, exercise.right, exercise.cases, strict=True)
    ]
    if not all(verdicts):
        return _wrong(probe, exercise, outcomes, verdicts)
    if complaint := _fragile(exercise, transcript):
        return given("fragile", complaint, FRAGILE)
    return given("right", f"Right on all {len(verdicts)} hidden inputs.", 1.0)


BORROWED = (
    "This calls the library's own version of what you are to write, so there are no points for it yet. "
    "You are welcome to compare yours with it, and to build other answers on it; this piece should be yours."
)
LOST = {
    "timeout": "It took longer than it may, on inputs of the size of the public ones. An endless loop?",
    "crashed": "It ended Python, or took more memory than it may.",
    "unreadable": "The notebook can't be read.",
}


def _is_stub(outcomes: list[Outcome]) -> bool:
    nothing = all(not outcome.errors and (outcome.value is None or outcome.value is ...) for outcome in outcomes)
    return nothing or all("NotImplementedError" in outcome.errors for outcome in outcomes)


def _fragile(exercise: Exercise, transcript: Transcript) -> str | None:
    """Say in which other form of the same numbers the answer fails; None where it doesn't."""
    for (number, form, n), got in transcript.outcomes.items():
        if number == exercise.id and form and not protocols.agrees(got, exercise.right[n], exercise.tolerance):
            hint = variations.VARIATIONS[form][1]
            return f"Right on all hidden inputs, but not on the same numbers {form}. {hint}"
    return None


def _wrong(probe: Probe, exercise: Exercise, outcomes: list[Outcome], verdicts: list[bool]) -> Mark:
    """Return the mark of a wrong answer: the points of whole groups, or a named mistake's fraction if that's more."""
    mistake, everywhere = closest(exercise, outcomes, verdicts)
    names = [case.name for case, ok in zip(exercise.cases, verdicts, strict=True) if not ok]
    share = sum(g.points for g in probe.groups if not set(g.cases) & set(names)) / probe.points
    told = f"Right on {sum(verdicts)} of {len(verdicts)} hidden inputs; wrong on: {', '.join(names)}."
    status, error = "wrong", _error(outcomes, verdicts)
    if mistake is not None and everywhere:
        fractions = {one.name: one.fraction for one in probe.wrong}
        share, status = max(share, fractions.get(mistake.name, UNCHANGED)), "misconception"
        told += f" This looks like a mistake that many make: {mistake.sentence}"
    elif mistake is not None:
        told += f" On most of these it looks like this mistake: {mistake.sentence}"
    elif error:
        status, told = "error", f"{told} It raises {error}."
    if share and status != "misconception":
        status = "partly"
    earned = round(probe.points * min(share, 1.0), 2)
    return Mark(probe.id, earned, probe.points, status, told, mistake.name if mistake else None)


def closest(exercise: Exercise, outcomes: list[Outcome], verdicts: list[bool]) -> tuple[KnownMistake | None, bool]:
    """Return the known mistake that the answer equals on every input, or on most that are wrong; and which of these."""
    failing = [n for n, ok in enumerate(verdicts) if not ok]
    best, most = None, 0
    for mistake in exercise.wrong:
        pairs = zip(outcomes, mistake.outcomes, strict=True)
        alike = [n for n, (got, known) in enumerate(pairs) if protocols.agrees(got, known, exercise.tolerance)]
        if len(alike) == len(outcomes):
            return mistake, True
        hits = [n for n in failing if n in alike and (exercise.kind == "error" or not outcomes[n].errors)]
        if len(hits) > most:
            best, most = mistake, len(hits)
    return (best, False) if 2 * most > len(failing) else (None, False)


def _error(outcomes: list[Outcome], verdicts: list[bool]) -> str | None:
    """Return the name of the error that a wrong answer raises; a name of the student's own could hold an input."""
    raised = [o.errors[0] for o, ok in zip(outcomes, verdicts, strict=True) if o.errors and not ok]
    return None if not raised else raised[0] if raised[0] in TOLD else "an error"
