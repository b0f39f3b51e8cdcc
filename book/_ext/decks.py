"""Write the chapters' slides into the built site, and link each chapter's page to its deck."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
from sphinx.errors import ExtensionError

REPOSITORY = Path(__file__).resolve().parents[2]


def link_to_deck(app, pagename, templatename, context, doctree) -> None:
    """Put a line below a chapter's title, where its notebook has slides."""
    number = re.match(r"notebooks/(\d\d)_", pagename)
    if number and doctree is not None and _has_slides(Path(app.env.doc2path(pagename))):
        link = f'<p class="deck"><a href="../slides/{number.group(1)}.html">Slides of this chapter</a></p>'
        context["body"] = re.sub(r"</h1>", lambda end: f"{end.group(0)}\n{link}", context["body"], count=1)


def _has_slides(path: Path) -> bool:
    cells = nbformat.read(path, as_version=4).cells
    return any(cell.metadata.get("slideshow", {}).get("slide_type") == "slide" for cell in cells)


def write_decks(app, exception) -> None:
    """Run the tool that makes the slides, after a build that went well."""
    if exception is None and app.builder.name == "html":
        command = [sys.executable, "-m", "tools.slides", "--write", "--root", str(app.srcdir), "--into", app.outdir]
        run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        if run.returncode:
            raise ExtensionError(f"the slides could not be made:\n{run.stderr}")


def setup(app) -> dict[str, bool]:
    """Connect the functions above to Sphinx."""
    app.connect("html-page-context", link_to_deck)
    app.connect("build-finished", write_decks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
