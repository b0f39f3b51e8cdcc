"""Dots: a few measurements of each thing in a row, or one measurement against another."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

_MARKS = "osD^v"


def strips(
    values: Mapping[str, Sequence[float]], title: str, x_label: str, reference: tuple[str, float] | None = None
) -> Figure:
    """Draw one row for each thing and in it a dot for each of its measurements, such as one for each seed.

    Args:
        values: label -> numbers; the first label is at the top.
        reference: label and place of a dashed line, such as chance.

    Raises:
        ValueError: there is nothing to draw.
    """
    if not values or not all(values.values()):
        raise ValueError(f"strips needs at least one number for each row, got {dict(values)}")
    figure = new_figure(6.6, 0.9 + 0.38 * len(values))
    axes = figure.subplots()
    tidy(axes, title, x_label, "")
    for row, numbers in enumerate(values.values()):
        axes.plot(numbers, [row] * len(numbers), "o", color=COLOURS["with"], markersize=6, alpha=0.6)
    axes.set_yticks(range(len(values)), list(values))
    axes.set_ylim(len(values) - 0.4, -0.6)
    axes.set_xlim(min(0, *(min(numbers) for numbers in values.values())) - 0.02, 1.03)
    axes.grid(True, color="#e3e6ea", linewidth=0.7)
    if reference is not None:
        axes.axvline(reference[1], linestyle="--", color=COLOURS["theory"], label=reference[0])
        axes.legend(fontsize=8, frameon=False)
    return figure


def scatter(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]], title: str, x_label: str, y_label: str
) -> Figure:
    """Draw points, one mark and colour for each series.

    Args:
        series: label -> (x, y).

    Raises:
        ValueError: there is no series, or one's x and y differ in length.
    """
    if not series:
        raise ValueError("scatter needs at least one series, got none")
    figure = new_figure(6.6, 3.4)
    axes = figure.subplots()
    tidy(axes, title, x_label, y_label)
    colours = [COLOURS[role] for role in ("query", "key", "value", "output")]
    for number, (label, (x, y)) in enumerate(series.items()):
        if len(x) != len(y):
            raise ValueError(f"{label}: x and y must have one length, got {len(x)} and {len(y)}")
        mark, colour = _MARKS[number % len(_MARKS)], colours[number % len(colours)]
        axes.plot(x, y, mark, color=colour, markersize=6, alpha=0.75, label=label)
    axes.grid(True, color="#e3e6ea", linewidth=0.7)
    axes.legend(fontsize=8, frameon=False)
    return figure
