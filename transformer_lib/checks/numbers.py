"""Checks of sizes, rates and other numbers."""

import math

from transformer_lib.checks.values import instance, shown

MOST_SIZE = 2**31 - 1  # what is larger fits in no memory
MOST_NUMBER = 2**63 - 1  # what a tensor of integers can hold
LARGEST_LOG = 709  # e to this power is nearly the largest float
MOST_ELEMENTS = 2**32  # of one matrix: 16 GB in float32


def positive(**sizes: int) -> None:
    """Demand integers of at least 1.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is below 1, or above 2^31 - 1.
    """
    _between(1, MOST_SIZE, sizes)


def not_negative(**numbers: int) -> None:
    """Demand integers of at least 0.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is negative, or above 2^63 - 1.
    """
    _between(0, MOST_NUMBER, numbers)


def matrix(**sizes: int) -> None:
    """Demand two sizes of at least 1 with a product that is no more than 2^32 elements.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is below 1, or the matrix is too large.
    """
    positive(**sizes)
    (name, rows), (other, columns) = sizes.items()
    if rows * columns > MOST_ELEMENTS:
        raise ValueError(
            f"{name} times {other} must be at most {MOST_ELEMENTS} elements, got {rows} times {columns}: "
            "that would not fit in memory"
        )


def _between(least: int, most: int, numbers: dict[str, int]) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int):
            kind = type(number).__name__
            raise TypeError(f"{name} must be an int of at least {least}, got {shown(number)} of type {kind}")
        if number < least:
            raise ValueError(f"{name} must be at least {least}, got {shown(number)}")
        if number > most:
            raise ValueError(f"{name} must be at most {most}, got {shown(number)}")


def heads_divide(d_model: int, heads: int) -> None:
    """Demand sizes of at least 1 with `heads` dividing `d_model`.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is below 1 or too large, or heads would get unequal parts.
    """
    positive(d_model=d_model, heads=heads)
    matrix(d_model=d_model, width=d_model)
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got d_model = {d_model} and heads = {heads}")


def above_zero(**numbers: float) -> None:
    """Demand finite numbers above 0.

    Raises:
        TypeError: one is not a number.
        ValueError: one is 0, negative, infinite (as a float) or not a number.
    """
    for name, number in numbers.items():
        _real(name, number, "above 0")
        if not (_finite(number) and number > 0):
            raise ValueError(f"{name} must be a finite number above 0, got {shown(number)}")


def at_least_zero(**numbers: float) -> None:
    """Demand finite numbers of at least 0.

    Raises:
        TypeError: one is not a number.
        ValueError: one is negative, infinite (as a float) or not a number.
    """
    for name, number in numbers.items():
        _real(name, number, "of at least 0")
        if not (_finite(number) and number >= 0):
            raise ValueError(f"{name} must be at least 0 and finite, got {shown(number)}")


def exponent(base: float, **numbers: float) -> None:
    """Demand finite numbers of at least 0 to whose power the base can be raised.

    Raises:
        TypeError: one is not a number.
        ValueError: one is negative or not finite, or the power exceeds the largest float.
    """
    at_least_zero(**numbers)
    for name, number in numbers.items():
        if number * math.log(base) > LARGEST_LOG:
            raise ValueError(f"{name} must keep {base:.4g}^{name} below the largest float, got {shown(number)}")


def share(**numbers: float) -> None:
    """Demand numbers above 0 and at most 1.

    Raises:
        TypeError: one is not a number.
        ValueError: one is outside the range.
    """
    for name, number in numbers.items():
        _real(name, number, "above 0 and at most 1")
        if not 0 < number <= 1:
            raise ValueError(f"{name} must be above 0 and at most 1, got {shown(number)}")


def probability(**rates: float) -> None:
    """Demand numbers from 0 up to, but not including, 1.

    Raises:
        TypeError: one is not a number.
        ValueError: one is outside the range.
    """
    for name, rate in rates.items():
        _real(name, rate, "in [0, 1)")
        if not 0 <= rate < 1:
            raise ValueError(f"{name} must be in [0, 1), got {shown(rate)}")


def _real(name: str, number: float, wanted: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float):
        kind = type(number).__name__
        raise TypeError(f"{name} must be a number {wanted}, got {shown(number)} of type {kind}")


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond the largest float
        return False


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


def enough_positions(max_length: int, first: int, length: int) -> None:
    """Demand that a model has the positions from `first` to `first` + `length` - 1.

    Raises:
        TypeError: `first` is not an integer.
        ValueError: `first` is negative, or `max_length` is too small.
    """
    not_negative(first=first)
    if first + length > max_length:
        raise ValueError(f"the model has {max_length} positions (max_length), got a sequence of {first + length}")
