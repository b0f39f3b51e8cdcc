"""Whether some functions run, by whatever way: called, in a thread, under a profiler, in a forked process.

While a function is watched it has other code, which notes in shared memory that it runs and then runs its own. So
nobody else's profiler is touched, and a long loop costs no more than before.
"""

import gc
import inspect
import mmap
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any

Note = tuple[mmap.mmap, int]  # memory that forked processes share, and a function's place there

_lock = threading.RLock()
_watched: dict[FunctionType, "_Watched"] = {}


class Watch:
    """What is known of some functions: which of them ran since the last `clear`, while this watch was on.

    Args:
        functions: each function -> its name. Others of the same code count as well, such as a reloaded module's.
    """

    def __init__(self, functions: Mapping[FunctionType, str]) -> None:
        self.functions, self.names = list(functions), list(functions.values())
        self.places = {_code(function): place for place, function in enumerate(functions)}
        self.memory = mmap.mmap(-1, len(self.names) or 1)

    def start(self) -> set[int]:
        """Watch each function of the code in question that isn't watched yet; return the places of those."""
        with _lock:
            found = self._unwatched()
            for function, place in found.items():
                kept = _watched.get(function) or _Watched(function)
                kept.notes.append((self.memory, place))
        return set(found.values())

    def stop(self) -> None:
        """Leave the functions as they were, except those that another watch is on."""
        with _lock:
            for kept in list(_watched.values()):
                kept.notes[:] = [note for note in kept.notes if note[0] is not self.memory]
                if not kept.notes:
                    kept.restore()

    def clear(self) -> None:
        """Forget what ran."""
        self.memory[:] = bytes(len(self.memory))

    def ran(self) -> list[str]:
        """Return the names of the functions that ran, and of those that have been made anew meanwhile."""
        made = self.start()
        return [name for place, name in enumerate(self.names) if self.memory[place] or place in made]

    def _unwatched(self) -> dict[FunctionType, int]:
        """Return each function of the code in question that this watch isn't on -> its place."""
        known = {code.co_name for code in self.places}  # quick to compare; most objects aren't of that name
        own = {id(kept.plain) for kept in _watched.values()}
        some = [one for one in gc.get_objects() if type(one) is FunctionType and one.__code__.co_name in known]
        found = {one: self.places.get(_code(one)) for one in [*self.functions, *some] if id(one) not in own}
        return {one: place for one, place in found.items() if place is not None and not self._on(one)}

    def _on(self, function: FunctionType) -> bool:
        return function in _watched and any(memory is self.memory for memory, _ in _watched[function].notes)


@contextmanager
def watching(functions: Mapping[FunctionType, str]) -> Iterator[Watch]:
    """Watch some functions until the block ends."""
    watch = Watch(functions)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


class _Watched:
    """A function that has other code for a while, who wants to know that it runs, and what it was before."""

    def __init__(self, function: FunctionType) -> None:
        self.function, self.code, self.notes = function, function.__code__, list[Note]()
        self.plain = FunctionType(
            self.code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.plain.__kwdefaults__ = function.__kwdefaults__
        self.signed = "__signature__" in vars(function)
        if not self.signed:
            vars(function)["__signature__"] = inspect.signature(function)  # the other code takes anything
        _watched[function] = self
        function.__code__ = _noting(self.code, self.noted)

    def noted(self, *inputs: Any, **named: Any) -> Any:
        """Note that the function runs, and run it."""
        for memory, place in self.notes:
            memory[place] = 1
        return self.plain(*inputs, **named)

    def restore(self) -> None:
        """Give the function its own code back."""
        self.function.__code__ = self.code
        if not self.signed:
            vars(self.function).pop("__signature__", None)
        _watched.pop(self.function, None)


MADE = """
def around({cells}):
    def passing(*inputs, **named):
        what = "run"
        return what(*inputs, **named)
        {cells}
"""


def _noting(code: CodeType, run: Any) -> CodeType:
    """Return code that passes on what it is given, and fits a function of the code given.

    It names as many variables of a surrounding function as that: a debugger looks for all that the function holds.
    """
    cells = ", ".join(f"cell_{number}" for number in range(len(code.co_freevars)))
    around = compile(MADE.format(cells=cells), code.co_filename, "exec").co_consts[0]
    passing = next(constant for constant in around.co_consts if isinstance(constant, CodeType))
    return passing.replace(
        co_consts=tuple(run if constant == "run" else constant for constant in passing.co_consts),
        co_name=code.co_name,
        co_firstlineno=code.co_firstlineno,
    )


def _code(function: FunctionType) -> CodeType:
    """Return a function's own code."""
    return _watched[function].code if function in _watched else function.__code__
