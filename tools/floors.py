"""Which module may import which, and which chapter lists it.

`python -m tools.floors` checks that each module of the library imports only from floors below its own.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

from tools import LIBRARY, ROOT, report

# From the ground up; a module imports only from lines above its own (a line is a step within a floor).
FLOORS = [
    ["checks", "files"],  # guards that raise, files written all or nothing
    ["attention", "masks", "positional", "baselines", "tokeniser"],  # floor 0
    ["data", "relative"],
    ["fast_loss", "toy_grammar", "multi30k"],
    ["multi_head", "toy", "toy_tasks", "coreference"],  # floor 1
    ["layers", "fast"],  # floor 2
    ["encoder_decoder", "config"],
    ["model"],  # floor 3
    ["siblings", "bert", "checkpoints", "decoding"],
    ["training", "sampling", "diverse_beam"],
    ["evaluation", "accumulation", "distributed", "generation", "published"],
    ["translator"],
    ["observe", "exercises", "head_statistics"],  # floor 4
    ["ablation", "visualisation"],
    ["diagnostics"],
    ["experiments"],
]
STEP = {module: step for step, modules in enumerate(FLOORS) for module in modules}

# The mathematics: each public name is listed in exactly one chapter, its module's own or the one in LISTED_LATER.
CHAPTER = {
    "baselines": 1,
    "attention": 2,
    "multi_head": 3,
    "positional": 4,
    "relative": 4,
    "masks": 5,
    "layers": 6,
    "encoder_decoder": 6,
    "config": 6,
    "model": 6,
    "siblings": 11,
    "bert": 11,
}
LISTED_LATER: dict[tuple[str, str], int] = {  # (module, name): chapter
    ("multi_head", "KeyValueCache"): 8,
    ("multi_head", "MemoryCache"): 8,
}


def imports(module: ast.Module) -> list[tuple[str, str | None, int]]:
    """Return (library module, name taken from it or None, line) of each import of the library in a syntax tree."""
    found: list[tuple[str, str | None, int]] = []
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found += [(_below(a.name), None, node.lineno) for a in node.names if a.name.startswith(f"{LIBRARY}.")]
        elif isinstance(node, ast.ImportFrom):
            source = f"{LIBRARY}.{node.module or ''}".rstrip(".") if node.level else node.module or ""
            if source == LIBRARY:
                found += [(a.name, None, node.lineno) for a in node.names if not a.name.startswith("_")]
            elif source.startswith(f"{LIBRARY}."):
                found += [(_below(source), a.name, node.lineno) for a in node.names]
    return found


def _below(dotted: str) -> str:
    return dotted.split(".")[1]


def problems(root: Path = ROOT) -> list[str]:
    """Say which module of the library imports from its own floor or from one above it."""
    found: list[str] = []
    for path in sorted((root / LIBRARY).rglob("*.py")):
        if path.name == "__init__.py" and path.parent == root / LIBRARY:
            continue
        own = path.relative_to(root / LIBRARY).parts[0].removesuffix(".py")
        if own not in STEP:
            found.append(f"{path.relative_to(root)}: {own} has no floor; give it one in tools/floors.py")
            continue
        for module, _, line in imports(ast.parse(path.read_text(encoding="utf-8"))):
            if module != own and STEP.get(module, len(FLOORS)) >= STEP[own]:
                found.append(f"{path.relative_to(root)}:{line}: {own} may not import {module}, which isn't below it")
    return found


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check the floors; return the exit status."""
    argparse.ArgumentParser(prog="python -m tools.floors", description=__doc__.split("\n")[0]).parse_args(arguments)
    return report(problems(root), "move the code to the right floor, or correct the table in tools/floors.py")


if __name__ == "__main__":
    sys.exit(main())
