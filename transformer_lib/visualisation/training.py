"""Training (chapter 07): what a batch holds, and small tables."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from transformer_lib.data import PADDING, Batch
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy


def batch_maps(panels: Mapping[str, Batch]) -> Figure:
    """Draw each batch's source side by side: a dark cell is a token, a light one is padding.

    Raises:
        ValueError: there is no batch.
    """
    if not panels:
        raise ValueError("batch_maps needs at least one batch, got none")
    longest = max(batch.source.size(1) for batch in panels.values())
    figure = new_figure(3.6 * len(panels), 3.0)
    colours = ListedColormap(["#f3d9c9", COLOURS["input"]])
    for axes, (title, batch) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        tidy(axes, title, "position (tokens)", "sentence of the batch")
        is_token = (batch.source != PADDING).numpy()
        axes.imshow(is_token, cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_xlim(-0.5, longest - 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def widen(figure: Figure, label: str) -> Figure:
    """Draw a curve wide and pale, so that one drawn over it leaves it in sight; return the figure.

    Raises:
        ValueError: the figure has no such curve.
    """
    legends = [axes.get_legend() for axes in figure.axes]
    lines = [line for axes in figure.axes for line in axes.lines]
    entries = [line for legend in legends if legend for line in legend.get_lines()]
    if label not in [line.get_label() for line in lines]:
        raise ValueError(f"label must be one of {[line.get_label() for line in lines]}, got {label!r}")
    for line in lines + entries:
        if line.get_label() == label:
            line.set(linewidth=6, alpha=0.35)
    return figure


@dataclass(frozen=True)
class Table:
    """Columns under their names, shown as a table by a notebook and as lines of text elsewhere.

    Raises:
        ValueError: there is no column, or two differ in length.
    """

    columns: Mapping[str, Sequence[object]]

    def __post_init__(self) -> None:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"columns must have one length, got {lengths or 'no columns'}")

    def __repr__(self) -> str:
        rows = [list(self.columns), *self._rows()]
        return "\n".join(" | ".join(row) for row in rows)

    def _repr_html_(self) -> str:
        head = "".join(f"<th><span>{html.escape(name)}</span></th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self._rows())
        rows = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return f'<div class="pst-scrollable-table-container"><table class="table">{rows}</table></div>'

    def _rows(self) -> list[list[str]]:
        return [[str(cell) for cell in row] for row in zip(*self.columns.values(), strict=True)]


def table(**columns: Sequence[object]) -> Table:
    """Return the columns as a table; an underscore in a name becomes a blank."""
    return Table({name.replace("_", " "): column for name, column in columns.items()})
