"""Run every check of what is made from something else: `python -m tools` (or `make sources`).

One process for all of them, since importing PyTorch takes longer than most of the checks.
"""

from __future__ import annotations

import sys

from tools import (
    cover,
    exercises,
    floors,
    ledger,
    listings,
    notebooks,
    record,
    repository,
    results,
    speed,
    symptoms,
    terms,
)

CHECKS = (
    listings,
    exercises,
    notebooks,
    repository,
    floors,
    record,
    ledger,
    cover,
    results,
    speed,
    symptoms,
    terms,
)


def main() -> int:
    """Run all checks, each to its end; return the exit status, 1 when one of them found something."""
    return max(check.main([]) for check in CHECKS)


if __name__ == "__main__":
    sys.exit(main())
