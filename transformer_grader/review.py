"""Open answers, for a person to mark: question by question, without names, beside the rubric; then the way back."""

import csv
from pathlib import Path

from transformer_grader import assignment, pages, results, tables
from transformer_grader.assignment import Assignment
from transformer_grader.results import Result, Store
from transformer_grader.roster import Student

HEADER = ("question", "answer", "points", "out of")


def label(secret: bytes, question: str, student: str) -> str:
    """Return what an answer is called: it says nothing of who wrote it, nor which other answers are theirs."""
    return f"{assignment.number(secret, 'review', question, student):08x}"


def answers(work: Assignment, found: list[Result], secret: bytes) -> dict[str, list[tuple[str, str, Result]]]:
    """Return question -> label, text and result of each answer, in an order that says nothing either."""
    return {
        q.id: sorted((label(secret, q.id, r.student), r.open[q.id], r) for r in found if q.id in r.open)
        if len({label(secret, q.id, r.student) for r in found if q.id in r.open}) == sum(q.id in r.open for r in found)
        else _clash(q.id)
        for q in work.questions
    }


def _clash(question: str):
    raise ValueError(f"two answers to {question} have one label; take another secret")


def show(work: Assignment, found: list[Result], secret: bytes, out: Path) -> Path:
    """Write a page for each question, and marks.csv to fill in, keeping what has been filled in; return its path."""
    sheet = out / "review" / "marks.csv"
    given, rows = read(sheet), []
    for question in work.questions:
        parts: list[object] = [
            pages.listed(("Points", "What is looked for", "What earns them"), question.rubric),
            pages.element("p", f"Write the points into marks.csv, out of {question.points}."),
        ]
        for name, text, result in answers(work, found, secret)[question.id]:
            parts += [pages.element("h2", name), pages.element("pre", text)]
            points = given.get((question.id, name), result.open_points.get(question.id, ""))
            rows.append((question.id, name, points, question.points))
        results.write(out / "review" / f"{question.id}.html", pages.page(f"{question.id} {question.title}", parts))
    results.write(sheet, tables.table(HEADER, rows))
    return sheet


def read(sheet: Path) -> dict[tuple[str, str], float]:
    """Return the points that a person has written; lines without points are left out.

    Raises:
        ValueError: a line's points aren't a number between 0 and what the question is worth.
    """
    if not sheet.exists():
        return {}
    with open(sheet, encoding="utf-8-sig", newline="") as file:
        lines = [row for row in csv.DictReader(file) if (row.get("points") or "").strip()]
    marks = {}
    for row in lines:
        points = _number(row["points"])
        if points is None or not 0 <= points <= float(row["out of"]):
            wanted = f"between 0 and {row['out of']}"
            raise ValueError(
                f"{sheet}, {row['question']} {row['answer']}: points must be {wanted}, got {row['points']}"
            )
        marks[row["question"], row["answer"]] = points
    return marks


def _number(text: str) -> float | None:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return None


def merge(work: Assignment, students: list[Student], store: Store, secret: bytes, out: Path) -> list[Result]:
    """Put the points that a person has written into the results; return all results in the roster's order."""
    marks, found = read(out / "review" / "marks.csv"), []
    for student in students:
        result = store.load(student.id) or Result(student.id, "missing")
        for question in work.questions:
            if (points := marks.get((question.id, label(secret, question.id, student.id)))) is not None:
                result.open_points[question.id] = points
        store.save(result)
        found.append(result)
    return found
