"""Relative positions: schemes in which the distance from query to key counts, not the place (chapter 04).

Each is a `PositionScheme`, given to `MultiHeadAttention` as `position`: no vectors are added to the embeddings.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import checks
from transformer_lib.positional import PositionScheme


def key_offsets(query: Float[Tensor, "batch heads query d_k"], keys: int, first: int) -> Int[Tensor, "query key"]:
    """Return how many positions each key stands after each query, below 0 where before; see `PositionScheme.bias`.

    Raises:
        TypeError: a number is not an integer, or the queries are not a tensor of floating point.
        ValueError: `keys` is below 1, `first` is negative, or the queries have another number of dimensions.
    """
    checks.positive(keys=keys)
    checks.not_negative(first=first)
    checks.heads_first(query=query)
    positions = torch.arange(first, first + query.size(2), device=query.device)
    return torch.arange(keys, device=query.device) - positions.unsqueeze(1)


class RotaryPositions(PositionScheme):
    """Queries and keys turned, pair of dimensions by pair, by angles that grow with the position (RoPE).

    Dimensions 2i and 2i+1 turn by position * base^(-2i / d_k) radians. A product of two turned vectors depends on
    the difference of their angles, hence on the offset alone; Su et al. (2021), section 3.2.

    Args:
        base: the slowest pair's wavelength is nearly 2 pi * base positions.

    Raises:
        TypeError: `d_k` is not an integer, or `base` not a number.
        ValueError: `d_k` is odd, so that one dimension would lack its partner, or `base` is not above 0.
    """

    def __init__(self, d_k: int, base: float = 10000.0) -> None:
        super().__init__()
        checks.positive(d_k=d_k)
        checks.above_zero(base=base)
        if d_k % 2:
            raise ValueError(f"d_k must be even for rotary positions, got {d_k}")
        self.d_k, self.base = d_k, base

    def rotate(
        self, x: Float[Tensor, "batch heads position d_k"], first: int
    ) -> Float[Tensor, "batch heads position d_k"]:
        """Return the queries or keys, each turned according to its position.

        Raises:
            TypeError: `x` is not a tensor of floating point, or `first` not an integer.
            ValueError: `x` has another width or number of dimensions, or `first` is negative.
        """
        checks.not_negative(first=first)
        checks.heads_first(x=x)
        checks.last_dimension(self.d_k, x=x)
        exact = torch.promote_types(x.dtype, torch.float32)  # half precision would round the angles
        position = torch.arange(first, first + x.size(2), device=x.device, dtype=exact).unsqueeze(1)
        angle = position * self.base ** (-torch.arange(0, self.d_k, 2, device=x.device, dtype=exact) / self.d_k)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
        return torch.stack(turned, dim=-1).flatten(start_dim=-2).to(x.dtype)


def linear_slopes(heads: int) -> list[float]:
    """Return by how much each head's scores fall with each position of distance.

    2^(-8h / heads) for h = 1, 2, ..., heads where that is a power of two; Press et al. (2022), section 3. Otherwise, as
    in the authors' code, those of the next lower power of two, then every other one of twice that power.

    Raises:
        TypeError: `heads` is not an integer.
        ValueError: `heads` is below 1.
    """
    checks.positive(heads=heads)
    power = 2 ** (heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return slopes + [2 ** (-4 * h / power) for h in range(1, 2 * (heads - power), 2)]


class LinearBias(PositionScheme):
    """Scores that fall in proportion to the distance, at each head's own rate (ALiBi): -slope * |i - j|.

    Press et al. (2022), section 3, for causal attention. Where later keys are visible, the form here treats left
    and right alike: a model that has nothing else can't tell a sentence from its mirror image.

    Raises:
        TypeError: `heads` is not an integer.
        ValueError: `heads` is below 1.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes = linear_slopes(heads)

    def bias(
        self, query: Float[Tensor, "batch heads query d_k"], keys: int, first: int
    ) -> Float[Tensor, "heads query key"]:
        """Return what each score loses; see `PositionScheme.bias` and `key_offsets`."""
        distance = key_offsets(query, keys, first).abs()
        checks.heads_first(len(self.slopes), query=query)
        exact = torch.promote_types(query.dtype, torch.float32)  # half precision can't tell distance 256 from 257
        slopes = torch.tensor(self.slopes, device=query.device, dtype=exact)[:, None, None]
        return (-slopes * distance).to(query.dtype)


def distance_buckets(
    offsets: Int[Tensor, "query key"], buckets: int, max_distance: int, bidirectional: bool
) -> Int[Tensor, "query key"]:
    """Return the number of the bucket that each offset falls into, from 0 to `buckets` - 1.

    Half of a direction's buckets hold one distance each; the other half share the distances up to `max_distance` in
    equal steps of the logarithm, and the last one holds all beyond; Raffel et al. (2020), section 2.1, and their code.

    Args:
        offsets: from query to key, below 0 where the key stands before the query.
        bidirectional: keys after the query have the upper half of the buckets; otherwise they all count as distance 0.

    Raises:
        TypeError: a number or the offsets are not integers.
        ValueError: there are too few buckets, an odd number of them for two directions, or `max_distance` is too small.
    """
    checks.bucket_sizes(buckets, max_distance, bidirectional)
    checks.integers(offsets=offsets)
    share = buckets // 2 if bidirectional else buckets  # of one direction
    exact = share // 2
    distance = offsets.abs() if bidirectional else (-offsets).clamp(min=0)
    steps = (distance.clamp(min=exact) / exact).log() / math.log(max_distance / exact) * (share - exact)
    far = (exact + steps.long()).clamp(max=share - 1)
    after = share * (offsets > 0) if bidirectional else 0
    return after + torch.where(distance < exact, distance, far)


class BucketBias(PositionScheme):
    """A learnt number for each head and each bucket of distances, added to the scores (T5).

    Raffel et al. (2020), section 2.1. T5 shares one table among the layers of a stack; pass one `BucketBias` to all
    of them for that. T5 has none in its cross-attention.

    Args:
        bidirectional: False gives all buckets to keys before the query: for causal attention only.

    Raises:
        TypeError: a number is not an integer.
        ValueError: a number is below 1, or the buckets can't be divided; see `distance_buckets`.
    """

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True) -> None:
        super().__init__()
        checks.positive(heads=heads)
        checks.bucket_sizes(buckets, max_distance, bidirectional)
        self.max_distance, self.causal_only = max_distance, not bidirectional
        self.table = nn.Parameter(nn.init.xavier_uniform_(torch.empty(buckets, heads)))

    def bias(
        self, query: Float[Tensor, "batch heads query d_k"], keys: int, first: int
    ) -> Float[Tensor, "heads query key"]:
        """Return the numbers of the buckets; see `PositionScheme.bias` and `key_offsets`."""
        offsets = key_offsets(query, keys, first)
        checks.heads_first(self.table.size(1), query=query)
        buckets = distance_buckets(offsets, len(self.table), self.max_distance, not self.causal_only)
        return self.table[buckets].permute(2, 0, 1).to(query.dtype)


class ShawPositions(PositionScheme):
    """A learnt vector for each offset, which counts as part of the key: q . a_offset / sqrt(d_k) joins the score.

    Shaw et al. (2018), equations 4 and 5; offsets are clipped to +-`max_distance`, and all heads share the vectors. The
    paper's second table, for the values, is left out: by its own ablation (section 4.3) the keys' may be sufficient.

    Args:
        max_distance: offsets beyond it count as this far.

    Raises:
        TypeError: a number is not an integer.
        ValueError: a number is below 1.
    """

    def __init__(self, d_k: int, max_distance: int = 16) -> None:
        super().__init__()
        checks.positive(d_k=d_k, max_distance=max_distance)
        self.max_distance = max_distance
        self.table = nn.Parameter(nn.init.xavier_uniform_(torch.empty(2 * max_distance + 1, d_k)))

    def bias(
        self, query: Float[Tensor, "batch heads query d_k"], keys: int, first: int
    ) -> Float[Tensor, "batch heads query key"]:
        """Return what the offsets' vectors add to the scores; see `PositionScheme.bias` and `key_offsets`."""
        offsets = key_offsets(query, keys, first).clamp(-self.max_distance, self.max_distance)
        checks.fits(self.table, query=query)
        products = query @ self.table.T / math.sqrt(query.size(-1))  # [batch heads query offset]
        return products.gather(-1, (offsets + self.max_distance).expand(*products.shape[:-1], -1))
