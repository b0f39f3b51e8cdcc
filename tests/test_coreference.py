"""Sentences with a pronoun: their nouns, referents and twins by rules written apart from the library's."""

from collections import Counter, defaultdict

import pytest
import torch

from transformer_lib import coreference as c
from transformer_lib.data import UNKNOWN, pad

COUNTS = {False: 2520, True: 630}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


EVERY = {held_out: c.coreference_twins(count, generator(), held_out=held_out) for held_out, count in COUNTS.items()}
SENTENCES = {held_out: [one for twins in pairs for one in twins] for held_out, pairs in EVERY.items()}


def roles(words: tuple[str, ...]) -> tuple[int, int]:
    """Find who acts and what is acted on by grammar: in the passive the actor stands after "by"."""
    nouns = [i + 1 for i, word in enumerate(words) if word == "the"]
    assert len(nouns) == 2
    return (nouns[1], nouns[0]) if "by" in words else (nouns[0], nouns[1])


def meaning(words: tuple[str, ...]) -> str:
    """Say by a table of verb and adjective which of the two "it" is."""
    verb = words[words.index("didn't") + 1] if "didn't" in words else words[words.index("wasn't") + 1]
    adjective = words[words.index("too") + 1]
    of_actor = {
        "cross": "tired weak lazy", "climb": "tired heavy weak", "carry": "weak small lazy",
        "enter": "big wide scared", "catch": "slow tired lazy", "wake": "quiet gentle calm",
        "eat": "full sleepy scared",
    }  # fmt: skip
    passive = {"crossed": "cross", "climbed": "climb", "carried": "carry", "entered": "enter", "caught": "catch",
               "woken": "wake", "eaten": "eat"}  # fmt: skip
    return "actor" if adjective in of_actor[passive.get(verb, verb)].split() else "object"


@pytest.mark.parametrize("held_out", [False, True])
def test_nouns_and_referent_are_what_grammar_and_sense_say(held_out):
    for one in SENTENCES[held_out]:
        assert (one.actor, one.object) == roles(one.words)
        assert one.referent == getattr(one, meaning(one.words))
        assert one.words[one.pronoun] == "it" and one.words.count("it") == 1
        assert one.text.split() == list(one.words)


def test_the_books_own_sentences_are_among_those_held_out():
    texts = {one.text: one for one in SENTENCES[True]}
    tired = texts["the animal didn't cross the street because it was too tired"]
    wide = texts["the animal didn't cross the street because it was too wide"]
    assert tired.words[tired.referent] == "animal" and wide.words[wide.referent] == "street"
    assert (tired.referent, wide.referent, tired.pronoun) == (1, 5, 7)


@pytest.mark.parametrize("held_out", [False, True])
def test_twins_differ_in_the_adjective_and_in_the_referent(held_out):
    for first, second in EVERY[held_out]:
        different = [i for i, (a, b) in enumerate(zip(first.words, second.words, strict=True)) if a != b]
        assert [first.words[i - 1] for i in different] == ["too"]
        assert (first.actor, first.object) == (second.actor, second.object)
        assert first.referent == first.actor and second.referent == second.object


def test_no_sentence_comes_twice_and_none_is_on_both_sides():
    assert all(len({one.text for one in SENTENCES[side]}) == 2 * count for side, count in COUNTS.items())
    assert not {one.text for one in SENTENCES[False]} & {one.text for one in SENTENCES[True]}


def frame(one: c.Coreference) -> tuple[bool, str]:
    return "by" in one.words, one.words[0]


def verb(one: c.Coreference) -> str:
    return next(pair[0].split()[0] for pair in c.SCENES if set(pair[0].split()) & set(one.words))


def test_what_is_held_out_is_a_way_to_say_something_not_a_word_a_verb_or_a_frame():
    known, new = SENTENCES[False], SENTENCES[True]
    assert {word for one in new for word in one.words} <= {word for one in known for word in one.words}
    assert {verb(one) for one in new} == {verb(one) for one in known} and len({verb(one) for one in known}) == 7
    assert {frame(one) for one in new} == {frame(one) for one in known}
    assert not {(verb(one), frame(one)) for one in new} & {(verb(one), frame(one)) for one in known}


@pytest.mark.parametrize("cue", ["first noun", "nearest noun", "adjective", "verb"])
def test_no_single_cue_gives_the_referent_away(cue):
    """The best that a rule of one cue can do, from 0.5 (chance); verb and adjective together always do."""
    seen = defaultdict(Counter)
    for one in SENTENCES[False]:
        key = {
            "first noun": one.actor < one.object,
            "nearest noun": abs(one.actor - one.pronoun) < abs(one.object - one.pronoun),
            "adjective": one.words[one.words.index("too") + 1],
            "verb": verb(one),
        }[cue]
        seen[key][one.referent == one.actor] += 1
    share = sum(max(counts.values()) for counts in seen.values()) / len(SENTENCES[False])
    assert share == pytest.approx(0.5) if cue != "adjective" else 0.5 < share < 0.95


def test_chance_comes_from_the_generator_alone():
    before, one = torch.get_rng_state(), generator(1)
    first, second = (c.coreference_twins(9, one) for _ in range(2))
    assert c.coreference_twins(9, generator(1)) == first != second
    assert torch.get_rng_state().equal(before)


def test_every_word_has_its_id_and_places_of_words_are_places_of_tokens():
    tokeniser = c.coreference_tokeniser()
    ids = tokeniser.encode_all([one.text for one in SENTENCES[True]])
    assert all(UNKNOWN not in row for row in ids)
    tokens = pad(ids)
    for row, one in zip(tokens.tolist(), SENTENCES[True], strict=True):
        assert tokeniser.tokens(row)[one.referent] == one.words[one.referent]
        assert tokeniser.decode(row) == one.text
