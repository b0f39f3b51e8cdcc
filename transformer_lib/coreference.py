"""Who is "it"? Sentences whose pronoun means one of two nouns, made from templates, the true one known (chapter 09).

    the animal didn't cross the street because it was too tired
    the animal didn't cross the street because it was too wide

Two sentences that differ in the last adjective alone are *twins*: in the first "it" is who acts, in the second what is
acted on. Neither the noun's place nor the adjective alone tells which: some frames turn the order of the nouns
around, what is "tired" crosses no street but is not woken either, and what is "big" enters no cage and isn't carried.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch

from transformer_lib import checks
from transformer_lib.tokeniser import WordTokeniser

PRONOUN = "it"
WHO = "animal dog cat horse cow fox"
PREY = "mouse bird rabbit squirrel hen"
SCENES = [  # verb and participle, who acts, what is acted on, adjectives by twins: of who acts, of what is acted on
    ("cross crossed", WHO, "street road river bridge field", "tired wide, weak long, lazy busy"),
    ("climb climbed", WHO, "hill wall rock tower ladder", "tired steep, heavy high, weak slippery"),
    ("carry carried", WHO, "box bag basket stone log", "weak heavy, small big, lazy wide"),
    ("enter entered", WHO, "cage tent cave barn house", "big small, wide narrow, scared dark"),
    ("catch caught", WHO, PREY, "slow quick, tired clever, lazy fast"),
    ("wake woken", WHO, PREY, "quiet tired, gentle sleepy, calm deaf"),
    ("eat eaten", WHO, "apple bread cake soup egg", "full hot, sleepy hard, scared dry"),
]
FRAMES = [
    "the {actor} didn't {verb} the {object} because it was too {adjective}",
    "the {object} wasn't {participle} by the {actor} because it was too {adjective}",
    "because it was too {adjective} the {actor} didn't {verb} the {object}",
    "because it was too {adjective} the {object} wasn't {participle} by the {actor}",
    "it was too {adjective} so the {actor} didn't {verb} the {object}",
]


@dataclass(frozen=True)
class Coreference:
    """A sentence with one pronoun and two nouns that it might mean.

    Args:
        actor: place of the noun that acts, counted from 0.
        object: place of the noun that is acted on.
        referent: place of the noun that the pronoun means: one of those two.

    Raises:
        ValueError: there is not one pronoun, or a place is outside the sentence or the referent neither noun.
    """

    words: tuple[str, ...]
    actor: int
    object: int
    referent: int

    def __post_init__(self) -> None:
        places = {"actor": self.actor, "object": self.object, "referent": self.referent}
        checks.not_negative(**places)
        if self.words.count(PRONOUN) != 1:
            raise ValueError(f"words must hold {PRONOUN!r} once, got {' '.join(self.words)!r}")
        if max(places.values()) >= len(self.words) or self.referent not in (self.actor, self.object):
            wanted = f"places from 0 to {len(self.words) - 1}, the referent one of the nouns'"
            raise ValueError(f"wanted {wanted}, got {places}")

    @property
    def pronoun(self) -> int:
        """The place of the pronoun."""
        return self.words.index(PRONOUN)

    @property
    def text(self) -> str:
        """The words as one string, for `WordTokeniser.encode`."""
        return " ".join(self.words)


Twins = tuple[Coreference, Coreference]


def coreference_twins(count: int, generator: torch.Generator, *, held_out: bool = False) -> list[Twins]:
    """Return pairs of sentences that differ in the adjective; "it" is the actor in the first, the object in the second.

    No two pairs are alike, and no sentence is in two of them.

    Args:
        held_out: True draws from the templates set aside: of each scene, one way to say it (of the first, the one
            with the book's own sentence). Their words and their frames all occur in the others.

    Raises:
        TypeError: `count` is not an integer, `generator` not a `torch.Generator`, or `held_out` not a bool.
        ValueError: `count` is below 1 or above the number of such pairs.
    """
    checks.positive(count=count)
    checks.instance(torch.Generator, generator=generator)
    checks.instance(bool, held_out=held_out)
    every = list(_all_twins(held_out))
    if count > len(every):
        raise ValueError(f"count must be at most {len(every)}, got {count}")
    return [every[i] for i in torch.randperm(len(every), generator=generator)[:count].tolist()]


def coreference_tokeniser() -> WordTokeniser:
    """Return the tokeniser of these sentences: one id per word, after the special tokens."""
    every = [twins for held_out in (False, True) for twins in _all_twins(held_out)]
    return WordTokeniser(sorted({word for first, second in every for word in first.words + second.words}))


def _all_twins(held_out: bool) -> Iterator[Twins]:
    for (i, scene), (j, frame) in product(enumerate(SCENES), enumerate(FRAMES)):
        if held_out is ((i + j) % len(FRAMES) == 0):
            verbs, actors, objects, adjectives = scene
            for actor, thing, pair in product(actors.split(), objects.split(), adjectives.split(", ")):
                of_actor, of_object = (_words(frame, verbs, actor, thing, adjective) for adjective in pair.split())
                places = of_actor.index(actor), of_actor.index(thing)
                yield Coreference(of_actor, *places, places[0]), Coreference(of_object, *places, places[1])


def _words(frame: str, verbs: str, actor: str, thing: str, adjective: str) -> tuple[str, ...]:
    verb, participle = verbs.split()
    parts = {"verb": verb, "participle": participle, "actor": actor, "object": thing, "adjective": adjective}
    return tuple(frame.format(**parts).split())
