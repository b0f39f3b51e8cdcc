"""The same blocks trained for three objectives: masked words, the next word, cut spans (chapter 11)."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import checks, decoding, generation, training
from transformer_lib.config import TransformerConfig
from transformer_lib.data import END, PADDING, START, Batch, pad
from transformer_lib.experiments import closed_language
from transformer_lib.experiments.closed_language import BLANK, VERB, Ids, Words
from transformer_lib.experiments.corruptions import blank_some, cut_spans, put_back, some_spans
from transformer_lib.experiments.steps import count_parameters, one_thread
from transformer_lib.model import Transformer
from transformer_lib.siblings import DecoderOnly, EncoderOnly

D_MODEL, HEADS, D_FF, LAYERS = 32, 4, 64, 2
STEPS, BATCH, RATE = 400, 64, 8e-3
GENERATED = 300


def masked_words_loss(model: nn.Module, sentences: list[Ids], generator: torch.Generator) -> Float[Tensor, ""]:
    """Return the loss of the blanked words, given all others; in nats per blank: BERT's lesson."""
    tokens = pad(sentences)
    blanked, chosen = blank_some(tokens, generator)
    return F.cross_entropy(model(blanked)[chosen], tokens[chosen])


def next_word_loss(model: nn.Module, sentences: list[Ids], generator: torch.Generator) -> Float[Tensor, ""]:
    """Return the loss of each word and of the end, given the words before; in nats per token: GPT's lesson."""
    tokens = pad([[START, *sentence, END] for sentence in sentences])
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PADDING)


def cut_spans_loss(model: nn.Module, sentences: list[Ids], generator: torch.Generator) -> Float[Tensor, ""]:
    """Return the loss of the spans that were cut out, given the rest; in nats per target token: T5's lesson."""
    pairs = [cut_spans(sentence, some_spans(len(sentence), generator)) for sentence in sentences]
    batch = Batch.from_pairs(pairs)
    logits = model(batch.source, batch.target_input)
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PADDING)


OBJECTIVES: dict[str, tuple[type[nn.Module], Callable[..., Tensor]]] = {
    "masked words": (EncoderOnly, masked_words_loss),
    "next word": (DecoderOnly, next_word_loss),
    "cut spans": (Transformer, cut_spans_loss),
}


def sizes(**changes: Any) -> TransformerConfig:
    """Return the config of all three models, with some fields changed."""
    fixed = {"d_model": D_MODEL, "heads": HEADS, "d_ff": D_FF, "layers": LAYERS, "dropout": 0.0, "max_length": 24}
    fixed |= {"vocabulary": len(closed_language.tokeniser()), "positions": "learned", "activation": "gelu"}
    return TransformerConfig(**(fixed | changes))


def fresh(objective: str, *, seed: int, **changes: Any) -> nn.Module:
    """Return an objective's model before training, in double precision, so that training goes alike everywhere.

    Raises:
        ValueError: there is no such objective.
    """
    checks.one_of(tuple(OBJECTIVES), objective=objective)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return OBJECTIVES[objective][0](sizes(**changes)).double()


def rate(step: int, steps: int) -> float:
    """Return the learning rate: up for a tenth of the steps, then level, down over the last three fifths."""
    warmup, tail = max(1, steps // 10), max(1, steps * 3 // 5)
    return RATE * min(step / warmup, training.linear_tail(step, steps, tail))


def train(model: nn.Module, objective: str, *, seed: int, steps: int = STEPS) -> list[float]:
    """Train a model for an objective on the sentences to train on; return the losses in nats."""
    checks.one_of(tuple(OBJECTIVES), objective=objective)
    checks.positive(steps=steps)
    known, generator = closed_language.ids(closed_language.split()[0]), torch.Generator().manual_seed(seed)
    loss_of = OBJECTIVES[objective][1]

    def drawn() -> list[Ids]:
        return [known[i] for i in torch.randint(len(known), (BATCH,), generator=generator).tolist()]

    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    with one_thread():
        losses = list(
            training.train(
                model,
                (drawn() for _ in range(steps)),
                lambda model, sentences: loss_of(model, sentences, generator),
                optimizer,
                lambda step: rate(step, steps),
            )
        )
    model.eval()
    return losses


@torch.no_grad()
def guesses(model: nn.Module, texts: Sequence[Words], place: int) -> Float[Tensor, "row vocabulary"]:
    """Return the probability of each word at a place of each sentence; all sentences are long enough to have it.

    A model of masked words sees the sentence with a blank there, one of the next word what comes before it.
    """
    tokens = pad(closed_language.ids(texts))
    if isinstance(model, EncoderOnly):
        tokens[:, place] = BLANK
        return model(tokens)[:, place].softmax(dim=-1)
    prompt = torch.cat([torch.full_like(tokens[:, :1], START), tokens[:, :place]], dim=1)
    return model(prompt)[:, -1].softmax(dim=-1)


def accuracy(model: nn.Module, texts: Sequence[Words], place: int | None = None) -> float:
    """Return the share of words, at each place or at one, that the model guesses right."""
    right = []
    for i in range(max(map(len, texts))) if place is None else [place]:
        those = [words for words in texts if i < len(words)]
        wanted = torch.tensor([tokens[i] for tokens in closed_language.ids(those)])
        right.append(guesses(model, those, i).argmax(dim=-1) == wanted)
    return torch.cat(right).double().mean().item()


def written(model: DecoderOnly, count: int, *, seed: int, prompt: Words = ()) -> list[Words]:
    """Return sentences that a model of the next word writes, word by word by chance, after a prompt or from nothing."""
    start = [START, *closed_language.ids([prompt])[0]] if prompt else [START]
    rows, chance = torch.tensor([start]).expand(count, -1), torch.Generator().manual_seed(seed)
    added = generation.continue_by_chance(model, rows, 20, chance, end=END)
    return [prompt + closed_language.words_of(tokens) for tokens in added]


def restored(model: Transformer, texts: Sequence[Words], *, seed: int) -> tuple[list[Words], list[Words]]:
    """Return the sentences with two spans cut out of each, and what the model makes of them."""
    chance = torch.Generator().manual_seed(seed)
    cut = [cut_spans(tokens, some_spans(len(tokens), chance))[0] for tokens in closed_language.ids(texts)]
    said = decoding.greedy(model, pad(cut), 12)
    found = [put_back(source, target) for source, target in zip(cut, said, strict=True)]
    return [closed_language.words_of(row) for row in cut], [closed_language.words_of(row) for row in found]


def scores(models: dict[str, nn.Module], *, seed: int) -> dict[str, Any]:
    """Return what the three trained models do with the held-out sentences, as shares.

    Args:
        seed: of what is written by chance, and of which spans are cut.
    """
    every, known, held_out = (
        set(closed_language.sentences()),
        set(closed_language.split()[0]),
        closed_language.split()[1],
    )
    masked, following, cut = (models[name] for name in OBJECTIVES)
    active, both = closed_language.active(held_out), {"masked words": masked, "next word": following}
    new, whole = written(following, GENERATED, seed=seed), restored(cut, held_out, seed=seed)[1]
    return {
        "accuracy": {name: round(accuracy(model, held_out), 4) for name, model in both.items()},
        "verbs": {name: round(accuracy(model, active, VERB), 4) for name, model in both.items()},
        "written": {
            "of the language": round(sum(words in every for words in new) / len(new), 4),
            "never seen": round(sum(words in every - set(known) for words in new) / len(new), 4),
        },
        "restored": {
            "of the language": round(sum(words in every for words in whole) / len(whole), 4),
            "as it was": round(sum(a == b for a, b in zip(whole, held_out, strict=True)) / len(whole), 4),
        },
    }


def record(seed: int) -> dict[str, Any]:
    """Return the three models' sizes, last losses in nats and scores, in a dictionary for `tools.record`."""
    models = {name: fresh(name, seed=seed) for name in OBJECTIVES}
    losses = {name: train(model, name, seed=seed)[-20:] for name, model in models.items()}
    parameters = {name: count_parameters(model) for name, model in models.items()}
    last = {name: round(sum(numbers) / len(numbers), 3) for name, numbers in losses.items()}
    return {"steps": STEPS, "parameters": parameters, "loss": last, **scores(models, seed=seed)}
