"""Chapter 10: its claims hold for seeds that the notebook doesn't use; its experiments and figures do what they say."""

import math
import random
from collections import Counter

import faulty_models
import pytest
import torch
from test_moving_figures import SCRIPTS, computed, needs_node
from torch import nn

from transformer_lib import encoder_decoder, experiments, layers, positional, relative
from transformer_lib.experiments import costs, deep_stacks, extrapolation, norm_depth, three_checks
from transformer_lib.visualisation import norm_depth as explorer
from transformer_lib.visualisation import norms
from transformer_lib.visualisation.moving import page_data

seeds = pytest.mark.parametrize("seed", [20, 21, 22])


@seeds
@pytest.mark.parametrize("norm", layers.NORMS)
def test_two_of_the_rules_are_the_librarys_and_pytorchs(seed, norm):
    torch.manual_seed(seed)
    x, theirs = torch.randn(2, 5, 16), layers.Residual(16, norm=norm)
    ours = deep_stacks.Placed(16, norm)
    torch.testing.assert_close(ours(x, torch.sin), theirs(x, torch.sin))
    assert (deep_stacks.Placed(16, "skip")(x, torch.sin) - theirs(x, torch.sin)).abs().max() > 0.05


def test_a_rule_start_or_schedule_with_another_name_is_refused():
    with pytest.raises(ValueError, match="rule must be one of"):
        deep_stacks.Placed(16, "both")
    with pytest.raises(ValueError, match="start must be one of"):
        deep_stacks.fresh("post", 2, 0, "small")
    with pytest.raises(ValueError, match="schedule must be one of"):
        norm_depth.train_deep("post", 2, "cosine", seed=0)


@seeds
def test_the_linear_start_is_about_half_as_large(seed):
    sizes = {}
    for start in deep_stacks.STARTS:
        layer = deep_stacks.fresh("post", 1, seed, start).encoder.layers[0]
        sizes[start] = {name: one.std().item() for name, one in layer.named_parameters() if one.dim() > 1}
    shares = [sizes["linear"][name] / sizes["glorot"][name] for name in sizes["glorot"]]
    assert len(shares) == 6 and 0.45 < min(shares) < 0.55 and 0.65 < max(shares) < 0.77


@seeds
def test_the_distance_is_one_minus_the_cosine_of_two_tokens(seed):
    network = deep_stacks.fresh("pre", 2, seed)
    symbols, _ = extrapolation.three_back(64, deep_stacks.LENGTH, torch.Generator().manual_seed(0))
    unit = nn.functional.normalize(network.top(symbols).double(), dim=-1)
    pairs = [(unit[:, i] * unit[:, j]).sum(-1).mean().item() for i in range(12) for j in range(i)]
    assert deep_stacks.apart(network) == pytest.approx(1 - sum(pairs) / len(pairs))


def test_tokens_that_are_all_alike_are_not_apart():
    network = deep_stacks.fresh("post", 1, 0)
    network.top = lambda symbols: torch.ones(len(symbols), deep_stacks.LENGTH, 4)
    assert deep_stacks.apart(network) == 0


@pytest.mark.slow
@pytest.mark.parametrize("first", [20, 30])
def test_a_deep_post_norm_stack_from_glorots_start_leaves_its_tokens_alike(first):
    def far(rule, depth, start):
        return sum(deep_stacks.apart(deep_stacks.fresh(rule, depth, s, start)) for s in range(first, first + 4)) / 4

    assert far("post", 12, "glorot") < 0.01 and far("post", 24, "glorot") < 1e-3 and far("post", 6, "glorot") > 0.04
    assert min(far("post", 24, "linear"), far("pre", 24, "glorot"), far("pre", 24, "linear")) > 0.05


def test_the_three_schedules_are_what_they_are_called():
    rates = {
        how: [norm_depth.rate_at(step, how, 400) / norm_depth.RATE for step in (1, 100, 200, 400)]
        for how in norm_depth.SCHEDULES
    }
    assert rates["constant"] == [1] * 4 and rates["a third"] == pytest.approx([1 / 3] * 4)
    assert rates["warm-up"] == pytest.approx([1 / 200, 1 / 2, 1, 1])


def test_only_a_pre_norm_stack_ends_with_a_norm():
    ends = {rule: type(deep_stacks.fresh(rule, 2, seed=0).encoder.norm) for rule in deep_stacks.RULES}
    assert ends.pop("pre") is nn.LayerNorm and set(ends.values()) == {nn.Identity}


@seeds
def test_the_bare_bypass_hands_the_gradient_on_and_the_others_divide_it_by_the_spread(seed):
    for rule, size in [(rule, size) for rule in deep_stacks.PLACEMENTS for size in (1, 10, 100)]:
        torch.manual_seed(seed)
        x = (size * torch.randn(100, 64, dtype=torch.float64)).requires_grad_()
        norm, g = nn.LayerNorm(64).double(), torch.randn(100, 64, dtype=torch.float64)
        deep_stacks.RULES[rule](norm, x, torch.zeros_like).backward(g)
        factor = (x.grad.norm() / g.norm()).item()
        assert factor == 1 if rule == "pre" else abs(factor * size - 1) < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("first", [20, 30, 40])
def test_the_largest_gradient_is_at_the_top_of_post_norm_and_at_the_bottom_of_pre_norm(first):
    found = {rule: deep_stacks.gradients(rule, 24, seeds=range(first, first + 8)) for rule in ("post", "pre")}
    assert found["post"][0] < 0.9 * found["post"][-1] and found["pre"][0] > 1.5 * found["pre"][-1]
    assert found["post"][-1] > 2 * found["pre"][-1]


def test_the_recorded_gradients_shrink_at_the_bottom_of_post_norm_and_at_the_top_of_pre_norm():
    found = explorer.recorded()
    first, last = ({rule: [found[rule][str(n)][end] for n in (6, 12, 24)] for rule in found} for end in (0, -1))
    assert first["post"][0] > 1.5 * first["post"][2] and max(last["post"]) < 1.2 * min(last["post"])
    assert last["pre"][0] > 1.5 * last["pre"][2] and max(first["pre"]) < 1.2 * min(first["pre"])
    assert all(max(found["pre"][str(n)]) == found["pre"][str(n)][0] for n in explorer.DEPTHS)
    assert all(one < 0.7 * other for one, other in zip(first["post"], last["post"], strict=True))
    assert all(one > 1.4 * other for one, other in zip(first["pre"], last["pre"], strict=True))


@pytest.mark.parametrize("seed", [20, 21, 22])
def test_the_sum_of_a_pre_norm_stack_grows_like_the_root_of_its_depth(seed):
    spread = {}
    for depth in (6, 24):
        network, kept = deep_stacks.fresh("pre", depth, seed), []
        network.encoder.norm.register_forward_hook(lambda module, given, output, kept=kept: kept.append(given[0]))
        deep_stacks.loss_of(network, 8, torch.Generator().manual_seed(seed))
        spread[depth] = kept[0].std().item()
    assert spread[24] > 1.5 * spread[6] and spread[6] > 1.5


def test_a_run_repeats_itself_and_leaves_the_random_state_alone():
    before = torch.random.get_rng_state()
    first, second = (norm_depth.train_deep("post", 1, "warm-up", seed=3, steps=3) for _ in range(2))
    assert first == second and torch.equal(torch.random.get_rng_state(), before)


@seeds
def test_a_pair_turned_twice_depends_on_the_offset_alone(seed):
    torch.manual_seed(seed)
    turn, (q, k) = relative.RotaryPositions(32).double(), torch.randn(2, 1, 1, 1, 32, dtype=torch.float64)
    scores = [(turn.rotate(q, m) * turn.rotate(k, m + 7)).sum().item() for m in (0, 10, 500)]
    assert max(scores) - min(scores) < 1e-9


@pytest.mark.parametrize("d_model", [64, 128, 512])
def test_the_fastest_pairs_carry_a_step_and_no_pair_is_a_harmonic(d_model):
    w = 10000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    carried = ((2 * (w / 2).sin()) ** 2).cumsum(0)
    carried = carried / carried[-1]
    assert carried[len(w) // 4 - 1] > 0.97 and carried[len(w) // 2 - 1] > 0.999
    turns = 512 * w / (2 * math.pi)
    assert (turns - turns.round()).abs().min() > 1e-4
    assert torch.linalg.matrix_rank(positional.sinusoidal_positions(512, d_model)) < d_model


@pytest.mark.parametrize("d_model", [32, 128])
def test_heads_change_neither_parameters_nor_products(d_model):
    made = [encoder_decoder.EncoderLayer(d_model, heads, 64) for heads in (1, 4, 16)]
    assert len({sum(p.numel() for p in layer.parameters()) for layer in made}) == 1
    assert len({costs.multiplications(layer, torch.randn(1, 20, d_model)) for layer in made}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", three_checks.FAULTS)
def test_the_doctor_names_each_planted_fault_first_and_the_three_checks_three(name):
    number = list(three_checks.FAULTS).index(name)
    case = three_checks.planted(name, seed=20 + number)
    assert bool(three_checks.objections(case.model)) == (number < 3)
    assert three_checks.doctor(case)[0] == three_checks.FAULTS[name][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "objections"),
    [
        ({}, []),
        ({"norm": "pre"}, ["residual"]),
        ({"positions": "learned"}, ["positions"]),
        ({"positions": "rotary"}, ["positions"]),
        ({"heads": 4}, ["heads"]),
    ],
)
def test_the_three_checks_object_to_sound_models_and_the_doctor_does_not(changes, objections):
    case = three_checks.healthy(20, **changes)
    assert three_checks.objections(case.model) == objections and three_checks.doctor(case) == []


def test_the_chapter_counts_the_doctors_planted_faults_as_they_are():
    planted = Counter(fault.cause for fault in faulty_models.FAULTS)
    counted = {"residual-missing": 6, "norm-missing": 6, "norm-misplaced": 5}
    counted |= {"positions-missing": 6, "positions-wrong-base": 4, "positions-wrong-axis": 6}
    counted |= {"positions-drowned": 3, "positions-drowning": 2, "heads-width": 3}
    assert {cause: planted[cause] for cause in counted} == counted and planted.total() == 114


def test_a_fault_or_a_stack_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="name must be one of"):
        three_checks.planted("none")
    with pytest.raises(ValueError, match="depth must be one of"):
        explorer.state("post", 7)


def test_the_blocks_are_drawn_with_their_formulas():
    titles = [text.get_text() for axes in norms.placements().axes for text in axes.texts]
    assert sum("LN" in text and ":" in text for text in titles) == 3


def test_the_page_holds_the_recorded_gradients():
    data = page_data(SCRIPTS / "norm_depth_data.js")
    # To write the file anew: python -c "from transformer_lib.visualisation import norm_depth; norm_depth.write(FOLDER)"
    assert data["gradients"] == explorer.recorded() and data["depths"] == list(explorer.DEPTHS)
    assert len(explorer.state("post", 24).shares) == 24 and max(explorer.state("pre", 6).shares) == 1


@needs_node
def test_the_page_shows_what_the_library_shows():
    pick, settings = random.Random(4), []
    for _ in range(12):
        settings.append([pick.choice(list(explorer.RULES)), pick.choice(explorer.DEPTHS)])
    shown = computed("norm_depth.js", settings, page_data(SCRIPTS / "norm_depth_data.js"), leading=True)
    for found, chosen in zip(shown, settings, strict=True):
        wanted = explorer.state(*chosen)
        assert found["shares"] == pytest.approx(wanted.shares) and found["ratio"] == pytest.approx(wanted.ratio)


STUCK = {("post", depth, "glorot", how) for depth in (12, 24) for how in ("constant", "warm-up")}
STUCK |= {("post", 12, "glorot", "a third"), ("post", 24, "linear", "constant")}
LEARN = {(rule, 6, "glorot", how) for rule in ("post", "pre", "skip") for how in ("constant", "warm-up")}
LEARN |= {("pre", depth, "glorot", how) for depth in (12, 24) for how in ("constant", "warm-up")}
LEARN |= {("post", depth, "linear", how) for depth in (6, 12) for how in ("constant", "warm-up")}
LEARN |= {("post", 24, "linear", how) for how in ("warm-up", "a third")} | {("pre", 24, "linear", "constant")}


def test_the_recorded_runs_say_what_the_chapter_says():
    runs = experiments.recorded("norm_depth")
    assert [run["seed"] for run in runs] == [1, 2, 3]
    for run in runs:
        for kind in STUCK:
            found = run[", ".join(map(str, kind))]
            assert found["accuracy"] < 0.3 and found["apart"][-1] < 0.01
        for kind in LEARN:
            assert run[", ".join(map(str, kind))]["accuracy"] > 0.95
        assert run["longer"]["constant"]["accuracy"] < 0.3 < 0.95 < run["longer"]["warm-up"]["accuracy"]
        trained = [", ".join(map(str, kind)) for kind in STUCK | LEARN]
        others = [f"{rule}, 6, glorot, constant" for rule in ("no norm", "no residual")]
        assert {name for name in run if ", " in name} == {*trained, *others}


@pytest.mark.slow
@seeds
@pytest.mark.parametrize(
    "kind",
    [
        ("post", 6, "glorot", "constant"),
        ("post", 6, "glorot", "warm-up"),
        ("skip", 6, "glorot", "constant"),
        ("post", 12, "glorot", "warm-up"),
        ("post", 12, "linear", "constant"),
        ("post", 24, "linear", "constant"),
        ("post", 24, "linear", "warm-up"),
        ("pre", 24, "glorot", "constant"),
    ],
    ids=lambda kind: ", ".join(map(str, kind)),
)
def test_what_learns_and_what_does_not_with_other_seeds(kind, seed):
    rule, depth, start, schedule = kind
    run = norm_depth.train_deep(rule, depth, schedule, seed=seed, start=start)
    if kind in STUCK:
        assert run.accuracy < 0.3 and run.apart[-1] < 0.01
    else:
        assert run.accuracy > 0.95 and run.apart[-1] > 0.5


@pytest.mark.slow
@seeds
def test_the_norm_on_the_bypass_learns_last(seed):
    def steps(rule):
        losses = norm_depth.train_deep(rule, 6, seed=seed).losses
        return next(i for i in range(0, 400, 10) if sum(losses[i : i + 10]) < 5)

    assert steps("pre") < steps("post") < steps("skip")
