"""Multi-head attention: several attentions side by side, each in its own coordinates (chapter 03).

The interface of this floor, which every later chapter relies on:

- `MultiHeadAttention(x, memory, mask)`: the queries come from `x`, keys and values from `memory`; in self-attention
  both are the same tensor. The mask is True where a query may attend, and broadcasts to [batch heads query key].
- A *position scheme* (`positional.PositionScheme`) is given to the constructor. The attention calls `rotate` on
  queries and keys, and adds `bias` to the scores if it returns one.
- A *cache* (`KeyValueCache` for self-attention, `MemoryCache` for cross-attention) is given to each call during
  decoding. It answers two questions: how many queries came before those of `x` (`first`), and which keys and values
  there are (calling it with the new `memory`, the function that projects it, and the number of new queries).
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib import attention, checks
from transformer_lib.positional import PositionScheme

Heads = Float[Tensor, "batch heads position d_k"]
Projection = Callable[[Tensor, int], tuple[Heads, Heads]]  # from a memory and its first position to keys and values


def split_heads(x: Float[Tensor, "batch position d_model"], heads: int) -> Float[Tensor, "batch heads position d_k"]:
    """Cut each vector into `heads` pieces of d_k = d_model / heads and move the heads before the positions.

    Raises:
        TypeError: `x` is not a tensor of floating point, or `heads` not an integer.
        ValueError: `heads` doesn't divide the width of `x`, or `x` has another number of dimensions.
    """
    checks.positive(heads=heads)
    checks.tensors(3, x=x)
    if x.dim() != 3 or x.size(-1) % heads:
        raise ValueError(
            f"x must have shape [batch position d_model] with heads = {heads} dividing d_model, got {checks.shape(x)}"
        )
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "batch heads position d_k"]) -> Float[Tensor, "batch position d_model"]:
    """Put the heads' pieces side by side again: the inverse of `split_heads`.

    Raises:
        TypeError: `x` is not a tensor of floating point.
        ValueError: `x` has another number of dimensions.
    """
    checks.tensors(4, x=x)
    if x.dim() != 4:
        raise ValueError(f"x must have shape [batch heads position d_k], got {checks.shape(x)}")
    return x.transpose(1, 2).flatten(start_dim=2)


class KeyValueCache:
    """The keys and values of the positions decoded so far, for one self-attention."""

    def __init__(self) -> None:
        self.first = 0
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def __call__(self, memory: Tensor, project: Projection, queries: int) -> tuple[Heads, Heads]:
        """Project the new positions only; return the keys and values of all of them.

        Args:
            memory: vectors of the new positions.
            project: gives the keys and values of a memory, from its first position.
            queries: number of new queries, by which `first` moves on.

        Raises:
            ValueError: the batch or the heads are not those of the calls before.
        """
        key, value = project(memory, self.first)
        if self.key is not None:
            if key.shape[:2] != self.key.shape[:2]:
                wanted, got = list(self.key.shape[:2]), list(key.shape[:2])
                raise ValueError(
                    f"the cache holds keys of [batch heads] = {wanted}, got {got}: a new batch needs its own"
                )
            key, value = torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2)
        self.key, self.value, self.first = key, value, self.first + queries
        return key, value

    def select(self, rows: Int[Tensor, " row"]) -> None:
        """Keep these rows of the batch, in this order: what beam search does after each step.

        Raises:
            TypeError: the rows are not a tensor of integers.
            ValueError: one is not a row of the batch.
        """
        checks.rows(rows, None if self.key is None else len(self.key))
        if self.key is not None:
            self.key, self.value = self.key[rows], self.value[rows]


class MemoryCache(KeyValueCache):
    """The keys and values of the encoder's output, projected once, for one cross-attention."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: Tensor | None = None

    def __call__(self, memory: Tensor, project: Projection, queries: int) -> tuple[Heads, Heads]:
        """Project the memory at the first call; afterwards return what came out then.

        Raises:
            ValueError: the memory is not that of the first call.
        """
        if self.memory is None:
            self.key, self.value = project(memory, 0)
            self.memory = memory
        checks.same_memory(self.memory, memory)
        self.first += queries
        return self.key, self.value

    def select(self, rows: Int[Tensor, " row"]) -> None:
        """Keep these rows of the batch, in this order, of the memory, too."""
        super().select(rows)
        if self.memory is not None:
            self.memory = self.memory[rows]


def attend_with_bias(
    query: Float[Tensor, "batch heads query d_k"],
    key: Float[Tensor, "batch heads key d_k"],
    value: Float[Tensor, "batch heads key d_v"],
    mask: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "..."] | None,
) -> Float[Tensor, "batch heads query d_v"]:
    """Return what `attention.attend` returns once `bias` has been added to the scores; None adds nothing.

    Raises:
        TypeError: the bias is not a tensor of floating point, or two dtypes differ.
        ValueError: the bias does not broadcast to the shape of the scores, or there is not one value for each key.
    """
    if bias is None:
        return attention.attend(query, key, value, mask)
    checks.one_value_per_key(key, value)
    scores = attention.attention_scores(query, key)
    checks.bias_fits(bias, scores)
    return attention.masked_softmax(scores + bias, mask) @ value


class MultiHeadAttention(nn.Module):
    """Attention in `heads` learnt coordinate systems at once, their outputs joined and mixed.

    Concat(head_1, ..., head_h) W_o with head_i = attend(x W_q_i, memory W_k_i, memory W_v_i);
    Vaswani et al. (2017), section 3.2.2. The paper's formulas have no bias, hence the default.

    Args:
        position: a scheme that brings relative positions into the scores; None for none.

    Raises:
        TypeError: a size is not an integer, or `position` not a `PositionScheme`.
        ValueError: `heads` does not divide `d_model`.
    """

    def __init__(self, d_model: int, heads: int, *, bias: bool = False, position: PositionScheme | None = None) -> None:
        super().__init__()
        checks.heads_divide(d_model, heads)
        self.heads, self.position = heads, PositionScheme() if position is None else position
        checks.instance(PositionScheme, position=self.position)
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Return for each position of `x` what its heads find in `memory`.

        Args:
            mask: True where the query may attend, broadcast to [batch heads query key]; None allows every pair.
            cache: keys and values of earlier calls; None while training.

        Raises:
            TypeError: a dtype is not the weights', the mask is not boolean, or the cache is something else.
            ValueError: shapes don't fit together.
        """
        checks.fits(self.query.weight, x=x, memory=memory)
        checks.instance(KeyValueCache | None, cache=cache)
        first = 0 if cache is None else cache.first
        query = self.position.rotate(split_heads(self.query(x), self.heads), first)
        key, value = self.keys_and_values(memory) if cache is None else cache(memory, self.keys_and_values, x.size(1))
        bias = self.position.bias(query, key.size(2), first)
        return self.output(merge_heads(attend_with_bias(query, key, value, mask, bias)))

    def keys_and_values(self, memory: Float[Tensor, "batch key d_model"], first: int = 0) -> tuple[Heads, Heads]:
        """Return the keys and values of positions `first`, `first` + 1, ..., one set for each head."""
        checks.fits(self.key.weight, memory=memory)
        key = self.position.rotate(split_heads(self.key(memory), self.heads), first)
        return key, split_heads(self.value(memory), self.heads)
