"""Which head looks from "it" to the noun that it means; heads taken out, and patched with the twin's (chapter 09)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import ablation, observe
from transformer_lib.experiments import pronouns
from transformer_lib.experiments.pronouns import Sentences, accuracy, margins


@torch.no_grad()
def maps(model: nn.Module, sentences: Sentences) -> dict[str, Float[Tensor, "row heads query key"]]:
    """Return each layer's weights, by the name of its attention module."""
    with observe.record_attention(model) as found:
        model(sentences.tokens)
    return {name: calls[0] for name, calls in found.items()}


def looks(model: nn.Module, sentences: Sentences, places: Int[Tensor, " row"]) -> Float[Tensor, "layer heads"]:
    """Return the mean weight that each head gives, from "it", to one place in each sentence."""
    found = maps(model, sentences).values()
    return torch.stack([weights[sentences.rows, :, sentences.pronoun, places].mean(dim=0) for weights in found])


def follows(model: nn.Module, sentences: Sentences) -> Float[Tensor, "layer heads"]:
    """Return how much more each head looks from "it" to the referent than to the other noun.

    A head that looks at the same noun in both twins has 0: it doesn't follow the meaning.
    """
    return looks(model, sentences, sentences.referent) - looks(model, sentences, sentences.other)


def accuracy_with(model: nn.Module, sentences: Sentences, edits: Mapping[str, ablation.Edit]) -> float:
    """Return the accuracy while the attention is edited."""
    with ablation.edit_attention(model, edits):
        return accuracy(model, sentences)


def without_each(model: nn.Module, sentences: Sentences) -> Float[Tensor, "layer heads"]:
    """Return the accuracy without each head, all its weights 0, one head at a time."""
    return _for_each(model, lambda name, head: accuracy_with(model, sentences, {name: ablation.zero_heads(head)}))


def without_top(model: nn.Module, sentences: Sentences, scores: Float[Tensor, "layer heads"], count: int) -> float:
    """Return the accuracy without the heads that have the `count` largest scores."""
    names, width = list(observe.attention_modules(model)), scores.size(1)
    chosen: dict[str, list[int]] = {}
    for place in scores.flatten().topk(count).indices.tolist():
        chosen.setdefault(names[place // width], []).append(place % width)
    return accuracy_with(model, sentences, {name: ablation.zero_heads(*heads) for name, heads in chosen.items()})


def twins_maps(model: nn.Module, sentences: Sentences) -> dict[str, Float[Tensor, "row heads query key"]]:
    """Return each sentence's twin's weights: in a batch of twins, those of the row half the batch away."""
    half = len(sentences.tokens) // 2
    return {name: weights.roll(half, 0) for name, weights in maps(model, sentences).items()}


@torch.no_grad()
def flips(model: nn.Module, sentences: Sentences, edits: Mapping[str, ablation.Edit]) -> float:
    """Return the share of right answers that turn into the other noun while the attention is edited."""
    right = margins(model, sentences) > 0
    with ablation.edit_attention(model, edits):
        return (margins(model, sentences) < 0)[right].double().mean().item()


def flips_by_each(model: nn.Module, sentences: Sentences) -> Float[Tensor, "layer heads"]:
    """Return the share of answers that flip when one head attends as it does in the twin, head by head."""
    other = twins_maps(model, sentences)

    def patched(name: str, head: int) -> float:
        return flips(model, sentences, {name: ablation.replace_heads(other[name], head)})

    return _for_each(model, patched)


def flips_by_layers(model: nn.Module, sentences: Sentences) -> dict[str, float]:
    """Return the share of answers that flip when all heads of a layer, or of all layers, attend as in the twin."""
    edits = {name: ablation.replace_heads(weights) for name, weights in twins_maps(model, sentences).items()}
    found = {f"layer {i}": flips(model, sentences, {name: edits[name]}) for i, name in enumerate(edits, start=1)}
    return found | {"both": flips(model, sentences, edits)}


def word_gradients(model: nn.Module, sentences: Sentences) -> Float[Tensor, "row position"]:
    """Return how much each word's vector moves the margin between the nouns: the size of its gradient.

    |d margin / d x_j|, where x_j is the embedding with its position. Jain & Wallace (2019), section 4.1, compare
    attention with gradients.
    """
    kept: list[Tensor] = []

    def keep(module: nn.Module, arguments: object, output: Tensor) -> Tensor:
        kept.append(output.detach().requires_grad_())
        return kept[0]

    hook = model.embedding.register_forward_hook(keep)
    try:
        total = margins(model, sentences).sum()
    finally:
        hook.remove()
    return torch.autograd.grad(total, kept[0])[0].norm(dim=-1)


def mean_look(model: nn.Module, sentences: Sentences) -> Float[Tensor, "row position"]:
    """Return the weight that each word gets from "it", the mean over the heads of the last layer."""
    last = list(maps(model, sentences).values())[-1]
    return last[sentences.rows, :, sentences.pronoun].mean(dim=1)


def rank_agreement(
    first: Float[Tensor, "row position"], second: Float[Tensor, "row position"], tokens: Int[Tensor, "row position"]
) -> float:
    """Return the mean of Kendall's tau over the sentences: 1 for the same order of words, 0 for no relation.

    (pairs in the same order - pairs in the opposite one) / all pairs, of the real words of a sentence.
    """
    real = (tokens != 0).unsqueeze(1) & (tokens != 0).unsqueeze(2)
    orders = [(one.unsqueeze(1) - one.unsqueeze(2)).sign() for one in (first, second)]
    pairs = real.triu(diagonal=1)
    return ((orders[0] * orders[1] * pairs).sum((1, 2)) / pairs.sum((1, 2))).mean().item()


def _for_each(model: nn.Module, measure: Callable[[str, int], float]) -> Float[Tensor, "layer heads"]:
    modules = observe.attention_modules(model)
    return torch.tensor([[measure(name, head) for head in range(one.heads)] for name, one in modules.items()])


def side(sentences: Sentences, number: int) -> Sentences:
    """Return one half of a batch of twins: 0 those in which "it" is who acts, 1 the others."""
    half = len(sentences.tokens) // 2
    rows = slice(number * half, (number + 1) * half)
    return replace(sentences, **{name: value[rows] for name, value in vars(sentences).items()})


def record(seed: int) -> dict[str, Any]:
    """Return each kind of model's accuracy on held-out templates, and where heads of the first look and what for."""
    known, held_out = pronouns.known_and_held_out()
    right: dict[str, float] = {}
    for kind in pronouns.KINDS:
        model = pronouns.fresh_reader(kind, seed=seed)
        with pronouns.as_meant(kind, model):
            pronouns.train_reader(model, known, seed=seed, rate=pronouns.rate_of(kind))
            right[kind] = round(accuracy(model, held_out), 4)
        if kind == "attention":
            found = _looked_into(model, held_out)
    return {"accuracy": right, **found}


def _looked_into(model: nn.Module, sentences: Sentences) -> dict[str, Any]:
    def rounded(numbers: Tensor) -> list[list[float]]:
        return [[round(number, 3) for number in row] for row in numbers.tolist()]

    gradients, look = word_gradients(model, sentences), mean_look(model, sentences)
    following = follows(model, sentences)
    last = torch.cat([torch.full_like(following[:-1], -torch.inf), following[-1:]])  # followers of the last layer alone
    places = {name: getattr(sentences, name) for name in ("referent", "other", "adjective", "pronoun")}
    found = {name: looks(model, sentences, place) for name, place in places.items()}
    return {
        "probability": round(pronouns.probability(model, sentences), 4),
        "looks": {name: rounded(numbers) for name, numbers in found.items()},
        "follows": rounded(following),
        "without": rounded(without_each(model, sentences)),
        "without_by_side": [rounded(without_each(model, side(sentences, number))) for number in (0, 1)],
        "without_followers": [round(without_top(model, sentences, last, count), 3) for count in (1, 2, 3)],
        "without_adjective": round(without_top(model, sentences, found["adjective"], 1), 3),
        "flips": rounded(flips_by_each(model, sentences)),
        "flips_by_layers": {name: round(share, 3) for name, share in flips_by_layers(model, sentences).items()},
        "agreement": round(rank_agreement(look, gradients, sentences.tokens), 3),
        "gradient": {name: _share(gradients, sentences, place) for name, place in places.items()},
        "look": {name: _share(look, sentences, place) for name, place in places.items()},
    }


def _share(numbers: Tensor, sentences: Sentences, places: Tensor) -> float:
    return round((numbers[sentences.rows, places] / numbers.sum(dim=1)).mean().item(), 3)
