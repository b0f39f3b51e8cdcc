"""Chapter 07: its profiles, its records, its figure of batches and its tables; what a loss curve's stages mean."""

import json
import math
from collections import Counter

import pytest
import torch
from matplotlib.figure import Figure

from transformer_lib import multi30k, training, translator
from transformer_lib.data import END, PADDING, START, Batch, batches, encode_pairs
from transformer_lib.experiments import schedules, smoothing, translation
from transformer_lib.model import Transformer
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


# the depth


@pytest.mark.parametrize("shape", schedules.SHAPES)
def test_a_schedule_begins_where_it_should_and_meets_the_others_at_the_warm_up(shape):
    def at(step, rises=True):
        return schedules.rate(shape, step, 100, peak=0.5, warmup=20, rises=rises)

    assert [at(step) for step in (1, 10, 20)] == pytest.approx([0.025, 0.25, 0.5])
    assert at(1, rises=False) == 0.5 and all(at(step) == at(step, rises=False) for step in range(20, 101))
    assert all(at(step + 1) <= at(step) for step in range(20, 100))


def test_the_schedules_end_as_their_names_say():
    last = {shape: schedules.rate(shape, 100, 100, peak=1.0, warmup=20) for shape in schedules.SHAPES}
    assert last["constant"] == 1 and last["Noam"] == pytest.approx(math.sqrt(0.2))
    assert last["Noam with a tail"] == pytest.approx(math.sqrt(0.2) / 50) and 0 < last["cosine"] < 0.001


def test_noam_is_the_library_s():
    for step in (1, 7, 20, 21, 90):
        wanted = training.noam_rate(step, 64, 20, factor=0.3)
        peak = training.noam_rate(20, 64, 20, factor=0.3)
        assert schedules.rate("Noam", step, 100, peak=peak, warmup=20) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("change", "said"), [({"shape": "linear"}, "'linear'"), ({"step": 101}, "101"), ({"warmup": 200}, "200")]
)
def test_a_schedule_that_there_is_not_is_refused(change, said):
    settings = {"shape": "Noam", "step": 1, "steps": 100, "peak": 1.0, "warmup": 20} | change
    with pytest.raises(ValueError, match=said):
        schedules.rate(**settings)


@pytest.mark.slow
def test_two_schedules_meet_the_same_start_and_batches_and_leave_the_random_state_alone():
    state = torch.get_rng_state()
    runs = [schedules.train_with(shape, peak=1e-3, seed=5, steps=20) for shape in ("constant", "cosine")]
    assert runs[0].losses == runs[1].losses  # as long as both rise
    assert runs[0].losses != schedules.train_with("cosine", peak=1e-3, seed=6, steps=20).losses
    assert torch.equal(torch.get_rng_state(), state)


@pytest.fixture(scope="module")
def few(quick) -> smoothing.Data:
    return smoothing.Data(tokeniser=quick.tokeniser, pairs=quick.pairs[:150], held_out=quick.held_out[:12])


def test_a_translator_is_judged_without_smoothing_word_by_word(few, monkeypatch):
    monkeypatch.setattr(smoothing, "TOKENS_PER_BATCH", 200)
    model = smoothing.train_with(0.1, few, seed=4, epochs=1)
    found, logs, hits, sure = smoothing.judge(model, few), 0.0, 0, 0.0
    pairs = encode_pairs(few.held_out, few.tokeniser)
    for pair in pairs:  # one sentence at a time, so without padding
        batch = Batch.from_pairs([pair])
        shares = model(batch.source, batch.target_input)[0].double().softmax(dim=-1).detach()
        right = shares[range(batch.target_tokens), batch.labels[0]]
        logs, sure = logs - right.log().sum().item(), sure + shares.amax(dim=-1).sum().item()
        hits += (shares.argmax(dim=-1) == batch.labels[0]).sum().item()
    tokens = sum(len(target) + 1 for _, target in pairs)
    wanted = {"perplexity": math.exp(logs / tokens), "accuracy": hits / tokens, "confidence": sure / tokens}
    assert found == pytest.approx(wanted, rel=1e-3)
    assert 0 <= smoothing.bleu(model, few, beam=1) <= 100


def test_captions_are_short_and_those_held_out_are_of_other_parts(monkeypatch):
    lines = {"train": "ein Hund", "val": "ein Kind", "test_2016_flickr": "ein Ball"}
    long = " ".join(["viel"] * 11)
    monkeypatch.setattr(multi30k, "load_multi30k", lambda split: [(lines[split], "a thing"), (lines[split], long)] * 2)
    smoothing.captions.cache_clear()
    found = smoothing.captions()
    smoothing.captions.cache_clear()
    assert [source for source, _ in found.held_out] == ["ein Kind"] * 2 + ["ein Ball"] * 2
    assert [found.tokeniser.decode(source) for source, _ in found.pairs] == ["ein Hund"] * 2


def cost_of_pairs(task: translation.Task) -> float:
    """Return what a guesser who knows which word follows which pays on the held-out sentences, in nats per token."""

    def steps(target):
        words = [START, *target, END]
        return list(zip(words, words[1:], strict=False))

    counted = Counter(pair for _, target in task.pairs for pair in steps(target))
    total = Counter(before for _, target in task.pairs for before, _ in steps(target))
    asked = [pair for _, target in task.held_out_pairs for pair in steps(target)]
    return -sum(math.log((counted[pair] + 0.1) / (total[pair[0]] + 11.1)) for pair in asked) / len(asked)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_a_model_begins_without_its_source_and_passes_the_guesser_of_pairs_only_with_it(quick, seed):
    torch.manual_seed(seed)
    model = Transformer(quick.config)
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    held_out, guess = batches(quick.held_out_pairs, 1024), cost_of_pairs(quick)
    exchanged = [Batch(batch.source.roll(1, dims=0), batch.target) for batch in held_out]
    found = {}
    steps = training.train(
        model,
        quick.epoch(0) + quick.epoch(1),
        training.translation_loss,
        adam,
        lambda s: training.noam_rate(s, 64, 80, 1.2),
    )
    for step, _ in zip(range(1, 61), steps, strict=False):
        if step in (20, 60):
            found[step] = training.evaluate(model, held_out), training.evaluate(model, exchanged)
    assert found[20][0] > guess + 1 and abs(found[20][0] - found[20][1]) < 0.06
    assert found[60][0] < guess - 0.2 and found[60][1] > guess
