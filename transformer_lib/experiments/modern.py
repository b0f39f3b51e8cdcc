"""What has changed in the block since 2017, a few lines each, swapped into ours and compared (chapter 11)."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lib import checks
from transformer_lib.data import END, PADDING, START, pad
from transformer_lib.experiments import closed_language, objectives
from transformer_lib.experiments.steps import count_parameters
from transformer_lib.model import start_from_glorot
from transformer_lib.multi_head import (
    Heads,
    KeyValueCache,
    MultiHeadAttention,
    attend_with_bias,
    merge_heads,
    split_heads,
)
from transformer_lib.positional import PositionScheme
from transformer_lib.siblings import DecoderOnly

CHANGES = ("RMSNorm", "SwiGLU", "grouped queries", "rotary positions")
VARIANTS: dict[str, tuple[str, ...]] = {"as in 2017": ()} | {name: (name,) for name in CHANGES} | {"all four": CHANGES}
GROUPS = 2


class RMSNorm(nn.Module):
    """Vectors divided by their root mean square, times a learned scale: a LayerNorm without mean and bias.

    Zhang & Sennrich (2019).
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Return the scaled vectors."""
        return x * (x.pow(2).mean(dim=-1, keepdim=True) + self.eps).rsqrt() * self.weight


class SwiGLU(nn.Module):
    """A feed-forward network in which one linear map opens and closes the other's hidden units.

    (silu(x W) * x V) W_2; Shazeer (2020). Three matrices: at two thirds of d_ff it costs as much as two.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate, self.inner = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        self.outer = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the transformed vectors; no position sees another."""
        return self.outer(F.silu(self.gate(x)) * self.inner(x))


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention whose heads share keys and values in groups, so that a cache has fewer of them to keep.

    Ainslie et al. (2023): as many groups as heads is `MultiHeadAttention`, one is multi-query attention.

    Raises:
        ValueError: `groups` doesn't divide `heads`.
    """

    def __init__(self, d_model: int, heads: int, groups: int, position: PositionScheme | None = None) -> None:
        super().__init__(d_model, heads, position=position)
        checks.positive(groups=groups)
        if heads % groups:
            raise ValueError(f"groups must divide heads = {heads}, got {groups}")
        self.groups = groups
        self.key, self.value = (nn.Linear(d_model, d_model // heads * groups, bias=False) for _ in range(2))

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        """Return for each position of `x` what its heads find in `memory`; as `MultiHeadAttention.forward`."""
        first = 0 if cache is None else cache.first
        query = self.position.rotate(split_heads(self.query(x), self.heads), first)
        key, value = self.keys_and_values(memory) if cache is None else cache(memory, self.keys_and_values, x.size(1))
        key, value = (each.repeat_interleave(self.heads // self.groups, dim=1) for each in (key, value))
        bias = self.position.bias(query, key.size(2), first)
        return self.output(merge_heads(attend_with_bias(query, key, value, mask, bias)))

    def keys_and_values(self, memory: Float[Tensor, "batch key d_model"], first: int = 0) -> tuple[Heads, Heads]:
        """Return the keys and values, one set for each group: what a cache keeps."""
        key, value = (split_heads(each(memory), self.groups) for each in (self.key, self.value))
        return self.position.rotate(key, first), value


def swap(model: DecoderOnly, changes: tuple[str, ...]) -> DecoderOnly:
    """Put newer parts into a fresh model's layers, in place, and return it; positions are the config's matter.

    Raises:
        ValueError: there is no such change.
    """
    for change in changes:
        checks.one_of(CHANGES, change=change)
    config, dtype = model.config, model.embedding.table.dtype
    for layer in model.layers:
        if "grouped queries" in changes:
            position = layer.self_attention.position
            layer.self_attention = GroupedQueryAttention(config.d_model, config.heads, GROUPS, position)
            start_from_glorot(layer.self_attention)
        if "SwiGLU" in changes:
            layer.feed_forward = SwiGLU(config.d_model, config.d_ff * 2 // 3)
            start_from_glorot(layer.feed_forward)
        if "RMSNorm" in changes:
            for residual in layer.residuals:
                residual.norm = RMSNorm(config.d_model)
    if "RMSNorm" in changes:
        model.norm = RMSNorm(config.d_model)
    return model.to(dtype)


def fresh(changes: tuple[str, ...], *, seed: int) -> DecoderOnly:
    """Return a model of the next word with newer parts, before training."""
    positions = "rotary" if "rotary positions" in changes else "sinusoidal"
    with torch.random.fork_rng(devices=[]):
        model = objectives.fresh("next word", seed=seed, positions=positions, activation="relu")
        torch.manual_seed(seed)
        return swap(model, changes)


@torch.no_grad()
def surplus(model: DecoderOnly) -> float:
    """Return how many nats a held-out sentence costs the model above the least possible, ln of 6,300 sentences."""
    tokens = pad([[START, *sentence, END] for sentence in closed_language.ids(closed_language.split()[1])])
    logits = model(tokens[:, :-1]).flatten(0, 1)
    total = F.cross_entropy(logits, tokens[:, 1:].flatten(), ignore_index=PADDING, reduction="sum")
    return total.item() / len(tokens) - math.log(len(closed_language.sentences()))


@torch.no_grad()
def cached(model: DecoderOnly, length: int = 10) -> int:
    """Return how many numbers a cache keeps for each position that has been read."""
    caches = model.new_caches()
    model.decode(torch.full((1, length), START), caches=caches)
    return sum(cache.key.numel() + cache.value.numel() for cache in caches) // length


def record(seed: int) -> dict[str, Any]:
    """Return each variant's size, its cache and its surplus after training, in a dictionary for `tools.record`."""
    found = {}
    for name, changes in VARIANTS.items():
        model = fresh(changes, seed=seed)
        objectives.train(model, "next word", seed=seed)
        size = count_parameters(model)
        found[name] = {"parameters": size, "cached": cached(model), "surplus": round(surplus(model), 3)}
    return found
