"""Chapter 04: its claims hold for seeds that the notebook doesn't use; its figures show what they were given."""

import math

import pytest
import torch

from transformer_lib import attention, experiments, multi_head, positional, relative
from transformer_lib.experiments import encodings, extrapolation, race_causes
from transformer_lib.toy_tasks import NOTHING
from transformer_lib.visualisation import positions


def generator(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_without_positions_attention_is_equivariant_and_a_causal_mask_ends_that(seed):
    torch.manual_seed(seed)
    layer = multi_head.MultiHeadAttention(64, heads=4).double()
    x, order = torch.randn(1, 12, 64).double(), torch.randperm(12)
    outputs, of_shuffled = layer(x, x), layer(x[:, order], x[:, order])
    torch.testing.assert_close(of_shuffled, outputs[:, order], rtol=0, atol=1e-12)
    assert (of_shuffled - outputs).norm() > 0.25 * outputs.norm()
    earlier = torch.ones(12, 12, dtype=torch.bool).tril()
    masked = layer(x[:, order], x[:, order], earlier) - layer(x, x, earlier)[:, order]
    assert masked.abs().max() > 0.1


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_swapped_words_change_cat_only_where_positions_or_a_mask_tell_the_order(seed):
    words, W = torch.randn(3, 64, generator=generator(seed)), torch.randn(3, 64, 64, generator=generator(seed + 9)) / 8
    causal = torch.ones(3, 3, dtype=torch.bool).tril()

    def apart(added, mask):
        x, y = words + added, words.flip(0) + added
        here, there = (attention.attend(z @ W[0], z @ W[1], z @ W[2], mask) for z in (x, y))
        return ((here[0] - there[2]).norm() / here[0].norm()).item()

    assert apart(0.0, None) < 1e-6
    assert apart(positional.sinusoidal_positions(3, 64), None) > 0.02
    assert apart(0.0, causal) > 0.02


@pytest.mark.parametrize("d_model", [16, 64, 512])
def test_products_of_sinusoids_depend_on_the_offset_alone(d_model):
    table = positional.sinusoidal_positions(1000, d_model)
    for k in (1, 7, 50):
        theory = sum(math.cos(k * 10000 ** (-2 * i / d_model)) for i in range(d_model // 2))
        products = (table[:-k] * table[k:]).sum(dim=1)
        assert (products - theory).abs().max() < 2e-3 * d_model


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_a_random_matrix_between_positions_ends_the_dependence_on_the_offset_alone(seed):
    table, place = positional.sinusoidal_positions(200, 64), torch.arange(200)
    scores = table @ torch.randn(64, 64, generator=generator(seed)) @ table.T
    offset = (place - place[:, None]).flatten() + 199
    means = torch.bincount(offset, weights=scores.flatten()) / torch.bincount(offset)
    assert 1 - (scores.flatten() - means[offset]).var() / scores.var() < 0.4


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_positions_that_drown_the_words_make_maps_alike_but_no_diagonal(seed):
    table = positional.sinusoidal_positions(32, 512)

    def two_maps(embedding, with_positions, tied):
        chance = generator(seed)
        x = embedding * torch.randn(2, 32, 512, generator=chance) + with_positions * table
        W_q, W_k = torch.randn(2, 512, 64, generator=chance) / math.sqrt(512)
        scores = attention.attention_scores(x @ W_q, x @ (W_q if tied else W_k))
        diagonal = attention.masked_softmax(scores).diagonal(dim1=1, dim2=2).mean().item()
        return torch.corrcoef(scores.flatten(1))[0, 1].item(), diagonal

    drowned, tied, plain = two_maps(0.02, True, False), two_maps(0.02, True, True), two_maps(1.0, False, True)
    assert drowned[0] > 0.98 and drowned[1] < 0.06
    assert plain[1] > 2 * tied[1]


@pytest.mark.parametrize("scheme", ["shaw", "t5", "rotary", "alibi"])
def test_relative_schemes_give_the_same_scores_wherever_the_tokens_stand(scheme):
    torch.manual_seed(100)
    made = {
        "shaw": relative.ShawPositions(8),
        "t5": relative.BucketBias(4),
        "rotary": relative.RotaryPositions(8),
        "alibi": relative.LinearBias(4),
    }[scheme]
    query, key = torch.randn(2, 1, 4, 1, 8)

    def score(i, j):
        bias = made.bias(made.rotate(query, i), 300, i)
        product = (made.rotate(query, i) * made.rotate(key, j)).sum(dim=-1)[0, :, 0] / math.sqrt(8)
        return product if bias is None else product + bias.expand(1, 4, 1, 300)[0, :, 0, j]

    torch.testing.assert_close(score(10, 3), score(210, 203), rtol=0, atol=1e-3)
    assert (score(10, 3) - score(10, 9)).abs().max() > 1e-3


def test_the_races_tasks_ask_what_they_say():
    symbols, answers = extrapolation.three_back(3, 20, generator(0))
    assert (answers[:, :3] == NOTHING).all() and torch.equal(answers[:, 3:], symbols[:, :-3])
    symbols, answers = extrapolation.latest_marked(20, 40, generator(0))
    half = extrapolation.FIRST_SYMBOL + extrapolation.SYMBOLS // 2
    for row, answer in zip(symbols.tolist(), answers.tolist(), strict=True):
        latest = NOTHING
        for symbol, said in zip(row, answer, strict=True):
            latest = symbol if symbol < half else latest
            assert said == latest
    symbols, answers = extrapolation.in_order(4, 12, generator(0))
    assert answers.tolist() == [sorted(row) for row in symbols.tolist()]
    symbols, answers = extrapolation.ranks(4, 12, generator(0))
    for row, answer in zip(symbols.tolist(), answers.tolist(), strict=True):
        assert answer == [extrapolation.FIRST_SYMBOL + sum(other < symbol for other in row) for symbol in row]


def test_a_longer_sequence_does_not_change_a_racers_earlier_answers():
    torch.manual_seed(0)
    for scheme in ("none", *extrapolation.SCHEMES):
        racer, symbols = extrapolation.Racer(scheme), torch.randint(4, 20, (2, 60))
        torch.testing.assert_close(racer(symbols)[:, :40], racer(symbols[:, :40]))


def test_a_run_is_the_same_again_and_leaves_the_callers_chance_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = extrapolation.race("three back", "shaw", seed=3, steps=3, layers=1)
    assert torch.equal(torch.rand(1), expected)
    assert first == extrapolation.race("three back", "shaw", seed=3, steps=3, layers=1)
    assert first.between(0, 32) == sum(first.accuracy[:2]) / 2
    assert len(first.accuracy) == 16 and len(first.moved) == 8


@pytest.mark.parametrize("keys", race_causes.KEYS)
def test_keys_are_hidden_as_said_and_a_trained_length_is_left_alone(keys):
    mask = race_causes.visible(keys, 100, generator(0))
    distance = torch.arange(100).unsqueeze(1) - torch.arange(100)
    assert not mask[distance < 0].any() and mask[(distance >= 0) & (distance < 16)].all()
    assert mask[-1].sum() == {"all": 100}.get(keys, 32)
    assert (mask & (distance >= 32)).any() == (keys != "the last 32")
    if keys == "32, half of them far":
        assert not mask[(distance >= 16) & (distance < 32)].any() and (mask & (distance >= 32))[-1].sum() == 16


def test_sinusoids_along_the_wrong_axis_give_equal_tokens_of_a_sentence_the_same_place():
    torch.manual_seed(100)
    racer = race_causes.WrongAxis()
    entered = []
    racer.encoder.register_forward_pre_hook(lambda module, inputs: entered.append(inputs[0]))
    racer(torch.full((2, 5), 7))
    assert entered[0][0, 0].equal(entered[0][0, 4]) and not entered[0][0].equal(entered[0][1])


def test_sinusoids_of_base_10000_are_the_librarys():
    torch.testing.assert_close(
        encodings.sinusoids_with_base(100, 64, 10_000.0), positional.sinusoidal_positions(100, 64), rtol=0, atol=1e-5
    )


def test_a_recorded_accuracy_is_a_share_in_every_bin():
    for run in experiments.recorded("extrapolation"):
        for task in ("three back", "latest marked"):
            for scheme in ("none", *extrapolation.SCHEMES, "sinusoidal, random start"):
                assert len(run[task][scheme]) == 16 and all(0 <= share <= 1 for share in run[task][scheme])


def test_figures_refuse_what_they_can_not_show():
    with pytest.raises(ValueError, match="numbers from -1 to 1"):
        positions.position_map(torch.full((4, 4), 2.0))
    with pytest.raises(ValueError, match="at least one panel"):
        positions.bias_maps({})
    with pytest.raises(ValueError, match="at least one panel"):
        positions.accuracy_panels([1], {}, 0, 0.5)
    with pytest.raises(ValueError, match="a label must begin with one of"):
        positions.accuracy_panels([1], {"a": {"other": ([1], [1], [1])}}, 0, 0.5)
    with pytest.raises(ValueError, match="wanted a guess for each of 1 panels, got 2"):
        positions.accuracy_panels([1], {"a": {"shaw": ([1], [1], [1])}}, 0, [0.5, 0.1])


def test_the_accuracy_figure_draws_means_and_reaches():
    figure = positions.accuracy_panels([8, 24], {"task": {"shaw": ([0.5, 0.4], [0.4, 0.4], [0.7, 0.5])}}, 32, 0.1)
    (axes,) = figure.axes
    assert axes.containers[0].lines[0].get_ydata().tolist() == [0.5, 0.4]
    low, high = axes.containers[0].lines[2][0].get_segments()[0][:, 1]
    assert (round(low, 6), round(high, 6)) == (0.4, 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101, 102])
def test_sinusoids_fall_behind_the_trained_length_where_shaws_vectors_hold(seed):
    sinusoidal = extrapolation.race("three back", "sinusoidal", seed=seed, layers=1)
    shaw = extrapolation.race("three back", "shaw", seed=seed, layers=1)
    assert min(sinusoidal.between(0, 32), shaw.between(0, 32)) > 0.9
    assert sinusoidal.between(32, 64) < 0.4 and sinusoidal.between(128, 256) < 0.2
    assert shaw.between(128, 256) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101, 102])
def test_random_starts_cure_what_comes_from_new_positions(seed):
    for steps in (300, 500):  # the page's, and as many as with random starts
        from_0 = extrapolation.race("three back", "sinusoidal", seed=seed, layers=1, steps=steps)
        assert from_0.moved[0] > 0.95 and 0.2 < sum(from_0.moved[1:]) / 7 < 0.7 and from_0.between(128, 256) < 0.2
    moved = extrapolation.race("three back", "sinusoidal", seed=seed, layers=1, steps=500, random_start=True)
    assert min(moved.moved) > 0.9 and 0.35 < moved.between(128, 256) < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101, 102])
def test_base_sizes_and_task_matter_as_the_chapter_says(seed):
    with_100 = encodings.with_base(100.0, seed=seed)
    assert with_100.between(0, 32) > 0.95 and with_100.between(64, 256) < 0.2
    losses = {name: encodings.with_amplitudes(*sizes, seed=seed) for name, sizes in encodings.AMPLITUDES.items()}
    sixteenth = losses["paper's, a sixteenth"]
    assert losses["both small"] < min(sixteenth, losses["small embeddings"] - 0.5) and losses["small embeddings"] > 2.3
    assert sixteenth < losses["paper's sizes"] - 0.3 and losses["small positions"] > losses["paper's sizes"]
    assert encodings.unmasked("rank", "none", seed=seed) > 0.95
    assert encodings.unmasked("sort", "sinusoidal", seed=seed) > 0.85
    assert encodings.unmasked("sort", "t5", seed=seed) < 0.4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101, 102])
def test_rope_fails_by_new_offsets_and_t5_and_random_starts_by_the_number_of_keys(seed):
    everything, near, far = race_causes.KEYS
    rope, t5 = (race_causes.accuracies(scheme, seed=seed) for scheme in ("rotary", "t5"))
    moved = race_causes.accuracies("sinusoidal", seed=seed, steps=600, layers=1, random_start=True)
    assert rope[near] > 0.9 and rope[far] < 0.4
    assert min(t5[near], t5[far]) > t5[everything] + 0.2
    assert moved[near] > 0.95 and moved[far] > moved[everything] + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101, 102])
def test_along_the_wrong_axis_the_loss_falls_and_the_task_is_not_learned(seed):
    astray = race_causes.along_the_wrong_axis(seed=seed)
    assert astray.loss < math.log(16) - 0.3 and astray.between(0, 32) < 0.3


@pytest.mark.slow
def test_the_record_is_what_the_race_gives():
    (recorded,) = (run for run in experiments.recorded("extrapolation") if run["seed"] == 1)
    again = extrapolation.race("three back", "t5", seed=1)
    for share, then in zip(again.accuracy, recorded["three back"]["t5"], strict=True):
        assert abs(share - then) < 0.1  # another processor rounds otherwise
