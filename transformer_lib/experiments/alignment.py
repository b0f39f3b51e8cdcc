"""Does cross-attention find which word translates which? Whose keys and values may it use? (chapter 06)"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lib import checks, fast, observe, toy_grammar, training
from transformer_lib.data import PADDING, Batch, Pair, batches, encode_pairs
from transformer_lib.experiments.steps import count_parameters
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.toy_grammar import ToyPair

SENTENCES, HELD_OUT = 4200, 200
D_MODEL, HEADS, D_FF, LAYERS = 64, 4, 128, 2
TOKENS_PER_BATCH, RATE, WARMUP = 512, 4e-3, 40
SHARING = ("own", "last encoder layer", "same encoder layer", "own decoder layer")
Links = frozenset[tuple[int, int]]  # (place in source, place in target), as in `ToyPair.alignment`


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A small translator of the toy grammar and how well it does on sentences that it wasn't trained on.

    Args:
        parameters: number of trained numbers, shared ones counted once.
        losses: one per step, in nats per target token.
        loss: on the held-out sentences, in nats per target token.
        accuracy: share of their next tokens that are right, teacher forcing.
    """

    model: Transformer
    parameters: int
    losses: list[float]
    loss: float
    accuracy: float


def sentences() -> tuple[list[ToyPair], list[ToyPair]]:
    """Return what is trained on and what is held out: the same sentences for every seed of the training."""
    chance = torch.Generator().manual_seed(0)
    return toy_grammar.split_sentences(toy_grammar.sample_sentences(SENTENCES, chance), HELD_OUT, chance)


def share_projections(model: Transformer, sharing: str) -> None:
    """Let each cross-attention use another attention's W_k and W_v in place of its own.

    Args:
        sharing: "own" changes nothing; else whose self-attention lends its two: that of the "last encoder layer", of
            the encoder layer of the same number, or of its own decoder layer.

    Raises:
        ValueError: `sharing` is something else.
    """
    checks.one_of(SHARING, sharing=sharing)
    if sharing == "own":
        return
    for own, same in zip(model.decoder.layers, model.encoder.layers, strict=True):
        lenders = dict(zip(SHARING[1:], (model.encoder.layers[-1], same, own), strict=True))
        lender = lenders[sharing].self_attention
        own.cross_attention.key, own.cross_attention.value = lender.key, lender.value


def train_translator(sharing: str = "own", *, seed: int, steps: int = 160) -> Trained:
    """Train an encoder and a decoder of two layers on the toy grammar; Adam, warm-up and a linear fall of the rate.

    Args:
        sharing: as for `share_projections`.
    """
    checks.positive(steps=steps)
    model = fresh_translator(sharing, seed)
    known, held_out = (_encoded(part) for part in sentences())
    generator, epochs = torch.Generator().manual_seed(seed), []
    while len(epochs) < steps:
        epochs += batches(known, TOKENS_PER_BATCH, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))

    def rate(step: int) -> float:
        return RATE * min(step / WARMUP, training.linear_tail(step, steps, max(1, steps - WARMUP)))

    loss_of = partial(fast.translation_loss, smoothing=0.0)
    with fast.enabled():
        losses = list(training.train(model, epochs[:steps], loss_of, optimizer, rate))
    model.eval()
    loss, accuracy = _tested(model, Batch.from_pairs(held_out))
    return Trained(model=model, parameters=count_parameters(model), losses=losses, loss=loss, accuracy=accuracy)


def fresh_translator(sharing: str, seed: int) -> Transformer:
    """Return the translator before training; `sharing` as for `share_projections`."""
    sizes = {"d_model": D_MODEL, "heads": HEADS, "d_ff": D_FF, "layers": LAYERS, "dropout": 0.0, "max_length": 32}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(vocabulary=len(toy_grammar.grammar_tokeniser()), **sizes))
    share_projections(model, sharing)
    return model


def _encoded(pairs: Sequence[ToyPair]) -> list[Pair]:
    return encode_pairs([pair.text for pair in pairs], toy_grammar.grammar_tokeniser())


@torch.no_grad()
def _tested(model: Transformer, batch: Batch) -> tuple[float, float]:
    said, real = model(batch.source, batch.target_input).argmax(dim=-1), batch.labels != PADDING
    return training.evaluate(model, [batch]), (said == batch.labels)[real].float().mean().item()


@torch.no_grad()
def cross_weights(model: Transformer, pairs: Sequence[ToyPair]) -> list[list[Float[Tensor, "heads target source"]]]:
    """Return for each sentence the weights of its cross-attention, layer by layer, without padding."""
    batch = Batch.from_pairs(_encoded(pairs))
    with observe.record_attention(model) as found:
        model(batch.source, batch.target_input)
    layers = [calls[0] for name, calls in found.items() if name.endswith("cross_attention")]
    return [
        [weights[row, :, : len(pair.target) + 1, : len(pair.source)] for weights in layers]
        for row, pair in enumerate(pairs)
    ]


def links(weights: Float[Tensor, "target source"], reading: bool = False) -> Links:
    """Return one link for each target word: to the source word that gets the largest weight.

    Args:
        weights: one row for each token that the decoder reads, the start token first.
        reading: False takes the row in which the decoder writes the word, True the next one, in which it reads it.
    """
    rows = weights[1:] if reading else weights[:-1]
    return frozenset((source, target) for target, source in enumerate(rows.argmax(dim=-1).tolist()))


def alignment_error_rate(found: Sequence[Links], true: Sequence[Links]) -> float:
    """Return 1 - 2 |found and true| / (|found| + |true|), counted over all sentences: 0 is perfect, 1 all wrong.

    Och & Ney (2003), where every true link is a sure one.

    Raises:
        ValueError: there are not as many sets of one kind as of the other, or all are empty.
    """
    size = sum(map(len, found)) + sum(map(len, true))
    if len(found) != len(true) or not size:
        raise ValueError(f"found and true must be of the same sentences, got {len(found)} and {len(true)}")
    return 1 - 2 * sum(len(a & b) for a, b in zip(found, true, strict=True)) / size


def error_rates(model: Transformer, pairs: Sequence[ToyPair], reading: bool = False) -> list[list[float]]:
    """Return the alignment error rate of each head: layer by layer, head by head; `reading` as for `links`."""
    true, layers = [pair.alignment for pair in pairs], zip(*cross_weights(model, pairs), strict=True)
    return [
        [alignment_error_rate([links(weights[head], reading) for weights in layer], true) for head in range(HEADS)]
        for layer in layers
    ]


def baselines(pairs: Sequence[ToyPair]) -> dict[str, float]:
    """Return the error rates of three aligners that have learnt nothing, each with one link a target word.

    "chance" links to any source word alike (its expected rate), "diagonal" to the one at the same share of the
    sentence, "best" always to a right one; it isn't 0, since some words translate two.
    """
    true = [pair.alignment for pair in pairs]
    hits = sum(len(pair.alignment) / len(pair.source) for pair in pairs)
    size = sum(len(pair.target) + len(pair.alignment) for pair in pairs)
    diagonal = [
        frozenset((j * len(pair.source) // len(pair.target), j) for j in range(len(pair.target))) for pair in pairs
    ]
    best = [frozenset({j: (i, j) for i, j in alignment}.values()) for alignment in true]
    return {
        "chance": 1 - 2 * hits / size,
        "diagonal": alignment_error_rate(diagonal, true),
        "best": alignment_error_rate(best, true),
    }


def record(seed: int) -> dict[str, Any]:
    """Return what the full run finds: half as many steps again as the notebook's, and each way of sharing."""
    found: dict[str, Any] = {}
    _, held_out = sentences()
    for sharing in SHARING:
        run = train_translator(sharing, seed=seed, steps=240)
        found[sharing] = {"parameters": run.parameters, "loss": round(run.loss, 4), "accuracy": round(run.accuracy, 4)}
        for name, reading in (("writing", False), ("reading", True)):
            rates = error_rates(run.model, held_out, reading)
            found[sharing][name] = [[round(rate, 3) for rate in layer] for layer in rates]
    return found
