"""Costs of training: counts against PyTorch's own, memory against the record, the slope against known powers."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lib import experiments
from transformer_lib.data import END, START
from transformer_lib.experiments import scale
from transformer_lib.experiments.steps import count_parameters
from transformer_lib.model import Transformer


@pytest.mark.parametrize("axis", scale.AXES)
def test_the_counts_are_pytorchs(axis):
    config, rows, length = scale.case(axis, scale.AXES[axis][1])
    model, words = Transformer(config).eval(), torch.randint(3, 50, (rows, length))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(words, words[:, 1:])
    assert scale.multiplications(config, rows, length, length - 1) == counter.get_total_flops() // 2
    assert scale.parameters(config) == count_parameters(model)


@pytest.mark.parametrize("power", [0.5, 1, 2])
def test_the_slope_of_a_power_is_its_exponent(power):
    sizes = [3, 10, 40]
    assert scale.exponent(sizes, [7 * size**power for size in sizes]) == pytest.approx(power)


@pytest.mark.parametrize(("sizes", "costs"), [([1], [1]), ([1, 2], [1]), ([1, 0], [1, 1]), ([1, 2], [1, -1])])
def test_a_slope_needs_two_points_above_zero(sizes, costs):
    with pytest.raises(ValueError, match="at least 2, all above 0"):
        scale.exponent(sizes, costs)


def test_an_unknown_axis_is_refused():
    with pytest.raises(ValueError, match="axis must be one of"):
        scale.case("depth", 2)


def test_a_random_batch_has_the_lengths_that_were_asked_for_and_no_padding():
    batch = scale.random_batch(20, 3, 5, torch.Generator().manual_seed(0))
    assert batch.source.shape == batch.target_input.shape == (3, 5) and batch.target_tokens == 15
    assert (batch.source > END).all() and (batch.target[:, 0] == START).all() and (batch.target[:, -1] == END).all()


def test_memory_grows_with_the_batch_only_once_the_kept_values_outweigh_the_gradients():
    config = replace(scale.BASE, layers=1)
    least = 16 * scale.parameters(config)
    assert scale.training_memory(config, 1, 1, 1) == least
    assert scale.training_memory(config, 64, 64, 64) > 2 * least


def test_the_recorded_memory_is_what_is_predicted_now():
    for run in experiments.recorded("scale"):
        for found in run["MiB"]:
            config = replace(scale.BASE, **found["changes"])
            predicted = scale.training_memory(config, found["rows"], found["length"], found["length"]) / 2**20
            assert predicted == pytest.approx(found["measured"], rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("case", [0, 3, 6])
def test_memory_measured_now_is_within_15_percent(case):
    changes, rows, length = scale.MEMORY_CASES[case]
    config = replace(scale.BASE, **changes)
    predicted = scale.training_memory(config, rows, length, length)
    assert scale.step_bytes(config, rows, length) == pytest.approx(predicted, rel=0.15)
