"""Cross-attention beside the true word alignment, and one number a run for several kinds of models (chapter 06)."""

from collections.abc import Collection, Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer_lib.visualisation.head_figures import head_bars, mean_and_span
from transformer_lib.visualisation.maps import attention_maps
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy


def aligned_map(
    title: str,
    weights: Float[Tensor, "target source"],
    words: tuple[Sequence[str], Sequence[str]],
    alignment: Collection[tuple[int, int]],
) -> Figure:
    """Draw a map of cross-attention with a frame around each square where a target word meets a source word of its own.

    Args:
        words: of the source, along the lower edge, and of the target, one a row: the word that the row writes.
        alignment: pairs (place in source, place in target).

    Raises:
        ValueError: the words don't fit the weights' shape, or a pair lies outside.
    """
    source, target = words
    for i, j in alignment:
        if not (0 <= i < len(source) and 0 <= j < len(target)):
            raise ValueError(f"alignment must be of {len(source)} source and {len(target)} target words, got {(i, j)}")
    figure = attention_maps({title: weights}, queries=target, keys=source)
    axes = figure.axes[0]
    axes.set_xlabel("key: source word")
    axes.set_ylabel("query that writes")
    for i, j in alignment:
        frame = Rectangle((i - 0.45, j - 0.45), 0.9, 0.9, fill=False, edgecolor=COLOURS["without"], linewidth=2)
        axes.add_patch(frame)
    return figure


def dots(runs: Mapping[str, Sequence[float]], title: str, x_label: str) -> Figure:
    """Draw one dot for each run in the row of its kind.

    Args:
        runs: kind -> one number a run.

    Raises:
        ValueError: there is no kind, or a kind without a run.
    """
    if not runs or not all(runs.values()):
        raise ValueError(f"dots needs at least one kind with at least one run, got {dict(runs)}")
    figure = new_figure(6.0, 1.0 + 0.42 * len(runs))
    axes: Axes = figure.subplots()
    tidy(axes, title, x_label, "")
    for row, numbers in enumerate(runs.values()):
        axes.scatter(numbers, [-row] * len(numbers), s=34, color=COLOURS["with"], alpha=0.75, zorder=2)
    axes.set_yticks([-row for row in range(len(runs))], list(runs))
    axes.set(xlim=(0, None), ylim=(0.5 - len(runs), 0.5))
    axes.grid(True, axis="x", color="#e3e6ea", linewidth=0.7)
    return figure


def rate_bars(runs: Mapping[str, Sequence[Sequence[float]]], title: str, lines: Mapping[str, float]) -> Figure:
    """Draw the error rate of each head as a bar, the mean of several runs, with dashed lines for naive aligners.

    Args:
        runs: row's label -> run by run, one rate a head.
        lines: a naive aligner's name -> its rate.
    """
    means, spans = (dict(zip(runs, part, strict=True)) for part in mean_and_span(list(runs.values())))
    figure = head_bars(means, title, "alignment error rate", spans)
    figure.axes[0].set_xlabel("rows taken, one bar a head")
    for name, rate in lines.items():
        figure.axes[0].axhline(rate, color=COLOURS["theory"], linestyle="--")
        figure.axes[0].text(-0.45, rate - 0.06, name, fontsize=8.5)
    return figure
