"""The repository as a whole: what a newcomer needs is there, says the same everywhere, and holds nothing left over."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import transformer_lib
from tools import ROOT, environment, repository

TEXT = {".py", ".md", ".ipynb", ".yml", ".yaml", ".toml", ".txt", ".cff", ".css", ".bib", ".html", ".json", ".sh", ""}


def tracked() -> list[Path]:
    """Return the files of the repository, without those made by others."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in run.stdout.split("\0") if name]
    return [path for path in paths if "vendor" not in path.parts and (ROOT / path).is_file()]


def texts() -> list[tuple[Path, str]]:
    return [(path, (ROOT / path).read_text(encoding="utf-8")) for path in tracked() if path.suffix in TEXT]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


PAGES = ("references.bib", "start.md", "notation.md", "api.md", "bibliography.md", "about.md")
BESIDE_THE_CODE = (
    "README.md",
    "LICENSE",
    "LICENSE-TEXT",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "Makefile",
    "_config.yml",
    "_toc.yml",
)


@pytest.mark.parametrize("name", [*BESIDE_THE_CODE, *(f"book/{page}" for page in PAGES)])
def test_a_file_that_a_newcomer_looks_for_is_there(name):
    assert len(read(name)) > 100


def test_no_file_names_a_folder_of_the_machine_it_was_written_on():
    folders = {str(ROOT), str(ROOT.parent), str(Path.home())} - {"/", "/root", "/home"}
    inside = [
        (path, folder)
        for path, text in texts()
        for folder in folders
        if re.search(re.escape(folder) + r"(?![\w-])", text)
    ]
    assert inside == []


def test_nothing_is_left_to_be_done():
    marks = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
    assert [path for path, text in texts() if marks.search(text)] == []


def test_the_address_of_the_repository_is_the_same_everywhere():
    assert repository.problems() == []


def test_the_version_is_the_same_everywhere():
    version = transformer_lib.__version__
    assert f'version = "{version}"' in read("pyproject.toml")
    assert yaml.safe_load(read("CITATION.cff"))["version"] == version
    assert f"Version {version}" in read("book/about.md") and f"**{version}**" in read("book/about.md")


def test_every_requirement_is_pinned_once():
    lines = [line for line in read("requirements.txt").splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r'[\w.-]+==[\w.]+(; python_version (>=|<) "3\.11")?', line) for line in lines)
    names = [re.match(r"[\w.-]+", line)[0] + line.partition(";")[2] for line in lines]
    assert len(names) == len(set(names)) > 25


def test_what_the_library_needs_is_among_the_pins_and_has_lower_bounds_only():
    pins = {line.split("==")[0] for line in read("requirements.txt").splitlines() if "==" in line}
    block = re.search(r"^dependencies = \[(.*?)\]", read("pyproject.toml"), re.DOTALL | re.MULTILINE)[1]
    needs = re.findall(r'"([\w-]+)([^"]*)"', block)
    assert {name for name, _ in needs} <= pins
    assert all(re.fullmatch(r">=[\d.]+", bound) for _, bound in needs)


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "book/start.md"])
def test_every_make_target_that_a_page_names_exists(name):
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", read(name), re.MULTILINE))
    assert named and named <= targets()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_relative_link_leads_to_a_file(name):
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", read(name)) if "://" not in link]
    assert all((ROOT / link).exists() for link in links), links


def test_the_python_versions_are_the_same_everywhere():
    (_, oldest), (_, newest) = environment.OLDEST, environment.NEWEST
    assert f'requires-python = ">=3.{oldest}"' in read("pyproject.toml")
    assert all(f"3.{oldest} to 3.{newest}" in read(name) for name in ("README.md", "book/start.md"))
    workflow = yaml.safe_load(read(".github/workflows/test.yml"))["jobs"]["everything"]
    tested = {tuple(map(int, version.split("."))) for version in workflow["strategy"]["matrix"]["python"]}
    assert {environment.OLDEST, environment.NEWEST} <= tested and all(map(environment.supported, tested))


def test_the_public_checks_can_be_run_as_they_are():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)


def test_no_file_is_too_large_for_a_quick_clone():
    sizes = {path: (ROOT / path).stat().st_size for path in tracked()}
    assert max(sizes.values()) < 8_000_000
    assert sum(sizes.values()) < 30_000_000


def test_multi30k_itself_is_not_committed():
    assert [path for path in tracked() if re.search(r"(train|val|test_2016_flickr)\.(de|en)(\.gz)?$", path.name)] == []
