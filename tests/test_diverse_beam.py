"""Diverse beam search: against a slow form without batches and caches, equal to beam search, diverse as asked."""

import math

import pytest
import torch
from tiny_models import SOURCE, tiny_model
from torch import Tensor

from transformer_lib import decoding, fast
from transformer_lib.data import END, PADDING, START
from transformer_lib.decoding import Beams
from transformer_lib.diverse_beam import advance_in_turn, diverse_beam_search
from transformer_lib.model import Transformer

Target = tuple[int, ...]


@torch.no_grad()
def next_log_probability(model: Transformer, source: Tensor, prefix: Target) -> list[float]:
    """Score every next token by running the whole model on the whole prefix of an unpadded sentence."""
    row = model(source, torch.tensor([[START, *prefix]]))[0, -1].log_softmax(dim=-1)
    row[[PADDING, START]] = -math.inf
    return row.tolist()


def by_loop(model: Transformer, source: Tensor, width: int, groups: int, strength: float, alpha: float, longest: int):
    """Return each group's best target, by lists and dictionaries, without ever stopping early."""
    live: list[dict[Target, float]] = [{(): 0.0} for _ in range(groups)]
    done: list[dict[Target, float]] = [{} for _ in range(groups)]
    for length in range(1, longest + 1):
        chosen: dict[int, int] = {}
        for g in range(groups):
            options = {
                (*prefix, token): score + p - strength * chosen.get(token, 0)
                for prefix, score in live[g].items()
                for token, p in enumerate(next_log_probability(model, source, prefix))
                if p > -math.inf
            }
            best = sorted(options, key=options.get, reverse=True)[:width]
            done[g] |= {t[:-1]: options[t] / ((5 + length) / 6) ** alpha for t in best if t[-1] == END}
            live[g] = {t: options[t] for t in best if t[-1] != END}
            for t in best:
                chosen[t[-1]] = chosen.get(t[-1], 0) + 1
    return [list(max(d or own, key=(d or own).get)) for d, own in zip(done, live, strict=True)]


STRENGTHS = [0.4, *(pytest.param(strength, marks=pytest.mark.slow) for strength in (0.0, 3.0))]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "groups"), [(1, 3), (2, 2), (3, 2)])
@pytest.mark.parametrize("strength", STRENGTHS)
def test_it_agrees_with_a_loop_over_lists(width, groups, strength):
    for seed in range(2):
        model = tiny_model(seed, sharpness=1.5)
        found = diverse_beam_search(model, SOURCE, width * groups, groups, strength, 0.6, 6)
        for row, targets in zip(SOURCE, found, strict=True):
            alone = row[row != PADDING].unsqueeze(0)
            assert targets == by_loop(model, alone, width, groups, strength, 0.6, 6)


@pytest.mark.parametrize("strength", [0.0, 5.0])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_one_group_is_beam_search(strength, alpha):
    for seed in range(3):
        model = tiny_model(seed, sharpness=1.5)
        wanted = decoding.beam_search(model, SOURCE, 3, alpha, 8)
        assert diverse_beam_search(model, SOURCE, 3, 1, strength, alpha, 8) == [[target] for target in wanted]


def test_the_first_group_is_beam_search_whatever_the_others_do():
    for seed in range(3):
        model = tiny_model(seed, sharpness=1.5)
        wanted = decoding.beam_search(model, SOURCE, 2, 0.6, 8)
        assert [targets[0] for targets in diverse_beam_search(model, SOURCE, 6, 3, 0.7, 0.6, 8)] == wanted


def test_without_strength_all_groups_say_the_same():
    for targets in diverse_beam_search(tiny_model(2, sharpness=1.5), SOURCE, 8, 4, 0.0, max_length=8):
        assert len(targets) == 4 and all(target == targets[0] for target in targets)


def difference(targets: list[list[int]]) -> float:
    """Return at what share of places two of the targets differ, in the mean over all two of them."""
    shares = []
    for i, one in enumerate(targets):
        for other in targets[:i]:
            length = max(len(one), len(other), 1)
            same = sum(a == b for a, b in zip(one, other, strict=False))
            shares.append(1 - same / length if one or other else 0.0)
    return sum(shares) / len(shares)


@torch.no_grad()
def by_teacher_forcing(model: Transformer, source: Tensor, target: list[int]) -> float:
    labels = torch.tensor([*target, END])
    logits = model(source, torch.tensor([[START, *target]]))[0]
    return float(logits.log_softmax(dim=-1)[torch.arange(len(labels)), labels].sum())


@pytest.mark.slow
def test_diversity_grows_with_strength_and_costs_probability():
    models, diversity, quality = [tiny_model(seed, 1.5) for seed in range(6)], [], []
    for strength in (0.0, 0.3, 1.0, 5.0):
        found = [diverse_beam_search(model, SOURCE[:1], 6, 3, strength, 0.0, 8)[0] for model in models]
        diversity.append(sum(map(difference, found)) / len(found))
        scores = [
            by_teacher_forcing(m, SOURCE[:1], t) for m, targets in zip(models, found, strict=True) for t in targets
        ]
        quality.append(sum(scores))
    assert diversity[0] == 0.0 and diversity[0] < diversity[1] < diversity[2] <= diversity[3]
    assert quality[0] > quality[2] > quality[3]


def test_a_step_of_two_groups_by_hand():
    """Group 1 takes 4 and 5. Group 2, with the same probabilities, loses 1 nat on each, so END and 6 come before."""
    parts = [Beams.start(torch.ones(1, 3, dtype=torch.int64), 2) for _ in range(2)]
    table = torch.full((1, 2, 2, 7), -math.inf)
    table[..., [END, 4, 5, 6]] = torch.tensor([0.2, 0.4, 0.25, 0.15]).log()
    origins = advance_in_turn(parts, table, strength=1.0, alpha=0.0)
    assert origins.tolist() == [[[0, 0], [0, 0]]]
    assert parts[0].live.tolist() == [[[START, 4], [START, 5]]]
    assert parts[1].done[0, 0].tolist() == [START, END] and parts[1].live[0, 0].tolist() == [START, 6]
    assert parts[1].done_scores.exp()[0, 0].item() == pytest.approx(0.2)
    assert parts[1].live_scores.exp().tolist()[0] == pytest.approx([0.15, 0.0])


def test_a_loss_stays_in_the_scores_and_an_ended_beam_chooses_nothing():
    parts = [Beams.start(torch.ones(1, 3, dtype=torch.int64), 1) for _ in range(2)]
    table = torch.full((1, 2, 1, 6), -math.inf)
    table[..., [END, 4, 5]] = torch.tensor([0.9, 0.08, 0.02]).log()
    advance_in_turn(parts, table, strength=1.0, alpha=0.0)
    assert [part.done_scores.item() for part in parts] == pytest.approx([math.log(0.9), math.log(0.9) - 1])
    parts[1].live_scores = torch.zeros(1, 1)  # only the first group has ended: the second is free from now on
    advance_in_turn(parts, table, strength=9.0, alpha=0.0)
    assert parts[1].done_scores.item() == pytest.approx(math.log(0.9))


def test_each_sentence_is_decoded_as_if_alone_and_as_fast():
    for seed in range(3):
        model = tiny_model(seed, 1.5)
        together = diverse_beam_search(model, SOURCE, 4, 2, 0.8, max_length=8)
        alone = [diverse_beam_search(model, row[row != 0][None], 4, 2, 0.8, max_length=8)[0] for row in SOURCE]
        with fast.enabled():
            assert diverse_beam_search(model, SOURCE, 4, 2, 0.8, max_length=8) == together == alone
