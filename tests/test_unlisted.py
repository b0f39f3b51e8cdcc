"""Answers that no probe lists: the checks and the grader must tell wrong ones from right ones all the same.

They stand in `tests/unlisted/`, a module for each chapter; some of them passed before the inputs that reject them came.
"""

import os
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tools import ROOT, exercise_data
from transformer_grader import assignment, marking
from transformer_grader.session import Call, Transcript
from transformer_lib.exercises import checking, originals, protocols, store, watching
from transformer_lib.exercises.declared import Exercise, Probe

pytestmark = pytest.mark.slow

SECRET = b"of these tests"
FOLDER = ROOT / "tests" / "unlisted"
CHAPTERS = {path.stem.removeprefix("chapter_"): exercise_data.load(path) for path in sorted(FOLDER.glob("chapter*.py"))}
BORROWED = exercise_data.load(FOLDER / "library.py").BORROWED


def listed(kind: str) -> list[Any]:
    """Return chapter, exercise, name and answer of all that are wrong, right, or right and yet not fit for use."""
    return [
        pytest.param(chapter, number, name, answer, id=f"{number}: {name}")
        for chapter, module in CHAPTERS.items()
        for number, answers in getattr(module, kind, {}).items()
        for name, answer in answers.items()
    ]


@cache
def hidden(chapter: str, number: str) -> tuple[Probe, Exercise, list[Call]]:
    """Return an exercise as one student's submission meets it."""
    work = assignment.load(chapter, ROOT)
    probe = next(probe for probe in work.probes if probe.id == number)
    exercise = assignment.hidden(work, probe, SECRET, "a student")
    return probe, exercise, assignment.plan([exercise], work, 0).calls


def marked(chapter: str, number: str, answer: Callable[..., Any]) -> marking.Mark:
    """Return what the grader makes of an answer on a student's hidden inputs."""
    probe, exercise, calls = hidden(chapter, number)
    transcript = Transcript(found={number: "name"})
    with watching.watching(originals.functions(originals.pieces(originals.paths(exercise)))) as watch:
        for call in calls:
            transcript.outcomes[call.key] = protocols.run(call.kind, answer, call.case)[0]
        transcript.borrowed |= {number} if watch.ran() else set()
    return marking.mark(probe, exercise, transcript)


@pytest.mark.parametrize(("chapter", "number", "name", "answer"), listed("WRONG"))
def test_a_wrong_answer_that_nobody_listed_is_rejected(chapter, number, name, answer):
    feedback = checking.judge(store.load(number), answer)
    assert not feedback, feedback


# The grader takes most of the time; the checks above try every answer, and a thorough run grades every one.
GRADED = listed("WRONG")[:: 1 if os.environ.get("TRANSFORMER_LIB_THOROUGH") == "1" else 4]


@pytest.mark.parametrize(("chapter", "number", "name", "answer"), GRADED)
def test_a_wrong_answer_that_nobody_listed_earns_less_than_all_points(chapter, number, name, answer):
    mark = marked(chapter, number, answer)
    assert mark.points < mark.out_of, mark


@pytest.mark.parametrize(("chapter", "number", "name", "answer"), listed("RIGHT"))
def test_a_right_answer_that_nobody_listed_is_accepted(chapter, number, name, answer):
    feedback = checking.judge(store.load(number), answer)
    assert feedback.status == "right", feedback
    mark = marked(chapter, number, answer)
    assert mark.points == mark.out_of, mark


@pytest.mark.parametrize(
    ("number", "name", "answer"),
    [pytest.param(n, name, one, id=f"{n}: {name}") for n, some in BORROWED.items() for name, one in some.items()],
)
def test_an_answer_that_calls_the_librarys_own_version_is_told_so(number, name, answer):
    feedback = checking.judge(store.load(number), answer)
    assert not feedback and "it calls the library's" in " ".join(feedback.text.split()), feedback
    mark = marked(number.partition(".")[0].zfill(2), number, answer)
    assert (mark.status, mark.points) == ("borrowed", 0), mark


@pytest.mark.parametrize(("chapter", "number", "name", "answer"), listed("UNFIT"))
def test_an_answer_with_right_values_that_is_unfit_for_use_is_told_so(chapter, number, name, answer):
    feedback = checking.judge(store.load(number), answer)
    assert feedback.status == "right" and "But no gradient flows back" in feedback.text, feedback


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_exercise_has_several_of_both(chapter):
    module = CHAPTERS[chapter]
    numbers = {probe.id for probe in assignment.load(chapter, ROOT).probes}
    assert set(module.WRONG) == set(module.RIGHT) == numbers
    assert all(len(answers) >= 6 for answers in module.WRONG.values())
    assert all(len(answers) >= 2 for answers in module.RIGHT.values())
