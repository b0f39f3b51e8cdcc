"""The library's own versions of what an exercise asks for: where they are, and whether an answer calls one of them."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType, ModuleType
from typing import Any

from transformer_lib.exercises import protocols
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


def codes(pieces: Sequence[Any]) -> dict[CodeType, str]:
    """Return the code of each function, and of each module's `forward` -> the piece's name."""
    return {_code(piece): piece.__qualname__ for piece in pieces}


def borrowed(exercise: Exercise, answer: Callable[..., Any], names: Mapping[str, str] | None = None) -> str | None:
    """Return what is said of an answer that is the library's own or calls it, by whatever way; None of another."""
    if not (own := codes(pieces(paths(exercise)))):
        return None
    with watched(own) as called:
        for case in exercise.cases:
            protocols.run(exercise.kind, answer, case, names)
    return f"it calls the library's {called[0]}, which is what you are to write yourself" if called else None


def _code(piece: Any) -> CodeType:
    """Return the code of a function, or of a module's `forward`."""
    return inspect.unwrap(piece.forward if isinstance(piece, type) else piece).__code__


@contextmanager
def watched(own: Mapping[CodeType, str], most: float = float("inf")) -> Iterator[list[str]]:
    """Yield a list that will hold the name of each of some pieces of code that runs meanwhile.

    Args:
        most: how many calls and returns are looked at: each costs time, which an answer with long loops may not have.
    """
    found: list[str] = []
    left = most

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code in own:
            found.append(own[frame.f_code])
        left -= 1
        if left <= 0:
            sys.setprofile(None)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield found
    finally:
        sys.setprofile(before)
