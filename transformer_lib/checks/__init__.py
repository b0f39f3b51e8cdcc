"""Checks of what callers pass in: each raises an error that says what was wanted and what came."""

from transformer_lib.checks.tensors import (
    broadcasts,
    fits,
    mask_fits,
    one_value_per_key,
    rows,
    same_size,
    shape,
    tensors,
    tokens,
)
from transformer_lib.checks.values import heads_divide, instance, not_negative, one_of, positive, probability

__all__ = [
    "broadcasts",
    "fits",
    "heads_divide",
    "instance",
    "mask_fits",
    "not_negative",
    "one_of",
    "one_value_per_key",
    "positive",
    "probability",
    "rows",
    "same_size",
    "shape",
    "tensors",
    "tokens",
]
