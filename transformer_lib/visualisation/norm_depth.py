"""Each layer's gradient before the first step, by the place of the norm and the depth. A control; see `moving`.

The gradients are recorded (`experiments.norm_depth`). The built page shows the same by `norm_depth.js`, from
`norm_depth_data.js`, written by `write`.
"""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from transformer_lib import checks
from transformer_lib.visualisation.moving import follow, write_data
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

RULES = {"post": "post-norm: LN(x + f(x))", "pre": "pre-norm: x + f(LN(x))", "skip": "on the bypass: LN(x) + f(x)"}
DEPTHS = (2, 4, 6, 8, 12, 16, 20, 24)


@dataclass(frozen=True, kw_only=True)
class State:
    """What one stack's layers get before the first step.

    Args:
        shares: each layer's gradient over the largest one's, from the input up.
        ratio: the first layer's over the last layer's.
    """

    shares: list[float]
    ratio: float


@lru_cache(maxsize=1)
def recorded() -> dict[str, dict[str, list[float]]]:
    """Return rule -> depth -> each layer's gradient, the geometric mean over the recorded seeds, to four digits."""
    path = resources.files("transformer_lib") / "records" / "norm_depth.json"
    runs: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"]
    return {rule: {str(n): _means([run["gradients"][rule][str(n)] for run in runs]) for n in DEPTHS} for rule in RULES}


def _means(runs: list[list[float]]) -> list[float]:
    columns = zip(*runs, strict=True)
    return [float(f"{math.exp(sum(map(math.log, sizes)) / len(sizes)):.4g}") for sizes in columns]


def state(rule: str = "post", depth: int = 6) -> State:
    """Return what the figure shows of one stack.

    Raises:
        ValueError: there is no such rule or depth.
    """
    checks.one_of(tuple(RULES), rule=rule)
    checks.positive(depth=depth)
    if depth not in DEPTHS:
        raise ValueError(f"depth must be one of {DEPTHS}, got {depth}")
    sizes = recorded()[rule][str(depth)]
    return State(shares=[size / max(sizes) for size in sizes], ratio=sizes[0] / sizes[-1])


def write(folder: Path) -> None:
    """Write the gradients that the built page's twin of the control shows."""
    data = {"rules": RULES, "depths": DEPTHS, "gradients": recorded()}
    write_data(folder / "norm_depth_data.js", "normDepthData", data, by=__name__)


def figure(shown: State) -> Figure:
    """Draw one bar for each layer, the first at the bottom."""
    drawn = new_figure(6.4, 1.2 + 0.16 * len(shown.shares))
    axes = drawn.subplots()
    title = f"the first layer's gradient is {shown.ratio:.2g} times the last one's"
    tidy(axes, title, "gradient's norm (largest = 1)", "layer, from the input")
    axes.barh(range(1, len(shown.shares) + 1), shown.shares, color=COLOURS["query"])
    axes.set_xlim(0, 1)
    return drawn


def control() -> widgets.VBox:
    """Return knobs for the place of the norm and the depth, above the figure that follows them."""
    rule = widgets.Dropdown(options=[(text, name) for name, text in RULES.items()], description="norm")
    depth = widgets.SelectionSlider(options=DEPTHS, value=6, description="layers")
    return follow([rule, depth], lambda rule, depth: figure(state(rule, depth)))
