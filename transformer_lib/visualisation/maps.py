"""Maps of attention weights: one row per query, one column per key, colours from 0 to 1."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import checks
from transformer_lib.visualisation.style import WEIGHTS, new_figure, tidy

WRITTEN_UP_TO = 12  # keys: beyond, the numbers in the squares can't be read


def attention_maps(
    maps: dict[str, Float[Tensor, "..."]], queries: Sequence[str] | None = None, keys: Sequence[str] | None = None
) -> Figure:
    """Draw maps of weights side by side, queries downwards and keys to the right.

    Args:
        maps: title -> weights of shape [query key].
        queries: the tokens that ask, one per row; None numbers them.
        keys: the tokens that are asked, one per column; None numbers them.

    Raises:
        ValueError: there is no map, one isn't a matrix of numbers from 0 to 1, or the tokens don't fit its shape.
    """
    if not maps:
        raise ValueError("attention_maps needs at least one map, got none")
    for title, weights in maps.items():
        _check(title, weights, queries, keys)
    rows, columns = next(iter(maps.values())).shape
    height = min(4.2, max(2.2, 1.1 + 0.34 * rows))
    width = min(4.6, max(2.6, 1.3 + 0.42 * columns)) if keys else 3.2
    figure = new_figure(width * len(maps) + 0.6, height)
    grid = figure.subplots(1, len(maps), squeeze=False)[0]
    for axes, (title, weights) in zip(grid, maps.items(), strict=True):
        image = _draw(axes, title, weights.detach().float(), queries, keys)
    figure.colorbar(image, ax=list(grid), label="weight (share of 1)", shrink=0.85)
    return figure


def _check(title: str, weights: Tensor, queries: Sequence[str] | None, keys: Sequence[str] | None) -> None:
    if weights.dim() != 2:
        raise ValueError(f"{title}: weights must have shape [query key], got {checks.shape(weights)}")
    if not (weights.min() >= 0 and weights.max() <= 1 + 1e-5):
        raise ValueError(f"{title}: weights must be from 0 to 1, got {weights.min():.3g} to {weights.max():.3g}")
    for name, tokens, size in (("queries", queries, weights.size(0)), ("keys", keys, weights.size(1))):
        if tokens is not None and len(tokens) != size:
            raise ValueError(f"{title}: {name} must name {size} tokens, one each, got {len(tokens)}")


def _draw(axes: Axes, title: str, weights: Tensor, queries: Sequence[str] | None, keys: Sequence[str] | None):
    tidy(axes, title, "key", "query")
    image = axes.imshow(weights.numpy(), cmap=WEIGHTS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    if keys is not None:
        axes.set_xticks(range(len(keys)), keys, rotation=40, ha="right", rotation_mode="anchor")
    if queries is not None:
        axes.set_yticks(range(len(queries)), queries)
    if weights.size(1) <= WRITTEN_UP_TO and weights.size(0) <= WRITTEN_UP_TO:
        for row, line in enumerate(weights.tolist()):
            for column, weight in enumerate(line):
                colour = "black" if weight < 0.68 else "white"  # whichever is easier to read
                axes.text(column, row, f"{weight:.2f}", ha="center", va="center", fontsize=8, color=colour)
    return image
