"""Toy tasks for one ability each: the answer by a loop, every symbol in use, chance from the generator alone."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib import toy_tasks as toy
from transformer_lib.data import Batch
from transformer_lib.toy_tasks import FIRST_SYMBOL, NOTHING, QUESTION


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


sizes = st.tuples(st.integers(1, 12), st.integers(8, 40), st.integers(0, 9))


@given(sizes, st.integers(1, 11))
def test_recall_asks_for_the_one_symbol_among_fillers(size, distance):
    length, vocabulary, seed = size
    length = max(length, distance + 1)
    symbols = range(QUESTION + 1, QUESTION + 1 + (vocabulary - QUESTION) // 2)
    for source, target in toy.recall_task(20, length, distance, vocabulary, generator(seed)):
        assert len(source) == length and source[-1] == QUESTION and max(source) < vocabulary
        assert [(i, symbol) for i, symbol in enumerate(source) if symbol in symbols] == [
            (length - 1 - distance, target[0])
        ]
        assert source.count(QUESTION) == len(target) == 1


@given(sizes)
def test_sort_and_rank_have_the_right_answers(size):
    length, vocabulary, seed = size
    for source, target in toy.sort_task(20, length, vocabulary, generator(seed)):
        assert target == sorted(source) and min(source) >= FIRST_SYMBOL and max(source) < vocabulary
    vocabulary = max(vocabulary, FIRST_SYMBOL + length)
    for source, target in toy.rank_task(20, length, vocabulary, generator(seed)):
        assert target == [FIRST_SYMBOL + sum(other < own for other in source) for own in source]
        assert max(source + target) < vocabulary


@given(sizes, st.integers(1, 14))
def test_shift_answers_what_stood_so_many_places_before(size, offset):
    length, vocabulary, seed = size
    for source, target in toy.shift_task(20, length, vocabulary, generator(seed), offset=offset):
        assert target == [source[i - offset] if i >= offset else NOTHING for i in range(length)]


@given(sizes, st.permutations(range(1, 6)))
def test_two_relations_answer_with_the_difference(size, offsets):
    length, vocabulary, seed = size
    first, second = offsets[:2]
    n = (vocabulary - FIRST_SYMBOL + 1) // 2
    for source, target in toy.two_relations_task(20, length, vocabulary, generator(seed), offsets=(first, second)):
        for i, answer in enumerate(target):
            if i < max(first, second):
                assert answer == NOTHING
            else:
                assert answer == FIRST_SYMBOL + n - 1 + source[i - first] - source[i - second]
        assert FIRST_SYMBOL <= min(source) <= max(source) < FIRST_SYMBOL + n and max(target) < vocabulary


DRAWS = {
    "recall": lambda one: toy.recall_task(300, 6, 3, 13, one),
    "two relations": lambda one: toy.two_relations_task(300, 6, 20, one),
    "sort": lambda one: toy.sort_task(300, 6, 12, one),
    "rank": lambda one: toy.rank_task(300, 6, 12, one),
    "shift": lambda one: toy.shift_task(300, 6, 12, one, offset=2),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_chance_comes_from_the_generator_alone(draw):
    before, one = torch.get_rng_state(), generator(1)
    first, second = draw(one), draw(one)
    assert draw(generator(1)) == first != second
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize(
    ("name", "symbols"),
    [("recall", range(5, 13)), ("two relations", range(4, 12)), ("sort", range(4, 12)), ("rank", range(4, 12))],
)
def test_all_symbols_are_drawn_and_none_more_often_than_others(name, symbols):
    places = [symbol for source, _ in DRAWS[name](generator()) for symbol in source if symbol in symbols]
    counts = Counter(places)
    assert counts.keys() == set(symbols)
    if name != "recall":  # there symbols are rarer than fillers
        assert max(counts.values()) < 1.5 * min(counts.values())


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_the_pairs_make_batches(draw):
    pairs = draw(generator())
    batch = Batch.from_pairs(pairs)
    assert batch.source.tolist() == [list(source) for source, _ in pairs]
    assert batch.labels[:, :-1].tolist() == [list(target) for _, target in pairs]


def test_two_relations_use_all_answers():
    answers = {answer for _, target in DRAWS["two relations"](generator()) for answer in target}
    assert answers == {NOTHING, *range(FIRST_SYMBOL, 19)}  # 8 symbols, 15 answers
