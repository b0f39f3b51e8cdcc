"""What all figures share: colours by role, type sizes, and how a figure is displayed."""

import base64
import io

from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

COLOURS = {
    "input": "#4a5568",
    "query": "#2563a8",
    "key": "#c2570c",
    "value": "#2f7d4f",
    "output": "#6b3fa0",
    "with": "#0f766e",
    "without": "#b3261e",
    "mean": "#8a6d00",
    "median": "#a3276f",
    "theory": "#8a8f98",
}
WEIGHTS = "YlGnBu"  # every map of attention weights, always from 0 to 1
DOTS_PER_INCH, SHOWN_PER_INCH = 160, 92
PALETTE = 192  # colours in a stored picture
_TYPE = {"font": 9.5, "title": 10.5}


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches that no global state knows of, so that it is shown only once."""
    return Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")


def tidy(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """Write the labels of an axis and take away what carries no information."""
    axes.set_title(title, fontsize=_TYPE["title"], loc="left")
    axes.set_xlabel(x_label, fontsize=_TYPE["font"])
    axes.set_ylabel(y_label, fontsize=_TYPE["font"])
    axes.tick_params(labelsize=_TYPE["font"] - 1)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def png(figure: Figure) -> bytes:
    """Return the figure as a PNG that is the same whenever it's drawn by the same versions."""
    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DOTS_PER_INCH, facecolor="white", metadata={"Software": None})
    picture = Image.open(drawn).convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE)  # a third of the bytes
    picture.save(small, format="png", optimize=True)
    return small.getvalue()


def show(figure: Figure, *, alt: str) -> None:
    """Display a figure together with a text for those who can't see it.

    Args:
        alt: what the figure shows, in a sentence or two.

    Raises:
        TypeError: `figure` is not a matplotlib figure.
        ValueError: the text is empty.
    """
    if not isinstance(figure, Figure):
        raise TypeError(f"show needs a matplotlib figure, got {type(figure).__name__}")
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt must say what the figure shows, got {alt!r}")
    width = round(figure.get_size_inches()[0] * SHOWN_PER_INCH)
    data = {"image/png": base64.b64encode(png(figure)).decode(), "text/plain": f"Figure: {alt}"}
    display(data, metadata={"image/png": {"alt": alt, "width": width}}, raw=True)
