"""Chapter 05: its claims hold for seeds that the notebook doesn't use."""

import math

import pytest
import torch
import torch.nn.functional as F

from transformer_lib import attention, experiments, masks, multi_head
from transformer_lib.experiments import leak, word_chain
from transformer_lib.visualisation import mask_maps

FLOOR = -sum(chance * math.log(chance) for chance in word_chain.CHANCES)  # nats per word
seeds = pytest.mark.parametrize("seed", [50, 51, 52])


def head(seed, length=11, d_k=16):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(length, d_k, generator=generator)
    return x, torch.randn(3, d_k, d_k, generator=generator) / math.sqrt(d_k)


def reach(output_of, x):
    return torch.autograd.functional.jacobian(output_of, x).norm(dim=(1, 3))


@seeds
def test_a_mask_before_the_softmax_blocks_and_one_after_it_leaks(seed):
    x, (W_q, W_k, W_v) = head(seed)
    causal = masks.causal_mask(11)
    before = reach(lambda x: attention.attend(x @ W_q, x @ W_k, x @ W_v, causal), x)
    after = reach(lambda x: (attention.attention_weights(x @ W_q, x @ W_k) * causal) @ x @ W_v, x)
    assert before[~causal].eq(0).all() and before[causal].gt(0).all()
    assert after[~causal].gt(0).all()
    cut = attention.attention_weights(x @ W_q, x @ W_k) * causal
    assert cut[~causal].eq(0).all() and cut.sum(-1)[:-1].lt(1).all()
    masked = attention.attention_weights(x @ W_q, x @ W_k, causal)
    torch.testing.assert_close(cut / cut.sum(-1, keepdim=True), masked, rtol=1e-4, atol=1e-6)


@seeds
@pytest.mark.parametrize("mask", [masks.prefix_mask(9, 4), masks.sliding_window_mask(9, 3), masks.causal_mask(9)])
def test_a_word_reaches_an_output_just_where_the_mask_says_so(seed, mask):
    x, (W_q, W_k, W_v) = head(seed, length=9)
    found = reach(lambda x: attention.attend(x @ W_q, x @ W_k, x @ W_v, mask), x)
    assert found.gt(0).equal(mask)


@seeds
def test_padding_changes_nothing_when_masked_and_much_when_not(seed):
    torch.manual_seed(seed)
    table, layer = torch.randn(20, 16), multi_head.MultiHeadAttention(16, heads=2)
    batch = torch.tensor([[8, 3, 5, 0, 0, 0, 0], [7, 4, 9, 5, 2, 8, 6]])
    x, alone = table[batch], layer(table[batch[:1, :3]], table[batch[:1, :3]])
    masked, unmasked = layer(x, x, masks.padding_mask(batch))[:1, :3], layer(x, x)[:1, :3]
    torch.testing.assert_close(masked, alone, rtol=0, atol=1e-5)
    assert (unmasked - alone).norm() > 0.2 * alone.norm()


@seeds
def test_the_outputs_at_t_span_t_minus_1_dimensions_up_to_the_values_width(seed):
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(50, 16, dtype=torch.float64, generator=generator)
    for t in (1, 2, 5, 16, 17, 18, 50):
        weights = torch.randn(200, t, dtype=torch.float64, generator=generator).softmax(-1)
        outputs = weights @ value[:t]
        assert torch.linalg.matrix_rank(outputs - outputs[0]) == min(t - 1, 16)


@seeds
def test_a_row_of_nan_spoils_the_gradient_even_where_the_loss_leaves_it_out(seed):
    torch.manual_seed(seed)
    query, key, value = torch.randn(3, 3, 2, 4, 8)
    mask = masks.padding_mask(torch.tensor([[7, 4, 9, 5], [8, 3, 0, 0], [0, 0, 0, 0]])) & masks.causal_mask(4)
    naive = attention.attention_scores(query, key).masked_fill(~mask, -math.inf).softmax(-1) @ value
    W = torch.randn(8, 8, requires_grad=True)
    for output, finite in ((naive, False), (attention.attend(query, key, value, mask), True)):
        loss = (output @ W)[:2].square().mean()
        assert loss.isfinite() and torch.autograd.grad(loss, W)[0].isfinite().all() == finite


@seeds
def test_a_padding_mask_the_wrong_way_round_is_nan_in_full_sentences_only(seed):
    torch.manual_seed(seed)
    x, real = torch.randn(2, 4, 16), torch.tensor([[True, True, True, True], [True, True, False, False]])
    found, weights = torch.nn.MultiheadAttention(16, 2, batch_first=True)(x, x, x, key_padding_mask=real)
    assert found[0].isnan().all() and found[1].isfinite().all() and weights[1, :, :2].eq(0).all()


@seeds
def test_one_head_with_one_component_cannot_give_most_to_the_key_in_the_middle(seed):
    query = 30 * torch.randn(1000, 1, generator=torch.Generator().manual_seed(seed))
    assert (query @ torch.tensor([[-1.0, 0.0, 1.0]])).softmax(-1)[:, 1].max() < 0.334


def test_a_finite_number_leaves_a_row_without_keys_alike_or_as_if_unmasked():
    scores = torch.tensor([2.0, 1.0, 0.0])
    torch.testing.assert_close((scores - 1e9).softmax(-1), torch.full((3,), 1 / 3))
    torch.testing.assert_close((scores - 1e4).softmax(-1), scores.softmax(-1))
    torch.testing.assert_close((scores.double() - 1e9).softmax(-1), scores.double().softmax(-1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_infinity_is_a_right_mask_in_each_precision_and_an_empty_row_gives_zeros(dtype):
    scores, may = torch.tensor([[2.0, 1.0, 0.0]], dtype=dtype), torch.tensor([[True, True, False]])
    weights = attention.masked_softmax(scores, may)
    assert weights[0, 2] == 0 and abs(weights.float().sum() - 1) < 0.01
    assert attention.masked_softmax(scores, torch.zeros_like(may)).eq(0).all()


def test_pytorchs_causal_flag_counts_from_the_top_left():
    query, key, shown = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 5, 8), torch.eye(5)[None, None]
    assert F.scaled_dot_product_attention(query, key, shown, is_causal=True).flatten().tolist() == [1, 0, 0, 0, 0]


def test_the_chain_has_three_successors_a_word_and_its_entropy_everywhere():
    chain = word_chain.transitions()
    torch.testing.assert_close(chain.sum(1), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(torch.special.entr(chain).sum(1), torch.full((12,), FLOOR, dtype=torch.float64))
    assert (chain > 0).sum(1).eq(3).all() and chain.diagonal().eq(0).all()
    assert (torch.linalg.matrix_power(chain, 100) > 0.001).all()  # each word is reached from each
    texts = word_chain.texts(400, 30, torch.Generator().manual_seed(0))
    assert texts.shape == (400, 31) and texts[:, 0].eq(0).all()
    chances = chain[texts[:, :-1], texts[:, 1:]]
    assert abs(-chances.log().mean() - FLOOR) < 0.02


@seeds
@pytest.mark.parametrize("mistake", leak.MISTAKES)
def test_changing_the_future_finds_both_mistakes_in_an_untrained_model(seed, mistake):
    torch.manual_seed(seed)
    model, text = leak.LanguageModel(), word_chain.texts(2, leak.LENGTH, torch.Generator().manual_seed(seed))
    moved = []
    for j in range(1, leak.LENGTH + 1):
        changed = text.clone()
        changed[:, j:] = (changed[:, j:] + 1) % 12
        change = leak.scored(model, changed, mistake) - leak.scored(model, text, mistake)
        moved.append(change[:, :j].abs().max().item() > 1e-6)
    assert any(moved) == (mistake != "none")


def test_a_mistake_with_another_name_is_refused():
    with pytest.raises(ValueError, match="mistake must be one of"):
        leak.train("no idea")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_a_model_that_sees_its_answers_scores_below_the_entropy_and_writes_rubbish(seed):
    runs = {mistake: leak.train(mistake, seed=seed) for mistake in leak.MISTAKES}
    reported = {mistake: sum(run.losses[-20:]) / 20 for mistake, run in runs.items()}
    assert FLOOR - 0.005 < reported["none"] < FLOOR + 0.04
    assert reported["no mask"] < 0.8 * FLOOR and reported["no shift"] < 0.02
    assert abs(runs["none"].honest_loss - FLOOR) < 0.05 and runs["none"].impossible < 0.02
    assert runs["none"].accuracy < 0.54
    assert runs["no mask"].honest_loss > FLOOR + 1 and runs["no mask"].accuracy > 0.8
    assert runs["no shift"].honest_loss > 5 and runs["no shift"].accuracy > 0.99
    assert runs["no shift"].repeats > 0.9
    assert min(runs["no mask"].impossible, runs["no shift"].impossible) > 0.25


def test_the_record_holds_three_seeds_that_say_the_same():
    runs = experiments.recorded("leak")
    assert [run["seed"] for run in runs] == [1, 2, 3]
    for run in runs:
        assert FLOOR < run["none"]["training_loss"] < FLOOR + 0.02
        assert run["no shift"]["training_loss"] < 0.01
        assert abs(run["no mask"]["training_loss"] - FLOOR / 16) < 0.02  # the last word isn't in its input


def test_a_map_fills_the_squares_that_are_allowed():
    mask = masks.causal_mask(3)
    axes = mask_maps({"causal": mask}, queries=list("abc"), keys=list("xyz")).axes[0]
    assert axes.collections[0].get_array().reshape(3, 3).tolist() == mask.int().tolist()
    assert axes.yaxis_inverted() and [label.get_text() for label in axes.get_xticklabels()] == ["x", "y", "z"]


def test_what_cannot_be_drawn_as_a_mask_is_refused():
    with pytest.raises(ValueError, match="at least one mask"):
        mask_maps({})
    with pytest.raises(ValueError, match="queries must name 3 tokens"):
        mask_maps({"m": masks.causal_mask(3)}, queries=["a"])
    with pytest.raises(ValueError, match=r"shape \[query key\]"):
        mask_maps({"m": masks.causal_mask(3)[None]})
