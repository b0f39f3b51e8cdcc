"""Relative positions by the properties that the chapter claims, and against the rules as published."""

import math
from fractions import Fraction

import pytest
import torch
import twins
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer_lib import attention, masks, multi_head, relative
from transformer_lib.positional import PositionScheme

BATCH, HEADS, LENGTH, D_K = 2, 4, 7, 6


def vectors(length: int = LENGTH, heads: int = HEADS, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(BATCH, heads, length, D_K, dtype=dtype)


def drawn(scheme: PositionScheme) -> PositionScheme:
    scheme = scheme.double()
    twins.randomise(scheme)
    return scheme


SCHEMES = {
    "rotary": lambda: relative.RotaryPositions(D_K),
    "alibi": lambda: relative.LinearBias(HEADS),
    "t5": lambda: relative.BucketBias(HEADS, buckets=8, max_distance=5),
    "t5-causal": lambda: relative.BucketBias(HEADS, buckets=6, max_distance=5, bidirectional=False),
    "shaw": lambda: relative.ShawPositions(D_K, max_distance=3),
}
schemes = pytest.mark.parametrize("name", SCHEMES)


def scores(scheme: PositionScheme, query: Tensor, key: Tensor, first: int = 0) -> Tensor:
    """Return the scores of queries that begin at position `first` with keys that begin at 0."""
    made = attention.attention_scores(scheme.rotate(query, first), scheme.rotate(key, 0))
    bias = scheme.bias(query, key.size(2), first)
    return made if bias is None else made + bias


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 4))
def test_offsets_count_from_the_query_to_the_key(queries, keys, first):
    offsets = relative.key_offsets(vectors(queries), keys, first)
    assert offsets.tolist() == [[key - (first + query) for key in range(keys)] for query in range(queries)]


@schemes
def test_a_score_depends_on_vectors_and_offset_alone(name):
    scheme = drawn(SCHEMES[name]())
    query, key = (torch.randn(1, HEADS, 1, D_K, dtype=torch.float64) for _ in range(2))
    made = scores(scheme, query.expand(-1, -1, LENGTH, -1), key.expand(-1, -1, LENGTH, -1))
    for offset in range(-LENGTH + 1, LENGTH):
        diagonal = made.diagonal(offset, dim1=-2, dim2=-1)
        torch.testing.assert_close(diagonal, diagonal[..., :1].expand_as(diagonal))
    far = made[0, 0, :, 0]  # the same pair of vectors at distances 0, 1, ...
    assert not torch.allclose(far[:2], far[1:3])


@schemes
@given(first=st.integers(0, 5), queries=st.integers(1, 3))
def test_queries_that_begin_later_are_rows_of_the_whole(name, first, queries):
    scheme, query, key = drawn(SCHEMES[name]()), vectors(first + queries), vectors(first + queries)
    torch.testing.assert_close(
        scores(scheme, query[:, :, first:], key, first), scores(scheme, query, key)[:, :, first:]
    )


@schemes
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_with_a_cache_any_cut_gives_the_same_outputs(name, sizes):
    d_model, total = HEADS * D_K, sum(sizes)
    ours = multi_head.MultiHeadAttention(d_model, HEADS, position=SCHEMES[name]()).double()
    twins.randomise(ours)
    x = torch.randn(BATCH, total, d_model, dtype=torch.float64)
    whole, cache, parts = ours(x, x, masks.causal_mask(total)), multi_head.KeyValueCache(), []
    for part in x.split(sizes, dim=1):
        parts.append(ours(part, part, masks.causal_mask(part.size(1), cache.first), cache))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


@schemes
def test_a_query_with_nothing_to_attend_to_gives_zeros(name):
    ours = multi_head.MultiHeadAttention(HEADS * D_K, HEADS, position=SCHEMES[name]()).double()
    x = torch.randn(BATCH, LENGTH, HEADS * D_K, dtype=torch.float64, requires_grad=True)
    mask = masks.causal_mask(LENGTH)
    mask[3] = False
    output = ours(x, x, mask)
    assert (output[:, 3] == 0).all() and (output[:, 2] != 0).all()
    assert all(gradient.isfinite().all() for gradient in twins.gradients(output, [x, *ours.parameters()]))


@schemes
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_dtypes_stay_as_they_are(name, dtype):
    scheme, x = SCHEMES[name]().to(dtype), vectors(dtype=dtype)
    bias = scheme.bias(x, LENGTH, 0)
    assert scheme.rotate(x, 0).dtype == dtype and (bias is None or bias.dtype == dtype)


@schemes
def test_under_autocast_the_attention_is_the_same_but_for_rounding(name):
    ours = multi_head.MultiHeadAttention(HEADS * D_K, HEADS, position=SCHEMES[name]())
    x = torch.randn(BATCH, LENGTH, HEADS * D_K, requires_grad=True)
    exact = ours(x, x, masks.causal_mask(LENGTH))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = ours(x, x, masks.causal_mask(LENGTH))
    assert rounded.dtype == torch.bfloat16
    assert (rounded - exact).norm() < 0.02 * exact.norm()
    mine, other = (twins.gradients(y.float(), [x])[0] for y in (rounded, exact))
    assert (mine - other).norm() < 0.03 * other.norm()


@schemes
def test_what_is_learnt_gets_a_gradient(name):
    scheme = drawn(SCHEMES[name]())
    query, key = vectors().requires_grad_(), vectors().requires_grad_()
    for gradient in twins.gradients(scores(scheme, query, key), [query, key, *scheme.parameters()]):
        assert gradient.abs().sum() > 0


@pytest.mark.cuda
@schemes
def test_the_gpu_gives_the_same_scores(name):
    scheme, query, key = drawn(SCHEMES[name]()), vectors(), vectors()
    expected = scores(scheme, query, key, 2)
    torch.testing.assert_close(scores(scheme.cuda(), query.cuda(), key.cuda(), 2).cpu(), expected)


# rotary


@pytest.mark.parametrize("base", [100.0, 10000.0])
def test_rotation_turns_each_pair_by_its_angle(base):
    x, first = vectors(), 5
    turned = relative.RotaryPositions(D_K, base).rotate(x, first)
    for position in range(LENGTH):
        for i in range(D_K // 2):
            angle = (first + position) * base ** (-2 * i / D_K)
            a, b = x[..., position, 2 * i], x[..., position, 2 * i + 1]
            torch.testing.assert_close(turned[..., position, 2 * i], a * math.cos(angle) - b * math.sin(angle))
            torch.testing.assert_close(turned[..., position, 2 * i + 1], a * math.sin(angle) + b * math.cos(angle))


@given(st.integers(0, 10_000))
def test_rotation_keeps_lengths(first):
    x = vectors()
    torch.testing.assert_close(relative.RotaryPositions(D_K).rotate(x, first).norm(dim=-1), x.norm(dim=-1))


@given(st.integers(0, 2000), st.integers(0, 300), st.integers(0, 300))
def test_a_shift_of_query_and_key_changes_no_score(shift, query_at, key_at):
    scheme, query, key = relative.RotaryPositions(D_K), vectors(1), vectors(1)
    here = (scheme.rotate(query, query_at) * scheme.rotate(key, key_at)).sum(-1)
    there = (scheme.rotate(query, query_at + shift) * scheme.rotate(key, key_at + shift)).sum(-1)
    torch.testing.assert_close(there, here)


def test_position_0_stays_as_it_is():
    x = vectors(1)
    assert relative.RotaryPositions(D_K).rotate(x, 0).equal(x)


def test_a_model_in_half_precision_still_knows_its_angles():
    scheme, x = relative.RotaryPositions(D_K).bfloat16(), vectors(dtype=torch.bfloat16)
    exact = relative.RotaryPositions(D_K).rotate(x.double(), 4001)
    torch.testing.assert_close(scheme.rotate(x, 4001).double(), exact, atol=0.03, rtol=0.01)


def test_nothing_about_rotation_or_linear_biases_is_stored_in_a_checkpoint():
    assert not relative.RotaryPositions(D_K).state_dict() and not relative.LinearBias(HEADS).state_dict()


# linear biases


@pytest.mark.parametrize("heads", [1, 2, 4, 8, 16, 32])
def test_slopes_are_the_papers_where_heads_are_a_power_of_two(heads):
    slopes = relative.linear_slopes(heads)
    assert slopes == pytest.approx([2 ** (-8 * h / heads) for h in range(1, heads + 1)], rel=1e-12)
    assert slopes[-1] == 2**-8


def test_slopes_of_eight_heads_are_the_ones_that_the_paper_writes_out():
    assert relative.linear_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


@pytest.mark.parametrize("heads", [3, 5, 6, 7, 12, 20, 31])
def test_slopes_between_powers_of_two_come_from_both_neighbours(heads):
    slopes, below = relative.linear_slopes(heads), 1 << int(math.log2(heads))
    assert len(slopes) == heads == len(set(slopes)) and all(0 < slope < 1 for slope in slopes)
    assert slopes[:below] == relative.linear_slopes(below)
    assert slopes[below:] == relative.linear_slopes(2 * below)[::2][: heads - below]


@given(st.integers(1, 12), st.integers(1, 5), st.integers(1, 9), st.integers(0, 5))
def test_each_heads_score_falls_by_its_slope_with_each_position(heads, queries, keys, first):
    bias = relative.LinearBias(heads).bias(vectors(queries, heads), keys, first)
    assert bias.shape == (heads, queries, keys)
    for head, slope in enumerate(relative.linear_slopes(heads)):
        expected = [[-slope * abs(key - first - query) for key in range(keys)] for query in range(queries)]
        torch.testing.assert_close(bias[head], torch.tensor(expected, dtype=torch.float64))


# buckets


def published_bucket(offset: int, buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Return the bucket by the description in the paper, in whole numbers, one offset at a time.

    Beyond the first half of a direction's share, bucket `exact` + k begins at the distance exact * ratio^(k / steps).
    """
    share = buckets // 2 if bidirectional else buckets
    exact = share // 2
    start = share if bidirectional and offset > 0 else 0
    distance = abs(offset) if bidirectional else max(-offset, 0)
    if distance < exact:
        return start + distance
    steps, ratio = share - exact, Fraction(max_distance, exact)
    begun = [k for k in range(steps) if Fraction(distance, exact) ** steps >= ratio**k]
    return start + exact + max(begun)


BUCKETS = [(32, 128, True), (32, 128, False), (8, 20, True), (7, 50, False), (2, 2, False), (4, 2, True)]


@pytest.mark.parametrize(("buckets", "max_distance", "bidirectional"), BUCKETS)
def test_buckets_follow_the_published_rule(buckets, max_distance, bidirectional):
    offsets = torch.arange(-300, 301).unsqueeze(0)
    ours = relative.distance_buckets(offsets, buckets, max_distance, bidirectional)
    expected = [published_bucket(offset, buckets, max_distance, bidirectional) for offset in offsets[0].tolist()]
    assert ours[0].tolist() == expected
    unused = {buckets // 2} if bidirectional else set()  # that would be distance 0 after the query
    assert set(expected) == set(range(buckets)) - unused


def test_buckets_of_the_published_sizes_at_the_distances_where_they_change():
    """The numbers that T5's code gives for 32 buckets and 128 positions, written down by hand."""
    distances = [0, 1, 7, 8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 10_000]
    both = [0, 1, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 15, 15]
    before = relative.distance_buckets(-torch.tensor([distances]), 32, 128, True)
    after = relative.distance_buckets(torch.tensor([distances[1:]]), 32, 128, True)
    assert before[0].tolist() == both and after[0].tolist() == [16 + bucket for bucket in both[1:]]
    causal = relative.distance_buckets(-torch.tensor([[0, 15, 16, 18, 19, 127, 128, 999]]), 32, 128, False)
    assert causal[0].tolist() == [0, 15, 16, 16, 17, 31, 31, 31]
    assert relative.distance_buckets(torch.tensor([[1, 50]]), 32, 128, False)[0].tolist() == [0, 0]


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_bias_is_the_number_of_each_heads_bucket(bidirectional):
    scheme, first, keys = drawn(relative.BucketBias(HEADS, 8, 6, bidirectional)), 3, 9
    bias = scheme.bias(vectors(), keys, first)
    for head in range(HEADS):
        for query in range(LENGTH):
            for key in range(keys):
                bucket = published_bucket(key - first - query, 8, 6, bidirectional)
                assert bias[head, query, key] == scheme.table[bucket, head]


def test_one_table_may_serve_several_attentions():
    shared = relative.BucketBias(HEADS)
    parts = torch.nn.ModuleList(multi_head.MultiHeadAttention(HEADS * D_K, HEADS, position=shared) for _ in range(2))
    assert sum(parameter is shared.table for parameter in parts.parameters()) == 1


def test_only_buckets_for_one_direction_are_for_causal_attention_only():
    marked = [name for name, make in SCHEMES.items() if make().causal_only]
    assert marked == ["t5-causal"]


# vectors of offsets


@pytest.mark.parametrize(("max_distance", "first"), [(1, 0), (3, 0), (3, 4), (20, 0)])
def test_vectors_of_offsets_agree_with_a_loop_over_pairs(max_distance, first):
    scheme, query, keys = drawn(relative.ShawPositions(D_K, max_distance)), vectors(), 9
    bias = scheme.bias(query, keys, first)
    assert scheme.table.shape == (2 * max_distance + 1, D_K) and bias.shape == (BATCH, HEADS, LENGTH, keys)
    for i in range(LENGTH):
        for j in range(keys):
            offset = min(max(j - (first + i), -max_distance), max_distance)
            expected = query[:, :, i] @ scheme.table[max_distance + offset] / math.sqrt(D_K)
            torch.testing.assert_close(bias[:, :, i, j], expected)


def test_vectors_of_offsets_count_as_part_of_the_key():
    scheme, query, key = drawn(relative.ShawPositions(D_K, 2)), vectors(), vectors()
    offsets = relative.key_offsets(query, LENGTH, 0).clamp(-2, 2) + 2
    keys = key.unsqueeze(2) + scheme.table[offsets]  # [batch heads query key d_k]
    expected = torch.einsum("bhqd,bhqkd->bhqk", query, keys) / math.sqrt(D_K)
    torch.testing.assert_close(scores(scheme, query, key), expected)
