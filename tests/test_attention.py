"""Attention against torch's own, against a loop, and by what must hold for any weights."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from twins import gradients

from transformer_lib import attention

BATCH, HEADS, QUERIES, KEYS, D_K, D_V = 2, 3, 4, 5, 6, 7


def masks() -> dict[str, torch.Tensor | None]:
    drawn = torch.rand(BATCH, HEADS, QUERIES, KEYS) > 0.4
    drawn[..., 0] = True
    empty_row = drawn.clone()
    empty_row[1, 2, 3] = False
    return {
        "none": None,
        "all allowed": torch.ones(QUERIES, KEYS, dtype=torch.bool),
        "2-D": drawn[0, 0],
        "padding": drawn[:, :1, :1],
        "per head": drawn[:, :, :1],
        "per query": drawn[:1, :1],
        "one key": drawn[:1, :1, :, :1],
        "full": drawn,
        "a row with nothing": empty_row,
        "nothing at all": torch.zeros(QUERIES, KEYS, dtype=torch.bool),
    }


def inputs(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    sizes = [(QUERIES, D_K), (KEYS, D_K), (KEYS, D_V)]
    return [torch.randn(BATCH, HEADS, *size, dtype=dtype, requires_grad=True) for size in sizes]


@pytest.mark.parametrize("name", masks())
def test_attend_agrees_with_torch_forward_and_backward(name):
    query, key, value = inputs()
    mask = masks()[name]
    ours = attention.attend(query, key, value, mask)
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(gradients(ours, [query, key, value]), gradients(theirs, [query, key, value]), strict=True):
        assert mine.isfinite().all()
        torch.testing.assert_close(mine, other)


def test_attend_works_without_batch_dimensions_and_with_one():
    query, key, value = inputs()
    whole = attention.attend(query, key, value)
    torch.testing.assert_close(attention.attend(query[1, 2], key[1, 2], value[1, 2]), whole[1, 2])
    torch.testing.assert_close(attention.attend(query[1], key[1], value[1]), whole[1])


def test_scores_are_scaled_dot_products():
    query, key, _ = inputs()
    scores = attention.attention_scores(query, key)
    numbers = zip(query[1, 2, 3].tolist(), key[1, 2, 4].tolist(), strict=True)
    by_hand = sum(a * b for a, b in numbers) / math.sqrt(D_K)
    assert scores[1, 2, 3, 4].item() == pytest.approx(by_hand)


@pytest.mark.parametrize("d_k", [4, 64, 1024])
def test_scores_of_random_vectors_have_a_deviation_of_one_at_any_width(d_k):
    query, key = torch.randn(2, 200, d_k)
    assert attention.attention_scores(query, key).std().item() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("name", [name for name, mask in masks().items() if mask is not None])
def test_weights_are_zero_where_forbidden_and_sum_to_one_elsewhere(name):
    query, key, _ = inputs()
    mask = masks()[name]
    weights = attention.attention_weights(query, key, mask)
    allowed = mask.expand_as(weights)
    assert (weights[~allowed] == 0).all() and (weights[allowed] > 0).all()
    torch.testing.assert_close(weights.sum(-1), allowed.any(-1).to(weights.dtype))


def test_attention_weights_are_the_softmax_of_the_scores():
    query, key, _ = inputs()
    torch.testing.assert_close(
        attention.attention_weights(query, key), attention.attention_scores(query, key).softmax(dim=-1)
    )


def test_a_row_with_nothing_to_attend_to_gives_exact_zeros_and_no_gradient():
    query, key, value = inputs()
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    mask[2] = False
    output = attention.attend(query, key, value, mask)
    assert (output[:, :, 2] == 0).all() and (output[:, :, [0, 1, 3]] != 0).any()
    to_query, to_key, to_value = gradients(output, [query, key, value])
    assert (to_query[:, :, 2] == 0).all()
    assert all(gradient.isfinite().all() for gradient in (to_query, to_key, to_value))


@pytest.mark.parametrize("size", [1e4, 1e-30])
def test_large_and_tiny_scores_stay_finite(size):
    scores = size * torch.randn(3, 4, requires_grad=True)
    weights = attention.masked_softmax(scores, torch.ones(3, 4, dtype=torch.bool).tril(1))
    torch.testing.assert_close(weights.sum(-1), torch.ones(3))
    assert gradients(weights, [scores])[0].isfinite().all()


@pytest.mark.slow
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 6))
def test_reordering_keys_with_their_values_changes_nothing(seed, queries, keys):
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (torch.randn(1, n, 4, generator=generator).double() for n in (queries, keys, keys))
    order = torch.randperm(keys, generator=generator)
    mask = torch.rand(queries, keys, generator=generator) > 0.3
    torch.testing.assert_close(
        attention.attend(query, key[:, order], value[:, order], mask[:, order]),
        attention.attend(query, key, value, mask),
    )


@given(st.integers(0, 1000), st.floats(-50, 50))
def test_a_constant_added_to_a_row_of_scores_changes_no_weight(seed, constant):
    scores = torch.randn(2, 3, generator=torch.Generator().manual_seed(seed)).double()
    torch.testing.assert_close(attention.masked_softmax(scores + constant), attention.masked_softmax(scores))


def test_the_output_stays_inside_the_values():
    query, key, value = inputs()
    output = attention.attend(5 * query, key, value)
    assert (output <= value.amax(dim=-2, keepdim=True) + 1e-9).all()
    assert (output >= value.amin(dim=-2, keepdim=True) - 1e-9).all()


def test_samples_and_heads_do_not_mix():
    query, key, value = inputs()
    output = attention.attend(query, key, value)
    for gradient in gradients(output[0, 1], [query, key, value]):
        elsewhere = gradient.clone()
        elsewhere[0, 1] = 0
        assert gradient[0, 1].abs().sum() > 0 and (elsewhere == 0).all()


def additive_by_loop(module, query, key, value, mask):
    output = torch.zeros(query.size(0), value.size(1), dtype=value.dtype)
    for i, q in enumerate(query):
        scores = [module.score.weight[0] @ torch.tanh(module.query.weight @ q + module.key.weight @ k) for k in key]
        allowed = [j for j in range(len(key)) if mask[i, j]]
        total = sum(scores[j].exp() for j in allowed)
        for j in allowed:
            output[i] = output[i] + scores[j].exp() / total * value[j]
    return output


def test_additive_attention_agrees_with_a_loop_forward_and_backward():
    module = attention.AdditiveAttention(d_query=3, d_key=4, d_hidden=5).double()
    query, key, value = (
        torch.randn(2, n, d, dtype=torch.float64, requires_grad=True) for n, d in ((3, 3), (5, 4), (5, 2))
    )
    mask = torch.rand(3, 5) > 0.4
    mask[1] = False
    ours = module(query, key, value, mask)
    theirs = torch.stack([additive_by_loop(module, query[i], key[i], value[i], mask) for i in range(2)])
    torch.testing.assert_close(ours, theirs)
    parts = [query, key, value, *module.parameters()]
    for mine, other in zip(gradients(ours, parts), gradients(theirs, parts), strict=True):
        torch.testing.assert_close(mine, other)


def test_additive_scores_follow_their_formula():
    module = attention.AdditiveAttention(d_query=3, d_key=4, d_hidden=5)
    query, key = torch.randn(2, 3), torch.randn(6, 4)
    hidden = torch.tanh(module.query.weight @ query[1] + module.key.weight @ key[4])
    torch.testing.assert_close(module.scores(query, key)[1, 4], module.score.weight[0] @ hidden)
