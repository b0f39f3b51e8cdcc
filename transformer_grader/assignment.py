"""What is graded: a chapter's probes, and for each student hidden inputs that a secret decides."""

import hashlib
import hmac
import importlib.util
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from transformer_grader import recalled
from transformer_grader.inside import prose
from transformer_grader.task import Call, Task
from transformer_lib.exercises import originals, protocols, variations
from transformer_lib.exercises.declared import PUBLIC_SEED, Case, Exercise, KnownMistake, Outcome, Probe, Question

NO_CONSTANT = "the variant's constant is missing"
TRIES = 25  # seeds that are tried for that


@dataclass(frozen=True)
class Assignment:
    """A chapter's exercises as the grader knows them.

    Args:
        stem: the notebook's name, without its ending.
        prelude: the exercise notebook's imports, run before a student's cells.
        given: digests of all its cells: what stands in them isn't the student's.
        shown: digests of those that only show something; they are run only where something they name is missing.
        version: digest of all that decides marks, apart from the secret.
        constants: exercise -> what a private variant multiplies its answers by.
        private: whether it is such a variant, with public inputs of its own.
    """

    chapter: str
    stem: str
    probes: tuple[Probe, ...]
    questions: tuple[Question, ...]
    prelude: str
    given: tuple[str, ...]
    shown: tuple[str, ...]
    version: str
    constants: dict[str, float] = field(default_factory=dict)
    private: bool = False

    @property
    def out_of(self) -> int:
        """Return the points that code can earn."""
        return sum(probe.points for probe in self.probes)


def load(chapter: str, book: Path) -> Assignment:
    """Return the assignment of a chapter, given as "02".

    Raises:
        ValueError: the book has no probes for it.
    """
    found = sorted((book / "solutions").glob(f"{chapter}_*/probes.py"))
    if len(found) != 1:
        known = [path.parent.name[:2] for path in sorted((book / "solutions").glob("*/probes.py"))]
        raise ValueError(f"the chapter must be one of {', '.join(known) or 'none'} in {book}, got {chapter!r}")
    module, stem = _module(found[0]), found[0].parent.name.partition("_")[2]
    for probe in module.PROBES:
        check_groups(probe)
    text = found[0].read_bytes()
    given = _given(book / "exercises" / found[0].parent.name / f"{stem}.ipynb")
    code = [(name, source) for name, source, kind in given if kind == "code"]
    prelude = "\n".join(source for name, source in code if name == "imports")
    shown = tuple(prose.digest(source) for name, source in code if only_shows(name, source))
    everything = tuple(prose.digest(source) for _, source, _ in given)
    version = hashlib.sha256(text).hexdigest()[:16]
    return Assignment(chapter, stem, tuple(module.PROBES), tuple(module.QUESTIONS), prelude, everything, shown, version)


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"probes_of_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _given(path: Path) -> list[tuple[str, str, str]]:
    """Return id, source and kind of each cell that the notebook came with."""
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [(cell.get("id", ""), "".join(cell["source"]).strip(), cell["cell_type"]) for cell in found]


def only_shows(name: str, source: str) -> bool:
    """Tell whether a given cell only shows something: it asserts, or looks at what the exercise gives."""
    given = re.match(r"(install|imports|answer-)", name) or re.search(r"^(import|from)\b", source, re.MULTILINE)
    return not given and ("assert" in source or re.search(r"\bexercises\.", source) is not None)


def check_groups(probe: Probe) -> None:
    """Raise ValueError unless a probe's groups share out its points and name its cases."""
    if not probe.groups:
        return
    known = {case.name for case in probe.cases(PUBLIC_SEED)}
    if unknown := {name for group in probe.groups for name in group.cases} - known:
        raise ValueError(f"{probe.id}: a group's cases must be among {sorted(known)}, got {sorted(unknown)}")
    if (total := sum(group.points for group in probe.groups)) != probe.points:
        raise ValueError(f"{probe.id}: the groups' points must sum to {probe.points}, got {total}")


def number(secret: bytes, *words: str) -> int:
    """Return a number below 2**31 that nobody can guess without the secret."""
    digest = hmac.new(secret, "\0".join(words).encode(errors="backslashreplace"), hashlib.sha256).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def hidden(work: Assignment, probe: Probe, secret: bytes, student: str) -> Exercise:
    """Return an exercise's values for one student: the first seed whose inputs tell right from wrong.

    Where no seed tells it from the public answers and a known mistake for the rest, `recallable` says so.
    """
    public, best, least = published(work, probe, secret), None, 0
    for attempt in range(TRIES):
        seed = number(secret, work.chapter, probe.id, student, str(attempt))
        exercise = built(probe, list(probe.cases(seed)), work.constants.get(probe.id, 1.0))
        if not (found := recalled.covered(exercise, public)):
            return exercise
        if recalled.tells(exercise) and (best is None or len(found) < least):
            best, least = exercise, len(found)
    if best is None:
        raise ValueError(f"{probe.id}: none of {TRIES} seeds tells the right answer from every wrong one")
    return best


def recallable(work: Assignment, probe: Probe, secret: bytes, student: str) -> list[str]:
    """Return the known mistakes that would earn a student everything, together with a table of the public answers."""
    return recalled.covered(hidden(work, probe, secret, student), published(work, probe, secret))


def published(work: Assignment, probe: Probe, secret: bytes) -> list[tuple[Case, Outcome]]:
    """Return the inputs that students can have seen, with the right outcomes: the book's, and a variant's own."""
    cases = list(probe.cases(PUBLIC_SEED))
    cases += probe.cases(variant_seed(secret, probe.id)) if work.private else []
    exercise = built(replace(probe, wrong=()), cases, work.constants.get(probe.id, 1.0))
    return list(zip(exercise.cases, exercise.right, strict=True))


def variant_seed(secret: bytes, exercise: str) -> int:
    """Return the seed of the inputs that a private variant hands out."""
    return number(secret, "variant", "public", exercise)


def built(probe: Probe, cases: list[Case], constant: float = 1.0) -> Exercise:
    """Return an exercise with the outcomes of the reference and of every known mistake, times a variant's constant."""

    def outcomes(answer: Callable[..., Any], times: float = constant) -> tuple[Outcome, ...]:
        got = (_told(protocols.run(probe.kind, answer, case)[0], case) for case in cases)
        return tuple(o if o.errors else replace(o, value=multiplied(o.value, times)) for o in got)

    shared = ("id", "title", "kind", "points", "minutes", "difficulty", "entry", "tolerance", "replaces", "original")
    wrong = tuple(KnownMistake(m.name, m.sentence, outcomes(m.answer)) for m in probe.wrong)
    if constant != 1.0:
        wrong += (KnownMistake(NO_CONSTANT, f"It isn't multiplied by {constant}.", outcomes(probe.reference, 1.0)),)
    fields = {name: getattr(probe, name) for name in shared}
    return Exercise(**fields, cases=tuple(cases), right=outcomes(probe.reference), wrong=wrong)


def multiplied(value: Any, constant: float) -> Any:
    """Return a value times a constant, where it is made of real numbers; of several parts the first."""
    if constant == 1.0:
        return value
    if isinstance(value, tuple | list) and value:
        return (multiplied(value[0], constant), *value[1:])
    real = isinstance(value, Tensor) and value.is_floating_point() or isinstance(value, float)
    return value * constant if real else value


def _told(outcome: Outcome, case: Case) -> Outcome:
    """Keep of an error's text only those wanted words that it holds."""
    words = [word for word in case.mentions if word.lower() in outcome.message.lower()]
    return Outcome(outcome.value, outcome.errors, ", ".join(words))


def plan(exercises: list[Exercise], work: Assignment, order: int) -> Task:
    """Return what a sandbox is asked: each case as it is and in other forms, of all exercises, in one hidden order."""
    calls = []
    for exercise in exercises:
        for n, (case, right) in enumerate(zip(exercise.cases, exercise.right, strict=True)):
            forms = {"": case}
            for name, (change, _) in {} if right.errors else variations.VARIATIONS.items():
                if (other := variations.varied(case, change)) is not None:
                    forms[name] = other
            calls += [Call((exercise.id, name, n), exercise.id, exercise.kind, form) for name, form in forms.items()]
    random.Random(order).shuffle(calls)
    entries = {one.id: {"name": one.entry, "original": list(originals.paths(one))} for one in exercises}
    return Task(entries, calls, work.prelude, work.given, work.shown)
