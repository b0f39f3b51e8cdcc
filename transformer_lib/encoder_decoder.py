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
        attention: further keyword arguments for `MultiHeadAttention`, such as `position`.

    Raises:
        ValueError: the position scheme is for causal attention only.
    """

    def __init__(
        self, d_model: int, heads: int, d_ff: int, *, dropout: float = 0.0, norm: str = "pre", **attention: Any
    ) -> None:
        super().__init__()
        checks.sees_both_ways(position=attention.get("position"))
        self.self_attention = multi_head.MultiHeadAttention(d_model, heads, **attention)
        self.feed_forward = layers.FeedForward(d_model, d_ff)
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
        attention: further keyword arguments for the self-attention, such as `position`. One of them,
            `cross_position`, is the cross-attention's scheme; positions of source and target must then correspond.

    Raises:
        ValueError: `cross_position` is for causal attention only.
    """

    def __init__(
        self, d_model: int, heads: int, d_ff: int, *, dropout: float = 0.0, norm: str = "pre", **attention: Any
    ) -> None:
        super().__init__()
        cross = {"position": attention.pop("cross_position", None), "bias": attention.get("bias", False)}
        checks.sees_both_ways(cross_position=cross["position"])
        self.self_attention = multi_head.MultiHeadAttention(d_model, heads, **attention)
        self.cross_attention = multi_head.MultiHeadAttention(d_model, heads, **cross)
        self.feed_forward = layers.FeedForward(d_model, d_ff)
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
        """
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
            ValueError: there are more or fewer pairs of caches than layers.
        """
        pairs = [(None, None)] * len(self.layers) if caches is None else caches
        if len(pairs) != len(self.layers):
            raise ValueError(f"wanted one pair of caches for each of {len(self.layers)} layers, got {len(pairs)}")
        for layer, pair in zip(self.layers, pairs, strict=True):
            x = layer(x, memory, mask, memory_mask, pair)
        return self.norm(x)

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
    return nn.LayerNorm(residual.norm.normalized_shape) if residual.norm_first else nn.Identity()
