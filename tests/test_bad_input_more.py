"""Bad input to sampling, diverse beams, toy tasks, observation, ablation, head statistics, accumulation and processes.

With the checks of `test_bad_input`, run without the shape checker, as a user would meet it (see conftest.py).
"""

import importlib
import math
from collections.abc import Callable

import pytest
import test_bad_input as table
import torch
from test_bad_input import Case, batch, ids, small, translator, with_one_wrong, x, yes

from transformer_lib import (
    ablation,
    accumulation,
    coreference,
    decoding,
    distributed,
    diverse_beam,
    head_statistics,
    multi_head,
    observe,
    sampling,
    toy_tasks,
)
from transformer_lib.data import Batch

MODULES = ["ablation", "accumulation", "coreference", "distributed", "diverse_beam", "head_statistics", "observe"]
MODULES += ["sampling", "toy_tasks"]
CASES: list[Case] = []


def bad(name: str, what: str, error: type[Exception], call: Callable[[], object], *words: str) -> None:
    """Add a case."""
    CASES.append(Case(name, what, error, call, words))


# fmt: off
# ruff: noqa: E501 - a table: one case a line

ONE, MODEL, HEADS = torch.Generator(), translator().eval(), multi_head.MultiHeadAttention(8, 2)
SAMPLE = {"model": MODEL, "source": ids(2, 3), "generator": ONE}


def sample(**changes: object) -> object:
    return sampling.sample(**(SAMPLE | changes))


def diverse(**changes: object) -> object:
    return diverse_beam.diverse_beam_search(**({"model": MODEL, "source": ids(2, 3), "beam": 4, "groups": 2} | changes))


# sizes, each with every kind of wrong number

SIZES: dict[str, tuple[Callable, dict[str, int]]] = {
    "sampling.top_k_logits": (lambda k: sampling.top_k_logits(x(2, 9), k), {"k": 3}),
    "sampling.sample": (lambda **sizes: sample(**sizes), {"k": 3, "max_length": 4}),
    "diverse_beam.diverse_beam_search": (lambda **sizes: diverse(**sizes), {"beam": 4, "groups": 2}),
    "toy_tasks.recall_task": (lambda **sizes: toy_tasks.recall_task(**sizes, generator=ONE), {"count": 3, "length": 5, "distance": 2, "vocabulary": 12}),
    "toy_tasks.two_relations_task": (lambda **sizes: toy_tasks.two_relations_task(**sizes, generator=ONE), {"count": 3, "length": 5, "vocabulary": 12}),
    "toy_tasks.sort_task": (lambda **sizes: toy_tasks.sort_task(**sizes, generator=ONE), {"count": 3, "length": 5, "vocabulary": 12}),
    "toy_tasks.rank_task": (lambda **sizes: toy_tasks.rank_task(**sizes, generator=ONE), {"count": 3, "length": 5, "vocabulary": 12}),
    "toy_tasks.shift_task": (lambda **sizes: toy_tasks.shift_task(**sizes, generator=ONE), {"count": 3, "length": 5, "vocabulary": 12, "offset": 2}),
    "toy_tasks.shifted": (lambda offset: toy_tasks.shifted(ids(2, 3), offset), {"offset": 1}),
    "coreference.coreference_twins": (lambda count: coreference.coreference_twins(count, ONE), {"count": 3}),
    "accumulation.groups": (lambda size: accumulation.groups([batch()], size), {"size": 2}),
    "accumulation.train_in_groups": (lambda **sizes: step(**sizes), {"size": 2, "first": 1}),
    "distributed.rows_of": (lambda count: distributed.rows_of(batch(), 0, count), {"count": 2}),
}
NOT_NEGATIVE: dict[str, tuple[Callable, dict[str, int]]] = {
    "coreference.Coreference": (lambda **places: coreference.Coreference(("it", "b", "c"), **places), {"actor": 1, "object": 2, "referent": 2}),
    "distributed.rows_of": (lambda rank: distributed.rows_of(batch(), rank, 2), {"rank": 0}),
    "ablation.zero_heads": (lambda heads: ablation.zero_heads(heads), {"heads": 0}),
    "ablation.uniform_heads": (lambda heads: ablation.uniform_heads(heads), {"heads": 0}),
    "ablation.replace_heads": (lambda heads: ablation.replace_heads(x(1, 2, 3, 3), heads), {"heads": 0}),
}


def step(**changes: object) -> float:
    linear, optimizer = small()
    run = {"model": linear, "batches": [batch()], "loss_of": lambda *_: linear.weight.sum(), "optimizer": optimizer}
    return next(accumulation.train_in_groups(**(run | {"rate": lambda _: 0.1} | changes)))


for least, sizes_of in ((1, SIZES), (0, NOT_NEGATIVE)):
    for function, (call, sizes) in sizes_of.items():
        for size in sizes:
            for error, value in [(ValueError, least - 1), (ValueError, -3), (TypeError, True), (TypeError, 2.0), (TypeError, "2")]:
                bad(function, f"{size}={value!r}", error, with_one_wrong(call, sizes, size, value), size, f"at least {least}", f"got {value!r}")

# what draws by chance takes a generator, not a seed

for function, call in {
    "sampling.sample": lambda one: sample(generator=one),
    "toy_tasks.recall_task": lambda one: toy_tasks.recall_task(3, 5, 2, 12, one),
    "toy_tasks.two_relations_task": lambda one: toy_tasks.two_relations_task(3, 5, 12, one),
    "toy_tasks.sort_task": lambda one: toy_tasks.sort_task(3, 5, 12, one),
    "toy_tasks.rank_task": lambda one: toy_tasks.rank_task(3, 5, 12, one),
    "toy_tasks.shift_task": lambda one: toy_tasks.shift_task(3, 5, 12, one, offset=1),
    "coreference.coreference_twins": lambda one: coreference.coreference_twins(3, one),
}.items():
    for value, kind in ((0, "int"), (None, "NoneType"), (torch, "module")):
        bad(function, f"generator is a {kind}", TypeError, lambda f=call, v=value: f(v), "generator", "Generator", kind)

# sampling and diverse beams

for function, call in {"temperature_logits": lambda v: sampling.temperature_logits(x(2, 9), v), "sample": lambda v: sample(temperature=v), "draw": lambda v: sampling.draw(x(2, 9), ONE, temperature=v)}.items():
    bad(f"sampling.{function}", "temperature=10**400", ValueError, lambda f=call: f(10**400), "temperature", "finite", "1329 bits")
for function, call in {"diverse_beam_search": lambda v: diverse(alpha=v), "advance_in_turn": lambda v: diverse_beam.advance_in_turn(PARTS, x(1, 2, 2, 9), v, 1.0)}.items():
    bad(f"diverse_beam.{function}", "10**400", ValueError, lambda f=call: f(10**400), "at least 0 and finite", "1329 bits")
bad("sampling.draw", "a seed", TypeError, lambda: sampling.draw(x(2, 9), 0), "generator", "Generator", "int")
bad("sampling.draw", "no token allowed", ValueError, lambda: sampling.draw(torch.full((1, 3), -math.inf), ONE), "finite largest value", "-inf")
bad("sampling.draw", "p=0", ValueError, lambda: sampling.draw(x(2, 9), ONE, p=0), "p must be above 0", "got 0")
bad("sampling.draw", "k=0", ValueError, lambda: sampling.draw(x(2, 9), ONE, k=0), "k must be at least 1", "got 0")

PARTS = [decoding.Beams.start(ids(1, 3), 2) for _ in range(2)]
for value, error in ((-0.1, ValueError), (math.nan, ValueError), (math.inf, ValueError), ("1", TypeError), (True, TypeError), (None, TypeError)):
    for name, call in {"temperature_logits": lambda v: sampling.temperature_logits(x(2, 9), v), "sample": lambda v: sample(temperature=v)}.items():
        bad(f"sampling.{name}", f"temperature={value!r}", error, lambda f=call, v=value: f(v), "temperature", "at least 0", f"got {value!r}")
    bad("diverse_beam.diverse_beam_search", f"strength={value!r}", error, lambda v=value: diverse(strength=v), "strength", "at least 0", f"got {value!r}")
    bad("diverse_beam.advance_in_turn", f"strength={value!r}", error, lambda v=value: diverse_beam.advance_in_turn(PARTS, x(1, 2, 2, 9), v, 1.0), "strength", "at least 0", f"got {value!r}")
    bad("diverse_beam.diverse_beam_search", f"alpha={value!r}", error, lambda v=value: diverse(alpha=v), "alpha", "at least 0", f"got {value!r}")
for value, error in ((0, ValueError), (-0.1, ValueError), (1.1, ValueError), (math.nan, ValueError), ("1", TypeError), (True, TypeError), (None, TypeError)):
    for name, call in {"top_p_logits": lambda v: sampling.top_p_logits(x(2, 9), v), "sample": lambda v: sample(p=v)}.items():
        bad(f"sampling.{name}", f"p={value!r}", error, lambda f=call, v=value: f(v), "p must be", "above 0 and at most 1", f"got {value!r}")
for name, call in {"temperature_logits": lambda v: sampling.temperature_logits(v, 1.0), "top_k_logits": lambda v: sampling.top_k_logits(v, 2), "top_p_logits": lambda v: sampling.top_p_logits(v, 0.5)}.items():
    bad(f"sampling.{name}", "a list", TypeError, lambda f=call: f([0.5, 1.0]), "logits", "tensor", "list")
    bad(f"sampling.{name}", "integers", TypeError, lambda f=call: f(ids(2, 9)), "logits", "floating point", "int64")
    bad(f"sampling.{name}", "one number", ValueError, lambda f=call: f(torch.tensor(0.5)), "logits", "1 dimension", "[]")
    bad(f"sampling.{name}", "no vocabulary", ValueError, lambda f=call: f(x(2, 0)), "logits", "at least one token", "[2, 0]")
    bad(f"sampling.{name}", "no token allowed", ValueError, lambda f=call: f(torch.full((2, 9), -math.inf)), "logits", "finite", "-inf")
    bad(f"sampling.{name}", "NaN", ValueError, lambda f=call: f(torch.tensor([0.0, math.nan])), "logits", "finite", "nan")
for name, call in {"sampling.sample": sample, "diverse_beam.diverse_beam_search": diverse}.items():
    bad(name, "a model that is none", TypeError, lambda f=call: f(model=torch.nn.Linear(2, 2)), "model", "Transformer", "Linear")
    bad(name, "a model in training", ValueError, lambda f=call: f(model=translator()), "evaluation mode", "training mode")
    bad(name, "source of vectors", TypeError, lambda f=call: f(source=x(2, 3)), "source", "integer", "float32")
    bad(name, "source without a batch", ValueError, lambda f=call: f(source=ids(3)), "source", "[batch position]", "[3]")
    bad(name, "source beyond the vocabulary", ValueError, lambda f=call: f(source=9 * ids(2, 3)), "source", "0 to 8", "9")
    bad(name, "source too long", ValueError, lambda f=call: f(source=ids(2, 7)), "6 positions", "7")
bad("diverse_beam.diverse_beam_search", "groups don't divide", ValueError, lambda: diverse(beam=4, groups=3), "divide", "beam = 4", "groups = 3")
bad("diverse_beam.diverse_beam_search", "max_length=0", ValueError, lambda: diverse(max_length=0), "max_length", "at least 1", "0")
bad("diverse_beam.advance_in_turn", "a group too many", ValueError, lambda: diverse_beam.advance_in_turn(PARTS, x(1, 3, 2, 9), 0.5, 1.0), "[batch groups beam vocabulary]", "2 groups", "[1, 3, 2, 9]")
bad("diverse_beam.advance_in_turn", "no groups", ValueError, lambda: diverse_beam.advance_in_turn(PARTS, x(2, 2, 9), 0.5, 1.0), "[batch groups beam vocabulary]", "[2, 2, 9]")
for what, wrong in {"another batch": x(2, 2, 2, 9), "another number of beams": x(1, 2, 3, 9), "no vocabulary": x(1, 2, 2, 0)}.items():
    bad("diverse_beam.advance_in_turn", what, ValueError, lambda w=wrong: diverse_beam.advance_in_turn(PARTS, w, 0.5, 1.0), "[batch groups beam vocabulary]", "[1, 2, 2]", str(list(wrong.shape)))
for parts, words in ((None, ("sequence of Beams", "None")), (3, ("sequence of Beams", "3")), ([1, 2], ("Beams", "got 1 of type int"))):
    bad("diverse_beam.advance_in_turn", f"parts={parts}", TypeError, lambda p=parts: diverse_beam.advance_in_turn(p, x(1, 2, 2, 9), 0.5, 1.0), "parts", *words)
bad("diverse_beam.advance_in_turn", "no parts", ValueError, lambda: diverse_beam.advance_in_turn([], x(1, 0, 2, 9), 0.5, 1.0), "at least one group", "none")
bad("diverse_beam.advance_in_turn", "parts of unequal width", ValueError, lambda: diverse_beam.advance_in_turn([PARTS[0], decoding.Beams.start(ids(1, 3), 3)], x(1, 2, 2, 9), 0.5, 1.0), "[batch beam] = [1, 2]", "[1, 3]")
bad("diverse_beam.advance_in_turn", "a list", TypeError, lambda: diverse_beam.advance_in_turn(PARTS, [[1.0]], 0.5, 1.0), "log_probability", "tensor", "list")

# toy tasks and coreference

for name, call in {"two_relations_task": lambda v: toy_tasks.two_relations_task(3, 5, v, ONE), "sort_task": lambda v: toy_tasks.sort_task(3, 5, v, ONE), "recall_task": lambda v: toy_tasks.recall_task(3, 5, 2, v, ONE), "shift_task": lambda v: toy_tasks.shift_task(3, 5, v, ONE, offset=1)}.items():
    bad(f"toy_tasks.{name}", "vocabulary too small", ValueError, lambda f=call: f(5), "vocabulary", "4 special tokens", "so at least", "5")
bad("toy_tasks.rank_task", "no id for the last rank", ValueError, lambda: toy_tasks.rank_task(3, 9, 12, ONE), "vocabulary", "so at least 13", "12")
bad("toy_tasks.recall_task", "beyond the start", ValueError, lambda: toy_tasks.recall_task(3, 5, 5, 12, ONE), "distance", "length = 5", "5")
for value, error, words in (((1, 1), ValueError, ("two different", "(1, 1)")), ((1,), ValueError, ("two different", "(1,)")), ((0, 1), ValueError, ("first_offset", "at least 1", "0")), ((1, 1.5), TypeError, ("second_offset", "int", "1.5")), ([1, 2], TypeError, ("offsets", "tuple", "list"))):
    bad("toy_tasks.two_relations_task", f"offsets={value}", error, lambda v=value: toy_tasks.two_relations_task(3, 5, 12, ONE, offsets=v), *words)
bad("toy_tasks.shifted", "a list", TypeError, lambda: toy_tasks.shifted([[4]], 1), "rows", "tensor", "list")
bad("toy_tasks.shifted", "one row", ValueError, lambda: toy_tasks.shifted(ids(3), 1), "rows", "[batch position]", "[3]")
bad("coreference.coreference_twins", "too many", ValueError, lambda: coreference.coreference_twins(2521, ONE), "at most 2520", "2521")
bad("coreference.coreference_twins", "too many held out", ValueError, lambda: coreference.coreference_twins(631, ONE, held_out=True), "at most 630", "631")
bad("coreference.coreference_twins", "held out by number", TypeError, lambda: coreference.coreference_twins(1, ONE, held_out=1), "held_out", "bool", "int")
bad("coreference.Coreference", "no pronoun", ValueError, lambda: coreference.Coreference(("a", "b"), 0, 1, 1), "'it' once", "'a b'")
bad("coreference.Coreference", "two pronouns", ValueError, lambda: coreference.Coreference(("it", "it", "b"), 0, 1, 1), "'it' once", "'it it b'")
bad("coreference.Coreference", "place outside", ValueError, lambda: coreference.Coreference(("it", "b"), 1, 2, 1), "0 to 1", "'object': 2")
bad("coreference.Coreference", "referent is no noun", ValueError, lambda: coreference.Coreference(("it", "b", "c"), 1, 2, 0), "referent one of", "'referent': 0")

# observation and ablation


def recorded(**changes: object) -> object:
    with observe.record_attention(**({"model": MODEL} | changes)) as found:
        return found


def edited(edits: object, model: object = HEADS) -> object:
    with ablation.edit_attention(model, edits):
        return model(x(2, 3, 8), x(2, 3, 8))


def watched(*arguments: object) -> None:
    with observe.watching(*arguments):
        HEADS(x(2, 3, 8), x(2, 3, 8))


for name, call in {"observe.record_attention": lambda m: recorded(model=m), "observe.attention_modules": observe.attention_modules, "ablation.edit_attention": lambda m: edited({}, m)}.items():
    bad(name, "a model that is none", TypeError, lambda f=call: f("model"), "model", "Module", "str")
    bad(name, "a model without attention", ValueError, lambda f=call: f(torch.nn.Linear(2, 2)), "MultiHeadAttention", "Linear")
bad("observe.watching", "what is no attention", ValueError, lambda: watched({"out": HEADS.output}, lambda name, weights: weights), "out must compute its weights", "none")
bad("observe.watching", "no mapping", TypeError, lambda: watched([HEADS], lambda name, weights: weights), "modules", "Mapping", "list")
bad("observe.watching", "no function", TypeError, lambda: watched({"": HEADS}, None), "handle", "function", "None")
bad("observe.join", "no calls", ValueError, lambda: observe.join([]), "calls", "got none")
bad("observe.join", "one tensor", TypeError, lambda: observe.join(x(1, 2, 3, 3)), "calls", "Sequence", "Tensor")
bad("observe.join", "other batches", ValueError, lambda: observe.join([x(2, 2, 1, 1), x(3, 2, 1, 2)]), "[2, 2]", "[3, 2]")
bad("observe.join", "no heads", ValueError, lambda: observe.join([x(2, 1, 1)]), "weights", "[2, 1, 1]")
bad("ablation.edit_attention", "unknown module", ValueError, lambda: edited({"encoder": ablation.zero_heads(0)}, MODEL), "encoder.layers.0.self_attention", "got encoder")
bad("ablation.edit_attention", "no function", TypeError, lambda: edited({"": x(1, 2, 3, 3)}), "functions", "Tensor")
bad("ablation.edit_attention", "no mapping", TypeError, lambda: edited([ablation.zero_heads(0)]), "edits", "Mapping", "list")
bad("ablation.edit_attention", "another shape", ValueError, lambda: edited({"": lambda w: w[:, :1]}), "shape [2, 2, 3, 3]", "[2, 1, 3, 3]")
bad("ablation.edit_attention", "another dtype", ValueError, lambda: edited({"": lambda w: w.double()}), "float32", "float64")
bad("ablation.edit_attention", "nothing returned", TypeError, lambda: edited({"": lambda w: None}), "edited weights", "tensor", "NoneType")
for name, edit in {"zero_heads": ablation.zero_heads(2), "uniform_heads": ablation.uniform_heads(2), "replace_heads": ablation.replace_heads(x(2, 2, 3, 3), 2)}.items():
    bad(f"ablation.{name}", "a head too high", ValueError, lambda e=edit: edited({"": e}), "heads must be from 0 to 1", "2")
bad("ablation.replace_heads", "weights of another sentence", ValueError, lambda: edited({"": ablation.replace_heads(x(2, 2, 4, 4))}), "[2, 2, 3, 3]", "[2, 2, 4, 4]")
bad("ablation.replace_heads", "one map", ValueError, lambda: ablation.replace_heads(x(3, 3)), "other", "[3, 3]")
bad("ablation.replace_heads", "a recording", TypeError, lambda: ablation.replace_heads([x(2, 2, 3, 3)]), "other", "tensor", "list")

# head statistics

STATISTICS: dict[str, Callable] = {
    "entropy": head_statistics.entropy,
    "normalised_entropy": lambda w, queries=None: head_statistics.normalised_entropy(w, None, queries),
    "mean_distance": head_statistics.mean_distance,
    "weight_at_offset": lambda w, queries=None: head_statistics.weight_at_offset(w, 0, queries),
    "weight_on_keys": lambda w, queries=None: head_statistics.weight_on_keys(w, yes(2, 4), queries),
    "similarity": head_statistics.similarity,
    "correlation": lambda w, queries=None: head_statistics.correlation(w, None, queries),
}
W = x(2, 3, 4, 4).softmax(-1)
for name, call in STATISTICS.items():
    name = f"head_statistics.{name}"
    bad(name, "a recording", TypeError, lambda f=call: f([W]), "weights", "tensor", "list")
    bad(name, "integers", TypeError, lambda f=call: f(ids(2, 3, 4, 4)), "weights", "floating point", "int64")
    bad(name, "one map", ValueError, lambda f=call: f(W[0, 0]), "weights", "4 dimensions", "[4, 4]")
    bad(name, "a dimension too many", ValueError, lambda f=call: f(W[None]), "weights", "[batch heads query key]", "[1, 2, 3, 4, 4]")
    for value in (math.nan, math.inf, -math.inf):
        bad(name, f"weights of {value}", ValueError, lambda f=call, v=value: f(W.clone().index_fill_(3, torch.tensor([1]), v)), "weights must be finite", f"got {value}")
    bad(name, "no key", ValueError, lambda f=call: f(x(2, 3, 4, 0)), "a query and a key", "[2, 3, 4, 0]")
    bad(name, "no query", ValueError, lambda f=call: f(x(2, 3, 0, 4)), "a query and a key", "[2, 3, 0, 4]")
    bad(name, "queries of numbers", TypeError, lambda f=call: f(W, ids(2, 4)), "queries", "boolean", "int64")
    bad(name, "queries of one sentence", ValueError, lambda f=call: f(W, yes(4)), "queries", "[2, 4]", "[4]")
    bad(name, "no query counts", ValueError, lambda f=call: f(W, ~yes(2, 4)), "at least one query", "none")
    bad(name, "queries as a list", TypeError, lambda f=call: f(W, [True]), "queries", "boolean", "list")
for name in ("normalised_entropy", "correlation"):
    call = getattr(head_statistics, name)
    bad(f"head_statistics.{name}", "mask of numbers", TypeError, lambda f=call: f(W, x(4, 4)), "mask", "boolean", "float32")
    bad(f"head_statistics.{name}", "mask of another length", ValueError, lambda f=call: f(W, yes(5, 5)), "mask", "[2, 3, 4, 4]", "[5, 5]")
bad("head_statistics.weight_at_offset", "half an offset", TypeError, lambda: head_statistics.weight_at_offset(W, 0.5), "offset", "int", "0.5")
bad("head_statistics.weight_at_offset", "offset beyond", ValueError, lambda: head_statistics.weight_at_offset(W, 4), "at least one query", "none")
bad("head_statistics.weight_on_keys", "tokens", TypeError, lambda: head_statistics.weight_on_keys(W, ids(2, 4)), "keys", "boolean", "int64")
bad("head_statistics.weight_on_keys", "keys of another length", ValueError, lambda: head_statistics.weight_on_keys(W, yes(2, 5)), "keys", "[2, 4]", "[2, 5]")

# accumulation and processes

NONE = Batch(ids(1, 2), 0 * ids(1, 2))
for name, call in {"accumulate": lambda group, loss_of: accumulation.accumulate(small()[0], group, loss_of), "train_in_groups": lambda group, loss_of: step(batches=group, loss_of=loss_of)}.items():
    name = f"accumulation.{name}"
    bad(name, "pairs", TypeError, lambda f=call: f([(ids(1, 2), ids(1, 2))], small), "Batch", "tuple")
    bad(name, "all padding", ValueError, lambda f=call: f([NONE], small), "real target tokens", "1 batches without")
    bad(name, "loss is a number", TypeError, lambda f=call: f([batch()], lambda *_: 0.5), "loss", "tensor", "float")
    bad(name, "a loss for each token", ValueError, lambda f=call: f([batch()], lambda *_: torch.ones(2)), "one finite number", "[1.0, 1.0]")
    bad(name, "loss not finite", ValueError, lambda f=call: f([batch()], lambda *_: torch.tensor(math.nan)), "one finite number", "nan")
for value in (None, 3, "oops"):
    bad("accumulation.accumulate", f"group={value!r}", TypeError, lambda v=value: accumulation.accumulate(small()[0], v, lambda *_: None), "group", "sequence of Batch", f"got {value!r}")
    bad("accumulation.groups", f"batches={value!r}", TypeError, lambda v=value: accumulation.groups(v, 2), "batches", "iterable", f"got {value!r}")
    bad("accumulation.train_in_groups", f"batches={value!r}", TypeError, lambda v=value: step(batches=v), "batches", "iterable", f"got {value!r}")
    bad("accumulation.accumulate", f"loss_of={value!r}", TypeError, lambda v=value: accumulation.accumulate(small()[0], [batch()], v), "loss_of", "function", f"got {value!r}")
    for name in ("loss_of", "rate"):
        bad("accumulation.train_in_groups", f"{name}={value!r}", TypeError, lambda n=name, v=value: step(**{n: v}), name, "function", f"got {value!r}")
    bad("accumulation.accumulate", f"scaler={value!r}", TypeError, lambda v=value or 1.0: accumulation.accumulate(small()[0], [batch()], lambda *_: None, v), "scaler", "GradScaler", type(value or 1.0).__name__)
bad("accumulation.accumulate", "an empty group", ValueError, lambda: accumulation.accumulate(small()[0], [], small), "a group must hold batches", "0 batches")
bad("accumulation.train_in_groups", "a model that is none", TypeError, lambda: step(model="model"), "model", "Module", "str")
bad("accumulation.train_in_groups", "an optimiser that is none", TypeError, lambda: step(optimizer=0.1), "optimizer", "Optimizer", "float")
bad("accumulation.train_in_groups", "a scale for a scaler", TypeError, lambda: step(scaler=65536.0), "scaler", "GradScaler", "float")
bad("accumulation.gradient_scaler", "unknown device", ValueError, lambda: accumulation.gradient_scaler("gpu", torch.float16), "device", "'cuda'", "'gpu'")
bad("accumulation.gradient_scaler", "a string", TypeError, lambda: accumulation.gradient_scaler("cpu", "fp16"), "precision", "dtype", "str")
bad("distributed.rows_of", "a pair", TypeError, lambda: distributed.rows_of((ids(1, 2), ids(1, 2)), 0, 1), "batch", "Batch", "tuple")
bad("distributed.rows_of", "rank as count", ValueError, lambda: distributed.rows_of(Batch(ids(5, 2), ids(5, 2)), 2, 2), "rank", "below 2", "got 2")
bad("distributed.rows_of", "more processes than rows", ValueError, lambda: distributed.rows_of(batch(), 1, 2), "1 rows for 2 processes", "got 1")
bad("distributed.shared_loss", "no function", TypeError, lambda: distributed.shared_loss(0.5), "loss_of", "function", "float")
bad("distributed.shared_loss", "without a group", ValueError, lambda: distributed.shared_loss(lambda *_: None)(MODEL, batch()), "process_group", "none")

# fmt: on

NOTHING_TO_GET_WRONG = {"coreference.coreference_tokeniser", "distributed.process_group"}  # no arguments


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}: {case.what}")
def test_the_error_says_what_was_wanted_and_what_came(case):
    table.check(case)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_its_cases_of_bad_input(name):
    module = importlib.import_module(f"transformer_lib.{name}")
    public, tested = table.public_names(module), {case.name for case in CASES}
    assert public and public - tested - NOTHING_TO_GET_WRONG == set()
    assert {case for case in tested if case.startswith(f"{name}.")} <= public


def test_this_file_sees_the_library_without_the_shape_checker():
    assert not hasattr(sampling.top_k_logits, "__wrapped__") and not hasattr(head_statistics.entropy, "__wrapped__")


def test_fewer_gpus_than_processes_are_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with (
        pytest.raises(ValueError, match="a GPU for each process .*got 1 GPUs for process 1"),
        distributed.process_group(),
    ):
        pass
