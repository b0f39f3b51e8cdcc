"""How a token's information gets to another token: along a chain, through windows, or by one look (chapter 01)."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lib import checks
from transformer_lib.visualisation.style import COLOURS, new_figure

Point = tuple[int, int]
_PALE, _STRONG = "#c5cad3", COLOURS["without"]


def three_ways(tokens: Sequence[str], start: int, end: int) -> Figure:
    """Draw a recurrent network, a stack of convolutions over three places, and an attention layer, side by side.

    The shortest way from token `start` to token `end` stands out in each, with the number of its steps.

    Raises:
        ValueError: `start` isn't before `end`, or `end` is beyond the tokens.
    """
    if not 0 <= start < end < len(tokens):
        raise ValueError(f"start and end must be places among {len(tokens)} tokens in this order, got {start}, {end}")
    checks.instance(str, **{f"token_{place}": token for place, token in enumerate(tokens)})
    figure = new_figure(7.0, 2.7)
    last = len(tokens) - 1
    chain, layers = end - start, -(-(end - start) // 2)
    panels = figure.subplots(1, 3)
    _draw(panels[0], f"chain: {chain} steps", tokens, _chain(last), [(place, 1) for place in range(start, end + 1)])
    way = [(max(start, min(end, start + 2 * layer)), layer) for layer in range(layers + 1)]
    _draw(panels[1], f"windows of 3: {layers} layers", tokens, _windows(last, layers), way)
    _draw(panels[2], "attention: 1 look", tokens, _looks(last), [(start, 0), (end, 1)])
    return figure


def _chain(last: int) -> list[tuple[Point, Point]]:
    inputs = [((place, 0), (place, 1)) for place in range(last + 1)]
    return inputs + [((place, 1), (place + 1, 1)) for place in range(last)]


def _windows(last: int, layers: int) -> list[tuple[Point, Point]]:
    return [
        ((place - back, layer), (place, layer + 1))
        for layer in range(layers)
        for place in range(last + 1)
        for back in range(3)
        if place >= back
    ]


def _looks(last: int) -> list[tuple[Point, Point]]:
    return [((place, 0), (asking, 1)) for asking in range(last + 1) for place in range(asking + 1)]


def _draw(
    axes: Axes, title: str, tokens: Sequence[str], lines: Sequence[tuple[Point, Point]], way: Sequence[Point]
) -> None:
    axes.set_title(title, fontsize=10.5, loc="left")
    height = max(y for _, (_, y) in lines)
    axes.set(xlim=(-0.6, len(tokens) - 0.4), ylim=(-0.25 * height, 1.15 * height))
    axes.axis("off")
    for a, b in lines:
        axes.plot(*zip(a, b, strict=True), color=_PALE, linewidth=0.8, zorder=1)
    if way[0][1]:  # a state is reached from its token first
        way = [(way[0][0], 0), *way]
    axes.plot(*zip(*way, strict=True), color=_STRONG, linewidth=2.4, zorder=2)
    for level in range(height + 1):
        places = range(len(tokens))
        axes.scatter(places, [level] * len(tokens), s=22, color=COLOURS["output" if level else "input"], zorder=3)
    for place, token in enumerate(tokens):
        axes.text(place, -0.09 * height, token, ha="right", va="top", rotation=40, rotation_mode="anchor", fontsize=8.5)
