"""Batches: every pair once, similar lengths together, START and END in their places."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

from transformer_lib import data
from transformer_lib.data import END, PADDING, START, Batch

sentences = st.lists(st.integers(4, 50), min_size=1, max_size=12)
corpora = st.lists(st.tuples(sentences, st.lists(st.integers(4, 50), max_size=12)), min_size=1, max_size=40)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pairs_in(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Take the batch apart again, by loops."""
    pairs = []
    for source, target in zip(batch.source.tolist(), batch.target.tolist(), strict=True):
        end = target.index(END)
        assert target[0] == START
        assert set(target[end + 1 :]) <= {PADDING}
        pairs.append((tuple(i for i in source if i != PADDING), tuple(target[1:end])))
    return pairs


def frozen(pairs) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return sorted((tuple(source), tuple(target)) for source, target in pairs)


@given(rows=st.lists(sentences, min_size=1, max_size=10))
def test_pad_agrees_with_pytorch(rows):
    theirs = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PADDING)
    torch.testing.assert_close(data.pad(rows), theirs)


def test_pad_keeps_an_empty_sentence_as_a_row_of_padding():
    assert data.pad([[], [5, 6]]).tolist() == [[PADDING, PADDING], [5, 6]]


def test_the_decoder_reads_one_position_behind_what_it_must_say():
    batch = Batch.from_pairs([([5, 6, 7], [8, 9]), ([5], [])])
    assert batch.source.tolist() == [[5, 6, 7], [5, PADDING, PADDING]]
    assert batch.target_input.tolist() == [[START, 8, 9], [START, END, PADDING]]
    assert batch.labels.tolist() == [[8, 9, END], [END, PADDING, PADDING]]
    assert batch.target_tokens == 4


@given(corpus=corpora, limit=st.integers(13, 60), seed=st.none() | st.integers(0, 5))
@settings(max_examples=60)
def test_an_epoch_holds_every_pair_once_within_the_limit(corpus, limit, seed):
    epoch = data.batches(corpus, limit, generator=None if seed is None else generator(seed))
    assert frozen(pair for batch in epoch for pair in pairs_in(batch)) == frozen(corpus)
    assert sum(batch.target_tokens for batch in epoch) == sum(len(target) + 1 for _, target in corpus)
    for batch in epoch:
        assert max(batch.source.numel(), batch.target_input.numel()) <= limit
        assert (batch.source != PADDING).any(dim=0).all()
        assert (batch.labels != PADDING).any(dim=0).all()


def corpus_of(count: int) -> list[tuple[list[int], list[int]]]:
    sizes = torch.randint(1, 30, (count, 2), generator=generator()).tolist()
    return [([4 + i % 90] * source, [4 + i % 70] * target) for i, (source, target) in enumerate(sizes)]


def same(first: list[Batch], second: list[Batch]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a.source, b.source) and torch.equal(a.target, b.target) for a, b in zip(first, second, strict=True)
    )


def test_chance_comes_from_the_generator_alone():
    corpus, one = corpus_of(200), generator(1)
    before = torch.get_rng_state()
    first, second = data.batches(corpus, 200, generator=one), data.batches(corpus, 200, generator=one)
    assert torch.equal(torch.get_rng_state(), before)
    assert same(first, data.batches(corpus, 200, generator=generator(1)))
    assert not same(first, second)  # the next epoch is another one
    assert not same(first, data.batches(corpus, 200, generator=generator(2)))


def test_shuffled_batches_mix_lengths_over_the_epoch_and_other_pairs_meet_in_the_next():
    corpus, one = corpus_of(3000), generator(3)
    first, second = data.batches(corpus, 300, generator=one), data.batches(corpus, 300, generator=one)
    widths = torch.tensor([float(batch.target.size(1)) for batch in first])
    place = torch.arange(len(widths), dtype=torch.float32)
    assert abs(torch.corrcoef(torch.stack([widths, place]))[0, 1]) < 0.3  # sorted batches have 1
    met = {frozenset(pairs_in(batch)) for batch in first}
    assert sum(frozenset(pairs_in(batch)) in met for batch in second) < len(second) / 2


def test_without_a_generator_batches_go_from_short_to_long():
    widths = [batch.target.size(1) for batch in data.batches(corpus_of(300), 200)]
    assert widths == sorted(widths)


def test_sorting_saves_most_of_the_padding():
    corpus = corpus_of(2000)

    def share_of_padding(epoch: list[Batch]) -> float:
        labels = sum(batch.labels.numel() for batch in epoch)
        return 1 - sum(batch.target_tokens for batch in epoch) / labels

    in_order = [Batch.from_pairs(corpus[i : i + 20]) for i in range(0, len(corpus), 20)]
    assert share_of_padding(in_order) > 0.4
    assert share_of_padding(data.batches(corpus, 300, generator=generator())) < 0.03


def test_to_moves_both_parts_and_keeps_the_first():
    batch = Batch.from_pairs([([5], [6])])
    moved = batch.to("meta")
    assert (moved.source.device.type, moved.target.device.type, batch.source.device.type) == ("meta", "meta", "cpu")


@pytest.mark.cuda
def test_to_reaches_the_gpu_and_back():
    batch = Batch.from_pairs(corpus_of(5))
    there = batch.to("cuda")
    assert there.target.device.type == "cuda"
    assert same([there.to("cpu")], [batch])


def test_encode_pairs_cuts_and_drops_nothing():
    tokeniser = data.WordTokeniser("abcdefg")
    pairs = [("a b c", "d"), ("a", "e f g a b"), ("", "")]
    assert data.encode_pairs(pairs, tokeniser, max_length=2) == [([4, 5], [7]), ([4], [8, 9]), ([], [])]
    assert data.encode_pairs(pairs, tokeniser) == [([4, 5, 6], [7]), ([4], [8, 9, 10, 4, 5]), ([], [])]
