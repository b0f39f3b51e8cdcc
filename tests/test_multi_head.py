"""Multi-head attention against torch's, against single heads put together by hand, and with a cache."""

import pytest
import torch
import twins
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformer_lib import attention, masks, multi_head
from transformer_lib.positional import PositionScheme

BATCH, QUERIES, KEYS, D_MODEL, HEADS = 2, 4, 5, 12, 3


def module(bias: bool = False, position: PositionScheme | None = None) -> multi_head.MultiHeadAttention:
    made = multi_head.MultiHeadAttention(D_MODEL, HEADS, bias=bias, position=position).double()
    twins.randomise(made)
    return made


def vectors(length: int, batch: int = BATCH) -> Tensor:
    return torch.randn(batch, length, D_MODEL, dtype=torch.float64, requires_grad=True)


class Relative(PositionScheme):
    """A scheme in which every score depends on where query and key stand."""

    def rotate(self, x: Tensor, first: int) -> Tensor:
        """Turn each pair of elements by an angle that grows with the position."""
        angle = 0.7 * torch.arange(first, first + x.size(2), dtype=x.dtype).unsqueeze(1)
        a, b = x[..., ::2], x[..., 1::2]
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)

    def bias(self, query: Tensor, keys: int, first: int) -> Tensor:
        """Subtract the distance."""
        positions = torch.arange(first, first + query.size(2))
        return -0.3 * (positions.unsqueeze(1) - torch.arange(keys)).abs().to(query.dtype)


class Rotation(Relative):
    """The same without the bias, which takes the other way through the attention."""

    def bias(self, query: Tensor, keys: int, first: int) -> None:
        """Add nothing."""


def drawn_masks() -> dict[str, Tensor | None]:
    drawn = torch.rand(BATCH, HEADS, QUERIES, KEYS) > 0.4
    drawn[..., 1] = True
    return {"none": None, "2-D": drawn[0, 0], "padding": drawn[:, :1, :1], "full": drawn}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ["none", "2-D", "padding", "full"])
def test_agrees_with_torch_forward_and_backward(bias, name):
    ours = module(bias)
    theirs = twins.attention(ours)
    x, memory, mask = vectors(QUERIES), vectors(KEYS), drawn_masks()[name]
    forbidden = None if mask is None else ~mask.expand(BATCH, HEADS, QUERIES, KEYS).flatten(0, 1)  # the other polarity
    mine, other = ours(x, memory, mask), theirs(x, memory, memory, attn_mask=forbidden)[0]
    torch.testing.assert_close(mine, other)
    our_parts = [x, memory, *(linear.weight for linear in (ours.query, ours.key, ours.value, ours.output))]
    *ours_in, query, key, value, output = twins.gradients(mine, our_parts)
    theirs_in = twins.gradients(other, [x, memory, theirs.in_proj_weight, theirs.out_proj.weight])
    for a, b in zip([*ours_in, torch.cat([query, key, value]), output], theirs_in, strict=True):
        torch.testing.assert_close(a, b)


def test_each_head_attends_with_its_own_rows_of_the_projections():
    ours = module()
    x, memory = vectors(QUERIES), vectors(KEYS)
    d_k = D_MODEL // HEADS
    heads = []
    for head in range(HEADS):
        rows = slice(head * d_k, (head + 1) * d_k)
        projected = [
            source @ linear.weight[rows].T
            for source, linear in ((x, ours.query), (memory, ours.key), (memory, ours.value))
        ]
        heads.append(attention.attend(*projected))
    torch.testing.assert_close(ours(x, memory), torch.cat(heads, dim=-1) @ ours.output.weight.T)


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_merging_undoes_splitting(batch, length, heads, d_k):
    x = torch.arange(batch * length * heads * d_k, dtype=torch.float32).reshape(batch, length, heads * d_k)
    split = multi_head.split_heads(x, heads)
    assert split.shape == (batch, heads, length, d_k)
    for head in range(heads):
        assert split[:, head].equal(x[..., head * d_k : (head + 1) * d_k])
    assert multi_head.merge_heads(split).equal(x)


def test_without_positions_the_output_moves_with_the_input():
    ours, x = module(), vectors(KEYS)
    order = torch.randperm(KEYS)
    torch.testing.assert_close(ours(x[:, order], x[:, order]), ours(x, x)[:, order])


def test_samples_do_not_mix():
    ours, x = module(), vectors(KEYS)
    gradient = twins.gradients(ours(x, x)[0], [x])[0]
    assert gradient[0].abs().sum() > 0 and (gradient[1] == 0).all()


def test_a_query_with_nothing_to_attend_to_gives_the_outputs_bias():
    ours, x = module(bias=True), vectors(KEYS)
    output = ours(x, x, torch.zeros(KEYS, KEYS, dtype=torch.bool))
    torch.testing.assert_close(output, ours.output.bias.expand_as(output))


@pytest.mark.parametrize("scheme", [None, Rotation(), Relative()], ids=["no scheme", "rotation", "rotation and bias"])
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_with_a_cache_any_cut_of_the_sequence_gives_the_same_outputs(scheme, sizes):
    ours, x = module(position=scheme), vectors(sum(sizes))
    whole = ours(x, x, masks.causal_mask(sum(sizes)))
    cache, parts = multi_head.KeyValueCache(), []
    for part in x.split(sizes, dim=1):
        mask = masks.causal_mask(part.size(1), cache.first)
        parts.append(ours(part, part, mask, cache))
        assert cache.first == sum(p.size(1) for p in parts) == cache.key.size(2)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


@pytest.mark.parametrize("scheme", [None, Relative()], ids=["no scheme", "rotation and bias"])
def test_a_memory_cache_projects_once_and_changes_nothing(scheme):
    ours, x, memory = module(position=scheme), vectors(QUERIES), vectors(KEYS)
    whole = ours(x, memory)
    cache, calls = multi_head.MemoryCache(), []
    ours.value.register_forward_hook(lambda *_: calls.append(1))
    parts = [ours(part, memory, None, cache) for part in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)
    assert len(calls) == 1 and cache.first == QUERIES


@pytest.mark.parametrize("kind", [multi_head.KeyValueCache, multi_head.MemoryCache])
def test_selecting_rows_is_the_same_as_having_decoded_those_rows(kind):
    ours, x = module(), vectors(4, batch=3)
    rows = torch.tensor([2, 0, 0, 1])
    memory = x[:, :3] if kind is multi_head.KeyValueCache else vectors(5, batch=3)
    new = x[rows, 3:]
    caches = [kind(), kind()]
    ours(x[:, :3], memory, None, caches[0])
    caches[0].select(rows)
    ours(x[rows, :3], memory[rows], None, caches[1])
    new_memory = new if kind is multi_head.KeyValueCache else memory[rows]
    selected, decoded = (ours(new, new_memory, None, cache) for cache in caches)
    torch.testing.assert_close(selected, decoded)
    assert not torch.allclose(decoded[1], decoded[3])


def test_selecting_from_an_empty_cache_leaves_it_empty():
    cache = multi_head.KeyValueCache()
    cache.select(torch.tensor([1, 0]))
    assert cache.key is None and cache.first == 0


def test_a_bias_is_added_before_the_softmax_and_the_mask_still_holds():
    ours, plain, x = module(position=Relative()), module(position=Rotation()), vectors(KEYS)
    plain.load_state_dict(ours.state_dict())
    mask = masks.causal_mask(KEYS)
    query, key = (multi_head.split_heads(linear(x), HEADS) for linear in (ours.query, ours.key))
    scores = attention.attention_scores(ours.position.rotate(query, 0), ours.position.rotate(key, 0))
    biased = (scores + ours.position.bias(query, KEYS, 0)).masked_fill(~mask, -torch.inf).softmax(dim=-1)
    mixed = biased @ multi_head.split_heads(ours.value(x), HEADS)
    torch.testing.assert_close(ours(x, x, mask), ours.output(multi_head.merge_heads(mixed)))
    assert not torch.allclose(ours(x, x, mask), plain(x, x, mask))


def test_there_is_a_bias_only_if_asked_for():
    assert [name for name, _ in module().named_parameters() if "bias" in name] == []
    assert len([name for name, _ in module(bias=True).named_parameters() if "bias" in name]) == 4
