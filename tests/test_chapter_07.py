"""Chapter 07: its profiles, its record, its figure of batches and its tables."""

import json

import pytest
import torch
from matplotlib.figure import Figure

from transformer_lib import multi30k, translator
from transformer_lib.data import PADDING, Batch
from transformer_lib.experiments import translation
from transformer_lib.visualisation import plots
from transformer_lib.visualisation import training as drawing


@pytest.fixture(scope="module")
def quick() -> translation.Task:
    return translation.prepare("quick")


def test_the_quick_profile_keeps_what_it_tests_out_of_what_it_trains_on(quick):
    assert (len(quick.train), len(quick.held_out)) == (5000, 200)
    assert not {source for source, _ in quick.train} & {source for source, _ in quick.held_out}


def test_ids_and_text_of_a_task_say_the_same(quick):
    for (source, target), (source_ids, target_ids) in zip(quick.held_out, quick.held_out_pairs, strict=True):
        assert quick.tokeniser.decode(source_ids) == source
        assert quick.tokeniser.decode(target_ids) == target
    assert quick.config.vocabulary == len(quick.tokeniser)


def test_an_epoch_holds_every_pair_once_and_depends_on_its_number_alone(quick):
    first, same, other = quick.epoch(0), quick.epoch(0), quick.epoch(1)
    rows = [row[row != PADDING].tolist()[1:-1] for batch in first for row in batch.target]
    assert sorted(rows) == sorted(list(target) for _, target in quick.pairs)
    assert all(torch.equal(a.target, b.target) for a, b in zip(first, same, strict=True))
    assert any(a.target.shape != b.target.shape for a, b in zip(first, other, strict=False))


def test_the_full_profile_has_the_sizes_and_the_schedule_of_the_recorded_run():
    profile, settings = translation.PROFILES["full"], translation.load_record()["settings"]
    shared = (
        "d_model",
        "layers",
        "d_ff",
        "heads",
        "dropout",
        "tokens_per_batch",
        "warmup",
        "factor",
        "tail",
        "vocabulary",
    )
    assert {name: getattr(profile, name) for name in shared} == {name: settings[name] for name in shared}
    assert abs(profile.epochs - settings["epochs"]) <= 2  # epochs are a budget: the command's default may change


def test_the_full_profile_reads_multi30k_and_learns_one_vocabulary(monkeypatch):
    lines = [("Ein Hund läuft.", "A dog runs."), ("Ein Kind läuft.", "A child runs.")]
    asked = []

    def load(split, folder):
        asked.append((split, folder))
        return lines * (300 if split == "val" else 1)

    monkeypatch.setattr(multi30k, "load_multi30k", load)
    task = translation.prepare("full", folder="somewhere")
    assert asked == [("train", "somewhere"), ("val", "somewhere")]
    assert task.train == lines and len(task.held_out) == translation.HELD_OUT
    assert task.tokeniser.decode(task.pairs[0][0]) == "Ein Hund läuft."
    assert (task.config.d_model, task.config.layers, task.config.vocabulary) == (128, 4, len(task.tokeniser))


def test_an_unknown_profile_is_named():
    with pytest.raises(ValueError, match="'quick', 'full', got 'fast'"):
        translation.prepare("fast")


def test_the_record_is_the_one_beside_the_weights_or_else_the_repository_s(tmp_path, monkeypatch):
    monkeypatch.setattr(translator, "SHIPPED", tmp_path)
    assert translation.load_record()["settings"]["seed"] == 1
    (tmp_path / translation.RECORD).write_text(json.dumps({"command": "another"}))
    assert translation.load_record() == {"command": "another"}


def test_the_record_is_of_the_shipped_translator():
    description = json.loads((translator.SHIPPED / translator.DESCRIPTION).read_text())
    record = translation.load_record()
    assert record["test"]["beam 5"] == description["test"]
    assert record["parameters"] == sum(p.numel() for p in translator.load_translator().model.parameters())


def test_a_batch_is_drawn_with_a_cell_for_each_place():
    batch = Batch.from_pairs([([5, 6, 7], [5]), ([5], [6])])
    figure = drawing.batch_maps({"two": batch})
    (axes,) = figure.axes
    assert isinstance(figure, Figure) and axes.get_title(loc="left") == "two"
    assert axes.images[0].get_array().tolist() == [[True, True, True], [True, False, False]]
    assert axes.get_xlabel() and axes.get_ylabel()


def test_batch_maps_wants_a_batch():
    with pytest.raises(ValueError, match="got none"):
        drawing.batch_maps({})


def test_one_curve_and_its_entry_in_the_legend_become_wide_and_no_other():
    series = {"below": ([1, 2], [3, 4]), "above": ([1, 2], [3, 4])}
    figure = plots.curves(plots.Panel(title="two", x_label="x", y_label="y", series=series))
    (axes,) = figure.axes
    before = axes.lines[1].get_linewidth()
    assert drawing.widen(figure, "below") is figure
    for below, above in (axes.lines, axes.get_legend().get_lines()):
        assert below.get_linewidth() > 2 * before and below.get_alpha() < 0.5
        assert above.get_linewidth() == before and above.get_alpha() is None
    with pytest.raises(ValueError, match="'above'], got 'beside'"):
        drawing.widen(figure, "beside")


def test_a_table_shows_every_cell_and_escapes_what_html_would_swallow():
    shown = drawing.table(the_word=["<pad>", "a & b"], number=[0, 12])
    assert repr(shown).splitlines() == ["the word | number", "<pad> | 0", "a & b | 12"]
    html = shown._repr_html_()
    assert "<th><span>the word</span></th>" in html
    assert "<td>&lt;pad&gt;</td><td>0</td>" in html and "<td>a &amp; b</td><td>12</td>" in html


@pytest.mark.parametrize("columns", [{}, {"one": [1, 2], "two": [1]}])
def test_a_table_wants_columns_of_one_length(columns):
    with pytest.raises(ValueError, match="one length, got"):
        drawing.table(**columns)
