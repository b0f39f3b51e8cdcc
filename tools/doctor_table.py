"""The doctor's page: planted faults against what `diagnostics.check_model` finds first.

`python -m tools.doctor_table` compares `book/doctor.md` with what a run finds now (some minutes); `--write` writes it;
`--list` compares only which faults and models the page names, without running one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path

import torch

from tools import ROOT, cells, report

sys.path.insert(0, str(ROOT / "tests"))  # the planted faults are data of the tests

import faulty_models

from transformer_lib import diagnostics

PAGE, SEED = Path("book/doctor.md"), 1
BEGIN, END = "<!-- table: python -m tools.doctor_table --write -->\n", "<!-- end of table -->\n"
Row = tuple[str, str, str, str]


def found(number: int, seed: int = SEED) -> list[str]:
    """Return the faults that are found in a planted one, in order."""
    torch.manual_seed(seed)
    arguments, named = faulty_models.FAULTS[number].make()
    return diagnostics.check_model(*arguments, **named).ids


def healthy(name: str, seed: int = SEED) -> list[str]:
    """Return the faults that are found in a healthy model."""
    torch.manual_seed(seed)
    arguments, named = faulty_models.HEALTHY[name]()
    return diagnostics.check_model(*arguments, **named).ids


def table(results: list[list[str]], well: dict[str, list[str]]) -> str:
    """Return the two tables and the sentence above each."""
    first = sum(ids[:1] == [p.cause] for p, ids in zip(faulty_models.FAULTS, results, strict=True))
    causes = Counter(planted.cause for planted in faulty_models.FAULTS)
    lines = [
        f"{len(results)} planted faults of {len(causes)} causes. The planted cause comes first in {first} of them.\n",
        "| Planted | In | How | Also found |",
        "|---|---|---|---|",
    ]
    for planted, ids in zip(faulty_models.FAULTS, results, strict=True):
        others = list(dict.fromkeys(name for name in ids if name != planted.cause))
        also = ", ".join(f"`{name}`" for name in others) or ("" if ids else "nothing")
        mark = "" if ids[:1] == [planted.cause] else " (**not first**)"
        lines.append(f"| `{planted.cause}`{mark} | {planted.style} | {planted.variant} | {also} |")
    clean = sum(not ids for ids in well.values())
    lines.append(f"\n{len(well)} healthy models; in {clean} of them nothing above a note is found:\n")
    lines += [f"- {name}" + (f": {', '.join(ids)}" if ids else "") for name, ids in well.items()]
    return "\n".join(lines) + "\n"


def measured() -> str:
    """Run the doctor on every model; return the tables."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    results = [found(number) for number in range(len(faulty_models.FAULTS))]
    return table(results, {name: healthy(name) for name in faulty_models.HEALTHY})


def written(text: str, tables: str) -> str:
    """Return the page with these tables; ValueError if it has no place for them."""
    if BEGIN not in text or END not in text:
        raise ValueError(f"{PAGE} must have the lines {BEGIN.strip()!r} and {END.strip()!r}")
    return text.partition(BEGIN)[0] + BEGIN + tables + END + text.partition(END)[2]


def listed(text: str) -> list[str]:
    """Say which planted fault or healthy model the page doesn't name."""
    wanted = [f"| {p.style} | {p.variant} |" for p in faulty_models.FAULTS] + [f"- {n}" for n in faulty_models.HEALTHY]
    wanted += [f"`{cause}`" for cause in dict.fromkeys(p.cause for p in faulty_models.FAULTS)]
    return [f"{PAGE}: {line} is missing" for line in wanted if line not in text]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the page, or write it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="run the doctor and write what it finds")
    parser.add_argument("--list", action="store_true", help="run nothing, compare names only")
    options = parser.parse_args(arguments)
    text = (root / PAGE).read_text(encoding="utf-8")
    problems = [] if options.write else listed(text)
    if not options.list:
        new = written(text, measured())
        if options.write:
            cells.write_text(root / PAGE, new)
        elif new != text:
            problems.append(f"{PAGE}: its tables aren't what the doctor finds now")
    return report(problems, "python -m tools.doctor_table --write")


if __name__ == "__main__":
    sys.exit(main())
