"""Bad input to BERT's encoder and to generation, with the table and the checks of `test_bad_input`.

Run without the shape checker, as a user would meet it (see conftest.py).
"""

import importlib
from collections.abc import Callable
from dataclasses import replace

import pytest
import test_bad_input as table
import torch
from test_bad_input import CONFIG, Case, ids, translator, with_one_wrong, x

from transformer_lib import bert, generation, siblings

MODULES = ["bert", "generation"]
CASES: list[Case] = []


def bad(name: str, what: str, error: type[Exception], call: Callable[[], object], *words: str) -> None:
    """Add a case."""
    CASES.append(Case(name, what, error, call, words))


# fmt: off
# ruff: noqa: E501 - a table: one case a line

LEARNED = replace(CONFIG, positions="learned")
EMBEDDING, ENCODER, DECODER = bert.SegmentEmbedding(LEARNED), bert.TextEncoder(LEARNED).eval(), siblings.DecoderOnly(CONFIG).eval()
ONE = torch.Generator()


def greedily(model: object = DECODER, prompt: object = None, count: object = 2, **more: object) -> object:
    return generation.continue_greedily(model, ids(2, 3) if prompt is None else prompt, count, **more)


def by_chance(model: object = DECODER, prompt: object = None, count: object = 2, generator: object = ONE, **more: object) -> object:
    return generation.continue_by_chance(model, ids(2, 3) if prompt is None else prompt, count, generator, **more)


SIZES = {
    "bert.SegmentEmbedding": (lambda segments: bert.SegmentEmbedding(LEARNED, segments), {"segments": 2}),
    "bert.TextEncoder": (lambda segments: bert.TextEncoder(LEARNED, segments), {"segments": 2}),
    "bert.bert_config": (bert.bert_config, {"vocabulary": 9, "d_model": 8, "heads": 2, "d_ff": 8, "layers": 1, "max_length": 6}),
    "generation.continue_greedily": (lambda count: greedily(count=count), {"count": 2}),
    "generation.continue_by_chance": (lambda count: by_chance(count=count), {"count": 2}),
    "generation.in_batches": (lambda rows_per_batch: generation.in_batches([[5]], len, rows_per_batch), {"rows_per_batch": 2}),
}
for function, (call, sizes) in SIZES.items():
    for size in sizes:
        bad(function, f"{size}=10**400", ValueError, with_one_wrong(call, sizes, size, 10**400), size, "at most", "1329 bits")
        for error, value in ((ValueError, 0), (ValueError, -3), (TypeError, True), (TypeError, 2.0), (TypeError, "2"), (TypeError, None)):
            bad(function, f"{size}={value!r}", error, with_one_wrong(call, sizes, size, value), size, "at least 1", f"got {value!r}")
bad("bert.bert_config", "heads don't divide", ValueError, lambda: bert.bert_config(9, 8, 3, 8, 1), "divide", "d_model = 8", "heads = 3")
for kind in (bert.SegmentEmbedding, bert.TextEncoder):
    name = f"bert.{kind.__name__}"
    bad(name, "a dictionary", TypeError, lambda k=kind: k({"vocabulary": 9}), "TransformerConfig", "dict")
    bad(name, "sinusoids", ValueError, lambda k=kind: k(CONFIG), "positions", "'learned'", "'sinusoidal'")
for name, call in (("SegmentEmbedding.forward", EMBEDDING), ("TextEncoder.forward", ENCODER), ("TextEncoder.sentence_vectors", ENCODER.sentence_vectors)):
    name = f"bert.{name}"
    bad(name, "tokens of floats", TypeError, lambda f=call: f(x(2, 3)), "tokens", "integer", "float32")
    bad(name, "tokens as a list", TypeError, lambda f=call: f([[1, 2]]), "tokens", "tensor", "list")
    bad(name, "tokens without a batch", ValueError, lambda f=call: f(ids(3)), "tokens", "[batch position]", "[3]")
    bad(name, "no text", ValueError, lambda f=call: f(ids(0, 3)), "tokens", "not be empty", "[0, 3]")
    bad(name, "tokens beyond the vocabulary", ValueError, lambda f=call: f(9 * ids(2, 3)), "tokens", "0 to 8", "9")
    bad(name, "too long", ValueError, lambda f=call: f(ids(2, 7)), "6 positions", "7")
    if not name.endswith("sentence_vectors"):
        bad(name, "segments of another length", ValueError, lambda f=call: f(ids(2, 3), ids(2, 4)), "segments", "[2, 4] for [2, 3]")
        bad(name, "a segment too high", ValueError, lambda f=call: f(ids(2, 3), 2 * ids(2, 3)), "segments", "0 to 1", "2")
        bad(name, "segments of floats", TypeError, lambda f=call: f(ids(2, 3), x(2, 3)), "segments", "integer", "float32")
bad("bert.bert_weights", "a list", TypeError, lambda: bert.bert_weights([x(2)]), "published", "Mapping", "list")
bad("bert.bert_weights", "numbers", TypeError, lambda: bert.bert_weights({"embeddings.LayerNorm.bias": 1.0}), "embeddings.LayerNorm.bias", "Tensor", "float")
bad("bert.bert_weights", "another model's", ValueError, lambda: bert.bert_weights({"transformer.h.0.ln_1.weight": x(2)}), "weights of a BERT", "transformer.h.0.ln")
bad("bert.bert_weights", "nothing", ValueError, lambda: bert.bert_weights({}), "published must hold weights", "none")

for name, call in (("continue_greedily", greedily), ("continue_by_chance", by_chance)):
    name = f"generation.{name}"
    bad(name, "no model", TypeError, lambda f=call: f(None), "model", "DecoderOnly", "NoneType")
    bad(name, "a translator", TypeError, lambda f=call: f(translator()), "model", "DecoderOnly", "Transformer")
    bad(name, "a model in training", ValueError, lambda f=call: f(siblings.DecoderOnly(CONFIG)), "evaluation mode", "training mode")
    bad(name, "a prompt of floats", TypeError, lambda f=call: f(prompt=x(2, 3)), "prompt", "integer", "float32")
    bad(name, "a prompt as a list", TypeError, lambda f=call: f(prompt=[[1, 2]]), "prompt", "tensor", "list")
    bad(name, "an empty prompt", ValueError, lambda f=call: f(prompt=ids(2, 0)), "prompt", "not be empty", "[2, 0]")
    bad(name, "padding in the prompt", ValueError, lambda f=call: f(prompt=0 * ids(2, 3)), "prompt", "no padding (0)", "6")
    bad(name, "a prompt beyond the vocabulary", ValueError, lambda f=call: f(prompt=9 * ids(2, 3)), "prompt", "0 to 8", "9")
    bad(name, "more than the positions", ValueError, lambda f=call: f(count=5), "6 positions", "7")
    bad(name, "a long prefix", ValueError, lambda f=call: f(prefix=4), "prefix", "length = 3", "4")
    for error, value in ((ValueError, 9), (ValueError, -1), (TypeError, "end"), (TypeError, 2.0)):
        bad(name, f"end={value!r}", error, lambda f=call, v=value: f(end=v), "end", f"got {value!r}")
for value, kind in ((0, "int"), (None, "NoneType")):
    bad("generation.continue_by_chance", f"generator is a {kind}", TypeError, lambda v=value: by_chance(generator=v), "generator", "Generator", kind)
bad("generation.continue_by_chance", "p=2", ValueError, lambda: by_chance(p=2), "p must be above 0 and at most 1", "got 2")
bad("generation.continue_by_chance", "temperature=-1", ValueError, lambda: by_chance(temperature=-1), "temperature", "at least 0", "got -1")
bad("generation.continue_by_chance", "k=0", ValueError, lambda: by_chance(k=0), "k must be at least 1", "got 0")
bad("generation.in_batches", "no rows at all", TypeError, lambda: generation.in_batches(None, len), "rows", "NoneType")
bad("generation.in_batches", "rows of numbers", TypeError, lambda: generation.in_batches([5, 6], len), "rows must hold lists", "int")
bad("generation.in_batches", "nothing in a row", ValueError, lambda: generation.in_batches([[]], len), "at least one sentence with a token", "1")
bad("generation.in_batches", "words in a row", TypeError, lambda: generation.in_batches([["a"]], len), "ids must be integers", "'a'")
bad("generation.in_batches", "no function", TypeError, lambda: generation.in_batches([[5]], 3), "decode", "int")
bad("generation.in_batches", "a result too few", ValueError, lambda: generation.in_batches([[5], [6]], lambda batch: [1]), "decode", "2", "1")

# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.what}")
def test_the_error_says_what_was_wanted_and_what_came(case):
    table.check(case)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_its_cases_of_bad_input(name):
    module = importlib.import_module(f"transformer_lib.{name}")
    public, tested = table.public_names(module), {case.name for case in CASES}
    assert public and public - tested == set()
    assert {case for case in tested if case.startswith(f"{name}.")} <= public
