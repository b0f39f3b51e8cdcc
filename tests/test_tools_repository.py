"""One address everywhere: each place that says another is found, and setting it sets every place."""

import importlib.metadata
import re
import subprocess
import sys

import pytest
import sample_book
import yaml

from tools import ROOT, cells, repository
from tools.__main__ import CHECKS

URL = "https://github.com/somebody/a-course"


@pytest.fixture
def book(tmp_path):
    sample_book.make(tmp_path)
    return tmp_path


def first_cells(book):
    paths = cells.notebooks(book, "notebooks", "solutions", "exercises")
    code = [[cell.source for cell in cells.read(path).cells if cell.cell_type == "code"] for path in paths]
    return [sources[0] for sources in code]


def test_the_books_places_agree():
    assert repository.problems() == []


def test_an_address_is_set_everywhere_and_nothing_else_changes(book):
    assert repository.main(["--write", f"{URL}.git", "trunk"], book) == 0
    settings = yaml.safe_load((book / "_config.yml").read_text())
    assert settings["repository"] == {"url": URL, "branch": "trunk", "path_to_book": ""}
    assert "html: {}  # kept" in (book / "_config.yml").read_text()
    assert set(first_cells(book)) == {repository.colab_cell(URL, "trunk")} and len(first_cells(book)) == 3
    readme = (book / "README.md").read_text()
    link = "https://colab.research.google.com/github/somebody/a-course/blob/trunk/notebooks/02_sample.ipynb"
    assert f"({link})" in readme and readme.endswith("The end.\n")
    assert yaml.safe_load((book / "CITATION.cff").read_text())["repository-code"] == URL


def page_links(text):
    html = yaml.safe_load(text)["html"]
    return {html["use_edit_page_button"], html["use_issues_button"]}


def test_a_page_can_be_edited_and_reported_where_an_address_is_set_and_only_there():
    ours = (ROOT / "_config.yml").read_text(encoding="utf-8")
    unset = repository.config_text(ours, "", "main")
    assert page_links(unset) == {False}
    assert page_links(repository.config_text(unset, URL, "trunk")) == {True}
    assert repository.config_text(repository.config_text(unset, URL, "main"), "", "main") == unset


def test_links_that_lead_nowhere_are_found(book):
    path = book / "_config.yml"
    links = "html:\n  use_edit_page_button: false\n  use_issues_button: false\n"
    path.write_text(path.read_text().replace("html: {}  # kept\n", links))
    assert repository.problems(book) == []
    path.write_text(path.read_text().replace("issues_button: false", "issues_button: true"))
    assert repository.problems(book) == ["_config.yml: its address isn't what _config.yml says"]
    assert repository.main(["--write"], book) == 0 and page_links(path.read_text()) == {False}


def test_unsetting_gives_back_the_same_bytes(book):
    before = {path: path.read_bytes() for path in sorted(book.rglob("*.*")) if path.is_file()}
    repository.write(URL, "main", book)
    repository.write("", "main", book)
    assert {path: path.read_bytes() for path in sorted(book.rglob("*.*")) if path.is_file()} == before
    assert "No repository address is set" in (book / "README.md").read_text()


@pytest.mark.parametrize(
    "name",
    [
        "_config.yml",
        "README.md",
        "CITATION.cff",
        "notebooks/02_sample.ipynb",
        "solutions/02_sample/sample.ipynb",
        "exercises/02_sample/sample.ipynb",
    ],
)
def test_each_place_that_says_another_address_is_found_and_repaired(book, name, capsys):
    repository.write(URL, "main", book)
    path = book / name
    path.write_text(path.read_text().replace("somebody/a-course", "nobody/a-course"))
    assert repository.main([], book) == 1
    printed = capsys.readouterr().err
    assert "make repository" in printed
    assert name in printed or name == "_config.yml"  # against a changed source of truth, all others are wrong
    assert repository.main(["--write", URL, "main"], book) == 0


def test_a_notebook_without_its_install_cell_gets_one(book):
    path = book / "notebooks" / "02_sample.ipynb"
    notebook = cells.read(path)
    del notebook.cells[1]
    cells.write(notebook, path)
    assert "notebooks/02_sample.ipynb: the first code cell must be the install cell" in repository.problems(book)[0]
    assert repository.main(["--write"], book) == 0
    assert set(first_cells(book)) == {repository.colab_cell("", "main")}
    assert [cell.source for cell in cells.read(path).cells if cell.source not in first_cells(book)] == [
        cell.source for cell in notebook.cells
    ]


def test_a_chapter_s_install_cell_is_folded(book):
    path = book / "notebooks" / "02_sample.ipynb"
    notebook = cells.read(path)
    notebook.cells[1].metadata = {}
    cells.write(notebook, path)
    assert repository.problems(book) == ["notebooks/02_sample.ipynb: the install cell must carry the tag hide-input"]
    assert repository.main(["--write"], book) == 0 and repository.problems(book) == []


@pytest.mark.parametrize(
    ("url", "branch"),
    [("http://github.com/a/b", "main"), ("https://github.com/a", "main"), (URL + '"; rm', "main"), (URL, "a b")],
)
def test_an_address_that_leads_nowhere_is_refused_and_nothing_is_written(book, url, branch):
    before = (book / "_config.yml").read_bytes()
    assert repository.main(["--write", url, branch], book) == 1
    assert (book / "_config.yml").read_bytes() == before


def test_the_install_cell_is_short_and_valid():
    for url in ("", URL):
        assert cells.code_lines(repository.colab_cell(url, "main")) <= 12
        assert all(len(line) <= 120 for line in repository.colab_cell(url, "main").splitlines())


def run_install_cell(url, *options):
    """Run the cell in a Python of its own, where pip is replaced by a printer of what it was asked to do."""
    code = cells.python(repository.colab_cell(url, "main"))
    shell = "class Shell:\n    def run_line_magic(self, *words): print(*words)\nget_ipython = lambda: Shell()\n"
    return subprocess.run([sys.executable, *options, "-c", shell + code], capture_output=True, text=True, cwd="/")


def test_where_the_library_is_installed_the_install_cell_does_nothing():
    done = run_install_cell(URL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_where_the_library_is_missing_it_is_installed_with_what_chapters_need():
    done = run_install_cell(URL, "-I", "-S")  # without site-packages and PYTHONPATH
    wanted = f'pip install --quiet "transformer-lib[translation] @ git+{URL}@main"'
    assert (done.stdout.strip(), done.returncode) == (wanted, 0)


def test_where_it_is_missing_and_no_address_is_set_the_cell_says_so():
    done = run_install_cell("", "-I", "-S")
    assert done.returncode == 1
    assert "names no repository to install it from" in done.stderr and "make repository URL=" in done.stderr


def test_the_library_never_asks_pip_to_replace_torch_or_numpy():
    requirements = importlib.metadata.requires("transformer-lib")
    assert {"torch", "numpy"} <= {re.match(r"[\w-]+", wanted).group() for wanted in requirements}
    assert not [wanted for wanted in requirements if re.search(r"==\d|<|~", wanted)]


ELSEWHERE = {"doctor_table", "exercise_data", "slides"}  # slow, or with a browser: tests call them
NO_CHECK = {"pdf"}


def test_the_one_command_runs_every_check():
    commands = {path.stem for path in (ROOT / "tools").glob("*.py") if "\ndef main(arguments" in path.read_text()}
    assert commands - {check.__name__.split(".")[1] for check in CHECKS} == ELSEWHERE | NO_CHECK
