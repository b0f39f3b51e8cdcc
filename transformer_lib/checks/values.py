"""Checks of sizes, rates, choices and kinds."""

import math
from collections.abc import Sequence
from types import UnionType

from torch import Tensor


def positive(**sizes: int) -> None:
    """Demand integers of at least 1.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is below 1.
    """
    _at_least(1, sizes)


def not_negative(**numbers: int) -> None:
    """Demand integers of at least 0.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is negative.
    """
    _at_least(0, numbers)


def _at_least(least: int, numbers: dict[str, int]) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(
                f"{name} must be an int of at least {least}, got {number!r} of type {type(number).__name__}"
            )
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {number}")


def heads_divide(d_model: int, heads: int) -> None:
    """Demand sizes of at least 1 with `heads` dividing `d_model`.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is below 1, or heads would get unequal parts.
    """
    positive(d_model=d_model, heads=heads)
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got d_model = {d_model} and heads = {heads}")


def above_zero(**numbers: float) -> None:
    """Demand finite numbers above 0.

    Raises:
        TypeError: one is not a number.
        ValueError: one is 0, negative, infinite or not a number.
    """
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError(f"{name} must be a number above 0, got {number!r} of type {type(number).__name__}")
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be a finite number above 0, got {number}")


def probability(**rates: float) -> None:
    """Demand numbers from 0 up to, but not including, 1.

    Raises:
        TypeError: one is not a number.
        ValueError: one is outside the range.
    """
    for name, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise TypeError(f"{name} must be a number in [0, 1), got {rate!r} of type {type(rate).__name__}")
        if not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1), got {rate}")


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
        if choice not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {choice!r}")


def token_id(vocabulary: int, **ids: int) -> None:
    """Demand ids from 0 to the last one of the vocabulary.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is outside the range.
    """
    not_negative(**ids)
    for name, number in ids.items():
        if number >= vocabulary:
            raise ValueError(f"{name} must be an id from 0 to {vocabulary - 1}, got {number}")


def bucket_sizes(buckets: int, max_distance: int, bidirectional: bool) -> None:
    """Demand at least 2 buckets a direction, as many for each, and more distances than half of them.

    Raises:
        TypeError: a number is not an integer, or `bidirectional` not a bool.
        ValueError: there are too few, an odd number for two directions, or `max_distance` is too small.
    """
    positive(buckets=buckets, max_distance=max_distance)
    instance(bool, bidirectional=bidirectional)
    directions = 2 if bidirectional else 1
    if buckets < 2 * directions or buckets % directions:
        wanted = "even and at least 4 for two directions" if bidirectional else "at least 2"
        raise ValueError(f"buckets must be {wanted}, got {buckets}")
    if max_distance <= buckets // directions // 2:
        raise ValueError(f"max_distance must be above {buckets // directions // 2}, got {max_distance}")


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


def one_for_each_layer(layers: int, **named: Sequence[object] | None) -> None:
    """Demand a sequence with one element for each layer; None passes.

    Raises:
        TypeError: one is not a sequence.
        ValueError: one has another length.
    """
    for name, things in named.items():
        instance(Sequence | None, **{name: things})
        if things is not None and len(things) != layers:
            raise ValueError(f"{name} must hold one for each of {layers} layers, got {len(things)}")


def enough_positions(max_length: int, first: int, length: int) -> None:
    """Demand that a model has the positions from `first` to `first` + `length` - 1.

    Raises:
        TypeError: `first` is not an integer.
        ValueError: `first` is negative, or `max_length` is too small.
    """
    not_negative(first=first)
    if first + length > max_length:
        raise ValueError(f"the model has {max_length} positions (max_length), got a sequence of {first + length}")


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
