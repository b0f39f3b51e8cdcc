"""The picture on the first page: what the shipped translator looks at, as an SVG that takes the page's own colours.

`python -m tools.cover` compares it with the translator's weights; `--write` draws it again.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from tools import ROOT, cells, pages
from transformer_lib.visualisation import heads

PICTURE, WEIGHTS = Path("book/cover.svg"), Path("transformer_lib/weights/de_en")
SENTENCE, LAYER, HEAD = 1, 2, 1
CELL, LEFT, TOP = 26, 92, 66  # in units of the picture


def picture() -> str:
    """Return the picture: one row for each word that is written, one column for each that is read."""
    found = next(maps for maps in heads.maps(SENTENCE) if maps.kind == "cross-attention")
    weights = found.weights[LAYER, HEAD]
    width, height = LEFT + CELL * len(found.keys) + 46, TOP + CELL * len(found.following) + 8
    about = (
        f"A grid of attention weights. The translator reads “{heads.SENTENCES[SENTENCE]}” and writes "
        f"“{' '.join(found.queries[1:])}” Most rows have one dark cell, under the word that they translate."
    )
    parts = [
        f'<svg class="cover" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(about)}">',
        *(_column(number, token) for number, token in enumerate(found.keys)),
        *(
            _row(number, token, row.tolist())
            for number, (token, row) in enumerate(zip(found.following, weights, strict=True))
        ),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _column(number: int, token: str) -> str:
    x, y = LEFT + CELL * number + 11, TOP - 8
    return f'<text x="{x}" y="{y}" transform="rotate(-50 {x} {y})">{escape(token)}</text>'


def _row(number: int, token: str, weights: list[float]) -> str:
    y = TOP + CELL * number
    squares = "".join(
        f'<rect x="{LEFT + CELL * at}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" fill-opacity="{weight:.2f}"/>'
        for at, weight in enumerate(weights)
    )
    return f'<text x="{LEFT - 10}" y="{y + 17}" text-anchor="end">{escape(token)}</text>{squares}'


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Compare the picture, after drawing it where `--write` asks for that."""
    drawn = picture()
    write = lambda: cells.write_text(root / PICTURE, drawn)  # noqa: E731
    return pages.run(arguments, "cover", __doc__, write, lambda: pages.stale(PICTURE, drawn, WEIGHTS, root))


if __name__ == "__main__":
    sys.exit(main())
