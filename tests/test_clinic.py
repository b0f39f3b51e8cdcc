"""The clinic: its patient learns, all thirteen pitfalls are in its notebooks, and symptoms come with other seeds."""

import pytest
import torch
from torch import nn

from tools import ROOT, cells, ledger
from transformer_lib import diagnostics, head_statistics
from transformer_lib.diagnostics import head_notes
from transformer_lib.experiments import clinic, extrapolation, reversal

NOTEBOOKS = sorted((ROOT / "notebooks").glob("clinic_*.ipynb"))
SETTINGS = {"causal": False, "padding": 0}
SEEDS = (11, 12, 13)


def symbols() -> torch.Tensor:
    return extrapolation.three_back(8, 16, torch.Generator().manual_seed(5))[0]


def test_each_pitfall_is_a_patient_that_is_seen_predicted_diagnosed_and_cured():
    texts = ["\n".join(cell.source for cell in cells.read(path).cells) for path in NOTEBOOKS]
    for number in range(1, 14):
        (text,) = (text for text in texts if f"## Patient {number}:" in text)
        visit = text.split(f"## Patient {number}:")[1].split("## Patient ")[0]
        for part in ("The owner says", "**Predict.**", "What you may have read", "he doctor", "he cure", "assert "):
            assert part in visit, f"patient {number} lacks {part!r}"


def test_a_notebook_without_a_chapters_number_is_no_chapter():
    assert {cells.chapter(path) for path in NOTEBOOKS} == {None}
    assert len(NOTEBOOKS) == 4 and ledger.main([]) == 0


def test_the_patient_hides_padding_and_if_asked_what_follows():
    padded = symbols().clone()
    padded[:, 10:] = 0
    assert clinic.maps(clinic.patient(1), padded)[..., 10:].eq(0).all()
    assert clinic.maps(clinic.patient(1, causal=True), symbols()).triu(1).eq(0).all()
    for model in (clinic.patient(1), clinic.patient(1, positions="sinusoidal")):
        assert not diagnostics.check_model(model, padded, config=SETTINGS).faults


def test_bad_input_to_the_patient_is_named():
    with pytest.raises(ValueError, match="positions"):
        clinic.Patient("none")
    with pytest.raises(ValueError, match="steps"):
        clinic.train(clinic.patient(0), seed=0, steps=0)
    with pytest.raises(ValueError, match="warm_up"):
        clinic.train(clinic.patient(0), seed=0, warm_up=0)


def test_a_patient_leaves_the_random_state_as_it_was():
    before = torch.get_rng_state()
    clinic.patient(3)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("seed", SEEDS)
def test_the_doctors_notes_name_stripes_of_a_query_bias_only(seed):
    plain, by_query, by_key = (clinic.patient(seed) for _ in range(3))
    bias = 1.5 * torch.randn(32, generator=torch.Generator().manual_seed(seed))
    by_query.attention.query.bias, by_key.attention.key.bias = nn.Parameter(bias), nn.Parameter(bias)
    said = {
        name: sum("stripes" in note.evidence for note in diagnostics.heads(model, symbols()))
        for name, model in {"plain": plain, "query": by_query, "key": by_key}.items()
    }
    assert said["query"] >= 2 and said["plain"] == said["key"] == 0


def test_stripes_are_all_of_the_variance_where_queries_agree_and_none_without_a_choice():
    visible = torch.ones(1, 1, 6, 5, dtype=torch.bool)
    alike = torch.randn(1, 1, 1, 5).expand(1, 1, 6, 5)
    assert head_notes.striped(alike, visible).item() == pytest.approx(1)
    assert head_notes.striped(alike + torch.randn(1, 1, 6, 1), visible).item() == pytest.approx(1)
    assert head_notes.striped(torch.zeros(1, 1, 6, 5), visible).item() == 0
    assert head_notes.striped(alike[:, :, :3], visible[:, :, :3]).item() == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wide_start_is_a_note_and_no_more(seed):
    torch.manual_seed(seed)
    words = torch.randint(reversal.SYMBOLS, (4, reversal.LENGTH))
    wide = diagnostics.check_model(reversal.OneHead(64, 1 / 8, query_factor=8.0), words, config={"causal": False})
    usual = diagnostics.check_model(reversal.OneHead(64, 1 / 8), words, config={"causal": False})
    assert [found.severity for found in wide if found.id == "heads-saturated"] == ["note"]
    assert "heads-saturated" not in [found.id for found in usual]


def test_a_brief_report_names_each_fault_once_without_its_figures():
    class Unmasked(clinic.Patient):
        def vectors(self, symbols, first=0):
            x = super().vectors(symbols, first).transpose(0, 1).contiguous()
            return x.view(x.size(1), x.size(0), -1)

    report = diagnostics.check_model(clinic.patient(0, Unmasked), symbols(), config=SETTINGS)
    assert report.brief.count("padding-attended") == 1 and "seen:" not in report.brief
    assert report.brief.startswith("error    batch-mixing")
    assert diagnostics.check_model(clinic.patient(0), symbols(), config=SETTINGS).brief == "No fault found."


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_trained_patient_is_right_and_no_fault_is_seen_in_it_while_a_head_of_zeros_stays_flat(seed):
    model = clinic.patient(seed)
    with torch.no_grad():
        for projection in (model.attention.query, model.attention.key):
            projection.weight[16:24] = 0.0
    losses = clinic.train(model, seed=seed, steps=400)
    assert losses[-1] < 0.5 < losses[0] and clinic.accuracy(model) > 0.9
    assert not diagnostics.check_model(model, symbols(), config=SETTINGS).faults
    evenness = head_statistics.normalised_entropy(clinic.maps(model, symbols()))
    assert evenness[2] > 0.999 and evenness[[0, 1, 3]].max() < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_positions_that_never_occurred_fail_and_a_random_start_mends_them(seed):
    far = {}
    for last_start in (0, 48):
        model = clinic.patient(seed, positions="sinusoidal", causal=True)
        clinic.train(model, seed=seed, steps=400, last_start=last_start)
        far[last_start] = clinic.accuracy(model, length=32, after=27)
    assert far[0] < 0.5 < far[48]
    short, answers = extrapolation.three_back(64, 8, torch.Generator().manual_seed(99))
    early, later = ((model(short, first).argmax(dim=-1) == answers)[:, 3:].double().mean() for first in (0, 24))
    assert early < later  # the first positions are the seldom ones now
