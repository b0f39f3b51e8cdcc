"""What this book needs of Sphinx beyond its settings: no dead buttons, no outside scripts, a complete API page."""

import importlib
import pkgutil
import re
from pathlib import Path

import transformer_lib

BAR_OUTSIDE_CODE = re.compile(r"\|(?=[^`]*(?:`[^`]*`[^`]*)*$)")  # an even number of backticks follows on the line
PARAMETERS = re.compile(r'<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>')
TABLE = '<div class="pst-scrollable-table-container">'
SECTION = """
## `{short}`

```{{eval-rst}}
.. automodule:: {name}
   :members:
   :special-members: __call__
```
"""


def drop_dead_launch_buttons(app, config) -> None:
    """Without a repository's address a launch button would lead nowhere, so there is none."""
    if not config.html_theme_options.get("repository_url"):
        config.html_theme_options["launch_buttons"] = {}


def name_report_button(app, pagename, templatename, context, doctree) -> None:
    """Say on the button what it's for: the theme calls a report of an error an issue, as programmers do."""
    groups = [button.get("buttons", [button]) for button in context.get("header_buttons", [])]
    for button in (one for group in groups for one in group if one.get("label") == "source-issues-button"):
        button |= {"text": "Report an error", "tooltip": "Report an error on this page"}


def drop_thebe(app, pagename, templatename, context, doctree) -> None:
    """Take out the live-code service's scripts: not used, they name another host and log an error a page."""
    context["script_files"] = [script for script in context.get("script_files", []) if not _is_thebe(script)]


def _is_thebe(script) -> bool:
    body = getattr(script, "attributes", {}).get("body") or ""
    return "THEBE_JS_URL" in body or "sphinx-thebe" in str(getattr(script, "filename", script))


def let_keys_scroll_tables(app, pagename, templatename, context, doctree) -> None:
    """Let a table that is wider than the screen take the keyboard's focus; without it only a finger could move it."""
    reachable = f'{TABLE[:-1]} tabindex="0" role="region" aria-label="table">'
    context["body"] = context.get("body", "").replace(TABLE, reachable)


def name_lists_rightly(app, pagename, templatename, context, doctree) -> None:
    """Take from Sphinx's pages two lists that are none: parameters without terms, references without items."""
    body = context.get("body", "").replace('<div role="list" class="citation-list">', '<div class="citation-list">')
    context["body"] = PARAMETERS.sub(_parameters, body)


def _parameters(found: re.Match) -> str:
    inside = found[1].replace("<dd>", "<div>").replace("</dd>", "</div>")
    return f'<div class="sig-parameters">\n{inside}</div>'


def public_modules() -> list[str]:
    """Return the library's modules by name. A package that says in `__all__` what it offers stands for its modules."""
    found = [module.name for module in pkgutil.walk_packages(transformer_lib.__path__, "transformer_lib.")]
    closed = [name for name in found if hasattr(importlib.import_module(name), "__all__")]
    inside = {name for name in found for package in closed if name.startswith(f"{package}.")}
    return sorted(name for name in found if "._" not in name and name not in inside)


def list_modules(app, docname, source) -> None:
    """Write one section for each of the library's modules at the end of the API page."""
    if docname == "book/api":
        source[0] += "".join(SECTION.format(name=name, short=name.split(".", 1)[1]) for name in public_modules())


def keep_colons(app, what, name, obj, options, lines) -> None:
    """Begin a property's docstring with an empty comment; else napoleon takes words before a colon for a type."""
    if what == "property" and lines:
        lines[:0] = ["..", ""]


def keep_bars(app, what, name, obj, options, lines) -> None:
    """Let |x| in a docstring mean an absolute value, as on paper; reStructuredText would look for a substitution."""
    lines[:] = [BAR_OUTSIDE_CODE.sub(r"\\|", line) for line in lines]


def watch_library(app, env, added, changed, removed) -> list[str]:
    """Have the API page read again at every build: the library may have changed."""
    return ["book/api"] if "book/api" in env.found_docs and Path(env.doc2path("book/api")).exists() else []


def setup(app) -> dict:
    """Connect the functions above to Sphinx."""
    app.connect("config-inited", drop_dead_launch_buttons)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("html-page-context", let_keys_scroll_tables)
    app.connect("html-page-context", name_lists_rightly)
    app.connect("html-page-context", name_report_button, priority=900)
    app.connect("source-read", list_modules)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-docstring", keep_bars, priority=400)
    app.connect("env-get-outdated", watch_library)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
