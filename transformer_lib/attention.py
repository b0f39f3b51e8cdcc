"""Attention: what each query finds when it looks at the keys (chapter 02).

Three of the four steps stand here, each a function: compare (`attention_scores`), normalise (`masked_softmax`)
and recombine (`attend`). The step before them, project, belongs to `multi_head`.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lib import checks


def attention_scores(
    query: Float[Tensor, "*batch query d_k"], key: Float[Tensor, "*batch key d_k"]
) -> Float[Tensor, "*batch query key"]:
    """Return how well each query matches each key, before the softmax.

    Q K^T / sqrt(d_k), the argument of the softmax in Vaswani et al. (2017), equation 1.

    Raises:
        ValueError: queries and keys differ in `d_k` or in their batch dimensions.
    """
    checks.same_size("d_k", query=query, key=key)
    return query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))


def masked_softmax(
    scores: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*batch query key"]:
    """Turn each row of scores into weights that are at least 0 and sum to 1.

    Args:
        mask: True where the query may attend to the key, broadcast over `scores`; None allows every pair.
            A row with no True gets weights of zero, as in `F.scaled_dot_product_attention`.

    Raises:
        TypeError: the scores are not of floating point, or the mask is not boolean.
        ValueError: the mask does not broadcast to the shape of the scores.
    """
    checks.tensors(2, scores=scores)
    if mask is None:
        return scores.softmax(dim=-1)
    checks.mask_fits(mask, scores.shape)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~mask, 0.0)  # a row of -inf came out as NaN


def attention_weights(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Return how much each query attends to each key; every row sums to 1 (or to 0 where nothing is allowed).

    softmax(Q K^T / sqrt(d_k)), Vaswani et al. (2017), equation 1.

    Args:
        mask: True where the query may attend to the key; None allows every pair.
    """
    return masked_softmax(attention_scores(query, key), mask)


def attend(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query d_v"]:
    """Return for each query the average of the values, weighted by how much it attends to their keys.

    softmax(Q K^T / sqrt(d_k)) V, Vaswani et al. (2017), equation 1.

    Args:
        mask: True where the query may attend to the key; None allows every pair.

    Raises:
        ValueError: there is not one value for each key.
    """
    checks.one_value_per_key(key, value)
    return attention_weights(query, key, mask) @ value


class AdditiveAttention(nn.Module):
    """Attention whose scores come from a small network with one hidden layer.

    The score of query q and key k is v . tanh(W_q q + W_k k); Bahdanau et al. (2015), appendix A.1.2.

    Args:
        d_hidden: width of the hidden layer.
    """

    def __init__(self, d_query: int, d_key: int, d_hidden: int) -> None:
        super().__init__()
        checks.positive(d_query=d_query, d_key=d_key, d_hidden=d_hidden)
        self.query = nn.Linear(d_query, d_hidden, bias=False)
        self.key = nn.Linear(d_key, d_hidden, bias=False)
        self.score = nn.Linear(d_hidden, 1, bias=False)

    def scores(
        self, query: Float[Tensor, "*batch query d_query"], key: Float[Tensor, "*batch key d_key"]
    ) -> Float[Tensor, "*batch query key"]:
        """Return the score of each query with each key, before the softmax.

        Raises:
            TypeError: a dtype is not the weights'.
            ValueError: queries or keys have another width, or they differ in their batch dimensions.
        """
        checks.fits(self.query.weight, query=query)
        checks.fits(self.key.weight, key=key)
        query, key = self.query(query), self.key(key)
        checks.same_size("d_hidden", query=query, key=key)
        hidden = query.unsqueeze(-2) + key.unsqueeze(-3)  # [... query key d_hidden]
        return self.score(torch.tanh(hidden)).squeeze(-1)

    def forward(
        self,
        query: Float[Tensor, "*batch query d_query"],
        key: Float[Tensor, "*batch key d_key"],
        value: Float[Tensor, "*batch key d_v"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*batch query d_v"]:
        """Return for each query the weighted average of the values; see `attend`."""
        checks.one_value_per_key(key, value)
        return masked_softmax(self.scores(query, key), mask) @ value
