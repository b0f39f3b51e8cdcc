"""Make the built pages light: the theme loads nearly two megabytes of icons, most of its style is used by no page, and
a third of a listing is tags around words that have no colour. Nothing that a reader sees may change by this."""

from __future__ import annotations

import base64
import io
import logging
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import tinycss2
from fontTools import subset
from fontTools.ttLib import TTFont

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every table that it keeps

ICONS = "icons.css"  # takes the place of the theme's icons
ICON_STYLE = re.compile(r"_static/vendor/fontawesome/[\d.]+/css/all\.min\.css")
ICON_EXTRAS = re.compile(r'\s*(?:<link rel="preload"[^>]*|<script src="[^"]*)/fontawesome/[^>]*>(?:</script>)?')
THEBE = re.compile(r'\s*<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = .*?</script>', re.DOTALL)
SCRIPT = re.compile(r"<script (?![^>]*\b(?:defer|async)\b)(?=[^>]*\bsrc=)")
OPTIONS = re.compile(r'<script defer src="[^"]*documentation_options\.js[^"]*"></script>')
PICTURE = re.compile(r'(<img [^>]*style=")(width: \d+px;)')
PRINTED_CONTENTS = re.compile(r'<div id="jb-print-toc">.*?</nav>\s*</div>', re.DOTALL)
SIDEBAR = '<div class="bd-sidebar-primary bd-sidebar">'
TOGGLE = re.compile(r'(<a class="[^"]*reference internal" href="[^"]*">)([^<]*)(</a><details[^>]*><summary)>')
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
PRE = re.compile(r'<span class="(?:pre|n|p|o|s|w|default_value)">([^<]*)</span>')
CODE_BLOCK = re.compile(r'<div class="highlight">.*?</pre>', re.DOTALL)
COLOUR = re.compile(r'html\[data-theme="\w+"\] \.highlight (?:\.(\w+) )?\{ (?:background: \S+; )?color: (#\w+) \}')
FACES = re.compile(r"@(?:font-face|(?:-webkit-)?keyframes [\w-]+)\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
ARGUMENTS = re.compile(r":(?:not|is|where|has)\((?:[^()]|\([^()]*\))*\)")


def lighten(app, exception) -> None:
    """Rewrite the pages and the style sheets of a build that went well; what was rewritten stays as it is."""
    if exception is not None or app.builder.name != "html":
        return
    out = Path(app.outdir)
    pages = [path for path in out.rglob("*.html") if not {"_static", "slides"} & set(path.relative_to(out).parts)]
    scripts = [
        path.read_text(encoding="utf-8") for path in (out / "_static").rglob("*.js") if "vendor" not in path.parts
    ]
    options = (out / "_static" / "documentation_options.js").read_text(encoding="utf-8")
    plain = plain_words((out / "_static" / "pygments.css").read_text(encoding="utf-8"))
    used: set[str] = set()
    for path in pages:
        old = path.read_text(encoding="utf-8")
        new = page(old, options, plain)
        used |= classes(new)
        if new != old:
            path.write_text(new, encoding="utf-8")
    used |= {word for script in scripts for word in re.findall(r"[\w-]+", script)}
    _style(out / "_static", used)


def page(text: str, options: str, plain: Iterable[str]) -> str:
    """Return a page that loads no more than it uses, and waits for no script before it's shown."""
    text = THEBE.sub("", ICON_EXTRAS.sub("", ICON_STYLE.sub(f"_static/{ICONS}", text)))
    text = SCRIPT.sub("<script defer ", text)
    text = OPTIONS.sub(lambda _: f"<script>{options.strip()}</script>", text)  # the next line needs it at once
    text = text.replace(SIDEBAR, f'{SIDEBAR[:-1]} role="navigation" aria-label="Book">')
    text = TOGGLE.sub(r'\1\2\3 aria-label="Below “\2”">', text)  # in the list of pages, where the theme gives no name
    text = PICTURE.sub(r"\1--\2 \2", text)  # a narrow screen's style sheet reckons with it
    text = PRINTED_CONTENTS.sub("", text)
    text = SIGNATURE.sub(lambda found: _bare(PRE, found[0]), text)
    colourless = re.compile(rf'<span class="(?:{"|".join(plain)})">([^<]*)</span>')
    return CODE_BLOCK.sub(lambda found: colourless.sub(r"\1", found[0]), text)


def _bare(tag: re.Pattern, text: str) -> str:
    """Return the text without these tags, from the inside out."""
    while (bare := tag.sub(r"\1", text)) != text:
        text = bare
    return text


def plain_words(style: str) -> list[str]:
    """Return the kinds of words in a listing whose colour is the listing's own, in light and in dark mode."""
    colours: dict[str, list[str]] = {}
    for kind, colour in COLOUR.findall(style):
        colours.setdefault(kind, []).append(colour)
    return sorted(kind for kind, found in colours.items() if kind and found == colours[""])


def classes(text: str) -> set[str]:
    """Return the classes and ids of a page."""
    found = re.findall(r'\b(?:class|id)="([^"]*)"', text)
    return {word for words in found for word in words.split()}


def _style(static: Path, used: set[str]) -> None:
    sheets = [path for path in (*static.glob("*.css"), *static.glob("styles/*.css")) if path.name != "book.css"]
    for path in sheets:
        path.write_text(needed(path.read_text(encoding="utf-8"), used), encoding="utf-8")
    for path in static.rglob("*.map"):
        path.unlink()
    for theirs in (static / "vendor").glob("fontawesome/*"):
        words = "".join(path.read_text(encoding="utf-8") for path in sheets)
        (static / ICONS).write_text(icons(theirs, used, words), encoding="utf-8")
    shutil.rmtree(static / "vendor" / "fontawesome", ignore_errors=True)


def needed(style: str, used: set[str]) -> str:
    """Return a style sheet's rules that can apply to an element with these classes and ids, or to one with none."""
    nodes = tinycss2.parse_stylesheet(style, skip_comments=False, skip_whitespace=True)
    kept = "".join(_rule(node, used) for node in nodes)
    return re.sub(r"[^\x00-\x7f]", lambda sign: f"\\{ord(sign[0]):x} ", kept)  # as it was; the file names no encoding


def _rule(node, used: set[str]) -> str:
    if node.type == "comment":
        return node.serialize() if node.value.startswith("!") else ""
    if node.type == "at-rule" and node.lower_at_keyword in ("media", "supports"):
        inside = tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True)
        kept = "".join(_rule(child, used) for child in inside)
        return f"@{node.at_keyword}{tinycss2.serialize(node.prelude)}{{{kept}}}" if kept else ""
    if node.type != "qualified-rule":
        return node.serialize()
    chosen = [one for one in _split(tinycss2.serialize(node.prelude)) if _applies(one, used)]
    return f"{','.join(chosen)}{{{tinycss2.serialize(node.content).strip()}}}\n" if chosen else ""


def _split(selectors: str) -> list[str]:
    return [one.strip() for one in re.split(r",(?![^(]*\))", selectors)]


def _applies(selector: str, used: set[str]) -> bool:
    names = re.findall(r"[.#]((?:[\w-]|\\.)+)", re.sub(r"\[[^\]]*\]|\"[^\"]*\"", "", ARGUMENTS.sub("", selector)))
    return all("\\" in name or name in used for name in names)


def icons(theirs: Path, used: set[str], style: str) -> str:
    """Return the rules of the icons in use, with a font of their shapes only, which needs no file."""
    rules = needed((theirs / "css" / "all.min.css").read_text(encoding="utf-8"), used)
    rules = FACES.sub("", rules)
    rules = re.sub(r'content:("[^"]*")', r'content:\1;content:\1/""', rules)  # the second is silent in a screen reader
    shapes = {int(code, 16) for code in re.findall(r"\\(f[0-9a-f]{3})\b", rules + style)}
    font = TTFont(theirs / "webfonts" / "fa-solid-900.ttf")
    shaper = subset.Subsetter(subset.Options(layout_features=[], notdef_outline=True))
    shaper.populate(unicodes=shapes)
    shaper.subset(font)
    font.flavor, written = "woff", io.BytesIO()
    font.save(written)
    source = f"url(data:font/woff;base64,{base64.b64encode(written.getvalue()).decode()})"
    face = f'font-family:"Font Awesome 6 Free";font-weight:900;font-display:block;src:{source} format("woff")'
    return f"{rules}@font-face{{{face}}}\n"


def setup(app) -> dict[str, bool]:
    """Connect the function above to Sphinx, after the slides."""
    app.connect("build-finished", lighten, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
