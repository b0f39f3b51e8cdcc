"""What each student is told: points, named misconceptions; no hidden input, no solution, no output of hidden calls."""

from transformer_grader import pages
from transformer_grader.assignment import Assignment
from transformer_grader.results import Result

MEANS = {
    "timeout": "Part of your notebook took longer than it may, and was stopped. What isn't in that part was graded.",
    "crashed": "Part of your notebook ended Python or took too much memory. What isn't in that part was graded.",
    "unreadable": "Your file can't be read as a notebook. Please hand it in again, or ask.",
    "missing": "Nothing was handed in under your name.",
    "needs-review": "A person will look at your submission.",
}


def page(work: Assignment, result: Result) -> str:
    """Return a student's page."""
    parts: list[object] = []
    if result.status in MEANS:
        parts.append(pages.element("p", MEANS[result.status]))
    out_of = work.out_of + sum(question.points for question in work.questions)
    parts.append(pages.element("p", f"{result.points:g} of {out_of} points."))
    if result.factor != 1.0:
        parts.append(pages.element("p", f"Handed in late: the points are multiplied by {result.factor:g}."))
    titles = {probe.id: probe.title for probe in work.probes}
    rows = [(f"{m.exercise} {titles[m.exercise]}", f"{m.points:g} of {m.out_of}", m.told) for m in result.marks]
    rows += [_open(question, result) for question in work.questions]
    parts.append(pages.listed(("Exercise", "Points", "What was found"), rows))
    if result.cells:
        parts.append(pages.element("h2", "Cells that stopped"))
        parts.append(pages.element("p", "Counted from 0, code cells only. A failing cell costs nothing by itself."))
        parts.append(
            pages.listed(("Cell", "What stopped it"), sorted(result.cells.items(), key=lambda one: int(one[0])))
        )
    hint = "To see numbers, run the checks in your notebook: their inputs are public, and of the same kinds as these."
    parts.append(pages.element("p", hint if work.probes else ""))
    return pages.page(f"Chapter {work.chapter}: {work.stem}", parts)


def _open(question, result: Result) -> tuple[str, str, str]:
    points = result.open_points.get(question.id)
    told = (
        "Marked by a person."
        if points is not None
        else "Not marked yet."
        if question.id in result.open
        else "No answer."
    )
    shown = f"{points:g} of {question.points}" if points is not None else f"0 of {question.points}"
    return f"{question.id} {question.title}", shown, told
