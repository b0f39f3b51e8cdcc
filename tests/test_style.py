"""The rules of size and form that a machine can check, for every module of the library.

That modules import only from floors below is checked by `tools/floors.py` (test_listings).
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch

import transformer_lib
from transformer_lib import attention

LIBRARY = Path(transformer_lib.__file__).parent
MODULES = sorted(LIBRARY.rglob("*.py"))
NAMES = [str(path.relative_to(LIBRARY)) for path in MODULES]
modules = pytest.mark.parametrize("path", MODULES, ids=NAMES)

MODULE_LINES, BODY_LINES, PARAMETERS = 200, 25, 6  # fewer than the first two, at most the third
WITHOUT_SHAPES = ("checks/", "exercises/")  # they are given tensors of any shape, or what should have been one
OPTIONAL = ["tokenizers", "sacrebleu", "safetensors", "matplotlib", "ipywidgets", "IPython"]
LEAN = ["attention", "masks", "positional", "relative", "baselines", "multi_head", "layers", "encoder_decoder"]
LEAN += ["config", "model", "siblings", "data", "toy"]
LEAN += ["toy_grammar", "multi30k", "training", "checkpoints", "fast", "decoding"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def definitions(path: Path) -> Iterator[tuple[str, ast.AST, ast.ClassDef | None]]:
    """Yield the module's functions, classes and methods, each with its dotted name and its class."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, Function | ast.ClassDef):
            yield node.name, node, None
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, Function):
                    yield f"{node.name}.{part.name}", part, node


def functions(path: Path) -> Iterator[tuple[str, Function, ast.ClassDef | None]]:
    return ((name, node, owner) for name, node, owner in definitions(path) if isinstance(node, Function))


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def body_lines(function: Function) -> int:
    """Count a function's lines from the first statement after its docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@modules
def test_a_module_has_less_than_200_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < MODULE_LINES


@modules
def test_a_functions_body_has_less_than_25_lines(path):
    assert {name: body_lines(node) for name, node, _ in functions(path) if body_lines(node) >= BODY_LINES} == {}


@modules
def test_a_constructor_takes_at_most_six_parameters(path):
    for name, node, _ in functions(path):
        if name.endswith(".__init__"):
            a = node.args
            named = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
            taken = [parameter.arg for parameter in named if parameter is not None][1:]
            assert len(taken) <= PARAMETERS, (name, taken)


@modules
def test_everything_public_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert [name for name, node, _ in definitions(path) if is_public(name) and not ast.get_docstring(node)] == []


def bare_tensors(annotation: ast.AST | None) -> Iterator[ast.AST]:
    """Find `Tensor` outside of jaxtyping's brackets and outside of the type of a function."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.Subscript):
        kind = ast.unparse(annotation.value).rpartition(".")[2]
        if kind == "Callable" or hasattr(jaxtyping, kind):
            return
    if isinstance(annotation, ast.Name | ast.Attribute):
        if ast.unparse(annotation).rpartition(".")[2] == "Tensor":
            yield annotation
        return
    for child in ast.iter_child_nodes(annotation) if annotation else ():
        yield from bare_tensors(child)


@modules
def test_public_signatures_say_the_shapes_of_tensors(path):
    found = []
    for name, node, _ in functions(path):
        a = node.args
        annotations = [p.annotation for p in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg] if p]
        if str(path.relative_to(LIBRARY)).startswith(WITHOUT_SHAPES) or not is_public(name):
            continue
        if any(list(bare_tensors(annotation)) for annotation in [*annotations, node.returns]):
            found.append(name)
    assert found == []


@modules
def test_every_parameter_and_result_has_a_type(path):
    found = []
    for name, node, owner in functions(path):
        a = node.args
        named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *(p for p in (a.vararg, a.kwarg) if p)]
        is_static = any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)
        named = named[1:] if owner and not is_static else named
        if is_public(name) and (node.returns is None or any(p.annotation is None for p in named)):
            found.append(name)
    assert found == []


@modules
def test_a_bad_value_is_not_met_by_an_assertion(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)] == []


def test_the_shape_checker_is_on_here():
    with pytest.raises(jaxtyping.TypeCheckError):
        attention.attend(torch.randn(3, 4), torch.randn(5, 6), torch.randn(5, 2))


IMPORT_ALL = f"""
import json, random, sys
import numpy, torch

seen = []
sys.addaudithook(lambda event, args: seen.append([event, repr(args)]) if event.startswith(("socket.", "urllib.")) or
                 (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+") and
                  "__pycache__" not in str(args[0])) else None)
state = [torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(), random.getstate()]
threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
import importlib
for name in sys.argv[1:]:
    importlib.import_module("transformer_lib." + name)
same = state == [torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(), random.getstate()]
same = same and (threads, dtype) == (torch.get_num_threads(), torch.get_default_dtype())
loaded = [name for name in {OPTIONAL} if name in sys.modules]
sys.stderr.write(json.dumps([seen, same, loaded]))
"""


def imported(names: list[str]) -> tuple[str, list, bool, list[str]]:
    """Import modules in a fresh interpreter; return what was printed, touched, left the same, and loaded beside."""
    command = [sys.executable, "-W", "ignore", "-c", IMPORT_ALL, *names]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return run.stdout, *json.loads(run.stderr)


def test_floors_0_to_3_and_training_need_no_optional_package_and_importing_them_does_nothing():
    stdout, touched, same, loaded = imported([name for name in LEAN if (LIBRARY / f"{name}.py").exists()])
    assert (stdout, touched, same, loaded) == ("", [], True, [])


def test_importing_all_of_the_library_prints_seeds_writes_and_downloads_nothing():
    names = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in NAMES]
    stdout, touched, same, _ = imported([name for name in names if name != "__init__"])
    touched = [event for event in touched if "matplotlib" not in event[1]]  # its font cache, at the first import
    assert (stdout, touched, same) == ("", [], True)
