"""What `make` does before anything else: it can be repeated and interrupted, and says what is wrong in plain words."""

import ast
import os
import sys
import xml.etree.ElementTree as ElementTree
from importlib import metadata
from pathlib import Path

import pytest

import tools
from tools import environment, totals


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder with pins and metadata, in which pip and venv are recorded and not run."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "requirements.txt").write_text('torch==2.13.0\nnumpy==2.4.6; python_version >= "3.11"\n')
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    monkeypatch.setattr(environment, "ROOT", str(tmp_path))
    monkeypatch.setattr(environment, "VENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(environment, "STAMP", str(tmp_path / ".venv" / "installed"))
    monkeypatch.setattr(environment, "make_venv", lambda python: None)
    monkeypatch.setattr(environment, "wants_cpu_build", lambda: False)
    calls = []
    monkeypatch.setattr(environment, "pip", lambda *arguments: calls.append(arguments) or True)
    return tmp_path, calls


def test_a_second_run_installs_nothing(elsewhere):
    _, calls = elsewhere
    environment.main()
    first = len(calls)
    environment.main()
    assert first == len(calls) == 2


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_a_changed_file_is_installed_again(elsewhere, name):
    folder, calls = elsewhere
    environment.main()
    (folder / name).write_text("torch==2.14.0\n")
    environment.main()
    assert len(calls) == 4


def test_a_failed_or_interrupted_installation_is_repeated(elsewhere, monkeypatch):
    folder, calls = elsewhere
    environment.main()
    (folder / "requirements.txt").write_text("torch==2.14.0\n")
    with monkeypatch.context() as patch, pytest.raises(SystemExit, match="safe to run the same command again"):
        patch.setattr(environment, "pip", lambda *arguments: False)
        environment.main()
    assert not (folder / ".venv" / "installed").exists()
    environment.main()
    assert len(calls) == 4


def test_a_linux_machine_without_an_nvidia_gpu_asks_for_the_cpu_build_first(elsewhere, monkeypatch):
    _, calls = elsewhere
    monkeypatch.setattr(environment, "wants_cpu_build", lambda: True)
    monkeypatch.setattr(environment, "has", lambda requirement: False)
    monkeypatch.setattr(environment, "reachable", lambda url: True)
    environment.main()
    assert calls[0] == ("install", "--no-deps", "--index-url", environment.CPU_INDEX, "torch==2.13.0")
    assert calls[1][-1] == "requirements.txt"


def test_where_the_cpu_builds_cannot_be_reached_the_usual_index_serves(elsewhere, monkeypatch, capsys):
    _, calls = elsewhere
    monkeypatch.setattr(environment, "wants_cpu_build", lambda: True)
    monkeypatch.setattr(environment, "has", lambda requirement: False)
    monkeypatch.setattr(environment, "reachable", lambda url: False)
    environment.main()
    assert len(calls) == 2 and "usual index" in capsys.readouterr().out


def test_an_unreachable_host_is_no_error():
    assert environment.reachable("http://127.0.0.1:9/") is False


@pytest.mark.parametrize(
    ("version", "good"), [((3, 9), False), ((3, 10), True), ((3, 13), True), ((3, 14), False), ((2, 7), False)]
)
def test_which_pythons_are_supported(version, good):
    assert environment.supported(version) is good


def test_an_unsupported_python_is_named_with_the_supported_ones(monkeypatch):
    monkeypatch.setattr(environment, "supported", lambda version: False)
    monkeypatch.setattr(environment.shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match=r"3\.10 to 3\.13, and found 3\."):
        environment.find_python()


def test_a_supported_python_beside_an_unsupported_one_is_taken_if_it_runs(monkeypatch):
    commands = {"python3.13": "/bin/false", "python3.12": sys.executable}
    monkeypatch.setattr(environment, "supported", lambda version: False)
    monkeypatch.setattr(environment.shutil, "which", commands.get)
    assert environment.find_python() == os.path.realpath(sys.executable)


def junit(path, *outcomes):
    """Write a report with one test for each outcome."""
    suite = ElementTree.Element("testsuite")
    for number, outcome in enumerate(outcomes):
        case = ElementTree.SubElement(suite, "testcase", classname="tests.test_x", name=f"test_{number}")
        if outcome == "xfail":
            ElementTree.SubElement(case, "skipped", type="pytest.xfail", message="known")
        elif outcome != "passed":
            ElementTree.SubElement(case, outcome, message="because")
    ElementTree.ElementTree(suite).write(path)
    return str(path)


def test_the_totals_add_up_over_reports(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("TRANSFORMER_LIB_NO_SKIPS", raising=False)
    one = junit(tmp_path / "library.xml", "passed", "passed", "skipped", "xfail")
    two = junit(tmp_path / "notebooks.xml", "passed")
    assert totals.main([one, two]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "===== 0 failed, 3 passed, 1 skipped, 1 expected to fail ====="


def test_where_nothing_may_be_skipped_a_skip_fails_and_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LIB_NO_SKIPS", "1")
    assert totals.main([junit(tmp_path / "a.xml", "passed", "skipped")]) == 1
    assert "tests.test_x::test_1: because" in capsys.readouterr().out
    assert totals.main([junit(tmp_path / "b.xml", "passed", "xfail")]) == 0


@pytest.mark.parametrize("outcomes", [("passed", "failure"), ("passed", "error"), ()])
def test_a_failure_an_error_and_an_empty_run_are_no_success(tmp_path, outcomes):
    assert totals.main([junit(tmp_path / "a.xml", *outcomes)]) == 1


def test_every_package_that_is_imported_is_pinned():
    root, local = Path(tools.__file__).parents[1], {"tools", "transformer_lib", "transformer_grader", "benchmarks"}
    files = [
        path for folder in ("tools", "tests", "book/_ext", "transformer_lib") for path in root.glob(f"{folder}/**/*.py")
    ]
    local |= {path.stem for path in files if path.parent.name == "tests"}
    named = {name for path in files for name in imported(path)} - local - sys.stdlib_module_names
    pinned = {
        line.split("==")[0].lower() for line in (root / "requirements.txt").read_text().splitlines() if "==" in line
    }
    sources = metadata.packages_distributions()
    loose = {name for name in named if not {one.lower().replace("_", "-") for one in sources.get(name, [])} & pinned}
    assert {"torch", "pytest", "yaml"} <= named and loose == set()


def imported(path: Path) -> set[str]:
    """Return the top names that a file imports, its neighbours' left out."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module.split(".")[0])
    return found
