"""Layers and stacks against torch's with the same weights, pre-norm and post-norm, forward and backward."""

import pytest
import torch
import twins
from torch import nn

from transformer_lib import encoder_decoder, masks, relative
from transformer_lib.multi_head import KeyValueCache, MemoryCache

BATCH, SOURCE, TARGET, D_MODEL, HEADS, D_FF = 2, 5, 4, 12, 3, 20
NORMS = ["pre", "post"]


def layer(kind: type[nn.Module], norm: str, bias: bool = False) -> nn.Module:
    made = kind(D_MODEL, HEADS, D_FF, norm=norm, bias=bias).double()
    twins.randomise(made)
    return made


def encoder(norm: str, count: int = 2) -> encoder_decoder.Encoder:
    made = encoder_decoder.Encoder([layer(encoder_decoder.EncoderLayer, norm) for _ in range(count)]).double()
    twins.randomise(made)
    return made


def decoder(norm: str, count: int = 2) -> encoder_decoder.Decoder:
    made = encoder_decoder.Decoder([layer(encoder_decoder.DecoderLayer, norm) for _ in range(count)]).double()
    twins.randomise(made)
    return made


def vectors(length: int) -> torch.Tensor:
    return torch.randn(BATCH, length, D_MODEL, dtype=torch.float64, requires_grad=True)


def source_padding() -> torch.Tensor:
    return torch.tensor([[False] * SOURCE, [False] * (SOURCE - 2) + [True] * 2])


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, inputs: list[torch.Tensor]) -> None:
    torch.testing.assert_close(ours, theirs)
    pairs = zip(twins.gradients(ours, inputs), twins.gradients(theirs, inputs), strict=True)
    for mine, other in pairs:
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bias", [False, True])
def test_the_encoder_layer_agrees_with_torch(norm, bias):
    ours, x = layer(encoder_decoder.EncoderLayer, norm, bias), vectors(SOURCE)
    padding = source_padding()
    theirs = twins.layer(ours)(x, src_key_padding_mask=padding)
    assert_same(ours(x, ~padding[:, None, None]), theirs, [x])


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bias", [False, True])
def test_the_decoder_layer_agrees_with_torch(norm, bias):
    ours, x, memory = layer(encoder_decoder.DecoderLayer, norm, bias), vectors(TARGET), vectors(SOURCE)
    padding, causal = source_padding(), masks.causal_mask(TARGET)
    theirs = twins.layer(ours)(x, memory, tgt_mask=~causal, memory_key_padding_mask=padding)
    assert_same(ours(x, memory, causal, ~padding[:, None, None]), theirs, [x, memory])


@pytest.mark.parametrize("norm", NORMS)
def test_the_encoder_agrees_with_torch(norm):
    ours, x, padding = encoder(norm), vectors(SOURCE), source_padding()
    theirs = twins.stack(ours)(x, src_key_padding_mask=padding)
    assert_same(ours(x, ~padding[:, None, None]), theirs, [x])


@pytest.mark.parametrize("norm", NORMS)
def test_the_decoder_agrees_with_torch(norm):
    ours, x, memory = decoder(norm), vectors(TARGET), vectors(SOURCE)
    padding, causal = source_padding(), masks.causal_mask(TARGET)
    theirs = twins.stack(ours)(x, memory, tgt_mask=~causal, memory_key_padding_mask=padding)
    assert_same(ours(x, memory, causal, ~padding[:, None, None]), theirs, [x, memory])


@pytest.mark.parametrize("make", [encoder, decoder])
def test_only_a_pre_norm_stack_ends_with_a_norm(make):
    assert isinstance(make("pre").norm, nn.LayerNorm)
    assert isinstance(make("post").norm, nn.Identity)


def test_without_positions_the_encoder_moves_with_its_input():
    ours, x, order = encoder("pre"), vectors(SOURCE), torch.randperm(SOURCE)
    torch.testing.assert_close(ours(x[:, order]), ours(x)[:, order])


@pytest.mark.parametrize("norm", NORMS)
def test_the_decoder_sees_the_memory_as_a_set(norm):
    ours, x, memory, order = decoder(norm), vectors(TARGET), vectors(SOURCE), torch.randperm(SOURCE)
    padding = ~source_padding()[:, None, None]
    torch.testing.assert_close(
        ours(x, memory[:, order], memory_mask=padding[..., order]), ours(x, memory, memory_mask=padding)
    )


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("sizes", [[1] * TARGET, [2, 2], [1, 3], [TARGET]])
def test_the_decoder_with_caches_agrees_with_the_decoder_without(norm, sizes):
    ours, x, memory = decoder(norm), vectors(TARGET), vectors(SOURCE)
    padding = ~source_padding()[:, None, None]
    whole = ours(x, memory, masks.causal_mask(TARGET), padding)
    caches, parts = ours.new_caches(), []
    for part in x.split(sizes, dim=1):
        mask = masks.causal_mask(part.size(1), caches[0][0].first)
        parts.append(ours(part, memory, mask, padding, caches))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


CROSS = {
    "rotary": lambda: relative.RotaryPositions(D_MODEL // HEADS),
    "alibi": lambda: relative.LinearBias(HEADS),
    "t5": lambda: relative.BucketBias(HEADS),
    "shaw": lambda: relative.ShawPositions(D_MODEL // HEADS),
}


@pytest.mark.parametrize("name", CROSS)
def test_a_scheme_in_the_cross_attention_ties_target_positions_to_source_positions(name):
    ours = encoder_decoder.DecoderLayer(D_MODEL, HEADS, D_FF, cross_position=CROSS[name]()).double()
    twins.randomise(ours)
    x, memory, padding = vectors(TARGET), vectors(SOURCE), ~source_padding()[:, None, None]
    assert type(ours.self_attention.position) is not type(ours.cross_attention.position)
    whole = ours(x, memory, masks.causal_mask(TARGET), padding)
    assert not torch.allclose(ours(x, memory.flip(1), masks.causal_mask(TARGET), padding.flip(-1)), whole)
    caches, parts = (KeyValueCache(), MemoryCache()), []
    for part in x.split([1, 3], dim=1):
        mask = masks.causal_mask(part.size(1), caches[0].first)
        parts.append(ours(part, memory, mask, padding, caches))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


@pytest.mark.parametrize("name", CROSS)
@pytest.mark.parametrize("kind", [encoder_decoder.EncoderLayer, encoder_decoder.DecoderLayer])
def test_each_scheme_works_in_the_self_attention_of_both_layers(name, kind):
    ours = kind(D_MODEL, HEADS, D_FF, position=CROSS[name]()).double()
    without = kind(D_MODEL, HEADS, D_FF).double()
    without.load_state_dict(ours.state_dict(), strict=False)
    inputs = [vectors(SOURCE)] if kind is encoder_decoder.EncoderLayer else [vectors(TARGET), vectors(SOURCE)]
    assert not torch.allclose(ours(*inputs), without(*inputs))


def test_a_scheme_for_causal_attention_works_in_the_decoders_self_attention():
    scheme = relative.BucketBias(HEADS, bidirectional=False)
    ours = encoder_decoder.DecoderLayer(D_MODEL, HEADS, D_FF, position=scheme).double()
    x, memory = vectors(TARGET), vectors(SOURCE)
    gradient = twins.gradients(ours(x, memory, masks.causal_mask(TARGET)), [scheme.table])[0]
    assert (gradient[:TARGET] != 0).any(dim=1).all() and (gradient[TARGET:] == 0).all()  # buckets 0 to TARGET - 1


@pytest.mark.parametrize("sizes", [[1] * TARGET, [2, 2], [1, 3]])
def test_an_encoder_layer_under_a_causal_mask_may_be_cached(sizes):
    ours, x = layer(encoder_decoder.EncoderLayer, "pre"), vectors(TARGET)
    whole, cache, parts = ours(x, masks.causal_mask(TARGET)), KeyValueCache(), []
    for part in x.split(sizes, dim=1):
        parts.append(ours(part, masks.causal_mask(part.size(1), cache.first), cache))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_new_caches_are_empty_and_one_pair_for_each_layer():
    ours = decoder("pre", count=3)
    pairs = ours.new_caches()
    assert [(type(own), type(cross)) for own, cross in pairs] == [(KeyValueCache, MemoryCache)] * 3
    assert len({id(cache) for pair in pairs for cache in pair}) == 6
    assert all(cache.key is None and cache.first == 0 for pair in pairs for cache in pair)


def test_layers_have_their_own_weights():
    ours = encoder("pre", count=2)
    assert len({parameter.data_ptr() for parameter in ours.parameters()}) == len(list(ours.parameters()))


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_changes_the_output_in_training_and_not_in_evaluation(norm):
    ours = encoder_decoder.DecoderLayer(D_MODEL, HEADS, D_FF, dropout=0.5, norm=norm).double()
    x, memory = vectors(TARGET), vectors(SOURCE)
    assert not ours(x, memory).equal(ours(x, memory))
    assert ours.eval()(x, memory).equal(ours(x, memory))
