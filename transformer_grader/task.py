"""What a sandbox is asked to do, and what came of it."""

from dataclasses import dataclass, field
from typing import Any

from transformer_lib.exercises.declared import Case, Outcome


@dataclass(frozen=True)
class Call:
    """One call of an answer: which exercise, how it is called, with what."""

    key: tuple[str, str, int]
    exercise: str
    kind: str
    case: Case


@dataclass
class Task:
    """What a sandbox is to do: the entries to find, the calls in the order in which they are sent.

    Args:
        entries: exercise -> the name of its answer, and where the library's own versions are, which it may not call.
    """

    entries: dict[str, dict[str, Any]]
    calls: list[Call]
    prelude: str = ""
    given: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    torch: bool = True


@dataclass
class Transcript:
    """What came of a submission.

    Args:
        borrowed: exercises whose answer ran the library's own version of what it was to be.
        lost: exercise -> status, of those whose answer hung or ended the process.
        cells: number of the cell -> what stopped it.
        found: exercise -> how its answer was found; None if it wasn't.
        open: exercise -> the text of an open answer.
        trouble: what went wrong with the submission as a whole: status and reason.
    """

    outcomes: dict[tuple[str, str, int], Outcome] = field(default_factory=dict)
    borrowed: set[str] = field(default_factory=set)
    lost: dict[str, str] = field(default_factory=dict)
    cells: dict[int, str] = field(default_factory=dict)
    found: dict[str, str | None] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    trouble: tuple[str, str] | None = None
    starts: int = 0
