"""Chapter 02: its claims hold for seeds that the notebook doesn't use; its moving figure shows the library's values."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from transformer_lib import attention
from transformer_lib.experiments import reversal
from transformer_lib.visualisation import scale

SCRIPTS = Path(__file__).parent.parent / "book" / "_static" / "js"


def pass_back(d_k, factor, seed, rows=300, keys=64):
    """Return largest weights and the gradients of scores and query, by autograd rather than by the Jacobian."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(rows, 1, d_k, generator=generator).requires_grad_()
    key = torch.randn(rows, keys, d_k, generator=generator)
    scores = query @ key.mT * factor
    scores.retain_grad()
    weights = scores.softmax(dim=-1)
    weights.backward(torch.randn(rows, 1, keys, generator=generator))
    return weights.detach().amax(-1), scores.grad.abs(), query.grad.flatten(1).norm(dim=1)


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_without_the_scale_gradients_are_uneven_rather_than_small(seed):
    without, with_scale = pass_back(64, 1.0, seed), pass_back(64, 0.125, seed)
    assert without[0].mean() > 0.75 and with_scale[0].mean() < 0.15
    assert 1e-7 < without[1].median() / with_scale[1].median() < 1e-5  # one score
    assert 6 < without[2].mean() / with_scale[2].mean() < 11  # the query
    assert without[2].median() > 3 * with_scale[2].median()
    assert 0.8 < without[1].flatten(1).norm(dim=1).mean() / with_scale[1].flatten(1).norm(dim=1).mean() < 1.3
    without, with_scale = pass_back(1024, 1.0, seed), pass_back(1024, 1 / 32, seed)
    assert without[2].mean() > 6 * with_scale[2].mean()
    assert without[2].median() < 0.2 * with_scale[2].median()
    assert 0.45 < (without[2] < 0.1 * with_scale[2]).float().mean() < 0.65
    pushed = without[2] > without[2].quantile(0.9)
    largest = without[0].flatten()
    assert 0.6 < largest[pushed].mean() < 0.8 and largest[~pushed].mean() > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 21])
def test_a_missing_scale_stalls_training_and_the_scale_cures_it(seed):
    sound, broken = (reversal.train_to_reverse(factor, seed=seed) for factor in (1 / 8, 1.0))
    half, end = slice(50, 60), slice(110, 120)
    assert sum(sound.losses[half]) / 10 < 1.8 and sum(sound.losses[end]) / 10 < 0.2 and sound.accuracy > 0.98
    assert sum(broken.losses[half]) / 10 > 2.2 and sum(broken.losses[end]) / 10 > 0.9 and broken.accuracy < 0.8
    assert broken.first_weights > 0.7 and sound.first_weights < 0.2
    assert 2 < broken.gradient / sound.gradient < 6 and 4 < broken.query_gradient / sound.query_gradient < 12


@pytest.mark.slow
def test_after_the_plateau_some_runs_recover_and_some_do_not():
    records = [reversal.train_to_reverse(1.0, seed=seed, steps=400) for seed in range(3)]
    assert all(sum(record.losses[50:60]) / 10 > 2.5 for record in records)
    assert max(record.accuracy for record in records) > 0.95 and min(record.accuracy for record in records) < 0.85


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_a_smaller_learning_rate_does_not_cure_a_missing_scale(seed, monkeypatch):
    monkeypatch.setattr(reversal, "RATE", reversal.RATE / 2)
    sound, broken = (reversal.train_to_reverse(factor, seed=seed) for factor in (1 / 8, 1.0))
    assert broken.accuracy < 0.3 and sound.accuracy > 0.7


def test_the_experiment_leaves_random_state_and_threads_alone_and_repeats_itself():
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    first, second = (reversal.train_to_reverse(0.25, seed=3, steps=2, d_k=16) for _ in range(2))
    assert first.losses == second.losses
    assert first.losses[0] == pytest.approx(math.log(reversal.SYMBOLS), abs=0.6)  # it begins by guessing
    assert torch.equal(torch.random.get_rng_state(), before) and torch.get_num_threads() == threads


def test_one_head_is_attention_between_an_embedding_and_an_answer():
    model = reversal.OneHead(16, 16**-0.5)
    symbols = torch.randint(reversal.SYMBOLS, (2, reversal.LENGTH))
    logits, weights = model(symbols)
    x = (model.symbol(symbols) + model.position) / math.sqrt(2)
    mixed = attention.attend(model.query(x), model.key(x), model.value(x))
    torch.testing.assert_close(logits, model.answer(mixed))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, reversal.LENGTH))


def test_the_moving_figure_shows_what_its_caption_says():
    for draw in range(scale.DRAWS):
        for d_k in (64, 128, 256, 512):
            without, scaled = (sorted(scale.state(draw, d_k, scaled).weights) for scaled in (False, True))
            assert sum(without[-2:]) > 0.65 and scaled[-1] < 0.5


def page_data():
    text = (SCRIPTS / "attention_scale_data.js").read_text(encoding="utf-8")
    return json.loads(text[text.index("{") : text.rindex("}") + 1])


def test_the_page_holds_the_products_that_the_library_computes():
    data = page_data()
    assert tuple(data["labels"]) == scale.LABELS and tuple(data["widths"]) == scale.WIDTHS
    for shown, computed in zip(data["draws"], scale.products(), strict=True):
        for d_k in scale.WIDTHS:
            wanted = torch.tensor(computed[d_k])
            # To write the file anew: python -c "from transformer_lib.visualisation import scale; scale.write(PATH)"
            torch.testing.assert_close(torch.tensor(shown[str(d_k)]), wanted, rtol=0, atol=2e-4)


def test_writing_the_data_gives_the_committed_file(tmp_path):
    scale.write(tmp_path / "data.js")
    head = (tmp_path / "data.js").read_text(encoding="utf-8").partition("{")[0]
    assert (SCRIPTS / "attention_scale_data.js").read_text(encoding="utf-8").startswith(head)


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's script; it isn't installed")
def test_the_page_computes_what_the_library_computes():
    settings = [
        (draw, d_k, scaled, T)
        for draw in (0, 5)
        for d_k in (1, 64, 512)
        for scaled in (True, False)
        for T in (0.25, 1, 4)
    ]
    program = f"""
      const {{ compute }} = require({json.dumps(str(SCRIPTS / "attention_scale.js"))});
      const data = {json.dumps(page_data())};
      const settings = {json.dumps(settings)};
      const states = settings.map(([draw, dK, scaled, T]) => compute(data.draws[draw][dK], dK, scaled, T));
      console.log(JSON.stringify(states));
    """
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True, timeout=60)
    for shown, (draw, d_k, scaled, temperature) in zip(json.loads(done.stdout), settings, strict=True):
        wanted = scale.state(draw, d_k, scaled, float(temperature))
        # products are stored to four decimals; divided by the smallest temperature that's 2e-4 in the exponent
        torch.testing.assert_close(torch.tensor(shown["scores"]), torch.tensor(wanted.scores), rtol=0, atol=1e-3)
        torch.testing.assert_close(torch.tensor(shown["weights"]), torch.tensor(wanted.weights), rtol=1e-3, atol=1e-6)
        assert shown["entropy"] == pytest.approx(wanted.entropy, abs=1e-3)
        assert shown["largest"] == pytest.approx(wanted.largest, abs=1e-3)
