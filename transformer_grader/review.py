"""Open answers, for a person to mark: question by question, without names, beside the rubric; then the way back."""

from pathlib import Path

from transformer_grader import assignment, pages, results, sheets, tables
from transformer_grader.assignment import Assignment
from transformer_grader.results import Result, Store
from transformer_grader.roster import Student
from transformer_lib.exercises.declared import Question

HEADER = ("question", "answer", "points", "out of")


def label(secret: bytes, question: str, result: Result) -> str:
    """Return what an answer is called: it says nothing of who wrote it, nor which other answers are theirs.

    Another text has another label, and no spreadsheet takes it for a number or a date.
    """
    words = ("review", question, result.student, result.open[question])
    return f"answer {assignment.number(secret, *words):08x}"


def answers(work: Assignment, found: list[Result], secret: bytes) -> dict[str, tuple[Question, Result]]:
    """Return label -> what it answers and whose it is, question by question, in an order that says nothing either."""
    pairs = [
        (q, label(secret, q.id, result), result) for q in work.questions for result in found if q.id in result.open
    ]
    if len({name for _, name, _ in pairs}) < len(pairs):
        raise ValueError("two answers have one label; take another secret")
    order = [question.id for question in work.questions]
    return {name: (q, result) for q, name, result in sorted(pairs, key=lambda one: (order.index(one[0].id), one[1]))}


def show(work: Assignment, found: list[Result], secret: bytes, out: Path) -> Path:
    """Write a page for each question, and marks.csv to fill in, keeping what has been filled in; return its path."""
    sheet, there = out / "review" / "marks.csv", answers(work, found, secret)
    for question in work.questions:
        parts: list[object] = [
            pages.listed(("Points", "What is looked for", "What earns them"), question.rubric),
            pages.element("p", f"Write the points into marks.csv, out of {question.points}."),
        ]
        for name, (one, result) in there.items():
            if one is question:
                parts += [pages.element("h2", name), pages.element("pre", result.open[question.id])]
        results.write(out / "review" / f"{question.id}.html", pages.page(f"{question.id} {question.title}", parts))
    rows = [(q.id, name, result.open_points.get(q.id, ""), q.points) for name, (q, result) in there.items()]
    rows += [(row.get("question"), row["answer"], row["points"], row.get("out of")) for row in strange(sheet, there)]
    results.write(sheet, tables.table(HEADER, rows))
    return sheet


def lines(sheet: Path) -> list[dict[str, str]]:
    """Return the lines of marks.csv that have points or will have.

    Raises:
        ValueError: a column is missing.
    """
    header, *rows = (sheets.read(sheet) if sheet.exists() else []) or [list(HEADER)]
    if missing := [name for name in ("answer", "points") if name not in header]:
        raise ValueError(f"{sheet} must have the columns {', '.join(HEADER)}, got none named {', '.join(missing)}")
    padded = ([cell.strip() for cell in row] + [""] * len(header) for row in rows if any(row))
    return [dict(zip(header, row, strict=False)) for row in padded]


def strange(sheet: Path, there: dict[str, tuple[Question, Result]]) -> list[dict[str, str]]:
    """Return the lines with points for an answer that nobody has given, or that has been handed in anew since."""
    return [row for row in lines(sheet) if row["points"] and row["answer"] not in there]


def points(row: dict[str, str], most: int) -> float | None:
    """Return a line's points, None where there are none yet.

    Raises:
        ValueError: they aren't between 0 and what the question is worth.
    """
    try:
        found = float(row["points"].replace(",", ".")) if row["points"] else None
    except ValueError:
        found = -1.0
    if found is not None and not 0 <= found <= most:
        raise ValueError(f"marks.csv, {row['answer']}: points must be between 0 and {most}, got {row['points']}")
    return found


def merge(work: Assignment, students: list[Student], store: Store, secret: bytes, out: Path) -> list[Result]:
    """Put the points that a person has written into the results; return all results in the roster's order.

    Raises:
        ValueError: nothing has been graded yet, or what was written can't be right.
    """
    stored = [store.load(student.id) for student in students]
    if not any(stored):
        raise ValueError(f"there must be results in {out}, got none: grade first")
    found = [result or Result(s.id, "missing") for s, result in zip(students, stored, strict=True)]
    there = answers(work, found, secret)
    given = {row["answer"]: row for row in lines(out / "review" / "marks.csv") if row["answer"] in there}
    marks = {name: points(row, there[name][0].points) for name, row in given.items()}
    for name, mark in marks.items():
        question, result = there[name]
        result.open_points.pop(question.id, None)
        result.open_points |= {question.id: mark} if mark is not None else {}
    for result in found:
        store.save(result)
    return found
