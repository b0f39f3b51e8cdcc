"""Checks of integers in tensors: token ids, numbers of rows."""

import torch
from torch import Tensor

from transformer_lib.checks.tensors import shape


def tokens(limit: int | None = None, **named: Tensor) -> None:
    """Demand token ids [batch position]: integers, not empty, from 0 up to the limit.

    Raises:
        TypeError: one is not an integer tensor.
        ValueError: one has another number of dimensions, is empty, or holds an id outside the vocabulary.
    """
    for name, ids in named.items():
        _integers(name, ids, limit, "token ids", "[batch position]")


def no_padding(padding: int, **named: Tensor) -> None:
    """Demand token ids none of which is the padding's.

    Raises:
        ValueError: one is.
    """
    for name, ids in named.items():
        if (ids == padding).any():
            raise ValueError(f"{name} must hold no padding ({padding}), got {int((ids == padding).sum())} of it")


def integers(**named: Tensor) -> None:
    """Demand tensors of integers.

    Raises:
        TypeError: one is not.
    """
    for name, tensor in named.items():
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        if got not in (torch.int64, torch.int32):
            raise TypeError(f"{name} must be a tensor of integers, got {got}")


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
