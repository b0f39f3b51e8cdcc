"""Exercises are cut from solutions: `exercises/<chapter>/<name>.ipynb` is never edited by hand.

`python -m tools.exercises` checks that each exercise notebook is what its solution gives; `--write` makes it so.
The marks are nbgrader's, `### BEGIN SOLUTION` and `### END SOLUTION`, and so is the code that cuts.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import sys
from pathlib import Path

from nbconvert.preprocessors import ClearOutputPreprocessor
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions

from tools import ROOT, cells, report

STUB = 'raise NotImplementedError("not attempted yet")'
ANSWER = "*Your answer here.*"
MARK = re.compile(r"(BEGIN|END) SOLUTION")
UNSUPPORTED = re.compile(r"BEGIN (HIDDEN TESTS|MARK SCHEME)")


def cut(solution: NotebookNode) -> NotebookNode:
    """Return the exercise notebook: stubs for answers, no outputs, no counts; ValueError where the marks don't pair."""
    exercise = cells.normalise(solution)
    for number, cell in enumerate(exercise.cells):
        _check_marks(cell.source, number)
    exercise, _ = ClearOutputPreprocessor().preprocess(exercise, {})
    cutter = ClearSolutions(code_stub={"python": STUB}, text_stub=ANSWER, enforce_metadata=False)
    exercise, _ = cutter.preprocess(exercise, {})
    for number, cell in enumerate(exercise.cells):
        _check_stubs(cell, number)
    return cells.normalise(exercise)


def _check_marks(source: str, number: int) -> None:
    if match := UNSUPPORTED.search(source):
        raise ValueError(f"cell {number}: {match.group(0)} isn't supported here; tests live in probes.py")
    marks = MARK.findall(source)
    if marks != ["BEGIN", "END"] * (len(marks) // 2):
        raise ValueError(f"cell {number}: each BEGIN SOLUTION must have its END SOLUTION, got {' '.join(marks)}")


def _check_stubs(cell: NotebookNode, number: int) -> None:
    """Refuse a cut that leaves no Python, or a stub that would stop the notebook when it's run unanswered."""
    if cell.cell_type != "code":
        return
    try:
        body = cells.tree(cell.source).body
    except SyntaxError as error:
        raise ValueError(f"cell {number}: what is left must be Python, got {error}") from error
    if any(ast.unparse(node) == ast.unparse(ast.parse(STUB)) for node in body):
        raise ValueError(f"cell {number}: an answer must stand inside a function, or its stub stops the notebook")


def expected(root: Path) -> tuple[dict[Path, str], list[str]]:
    """Return exercise path -> text for each solution notebook, and what is wrong with those that can't be cut."""
    texts: dict[Path, str] = {}
    wrong: list[str] = []
    for path in cells.notebooks(root, "solutions"):
        try:
            texts[root / "exercises" / path.relative_to(root / "solutions")] = cells.written(cut(cells.read(path)))
        except ValueError as error:
            wrong.append(f"{path.relative_to(root)}, {error}")
    return texts, wrong


def problems(root: Path = ROOT) -> list[str]:
    """Say which exercise notebook isn't what its solution gives."""
    texts, found = expected(root)
    for path, text in texts.items():
        if not path.exists():
            found.append(f"{path.relative_to(root)}: missing")
        elif path.read_text(encoding="utf-8") != text:
            found.append(f"{path.relative_to(root)}: stale, it isn't what its solution gives")
    orphans = [path for path in cells.notebooks(root, "exercises") if path not in texts and not found]
    return found + [f"{path.relative_to(root)}: no such notebook in solutions/; delete it" for path in orphans]


def write(root: Path = ROOT) -> list[str]:
    """Write each exercise notebook that has changed, but never over one that somebody has run; return what was done."""
    messages: list[str] = []
    for path, text in expected(root)[0].items():
        if _has_been_run(path):
            messages.append(f"{path.relative_to(root)}: left alone, since somebody has run it; move it away first")
        elif cells.write_text(path, text):
            messages.append(f"{path.relative_to(root)}: written")
    return messages


def _has_been_run(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return any(cell.get("execution_count") for cell in cells.read(path).cells)
    return False


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check that exercises match their solutions, after a repair where `--write` asks for one."""
    parser = argparse.ArgumentParser(prog="python -m tools.exercises", description=__doc__)
    parser.add_argument("--write", action="store_true", help="cut the exercises from the solutions")
    if parser.parse_args(arguments).write:
        for message in write(root):
            print(message)
    return report(problems(root), "edit the solution, then: make exercises")


if __name__ == "__main__":
    sys.exit(main())
