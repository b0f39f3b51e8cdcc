"""Chapter 03: its claims hold for seeds that the notebook doesn't use; its experiments and figures do what they say."""

import math

import pytest
import torch
from torch import nn

from transformer_lib import attention, experiments, head_statistics, multi_head, observe, translator
from transformer_lib.data import Batch, encode_pairs
from transformer_lib.experiments import idle_heads, pruned_heads, two_relations
from transformer_lib.model import Transformer
from transformer_lib.visualisation import head_figures

PAIRS = [
    ("Ein Mann spielt Gitarre.", "A man is playing guitar."),
    ("Zwei Hunde rennen durch den Schnee.", "Two dogs are running through the snow."),
    ("Eine Frau sitzt auf einer Bank.", "A woman is sitting on a bench."),
    ("Ein Mädchen mit einem blauen Hut lacht.", "A girl with a blue hat is laughing."),
    ("Vier Jungen spielen Fußball im Park.", "Four boys are playing soccer in the park."),
    ("Ein alter Mann liest eine Zeitung.", "An old man is reading a newspaper."),
    ("Der Koch steht in einer kleinen Küche.", "The cook is standing in a small kitchen."),
    ("Eine Gruppe von Menschen geht über die Brücke.", "A group of people is walking across the bridge."),
]


@pytest.fixture(scope="module")
def shipped():
    return translator.load_translator()


@pytest.fixture(scope="module")
def batch(shipped):
    return Batch.from_pairs(encode_pairs(PAIRS, shipped.tokeniser))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10, 11, 12])
def test_one_head_gives_up_one_of_two_places_where_two_share_them_out(seed):
    one = two_relations.train_two_relations(1, seed=seed)
    two = two_relations.train_two_relations(2, seed=seed, steps=800)
    assert one.parameters == two.parameters
    assert one.accuracy < 0.3 and two.accuracy > 0.97
    assert max(two.without) < 0.3  # each of the two is needed
    assert 1.9 < sum(one.losses[-20:]) / 20 < 2.2  # ln 8 = 2.08: one of the symbols is known, the other isn't
    assert max(_looks(one)[0]) > 0.7 and all(max(pair) > 0.9 for pair in _looks(two))
    assert {pair.index(max(pair)) for pair in _looks(two)} == {0, 1}


@pytest.mark.slow
def test_two_heads_can_do_it_by_two_different_averages_more_slowly():
    run = two_relations.train_two_relations(2, seed=21, steps=800)
    assert 0.6 < run.accuracy < 0.99 and max(run.without) < 0.3
    both, second = _looks(run)
    assert min(both) > 0.3 and second[1] > 0.6


def _looks(run):
    """Return for each head the mean weight on the place before and on the one before that."""
    rows = run.weights[:, two_relations.FIRST_ANSWER :]
    return [[rows.diagonal(k, 1, 2).mean(-1)[head].item() for k in (1, 0)] for head in range(len(rows))]


@pytest.mark.parametrize("seed", range(3))
def test_logits_of_one_averaging_head_lie_between_those_of_equal_pairs(seed):
    generator = torch.Generator().manual_seed(seed)
    values, readout = torch.randn(8, 16, generator=generator), torch.randn(16, 15, generator=generator)
    readout[:, 7] = 40 * values.pinverse() @ torch.ones(8)  # answer 7, "0", wins for each equal pair
    assert ((values @ readout).argmax(-1) == 7).all()
    w = torch.rand(8, 8, 1, generator=generator)
    mixed = (w * values[:, None] + (1 - w) * values[None]) @ readout
    assert (mixed.argmax(-1) == 7).all()


def test_the_recorded_runs_say_what_the_chapter_says():
    runs = experiments.recorded("two_relations")
    assert len(runs) == 3
    for run in runs:
        assert run["1, linear"]["accuracy"] < 0.3
        for name in ("2, linear", "4, linear", "8, linear", "16, linear", "2, relu", "2, no W_o", "4, no W_o"):
            assert run[name]["accuracy"] > 0.97, name
        assert run["8, d_k 4"]["parameters"] < run["8, linear"]["parameters"] == run["1, linear"]["parameters"]
        start, end = run["8, linear"]["overlap"]
        assert start == pytest.approx(1 / 8, abs=0.01) and end > start + 0.03


def test_a_run_repeats_itself_and_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    first, second = (two_relations.train_two_relations(2, seed=3, steps=3) for _ in range(2))
    assert first.losses == second.losses and torch.equal(torch.random.get_rng_state(), before)
    assert first.losses[0] == pytest.approx(math.log(two_relations.VOCABULARY), abs=0.6)
    torch.testing.assert_close(first.weights.sum(-1), torch.ones(2, two_relations.LENGTH))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [({}, 4 * 64 * 64), ({"d_k": 4}, 4 * 64 * 32), ({"output": False}, 3 * 64 * 64)],
)
def test_a_layer_has_the_attention_it_was_asked_for(kind, parameters):
    layer = two_relations.OneLayer(8, **kind)
    assert sum(weight.numel() for weight in layer.attention.parameters()) == parameters
    assert layer(torch.full((2, two_relations.LENGTH), 5)).shape == (2, two_relations.LENGTH, two_relations.VOCABULARY)


def test_an_unknown_readout_is_refused():
    with pytest.raises(ValueError, match="readout must be one of"):
        two_relations.OneLayer(2, "tanh")


def test_overlap_is_0_for_orthogonal_1_for_equal_and_the_share_for_random_subspaces():
    assert two_relations.subspace_overlap(torch.eye(8), 4) == pytest.approx(0)
    assert two_relations.subspace_overlap(torch.cat([torch.eye(8)[:2]] * 2), 2) == pytest.approx(1)
    weight = torch.randn(512, 512, generator=torch.Generator().manual_seed(0))
    assert two_relations.subspace_overlap(weight, 8) == pytest.approx(1 / 8, abs=0.005)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_training_made_the_translators_heads_read_more_alike(shipped, seed):
    def overlaps(model):
        modules = observe.attention_modules(model).values()
        return torch.tensor([two_relations.subspace_overlap(m.query.weight, m.heads) for m in modules])

    torch.manual_seed(seed)
    before, after = overlaps(Transformer(shipped.model.config)), overlaps(shipped.model)
    assert (before - 1 / 4).abs().max() < 0.015 and (after > before).all() and after.mean() > 0.27


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_maps_of_trained_heads_are_less_alike_but_stay_correlated(shipped, batch, seed):
    def alike(model, measure):
        with torch.no_grad(), observe.record_attention(model) as found:
            model.encode(batch.source)
        maps = [calls[0] for name, calls in found.items() if name.startswith("encoder")]
        tables = [measure(weights, queries=batch.source != 0) for weights in maps]
        return [((table.sum() - 4) / 12).item() for table in tables]

    torch.manual_seed(seed)
    fresh = Transformer(shipped.model.config).eval()
    before, after = (alike(model, head_statistics.similarity) for model in (fresh, shipped.model))
    assert all(a > b + 0.03 for a, b in zip(before[1:], after[1:], strict=True))
    before, after = (alike(model, head_statistics.correlation) for model in (fresh, shipped.model))
    assert after[0] > before[0] and after[3] < before[3] and min(after) > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_the_library_layer_is_a_sum_over_heads(seed):
    torch.manual_seed(seed)
    layer, x = multi_head.MultiHeadAttention(24, 3).double(), torch.randn(2, 5, 24).double()
    blocks = zip(
        layer.query.weight.chunk(3),
        layer.key.weight.chunk(3),
        layer.value.weight.chunk(3),
        layer.output.weight.chunk(3, 1),
        strict=True,
    )
    parts = [attention.attention_weights(x @ q.T, x @ k.T) @ x @ (v.T @ o.T) for q, k, v, o in blocks]
    torch.testing.assert_close(sum(parts), layer(x, x))


@pytest.mark.parametrize("seed", [10, 11, 12])
def test_small_projections_make_flat_maps_and_large_ones_peaked_maps(seed):
    def evenness(gain):
        torch.manual_seed(seed)
        x, layer = torch.randn(1, 64, 512), multi_head.MultiHeadAttention(512, 8)
        for projection in (layer.query, layer.key):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        query, key = (multi_head.split_heads(projection(x), 8) for projection in (layer.query, layer.key))
        return head_statistics.normalised_entropy(attention.attention_weights(query, key)).mean().item()

    assert evenness(0.1) > 0.999 and 0.8 < evenness(1) < 0.95 and evenness(2) < 0.5 and evenness(4) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10, 11, 12])
def test_idle_tokens_park_their_attention_on_a_token_that_says_nothing(seed):
    with_first, without = (idle_heads.train_idle(first=first, seed=seed) for first in (True, False))
    assert min(with_first.accuracy, without.accuracy) > 0.99
    assert with_first.on_first[0] > 2 / 12  # twice an even share: each has twelve others


def test_idle_answers_are_the_tokens_own_and_asking_ones_the_one_before():
    symbols, answers, asks = idle_heads._sequences(20, True, torch.Generator().manual_seed(0))
    assert symbols[:, 0].eq(idle_heads.FIRST).all() and not asks[:, 0].any()
    drawn = symbols[:, 1:]
    assert answers[~asks].equal(drawn[~asks]) and answers[:, 1:][asks[:, 1:]].equal(drawn[:, :-1][asks[:, 1:]])


@pytest.mark.slow
def test_without_a_head_the_translator_loses_little_without_cross_attention_much(shipped, batch):
    extra = pruned_heads.extra_losses(shipped.model, [batch])
    losses = pruned_heads.losses_by_kind(shipped.model, [batch])
    assert sum(map(len, extra.values())) == 48 and max(map(max, extra.values())) < 0.15
    assert losses["decoder cross"] > losses["nothing"] + 2
    removed = pruned_heads.removed_in_order(shipped.model, [batch], extra)
    assert len(removed) == 13 and removed[0] == pytest.approx(losses["nothing"]) and removed[-1] > 3


def test_heads_taken_out_together_cost_more_than_one_by_one():
    for run in experiments.recorded("pruned_heads"):
        alone = sum(sum(costs) for name, costs in run["extra"].items() if "cross" in name)
        together = run["losses"]["decoder cross"] - run["losses"]["nothing"]
        assert alone < 0.3 and together > 9 * alone


def test_the_figure_of_the_axes_refuses_more_heads_than_colours():
    with pytest.raises(ValueError, match="heads must be at most 4"):
        head_figures.head_axes(heads=5)


def test_small_maps_refuse_other_tokens_and_nothing():
    with pytest.raises(ValueError, match="weights must be of 2 tokens"):
        head_figures.small_maps({"a": torch.eye(3)}, ["x", "y"], columns=1)
    with pytest.raises(ValueError, match="at least one map"):
        head_figures.small_maps({}, [], columns=1)
    with pytest.raises(ValueError, match="at least one module"):
        head_figures.head_bars({}, "", "")


def test_mean_and_span_reach_from_the_smallest_to_the_largest_run():
    means, spans = head_figures.mean_and_span([[[1.0, 2.0], [3.0, 2.0]]])
    assert means == [[2.0, 2.0]] and spans == [[[1.0, 0.0], [1.0, 0.0]]]
