"""Layers of the encoder and of the decoder, and the two stacks (chapter 06)."""

from collections.abc import Sequence
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lib import checks, layers, multi_head
from transformer_lib.multi_head import KeyValueCache, MemoryCache


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network, each in a residual connection.

    Vaswani et al. (2017), section 3.1.

    Args:
        norm: "pre" or "post"; see `layers.Residual`.
        parts: further keyword arguments: `activation` for the `FeedForward`, the others, such as `position`, for the
            `MultiHeadAttention`.

    Raises:
        ValueError: the position scheme is for causal attention only.
    """

    def __init__(
        self, d_model: int, heads: int, d_ff: int, *, dropout: float = 0.0, norm: str = "pre", **parts: Any
    ) -> None:
        super().__init__()
        activation = parts.pop("activation", "relu")
        checks.sees_both_ways(position=parts.get("position"))
        self.self_attention = multi_head.MultiHeadAttention(d_model, heads, **parts)
        self.feed_forward = layers.FeedForward(d_model, d_ff, activation)
        self.residuals = nn.ModuleList(layers.Residual(d_model, dropout, norm) for _ in range(2))

    def forward(
        self,
        x: Float[Tensor, "batch position d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch position d_model"]:
        """Return the vectors after one layer.

        Args:
            mask: True where a position may attend to another.
            cache: of earlier positions; None unless the layer decodes, under a causal mask (chapter 11).
        """
        x = self.residuals[0](x, lambda y: self.self_attention(y, y, mask, cache))
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Masked self-attention, then attention to the memory, then the feed-forward network.

    Vaswani et al. (2017), section 3.1.

    Args:
        norm: "pre" or "post"; see `layers.Residual`.
        parts: further keyword arguments: `activation` for the `FeedForward`; `cross_position` for the cross-attention,
            where positions of source and target correspond; the others, such as `position`, for the self-attention.

    Raises:
        ValueError: `cross_position` is for causal attention only.
    """

    def __init__(
        self, d_model: int, heads: int, d_ff: int, *, dropout: float = 0.0, norm: str = "pre", **parts: Any
    ) -> None:
        super().__init__()
        activation = parts.pop("activation", "relu")
        cross = {"position": parts.pop("cross_position", None), "bias": parts.get("bias", False)}
        checks.sees_both_ways(cross_position=cross["position"])
        self.self_attention = multi_head.MultiHeadAttention(d_model, heads, **parts)
        self.cross_attention = multi_head.MultiHeadAttention(d_model, heads, **cross)
        self.feed_forward = layers.FeedForward(d_model, d_ff, activation)
        self.residuals = nn.ModuleList(layers.Residual(d_model, dropout, norm) for _ in range(3))

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: tuple[KeyValueCache | None, KeyValueCache | None] = (None, None),
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the target's vectors after one layer.

        Args:
            mask: True where a target position may attend to a target position.
            memory_mask: True where a target position may attend to a source position.
            caches: of the self-attention and of the cross-attention; None each while training.

        Raises:
            TypeError: a dtype is wrong, or the caches are not a pair.
            ValueError: shapes don't fit together.
        """
        checks.pair(KeyValueCache | None, caches=caches)
        x = self.residuals[0](x, lambda y: self.self_attention(y, y, mask, caches[0]))
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_mask, caches[1]))
        return self.residuals[2](x, self.feed_forward)


class Encoder(nn.Module):
    """A stack of encoder layers; with pre-norm a last LayerNorm follows, since none has seen the final sum.

    Raises:
        TypeError: a layer is of another kind.
        ValueError: no layer is given.
    """

    def __init__(self, layers: Sequence[EncoderLayer]) -> None:
        super().__init__()
        checks.sequence_of(nn.Module, layers=layers)
        self.layers = nn.ModuleList(layers)
        self.norm = last_norm(self.layers)

    def forward(
        self, x: Float[Tensor, "batch source d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch source d_model"]:
        """Return the memory: one vector per source position, each of which has seen the whole source."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    """A stack of decoder layers, which all read the same memory; with pre-norm a last LayerNorm follows.

    Raises:
        TypeError: a layer is of another kind.
        ValueError: no layer is given.
    """

    def __init__(self, layers: Sequence[DecoderLayer]) -> None:
        super().__init__()
        checks.sequence_of(nn.Module, layers=layers)
        self.layers = nn.ModuleList(layers)
        self.norm = last_norm(self.layers)

    def forward(
        self,
        x: Float[Tensor, "batch target d_model"],
        memory: Float[Tensor, "batch source d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: list[tuple[KeyValueCache, KeyValueCache]] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the target's vectors; see `DecoderLayer.forward`.

        Args:
            caches: one pair for each layer, from `new_caches`; None while training.

        Raises:
            TypeError: `caches` is something else.
            ValueError: there are more or fewer pairs of caches than layers, or as for `DecoderLayer.forward`.
        """
        self.past(caches)
        pairs = [(None, None)] * len(self.layers) if caches is None else caches
        for layer, pair in zip(self.layers, pairs, strict=True):
            x = layer(x, memory, mask, memory_mask, pair)
        return self.norm(x)

    def past(self, caches: list[tuple[KeyValueCache, KeyValueCache]] | None) -> int:
        """Return how many positions of the target the caches hold; 0 without caches.

        Raises:
            TypeError: `caches` is something else.
            ValueError: there are more or fewer pairs of caches than layers.
        """
        checks.pair_for_each_layer(len(self.layers), KeyValueCache, caches=caches)
        return 0 if caches is None else caches[0][0].first

    def new_caches(self) -> list[tuple[KeyValueCache, KeyValueCache]]:
        """Return empty caches for one batch of sentences to be decoded."""
        return [(KeyValueCache(), MemoryCache()) for _ in self.layers]


def last_norm(stack: nn.ModuleList) -> nn.Module:
    """Return the norm that a stack ends with: a LayerNorm after pre-norm layers, nothing after post-norm ones.

    Raises:
        TypeError: a layer has no residual connections.
        ValueError: there is no layer.
    """
    if not len(stack):
        raise ValueError("a stack needs at least one layer, got none")
    for layer in stack:
        if not hasattr(layer, "residuals"):
            raise TypeError(f"a stack must be made of encoder or decoder layers, got {type(layer).__name__}")
    residual = stack[-1].residuals[-1]
    norm = residual.norm
    return nn.LayerNorm(norm.normalized_shape, eps=norm.eps) if residual.norm_first else nn.Identity()
