"""Tests of BPE dropout against its definition."""

import itertools
import random
from collections import Counter

import pytest
import torch

from tools import training_settings
from tools.bpe_dropout import SubwordSampler
from tools.training_run import Run
from tools.training_settings import Corpus, Settings
from transformer_lib import toy_grammar
from transformer_lib.data import train_tokeniser

WORDS = ["low", "lower", "lowest", "newer", "newest", "wide", "wider", "widest"]


@pytest.fixture(scope="module")
def tokeniser():
    return train_tokeniser([" ".join(WORDS)] * 3, 40)


def test_without_dropout_the_pieces_are_the_tokenisers():
    pairs = toy_grammar.sample_sentences(300, torch.Generator().manual_seed(0))
    texts = [side for pair in pairs for side in pair.text] + ["  unknown —  Ωmega,  ", ""]
    own = train_tokeniser([text for text in texts[:200] if text], 150)
    assert SubwordSampler(own, texts, 0.0).sample(random.Random(0)) == own.encode_all(texts)


def test_whatever_is_left_out_the_text_stays_the_same(tokeniser):
    texts = [" ".join(random.Random(seed).choices(WORDS, k=5)) for seed in range(50)]
    for probability in (0.1, 0.5, 0.9):
        found = SubwordSampler(tokeniser, texts, probability).sample(random.Random(1))
        assert [tokeniser.decode(ids) for ids in found] == texts


def every_split(pieces: tuple[str, ...], ranks: dict[tuple[str, str], int], p: float) -> Counter:
    """Return the probability of each split: all choices of what is left out, weighed; the definition, slowly."""
    places = [i for i, pair in enumerate(itertools.pairwise(pieces)) if pair in ranks]
    found = Counter()
    for left_out in itertools.product([True, False], repeat=len(places)):
        weight = p ** sum(left_out) * (1 - p) ** (len(places) - sum(left_out))
        kept = [place for place, out in zip(places, left_out, strict=True) if not out]
        if not kept:
            found[pieces] += weight
            continue
        place = min(kept, key=lambda i: (ranks[pieces[i], pieces[i + 1]], i))
        joined = (*pieces[:place], pieces[place] + pieces[place + 1], *pieces[place + 2 :])
        for split, share in every_split(joined, ranks, p).items():
            found[split] += weight * share
    return found


@pytest.mark.parametrize("probability", [0.1, 0.4])
def test_each_split_is_as_likely_as_the_definition_says(tokeniser, probability):
    count = 20_000
    sampler = SubwordSampler(tokeniser, ["lowest"] * count, probability)
    found = Counter(tuple(tokeniser.tokens(ids)) for ids in sampler.sample(random.Random(0)))
    wanted = every_split(tuple("▁lowest"), sampler.ranks, probability)
    assert sum(wanted.values()) == pytest.approx(1) and len(wanted) > 3
    for split in wanted | found:
        spread = (wanted[split] * (1 - wanted[split]) / count) ** 0.5
        assert found[split] / count == pytest.approx(wanted[split], abs=5 * spread + 1e-9), split


def test_the_same_chance_gives_the_same_pieces_and_another_gives_others(tokeniser):
    sampler = SubwordSampler(tokeniser, WORDS * 5, 0.3)
    first = sampler.sample(random.Random(1))
    assert first == sampler.sample(random.Random(1)) != sampler.sample(random.Random(2))


def test_a_probability_of_one_is_refused(tokeniser):
    with pytest.raises(ValueError, match=r"in \[0, 1\), got 1.0"):
        SubwordSampler(tokeniser, WORDS, 1.0)


def test_a_run_reads_other_sources_each_epoch_the_same_targets_and_is_evaluated_on_the_usual_pieces(tmp_path):
    full = training_settings.toy_corpus()
    corpus = Corpus(full.train[:60], full.validation[:10], full.test[:10])
    sizes = {"vocabulary": 120, "d_model": 16, "heads": 2, "d_ff": 16, "layers": 1}
    plain = Run(Settings(**sizes), corpus, tmp_path / "plain")
    run = Run(Settings(**sizes, bpe_dropout=0.3), corpus, tmp_path / "run")

    def rows(run: Run, epoch: int, side: str) -> list[list[int]]:
        ids = [row for batch in run.epoch_batches(epoch) for row in getattr(batch, side).tolist()]
        return sorted([i for i in row if i] for row in ids)

    first, second = (rows(run, epoch, "source") for epoch in (0, 1))
    assert first != second and first != rows(plain, 0, "source") and first == rows(run, 0, "source")
    assert rows(run, 0, "target") == rows(plain, 0, "target")
    texts = sorted(source for source, _ in corpus.train)
    assert sorted(run.tokeniser.decode(ids) for ids in second) == texts
    assert run.validation == plain.validation
