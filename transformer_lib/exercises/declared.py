"""What an exercise is made of: as its author declares it (`Probe`, `Question`) and as it ships (`Exercise`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

PUBLIC_SEED = 0  # of the inputs that ship; a grader uses others, which it keeps to itself


@dataclass(frozen=True)
class Case:
    """One call of an answer: a name to speak of it, and what is passed, in the order of the signature.

    Args:
        constructor: for a module: what its class is called with.
        state: for a module: its state dict.
        mentions: for a call that must raise: words that the error's text must hold.
        telling: what these words are, such as "both shapes".
    """

    name: str
    inputs: dict[str, Any]
    constructor: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    mentions: tuple[str, ...] = ()
    telling: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of one call: a value, or an error with the names of its class and of that class's parents."""

    value: Any = None
    errors: tuple[str, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people really give, with the sentence that names it.

    Args:
        fraction: share of the points that it earns with a grader.
    """

    name: str
    sentence: str
    answer: Callable[..., Any]
    fraction: float = 0.0


@dataclass(frozen=True)
class Group:
    """Points for a part of an exercise's inputs, earned where all of them come out right; used by a grader only."""

    title: str
    points: int
    cases: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A coding exercise as its author declares it: nothing of this ships, only values made from it.

    Args:
        kind: how an answer is called: see `protocols.MAKE`.
        entry: the name that the answer must have in the notebook, which is how a grader finds it.
        cases: the inputs that belong to a seed; the first is small enough to be shown.
        right: two implementations or more, each unlike the other, that must be accepted.
        tolerance: an answer is right if |answer - reference| <= tolerance * (1 + |reference|) everywhere.
        replaces: the piece of the library in whose place an answer can stand, as "module.name".
        original: the library's own versions of what is asked for, each as "module.name" (also of a class's method),
            which an answer may not call; `replaces` unless given.
        properties: names in `properties.PROPERTIES`, tried on fresh inputs.
        groups: how a grader shares the points out over the cases; without them a wrong answer earns none for its cases.
    """

    id: str
    title: str
    kind: str
    entry: str
    points: int
    minutes: int
    difficulty: int
    cases: Callable[[int], Sequence[Case]]
    reference: Callable[..., Any]
    right: dict[str, Callable[..., Any]]
    wrong: Sequence[Mistake]
    tolerance: float = 1e-4
    replaces: str | None = None
    original: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Question:
    """An open question, marked by a person.

    Args:
        rubric: points, what is looked for (this ships), and what earns the points (this doesn't).
    """

    id: str
    title: str
    points: int
    minutes: int
    difficulty: int
    rubric: tuple[tuple[int, str, str], ...]
    kind: str = "prose"


@dataclass(frozen=True)
class KnownMistake:
    """A wrong answer as it ships: what it returns, without its code."""

    name: str
    sentence: str
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """An exercise as it ships: values only."""

    id: str
    title: str
    kind: str
    points: int
    minutes: int
    difficulty: int
    entry: str = ""
    tolerance: float = 0.0
    replaces: str | None = None
    original: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    right: tuple[Outcome, ...] = ()
    wrong: tuple[KnownMistake, ...] = ()
    rubric: tuple[tuple[int, str], ...] = ()
