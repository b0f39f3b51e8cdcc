"""Bad input to relative positions, baselines and the siblings, with the table and the checks of `test_bad_input`.

Run without the shape checker, as a user would meet it (see conftest.py).
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import test_bad_input as table
import torch
from test_bad_input import CONFIG, Case, ids, x

from transformer_lib import baselines, relative, siblings

CASES: list[Case] = []


def bad(name: str, what: str, error: type[Exception], call: Callable[[], object], *words: str) -> None:
    """Add a case."""
    CASES.append(Case(name, what, error, call, words))


# fmt: off
# ruff: noqa: E501 - a table: one case a line

ROTARY, LINEAR, BUCKETS, SHAW = relative.RotaryPositions(4), relative.LinearBias(2), relative.BucketBias(2), relative.ShawPositions(4)
OFFSETS = relative.key_offsets(x(1, 1, 3, 4), 3, 0)
ENCODER, DECODER = siblings.EncoderOnly(CONFIG), siblings.DecoderOnly(CONFIG)

SIZES: dict[str, tuple[Callable, dict[str, int]]] = {
    "relative.key_offsets": (lambda keys: relative.key_offsets(x(1, 2, 3, 4), keys, 0), {"keys": 3}),
    "relative.RotaryPositions": (relative.RotaryPositions, {"d_k": 4}),
    "relative.linear_slopes": (relative.linear_slopes, {"heads": 4}),
    "relative.LinearBias": (relative.LinearBias, {"heads": 4}),
    "relative.LinearBias.bias": (lambda keys: LINEAR.bias(x(1, 2, 3, 4), keys, 0), {"keys": 3}),
    "relative.distance_buckets": (lambda **sizes: relative.distance_buckets(OFFSETS, **sizes, bidirectional=True), {"buckets": 8, "max_distance": 20}),
    "relative.BucketBias": (relative.BucketBias, {"heads": 4, "buckets": 8, "max_distance": 20}),
    "relative.BucketBias.bias": (lambda keys: BUCKETS.bias(x(1, 2, 3, 4), keys, 0), {"keys": 3}),
    "relative.ShawPositions": (relative.ShawPositions, {"d_k": 4, "max_distance": 3}),
    "relative.ShawPositions.bias": (lambda keys: SHAW.bias(x(1, 2, 3, 4), keys, 0), {"keys": 3}),
    "baselines.ElmanRNN": (baselines.ElmanRNN, {"d_model": 4}),
    "baselines.LSTM": (baselines.LSTM, {"d_model": 4}),
    "baselines.CausalConvolution": (baselines.CausalConvolution, {"d_model": 4, "width": 3, "dilation": 2}),
    "baselines.CausalCNN": (lambda dilation=1, **sizes: baselines.CausalCNN(**sizes, dilations=[1, dilation]), {"d_model": 4, "width": 3, "dilation": 2}),
    "baselines.receptive_field": (lambda width, dilation: baselines.receptive_field(width, [1, dilation]), {"width": 3, "dilation": 2}),
}
NOT_NEGATIVE: dict[str, tuple[Callable, dict[str, int]]] = {
    "relative.key_offsets": (lambda first: relative.key_offsets(x(1, 2, 3, 4), 3, first), {"first": 0}),
    "relative.RotaryPositions.rotate": (lambda first: ROTARY.rotate(x(1, 2, 3, 4), first), {"first": 0}),
    "relative.LinearBias.bias": (lambda first: LINEAR.bias(x(1, 2, 3, 4), 3, first), {"first": 0}),
    "relative.BucketBias.bias": (lambda first: BUCKETS.bias(x(1, 2, 3, 4), 3, first), {"first": 0}),
    "relative.ShawPositions.bias": (lambda first: SHAW.bias(x(1, 2, 3, 4), 3, first), {"first": 0}),
    "siblings.text_mask": (lambda prefix, past, padding: siblings.text_mask(ids(1, 2), prefix, past, padding), {"prefix": 0, "past": 0, "padding": 0}),
    "siblings.DecoderOnly.forward": (lambda prefix: DECODER(ids(1, 2), prefix), {"prefix": 0}),
    "siblings.DecoderOnly.decode": (lambda prefix: DECODER.decode(ids(1, 2), prefix), {"prefix": 0}),
}
for least, sizes_of in ((1, SIZES), (0, NOT_NEGATIVE)):
    for function, (call, sizes) in sizes_of.items():
        for size in sizes:
            wrong = [(ValueError, least - 1), (ValueError, -3), (TypeError, True), (TypeError, 2.0), (TypeError, "2"), (TypeError, None)]
            bad(function, f"{size}=10**400", ValueError, table.with_one_wrong(call, sizes, size, 10**400), size, "at most", "1329 bits")
            for error, value in wrong:
                bad(function, f"{size}={value!r}", error, table.with_one_wrong(call, sizes, size, value), size, f"at least {least}", f"got {value!r}")

# relative positions

bad("relative.RotaryPositions", "odd width", ValueError, lambda: relative.RotaryPositions(7), "d_k", "even", "7")
for value, error in ((0, ValueError), (-1.0, ValueError), (math.nan, ValueError), (math.inf, ValueError), ("1", TypeError), (True, TypeError)):
    bad("relative.RotaryPositions", f"base={value!r}", error, lambda v=value: relative.RotaryPositions(4, v), "base", "above 0", f"got {value!r}")
bad("relative.RotaryPositions.rotate", "other width", ValueError, lambda: ROTARY.rotate(x(1, 2, 3, 6), 0), "x", "dimension of 4", "[1, 2, 3, 6]")
for name, query in (("key_offsets", lambda q: relative.key_offsets(q, 3, 0)), ("RotaryPositions.rotate", lambda q: ROTARY.rotate(q, 0)), ("LinearBias.bias", lambda q: LINEAR.bias(q, 3, 0)), ("BucketBias.bias", lambda q: BUCKETS.bias(q, 3, 0)), ("ShawPositions.bias", lambda q: SHAW.bias(q, 3, 0))):
    name = f"relative.{name}"
    bad(name, "no heads", ValueError, lambda f=query: f(x(2, 3, 4)), "[batch heads position d_k]", "[2, 3, 4]")
    bad(name, "integers", TypeError, lambda f=query: f(ids(1, 2, 3, 4)), "floating point", "int64")
    bad(name, "a list", TypeError, lambda f=query: f([[[[1.0]]]]), "tensor", "list")
for name, scheme in (("LinearBias", LINEAR), ("BucketBias", BUCKETS)):
    for heads in (1, 4):
        bad(f"relative.{name}.bias", f"{heads} heads for 2", ValueError, lambda s=scheme, h=heads: s.bias(x(1, h, 3, 4), 3, 0), "query", "2 heads", f"[1, {heads}, 3, 4]")
bad("relative.ShawPositions.bias", "other width", ValueError, lambda: SHAW.bias(x(1, 2, 3, 6), 3, 0), "query", "dimension of 4", "[1, 2, 3, 6]")
bad("relative.ShawPositions.bias", "other dtype", TypeError, lambda: SHAW.bias(x(1, 2, 3, 4).double(), 3, 0), "query", "float32", "float64")
bad("relative.distance_buckets", "offsets of floats", TypeError, lambda: relative.distance_buckets(x(3, 3), 8, 20, True), "offsets", "integers", "float32")
bad("relative.distance_buckets", "offsets as a list", TypeError, lambda: relative.distance_buckets([[0]], 8, 20, True), "offsets", "integers", "list")
for name, make in (("distance_buckets", lambda *sizes: relative.distance_buckets(OFFSETS, *sizes)), ("BucketBias", lambda *sizes: relative.BucketBias(2, *sizes))):
    name = f"relative.{name}"
    bad(name, "an odd number for two directions", ValueError, lambda f=make: f(7, 20, True), "buckets", "even and at least 4", "7")
    bad(name, "too few for two directions", ValueError, lambda f=make: f(2, 20, True), "buckets", "even and at least 4", "2")
    bad(name, "too few for one direction", ValueError, lambda f=make: f(1, 20, False), "buckets", "at least 2", "1")
    bad(name, "more buckets than distances", ValueError, lambda f=make: f(32, 8, True), "max_distance", "above 8", "8")
    bad(name, "more buckets than distances, one direction", ValueError, lambda f=make: f(32, 16, False), "max_distance", "above 16", "16")
    bad(name, "direction is a number", TypeError, lambda f=make: f(8, 20, 1), "bidirectional", "bool", "int")

# baselines

for name, network in (("ElmanRNN", baselines.ElmanRNN(8)), ("LSTM", baselines.LSTM(8)), ("CausalConvolution", baselines.CausalConvolution(8, 3)), ("CausalCNN", baselines.CausalCNN(8, 3, [1, 2]))):
    name = f"baselines.{name}.forward"
    bad(name, "narrow", ValueError, lambda f=network: f(x(2, 3, 7)), "x", "dimension of 8", "[2, 3, 7]")
    bad(name, "no batch", ValueError, lambda f=network: f(x(3, 8)), "[batch position d_model]", "[3, 8]")
    bad(name, "a dimension too many", ValueError, lambda f=network: f(x(1, 2, 3, 8)), "[batch position d_model]", "[1, 2, 3, 8]")
    bad(name, "no position", ValueError, lambda f=network: f(x(2, 0, 8)), "position", "[2, 0, 8]")
    bad(name, "tokens instead of vectors", TypeError, lambda f=network: f(ids(2, 3, 8)), "floating point", "int64")
    bad(name, "other dtype than the weights", TypeError, lambda f=network: f(x(2, 3, 8).double()), "float32", "float64")
    bad(name, "a list", TypeError, lambda f=network: f([1.0]), "tensor", "list")
for name, call in (("CausalCNN", lambda d: baselines.CausalCNN(4, 3, d)), ("receptive_field", lambda d: baselines.receptive_field(3, d))):
    bad(f"baselines.{name}", "no layer", ValueError, lambda f=call: f([]), "dilations", "each layer", "none")
    bad(f"baselines.{name}", "one number", TypeError, lambda f=call: f(2), "dilations", "Sequence", "int")
    bad(f"baselines.{name}", "a string", TypeError, lambda f=call: f("12"), "dilation", "int", "'1'")

# siblings

for kind in (siblings.EncoderOnly, siblings.DecoderOnly):
    bad(f"siblings.{kind.__name__}", "a dictionary", TypeError, lambda k=kind: k({"vocabulary": 9}), "TransformerConfig", "dict")
    bad(f"siblings.{kind.__name__}", "a number", TypeError, lambda k=kind: k(512), "TransformerConfig", "int")
for name, call in (("EncoderOnly.forward", ENCODER), ("EncoderOnly.encode", ENCODER.encode), ("DecoderOnly.forward", DECODER), ("DecoderOnly.decode", DECODER.decode), ("text_mask", siblings.text_mask)):
    name = f"siblings.{name}"
    bad(name, "tokens of floats", TypeError, lambda f=call: f(x(2, 3)), "tokens", "integer", "float32")
    bad(name, "tokens as a list", TypeError, lambda f=call: f([[1, 2]]), "tokens", "tensor", "list")
    bad(name, "tokens without a batch", ValueError, lambda f=call: f(ids(3)), "tokens", "[batch position]", "[3]")
    bad(name, "empty batch", ValueError, lambda f=call: f(ids(0, 3)), "tokens", "not be empty", "[0, 3]")
    if call is not siblings.text_mask:
        bad(name, "tokens beyond the vocabulary", ValueError, lambda f=call: f(9 * ids(2, 3)), "tokens", "0 to 8", "9")
        bad(name, "negative tokens", ValueError, lambda f=call: f(-ids(2, 3)), "tokens", "0 to 8", "-1")
        bad(name, "too long", ValueError, lambda f=call: f(ids(2, 7)), "6 positions", "7")
for name, call in (("DecoderOnly.forward", lambda prefix: DECODER(ids(2, 3), prefix)), ("DecoderOnly.decode", lambda prefix: DECODER.decode(ids(2, 3), prefix)), ("text_mask", lambda prefix: siblings.text_mask(ids(2, 3), prefix))):
    bad(f"siblings.{name}", "prefix longer than the text", ValueError, lambda f=call: f(4), "prefix", "length = 3", "4")
bad("siblings.text_mask", "prefix beyond the past", ValueError, lambda: siblings.text_mask(ids(2, 3), 4, 2), "prefix", "past = 2", "4")


def after_a_call(**more: object) -> Callable[[], object]:
    """Return a call that goes on where a first one with 2 tokens has ended."""
    def call() -> object:
        caches = DECODER.new_caches()
        DECODER.decode(ids(2, 2), caches=caches)
        return DECODER.decode(**({"tokens": ids(2, 1), "caches": caches} | more))
    return call


bad("siblings.DecoderOnly.decode", "prefix in two calls", ValueError, after_a_call(prefix=3), "prefix", "past = 2", "3")
bad("siblings.DecoderOnly.decode", "cached beyond the positions", ValueError, after_a_call(tokens=ids(2, 5)), "6 positions", "7")
bad("siblings.DecoderOnly.decode", "another batch", ValueError, after_a_call(tokens=ids(3, 1)), "2 rows", "[3, 1]")
bad("siblings.DecoderOnly.decode", "no caches", ValueError, lambda: DECODER.decode(ids(2, 3), caches=[]), "caches", "1 layers", "0")
bad("siblings.DecoderOnly.decode", "caches of a deeper model", ValueError, lambda: DECODER.decode(ids(2, 3), caches=siblings.DecoderOnly(replace(CONFIG, layers=2)).new_caches()), "caches", "1 layers", "2")
bad("siblings.DecoderOnly.decode", "one cache", TypeError, lambda: DECODER.decode(ids(2, 3), caches=DECODER.new_caches()[0]), "caches", "sequence", "TextCache")
for value in (3, "c", {}, [1], [None]):
    bad("siblings.DecoderOnly.decode", f"caches={value!r}", TypeError, lambda v=value: DECODER.decode(ids(2, 3), caches=v), "caches", "TextCache", "got", type(value).__name__ if not isinstance(value, list) else type(value[0]).__name__)


def filled_up(second: list[list[int]], third: list[list[int]]) -> object:
    """Decode in three calls, the first of which holds no padding."""
    caches = DECODER.new_caches()
    for tokens in ([[5, 6], [5, 6]], second, third):
        DECODER.decode(torch.tensor(tokens), caches=caches)


bad("siblings.DecoderOnly.decode", "a word after padding in a later call", ValueError, lambda: filled_up([[5, 6], [0, 7]], [[1], [1]]), "from padding (0) on", "nothing else", "row 1")
bad("siblings.DecoderOnly.decode", "a word after padding of an earlier call", ValueError, lambda: filled_up([[0], [7]], [[7], [7]]), "from padding (0) on", "nothing else", "row 0")
bad("siblings.DecoderOnly.decode", "a text that goes on after its padding", ValueError, lambda: filled_up([[7, 0], [7, 7]], [[7], [7]]), "from padding (0) on", "row 0")
bad("siblings.TextCache.take", "padding first", ValueError, lambda: siblings.TextCache().take(torch.tensor([[5, 0]]), 0), "no padding (0)", "1")
bad("siblings.TextCache.take", "a list", TypeError, lambda: siblings.TextCache().take([[5]], 0), "tokens", "tensor", "list")
bad("siblings.TextCache.take", "no padding's id", TypeError, lambda: siblings.TextCache().take(ids(1, 2), None), "padding", "int", "None")
bad("siblings.TextCache.select", "a list", TypeError, lambda: siblings.TextCache().select([0]), "tensor of row numbers", "list")
bad("siblings.DecoderOnly.decode", "padding in what is cached first", ValueError, lambda: DECODER.decode(torch.tensor([[5, 6], [5, 0]]), caches=DECODER.new_caches()), "no padding (0)", "1")

# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.what}")
def test_the_error_says_what_was_wanted_and_what_came(case):
    table.check(case)


@pytest.mark.parametrize("name", sorted(table.ELSEWHERE))
def test_every_public_name_has_its_cases_of_bad_input(name):
    module = importlib.import_module(f"transformer_lib.{name}")
    public, tested = table.public_names(module), {case.name for case in CASES}
    assert public and public - tested - {"siblings.TextCache"} == set()  # which takes nothing
    assert {case for case in tested if case.startswith(f"{name}.")} <= public


def test_this_file_sees_the_library_without_the_shape_checker():
    assert not hasattr(relative.key_offsets, "__wrapped__") and not hasattr(siblings.text_mask, "__wrapped__")
