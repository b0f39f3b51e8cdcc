"""Tests of the table of translation quality."""

import json
import re

import pytest

from benchmarks import quality
from tools import quality_picture, speed

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


def run(**other):
    return {
        "name": "one, seed 1",
        "settings": {"d_model": 128, "positions": "sinusoidal"},
        "beam 5": 40.0,
        "CPU-minutes": 20.0,
        "validation loss": 1.6,
    } | other


def test_the_run_to_choose_is_within_the_time_and_has_the_lowest_loss():
    late = run(name="late", **{"CPU-minutes": 59.0, "validation loss": 1.4})
    lucky = run(name="lucky", **{"beam 5": 45.0, "validation loss": 1.7})  # on the test set, which doesn't choose
    assert [(minutes, one["name"]) for minutes, one in speed.best([late, run(), lucky])] == [
        (30, "one, seed 1"),
        (60, "late"),
    ]


def test_a_mark_stands_where_its_run_is_and_says_so():
    later = {"settings": {"d_model": 256, "positions": "rotary"}, "beam 5": 42.0, "CPU-minutes": 60.0}
    runs = [run(), run(name="two", **later)]
    drawn = quality_picture.picture(runs)
    first, second = re.findall(r'<polygon points="([^"]+)" class="(\w+)"><title>([^<]+)</title>', drawn)
    (x, y), (other_x, other_y) = (
        [sum(float(pair.split(",")[axis]) for pair in points.split()) / len(points.split()) for axis in (0, 1)]
        for points, _, _ in (first, second)
    )
    whole = quality_picture.WIDTH - quality_picture.LEFT - quality_picture.RIGHT
    assert other_x - x == pytest.approx(40 / 60 * whole, abs=2) and other_y < y - 20
    assert (first[1], second[1]) == ("hollow", "full") and first[2] == "one, seed 1: 40.0 after 20 minutes."
    assert all(one["name"] in drawn.split("\n")[0] for one in runs)  # for those who don't see it


def test_no_run_and_too_many_widths_are_refused():
    for runs in ([], [run(settings={"d_model": width}) for width in (1, 2, 3, 4, 5)]):
        with pytest.raises(ValueError, match=f"wanted runs of 1 to 4 widths, got {len(runs)}"):
            quality_picture.picture(runs)


def test_the_page_concludes_what_the_runs_say():
    runs = json.loads(quality.RECORD.read_text(encoding="utf-8"))["runs"]
    long = [one for one in runs if one["settings"]["d_model"] == 256 and 45 < one["CPU-minutes"] <= 60]
    rotary, added = (
        [one["beam 5"] for one in long if one["settings"]["positions"] == kind] for kind in ("rotary", "sinusoidal")
    )
    assert min(rotary) > max(added) + 1 and min(rotary) > 41 and len(added) > 2
