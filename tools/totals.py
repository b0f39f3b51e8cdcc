"""Add up what the test runs of `make test` recorded: `python -m tools.totals FILE.xml ...`.

With TRANSFORMER_LIB_NO_SKIPS=1 a skipped test is a failure; that is how the public checks run. A user's machine may
lack Chromium or the corpus, and there such tests are skipped with their reason.
"""

import os
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path


def count(report: str | Path) -> tuple[Counter, list[str]]:
    """Return a JUnit report's counts by outcome, and a line for each test that was skipped."""
    counts, skipped = Counter(), []
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = _outcome(case)
        counts[outcome] += 1
        if outcome == "skipped":
            skipped.append(f"{case.get('classname')}::{case.get('name')}: {case.find('skipped').get('message')}")
    return counts, skipped


def _outcome(case: ElementTree.Element) -> str:
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    skip = case.find("skipped")
    if skip is None:
        return "passed"
    return "expected to fail" if skip.get("type") == "pytest.xfail" else "skipped"


def main(reports: list[str]) -> int:
    """Print one line a report and their sum; return the exit status."""
    total, skipped = Counter(), []
    for report in reports:
        counts, names = count(report)
        total += counts
        skipped += names
        print(f"{Path(report).stem:>10}: {_words(counts)}")
    for name in skipped:
        print(f"skipped: {name}")
    no_skips = os.environ.get("TRANSFORMER_LIB_NO_SKIPS") == "1"
    if no_skips and total["skipped"]:
        print("Nothing may be skipped in this run (TRANSFORMER_LIB_NO_SKIPS=1).")
    if not total["passed"]:
        print("No test ran.")
    print(f"===== {_words(total)} =====")
    return int(total["failed"] > 0 or not total["passed"] or (no_skips and total["skipped"] > 0))


def _words(counts: Counter) -> str:
    order = ("failed", "passed", "skipped", "expected to fail")
    return ", ".join(
        f"{counts[outcome]} {outcome}" for outcome in order if counts[outcome] or outcome != "expected to fail"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
