"""The whole Transformer in one picture, each arrow with the shape of what flows along it (chapter 06)."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from transformer_lib.visualisation.style import COLOURS, new_figure

WIDTH, HEIGHT = 10.0, 19.7  # of the drawing, in its own units
_BOX, _GAP = 3.5, 0.95
_FILL = {"attention": "#fdeedd", "feed-forward": "#e3eef9", "norm": "#eef0f3", "ends": "#efe8f7"}


@dataclass(frozen=True, kw_only=True)
class _Column:
    """One side of the model: where it stands, its colour, and the shape of what flows through it."""

    axes: Axes
    x: float
    colour: str
    shape: str

    def box(self, y: float, text: str, kind: str, height: float = 0.8) -> float:
        """Draw a box whose lower edge is at y, and return its upper edge."""
        corner = (self.x - _BOX / 2, y)
        edge = FancyBboxPatch(
            corner, _BOX, height, boxstyle="round,pad=0,rounding_size=0.15", facecolor=_FILL[kind], edgecolor="#555f6d"
        )
        self.axes.add_patch(edge)
        self.axes.text(self.x, y + height / 2, text, ha="center", va="center", fontsize=9.5, linespacing=1.25)
        return y + height

    def arrow(self, y: float, shape: str | None = None, length: float = _GAP, place: float = 0.45) -> float:
        """Draw an arrow upwards from y with its shape beside it, and return where it ends."""
        _arrow(self.axes, (self.x, y), (self.x, y + length), self.colour)
        label = self.shape if shape is None else shape
        self.axes.text(self.x + 0.14, y + place * length, label, color=self.colour, fontsize=9.5, va="center")
        return y + length

    def sublayer(self, y: float, text: str, kind: str) -> float:
        """Draw a sub-layer with its residual connection, entered from below at y; return where the norm ends."""
        start = y - 0.55 * _GAP
        top = self.arrow(self.box(y, text, kind, 1.3), length=0.8)
        outside = self.x - _BOX / 2 - 0.35
        way = [(self.x, start), (outside, start), (outside, top + 0.35)]
        self.axes.plot(*zip(*way, strict=True), color=self.colour, linewidth=1.3, solid_capstyle="round")
        _arrow(self.axes, (outside, top + 0.35), (self.x - _BOX / 2, top + 0.35), self.colour)
        return self.box(top, "add, normalise", "norm", 0.7)


def whole_model() -> Figure:
    """Draw encoder and decoder as in Figure 1 of Vaswani et al. (2017): m source tokens, n target tokens, d = d_model.

    Orange is what has the source's length, blue what has the target's.
    """
    figure = new_figure(4.7, 8.4)
    axes = figure.subplots()
    axes.set(xlim=(-0.35, WIDTH), ylim=(-0.35, HEIGHT))
    axes.axis("off")
    encoder = _Column(axes=axes, x=2.45, colour=COLOURS["key"], shape="m × d")
    decoder = _Column(axes=axes, x=7.75, colour=COLOURS["query"], shape="n × d")
    memory = _encoder(encoder)
    crossing = _decoder(decoder)
    _memory(axes, encoder, memory, crossing, decoder.x - _BOX / 2)
    return figure


def _inputs(column: _Column, name: str, length: str) -> float:
    column.axes.text(column.x, 0, name, ha="center", va="center", fontsize=10, color=column.colour, weight="bold")
    y = column.arrow(0.3, shape=length, length=0.75)
    return column.arrow(column.box(y, "embedding × √d\n+ positions", "ends", 1.2), length=1.5, place=0.25)


def _encoder(column: _Column) -> float:
    begin = _inputs(column, "source tokens", "m")
    y = column.arrow(column.sublayer(begin, "self-attention\nweights h × m × m", "attention"))
    end = column.sublayer(y, "feed-forward\ninside m × d_ff", "feed-forward")
    _frame(column, begin, end, "N layers")
    return end


def _decoder(column: _Column) -> float:
    begin = _inputs(column, "target tokens", "n")
    y = column.arrow(column.sublayer(begin, "masked self-attention\nweights h × n × n", "attention"))
    crossing = y + 0.65
    y = column.arrow(column.sublayer(y, "cross-attention\nweights h × n × m", "attention"))
    end = column.sublayer(y, "feed-forward\ninside n × d_ff", "feed-forward")
    _frame(column, begin, end, "N layers")
    y = column.box(column.arrow(end, length=1.5, place=0.6), "× embeddingᵀ", "ends")
    y = column.box(column.arrow(y, shape="n × vocabulary"), "softmax", "ends")
    y = column.arrow(y, shape="n × vocabulary")
    column.axes.text(column.x, y + 0.3, "next tokens", ha="center", fontsize=10, color=column.colour, weight="bold")
    return crossing


def _frame(column: _Column, begin: float, end: float, name: str) -> None:
    low, high = begin - 0.72, end + 0.25
    corner = (column.x - _BOX / 2 - 0.6, low)
    style = {"facecolor": "none", "edgecolor": column.colour, "linestyle": (0, (4, 3)), "linewidth": 1.1}
    column.axes.add_patch(FancyBboxPatch(corner, _BOX + 0.85, high - low, boxstyle="round,pad=0", **style))
    column.axes.text(corner[0] + 0.1, high + 0.12, name, fontsize=8.5, color=column.colour, va="bottom")


def _memory(axes: Axes, encoder: _Column, top: float, crossing: float, end: float) -> None:
    above, between = top + 1.1, (encoder.x + _BOX / 2 + end) / 2 + 0.05
    way = [(encoder.x, top), (encoder.x, above), (between, above), (between, crossing)]
    axes.plot(*zip(*way, strict=True), color=encoder.colour, linewidth=1.3)
    _arrow(axes, way[-1], (end, crossing), encoder.colour)
    text = {"fontsize": 9.5, "color": encoder.colour}
    axes.text(encoder.x, above + 0.15, "memory, m × d", **text)
    axes.text(encoder.x + 0.2, above - 0.15, "for K and V", va="top", **text)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    line = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 11}
    axes.annotate("", end, start, arrowprops=line)
