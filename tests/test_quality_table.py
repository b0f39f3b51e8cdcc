"""Tests of the table of translation quality."""

import pytest

from benchmarks import quality
from tools import speed

SETTINGS = {"layers": 3, "d_model": 256, "dropout": 0.2, "epochs": 16, "seed": 1}


def test_a_runs_name_tells_what_is_unlike_the_default():
    assert quality.name(SETTINGS) == "3 + 3 layers, width 256, dropout 0.2, 16 epochs, seed 1"
    new = SETTINGS | {"positions": "rotary", "bpe_dropout": 0.05}
    assert quality.name(new) == (
        "3 + 3 layers, width 256, dropout 0.2, BPE dropout 0.05, rotary positions, 16 epochs, seed 1"
    )
    assert quality.name(SETTINGS | {"positions": "sinusoidal", "bpe_dropout": 0.0}) == quality.name(SETTINGS)


def test_means_are_over_runs_that_differ_in_the_seed_alone():
    runs = [
        {"name": f"{name}, seed {seed}", "beam 5": bleu, "parameters": 10}
        for name, seed, bleu in [("a", 1, 40.0), ("b", 1, 10.0), ("a", 2, 41.0), ("a", 3, 43.5)]
    ]
    found = speed.over_seeds(runs, ["beam 5", "parameters"])
    assert found == {"a": {"seeds": 3, "beam 5": pytest.approx(41.5), "parameters": 10}}
