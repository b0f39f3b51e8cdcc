"""Masks: which query may look at which key (chapter 05). True = may attend, everywhere in this library."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_lib import checks


def padding_mask(tokens: Int[Tensor, "batch key"], padding: int = 0) -> Bool[Tensor, "batch 1 1 key"]:
    """Return True at real tokens and False at padding, shaped to broadcast over heads and queries.

    Args:
        padding: the id that fills up short sentences.

    Raises:
        TypeError: the tokens are not integers, or `padding` is not one.
        ValueError: the tokens are not of shape [batch key], or empty, or `padding` is negative.
    """
    checks.tokens(tokens=tokens)
    checks.not_negative(padding=padding)
    return (tokens != padding)[:, None, None, :]


def causal_mask(length: int, past: int = 0) -> Bool[Tensor, "query key"]:
    """Return True where the key is not later than the query: a lower triangle.

    Query i stands at position `past` + i; keys stand at positions 0 to `past` + `length` - 1.
    Vaswani et al. (2017), section 3.2.3.

    Args:
        length: number of queries.
        past: number of earlier positions, already decoded, whose keys come first.

    Raises:
        TypeError: one is not an integer.
        ValueError: `length` is below 1, `past` is negative, or the mask would not fit in memory.
    """
    checks.positive(length=length)
    checks.not_negative(past=past)
    checks.matrix(length=length, keys=past + length)
    return torch.ones(length, past + length, dtype=torch.bool).tril(diagonal=past)


def prefix_mask(length: int, prefix: int) -> Bool[Tensor, "query key"]:
    """Return True where the key is not later than the query, or belongs to the prefix, which sees all of itself.

    Raffel et al. (2020), section 3.2.1.

    Args:
        length: number of queries and of keys.
        prefix: number of positions, from the first on, that every position may attend to; 0 gives the causal mask.

    Raises:
        TypeError: one is not an integer.
        ValueError: `length` is below 1, or `prefix` is not between 0 and `length`.
    """
    mask = causal_mask(length)
    checks.not_negative(prefix=prefix)
    if prefix > length:
        raise ValueError(f"prefix must be at most length = {length}, got {prefix}")
    mask[:, :prefix] = True
    return mask


def sliding_window_mask(length: int, window: int, past: int = 0) -> Bool[Tensor, "query key"]:
    """Return True where the key is the query's own position or one of the `window` - 1 before it.

    Positions count as in `causal_mask`. Beltagy et al. (2020), section 3.1, there on both sides of the query.

    Args:
        length: number of queries.
        window: number of positions that a query sees, its own included.
        past: number of earlier positions, already decoded, whose keys come first.

    Raises:
        TypeError: one is not an integer.
        ValueError: `length` or `window` is below 1, or `past` is negative.
    """
    checks.positive(window=window)
    return causal_mask(length, past).triu(diagonal=past - window + 1)
