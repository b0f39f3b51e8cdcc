"""Recurrent networks against torch's with the same weights; convolutions against a loop; what each position sees."""

import pytest
import torch
import twins
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer_lib import baselines

BATCH, LENGTH, D_MODEL = 2, 7, 5
WIDTH, DILATIONS = 3, (1, 2, 4)
MAKERS = {
    "elman": lambda: baselines.ElmanRNN(D_MODEL),
    "lstm": lambda: baselines.LSTM(D_MODEL),
    "convolution": lambda: baselines.CausalConvolution(D_MODEL, WIDTH, 2),
    "plain stack": lambda: baselines.CausalCNN(D_MODEL, WIDTH, (1, 1, 1)),
    "dilated stack": lambda: baselines.CausalCNN(D_MODEL, WIDTH, DILATIONS),
}
makers = pytest.mark.parametrize("name", MAKERS)


def module(name: str) -> nn.Module:
    made = MAKERS[name]().double()
    twins.randomise(made)
    return made


def vectors(length: int = LENGTH) -> Tensor:
    return torch.randn(BATCH, length, D_MODEL, dtype=torch.float64, requires_grad=True)


def reach(network: nn.Module, length: int) -> list[int]:
    """Return the positions that the last output depends on, found by its gradient."""
    x = vectors(length)
    (gradient,) = torch.autograd.grad(network(x)[:, -1].square().sum(), [x])
    return gradient.abs().amax(dim=(0, 2)).nonzero().flatten().tolist()


# recurrent networks


@pytest.mark.parametrize(("name", "kind"), [("elman", nn.RNN), ("lstm", nn.LSTM)])
@pytest.mark.parametrize("length", [1, LENGTH])
def test_agrees_with_torch_forward_and_backward(name, kind, length):
    ours, theirs, x = module(name), kind(D_MODEL, D_MODEL, batch_first=True).double(), vectors(length)
    nn.init.zeros_(theirs.bias_hh_l0)  # torch has two biases, of which only the sum counts
    twins.copy(theirs, weight_ih_l0=ours.input.weight, weight_hh_l0=ours.hidden.weight, bias_ih_l0=ours.input.bias)
    mine, other = ours(x), theirs(x)[0]
    torch.testing.assert_close(mine, other)
    our_parts = [x, ours.input.weight, ours.input.bias, ours.hidden.weight]
    their_parts = [x, theirs.weight_ih_l0, theirs.bias_ih_l0, theirs.weight_hh_l0]
    for a, b in zip(twins.gradients(mine, our_parts), twins.gradients(other, their_parts), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["elman", "lstm"])
def test_a_recurrent_network_sees_all_that_came(name):
    assert reach(module(name), 12) == list(range(12))


def test_an_open_forget_gate_carries_the_cell_through():
    ours = baselines.LSTM(1).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
        ours.input.bias[:] = torch.tensor([0.0, 50.0, 0.0, 50.0])  # i half, f open, g from the input, o open
        ours.input.weight[2] = 1.0
    x = torch.zeros(1, 300, 1, dtype=torch.float64)
    x[0, 0] = 1.0
    cell = 0.5 * torch.tanh(torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(ours(x)[0, :, 0], torch.tanh(cell).expand(300))


# convolutions


@pytest.mark.parametrize(("width", "dilation"), [(1, 1), (1, 3), (2, 1), (3, 1), (3, 2), (2, 4), (4, 9)])
def test_a_convolution_agrees_with_a_loop_over_its_places(width, dilation):
    ours, x = baselines.CausalConvolution(D_MODEL, width, dilation).double(), vectors()
    twins.randomise(ours)
    expected = torch.zeros_like(x)
    for t in range(LENGTH):
        for place in range(width):
            seen = t - (width - 1 - place) * dilation
            if seen >= 0:
                expected[:, t] += x[:, seen] @ ours.places.weight[:, :, place].T
        expected[:, t] += ours.places.bias
    torch.testing.assert_close(ours(x), expected)


def test_a_stack_adds_to_its_input_after_a_relu():
    ours, x = module("dilated stack"), vectors()
    expected = x
    for layer in ours.layers:
        expected = expected + nn.functional.relu(layer(expected))
    torch.testing.assert_close(ours(x), expected)
    assert [layer.places.dilation for layer in ours.layers] == [(d,) for d in DILATIONS]


@given(st.integers(1, 4), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_the_receptive_field_is_what_the_gradient_reaches(width, dilations):
    ours = baselines.CausalCNN(D_MODEL, width, dilations).double()
    for layer in ours.layers:
        nn.init.constant_(layer.places.bias, 10.0)  # no ReLU is shut
    field = baselines.receptive_field(width, dilations)
    seen = reach(ours, field + 3)
    assert seen[0] == 3 and seen[-1] == field + 2


def test_dilation_doubles_what_is_seen_and_depth_alone_adds():
    doubling = [baselines.receptive_field(2, [2**i for i in range(depth)]) for depth in range(1, 6)]
    adding = [baselines.receptive_field(2, [1] * depth) for depth in range(1, 6)]
    assert doubling == [2, 4, 8, 16, 32] and adding == [2, 3, 4, 5, 6]
    assert baselines.receptive_field(1, [1, 5]) == 1


# all of them


@makers
@pytest.mark.parametrize("length", [1, 2, LENGTH])
def test_shapes_stay_as_they_are(name, length):
    assert module(name)(vectors(length)).shape == (BATCH, length, D_MODEL)


@makers
def test_no_position_depends_on_a_later_one_or_on_another_sample(name):
    ours, x = module(name), vectors()
    y = ours(x)
    for t in range(LENGTH):
        (gradient,) = torch.autograd.grad(y[0, t].sum(), [x], retain_graph=True)
        assert (gradient[:, t + 1 :] == 0).all() and (gradient[1] == 0).all()
        assert gradient[0, t].abs().sum() > 0


@makers
@given(change=st.integers(1, LENGTH - 1))
def test_changing_the_future_changes_nothing_before_it(name, change):
    ours, x = module(name), vectors().detach()
    changed = x.clone()
    changed[:, change:] += 1
    torch.testing.assert_close(ours(changed)[:, :change], ours(x)[:, :change])


@makers
def test_under_autocast_only_rounding_changes(name):
    ours, x = module(name).float(), vectors().detach().float()
    exact = ours(x)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = ours(x)
    assert (rounded - exact).norm() < 0.03 * exact.norm()


@pytest.mark.cuda
@makers
def test_the_gpu_gives_the_same_vectors(name):
    ours, x = module(name), vectors()
    torch.testing.assert_close(ours.cuda()(x.cuda()).cpu(), ours.cpu()(x))
