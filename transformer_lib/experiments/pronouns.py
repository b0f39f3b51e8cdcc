"""A small encoder that says who "it" is, and simpler models of the same task (chapter 09)."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import ablation, checks, coreference, observe, training
from transformer_lib.config import TransformerConfig
from transformer_lib.coreference import Twins
from transformer_lib.data import pad
from transformer_lib.siblings import EncoderOnly

FAST_BAG = "bag of words, 10 times the rate"
KINDS = ("attention", "no positions", "even attention", "bag of words", FAST_BAG)
KNOWN, HELD_OUT = 2520, 300  # pairs of twins: all, and 300 of the 630 from the templates set aside
D_MODEL, HEADS, D_FF, LAYERS = 32, 4, 64, 2
STEPS, BATCH, RATE, WARMUP = 300, 64, 3e-3, 30


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """A batch of twins: first those in which "it" is who acts, then, in the same order, their twins.

    Args:
        pronoun: place of "it", counted from 0.
        referent: place of the noun that it means.
        other: place of the noun that it doesn't mean.
        adjective: place of the word in which twins differ.
    """

    tokens: Int[Tensor, "row position"]
    pronoun: Int[Tensor, " row"]
    referent: Int[Tensor, " row"]
    other: Int[Tensor, " row"]
    adjective: Int[Tensor, " row"]

    @property
    def rows(self) -> Int[Tensor, " row"]:
        """The numbers of the rows, for indexing."""
        return torch.arange(len(self.tokens))

    def word(self, places: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """Return the ids of the words at one place in each sentence."""
        return self.tokens[self.rows, places]


def batch_of(twins: Sequence[Twins]) -> Sentences:
    """Return pairs of twins as one batch."""
    every = [pair[side] for side in (0, 1) for pair in twins]
    ids = coreference.coreference_tokeniser().encode_all([one.text for one in every])
    places = {
        "pronoun": [one.pronoun for one in every],
        "referent": [one.referent for one in every],
        "other": [one.actor + one.object - one.referent for one in every],
        "adjective": [one.words.index("too") + 1 for one in every],
    }
    return Sentences(tokens=pad(ids), **{name: torch.tensor(numbers) for name, numbers in places.items()})


def known_and_held_out() -> tuple[Sentences, Sentences]:
    """Return what is trained on, and the templates set aside: the same for every seed of the training."""
    twins = coreference.coreference_twins
    return tuple(
        batch_of(twins(count, torch.Generator().manual_seed(0), held_out=held_out))
        for count, held_out in ((KNOWN, False), (HELD_OUT, True))
    )


class BagOfWords(nn.Module):
    """Adds up one vector of logits for each word of the sentence: no order, and no word changes what another says."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, vocabulary, padding_idx=0)
        nn.init.zeros_(self.table.weight)

    def forward(self, tokens: Int[Tensor, "row position"]) -> Float[Tensor, "row position vocabulary"]:
        """Return the same logits at each position."""
        return self.table(tokens).sum(dim=1, keepdim=True).expand(-1, tokens.size(1), -1)


def fresh_reader(kind: str = "attention", *, seed: int) -> nn.Module:
    """Return a model before training, in double precision, so that training goes alike on every machine.

    Args:
        kind: one of `KINDS`; "even attention" is the same model as "attention", to be run within `as_meant`.

    Raises:
        ValueError: `kind` is something else.
    """
    checks.one_of(KINDS, kind=kind)
    vocabulary = len(coreference.coreference_tokeniser())
    if kind in ("bag of words", FAST_BAG):
        return BagOfWords(vocabulary).double()
    positions = "none" if kind == "no positions" else "sinusoidal"
    sizes = {"d_model": D_MODEL, "heads": HEADS, "d_ff": D_FF, "layers": LAYERS, "max_length": 16}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return EncoderOnly(TransformerConfig(vocabulary=vocabulary, dropout=0.0, positions=positions, **sizes)).double()


def rate_of(kind: str) -> float:
    """Return the learning rate at which a kind of model is trained."""
    checks.one_of(KINDS, kind=kind)
    return 10 * RATE if kind == FAST_BAG else RATE


def as_meant(kind: str, model: nn.Module) -> AbstractContextManager[None]:
    """Let a model run as its kind says: "even attention" attends evenly to all words while the block runs."""
    if kind != "even attention":
        return nullcontext()
    return ablation.edit_attention(model, {name: ablation.uniform_heads() for name in observe.attention_modules(model)})


def train_reader(
    model: nn.Module, sentences: Sentences, *, seed: int, steps: int = STEPS, rate: float = RATE
) -> list[float]:
    """Train a model to write, at the place of "it", the noun that it means; return the losses in nats per sentence.

    Args:
        rate: the highest learning rate, after the warm-up.
    """
    checks.positive(steps=steps)
    checks.above_zero(rate=rate)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    labels, losses = sentences.word(sentences.referent), []
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            tail = training.linear_tail(step, steps, max(1, steps * 3 // 5))
            group["lr"] = rate * min(step / WARMUP, tail)
        rows = torch.randint(len(labels), (BATCH,), generator=generator)
        logits = model(sentences.tokens[rows])[torch.arange(BATCH), sentences.pronoun[rows]]
        loss = F.cross_entropy(logits, labels[rows])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    return losses


def answers(model: nn.Module, sentences: Sentences) -> Float[Tensor, "row vocabulary"]:
    """Return the logits at the place of "it": one score for each word that it might mean."""
    return model(sentences.tokens)[sentences.rows, sentences.pronoun]


def margins(model: nn.Module, sentences: Sentences) -> Float[Tensor, " row"]:
    """Return by how much the referent's logit is above the other noun's; below 0 the answer is the other noun."""
    logits = answers(model, sentences)
    right, wrong = (sentences.word(places) for places in (sentences.referent, sentences.other))
    return logits[sentences.rows, right] - logits[sentences.rows, wrong]


@torch.no_grad()
def accuracy(model: nn.Module, sentences: Sentences) -> float:
    """Return in which share of the sentences the model prefers the referent to the other noun; chance is 0.5."""
    return (margins(model, sentences) > 0).double().mean().item()


@torch.no_grad()
def probability(model: nn.Module, sentences: Sentences) -> float:
    """Return the mean probability of the referent, among all words."""
    chances = answers(model, sentences).softmax(dim=-1)
    return chances[sentences.rows, sentences.word(sentences.referent)].mean().item()
