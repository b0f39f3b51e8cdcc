"""`use`: let the library run on the reader's own parts, reversibly.

The library calls its parts through their modules, so that setting `attention.attention_weights` changes every layer
built on it.
"""

import importlib
from types import ModuleType, TracebackType
from typing import Any

from transformer_lib.exercises import checking, properties, store
from transformer_lib.exercises.feedback import Feedback

_library: dict[str, Any] = {}  # what each replaced piece was before


class Swap:
    """What `use` did: it prints as text, and as a context manager puts the library's pieces back at the end.

    Args:
        used: names of the pieces that are now the reader's.
        refused: name -> the feedback on an answer that isn't right, so that the library's piece stays.
    """

    def __init__(self, used: tuple[str, ...], refused: dict[str, Feedback], before: dict[str, Any]) -> None:
        self.used, self.refused, self._before = used, refused, before

    def __repr__(self) -> str:
        lines = [f"The library now runs on your own {', '.join(self.used)}."] if self.used else []
        for name, feedback in self.refused.items():
            lines.append(f"The library keeps its own {name}, since yours isn't right yet:\n{feedback}")
        return "\n".join(lines) or "The library runs on its own pieces."

    def __enter__(self) -> "Swap":
        if self.refused:
            self.__exit__(None, None, None)
            raise ValueError(f"an answer must pass its check before the library uses it, got:\n{self!r}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self.used:
            _put(name, self._before[name])


def use(**answers: Any) -> Swap:
    """Put answers in the place of the library's pieces of the same name, each if it passes its check.

    Args:
        answers: such as attention_weights=my_function.

    Raises:
        ValueError: the library has no such piece, or fast forms are in its place.
    """
    known = store.pieces()
    if unknown := [name for name in answers if name not in known]:
        raise ValueError(f"the pieces that can be replaced are {', '.join(known)}, got {', '.join(unknown)}")
    used, refused, before = [], {}, {}
    for name, answer in answers.items():
        before[name] = getattr(*_place(name))
        feedback = _try(name, answer)
        if feedback:
            used.append(name)
        else:
            refused[name] = feedback
    return Swap(tuple(used), refused, before)


def in_use() -> tuple[str, ...]:
    """Return the names of the pieces that are the reader's at the moment."""
    return tuple(sorted(_library))


def reset() -> Swap:
    """Put all of the library's own pieces back."""
    for name, piece in list(_library.items()):
        _put(name, piece)
    return Swap((), {}, {})


def _try(name: str, answer: Any) -> Feedback:
    """Put an answer in its place, if it is right and fit for it."""
    number = store.pieces()[name]
    feedback = checking.check(number, answer)
    if not feedback:
        return feedback
    if why := properties.unfit(store.load(number), answer):
        return Feedback(number, "wrong", f"{number}: the values are right, but {why}")
    _put(name, answer)
    return feedback


def _place(name: str) -> tuple[ModuleType, str]:
    path = store.load(store.pieces()[name]).replaces or ""
    module = importlib.import_module(f"transformer_lib.{path.rpartition('.')[0]}")
    for other, block in (("fast", "fast.enabled()"), ("observe", "record_attention(...) or edit_attention(...)")):
        home = f"transformer_lib.{other}"
        taken = [key for key, piece in vars(module).items() if getattr(piece, "__module__", "") == home]
        if taken:
            raise ValueError(f"use(...) and reset() must stand outside {block}, got its forms of {', '.join(taken)}")
    return module, name


def _put(name: str, piece: Any) -> None:
    """Set a piece; remember the library's own while it is replaced."""
    module, attribute = _place(name)
    current = getattr(module, attribute)
    own = _library.setdefault(name, current)
    setattr(module, attribute, piece)
    if piece is own:
        del _library[name]
