"""What does label smoothing do to accuracy, perplexity and BLEU? A small translator of short captions. (chapter 07)"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch

from transformer_lib import checks, fast, multi30k, training, translator
from transformer_lib.data import PADDING, Batch, Pair, batches, encode_pairs
from transformer_lib.experiments import translation
from transformer_lib.experiments.steps import one_thread
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.tokeniser import Tokeniser, WordTokeniser, train_tokeniser

SMOOTHINGS = (0.0, 0.1, 0.3)
WORDS, VOCABULARY, TOKENS_PER_BATCH = 8, 1500, 1024
EPOCHS, WARMUP, PEAK = 8, 60, 6e-3
SIZES = {"d_model": 64, "layers": 1, "d_ff": 128, "heads": 4, "dropout": 0.1}
Lines = list[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Data:
    """Sentence pairs, as text and as ids, and the tokeniser between the two.

    Args:
        held_out: pairs that are never trained on.
    """

    tokeniser: Tokeniser | WordTokeniser
    pairs: Sequence[Pair]
    held_out: Lines


@cache
def captions() -> Data:
    """Return the pairs of Multi30k with at most eight words a side; held out are those of its two other parts.

    Raises:
        DataUnavailable: Multi30k is not on this machine and can't be downloaded.
    """
    train, *others = (_short(multi30k.load_multi30k(split)) for split in multi30k.SPLITS)
    tokeniser = train_tokeniser((line for pair in train for line in pair), VOCABULARY)
    return Data(
        tokeniser=tokeniser, pairs=encode_pairs(train, tokeniser), held_out=[p for part in others for p in part]
    )


def _short(lines: Lines) -> Lines:
    return [pair for pair in lines if max(len(line.split()) for line in pair) <= WORDS]


def train_with(smoothing: float, data: Data, *, seed: int, epochs: int = EPOCHS) -> Transformer:
    """Train a translator by Adam with a warm-up and a linear fall; each smoothing meets the same start and batches."""
    checks.probability(smoothing=smoothing)
    checks.positive(epochs=epochs)
    generator, plan = torch.Generator().manual_seed(seed), []
    for _ in range(epochs):
        plan += batches(data.pairs, TOKENS_PER_BATCH, generator=generator)
    warmup = min(WARMUP, len(plan))

    def rate(step: int) -> float:
        return PEAK * min(step / warmup, training.linear_tail(step, len(plan), max(1, len(plan) - warmup)))

    with torch.random.fork_rng(devices=[]), one_thread(), fast.enabled():
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(vocabulary=len(data.tokeniser), **SIZES))
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
        for _ in training.train(model, plan, partial(fast.translation_loss, smoothing=smoothing), optimizer, rate):
            pass
    return model.eval()


def judge(model: Transformer, data: Data) -> dict[str, float]:
    """Return how the model does on what it was not trained on, teacher forcing: all without smoothing.

    "perplexity" is e to the loss, "accuracy" the share of next tokens that are right, "confidence" the mean probability
    of the likeliest one: a model that knows what it knows has as much of the one as of the other.
    """
    held_out = batches(encode_pairs(data.held_out, data.tokeniser), 4 * TOKENS_PER_BATCH)
    return {
        "perplexity": math.exp(training.evaluate(model, held_out)),
        "accuracy": translation.accuracy(model, held_out),
        "confidence": confidence(model, held_out),
    }


@torch.no_grad()
def confidence(model: Transformer, held_out: Sequence[Batch]) -> float:
    """Return the mean probability that the model gives to the token that it finds likeliest, teacher forcing."""
    total, tokens = 0.0, 0
    for batch in held_out:
        largest = model(batch.source, batch.target_input).softmax(dim=-1).amax(dim=-1)
        total += largest[batch.labels != PADDING].sum().item()
        tokens += batch.target_tokens
    return total / tokens


def bleu(model: Transformer, data: Data, beam: int) -> float:
    """Return the cased sacreBLEU of the model's own translations of what it was not trained on."""
    from sacrebleu.metrics import BLEU  # only this experiment of the library needs it

    sources, references = zip(*data.held_out, strict=True)
    said = translator.Translator(model, data.tokeniser).translate(sources, beam=beam)
    return BLEU().corpus_score(said, [list(references)]).score


def record(seed: int) -> dict[str, Any]:
    """Return what the full run finds for each smoothing: the three numbers of `judge`, and BLEU."""
    found: dict[str, Any] = {}
    for smoothing in SMOOTHINGS:
        model = train_with(smoothing, captions(), seed=seed)
        scores = {name: round(value, 4) for name, value in judge(model, captions()).items()}
        scores |= {
            "bleu greedy": round(bleu(model, captions(), 1), 2),
            "bleu beam 5": round(bleu(model, captions(), 5), 2),
        }
        found[str(smoothing)] = scores
    return found
