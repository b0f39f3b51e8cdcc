"""Vectors with two numbers as points in the plane, with the hull of some of them."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from transformer_lib import checks
from transformer_lib.visualisation.style import COLOURS, new_figure, tidy

MARKS = {"input": "s", "value": "o", "output": "D"}


def convex_hull(points: Float[Tensor, "point 2"]) -> Float[Tensor, "corner 2"]:
    """Return the corners of the smallest convex polygon around points [point 2], counter-clockwise.

    Andrew's monotone chain: the lower side from left to right, then the upper side back.
    """
    ordered = sorted(map(tuple, points.tolist()))

    def side(sequence: list[tuple[float, float]]) -> list[tuple[float, float]]:
        chain: list[tuple[float, float]] = []
        for point in sequence:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
                chain.pop()
            chain.append(point)
        return chain[:-1]

    return torch.tensor(side(ordered) + side(ordered[::-1]))


def _turn(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def point_clouds(panels: dict[str, dict[str, Float[Tensor, "..."]]], names: Sequence[str] | None = None) -> Figure:
    """Draw points [point 2] by role, with the convex hull of each panel's first role.

    Args:
        panels: title -> role ("input", "value" or "output") -> points.
        names: one for each point of the first role; None for none.

    Raises:
        ValueError: a role is unknown, or its points are not pairs.
    """
    figure = new_figure(3.9 * len(panels), 3.4)
    for axes, (title, roles) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        tidy(axes, title, "feature 1", "feature 2")
        for number, (role, points) in enumerate(roles.items()):
            if role not in MARKS or points.dim() != 2 or points.size(1) != 2:
                raise ValueError(
                    f"{title}: roles must be among {', '.join(MARKS)}, with points of shape [point 2], "
                    f"got {role!r} with {checks.shape(points)}"
                )
            _draw(axes, role, points.detach(), names if number == 0 else None, hull=number == 0)
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.12)
        axes.legend(fontsize=8, frameon=False)
    return figure


def _draw(axes: Axes, role: str, points: Tensor, names: Sequence[str] | None, *, hull: bool) -> None:
    colour = COLOURS[role]
    if hull:
        axes.fill(*convex_hull(points).T.numpy(), facecolor=colour, alpha=0.12, edgecolor=colour, linewidth=1)
    axes.scatter(*points.T.numpy(), c=colour, marker=MARKS[role], s=28, label=f"{role}s", zorder=3)
    for name, (x, y) in zip(names or (), points.tolist(), strict=False):
        axes.annotate(name, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8, color=colour)
