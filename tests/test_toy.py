"""Toy tasks and the toy grammar: the answer is right, the alignment is right, chance is the generator's."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib import toy
from transformer_lib import toy_grammar as grammar
from transformer_lib.tokeniser import SPECIAL_TOKENS, UNKNOWN
from transformer_lib.toy_grammar import ToyPair

DICTIONARY = {
    word: set(english.split())
    for table in (grammar.PLACES, grammar.POSTPOSITIONS, grammar.TIMES)
    for word, english in table.items()
}
for entry, english in grammar.NOUNS.items():
    DICTIONARY |= {word: {meaning} for word, meaning in zip(entry.split(), english.split(), strict=True)}
for entry, english in grammar.ADJECTIVES.items():
    DICTIONARY |= {word: {english} for word in entry.split()}
SINGULAR = {entry.split()[0] for entry in grammar.NOUNS}
NOUNS = {word for entry in grammar.NOUNS for word in entry.split()}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


SAMPLE = grammar.sample_sentences(4000, generator())


def translate(source: tuple[str, ...]) -> str:
    """Translate by rules written apart from the library's: read the source from the left, word by word."""
    words = list(source)
    time = grammar.TIMES[words.pop(0)] if words[0] in grammar.TIMES else ""
    subject, several = noun_phrase(words)
    particle = words.pop(0) if words[0] == "ek" else ""
    place = ""
    if words[0] in grammar.PLACES:
        garden, near = words.pop(0), words.pop(0)
        place = f"{grammar.POSTPOSITIONS[near]} the {grammar.PLACES[garden]}"
    thing, _ = noun_phrase(words)
    negated = words[0] == "ne"
    one, many = grammar.VERBS[f"{particle} {words[-1]}".strip()].split()
    verb = f"{'do' if several else 'does'} not {many}" if negated else (many if several else one)
    return " ".join(f"{subject} {verb} {thing} {place} {time}".split())


def noun_phrase(words: list[str]) -> tuple[str, bool]:
    article = "a" if words[0] == "un" and words.pop(0) else "the"
    noun = words.pop(0)
    adjective = ""
    if words and any(words[0] in entry.split() for entry in grammar.ADJECTIVES):
        adjective = next(iter(DICTIONARY[words.pop(0)]))
    (meaning,) = DICTIONARY[noun]
    return f"{article} {adjective} {meaning}", noun not in SINGULAR


@pytest.mark.parametrize(("task", "answer"), [(toy.copy_task, list), (toy.reverse_task, lambda x: list(reversed(x)))])
@given(
    length=st.integers(1, 12),
    vocabulary=st.integers(6, 30),
    shortest=st.none() | st.integers(1, 12),
    seed=st.integers(0, 9),
)
def test_toy_tasks_have_the_right_answer_and_the_asked_sizes(task, answer, length, vocabulary, shortest, seed):
    shortest = None if shortest is None else min(shortest, length)
    pairs = task(20, length, vocabulary, generator(seed), shortest=shortest)
    assert len(pairs) == 20
    for source, target in pairs:
        assert list(target) == answer(source)
        assert (shortest or length) <= len(source) <= length
        assert len(SPECIAL_TOKENS) <= min(source) <= max(source) < vocabulary


def test_toy_tasks_use_every_symbol_and_every_length():
    pairs = toy.copy_task(500, 6, 10, generator(), shortest=2)
    assert {symbol for source, _ in pairs for symbol in source} == set(range(4, 10))
    assert {len(source) for source, _ in pairs} == {2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    "draw",
    [
        lambda one: toy.copy_task(5, 5, 20, one),
        lambda one: toy.reverse_task(5, 5, 20, one),
        lambda one: grammar.sample_sentences(5, one),
        lambda one: grammar.split_sentences(SAMPLE, 5, one)[1],
    ],
)
def test_chance_comes_from_the_generator_alone(draw):
    before, one = torch.get_rng_state(), generator(1)
    first, second = draw(one), draw(one)
    assert draw(generator(1)) == first != second
    assert torch.equal(torch.get_rng_state(), before)


def test_sentences_are_what_the_rules_say():
    for pair in SAMPLE:
        assert " ".join(pair.target) == translate(pair.source)


def test_the_example_in_the_docstring_belongs_to_the_language():
    source, english = re.findall(r"^    (\w.*)$", grammar.__doc__, flags=re.MULTILINE)
    assert translate(tuple(source.split())) == english


def test_the_alignment_is_what_a_dictionary_says():
    for pair in SAMPLE:
        partners = {i: {pair.target[j] for k, j in pair.alignment if k == i} for i in range(len(pair.source))}
        particle = "ek " if "ek" in pair.source else ""
        for i, word in enumerate(pair.source):
            if word in ("ek", pair.source[-1]):
                (verb,) = partners[i]
                assert verb in grammar.VERBS[particle + pair.source[-1]].split()
            elif word == "ne":
                assert partners[i] in ({"do", "not"}, {"does", "not"})
            elif word == "un":
                assert partners[i] == {"a"}
            else:
                assert partners[i] - {"the"} == DICTIONARY[word]


def test_aligned_words_of_two_like_phrases_are_not_crossed():
    pair = next(pair for pair in SAMPLE if pair.source[0] in NOUNS and pair.source.count(pair.source[0]) == 2)
    first, second = (j for j, word in enumerate(pair.target) if word in DICTIONARY[pair.source[0]])
    assert (0, first) in pair.alignment
    assert (0, second) not in pair.alignment


def test_the_task_needs_more_than_word_by_word_translation():
    shapes = dict.fromkeys(("crossing", "two to one", "one to two", "one to one"), 0)
    for pair in SAMPLE:
        links = sorted(pair.alignment)
        shapes["crossing"] += any(i < k and j > m for i, j in links for k, m in links)
        of_source = [sum(i == place for i, _ in links) for place in range(len(pair.source))]
        of_target = [sum(j == place for _, j in links) for place in range(len(pair.target))]
        shapes["two to one"] += 2 in of_target
        shapes["one to two"] += 2 in of_source
        shapes["one to one"] += 1 in of_source
    assert all(count > len(SAMPLE) / 5 for count in shapes.values()), shapes


def test_no_two_sentences_are_alike_and_the_same_source_has_one_translation():
    assert len({pair.source for pair in SAMPLE}) == len(SAMPLE) == 4000


def test_every_word_of_the_tables_turns_up():
    tokeniser = grammar.grammar_tokeniser()
    used = {word for pair in SAMPLE for word in pair.source + pair.target}
    assert used == set(tokeniser.words) - set(SPECIAL_TOKENS)
    assert not {word for pair in SAMPLE for word in pair.source} & {word for pair in SAMPLE for word in pair.target}


def test_text_and_ids_lead_back_to_the_words():
    tokeniser = grammar.grammar_tokeniser()
    for pair in SAMPLE[:200]:
        for words, text in zip((pair.source, pair.target), pair.text, strict=True):
            ids = tokeniser.encode(text)
            assert UNKNOWN not in ids
            assert tuple(tokeniser.tokens(ids)) == words


def test_a_split_shares_no_source_and_loses_none():
    train, held_out = grammar.split_sentences(SAMPLE + SAMPLE[:50], 300, generator(2))
    assert len(held_out) == 300
    assert not {pair.source for pair in train} & {pair.source for pair in held_out}
    assert {pair.source for pair in train + held_out} == {pair.source for pair in SAMPLE}
    assert held_out != SAMPLE[:300]


@pytest.mark.parametrize(
    ("alignment", "side"),
    [
        ({(0, 0), (1, 1), (2, 1)}, "source"),
        ({(0, 0), (1, 1), (1, 2)}, "target"),
        ({(0, 0), (1, 0)}, "target"),
        ({(0, 0), (0, 1)}, "source"),
        ({(0, 0), (1, -1), (1, 1)}, "target"),
    ],
)
def test_an_alignment_that_points_outside_or_misses_a_word_is_refused(alignment, side):
    with pytest.raises(ValueError, match=rf"alignment must use the places 0\.\.1 of {side}, got \["):
        ToyPair(("ek", "vidu"), ("not", "finds"), frozenset(alignment))
