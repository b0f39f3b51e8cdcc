"""The library's own version of what an exercise asks for: where it is, and whether an answer calls it."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, ModuleType
from typing import Any

from transformer_lib.exercises import protocols
from transformer_lib.exercises.declared import Exercise

replaced: dict[str, Any] = {}  # name -> the library's own, while a reader's answer is in its place


def place(path: str) -> tuple[ModuleType, str]:
    """Return the module of a piece given as "module.name", and its name there."""
    module, _, name = path.rpartition(".")
    return importlib.import_module(f"transformer_lib.{module}"), name


def borrowed(exercise: Exercise, answer: Callable[..., Any], names: Mapping[str, str] | None = None) -> str | None:
    """Return what is said of an answer that is the library's own or calls it, by whatever way; None of another."""
    if (path := exercise.original or exercise.replaces) is None:
        return None
    module, name = place(path)
    own = _code(replaced.get(name, getattr(module, name)))

    def all_cases() -> None:
        for case in exercise.cases:
            protocols.run(exercise.kind, answer, case, names)

    return f"it calls the library's {name}, which is what you are to write yourself" if _runs(own, all_cases) else None


def _code(piece: Any) -> CodeType:
    """Return the code of a function, or of a module's `forward`."""
    return inspect.unwrap(piece.forward if isinstance(piece, type) else piece).__code__


def _runs(code: CodeType, action: Callable[[], None]) -> bool:
    """Tell whether some code runs during an action."""
    found = []

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code is code:
            found.append(True)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(before)
    return bool(found)
