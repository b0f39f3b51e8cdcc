"""What the moving figures share: with a kernel an ipywidgets control, in the built page a script and its data.

Each figure's module holds `state` (its values, by the library) and `control` (its knobs over a drawing), and where its
script needs numbers that it can't compute, `write`, which writes them to a folder.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ipywidgets as widgets
from matplotlib.figure import Figure

from transformer_lib import files
from transformer_lib.visualisation.style import png


def follow(knobs: Sequence[widgets.Widget], draw: Callable[..., Figure], width: int = 680) -> widgets.VBox:
    """Return the knobs, two in a row, above the figure that `draw` makes of their values.

    Args:
        draw: takes one value per knob, in their order.
        width: of the picture, in pixels.
    """
    picture = widgets.Image(format="png", width=str(width))

    def update(_: object = None) -> None:
        picture.value = png(draw(*(knob.value for knob in knobs)))

    for knob in knobs:
        knob.observe(update, names="value")
    update()
    rows = [widgets.HBox(list(knobs[start : start + 2])) for start in range(0, len(knobs), 2)]
    return widgets.VBox([*rows, picture])


def write_data(path: Path, variable: str, data: dict[str, Any], by: str) -> None:
    """Write a script that gives a page the data under the name of a variable.

    Args:
        by: the `__name__` of the module whose `write` makes it, for the first line.
    """
    text = json.dumps(data, separators=(",", ":"))  # ASCII, whatever encoding the page declares
    head = f"// Written by {by}.write"
    files.write_whole(path, f"{head}\nvar {variable} = {text};\n".encode())


def page_data(path: Path) -> dict[str, Any]:
    """Return what `write_data` wrote."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])
