"""Checks of tensors: dtypes and shapes that must fit together."""

import torch
from torch import Tensor


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
    last_dimension(weight.size(-1), **named)
    for name, tensor in named.items():
        if tensor.dtype != weight.dtype and not torch.is_autocast_enabled(tensor.device.type):
            raise TypeError(f"{name} must be of {weight.dtype} like the weights, got {tensor.dtype}")


def last_dimension(size: int, **named: Tensor) -> None:
    """Demand tensors [... length size].

    Raises:
        TypeError: one is not of floating point.
        ValueError: one has another last dimension.
    """
    tensors(2, **named)
    for name, tensor in named.items():
        if tensor.size(-1) != size:
            raise ValueError(f"{name} must have a last dimension of {size}, got shape {shape(tensor)}")


def sequences(weight: Tensor, **named: Tensor) -> None:
    """Demand tensors [batch position size], with a position, that a weight [... size] can be applied to.

    Raises:
        TypeError: one is not of floating point, or of another dtype than the weight and autocast is off.
        ValueError: one has another number of dimensions, another last one, or no position.
    """
    fits(weight, **named)
    for name, tensor in named.items():
        if tensor.dim() != 3 or tensor.size(1) == 0:
            raise ValueError(f"{name} must have shape [batch position d_model] and a position, got {shape(tensor)}")


def heads_first(heads: int | None = None, **named: Tensor) -> None:
    """Demand tensors [batch heads position d_k], of this number of heads unless it is None.

    Raises:
        TypeError: one is not of floating point.
        ValueError: one has another number of dimensions or of heads.
    """
    tensors(0, **named)
    for name, tensor in named.items():
        if tensor.dim() != 4 or heads not in (None, tensor.size(1)):
            wanted = "[batch heads position d_k]" + (f" with {heads} heads" if heads else "")
            raise ValueError(f"{name} must have shape {wanted}, got {shape(tensor)}")


def one_value_per_key(key: Tensor, value: Tensor) -> None:
    """Demand as many values [... key d_v] as keys [... key d_k], in the same batch dimensions and dtype.

    Raises:
        TypeError: one is not a tensor of floating point, or their dtypes differ and autocast is off.
        ValueError: the shapes differ in another dimension than the last.
    """
    tensors(2, key=key, value=value)
    _one_dtype(key=key, value=value)
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
    broadcasts(scores, mask=mask)


def bias_fits(bias: Tensor, scores: Tensor) -> None:
    """Demand a bias that can be added to the scores without changing their shape or dtype.

    Raises:
        TypeError: it is not a tensor of floating point, or of another dtype and autocast is off.
        ValueError: its shape does not broadcast to that of the scores.
    """
    tensors(0, bias=bias)
    broadcasts(scores.shape, bias=bias)
    _one_dtype(scores=scores, bias=bias)


def same_memory(first: Tensor, memory: Tensor) -> None:
    """Demand the memory that a cache took in at its first call, but for rounding.

    Raises:
        ValueError: it is another one.
    """
    if memory is first:
        return
    close = torch.finfo(first.dtype).eps ** 0.5 * first.abs().max()  # the same text encoded anew rounds otherwise
    if memory.shape != first.shape or (memory - first).abs().max() > close:
        other = "other vectors" if memory.shape == first.shape else f"shape {shape(memory)}"
        raise ValueError(
            f"the cache holds a memory of shape {shape(first)}, got another with {other}: a new batch needs a new cache"
        )


def _one_dtype(**named: Tensor) -> None:
    (name, first), (other, second) = named.items()
    if first.dtype != second.dtype and not torch.is_autocast_enabled(first.device.type):
        raise TypeError(f"{name} and {other} must have one dtype, got {first.dtype} and {second.dtype}")


def broadcasts(scores: torch.Size, **named: Tensor) -> None:
    """Demand tensors that broadcast to scores of the given shape, without enlarging them.

    Raises:
        ValueError: a shape does not broadcast to that of the scores.
    """
    for name, tensor in named.items():
        padded = (1,) * (len(scores) - tensor.dim()) + tuple(tensor.shape)
        if len(padded) != len(scores) or any(size not in (1, own) for size, own in zip(padded, scores, strict=True)):
            raise ValueError(
                f"{name} must broadcast to the scores' shape {list(scores)} (last two: query, key), got {shape(tensor)}"
            )


def shape(tensor: Tensor) -> list[int]:
    """Return the shape as a list, which prints shortly."""
    return list(tensor.shape)
