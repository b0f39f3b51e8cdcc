"""What exercises are checked with: values in `transformer_lib/exercise_data/`, made from `solutions/*/probes.py`.

`python -m tools.exercise_data` checks that the files are what the probes give, and that no two answers can be confused;
`--write` makes them so. Numbers are compared with a small margin, since machines differ in the last digits.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tools import LIBRARY, ROOT, cells, report
from transformer_lib.exercises import checking, protocols, store
from transformer_lib.exercises.declared import PUBLIC_SEED, Case, Exercise, KnownMistake, Outcome, Probe, Question

MARGIN = 20  # how many tolerances two answers must lie apart somewhere
LEAST_WRONG, LEAST_RIGHT = 3, 2
NUMBER = re.compile(r"\d+\.\d+")


def probes(root: Path = ROOT) -> list[Probe | Question]:
    """Return every exercise that a `solutions/<chapter>/probes.py` declares."""
    modules = [load(path) for path in sorted((root / "solutions").glob("*/probes.py"))]
    return [declared for module in modules for declared in (*module.PROBES, *module.QUESTIONS)]


def load(path: Path) -> ModuleType:
    """Return the module in a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"probes_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def built(declared: Probe | Question, seed: int = PUBLIC_SEED) -> Exercise:
    """Return an exercise's values for a seed: read back from their text, so that they are what ships."""
    shared = ("id", "title", "kind", "points", "minutes", "difficulty")
    fields: dict[str, Any] = {name: getattr(declared, name) for name in shared}
    if isinstance(declared, Question):
        return Exercise(**fields, rubric=tuple((points, line) for points, line, _ in declared.rubric))
    fields |= {name: getattr(declared, name) for name in ("entry", "tolerance", "replaces", "original", "properties")}
    cases = tuple(declared.cases(seed))

    def outcomes(answer: Callable[..., Any]) -> tuple[Outcome, ...]:
        return tuple(_told(protocols.run(declared.kind, answer, case)[0], case) for case in cases)

    wrong = tuple(KnownMistake(m.name, m.sentence, outcomes(m.answer)) for m in declared.wrong)
    exercise = Exercise(**fields, cases=cases, right=outcomes(declared.reference), wrong=wrong)
    return store.parsed(store.written(exercise))


def confusions(declared: Probe, exercise: Exercise) -> list[str]:
    """Say which answers the stored values can't tell apart, and which right or wrong answer is misjudged."""
    found = [f"needs {LEAST_WRONG} wrong answers, got {len(declared.wrong)}"] * (len(declared.wrong) < LEAST_WRONG)
    found += [f"needs {LEAST_RIGHT} right answers, got {len(declared.right)}"] * (len(declared.right) < LEAST_RIGHT)
    answers = {"the right answer": exercise.right} | {f'"{m.name}"': m.outcomes for m in exercise.wrong}
    names = list(answers)
    for number, name in enumerate(names):
        for other in names[:number]:
            if not apart(answers[name], answers[other], exercise):
                found.append(f"{name} and {other} differ by less than {MARGIN} tolerances everywhere")
    for name, spoilt in blind(exercise).items():
        if not apart(spoilt, exercise.right, exercise):
            found.append(f"an answer that is {name} would pass")
    for name, answer in {"the reference": declared.reference, **declared.right}.items():
        if not (feedback := checking.judge(exercise, answer)):
            found.append(f"{name} must be accepted, got:\n{feedback}")
    for mistake in declared.wrong:
        feedback = checking.judge(exercise, mistake.answer)
        if feedback or feedback.misconception != mistake.name:
            found.append(f'"{mistake.name}" must be rejected by its name, got:\n{feedback}')
    return [f"{declared.id}: {problem}" for problem in found]


def apart(one: tuple[Outcome, ...], other: tuple[Outcome, ...], exercise: Exercise) -> bool:
    """Tell whether two answers' outcomes differ clearly in at least one case."""
    return any(
        a.message != b.message or not protocols.agrees(a, b, MARGIN * exercise.tolerance)
        for a, b in zip(one, other, strict=True)
    )


def _told(outcome: Outcome, case: Case) -> Outcome:
    """Keep of an error's text only those wanted words that it holds: the rest differs between versions of torch."""
    words = [word for word in case.mentions if word.lower() in outcome.message.lower()]
    return Outcome(outcome.value, outcome.errors, ", ".join(words))


def blind(exercise: Exercise) -> dict[str, tuple[Outcome, ...]]:
    """Return what answers would give that know nothing: constant, or the right one scaled or shifted."""
    numbers = [float(o.value) for o in exercise.right if isinstance(o.value, Tensor) and o.value.numel() == 1]
    typical = sum(numbers) / max(len(numbers), 1)  # a single number is its own mean: take that of all inputs' numbers
    changes: dict[str, Callable[[Tensor], Tensor]] = {
        "zero": torch.zeros_like,
        "one": torch.ones_like,
        "its mean": lambda x: torch.full_like(x, float(x.double().mean()) if x.numel() > 1 else typical).to(x.dtype),
        "half as large": lambda x: x / 2,
        "scaled down by a tenth": lambda x: x * 0.9,
        "scaled by the root of its size": lambda x: x / math.sqrt(max(x.shape[-1:] or (2,)) + 1),
        "shifted": lambda x: x + 0.01,
        "negative": lambda x: ~x if x.dtype == torch.bool else -x,
    }
    found = {}
    for name, change in changes.items():
        found[name] = tuple(o if o.errors else Outcome(value=_changed(o.value, change)) for o in exercise.right)
    return found


def _changed(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, tuple):
        return tuple(_changed(part, change) for part in value)
    return change(value) if isinstance(value, Tensor) else None


def expected(root: Path = ROOT) -> dict[Path, Exercise]:
    """Return the path of each data file -> what it should hold."""
    folder = root / LIBRARY / "exercise_data"
    return {folder / f"{declared.id}.json": built(declared) for declared in probes(root)}


def problems(root: Path = ROOT) -> list[str]:
    """Say which data file isn't what its probes give, and which answers can't be told apart."""
    found: list[str] = []
    for declared in probes(root):
        if not NUMBER.fullmatch(declared.id):
            found.append(f"{declared.id}: an exercise's number must look like 2.1")
        if isinstance(declared, Probe):
            found += confusions(declared, built(declared))
    wanted = expected(root)
    for path, exercise in wanted.items():
        if not path.exists():
            found.append(f"{path.relative_to(root)}: missing")
        elif not alike(path.read_text(encoding="utf-8"), store.written(exercise)):
            found.append(f"{path.relative_to(root)}: stale, it isn't what its probes give")
    stored = sorted((root / LIBRARY / "exercise_data").glob("*.json"))
    return found + [f"{p.relative_to(root)}: no probes declare it; delete it" for p in stored if p not in wanted]


def alike(stored: str, wanted: str) -> bool:
    """Tell whether two files say the same: the same words, and numbers that differ in the last digits at most."""
    number = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+e[+-]?\d+")
    if number.sub("#", stored) != number.sub("#", wanted):
        return False
    pairs = zip(number.findall(stored), number.findall(wanted), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=1e-5, abs_tol=1e-6) for a, b in pairs)


def write(root: Path = ROOT) -> list[str]:
    """Write each data file that says something else; return which."""
    changed = []
    for path, exercise in expected(root).items():
        text = store.written(exercise)
        if not (path.exists() and alike(path.read_text(encoding="utf-8"), text)) and cells.write_text(path, text):
            changed.append(f"{path.relative_to(root)}: written")
    return changed


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check that the values fit the probes, after a repair where `--write` asks for one."""
    parser = argparse.ArgumentParser(prog="python -m tools.exercise_data", description=__doc__)
    parser.add_argument("--write", action="store_true", help="make the values from the probes")
    if parser.parse_args(arguments).write:
        for message in write(root):
            print(message)
    return report(problems(root), "edit solutions/<chapter>/probes.py, then: python -m tools.exercise_data --write")


if __name__ == "__main__":
    sys.exit(main())
