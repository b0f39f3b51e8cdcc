"""Statistics of heads: maps made by hand, loops as oracles, and what padding must not change."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import SOURCE, tiny_model
from torch import Tensor
from torch.nn.functional import pad

from transformer_lib import head_statistics as statistics
from transformer_lib import masks, observe

N = 6
DIAGONAL = torch.eye(N)
PREVIOUS = torch.cat([torch.eye(N)[:1], torch.eye(N)[:-1]])  # the first looks at itself
FIRST = torch.eye(N)[:1].expand(N, N)
UNIFORM = torch.full((N, N), 1 / N)
CAUSAL = torch.ones(N, N).tril() / torch.arange(1, N + 1).unsqueeze(1)
MAPS = torch.stack([DIAGONAL, PREVIOUS, FIRST, UNIFORM, CAUSAL]).unsqueeze(0)


def random_weights(batch: int, heads: int, query: int, key: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(batch, heads, query, key, generator=generator)).softmax(dim=-1)


def test_entropy_by_hand():
    harmonic = sum(math.log(n) for n in range(1, N + 1)) / N
    torch.testing.assert_close(statistics.entropy(MAPS), torch.tensor([0, 0, 0, math.log(N), harmonic]))


def test_normalised_entropy_by_hand_and_by_mask():
    torch.testing.assert_close(statistics.normalised_entropy(MAPS)[:4], torch.tensor([0.0, 0.0, 0.0, 1.0]))
    causal = statistics.normalised_entropy(MAPS[:, [1, 4]], masks.causal_mask(N))
    torch.testing.assert_close(causal, torch.tensor([0.0, 1.0]))  # the first query has no choice and doesn't count


def test_mean_distance_by_hand():
    expected = [0, 5 / 6, 2.5, sum(abs(i - j) for i in range(N) for j in range(N)) / N**2, 2.5 / 2]
    torch.testing.assert_close(statistics.mean_distance(MAPS), torch.tensor(expected))


def test_weight_at_offset_by_hand():
    def at(offset: int) -> Tensor:
        return statistics.weight_at_offset(MAPS, offset)

    mean = sum(1 / n for n in range(1, N + 1)) / N
    torch.testing.assert_close(at(0), torch.tensor([1, 1 / 6, 1 / 6, 1 / 6, mean]))
    torch.testing.assert_close(at(-1), torch.tensor([0, 1, 1 / 5, 1 / 6, (mean * N - 1) / 5]))
    torch.testing.assert_close(at(1), torch.tensor([0, 0, 0, 1 / 6, 0]))
    torch.testing.assert_close(at(-5), torch.tensor([0, 0, 1, 1 / 6, 1 / 6]))
    with pytest.raises(ValueError, match="at least one query must count"):
        at(6)


def test_weight_on_keys_by_hand():
    keys = torch.zeros(1, N, dtype=torch.bool)
    keys[0, [0, 5]] = True
    expected = [1 / 3, 1 / 3, 1, 1 / 3, sum(1 / n for n in range(1, N + 1)) / N + 1 / 36]
    torch.testing.assert_close(statistics.weight_on_keys(MAPS, keys), torch.tensor(expected))


def test_similarity_by_hand():
    found = statistics.similarity(MAPS)
    torch.testing.assert_close(found.diagonal(), torch.ones(5))
    torch.testing.assert_close(found, found.T)
    assert found[0, 1].item() == pytest.approx(1 / 6) and found[0, 2].item() == pytest.approx(1 / 6)
    middle = torch.full((N,), 1 / (2 * N))  # of a row of the diagonal and an even one
    middle[0] += 1 / 2
    divergence = -(middle * middle.log()).sum() - math.log(N) / 2
    assert found[0, 3].item() == pytest.approx(1 - divergence.item() / math.log(2), rel=1e-5)


def test_correlation_by_hand():
    found = statistics.correlation(MAPS[:, :4])
    torch.testing.assert_close(found[3], torch.zeros(4))
    torch.testing.assert_close(found.diagonal()[:3], torch.ones(3))
    # rows of two places: r is 1 where they are the same, -1 / (N - 1) where not; one row in six is the same
    assert found[0, 1].item() == pytest.approx((1 - 5 / (N - 1)) / 6, abs=1e-6)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(2, 5), st.integers(2, 6), st.integers(0, 99))
def test_all_agree_with_loops(batch, heads, query, key, seed):
    weights = random_weights(batch, heads, query, key, seed)
    rows = weights.double()
    per_head = [[rows[b, h, q] for b in range(batch) for q in range(query)] for h in range(heads)]
    entropies = [sum(-(p * p.log()).sum().item() for p in own) / len(own) for own in per_head]
    assert statistics.entropy(weights).tolist() == pytest.approx(entropies, rel=1e-4)
    assert statistics.normalised_entropy(weights).tolist() == pytest.approx(
        [value / math.log(key) for value in entropies], rel=1e-4
    )
    distances = [
        sum(float(rows[b, h, i, j]) * abs(i - j) for b in range(batch) for i in range(query) for j in range(key))
        / (batch * query)
        for h in range(heads)
    ]
    assert statistics.mean_distance(weights).tolist() == pytest.approx(distances, rel=1e-4)
    alike = statistics.similarity(weights)
    for g in range(heads):
        for h in range(heads):
            value = 0.0
            for one, other in zip(per_head[g], per_head[h], strict=True):
                middle = (one + other) / 2
                value += 0.5 * float((one * (one / middle).log()).sum() + (other * (other / middle).log()).sum())
            assert alike[g, h].item() == pytest.approx(1 - value / len(per_head[g]) / math.log(2), abs=1e-5)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(2, 5), st.integers(0, 99))
def test_correlation_agrees_with_corrcoef(batch, heads, query, seed):
    weights = random_weights(batch, heads, query, 5, seed)
    flat = weights.transpose(0, 1).flatten(start_dim=1)  # rows sum to 1, so that each row's mean is that of all
    expected = torch.corrcoef(flat) if heads > 1 else torch.ones(1, 1)
    torch.testing.assert_close(statistics.correlation(weights), expected, atol=1e-5, rtol=1e-4)


ALL = {
    "entropy": lambda w, mask, queries: statistics.entropy(w, queries),
    "normalised_entropy": statistics.normalised_entropy,
    "mean_distance": lambda w, mask, queries: statistics.mean_distance(w, queries),
    "weight_at_offset": lambda w, mask, queries: statistics.weight_at_offset(w, -1, queries),
    "weight_on_keys": lambda w, mask, queries: statistics.weight_on_keys(
        w, mask[:, 0, 0] & (torch.arange(w.size(3)) < 2), queries
    ),
    "similarity": lambda w, mask, queries: statistics.similarity(w, queries),
    "correlation": statistics.correlation,
}


@pytest.mark.parametrize("name", ALL)
def test_padding_changes_nothing(name):
    """A padded sentence counts as if it were alone: same statistics, and as many queries as it has words."""
    model = tiny_model(3)
    long, short = SOURCE[:1], SOURCE[1:2, :2]
    with observe.record_attention(model) as weights:
        for tokens in (SOURCE[:2], long, short, short):
            model.encode(tokens)
    together, *alone = weights["encoder.layers.0.self_attention"]
    padded = [pad(one, (0, 5 - one.size(3), 0, 5 - one.size(2))) for one in alone[:2]]
    real = SOURCE[:2] != 0
    mask = real[:, None, None, :]
    found = ALL[name](together, mask, real)
    torch.testing.assert_close(found, ALL[name](torch.cat(padded), mask, real), atol=1e-5, rtol=1e-4)
    if name != "correlation":  # a mean over queries: five of the long sentence, two of the short one
        counts = (4, 1) if name == "weight_at_offset" else (5, 2)
        parts = [ALL[name](w, torch.ones(1, 1, 1, w.size(3)).bool(), None) for w in alone[:2]]
        mean = sum(n * part for n, part in zip(counts, parts, strict=True)) / sum(counts)
        torch.testing.assert_close(found, mean, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found, ALL[name](together, mask, None), atol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_queries_that_attend_to_nothing_do_not_count(name):
    weights = random_weights(2, 3, 4, 4)
    none = weights.clone()
    none[:, :, 2] = 0.0
    queries, mask = torch.ones(2, 4, dtype=torch.bool), torch.ones(2, 1, 1, 4, dtype=torch.bool)
    queries[:, 2] = False
    torch.testing.assert_close(ALL[name](none, mask, None), ALL[name](weights, mask, queries))


@given(st.integers(0, 99), st.permutations(range(4)))
def test_statistics_follow_the_heads_and_not_the_batch(seed, order):
    weights = random_weights(4, 4, 3, 3, seed)
    mask, queries = torch.ones(4, 1, 1, 3, dtype=torch.bool), torch.ones(4, 3, dtype=torch.bool)
    for call in ALL.values():
        found = call(weights, mask, queries)
        torch.testing.assert_close(call(weights[order], mask, queries), found)
        moved = found[order] if found.dim() == 1 else found[order][:, order]
        torch.testing.assert_close(call(weights[:, order], mask, queries), moved)
