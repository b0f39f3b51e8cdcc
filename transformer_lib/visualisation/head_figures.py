"""Heads: which axis they are, and a number for each head of a model."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer_lib import checks
from transformer_lib.multi_head import split_heads
from transformer_lib.visualisation.style import COLOURS, WEIGHTS, new_figure, tidy

HEAD_COLOURS = [COLOURS[role] for role in ("query", "key", "value", "output")]


def head_axes(positions: int = 4, heads: int = 3, d_k: int = 2) -> Figure:
    """Draw one sentence's projected vectors before and after `split_heads`, and what a `view` makes of them.

    A row of the first panel is a token. The number in a square says which token it belongs to, its colour says which
    head's columns it comes from.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is below 1, or there are more heads than colours.
    """
    checks.positive(positions=positions, heads=heads, d_k=d_k)
    if heads > len(HEAD_COLOURS):
        raise ValueError(f"heads must be at most {len(HEAD_COLOURS)}, one colour each, got {heads}")
    made = torch.arange(positions * heads * d_k, dtype=torch.float).reshape(1, positions, heads * d_k)
    right = split_heads(made, heads)[0].long()
    wrong = made.view(heads, positions, d_k).long()
    figure = new_figure(8.6, 2.1)
    panels = figure.subplots(1, 3, width_ratios=[heads * d_k + 2, d_k * heads + heads + 1, d_k * heads + heads + 1])
    titles = ("x W_Q: one row a token", "split_heads: one block a head", "view alone: mixed up")
    for axes, title, blocks in zip(panels, titles, (made.long(), right, wrong), strict=True):
        _blocks(axes, blocks, heads, d_k)
        axes.set_title(title, fontsize=10.5, loc="left")
    return figure


def _blocks(axes: Axes, blocks: Int[Tensor, "block position feature"], heads: int, d_k: int) -> None:
    count, positions, width = blocks.shape
    for number, block in enumerate(blocks):
        left = number * (width + 1)
        for row, line in enumerate(block.tolist()):
            for column, entry in enumerate(line):
                token, feature = divmod(entry, heads * d_k)
                corner = (left + column, -row)
                colour = HEAD_COLOURS[feature // d_k]
                axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour, alpha=0.75, edgecolor="white", linewidth=1.5))
                axes.text(left + column + 0.5, 0.5 - row, str(token), ha="center", va="center", color="white")
        below = "d_model" if count == 1 else f"head {number}\nd_k"
        axes.text(left + width / 2, 0.75 - positions, below, ha="center", va="top", fontsize=9)
    axes.text(-0.35, 1 - positions / 2, "position", rotation=90, ha="center", va="center", fontsize=9)
    axes.set(xlim=(-1.0, count * (width + 1) - 0.5), ylim=(-positions - 0.9, 1.2), aspect="equal")
    axes.axis("off")


def head_bars(
    costs: Mapping[str, Sequence[float]], title: str, y_label: str, spans: Mapping[str, Sequence[float]] | None = None
) -> Figure:
    """Draw a number for each head as a bar, module by module.

    Args:
        costs: module's label -> one number a head.
        spans: module's label -> how far other runs' numbers reach to both sides; None draws no such line.

    Raises:
        ValueError: there is no module.
    """
    if not costs:
        raise ValueError("head_bars needs at least one module, got none")
    figure = new_figure(8.2, 3.1)
    axes = figure.subplots()
    tidy(axes, title, "attention module, one bar a head", y_label)
    for place, (label, numbers) in enumerate(costs.items()):
        x = [place + (head + 0.5) * 0.8 / len(numbers) - 0.4 for head in range(len(numbers))]
        reach = None if spans is None else spans[label]
        colours = [HEAD_COLOURS[head % len(HEAD_COLOURS)] for head in range(len(numbers))]
        axes.bar(x, numbers, 0.7 / len(numbers), color=colours, yerr=reach, error_kw={"linewidth": 1})
    axes.set_xticks(range(len(costs)), list(costs), rotation=30, ha="right", rotation_mode="anchor")
    axes.axhline(0, color="#333333", linewidth=0.8)
    return figure


def mean_and_span(
    runs: Sequence[Sequence[Sequence[float]]],
) -> tuple[list[list[float]], list[list[list[float]]]]:
    """Return for each module its heads' means over the runs, and how far the runs reach below and above them.

    Args:
        runs: module by module, run by run, one number a head; what comes back fits `head_bars`.
    """
    means, spans = [], []
    for numbers in (torch.tensor(module) for module in runs):
        mean = numbers.mean(0)
        means.append(mean.tolist())
        spans.append([(mean - numbers.amin(0)).tolist(), (numbers.amax(0) - mean).tolist()])
    return means, spans


def small_maps(maps: Mapping[str, Float[Tensor, "query key"]], tokens: Sequence[str], columns: int) -> Figure:
    """Draw many maps of self-attention in a grid, tokens at its left and lower edge only.

    Args:
        maps: title -> weights from 0 to 1.
        tokens: one for each query, and for each key.

    Raises:
        ValueError: there is no map, or one has another number of queries or keys than there are tokens.
    """
    if not maps:
        raise ValueError("small_maps needs at least one map, got none")
    rows = -(-len(maps) // columns)
    figure = new_figure(2.1 * columns, 1.55 * rows + 0.5)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes, (title, weights) in zip(grid.flat, maps.items(), strict=False):
        if weights.shape != (len(tokens), len(tokens)):
            raise ValueError(f"{title}: weights must be of {len(tokens)} tokens, got {checks.shape(weights)}")
        image = axes.imshow(weights.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_title(title, fontsize=9, loc="left")
        axes.set_xticks(range(len(tokens)), tokens, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
        axes.set_yticks(range(len(tokens)), tokens, fontsize=8)
    figure.supxlabel("key", fontsize=9.5)
    figure.supylabel("query", fontsize=9.5)
    figure.colorbar(image, ax=list(grid.flat), label="weight (share of 1)", shrink=0.5)
    return figure
