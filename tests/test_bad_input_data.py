"""Bad input to data, tokeniser, toy tasks and Multi30k: the error says what was wanted and what came.

Run without the shape checker, as a user would meet it (see conftest.py).
"""

import pytest
import torch

from transformer_lib import data, multi30k, toy, toy_grammar
from transformer_lib.data import Batch

ids = torch.ones(2, 3, dtype=torch.int64)
one = torch.Generator()
words = data.WordTokeniser(["a", "b"])
subwords = data.train_tokeniser(["a b", "a b"], 20)
pair = ([5], [6])
sentences = toy_grammar.sample_sentences(3, torch.Generator().manual_seed(0))

CASES = {
    "source of floats": (lambda: Batch(ids.float(), ids), TypeError, "source must be .*int64, got torch.float32"),
    "target of int32": (lambda: Batch(ids, ids.int()), TypeError, "target must be .*int64, got torch.int32"),
    "a list for a tensor": (lambda: Batch([[1]], ids), TypeError, "source must be a tensor.*got list"),
    "one dimension": (lambda: Batch(ids[0], ids), ValueError, r"shape \(batch, position\), got \(3,\)"),
    "rows differ": (lambda: Batch(ids[:1], ids), ValueError, r"as many rows.*got \(1, 3\) and \(2, 3\)"),
    "target too short": (lambda: Batch(ids, ids[:, :1]), ValueError, r"at least 2 columns.*and \(2, 1\)"),
    "no pairs in a batch": (lambda: Batch.from_pairs([]), ValueError, "at least one sentence.*got 0"),
    "None in a batch": (lambda: Batch.from_pairs(None), TypeError, "pairs must be a list of pairs .*got None"),
    "a number in a batch": (lambda: Batch.from_pairs(3), TypeError, "pairs must be a list of pairs .*got 3"),
    "triples in a batch": (lambda: Batch.from_pairs([([5], [6], [7])]), TypeError, r"pairs of id lists.*got \(\[5\]"),
    "sentences in a batch": (lambda: Batch.from_pairs([5]), TypeError, "pairs of id lists.*got 5"),
    "numbers in a pair": (lambda: Batch.from_pairs([(5, 6)]), TypeError, r"pairs of id lists.*got \(5, 6\)"),
    "None to pad": (lambda: data.pad(None), TypeError, "sentences must be an iterable .*got None of type NoneType"),
    "text to pad": (lambda: data.pad("ab"), TypeError, "sentences must be an iterable .*got 'ab' of type str"),
    "ids to pad": (lambda: data.pad([5, 6]), TypeError, "sentences must hold lists, got 5 of type int"),
    "None to batch": (lambda: data.batches(None, 9), TypeError, "pairs must be a list of pairs .*got None"),
    "None to encode": (lambda: data.encode_pairs(None, words), TypeError, "pairs must be an iterable .*got None"),
    "single texts to encode": (lambda: data.encode_pairs(["ab", "abc"], words), TypeError, "pairs of .*got 'ab'"),
    "no tokeniser": (lambda: data.encode_pairs([], str.split), TypeError, "tokeniser must be a .*got method_desc"),
    "no path to save": (lambda: subwords.save(None), TypeError, "path must be a path, got None of type NoneType"),
    "no path to load": (lambda: data.Tokeniser.load(3), TypeError, "path must be a path, got 3 of type int"),
    "nothing to pad": (lambda: data.pad([]), ValueError, "at least one sentence.*got 0"),
    "only empty sentences": (lambda: data.pad([[], []]), ValueError, "with a token, got 2 sentences without"),
    "ids that are floats": (lambda: data.pad([[1.5]]), TypeError, "ids must be integers, got torch.float32"),
    "ids that are booleans": (lambda: data.pad([[True]]), TypeError, "ids must be integers, got torch.bool"),
    "ids that are text": (lambda: data.pad(["ab"]), TypeError, "ids must be integers, got 'a'"),
    "ids that are None": (lambda: data.pad([[None]]), TypeError, "ids must be integers, got None"),
    "negative ids": (lambda: data.pad([[5, -1]]), ValueError, r"above 0 \(padding\), got -1"),
    "padding in a sentence": (lambda: data.pad([[5, 0, 6]]), ValueError, r"above 0 \(padding\), got 0"),
    "no pairs": (lambda: data.batches([], 100), ValueError, "at least one sentence pair, got none"),
    "pairs of numbers for lists": (lambda: data.batches([(5, 6)], 9), TypeError, r"pairs of id lists.*got \(5, 6\)"),
    "triples": (lambda: data.batches([([5], [6], [7])], 9), TypeError, r"pairs of id lists.*got \(\[5\]"),
    "an empty source": (lambda: data.batches([pair, ([], [5])], 9), ValueError, "every source, got none in pair 1"),
    "a pair too long": (
        lambda: data.batches([pair, ([5] * 9, [6])], 8),
        ValueError,
        "longest pair: pair 1 needs 9, got 8",
    ),
    "a target too long with START": (lambda: data.batches([([5], [6] * 8)], 8), ValueError, "needs 9, got 8"),
    "no room in a batch": (lambda: data.batches([pair], 0), ValueError, "tokens_per_batch must be at least 1, got 0"),
    "room that is text": (lambda: data.batches([pair], "8"), TypeError, "tokens_per_batch must be an int.*got '8'"),
    "a seed for a generator": (
        lambda: data.batches([pair], 9, generator=7),
        TypeError,
        "generator must be a .*Generator.*got int",
    ),
    "a cut to nothing": (lambda: data.encode_pairs([], words, 0), ValueError, "max_length must be at least 1, got 0"),
    "a cut to a half": (lambda: data.encode_pairs([], words, 2.5), TypeError, "max_length must be an int.*got 2.5"),
    "numbers for texts": (lambda: data.encode_pairs([(1, 2)], words), TypeError, r"or texts .*got \(1, 2\)"),
    "a number to subwords": (lambda: subwords.encode(5), TypeError, "text must be a str, got int"),
    "None among texts": (lambda: subwords.encode_all(["a", None]), TypeError, "text must be a str, got NoneType"),
    "an id beyond": (lambda: subwords.decode([5, 99]), ValueError, r"ids must be from 0 to \d+, got ids from 5 to 99"),
    "an id below": (lambda: words.tokens([-1]), ValueError, "ids must be from 0 to 5, got ids from -1 to -1"),
    "no words": (lambda: data.WordTokeniser([]), ValueError, "at least one word, got none"),
    "a word of two": (lambda: data.WordTokeniser(["a b"]), ValueError, "without blanks.*got 'a b'"),
    "an empty word": (lambda: data.WordTokeniser([""]), ValueError, "without blanks.*got ''"),
    "a special word": (lambda: data.WordTokeniser(["<end>"]), ValueError, "not one of .*, got '<end>'"),
    "no lines": (lambda: data.train_tokeniser([]), ValueError, "wanted lines of text.*got none"),
    "blank lines": (lambda: data.train_tokeniser(["", " "]), ValueError, "wanted lines of text.*got none"),
    "lines of numbers": (lambda: data.train_tokeniser([1, 2]), TypeError, "text must be a str, got int"),
    "a tiny vocabulary": (
        lambda: data.train_tokeniser(["abcdefgh"], 5),
        ValueError,
        r"vocabulary_size must hold .* here 1\d, got 5",
    ),
    "no vocabulary": (lambda: data.train_tokeniser(["a"], 0), ValueError, "vocabulary_size must be at least 1, got 0"),
    "a float vocabulary": (
        lambda: data.train_tokeniser(["a"], 8e3),
        TypeError,
        "vocabulary_size must be an int.*8000.0",
    ),
    "a path that is not": (lambda: data.Tokeniser.load("/no/such/file"), FileNotFoundError, "/no/such/file"),
    "no sequences": (lambda: toy.copy_task(0, 5, 20, one), ValueError, "count must be at least 1, got 0"),
    "no length": (lambda: toy.reverse_task(5, 0, 20, one), ValueError, "length must be at least 1, got 0"),
    "no symbols": (lambda: toy.copy_task(5, 5, 4, one), ValueError, "so at least 6, got 4"),
    "shortest too long": (lambda: toy.copy_task(5, 5, 9, one, shortest=6), ValueError, "at most length = 5, got 6"),
    "a float count": (lambda: toy.copy_task(5.0, 5, 9, one), TypeError, "count must be an int.*got 5.0"),
    "a seed for the task": (lambda: toy.copy_task(5, 5, 9, 0), TypeError, "generator must be .*got int"),
    "no sentences": (lambda: toy_grammar.sample_sentences(0, one), ValueError, "count must be at least 1, got 0"),
    "too many sentences": (
        lambda: toy_grammar.sample_sentences(10**9, one),
        ValueError,
        "at most 200000, got 1000000000",
    ),
    "a seed for the grammar": (lambda: toy_grammar.sample_sentences(5, 0), TypeError, "generator must be .*got int"),
    "all held out": (lambda: toy_grammar.split_sentences(sentences, 3, one), ValueError, "distinct pairs, 3, got 3"),
    "none held out": (lambda: toy_grammar.split_sentences(sentences, 0, one), ValueError, "at least 1, got 0"),
    "a share held out": (lambda: toy_grammar.split_sentences(sentences, 0.1, one), TypeError, "an int.*got 0.1"),
    "an unknown split": (lambda: multi30k.load_multi30k("test"), ValueError, "one of .*'test_2016_flickr'.*got 'test'"),
    "a split by number": (lambda: multi30k.load_multi30k(1), ValueError, "split must be one of .*got 1"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_error_names_what_was_wanted_and_what_came(case):
    act, error, message = CASES[case]
    with pytest.raises(error, match=message):
        act()
