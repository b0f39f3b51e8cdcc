"""Pages that a browser can open without danger: all text escaped, no script, nothing loaded from anywhere."""

import base64
import html
from collections.abc import Iterable

from transformer_grader import sheets

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid #ccc; }
img { max-width: 100%; } pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; padding: .8rem; }
"""


class Safe(str):
    """Text that is HTML already."""


def escaped(value: object) -> Safe:
    """Return a value's text as HTML shows it; HTML of our own as it is."""
    if isinstance(value, Safe):
        return value
    return Safe(html.escape(sheets.shown("" if value is None else str(value)), quote=True))


def page(title: str, parts: Iterable[object]) -> str:
    """Return a whole page."""
    inner = "\n".join(escaped(part) for part in parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{escaped(title)}</h1>\n{inner}\n</body></html>\n"
    )


def element(name: str, value: object, **attributes: str) -> Safe:
    """Return an element around a value."""
    given = "".join(f' {key}="{escaped(one)}"' for key, one in attributes.items())
    return Safe(f"<{name}{given}>{escaped(value)}</{name}>")


def listed(header: Iterable[object], rows: Iterable[Iterable[object]]) -> Safe:
    """Return a table."""
    head = "".join(element("th", cell, scope="col") for cell in header)
    body = "\n".join("<tr>" + "".join(element("td", cell) for cell in row) + "</tr>" for row in rows)
    return Safe(f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>")


def picture(png: bytes, alt: str) -> Safe:
    """Return a picture that the page itself holds."""
    return Safe(f'<img alt="{escaped(alt)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">')
