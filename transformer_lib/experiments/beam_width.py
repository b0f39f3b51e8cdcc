"""Beam width against BLEU and against the model's own score on Multi30k's test set, a third of it for each seed.

A search has no chance in it. So the "seeds" are three parts of the 1,000 sentences, of which no two share one; what
BLEU counts can be added up over them (chapter 08).
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transformer_lib import multi30k
from transformer_lib.experiments.searches import Found, exact, search
from transformer_lib.generation import in_batches
from transformer_lib.translator import shipped

WIDTHS, ALPHAS = tuple(range(1, 11)), (1.0, 0.0)
PARTS = 3
WIDE, FEW = 50, 40  # a very wide beam; how many sentences of a part it and the exact search get
Counts = dict[str, Any]  # what BLEU counts: correct and total n-grams, words in outputs and references


def bleu_counts(outputs: Sequence[str], references: Sequence[str]) -> Counts:
    """Return what cased sacreBLEU counts over some sentences.

    Raises:
        ModuleNotFoundError: the package sacrebleu is missing.
    """
    from sacrebleu.metrics import BLEU

    found = BLEU().corpus_score(list(outputs), [list(references)])
    return {"correct": found.counts, "total": found.totals, "words": found.sys_len, "wanted": found.ref_len}


def bleu(parts: Sequence[Counts]) -> float:
    """Return BLEU, from 0 to 100, of all the parts together.

    The geometric mean of the four shares of n-grams that a reference holds, too, times exp(1 - wanted / words) where
    the outputs are too short; Papineni et al. (2002).

    Raises:
        ValueError: no output holds a right group of four words.
    """
    correct, total = (
        [sum(column) for column in zip(*(part[key] for part in parts), strict=True)] for key in ("correct", "total")
    )
    if not min(correct):
        raise ValueError(f"every kind of n-gram must be right somewhere, got {correct}")
    words, wanted = (sum(part[key] for part in parts) for key in ("words", "wanted"))
    mean = sum(math.log(c / t) for c, t in zip(correct, total, strict=True)) / len(correct)
    return 100 * math.exp(mean + min(0.0, 1 - wanted / words))


def part(number: int) -> list[tuple[str, str]]:
    """Return one of three parts of the test set, in a random order that is always the same.

    Raises:
        DataUnavailable: Multi30k is not on this machine and can't be downloaded.
    """
    pairs = multi30k.load_multi30k("test_2016_flickr")
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()
    return [pairs[i] for i in order[number % PARTS :: PARTS]]


def by_width(sources: Sequence[list[int]], beam: int) -> dict[float, list[Found]]:
    """Return what a search with this beam finds, for each length penalty."""
    model = shipped().model

    def decode(source: Tensor) -> list[tuple[Found, ...]]:
        return list(zip(*search(model, source, beam, ALPHAS).values(), strict=True))

    return dict(zip(ALPHAS, zip(*in_batches(sources, decode), strict=True), strict=True))


def record(seed: int) -> dict[str, Any]:
    """Return BLEU, scores, lengths and search errors by width, for one part of the test set."""
    torch.set_num_threads(1)
    pairs, known = part(seed), shipped()
    sources = known.tokeniser.encode_all(source for source, _ in pairs)
    found = {beam: by_width(sources, beam) for beam in WIDTHS}
    measured: dict[str, Any] = {"sentences": len(pairs), "widths": list(WIDTHS)}
    for alpha in ALPHAS:
        measured[f"alpha {alpha:g}"] = _measures([found[beam][alpha] for beam in WIDTHS], pairs, alpha)
    return measured | {"few": _few(pairs[:FEW], sources[:FEW], {w: found[w][0.0][:FEW] for w in WIDTHS})}


def _measures(by_beam: list[Sequence[Found]], pairs: list[tuple[str, str]], alpha: float) -> dict[str, Any]:
    """Return a list over the widths of each thing that is measured."""
    compared = torch.tensor([[one.compared(alpha) for one in found] for found in by_beam])
    known = compared.amax(dim=0)
    counts = [_counts(found, pairs) for found in by_beam]
    return {
        "bleu": [round(bleu([one]), 2) for one in counts],
        "log_probability": [_mean([one.score for one in found]) for found in by_beam],
        "compared": [_mean(row) for row in compared.tolist()],
        "length": [round(one["words"] / one["wanted"], 4) for one in counts],
        "empty": [sum(not one.tokens for one in found) for found in by_beam],
        "worse_than_known": [round((row < known - 1e-3).double().mean().item(), 4) for row in compared],
        "counts": counts,
    }


def _few(pairs: list[tuple[str, str]], sources: list[list[int]], found: dict[int, Sequence[Found]]) -> dict[str, Any]:
    """Compare widths, a very wide beam and the exact search, without a length penalty, on a few sentences."""
    model, wide = shipped().model, by_width(sources, WIDE)[0.0]
    best = [max((found[w][i] for w in found), key=lambda one: one.score) for i in range(len(sources))]
    best = [max(one, other, key=lambda one: one.score) for one, other in zip(best, wide, strict=True)]
    true = [exact(model, torch.tensor([row]), one) for row, one in zip(sources, best, strict=True)]
    solved = [i for i, one in enumerate(true) if one is not None]
    ways = {str(w): found[w] for w in (1, 5, 10)} | {str(WIDE): wide, "exact": true}
    kept = {name: [outputs[i] for i in solved] for name, outputs in ways.items()}
    counts = {name: _counts(outputs, [pairs[i] for i in solved]) for name, outputs in kept.items()}
    return {
        "solved": len(solved),
        "bleu": {name: round(bleu([one]), 2) for name, one in counts.items()},
        "length": {name: round(one["words"] / one["wanted"], 4) for name, one in counts.items()},
        "log_probability": {name: _mean([one.score for one in outputs]) for name, outputs in kept.items()},
        "empty": {name: sum(not one.tokens for one in outputs) for name, outputs in kept.items()},
        "missed": {str(w): sum(found[w][i].score < true[i].score - 1e-3 for i in solved) for w in WIDTHS}
        | {str(WIDE): sum(wide[i].score < true[i].score - 1e-3 for i in solved)},
        "counts": counts,
    }


def _counts(found: Sequence[Found], pairs: list[tuple[str, str]]) -> Counts:
    outputs = [shipped().tokeniser.decode(one.tokens) for one in found]
    return bleu_counts(outputs, [reference for _, reference in pairs])


def _mean(numbers: Sequence[float]) -> float:
    return round(sum(numbers) / len(numbers), 4)
