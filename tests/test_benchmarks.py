"""The benchmarks: turns are fair, ratios are right, torch's module computes what ours does, and the page is current."""

import importlib
import os

import pytest
import torch

from benchmarks import attention, corpus, decoding, rounds, training, translators
from benchmarks.__main__ import NAMES
from tools import speed
from transformer_lib.data import Batch
from transformer_lib.multi30k import DataUnavailable

PAIRS = [([5, 6, 7], [7, 6, 5]), ([8, 9], [9, 8, 30, 31])]


def test_every_contender_has_its_turn_in_every_round_and_the_order_turns():
    calls = []
    found = rounds.interleaved({name: lambda n=name: calls.append(n) for name in "abc"}, rounds=2)
    assert calls == list("abcbcacab")  # the first round isn't counted
    assert {name: len(seconds) for name, seconds in found.items()} == {"a": 2, "b": 2, "c": 2}


def test_a_ratio_is_of_speeds_in_the_same_round():
    seconds = {"base": [1.0, 2.0, 4.0], "twice": [0.5, 1.0, 2.0], "more work": [1.0, 2.0, 4.0]}
    found = rounds.ratios(seconds, "base", {"base": 10, "twice": 10, "more work": 30})
    assert found["base"]["ratio"] == 1 and found["twice"]["ratio"] == 2 and found["more work"]["ratio"] == 3
    assert found["twice"] | {"per_second": 10.0, "seconds": 1.0} == found["twice"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rounds.interleaved({"a": int}, 1), "at least 2 rounds"),
        (lambda: rounds.interleaved({}, 2), "of 0"),
        (lambda: rounds.ratios({"a": [1.0]}, "b"), "base must be one of a, got 'b'"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_is_there(name):
    assert callable(importlib.import_module(f"benchmarks.{name}").run)


@pytest.mark.parametrize("options", [{}, {"tied": True, "paper_dropout": True}])
def test_torchs_module_is_a_translator_whose_padding_and_future_dont_count(options):
    torch.manual_seed(0)
    model, batch = translators.TorchTransformer(translators.SIZES, **options).eval(), Batch.from_pairs(PAIRS)
    logits = model(batch.source, batch.target_input)
    assert logits.shape == (2, 5, translators.SIZES.vocabulary)
    alone = Batch.from_pairs(PAIRS[1:])
    torch.testing.assert_close(model(alone.source, alone.target_input)[0], logits[1], atol=1e-4, rtol=1e-4)
    changed = batch.target_input.clone()
    changed[0, 3] = 11
    torch.testing.assert_close(model(batch.source, changed)[0, :3], logits[0, :3], atol=1e-4, rtol=1e-4)


def test_the_paper_has_no_dropout_on_weights_and_hidden_units():
    model = translators.TorchTransformer(translators.SIZES, paper_dropout=True)
    layers = [*model.model.encoder.layers, *model.model.decoder.layers]
    assert all(layer.dropout.p == 0 and layer.self_attn.dropout == 0 and layer.dropout1.p > 0 for layer in layers)


def test_a_trainee_learns():
    batch = Batch.from_pairs(PAIRS)
    losses = training.trainees()["this book, fast, default"].steps([batch] * 6)
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_the_batches_hold_little_padding():
    try:
        epoch = corpus.training_batches()
    except DataUnavailable as error:
        pytest.skip(str(error).splitlines()[0])
    from benchmarks.loading import padding

    assert padding(epoch) < 0.08


def test_the_page_says_what_the_files_say_and_a_stale_one_is_found(tmp_path):
    assert speed.problems() == []
    record = {"command": "c", "machine": "m", "versions": {"torch": "2"}, "rows": {"one": {"ratio": 1.25, "MiB": 2341}}}
    page = speed.page({"memory": record})
    assert "| one | 1.25 | 2,341 |" in page and "| | ratio | MiB |" in page
    assert speed.problems(tmp_path) == ["book/speed.md: isn't what book/results/benchmarks says"]


def test_each_turn_apart_is_a_new_process_and_its_number_is_kept(monkeypatch):
    calls = []
    monkeypatch.setattr(rounds, "in_new_process", lambda *arguments: calls.append(arguments) or len(calls))
    assert rounds.apart("training", ["a", "b"], 2) == {"a": [1, 4], "b": [2, 3]}
    assert calls == [("training", name) for name in "abba"]


def test_a_contenders_process_is_set_up_by_its_name(monkeypatch):
    kept = []
    monkeypatch.setattr(rounds, "keep_memory", lambda: kept.append(True))
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "1024")
    assert rounds.settled("a") == "a" and not kept and os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "1024"
    assert rounds.settled("a" + rounds.KEPT) == "a" and kept == [True]
    assert rounds.settled("a" + rounds.FEW) == "a"
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "16"


def test_seconds_are_those_of_the_second_call(capsys):
    calls = []
    rounds.print_seconds(lambda: calls.append(sum(range(10**6)) if calls else 0))
    assert calls == [0, sum(range(10**6))] and float(capsys.readouterr().out) > 0


@pytest.mark.parametrize("module", [training, decoding])
def test_the_rows_of_the_record_are_contenders(module):
    recorded = speed.records()[module.__name__.rpartition(".")[2]]["rows"]
    bare = {name.removesuffix(rounds.KEPT).removesuffix(rounds.FEW) for name in recorded}
    own = {name for name in bare if name.startswith(("torch.", "this book", "products"))}
    assert own <= set(module.contenders()) and module.TORCH in own


@pytest.mark.parametrize("name", list(decoding.contenders()))
def test_every_decoder_decodes(name):
    make, _, _ = decoding.contenders()[name]
    with torch.inference_mode():
        found = make()(Batch.from_pairs(PAIRS).source)
    assert len(found) == 2 and all(0 < len(row) <= decoding.NEW for row in found)


@pytest.mark.slow
def test_a_program_in_a_new_process_gives_its_last_number_or_its_error():
    assert rounds.in_new_process("attention", attention.EXPLICIT, "256") > 0
    with pytest.raises(RuntimeError, match="(?s)attention nothing 256: .*KeyError"):
        rounds.in_new_process("attention", "nothing", "256")
