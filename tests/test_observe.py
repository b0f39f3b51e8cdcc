"""Attention recorded and edited from outside: equal to what the modules compute, and gone afterwards."""

import copy

import pytest
import torch
from tiny_models import SOURCE, tiny_model
from torch import Tensor, nn

from transformer_lib import ablation, attention, decoding, encoder_decoder, fast, observe, relative
from transformer_lib.data import START
from transformer_lib.model import Transformer
from transformer_lib.multi_head import MultiHeadAttention, merge_heads, split_heads

TARGET = torch.tensor([[START, 6, 5, 4], [START, 7, 7, 0], [START, 4, 0, 0]])
POSITIONS = ["sinusoidal", "learned", "none", "rotary", "alibi", "shaw", "t5"]
NAMES = [f"encoder.layers.{i}.self_attention" for i in range(2)]
NAMES += [f"decoder.layers.{i}.{kind}_attention" for i in range(2) for kind in ("self", "cross")]


class Calls:
    """The inputs and outputs of each attention module, taken by hooks of its own."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, tuple[tuple, Tensor]] = {}
        for name, module in observe.attention_modules(model).items():
            module.register_forward_hook(lambda m, args, out, name=name: self.seen.update({name: (args, out)}))


def from_weights(module: MultiHeadAttention, memory: Tensor, weights: Tensor) -> Tensor:
    """Return a module's output, given its weights."""
    return module.output(merge_heads(weights @ split_heads(module.value(memory), module.heads)))


# recording


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("speed", ["clear", "fast outside", "fast inside"])
def test_recorded_weights_times_values_are_the_modules_outputs(positions, speed):
    model = tiny_model(positions=positions)
    calls = Calls(model)
    if speed == "clear":
        with observe.record_attention(model) as weights:
            model(SOURCE, TARGET)
    elif speed == "fast outside":
        with fast.enabled(), observe.record_attention(model) as weights:
            model(SOURCE, TARGET)
    else:
        with observe.record_attention(model) as weights, fast.enabled():
            model(SOURCE, TARGET)
    assert list(weights) == NAMES and all(len(found) == 1 for found in weights.values())
    for name, module in observe.attention_modules(model).items():
        (_, memory, *_), output = calls.seen[name]
        torch.testing.assert_close(from_weights(module, memory, weights[name][0]), output)
        torch.testing.assert_close(weights[name][0].sum(dim=-1), torch.ones(weights[name][0].shape[:-1]))


def test_shapes_and_masks_are_those_of_each_kind_of_attention():
    with observe.record_attention(model := tiny_model()) as weights:
        model(SOURCE, TARGET)
    assert [list(weights[name][0].shape) for name in NAMES[1:4]] == [[3, 2, 5, 5], [3, 2, 4, 4], [3, 2, 4, 5]]
    assert weights[NAMES[0]][0][1, :, :, 2:].eq(0).all()  # padding
    assert weights[NAMES[2]][0].triu(diagonal=1).eq(0).all()  # the future
    assert weights[NAMES[3]][0][2, :, :, 3:].eq(0).all() and weights[NAMES[3]][0][0].gt(0).all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_cached_decoding_gives_the_same_maps_row_by_row(positions):
    model = tiny_model(positions=positions)
    memory, caches = model.encode(SOURCE), model.decoder.new_caches()
    with observe.record_attention(model) as whole:
        model.decode(TARGET, memory, SOURCE)
    with observe.record_attention(model) as steps:
        for i in range(4):
            model.decode(TARGET[:, i : i + 1], memory, SOURCE, caches)
    for name in NAMES[2:]:
        assert [list(call.shape[2:]) for call in steps[name]] == [[1, i + 1 if "self" in name else 5] for i in range(4)]
        torch.testing.assert_close(observe.join(steps[name]), whole[name][0])


def test_recording_changes_no_output_and_draws_no_chance():
    model = tiny_model(2, dropout=0.3, sharpness=2.0)
    for mode in (True, False):
        model.train(mode)
        torch.manual_seed(5)
        plain, state = model(SOURCE, TARGET), torch.get_rng_state()
        torch.manual_seed(5)
        with observe.record_attention(model):
            recorded = model(SOURCE, TARGET)
        assert recorded.equal(plain) and torch.get_rng_state().equal(state)
    assert decoding.greedy(model, SOURCE) == recorded_greedy(model)


def recorded_greedy(model: Transformer) -> list[list[int]]:
    with observe.record_attention(model) as weights:
        found = decoding.greedy(model, SOURCE)
    assert len(weights[NAMES[2]]) == min(20, max(map(len, found)) + 1)
    return found


def test_weights_are_detached_unless_asked_for_their_gradient():
    model = tiny_model()
    with observe.record_attention(model) as weights:
        model(SOURCE, TARGET)
    assert not any(found[0].requires_grad for found in weights.values())
    with observe.record_attention(model, detach=False) as weights:
        loss = model(SOURCE, TARGET).square().sum()
    last = weights[NAMES[-1]][0]
    (gradient,) = torch.autograd.grad(loss, last)
    direction = torch.zeros_like(last)
    direction[0, 1, 2, 3] = 1e-2
    with torch.no_grad(), ablation.edit_attention(model, {NAMES[-1]: lambda w: w + direction}):
        up = model(SOURCE, TARGET).square().sum()
    with torch.no_grad(), ablation.edit_attention(model, {NAMES[-1]: lambda w: w - direction}):
        down = model(SOURCE, TARGET).square().sum()
    assert gradient[0, 1, 2, 3].item() == pytest.approx(((up - down) / 2e-2).item(), rel=1e-2)


# editing


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "t5"])
def test_an_edit_that_changes_nothing_changes_nothing(positions):
    model = tiny_model(positions=positions)
    plain = model(SOURCE, TARGET)
    with ablation.edit_attention(model, {name: lambda weights: weights for name in NAMES}):
        assert model(SOURCE, TARGET).equal(plain)
    with observe.record_attention(model) as weights:
        model(SOURCE, TARGET)
    with ablation.edit_attention(model, {name: ablation.replace_heads(weights[name][0]) for name in NAMES}):
        assert model(SOURCE, TARGET).equal(plain)


@pytest.mark.parametrize("name", [NAMES[0], NAMES[2], NAMES[5]])
@pytest.mark.parametrize("speed", [False, True])
def test_a_head_without_weights_is_a_head_without_its_slice_of_w_o(name, speed):
    model = tiny_model(4)
    cut = copy.deepcopy(model)
    with torch.no_grad():
        cut.get_submodule(name).output.weight[:, 8:16] = 0.0
    with torch.no_grad(), ablation.edit_attention(model, {name: ablation.zero_heads(1)}):
        if speed:
            with fast.enabled():
                ablated = model(SOURCE, TARGET)
        else:
            ablated = model(SOURCE, TARGET)
    torch.testing.assert_close(ablated, cut(SOURCE, TARGET))
    assert not torch.allclose(ablated, model(SOURCE, TARGET), atol=1e-3)


def test_zeroing_all_heads_leaves_no_attention():
    model = tiny_model()
    with ablation.edit_attention(model, {NAMES[0]: ablation.zero_heads()}), observe.record_attention(model) as weights:
        model(SOURCE, TARGET)
    assert weights[NAMES[0]][0].eq(0).all() and weights[NAMES[1]][0].gt(0).any()


def test_a_uniform_head_is_even_over_the_keys_that_it_may_see():
    model = tiny_model()
    edits = {name: ablation.uniform_heads(0) for name in NAMES}
    with observe.record_attention(model) as before:
        model(SOURCE, TARGET)
    with ablation.edit_attention(model, edits), observe.record_attention(model) as weights:
        model(SOURCE, TARGET)
    source, future = SOURCE != 0, torch.ones(4, 4).tril()
    even = source[:, None, :].float().expand(-1, 5, -1) / source.sum(dim=1).view(3, 1, 1)
    torch.testing.assert_close(weights[NAMES[0]][0][:, 0], even)
    torch.testing.assert_close(weights[NAMES[2]][0][:, 0], (future / future.sum(1, keepdim=True)).expand(3, -1, -1))
    torch.testing.assert_close(weights[NAMES[3]][0][:, 0], even[:, :4])
    assert weights[NAMES[0]][0][:, 1].equal(before[NAMES[0]][0][:, 1])


def test_patching_all_of_one_runs_attention_into_another_gives_its_maps():
    model, other = tiny_model(1), SOURCE.flip(1)
    other[1:] = SOURCE[1:]
    with observe.record_attention(model) as theirs:
        model(other, TARGET)
    edits = {name: ablation.replace_heads(theirs[name][0], 1) for name in NAMES}
    with ablation.edit_attention(model, edits), observe.record_attention(model) as weights:
        model(SOURCE, TARGET)
    for name in NAMES:
        assert weights[name][0][:, 1].equal(theirs[name][0][:, 1])
    assert not weights[NAMES[0]][0][:, 0].equal(theirs[NAMES[0]][0][:, 0])


def test_an_edit_passes_gradients_on():
    model = tiny_model()
    with ablation.edit_attention(model, {NAMES[0]: ablation.zero_heads(0)}):
        model(SOURCE, TARGET).square().sum().backward()
    for name, rows in (("query", slice(0, 8)), ("value", slice(0, 8))):
        gradient = getattr(model.encoder.layers[0].self_attention, name).weight.grad
        assert gradient[rows].eq(0).all() and gradient[8:].ne(0).any()


def test_of_nested_blocks_the_inner_one_comes_later():
    model = tiny_model()
    edit = ablation.edit_attention(model, {NAMES[0]: ablation.zero_heads()})
    with observe.record_attention(model) as raw, edit, observe.record_attention(model) as edited:
        model(SOURCE, TARGET)
    assert raw[NAMES[0]][0].gt(0).any() and edited[NAMES[0]][0].eq(0).all()
    assert all(len(weights[name]) == 1 for weights in (raw, edited) for name in NAMES)


# leaving no trace


def traces(model: nn.Module) -> list[object]:
    hooks = [dict(m._forward_hooks) | dict(m._forward_pre_hooks) for m in model.modules()]
    return [hooks, [sorted(vars(m)) for m in model.modules()], *(vars(attention)[name] for name in PIECES)]


PIECES = ("masked_softmax", "attention_weights", "attend")


@pytest.mark.parametrize("speed", [False, True])
def test_nothing_is_left_behind_also_after_an_error(speed):
    model = tiny_model()
    before = traces(model)
    with observe.record_attention(model), ablation.edit_attention(model, {NAMES[0]: lambda w: w}):
        model(SOURCE, TARGET)
    assert traces(model) == before
    with pytest.raises(ZeroDivisionError), fast.enabled():
        inside = traces(model)
        try:
            with observe.record_attention(model), ablation.edit_attention(model, {NAMES[0]: lambda w: 1 / 0}):
                model(SOURCE, TARGET)
        finally:
            assert traces(model) == inside
    assert traces(model) == before
    with (
        pytest.raises(ValueError, match="attention modules are"),
        ablation.edit_attention(model, {"none": lambda w: w}),
    ):
        pass
    assert traces(model) == before


def test_after_an_error_that_was_caught_bare_attention_is_nobodys():
    model = tiny_model()
    x = torch.randn(1, 2, 3, 4)
    with observe.record_attention(model) as weights:
        with pytest.raises(Exception, match="mask"):
            model.encoder.layers[0].self_attention(
                torch.randn(1, 3, 16), torch.randn(1, 3, 16), torch.ones(7, 7).bool()
            )
        attention.attend(x, x, x)
        attention.AdditiveAttention(4, 4, 5)(x, x, x)
        assert not any(weights.values())
        model(SOURCE, TARGET)
    assert all(len(found) == 1 for found in weights.values())


def test_other_models_are_left_alone():
    model, other = tiny_model(1), tiny_model(2)
    plain = other(SOURCE, TARGET)
    edits = {name: ablation.zero_heads() for name in NAMES}
    with ablation.edit_attention(model, edits), observe.record_attention(model) as weights:
        assert other(SOURCE, TARGET).equal(plain)
    assert not any(weights.values())


def test_a_lone_attention_and_a_stack_can_be_observed():
    module, x = MultiHeadAttention(8, 2, position=relative.RotaryPositions(4)), torch.randn(2, 3, 8)
    with observe.record_attention(module) as weights:
        output = module(x, x)
    torch.testing.assert_close(from_weights(module, x, weights[""][0]), output)
    stack = encoder_decoder.Encoder([encoder_decoder.EncoderLayer(8, 2, 16)])
    with observe.record_attention(stack) as weights:
        stack(x), stack(x)
    assert [len(found) for found in weights.values()] == [2]


def own_weights(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = torch.einsum("...qd,...kd->...qk", query, key) / query.size(-1) ** 0.5
    return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -1e9), dim=-1)


def test_a_readers_own_weights_are_seen_and_a_readers_own_attend_is_named(monkeypatch):
    model = tiny_model()
    calls = Calls(model)
    monkeypatch.setattr(attention, "attention_weights", own_weights)
    with observe.record_attention(model) as weights:
        model(SOURCE, TARGET)
    (_, memory, *_), output = calls.seen[NAMES[0]]
    torch.testing.assert_close(from_weights(model.get_submodule(NAMES[0]), memory, weights[NAMES[0]][0]), output)
    monkeypatch.setattr(attention, "attend", lambda q, k, v, mask=None: own_weights(q, k, mask) @ v)
    message = rf"{NAMES[0]} must compute its weights by attention\.masked_softmax"
    with pytest.raises(ValueError, match=message), observe.record_attention(model):
        model(SOURCE, TARGET)
