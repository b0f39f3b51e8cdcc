"""Every exercise of every chapter is tried on its own right and wrong answers, with public inputs and with others."""

import json
import math
import re
from functools import cache

import pytest
import torch

from tools import ROOT, exercise_data
from transformer_lib.exercises import authoring, checking, store
from transformer_lib.exercises.declared import PUBLIC_SEED, Exercise, Mistake, Probe

DECLARED = exercise_data.probes()
PROBES = {declared.id: declared for declared in DECLARED if isinstance(declared, Probe)}
MISTAKES = [(probe.id, mistake) for probe in PROBES.values() for mistake in probe.wrong]
RIGHT = [(probe.id, name) for probe in PROBES.values() for name in probe.right]
MANY = 20  # sets of sizes among those of 50 seeds
SEEDS = [PUBLIC_SEED, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 20261129))]


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


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", PROBES)
def test_no_two_answers_can_be_confused_and_no_blind_answer_passes(number: str, seed: int):
    assert exercise_data.confusions(PROBES[number], exercise(number, seed)) == []


@pytest.mark.parametrize("number", PROBES)
def test_what_is_given_differs_in_shape(number: str):
    cases = exercise(number, PUBLIC_SEED).cases
    assert len({tuple(tuple(getattr(v, "shape", [v])) for v in case.inputs.values()) for case in cases}) >= 3


def shapes(value: object) -> object:
    """Return what of an input doesn't change with the numbers in its tensors."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape)
    return tuple(map(shapes, value)) if isinstance(value, list | tuple) else value


@pytest.mark.slow
@pytest.mark.parametrize("number", PROBES)
def test_another_seed_gives_other_sizes(number: str):
    """Who knows the public inputs' sizes, or those of another student, must gain nothing by that."""
    found = set()
    for seed in range(1, 51):
        cases = PROBES[number].cases(7919 * seed)
        found.add(tuple((shapes(tuple(c.inputs.values())), shapes(tuple(c.constructor.values()))) for c in cases))
    assert len(found) >= MANY


def contradictions(text: str) -> list[str]:
    """Say which sentences of a feedback can't be true, or can't be true together."""
    words = " ".join(text.split())
    found = []
    some_right = re.search(r"not right yet: [1-9]\d* of", words)
    if some_right and "whatever the inputs" in words:
        found.append("some inputs come out right, yet the answer is one number")
    sums = re.findall(r"rows sum to (?:(\S+) to )?(\S+); each should sum to 1", words)
    if any({first or last, last} == {"1.000"} for first, last in sums):
        found.append("rows sum to 1.000, which is 1")
    for first, second in re.findall(r"from (-?[\d.e-]+) to (-?[\d.e-]+)[. ]", words):
        if first == second:
            found.append(f"from {first} to {second} is no range")
    if re.search(r"too (large|small) by -?0\.000\b|largest is -?0\.000\b|smallest is -?0\.000\b", words):
        found.append("a difference of 0.000")
    if re.search(r"(is|are) 1\.000( =.*?,)? times the right", words):
        found.append("1.000 times the right numbers are the right ones")
    both = re.search(r"  expected  (.*?)\n  got       (.*?)\n(?=\S)", text, re.DOTALL)
    if both and both.group(1) == both.group(2) and not re.search(r"The (shape|numbers) should be|was wanted", words):
        found.append("what was expected reads like what came")
    if "This looks like" in words and "On every input that comes out wrong" in words:
        found.append("two verdicts")
    return found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "2.1 not right yet: 5 of 6 inputs come out right. Every number is 0.000, whatever the inputs are.",
            "one number",
        ),
        ("Your rows sum to 1.000; each should sum to 1.", "which is 1"),
        ("Each row is off by a number of its own, from 0.100 to 0.100.", "no range"),
        ("Every number is too large by 0.000.", "difference of 0.000"),
        ("Every number is 1.000 times the right one.", "are the right ones"),
        ("  expected  [ 0.333]\n  got       [ 0.333]\nTo try it", "reads like"),
    ],
)
def test_contradictions_are_found(text: str, said: str):
    assert said in contradictions(text)[0]


TRUE = [
    "2.1 not right yet: 0 of 6 inputs come out right. Every number is 0.250, whatever the inputs are.",
    "Your rows sum to 0.998 to 1.000; each should sum to 1.",
    "  expected  [ 0.333]\n  got       [ 0.334]\nTo try it",
]


@pytest.mark.parametrize("text", TRUE)
def test_what_may_be_true_is_no_contradiction(text: str):
    assert contradictions(text) == []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "mistake"), MISTAKES, ids=[f"{n}: {m.name}" for n, m in MISTAKES])
def test_feedback_on_a_known_mistake_does_not_contradict_itself(number: str, mistake: Mistake):
    assert contradictions(checking.judge(exercise(number, PUBLIC_SEED), mistake.answer).text) == []


def each(value, change, keep=False):
    """Change what an answer returns; truth values and integers become numbers of floating point, unless kept."""
    if isinstance(value, tuple):
        return tuple(each(part, change, keep) for part in value)
    return change(value if keep or value.is_floating_point() else value.double())


def spoiling(number: str, change, keep=False):
    """Return the right answer, with a change to what comes out of it at each call."""
    reference = PROBES[number].reference
    if PROBES[number].kind != "module":
        return lambda *inputs: each(reference(*inputs), change, keep)

    class Spoilt(reference):
        def forward(self, *inputs):
            return each(super().forward(*inputs), change, keep)

    return Spoilt


SPOILT = {
    "a little more": lambda x: x + 3e-4,
    "a little larger": lambda x: x * 1.0005,
    "a thousandth larger": lambda x: x * 1.003,
    "a little less": lambda x: x - 4e-4,
    "rows a little off": lambda x: x + 3e-4 * torch.arange(x.size(-2) if x.dim() > 1 else 1.0).unsqueeze(-1),
    "the first number off": lambda x: torch.where(torch.arange(x.size(-1)) == 0, x + 3e-4, x),
    "negative in part": lambda x: torch.where(torch.arange(x.size(-1)) == 0, x - 2, x + 2 / max(x.size(-1) - 1, 1)),
    "one huge": lambda x: torch.where(torch.arange(x.size(-1)) == 0, x + 1e9, x),
    "zero": lambda x: x * 0,
    "its mean": lambda x: torch.full_like(x, x.mean().item()),
    "rounded": lambda x: (x * 100).round() / 100,
    "integers": lambda x: x.round().long(),
    "logarithms": lambda x: x.log(),
    "doubled axis": lambda x: torch.stack([x, x]),
    "no last axis": lambda x: x.sum(dim=-1),
}


def gives_integers(number: str) -> bool:
    """Tell whether an exercise's right outputs are tensors of integers."""
    value = exercise(number, PUBLIC_SEED).right[0].value
    parts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(part, torch.Tensor) and part.dtype == torch.int64 for part in parts)


SPOILING = [
    pytest.param(number, change, id=f"{number}-{name}")
    for number, probe in PROBES.items()
    for name, change in SPOILT.items()
    if probe.kind != "error" and not (name == "integers" and gives_integers(number))  # by right: nothing is spoilt
]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "change"), SPOILING)
def test_feedback_on_an_unknown_mistake_does_not_contradict_itself(number: str, change):
    feedback = checking.judge(exercise(number, PUBLIC_SEED), spoiling(number, change))
    assert not feedback and contradictions(feedback.text) == [], feedback


INTEGERS = [number for number, probe in PROBES.items() if probe.kind != "error" and gives_integers(number)]


@pytest.mark.parametrize("change", [lambda x: 2 * x, lambda x: 3 * x // 2, lambda x: x * x + 7, lambda x: -x - 1])
@pytest.mark.parametrize("number", INTEGERS)
def test_of_integer_ids_no_factor_is_told(number: str, change):
    feedback = checking.judge(exercise(number, PUBLIC_SEED), spoiling(number, change, keep=True))
    assert not feedback and not re.search(r"times|order; it's|half precision|logarithm", feedback.text), feedback


class Both(TypeError, ValueError):
    """An error that would pass for either."""


def two_at_once(error: Exception) -> Exception:
    return Both(str(error))


@pytest.mark.parametrize("number", [number for number, probe in PROBES.items() if probe.kind == "error"])
def test_an_error_of_two_classes_at_once_passes_for_neither(number: str):
    answer = authoring.with_errors(PROBES[number].reference, two_at_once)
    feedback = checking.judge(exercise(number, PUBLIC_SEED), answer)
    assert not feedback and "is a TypeError and a ValueError at once" in " ".join(feedback.text.split()), feedback


@pytest.mark.parametrize("path", sorted((ROOT / "exercises").glob("*/*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_that_is_handed_out_alone_leads_to_no_file(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert not re.findall(r"\]\((?!https?:|#)[^)]*\)", re.sub(r"`[^`]*`", "", text))


@pytest.mark.slow
@pytest.mark.parametrize("spoilt", range(6))
@pytest.mark.parametrize("number", [number for number, probe in PROBES.items() if probe.kind != "error"])
def test_what_is_zero_on_one_input_is_not_called_constant(number: str, spoilt: int):
    """One input alone comes out as zero, as where exp overflows and NaN is set to 0."""
    cases, calls = exercise(number, PUBLIC_SEED).cases, []

    def change(x):
        return x.double() * 0 if len(calls) == spoilt + 1 else x

    def counted(*inputs, **constructor):
        calls.append(1)
        return spoiling(number, change, keep=True)(*inputs, **constructor)

    if spoilt < len(cases):
        text = checking.judge(exercise(number, PUBLIC_SEED), counted).text
        assert f"{len(cases) - 1} of {len(cases)}" in text and contradictions(text) == []


SQUARE = ("causal mask", "as many keys as queries, no mask", "as many keys as queries, not causal")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wrong_factor_in_the_weights_has_one_explanation(seed: int):
    """All sizes, their roots and their products are unlike, but that causal masks need as many queries as keys."""
    for case in exercise("2.1", seed).cases:
        sizes = {size for name in ("query", "key") for size in case.inputs[name].shape if size > 1}
        numbers = [*sizes, *(math.sqrt(s) for s in sizes), *(a * b for a in sizes for b in sizes if a < b)]
        assert all(abs(a - b) > 0.01 for i, a in enumerate(numbers) for b in numbers[:i]), case.name
        names = [case.inputs["query"].size(-2), case.inputs["key"].size(-2), case.inputs["query"].size(-1)]
        assert len(set(names)) == (2 if case.name in SQUARE else 3)


def test_each_chapter_has_five_coding_exercises_and_two_questions():
    chapters = {declared.id.split(".")[0] for declared in DECLARED}
    for chapter in chapters:
        kinds = [declared.kind for declared in DECLARED if declared.id.split(".")[0] == chapter]
        assert sum(kind != "prose" for kind in kinds) >= 5 and kinds.count("prose") >= 2


def test_a_misconception_never_earns_all_points():
    for _, mistake in MISTAKES:
        assert 0 <= mistake.fraction < 1


@pytest.mark.slow
def test_the_stored_values_are_what_the_probes_give():
    assert exercise_data.problems() == []


def test_stored_values_are_plain_json_without_code():
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} isn't JSON")

    for path in (ROOT / "transformer_lib" / "exercise_data").glob("*"):
        text = path.read_text(encoding="utf-8")
        assert path.suffix == ".json" and path.stat().st_size < 80_000
        json.loads(text, parse_constant=refuse)
        assert "lambda" not in text and "def " not in text


def test_what_earns_a_questions_points_does_not_ship():
    for declared in DECLARED:
        if not isinstance(declared, Probe):
            shipped = store.written(exercise_data.built(declared))
            assert all(asked in shipped and earns not in shipped for _, asked, earns in declared.rubric)
