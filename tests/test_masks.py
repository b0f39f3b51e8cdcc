"""Masks against their definition, one pair of positions at a time."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_lib import attention, masks


@given(st.integers(1, 9), st.integers(0, 5))
def test_a_query_may_look_at_its_own_position_and_at_earlier_ones(length, past):
    mask = masks.causal_mask(length, past)
    assert mask.shape == (length, past + length) and mask.dtype == torch.bool
    for query in range(length):
        for key in range(past + length):
            assert mask[query, key].item() == (key <= past + query)


@given(st.integers(1, 9), st.integers(0, 5))
def test_a_mask_with_a_past_is_the_last_rows_of_the_whole_one(length, past):
    assert masks.causal_mask(length, past).equal(masks.causal_mask(length + past)[past:])


@pytest.mark.parametrize("padding", [0, 3])
def test_padding_is_false_and_every_other_id_true(padding):
    tokens = torch.tensor([[5, 1, 3, 0], [2, 0, 3, 3]])
    mask = masks.padding_mask(tokens, padding)
    assert mask.shape == (2, 1, 1, 4) and mask.dtype == torch.bool
    assert mask[:, 0, 0].tolist() == [[token != padding for token in row] for row in tokens.tolist()]


def test_padding_and_causal_masks_combine_over_heads_and_queries():
    tokens = torch.tensor([[7, 8, 9], [7, 0, 0]])
    mask = masks.padding_mask(tokens) & masks.causal_mask(3)
    query = key = torch.randn(2, 4, 3, 5)
    weights = attention.attention_weights(query, key, mask)
    seen = (weights > 0).all(dim=1)
    assert seen[0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert seen[1].tolist() == [[True, False, False]] * 3


@given(st.integers(1, 8), st.data())
def test_a_prefix_is_seen_by_all_and_the_rest_from_itself_on(length, data):
    prefix = data.draw(st.integers(0, length))
    mask = masks.prefix_mask(length, prefix)
    assert mask.shape == (length, length) and mask.dtype == torch.bool
    for query in range(length):
        for key in range(length):
            assert mask[query, key].item() == (key < prefix or key <= query)


@pytest.mark.parametrize("length", [1, 5])
def test_a_prefix_of_nothing_is_causal_and_one_of_everything_allows_everything(length):
    assert masks.prefix_mask(length, 0).equal(masks.causal_mask(length))
    assert masks.prefix_mask(length, 1).equal(masks.causal_mask(length))  # the first is seen by all anyway
    assert masks.prefix_mask(length, length).all()


@given(st.integers(1, 8), st.integers(1, 10), st.integers(0, 5))
def test_a_window_ends_at_the_query_and_is_as_wide_as_it_says(length, window, past):
    mask = masks.sliding_window_mask(length, window, past)
    assert mask.shape == (length, past + length) and mask.dtype == torch.bool
    for query in range(length):
        for key in range(past + length):
            assert mask[query, key].item() == (past + query - window < key <= past + query)


@given(st.integers(1, 8), st.integers(1, 10), st.integers(0, 5))
def test_a_window_with_a_past_is_the_last_rows_of_the_whole_one(length, window, past):
    whole = masks.sliding_window_mask(length + past, window)
    assert masks.sliding_window_mask(length, window, past).equal(whole[past:])


@pytest.mark.parametrize("past", [0, 3])
def test_a_window_as_wide_as_the_text_is_causal_and_one_of_1_sees_itself_alone(past):
    for window in (4 + past, 5 + past, 1000):
        assert masks.sliding_window_mask(4, window, past).equal(masks.causal_mask(4, past))
    assert masks.sliding_window_mask(4, 1, past).sum(dim=1).tolist() == [1] * 4
    assert not masks.sliding_window_mask(4, 3 + past, past).equal(masks.causal_mask(4, past))


@given(st.integers(1, 7), st.integers(0, 7), st.integers(0, 7))
def test_an_output_that_sees_a_window_changes_with_that_window_alone(window, query, changed):
    x = torch.randn(8, 4, dtype=torch.float64)
    other = x.clone()
    other[changed] += 1
    mask = masks.sliding_window_mask(8, window)
    before, after = (attention.attend(v, v, v, mask)[query] for v in (x, other))
    assert torch.allclose(before, after) == (not query - window < changed <= query)
