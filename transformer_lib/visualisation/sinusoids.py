"""Sinusoidal positions with any base: a pair's waves, its rotation by an offset, and products. A control; see `moving`.

The built page shows the same by `sinusoids.js`, which computes all of it.
"""

import math
from dataclasses import dataclass

import ipywidgets as widgets
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import checks, relative
from transformer_lib.visualisation.moving import follow
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

BASES = (100, 1000, 10000, 500000)
WIDTHS = (16, 64, 128, 512)
LENGTH, REACH = 128, 50  # positions drawn, offsets to either side


@dataclass(frozen=True, kw_only=True)
class State:
    """What the figure shows of one pair of dimensions, and of all of them together.

    Args:
        wavelength: of the pair, in positions.
        sine: of the pair, at positions 0 to 127.
        cosine: the same.
        rotation: what takes (sine, cosine) at any position to those `offset` positions later.
        products: PE(p) . PE(p + k), the same at every p, for k from -50 to 50.
    """

    wavelength: float
    sine: list[float]
    cosine: list[float]
    rotation: list[list[float]]
    products: list[float]


def waves(length: int, d_model: int, base: int | float = 10000) -> Float[Tensor, "position d_model"]:
    """Return one vector per position, as `positional.sinusoidal_positions` does, with any base in place of 10000.

    Pair i at position p is (0, 1) turned by p * base^(-2i / d_model): sine and cosine.

    Raises:
        ValueError: `d_model` is odd, or the base isn't above 0.
    """
    start = torch.tensor([1.0, 0.0]).repeat(d_model // 2).expand(1, 1, length, -1)
    turned = relative.RotaryPositions(d_model, float(base)).rotate(start, 0)[0, 0]
    return turned.unflatten(1, (-1, 2)).flip(-1).flatten(start_dim=1)  # rotation gives the cosine first


def state(base: int | float = 10000, d_model: int = 64, pair: int = 4, offset: int = 6) -> State:
    """Return what the figure shows at these settings, as the library computes it.

    Raises:
        TypeError: `pair` or `offset` is not an integer.
        ValueError: the model has no such pair, or the offset is beyond 50.
    """
    checks.not_negative(pair=pair)
    checks.instance(int, offset=offset)
    if pair >= d_model // 2 or abs(offset) > REACH:
        raise ValueError(f"pair must be below {d_model // 2} and offset within {REACH}, got {pair} and {offset}")
    encoding = waves(LENGTH, d_model, base)
    sine, cosine = encoding[:, 2 * pair].tolist(), encoding[:, 2 * pair + 1].tolist()
    s, c = math.copysign(1, offset) * sine[abs(offset)], cosine[abs(offset)]
    return State(
        wavelength=2 * math.pi * base ** (2 * pair / d_model),
        sine=sine,
        cosine=cosine,
        rotation=[[c, s], [-s, c]],
        products=(encoding[: 2 * REACH + 1] @ encoding[REACH]).tolist(),  # seen from position 50
    )


def figure(shown: State, position: int, offset: int) -> Figure:
    """Draw the pair's waves, its turn by the offset and the products."""
    drawn = new_figure(7.4, 4.6)
    axes = drawn.subplot_mosaic([["waves", "waves"], ["turn", "products"]], width_ratios=[1, 2])
    tidy(axes["waves"], f"the pair: wavelength {shown.wavelength:,.1f} positions", "position", "value (no unit)")
    for name, role in (("sine", "query"), ("cosine", "key")):
        axes["waves"].plot(getattr(shown, name), color=COLOURS[role], label=name, ls="-" if role == "query" else "--")
    axes["waves"].legend(fontsize=8, loc="upper right")
    tidy(axes["turn"], "turned by k", "cosine", "sine")
    start = torch.tensor([shown.sine[position], shown.cosine[position]])
    points = [start.tolist(), (torch.tensor(shown.rotation) @ start).tolist()]
    for (s, c), (label, ls) in zip(points, (("p", "-"), ("p + k", ":")), strict=True):
        axes["turn"].plot([0, c], [0, s], marker="o", label=label, color=COLOURS["output"], ls=ls)
    axes["turn"].set(xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), aspect="equal")
    axes["turn"].legend(fontsize=8)
    tidy(axes["products"], "PE(p) · PE(p + k), at every p", "offset k (positions)", "product (no unit)")
    axes["products"].plot(range(-REACH, REACH + 1), shown.products, color=COLOURS["value"])
    axes["products"].plot([offset], [shown.products[offset + REACH]], "o", color=COLOURS["value"])
    return drawn


def control() -> widgets.VBox:
    """Return knobs for base, width, pair, position and offset, above the figure that follows them."""
    base = widgets.Dropdown(options=BASES, value=10000, description="base")
    d_model = widgets.Dropdown(options=WIDTHS, value=64, description="d_model")
    pair = widgets.IntSlider(value=4, min=0, max=31, description="pair")
    position = widgets.IntSlider(value=20, min=0, max=LENGTH - 1, description="position p")
    offset = widgets.IntSlider(value=6, min=-REACH, max=REACH, description="offset k")

    def draw(base: int, d_model: int, pair: int, position: int, offset: int) -> Figure:
        return figure(state(base, d_model, min(pair, d_model // 2 - 1), offset), position, offset)

    d_model.observe(lambda change: setattr(pair, "max", change["new"] // 2 - 1), names="value")
    return follow([base, d_model, pair, position, offset], draw)
