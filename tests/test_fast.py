"""The fast forms against the clear ones: forward and backward, in float32 and in bfloat16, in both modes."""

import contextlib
import math

import pytest
import torch
import twins
from torch import nn

from transformer_lib import attention, decoding, fast, fast_loss, multi_head, training
from transformer_lib.data import Batch
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.positional import PositionScheme

LONG = fast.FUSED_FROM
CONFIG = TransformerConfig(vocabulary=40, d_model=16, heads=2, d_ff=32, layers=2, dropout=0.0, max_length=12)
PAIRS = [([5, 6, 7], [7, 6, 5]), ([8, 9], [9, 8, 30, 31, 32]), ([10, 5, 8, 39], [9]), ([6], [6, 7])]
precisions = pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
TOLERANCE = {torch.float32: {"atol": 1e-5, "rtol": 1e-4}, torch.bfloat16: {"atol": 2e-2, "rtol": 2e-2}}


def assert_near(ours: torch.Tensor, theirs: torch.Tensor, precision: torch.dtype) -> None:
    torch.testing.assert_close(ours, theirs, check_dtype=False, **TOLERANCE[precision])


def mask_of(kind: str, queries: int, keys: int) -> torch.Tensor | None:
    drawn = torch.rand(2, 1, queries, keys) > 0.3
    drawn[..., 0] = True
    if kind == "a row with nothing":
        drawn[1, 0, 1] = False
    kinds = {"none": None, "causal": torch.ones(queries, keys, dtype=torch.bool).tril(), "padding": drawn[:, :, :1]}
    return kinds.get(kind, drawn)


# attention


@precisions
@pytest.mark.parametrize("kind", ["none", "causal", "padding", "full", "a row with nothing"])
@pytest.mark.parametrize("keys", [1, 7, LONG], ids=["one key", "short", "fused"])
def test_attend_agrees_with_the_clear_form(precision, kind, keys):
    sizes = [(3, 8), (keys, 8), (keys, 4)]
    inputs = [torch.randn(2, 2, *size).to(precision).requires_grad_() for size in sizes]
    mask = mask_of(kind, 3, keys)
    results = [form(*inputs, mask) for form in (fast.attend, attention.attend)]
    assert results[0].dtype == results[1].dtype == precision
    assert_near(*results, precision)
    for mine, other in zip(*(twins.gradients(result.float(), inputs) for result in results), strict=True):
        assert mine.isfinite().all()
        assert_near(mine, other, precision)
    if kind == "a row with nothing":
        assert (results[0][1, :, 1] == 0).all()


@pytest.mark.parametrize(
    ("dtype", "queries", "keys", "fused"),
    [
        (torch.float32, 2, 5, True),
        (torch.float32, 1, LONG, False),  # decoding with a cache
        (torch.float64, 2, 5, True),
        (torch.bfloat16, 2, LONG - 1, False),
        (torch.bfloat16, 2, LONG, True),
        (torch.float16, 2, 5, False),
    ],
)
def test_the_fused_kernel_runs_where_it_is_faster(monkeypatch, dtype, queries, keys, fused):
    calls = []
    real = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(fast.F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or real(*a, **k))
    fast.attend(*(torch.randn(rows, 4, dtype=dtype) for rows in (queries, keys, keys)))
    assert bool(calls) == fused


@pytest.mark.cuda
@precisions
@pytest.mark.parametrize("kind", ["none", "causal", "padding", "full", "a row with nothing"])
def test_attend_agrees_with_the_clear_form_on_a_gpu(precision, kind):
    inputs = [torch.randn(2, 2, n, 8, device="cuda").to(precision).requires_grad_() for n in (16, 24, 24)]
    mask = mask_of(kind, 16, 24)
    mask = None if mask is None else mask.cuda()
    results = [form(*inputs, mask) for form in (fast.attend, attention.attend)]
    assert_near(*results, precision)
    for mine, other in zip(*(twins.gradients(r.float().cpu(), inputs) for r in results), strict=True):
        assert_near(mine, other, precision)


@precisions
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("keys", [None, 7], ids=["self-attention", "cross-attention"])
def test_packed_projections_agree_with_separate_ones(precision, bias, keys):
    module = multi_head.MultiHeadAttention(16, 4, bias=bias)
    twins.randomise(module)
    x = torch.randn(2, 5, 16, requires_grad=True)
    memory = x if keys is None else torch.randn(2, keys, 16, requires_grad=True)
    mask = torch.rand(2, 1, 5, memory.size(1)) > 0.3
    parts = [x, *module.parameters()] if keys is None else [x, memory, *module.parameters()]
    with training.autocast("cpu", precision):
        results = [fast.packed_attention(module, x, memory, mask), module(x, memory, mask)]
    assert_near(*results, precision)
    for mine, other in zip(*(twins.gradients(result.float(), parts) for result in results), strict=True):
        assert (mine - other).norm() <= (1e-5 if precision == torch.float32 else 0.03) * other.norm() + 1e-5


class Turned(PositionScheme):
    """A scheme that the packed form knows nothing of."""

    def rotate(self, x, first):
        """Change the vectors with their positions."""
        return x * torch.arange(first + 1, first + 1 + x.size(2)).unsqueeze(1)


def test_attention_with_a_position_scheme_or_a_cache_stays_what_it_was():
    module, x = multi_head.MultiHeadAttention(16, 4, position=Turned()), torch.randn(2, 5, 16)
    plain = multi_head.MultiHeadAttention(16, 4)
    clear, clear_plain = module(x, x), plain(x, x, torch.ones(5, 5, dtype=torch.bool).tril())
    cache = multi_head.KeyValueCache()
    with fast.enabled():
        torch.testing.assert_close(module(x, x), clear)
        cached = [plain(part, part, None, cache) for part in x.split(1, dim=1)]
    torch.testing.assert_close(torch.cat(cached, dim=1), clear_plain)
    assert cache.first == 5


def test_a_replaced_piece_of_attention_is_not_passed_by(monkeypatch):
    def ones(query, key, mask=None):
        return torch.ones(*query.shape[:-1], key.size(-2))

    module, x = multi_head.MultiHeadAttention(16, 4), torch.randn(2, 5, 16)
    monkeypatch.setattr(attention, "attention_weights", ones)
    replaced = module(x, x)
    with fast.enabled():
        torch.testing.assert_close(module(x, x), replaced)


# dropout


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(probability):
    count, rounded = 200_000, round(probability * 256) / 256
    output = fast.dropout(torch.ones(count), probability)
    dropped = (output == 0).sum().item()
    assert abs(dropped - rounded * count) < 4.5 * math.sqrt(count * rounded * (1 - rounded))  # 1 in 150,000
    torch.testing.assert_close(output[output != 0].unique(), torch.tensor([1 / (1 - rounded)]))
    deviation = math.sqrt(rounded / (1 - rounded) / count)
    assert abs(output.mean().item() - 1) < 4.5 * deviation


def test_dropout_draws_anew_each_time_and_follows_the_seed():
    x = torch.ones(1000)
    first, second = fast.dropout(x, 0.5), fast.dropout(x, 0.5)
    torch.manual_seed(0)
    assert not first.equal(second) and fast.dropout(x, 0.5).equal(first)


def test_neighbours_are_dropped_independently():
    kept = (fast.dropout(torch.ones(400_000), 0.5) != 0).float() - 0.5
    for distance in (1, 2, 4, 7, 8, 9, 64):
        assert abs((kept[distance:] * kept[:-distance]).mean().item() * 4) < 0.01


def test_the_gradient_passes_where_the_output_passed():
    x = torch.randn(3, 5, 7).requires_grad_()
    output = fast.dropout(x, 0.3)
    (gradient,) = torch.autograd.grad(output.sum(), [x])
    torch.testing.assert_close(output.detach(), x.detach() * gradient)
    assert len(gradient.unique()) == 2


@pytest.mark.parametrize("shape", [(0,), (1,), (9,), (3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_keeps_shape_and_dtype(shape, dtype):
    output = fast.dropout(torch.ones(shape, dtype=dtype), 0.4)
    assert output.shape == shape and output.dtype == dtype


def test_the_smallest_rates_drop_nothing_and_the_largest_not_everything():
    x = torch.ones(5000)
    assert fast.dropout(x, 0.0) is x and fast.dropout(x, 1 / 600) is x
    assert set(fast.dropout(x, 0.9999).unique().tolist()) == {0.0, 256.0}


# the loss


def clear_loss(x, table, labels, smoothing):
    return training.smoothed_loss((x @ table.T).unsqueeze(0), labels.unsqueeze(0), smoothing, padding=0)


@precisions
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("rows", "chunk"), [(1, 256), (10, 4), (8, 4), (10, 256)])
def test_the_loss_agrees_with_the_clear_one(precision, smoothing, rows, chunk):
    x, table = torch.randn(rows, 16, requires_grad=True), torch.randn(40, 16, requires_grad=True)
    labels = torch.randint(1, 40, (rows,))
    with training.autocast("cpu", precision):
        ours, theirs = (
            fast_loss.linear_loss(x, table, labels, smoothing, chunk),
            clear_loss(x, table, labels, smoothing),
        )
    assert ours.dtype == torch.float32
    assert_near(ours, theirs, precision)
    for mine, other in zip(*(twins.gradients(3 * loss, [x, table]) for loss in (ours, theirs)), strict=True):
        assert_near(mine, other, precision)


def test_the_loss_of_huge_logits_is_finite():
    x, table = 300 * torch.ones(2, 4), torch.randn(9, 4)
    labels = torch.tensor([1, 2])
    torch.testing.assert_close(fast_loss.linear_loss(x, table, labels), clear_loss(x, table, labels, 0.1))


# everything together


def model_and_batch(**changes: object) -> tuple[Transformer, Batch]:
    torch.manual_seed(3)
    model = Transformer(TransformerConfig(**(vars(CONFIG) | changes)))
    twins.randomise(model)
    return model, Batch.from_pairs(PAIRS)


@precisions
@pytest.mark.parametrize("training_mode", [True, False], ids=["training", "evaluation"])
def test_a_models_loss_and_gradients_are_the_same(precision, training_mode):
    model, batch = model_and_batch()
    model.train(training_mode)
    parameters = list(model.parameters())
    with training.autocast("cpu", precision):
        clear = training.translation_loss(model, batch)
        with fast.enabled():
            quick = fast.translation_loss(model, batch)
    assert_near(quick, clear, precision)
    for mine, other in zip(*(twins.gradients(loss, parameters) for loss in (quick, clear)), strict=True):
        if precision == torch.float32:
            assert_near(mine, other, precision)
        else:  # element by element, bfloat16's rounding is as large as the smallest gradients
            assert (mine - other).norm() <= 0.05 * other.norm() + 1e-3


def test_a_models_logits_are_the_same_with_sources_of_padding_alone():
    model, batch = model_and_batch()
    source = batch.source.clone()
    source[1] = 0
    clear = model(source, batch.target_input)
    with fast.enabled():
        torch.testing.assert_close(model(source, batch.target_input), clear, atol=1e-5, rtol=1e-4)


def test_evaluation_has_no_dropout_and_training_has():
    model, batch = model_and_batch(dropout=0.3)
    model.eval()
    clear = model(batch.source, batch.target_input)
    with fast.enabled():
        torch.testing.assert_close(model(batch.source, batch.target_input), clear, atol=1e-5, rtol=1e-4)
        model.train()
        one, two = (model(batch.source, batch.target_input) for _ in range(2))
    assert not torch.allclose(one, two)


def test_training_with_the_fast_forms_learns_the_same_without_dropout():
    losses = []
    for quick in (False, True):
        model, batch = model_and_batch()
        optimizer = torch.optim.Adam(model.parameters())
        loss_of = fast.translation_loss if quick else training.translation_loss
        with fast.enabled() if quick else contextlib.nullcontext():
            losses.append(list(training.train(model, [batch] * 10, loss_of, optimizer, lambda _: 1e-3)))
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[0][-1] < losses[0][0]


def forms() -> tuple[object, object, object]:
    return attention.attend, nn.Dropout.forward, multi_head.MultiHeadAttention.forward


def test_enabled_puts_the_fast_forms_in_and_takes_them_out_again():
    before = forms()
    with fast.enabled():
        assert attention.attend is fast.attend and all(a is not b for a, b in zip(forms(), before, strict=True))
        with fast.enabled():
            assert attention.attend is fast.attend
        assert attention.attend is fast.attend and all(a is not b for a, b in zip(forms(), before, strict=True))
    assert forms() == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_enabled_takes_the_fast_forms_out_after_an_error_too(error):
    before = forms()
    with pytest.raises(error), fast.enabled():
        raise error
    assert forms() == before


def test_other_peoples_dropout_still_works_inside():
    with fast.enabled():
        assert (nn.Dropout(1.0)(torch.ones(5)) == 0).all()
        assert nn.Dropout(0.5).eval()(torch.ones(5)).equal(torch.ones(5))
        x = torch.ones(2000)
        assert set(nn.Dropout(0.5)(x).unique().tolist()) == {0.0, 2.0} and (x == 1).all()


def test_decoding_with_the_fast_forms_finds_the_same_and_lays_the_memory_out_once():
    torch.manual_seed(0)
    model, source = Transformer(CONFIG).eval(), Batch.from_pairs(PAIRS).source
    clear = [decoding.greedy(model, source, 6), decoding.beam_search(model, source, 3, max_length=6)]
    with fast.enabled():
        assert [decoding.greedy(model, source, 6), decoding.beam_search(model, source, 3, max_length=6)] == clear
        caches, memory = model.decoder.new_caches(), model.encode(source)
        for token in (1, 5):
            model.decode(source.new_full((len(source), 1), token), memory, source, caches)
    assert all(part.is_contiguous() for _, cross in caches for part in (cross.key, cross.value))


def test_a_narrowed_copy_is_nearly_the_model_and_leaves_it_alone():
    torch.manual_seed(0)
    model, batch = Transformer(CONFIG).eval(), Batch.from_pairs(PAIRS)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    narrow = fast.narrowed(model, torch.bfloat16)
    assert {parameter.dtype for parameter in narrow.parameters()} == {torch.bfloat16}
    logits = model(batch.source, batch.target_input)
    error = (narrow(batch.source, batch.target_input).float() - logits).abs().max()
    assert 0 < error < 0.03 * logits.abs().max()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert len(decoding.greedy(narrow, batch.source, 4)) == len(PAIRS)
