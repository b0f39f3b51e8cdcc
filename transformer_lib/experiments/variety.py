"""Several outputs for one sentence: how far apart, how good by the model, and what repeats (chapter 08).

The captions are ours, in the style of Multi30k, with translations by the same hand: enough to compare decoders by the
model's own score without any data set.
"""

import itertools
from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib import checks, data, decoding, masks, sampling, training
from transformer_lib.data import END, START
from transformer_lib.decoding import Beams
from transformer_lib.model import Transformer
from transformer_lib.translator import shipped as shipped

CAPTIONS = (
    ("Ein Hund rennt über eine grüne Wiese.", "A dog runs across a green meadow."),
    ("Das Mädchen füttert die Enten am See.", "The girl is feeding the ducks at the lake."),
    ("Zwei Männer reparieren ein Dach in der Sonne.", "Two men repair a roof in the sun."),
    ("Eine Frau mit einem roten Hut liest ein Buch.", "A woman with a red hat is reading a book."),
    ("Drei Kinder bauen eine Burg aus Sand am Strand.", "Three children build a sand castle on the beach."),
    ("Ein alter Mann sitzt allein auf einer Bank im Park.", "An old man sits alone on a bench in the park."),
    ("Ein Junge springt von einem Felsen ins Wasser.", "A boy jumps from a rock into the water."),
    ("Die Leute warten an der Haltestelle auf den Bus.", "The people are waiting for the bus at the stop."),
    ("Ein Musiker spielt Gitarre vor einem kleinen Laden.", "A musician plays guitar in front of a small shop."),
    ("Zwei Katzen schlafen auf einem blauen Sofa.", "Two cats are sleeping on a blue sofa."),
    ("Eine Gruppe von Radfahrern fährt einen Berg hinauf.", "A group of cyclists rides up a mountain."),
    ("Ein Koch schneidet Gemüse in einer großen Küche.", "A cook is cutting vegetables in a large kitchen."),
)
Targets = Sequence[Sequence[int]]


@lru_cache(maxsize=1)
def sources() -> list[Int[Tensor, "1 source"]]:
    """Return the captions' German side as tokens, one row each."""
    return [torch.tensor([shipped().tokeniser.encode(german)]) for german, _ in CAPTIONS]


@torch.no_grad()
def n_best(
    model: Transformer,
    source: Int[Tensor, "1 source"],
    beam: int,
    alpha: float = 1.0,
    memory: Float[Tensor, "beam source d_model"] | None = None,
) -> list[list[int]]:
    """Return the finished targets that a beam search has kept when it stops, best first, without START and END.

    It goes on until there are `beam` of them, or the longest allowed length is reached.

    Args:
        memory: what each place in the beam reads of the source; None gives all of them the encoder's output.
    """
    longest, beams = decoding.longest_target(model, source, None), Beams.start(source, beam)
    caches, copies = model.decoder.new_caches(), source.expand(beam, -1)
    memory = model.encode(source).expand(beam, -1, -1) if memory is None else memory
    for _ in range(longest):
        found = decoding.log_probabilities(model, beams.live[0, :, -1:], memory, copies, caches)
        origins = beams.advance(found.unsqueeze(0), alpha)
        if beams.settled(longest, alpha) and beams.done_scores.isfinite().all():
            break
        for own, _ in caches:
            own.select(origins[0])
    return [decoding.words_of(row) for row in beams.done[0, beams.done_scores[0].isfinite()].tolist()]


@torch.no_grad()
def log_probabilities(model: Transformer, source: Int[Tensor, "1 source"], targets: Targets) -> list[float]:
    """Return the log-probability in nats of each target, END included."""
    batch = data.Batch.from_pairs([(source[0].tolist(), list(target)) for target in targets])
    logs = model(batch.source, batch.target_input).log_softmax(dim=-1)
    found = logs.gather(2, batch.labels.unsqueeze(2)).squeeze(2)
    return found.masked_fill(batch.labels == data.PADDING, 0.0).sum(dim=1).tolist()


def apart(targets: Targets) -> float:
    """Return at which share of places two targets differ, over all pairs; a place that only one has counts, too.

    Raises:
        ValueError: there are fewer than two targets.
    """
    pairs = list(itertools.combinations(targets, 2))
    if not pairs:
        raise ValueError(f"targets must be at least two, got {len(targets)}")
    shares = [sum(a != b for a, b in itertools.zip_longest(*pair)) / max(map(len, pair)) for pair in pairs]
    return sum(shares) / len(shares)


def same_start(targets: Targets) -> float:
    """Return which share of the longer target the common beginning of two is, over all pairs."""
    pairs = list(itertools.combinations(targets, 2))
    lengths = [len(list(itertools.takewhile(lambda ab: ab[0] == ab[1], zip(*pair, strict=False)))) for pair in pairs]
    return sum(n / max(map(len, pair)) for n, pair in zip(lengths, pairs, strict=True)) / len(pairs)


def repeated(words: Sequence[int], length: int = 3) -> float:
    """Return the share of groups of `length` words that have stood earlier in the same text."""
    checks.positive(length=length)
    groups = [tuple(words[i : i + length]) for i in range(len(words) - length + 1)]
    return 1 - len(set(groups)) / len(groups)


@torch.no_grad()
def honest_loss(model: Transformer, offset: Float[Tensor, " d_model"] | None = None) -> float:
    """Return the loss on the captions in nats per token; `offset` is added to each vector that the decoder reads."""
    encode = shipped().tokeniser.encode
    batch = data.Batch.from_pairs([(encode(german), encode(english)) for german, english in CAPTIONS])
    vectors = model.embedding(batch.target_input)
    if offset is not None:
        vectors = vectors + offset
    mask = masks.causal_mask(batch.target_input.size(1))
    hidden = model.decoder(vectors, model.encode(batch.source), mask, masks.padding_mask(batch.source))
    return training.smoothed_loss(model.embedding.logits(hidden), batch.labels, smoothing=0.0).item()


@torch.no_grad()
def forced(
    model: Transformer, source: Int[Tensor, "1 source"], steps: int, temperature: float, generator: torch.Generator
) -> list[int]:
    """Return `steps` tokens of a model that may not say END, drawn at a temperature; at 0 the likeliest each time."""
    memory, caches = model.encode(source), model.decoder.new_caches()
    tokens = torch.full((1, 1), START)
    for _ in range(steps):
        found = decoding.log_probabilities(model, tokens[:, -1:], memory, source, caches)
        found[:, END] = -torch.inf
        tokens = torch.cat([tokens, sampling.draw(found, generator, temperature=temperature)], dim=1)
    return tokens[0, 1:].tolist()
