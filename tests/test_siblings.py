"""The encoder alone and the decoder alone: equal to torch's encoder, causal where due, cached as uncached."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer_lib import config, fast, model, positional, siblings

CONFIG = model.TransformerConfig(vocabulary=11, d_model=12, heads=3, d_ff=20, layers=2, dropout=0.0, max_length=16)
positions = pytest.mark.parametrize("positions", config.POSITIONS)
kinds = pytest.mark.parametrize("kind", [siblings.EncoderOnly, siblings.DecoderOnly], ids=["encoder", "decoder"])


def made(kind: type[nn.Module], positions: str = "sinusoidal", **changes: object) -> nn.Module:
    """Return the same model for the same arguments."""
    torch.manual_seed(7)
    ours = kind(replace(CONFIG, positions=positions, **changes)).double()
    twins.randomise(ours)
    return ours.eval()


def tokens(seed: int, *shape: int) -> Tensor:
    return torch.randint(4, CONFIG.vocabulary, shape, generator=torch.Generator().manual_seed(seed))


def assembled(ours: nn.Module) -> Callable[..., Tensor]:
    """Return torch's encoder with our weights, as a function from tokens and a mask of what may be seen to logits."""
    c, table = ours.config, ours.embedding.table
    stack = ours.encoder if isinstance(ours, siblings.EncoderOnly) else ours
    norm = nn.LayerNorm(c.d_model).double() if isinstance(stack.norm, nn.LayerNorm) else None
    theirs = nn.TransformerEncoder(twins.layer(stack.layers[0]), c.layers, norm, enable_nested_tensor=False)
    twins.copy_stack(stack, theirs)
    places = positional.sinusoidal_positions(c.max_length, c.d_model).double()
    if c.positions == "learned":
        places = ours.embedding.learned.table

    def logits(ids: Tensor, allowed: Tensor | None = None) -> Tensor:
        embedded = table[ids] * math.sqrt(c.d_model) + places[: ids.size(1)]
        mask = None if allowed is None else ~allowed
        return theirs(embedded, mask, src_key_padding_mask=ids == c.padding) @ table.T

    return logits


def assert_same(ours: Tensor, theirs: Tensor, table: Tensor) -> None:
    torch.testing.assert_close(ours, theirs)
    mine, other = (twins.gradients(logits, [table])[0] for logits in (ours, theirs))
    torch.testing.assert_close(mine, other)


@pytest.mark.parametrize(("norm", "places", "padding"), [("pre", "sinusoidal", 0), ("post", "learned", 3)])
def test_the_encoder_agrees_with_one_made_of_torchs_parts(norm, places, padding):
    ours, ids = made(siblings.EncoderOnly, places, norm=norm, padding=padding), tokens(1, 3, 7)
    ids[1, 4:] = padding
    assert_same(ours(ids), assembled(ours)(ids), ours.embedding.table)


@pytest.mark.parametrize(("norm", "places"), [("pre", "sinusoidal"), ("post", "learned")])
@pytest.mark.parametrize("prefix", [0, 3])
def test_the_decoder_agrees_with_torchs_encoder_under_its_mask(norm, places, prefix):
    ours, ids = made(siblings.DecoderOnly, places, norm=norm), tokens(1, 3, 7)
    place = torch.arange(7)
    allowed = (place <= place.unsqueeze(1)) | (place < prefix)
    assert_same(ours(ids, prefix), assembled(ours)(ids, allowed), ours.embedding.table)


@kinds
@positions
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(1, 6), min_size=2, max_size=3))
@settings(max_examples=5)
def test_padding_changes_nothing(kind, positions, seed, lengths):
    ours = made(kind, positions, padding=3)
    rows = [tokens(seed + i, length) for i, length in enumerate(lengths)]
    together = ours(nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=3))
    for logits, row in zip(together, rows, strict=True):
        torch.testing.assert_close(logits[: len(row)], ours(row.unsqueeze(0))[0])


@kinds
@positions
def test_a_text_of_nothing_but_padding_gives_finite_numbers(kind, positions):
    ours = made(kind, positions)
    logits = ours(torch.cat([tokens(1, 1, 4), torch.zeros(1, 4, dtype=torch.int64)]))
    assert logits.isfinite().all()
    assert twins.gradients(logits, [ours.embedding.table])[0].isfinite().all()


@positions
def test_each_position_of_the_encoder_sees_all_tokens(positions):
    ours, ids = made(siblings.EncoderOnly, positions), tokens(1, 1, 5)
    before = ours(ids)
    for position in range(5):
        changed = ids.clone()
        changed[0, position] = 4 + (changed[0, position] - 3) % 7
        assert not torch.isclose(ours(changed), before).all(-1).any()


@positions
@given(seed=st.integers(0, 99), length=st.integers(2, 6), data=st.data())
@settings(max_examples=5)
def test_changing_the_future_changes_nothing_before_it(positions, seed, length, data):
    ours, ids = made(siblings.DecoderOnly, positions), tokens(seed, 2, length)
    change = data.draw(st.integers(1, length - 1))
    prefix = data.draw(st.integers(0, change))
    changed = ids.clone()
    changed[:, change:] = 4 + (changed[:, change:] - 3) % 7
    before, after = ours(ids, prefix), ours(changed, prefix)
    torch.testing.assert_close(after[:, :change], before[:, :change])
    assert not torch.isclose(after[:, change:], before[:, change:]).all(-1).any()


@positions
def test_in_a_prefix_all_positions_see_each_other(positions):
    ours, ids = made(siblings.DecoderOnly, positions), tokens(1, 2, 6)
    changed = ids.clone()
    changed[:, 2] = 4 + (changed[:, 2] - 3) % 7
    before, after = ours(ids, prefix=3), ours(changed, prefix=3)
    assert not torch.isclose(after, before).all(-1).any()
    torch.testing.assert_close(ours(changed)[:, :2], ours(ids)[:, :2])


@positions
@given(seed=st.integers(0, 99), sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4), data=st.data())
@settings(max_examples=5)
def test_cached_decoding_agrees_with_uncached_at_every_step(positions, seed, sizes, data):
    ours, ids = made(siblings.DecoderOnly, positions), tokens(seed, 2, sum(sizes))
    prefix = data.draw(st.integers(0, sizes[0]))
    caches, done = ours.new_caches(), 0
    for part in ids.split(sizes, dim=1):
        done += part.size(1)
        cached = ours.decode(part, prefix, caches)
        torch.testing.assert_close(cached, ours.decode(ids[:, :done], prefix)[:, -part.size(1) :])


def test_a_text_that_has_ended_may_be_filled_up_while_others_go_on():
    ours, ids = made(siblings.DecoderOnly), tokens(1, 2, 5)
    ids[1, 3:] = 0
    caches = ours.new_caches()
    parts = [ours.decode(part, 0, caches) for part in ids.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1)[0], ours.decode(ids)[0])


@given(length=st.integers(1, 6), past=st.integers(1, 5), data=st.data())
def test_the_mask_of_a_text_is_the_prefixs_at_first_and_causal_later(length, past, data):
    prefix = data.draw(st.integers(0, past))
    ids = tokens(1, 2, length)
    later = siblings.text_mask(ids, prefix, past)
    whole = siblings.text_mask(tokens(1, 2, past + length), prefix)
    assert whole.shape == (2, 1, past + length, past + length)
    assert (whole[:, :, past:] == later).all()


@positions
@pytest.mark.parametrize("padding", [0, 3])
def test_a_text_shorter_than_the_prefix_is_as_if_alone(positions, padding):
    ours, ids = made(siblings.DecoderOnly, positions, padding=padding), tokens(1, 2, 5)
    ids[1] = torch.tensor([5, 3 - padding, *[padding] * 3])  # the other of 0 and 3 is a token here
    torch.testing.assert_close(ours(ids, prefix=4)[1, :2], ours(ids[1:, :2], prefix=2)[0])


def test_the_mask_of_a_text_leaves_its_padding_out():
    mask = siblings.text_mask(torch.tensor([[5, 6, 9], [5, 9, 9]]), prefix=3, padding=9)
    assert mask[:, 0].tolist() == [[[True, True, False]] * 3, [[True, False, False]] * 3]


@kinds
def test_logits_come_from_the_embeddings_table(kind):
    ours, ids = made(kind), tokens(1, 2, 5)
    vectors = ours.encode(ids) if kind is siblings.EncoderOnly else ours.decode(ids)
    torch.testing.assert_close(ours(ids), vectors @ ours.embedding.table.T)
    shapes = [tuple(parameter.shape) for parameter in ours.parameters()]
    assert shapes.count((CONFIG.vocabulary, CONFIG.d_model)) == 1


@kinds
def test_both_have_as_many_parameters_as_the_translators_encoder(kind):
    whole = model.Transformer(CONFIG)
    expected = sum(p.numel() for part in (whole.encoder, whole.embedding) for p in part.parameters())
    assert sum(p.numel() for p in kind(CONFIG).parameters()) == expected


@kinds
def test_only_a_pre_norm_stack_ends_with_a_norm(kind):
    for norm, last in (("pre", nn.LayerNorm), ("post", nn.Identity)):
        ours = made(kind, norm=norm)
        assert isinstance((ours.encoder if kind is siblings.EncoderOnly else ours).norm, last)


@kinds
def test_dropout_falls_in_training_alone(kind):
    ours, ids = made(kind, dropout=0.3), tokens(1, 2, 5)
    assert ours(ids).equal(ours(ids))
    ours.train()
    assert not ours(ids).equal(ours(ids))


@kinds
@positions
def test_the_fast_forms_change_nothing(kind, positions):
    ours, ids = made(kind, positions), tokens(1, 2, 5)
    clear = ours(ids)
    with fast.enabled():
        quick = ours(ids)
    assert_same(quick, clear, ours.embedding.table)


@pytest.mark.cuda
@kinds
@positions
def test_the_gpu_gives_the_same_logits(kind, positions):
    ours, ids = made(kind, positions), tokens(1, 2, 5)
    expected = ours(ids)
    torch.testing.assert_close(ours.cuda()(ids.cuda()).cpu(), expected)


def test_selected_texts_keep_what_is_known_about_their_end():
    ours, caches = made(siblings.DecoderOnly), made(siblings.DecoderOnly).new_caches()
    ours.decode(torch.tensor([[5], [6]]), caches=caches)
    ours.decode(torch.tensor([[7], [0]]), caches=caches)
    for cache in caches:
        cache.select(torch.tensor([1, 0]))
    with pytest.raises(ValueError, match="a word in row 0"):
        ours.decode(torch.tensor([[7], [7]]), caches=caches)
    ours.decode(torch.tensor([[0], [7]]), caches=caches)
