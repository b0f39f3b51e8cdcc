"""What a training run depends on: its settings and its sentence pairs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from transformer_lib import checks, decoding, multi30k, toy_grammar, training
from transformer_lib.config import TransformerConfig


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run depends on, besides the data."""

    seed: int = 1
    epochs: int = 12
    vocabulary: int = 5000
    d_model: int = 128
    heads: int = 4
    d_ff: int = 256
    layers: int = 4
    dropout: float = 0.1
    positions: str = "sinusoidal"
    bpe_dropout: float = 0.0  # of the sources that it learns from; see `bpe_dropout.SubwordSampler`
    tokens_per_batch: int = 1024
    warmup: int = 1000  # steps
    factor: float = 1.0  # of the Noam rate
    tail: float = 0.5  # share of the steps over which the rate falls to 0
    smoothing: float = 0.1
    alpha: float = 1.0  # length penalty, chosen on the validation set

    def __post_init__(self) -> None:
        checks.not_negative(seed=self.seed)
        checks.positive(epochs=self.epochs, tokens_per_batch=self.tokens_per_batch)
        checks.probability(smoothing=self.smoothing, bpe_dropout=self.bpe_dropout)
        if not 0 <= self.tail <= 1:
            raise ValueError(f"tail must be from 0 to 1, got {self.tail}")
        training.noam_rate(1, self.d_model, self.warmup, self.factor)
        decoding.length_penalty(1, self.alpha)
        self.config(self.vocabulary)

    def config(self, vocabulary: int) -> TransformerConfig:
        """Return the model's sizes; the vocabulary may have become smaller than asked for."""
        names = ("d_model", "heads", "d_ff", "layers", "dropout", "positions")
        return TransformerConfig(vocabulary=vocabulary, **{name: getattr(self, name) for name in names})


# What `make train` takes without --ship and --toy: the best that was found for a quarter of an hour (`book/speed.md`).
# `Settings` alone is the model of 2017, which the library ships: chapters 7 to 9 look into it.
USUAL: dict[str, Any] = {"positions": "rotary", "d_model": 192, "d_ff": 768, "layers": 3, "epochs": 6}


def command(settings: Settings) -> str:
    """Return what to type for a run with these settings, German to English."""
    usual = asdict(Settings(**USUAL))
    words = [
        f"--{name.replace('_', '-')} {value}"
        for name, value in asdict(settings).items()
        if name == "seed" or value != usual[name]
    ]
    return f"make train ARGS='{' '.join(words)}'"


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs as text, (source, target)."""

    train: list[tuple[str, str]]
    validation: list[tuple[str, str]]
    test: list[tuple[str, str]]


def multi30k_corpus() -> Corpus:
    """Return Multi30k, German to English."""
    return Corpus(*(multi30k.load_multi30k(split) for split in multi30k.SPLITS))


def toy_corpus() -> Corpus:
    """Return sentences of the toy grammar: the same task without a download."""
    chance = torch.Generator().manual_seed(0)
    known, held_out = toy_grammar.split_sentences(toy_grammar.sample_sentences(6000, chance), 600, chance)
    text = [[pair.text for pair in part] for part in (known, held_out)]
    return Corpus(text[0], text[1][: len(text[1]) // 2], text[1][len(text[1]) // 2 :])
