"""Checks of sizes, rates, choices and kinds."""

from types import UnionType


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
