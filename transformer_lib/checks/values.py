"""Checks of choices and kinds."""

import math
import os
import reprlib
from collections.abc import Iterable, Sequence, Sized
from types import UnionType

from torch import Tensor, nn


def instance(kind: type | UnionType, **named: object) -> None:
    """Demand objects of one class, or of one of a union of classes.

    Raises:
        TypeError: one is of another.
    """
    for name, thing in named.items():
        if not isinstance(thing, kind):
            wanted = kind.__name__ if isinstance(kind, type) else str(kind)
            raise TypeError(f"{name} must be a {wanted}, got {type(thing).__name__}")


def one_of(choices: tuple[str, ...], **named: str) -> None:
    """Demand one of the choices.

    Raises:
        ValueError: it is none of them.
    """
    for name, choice in named.items():
        if not isinstance(choice, str) or choice not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(choice)}")


def function(**named: object) -> None:
    """Demand what can be called.

    Raises:
        TypeError: one can't.
    """
    for name, thing in named.items():
        if not callable(thing):
            raise TypeError(f"{name} must be a function, got {shown(thing)} of type {_kind(thing)}")


def iterable(**named: object) -> None:
    """Demand what a loop can go through, and what is more than the letters of a text.

    Raises:
        TypeError: one is something else.
    """
    for name, things in named.items():
        if isinstance(things, str | bytes) or not isinstance(things, Iterable):
            raise TypeError(f"{name} must be an iterable such as a list, got {shown(things)} of type {_kind(things)}")


def sequence_of(kind: type, **named: object) -> None:
    """Demand sequences that hold objects of one class alone.

    Raises:
        TypeError: one is not a sequence, or holds something else.
    """
    for name, things in named.items():
        if isinstance(things, str | bytes) or not isinstance(things, Sequence | nn.ModuleList):
            raise TypeError(
                f"{name} must be a sequence of {kind.__name__}, got {shown(things)} of type {_kind(things)}"
            )
        for thing in things:
            if not isinstance(thing, kind):
                raise TypeError(f"{name} must hold {kind.__name__} alone, got {shown(thing)} of type {_kind(thing)}")


def lists(**named: object) -> None:
    """Demand sequences of sequences, such as sentences of ids.

    Raises:
        TypeError: one is something else.
    """
    for name, things in named.items():
        iterable(**{name: things})
        for thing in things:
            if not isinstance(thing, Sized):
                raise TypeError(f"{name} must hold lists, got {shown(thing)} of type {_kind(thing)}")


def pairs(**named: object) -> None:
    """Demand sequences of pairs (source, target).

    Raises:
        TypeError: one is something else.
    """
    for name, things in named.items():
        if isinstance(things, str | bytes) or not isinstance(things, Sequence):
            raise TypeError(f"{name} must be a list of pairs (source, target), got {shown(things)}")
        for thing in things:
            is_pair = isinstance(thing, Sequence) and not isinstance(thing, str) and len(thing) == 2
            if not is_pair or not all(isinstance(part, Sized) for part in thing):
                raise TypeError(f"{name} must be pairs of id lists or texts (source, target), got {shown(thing)}")


def path(**named: object) -> None:
    """Demand paths of files or folders.

    Raises:
        TypeError: one is something else.
    """
    for name, thing in named.items():
        if not isinstance(thing, str | os.PathLike):
            raise TypeError(f"{name} must be a path, got {shown(thing)} of type {_kind(thing)}")


def shown(thing: object) -> str:
    """Return how a value is written in an error's text: its `repr`, shortened where that is long."""
    if isinstance(thing, int) and abs(thing) >= 10**30:
        return f"an integer of {thing.bit_length()} bits"
    return reprlib.repr(thing)


def _kind(thing: object) -> str:
    return type(thing).__name__


def sees_both_ways(**positions: object) -> None:
    """Demand position schemes that are of use where later keys are visible; None passes.

    Raises:
        ValueError: one is for causal attention only.
    """
    for name, position in positions.items():
        if getattr(position, "causal_only", False):
            raise ValueError(
                f"{name} must be a scheme for keys on both sides, such as BucketBias(heads, bidirectional=True), "
                f"got {type(position).__name__} for causal attention only"
            )


def one_for_each_layer(layers: int, kind: type, **named: Sequence[object] | None) -> None:
    """Demand a sequence with one object of a class for each layer; None passes.

    Raises:
        TypeError: one is not a sequence, or holds something else.
        ValueError: one has another length.
    """
    for name, things in named.items():
        if things is None:
            continue
        sequence_of(kind, **{name: things})
        if len(things) != layers:
            raise ValueError(f"{name} must hold one for each of {layers} layers, got {len(things)}")


def pair(kind: type | UnionType, **named: object) -> None:
    """Demand tuples or lists of two objects of one class, or of one of a union of classes.

    Raises:
        TypeError: one is something else.
    """
    for name, thing in named.items():
        if not isinstance(thing, tuple | list) or len(thing) != 2 or not all(isinstance(part, kind) for part in thing):
            wanted = kind.__name__ if isinstance(kind, type) else str(kind)
            raise TypeError(f"{name} must be a pair of {wanted}, got {shown(thing)} of type {_kind(thing)}")


def pair_for_each_layer(layers: int, kind: type, **named: object) -> None:
    """Demand a sequence of pairs of objects of one class, one pair for each layer; None passes.

    Raises:
        TypeError: one is not a sequence, or holds something else.
        ValueError: one has another length.
    """
    one_for_each_layer(layers, tuple, **named)
    for name, things in named.items():
        for thing in things or ():
            pair(kind, **{f"each of {name}": thing})


def finite_loss(loss: Tensor, step: int) -> None:
    """Demand a loss that is one finite number.

    Raises:
        TypeError: it is not a tensor of floating point.
        ValueError: it is several numbers, infinite or not a number.
    """
    kind = loss.dtype if isinstance(loss, Tensor) else type(loss).__name__
    if not (isinstance(loss, Tensor) and loss.is_floating_point()):
        raise TypeError(f"the loss must be a tensor of floating point, got {kind}")
    if loss.numel() != 1:
        raise ValueError(f"the loss must be one number, got shape {list(loss.shape)}")
    if not math.isfinite(loss.item()):
        raise ValueError(f"the loss must be finite, got {loss.item()} at step {step}")
