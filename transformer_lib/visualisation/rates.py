"""The learning rate of every step: warm-up, width, factor and tail are the reader's. A control; see `moving`.

The built page shows the same by `learning_rate.js`, which computes all of it.
"""

from dataclasses import dataclass

import ipywidgets as widgets
from matplotlib.figure import Figure

from transformer_lib import checks, training
from transformer_lib.visualisation.moving import follow
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

STEPS = (420, 4000, 100_000)
WARMUPS = (1, 10, 20, 40, 80, 160, 400, 1000, 4000)
WIDTHS = (64, 128, 256, 512)
POINTS = 210  # drawn


@dataclass(frozen=True, kw_only=True)
class State:
    """What the figure shows of one schedule.

    Args:
        step: the steps that are drawn.
        rate: at these steps, with the tail.
        peak: the highest rate of all steps.
        at: the step that has it.
        mean: of the rates of all steps.
    """

    step: list[int]
    rate: list[float]
    peak: float
    at: int
    mean: float


def state(steps: int = 420, warmup: int = 80, d_model: int = 64, factor: float = 1.0, tail: float = 0.5) -> State:
    """Return what the figure shows at these settings, as the library computes it.

    Args:
        tail: share of the steps over which the rate is led to 0 in a line; 0 is no tail.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a number is out of range.
    """
    checks.positive(steps=steps)
    if not 0 <= tail <= 1:
        raise ValueError(f"tail must be between 0 and 1, got {tail}")
    last = max(1, round(tail * steps))  # a tail of one step changes nothing
    every = range(1, steps + 1)
    rates = [
        training.noam_rate(step, d_model, warmup, factor) * training.linear_tail(step, steps, last) for step in every
    ]
    drawn = sorted({max(1, round(steps * point / POINTS)) for point in range(POINTS + 1)})
    peak = max(rates)
    return State(
        step=drawn,
        rate=[rates[step - 1] for step in drawn],
        peak=peak,
        at=rates.index(peak) + 1,
        mean=sum(rates) / steps,
    )


def figure(shown: State) -> Figure:
    """Draw the rate over the steps."""
    drawn = new_figure(7.0, 2.8)
    axes = drawn.subplots()
    tidy(axes, f"peak {shown.peak:.5f} at step {shown.at:,}", "step", "learning rate (no unit)")
    axes.plot(shown.step, shown.rate, color=COLOURS["query"])
    axes.plot([shown.at], [shown.peak], "o", color=COLOURS["key"])
    axes.set_ylim(bottom=0)
    return drawn


def control() -> widgets.VBox:
    """Return knobs for steps, warm-up, width, factor and tail, above the figure that follows them."""
    steps = widgets.Dropdown(options=STEPS, value=420, description="steps")
    warmup = widgets.SelectionSlider(options=WARMUPS, value=80, description="warm-up")
    d_model = widgets.Dropdown(options=WIDTHS, value=64, description="d_model")
    factor = widgets.FloatSlider(value=1.0, min=0.25, max=4.0, step=0.25, description="factor")
    tail = widgets.FloatSlider(value=0.5, min=0.0, max=1.0, step=0.25, description="tail")
    return follow([steps, warmup, d_model, factor, tail], lambda *chosen: figure(state(*chosen)))
