"""One query, eleven keys: what width, scale and temperature do to the weights. A control, and the data of its twin.

With a kernel `control()` is an ipywidgets figure. The built page shows the same states by `attention_scale.js`, which
finds the products of queries and keys in `attention_scale_data.js`, written by `write`.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import ipywidgets as widgets
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import attention, files
from transformer_lib.visualisation.style import COLOURS, new_figure, png, tidy

LABELS = tuple(f"key {number}" for number in range(1, 12))
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SEEDS = (2, 1, 3, 4, 5, 6)  # one per draw; in the first the winner's share grows from d_k = 8 up
DRAWS = len(SEEDS)


@dataclass(frozen=True, kw_only=True)
class State:
    """What the figure shows: one number per key, and two that sum them up.

    Args:
        entropy: of the weights, in nats: 0 when one key gets everything, ln 11 when all get the same.
    """

    scores: list[float]
    weights: list[float]
    entropy: float
    largest: float


def vectors(draw: int, d_k: int) -> tuple[Float[Tensor, "query=1 d_k"], Float[Tensor, "key=11 d_k"]]:
    """Return a query and a key for each label, all components from N(0, 1).

    Raises:
        ValueError: the draw or the width isn't one that the figure has.
    """
    if draw not in range(DRAWS) or d_k not in WIDTHS:
        raise ValueError(f"draw must be below {DRAWS} and d_k one of {WIDTHS}, got {draw} and {d_k}")
    generator = torch.Generator().manual_seed(SEEDS[draw])
    both = torch.randn(1 + len(LABELS), WIDTHS[-1], generator=generator)[:, :d_k]
    return both[:1], both[1:]


def state(draw: int = 0, d_k: int = 64, scaled: bool = False, temperature: float = 1.0) -> State:
    """Return what the figure shows at these settings, as the library computes it.

    Raises:
        ValueError: the temperature isn't above 0.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    scores = attention.attention_scores(*vectors(draw, d_k)) * (1.0 if scaled else math.sqrt(d_k))
    weights = attention.masked_softmax(scores / temperature)
    return State(
        scores=scores[0].tolist(),
        weights=weights[0].tolist(),
        entropy=torch.special.entr(weights).sum().item(),
        largest=weights.max().item(),
    )


def products() -> list[dict[int, list[float]]]:
    """Return, for each draw and width, the products q . k with the eleven keys, to four decimals."""
    return [
        {d_k: [round(score, 4) for score in state(draw, d_k, scaled=False).scores] for d_k in WIDTHS}
        for draw in range(DRAWS)
    ]


def write(path: Path) -> None:
    """Write the data that the built page's twin of the control reads."""
    data = {"labels": LABELS, "widths": WIDTHS, "draws": products()}
    text = f"// Written by transformer_lib.visualisation.scale.write\nvar attentionScaleData = {json.dumps(data)};\n"
    files.write_whole(path, text.encode())


def figure(shown: State) -> Figure:
    """Draw the scores and the weights of a state as bars, one per key."""
    drawn = new_figure(7.4, 2.9)
    left, right = drawn.subplots(1, 2, sharey=True)
    places = range(len(LABELS))
    tidy(left, "scores", "score (no unit)", "key")
    left.barh(places, shown.scores, color=COLOURS["key"])
    left.axvline(0, color="#333333", linewidth=0.8)
    tidy(right, f"weights: largest {shown.largest:.2f}, entropy {shown.entropy:.2f} nats", "weight (share of 1)", "")
    right.barh(places, shown.weights, color=COLOURS["query"])
    right.set_xlim(0, 1)
    left.set_yticks(places, LABELS)
    left.invert_yaxis()
    return drawn


def control() -> widgets.VBox:
    """Return sliders for width, scale, temperature and draw, above the figure that follows them."""
    d_k = widgets.SelectionSlider(options=WIDTHS, value=64, description="d_k")
    scaled = widgets.Checkbox(value=False, description="divide by √d_k")
    temperature = widgets.FloatSlider(value=1.0, min=0.25, max=4.0, step=0.25, description="temperature")
    draw = widgets.IntSlider(value=0, min=0, max=DRAWS - 1, description="draw")
    picture = widgets.Image(format="png", width="680")

    def update(_=None) -> None:
        picture.value = png(figure(state(draw.value, d_k.value, scaled.value, temperature.value)))

    for knob in (d_k, scaled, temperature, draw):
        knob.observe(update, names="value")
    update()
    return widgets.VBox([widgets.HBox([d_k, scaled]), widgets.HBox([temperature, draw]), picture])
