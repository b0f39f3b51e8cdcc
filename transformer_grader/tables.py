"""The marks as CSV: a generic table, one for Canvas, one for Moodle. No cell begins as a formula does."""

import csv
import io
from collections.abc import Iterable

from transformer_grader import sheets
from transformer_grader.assignment import Assignment
from transformer_grader.results import Result
from transformer_grader.roster import Student

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def cell(value: object) -> str:
    """Return what may stand in a spreadsheet's cell: text that can't be taken for a formula, on one line."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int | float):
        return f"{value:g}" if value == value else ""
    text = " ".join(sheets.shown("" if value is None else str(value)).split())
    return f"'{text}" if str(value).startswith(FORMULA) or text.startswith(FORMULA) else text


def table(header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a table's text."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n")
    for row in (header, *rows):
        writer.writerow([cell(value) for value in row])
    return text.getvalue()


def generic(work: Assignment, students: list[Student], found: list[Result]) -> str:
    """Return the table with everything: a row for each student, a column for each exercise."""
    numbers = [probe.id for probe in work.probes]
    header = ["id", "name", "email", "status", "late", "points", "out of"]
    header += [f"{n} {what}" for n in numbers for what in ("points", "status", "misconception")]
    header += [f"{question.id} points" for question in work.questions] + ["isolation", "reason"]
    out_of = work.out_of + sum(question.points for question in work.questions)
    rows = []
    for student, result in zip(students, found, strict=True):
        marks = {mark.exercise: mark for mark in result.marks}
        row = [student.id, student.name, student.email, result.status, result.late, result.points, out_of]
        for number in numbers:
            mark = marks.get(number)
            row += [mark.points, mark.status, mark.misconception] if mark else [0, result.status, ""]
        row += [result.open_points.get(question.id, "") for question in work.questions]
        rows.append([*row, result.isolation, result.reason])
    return table(header, rows)


def canvas(work: Assignment, students: list[Student], found: list[Result]) -> str:
    """Return what Canvas's gradebook imports; a student without a submission keeps an empty cell."""
    header = ["Student", "ID", "SIS Login ID", "Section", f"Chapter {work.chapter} {work.stem}"]
    rows = [
        [s.name, s.id, s.login or s.email, s.section, "" if r.status == "missing" else r.points]
        for s, r in zip(students, found, strict=True)
    ]
    return table(header, rows)


def moodle(work: Assignment, students: list[Student], found: list[Result]) -> str:
    """Return what Moodle's grader imports: matched by email or id number, with one line of feedback."""
    header = ["ID number", "Email address", "Full name", f"Chapter {work.chapter} {work.stem}", "Feedback comments"]
    rows = []
    for student, result in zip(students, found, strict=True):
        told = "; ".join(f"{m.exercise}: {m.points:g} of {m.out_of} ({m.status})" for m in result.marks)
        points = "" if result.status == "missing" else result.points
        rows.append([student.id, student.email, student.name, points, told or result.status])
    return table(header, rows)
