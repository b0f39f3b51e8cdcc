"""The four steps of attention in one picture, computed from a small example: project, compare, normalise, recombine."""

from collections.abc import Sequence

import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from transformer_lib import attention
from transformer_lib.visualisation.style import COLOURS, WEIGHTS, new_figure

STEPS = ("project", "compare", "normalise", "recombine")
TOKENS, D_MODEL, D_K = 4, 6, 3
_SIZE = 1.0  # of a square
_LEFT = {"project": 0.0, "compare": 20.4, "normalise": 31.0, "recombine": 38.4}
_WIDTH = {"project": 19.6, "compare": 9.8, "normalise": 6.6, "recombine": 14.0}
_FORMULA = {
    "project": r"$Q=XW_Q,\ K=XW_K,\ V=XW_V$",
    "compare": r"$S=QK^\top/\sqrt{d_k}$",
    "normalise": r"$A=\mathrm{softmax}(S)$",
    "recombine": r"$O=AV$",
}


def four_steps(highlight: Sequence[str] = STEPS) -> Figure:
    """Draw the four steps from left to right; those in `highlight` stand out.

    Raises:
        ValueError: a step has another name than those in `STEPS`.
    """
    if unknown := set(highlight) - set(STEPS):
        raise ValueError(f"highlight must name steps among {', '.join(STEPS)}, got {', '.join(sorted(unknown))}")
    figure = new_figure(8.8, 2.45)
    axes = figure.subplots()
    axes.set(xlim=(-0.3, 52.7), ylim=(-4.6, 9.4), aspect="equal")
    axes.axis("off")
    for number, step in enumerate(STEPS, start=1):
        _frame(axes, number, step, step in highlight)
    for name, matrix, left, bottom in _matrices():
        _grid(axes, name, matrix, left, bottom)
    for left, sign in ((7.55, "→"), (43.4, "×"), (47.85, "=")):
        axes.text(left, 1.0, sign, ha="center", va="center", fontsize=12, color="#333333")
    return figure


def _example() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(TOKENS, D_MODEL, generator=generator)
    query, key, value = (x @ torch.randn(D_MODEL, D_K, generator=generator) / D_MODEL**0.5 for _ in range(3))
    scores = attention.attention_scores(2 * query, 2 * key)
    weights = attention.masked_softmax(scores)
    return {"X": x, "Q": query, "K": key, "V": value, "S": scores, "A": weights, "O": weights @ value}


def _matrices() -> list[tuple[str, Tensor, float, float]]:
    """Return (name, matrix, left, bottom) of all that is drawn."""
    made = _example()
    made["K^\\top"] = made["K"].T
    places = [("X", 0.7, -1.0), ("Q", 8.5, -1.0), ("K", 12.2, -1.0), ("V", 15.9, -1.0)]
    places += [("Q", 21.1, -1.6), ("K^\\top", 24.7, 2.8), ("S", 24.7, -1.6), ("A", 32.3, -1.0)]
    places += [("A", 38.9, -1.0), ("V", 44.1, -1.0), ("O", 48.6, -1.0)]
    return [(name, made[name], left, bottom) for name, left, bottom in places]


def _frame(axes: Axes, number: int, step: str, is_on: bool) -> None:
    left, width = _LEFT[step], _WIDTH[step]
    face, edge = ("#fff7e8", "#c2770c") if is_on else ("#f6f7f9", "#c5cad3")
    style = "round,pad=0,rounding_size=0.5"
    box = FancyBboxPatch((left, -4.4), width, 13.6, boxstyle=style, facecolor=face, edgecolor=edge, linewidth=1.2)
    axes.add_patch(box)
    if step == "normalise":
        axes.text(left + width / 2, -1.9, "rows sum to 1", ha="center", va="center", fontsize=7.5, color="#5b6472")
    colour = "#7a3f00" if is_on else "#5b6472"
    weight = "bold" if is_on else "normal"
    axes.text(
        left + width / 2, 8.3, f"{number} {step}", ha="center", va="center", fontsize=10, color=colour, weight=weight
    )
    axes.text(left + width / 2, -3.4, _FORMULA[step], ha="center", va="center", fontsize=9, color=colour)


def _grid(axes: Axes, name: str, matrix: Tensor, left: float, bottom: float) -> None:
    rows, columns = matrix.shape
    for row in range(rows):
        for column in range(columns):
            corner = (left + column * _SIZE, bottom + (rows - 1 - row) * _SIZE)
            colour = _colour(name, matrix[row, column].item())
            axes.add_patch(Rectangle(corner, _SIZE, _SIZE, facecolor=colour, edgecolor="white", linewidth=0.8))
    if name == "S":  # K^T stands above it
        return
    above = (left + columns * _SIZE / 2, bottom + rows * _SIZE + 0.2)
    axes.text(*above, f"${name}$", ha="center", va="bottom", fontsize=10)


def _colour(name: str, number: float):
    """Return a shade: the weights' own colours from 0 to 1; else the role's colour, paler for smaller numbers."""
    if name == "A":
        return colormaps[WEIGHTS](number)
    roles = {"X": "input", "Q": "query", "K": "key", "V": "value", "S": "theory", "O": "output"}
    role = roles[name[0]]
    strength = 0.15 + 0.8 / (1 + 2.718 ** (-1.3 * number))
    return tuple(1 - strength * (1 - channel) for channel in to_rgb(COLOURS[role]))
