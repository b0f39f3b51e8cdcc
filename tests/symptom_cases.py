"""What the checks of the symptom index are tried on: for each, what a reader would give, sound and then sick.

A case is a function of the names that the index's set-up makes for a sound model. It returns sets of further names, the
sound one first.
"""

import dataclasses
import functools
import math
import tempfile
from pathlib import Path
from types import SimpleNamespace

import faulty_models as faulty
import sacrebleu
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import accumulation as accumulate
from transformer_lib import (
    attention,
    data,
    files,
    masks,
    model,
    multi30k,
    multi_head,
    observe,
    positional,
    relative,
    training,
)
from transformer_lib.experiments import clinic, extrapolation

CAUSAL = masks.causal_mask(8)


def of(changed):
    """Return the names that depend on a model: itself in evaluation mode, its logits and its maps."""
    batch = faulty_batch()
    changed.eval()
    with observe.record_attention(changed) as recorded:
        logits = changed(batch.source, batch.target_input)
    maps = recorded["decoder.layers.0.self_attention"]
    return {"model": changed, "logits": logits} | ({"maps": maps[0]} if maps else {})


def faulty_batch():
    torch.manual_seed(1)
    return faulty.sentence_pairs()


def planted(cause, style="ours", variant=None):
    """Return the first model of ours with this planted fault, or the one of that variant."""
    torch.manual_seed(1)
    found = (p for p in faulty.FAULTS if p.cause == cause and p.style == style and variant in (None, p.variant))
    return next(found).make()[0][0]


def layer(to, out):
    return SimpleNamespace(query=nn.Linear(32, to), key=nn.Linear(32, out))


def by_position(x, first):
    return relative.RotaryPositions(8).rotate(x, first)


def by_head(x, first):  # turns by the number of the head
    return by_position(x.transpose(1, 2), first).transpose(1, 2)


def mixed_pairs(x, first):  # angles laid out for neighbours, parts exchanged as for halves
    angle = torch.arange(first, first + x.size(2)).unsqueeze(1) * 10000.0 ** (-torch.arange(0, 8, 2) / 8)
    angle, (low, high) = angle.repeat_interleave(2, dim=-1), x.chunk(2, dim=-1)
    return x * angle.cos() + torch.cat([-high, low], dim=-1) * angle.sin()


def turned(rotate):
    return {"scores": lambda first: rotate(Q, first) @ rotate(K, first).mT, "q": Q, "k": K}


def broken_norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)


def gradients(names, weigh):
    """Return a function that sums the gradients of one weight over some batches, each weighed in a way."""
    weight = names["model"].embedding.table

    def gradient(batches):
        tokens = [batch.target_tokens for batch in batches]
        losses = [training.translation_loss(names["model"], batch) for batch in batches]
        total = sum(loss * weigh(count, tokens) for loss, count in zip(losses, tokens, strict=True))
        return torch.autograd.grad(total, weight)[0]

    return gradient


def accumulation(names):
    batch = names["batch"]
    cut = [data.Batch(batch.source[rows], batch.target[rows]) for rows in (slice(0, 1), slice(1, 4))]

    def ours(batches):
        names["model"].zero_grad()
        accumulate.accumulate(names["model"], batches, training.translation_loss)
        return names["model"].embedding.table.grad.clone()

    given = {"whole": batch, "parts": cut}
    return given | {"gradient": ours}, given | {"gradient": gradients(names, lambda count, all_: 1 / len(all_))}


def after_backward(names):
    sound, sick = faulty.ours(), planted("no-gradient")
    for one in (sound, sick):
        training.translation_loss(one, names["batch"]).backward()
    return {"model": sound}, {"model": sick}


def first_loss(names):
    return {}, of(planted("loss-at-start"))


def masked(names):
    """Return a sound mask and the maps of a model that lets queries see later keys."""
    return {"mask": CAUSAL}, of(planted("mask-leak")) | {"mask": CAUSAL}


def padding_only(logits, labels):  # averages over padded labels, of which there may be none
    log_probability = logits.log_softmax(-1)
    padded = log_probability[labels == 0]
    return -log_probability[labels != 0].mean() - 0.1 * padded.mean()


def noisy(seed):
    return torch.rand(3).tolist()


def seeded(seed):
    return torch.rand(3, generator=torch.Generator().manual_seed(seed)).tolist()


def backwards(names):
    return {}, *({"model": planted(cause).eval()} for cause in ("positions-missing", "positions-wrong-axis"))


def heads_of(names, factor):
    one = multi_head.MultiHeadAttention(32, 4)
    with torch.no_grad():
        one.query.weight *= factor
    x = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(0))
    return attention.attention_weights(*(multi_head.split_heads(p(x), 4) for p in (one.query, one.key)), CAUSAL)


def striped(names):
    symbols, _ = extrapolation.three_back(8, 16, torch.Generator().manual_seed(5))
    ill = clinic.patient(0)
    ill.attention.query.bias = nn.Parameter(torch.randn(32, generator=torch.Generator().manual_seed(50)))
    return {"model": clinic.patient(0), "tokens": symbols}, {"model": ill, "tokens": symbols}


def not_finite():
    broken = faulty.ours()
    nn.init.constant_(broken.decoder.norm.weight, math.nan)
    return {"model": broken, "mask": CAUSAL}


def downloaded(names):
    """Return what asks for the data in a folder that holds files of their names, and in an empty one."""
    full, empty = (Path(tempfile.mkdtemp(prefix="symptoms-")) for _ in range(2))
    for name in multi30k.SHA256:
        files.write_whole(full / "multi30k" / f"{name}.gz", b"")
    asks = [SimpleNamespace(available=functools.partial(multi30k.available, folder)) for folder in (full, empty)]
    return tuple({"multi30k": ask} for ask in asks)


def bleu(names):
    cased, lower = sacrebleu.BLEU(), sacrebleu.BLEU(lowercase=True)
    for metric in (cased, lower):
        metric.corpus_score(["A dog runs."], [["A dog sleeps."]])
    theirs = cased.get_signature().format()
    return {"score": cased, "theirs": theirs}, {"score": lower, "theirs": theirs}


def frozen(names):
    sick = faulty.ours()
    for name, parameter in sick.named_parameters():
        parameter.requires_grad_(name == "decoder.norm.bias")
    return {}, {"model": sick}


def other_sizes(names):
    given = {"layers": 2, "heads": 4}
    swapped = model.Transformer(dataclasses.replace(names["model"].config, layers=4, heads=2))
    return given, given | {"model": swapped}


X = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(3))
Q, K = (torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(seed)) for seed in (4, 5))
TABLE = positional.sinusoidal_positions(24, 32)
STRIPED = torch.full((1, 2, 8, 8), 0.01).index_fill(3, torch.tensor([0]), 0.93)
FIRST = torch.tensor([[True] + [False] * 7])
PAIR = torch.tensor([[1, 5, 6, 7], [1, 5, 8, 9]])

MIXING = ("padding-attended", "batch-mixing")
CASES = {
    "64-meets-512": lambda n: ({"attention": layer(32, 32)}, {"attention": layer(8, 32)}),
    "which-axis-is-heads": lambda n: (
        {"split": multi_head.split_heads, "x": X, "heads": 4},
        {"split": lambda x, heads: x.view(2, heads, 8, 8), "x": X, "heads": 4},
    ),
    "swapped-arguments": other_sizes,
    "rotary-crashes": lambda n: (turned(by_position), turned(by_head), turned(mixed_pairs)),
    "snippet-fails": lambda n: ({"version": n["transformer_lib"].__version__}, {"version": "0.0"}),
    "test-passes-anyway": lambda n: ({"q": Q, "k": K}, {"q": Q * 1000, "k": K * 1000}),
    "too-good": lambda n: ({}, of(planted("mask-leak"))),
    "answer-in-the-input": lambda n: ({"read": n["batch"].target_input}, {"read": n["labels"]}),
    "nan": lambda n: ({"mask": CAUSAL}, {"mask": CAUSAL & (torch.arange(8) > 0)}, not_finite()),
    "smoothing-infinite": lambda n: ({"full": n["labels"][:1]}, {"full": n["labels"][:1], "loss": padding_only}),
    "loss-depends-on-padding": lambda n: ({}, {"loss": faulty.mean_over_all}),
    "first-loss": first_loss,
    "no-gradient": after_backward,
    "one-batch": frozen,
    "layer-norm": lambda n: ({"norm": nn.LayerNorm(32), "x": X}, {"norm": broken_norm, "x": X}),
    "accumulation": accumulation,
    "another-loss": lambda n: ({"train_once": seeded}, {"train_once": noisy}),
    "unfair-comparison": lambda n: (
        {"one": n["model"], "other": faulty.ours(positions="none")},
        {"one": n["model"], "other": faulty.ours(d_ff=96)},
    ),
    "stripes": striped,
    "flat-head": lambda n: (
        {"maps": heads_of(n, 1.0), "mask": CAUSAL},
        {"maps": heads_of(n, 0.0), "mask": CAUSAL},
    ),
    "first-token": lambda n: ({"maps": heads_of(n, 1.0)[:1], "first": FIRST}, {"maps": STRIPED, "first": FIRST}),
    "loud-positions": lambda n: (
        {"words": X, "positions": TABLE},
        {"words": 0.02 * X, "positions": TABLE},
    ),
    "rows": lambda n: ({}, {"maps": n["maps"] * masks.sliding_window_mask(8, 2)}),
    "above-the-diagonal": masked,
    "map-axes": lambda n: (
        {"maps": torch.rand(1, 2, 8, 7), "query_words": ["t"] * 8, "key_words": ["s"] * 7},
        {"maps": torch.rand(1, 2, 8, 7), "query_words": ["s"] * 7, "key_words": ["t"] * 8},
    ),
    "batch-changes-answers": lambda n: ({"n": 5}, *(of(planted(cause)) | {"n": 5} for cause in MIXING)),
    "other-answer-each-call": lambda n: ({}, {"model": planted("dropout-in-evaluation").eval()}),
    "cliff": lambda n: ({"length": 24}, {"model": faulty.our_untrained()[0][0], "length": 5}),
    "order-ignored": backwards,
    "other-sinusoids": lambda n: ({"table": TABLE}, {"table": faulty.foreign.sinusoids(24, 32, 10000.0, 2.0)}),
    "beams-alike": lambda n: ({"beams": PAIR.flip(1)}, {"beams": PAIR}),
    "beam-gives-nothing": lambda n: (
        {},
        {"decoding": SimpleNamespace(greedy=lambda *_: [[4]], beam_search=lambda *_, beam: [[5]])},
    ),
    "source-ignored": lambda n: ({}, of(planted("input-ignored"))),
    "start-symbol": lambda n: ({}, {"target": F.pad(n["target"][:, 1:], (1, 0))}),
    "bleu": bleu,
    "twice-the-heads": lambda n: (
        {"attention": layer(32, 32), "heads": 8},
        {"attention": layer(64, 64), "heads": 8},
    ),
    "out-of-memory": lambda n: (
        {"layers": 2, "heads": 4, "n": 64},
        {"layers": 12, "heads": 16, "n": 4096},
    ),
    "memory-grows": lambda n: ({"history": [1.0, 0.9]}, {"history": [n["logits"].sum()]}),
    "data-gone": downloaded,
    "half-precision": lambda n: (
        {"precision": training.best_precision("cpu")},
        {"precision": torch.float16},
    ),
    "not-installed": lambda n: ({}, {"importlib": SimpleNamespace(util=SimpleNamespace(find_spec=lambda _: None))}),
    "nothing-installs": lambda n: ({}, {"sys": SimpleNamespace(version_info=(3, 8, 1))}),
}
ONLY_SOUND = {"numpy-changed": "two builds of numpy would be needed"}
