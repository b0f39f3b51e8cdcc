"""How the class did: the distribution of each exercise's points, and the most frequent misconceptions."""

import io
from collections import Counter

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from transformer_grader import pages
from transformer_grader.assignment import Assignment
from transformer_grader.results import Result

MOST = 12  # misconceptions that are drawn
COLOUR = "#2f6f9f"


def page(work: Assignment, found: list[Result]) -> str:
    """Return the class's page."""
    graded = [result for result in found if result.status not in ("missing", "unreadable")]
    counts = Counter(result.status for result in found)
    parts: list[object] = [pages.listed(("Status", "Students"), sorted(counts.items()))]
    if len({result.isolation for result in found} & {"unsandboxed"}):
        parts.append(pages.element("p", "Graded without a sandbox."))
    parts += [pages.element("h2", "Points"), _picture(points_drawn(work, graded), "Points of each exercise")]
    parts.append(pages.listed(("Exercise", "Mean", "All points", "None", "Not attempted"), rows(work, graded)))
    parts.append(pages.element("h2", "Most frequent misconceptions"))
    if common := misconceptions(work, graded):
        parts.append(_picture(mistakes_drawn(common[:MOST]), "Most frequent misconceptions"))
        parts.append(pages.listed(("Exercise", "Misconception", "Students", "What it is"), common))
    else:
        parts.append(pages.element("p", "None was recognised."))
    return pages.page(f"Chapter {work.chapter}: {work.stem}, {len(found)} students", parts)


def points_of(number: str, graded: list[Result]) -> list[float]:
    """Return every student's points in an exercise."""
    return [mark.points for result in graded for mark in result.marks if mark.exercise == number]


def rows(work: Assignment, graded: list[Result]) -> list[tuple]:
    """Return a row of the table for each exercise."""
    table = []
    for probe in work.probes:
        points = points_of(probe.id, graded)
        status = Counter(m.status for r in graded for m in r.marks if m.exercise == probe.id)
        mean = f"{sum(points) / len(points):.2f} of {probe.points}" if points else ""
        whole = sum(point == probe.points for point in points)
        table.append((f"{probe.id} {probe.title}", mean, whole, points.count(0), status["not attempted"]))
    return table


def misconceptions(work: Assignment, graded: list[Result]) -> list[tuple[str, str, int, str]]:
    """Return exercise, name, number of students and sentence of each named mistake, the most frequent first."""
    counts = Counter((m.exercise, m.misconception) for r in graded for m in r.marks if m.misconception)
    sentences = {(probe.id, mistake.name): mistake.sentence for probe in work.probes for mistake in probe.wrong}
    return [(n, name, count, sentences.get((n, name), "")) for (n, name), count in counts.most_common()]


def points_drawn(work: Assignment, graded: list[Result]) -> Figure:
    """Return one histogram for each exercise."""
    count = max(len(work.probes), 1)
    figure = Figure(figsize=(8, 1.7 * count), layout="constrained")
    for axis, probe in zip(figure.subplots(count, 1, squeeze=False)[:, 0], work.probes, strict=False):
        edges = [n - 0.5 for n in range(probe.points + 2)]
        axis.hist(points_of(probe.id, graded), bins=edges, color=COLOUR, rwidth=0.8)
        axis.set(title=f"{probe.id} {probe.title}", xlabel="points", ylabel="students")
        axis.yaxis.get_major_locator().set_params(integer=True)
    return figure


def mistakes_drawn(common: list[tuple[str, str, int, str]]) -> Figure:
    """Return bars, the longest at the top."""
    figure = Figure(figsize=(8, 0.4 * len(common) + 1.0), layout="constrained")
    axis = figure.subplots()
    axis.barh([f"{n} {name}".replace("$", r"\$") for n, name, *_ in common], [c for _, _, c, _ in common], color=COLOUR)
    axis.invert_yaxis()
    axis.set_xlabel("students")
    axis.xaxis.get_major_locator().set_params(integer=True)
    return figure


def _picture(figure: Figure, alt: str) -> pages.Safe:
    file = io.BytesIO()
    FigureCanvasAgg(figure).print_png(file)
    return pages.picture(file.getvalue(), alt)
