"""What a head does, in numbers: statistics of attention weights, one for each head (chapters 03, 06, 09 and 11).

All take weights [batch heads query key], as `observe.record_attention` gives them, and average over the queries that
count: those that attend to something and, if `queries` is given, are True there. A query at a padded position has
weights, too, and would spoil the average: pass `tokens != padding`. Masked keys need no care, their weights are 0.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lib import checks


def entropy(
    weights: Float[Tensor, "batch heads query key"], queries: Bool[Tensor, "batch query"] | None = None
) -> Float[Tensor, " heads"]:
    """Return the mean entropy of each head's rows, in nats: 0 where one key gets all, log n for n keys alike.

    -sum_k w_k log w_k; Clark et al. (2019), section 3.3.

    Args:
        queries: True where a query counts; None counts all.

    Raises:
        TypeError: the weights are not of floating point, or `queries` is not boolean.
        ValueError: a shape is wrong, or no query counts.
    """
    return _mean(_entropies(weights), weights, queries)


def normalised_entropy(
    weights: Float[Tensor, "batch heads query key"],
    mask: Bool[Tensor, "..."] | None = None,
    queries: Bool[Tensor, "batch query"] | None = None,
) -> Float[Tensor, " heads"]:
    """Return the mean of each row's entropy over the largest that it could have: 0 for one key, 1 for all alike.

    A query that may attend to one key only has no choice and doesn't count.

    Args:
        mask: True where the query may attend to the key, as in the attention itself; None allows every pair.
        queries: as for `entropy`.

    Raises:
        TypeError: the weights are not of floating point, or a mask is not boolean.
        ValueError: a shape is wrong, or no query counts.
    """
    found = _entropies(weights)
    visible = torch.ones_like(weights, dtype=torch.bool)
    if mask is not None:
        checks.mask_fits(mask, weights.shape)
        visible = visible & mask
    keys = visible.sum(dim=-1)
    return _mean(found / keys.clamp(min=2).log(), weights, queries, keys > 1)


def mean_distance(
    weights: Float[Tensor, "batch heads query key"], queries: Bool[Tensor, "batch query"] | None = None
) -> Float[Tensor, " heads"]:
    """Return how far from the query each head looks, in positions: the mean of |i - j| under its weights.

    Vig & Belinkov (2019), section 4.3. Queries and keys are taken to stand at positions 0, 1, ...
    Argument and errors as for `entropy`.
    """
    _check(weights)
    positions = (torch.arange(size, device=weights.device) for size in weights.shape[2:])
    query, key = torch.meshgrid(*positions, indexing="ij")
    return _mean((weights * (query - key).abs()).sum(dim=-1), weights, queries)


def weight_at_offset(
    weights: Float[Tensor, "batch heads query key"], offset: int, queries: Bool[Tensor, "batch query"] | None = None
) -> Float[Tensor, " heads"]:
    """Return the mean weight that each head gives the key `offset` positions after the query.

    0 is the diagonal, -1 the previous token (the "previous-token heads" of Clark et al., 2019, section 3.1), 1 the
    next one. A query without such a key doesn't count.

    Args:
        queries: as for `entropy`.

    Raises:
        TypeError: `offset` is not an integer, or as for `entropy`.
        ValueError: as for `entropy`.
    """
    _check(weights)
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise TypeError(f"offset must be an int, got {offset!r} of type {type(offset).__name__}")
    wanted = torch.arange(weights.size(2), device=weights.device) + offset
    exists = (wanted >= 0) & (wanted < weights.size(3))
    place = wanted.clamp(0, weights.size(3) - 1).expand(*weights.shape[:3]).unsqueeze(-1)
    return _mean(weights.gather(-1, place).squeeze(-1), weights, queries, exists)


def weight_on_keys(
    weights: Float[Tensor, "batch heads query key"],
    keys: Bool[Tensor, "batch key"],
    queries: Bool[Tensor, "batch query"] | None = None,
) -> Float[Tensor, " heads"]:
    """Return the mean share of its attention that each head gives to some of the keys, such as special tokens.

    Args:
        keys: True at those keys, such as `tokens == END`, or `tokens < len(SPECIAL_TOKENS)` for all special ones.
        queries: as for `entropy`.

    Raises:
        TypeError: the weights are not of floating point, or `keys` or `queries` is not boolean.
        ValueError: as for `entropy`.
    """
    _check(weights)
    _flags("keys", keys, (weights.size(0), weights.size(3)))
    return _mean((weights * keys[:, None, None, :]).sum(dim=-1), weights, queries)


def similarity(
    weights: Float[Tensor, "batch heads query key"], queries: Bool[Tensor, "batch query"] | None = None
) -> Float[Tensor, "heads heads"]:
    """Return how alike each two heads' maps are: 1 for the same rows, 0 for rows that share no key.

    1 - JS / log 2 with the Jensen-Shannon divergence of two heads' rows, by which Clark et al. (2019), section 6,
    compare heads; the mean over queries. Heads that do nothing much are alike, too. Argument and errors as for
    `entropy`.
    """
    own = _entropies(weights)
    rows = []
    for head in range(weights.size(1)):
        middle = _entropies((weights + weights[:, head : head + 1]) / 2)
        divergence = middle - (own + own[:, head : head + 1]) / 2
        rows.append(_mean(1 - divergence / math.log(2), weights, queries))
    return torch.stack(rows)


def correlation(
    weights: Float[Tensor, "batch heads query key"],
    mask: Bool[Tensor, "..."] | None = None,
    queries: Bool[Tensor, "batch query"] | None = None,
) -> Float[Tensor, "heads heads"]:
    """Return the correlation of each two heads' weights over all pairs of a query that counts and a key it may see.

    Each row's mean is taken off first: what the heads must have in common, because rows sum to 1, doesn't count.
    Pearson's r; 0 for a head that is uniform everywhere. Arguments and errors as for `normalised_entropy`.
    """
    counted = _counted(weights, queries).unsqueeze(-1).expand_as(weights)
    if mask is not None:
        checks.mask_fits(mask, weights.shape)
        counted = counted & mask
    mean = (weights * counted).sum(dim=-1, keepdim=True) / counted.sum(dim=-1, keepdim=True).clamp(min=1)
    rows = ((weights - mean) * counted).transpose(0, 1).flatten(start_dim=1).double()
    length = rows.norm(dim=1, keepdim=True)
    rows = (rows / length.clamp(min=1e-300)).masked_fill(length < 1e-6, 0.0)
    return (rows @ rows.T).to(weights.dtype)


def _entropies(weights: Tensor) -> Float[Tensor, "batch heads query"]:
    _check(weights)
    return -torch.xlogy(weights, weights).sum(dim=-1)


def _check(weights: Tensor) -> None:
    checks.tensors(4, weights=weights)
    if weights.dim() != 4:
        raise ValueError(f"weights must have shape [batch heads query key], got {checks.shape(weights)}")
    if not weights.numel():
        raise ValueError(f"weights must be of a query and a key at least, got shape {checks.shape(weights)}")
    if not (finite := weights.isfinite()).all():
        raise ValueError(f"weights must be finite, got {weights[~finite][0].item()}")


def _flags(name: str, flags: Tensor, shape: tuple[int, int]) -> None:
    got = flags.dtype if isinstance(flags, Tensor) else type(flags).__name__
    if got is not torch.bool:
        raise TypeError(f"{name} must be a boolean tensor, got {got}")
    if flags.shape != shape:
        raise ValueError(f"{name} must have shape {list(shape)}, got {checks.shape(flags)}")


def _counted(weights: Tensor, queries: Tensor | None, also: Tensor | None = None) -> Bool[Tensor, "batch heads query"]:
    _check(weights)
    counted = weights.sum(dim=-1) > 0
    if queries is not None:
        _flags("queries", queries, (weights.size(0), weights.size(2)))
        counted = counted & queries.unsqueeze(1)
    counted = counted if also is None else counted & also
    if not counted.any():
        raise ValueError(f"at least one query must count, got none of {checks.shape(counted)} [batch heads query]")
    return counted


def _mean(
    found: Tensor, weights: Tensor, queries: Tensor | None, also: Tensor | None = None
) -> Float[Tensor, " heads"]:
    counted = _counted(weights, queries, also)
    return found.masked_fill(~counted, 0.0).sum(dim=(0, 2)) / counted.sum(dim=(0, 2))
