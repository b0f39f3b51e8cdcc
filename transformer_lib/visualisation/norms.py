"""Where a norm may stand (chapter 10): three residual blocks side by side."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from transformer_lib.visualisation.style import COLOURS, new_figure

_BLOCKS = {  # title: (formula, height of the norm, whether it stands on the bypass)
    "post-norm": (r"$\mathrm{LN}(x + f(x))$", 3.9, False),
    "pre-norm": (r"$x + f(\mathrm{LN}(x))$", 0.9, False),
    "norm on the bypass": (r"$\mathrm{LN}(x) + f(x)$", 1.9, True),
}
_SUM, _TOP, _BYPASS = 3.0, 4.9, 1.5


def placements() -> Figure:
    """Draw a residual connection three times: the norm after the sum, on the branch, on the bypass."""
    figure = new_figure(8.2, 2.6)
    for axes, (title, (formula, height, bypass)) in zip(figure.subplots(1, 3), _BLOCKS.items(), strict=True):
        axes.set(xlim=(-1.4, 2.6), ylim=(-0.6, 5.9))
        axes.axis("off")
        axes.text(0.5, 5.6, f"{title}: {formula}", ha="center", fontsize=9.5)
        _wires(axes)
        _box(axes, 0.0, 1.9, "f: sub-layer", COLOURS["query"])
        _box(axes, _BYPASS if bypass else 0.0, height, "LN", COLOURS["key"], width=0.7)
    return figure


def _wires(axes: Axes) -> None:
    line = {"color": "#333333", "linewidth": 1.2}
    axes.plot([0, 0], [-0.1, _SUM - 0.2], **line)
    axes.plot([0, _BYPASS, _BYPASS, 0.2], [0.2, 0.2, _SUM, _SUM], **line)
    axes.annotate("", (0, _TOP), (0, _SUM + 0.2), arrowprops={"arrowstyle": "->", **line})
    axes.text(0, _SUM, "+", ha="center", va="center", fontsize=12, bbox={"boxstyle": "circle,pad=0.12", "fc": "white"})
    axes.text(0, -0.5, "$x$", ha="center", fontsize=10)


def _box(axes: Axes, x: float, y: float, text: str, colour: str, width: float = 1.6) -> None:
    look = {"boxstyle": "round,pad=0.02,rounding_size=0.12", "facecolor": "white", "edgecolor": colour}
    corner = (x - width / 2, y - 0.28)
    axes.add_patch(FancyBboxPatch(corner, width, 0.56, linewidth=1.5, zorder=3, **look))
    axes.text(x, y, text, ha="center", va="center", fontsize=8.5, color=colour, zorder=4)
