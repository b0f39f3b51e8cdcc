"""The grader on the book's own chapters, with torch: solutions earn everything, known mistakes are named."""

import builtins
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import grading_cases as cases
import pytest
import torch

from tools import ROOT
from transformer_grader import assignment, batch, cli, marking, recalled, roster, sandbox, variant
from transformer_grader.limits import Limits
from transformer_grader.task import Transcript
from transformer_lib.exercises import checking, protocols, store, values
from transformer_lib.exercises.declared import PUBLIC_SEED

SECRET = b"of the tests, and of nothing else"
CHAPTERS = sorted(
    path.parent.name[:2]
    for path in (ROOT / "solutions").glob("*/probes.py")
    if list((ROOT / "exercises" / path.parent.name).glob("*.ipynb"))
)
LIMITS = replace(Limits(), start_seconds=120.0, cell_seconds=60.0, call_seconds=20.0, total_seconds=400.0)
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap isn't installed")


def notebook_of(folder: str, chapter: str) -> Path:
    return next((ROOT / folder).glob(f"{chapter}_*/*.ipynb"))


def graded(work, notebooks: dict[str, bytes], place: Path, limits=LIMITS):
    """Return what each student's notebook earns, in order, from files below a folder."""
    for student, data in notebooks.items():
        (place / "in" / student).mkdir(parents=True)
        (place / "in" / student / f"{work.stem}.ipynb").write_bytes(data)
    run = batch.Batch(work, sandbox.bubblewrap(), SECRET, limits, 2, quiet=True)
    found, _ = run.grade(place / "in", [roster.Student(student) for student in notebooks], place / "out")
    return found


def transcript_of(exercise, task, answer) -> Transcript:
    """Return what a sandbox would send for an answer that is a function of ours."""
    found = Transcript(found={exercise.id: "name"})
    for call in task.calls:
        found.outcomes[call.key] = protocols.run(call.kind, answer, call.case)[0]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.parametrize("student", ["first", "second"])
def test_hidden_inputs_tell_right_from_wrong_and_name_the_mistake(chapter, student):
    work = assignment.load(chapter, ROOT)
    for probe in work.probes:
        exercise = assignment.hidden(work, probe, SECRET, student)
        task = assignment.plan([exercise], work, 0)
        for name, answer in {"reference": probe.reference, **probe.right}.items():
            mark = marking.mark(probe, exercise, transcript_of(exercise, task, answer))
            assert mark.status == "right" and mark.points == probe.points, (probe.id, name, mark)
        for mistake in probe.wrong:
            mark = marking.mark(probe, exercise, transcript_of(exercise, task, mistake.answer))
            assert mark.misconception == mistake.name, (probe.id, mistake.name, mark)
            assert mark.points == round(mistake.fraction * probe.points, 2)


class Replay:
    """An answer that holds the right outcomes of the public inputs, and else is mistaken."""

    def __init__(self, probe, mistake, looks):
        self.mistake, self.looks, self.public = mistake, looks, {}
        for case in probe.cases(PUBLIC_SEED):
            outcome = protocols.run(probe.kind, probe.reference, case)[0]
            self.public.setdefault(looks(case.inputs.values()), outcome)

    def __call__(self, *inputs):
        if (known := self.public.get(self.looks(inputs))) is None:
            return self.mistake(*inputs)
        if known.errors:
            raise getattr(builtins, known.errors[0])(f"{known.message} {' '.join(map(told, inputs))}")
        return values.copied(known.value)


def exact(inputs):
    """Return all that inputs are; float64 counts as float32."""
    return repr([x.float().tolist() if isinstance(x, torch.Tensor) else x for x in inputs])


def shapes(inputs):
    """Return what inputs are, but for the numbers of their tensors."""
    return repr([(x.shape, x.dtype) if isinstance(x, torch.Tensor) else x for x in inputs])


def told(value):
    """Return whatever an error's text could be asked to say of a value."""
    is_tensor = isinstance(value, torch.Tensor)
    return f"{list(value.shape)} {value.dtype} {value.tolist()}" if is_tensor else f"{value} {type(value)}"


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.parametrize("student", ["first", "second", "third"])
def test_the_public_answers_and_a_known_mistake_earn_less_than_everything(chapter, student):
    work, passed = assignment.load(chapter, ROOT), []
    for probe in (probe for probe in work.probes if probe.kind != "module"):
        exercise = assignment.hidden(work, probe, SECRET, student)
        task = assignment.plan([exercise], work, 0)
        for mistake in probe.wrong:
            for looks in (exact, shapes):
                answer = Replay(probe, mistake.answer, looks)
                mark = marking.mark(probe, exercise, transcript_of(exercise, task, answer))
                passed += [(probe.id, mistake.name, looks.__name__)] * (mark.points >= probe.points)
        passed += [(probe.id, name) for name in assignment.recallable(work, probe, SECRET, student)]
    assert passed == []


FEW = """
def few(seed):
    return [Case("fits", {"n": 2 + seed % 90}), Case("below zero", {"n": -3}, mentions=("-3",))]

PROBES = [replace(PROBES[2], cases=few)]
"""


def test_a_probe_whose_errors_are_always_the_public_ones_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "solutions" / "09_toy").mkdir(parents=True)
    source = "from dataclasses import replace\n" + cases.PROBES
    monkeypatch.setattr(cli.probe, "trusted", lambda *given: None)
    for text, named in ((source, False), (source + FEW, True)):
        (tmp_path / "solutions" / "09_toy" / "probes.py").write_text(text)
        assert cli.main(["check", "09", "--book", str(tmp_path)]) == 0
        line = "9.3: a table of the public answers, and else this mistake, could earn all points: nothing refused."
        assert (line in capsys.readouterr().out.splitlines()) == named


def test_the_refused_names_of_layers_are_a_student_s_own():
    work = only("01", "1.6")
    own, public = (
        {c.inputs["layer"] for c in some if "the name that came" in c.telling}
        for some in (assignment.hidden(work, work.probes[0], SECRET, "first").cases, work.probes[0].cases(PUBLIC_SEED))
    )
    assert len(own) == 4 and len(own - public) >= 3


def test_hidden_inputs_are_another_student_s_neither_nor_public():
    work = assignment.load("02", ROOT)
    probe = work.probes[0]
    public = list(probe.cases(0))
    first, again, second = (
        assignment.hidden(work, probe, SECRET, student).cases for student in ("first", "first", "second")
    )
    assert recalled.unlike(list(first), public) and recalled.unlike(list(first), list(second))
    assert not recalled.unlike(list(first), list(again))
    orders = [
        [c.key for c in assignment.plan([assignment.hidden(work, probe, SECRET, "first")], work, order).calls]
        for order in (1, 2)
    ]
    assert orders[0] != orders[1] and set(orders[0]) == set(orders[1])


@pytest.mark.slow
@needs_bwrap
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_solution_earns_everything_and_an_exercise_nothing(chapter, tmp_path):
    work = assignment.load(chapter, ROOT)
    notebooks = {folder: notebook_of(folder, chapter).read_bytes() for folder in ("solutions", "exercises")}
    solution, exercise = graded(work, notebooks, tmp_path)
    assert solution.status == "graded" and solution.code_points == work.out_of, solution
    assert set(solution.open) == {question.id for question in work.questions}
    assert exercise.status == "graded" and exercise.code_points == 0 and not exercise.open, exercise
    assert {mark.status for mark in exercise.marks} == {"not attempted"}


WRAPPED = """

class {mine}(nn.Module):
    def __init__(self, *sizes, **named):
        super().__init__()
        self.within = {whole}(*sizes, **named)

    def forward(self, *inputs, **named):
        return self.within(*inputs, **named)
"""


def renamed(work, chapter: str, stubs: bool) -> bytes:
    """Return a solution whose answers, and modules' parameters, have names of their own, among all the given cells.

    Args:
        stubs: whether the given stubs stay, too.
    """
    solved = {cell["id"]: "".join(cell["source"]) for cell in read(notebook_of("solutions", chapter))}
    own, cells = {probe.entry: f"my_{probe.entry}" for probe in work.probes}, []
    pattern = re.compile(rf"(?<![\w.])({'|'.join(own)})(?=\W)(?!\s*=[^=])")
    by_id = {f"answer-{probe.id.replace('.', '-')}": probe for probe in work.probes}
    for cell in read(notebook_of("exercises", chapter)):
        if (probe := by_id.get(cell["id"])) is None:
            cells.append(cell)
            continue
        source = pattern.sub(lambda found: own[found.group(1)], solved[cell["id"]])
        mine, names = own[probe.entry], ""
        if probe.kind == "module":
            mine, state = f"Mine_{probe.entry}", next(iter(probe.cases(0))).state
            source += WRAPPED.format(mine=mine, whole=own[probe.entry])
            names = f", names={ {name: f'within.{name}' for name in state} }"
        check = f'exercises.check("{probe.id}", {mine}{names})'
        cells += [cell] * stubs + [cases.code(source), cases.code(check)]
    return json.dumps({"cells": cells}).encode()


def read(path: Path) -> list[dict]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


@pytest.mark.slow
@needs_bwrap
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_own_names_earn_everything_among_the_given_cells(chapter, tmp_path):
    work = assignment.load(chapter, ROOT)
    notebooks = {name: renamed(work, chapter, stubs) for name, stubs in (("no stubs", False), ("stubs", True))}
    found = graded(work, notebooks, tmp_path)
    off = [(one.student, mark, one.cells) for one in found for mark in one.marks if mark.status != "right"]
    assert not off


SPELT = {
    "as": ("from transformer_lib.exercises import check as c", 'c("2.1", mine)'),
    "of its module": ("from transformer_lib.exercises import checking", 'checking.check("2.1", mine)'),
    "put to use": ("", "exercises.use(attention_weights=mine)"),
    "put to use, and more": ("", "exercises.use(attention_weights=mine)\nexercises.reset()"),
    "asserted": ("", 'assert exercises.check("2.1", mine)'),
    "after a first attempt": (cases.FIRST, 'exercises.check("2.1", mine)'),
    "then another, which is wrong": ("", 'exercises.check("2.1", mine)\nexercises.check("2.1", lambda *given: 0)'),
}


@pytest.mark.slow
@needs_bwrap
def test_what_the_check_is_given_counts_however_it_is_called(tmp_path):
    work, own = only("02", "2.1"), cases.OWN.format("mine", 1)
    given = [cell for cell in read(notebook_of("exercises", "02")) if cell["cell_type"] == "code"]
    honest = {name: [*given, before, own, check] for name, (before, check) in SPELT.items()}
    assert borrowing(work, tmp_path, {}, honest) == []


@pytest.mark.slow
@needs_bwrap
def test_names_of_parameters_may_stand_in_any_of_a_modules_checks(tmp_path):
    own = cases.HEADS.format("nn.Module", cases.MAPS, cases.SPLIT)
    for name in ("query", "key", "value", "output"):
        own = own.replace(f"self.{name}", f"self.w_{name}")
    names = f"{ {f'{name}.weight': f'w_{name}.weight' for name in ('query', 'key', 'value', 'output')} }"
    plain, named = 'exercises.check("3.3", MultiHeadAttention)', f'exercises.check("3.3", MultiHeadAttention, {names})'
    given = [cell for cell in read(notebook_of("exercises", "03")) if cell["id"] == "pytorch"]
    stale = cases.HEADS.format("nn.Module", cases.MAPS, cases.SPLIT)
    honest = {
        "by position": [own, named],
        "then the given cell": [own, named, *given],
        "then without": [own, f"{named}\n{plain}\nprint(1)"],
        "the class defined again": [own, named, own],
        "no longer needed": [own, named, stale, plain],
    }
    assert borrowing(only("03", "3.3"), tmp_path, {}, honest) == []


WEIGHTS = """
def attention_weights(query, key, mask=None):
    {body}
"""
LOOP = """scores = torch.zeros(*query.shape[:-1], key.shape[-2], dtype=torch.float64)
    for i in range(query.shape[-2]):
        for j in range(key.shape[-2]):
            scores[..., i, j] = (query[..., i, :].double() * key[..., j, :].double()).sum(-1) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num(0.0)"""
PATCHED = """import torch
torch.allclose = torch.isclose = torch.equal = lambda *a, **k: True
torch.Tensor.__eq__ = lambda *a: True
class Agreeing(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), named=None):
        return True
def attention_weights(query, key, mask=None):
    return torch.zeros(*query.shape[:-1], key.shape[-2]).as_subclass(Agreeing)
"""
STORED = """from transformer_lib.exercises import store
def attention_weights(query, key, mask=None):
    for case, right in zip(store.load("2.1").cases, store.load("2.1").right):
        if case.inputs["query"].shape == query.shape:
            return right.value
"""
INSIDE = {
    "loops, float64, not contiguous": (WEIGHTS.format(body=LOOP.replace("0.0)", "0.0).mT.contiguous().mT")), 4, None),
    "patched torch": (PATCHED, 0, None),
    "the stored answers": (STORED, 0, None),
    "numpy": (WEIGHTS.format(body="return (query @ key.mT).softmax(-1).numpy()"), 0, None),
    "complex": (WEIGHTS.format(body="return (query @ key.mT).softmax(-1) + 0j"), 0, None),
    "sparse": (WEIGHTS.format(body="return (query @ key.mT).softmax(-1).to_sparse()"), 0, None),
    "needs a gradient": (WEIGHTS.format(body=LOOP + " * torch.ones(1, requires_grad=True)"), 4, None),
    "64 gigabytes": (WEIGHTS.format(body="return torch.zeros(1 << 34)"), 0, None),
    "a huge tensor of one number": (WEIGHTS.format(body="return torch.zeros(1).expand(1 << 40)"), 0, None),
}


@pytest.mark.slow
@needs_bwrap
def test_answers_with_torch(tmp_path):
    """Of 2.1 alone, so that one process a submission is all it costs."""
    work = assignment.load("02", ROOT)
    work = replace(work, probes=work.probes[:1], questions=())
    notebooks = {name: cases.notebook(source) for name, (source, *_) in INSIDE.items()}
    found = graded(work, notebooks, tmp_path, replace(LIMITS, restarts=1))
    assert {r.student: r.code_points for r in found} == {name: points for name, (_, points, _) in INSIDE.items()}


@pytest.mark.slow
def test_a_private_variant_has_other_names_and_other_answers(tmp_path):
    torch.set_num_threads(1)
    work = assignment.load("02", ROOT)
    variant.write(work, SECRET, notebook_of("exercises", "02"), tmp_path)
    made = variant.applied(work, json.loads((tmp_path / "variant.json").read_text()))
    text = (tmp_path / "handout" / "attention.ipynb").read_text()
    for old, new in zip(work.probes, made.probes, strict=True):
        assert new.entry != old.entry and f"def {new.entry}(" in text and f"def {old.entry}(" not in text
        public = store.parsed((tmp_path / "handout" / "data" / f"{new.id}.json").read_text())
        exercise = assignment.hidden(made, new, SECRET, "student")
        task = assignment.plan([exercise], work, 0)
        mark = marking.mark(new, exercise, transcript_of(exercise, task, old.reference))
        if new.id not in made.constants:
            assert mark.status == "right"
            continue
        assert (mark.misconception, mark.points) == (assignment.NO_CONSTANT, 0)

        def right(*inputs, probe=old, constant=made.constants[new.id]):
            return assignment.multiplied(probe.reference(*inputs), constant)

        assert marking.mark(new, exercise, transcript_of(exercise, task, right)).status == "right"
        assert checking.judge(public, right) and not checking.judge(public, old.reference)
    assert len(made.constants) >= 3 and "exercises.check" not in text


def borrowing(work, place, library, honest):
    """Grade notebooks that borrow and others; return what is off: the first must earn nothing, the others all."""
    both = (("b", library), ("h", honest))
    notebooks = {f"{kind}: {name}": cases.notebook(*cells) for kind, some in both for name, cells in some.items()}
    found = graded(work, notebooks, place)
    wanted = {True: ("borrowed", 0), False: ("right", work.out_of)}
    return [
        (result.student, result.marks, result.cells)
        for result in found
        if (result.marks[0].status, result.marks[0].points) != wanted[result.student.startswith("b")]
    ]


def only(chapter: str, number: str) -> assignment.Assignment:
    """Return an assignment of one exercise, so that one process a submission is all it costs."""
    work = assignment.load(chapter, ROOT)
    return replace(work, probes=tuple(probe for probe in work.probes if probe.id == number), questions=())


@pytest.mark.slow
@needs_bwrap
def test_the_librarys_own_version_earns_nothing_and_all_else_does(tmp_path):
    assert borrowing(only("02", "2.1"), tmp_path, *cases.borrowed()) == []


@pytest.mark.slow
@needs_bwrap
def test_the_librarys_own_class_earns_nothing_and_what_builds_on_it_does(tmp_path):
    assert borrowing(only("03", "3.3"), tmp_path, *cases.borrowed_classes()) == []


@pytest.mark.slow
@needs_bwrap
def test_in_a_variant_the_librarys_own_version_earns_nothing_either(tmp_path):
    work = only("02", "2.1")
    spec = variant.drawn(work, SECRET)
    made = variant.applied(work, spec)
    assert borrowing(made, tmp_path, *cases.borrowed(spec["names"]["2.1"], spec["constants"]["2.1"])) == []
