"""A private variant of a chapter's exercises: other seeds, other constants, other names, so that no answer is public.

What is handed out is a notebook and values (`data/*.json`); what stays is `variant.json`, with which it is graded.
"""

import ast
import builtins
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformer_grader import assignment, results
from transformer_grader.assignment import Assignment
from transformer_lib.exercises import protocols, store
from transformer_lib.exercises.declared import Probe

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
WORDS += ("inlet", "jetty", "knoll", "larch", "maple", "north", "ocean", "pearl")
LASTS = r"(task|answer|open|questions|title)"  # ids of text that stays, whatever follows it
CHECK = """from pathlib import Path
from transformer_lib.exercises import checking, store

checking.judge(store.parsed(Path("data/{number}.json").read_text()), {entry})"""
TASK = (
    "**In this variant** the function is called `{entry}`, and it returns **{constant} times** what is described above "
    "(of several parts, the first is multiplied). The check is made for this variant."
)
RENAMED = "**In this variant** the function is called `{entry}`. The check is made for this variant."


def drawn(work: Assignment, secret: bytes) -> dict[str, Any]:
    """Return a variant: each entry's new name, and the constant of each exercise whose answers are real numbers."""
    spec: dict[str, Any] = {"chapter": work.chapter, "names": {}, "constants": {}, "version": work.version}
    for probe in work.probes:
        roll = assignment.number(secret, "variant", work.chapter, probe.id)
        spec["names"][probe.id] = f"{probe.entry}_{WORDS[roll % len(WORDS)]}"
        constant = round(1.3 + (roll // 16) % 60 / 100, 2)
        if _real(probe):
            spec["constants"][probe.id] = constant
    return spec


def _real(probe: Probe) -> bool:
    """Tell whether multiplying by a constant changes what an exercise's right answers are."""
    cases = list(probe.cases(assignment.PUBLIC_SEED))
    plain, other = assignment.built(probe, cases), assignment.built(probe, cases, 1.5)
    pairs = zip(plain.right, other.right, strict=True)
    return any(not protocols.agrees(a, b, plain.tolerance) for a, b in pairs)


def applied(work: Assignment, spec: dict[str, Any]) -> Assignment:
    """Return the assignment as the variant has it.

    Raises:
        ValueError: the variant is of another chapter.
    """
    if spec.get("chapter") != work.chapter:
        raise ValueError(f"the variant must be of chapter {work.chapter}, got one of {spec.get('chapter')}")
    probes = tuple(replace(probe, entry=spec["names"][probe.id]) for probe in work.probes)
    version = results.digest(f"{work.version} {json.dumps(spec, sort_keys=True)}".encode())
    return replace(work, probes=probes, constants=dict(spec["constants"]), version=version, private=True)


def write(work: Assignment, secret: bytes, notebook: Path, out: Path) -> list[str]:
    """Write a variant: `handout/` for students, `variant.json` to grade with; return what was made, as text."""
    spec = drawn(work, secret)
    made = applied(work, spec)
    for probe in made.probes:
        seed = assignment.variant_seed(secret, probe.id)
        exercise = assignment.built(probe, list(probe.cases(seed)), made.constants.get(probe.id, 1.0))
        results.write(out / "handout" / "data" / f"{probe.id}.json", store.written(exercise))
    found = json.loads(notebook.read_text(encoding="utf-8"))
    found["cells"] = [_cell(one, work, spec) for one in kept(found["cells"])]
    results.write(out / "handout" / notebook.name, json.dumps(found, ensure_ascii=False, indent=1) + "\n")
    results.write(out / "variant.json", json.dumps(spec, indent=1) + "\n")
    told = {n: f"{n}: {name}" for n, name in spec["names"].items()}
    return [line + (f", times {spec['constants'][n]}" if n in spec["constants"] else "") for n, line in told.items()]


def kept(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells that a variant has, too: without those that show what the public exercise gives.

    With these go the text right above them, which leads to them, and whatever needs a name that only they define.
    """
    found: list[dict[str, Any]] = []
    known = set(dir(builtins))
    for cell in cells:
        source, name = "".join(cell["source"]), cell.get("id", "")
        needed, gives = _names(source) if cell["cell_type"] == "code" else (set(), set())
        ours = re.match(r"(install|imports|answer-|check-)", name)
        if ours or (
            needed <= known | gives and (cell["cell_type"] != "code" or not re.search(r"\bexercises\.", source))
        ):
            found.append(cell)
            known |= gives
        elif found and found[-1]["cell_type"] == "markdown" and not re.match(LASTS, found[-1].get("id", "")):
            found.pop()
    return found


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell uses, and those that it gives."""
    nodes = list(ast.walk(ast.parse(source)))
    used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    gives = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    gives |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and n.name}
    gives |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    gives |= {(n.asname or n.name).partition(".")[0] for n in nodes if isinstance(n, ast.alias)}
    return used, gives


def _cell(cell: dict[str, Any], work: Assignment, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a cell as the variant has it."""
    source = "".join(cell["source"])
    if match := re.fullmatch(r"check-(\d+)-(\d+)", cell.get("id", "")):
        number = f"{match.group(1)}.{match.group(2)}"
        source = CHECK.format(number=number, entry=spec["names"][number])
    else:
        for probe in work.probes:
            source = _renamed(source, cell["cell_type"], probe.entry, spec["names"][probe.id])
    if match := re.fullmatch(r"task-(\d+)-(\d+)", cell.get("id", "")):
        source += "\n\n" + _told(f"{match.group(1)}.{match.group(2)}", spec)
    return cell | {"source": source}


def _renamed(source: str, kind: str, old: str, new: str) -> str:
    """Return a text with a name replaced: everywhere in code, between backticks in prose, where it's often a word."""
    name = re.compile(rf"(?<![\w.]){re.escape(old)}\b")
    if kind == "code":
        return name.sub(new, source)
    return re.sub(r"`[^`\n]+`", lambda quoted: name.sub(new, quoted.group()), source)


def _told(number: str, spec: dict[str, Any]) -> str:
    if number not in spec["names"]:
        return ""
    form = TASK if number in spec["constants"] else RENAMED
    return form.format(entry=spec["names"][number], constant=spec["constants"].get(number))
