"""Bad input to decoding and to the translator: the error says what was wanted and what came.

Run without the shape checker, as a user would meet it (see conftest.py).
"""

import math

import pytest
import torch

from transformer_lib import data, decoding, translator
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.translator import Translator

MODEL = Transformer(TransformerConfig(vocabulary=9, d_model=8, heads=2, d_ff=8, layers=1, max_length=6)).eval()
TINY = Transformer(TransformerConfig(vocabulary=2, d_model=8, heads=2, d_ff=8, layers=1)).eval()
TRAINING = Transformer(MODEL.config)
TOKENISER = data.WordTokeniser(["a", "b", "c", "d", "e"])
TRANSLATOR = Translator(MODEL, TOKENISER)

ids = torch.full((2, 3), 5)
memory = torch.randn(2, 3, 8)

CASES = {
    "no length": (lambda: decoding.length_penalty(0, 0.6), ValueError, "length must be at least 1, got 0"),
    "a float length": (lambda: decoding.length_penalty(2.0, 0.6), TypeError, "length must be an int .*got 2.0"),
    "negative alpha": (lambda: decoding.length_penalty(2, -1), ValueError, "alpha must be at least 0 .*got -1"),
    "alpha NaN": (lambda: decoding.length_penalty(2, math.nan), ValueError, "alpha must be at least 0 .*got nan"),
    "endless alpha": (lambda: decoding.length_penalty(2, math.inf), ValueError, "finite, got inf"),
    "alpha as text": (
        lambda: decoding.length_penalty(2, "1"),
        TypeError,
        "alpha must be a number .*got '1' of type str",
    ),
    "alpha True": (lambda: decoding.length_penalty(2, True), TypeError, "alpha must be a number .*got True"),
    "alpha None": (lambda: decoding.length_penalty(2, None), TypeError, "alpha must be a number .*got None"),
    "huge alpha": (lambda: decoding.length_penalty(2, 10**400), ValueError, "alpha must be .*finite, got .*1329 bits"),
    "alpha beyond a float": (
        lambda: decoding.length_penalty(50, 1e4),
        ValueError,
        r"alpha must keep 9.167\^alpha below the largest float, got 10000.0",
    ),
    "a huge length": (lambda: decoding.length_penalty(10**400, 0.6), ValueError, "length must be at most .*1329 bits"),
    "no model for a token": (
        lambda: decoding.log_probabilities(None, ids, memory, ids),
        TypeError,
        "model must be a Transformer, got NoneType",
    ),
    "odd caches for a token": (
        lambda: decoding.log_probabilities(MODEL, ids, memory, ids, 3),
        TypeError,
        "caches must be a sequence of tuple, got 3 of type int",
    ),
    "no caches for a token": (
        lambda: decoding.log_probabilities(MODEL, ids, memory, ids, []),
        ValueError,
        "caches must hold one for each of 1 layers, got 0",
    ),
    "a tensor for a row": (lambda: decoding.words_of(ids[0]), TypeError, "row must be a list, got Tensor"),
    "no row": (lambda: decoding.words_of(None), TypeError, "row must be a list, got NoneType"),
    "the longest target of no model": (
        lambda: decoding.longest_target(None, ids, 3),
        TypeError,
        "model must be a Transformer, got NoneType",
    ),
    "the longest target of no source": (
        lambda: decoding.longest_target(MODEL, None, 3),
        TypeError,
        "source must be a tensor .*got NoneType",
    ),
    "no longest target": (lambda: decoding.longest_target(MODEL, ids, 0), ValueError, "max_length .*at least 1, got 0"),
    "a longest target as text": (lambda: decoding.longest_target(MODEL, ids, "3"), TypeError, "max_length .*got '3'"),
    "the longest target in training": (
        lambda: decoding.longest_target(TRAINING, ids, 3),
        ValueError,
        "evaluation mode .*got training mode",
    ),
    "no folder to load": (lambda: translator.load_translator(None), TypeError, "folder must be a path, got None"),
    "no folder to save": (lambda: translator.save_translator(3, TRANSLATOR), TypeError, "folder must be a path, got 3"),
    "tokens of floats": (
        lambda: decoding.log_probabilities(MODEL, ids.float(), memory, ids),
        TypeError,
        "target must hold integer token ids, got torch.float32",
    ),
    "memory of another source": (
        lambda: decoding.log_probabilities(MODEL, ids, memory, ids[:, :2]),
        ValueError,
        r"one vector for each source token, got shapes \[2, 3, 8\] and \[2, 2\]",
    ),
    "no beam": (lambda: decoding.beam_search(MODEL, ids, 0), ValueError, "beam must be at least 1, got 0"),
    "half a beam": (lambda: decoding.beam_search(MODEL, ids, 0.5), TypeError, "beam must be an int .*got 0.5"),
    "beam True": (lambda: decoding.beam_search(MODEL, ids, True), TypeError, "beam must be an int .*got True"),
    "alpha of a search": (lambda: decoding.beam_search(MODEL, ids, 2, -0.5), ValueError, "alpha .*got -0.5"),
    "alpha text of a search": (lambda: decoding.beam_search(MODEL, ids, 2, "no"), TypeError, "alpha .*got 'no'"),
    "no sentence to translate": (lambda: TRANSLATOR.translate(["a", ""]), ValueError, "an empty one at place 1"),
    "one string": (lambda: TRANSLATOR.translate("a b"), TypeError, "a list of strings, got str: put one sentence"),
    "bytes": (lambda: TRANSLATOR.translate(b"a b"), TypeError, "a list of strings, got bytes"),
    "nothing": (lambda: TRANSLATOR.translate(None), TypeError, "a list of strings, got NoneType"),
    "a number among strings": (lambda: TRANSLATOR.translate(["a", 5]), TypeError, "must be a str, got int"),
    "no beam to translate": (lambda: TRANSLATOR.translate(["a"], 0), ValueError, "beam must be at least 1, got 0"),
    "beam True to translate": (lambda: TRANSLATOR.translate(["a"], True), TypeError, "beam must be an int.*got True"),
    "alpha to translate": (lambda: TRANSLATOR.translate(["a"], 2, -1.0), ValueError, "alpha .*got -1.0"),
    "no room in a batch": (
        lambda: TRANSLATOR.translate(["a"], 1, 0.6, 0),
        ValueError,
        "sentences_per_batch must be at least 1, got 0",
    ),
    "half a batch": (
        lambda: TRANSLATOR.translate(["a"], 1, 0.6, 0.5),
        TypeError,
        "sentences_per_batch must be an int .*got 0.5",
    ),
    "a translator of another model": (
        lambda: Translator(TINY, TOKENISER),
        ValueError,
        "tokeniser must have the model's 2 tokens, got 9",
    ),
    "a translator without a model": (
        lambda: Translator("model", TOKENISER),
        TypeError,
        "must be a Transformer, got str",
    ),
    "a translator without a tokeniser": (
        lambda: Translator(MODEL, str.split),
        TypeError,
        "Tokeniser.*, got method_desc",
    ),
    "a model to save": (lambda: translator.save_translator("x", MODEL), TypeError, "be a Translator, got Transformer"),
    "a word tokeniser to save": (
        lambda: translator.save_translator("x", TRANSLATOR),
        TypeError,
        "tokeniser must be a Tokeniser, got WordTokeniser",
    ),
    "a folder that is not": (
        lambda: translator.load_translator("/no/such/folder"),
        FileNotFoundError,
        "the file /no/such/folder/description.json, and there is none; `make train",
    ),
    "a file for a folder": (lambda: translator.load_translator(__file__), FileNotFoundError, "and there is none"),
}

for name, decode in {"greedy": decoding.greedy, "beam": decoding.beam_search}.items():
    CASES |= {
        f"{name}: training": (lambda f=decode: f(TRAINING, ids), ValueError, "evaluation mode .*got training mode"),
        f"{name}: no model": (
            lambda f=decode: f(torch.nn.Linear(2, 2), ids),
            TypeError,
            "model must be a Transformer, got Linear",
        ),
        f"{name}: no END": (
            lambda f=decode: f(TINY, ids * 0),
            ValueError,
            "must hold END, whose id is 2, got 2 tokens",
        ),
        f"{name}: ids outside": (lambda f=decode: f(MODEL, ids + 4), ValueError, "source .*from 0 to 8, got 9 to 9"),
        f"{name}: floats": (lambda f=decode: f(MODEL, ids.float()), TypeError, "source .*integer .*got torch.float32"),
        f"{name}: a list": (lambda f=decode: f(MODEL, [[5]]), TypeError, "source must be a tensor .*got list"),
        f"{name}: no batch": (lambda f=decode: f(MODEL, ids[0]), ValueError, r"\[batch position\].*got \[3\]"),
        f"{name}: empty": (lambda f=decode: f(MODEL, ids[:0]), ValueError, r"not be empty, got \[0, 3\]"),
        f"{name}: too long": (lambda f=decode: f(MODEL, ids.repeat(1, 3)), ValueError, "6 positions.*got .*9"),
        f"{name}: no output": (lambda f=decode: f(MODEL, ids, max_length=0), ValueError, "max_length .*got 0"),
        f"{name}: half an output": (lambda f=decode: f(MODEL, ids, max_length=1.5), TypeError, "max_length .*got 1.5"),
    }


@pytest.mark.parametrize("name", CASES)
def test_the_error_says_what_was_wanted_and_what_came(name, tmp_path, monkeypatch):
    call, error, text = CASES[name]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=text):
        call()
    assert not list(tmp_path.iterdir())


def test_a_wrong_number_is_named_before_the_encoder_runs(monkeypatch):
    monkeypatch.setattr(Transformer, "encode", lambda *_: pytest.fail("it ran"))
    with pytest.raises(ValueError, match="alpha"):
        decoding.beam_search(MODEL, ids, 2, -1.0)
