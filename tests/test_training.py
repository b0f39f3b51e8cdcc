"""The learning rate, the loss and the loop: against formulas and torch, at the edges, and on a batch to overfit."""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from twins import gradients

from transformer_lib import training
from transformer_lib.data import Batch
from transformer_lib.model import Transformer, TransformerConfig

CONFIG = TransformerConfig(vocabulary=12, d_model=16, heads=2, d_ff=32, layers=1, dropout=0.0, max_length=12)
PAIRS = [([5, 6, 7], [7, 6, 5]), ([8, 9], [9, 8]), ([10, 5, 8, 9], [9, 8, 5, 10]), ([6], [6])]
BATCH = Batch.from_pairs(PAIRS)


def translator(**changes: object) -> Transformer:
    torch.manual_seed(3)
    return Transformer(TransformerConfig(**(vars(CONFIG) | changes)))


def adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)


def constant(step: int) -> float:
    return 3e-3


# the learning rate


@given(st.integers(1, 20_000), st.sampled_from([128, 512]), st.integers(1, 8000), st.floats(0.1, 10))
def test_noam_follows_equation_3(step, d_model, warmup, factor):
    expected = factor / math.sqrt(d_model) * min(1 / math.sqrt(step), step / warmup**1.5)
    assert training.noam_rate(step, d_model, warmup, factor) == pytest.approx(expected)


def test_noam_rises_in_a_line_peaks_after_the_warm_up_and_falls_with_the_root():
    rates = [training.noam_rate(step, 512, 100) for step in range(1, 1001)]
    assert max(range(1000), key=rates.__getitem__) + 1 == 100
    assert rates[49] == pytest.approx(rates[99] / 2) and rates[399] == pytest.approx(rates[99] / 2)
    assert rates[99] == pytest.approx(1 / math.sqrt(512 * 100))


def test_the_papers_base_model_reaches_its_published_peak():
    assert training.noam_rate(4000, 512, 4000) == pytest.approx(6.99e-4, rel=1e-3)


def test_the_linear_tail_is_1_before_it_and_ends_just_above_0():
    factors = [training.linear_tail(step, 10, 4) for step in range(1, 11)]
    assert factors == pytest.approx([1, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])
    assert training.linear_tail(1, 1, 1) == 1


# the loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("padded", ["none", "some", "all but one"])
def test_the_loss_agrees_with_torch_forward_and_backward(smoothing, padding, padded):
    logits = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[3, 1, 4, 1], [5, 3, 5, 4], [1, 4, 3, 5]])
    if padded == "some":
        labels[1, 2:] = padding
        labels[2, 0] = padding
    if padded == "all but one":
        labels[:] = padding
        labels[1, 2] = 5
    ours = training.smoothed_loss(logits, labels, smoothing, padding)
    theirs = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=padding, label_smoothing=smoothing)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(ours, [logits]), gradients(theirs, [logits]))


def test_other_ids_are_not_taken_for_padding():
    logits, labels = torch.randn(1, 3, 6), torch.tensor([[0, 2, 0]])
    assert training.smoothed_loss(logits, labels, padding=2) == training.smoothed_loss(
        logits[:, ::2], labels[:, ::2], padding=5
    )


def test_logits_at_padding_get_no_gradient_even_where_they_are_not_finite():
    logits = torch.randn(1, 3, 6, requires_grad=True)
    broken = torch.where(torch.tensor([[[False], [False], [True]]]), torch.inf, logits)
    loss = training.smoothed_loss(broken, torch.tensor([[4, 5, 0]]))
    loss.backward()
    assert loss.isfinite() and logits.grad.isfinite().all()
    assert (logits.grad[0, 2] == 0).all() and (logits.grad[0, :2] != 0).all()


@given(st.floats(0, 0.95))
def test_the_smallest_possible_loss_is_the_entropy_of_the_smoothed_labels(smoothing):
    vocabulary = 7
    target = torch.full((vocabulary,), smoothing / vocabulary, dtype=torch.float64)
    target[3] += 1 - smoothing
    loss = training.smoothed_loss(target.clamp(min=1e-300).log().expand(1, 2, -1), torch.tensor([[3, 3]]), smoothing)
    assert loss.item() == pytest.approx(-torch.special.xlogy(target, target).sum().item(), abs=1e-12)


def test_equal_logits_cost_the_logarithm_of_the_vocabulary():
    loss = training.smoothed_loss(torch.zeros(2, 3, 50), torch.ones(2, 3, dtype=torch.int64), 0.3)
    assert loss.item() == pytest.approx(math.log(50))


def test_labels_of_int32_are_labels_too():
    logits, labels = torch.randn(1, 2, 6), torch.tensor([[3, 0]])
    assert training.smoothed_loss(logits, labels.int()) == training.smoothed_loss(logits, labels)


def test_the_translation_loss_compares_each_position_with_the_next_token():
    model = translator()
    logits = model(BATCH.source, BATCH.target[:, :-1])
    losses = [
        F.cross_entropy(logits[row, position], BATCH.target[row, position + 1]).item()
        for row in range(len(PAIRS))
        for position in range(BATCH.target.size(1) - 1)
        if BATCH.target[row, position + 1] != 0
    ]
    assert len(losses) == sum(len(target) + 1 for _, target in PAIRS)
    assert training.translation_loss(model, BATCH, smoothing=0.0).item() == pytest.approx(sum(losses) / len(losses))


# the loop


def test_a_small_batch_is_learnt_by_heart():
    model = translator()
    losses = list(training.train(model, [BATCH] * 100, training.translation_loss, adam(model), constant))
    assert losses[0] > 2 and losses[-1] < losses[0] / 2
    assert training.evaluate(model, [BATCH]) < 0.3  # smoothed labels keep it above 0.1
    predicted = model(BATCH.source, BATCH.target_input).argmax(-1)
    real = BATCH.labels != 0
    assert predicted[real].equal(BATCH.labels[real])


def test_steps_are_counted_from_first_and_each_gets_its_rate():
    model, asked, used = translator(), [], []

    def rate(step: int) -> float:
        asked.append(step)
        return step / 1e6

    optimizer = adam(model)
    for _ in training.train(model, [BATCH] * 3, training.translation_loss, optimizer, rate, first=41):
        used.append(optimizer.param_groups[0]["lr"])
    assert asked == [41, 42, 43] and used == [41e-6, 42e-6, 43e-6]


def test_a_step_is_plain_descent_along_the_clipped_gradient():
    model, expected = translator(), translator()
    loss = 1000 * training.translation_loss(expected, BATCH)
    loss.backward()
    norm = torch.stack([p.grad.square().sum() for p in expected.parameters()]).sum().sqrt()
    assert norm > 1
    sgd = torch.optim.SGD(model.parameters(), lr=9.0)
    losses = list(
        training.train(model, [BATCH], lambda m, b: 1000 * training.translation_loss(m, b), sgd, lambda _: 0.1)
    )
    assert losses == [loss.item()]
    for before, after in zip(expected.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(after, before - 0.1 * before.grad / (norm + 1e-6))


def test_gradients_do_not_pile_up_over_steps():
    model, alone = translator(), translator()

    def small_loss(model: nn.Module, batch: Batch) -> Tensor:
        return training.translation_loss(model, batch) / 1000  # clipping would hide what piles up

    for _ in training.train(model, [BATCH] * 3, small_loss, adam(model), lambda _: 0.0):
        pass
    small_loss(alone, BATCH).backward()
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_before_it_does_damage(broken):
    model = translator()
    optimizer = adam(model)
    factors = iter([1.0, broken])

    def loss_of(model: nn.Module, batch: Batch) -> Tensor:
        return next(factors) * training.translation_loss(model, batch)

    steps = training.train(model, [BATCH] * 2, loss_of, optimizer, constant, first=5)
    next(steps)
    before = [p.clone() for p in model.parameters()]
    moments = [s["exp_avg"].clone() for s in optimizer.state.values()]
    with pytest.raises(ValueError, match=f"the loss must be finite, got {broken} at step 6"):
        next(steps)
    assert all(p.equal(b) for p, b in zip(model.parameters(), before, strict=True))
    assert all(s["exp_avg"].equal(m) for s, m in zip(optimizer.state.values(), moments, strict=True))


def test_training_goes_on_with_dropout_after_an_evaluation_in_between():
    model, modes = translator(dropout=0.1), []

    def loss_of(model: nn.Module, batch: Batch) -> Tensor:
        modes.append(model.training and all(module.training for module in model.modules()))
        return training.translation_loss(model, batch)

    for _ in training.train(model, [BATCH] * 2, loss_of, adam(model), constant):
        training.evaluate(model, [BATCH])
        model.eval()
    assert modes == [True, True]


def test_only_as_many_batches_are_drawn_as_steps_are_taken():
    drawn = []

    def endless() -> Iterator[Batch]:
        while True:
            drawn.append(1)
            yield BATCH

    model = translator()
    steps = training.train(model, endless(), training.translation_loss, adam(model), constant)
    next(steps), next(steps)
    assert len(drawn) == 2


# evaluation


def test_evaluation_weighs_batches_by_their_tokens():
    model = translator()
    parts = [Batch.from_pairs(PAIRS[:3]), Batch.from_pairs(PAIRS[3:])]
    losses = [training.translation_loss(model, part, 0.0).item() for part in parts]
    weights = [sum(len(target) + 1 for _, target in pairs) for pairs in (PAIRS[:3], PAIRS[3:])]
    expected = sum(a * w for a, w in zip(losses, weights, strict=True)) / sum(weights)
    assert training.evaluate(model, parts) == pytest.approx(expected)
    assert training.evaluate(model, [BATCH]) == pytest.approx(expected, rel=1e-5)
    assert abs(sum(losses) / 2 - expected) > 1e-3


@pytest.mark.parametrize("mode", [True, False])
def test_evaluation_runs_without_dropout_and_leaves_the_mode_as_it_was(mode):
    model = translator(dropout=0.5).train(mode)
    before = [p.clone() for p in model.parameters()]
    assert training.evaluate(model, [BATCH]) == training.evaluate(model, [BATCH])
    assert model.training is mode and all(module.training is mode for module in model.modules())
    assert all(p.equal(b) and p.grad is None for p, b in zip(model.parameters(), before, strict=True))


def test_evaluation_smooths_only_if_asked_to():
    model = translator().eval()
    assert training.evaluate(model, [BATCH]) == pytest.approx(training.translation_loss(model, BATCH, 0.0).item())
    assert training.evaluate(model, [BATCH], 0.2) == pytest.approx(training.translation_loss(model, BATCH, 0.2).item())


# precision


def test_float32_leaves_products_as_they_are_and_bfloat16_does_not():
    x = torch.randn(3, 3)
    with training.autocast("cpu", torch.float32):
        assert (x @ x).dtype == torch.float32
    with training.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("amx", "avx512", "best"),
    [(True, False, torch.bfloat16), (False, True, torch.bfloat16), (False, False, torch.float32)],
)
def test_a_cpu_computes_in_bfloat16_only_if_it_can(monkeypatch, amx, avx512, best):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512, raising=False)
    assert training.best_precision("cpu") == best


def test_a_torch_that_cannot_say_what_the_cpu_can_gets_float32(monkeypatch):
    monkeypatch.delattr(torch.cpu, "_is_amx_tile_supported", raising=False)
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported", raising=False)
    assert training.best_precision("cpu") == torch.float32


@pytest.mark.parametrize(
    ("capability", "best"), [((7, 5), torch.float16), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)]
)
def test_a_gpu_computes_in_bfloat16_from_ampere_on(monkeypatch, capability, best):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert training.best_precision("cuda") == best


def test_other_devices_get_float32():
    assert training.best_precision("meta") == torch.float32


def test_a_batch_is_refused_by_a_model_with_another_padding():
    model = Transformer(TransformerConfig(vocabulary=9, d_model=8, heads=2, d_ff=8, layers=1, padding=5))
    batch = Batch(torch.tensor([[3, 4]]), torch.tensor([[1, 6, 2]]))
    with pytest.raises(ValueError, match="padding must be 0.*got 5"):
        training.translation_loss(model, batch)
