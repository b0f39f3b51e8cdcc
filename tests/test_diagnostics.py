"""The doctor: it finds what was planted, leaves healthy models alone and every model as it was."""

import copy

import faulty_models
import foreign_models
import pytest
import torch
from faulty_models import FAULTS, HEALTHY
from torch import nn
from torch.utils.data import default_collate

from tools import ROOT, doctor_table
from transformer_lib import diagnostics, training, translator
from transformer_lib.data import Batch
from transformer_lib.diagnostics import CAUSES, Finding, Report, check_model, tables

GERMAN = [
    "ein hund rennt durch das gras .",
    "zwei frauen sitzen auf einer bank und reden .",
    "ein mann spielt gitarre .",
]
ENGLISH = ["a dog runs .", "two women sit on a bench and talk .", "a man plays guitar ."]
QUICK = {"GPT", "nn.TransformerEncoder", "by hand", "hub", "position first"}


def doctor(arguments) -> Report:
    given, named = arguments
    return check_model(*given, **named)


def names() -> list[str]:
    return [f"{p.cause}: {p.style}, {p.variant}" for p in FAULTS]


# ---- what was planted is found, and comes first


@pytest.mark.slow
@pytest.mark.parametrize("planted", FAULTS, ids=names())
def test_a_planted_fault_is_found_first(planted):
    torch.manual_seed(3)
    assert doctor(planted.make()).ids[:1] == [planted.cause]


@pytest.mark.parametrize("planted", [p for p in FAULTS[::6] if p.style in QUICK], ids=lambda p: f"{p.cause}-{p.style}")
def test_some_planted_faults_are_found_first(planted):
    torch.manual_seed(4)
    assert doctor(planted.make()).ids[:1] == [planted.cause]


def test_every_cause_is_planted_in_two_variants_or_more():
    counts = {cause: sum(p.cause == cause for p in FAULTS) for cause in CAUSES}
    assert {cause for cause, count in counts.items() if count < 2} == {"does-not-run", "not-finite", "head-kind"}
    assert {"ours", "GPT", "by hand", "nn.Transformer"} <= {p.style for p in FAULTS}


def test_a_model_that_cannot_run_is_a_finding():
    report = check_model(foreign_models.FusedGPT(block=8), torch.randint(1, 50, (2, 12)))
    assert report.ids == ["does-not-run"] and "IndexError" in report.faults[0].evidence


def test_nan_is_a_finding():
    model = foreign_models.FusedGPT()
    model.ln_f.weight.data[0] = float("nan")
    assert "not-finite" in check_model(model, faulty_models.text()).ids


# ---- healthy models


@pytest.mark.slow
@pytest.mark.parametrize("seed", [5, 6, 7])
@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_model(name, seed):
    torch.manual_seed(seed)
    report = doctor(HEALTHY[name]())
    assert report.ids == []
    assert not [reason for reason in report.unchecked if "the check met" in reason]


@pytest.mark.parametrize("name", ["GPT", "hub", "nn.TransformerEncoder, post-norm", "position first, mask of floats"])
def test_nothing_is_found_in_some_healthy_models(name):
    torch.manual_seed(8)
    assert doctor(HEALTHY[name]()).ids == []


def trained(make, steps: int = 80):
    """Return a model after some steps on one batch, with that batch."""
    (model, *given), named = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        if isinstance(given[0], Batch):
            loss = training.translation_loss(model, given[0])
        elif isinstance(given[0], tuple) and len(given[0]) == 2:
            loss = model(*given[0])[1]
        else:
            logits = model(*given[0][:-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), given[0][-1].flatten(), ignore_index=0)
        loss.backward()
        optimizer.step()
    return (model, *given), named


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ours, pre-norm", "ours, post-norm", "ours, rotary", "GPT", "GPT by heads", "by hand"]
)
def test_nothing_is_found_in_a_trained_model(name):
    torch.manual_seed(9)
    assert doctor(trained(HEALTHY[name])).ids == []


@pytest.mark.slow
def test_nothing_is_found_in_the_shipped_translator():
    pytest.importorskip("safetensors")
    pytest.importorskip("tokenizers")
    shipped = translator.load_translator()
    pairs = zip(shipped.tokeniser.encode_all(GERMAN), shipped.tokeniser.encode_all(ENGLISH), strict=True)
    report = check_model(shipped.model, Batch.from_pairs(list(pairs)), training.translation_loss)
    assert report.ids == []


# ---- the model is left as it was


class Stateful(nn.Module):
    """A model that counts its calls, keeps its attention and is in training in one part only."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls, self.kept = foreign_models.FusedGPT(), 0, None
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, idx):
        self.calls += 1
        self.seen += 1
        self.kept = self.inner(idx)[0]
        return self.kept


def test_the_model_is_left_as_it_was(capsys):
    model = Stateful().train()
    model.inner.h[0].eval()
    model.inner.wte.weight.grad = torch.ones_like(model.inner.wte.weight)
    handle = model.register_forward_hook(lambda *_: None)
    before, modes = copy.deepcopy(model.state_dict()), [module.training for module in model.modules()]
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    words = faulty_models.text()
    state = torch.get_rng_state()
    has = nn.functional.has_torch_function, torch.backends.mha.get_fastpath_enabled()
    check_model(model, words, overfit=2)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    assert modes == [module.training for module in model.modules()]
    assert hooks == [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    assert torch.equal(state, torch.get_rng_state())  # the checker of shapes here draws from Python's own
    assert has == (nn.functional.has_torch_function, torch.backends.mha.get_fastpath_enabled())
    assert torch.equal(model.inner.wte.weight.grad, torch.ones_like(model.inner.wte.weight))
    assert model.inner.h[1].qkv.weight.grad is None and (model.calls, model.kept) == (0, None)
    assert capsys.readouterr() == ("", "")
    handle.remove()


def test_the_model_is_left_as_it_was_when_it_fails():
    model = foreign_models.FusedGPT(block=8).train()
    check_model(model, torch.randint(1, 50, (2, 12)))
    assert model.training and not model._forward_hooks and not model.wte._forward_pre_hooks


def test_two_runs_say_the_same():
    model, batch = foreign_models.FusedGPT(fault="no mask"), faulty_models.text()
    assert str(check_model(model, batch)) == str(check_model(model, batch))


# ---- batches and adapters of all kinds


def test_batches_of_all_kinds_are_read():
    model, words = foreign_models.FusedGPT(fault="no mask"), faulty_models.text()
    batches = [words, (words,), [words], {"idx": words}, {"idx": words, "targets": words.roll(-1, 1)}]
    batches += [default_collate([{"idx": row} for row in words]), {"tokens": words}]
    assert [check_model(model, batch).ids for batch in batches] == [["mask-leak"]] * len(batches)


class Held:
    """A batch with its parts as attributes."""

    def __init__(self, source, target) -> None:
        self.src, self.tgt, self.tgt_y = source, target[:, :-1], target[:, 1:]
        self.src_mask, self.tgt_mask = foreign_models.hand_masks(source, self.tgt)


def test_a_batch_that_is_an_object_is_read_by_the_models_argument_names():
    pairs = faulty_models.sentence_pairs()
    model = foreign_models.HandTransformer(fault="after softmax")
    assert check_model(model, Held(pairs.source, pairs.target)).ids[0] == "mask-after-softmax"


def test_an_adapter_calls_an_odd_model():
    model, words = foreign_models.FusedGPT(fault="no mask"), faulty_models.text()
    report = check_model(model, {"deep": [words]}, adapter=lambda m, b: m.forward(b["deep"][0])[0])
    assert report.ids == ["mask-leak"]


def test_what_cannot_be_checked_is_said():
    report = check_model(foreign_models.FusedGPT(), faulty_models.text())
    said = "\n".join(report.unchecked)
    assert all(word in said for word in ("padding", "tied", "trained_length", "overfit", "loss"))


def test_the_config_turns_a_note_into_an_error():
    arguments = HEALTHY["EncoderOnly"]()[0]
    assert [f.severity for f in check_model(*arguments) if f.id == "mask-leak"] == ["note"]
    assert check_model(*arguments, config={"causal": True}).ids[0] == "mask-leak"


def test_a_single_head_of_another_width_is_a_note_only():
    report = check_model(foreign_models.HeadsGPT(heads=1, size=8, vocab=50), faulty_models.next_words())
    assert report.ids == [] and "heads-width" in [finding.id for finding in report]


# ---- the report


def test_the_report_is_data_and_prints_as_a_table():
    report = check_model(foreign_models.FusedGPT(fault="unscaled"), faulty_models.text())
    finding = report.faults[0]
    assert (finding.id, finding.severity, finding.chapter) == ("scale-missing", "warning", 2)
    assert finding.numbers["scale"] == pytest.approx(1.0) and "sqrt(d_k)" in finding.advice
    assert len(report) == len(list(report)) == len(report.findings)
    lines = str(report).splitlines()
    assert lines[0].split() == ["warning", "scale-missing", "chapter", "02"]
    assert max(map(len, lines)) <= 100 and "Not checked:" in lines
    assert str(Report(())) == "No fault found."


def test_causes_come_before_what_follows_from_them():
    ids = doctor(next(p for p in FAULTS if p.cause == "mask-after-softmax").make()).ids
    assert ids == sorted(ids, key=list(CAUSES).index) and len(ids) > 1


def test_bad_arguments_are_refused():
    model = foreign_models.FusedGPT()
    with pytest.raises(TypeError, match="batch must be a Batch"):
        check_model(model, "words")
    with pytest.raises(ValueError, match="overfit must be at least 0"):
        check_model(model, faulty_models.text(), overfit=-1)
    with pytest.raises(ValueError, match="severity must be one of"):
        Finding("mask-leak", "grave", "")
    with pytest.raises(ValueError, match="id must be one of"):
        Finding("flu", "note", "")


# ---- parts


def test_the_base_of_sinusoids_is_read_from_few_positions():
    for base in (50.0, 1000.0, 10000.0, 1e6):
        for layout in (lambda x: x, lambda x: torch.cat([x[:, 0::2], x[:, 1::2]], dim=1)):
            vectors = layout(foreign_models.sinusoids(12, 64, base)).double() * 3 + torch.randn(64)
            assert tables.sinusoid_base(vectors) == pytest.approx(base, rel=0.01)
    assert tables.sinusoid_base(torch.randn(12, 64).double()) is None


def test_a_table_drawn_at_random_has_no_untrained_end():
    found = [tables.trained_rows(torch.randn(64, 32).double() * scale) for scale in (0.02, 1.0) for _ in range(50)]
    assert found == [None] * 100


def test_heads_are_described_in_notes():
    report = diagnostics.heads(foreign_models.FusedGPT(), faulty_models.text())
    assert {f.severity for f in report} == {"note"} and any("nearly even" in f.evidence for f in report)
    model = foreign_models.FusedGPT(layers=1)
    model.h[0].qkv.weight.data.zero_()
    assert sum("agree" in f.evidence for f in diagnostics.heads(model, faulty_models.text())) == 6


# ---- the page


def test_the_page_names_every_planted_fault_and_healthy_model():
    text = (ROOT / doctor_table.PAGE).read_text(encoding="utf-8")
    assert doctor_table.listed(text) == []
    assert "not first" not in text and "| nothing |" not in text
