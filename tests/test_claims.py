"""The ledger: every claim has its proof, every figure is what the cell printed, and a planted wrong one is found."""

import re
import shutil
from pathlib import Path

import pytest

from tools import cells, ledger

ROOT = Path(__file__).parent.parent


def test_every_claim_is_proven_and_the_page_is_up_to_date():
    assert ledger.problems() == []


def test_the_ledger_holds_every_claim_of_the_lecture():
    rows = ledger.claims()
    assert len(rows) == 155 and len({row["id"] for row in rows}) == 155
    assert sum(row["core"] for row in rows) >= 85


@pytest.fixture
def copy(tmp_path):
    for part in ("book/claims.yaml", "book/claims.md", "book/references.bib", "notebooks/02_attention.ipynb"):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    rows = [row for row in ledger.claims(tmp_path) if row["chapter"] == "02"]
    write(tmp_path, rows)
    assert ledger.main(["--write"], tmp_path) == 0
    return tmp_path


def write(root, rows):
    import yaml

    (root / ledger.DATA).write_text(yaml.safe_dump({"claims": rows}, allow_unicode=True), encoding="utf-8")


def planted(root, name, **fields):
    """Write the ledger with one row changed and its page made anew; return what is found."""
    write(root, [row | fields if row["id"] == name else row for row in ledger.claims(root)])
    ledger.main(["--write"], root)
    return ledger.problems(root)


@pytest.mark.parametrize(
    ("name", "fields", "said"),
    [
        ("C2.1-09", {"measured": "spread {9}"}, "measured '9' must be printed at cell-c2-1-09"),
        ("C2.1-09", {"measured": "spread {-8}"}, "measured '-8' must be printed"),
        ("C2.1-09", {"measured": "spread {large}"}, "measured 'large' must be printed"),
        ("C2.1-09", {"measured": "spread 31 at the end"}, "['31'] must stand in the code"),
        ("C2.1-09", {"measured": ""}, "say what they show under 'measured'"),
        ("C2.1-09", {"cell": None}, "a measurement must have its cell"),
        ("C2.1-09", {"cell": None, "measured": ""}, "a core claim must have a cell"),
        ("C2.1-09", {"cell": "cell-c9-9-99"}, "no notebook has the target"),
        ("C2.1-09", {"verdict": "true"}, "verdict must be one of"),
        ("C2.1-09", {"zh": ""}, "must have a text for 'zh'"),
        ("C2.1-09", {"sources": ["nobody1999 page 3"]}, "a source must begin with a key"),
        ("C2-02", {"sources": []}, "must have a cell or a source, got neither"),
        ("C2-02", {"extra": 1}, "C2-02 must have"),
    ],
)
def test_a_planted_fault_in_a_row_is_found(copy, name, fields, said):
    found = planted(copy, name, **fields)
    assert any(said in problem for problem in found), found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("figure", "measured '8' must be printed at cell-c2-1-09"),
        ("assertion", "the cells at cell-c2-1-09 must assert something"),
        ("run", "the cells at cell-c2-1-09 must all have been run"),
        ("target", "cell-c2-1-99 belongs to no claim"),
    ],
)
def test_a_planted_fault_in_a_chapter_is_found(copy, change, said):
    path = copy / "notebooks" / "02_attention.ipynb"
    notebook = cells.read(path)
    start = next(i for i, cell in enumerate(notebook.cells) if "(cell-c2-1-09)=" in cell.source)
    end = next(i for i in range(start + 1, len(notebook.cells)) if ledger.HEADING.search(notebook.cells[i].source))
    if change == "target":
        notebook.cells[start].source = notebook.cells[start].source.replace("c2-1-09)", "c2-1-99)")
    for cell in notebook.cells[start:end]:
        if cell.cell_type == "code" and change == "run":
            cell.execution_count = None
        elif cell.cell_type == "code" and change == "assertion":
            cell.source = re.sub(r"assert", "print", cell.source)
        elif cell.cell_type == "code" and change == "figure":
            for output in cell.outputs:
                if "text/plain" in output.get("data", {}):
                    output["data"]["text/plain"] = output["data"]["text/plain"].replace("8", "7")
    cells.write(notebook, path)
    assert any(said in problem for problem in ledger.problems(copy))


def test_a_stale_page_and_a_row_twice_are_found(copy):
    (copy / ledger.PAGE).write_text("old", encoding="utf-8")
    rows = ledger.claims(copy)
    write(copy, [*rows, rows[0]])
    found = ledger.problems(copy)
    assert any("isn't what" in problem for problem in found) and any("stands there twice" in one for one in found)
