"""The symptom index: `book/symptoms.yaml` is data, and the page `book/symptoms.md` is made from it.

`python -m tools.symptoms` checks both, and that nothing is missing: every pitfall of the lecture, which is the patient
of that number in the clinic, every finding that the doctor knows, and every kind of trouble that readers of such
courses have met. `--write` makes the page.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from tools import LIBRARY, ROOT, cells, pages

DATA, PAGE = Path("book/symptoms.yaml"), Path("book/symptoms.md")
PITFALLS = set(range(1, 14))
PATIENT = re.compile(r"^## Patient (\d+)", re.MULTILINE)
FIELD = {  # what readers and teachers of such courses met, by kind
    *("dead-package", "dead-data", "colab-pins", "colab-button", "dead-figure", "stale-outputs", "no-solutions"),
    *("dead-code", "other-numbers", "memory", "half-precision", "swapped-arguments", "shapes", "unequal-sizes"),
    *("layer-norm", "where-the-norm", "smoothing", "accumulation", "bleu", "beam", "start-symbol", "map-axes"),
    *("positions-axis", "rotary", "leak", "masked-row", "cross-mask", "blind-test"),
}
NEEDED = {"id", "group", "symptom", "causes", "fix", "where"}
OPTIONAL = {"check", "look", "with", "patients", "findings", "field"}
GIVEN = {"model", "source", "target"}  # what a reader brings
LONGEST = 130  # characters of a check
HEAD = """\
# Something is wrong

{total} complaints, in the words of those who have them. Find yours, or type a word of it. Under each stand the likely
causes, the likeliest first, one line of code that tells, and what to do.

**Each check is `True` when your trouble is another.** So run it; at `False` you have found it. Most need only what the
lines below make, from your model and one batch of sources and targets: two sentences or more, of different lengths.
What else a check needs is said beside it. For a model of another kind, change how it's called.

````{{dropdown}} Run this once: what the checks use
```python
{setup}```
````

[The doctor](doctor.md) runs many checks at once and takes anyone's model. Its names for what it finds stand at the end
of an entry; type one into the box to come here from its report. Patients are those of the clinic, where each is cured.

<div class="ledger-controls" data-noun="complaints" hidden></div>
<script src="../_static/js/ledger.js" defer></script>
"""


def index(root: Path = ROOT) -> dict[str, Any]:
    """Return the data: the set-up, the groups and the entries."""
    return yaml.safe_load((root / DATA).read_text(encoding="utf-8"))


def page(found: dict[str, Any], root: Path = ROOT) -> str:
    """Return the whole page as MyST Markdown."""
    parts = [HEAD.format(total=len(found["symptoms"]), setup=found["setup"])]
    for group, title in found["groups"].items():
        mine = [entry for entry in found["symptoms"] if entry["group"] == group]
        parts += [f"## {title}\n", *(block(entry, root) for entry in mine)]
    return "\n".join(parts).rstrip("\n") + "\n"


def block(entry: dict[str, Any], root: Path) -> str:
    """Return one entry: the complaint, its causes, the check, what to do and where to read on."""
    beside = entry.get("with", "")
    lines = [
        f"(symptom-{entry['id']})=",
        f"````{{container}} symptom group-{entry['group']}",
        f"**“{entry['symptom']}”**\n",
        *(f"{number}. {cause}" for number, cause in enumerate(entry["causes"], start=1)),
        "",
    ]
    if "check" in entry:
        lines += [f"*Check*{f' ({beside})' if beside else ''}:\n", f"```python\n{entry['check']}\n```\n"]
    else:
        lines += [f"*Look:* {entry['look']}\n"]
    return "\n".join([*lines, f"*What to do:* {entry['fix']}\n", more(entry, root), "````\n"])


def more(entry: dict[str, Any], root: Path) -> str:
    """Return the line of links, patients and the doctor's names."""
    patients = "".join(f", patient {number}" for number in entry.get("patients", ()))
    found = [path for name in entry["where"] if (path := pages.target(name, root))]
    links = [pages.link(path, root) + (patients if path.name.startswith("clinic_") else "") for path in found]
    names = ", ".join(f"`{name}`" for name in entry.get("findings", ()))
    return f"*See:* {'; '.join(links)}." + (f" *The doctor says:* {names}." if names else "")


def patients(root: Path = ROOT) -> dict[int, Path]:
    """Return the clinic's patients, each with the notebook, relative to `root`."""
    found = [path for path in cells.notebooks(root, "notebooks") if path.name.startswith("clinic_")]
    sources = {path: "\n".join(cell.source for cell in cells.read(path).cells) for path in found}
    return {int(n): path.relative_to(root) for path, source in sources.items() for n in PATIENT.findall(source)}


def findings(root: Path = ROOT) -> set[str]:
    """Return what the doctor can find: the keys of its catalogue, read without running it."""
    source = (root / LIBRARY / "diagnostics" / "catalogue.py").read_text(encoding="utf-8")
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.Assign) and node.targets[0].id == "CAUSES"]
    return {key.value for node in nodes for key in node.value.keys}


def problems(root: Path = ROOT) -> list[str]:
    """Say which entry is malformed or leads nowhere, what none covers, and whether the page is stale."""
    data, clinic = index(root), patients(root)
    entries, names = data["symptoms"], GIVEN | defined(data["setup"])
    found = [f"{DATA}: {said}" for entry in entries for said in _entry(entry, data, clinic, names, root)]
    counted = Counter(entry.get("id") for entry in entries)
    found += [f"{DATA}: {name} stands there {count} times" for name, count in counted.items() if count > 1]
    wanted = {"patients": PITFALLS | set(clinic), "findings": findings(root), "field": FIELD}
    for key, all_ in wanted.items():
        here = {one for entry in entries for one in entry.get(key, ())}
        found += [f"{DATA}: no entry covers {one!r} ({key})" for one in sorted(all_ - here)]
        found += [f"{DATA}: {one!r} isn't one of the {key}" for one in sorted(here - all_)]
    return found or pages.stale(PAGE, page(data, root), DATA, root)


def _entry(
    entry: dict[str, Any], data: dict[str, Any], clinic: dict[int, Path], names: set[str], root: Path
) -> list[str]:
    name = entry.get("id")
    if not set(entry) >= NEEDED or set(entry) - NEEDED - OPTIONAL or ("check" in entry) == ("look" in entry):
        return [f"{name} must have {sorted(NEEDED)} and either check or look, got {sorted(entry)}"]
    found = [] if entry["group"] in data["groups"] else [f"{name}: there is no group {entry['group']!r}"]
    leads = {one: pages.target(one, root) for one in entry["where"]}
    found += [f"{name}: {one!r} leads nowhere" for one, path in leads.items() if path is None]
    found += [
        f"{name}: patient {number} is in {clinic[number]}, which must stand under 'where'"
        for number in entry.get("patients", ())
        if number in clinic and clinic[number] not in leads.values()
    ]
    return found + (_check(entry, names) if "check" in entry else [])


def _check(entry: dict[str, Any], names: set[str]) -> list[str]:
    name, check = entry["id"], entry["check"]
    if len(check) > LONGEST:
        return [f"{name}: a check must have at most {LONGEST} characters, got {len(check)}"]
    try:
        tree = ast.parse(check, mode="eval")
    except SyntaxError as error:
        return [f"{name}: the check must be one expression, got {error}"]
    said = set(re.findall(r"`(\w+)", entry.get("with", "")))
    inside = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    unknown = used - inside - names - said - set(dir(builtins))
    return [f"{name}: the check uses {one!r}, of which 'with' must say what it is" for one in sorted(unknown)]


def defined(setup: str) -> set[str]:
    """Return the names that a piece of code imports or sets."""
    nodes = list(ast.walk(ast.parse(setup)))
    imported = {(alias.asname or alias.name).split(".")[0] for n in nodes for alias in getattr(n, "names", ())}
    return imported | {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the index, after making its page where `--write` asks for that."""
    write = lambda: cells.write_text(root / PAGE, page(index(root), root))  # noqa: E731
    return pages.run(arguments, "symptoms", __doc__, write, lambda: problems(root))


if __name__ == "__main__":
    sys.exit(main())
