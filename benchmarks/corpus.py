"""Multi30k as every benchmark sees it: one vocabulary of 8,000 subwords, batches of similar length."""

from __future__ import annotations

from functools import lru_cache

import torch

from tools import ROOT
from transformer_lib import multi30k
from transformer_lib.data import Batch, Pair, Tokeniser, batches, encode_pairs, train_tokeniser

VOCABULARY, TOKENS_PER_BATCH = 8000, 2048
FOLDER = ROOT / "_build" / "benchmarks"


@lru_cache(maxsize=1)
def tokeniser() -> Tokeniser:
    """Return the tokeniser, trained at the first call and kept in `_build`."""
    path = FOLDER / f"tokeniser_{VOCABULARY}.json"
    if not path.exists():
        lines = [line for pair in multi30k.load_multi30k("train") for line in pair]
        path.parent.mkdir(parents=True, exist_ok=True)
        train_tokeniser(lines, VOCABULARY).save(path)
    return Tokeniser.load(path)


@lru_cache(maxsize=1)
def pairs(split: str = "train") -> list[Pair]:
    """Return a split's sentence pairs as ids."""
    return encode_pairs(multi30k.load_multi30k(split), tokeniser())


def training_batches(seed: int = 0) -> list[Batch]:
    """Return one epoch of batches of similar length, about 2,048 target tokens each."""
    return batches(pairs(), TOKENS_PER_BATCH, generator=torch.Generator().manual_seed(seed))
