"""Chapter 08: its claims hold for seeds and sentences that the notebook doesn't use; its searches are what they say."""

import itertools
import math

import pytest
import torch
from tiny_models import SOURCE, tiny_model

from transformer_lib import decoding, diverse_beam, experiments, generation, sampling
from transformer_lib.data import END, START
from transformer_lib.experiments import beam_width, costs, searches, variety, word_chain

ALPHAS = (1.0, 0.0)
SEEDS = [10, 11, 12]


def scored(model, source, targets):
    return variety.log_probabilities(model, source, targets)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("beam", [1, 3])
def test_one_search_finds_what_beam_search_finds_with_each_penalty_and_scores_it(seed, beam):
    model = tiny_model(seed, sharpness=1.5, max_length=9)  # shorter than a source and `EXTRA`: both stop there
    found = searches.search(model, SOURCE, beam, ALPHAS)
    for alpha in ALPHAS:
        assert [one.tokens for one in found[alpha]] == decoding.beam_search(model, SOURCE, beam, alpha)
        for row, one in zip(SOURCE, found[alpha], strict=True):
            if len(one.tokens) < 9:
                assert one.score == pytest.approx(scored(model, row[row > 0].unsqueeze(0), [one.tokens])[0], abs=1e-4)


def every_target(words, longest):
    return [list(row) for n in range(longest) for row in itertools.product(words, repeat=n)]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_exact_search_finds_the_likeliest_of_all_targets(seed):
    model, source = tiny_model(seed, sharpness=1.5, vocabulary=6, max_length=5), SOURCE[1:2, :2].clamp(max=5)
    targets = every_target(range(3, 6), 5)
    logs = scored(model, source, targets)
    best = max(range(len(targets)), key=logs.__getitem__)
    poor = searches.Found([], logs[0])
    found = searches.exact(model, source, poor)
    assert found.tokens == targets[best] and found.score == pytest.approx(logs[best], abs=1e-4)


def test_the_exact_search_gives_up_where_it_would_keep_too_many():
    known = searches.Found([], -30.0)
    assert searches.exact(variety.shipped().model, variety.sources()[0], known, most=2) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_beam_that_holds_everything_is_exhaustive(seed):
    model, source = tiny_model(seed, sharpness=2.0, vocabulary=7, max_length=12), torch.tensor([[3, 5, 4, 6]])
    targets = every_target(range(3, 7), 4)
    logs = scored(model, source, targets)
    compared = [x / decoding.length_penalty(len(t) + 1, 1.0) for x, t in zip(logs, targets, strict=True)]
    best = targets[max(range(len(targets)), key=compared.__getitem__)]
    wide = 64 * 5  # at the last step there are 64 beginnings, each with four words and END
    assert decoding.beam_search(model, source, wide, 1.0, 4)[0] == best


@pytest.mark.slow
@pytest.mark.parametrize("length", [3, 6])
def test_operations_with_and_without_a_cache_are_those_of_the_formula(length):
    model = tiny_model(0)
    source, memory = SOURCE[:1], model.encode(SOURCE[:1]).detach()
    d, d_ff, layers, m = 16, 24, 2, 5
    for cached in (True, False):
        wanted = length * d * 10 + layers * 2 * d * d * m * (1 if cached else length)
        for i in range(1, length + 1):
            rows = 1 if cached else i
            wanted += layers * rows * (6 * d * d + 2 * d * d_ff + 2 * d * i + 2 * d * m)

        def write(tokens, cached=cached):
            caches = model.decoder.new_caches() if cached else None
            for i in range(tokens.size(1)):
                given = tokens[:, i : i + 1] if cached else tokens[:, : i + 1]
                model.embedding.logits(model.decode(given, memory, source, caches)[:, -1:])

        assert costs.multiplications(write, torch.full((1, length), 4)) == wanted


def test_counts_of_parts_add_up_to_the_bleu_of_the_whole():
    metrics = pytest.importorskip("sacrebleu.metrics")
    outputs = [
        "A dog runs through the tall green grass.",
        "Two men play guitar in a street.",
        "A girl is on the beach now.",
    ]
    wanted = [
        "A dog runs through the tall grass.",
        "Two men play guitar in the street.",
        "A girl is sitting on the beach now.",
    ]
    parts = [beam_width.bleu_counts(outputs[:1], wanted[:1]), beam_width.bleu_counts(outputs[1:], wanted[1:])]
    assert beam_width.bleu(parts) == pytest.approx(metrics.BLEU().corpus_score(outputs, [wanted]).score)
    with pytest.raises(ValueError, match="right somewhere"):
        beam_width.bleu([beam_width.bleu_counts(["Nothing like it at all here."], ["A dog runs through tall grass."])])


def test_batches_by_length_give_results_in_the_order_of_the_sources():
    sources = [[5] * (1 + (7 * i) % 90) for i in range(90)]
    assert generation.in_batches(sources, lambda batch: (batch > 0).sum(1).tolist()) == [len(row) for row in sources]


def test_the_recorded_runs_say_what_the_chapter_says():
    runs = experiments.recorded("beam_width")
    assert len(runs) == 3 and sum(run["sentences"] for run in runs) == 1000
    for run in runs:
        with_penalty, without = run["alpha 1"], run["alpha 0"]
        assert without["log_probability"][-1] > without["log_probability"][0] + 0.5
        assert with_penalty["bleu"][4] > with_penalty["bleu"][0] and without["length"][-1] < with_penalty["length"][-1]


def test_alikeness_is_counted_as_said():
    assert variety.apart([[1, 2, 3], [1, 2, 3]]) == 0 and variety.apart([[1, 2], [1, 3, 4]]) == pytest.approx(2 / 3)
    assert variety.same_start([[1, 2, 3, 4], [1, 2, 9]]) == 0.5
    assert variety.repeated([1, 2, 3, 1, 2, 3]) == 0.25 and variety.repeated([1, 2, 3, 4]) == 0
    with pytest.raises(ValueError, match="at least two"):
        variety.apart([[1]])


def test_the_best_of_n_is_beam_searchs_and_all_differ():
    model, source = variety.shipped().model, variety.sources()[1]
    found = variety.n_best(model, source, 4)
    assert found[0] == decoding.beam_search(model, source, 4, 1.0)[0]
    assert len(set(map(tuple, found))) == 4


def test_an_offset_of_zero_changes_no_loss_and_the_loss_is_the_models_own():
    model, encode = variety.shipped().model, variety.shipped().tokeniser.encode
    plain = variety.honest_loss(model)
    assert variety.honest_loss(model, torch.zeros(128)) == plain
    pairs = [(encode(german), encode(english)) for german, english in variety.CAPTIONS]
    logs = [scored(model, torch.tensor([german]), [english])[0] for german, english in pairs]
    assert plain == pytest.approx(-sum(logs) / sum(len(english) + 1 for _, english in pairs), abs=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_beams_own_vector_only_harms(seed):
    model = variety.shipped().model
    offset = torch.randn(128, generator=torch.Generator().manual_seed(seed))
    assert variety.honest_loss(model, offset) > variety.honest_loss(model) + 0.02


def test_two_groups_differ_once_the_strength_exceeds_the_gap():
    for strength, wanted in ((0.2, [0, 0]), (0.25, [0, 1])):  # ln 0.5 - ln 0.4 = 0.22
        groups = [decoding.Beams.start(torch.zeros(1, 1, dtype=torch.long), 1) for _ in range(2)]
        logs = torch.full((1, 2, 1, 6), -math.inf)
        logs[..., 3:] = torch.tensor([0.5, 0.4, 0.1]).log()
        diverse_beam.advance_in_turn(groups, logs, strength, 0.0)
        assert [group.live[0, 0, -1].item() - 3 for group in groups] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_draws_are_further_apart_than_beams_with_or_without_a_model(seed):
    model, few = variety.shipped().model, variety.sources()[:3]
    beams = [variety.n_best(model, each, 6) for each in few]
    drawn = [
        sampling.sample(model, each.expand(6, -1), torch.Generator().manual_seed(seed), max_length=30) for each in few
    ]
    assert sum(map(variety.apart, drawn)) / 3 > sum(map(variety.apart, beams)) / 3 + 0.08
    assert sum(map(variety.same_start, drawn)) < sum(map(variety.same_start, beams))
    texts = word_chain.texts(6, 14, torch.Generator().manual_seed(seed))[:, 1:].tolist()
    assert variety.apart(texts) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_beams_stay_alike_when_each_place_reads_a_memory_of_its_own(seed):
    model, few, chance = variety.shipped().model, variety.sources()[:5], torch.Generator().manual_seed(seed)
    shared, own = [], []
    for each in few:
        memory = model.encode(each).detach().expand(6, -1, -1)
        noisy = memory + memory.std() * torch.randn(memory.shape, generator=chance)
        shared.append(variety.n_best(model, each, 6))
        own.append(variety.n_best(model, each, 6, memory=noisy))
    assert own != shared
    assert sum(map(variety.apart, own)) / 5 < sum(map(variety.apart, shared)) / 5 + 0.1
    assert sum(map(variety.same_start, own)) / 5 > sum(map(variety.same_start, shared)) / 5 - 0.06


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_translator_that_may_not_end_repeats_less_the_higher_the_temperature(seed):
    model, chance = variety.shipped().model, torch.Generator().manual_seed(seed)
    shares = [variety.repeated(variety.forced(model, variety.sources()[0], 40, t, chance)) for t in (0.0, 1.0)]
    assert shares[0] > 0.6 and shares[1] < 0.3
    assert END not in variety.forced(model, variety.sources()[0], 5, 0.0, chance) and START == 1
