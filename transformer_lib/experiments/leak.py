"""What a language model scores when it can see the answer, and what it writes afterwards (chapter 05).

The texts come from `word_chain`, whose entropy is known: no honest model can have an expected loss below it.
`record` trains longer, three models a seed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib import checks, layers, masks, multi_head, positional
from transformer_lib.experiments.steps import one_thread, take_step
from transformer_lib.experiments.word_chain import WORDS, texts, transitions

MISTAKES = ("none", "no mask", "no shift")
LENGTH, BATCH, D_MODEL, RATE = 16, 64, 32, 3e-3


class LanguageModel(nn.Module):
    """One pre-norm layer of attention and feed-forward between an embedding with learned positions and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.word = nn.Embedding(len(WORDS), D_MODEL)
        self.position = positional.LearnedPositions(LENGTH, D_MODEL)
        self.attention = multi_head.MultiHeadAttention(D_MODEL, heads=2)
        self.feed_forward = layers.FeedForward(D_MODEL, 2 * D_MODEL)
        self.around = nn.ModuleList(layers.Residual(D_MODEL) for _ in range(2))
        self.logits = nn.Linear(D_MODEL, len(WORDS))

    def forward(
        self, words: Int[Tensor, "batch position"], mask: Bool[Tensor, "query key"] | None
    ) -> Float[Tensor, "batch position word"]:
        """Return, for each position, a logit for each word; `mask` is None where every position sees all."""
        x = self.word(words) + self.position(words.size(1))
        x = self.around[0](x, lambda y: self.attention(y, y, mask))
        return self.logits(self.around[1](x, self.feed_forward))


def scored(
    model: LanguageModel, text: Int[Tensor, "batch position"], mistake: str
) -> Float[Tensor, "batch label word"]:
    """Return the logits whose row j is scored against word j + 1 of the text; a mistake lets that word be seen.

    Args:
        mistake: "none": the input ends one word earlier, under a causal mask; "no mask": as before, without the mask;
            "no shift": masked, but the input is the words to be predicted themselves.

    Raises:
        ValueError: `mistake` is something else.
    """
    checks.one_of(MISTAKES, mistake=mistake)
    words = text[:, 1:] if mistake == "no shift" else text[:, :-1]
    return model(words, _mask(words.size(1), mistake))


def _mask(length: int, mistake: str) -> Tensor | None:
    return None if mistake == "no mask" else masks.causal_mask(length)


@torch.no_grad()
def write(
    model: LanguageModel, count: int, mistake: str, generator: torch.Generator | None
) -> Int[Tensor, "row position"]:
    """Return texts that the model writes word after word, each drawn; without a generator, the likeliest each time."""
    text = torch.zeros(count, 1, dtype=torch.long)
    for _ in range(LENGTH):
        logits = model(text, _mask(text.size(1), mistake))[:, -1]
        if generator is None:
            word = logits.argmax(-1, keepdim=True)
        else:
            word = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        text = torch.cat([text, word], dim=1)
    return text


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a training run left behind.

    Args:
        losses: what training reported, one per step, in nats per word.
        accuracy: share of words right on new texts, computed as in training; the chain lets 0.5 be expected at most.
        honest_loss: on new texts, each word predicted from the words before it and nothing else.
        impossible: share of the words written that can't follow the word before them.
        repeats: share of the words written that repeat the word before them.
        text: the likeliest text.
    """

    losses: list[float]
    accuracy: float
    honest_loss: float
    impossible: float
    repeats: float
    text: str


def train(mistake: str, *, seed: int = 0, steps: int = 240) -> Run:
    """Train a model on fresh texts, 64 of 16 words a step, with Adam, then let it write.

    Args:
        mistake: as for `scored`.

    Raises:
        ValueError: `mistake` is none of `MISTAKES`, or `steps` is below 1.
    """
    checks.one_of(MISTAKES, mistake=mistake)
    checks.positive(steps=steps)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        model = LanguageModel()
        losses = list(_steps(model, mistake, steps, generator))
        return Run(losses=losses, **_afterwards(model, mistake, generator))


def _steps(model: LanguageModel, mistake: str, steps: int, generator: torch.Generator) -> Iterator[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(steps):
        text = texts(BATCH, LENGTH, generator)
        loss = _loss(scored(model, text, mistake), text)
        yield take_step(optimizer, loss)


def _loss(logits: Tensor, text: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


@torch.no_grad()
def _afterwards(model: LanguageModel, mistake: str, generator: torch.Generator) -> dict[str, float | str]:
    text = texts(256, LENGTH, generator)
    prefixes = [text[:, : end + 1] for end in range(LENGTH)]
    last = [model(prefix, _mask(prefix.size(1), mistake))[:, -1] for prefix in prefixes]
    written = write(model, 256, mistake, generator)
    before, after = written[:, :-1], written[:, 1:]
    right = scored(model, text, mistake).argmax(-1) == text[:, 1:]
    return {
        "accuracy": right.double().mean().item(),
        "honest_loss": _loss(torch.stack(last, dim=1), text).item(),
        "impossible": (transitions()[before, after] == 0).double().mean().item(),
        "repeats": (before == after).double().mean().item(),
        "text": " ".join(WORDS[word] for word in write(model, 1, mistake, None)[0, 1:].tolist()),
    }


def record(seed: int) -> dict[str, Any]:
    """Return, for each mistake, what 600 steps of training came to; losses in nats per word, shares of the words."""
    return {mistake: _summary(train(mistake, seed=seed, steps=600)) for mistake in MISTAKES}


def _summary(run: Run) -> dict[str, float | str]:
    return {
        "training_loss": round(sum(run.losses[-50:]) / 50, 3),
        "accuracy": round(run.accuracy, 3),
        "honest_loss": round(run.honest_loss, 3),
        "impossible": round(run.impossible, 3),
        "repeats": round(run.repeats, 3),
        "text": run.text,
    }
