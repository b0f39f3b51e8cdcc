"""`use`: let the library run on the reader's own parts, reversibly.

The library calls its parts through their modules, so that setting `attention.attention_weights` changes every layer
built on it.
"""

from types import ModuleType, TracebackType
from typing import Any

from transformer_lib.exercises import checking, originals, properties, store
from transformer_lib.exercises.feedback import Feedback

_answers: dict[str, list[tuple["Swap", Any]]] = {}  # name -> who put what in its place, the last one in force


class Swap:
    """What `use` did: it prints as text, and as a context manager puts the library's pieces back at the end.

    Args:
        used: names of the pieces that are now the reader's.
        refused: name -> the feedback on an answer that isn't right, so that the library's piece stays.
    """

    def __init__(self, used: tuple[str, ...], refused: dict[str, Feedback]) -> None:
        self.used, self.refused = used, refused

    def __repr__(self) -> str:
        lines = [f"The library now runs on your own {', '.join(self.used)}."] if self.used else []
        for name, feedback in self.refused.items():
            why = "can't take its place yet" if feedback.status == "unfit" else "isn't right yet"
            lines.append(f"The library keeps its own {name}, since yours {why}:\n{feedback}")
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
            _take_back(name, self)


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
    swap = Swap((), {})
    for name, answer in answers.items():
        feedback = _try(name, answer)
        if feedback:
            swap.used += (name,)
            _answers.setdefault(name, []).append((swap, answer))
            _put(name, answer)
        else:
            swap.refused[name] = feedback
    return swap


def in_use() -> tuple[str, ...]:
    """Return the names of the pieces that are the reader's at the moment."""
    return tuple(sorted(originals.replaced))


def reset() -> Swap:
    """Put all of the library's own pieces back."""
    for name, piece in list(originals.replaced.items()):
        _put(name, piece)
    _answers.clear()
    return Swap((), {})


def _try(name: str, answer: Any) -> Feedback:
    """Return the feedback on an answer: whether it is right, and fit for its place."""
    _place(name)
    number = store.pieces()[name]
    feedback = checking.check(number, answer)
    if not feedback:
        return feedback
    if why := properties.unfit(store.load(number), answer):
        return Feedback(number, "unfit", f"{number}: the values are right, but {why}")
    return feedback


def _take_back(name: str, swap: Swap) -> None:
    """Remove what a swap has put in a place, and let what was put there last, if anything is left, be in force."""
    if not any(owner is swap for owner, _ in _answers.get(name, [])):
        return  # `reset` was quicker
    left = [(owner, answer) for owner, answer in _answers[name] if owner is not swap]
    _answers[name] = left
    if left or name in originals.replaced:
        _put(name, left[-1][1] if left else originals.replaced[name])


def _place(name: str) -> tuple[ModuleType, str]:
    module, _ = originals.place(store.load(store.pieces()[name]).replaces or "")
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
    own = originals.replaced.setdefault(name, current)
    setattr(module, attribute, piece)
    if piece is own:
        del originals.replaced[name]
