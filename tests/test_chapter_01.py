"""Chapter 01: its claims hold for seeds that the notebook doesn't use; what it counts is what it says."""

import time

import pytest
import torch
from torch import nn

from transformer_lib import baselines, experiments
from transformer_lib.experiments import copy_back, costs, forward_time, networks, reach, recall, recall_rate, steps
from transformer_lib.visualisation import paths

names = pytest.mark.parametrize("name", networks.NAMES)

# the networks


@names
@pytest.mark.parametrize("length", [1, 30])
def test_the_fast_last_output_is_the_network_s(name, length):
    network = networks.network(name, 8)
    x = torch.randn(3, length, 8)
    torch.testing.assert_close(networks.last_output(network, x), network(x)[:, -1])


def test_the_fast_last_output_passes_the_same_gradients_back():
    for name in networks.NAMES:
        network, x = networks.network(name, 8).double(), torch.randn(2, 20, 8, dtype=torch.double)
        fast, slow = (
            torch.autograd.grad(output.square().sum(), list(network.parameters()), allow_unused=True)
            for output in (networks.last_output(network, x), network(x)[:, -1])
        )
        for mine, other in zip(fast, slow, strict=True):
            torch.testing.assert_close(mine, other)


def test_last_output_of_any_other_network_is_its_last():
    layer, x = nn.Linear(4, 4), torch.randn(2, 5, 4)
    torch.testing.assert_close(networks.last_output(layer, x), layer(x)[:, -1])


def test_one_attention_is_causal_and_equals_pytorchs_own():
    layer, x = networks.OneAttention(8), torch.randn(2, 12, 8)
    changed = x.clone()
    changed[:, 7:] += 1
    torch.testing.assert_close(layer(x)[:, :7], layer(changed)[:, :7])
    torch.testing.assert_close(layer(x), layer.fused(x))


def test_only_the_forget_gate_starts_open():
    lstm = networks.opened(baselines.LSTM(4))
    i, f, g, o = lstm.input.bias.chunk(4)
    assert f.eq(networks.OPEN).all() and max(part.abs().max() for part in (i, g, o)) < 1


def test_an_unknown_network_is_refused():
    with pytest.raises(ValueError, match="name must be one of Elman, LSTM.*got 'GRU'"):
        networks.network("GRU", 8)


# how far back a gradient reaches


def test_the_reach_is_the_norm_of_the_jacobian():
    layer = nn.Linear(6, 6)
    sizes = [reach.gradient_reach(layer, 3, d_model=6, seed=seed) for seed in range(20)]
    assert sum(size[0] for size in sizes) / 20 == pytest.approx(layer.weight.norm().item(), rel=0.05)
    assert all(size[1:] == [0.0, 0.0] for size in sizes)  # position by position, a linear layer mixes nothing


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10, 11, 12])
def test_who_reaches_back_sixty_four_positions(seed):
    reaches = {name: reach.fresh_reach(name, seed=seed) for name in networks.NAMES}
    ratio = {name: sizes[64] / sizes[1] for name, sizes in reaches.items()}
    assert 0 < ratio["Elman"] < 1e-17 and 0 < ratio["LSTM"] < 1e-12 and ratio["plain CNN"] == 0
    assert reaches["plain CNN"][16] > 0 == reaches["plain CNN"][17]
    assert all(0.2 < ratio[name] < 10 for name in ("LSTM, open", "dilated CNN", "attention"))
    assert 0.02 < min(reaches["attention"][1:]) < max(reaches["attention"][1:]) < 0.6
    assert reaches["dilated CNN"][127] < 0.01 and reaches["dilated CNN"][128] > 1
    for name, factor in {"Elman": 0.5, "LSTM": 0.61}.items():
        assert (reaches[name][64] / reaches[name][16]) ** (1 / 48) == pytest.approx(factor, abs=0.05)
    assert reaches["LSTM, open"][128] > 5 * reaches["LSTM, open"][32]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10, 11, 12])
def test_an_open_cell_alone_keeps_its_gate_at_each_step(seed):
    torch.manual_seed(seed)
    alone = networks.network("LSTM, open", 32)
    nn.init.zeros_(alone.hidden.weight)
    sizes = reach.gradient_reach(alone, seed=seed)
    assert (sizes[128] / sizes[16]) ** (1 / 112) == pytest.approx(0.993, abs=0.002)


@pytest.mark.parametrize("seed", [10, 11, 12])
def test_attention_with_pytorchs_start_is_as_level_and_lower(seed):
    torch.manual_seed(seed)
    layer = networks.OneAttention(32)
    usual = nn.Linear(32, 32, bias=False).weight.std()
    assert (layer.query.weight.std() / usual).item() == pytest.approx(3**0.5, rel=0.1)
    for parameter in layer.parameters():
        parameter.data /= 3**0.5
    sizes = reach.gradient_reach(layer, seed=seed)[1:]
    assert 0.005 < min(sizes) < max(sizes) < 0.05


@pytest.mark.parametrize("seed", [10, 11, 12])
def test_the_same_product_vanishes_or_explodes(seed):
    found = {}
    for factor in (1, 2, 4, 6):
        torch.manual_seed(seed)
        chain = baselines.ElmanRNN(32)
        with torch.no_grad():
            chain.hidden.weight *= factor
        found[factor] = reach.gradient_reach(chain, 65, seed=seed)[64]
    assert found[1] < 1e-17 and 1e-6 < found[2] < 1e-2 and found[4] > 1e2 and found[6] > 1e6


@pytest.mark.parametrize(("width", "depth"), [(2, 5), (3, 4), (4, 3), (3, 1)])
def test_powers_of_the_width_see_a_power_of_the_width(width, depth):
    stack = baselines.CausalCNN(2, width, [width**layer for layer in range(depth)])
    assert (
        reach.seen(stack, length=200)
        == width**depth
        == baselines.receptive_field(width, [width**i for i in range(depth)])
    )


def test_what_is_seen_never_exceeds_the_input_and_no_length_is_refused():
    assert reach.seen(baselines.CausalCNN(2, 3, [1] * 9), length=10) == 10
    with pytest.raises(ValueError, match="length"):
        reach.seen(baselines.CausalCNN(2, 3, [1]), length=0)


# what a layer costs


@pytest.mark.parametrize(("n", "d"), [(16, 8), (33, 12), (100, 4)])
def test_multiplications_are_those_derived(n, d):
    x = torch.randn(1, n, d)
    assert costs.multiplications(baselines.ElmanRNN(d), x) == 2 * n * d**2
    assert costs.multiplications(baselines.LSTM(d), x) == 8 * n * d**2
    for width in (1, 2, 5):
        assert costs.multiplications(baselines.CausalConvolution(d, width), x) == width * n * d**2
    assert costs.multiplications(networks.OneAttention(d), x) == 4 * n * d**2 + 2 * n**2 * d


@pytest.mark.parametrize(("length", "layers"), [(257, 8), (513, 9)])
def test_a_stack_that_connects_all_places_multiplies_once_a_layer(length, layers):
    dilations, x = [2**layer for layer in range(layers)], torch.randn(1, length, 8)
    assert baselines.receptive_field(3, dilations[:-1]) < length <= baselines.receptive_field(3, dilations)
    assert costs.multiplications(baselines.CausalCNN(8, 3, dilations), x) == 3 * layers * length * 8**2


@pytest.mark.parametrize("n", [1, 5, 40, 1500])
def test_only_recurrence_waits_for_each_position(n):
    x, found = torch.randn(1, n, 4), {}
    for name in ("Elman", "LSTM", "plain CNN", "attention"):
        found[name] = costs.waiting_products(networks.network(name, 4)(x)[:, -1])
    assert found == {"Elman": n, "LSTM": n, "plain CNN": networks.DEPTH, "attention": 4}


def test_processor_time_is_the_shortest_of_several():
    assert 0 <= steps.cpu_seconds(lambda: None, repeats=2) < 1
    assert steps.cpu_seconds(_busy, repeats=2) > 0.005
    with pytest.raises(ValueError, match="repeats"):
        steps.cpu_seconds(_busy, repeats=0)


def _busy():
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass


def test_the_record_of_times_has_one_number_for_each_length(monkeypatch):
    monkeypatch.setattr(forward_time, "LENGTHS", {1: (4, 8), 2: (4,)})
    found = forward_time.record(0)
    assert found["lengths"] == {"1": [4, 8], "2": [4]} and set(found["milliseconds"]["1"]) == set(forward_time.layers())
    assert all(len(row) == 2 for row in found["milliseconds"]["1"].values())


# who remembers


@names
def test_a_reader_has_the_most_parameters_that_are_allowed(name):
    d_model = recall.width(name)
    assert recall.size(name, d_model) <= recall.PARAMETERS < recall.size(name, d_model + 1)
    assert recall.size(name, d_model) > 0.92 * recall.PARAMETERS


def test_too_few_parameters_are_refused():
    with pytest.raises(ValueError, match="parameters must be at least .* for LSTM, got 10"):
        recall.width("LSTM", 10)


def test_a_run_repeats_itself_and_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    first, second = (recall.train_to_recall("attention", 4, seed=3, steps=3) for _ in range(2))
    assert first == second and len(first.losses) == 3
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_record_of_recall_has_a_share_for_each_distance(monkeypatch):
    monkeypatch.setattr(recall, "STEPS", 1)
    monkeypatch.setattr(recall, "DISTANCES", (1, 2))
    found = recall.record(0)
    assert set(found["accuracy"]) == set(networks.NAMES) and found["distances"] == [1, 2]
    assert all(len(row) == 2 and max(row) <= 1 for row in found["accuracy"].values())


def test_the_rate_is_used_and_the_record_of_a_second_one_is_like_the_first(monkeypatch):
    runs = [recall.train_to_recall("LSTM", 2, steps=3, rate=rate).losses for rate in (recall.RATE, recall_rate.RATE)]
    assert runs[0] == recall.train_to_recall("LSTM", 2, steps=3).losses != runs[1]
    monkeypatch.setattr(recall_rate, "STEPS", 1)
    monkeypatch.setattr(recall_rate, "DISTANCES", (1, 2))
    found = recall_rate.record(0)
    assert (found["steps"], found["rate"], found["distances"]) == (1, recall_rate.RATE, [1, 2])
    assert {name: len(row) for name, row in found["accuracy"].items()} == dict.fromkeys(recall_rate.NAMES, 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 21, 22])
def test_a_short_training_tells_who_reaches_far(seed):
    near, far = (
        {name: recall.train_to_recall(name, distance, seed=seed, steps=150).accuracy for name in networks.NAMES}
        for distance in (2, 24)
    )
    assert min(near.values()) > 0.9
    assert max(far[name] for name in ("Elman", "LSTM", "plain CNN")) < 0.25
    assert far["dilated CNN"] > 0.95 and far["LSTM, open"] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 21, 22])
def test_without_positions_attention_cannot_copy_from_three_places_back(seed):
    (_, with_positions), (model, without) = (
        copy_back.train_to_copy(has, seed=seed, steps=200) for has in (True, False)
    )
    assert with_positions > 0.95 and without < 0.3
    tokens, answers = copy_back.batch(4, torch.Generator().manual_seed(seed))
    assert (answers[:, 3:] == tokens[:, :-3]).all()
    order = torch.cat([torch.randperm(15), torch.tensor([15])])
    torch.testing.assert_close(model(tokens)[:, -1], model(tokens[:, order])[:, -1], rtol=0, atol=1e-4)


def test_what_is_recorded_is_three_runs_each():
    for name in ("recall", "recall_rate", "forward_time"):
        assert [run["seed"] for run in experiments.recorded(name)] == [1, 2, 3]


# the figure


def test_the_figure_counts_the_steps_of_each_way():
    tokens = ["The", "animal", "didn't", "cross", "the", "street", "because", "it"]
    titles = [axes.get_title(loc="left") for axes in paths.three_ways(tokens, 1, 7).axes]
    assert titles == ["chain: 6 steps", "windows of 3: 3 layers", "attention: 1 look"]
    titles = [axes.get_title(loc="left") for axes in paths.three_ways(tokens, 0, 7).axes]
    assert titles == ["chain: 7 steps", "windows of 3: 4 layers", "attention: 1 look"]


@pytest.mark.parametrize(("start", "end"), [(2, 2), (3, 1), (-1, 2), (0, 4)])
def test_a_way_must_lead_forward_between_tokens(start, end):
    with pytest.raises(ValueError, match="start and end must be places among 4 tokens"):
        paths.three_ways(["a", "b", "c", "d"], start, end)
