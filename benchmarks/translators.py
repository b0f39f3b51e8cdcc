"""The same small translator from several libraries, behind one face: `forward(source, target_input)` gives logits.

Sizes, batches, loss and optimiser are the same for all. A library that isn't installed is left out: `installed()`.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.config import TransformerConfig
from transformer_lib.data import END, PADDING, START, Batch
from transformer_lib.model import Transformer
from transformer_lib.positional import sinusoidal_positions

SIZES = TransformerConfig(vocabulary=8000, d_model=256, heads=8, d_ff=1024, layers=3, dropout=0.1)
SMOOTHING = 0.1


def logits_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the smoothed cross-entropy as torch computes it from all logits."""
    logits = model(batch.source, batch.target_input)
    return F.cross_entropy(
        logits.flatten(0, 1).float(), batch.labels.flatten(), ignore_index=PADDING, label_smoothing=SMOOTHING
    )


class _Embedded(nn.Module):
    """Source and target embeddings with sinusoids and dropout, and the output's matrix: what torch leaves to the user.

    Args:
        tied: whether one table serves all three, as in the paper.
    """

    def __init__(self, c: TransformerConfig, tied: bool) -> None:
        super().__init__()
        self.source = nn.Embedding(c.vocabulary, c.d_model)
        self.target = self.source if tied else nn.Embedding(c.vocabulary, c.d_model)
        self.output = nn.Linear(c.d_model, c.vocabulary, bias=not tied)
        nn.init.normal_(self.source.weight, std=c.d_model**-0.5)
        if tied:
            self.output.weight = self.source.weight
        self.dropout, self.scale = nn.Dropout(c.dropout), math.sqrt(c.d_model)
        self.register_buffer("sinusoids", sinusoidal_positions(c.max_length, c.d_model))

    def forward(self, table: nn.Embedding, tokens: Tensor) -> Tensor:
        return self.dropout(table(tokens) * self.scale + self.sinusoids[: tokens.size(1)])


class TorchTransformer(nn.Module):
    """`torch.nn.Transformer` as its users build it.

    Args:
        tied: whether embeddings and output share one table.
        paper_dropout: dropout only where the paper has it (after each sub-layer and on the embeddings): torch's module
            has it on the attention weights and inside the feed-forward network, too.
    """

    def __init__(self, c: TransformerConfig, tied: bool = False, paper_dropout: bool = False) -> None:
        super().__init__()
        sizes = (c.d_model, c.heads, c.layers, c.layers, c.d_ff, c.dropout)
        self.model = nn.Transformer(*sizes, batch_first=True, norm_first=c.norm == "pre")
        self.embedded = _Embedded(c, tied)
        for part in self.model.modules() if paper_dropout else ():
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = 0.0
            if isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.dropout.p = 0.0

    def encode(self, source: Tensor) -> Tensor:
        vectors = self.embedded(self.embedded.source, source)
        return self.model.encoder(vectors, src_key_padding_mask=source == PADDING)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        mask = torch.ones(target.size(1), target.size(1), dtype=torch.bool).triu(1)
        vectors = self.embedded(self.embedded.target, target)
        options = {"tgt_mask": mask, "tgt_is_causal": True, "memory_key_padding_mask": source == PADDING}
        return self.model.decoder(vectors, memory, **options)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.embedded.output(self.decode(target, self.encode(source), source))


class XTransformers(nn.Module):
    """`x_transformers.XTransformer`, with its defaults but for the sizes and the dropout."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        from x_transformers import XTransformer

        options = {"num_tokens": c.vocabulary, "depth": c.layers, "heads": c.heads, "max_seq_len": c.max_length}
        options |= {"attn_dim_head": c.d_model // c.heads, "ff_mult": c.d_ff // c.d_model, "attn_flash": True}
        options |= {"emb_dropout": c.dropout, "layer_dropout": 0.0, "ff_dropout": c.dropout, "attn_dropout": 0.0}
        sides = {f"{side}_{name}": value for side in ("enc", "dec") for name, value in options.items()}
        self.model = XTransformer(dim=c.d_model, tie_token_emb=True, **sides)

    def encode(self, source: Tensor) -> Tensor:
        return self.model.encoder(source, mask=source != PADDING, return_embeddings=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        net = self.model.decoder.net
        return net(target, context=self.encode(source), context_mask=source != PADDING)


class Marian(nn.Module):
    """Hugging Face's Marian from a config: random weights, one table for all three uses."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        from transformers import MarianConfig, MarianMTModel

        sides = {}
        for side in ("encoder", "decoder"):
            sides |= {f"{side}_layers": c.layers, f"{side}_attention_heads": c.heads, f"{side}_ffn_dim": c.d_ff}
        options = {
            "activation_function": "relu",
            "dropout": c.dropout,
            "attention_dropout": 0.0,
            "scale_embedding": True,
        }
        ids = {
            "pad_token_id": PADDING,
            "eos_token_id": END,
            "decoder_start_token_id": START,
            "forced_eos_token_id": None,
        }
        sizes = {"vocab_size": c.vocabulary, "d_model": c.d_model, "max_position_embeddings": c.max_length}
        self.model = MarianMTModel(MarianConfig(**sizes, **sides, **options, **ids, init_std=c.d_model**-0.5))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        found = self.model(input_ids=source, attention_mask=(source != PADDING).long(), decoder_input_ids=target)
        return found.logits


class D2L(nn.Module):
    """The Transformer of "Dive into Deep Learning": its package's encoder, and a decoder put together from its parts.

    The package holds attention, norm and feed-forward network, but not the decoder that the book builds from them.
    """

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        d2l = _d2l()
        self.encoder = d2l.TransformerEncoder(c.vocabulary, c.d_model, c.d_ff, c.heads, c.layers, c.dropout)
        self.embedding = nn.Embedding(c.vocabulary, c.d_model)
        self.positions = d2l.PositionalEncoding(c.d_model, c.dropout)
        self.blocks = nn.ModuleList(_D2LBlock(d2l, c) for _ in range(c.layers))
        self.output, self.scale = nn.LazyLinear(c.vocabulary), math.sqrt(c.d_model)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        lengths = (source != PADDING).sum(1)
        memory = self.encoder(source, lengths)
        x = self.positions(self.embedding(target) * self.scale)
        for block in self.blocks:
            x = block(x, memory, lengths)
        return self.output(x)


class _D2LBlock(nn.Module):
    def __init__(self, d2l: Any, c: TransformerConfig) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(d2l.MultiHeadAttention(c.d_model, c.heads, c.dropout) for _ in range(2))
        self.norms = nn.ModuleList(d2l.AddNorm(c.d_model, c.dropout) for _ in range(3))
        self.feed_forward = d2l.PositionWiseFFN(c.d_ff, c.d_model)

    def forward(self, x: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        past = torch.arange(1, x.size(1) + 1).repeat(len(x), 1)
        y = self.norms[0](x, self.attentions[0](x, x, x, past))
        z = self.norms[1](y, self.attentions[1](y, memory, memory, lengths))
        return self.norms[2](z, self.feed_forward(z))


def _d2l() -> Any:
    """Import d2l; its package asks for torchvision, which the Transformer doesn't use."""
    if "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is None:
        for name in ("torchvision", "torchvision.transforms"):
            sys.modules.setdefault(name, types.ModuleType(name))
        sys.modules["torchvision"].transforms = sys.modules["torchvision.transforms"]
    import d2l.torch

    return d2l.torch


PEERS: dict[str, tuple[str, Callable[[TransformerConfig], nn.Module]]] = {  # name: (its package, how it's made)
    "x-transformers": ("x_transformers", XTransformers),
    "Hugging Face Marian": ("transformers", Marian),
    "d2l": ("d2l", D2L),
}


def installed() -> dict[str, Callable[[TransformerConfig], nn.Module]]:
    """Return how to make each peer whose package is installed."""
    return {name: make for name, (package, make) in PEERS.items() if importlib.util.find_spec(package)}


def ours(c: TransformerConfig = SIZES) -> Transformer:
    """Return this book's model."""
    return Transformer(c)
