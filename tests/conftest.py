"""What all tests share: shapes checked while they run, one thread, examples that don't change from run to run.

The shapes in the library's signatures are turned into checks by jaxtyping's import hook, installed here before any
test imports the library. Files named `test_bad_input*.py` are the exception: they test the errors a user sees, so
while such a file is imported and while its tests run, `sys.modules` holds a second copy of the library that was
imported without the hook. Plain imports at their top are all they need, and one `pytest` runs everything.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import settings

LIBRARY = "transformer_lib"
# It follows every operation, those of a check too, and has no shapes of its own: checks would only slow it down.
WITHOUT_SHAPES = {f"{LIBRARY}.diagnostics.graph"}

PEERS = Path(__file__).parents[1] / "_build" / "peers"  # where `make bench` puts other libraries
collect_ignore = [] if (PEERS / "transformers").is_dir() else ["test_diagnostics_peers.py"]

torch.set_num_threads(1)
settings.register_profile("repeatable", max_examples=10, derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


def _modules() -> list[str]:
    folder = Path(__file__).parents[1] / LIBRARY
    files = (path.relative_to(folder.parent) for path in folder.rglob("*.py"))
    return [".".join(path.with_suffix("").parts) for path in files if path.name != "__init__.py"]


hooks: list[object] = []
if os.environ.get("TRANSFORMER_LIB_NO_SHAPES") != "1":
    from jaxtyping import install_import_hook

    others = list(sys.meta_path)
    install_import_hook([name for name in _modules() if name not in WITHOUT_SHAPES], "beartype.beartype")
    hooks = [finder for finder in sys.meta_path if finder not in others]

without_checks: dict[str, ModuleType] = {}


def _take_library_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == LIBRARY]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def unchecked_library() -> Iterator[None]:
    """Let imports find a copy of the library whose shapes nobody checks."""
    finders = list(sys.meta_path)
    checked = _take_library_out()
    sys.modules.update(without_checks)
    sys.meta_path[:] = [finder for finder in finders if finder not in hooks]
    try:
        yield
    finally:
        sys.meta_path[:] = finders
        without_checks.update(_take_library_out())
        sys.modules.update(checked)


def _is_of_bad_input(node: pytest.Item | pytest.Collector) -> bool:
    return node.path.name.startswith("test_bad_input")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Import a file of bad input without the hook."""
    if not (isinstance(collector, pytest.Module) and _is_of_bad_input(collector)):
        return (yield)
    with unchecked_library():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Run a test of bad input without the hook."""
    if not _is_of_bad_input(item):
        return (yield)
    with unchecked_library():
        return (yield)


def _cannot_run(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("cuda")) and not torch.cuda.is_available()


def _repeats_with_another_seed(item: pytest.Item) -> bool:
    """A slow test's second and later seeds: `make test-thorough` runs them, and a weekly job."""
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    return bool(item.get_closest_marker("slow")) and indices.get("seed", 0) > 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a GPU where there is none, and a slow test's further seeds where nobody asked for them."""
    all_seeds = os.environ.get("TRANSFORMER_LIB_THOROUGH") == "1"
    without = [item for item in items if _cannot_run(item) or (_repeats_with_another_seed(item) and not all_seeds)]
    if without:
        items[:] = [item for item in items if item not in without]
        config.hook.pytest_deselected(items=without)


@pytest.fixture(autouse=True)
def same_numbers_each_time() -> None:
    """Seed torch before each test, so that one can be run alone."""
    torch.manual_seed(0)
