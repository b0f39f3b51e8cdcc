"""Sentences split into other subwords each time they are read: BPE dropout, Provilkov et al. (2020)."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from transformer_lib import checks
from transformer_lib.tokeniser import UNKNOWN, Tokeniser


class SubwordSampler:
    """Splits texts as a tokeniser does, but leaves out merges by chance.

    Byte-pair encoding joins the two neighbours that were learnt to be joined first, again and again. Here each join
    that is possible is left out for the moment with a given probability, so that a word falls now into its usual
    pieces and now into smaller ones: the model sees what its pieces are made of. The texts to translate later are
    split as usual. The `tokenizers` library can do this, too, but its chance can't be seeded.

    Args:
        texts: what will be split, again and again: its words are found once.
        probability: of leaving out a join; with 0 the pieces are the tokeniser's.
    """

    def __init__(self, tokeniser: Tokeniser, texts: Sequence[str], probability: float) -> None:
        checks.instance(Tokeniser, tokeniser=tokeniser)
        checks.probability(probability=probability)
        learnt = json.loads(tokeniser.model.to_str())["model"]
        merges = [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in learnt["merges"]]
        self.probability, self.ids = probability, learnt["vocab"]
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        split, clean = tokeniser.model.pre_tokenizer.pre_tokenize_str, tokeniser.model.normalizer.normalize_str
        self.texts = [[word for word, _ in split(clean(text))] for text in texts]

    def sample(self, chance: random.Random) -> list[list[int]]:
        """Return the ids of each text, without START and END."""
        return [[i for word in words for i in self._ids(word, chance)] for words in self.texts]

    def _ids(self, word: str, chance: random.Random) -> list[int]:
        pieces, ranks, p, draw = list(word), self.ranks, self.probability, chance.random
        while True:
            best = None
            for place, pair in enumerate(zip(pieces, pieces[1:], strict=False)):
                rank = ranks.get(pair)
                if rank is not None and (best is None or rank < best[0]) and draw() >= p:
                    best = rank, place
            if best is None:
                return [self.ids.get(piece, UNKNOWN) for piece in pieces]
            place = best[1]
            pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
