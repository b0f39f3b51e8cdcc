"""Give each notebook figure in the built page the alternative text that it was displayed with.

`IPython.display.Image(..., alt=...)` stores the text in the output's metadata, where Jupyter keeps it; MyST-NB 1.4
reads only width and height from there, so that a screen reader would hear a file's name.
"""

from __future__ import annotations

import functools

from docutils import nodes
from myst_nb.core.render import MimeData, NbElementRenderer


def setup(app) -> dict[str, bool]:
    """Wrap MyST-NB's rendering of images; wrapping twice would do no harm, but is avoided."""
    if not hasattr(NbElementRenderer.render_image, "__wrapped__"):
        NbElementRenderer.render_image = _with_alt(NbElementRenderer.render_image)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _with_alt(render_image):
    @functools.wraps(render_image)
    def render(self, data: MimeData) -> list[nodes.Element]:
        rendered = render_image(self, data)
        alt = data.output_metadata.get(data.mime_type, {}).get("alt")
        for image in rendered if alt else []:
            image["alt"] = str(alt)
        return rendered

    return render
