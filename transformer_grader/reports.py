"""What a run writes: tables, a page for each student, a page for the class, what a second run has changed."""

from pathlib import Path

from transformer_grader import feedback, results, summary, tables
from transformer_grader.assignment import Assignment
from transformer_grader.results import Result
from transformer_grader.roster import Student

REASONS = {
    "submission": "another notebook was handed in",
    "probes": "the probes were changed",
    "secret": "another secret, so other hidden inputs",
    "limits": "other limits",
    "isolation": "another isolation",
}


def write(work: Assignment, students: list[Student], found: list[Result], out: Path) -> None:
    """Write all that a run gives."""
    for name, make in {"grades": tables.generic, "canvas": tables.canvas, "moodle": tables.moodle}.items():
        results.write(out / f"{name}.csv", make(work, students, found))
    for result in found:
        results.write(out / "feedback" / f"{results.key(result.student)}.html", feedback.page(work, result))
    rows = [(s.id, s.name, f"{results.key(s.id)}.html") for s in students]
    results.write(out / "feedback" / "index.csv", tables.table(("id", "name", "file"), rows))
    results.write(out / "class.html", summary.page(work, found))


def changes(before: dict[str, Result | None], found: list[Result]) -> list[tuple[str, str, str, str, str]]:
    """Return a line for each student whose result differs from the one before: what changed, and why."""
    lines = []
    for result in found:
        old = before.get(result.student)
        if old is None:
            lines.append((result.student, "", f"{result.points:g}", result.status, "not graded before"))
        elif differences := _differences(old, result):
            why = [reason for part, reason in REASONS.items() if old.why.get(part) != result.why.get(part)]
            told = ", ".join(why) or "nothing was changed: the submission itself behaves otherwise, or time ran short"
            lines.append((result.student, f"{old.points:g}", f"{result.points:g}", "; ".join(differences), told))
    return lines


def _differences(old: Result, new: Result) -> list[str]:
    found = [f"status {old.status} -> {new.status}"] if old.status != new.status else []
    earlier = {mark.exercise: mark for mark in old.marks}
    for mark in new.marks:
        one = earlier.get(mark.exercise)
        if one is None or (one.points, one.status) != (mark.points, mark.status):
            was = f"{one.points:g} {one.status}" if one else "none"
            found.append(f"{mark.exercise} {was} -> {mark.points:g} {mark.status}")
    for number in sorted(old.open_points.keys() | new.open_points.keys()):
        was, now = (f"{r.open_points[number]:g}" if number in r.open_points else "not marked" for r in (old, new))
        found += [f"{number} {was} -> {now}"] if was != now else []
    return found + ([f"factor {old.factor:g} -> {new.factor:g}"] if old.factor != new.factor else [])
