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
