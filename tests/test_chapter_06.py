"""Chapter 06: its claims hold for seeds that the notebook doesn't use; its experiments and figures do what they say."""

import pytest
import torch
from torch import nn

from transformer_lib import experiments, layers, masks, multi_head
from transformer_lib.config import TransformerConfig
from transformer_lib.encoder_decoder import DecoderLayer, EncoderLayer
from transformer_lib.experiments import alignment
from transformer_lib.model import Transformer
from transformer_lib.toy_grammar import ToyPair
from transformer_lib.visualisation import alignment as alignment_figures
from transformer_lib.visualisation import whole_model

SEEDS = [10, 11, 12]


def tiny(seed):
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "heads": 4, "d_ff": 64, "layers": 2, "dropout": 0.0}
    return Transformer(TransformerConfig(vocabulary=50, **sizes)).double().eval()


def joined_rates(model, pairs):
    true, by_layer = [pair.alignment for pair in pairs], zip(*alignment.cross_weights(model, pairs), strict=True)
    return [
        alignment.alignment_error_rate([alignment.links(weights.mean(dim=0)) for weights in layer], true)
        for layer in by_layer
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_write_align_and_rows_that_read_do_not(seed):
    trained = alignment.train_translator(seed=seed)
    _, held_out = alignment.sentences()
    writing, reading = (alignment.error_rates(trained.model, held_out, way) for way in (False, True))
    assert trained.accuracy > 0.95
    assert max(map(max, writing)) < 0.6 < min(map(min, reading))
    for joined, heads in zip(joined_rates(trained.model, held_out), writing, strict=True):
        assert joined < sum(heads) / 4 - 0.03 and 0.15 < joined < 0.4
    by_word = {True: [], False: []}
    for pair, weights in zip(held_out, alignment.cross_weights(trained.model, held_out), strict=True):
        for link in alignment.links(weights[1].mean(dim=0)):
            by_word[pair.target[link[1]] == "the"].append(link in pair.alignment)
    right = {is_the: sum(links) / len(links) for is_the, links in by_word.items()}
    assert right[True] < 0.4 and right[False] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("sharing", alignment.SHARING[1:])
def test_a_translator_learns_with_borrowed_keys_and_values(sharing):
    assert alignment.train_translator(sharing, seed=10).accuracy > 0.93


def test_the_recorded_runs_say_what_the_chapter_says():
    runs = experiments.recorded("alignment")
    assert len(runs) == 3
    for run in runs:
        assert min(run[sharing]["accuracy"] for sharing in alignment.SHARING) > 0.99
        assert all(run["own"]["loss"] + 0.002 < run[sharing]["loss"] < 0.05 for sharing in alignment.SHARING[1:])
        assert max(map(max, run["own"]["writing"])) < 0.55 < 0.6 < min(map(min, run["own"]["reading"]))


def test_a_run_repeats_itself_and_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    first, second = (alignment.train_translator(seed=3, steps=2) for _ in range(2))
    assert first.losses == second.losses and torch.equal(torch.random.get_rng_state(), before)


def test_sharing_lends_the_very_matrices_and_refuses_other_names():
    lent = {}
    for sharing in alignment.SHARING:
        model = alignment.fresh_translator(sharing, seed=0)
        lent[sharing] = [layer.cross_attention.key for layer in model.decoder.layers]
        if sharing == "last encoder layer":
            assert all(key is model.encoder.layers[-1].self_attention.key for key in lent[sharing])
        if sharing == "same encoder layer":
            assert lent[sharing][0] is model.encoder.layers[0].self_attention.key
        if sharing == "own decoder layer":
            assert lent[sharing][1] is model.decoder.layers[1].self_attention.key
    with pytest.raises(ValueError, match="sharing must be one of"):
        alignment.fresh_translator("nobody", seed=0)


def test_the_error_rate_counts_links_of_all_sentences():
    true = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 0)})]
    assert alignment.alignment_error_rate(true, true) == 0
    assert alignment.alignment_error_rate([frozenset({(0, 0)}), frozenset({(1, 1)})], true) == 1 - 2 * 1 / 6
    with pytest.raises(ValueError, match="same sentences"):
        alignment.alignment_error_rate(true[:1], true)


def test_links_pair_a_word_with_the_row_that_writes_it_or_the_one_that_reads_it():
    weights = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])  # the start token and two words are read
    assert alignment.links(weights) == {(0, 0), (1, 1)}
    assert alignment.links(weights, reading=True) == {(1, 0), (0, 1)}


def test_naive_aligners_score_as_counted_by_hand():
    pair = ToyPair(("a", "b"), ("x", "y"), frozenset({(1, 0), (0, 1)}))
    assert alignment.baselines([pair]) == {"chance": 0.5, "diagonal": 1.0, "best": 0.0}


@pytest.mark.parametrize("seed", SEEDS)
def test_each_target_position_sees_its_past_and_the_whole_source(seed):
    model = tiny(seed)
    source, target = torch.randint(4, 50, (1, 7)), torch.randint(4, 50, (1, 5))
    memory = model.encode(source).detach().requires_grad_()
    words = model.embedding(target).detach().requires_grad_()
    output, probe = model.decoder(words, memory, masks.causal_mask(5)), torch.randn(32).double()
    for t in range(5):
        by_words, by_memory = torch.autograd.grad(output[0, t] @ probe, (words, memory), retain_graph=True)
        assert by_words[0, t + 1 :].eq(0).all() and by_words[0, : t + 1].abs().sum(-1).gt(0).all()
        assert by_memory[0].abs().sum(-1).gt(0).all()
    order = torch.randperm(7)
    torch.testing.assert_close(model.decoder(words, memory[:, order], masks.causal_mask(5)), output)


@pytest.mark.parametrize("seed", SEEDS)
def test_cross_attention_is_the_only_way_into_the_decoder_and_no_probability(seed):
    model = tiny(seed)
    one, two = torch.randint(4, 50, (2, 1, 7))
    target, kept = torch.randint(4, 50, (1, 5)), []
    model.decoder.layers[-1].cross_attention.register_forward_hook(lambda *parts: kept.append(parts[2]))
    assert (model(one, target) - model(two, target)).abs().max() > 0.01
    assert kept[0].size(-1) == 32 and (kept[0] < 0).any()
    for layer in model.decoder.layers:
        nn.init.zeros_(layer.cross_attention.output.weight)
    assert torch.equal(model(one, target), model(two, target))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_residual_keeps_tokens_apart_and_the_norm_their_size(seed):
    def after(residual, norm):
        torch.manual_seed(seed)
        x = torch.randn(1, 10, 64)
        for _ in range(12):
            attention, ffn = multi_head.MultiHeadAttention(64, 4), layers.FeedForward(64, 256)
            for sublayer in (lambda y, a=attention: a(y, y), ffn):
                x = x + sublayer(x) if residual else sublayer(x)
                x = nn.functional.layer_norm(x, (64,)) if norm else x
        unit = nn.functional.normalize(x[0], dim=-1)
        return x.square().mean().sqrt().item(), ((unit @ unit.T).sum().item() - 10) / 90

    with torch.no_grad():
        assert after(False, False)[0] < 0.2 and min(after(False, False)[1], after(False, True)[1]) > 0.98
        assert after(True, False)[0] > 1.3 and max(after(True, False)[1], after(True, True)[1]) < 0.7
        assert after(True, True)[0] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_do_not_change_when_both_projections_do(seed):
    torch.manual_seed(seed)
    W_q, W_k, M = torch.randn(3, 64, 64, dtype=torch.float64)
    x, memory = torch.randn(5, 64, dtype=torch.float64), torch.randn(7, 64, dtype=torch.float64)
    scores = (x @ W_q) @ (memory @ W_k).T
    same = (x @ W_q @ M) @ (memory @ W_k @ torch.linalg.inv(M).T).T
    assert (same - scores).norm() < 1e-9 * scores.norm()


def test_encoder_and_decoder_may_differ_in_heads():
    x, memory = torch.randn(2, 5, 64), torch.randn(2, 7, 64)
    out = DecoderLayer(64, heads=8, d_ff=64)(x, EncoderLayer(64, heads=4, d_ff=64)(memory))
    assert out.shape == (2, 5, 64)


def test_the_whole_model_is_drawn_with_its_shapes():
    texts = [text.get_text() for text in whole_model.whole_model().axes[0].texts]
    for shape in ("m × d", "n × d", "memory, m × d", "n × vocabulary", "cross-attention\nweights h × n × m"):
        assert shape in texts


def test_figures_of_alignments_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="alignment must be of 2 source and 2 target words"):
        alignment_figures.aligned_map("", torch.eye(2), (["a", "b"], ["x", "y"]), [(2, 0)])
    with pytest.raises(ValueError, match="at least one kind"):
        alignment_figures.dots({"own": []}, "", "")
