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
        ValueError: `length` is below 1, or `past` is negative.
    """
    checks.positive(length=length)
    checks.not_negative(past=past)
    return torch.ones(length, past + length, dtype=torch.bool).tril(diagonal=past)
