"""A toy translation task without data: an invented language into simple English, word alignment known.

The invented language puts the verb last, adjectives after their noun, the word for a place before its postposition;
nouns and adjectives take the plural ("kano grana", the big dog; "kani grane", the big dogs), verbs don't, articles are
left out when definite. A particle after the subject changes the verb's meaning at the sentence's end. So English needs
another order, agreement ("sees", "see"), one word for two ("ek ... vidu", finds) and two for one ("ne", does not).

    hodie kani grane ek horto inu un felo ne vidu
    the big dogs do not find a cat in the garden today
"""

import random
from dataclasses import dataclass

import torch

from transformer_lib import checks
from transformer_lib.tokeniser import WordTokeniser

NOUNS = {  # singular and plural, in both languages
    "kano kani": "dog dogs",
    "felo feli": "cat cats",
    "avo avi": "bird birds",
    "nino nini": "child children",
    "rego regi": "king kings",
    "kabo kabi": "horse horses",
    "piso pisi": "fish fish",
    "maso masi": "teacher teachers",
    "gamo gami": "farmer farmers",
    "muro muri": "mouse mice",
}
ADJECTIVES = {  # singular and plural; English has one form
    "grana grane": "big",
    "pika pike": "small",
    "velga velge": "tired",
    "juna june": "young",
    "ruba rube": "red",
    "nega nege": "black",
    "feza feze": "happy",
}
VERBS = {  # English: after one, after several or "not"
    "vidu": "sees see",
    "sigu": "follows follow",
    "portu": "carries carry",
    "luvu": "loves love",
    "aidu": "helps help",
    "ek vidu": "finds find",
    "ek sigu": "hunts hunt",
    "ek portu": "brings bring",
}
PLACES = {"horto": "garden", "domo": "house", "silvo": "forest", "vilo": "village"}
POSTPOSITIONS = {"inu": "in", "apu": "near"}
TIMES = {"hodie": "today", "sepe": "often", "nune": "now"}
MOST_SENTENCES = 200_000

Marked = list[tuple[str, str]]  # words, each with the name of the source word that it belongs to


@dataclass(frozen=True)
class ToyPair:
    """A sentence, its translation, and which word translates which.

    Args:
        alignment: pairs (place in `source`, place in `target`), counted from 0.

    Raises:
        ValueError: the alignment points outside a sentence, or leaves a word of either without a partner.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: frozenset[tuple[int, int]]

    def __post_init__(self) -> None:
        for side, name in enumerate(("source", "target")):
            places, length = {pair[side] for pair in self.alignment}, len(getattr(self, name))
            if places != set(range(length)):
                raise ValueError(f"alignment must use the places 0..{length - 1} of {name}, got {sorted(places)}")

    @property
    def text(self) -> tuple[str, str]:
        """Source and target as sentences, as `load_multi30k` gives them."""
        return " ".join(self.source), " ".join(self.target)


def sample_sentences(count: int, generator: torch.Generator) -> list[ToyPair]:
    """Return `count` sentences of the grammar, no two alike; the same generator state gives the same ones.

    Raises:
        TypeError: `count` is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: `count` is below 1 or above `MOST_SENTENCES`.
    """
    checks.positive(count=count)
    if count > MOST_SENTENCES:
        raise ValueError(f"count must be at most {MOST_SENTENCES}, got {count}")
    chance = _chance(generator)
    pairs: dict[tuple[str, ...], ToyPair] = {}
    while len(pairs) < count:
        pair = _sentence(chance)
        pairs.setdefault(pair.source, pair)
    return list(pairs.values())


def split_sentences(
    pairs: list[ToyPair], held_out: int, generator: torch.Generator
) -> tuple[list[ToyPair], list[ToyPair]]:
    """Return the pairs to train on and `held_out` others, drawn by chance; no source sentence is in both.

    Raises:
        TypeError: `held_out` is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: `held_out` is below 1 or leaves nothing to train on.
    """
    checks.positive(held_out=held_out)
    distinct = list({pair.source: pair for pair in pairs}.values())
    if held_out >= len(distinct):
        raise ValueError(f"held_out must be below the number of distinct pairs, {len(distinct)}, got {held_out}")
    _chance(generator).shuffle(distinct)
    return distinct[held_out:], distinct[:held_out]


def grammar_tokeniser() -> WordTokeniser:
    """Return the tokeniser of both languages: one id per word, after the special tokens."""
    tables = (NOUNS, ADJECTIVES, VERBS, PLACES, POSTPOSITIONS, TIMES)
    words = [word for table in tables for entry in table.items() for text in entry for word in text.split()]
    return WordTokeniser(["un", "ne", "the", "a", "do", "does", "not", *words])


def _chance(generator: torch.Generator) -> random.Random:
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
    return random.Random(int(torch.randint(2**62, (), generator=generator)))


def _sentence(chance: random.Random) -> ToyPair:
    several = chance.random() < 0.4
    subject, subject_english = _noun_phrase("subject", several, chance)
    thing, thing_english = _noun_phrase("object", chance.random() < 0.4, chance)
    particle, verb, verb_english = _verb(several, chance)
    place, place_english = _place(chance)
    time, time_english = _time(chance)
    source = [*time, *subject, *particle, *place, *thing, *verb]
    target = [*subject_english, *verb_english, *thing_english, *place_english, *time_english]
    alignment = {(i, j) for i, (_, mark) in enumerate(source) for j, (_, other) in enumerate(target) if mark == other}
    return ToyPair(tuple(word for word, _ in source), tuple(word for word, _ in target), frozenset(alignment))


def _noun_phrase(role: str, several: bool, chance: random.Random) -> tuple[Marked, Marked]:
    noun, english = chance.choice(list(NOUNS.items()))
    source: Marked = [(noun.split()[several], role)]
    target: Marked = [(english.split()[several], role)]
    if chance.random() < 0.5:
        adjective, word = chance.choice(list(ADJECTIVES.items()))
        source.append((adjective.split()[several], role + "'s adjective"))
        target.insert(0, (word, role + "'s adjective"))
    if not several and chance.random() < 0.3:
        return [("un", role + "'s article"), *source], [("a", role + "'s article"), *target]
    return source, [("the", role), *target]


def _verb(several: bool, chance: random.Random) -> tuple[Marked, Marked, Marked]:
    *particle, verb = (entry := chance.choice(list(VERBS))).split()
    negated = chance.random() < 0.3
    source: Marked = [("ne", "not")] * negated + [(verb, "verb")]
    english = VERBS[entry].split()[several or negated]
    helper: Marked = [("do" if several else "does", "not"), ("not", "not")] * negated
    return [(word, "verb") for word in particle], source, [*helper, (english, "verb")]


def _place(chance: random.Random) -> tuple[Marked, Marked]:
    if chance.random() < 0.6:
        return [], []
    place, english = chance.choice(list(PLACES.items()))
    postposition, preposition = chance.choice(list(POSTPOSITIONS.items()))
    source = [(place, "place"), (postposition, "postposition")]
    return source, [(preposition, "postposition"), ("the", "place"), (english, "place")]


def _time(chance: random.Random) -> tuple[Marked, Marked]:
    if chance.random() < 0.7:
        return [], []
    time, english = chance.choice(list(TIMES.items()))
    return [(time, "time")], [(english, "time")]
