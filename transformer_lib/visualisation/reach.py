"""How far a signal travels in recurrent, convolutional and attention layers. A control; see `moving`.

The built page shows the same by `reach.js`, which computes all of it. Vaswani et al. (2017), Table 1, in exact numbers:
what the last of n positions gets from the one at a distance before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import ipywidgets as widgets
from matplotlib.figure import Figure

from transformer_lib import baselines, checks
from transformer_lib.visualisation.moving import follow
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

ARCHITECTURES = ("RNN", "CNN", "attention")
LONGEST, DEEPEST, WIDEST = 32, 6, 5


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What one architecture does at the chosen distance.

    Args:
        field: how many positions the last one sees, its own included.
        path: steps that a signal passes from the token at the distance to the last output; None if it gets none.
        sequential: steps that have to wait for each other until all outputs are there.
        layers: how many are needed to cover the distance.
        hops: positions that the signal stands at, from the token to the last; empty if it gets none.
    """

    field: int
    path: int | None
    sequential: int
    layers: int
    hops: list[int]


def state(
    tokens: int = 16, distance: int = 9, depth: int = 2, width: int = 3, dilated: bool = True
) -> dict[str, Reach]:
    """Return for each architecture what the figure shows, by the rules of `baselines`.

    Args:
        distance: positions from the token to the last one.
        depth: layers in the stack.
        width: places that each convolution sums over.
        dilated: whether a convolution's dilation doubles from layer to layer, from 1 on.

    Raises:
        TypeError: a number is not an integer.
        ValueError: one is below 1 (`width`: 2), or the distance leads out of the sequence.
    """
    checks.positive(tokens=tokens, distance=distance, depth=depth, width=width)
    if distance >= tokens or width < 2:
        raise ValueError(f"distance must be below {tokens} and width at least 2, got {distance} and {width}")
    here, last = tokens - 1 - distance, tokens - 1
    field = baselines.receptive_field(width, dilations(depth, dilated))
    needed = next(n for n in range(1, tokens) if baselines.receptive_field(width, dilations(n, dilated)) > distance)
    return {
        "RNN": Reach(
            field=tokens,
            path=distance + depth,  # from position to position, and up through the layers
            sequential=tokens + depth - 1,  # a layer can start once the one below has done the first position
            layers=1,
            hops=list(range(here, last + 1)),
        ),
        "CNN": Reach(
            field=min(tokens, field),
            path=depth if field > distance else None,
            sequential=depth,
            layers=needed,
            hops=_hops(here, distance, width, dilations(depth, dilated)) if field > distance else [],
        ),
        "attention": Reach(field=tokens, path=depth, sequential=depth, layers=1, hops=[here, last]),
    }


def dilations(depth: int, dilated: bool) -> list[int]:
    """Return each convolution's dilation: 1, 2, 4, ... or all 1."""
    return [2**layer if dilated else 1 for layer in range(depth)]


def _hops(position: int, distance: int, width: int, dilations: Sequence[int]) -> list[int]:
    """Return where the signal stands after each layer; the upper layers, which reach farther, go as far as they can."""
    jumps = []
    for dilation in reversed(dilations):
        jumps.append(dilation * min(width - 1, distance // dilation))
        distance -= jumps[-1]
    places = [position]
    for jump in reversed(jumps):
        places.append(places[-1] + jump)
    return places


def figure(shown: dict[str, Reach], tokens: int) -> Figure:
    """Draw one strip of positions per architecture: what the last one sees, and the way of the signal."""
    drawn = new_figure(7.4, 2.6)
    axes = drawn.subplots()
    tidy(axes, "what the last position sees, and how the signal gets there", "position", "")
    for row, reach in enumerate(shown.values()):
        seen = [position >= tokens - reach.field for position in range(tokens)]
        colours = [COLOURS["query"] if one else "#d5dbe3" for one in seen]
        axes.scatter(range(tokens), [row] * tokens, c=colours, marker="s", s=60, alpha=0.5)
        axes.plot(reach.hops, [row] * len(reach.hops), color=COLOURS["key"], marker="o", markersize=4)
        path = "no path" if reach.path is None else f"path {reach.path}"
        axes.text(tokens, row, f"{path}, {reach.sequential} in a row", va="center", fontsize=8.5)
    axes.set_yticks(range(len(shown)), shown)
    axes.set(xlim=(-0.8, tokens * 1.3), ylim=(len(shown) - 0.5, -0.5))
    return drawn


def control() -> widgets.VBox:
    """Return knobs for length, distance, depth and the convolution, above the figure that follows them."""
    tokens = widgets.IntSlider(value=16, min=4, max=LONGEST, description="tokens")
    distance = widgets.IntSlider(value=9, min=1, max=15, description="distance")
    depth = widgets.IntSlider(value=2, min=1, max=DEEPEST, description="layers")
    width = widgets.IntSlider(value=3, min=2, max=WIDEST, description="CNN width")
    dilated = widgets.Checkbox(value=True, description="dilated")
    tokens.observe(lambda change: setattr(distance, "max", change["new"] - 1), names="value")

    def draw(tokens: int, distance: int, *rest: int) -> Figure:
        return figure(state(tokens, min(distance, tokens - 1), *rest), tokens)

    return follow([tokens, distance, depth, width, dilated], draw)
