"""Positions: how order gets into a model that would not see it otherwise (chapter 04).

Two kinds. *Absolute* positions are vectors, one per position, added to the embeddings (`sinusoidal_positions`,
`LearnedPositions`). *Relative* ones are a `PositionScheme`, which works inside each attention: it may `rotate`
queries and keys, and it may return a `bias` that is added to the scores.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import checks


def sinusoidal_positions(length: int, d_model: int) -> Float[Tensor, "position d_model"]:
    """Return one fixed vector per position, made of sine and cosine waves.

    Dimensions 2i and 2i+1 have a wavelength of 2 pi * 10000^(2i / d_model) positions;
    Vaswani et al. (2017), section 3.5.

    Raises:
        TypeError: one size is not an integer.
        ValueError: one is below 1 or too large, or `d_model` is odd, so that the last sine would lack its cosine.
    """
    checks.matrix(length=length, d_model=d_model)
    if d_model % 2:
        raise ValueError(f"d_model must be even, got {d_model}")
    position = torch.arange(length).unsqueeze(1)
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)  # radians per position
    angle = position * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(start_dim=1)


class LearnedPositions(nn.Module):
    """One learnt vector per position, up to a fixed number of positions.

    Vaswani et al. (2017), section 3.5 and Table 3 (E); also in BERT and GPT.

    Args:
        max_length: number of positions that have a vector.
    """

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        checks.matrix(max_length=max_length, d_model=d_model)
        self.table = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, length: int, first: int = 0) -> Float[Tensor, "position d_model"]:
        """Return the vectors of the positions from `first` to `first` + `length` - 1.

        Raises:
            TypeError: a number is not an integer.
            ValueError: the table ends before the last of them, `length` is below 1, or `first` is negative.
        """
        checks.positive(length=length)
        checks.not_negative(first=first)
        if first + length > len(self.table):
            raise ValueError(
                f"positions must lie between 0 and {len(self.table) - 1} (max_length {len(self.table)}), "
                f"got {first} to {first + length - 1}"
            )
        return self.table[first : first + length]


class PositionScheme(nn.Module):
    """What a relative position scheme may do inside one attention; this one does nothing.

    A scheme overrides `rotate`, `bias` or both. Positions count from 0 at the first token of the sequence.
    One that can't tell later keys apart sets `causal_only`: `EncoderLayer`, and `DecoderLayer` for its cross-attention,
    refuse it. An attention by itself does not know its mask: giving it a causal one is then up to the caller.
    """

    causal_only = False

    def rotate(self, x: Float[Tensor, "batch heads position d_k"], first: int) -> Float[Tensor, "..."]:
        """Return the queries or the keys, changed according to their positions `first`, `first` + 1, ..."""
        return x

    def bias(self, query: Float[Tensor, "batch heads query d_k"], keys: int, first: int) -> Float[Tensor, "..."] | None:
        """Return what is added to the scores [batch heads query key], or None for nothing.

        Args:
            keys: number of keys, at positions 0, 1, ...
            first: position of the first query.
        """
        return None
