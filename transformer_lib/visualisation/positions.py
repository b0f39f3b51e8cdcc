"""Positions (chapter 04): a table of position vectors, what schemes add to scores, accuracies beyond a limit."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import checks
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

SIGNED = "RdBu_r"  # numbers of either sign, white at 0
_LOOKS = {  # scheme: (colour, line, mark); dashed where positions are added to the embeddings
    "sinusoidal": (COLOURS["query"], "--", "o"),
    "learned": (COLOURS["without"], "--", "s"),
    "shaw": (COLOURS["with"], "-", "^"),
    "t5": (COLOURS["output"], "-", "v"),
    "rotary": (COLOURS["key"], "-", "D"),
    "alibi": (COLOURS["mean"], "-", "P"),
    "none": (COLOURS["theory"], ":", "x"),
}
Numbers = Sequence[int | float]
Bars = tuple[Numbers, Numbers, Numbers]  # means, lowest, highest


def position_map(table: Float[Tensor, "position d_model"]) -> Figure:
    """Draw position vectors side by side: one column a position, one row a dimension, numbers from -1 to 1.

    Raises:
        ValueError: the table isn't a matrix, or a number in it lies outside -1 to 1.
    """
    checks.tensors(2, table=table)
    if table.dim() != 2 or table.abs().max() > 1.0001:
        raise ValueError(f"table must be [position d_model] with numbers from -1 to 1, got {checks.shape(table)}")
    figure = new_figure(7.4, 3.2)
    axes = figure.subplots()
    tidy(axes, "", "position (tokens)", "dimension")
    image = axes.imshow(table.T.numpy(), cmap=SIGNED, vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes, label="value (no unit)", shrink=0.9)
    return figure


def bias_maps(panels: Mapping[str, Float[Tensor, "query key"]]) -> Figure:
    """Draw what each scheme adds to the scores, white at 0; each panel has a scale of its own.

    Raises:
        ValueError: there is no panel.
    """
    if not panels:
        raise ValueError("bias_maps needs at least one panel, got none")
    figure = new_figure(3.1 * len(panels), 2.8)
    for axes, (title, added) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        tidy(axes, title, "key (position)", "query (position)")
        reach = max(added.abs().max().item(), 1e-6)
        image = axes.imshow(added.detach().numpy(), cmap=SIGNED, vmin=-reach, vmax=reach, interpolation="nearest")
        figure.colorbar(image, ax=axes, label="added to the score", shrink=0.8)
    return figure


def accuracy_panels(
    x: Numbers, panels: Mapping[str, Mapping[str, Bars]], limit: int | float, guess: float | Sequence[float]
) -> Figure:
    """Draw accuracy against position with a bar from the lowest to the highest run, one panel beside the other.

    Args:
        x: the positions at which the accuracies stand.
        panels: title -> label -> (means, lowest, highest); a label begins with its scheme's name.
        limit: the first position that training didn't reach; a dashed line.
        guess: accuracy of guessing, one for all panels or one for each; a dotted line.

    Raises:
        ValueError: there is no panel, a label begins with another word, or there are not as many guesses as panels.
    """
    if not panels:
        raise ValueError("accuracy_panels needs at least one panel, got none")
    guesses = list(guess) if isinstance(guess, Sequence) else [guess] * len(panels)
    if len(guesses) != len(panels):
        raise ValueError(f"wanted a guess for each of {len(panels)} panels, got {len(guesses)}")
    figure = new_figure(4.1 * len(panels), 3.5)
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, (title, of_labels), chance in zip(grid, panels.items(), guesses, strict=True):
        tidy(axes, title, "position (tokens)", "accuracy (share of answers)" if axes is grid[0] else "")
        for label, bars in of_labels.items():
            _bars(axes, x, label, bars)
        axes.axvline(limit, color="#333333", linestyle="--", linewidth=0.9)
        axes.axhline(chance, color=COLOURS["theory"], linestyle=":", linewidth=0.9)
        axes.set_ylim(0, 1.04)
        axes.grid(True, color="#e3e6ea", linewidth=0.7)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _bars(axes: Axes, x: Numbers, label: str, bars: Bars) -> None:
    scheme, _, more = label.partition(",")
    if scheme not in _LOOKS:
        raise ValueError(f"a label must begin with one of {', '.join(_LOOKS)}, got {label!r}")
    colour, line, mark = _LOOKS[scheme]
    line = "-." if more else line
    means, lowest, highest = bars
    reach = [
        [mean - low for mean, low in zip(means, lowest, strict=True)],
        [high - mean for mean, high in zip(means, highest, strict=True)],
    ]
    axes.errorbar(
        x, means, yerr=reach, fmt=line, color=colour, marker=mark, markersize=3.5, linewidth=1.3, capsize=2, label=label
    )
