"""Bad input of each kind, for every public name: an error that says what was wanted and what came.

`conftest.py` gives files of this name a copy of the library without the shape checker, so that the error is the one
that a user sees.
"""

import importlib
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from tools import floors
from transformer_lib import (
    attention,
    checkpoints,
    encoder_decoder,
    fast,
    fast_loss,
    layers,
    masks,
    model,
    multi_head,
    positional,
    relative,
    training,
)
from transformer_lib.data import Batch

ELSEWHERE = {"relative", "baselines", "siblings"}  # test_bad_input_floors
MODULES = [name for name in floors.CHAPTER if importlib.util.find_spec(f"transformer_lib.{name}")]
MODULES = [*(name for name in MODULES if name not in {*ELSEWHERE, "bert"}), "training"]  # bert: test_bad_input_text
MODULES += ["checkpoints", "fast", "fast_loss"]


@dataclass(frozen=True)
class Case:
    """A call that must fail: with this error, whose text holds these words."""

    name: str
    what: str
    error: type[Exception]
    call: Callable[[], object]
    words: tuple[str, ...]


CASES: list[Case] = []


def bad(name: str, what: str, error: type[Exception], call: Callable[[], object], *words: str) -> None:
    """Add a case."""
    CASES.append(Case(name, what, error, call, words))


def x(*shape: int) -> Tensor:
    """Return vectors."""
    return torch.randn(*shape)


def ids(*shape: int) -> Tensor:
    """Return token ids that are in the vocabulary."""
    return torch.ones(*shape, dtype=torch.int64)


def yes(*shape: int) -> Tensor:
    """Return a mask that allows everything."""
    return torch.ones(*shape, dtype=torch.bool)


# fmt: off
# ruff: noqa: E501 - a table: one case a line

# sizes: every constructor and function that takes one, with each kind of wrong number

CONFIG = model.TransformerConfig(vocabulary=9, d_model=8, heads=2, d_ff=12, layers=1, dropout=0.0, max_length=6)


def encoder_layer(d_model=8, heads=2, d_ff=12, **more):
    return encoder_decoder.EncoderLayer(d_model, heads, d_ff, **more)


def decoder_layer(d_model=8, heads=2, d_ff=12, **more):
    return encoder_decoder.DecoderLayer(d_model, heads, d_ff, **more)


SIZES: dict[str, tuple[Callable, dict[str, int]]] = {
    "attention.AdditiveAttention": (attention.AdditiveAttention, {"d_query": 3, "d_key": 4, "d_hidden": 5}),
    "masks.causal_mask": (masks.causal_mask, {"length": 3}),
    "masks.prefix_mask": (lambda length: masks.prefix_mask(length, 0), {"length": 3}),
    "masks.sliding_window_mask": (masks.sliding_window_mask, {"length": 3, "window": 2}),
    "positional.sinusoidal_positions": (positional.sinusoidal_positions, {"length": 3, "d_model": 4}),
    "positional.LearnedPositions": (positional.LearnedPositions, {"max_length": 3, "d_model": 4}),
    "positional.LearnedPositions.forward": (positional.LearnedPositions(3, 4), {"length": 1}),
    "multi_head.split_heads": (lambda heads: multi_head.split_heads(x(2, 3, 4), heads), {"heads": 2}),
    "multi_head.MultiHeadAttention": (multi_head.MultiHeadAttention, {"d_model": 8, "heads": 2}),
    "layers.FeedForward": (layers.FeedForward, {"d_model": 8, "d_ff": 12}),
    "layers.Residual": (layers.Residual, {"d_model": 8}),
    "encoder_decoder.EncoderLayer": (encoder_layer, {"d_model": 8, "heads": 2, "d_ff": 12}),
    "encoder_decoder.DecoderLayer": (decoder_layer, {"d_model": 8, "heads": 2, "d_ff": 12}),
    "config.TransformerConfig": (lambda **sizes: replace(CONFIG, **sizes), {"vocabulary": 9, "d_model": 8, "heads": 2, "d_ff": 12, "layers": 1, "max_length": 6}),
    "training.noam_rate": (training.noam_rate, {"step": 1, "d_model": 8, "warmup": 5}),
    "training.linear_tail": (training.linear_tail, {"step": 1, "steps": 5, "tail": 2}),
    "fast_loss.linear_loss": (lambda chunk: fast_loss.linear_loss(x(2, 3), x(9, 3), ids(2), chunk=chunk), {"chunk": 4}),
}
NOT_NEGATIVE: dict[str, tuple[Callable, dict[str, int]]] = {
    "masks.causal_mask": (lambda past: masks.causal_mask(2, past), {"past": 0}),
    "masks.prefix_mask": (lambda prefix: masks.prefix_mask(2, prefix), {"prefix": 0}),
    "masks.sliding_window_mask": (lambda past: masks.sliding_window_mask(2, 1, past), {"past": 0}),
    "positional.LearnedPositions.forward": (lambda first: positional.LearnedPositions(3, 4)(1, first), {"first": 0}),
    "config.TransformerConfig": (lambda padding: replace(CONFIG, padding=padding), {"padding": 0}),
    "model.Embedding.forward": (lambda first: model.Embedding(CONFIG)(ids(1, 2), first), {"first": 0}),
    "training.smoothed_loss": (lambda padding: training.smoothed_loss(x(1, 2, 9), ids(1, 2), 0.1, padding), {"padding": 0}),
    "checkpoints.save_checkpoint": (lambda step: checkpoints.save_checkpoint("x.pt", *small(), step=step), {"step": 0}),
}
RATES: dict[str, tuple[Callable, str]] = {
    "layers.Residual": (lambda value: layers.Residual(8, value), "dropout"),
    "encoder_decoder.EncoderLayer": (lambda value: encoder_layer(dropout=value), "dropout"),
    "encoder_decoder.DecoderLayer": (lambda value: decoder_layer(dropout=value), "dropout"),
    "config.TransformerConfig": (lambda value: replace(CONFIG, dropout=value), "dropout"),
    "training.smoothed_loss": (lambda value: training.smoothed_loss(x(1, 2, 9), ids(1, 2), value), "smoothing"),
    "training.translation_loss": (lambda value: training.translation_loss(translator(), batch(), value), "smoothing"),
    "training.evaluate": (lambda value: training.evaluate(translator(), [batch()], value), "smoothing"),
    "fast.dropout": (lambda value: fast.dropout(x(3), value), "probability"),
    "fast_loss.linear_loss": (lambda value: fast_loss.linear_loss(x(2, 3), x(9, 3), ids(2), value), "smoothing"),
    "fast.translation_loss": (lambda value: fast.translation_loss(translator(), batch(), value), "smoothing"),
}


def small() -> tuple[nn.Module, torch.optim.Optimizer]:
    linear = nn.Linear(2, 2)
    return linear, torch.optim.SGD(linear.parameters())


def translator() -> model.Transformer:
    return model.Transformer(CONFIG)


def batch() -> Batch:
    return Batch.from_pairs([([5, 6], [7])])


def with_one_wrong(call: Callable, sizes: dict[str, int], name: str, value: object) -> Callable[[], object]:
    return lambda: call(**(sizes | {name: value}))


for least, table in ((1, SIZES), (0, NOT_NEGATIVE)):
    for function, (call, sizes) in table.items():
        for size in sizes:
            wrong = [(ValueError, least - 1), (ValueError, -3), (TypeError, True), (TypeError, 2.0), (TypeError, "2")]
            bad(function, f"{size}=10**400", ValueError, with_one_wrong(call, sizes, size, 10**400), size, "at most", "1329 bits")
            for error, value in [*wrong, (TypeError, None)]:
                bad(function, f"{size}={value!r}", error, with_one_wrong(call, sizes, size, value), size,
                    f"at least {least}", f"got {value!r}")  # fmt: skip
for function, (call, rate) in RATES.items():
    for error, value in [(ValueError, 1.0), (ValueError, -0.1), (ValueError, math.nan), (TypeError, "0.1"), (TypeError, True)]:
        bad(function, f"{rate}={value!r}", error, lambda call=call, value=value: call(value), rate, "[0, 1)", f"got {value!r}")
for function, call in {
    "layers.Residual": lambda norm: layers.Residual(8, norm=norm),
    "encoder_decoder.EncoderLayer": lambda norm: encoder_layer(norm=norm),
    "encoder_decoder.DecoderLayer": lambda norm: decoder_layer(norm=norm),
    "config.TransformerConfig": lambda norm: replace(CONFIG, norm=norm),
}.items():
    for value in ("Pre", True, None, ["pre"]):
        bad(function, f"norm={value!r}", ValueError, lambda call=call, value=value: call(value), "norm", "'pre', 'post'", f"got {value!r}")

# floor 0

for module, attend in (("attention", attention.attend), ("fast", fast.attend)):
    name = f"{module}.attend"
    bad(name, "query narrower than key", ValueError, lambda f=attend: f(x(3, 4), x(5, 6), x(5, 2)), "same d_k", "4", "6", "[3, 4]")
    bad(name, "other batch", ValueError, lambda f=attend: f(x(2, 3, 4), x(1, 5, 4), x(1, 5, 2)), "batch", "[2, 3, 4]", "[1, 5, 4]")
    bad(name, "a value too few", ValueError, lambda f=attend: f(x(3, 4), x(5, 4), x(4, 2)), "one value for each key", "[5, 4]", "[4, 2]")
    bad(name, "other dtype", TypeError, lambda f=attend: f(x(3, 4), x(5, 4).double(), x(5, 2)), "one dtype", "float32", "float64")
    bad(name, "integers", TypeError, lambda f=attend: f(ids(3, 4), ids(5, 4), ids(5, 2)), "floating point", "int64")
    bad(name, "integer values", TypeError, lambda f=attend: f(x(3, 4), x(5, 4), ids(5, 2)), "value", "floating point", "int64")
    bad(name, "a list", TypeError, lambda f=attend: f([[1.0]], x(5, 1), x(5, 2)), "query", "tensor", "list")
    bad(name, "one dimension", ValueError, lambda f=attend: f(x(4), x(5, 4), x(5, 2)), "query", "2 dimensions", "[4]")
    bad(name, "values of another dtype", TypeError, lambda f=attend: f(x(3, 4), x(5, 4), x(5, 2).double()), "key and value", "one dtype", "float32", "float64")
    for keys in (5, fast.FUSED_FROM):
        wide = f"{keys} keys"
        bad(name, f"mask of numbers, {wide}", TypeError, lambda f=attend, n=keys: f(x(3, 4), x(n, 4), x(n, 2), torch.zeros(3, n)), "boolean", "may attend", "float32")
        bad(name, f"mask of 0 and 1, {wide}", TypeError, lambda f=attend, n=keys: f(x(3, 4), x(n, 4), x(n, 2), ids(3, n)), "boolean", "may attend", "int64")
        bad(name, f"mask of another shape, {wide}", ValueError, lambda f=attend, n=keys: f(x(3, 4), x(n, 4), x(n, 2), yes(3, 4)), "mask", f"[3, {keys}]", "[3, 4]")
        bad(name, f"mask with a dimension too many, {wide}", ValueError, lambda f=attend, n=keys: f(x(3, 4), x(n, 4), x(n, 2), yes(1, 3, n)), "mask", f"[3, {keys}]", f"[1, 3, {keys}]")
bad("attention.attend", "a list as mask", TypeError, lambda: attention.attend(x(2, 4), x(2, 4), x(2, 2), [[True] * 2] * 2), "boolean tensor", "list")
bad("attention.attention_scores", "other d_k", ValueError, lambda: attention.attention_scores(x(3, 4), x(5, 6)), "same d_k", "4", "6")
bad("attention.attention_scores", "other batch", ValueError, lambda: attention.attention_scores(x(2, 3, 4), x(3, 5, 4)), "batch", "[2, 3, 4]", "[3, 5, 4]")
bad("attention.attention_scores", "other dtype", TypeError, lambda: attention.attention_scores(x(3, 4), x(5, 4).bfloat16()), "one dtype", "bfloat16")
bad("attention.attention_scores", "an array", TypeError, lambda: attention.attention_scores(x(3, 4).numpy(), x(5, 4)), "query", "tensor", "ndarray")
bad("attention.masked_softmax", "mask of numbers", TypeError, lambda: attention.masked_softmax(x(3, 4), torch.ones(3, 4)), "boolean", "float32")
bad("attention.masked_softmax", "mask turned over", ValueError, lambda: attention.masked_softmax(x(3, 4), yes(4, 3)), "[3, 4]", "query, key", "[4, 3]")
bad("attention.masked_softmax", "integer scores", TypeError, lambda: attention.masked_softmax(ids(3, 4), yes(3, 4)), "scores", "floating point", "int64")
bad("attention.masked_softmax", "a list", TypeError, lambda: attention.masked_softmax([[1.0]]), "scores", "tensor", "list")
bad("attention.masked_softmax", "one dimension", ValueError, lambda: attention.masked_softmax(x(3)), "scores", "2 dimensions", "[3]")
bad("attention.attention_weights", "mask of another length", ValueError, lambda: attention.attention_weights(x(3, 4), x(5, 4), yes(3, 3)), "[3, 5]", "[3, 3]")
bad("attention.attention_weights", "other d_k", ValueError, lambda: attention.attention_weights(x(3, 4), x(5, 3)), "d_k", "4", "3")
bad("attention.attention_weights", "mask of numbers", TypeError, lambda: attention.attention_weights(x(3, 4), x(5, 4), x(3, 5)), "boolean", "float32")
bad("attention.attention_weights", "integers", TypeError, lambda: attention.attention_weights(ids(3, 4), ids(5, 4)), "floating point", "int64")

ADDITIVE = attention.AdditiveAttention(3, 4, 5)
for name, call in {"attention.AdditiveAttention.scores": lambda query, key: ADDITIVE.scores(query, key), "attention.AdditiveAttention.forward": lambda query, key: ADDITIVE(query, key, x(*key.shape[:-1], 2))}.items():
    bad(name, "narrow query", ValueError, lambda f=call: f(x(2, 2), x(6, 4)), "query", "3", "[2, 2]")
    bad(name, "wide key", ValueError, lambda f=call: f(x(2, 3), x(6, 5)), "key", "4", "[6, 5]")
    bad(name, "other batch", ValueError, lambda f=call: f(x(2, 2, 3), x(3, 6, 4)), "batch", "[2, 2, ", "[3, 6, ")
    bad(name, "other dtype", TypeError, lambda f=call: f(x(2, 3), ids(6, 4)), "key", "floating point", "int64")
bad("attention.AdditiveAttention.forward", "values of another dtype", TypeError, lambda: ADDITIVE(x(2, 3), x(6, 4), x(6, 2).bfloat16()), "key and value", "one dtype", "float32", "bfloat16")
bad("attention.AdditiveAttention.forward", "a value too few", ValueError, lambda: ADDITIVE(x(2, 3), x(6, 4), x(5, 2)), "one value for each key", "[6, 4]", "[5, 2]")
bad("attention.AdditiveAttention.forward", "mask of another shape", ValueError, lambda: ADDITIVE(x(2, 3), x(6, 4), x(6, 2), yes(2, 5)), "[2, 6]", "[2, 5]")
bad("attention.AdditiveAttention.forward", "mask of numbers", TypeError, lambda: ADDITIVE(x(2, 3), x(6, 4), x(6, 2), x(2, 6)), "boolean", "float32")

bad("masks.padding_mask", "vectors", TypeError, lambda: masks.padding_mask(x(2, 3)), "integer", "float32")
bad("masks.padding_mask", "a list", TypeError, lambda: masks.padding_mask([[1, 0]]), "tokens", "tensor", "list")
bad("masks.padding_mask", "one sentence without a batch", ValueError, lambda: masks.padding_mask(ids(3)), "[batch position]", "[3]")
bad("masks.padding_mask", "empty batch", ValueError, lambda: masks.padding_mask(ids(0, 3)), "not be empty", "[0, 3]")
bad("masks.padding_mask", "padding is no id", TypeError, lambda: masks.padding_mask(ids(2, 3), "<pad>"), "padding", "int", "'<pad>'")
for name, call in (("causal_mask", masks.causal_mask), ("prefix_mask", lambda n: masks.prefix_mask(n, 0)), ("sliding_window_mask", lambda n: masks.sliding_window_mask(n, 1))):
    bad(f"masks.{name}", "too large for the memory", ValueError, lambda f=call: f(10**8), "at most 4294967296 elements", "100000000")
    bad(f"masks.{name}", "10^10", ValueError, lambda f=call: f(10**10), "at most", "10000000000")
bad("masks.causal_mask", "past too large for the memory", ValueError, lambda: masks.causal_mask(1024, 10**8), "at most 4294967296 elements", "1024 times 100001024")
bad("positional.sinusoidal_positions", "too large for the memory", ValueError, lambda: positional.sinusoidal_positions(10**8, 512), "length times d_model", "at most 4294967296", "100000000 times 512")
bad("positional.LearnedPositions", "too large for the memory", ValueError, lambda: positional.LearnedPositions(10**8, 512), "max_length times d_model", "at most 4294967296", "100000000 times 512")
bad("multi_head.MultiHeadAttention", "too large for the memory", ValueError, lambda: multi_head.MultiHeadAttention(10**6, 2), "d_model", "at most 4294967296", "1000000")
bad("masks.prefix_mask", "prefix longer than the text", ValueError, lambda: masks.prefix_mask(4, 5), "prefix", "length = 4", "5")
bad("positional.sinusoidal_positions", "odd width", ValueError, lambda: positional.sinusoidal_positions(4, 7), "d_model", "even", "7")
bad("positional.LearnedPositions.forward", "beyond the table", ValueError, lambda: positional.LearnedPositions(6, 4)(7), "0 and 5", "max_length 6", "0 to 6")
bad("positional.LearnedPositions.forward", "last one beyond", ValueError, lambda: positional.LearnedPositions(6, 4)(3, 4), "0 and 5", "4 to 6")

# floor 1

HEADS = multi_head.MultiHeadAttention(8, 2)


def used_cache(kind: type = multi_head.KeyValueCache) -> multi_head.KeyValueCache:
    cache = kind()
    HEADS(x(3, 2, 8), x(3, 2, 8), None, cache)
    return cache


bad("multi_head.split_heads", "heads don't divide", ValueError, lambda: multi_head.split_heads(x(2, 3, 8), 3), "heads = 3", "[2, 3, 8]")
bad("multi_head.split_heads", "no batch", ValueError, lambda: multi_head.split_heads(x(3, 8), 2), "3 dimensions", "[3, 8]")
bad("multi_head.split_heads", "a dimension too many", ValueError, lambda: multi_head.split_heads(x(1, 2, 3, 8), 2), "[batch position d_model]", "[1, 2, 3, 8]")
bad("multi_head.split_heads", "a list", TypeError, lambda: multi_head.split_heads([[[1.0, 2.0]]], 2), "tensor", "list")
bad("multi_head.split_heads", "integers", TypeError, lambda: multi_head.split_heads(ids(1, 2, 4), 2), "floating point", "int64")
bad("multi_head.merge_heads", "no heads", ValueError, lambda: multi_head.merge_heads(x(2, 3, 8)), "4 dimensions", "[2, 3, 8]")
bad("multi_head.merge_heads", "a dimension too many", ValueError, lambda: multi_head.merge_heads(x(1, 1, 2, 3, 8)), "[batch heads position d_k]", "[1, 1, 2, 3, 8]")
bad("multi_head.merge_heads", "a string", TypeError, lambda: multi_head.merge_heads("x"), "tensor", "str")
bad("multi_head.MultiHeadAttention", "heads don't divide", ValueError, lambda: multi_head.MultiHeadAttention(8, 3), "divide", "d_model = 8", "heads = 3")
bad("multi_head.MultiHeadAttention", "sizes exchanged", ValueError, lambda: multi_head.MultiHeadAttention(2, 8), "divide", "d_model = 2", "heads = 8")
bad("multi_head.MultiHeadAttention", "position is a string", TypeError, lambda: multi_head.MultiHeadAttention(8, 2, position="rotary"), "position", "PositionScheme", "str")
bad("multi_head.MultiHeadAttention.forward", "narrow x", ValueError, lambda: HEADS(x(2, 3, 6), x(2, 3, 8)), "x", "8", "[2, 3, 6]")
bad("multi_head.MultiHeadAttention.forward", "wide memory", ValueError, lambda: HEADS(x(2, 3, 8), x(2, 3, 9)), "memory", "8", "[2, 3, 9]")
bad("multi_head.MultiHeadAttention.forward", "other batch", ValueError, lambda: HEADS(x(2, 3, 8), x(1, 3, 8)), "batch", "[2, ", "[1, ")
bad("multi_head.MultiHeadAttention.forward", "no batch", ValueError, lambda: HEADS(x(3, 8), x(3, 8)), "dimensions", "[3, 8]")
bad("multi_head.MultiHeadAttention.forward", "tokens instead of vectors", TypeError, lambda: HEADS(ids(2, 8), ids(2, 8)), "floating point", "int64")
bad("multi_head.MultiHeadAttention.forward", "other dtype", TypeError, lambda: HEADS(x(2, 3, 8).double(), x(2, 3, 8).double()), "float32", "float64")
bad("multi_head.MultiHeadAttention.forward", "mask of another length", ValueError, lambda: HEADS(x(2, 3, 8), x(2, 4, 8), yes(3, 3)), "[2, 2, 3, 4]", "[3, 3]")
bad("multi_head.MultiHeadAttention.forward", "mask without the heads' dimension", ValueError, lambda: HEADS(x(3, 4, 8), x(3, 4, 8), yes(3, 4, 4)), "[3, 2, 4, 4]", "[3, 4, 4]")
bad("multi_head.MultiHeadAttention.forward", "mask of numbers", TypeError, lambda: HEADS(x(2, 3, 8), x(2, 3, 8), x(3, 3)), "boolean", "float32")
bad("multi_head.MultiHeadAttention.forward", "cache is a list", TypeError, lambda: HEADS(x(2, 3, 8), x(2, 3, 8), None, []), "cache", "KeyValueCache", "list")
bad("multi_head.MultiHeadAttention.keys_and_values", "narrow memory", ValueError, lambda: HEADS.keys_and_values(x(2, 3, 6)), "memory", "8", "[2, 3, 6]")
bad("multi_head.MultiHeadAttention.keys_and_values", "integers", TypeError, lambda: HEADS.keys_and_values(ids(2, 3, 8)), "memory", "floating point", "int64")
bad("multi_head.MultiHeadAttention.keys_and_values", "no batch", ValueError, lambda: HEADS.keys_and_values(x(3, 8)), "dimensions", "[3, 8]")
for name, call in {"multi_head.attend_with_bias": lambda q, k, bias: multi_head.attend_with_bias(q, k, k, None, bias)}.items():
    bad(name, "bias of another length", ValueError, lambda f=call: f(x(1, 2, 3, 4), x(1, 2, 5, 4), x(3, 3)), "bias", "[1, 2, 3, 5]", "[3, 3]")
    bad(name, "bias for more heads", ValueError, lambda f=call: f(x(1, 2, 3, 4), x(1, 2, 5, 4), x(4, 3, 5)), "bias", "[1, 2, 3, 5]", "[4, 3, 5]")
    bad(name, "other d_k", ValueError, lambda f=call: f(x(1, 2, 3, 4), x(1, 2, 5, 6), None), "d_k", "4", "6")
    bad(name, "bias of another dtype", TypeError, lambda f=call: f(x(1, 2, 3, 4), x(1, 2, 5, 4), x(3, 5).double()), "scores and bias", "one dtype", "float32", "float64")
    bad(name, "a number as bias", TypeError, lambda f=call: f(x(1, 2, 3, 4), x(1, 2, 5, 4), 1.0), "bias", "tensor", "float")
for bias in (None, x(3, 5)):
    name, some = "multi_head.attend_with_bias", "no bias" if bias is None else "a bias"
    for what, error, value, *words in (("values of another dtype", TypeError, x(1, 2, 5, 4).double(), "key and value", "one dtype", "float64"), ("values as an array", TypeError, x(1, 2, 5, 4).numpy(), "value", "tensor", "ndarray"), ("a value too few", ValueError, x(1, 2, 4, 4), "one value for each key", "[1, 2, 5, 4]", "[1, 2, 4, 4]")):
        bad(name, f"{what}, {some}", error, lambda v=value, b=bias: multi_head.attend_with_bias(x(1, 2, 3, 4), x(1, 2, 5, 4), v, None, b), *words)
bad("multi_head.KeyValueCache.__call__", "another batch", ValueError, lambda: HEADS(x(2, 1, 8), x(2, 1, 8), None, used_cache()), "[3, 2]", "[2, 2]")
bad("multi_head.MemoryCache.__call__", "another batch", ValueError, lambda: HEADS(x(2, 1, 8), x(2, 1, 8), None, used_cache(multi_head.MemoryCache)), "memory", "[2, 1, 8]", "[3, 2, 8]", "new cache")
bad("multi_head.MemoryCache.__call__", "another memory of the same shape", ValueError, lambda: HEADS(x(3, 2, 8), x(3, 2, 8), None, used_cache(multi_head.MemoryCache)), "memory of shape [3, 2, 8]", "other vectors")
bad("multi_head.KeyValueCache.select", "rows outside", ValueError, lambda: used_cache().select(torch.tensor([0, 3])), "row numbers from 0 to 2", "0 to 3")
bad("multi_head.KeyValueCache.select", "negative rows", ValueError, lambda: used_cache().select(torch.tensor([-1])), "row numbers from 0 to 2", "-1")
bad("multi_head.KeyValueCache.select", "a list", TypeError, lambda: used_cache().select([0, 1]), "tensor of row numbers", "list")
bad("multi_head.KeyValueCache.select", "booleans", TypeError, lambda: used_cache().select(yes(3)), "integer", "bool")
bad("multi_head.KeyValueCache.select", "a matrix", ValueError, lambda: used_cache().select(ids(1, 2)), "[row]", "[1, 2]")
bad("multi_head.MemoryCache.select", "rows outside", ValueError, lambda: used_cache(multi_head.MemoryCache).select(torch.tensor([0, 3])), "row numbers from 0 to 2", "0 to 3")
bad("multi_head.MemoryCache.select", "a list", TypeError, lambda: used_cache(multi_head.MemoryCache).select([0, 1]), "tensor of row numbers", "list")

# floor 2

FORWARD = layers.FeedForward(8, 12)
for name, call in {"layers.FeedForward.forward": FORWARD, "layers.Residual.forward": lambda v: layers.Residual(8)(v, FORWARD)}.items():
    bad(name, "narrow", ValueError, lambda f=call: f(x(2, 3, 7)), "x", "8", "[2, 3, 7]")
    bad(name, "integers", TypeError, lambda f=call: f(ids(2, 3, 8)), "floating point", "int64")
    bad(name, "other dtype than the weights", TypeError, lambda f=call: f(x(2, 3, 8).double()), "float32", "float64")
    bad(name, "a list", TypeError, lambda f=call: f([1.0]), "tensor", "list")

for value in (None, 3, "f"):
    bad("layers.Residual.forward", f"sublayer={value!r}", TypeError, lambda v=value: layers.Residual(8)(x(2, 3, 8), v), "sublayer", "function", f"got {value!r}")
for name, call in {"layers.FeedForward": lambda v: layers.FeedForward(8, 12, v), "config.TransformerConfig": lambda v: replace(CONFIG, activation=v), "encoder_decoder.EncoderLayer": lambda v: encoder_layer(activation=v), "encoder_decoder.DecoderLayer": lambda v: decoder_layer(activation=v)}.items():
    for value in ("GELU", None, 3):
        bad(name, f"activation={value!r}", ValueError, lambda f=call, v=value: f(v), "activation", "'relu', 'gelu'", f"got {value!r}")
bad("layers.FeedForward", "too large for the memory", ValueError, lambda: layers.FeedForward(10**6, 10**6), "d_model times d_ff", "at most 4294967296", "1000000 times 1000000")
for value in (torch.ones(3).numpy(), torch.ones(3)):
    bad("layers.Residual", f"norm is of {type(value).__name__}", ValueError, lambda v=value: layers.Residual(8, norm=v), "norm", "'pre', 'post'", "1.")

ENCODER, DECODER = (encoder_decoder.Encoder([encoder_layer()]), encoder_decoder.Decoder([decoder_layer(), decoder_layer()]))
for kind in ("EncoderLayer", "DecoderLayer"):
    make = {"EncoderLayer": encoder_layer, "DecoderLayer": decoder_layer}[kind]
    bad(f"encoder_decoder.{kind}", "heads don't divide", ValueError, lambda f=make: f(heads=3), "divide", "d_model = 8", "heads = 3")
CAUSAL = {"position": relative.BucketBias(2, bidirectional=False)}
bad("encoder_decoder.EncoderLayer", "a scheme for causal attention", ValueError, lambda: encoder_layer(**CAUSAL), "position", "bidirectional=True", "BucketBias", "causal attention only")
bad("encoder_decoder.DecoderLayer", "a causal scheme in the cross-attention", ValueError, lambda: decoder_layer(cross_position=CAUSAL["position"]), "cross_position", "bidirectional=True", "BucketBias", "causal attention only")
bad("encoder_decoder.DecoderLayer", "cross_position is a string", TypeError, lambda: decoder_layer(cross_position="rotary"), "position", "PositionScheme", "str")
bad("encoder_decoder.EncoderLayer", "scheme for other heads", ValueError, lambda: encoder_layer(position=relative.LinearBias(4))(x(2, 3, 8)), "4 heads", "[2, 2, 3, 4]")
for kind in (encoder_decoder.Encoder, encoder_decoder.Decoder):
    name = f"encoder_decoder.{kind.__name__}"
    bad(name, "no layers", ValueError, lambda k=kind: k([]), "at least one layer", "none")
    bad(name, "a number of layers", TypeError, lambda k=kind: k(3), "layers", "sequence of Module", "int")
    bad(name, "a number as layer", TypeError, lambda k=kind: k([1]), "layers", "Module", "got 1 of type int")
    bad(name, "layers of another kind", TypeError, lambda k=kind: k([nn.Linear(2, 2)]), "encoder or decoder layers", "Linear")
bad("encoder_decoder.last_norm", "no layers", ValueError, lambda: encoder_decoder.last_norm(nn.ModuleList()), "at least one layer", "none")
bad("encoder_decoder.last_norm", "other layers", TypeError, lambda: encoder_decoder.last_norm(nn.ModuleList([nn.ReLU()])), "encoder or decoder layers", "ReLU")
for name, call in {"EncoderLayer": encoder_layer(), "Encoder": ENCODER}.items():
    name = f"encoder_decoder.{name}.forward"
    bad(name, "narrow", ValueError, lambda f=call: f(x(2, 3, 7)), "8", "[2, 3, 7]")
    bad(name, "tokens instead of vectors", TypeError, lambda f=call: f(ids(2, 3)), "floating point", "int64")
    bad(name, "no batch", ValueError, lambda f=call: f(x(3, 8)), "dimensions", "[3, 8]")
    bad(name, "other dtype than the weights", TypeError, lambda f=call: f(x(2, 3, 8).bfloat16()), "float32", "bfloat16")
    bad(name, "mask of another length", ValueError, lambda f=call: f(x(2, 3, 8), yes(2, 1, 1, 4)), "[2, 2, 3, 3]", "[2, 1, 1, 4]")
    bad(name, "mask of numbers", TypeError, lambda f=call: f(x(2, 3, 8), ids(2, 1, 1, 3)), "boolean", "int64")
for name, call in {"DecoderLayer": decoder_layer(), "Decoder": DECODER}.items():
    name = f"encoder_decoder.{name}.forward"
    bad(name, "narrow", ValueError, lambda f=call: f(x(2, 3, 7), x(2, 4, 8)), "8", "[2, 3, 7]")
    bad(name, "narrow memory", ValueError, lambda f=call: f(x(2, 3, 8), x(2, 4, 7)), "memory", "8", "[2, 4, 7]")
    bad(name, "memory of another batch", ValueError, lambda f=call: f(x(2, 3, 8), x(3, 4, 8)), "batch", "[2, ", "[3, ")
    bad(name, "tokens instead of memory", TypeError, lambda f=call: f(x(2, 3, 8), ids(2, 4)), "memory", "floating point", "int64")
    bad(name, "target mask in the cross-attention", ValueError, lambda f=call: f(x(2, 3, 8), x(2, 4, 8), None, yes(3, 3)), "[2, 2, 3, 4]", "[3, 3]")
    bad(name, "mask of numbers", TypeError, lambda f=call: f(x(2, 3, 8), x(2, 4, 8), x(3, 3)), "boolean", "float32")
bad("encoder_decoder.Decoder.forward", "caches of another model", ValueError, lambda: DECODER(x(2, 1, 8), x(2, 4, 8), caches=encoder_decoder.Decoder([decoder_layer()]).new_caches()), "2 layers", "1")
ODD: list[tuple[object, type[Exception], tuple[str, ...]]] = [(3, TypeError, ("sequence", "int")), ("caches", TypeError, ("sequence", "str")), ({}, TypeError, ("sequence", "dict")), ([3, 4], TypeError, ("tuple", "int")), ([(1, 2), (3, 4)], TypeError, ("pair", "KeyValueCache", "(1, 2)"))]
ODD += [([multi_head.KeyValueCache()] * 2, TypeError, ("tuple", "KeyValueCache")), ([], ValueError, ("2 layers", "0"))]
TWO = model.Transformer(replace(CONFIG, layers=2))
for caches, error, words in ODD:
    for name, call in {"encoder_decoder.Decoder.forward": lambda c: DECODER(x(2, 1, 8), x(2, 4, 8), caches=c), "encoder_decoder.Decoder.past": DECODER.past, "model.Transformer.decode": lambda c: TWO.decode(ids(2, 1), x(2, 4, 8), ids(2, 4), c)}.items():
        bad(name, f"caches={type(caches).__name__} {str(caches)[:9]}", error, lambda f=call, c=caches: f(c), "caches", *words)
for caches in ([], 3, None, "ab", {1: 2, 3: 4}, (1, 2), (multi_head.KeyValueCache(),)):
    bad("encoder_decoder.DecoderLayer.forward", f"caches={str(caches)[:9]}", TypeError, lambda c=caches: decoder_layer()(x(2, 1, 8), x(2, 4, 8), caches=c), "caches", "pair of", "KeyValueCache", f"of type {type(caches).__name__}")
bad("encoder_decoder.Decoder.forward", "no caches", ValueError, lambda: DECODER(x(2, 1, 8), x(2, 4, 8), caches=[]), "2 layers", "0")

# floor 3

bad("config.TransformerConfig", "heads don't divide", ValueError, lambda: replace(CONFIG, heads=3), "divide", "d_model = 8", "heads = 3")
bad("config.TransformerConfig", "odd width", ValueError, lambda: replace(CONFIG, d_model=7, heads=1), "d_model", "even", "7")
bad("config.TransformerConfig", "odd width of a head", ValueError, lambda: replace(CONFIG, d_model=6, positions="rotary"), "d_model / heads", "even", "3")
bad("config.TransformerConfig", "unknown positions", ValueError, lambda: replace(CONFIG, positions="sine"), "'sinusoidal'", "'sine'")
bad("config.TransformerConfig", "too large for the memory", ValueError, lambda: replace(CONFIG, vocabulary=10**9), "vocabulary times d_model", "at most 4294967296", "1000000000 times 8")
bad("config.TransformerConfig", "a number for a bias", TypeError, lambda: replace(CONFIG, attention_bias=1), "attention_bias", "bool", "int")
for value, error in ((0.0, ValueError), (-1e-5, ValueError), (math.inf, ValueError), (10**400, ValueError), ("1e-5", TypeError), (True, TypeError), (None, TypeError)):
    for name, field, call in (("config.TransformerConfig", "norm_eps", lambda v: replace(CONFIG, norm_eps=v)), ("model.set_norm_eps", "eps", lambda v: model.set_norm_eps(nn.LayerNorm(2), v))):
        bad(name, f"{field}={str(value)[:5]!r}", error, lambda f=call, v=value: f(v), field, "above 0", "got")
bad("model.set_norm_eps", "a list of modules", TypeError, lambda: model.set_norm_eps([nn.LayerNorm(2)], 1e-5), "Module", "list")
bad("model.layer_stack", "a number of layers", TypeError, lambda: model.layer_stack(3, CONFIG), "layer", "function", "got 3")
bad("config.TransformerConfig", "padding outside the vocabulary", ValueError, lambda: replace(CONFIG, padding=9), "padding", "0 to 8", "9")
for kind in (model.Transformer, model.Embedding):
    bad(f"model.{kind.__name__}", "a dictionary", TypeError, lambda k=kind: k({"vocabulary": 9}), "TransformerConfig", "dict")
    bad(f"model.{kind.__name__}", "a number", TypeError, lambda k=kind: k(512), "TransformerConfig", "int")
TRANSFORMER, EMBEDDING = translator(), model.Embedding(CONFIG)
LEARNED = model.Embedding(replace(CONFIG, positions="learned"))
for name, word, call in (
    ("Transformer.forward", "source", lambda t: TRANSFORMER(t, ids(2, 3))),
    ("Transformer.forward", "target", lambda t: TRANSFORMER(ids(2, 3), t)),
    ("Transformer.encode", "source", TRANSFORMER.encode),
    ("Transformer.decode", "target", lambda t: TRANSFORMER.decode(t, x(2, 3, 8), ids(2, 3))),
    ("Embedding.forward", "tokens", EMBEDDING),
    ("Embedding.forward", "tokens", LEARNED),
):
    name = f"model.{name}"
    bad(name, f"{word} beyond the vocabulary", ValueError, lambda f=call: f(9 * ids(2, 3)), word, "0 to 8", "9")
    bad(name, f"negative {word}", ValueError, lambda f=call: f(-ids(2, 3)), word, "0 to 8", "-1")
    bad(name, f"{word} of floats", TypeError, lambda f=call: f(x(2, 3)), word, "integer", "float32")
    bad(name, f"{word} as a list", TypeError, lambda f=call: f([[1, 2]]), word, "tensor", "list")
    bad(name, f"{word} without a batch", ValueError, lambda f=call: f(ids(3)), word, "[batch position]", "[3]")
    bad(name, f"empty batch of {word}", ValueError, lambda f=call: f(ids(0, 3)), word, "not be empty", "[0, 3]")
    bad(name, f"{word} of no token", ValueError, lambda f=call: f(ids(2, 0)), word, "not be empty", "[2, 0]")
    bad(name, f"{word} too long", ValueError, lambda f=call: f(ids(2, 7)), "6 positions", "7")
bad("model.start_from_glorot", "a list of modules", TypeError, lambda: model.start_from_glorot([torch.nn.Linear(2, 2)]), "Module", "list")
bad("model.position_scheme", "a name", TypeError, lambda: model.position_scheme("rotary", True), "config", "TransformerConfig", "str")
bad("model.position_scheme", "causal is a number", TypeError, lambda: model.position_scheme(CONFIG, 1), "causal", "bool", "int")
bad("model.layer_stack", "a dictionary", TypeError, lambda: model.layer_stack(encoder_decoder.EncoderLayer, {"d_model": 8}), "config", "TransformerConfig", "dict")
bad("model.Transformer.forward", "other batches", ValueError, lambda: TRANSFORMER(ids(2, 3), ids(3, 3)), "batch", "[3, ", "[2, ")
bad("model.Transformer.decode", "memory of another source", ValueError, lambda: TRANSFORMER.decode(ids(2, 3), x(2, 4, 8), ids(2, 5)), "one vector for each source token", "[2, 4, 8]", "[2, 5]")
bad("model.Transformer.decode", "source of vectors", TypeError, lambda: TRANSFORMER.decode(ids(2, 3), x(2, 4, 8), x(2, 4)), "integer", "float32")
bad("model.Transformer.decode", "narrow memory", ValueError, lambda: TRANSFORMER.decode(ids(2, 3), x(2, 4, 7), ids(2, 4)), "memory", "8", "[2, 4, 7]")
bad("model.Transformer.decode", "no caches", ValueError, lambda: TRANSFORMER.decode(ids(2, 3), x(2, 4, 8), ids(2, 4), []), "1 layers", "0")
bad("model.Embedding.forward", "cached beyond the positions", ValueError, lambda: EMBEDDING(ids(2, 3), 4), "6 positions", "7")
bad("model.Embedding.logits", "narrow", ValueError, lambda: EMBEDDING.logits(x(2, 3, 7)), "8", "[2, 3, 7]")
bad("model.Embedding.logits", "tokens instead of vectors", TypeError, lambda: EMBEDDING.logits(ids(2, 3, 8)), "floating point", "int64")

# training


def step(**changes: object) -> float:
    linear, optimizer = small()
    run = {"model": linear, "batches": [batch()], "loss_of": lambda *_: linear.weight.sum(), "optimizer": optimizer}
    return next(training.train(**(run | {"rate": lambda _: 0.1} | changes)))


for value, error in ((0, ValueError), (-1.0, ValueError), (math.nan, ValueError), (math.inf, ValueError), ("1", TypeError), (True, TypeError)):
    bad("training.noam_rate", f"factor={value!r}", error, lambda v=value: training.noam_rate(1, 8, 5, v), "factor", "above 0", f"got {value!r}")
bad("training.noam_rate", "factor=10**400", ValueError, lambda: training.noam_rate(1, 8, 5, 10**400), "factor", "finite number above 0", "1329 bits")
bad("training.linear_tail", "after the end", ValueError, lambda: training.linear_tail(6, 5, 2), "steps = 5", "step = 6")
bad("training.linear_tail", "tail longer than the run", ValueError, lambda: training.linear_tail(1, 5, 9), "steps = 5", "tail = 9")
bad("training.smoothed_loss", "all padding", ValueError, lambda: training.smoothed_loss(x(2, 3, 9), 0 * ids(2, 3)), "at least one label", "padding (0)", "6")
bad("training.smoothed_loss", "label outside", ValueError, lambda: training.smoothed_loss(x(2, 3, 9), 9 * ids(2, 3)), "labels", "0 to 8", "9")
bad("training.smoothed_loss", "negative label", ValueError, lambda: training.smoothed_loss(x(2, 3, 9), -100 * ids(2, 3)), "labels", "0 to 8", "-100")
bad("training.smoothed_loss", "labels of another length", ValueError, lambda: training.smoothed_loss(x(2, 3, 9), ids(2, 4)), "one row per label", "[2, 3, 9]", "[2, 4]")
bad("training.smoothed_loss", "labels of floats", TypeError, lambda: training.smoothed_loss(x(2, 3, 9), x(2, 3)), "labels", "integer", "float32")
bad("training.smoothed_loss", "labels as a list", TypeError, lambda: training.smoothed_loss(x(1, 1, 9), [[1]]), "labels", "tensor", "list")
bad("training.smoothed_loss", "logits as a list", TypeError, lambda: training.smoothed_loss([[[1.0]]], ids(1, 1)), "logits", "tensor", "list")
bad("training.smoothed_loss", "logits of integers", TypeError, lambda: training.smoothed_loss(ids(1, 1, 9), ids(1, 1)), "logits", "floating point", "int64")
bad("training.smoothed_loss", "logits flat", ValueError, lambda: training.smoothed_loss(x(6, 9), ids(2, 3)), "logits", "3 dimensions", "[6, 9]")
bad("training.smoothed_loss", "empty batch", ValueError, lambda: training.smoothed_loss(x(0, 3, 9), ids(0, 3)), "labels", "not be empty", "[0, 3]")
for name, loss in (("training", training.translation_loss), ("fast", fast.translation_loss)):
    bad(f"{name}.translation_loss", "no model", TypeError, lambda f=loss: f(None, batch()), "model", "Module", "NoneType")
    bad(f"{name}.translation_loss", "a pair", TypeError, lambda f=loss: f(translator(), (ids(2, 3), ids(2, 3))), "batch", "Batch", "tuple")
    bad(f"{name}.translation_loss", "ids outside", ValueError, lambda f=loss: f(translator(), Batch(9 * ids(1, 2), ids(1, 2))), "source", "0 to 8", "9")
    bad(f"{name}.translation_loss", "all padding", ValueError, lambda f=loss: f(translator(), Batch(ids(1, 2), 0 * ids(1, 2))), "at least one label", "padding (0)")
for value, error in ((0, ValueError), (-1, ValueError), (True, TypeError), ("1", TypeError)):
    bad("training.train", f"first={value!r}", error, lambda v=value: step(first=v), "first", "at least 1", f"got {value!r}")
bad("training.train", "loss not finite", ValueError, lambda: step(loss_of=lambda *_: torch.tensor(math.nan)), "finite", "nan", "step 1")
bad("training.train", "loss is a number", TypeError, lambda: step(loss_of=lambda *_: 0.5), "loss", "tensor", "float")
bad("training.train", "a loss for each token", ValueError, lambda: step(loss_of=lambda *_: torch.ones(3)), "loss", "one number", "[3]")
for name in ("loss_of", "rate"):
    for value in (None, 0.1, "f"):
        bad("training.train", f"{name}={value!r}", TypeError, lambda n=name, v=value: step(**{n: v}), name, "function", f"got {value!r}")
for name, call in {"training.train": lambda b: step(batches=b), "training.evaluate": lambda b: training.evaluate(translator(), b)}.items():
    for value in (None, 3, "abc"):
        bad(name, f"batches={value!r}", TypeError, lambda f=call, v=value: f(v), "batches", "iterable", f"got {value!r}")
bad("training.evaluate", "no model", TypeError, lambda: training.evaluate(None, [batch()]), "model", "Module", "NoneType")
bad("training.train", "a model that is none", TypeError, lambda: step(model="model"), "model", "Module", "str")
bad("training.train", "an optimiser that is none", TypeError, lambda: step(optimizer=0.1), "optimizer", "Optimizer", "float")
bad("training.evaluate", "no batch", ValueError, lambda: training.evaluate(translator(), []), "at least one batch", "none")
bad("training.evaluate", "pairs", TypeError, lambda: training.evaluate(translator(), [(ids(2, 3), ids(2, 3))]), "Batch", "tuple")
bad("training.best_precision", "unknown device", ValueError, lambda: training.best_precision("gpu"), "device", "'cuda'", "'gpu'")
bad("training.best_precision", "no device", ValueError, lambda: training.best_precision(None), "device", "'cuda'", "None")
bad("training.autocast", "unknown device", ValueError, lambda: training.autocast("gpu", torch.float32), "device", "'cuda'", "'gpu'")
bad("training.autocast", "a string", ValueError, lambda: training.autocast("cpu", "bf16"), "precision", "torch.bfloat16", "'bf16'")
for value in (torch.ones(3).numpy(), torch.ones(3), None):
    bad("training.autocast", f"precision is of {type(value).__name__}", ValueError, lambda v=value: training.autocast("cpu", v), "precision", "torch.bfloat16", "got")
bad("training.autocast", "an integer dtype", ValueError, lambda: training.autocast("cpu", torch.int64), "precision", "torch.bfloat16", "torch.int64")

# checkpoints (files that are cut short, damaged or foreign: test_checkpoints)

bad("checkpoints.save_checkpoint", "a model that is none", TypeError, lambda: checkpoints.save_checkpoint("x.pt", {}, small()[1], step=1), "model", "Module", "dict")
bad("checkpoints.save_checkpoint", "an optimiser that is none", TypeError, lambda: checkpoints.save_checkpoint("x.pt", small()[0], None, step=1), "optimizer", "Optimizer", "NoneType")
bad("checkpoints.save_checkpoint", "what can't be read back", TypeError, lambda: checkpoints.save_checkpoint("x.pt", *small(), step=1, note=small), "extra", "numbers, strings", "'note'")
bad("checkpoints.load_checkpoint", "a model that is none", TypeError, lambda: checkpoints.load_checkpoint("x.pt", {}), "model", "Module", "dict")
bad("checkpoints.load_checkpoint", "an optimiser that is none", TypeError, lambda: checkpoints.load_checkpoint("x.pt", small()[0], "adam"), "optimizer", "Optimizer", "str")
for value in (None, 3, b"x.pt"):
    bad("checkpoints.save_checkpoint", f"path={value!r}", TypeError, lambda v=value: checkpoints.save_checkpoint(v, *small(), step=1), "path", f"got {value!r}")
    bad("checkpoints.load_checkpoint", f"path={value!r}", TypeError, lambda v=value: checkpoints.load_checkpoint(v, small()[0]), "path", f"got {value!r}")
bad("checkpoints.load_checkpoint", "a foreign file", ValueError, lambda: checkpoints.load_checkpoint(__file__, small()[0]), "checkpoint", "bytes")

# fast

bad("fast.dropout", "integers", TypeError, lambda: fast.dropout(ids(3), 0.1), "x", "floating point", "int64")
bad("fast.dropout", "a list", TypeError, lambda: fast.dropout([1.0], 0.1), "x", "tensor", "list")
bad("fast.packed_attention", "narrow x", ValueError, lambda: fast.packed_attention(HEADS, x(2, 3, 6), x(2, 3, 8)), "x", "8", "[2, 3, 6]")
bad("fast.packed_attention", "another module", TypeError, lambda: fast.packed_attention(torch.nn.Identity(), x(2, 3, 8), x(2, 3, 8)), "MultiHeadAttention", "Identity")
bad("fast.packed_attention", "mask of numbers", TypeError, lambda: fast.packed_attention(HEADS, x(2, 3, 8), x(2, 3, 8), x(3, 3)), "boolean", "float32")
bad("fast.packed_attention", "a cache's kind of position", ValueError, lambda: fast.packed_attention(multi_head.MultiHeadAttention(8, 2, position=type("Turned", (positional.PositionScheme,), {})()), x(2, 3, 8), x(2, 3, 8)), "position scheme", "Turned")
bad("fast.narrowed", "no module", TypeError, lambda: fast.narrowed(None, torch.bfloat16), "model", "Module", "NoneType")
bad("fast.narrowed", "a dtype's name", TypeError, lambda: fast.narrowed(translator().eval(), "bfloat16"), "precision", "dtype", "str")
bad("fast.narrowed", "integers", TypeError, lambda: fast.narrowed(translator().eval(), torch.int8), "floating point", "int8")
bad("fast.narrowed", "a model in training", ValueError, lambda: fast.narrowed(torch.nn.Linear(2, 2), torch.bfloat16), "evaluation mode", "training mode")
bad("fast_loss.linear_loss", "label outside", ValueError, lambda: fast_loss.linear_loss(x(2, 3), x(9, 3), 9 * ids(2)), "labels", "0 to 8", "9")
bad("fast_loss.linear_loss", "other width", ValueError, lambda: fast_loss.linear_loss(x(2, 3), x(9, 4), ids(2)), "x", "4", "[2, 3]")
bad("fast_loss.linear_loss", "a label too many", ValueError, lambda: fast_loss.linear_loss(x(2, 3), x(9, 3), ids(3)), "one row per label", "[2, 3]", "[3]")
bad("fast_loss.linear_loss", "labels of floats", TypeError, lambda: fast_loss.linear_loss(x(2, 3), x(9, 3), x(2)), "labels", "integer", "float32")
bad("fast_loss.linear_loss", "a list", TypeError, lambda: fast_loss.linear_loss([[1.0]], x(9, 1), ids(1)), "x", "tensor", "list")
bad("fast_loss.linear_loss", "a label as a list", TypeError, lambda: fast_loss.linear_loss(x(1, 3), x(9, 3), [1]), "labels", "Tensor", "list")

# fmt: on

NOTHING_TO_GET_WRONG = {
    *(
        "fast.enabled",
        "multi_head.KeyValueCache",
        "multi_head.MemoryCache",
        "positional.PositionScheme",
    ),  # no arguments
    *("positional.PositionScheme.rotate", "positional.PositionScheme.bias"),  # do nothing: there to be overridden
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.what}")
def test_the_error_says_what_was_wanted_and_what_came(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(case)
    assert not list(tmp_path.iterdir())


def check(case: Case) -> None:
    """Make the call, and look for the words in the text of its error."""
    with pytest.raises((ValueError, TypeError)) as caught:
        case.call()
    text = str(caught.value)
    assert type(caught.value) is case.error, text
    missing = [word for word in case.words if not re.search(rf"(?<!\w){re.escape(word)}", text)]
    assert not missing, f"{missing} not in: {text}"


def takes_input(function: object) -> bool:
    return inspect.isroutine(function) and set(inspect.signature(function).parameters) - {"self"} != set()


def public_names(module: object) -> set[str]:
    """Return the module's functions and classes, and the classes' methods that take something."""
    short, found = module.__name__.rpartition(".")[2], set()
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
            continue
        found.add(f"{short}.{name}")
        if inspect.isclass(thing):
            methods = {m for m, f in vars(thing).items() if takes_input(f) and (m == "__call__" or m[0] != "_")}
            found |= {f"{short}.{name}.{method}" for method in methods}
    return found


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_its_cases_of_bad_input(name):
    module = importlib.import_module(f"transformer_lib.{name}")
    public, tested = public_names(module), {case.name for case in CASES}
    assert public and public - tested - NOTHING_TO_GET_WRONG == set()
    assert {case for case in tested if case.startswith(f"{name}.")} <= public


def test_this_file_sees_the_library_without_the_shape_checker():
    assert not hasattr(attention.attend, "__wrapped__")
    with pytest.raises(ValueError) as caught:
        attention.attend(x(3, 4), x(5, 6), x(5, 2))
    assert type(caught.value) is ValueError
