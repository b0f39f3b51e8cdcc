"""What the published MiniLM is made of and what its heads look at, each said in numbers (chapter 11)."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from transformer_lib import bert, published
from transformer_lib.config import TransformerConfig
from transformer_lib.experiments import closed_language, minilm_attention
from transformer_lib.experiments.steps import count_parameters
from transformer_lib.published import Published

SENTENCES = (
    "A man is eating food.",
    "Someone is having a meal.",
    "A woman is playing the guitar.",
    "The girl plays an instrument.",
    "It is raining in the mountains.",
    "The weather up there is cold and wet.",
)
TURNED = ("the dog bites the man", "the man bites the dog")
DRAWN = 24  # sentences of the closed language, besides `SENTENCES`, for the statistics


def layer_of_torch(weights: Mapping[str, Shaped[Tensor, "..."]], name: str, config: TransformerConfig) -> nn.Module:
    """Return torch's own encoder layer with one layer's published weights."""
    sizes = config.d_model, config.heads, config.d_ff
    layer = nn.TransformerEncoderLayer(*sizes, 0.0, "gelu", layer_norm_eps=1e-12, batch_first=True)
    names = {"self_attn.out_proj": "attention.output.dense", "norm1": "attention.output.LayerNorm"}
    names |= {"linear1": "intermediate.dense", "linear2": "output.dense", "norm2": "output.LayerNorm"}
    state = {}
    for kind in ("weight", "bias"):
        parts = [weights[f"{name}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
        state[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
        state |= {f"{part}.{kind}": weights[f"{name}.{theirs}.{kind}"] for part, theirs in names.items()}
    layer.load_state_dict(state)
    return layer.to(parts[0].dtype).eval()


@torch.no_grad()
def reference(
    weights: Mapping[str, Shaped[Tensor, "..."]], config: TransformerConfig, tokens: Int[Tensor, "batch position"]
) -> Float[Tensor, "batch d_model"]:
    """Return sentence vectors computed from torch's parts and the published weights, without this library's layers."""
    table = {name: weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")}
    x = table["word"][tokens] + table["position"][: tokens.size(1)] + table["token_type"][0]
    norm = [weights[f"embeddings.LayerNorm.{kind}"] for kind in ("weight", "bias")]
    x = nn.functional.layer_norm(x, x.shape[-1:], *norm, eps=1e-12)
    for i in range(config.layers):
        x = layer_of_torch(weights, f"encoder.layer.{i}", config)(x, src_key_padding_mask=tokens == 0)
    means = [row[ids != 0].mean(dim=0) for row, ids in zip(x, tokens, strict=True)]
    return torch.stack([mean / mean.norm() for mean in means])


@torch.no_grad()
def likeness(encoder: bert.TextEncoder, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch batch"]:
    """Return the cosine of each two sentences' vectors."""
    found = encoder.sentence_vectors(tokens)
    return found @ found.T


def without_positions(encoder: bert.TextEncoder) -> bert.TextEncoder:
    """Return a copy whose learned positions are all alike: their mean."""
    changed = copy.deepcopy(encoder)
    table = changed.embedding.positions.table
    with torch.no_grad():
        table.copy_(table.mean(dim=0).expand_as(table))
    return changed


def with_relu(encoder: bert.TextEncoder) -> bert.TextEncoder:
    """Return an encoder with the same weights and ReLU in place of GELU; loading them raises nothing."""
    changed = bert.TextEncoder(replace(encoder.config, activation="relu"))
    changed.load_state_dict(encoder.state_dict())
    return changed.eval()


def as_pre_norm(encoder: bert.TextEncoder) -> bert.TextEncoder:
    """Return an encoder with the same weights whose norms stand before the sub-layers, and none at the end.

    A pre-norm stack has a last norm, for which there are no weights: with it, loading them raises an error.
    """
    changed = bert.TextEncoder(replace(encoder.config, norm="pre"))
    changed.encoder.norm = nn.Identity()
    changed.load_state_dict(encoder.state_dict())
    return changed.eval()


def texts(seed: int) -> list[str]:
    """Return `SENTENCES`, and some of the closed language drawn by chance."""
    every = closed_language.sentences()
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))[:DRAWN].tolist()
    return [*SENTENCES, *(" ".join(every[i]) + "." for i in order)]


@torch.no_grad()
def record(seed: int) -> dict[str, Any]:
    """Return what the opened model shows: its sizes, its distance from torch's parts, likeness, its heads' tables.

    Args:
        seed: of the sentences that are drawn besides the fixed ones.
    """
    opened = published.load_minilm()
    encoder, config = opened.encoder, opened.encoder.config
    tokens, turned = opened.tokens(texts(seed)), opened.tokens(TURNED)
    vectors, without = encoder.sentence_vectors(tokens), replace(opened, encoder=without_positions(encoder))
    kept = ("vocabulary", "d_model", "heads", "d_ff", "layers", "max_length", "norm", "positions", "activation")
    return {
        "config": {name: getattr(config, name) for name in kept},
        "parameters": count_parameters(encoder),
        "largest_difference": (vectors - reference(opened.weights, config, tokens)).abs().max().item(),
        "likeness": _rounded(likeness(encoder, opened.tokens(SENTENCES))),
        "turned": {
            "as published": round(likeness(encoder, turned)[0, 1].item(), 4),
            "all positions alike": round(likeness(without.encoder, turned)[0, 1].item(), 4),
        },
        "as_pre_norm": _mean_cosine(as_pre_norm(encoder).sentence_vectors(tokens), vectors),
        "with_relu": _mean_cosine(with_relu(encoder).sentence_vectors(tokens), vectors),
        **_attention(opened, without, texts(seed)),
    }


def _attention(opened: Published, without: Published, drawn: list[str]) -> dict[str, Any]:
    heads, alike = (minilm_attention.head_table(one, drawn) for one in (opened, without))
    by_length = torch.stack([minilm_attention.marks_by_length(opened, text) for text in drawn]).mean(dim=0)
    return {
        "heads": {name: _rounded(table) for name, table in heads.items()},
        "word_before_all_positions_alike": round(
            alike["word before"].flatten()[heads["word before"].argmax()].item(), 3
        ),
        "even_shares": minilm_attention.even_shares(opened, drawn),
        "marks_by_length": [round(share, 3) for share in by_length.tolist()],
        "twins": minilm_attention.twins(opened),
    }


def _mean_cosine(some: Float[Tensor, "row d_model"], others: Float[Tensor, "row d_model"]) -> float:
    return round((some * others).sum(dim=-1).mean().item(), 3)


def _rounded(numbers: Float[Tensor, "row column"]) -> list[list[float]]:
    return [[round(number, 3) for number in row] for row in numbers.tolist()]
