"""The book's own tools: `python -m tools.NAME` checks, `--write` repairs. Nothing imports them but tests."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = "transformer_lib"


def report(problems: Sequence[str], repair: str) -> int:
    """Print each problem and the command that repairs them; return the exit status, 1 when there's a problem."""
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}. To repair: {repair}", file=sys.stderr)
    return 1 if problems else 0
