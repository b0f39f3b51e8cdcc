"""The picture on the page of measurements: translation quality against computing time, as an SVG in the page's colours.

`python -m tools.speed` compares it with the recorded runs, and draws it again with `--write`.
"""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

PICTURE = Path("book/quality.svg")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 440, 320, 50, 14, 62, 46  # in units of the picture
STEP = 15  # minutes from mark to mark
SHAPES = {  # of half a width of 1, around 0
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "triangle": ((0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
    "diamond": ((0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)),
    "hexagon": tuple((math.cos(math.pi * k / 3), math.sin(math.pi * k / 3)) for k in range(6)),
}


def picture(runs: list[dict[str, Any]]) -> str:
    """Return the picture: a mark for each run, its shape by the model's width, filled where positions are rotary.

    Raises:
        ValueError: there is no run, or there are more widths than shapes.
    """
    runs = sorted(runs, key=lambda run: run["CPU-minutes"])
    widths = sorted({run["settings"]["d_model"] for run in runs})
    if not 0 < len(widths) <= len(SHAPES):
        raise ValueError(f"wanted runs of 1 to {len(SHAPES)} widths, got {len(widths)}")
    shape = dict(zip(widths, SHAPES, strict=False))
    right = STEP * math.ceil(runs[-1]["CPU-minutes"] / STEP)
    scores = [run["beam 5"] for run in runs]
    low, high = math.floor(min(scores) - 0.2), math.ceil(max(scores) + 0.2)

    def at(minutes: float, score: float) -> tuple[float, float]:
        share_x, share_y = minutes / right, (high - score) / (high - low)
        return LEFT + share_x * (WIDTH - LEFT - RIGHT), TOP + share_y * (HEIGHT - TOP - BOTTOM)

    marks = [
        mark(*at(run["CPU-minutes"], run["beam 5"]), shape[sizes["d_model"]], sizes["positions"] == "rotary", told(run))
        for run in runs
        for sizes in [run["settings"]]
    ]
    about = " ".join(["Translation quality against computing time, a mark for each training run.", *map(told, runs)])
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(about)}">',
        *_legend(shape),
        *(_line(*at(0, score), *at(right, score), str(score)) for score in range(low, high + 1)),
        *(
            f'<text x="{at(minutes, low)[0]:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{minutes}</text>'
            for minutes in range(0, right + 1, STEP)
        ),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">computing time, minutes</text>',
        _upright(15, (TOP + HEIGHT - BOTTOM) / 2, "sacreBLEU, 5 beams"),
        *marks,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def told(run: dict[str, Any]) -> str:
    """Return a run in one sentence."""
    return f"{run['name']}: {run['beam 5']:.1f} after {run['CPU-minutes']:.0f} minutes."


def mark(x: float, y: float, shape: str, is_filled: bool, about: str = "") -> str:
    """Return one mark, with what it says when it's pointed at."""
    points = " ".join(f"{x + 6 * dx:.1f},{y + 6 * dy:.1f}" for dx, dy in SHAPES[shape])
    title = f"<title>{escape(about)}</title>" if about else ""
    return f'<polygon points="{points}" class="{"full" if is_filled else "hollow"}">{title}</polygon>'


def _legend(shape: dict[int, str]) -> list[str]:
    parts = []
    for number, (width, form) in enumerate(shape.items()):
        x = LEFT + 8 + 100 * number
        parts.append(mark(x, 14, form, is_filled=True) + f'<text x="{x + 12}" y="19">width {width}</text>')
    first = next(iter(shape.values()))
    for x, is_filled, text in ((LEFT + 8, True, "rotary positions"), (LEFT + 158, False, "added sinusoids")):
        parts.append(mark(x, 38, first, is_filled) + f'<text x="{x + 12}" y="43">{text}</text>')
    return parts


def _line(x: float, y: float, to_x: float, to_y: float, text: str) -> str:
    line = f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"/>'
    return f'{line}<text x="{x - 8:.1f}" y="{y + 5:.1f}" text-anchor="end">{text}</text>'


def _upright(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" transform="rotate(-90 {x} {y})">{text}</text>'
