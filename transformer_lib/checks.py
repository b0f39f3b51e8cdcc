"""Checks of what callers pass in: each raises an error that says what was wanted and what came."""

import torch
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


def tensors(dimensions: int, **named: Tensor) -> None:
    """Demand floating-point tensors with at least so many dimensions.

    Raises:
        TypeError: one is not a tensor, or not of floating point.
        ValueError: one has too few dimensions.
    """
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
        if not tensor.is_floating_point():
            raise TypeError(f"{name} must be a tensor of floating point, got {tensor.dtype}")
        if tensor.dim() < dimensions:
            raise ValueError(f"{name} must have at least {dimensions} dimensions, got shape {shape(tensor)}")


def same_size(dimension: str, **named: Tensor) -> None:
    """Demand that two tensors [... length size] agree in batch, size and dtype.

    Raises:
        TypeError: one is not of floating point, or their dtypes differ.
        ValueError: their shapes don't fit together.
    """
    tensors(2, **named)
    (name, first), (other, second) = named.items()
    if first.dtype != second.dtype:
        raise TypeError(f"{name} and {other} must have one dtype, got {first.dtype} and {second.dtype}")
    if first.size(-1) != second.size(-1):
        raise ValueError(
            f"{name} and {other} must have the same {dimension}, got {first.size(-1)} and {second.size(-1)} "
            f"(shapes {shape(first)} and {shape(second)})"
        )
    if first.shape[:-2] != second.shape[:-2]:
        raise ValueError(
            f"{name} and {other} must have the same batch dimensions, got shapes {shape(first)} and {shape(second)}"
        )


def fits(weight: Tensor, **named: Tensor) -> None:
    """Demand tensors [... length size] that a weight [... size] can be applied to.

    Raises:
        TypeError: one is not of floating point, or of another dtype than the weight and autocast is off.
        ValueError: one has another last dimension.
    """
    tensors(2, **named)
    for name, tensor in named.items():
        if tensor.size(-1) != weight.size(-1):
            raise ValueError(f"{name} must have a last dimension of {weight.size(-1)}, got shape {shape(tensor)}")
        if tensor.dtype != weight.dtype and not torch.is_autocast_enabled(tensor.device.type):
            raise TypeError(f"{name} must be of {weight.dtype} like the weights, got {tensor.dtype}")


def one_value_per_key(key: Tensor, value: Tensor) -> None:
    """Demand as many values [... key d_v] as keys [... key d_k], in the same batch dimensions.

    Raises:
        TypeError: one is not a tensor of floating point.
        ValueError: the shapes differ in another dimension than the last.
    """
    tensors(2, key=key, value=value)
    if key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            f"there must be one value for each key, got shapes {shape(key)} for the keys and {shape(value)} "
            "for the values"
        )


def mask_fits(mask: Tensor, scores: torch.Size) -> None:
    """Demand a boolean mask that broadcasts to scores of the given shape.

    Raises:
        TypeError: the mask is not a boolean tensor.
        ValueError: its shape does not broadcast to that of the scores.
    """
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a boolean tensor (True = may attend), got {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean (True = may attend), got {mask.dtype}")
    padded = (1,) * (len(scores) - mask.dim()) + tuple(mask.shape)
    if len(padded) != len(scores) or any(size not in (1, wanted) for size, wanted in zip(padded, scores, strict=True)):
        raise ValueError(
            f"mask must broadcast to the scores' shape {list(scores)} (last two: query, key), got {shape(mask)}"
        )


def tokens(limit: int | None = None, **named: Tensor) -> None:
    """Demand token ids [batch position]: integers, not empty, from 0 up to the limit.

    Raises:
        TypeError: one is not an integer tensor.
        ValueError: one has another number of dimensions, is empty, or holds an id outside the vocabulary.
    """
    for name, ids in named.items():
        _integers(name, ids, limit, "token ids", "[batch position]")


def rows(numbers: Tensor, count: int | None) -> None:
    """Demand numbers of rows [row]: integers, not empty, from 0 up to the count, or without a limit if that is None.

    Raises:
        TypeError: they are not an integer tensor.
        ValueError: they are not of one dimension, or one is outside the range.
    """
    _integers("rows", numbers, count, "row numbers", "[row]")


def _integers(name: str, ids: Tensor, limit: int | None, what: str, dimensions: str) -> None:
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a tensor of {what}, got {type(ids).__name__}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name} must hold integer {what}, got {ids.dtype}")
    if ids.dim() != len(dimensions.split()) or ids.numel() == 0:
        raise ValueError(f"{name} must have shape {dimensions} and not be empty, got {shape(ids)}")
    if limit is not None and not 0 <= int(ids.min()) <= int(ids.max()) < limit:
        got = f"{int(ids.min())} to {int(ids.max())}"
        raise ValueError(f"{name} must hold {what} from 0 to {limit - 1}, got {got}")


def shape(tensor: Tensor) -> list[int]:
    """Return the shape as a list, which prints shortly."""
    return list(tensor.shape)


def instance(kind: type, **named: object) -> None:
    """Demand objects of one class.

    Raises:
        TypeError: one is of another.
    """
    for name, thing in named.items():
        if not isinstance(thing, kind):
            raise TypeError(f"{name} must be a {kind.__name__}, got {type(thing).__name__}")


def one_of(choices: tuple[str, ...], **named: str) -> None:
    """Demand one of the choices.

    Raises:
        ValueError: it is none of them.
    """
    for name, choice in named.items():
        if choice not in choices:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {choice!r}")
