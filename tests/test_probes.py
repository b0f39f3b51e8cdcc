"""Every exercise of every chapter is tried on its own right and wrong answers, with public inputs and with others."""

import json
from functools import cache

import pytest

from tools import ROOT, exercise_data
from transformer_lib.exercises import checking, store
from transformer_lib.exercises.declared import PUBLIC_SEED, Exercise, Mistake, Probe

DECLARED = exercise_data.probes()
PROBES = {declared.id: declared for declared in DECLARED if isinstance(declared, Probe)}
MISTAKES = [(probe.id, mistake) for probe in PROBES.values() for mistake in probe.wrong]
RIGHT = [(probe.id, name) for probe in PROBES.values() for name in probe.right]
SEEDS = [PUBLIC_SEED, 1, 20261129]


@cache
def exercise(number: str, seed: int) -> Exercise:
    if seed == PUBLIC_SEED:
        return store.load(number)
    return exercise_data.built(PROBES[number], seed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("number", "mistake"), MISTAKES, ids=[f"{n}: {m.name}" for n, m in MISTAKES])
def test_a_known_mistake_is_rejected_by_its_name(number: str, mistake: Mistake, seed: int):
    feedback = checking.judge(exercise(number, seed), mistake.answer)
    assert not feedback
    assert feedback.misconception == mistake.name
    assert " ".join(mistake.sentence.split()) in " ".join(feedback.text.split())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("number", "name"), RIGHT, ids=[f"{n}: {name}" for n, name in RIGHT])
def test_another_right_implementation_is_accepted(number: str, name: str, seed: int):
    feedback = checking.judge(exercise(number, seed), PROBES[number].right[name])
    assert feedback.status == "right", feedback


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", PROBES)
def test_no_two_answers_can_be_confused_and_no_blind_answer_passes(number: str, seed: int):
    assert exercise_data.confusions(PROBES[number], exercise(number, seed)) == []


@pytest.mark.parametrize("number", PROBES)
def test_what_is_given_differs_in_shape(number: str):
    cases = exercise(number, PUBLIC_SEED).cases
    assert len({tuple(tuple(v.shape) for v in case.inputs.values() if hasattr(v, "shape")) for case in cases}) >= 3


def test_each_chapter_has_five_coding_exercises_and_two_questions():
    chapters = {declared.id.split(".")[0] for declared in DECLARED}
    for chapter in chapters:
        kinds = [declared.kind for declared in DECLARED if declared.id.split(".")[0] == chapter]
        assert sum(kind != "prose" for kind in kinds) >= 5 and kinds.count("prose") >= 2


def test_a_misconception_never_earns_all_points():
    for _, mistake in MISTAKES:
        assert 0 <= mistake.fraction < 1


def test_the_stored_values_are_what_the_probes_give():
    assert exercise_data.problems() == []


def test_stored_values_are_plain_json_without_code():
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} isn't JSON")

    for path in (ROOT / "transformer_lib" / "exercise_data").glob("*"):
        text = path.read_text(encoding="utf-8")
        assert path.suffix == ".json" and path.stat().st_size < 60_000
        json.loads(text, parse_constant=refuse)
        assert "lambda" not in text and "def " not in text


def test_what_earns_a_questions_points_does_not_ship():
    for declared in DECLARED:
        if not isinstance(declared, Probe):
            shipped = store.written(exercise_data.built(declared))
            assert all(asked in shipped and earns not in shipped for _, asked, earns in declared.rubric)
