"""Tables that people have saved, in whatever way their program does it; and text that is safe to show."""

import codecs
import csv
import io
import re
from pathlib import Path

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ACTING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def read(path: Path) -> list[list[str]]:
    """Return a CSV file's rows: UTF-8 or UTF-16, with commas, semicolons or tabs.

    Raises:
        ValueError: it is saved in another way, or isn't a table.
    """
    lines = _text(path).splitlines(keepends=True)
    if lines and lines[0].lower().startswith("sep="):
        del lines[0]
    first = lines[0] if lines else ""
    delimiter = max(",;\t", key=first.count)
    try:
        return list(csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise ValueError(f"{path} must be a table (CSV), got something else: {error}") from error


def _text(path: Path) -> str:
    data = path.read_bytes()
    coding = "utf-16" if data.startswith(UTF16) else "utf-8-sig"
    try:
        return data.decode(coding).replace("\0", "")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be saved as CSV in UTF-8 (Excel: CSV UTF-8), got {error}") from error


def shown(text: str) -> str:
    """Return a text without what a terminal or a page would act on: control characters, changes of direction."""
    return ACTING.sub("\ufffd", text)
