"""The repository's address, the same in `_config.yml`, the notebooks' first code cells, README.md and CITATION.cff.

With it go each page's links to edit it and to report an error, which with no address would lead nowhere.

`python -m tools.repository` checks that every place says what `_config.yml` says; `--write URL BRANCH` sets the
address everywhere (`--write "" main` unsets it), and `--write` alone spreads what `_config.yml` says.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import nbformat
import yaml
from nbformat import NotebookNode

from tools import LIBRARY, ROOT, cells, report

COLAB = "https://colab.research.google.com"
ADDRESS = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
BRANCH = re.compile(r"[\w./-]+")
SETTING = re.compile(r"^repository:\n(?:[ \t]+.*\n)+", re.MULTILINE)
PAGE_LINKS = re.compile(r"^([ \t]+use_(?:edit_page|issues)_button:) \w+", re.MULTILINE)
FOLDED = "hide-input"  # a chapter's page shows the install cell folded
LAUNCH_BLOCK = re.compile(r"<!-- launch -->\n.*?<!-- end of launch -->\n", re.DOTALL)

FIND = """# Colab has torch and numpy, but not this library: install it only where it's missing.
import importlib.util

if importlib.util.find_spec("transformer_lib") is None:
"""
UNSET = """    raise ModuleNotFoundError(
        "transformer_lib must be installed, and this copy of the book names no repository to install it from. "
        "In a clone: pip install -e . (for Colab, whoever publishes the book runs: make repository URL=... BRANCH=...)"
    )"""


def colab_cell(url: str, branch: str) -> str:
    """Return the first code cell of every notebook: silent where the library is installed.

    The library's requirements have lower bounds only, so that pip leaves an installed torch and numpy as they are.
    """
    if not url:
        return FIND + UNSET
    return FIND + f'    %pip install --quiet "transformer-lib[translation] @ git+{url}@{branch}"'


def is_colab_cell(cell: NotebookNode) -> bool:
    """Tell whether a cell is the one that installs the library, whatever address it names."""
    return cell.cell_type == "code" and "find_spec" in cell.source and LIBRARY in cell.source


def config_text(text: str, url: str, branch: str) -> str:
    """Return the text of `_config.yml` with the address in its `repository:` setting and the pages' links on or off."""
    setting = f'repository:\n  url: "{url}"\n  branch: "{branch}"\n  path_to_book: ""\n'
    if not SETTING.search(text):
        raise ValueError(f"_config.yml must have the setting below, got none:\n{setting}")
    text = PAGE_LINKS.sub(r"\1 true" if url else r"\1 false", text)
    return SETTING.sub(lambda _: setting, text, count=1)


def citation_text(text: str, url: str) -> str:
    """Return the text of `CITATION.cff`, which names the repository only where one is set."""
    rest = "".join(line for line in text.splitlines(True) if not line.startswith("repository-code:"))
    return rest + (f'repository-code: "{url}"\n' if url else "")


def launch_block(root: Path, url: str, branch: str) -> str:
    """Return the README's list of notebooks to open in Colab, or the sentence that says why there is none."""
    lines = ["No repository address is set, so nothing can be opened in Colab: `make repository URL=... BRANCH=...`."]
    if url:
        paths = [p.relative_to(root).as_posix() for p in cells.notebooks(root, "notebooks", "exercises")]
        start = f"{COLAB}/github/{url.removeprefix('https://github.com/')}/blob/{branch}"
        lines = [f"- [{path}]({start}/{path})" for path in paths]
    return "\n".join(["<!-- launch -->", *lines, "<!-- end of launch -->\n"])


def address(root: Path = ROOT) -> tuple[str, str]:
    """Return the address and branch that `_config.yml` holds; an empty address where none is set."""
    settings = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8")) or {}
    repository = settings.get("repository") or {}
    return repository.get("url") or "", repository.get("branch") or "main"


def checked(url: str, branch: str) -> tuple[str, str]:
    """Return the address without its trailing parts; ValueError unless Colab can open it."""
    url = url.strip().removesuffix("/").removesuffix(".git")
    if url and not ADDRESS.fullmatch(url):
        raise ValueError(f"URL must look like https://github.com/OWNER/REPOSITORY, got {url!r}")
    if not BRANCH.fullmatch(branch):
        raise ValueError(f"BRANCH must be a branch's name, got {branch!r}")
    return url, branch


def problems(root: Path = ROOT) -> list[str]:
    """Say which place holds another address than `_config.yml`."""
    try:
        url, branch = checked(*address(root))
        texts = _texts(root, url, branch)
    except (OSError, ValueError, yaml.YAMLError) as error:
        return [f"_config.yml: {error}"]
    found = [f"{name}: its address isn't what _config.yml says" for name, text, right in texts if text != right]
    for path in cells.notebooks(root, "notebooks", "solutions", "exercises"):
        first = next((cell for cell in cells.read(path).cells if cell.cell_type == "code"), None)
        if first is None or first.source != colab_cell(url, branch):
            found.append(f"{path.relative_to(root)}: the first code cell must be the install cell of {url or 'no URL'}")
        elif path.parent.name == "notebooks" and FOLDED not in cells.tags(first):
            found.append(f"{path.relative_to(root)}: the install cell must carry the tag {FOLDED}")
    return found


def _texts(root: Path, url: str, branch: str) -> list[tuple[str, str, str]]:
    """Return (name, text, text with the right address) of each file beside the notebooks that holds one."""
    launch = launch_block(root, url, branch)
    rightly = {
        "_config.yml": lambda text: config_text(text, url, branch),
        "CITATION.cff": lambda text: citation_text(text, url),
        "README.md": lambda text: LAUNCH_BLOCK.sub(lambda _: launch, text),
    }
    there = {name: (root / name).read_text(encoding="utf-8") for name in rightly if (root / name).exists()}
    return [(name, text, rightly[name](text)) for name, text in there.items()]


def write(url: str, branch: str, root: Path = ROOT) -> list[str]:
    """Set the address everywhere; return the files that changed."""
    url, branch = checked(url, branch)
    changed = [name for name, _, text in _texts(root, url, branch) if cells.write_text(root / name, text)]
    for path in cells.notebooks(root, "notebooks", "solutions", "exercises"):
        notebook = cells.read(path)
        _set_cell(notebook, colab_cell(url, branch), folded=path.parent.name == "notebooks")
        if cells.write(notebook, path):
            changed.append(str(path.relative_to(root)))
    return changed


def _set_cell(notebook: NotebookNode, source: str, folded: bool) -> None:
    """Replace the install cell, or put one before the first code cell; it prints nothing, so that its count is all."""
    first = next((i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"), len(notebook.cells))
    if first == len(notebook.cells) or not is_colab_cell(notebook.cells[first]):
        notebook.cells.insert(first, nbformat.v4.new_code_cell(id="install"))
    cell = notebook.cells[first]
    cell.source = source
    if folded and FOLDED not in cells.tags(cell):
        cell.metadata["tags"] = [*cells.tags(cell), FOLDED]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check that one address stands everywhere, after setting it where `--write` asks for that."""
    parser = argparse.ArgumentParser(prog="python -m tools.repository", description=__doc__)
    parser.add_argument("--write", nargs="*", metavar="URL BRANCH", help="set the address; without values, spread it")
    given = parser.parse_args(arguments).write
    if given is not None:
        try:
            url, branch = (list(address(root)) if not given else [*given, "main"])[:2]
            for name in write(url, branch, root):
                print(f"changed: {name}")
        except ValueError as error:
            return report([str(error)], "make repository URL=https://github.com/OWNER/REPOSITORY BRANCH=main")
    return report(problems(root), "make repository URL=... BRANCH=... (without values: spreads _config.yml's)")


if __name__ == "__main__":
    sys.exit(main())
