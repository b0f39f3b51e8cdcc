"""Train a translator: what the two profiles of chapter 07 train, and on what; the record of the shipped one."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from transformer_lib import checks, multi30k, toy_grammar, translator
from transformer_lib.data import PADDING, Batch, Pair, batches, encode_pairs
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.tokeniser import Tokeniser, WordTokeniser, train_tokeniser

TOY_SENTENCES, TOY_HELD_OUT, HELD_OUT = 5200, 200, 200
RECORD = "record.json"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The sizes and the schedule of a run.

    Args:
        epochs: times that every training pair is used.
        warmup: steps over which the learning rate rises.
        factor: of `training.noam_rate`.
        tail: share of the steps over which the rate falls to 0.
        vocabulary: most pieces of the tokeniser; the toy grammar has a word list of its own.
    """

    d_model: int
    layers: int
    d_ff: int
    heads: int = 4
    dropout: float = 0.1
    tokens_per_batch: int
    epochs: int
    warmup: int
    factor: float = 1.0
    tail: float = 0.5
    vocabulary: int = 5000


PROFILES = {
    "quick": Profile(d_model=64, layers=1, d_ff=128, tokens_per_batch=768, epochs=7, warmup=80, factor=1.2),
    "full": Profile(d_model=128, layers=4, d_ff=256, tokens_per_batch=1024, epochs=13, warmup=1000),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """Sentence pairs as text and as ids, the tokeniser between them, and the model's sizes.

    Args:
        held_out: pairs of sentences (source, target) that are never trained on.
    """

    profile: Profile
    tokeniser: Tokeniser | WordTokeniser
    train: list[tuple[str, str]]
    held_out: list[tuple[str, str]]
    pairs: list[Pair]
    held_out_pairs: list[Pair]
    config: TransformerConfig

    def epoch(self, number: int) -> list:
        """Return the batches of an epoch, which depend on its number alone."""
        generator = torch.Generator().manual_seed(number)
        return batches(self.pairs, self.profile.tokens_per_batch, generator=generator)


def prepare(name: str, folder: str | Path | None = None) -> Task:
    """Return what a profile trains: "quick" the toy grammar, "full" Multi30k from German to English.

    Args:
        folder: where Multi30k is kept; see `multi30k.load_multi30k`.

    Raises:
        ValueError: there is no such profile.
        DataUnavailable: the full profile's data is not on this machine and can't be downloaded.
    """
    checks.one_of(tuple(PROFILES), name=name)
    profile = PROFILES[name]
    train, held_out = _toy() if name == "quick" else _multi30k(folder)
    tokeniser: Tokeniser | WordTokeniser = toy_grammar.grammar_tokeniser()
    if name == "full":
        tokeniser = train_tokeniser((line for pair in train for line in pair), profile.vocabulary)
    sizes = {size: getattr(profile, size) for size in ("d_model", "layers", "d_ff", "heads", "dropout")}
    return Task(
        profile=profile,
        tokeniser=tokeniser,
        train=train,
        held_out=held_out,
        pairs=encode_pairs(train, tokeniser),
        held_out_pairs=encode_pairs(held_out, tokeniser),
        config=TransformerConfig(vocabulary=len(tokeniser), **sizes),
    )


def _toy() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    chance = torch.Generator().manual_seed(0)
    sentences = toy_grammar.sample_sentences(TOY_SENTENCES, chance)
    known, held_out = toy_grammar.split_sentences(sentences, TOY_HELD_OUT, chance)
    return [pair.text for pair in known], [pair.text for pair in held_out]


def _multi30k(folder: str | Path | None) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    return multi30k.load_multi30k("train", folder), multi30k.load_multi30k("val", folder)[:HELD_OUT]


@torch.no_grad()
def accuracy(model: Transformer, held_out: Iterable[Batch]) -> float:
    """Return the share of next tokens that are right, teacher forcing, where the model says the likeliest one."""
    right, tokens = 0, 0
    for batch in held_out:
        said = model(batch.source, batch.target_input).argmax(dim=-1)
        right += (said == batch.labels)[batch.labels != PADDING].sum().item()
        tokens += batch.target_tokens
    return right / tokens


def load_record() -> dict[str, Any]:
    """Return the record of the run that made the shipped translator: settings, machine, curve and scores.

    It lies beside the weights; in a clone of the book's repository also in `book/results/`.

    Raises:
        FileNotFoundError: it is in neither place.
    """
    results = Path(__file__).parents[2] / "book" / "results" / "translator_de_en_seed1.json"
    beside = translator.SHIPPED / RECORD
    return json.loads((beside if beside.exists() else results).read_text(encoding="utf-8"))
