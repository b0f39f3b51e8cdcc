"""A language whose 6,300 sentences are all known, so that the best a model can do can be counted (chapter 11).

The sentences are those of chapter 09, each as likely as any other.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

import torch

from transformer_lib import checks, coreference
from transformer_lib.tokeniser import WordTokeniser

MARKS = ("<blank>", "<1>", "<2>", "<3>")
BLANK, *SENTINELS = range(4, 8)  # the marks' ids, after the four special tokens
HELD_OUT = 600
VERB = 3  # its place in "the dog didn't chase ..."

Words = tuple[str, ...]
Ids = list[int]


@lru_cache(maxsize=1)
def sentences() -> tuple[Words, ...]:
    """Return every sentence of the language once, in the alphabet's order."""
    every = [
        coreference.coreference_twins(count, torch.Generator().manual_seed(0), held_out=held_out)
        for count, held_out in ((2520, False), (630, True))
    ]
    return tuple(sorted({one.words for part in every for twins in part for one in twins}))


@lru_cache(maxsize=1)
def tokeniser() -> WordTokeniser:
    """Return the tokeniser of the language and of the marks that the objectives put into it."""
    return WordTokeniser([*MARKS, *sorted({word for words in sentences() for word in words})])


@lru_cache(maxsize=1)
def split() -> tuple[tuple[Words, ...], tuple[Words, ...]]:
    """Return the sentences to train on, and `HELD_OUT` others drawn by chance: the same for every seed."""
    order = torch.randperm(len(sentences()), generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = tuple(sentences()[i] for i in order)
    return shuffled[HELD_OUT:], shuffled[:HELD_OUT]


def ids(texts: Sequence[Words]) -> list[Ids]:
    """Return each sentence as ids."""
    return tokeniser().encode_all([" ".join(words) for words in texts])


def words_of(tokens: Sequence[int]) -> Words:
    """Return ids as words, marks and special tokens included."""
    return tuple(tokeniser().tokens(tokens))


def active(texts: Sequence[Words]) -> list[Words]:
    """Return the sentences that begin "the ... didn't", whose verb stands at `VERB` and whose object comes after it."""
    return [words for words in texts if words[2] == "didn't"]


@lru_cache(maxsize=2)
def _continuations(right: bool) -> dict[tuple[Words, Words | None], Counter[str]]:
    found: dict[tuple[Words, Words | None], Counter[str]] = defaultdict(Counter)
    for words in sentences():
        for place, word in enumerate(words):
            found[words[:place], words[place + 1 :] if right else None][word] += 1
    return found


def chances(words: Words, place: int, *, right: bool) -> dict[str, float]:
    """Return how likely each word is at a place of a sentence, by counting the sentences that fit the others.

    Args:
        place: counted from 0.
        right: whether the words after the place are known, too; those before it are.

    Raises:
        TypeError: `place` is not an integer, or `right` not a bool.
        ValueError: there is no such place, or no sentence of the language fits.
    """
    checks.not_negative(place=place)
    checks.instance(bool, right=right)
    if place >= len(words):
        raise ValueError(f"place must be below {len(words)}, got {place}")
    found = _continuations(right).get((words[:place], words[place + 1 :] if right else None))
    if not found:
        raise ValueError(f"no sentence of the language fits {' '.join(words)!r} around place {place}")
    return {word: count / found.total() for word, count in found.most_common()}


def best_accuracy(texts: Sequence[Words], *, right: bool, place: int | None = None) -> float:
    """Return the share of words that one who knows the language guesses right, taking the likeliest each time.

    Args:
        place: the place that is asked for; None asks for each.
    """
    best = [
        max(chances(words, i, right=right).values())
        for words in texts
        for i in (range(len(words)) if place is None else [place])
    ]
    return sum(best) / len(best)


def unigram_accuracy(known: Sequence[Words], texts: Sequence[Words]) -> float:
    """Return the share of the words that are the commonest word of what is known."""
    commonest = Counter(word for words in known for word in words).most_common(1)[0][0]
    every = [word for words in texts for word in words]
    return every.count(commonest) / len(every)
