"""Accumulated steps equal to those of the large batch; scaled losses equal to plain ones, and bad steps skipped."""

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tiny_model
from torch import Tensor, nn

from transformer_lib import accumulation, training
from transformer_lib.data import Batch
from transformer_lib.model import Transformer

PAIRS = [([5, 6, 7], [7, 6, 5]), ([8, 9], [9, 8]), ([9, 5, 8, 9], [9, 8, 5, 9, 4, 4]), ([6], [6]), ([7, 7], [7])]
CPU = torch.device("cpu")


def translator(dtype: torch.dtype = torch.float64) -> Transformer:
    return tiny_model(0, sharpness=1.0, dropout=0.0).to(dtype).train()


def adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)


def rate(step: int) -> float:
    return 1e-2 / step


def cut(pairs: list, sizes: list[int]) -> list[Batch]:
    """Return the pairs as batches of so many rows each."""
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [Batch.from_pairs(pairs[start : start + size]) for start, size in zip(starts, sizes, strict=True)]


def parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("sizes", [[5], [1, 1, 1, 1, 1], [2, 3], [4, 1], [1, 4]])
def test_the_gradient_is_that_of_the_large_batch_whatever_the_parts(sizes):
    whole, parts = translator(), translator()
    loss = training.translation_loss(whole, Batch.from_pairs(PAIRS))
    loss.backward()
    found = accumulation.accumulate(parts, cut(PAIRS, sizes), training.translation_loss)
    assert found == pytest.approx(loss.item(), rel=1e-12)
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-12)


def test_a_plain_mean_over_the_parts_would_be_another_gradient():
    model, parts = translator(), cut(PAIRS, [4, 1])
    losses = [training.translation_loss(model, part).item() for part in parts]
    assert abs(sum(losses) / 2 - accumulation.accumulate(model, parts, training.translation_loss)) > 1e-3


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_training_in_groups_equals_training_on_large_batches_with_the_tail(size):
    """Seven small batches of unlike size: with 2 a step the tail is one batch, with 3 one, with 7 there is none."""
    small = cut(PAIRS + PAIRS[::-1], [1, 2, 1, 2, 1, 2, 1])
    rows = [len(part.source) for part in small]
    large = cut(PAIRS + PAIRS[::-1], [sum(rows[i : i + size]) for i in range(0, 7, size)])
    ours, theirs = translator(), translator()
    run = {"loss_of": training.translation_loss, "rate": rate}
    found = list(accumulation.train_in_groups(ours, small, optimizer=adam(ours), size=size, **run))
    expected = list(training.train(theirs, large, optimizer=adam(theirs), **run))
    assert found == pytest.approx(expected, rel=1e-9) and len(found) == -(-7 // size)
    torch.testing.assert_close(parameters(ours), parameters(theirs), rtol=1e-6, atol=1e-9)


def test_one_batch_a_step_is_training_to_the_bit():
    ours, theirs, steps = translator(torch.float32), translator(torch.float32), cut(PAIRS, [2, 3])
    run = {"loss_of": training.translation_loss, "rate": rate, "first": 4}
    found = list(accumulation.train_in_groups(ours, steps, optimizer=adam(ours), **run))
    assert found == list(training.train(theirs, steps, optimizer=adam(theirs), **run))
    assert all(one.equal(other) for one, other in zip(ours.parameters(), theirs.parameters(), strict=True))


@given(st.integers(0, 9), st.integers(1, 12))
def test_groups_hold_everything_once_and_only_the_last_is_short(count, size):
    parts = [cut(PAIRS, [5])[0] for _ in range(count)]
    found = list(accumulation.groups(parts, size))
    assert [id(part) for group in found for part in group] == [id(part) for part in parts]
    assert all(len(group) == size for group in found[:-1]) and all(found)


def test_batches_are_drawn_only_as_they_are_needed():
    drawn = []

    def endless():
        while True:
            drawn.append(1)
            yield cut(PAIRS, [5])[0]

    model = translator()
    steps = accumulation.train_in_groups(model, endless(), training.translation_loss, adam(model), rate, size=3)
    next(steps), next(steps)
    assert len(drawn) == 6


def test_a_loss_that_is_not_finite_stops_before_the_step():
    model = translator()
    before, factors = parameters(model), iter([1.0, math.inf])

    def loss_of(model: nn.Module, batch: Batch) -> Tensor:
        return next(factors) * training.translation_loss(model, batch)

    steps = accumulation.train_in_groups(model, cut(PAIRS, [2, 3]), loss_of, adam(model), rate, size=2)
    with pytest.raises(ValueError, match="one finite number, got inf"):
        next(steps)
    assert all(value.equal(before[name]) for name, value in parameters(model).items())


# half precision


def test_a_scaler_is_at_work_for_float16_only():
    for precision in (torch.float32, torch.bfloat16, torch.float16):
        assert accumulation.gradient_scaler("cpu", precision).is_enabled() is (precision == torch.float16)


@pytest.mark.parametrize("size", [1, 2])
def test_a_scaled_step_is_the_step_without(size):
    """In float64 the scale of 65,536, a power of two, changes no bit."""
    plain, scaled = translator(), translator()
    scaler = accumulation.gradient_scaler("cpu", torch.float16)
    run = {"loss_of": training.translation_loss, "rate": rate, "size": size}
    expected = list(accumulation.train_in_groups(plain, cut(PAIRS, [2, 2, 1]), optimizer=adam(plain), **run))
    found = list(
        accumulation.train_in_groups(scaled, cut(PAIRS, [2, 2, 1]), optimizer=adam(scaled), scaler=scaler, **run)
    )
    assert found == expected and scaler.get_scale() == 65536.0
    assert all(one.equal(other) for one, other in zip(plain.parameters(), scaled.parameters(), strict=True))


def test_a_step_with_infinite_gradients_changes_nothing_and_halves_the_scale():
    model, scaler = translator(torch.float32), accumulation.gradient_scaler("cpu", torch.float16)
    optimizer, factors, loss_of = adam(model), iter([1.0, math.inf, 1.0]), training.translation_loss
    model.decoder.layers[1].feed_forward.outer.bias.register_hook(lambda gradient: gradient * next(factors))
    before, states = [parameters(model)], []
    steps = accumulation.train_in_groups(model, cut(PAIRS, [2, 2, 1]), loss_of, optimizer, rate, scaler=scaler)
    scales = []
    for loss in steps:
        assert math.isfinite(loss)
        before.append(parameters(model))
        states.append(copy.deepcopy(optimizer.state_dict()["state"]))
        scales.append(scaler.get_scale())
    unchanged = [all(a.equal(b[name]) for name, a in c.items()) for b, c in zip(before, before[1:], strict=False)]
    assert unchanged == [False, True, False] and scales == [65536.0, 32768.0, 32768.0]
    assert all(states[0][i]["exp_avg"].equal(states[1][i]["exp_avg"]) for i in states[0])
    assert all(value.isfinite().all() for value in before[-1].values())


@pytest.mark.slow
def test_float16_learns_a_small_batch_nearly_as_float32_does():
    batch, losses = Batch.from_pairs(PAIRS), []
    for precision in (torch.float32, torch.float16):
        model, scaler = translator(torch.float32), accumulation.gradient_scaler(CPU, precision)

        def loss_of(model: nn.Module, batch: Batch, precision: torch.dtype = precision) -> Tensor:
            with training.autocast("cpu", precision):
                return training.translation_loss(model, batch)

        run = accumulation.train_in_groups(model, [batch] * 40, loss_of, adam(model), lambda _: 3e-3, scaler=scaler)
        losses.append(list(run))
        assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert losses[0][-1] < losses[0][0] / 2
    assert losses[1][-1] == pytest.approx(losses[0][-1], rel=0.1)
    assert losses[1] != losses[0]


def test_the_scale_saves_gradients_that_float16_would_lose():
    """A gradient of 1e-8 is 0 in float16, whose smallest number is 6e-8; times 65,536 it is not."""
    kept = []
    for enabled in (False, True):
        scaler = torch.amp.GradScaler("cpu", enabled=enabled)
        weight = nn.Parameter(torch.ones(1))
        loss = (weight.half() * torch.tensor([2e-4], dtype=torch.float16)).float().sum() * 5e-5
        scaler.scale(loss).backward()
        optimizer = torch.optim.SGD([weight], lr=1.0)
        scaler.unscale_(optimizer)
        kept.append(weight.grad.item())
    assert kept[0] == 0.0 and kept[1] == pytest.approx(1e-8, rel=1e-2)
