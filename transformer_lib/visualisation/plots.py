"""Curves: one or several panels, each with its labelled axes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

Numbers = Sequence[int | float]
_CYCLE = [COLOURS[role] for role in ("with", "without", "query", "key", "output", "value")]
PLAIN_UP_TO = 1e7  # times from the lowest to the highest label; beyond, powers of ten are easier to read
_LINES = ("theory", "reference")  # dashed, without marks: nothing was measured
_MARKS_UP_TO = 20  # points: beyond, a mark at each would hide the line


@dataclass(frozen=True, kw_only=True)
class Panel:
    """What one panel of `curves` shows.

    Args:
        series: label -> (x, y); those whose label begins with "with ", "without ", "mean", "median", "theory" or
            "reference" have fixed colours, and those that agree up to a comma share one entry of the legend.
        log: the axes that are logarithmic: "", "x", "y" or "xy".
        base: of the logarithmic x axis.
    """

    title: str
    x_label: str
    y_label: str
    series: dict[str, tuple[Numbers, Numbers]] = field(default_factory=dict)
    log: str = ""
    base: int = 2


def curves(*panels: Panel) -> Figure:
    """Draw each panel beside the one before it.

    Raises:
        ValueError: there is no panel, or one has no series, or a series whose x and y differ in length.
    """
    if not panels:
        raise ValueError("curves needs at least one panel, got none")
    figure = new_figure(max(5.6, 3.9 * len(panels)), 3.0)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _draw(axes, panel)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    if not panel.series:
        raise ValueError(f"{panel.title}: a panel needs at least one series, got none")
    tidy(axes, panel.title, panel.x_label, panel.y_label)
    groups: set[str] = set()
    for number, (label, (x, y)) in enumerate(panel.series.items()):
        if len(x) != len(y):
            raise ValueError(f"{label}: x and y must have one length, got {len(x)} and {len(y)}")
        group = label.split(", ")[0]
        entry = "_" if group in groups else group  # matplotlib leaves "_" out of the legend
        groups.add(group)
        mark = "o" if len(x) <= _MARKS_UP_TO and not label.startswith(_LINES) else None
        style = "--" if label.startswith(_LINES) else "-"
        axes.plot(x, y, style, marker=mark, markersize=4, color=_colour(label, number), label=entry, linewidth=1.6)
    _set_scales(axes, panel)
    axes.grid(True, color="#e3e6ea", linewidth=0.7)
    if len(groups) > 1:
        axes.legend(fontsize=8, frameon=False)


def _set_scales(axes: Axes, panel: Panel) -> None:
    if "x" in panel.log:
        axes.set_xscale("log", base=panel.base)
        axes.xaxis.set_major_formatter(_plain)
    if "y" in panel.log:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high / low < PLAIN_UP_TO:
            axes.yaxis.set_major_formatter(_plain)
            axes.yaxis.set_minor_formatter("")


def _plain(value: float, _: int) -> str:
    return f"{value:,.10g}"


def _colour(label: str, number: int) -> str:
    role = label.split(" ")[0].rstrip(":,")
    role = "theory" if role == "reference" else role
    return COLOURS.get(role, _CYCLE[number % len(_CYCLE)])
