"""The symptom index: nothing is missing in it, and each of its checks tells something sick from something sound."""

import re
import shutil
import subprocess

import faulty_models
import pytest
import symptom_cases
import torch
import yaml
from browser import CHROMIUM, FLAGS, NO_HOST, needs_chromium
from torch import nn

from tools import ROOT, symptoms
from transformer_lib import diagnostics
from transformer_lib.diagnostics import CAUSES

INDEX = symptoms.index()
CHECKED = {entry["id"]: entry["check"] for entry in INDEX["symptoms"] if "check" in entry}


def causes(check):
    """Return the doctor's findings that a check looks for in a report."""
    return [word for word in re.findall(r'"([a-z-]+)"', check) if word in CAUSES and "report" in check]


def test_nothing_is_missing_and_the_page_is_up_to_date():
    assert symptoms.problems() == []
    assert symptoms.findings() == set(CAUSES)


def test_every_check_is_tried():
    untried = [name for name, check in CHECKED.items() if name not in symptom_cases.CASES and not causes(check)]
    assert untried == list(symptom_cases.ONLY_SOUND) and set(symptom_cases.CASES) <= set(CHECKED)


@pytest.fixture(scope="module")
def sound():
    batch = symptom_cases.faulty_batch()
    names = {"model": faulty_models.ours(), "source": batch.source, "target": batch.target}
    exec(INDEX["setup"], names)
    return names


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_a_check_tells_sick_from_sound(name, sound, monkeypatch):
    monkeypatch.delenv("TRANSFORMER_LIB_DATA", raising=False)
    torch.manual_seed(0)
    well, *ill = symptom_cases.CASES.get(name, lambda names: ({},))(sound)
    assert bool(eval(CHECKED[name], sound | well)) is True
    for number, more in enumerate(ill):
        assert bool(eval(CHECKED[name], sound | well | more)) is False, number
    for cause in causes(CHECKED[name]):
        assert bool(eval(CHECKED[name], sound | well | {"report": report_of(cause)})) is False, cause


def report_of(cause):
    """Return the doctor's report of a model with this fault."""
    if cause == "does-not-run":
        model = faulty_models.ours()
        model.encoder.layers[0].self_attention.query = nn.Linear(32, 8)
        return diagnostics.check_model(model, symptom_cases.faulty_batch())
    arguments, named = next(planted for planted in faulty_models.FAULTS if planted.cause == cause).make()
    return diagnostics.check_model(*arguments, **named)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / "book", tmp_path / "book", ignore=shutil.ignore_patterns("_static", "_ext", "results"))
    for folder in ("notebooks", "transformer_lib"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    return tmp_path


def said(root, name, **fields):
    """Return what is found after one entry has got other fields; None takes one away."""
    data = symptoms.index(root)
    entry = next(entry for entry in data["symptoms"] if entry["id"] == name)
    entry |= fields
    for key in [key for key, value in fields.items() if value is None]:
        del entry[key]
    (root / symptoms.DATA).write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    return "\n".join(symptoms.problems(root))


def test_a_planted_fault_is_found(copy):
    for name, fields, wanted in [
        ("repetition", {"patients": None}, "no entry covers 11 (patients)"),
        ("answer-in-the-input", {"findings": None}, "no entry covers 'input-not-shifted'"),
        ("bleu", {"field": ["blue"]}, "no entry covers 'bleu' (field)"),
        ("bleu", {"field": ["blue"]}, "'blue' isn't one of the field"),
        ("stripes", {"where": ["02", "attic"]}, "'attic' leads nowhere"),
        ("stripes", {"where": ["02"]}, "which must stand under 'where'"),
        ("nan", {"check": "x +"}, "the check must be one expression"),
        ("nan", {"check": "y.any()"}, "uses 'y', of which 'with' must say"),
        ("nan", {"check": None}, "either check or look"),
        ("rows", {"group": "x"}, "there is no group 'x'"),
    ]:
        before = (copy / symptoms.DATA).read_text(encoding="utf-8")
        assert wanted in said(copy, name, **fields), wanted
        (copy / symptoms.DATA).write_text(before, encoding="utf-8")
    (copy / symptoms.PAGE).write_text("old", encoding="utf-8")
    assert "isn't what" in "\n".join(symptoms.problems(copy))


FILTERED = {
    "symptom group-a": ("symptom group-b", "2 of 3 complaints, 1 of 3 complaints"),
    "claim verdict-a chapter-01 core": ("claim verdict-b chapter-02", "2 of 3 claims, 1 of 3 claims"),
}
PROBE = """<script>addEventListener("load", () => {
  const [choice] = document.querySelectorAll("select"), words = document.querySelector("input"), said = [];
  const note = () => said.push(document.querySelector("[role=status]").textContent);
  choice.value = "a"; choice.dispatchEvent(new Event("change")); note();
  words.value = "THIRD"; words.dispatchEvent(new Event("input")); note();
  document.title = said.join(", ");
});</script>"""


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize("kind", FILTERED)
def test_one_script_filters_the_index_and_the_ledger(kind, tmp_path):
    other, wanted = FILTERED[kind]
    noun = ' data-noun="complaints"' if "symptom" in kind else ""
    blocks = "".join(f'<div class="{c}">{t}</div>' for c, t in ((kind, "first"), (other, "second"), (kind, "third")))
    script = (ROOT / "book" / "_static" / "js" / "ledger.js").as_uri()
    controls = f'<div class="ledger-controls"{noun} hidden></div><script src="{script}"></script>'
    page = tmp_path / "page.html"
    body = f"<article><section><section>{blocks}</section></section></article>"
    page.write_text(f"<!doctype html><title></title>{controls}{body}{PROBE}", encoding="utf-8")
    command = [CHROMIUM, *FLAGS, NO_HOST, "--allow-file-access-from-files", "--virtual-time-budget=2000"]
    run = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert f"<title>{wanted}</title>" in run.stdout
