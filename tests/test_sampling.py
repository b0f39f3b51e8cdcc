"""Sampling: what stays possible by hand and by loop, how often it comes by chi-square, chance from the generator."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import SOURCE, tiny_model
from torch import Tensor

from transformer_lib import decoding, fast, sampling
from transformer_lib.data import END, PADDING, START
from transformer_lib.model import Transformer

logits = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 0.5, 3.0, -math.inf]), min_size=1, max_size=9).filter(
    lambda row: max(row) > -math.inf
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def kept(row: Tensor) -> list[int]:
    """Return the ids that are still possible."""
    return [i for i, value in enumerate(row.tolist()) if value > -math.inf]


def by_rank(row: list[float]) -> list[int]:
    """Return the ids, likeliest first; among equals the lower id first."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


# temperature


@given(logits, st.sampled_from([0.1, 0.5, 1.0, 2.0, 30.0]))
def test_temperature_raises_probabilities_to_a_power(row, temperature):
    found = sampling.temperature_logits(torch.tensor(row), temperature).softmax(dim=-1)
    powers = torch.tensor(row).double().softmax(dim=-1) ** (1 / temperature)
    torch.testing.assert_close(found.double(), powers / powers.sum(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 5e-324])
def test_as_the_temperature_falls_to_0_only_the_likeliest_is_left(temperature):
    rows = torch.tensor([[0.0, 2.0, 1.9], [-math.inf, -300.0, -301.0]])
    nothing_else = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    for value in (temperature, 0.0):
        torch.testing.assert_close(sampling.temperature_logits(rows, value).softmax(dim=-1), nothing_else)


def test_at_temperature_0_the_first_of_equals_is_left_as_argmax_has_it():
    row = torch.tensor([1.0, 4.0, 4.0, 4.0])
    assert kept(sampling.temperature_logits(row, 0.0)) == [1] == [int(row.argmax())]


# top-k and top-p


@given(logits, st.integers(1, 12))
def test_top_k_keeps_the_first_k_by_rank_as_they_were(row, k):
    found = sampling.top_k_logits(torch.tensor(row), k)
    possible = [i for i in by_rank(row)[:k] if row[i] > -math.inf]
    assert kept(found) == sorted(possible)
    assert all(found[i] == row[i] for i in possible)


@given(logits, st.floats(0.01, 1.0))
def test_top_p_keeps_the_shortest_list_by_rank_that_reaches_p(row, p):
    probability = torch.tensor(row).double().softmax(dim=-1).tolist()
    nucleus, mass = [], 0.0
    for i in by_rank(row):
        if mass < p or p == 1:
            nucleus.append(i)
            mass += probability[i]
    found = sampling.top_p_logits(torch.tensor(row), p)
    assert kept(found) == sorted(i for i in nucleus if row[i] > -math.inf)
    assert all(found[i] == row[i] for i in kept(found))


@pytest.mark.parametrize(
    ("p", "nucleus"),
    [
        (0.01, [2]),
        (0.5, [2]),
        (0.51, [0, 2]),
        (0.75, [0, 2]),
        (0.76, [0, 1, 2]),
        (0.88, [0, 1, 2, 4]),
        (1.0, [0, 1, 2, 4]),
    ],
)
def test_the_nucleus_by_hand(p, nucleus):
    """Probabilities that floating point holds exactly: 1/4, 1/8, 1/2, 0, 1/8; the first of two eighths comes first."""
    row = torch.tensor([2.0, 1.0, 4.0, 0.0, 1.0]).log()
    assert kept(sampling.top_p_logits(row, p)) == nucleus


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_p_of_1_keeps_what_rounding_would_drop(dtype):
    row = torch.linspace(0, -30, 1000, dtype=dtype)
    assert len(kept(sampling.top_p_logits(row, 1.0))) == 1000
    assert sampling.top_p_logits(row, 0.9).dtype == dtype


def test_rows_of_a_batch_do_not_meet():
    rows = torch.randn(2, 3, 7)
    for call in (
        lambda x: sampling.temperature_logits(x, 0.7),
        lambda x: sampling.top_k_logits(x, 3),
        lambda x: sampling.top_p_logits(x, 0.6),
    ):
        alone = torch.stack([call(row) for row in rows.flatten(0, 1)]).view_as(rows)
        torch.testing.assert_close(call(rows), alone)


# sampling from a model


@torch.no_grad()
def exact(model: Transformer, source: Tensor, keep) -> dict[tuple[int, ...], float]:
    """Return the probability of each target of at most two tokens, END included, from uncached passes."""
    found: dict[tuple[int, ...], float] = {}

    def next_probability(prefix: list[int]) -> list[float]:
        row = model(source, torch.tensor([[START, *prefix]]))[0, -1]
        row[[PADDING, START]] = -math.inf
        return keep(row).softmax(dim=-1).tolist()

    for first, p in enumerate(next_probability([])):
        if first == END:
            found[()] = p
        elif p:
            for second, q in enumerate(next_probability([first])):
                target = (first,) if second == END else (first, second)
                found[target] = found.get(target, 0.0) + p * q
    return found


@pytest.mark.parametrize(
    ("options", "keep"),
    [
        ({}, lambda row: row),
        ({"temperature": 0.5}, lambda row: row / 0.5),
        ({"k": 3}, lambda row: row.masked_fill(row < row.topk(3).values[-1], -math.inf)),
        (
            {"temperature": 2.0, "k": 4, "p": 0.7},
            lambda row: sampling.top_p_logits(sampling.top_k_logits(row / 2, 4), 0.7),
        ),
    ],
    ids=["all", "cold", "top 3", "all three"],
)
def test_targets_come_as_often_as_their_probability_says(options, keep):
    """Chi-square over all targets of at most two tokens; the limit is its mean plus five standard deviations."""
    model, source, draws = tiny_model(1, sharpness=1.0, vocabulary=7), torch.tensor([[4, 5, 6]]), 4000
    expected = {target: draws * p for target, p in exact(model, source, keep).items() if p > 0}
    drawn = sampling.sample(model, source.expand(draws, -1), generator(), max_length=2, **options)
    counts = Counter(tuple(target) for target in drawn)
    assert counts.keys() <= expected.keys() and len(expected) >= 5
    assert sum(expected.values()) == pytest.approx(draws)
    surprise = sum((counts[target] - wanted) ** 2 / wanted for target, wanted in expected.items())
    freedom = len(expected) - 1
    assert surprise < freedom + 5 * math.sqrt(2 * freedom)


def test_the_chi_square_test_would_notice_another_temperature():
    model, source, draws = tiny_model(1, sharpness=1.0, vocabulary=7), torch.tensor([[4, 5, 6]]), 4000
    expected = {target: draws * p for target, p in exact(model, source, lambda row: row / 0.8).items() if p > 0}
    counts = Counter(map(tuple, sampling.sample(model, source.expand(draws, -1), generator(), max_length=2)))
    surprise = sum((counts[target] - wanted) ** 2 / wanted for target, wanted in expected.items())
    assert surprise > 2 * len(expected)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"temperature": 1e-4}, {"k": 1}, {"p": 1e-6}], ids=str)
def test_without_a_choice_it_is_greedy_decoding(options):
    for seed in range(4):
        model = tiny_model(seed)
        assert sampling.sample(model, SOURCE, generator(seed), max_length=8, **options) == decoding.greedy(
            model, SOURCE, 8
        )


def test_chance_comes_from_the_generator_alone():
    model, state, one = tiny_model(), torch.get_rng_state(), generator(3)
    first, second = (sampling.sample(model, SOURCE, one, temperature=2.0) for _ in range(2))
    assert sampling.sample(model, SOURCE, generator(3), temperature=2.0) == first != second
    assert torch.get_rng_state().equal(state)


def test_a_sample_ends_at_end_at_the_limit_or_at_the_models_positions():
    model = tiny_model(2, sharpness=1.0)
    for limit in (1, 4, 99):
        found = sampling.sample(model, SOURCE.repeat(40, 1), generator(), max_length=limit)
        assert max(map(len, found)) == min(limit, 20)
        assert all(token not in (PADDING, START, END) for row in found for token in row)
    assert min(map(len, found)) < 5


def test_the_fast_forms_draw_the_same():
    model = tiny_model(4)
    clear = sampling.sample(model, SOURCE, generator(), max_length=8)
    with fast.enabled():
        assert sampling.sample(model, SOURCE, generator(), max_length=8) == clear


def test_a_warmer_model_says_more_different_things():
    model = tiny_model(5)
    kinds = []
    for temperature in (0.0, 0.5, 1.0, 4.0):
        found = sampling.sample(model, SOURCE[:1].repeat(200, 1), generator(), temperature=temperature, max_length=4)
        kinds.append(len(set(map(tuple, found))))
    assert kinds[0] == 1 and kinds == sorted(kinds) and kinds[1] < kinds[3]
