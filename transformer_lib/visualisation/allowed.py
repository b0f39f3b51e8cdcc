"""Maps of masks: one row per query, one column per key, filled where the query may attend."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgba
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import checks
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

FORBIDDEN = "#e9ecf0"
COLUMNS = 3  # maps side by side


def mask_maps(
    maps: dict[str, Bool[Tensor, "..."]], queries: Sequence[str] | None = None, keys: Sequence[str] | None = None
) -> Figure:
    """Draw masks side by side, queries downwards and keys to the right, a filled square for "may attend".

    Args:
        maps: title -> mask of shape [query key], True where the query may attend to the key.
        queries: the tokens that ask, one per row; None numbers them.
        keys: the tokens that are asked, one per column; None numbers them.

    Raises:
        TypeError: a mask is not boolean.
        ValueError: there is no mask, one isn't a matrix, or the tokens don't fit its shape.
    """
    if not maps:
        raise ValueError("mask_maps needs at least one mask, got none")
    for title, mask in maps.items():
        _check(title, mask, queries, keys)
    rows, columns = math.ceil(len(maps) / COLUMNS), min(COLUMNS, len(maps))
    figure = new_figure(2.9 * columns, 2.75 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(maps) :]:
        axes.axis("off")
    for number, (title, mask) in enumerate(maps.items()):
        _draw(grid.flat[number], title, mask, queries if number % COLUMNS == 0 else None, keys)
    return figure


def _check(title: str, mask: Tensor, queries: Sequence[str] | None, keys: Sequence[str] | None) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(f"{title}: a mask must be of dtype torch.bool, got {mask.dtype}")
    if mask.dim() != 2:
        raise ValueError(f"{title}: a mask must have shape [query key], got {checks.shape(mask)}")
    for name, tokens, size in (("queries", queries, mask.size(0)), ("keys", keys, mask.size(1))):
        if tokens is not None and len(tokens) != size:
            raise ValueError(f"{title}: {name} must name {size} tokens, one each, got {len(tokens)}")


def _draw(axes: Axes, title: str, mask: Tensor, queries: Sequence[str] | None, keys: Sequence[str] | None) -> None:
    tidy(axes, title, "key", "query")
    colours = ListedColormap([to_rgba(FORBIDDEN), to_rgba(COLOURS["with"])])
    axes.pcolormesh(mask.float().numpy(), cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=1.2)
    axes.set(xlim=(0, mask.size(1)), ylim=(mask.size(0), 0))
    for ticks, tokens, size in ((axes.set_xticks, keys, mask.size(1)), (axes.set_yticks, queries, mask.size(0))):
        ticks([place + 0.5 for place in range(size)], tokens if tokens is not None else [""] * size)
    for label in axes.get_xticklabels():
        label.set(rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
