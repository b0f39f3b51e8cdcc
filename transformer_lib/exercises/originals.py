"""The library's own versions of what an exercise asks for: where they are, and whether an answer calls one of them."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from transformer_lib.exercises import protocols, watching
from transformer_lib.exercises.declared import Exercise, Probe

replaced: dict[str, Any] = {}  # name -> the library's own, while a reader's answer is in its place


def place(path: str) -> tuple[ModuleType, str]:
    """Return the module of a piece given as "module.name", and its name there."""
    module, _, name = path.rpartition(".")
    return importlib.import_module(f"transformer_lib.{module}"), name


def paths(exercise: Exercise | Probe) -> tuple[str, ...]:
    """Return where the library's own versions of what is asked for are, each as "module.name"."""
    return exercise.original or ((exercise.replaces,) if exercise.replaces else ())


def pieces(paths: Sequence[str]) -> list[Any]:
    """Return the pieces of the library that stand there."""
    return [replaced.get(path.rpartition(".")[2], pkgutil.resolve_name(f"transformer_lib.{path}")) for path in paths]


def functions(pieces: Sequence[Any]) -> dict[FunctionType, str]:
    """Return each function, and each module's `forward` -> the piece's name."""
    return {_function(piece): piece.__qualname__ for piece in pieces}


def borrowed(exercise: Exercise, answer: Callable[..., Any], names: Mapping[str, str] | None = None) -> str | None:
    """Return what is said of an answer that is the library's own or calls it, by whatever way; None of another."""
    if not (own := functions(pieces(paths(exercise)))):
        return None
    with watching.watching(own) as watch:
        for case, right in zip(exercise.cases, exercise.right, strict=True):
            got, _ = protocols.run(exercise.kind, answer, case, names)
            protocols.agrees(got, right, exercise.tolerance)  # what comes back may compute its numbers only here
        ran = watch.ran()
    return f"it calls the library's {ran[0]}, which is what you are to write yourself" if ran else None


def _function(piece: Any) -> FunctionType:
    """Return a function, or a module's `forward`, without what is wrapped around it."""
    found = inspect.unwrap(piece.forward if isinstance(piece, type) else piece)
    return getattr(found, "__func__", found)
