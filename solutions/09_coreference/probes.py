"""What chapter 09's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.exercises.authoring import draw, guarded, pick, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Probe, Question


def _weights(generator: torch.Generator, *shape: int) -> Tensor:
    """Return rows that sum to 1, with six decimals."""
    return draw(generator, *shape, scale=1.5).softmax(dim=-1)


def _real(lengths: list[int], longest: int) -> Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


# 9.1 patched heads


def patched_cases(seed: int) -> list[Case]:
    """Return two runs' weights and heads to patch; in some cases they don't fit."""
    g = torch.Generator().manual_seed(seed)

    def case(
        name: str, shape: list[int], heads: tuple[int, ...], at_fault: tuple[str, ...] = (), what: str = ""
    ) -> Case:
        inputs = {"weights": _weights(g, *shape), "other": _weights(g, *shape), "heads": heads}
        return Case(name, inputs, mentions=at_fault, telling=what)

    h, n, m = sizes(g, 3, 2, 5)
    short = case("another sentence", [2, 3, 4, 5], (1,), ("2, 3, 4, 5", "2, 3, 4, 6"), "both shapes")
    short.inputs["other"] = _weights(g, 2, 3, 4, 6)
    alone = case("one sentence for a batch", [3, 2, 4, 5], (0,), ("3, 2, 4, 5", "1, 2, 4, 5"), "both shapes")
    alone.inputs["other"] = alone.inputs["other"][:1]
    misfits = {
        "one sentence for two": ([2, 2, n, m], [1, 2, n, m]),
        "fewer heads": ([1, h + 1, 2, m], [1, h, 2, m]),
        "more queries": ([1, 2, n, 3], [1, 2, n + 1, 3]),
    }
    others = []

    def misfit(name: str, own: list[int], its: list[int], heads: tuple[int, ...] = (1,)) -> None:
        words = tuple(", ".join(map(str, shape)) for shape in (own, its))
        others.append(case(name, own, heads, words, "both shapes"))
        others[-1].inputs["other"] = _weights(g, *its)

    for name, shapes in misfits.items():
        misfit(name, *shapes)
    below, above = -pick(g, 2, 5), pick(g, 4, 7)
    right = [
        case("small", [1, 2, 2, 3], (1,)),
        case("sizes from the seed", [1, h, n, m], (h - 1,)),
        case("two heads, not in order", [1, 6, 2, 3], (5, 1)),
        case("no head named", [1, 3, 2, 4], ()),
        case("a head named twice", [1, 4, 2, 2], (2, 0, 2)),
        case("all sizes alike", [3, 3, 3, 3], (1,)),
        case("the first head", [2, 3, 1, 2], (0,)),
    ]
    misfit("queries and keys exchanged", [1, 2, 3, m + 3], [1, 2, m + 3, 3])
    misfit("no head named, another sentence", [1, 2, 2, m], [1, 2, 2, m + 1], ())
    return [
        *right,
        short,
        alone,
        *others,
        case("no such head", [1, 3, 2, 3], (1, above), (str(above),), "the head"),
        case("one too many", [1, h, 2, 3], (h,), (str(h),), "the head"),
        case("negative", [1, 3, 2, 3], (-1,), ("-1",), "the head"),
        case("negative, the second", [1, 6, 2, 2], (3, below), (str(below),), "the head"),
    ]


def _checked(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> None:
    if other.shape != weights.shape:
        raise ValueError(f"other must have the weights' shape {list(weights.shape)}, got {list(other.shape)}")
    for head in heads:
        if not 0 <= head < weights.size(1):
            raise ValueError(f"a head must be from 0 to {weights.size(1) - 1}, got {head}")


def patched(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> Tensor:
    """Return the right weights, or say what doesn't fit."""
    _checked(weights, other, heads)
    rows = list(heads) or slice(None)
    edited = weights.clone()
    edited[:, rows] = other[:, rows]
    return edited


def patched_by_where(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> Tensor:
    """Return the same by a mask over the heads."""
    _checked(weights, other, heads)
    chosen = torch.tensor([not heads or head in heads for head in range(weights.size(1))])
    return torch.where(chosen[None, :, None, None], other, weights)


def patched_by_list(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> Tensor:
    """Return the same, head by head."""
    if weights.shape != other.shape:
        raise ValueError(f"{tuple(weights.shape)} and {tuple(other.shape)}")
    count = weights.size(1)
    if wrong := set(heads) - set(range(count)):
        raise ValueError(f"no head {wrong} among {count}")
    taken = heads if len(heads) else range(count)
    return torch.stack([other[:, i] if i in taken else weights[:, i] for i in range(count)], dim=1)


def _patching(answer: Callable[[Tensor, Tensor, list[int]], Tensor]) -> Callable[..., Tensor]:
    """Return an answer with the right errors; heads come as a list, all of them where none is named."""
    return guarded(patched, lambda weights, other, heads: answer(weights, other, list(heads or range(weights.size(1)))))


def _put(weights: Tensor, new: Tensor, heads: list[int]) -> Tensor:
    edited = weights.clone()
    edited[:, heads] = new[:, heads] if new.dim() else new
    return edited


def _no_range(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> Tensor:
    if weights.shape != other.shape:
        raise ValueError(f"{list(weights.shape)} and {list(other.shape)}")
    return _put(weights, other, [head % weights.size(1) for head in heads] or list(range(weights.size(1))))


def _all_unseen(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> Tensor:
    return patched(weights, other, heads) if heads else other.clone()


def _negative_through(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> Tensor:
    _checked(weights, other, tuple(head for head in heads if head >= 0))
    return _put(weights, other, list(heads) or list(range(weights.size(1))))


def _broadcast(weights: Tensor, other: Tensor, heads: tuple[int, ...]) -> Tensor:
    if len(other) != 1:
        _checked(weights, other, heads)
    return patched(weights, other.expand_as(weights), heads)


PATCHED_WRONG = [
    Mistake(
        "zero, not patched",
        "The heads' weights are set to 0. That's ablation; patching gives them the other run's weights.",
        _patching(lambda w, o, heads: _put(w, torch.zeros_like(w), heads)),
        0.25,
    ),
    Mistake(
        "all heads",
        "Every head is patched, whichever are named. The others keep their own weights.",
        _patching(lambda w, o, heads: o.clone()),
        0.25,
    ),
    Mistake(
        "the others patched",
        "The heads that were named keep their weights, and all the others are patched: it's the other way round.",
        _patching(lambda w, o, heads: _put(o, w, heads)),
        0.25,
    ),
    Mistake(
        "nothing where no head is named",
        "Without any head, nothing is patched. It was asked for all of them then.",
        guarded(patched, lambda w, o, heads: _put(w, o, list(heads)) if heads else w.clone()),
        0.75,
    ),
    Mistake(
        "counted from 1",
        "Heads are counted from 1. The first one is head 0.",
        _patching(lambda w, o, heads: _put(w, o, [(head - 1) % w.size(1) for head in heads])),
        0.5,
    ),
    Mistake(
        "sentences for heads",
        "Sentences are patched, not heads: axis 0 is the batch, heads are axis 1.",
        _patching(lambda w, o, heads: torch.where(_at(heads, len(w))[:, None, None, None], o, w)),
        0.25,
    ),
    Mistake(
        "queries for heads",
        "Queries are patched, not heads: the heads are axis 1 of [batch heads query key].",
        _patching(lambda w, o, heads: torch.where(_at(heads, w.size(2))[:, None], o, w)),
        0.25,
    ),
    Mistake(
        "keys for heads",
        "Columns are patched, those of keys. The heads are axis 1; a patched head takes whole rows from the other run.",
        _patching(lambda w, o, heads: torch.where(_at(heads, w.size(3)), o, w)),
        0.25,
    ),
    Mistake(
        "averaged",
        "The two runs are averaged. A patched head attends as in the other run, and not half as much.",
        _patching(lambda w, o, heads: _put(w, (w + o) / 2, heads)),
        0.25,
    ),
    Mistake(
        "added",
        "The other run's weights are added to the head's own: its rows sum to 2.",
        _patching(lambda w, o, heads: _put(w, w + o, heads)),
        0.25,
    ),
    Mistake(
        "one head only",
        "Of several heads only the first one named is patched.",
        _patching(lambda w, o, heads: _put(w, o, heads[:1])),
        0.5,
    ),
    Mistake(
        "heads that aren't there",
        "Numbers that no head has are let through, or wrap around. Refuse them: the head that was meant isn't patched.",
        _no_range,
        0.5,
    ),
    Mistake(
        "no check where no head is named",
        "Without any head, the other run's weights are returned before their shape has been looked at. Check first.",
        _all_unseen,
        0.75,
    ),
    Mistake(
        "negative let through",
        "A negative number counts from the end in Python: the last head is patched. Refuse it.",
        _negative_through,
        0.75,
    ),
    Mistake(
        "one sentence for all",
        "A single sentence's weights are broadcast over the batch. Refuse other shapes: each sentence has its own "
        "twin.",
        _broadcast,
        0.75,
    ),
    Mistake(
        "assert",
        "Errors are raised by assert. Python leaves assertions out when run with -O: raise ValueError.",
        with_errors(patched, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "IndexError",
        "An IndexError is raised. It's a ValueError that was asked for: what the caller passed doesn't fit.",
        with_errors(patched, lambda error: IndexError(str(error))),
        0.75,
    ),
    Mistake(
        "errors that don't tell",
        "ValueError is right, but its text lacks the shapes, or the head, that came.",
        with_errors(patched, lambda error: ValueError("other or heads don't fit")),
        0.75,
    ),
]


def _at(places: list[int], size: int) -> Tensor:
    return torch.tensor([place in places for place in range(size)])


# 9.2 a head's mean in its place


def mean_cases(seed: int) -> list[Case]:
    """Return heads' outputs in padded batches, and the head to take out."""
    g = torch.Generator().manual_seed(seed + 1000)

    def case(name: str, shape: list[int], lengths: list[int], head: int) -> Case:
        outputs = draw(g, *shape, mean=0.7) + torch.arange(shape[1])[:, None, None]
        return Case(name, {"outputs": outputs, "words": _real(lengths, shape[2]), "head": head})

    b, h, d_v = sizes(g, 3, 2, 4)
    scattered = case("padding in between", [2, 3, 4, pick(g, 2, 3)], [4, 4], 2)
    scattered.inputs["words"] = torch.tensor([[True, False, True, True], [True, True, False, False]])
    return [
        case("small", [1, 2, 3, 2], [2], 1),
        case("sizes from the seed", [b, h, 6, d_v], [6, 2, 5, 3][:b], h - 1),
        case("the first head", [2, 3, pick(g, 4, 5), 2], [4, 1], 0),
        case("no padding", [2, pick(g, 3, 5), 3, 1], [3, 3], 1),
        case("all sizes alike", [3, 3, 3, 3], [1, 3, 2], 1),
        case("a sentence without a word", [2, 2, 3, 2], [3, 0], 1),
        scattered,
    ]


def mean_ablated(outputs: Tensor, words: Tensor, head: int) -> Tensor:
    """Return the right outputs."""
    mean = outputs.transpose(1, 2)[words][:, head].mean(dim=0)
    edited = outputs.clone()
    edited[:, head] = mean
    return edited


def mean_by_loop(outputs: Tensor, words: Tensor, head: int) -> Tensor:
    """Return the same, word by word."""
    found = [outputs[b, head, i] for b in range(outputs.size(0)) for i in range(outputs.size(2)) if bool(words[b, i])]
    mean = sum(found) / len(found)
    rows = [mean.expand_as(outputs[:, i]) if i == head else outputs[:, i] for i in range(outputs.size(1))]
    return torch.stack(rows, dim=1)


def mean_by_einsum(outputs: Tensor, words: Tensor, head: int) -> Tensor:
    """Return the same: the head's own outputs taken off, their mean added."""
    chosen = torch.arange(outputs.size(1)).eq(head).to(outputs.dtype)
    means = torch.einsum("bhnd,bn->hd", outputs, words.to(outputs.dtype)) / words.sum()
    return outputs + torch.einsum("h,bhnd->bhnd", chosen, means[None, :, None] - outputs)


def _replaced(mean: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return outputs in which the head's are replaced by what a function makes of them, [batch position d_v]."""

    def answer(outputs: Tensor, words: Tensor, head: int) -> Tensor:
        edited = outputs.clone()
        edited[:, head] = mean(outputs[:, head], words)
        return edited

    return answer


def _by_sentence(outputs: Tensor, words: Tensor) -> Tensor:
    kept = words[..., None].to(outputs.dtype)
    return (outputs * kept).sum(dim=1, keepdim=True) / kept.sum(dim=1, keepdim=True).clamp(min=1)


def _by_position(outputs: Tensor, words: Tensor) -> Tensor:
    kept = words[..., None].to(outputs.dtype)
    return (outputs * kept).sum(dim=0, keepdim=True) / kept.sum(dim=0, keepdim=True).clamp(min=1)


def _over_heads(outputs: Tensor, words: Tensor, head: int) -> Tensor:
    edited = outputs.clone()
    edited[:, head] = outputs.mean(dim=1)
    return edited


def _only_words(outputs: Tensor, words: Tensor, head: int) -> Tensor:
    keep = (torch.arange(outputs.size(1)) == head)[:, None, None] & words[:, None, :, None]
    return torch.where(keep, mean_ablated(outputs, words, head), outputs)


MEAN_WRONG = [
    Mistake(
        "zero",
        "The head's outputs are set to 0. The next layer has never seen zeros from it; asked for was their mean.",
        _replaced(lambda found, words: torch.zeros_like(found)),
        0.25,
    ),
    Mistake(
        "padding counted",
        "The mean is taken over padding, too. Only places where `words` is True count.",
        _replaced(lambda found, words: found.mean(dim=(0, 1))),
        0.5,
    ),
    Mistake(
        "divided by all places",
        "The words are summed rightly, but the sum is divided by the number of all places, padding too.",
        _replaced(lambda found, words: (found * words[..., None]).mean(dim=(0, 1))),
        0.5,
    ),
    Mistake(
        "each sentence its own mean",
        "Each sentence gets its own mean, and so keeps what the head says of that sentence. One mean for the whole "
        "batch was asked for.",
        _replaced(_by_sentence),
        0.5,
    ),
    Mistake(
        "mean of the sentences' means",
        "Each sentence's mean is taken, and then the mean of these: short sentences weigh too much. Each word counts "
        "once.",
        _replaced(lambda found, words: _by_sentence(found, words).mean(dim=0)),
        0.5,
    ),
    Mistake(
        "each position its own mean",
        "Each position gets its own mean over the sentences. One mean over all words was asked for.",
        _replaced(_by_position),
        0.5,
    ),
    Mistake(
        "one number",
        "All features get one number, the mean over features, too. Each feature has its own mean.",
        _replaced(lambda found, words: found[words].mean()),
        0.25,
    ),
    Mistake(
        "mean over the heads",
        "The head gets the mean of all heads' outputs at each place. It's its own outputs that are averaged, over "
        "words.",
        _over_heads,
        0.25,
    ),
    Mistake(
        "every head",
        "Every head is replaced by its mean. Only `head` is to be.",
        lambda outputs, words, head: torch.stack(
            [mean_ablated(outputs, words, i)[:, i] for i in range(outputs.size(1))], dim=1
        ),
        0.25,
    ),
    Mistake(
        "padding left as it was",
        "Padded places keep the head's own outputs. The head is to be gone everywhere.",
        _only_words,
        0.75,
    ),
    Mistake(
        "median",
        "The median is taken, not the mean.",
        _replaced(lambda found, words: found[words].median(dim=0).values),
        0.5,
    ),
    Mistake(
        "nothing changed",
        "The outputs come back as they were.",
        lambda outputs, words, head: outputs.clone(),
    ),
]


# 9.3 gradient times input


def gradient_cases(seed: int) -> list[Case]:
    """Return sentences, the place that asks, and a head with a readout."""
    g = torch.Generator().manual_seed(seed + 2000)

    def case(name: str, shape: list[int], places: list[int]) -> Case:
        batch, n, d, d_k = shape
        inputs = {"x": draw(g, batch, n, d, mean=0.2), "place": torch.tensor(places)}
        inputs |= {"W_q": draw(g, d, d_k, scale=0.7), "W_k": draw(g, d, d_k, scale=0.7)}
        return Case(name, inputs | {"readout": draw(g, d, mean=0.4)})

    n, d, d_k = sizes(g, 3, 3, 6)
    return [
        case("small", [1, 3, 2, 1], [1]),
        case("batch", [2, 4, 3, 2], [0, 3]),
        case("sizes from the seed", [2, n, d, d_k], [1, n - 1]),
        case("the last word asks", [3, 5, 4, 2], [4, 4, 4]),
        case("one word", [2, 1, pick(g, 2, 4), 2], [0, 0]),
        case("all sizes alike", [3, 3, 3, 3], [2, 0, 1]),
    ]


def _margin(x: Tensor, place: Tensor, W_q: Tensor, W_k: Tensor, readout: Tensor) -> Tensor:
    """Return each sentence's answer, one number."""
    asking = x[torch.arange(len(x)), place]
    scores = torch.einsum("bc,bnc->bn", asking @ W_q, x @ W_k) / W_q.size(1) ** 0.5
    return torch.einsum("bn,bnd,d->b", scores.softmax(dim=-1), x, readout)


@torch.enable_grad()
def _gradient(x: Tensor, *rest: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(_margin(leaf, *rest).sum(), leaf)[0]


def gradient_times_input(x: Tensor, place: Tensor, W_q: Tensor, W_k: Tensor, readout: Tensor) -> Tensor:
    """Return the right numbers, one for each word."""
    return (x * _gradient(x, place, W_q, W_k, readout)).sum(dim=-1)


def gradient_by_differences(x: Tensor, place: Tensor, W_q: Tensor, W_k: Tensor, readout: Tensor) -> Tensor:
    """Return the same without autograd: each word made a little longer and a little shorter, in float64."""
    rest = (place, W_q.double(), W_k.double(), readout.double())
    found = []
    for i in range(x.size(1)):
        longer, shorter = x.double(), x.double()
        longer, shorter = longer.clone(), shorter.clone()
        longer[:, i] *= 1 + 1e-5
        shorter[:, i] *= 1 - 1e-5
        found.append((_margin(longer, *rest) - _margin(shorter, *rest)) / 2e-5)
    return torch.stack(found, dim=1).to(x.dtype)


def _parts(x: Tensor, place: Tensor, W_q: Tensor, W_k: Tensor, readout: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights, the readout of each word, and the gradient with respect to the scores."""
    asking = x[torch.arange(len(x)), place]
    weights = ((asking @ W_q)[:, None] @ (x @ W_k).mT / W_q.size(1) ** 0.5).softmax(dim=-1)[:, 0]
    values = x @ readout
    return weights, values, weights * (values - (weights * values).sum(dim=-1, keepdim=True))


def gradient_by_hand(x: Tensor, place: Tensor, W_q: Tensor, W_k: Tensor, readout: Tensor) -> Tensor:
    """Return the same from the chain rule: through the value, through the key, and through the query."""
    weights, values, slope = _parts(x, place, W_q, W_k, readout)
    asking = x[torch.arange(len(x)), place]
    scores = ((asking @ W_q)[:, None] @ (x @ W_k).mT / W_q.size(1) ** 0.5)[:, 0]
    found = weights * values + slope * scores
    asked = (slope * scores).sum(dim=-1)
    return found.index_put((torch.arange(len(x)), place), asked, accumulate=True)


def _from_gradient(finish: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda x, *rest: finish(x, _gradient(x, *rest))


def _from_parts(finish: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda *inputs: finish(*_parts(*inputs))


def _stopped(x: Tensor, place: Tensor, W_q: Tensor, W_k: Tensor, readout: Tensor) -> Tensor:
    """Return gradient times input with the query held fast."""
    weights, values, slope = _parts(x, place, W_q, W_k, readout)
    asking = x[torch.arange(len(x)), place]
    return weights * values + slope * ((asking @ W_q)[:, None] @ (x @ W_k).mT / W_q.size(1) ** 0.5)[:, 0]


GRADIENT_WRONG = [
    Mistake(
        "the weights",
        "These are the attention weights. They say where the head takes its average, not what moves the answer.",
        _from_parts(lambda weights, values, slope: weights),
    ),
    Mistake(
        "weights held fast",
        "This is weight times value: the weights are taken as given. They depend on the words as well, through queries "
        "and keys, and the gradient goes through them.",
        _from_parts(lambda weights, values, slope: weights * values),
        0.5,
    ),
    Mistake(
        "query held fast",
        "The query is taken as given (x.detach(), or a leaf of its own). The word that asks is a word of the sentence, "
        "too: its vector also moves all the weights.",
        _stopped,
        0.5,
    ),
    Mistake(
        "gradient alone",
        "The gradient is summed over the features without the input. Multiply by x first, then sum.",
        _from_gradient(lambda x, gradient: gradient.sum(dim=-1)),
        0.5,
    ),
    Mistake(
        "size of the gradient",
        "This is the gradient's length at each word. That's another measure: it has no sign. Here it's x times "
        "gradient, summed over the features.",
        _from_gradient(lambda x, gradient: gradient.norm(dim=-1)),
        0.5,
    ),
    Mistake(
        "no sign",
        "The sign is lost: absolute values are taken. A word may speak against the answer.",
        _from_gradient(lambda x, gradient: (x * gradient).sum(dim=-1).abs()),
        0.5,
    ),
    Mistake(
        "absolute products summed",
        "The products' absolute values are summed. Products of both signs belong into the sum.",
        _from_gradient(lambda x, gradient: (x * gradient).abs().sum(dim=-1)),
        0.5,
    ),
    Mistake(
        "length of the product",
        "The products are squared, summed, and the root is taken. A plain sum was asked for.",
        _from_gradient(lambda x, gradient: (x * gradient).norm(dim=-1)),
        0.5,
    ),
    Mistake(
        "not summed",
        "The products aren't summed over the features: one number for each word was asked for.",
        _from_gradient(lambda x, gradient: x * gradient),
        0.5,
    ),
    Mistake(
        "mean over the features",
        "The products are averaged over the features, where they should be summed.",
        _from_gradient(lambda x, gradient: (x * gradient).mean(dim=-1)),
        0.75,
    ),
    Mistake(
        "mean over the batch",
        "The answers were averaged over the batch before the gradient was taken, so that all is too small by the "
        "number of sentences. Sum them: then each sentence's gradient is its own.",
        _from_gradient(lambda x, gradient: (x * gradient).sum(dim=-1) / len(x)),
        0.75,
    ),
    Mistake(
        "shares",
        "The numbers are divided by their sum. They were asked for as they are; with both signs, shares can't be read.",
        _from_gradient(lambda x, gradient: torch.nn.functional.normalize((x * gradient).sum(dim=-1), p=1.0, dim=-1)),
        0.75,
    ),
]


# 9.4 rollout


def rollout_cases(seed: int) -> list[Case]:
    """Return the weights of some layers."""
    g = torch.Generator().manual_seed(seed + 3000)
    depth, batch, heads, n = sizes(g, 4, 2, 5)
    shapes = {
        "one layer": (1, 1, 2, 3),
        "two layers": (2, 1, 3, 4),
        "sizes from the seed": (depth, batch, heads, n),
        "one head": (3, 2, 1, pick(g, 3, 4)),
        "many layers": (pick(g, 5, 7), 1, 2, 2),
        "one word": (2, 2, 2, 1),
        "all sizes alike": (3, 3, 3, 3),
    }
    return [Case(name, {"weights": _weights(g, *shape, shape[-1])}) for name, shape in shapes.items()]


def rollout(weights: Tensor) -> Tensor:
    """Return the right product: the last layer's matrix on the left."""
    total = torch.eye(weights.size(-1), dtype=weights.dtype)
    for layer in weights.mean(dim=2):
        total = (layer + torch.eye(weights.size(-1))) / 2 @ total
    return total


def rollout_by_paths(weights: Tensor) -> Tensor:
    """Return the same, from the last layer down, row by row."""
    depth, batch, heads, n, _ = weights.shape
    share = torch.eye(n, dtype=weights.dtype).expand(batch, n, n)
    for number in range(depth - 1, -1, -1):
        lower = torch.zeros_like(share)
        for via in range(n):
            step = sum(weights[number, :, head, via] for head in range(heads)) / (2 * heads)
            lower = lower + share[..., via, None] * step[:, None]
        share = lower + share / 2
    return share


def rollout_by_multi_dot(weights: Tensor) -> Tensor:
    """Return the same by einsum and one chain of products."""
    mixed = torch.einsum("lbhqk->blqk", weights) / (2 * weights.size(2)) + torch.eye(weights.size(-1)) / 2
    chains = [list(layers.flip(0)) for layers in mixed]
    return torch.stack([torch.linalg.multi_dot(chain) if len(chain) > 1 else chain[0] for chain in chains])


def _rolled(
    mix: Callable[[Tensor], Tensor] = lambda layers: layers.mean(dim=2),
    bypass: Callable[[Tensor, Tensor], Tensor] = lambda layer, eye: (layer + eye) / 2,
    step: Callable[[Tensor, Tensor], Tensor] = lambda layer, total: layer @ total,
) -> Callable[[Tensor], Tensor]:
    """Return a rollout of which one part is another."""

    def answer(weights: Tensor) -> Tensor:
        eye = torch.eye(weights.size(-1), dtype=weights.dtype)
        first, *others = [bypass(layer, eye) for layer in mix(weights)]
        total = first
        for layer in others:
            total = step(layer, total)
        return total

    return answer


ROLLOUT_WRONG = [
    Mistake(
        "no bypass",
        "The residual connection is forgotten: the layers' matrices are multiplied as they are. Half of each layer is "
        "the word itself: (A + I) / 2.",
        _rolled(bypass=lambda layer, eye: layer),
        0.5,
    ),
    Mistake(
        "bypass not halved",
        "The identity is added, but the sum isn't halved: rows sum to 2 in each layer.",
        _rolled(bypass=lambda layer, eye: layer + eye),
        0.5,
    ),
    Mistake(
        "layers in reverse",
        "The product runs in the wrong order: the first layer's matrix must stand on the right, since it works first.",
        _rolled(step=lambda layer, total: total @ layer),
        0.5,
    ),
    Mistake(
        "number by number",
        "The matrices are multiplied number by number (*). Ways through the layers are summed over the places "
        "between: @.",
        _rolled(step=lambda layer, total: layer * total),
        0.25,
    ),
    Mistake(
        "mean of the layers",
        "The layers are averaged. They work one after another: multiply them.",
        lambda weights: (weights.mean(dim=(0, 2)) + torch.eye(weights.size(-1))) / 2,
        0.25,
    ),
    Mistake(
        "last layer only",
        "Only the last layer is used. Its keys are mixtures already; that's what the product is for.",
        lambda weights: (weights[-1].mean(dim=1) + torch.eye(weights.size(-1))) / 2,
        0.25,
    ),
    Mistake(
        "first layer only",
        "Only the first layer is used.",
        lambda weights: (weights[0].mean(dim=1) + torch.eye(weights.size(-1))) / 2,
        0.25,
    ),
    Mistake(
        "heads summed",
        "The heads are summed. Average them, or rows sum to more than 1.",
        _rolled(mix=lambda layers: layers.sum(dim=2)),
        0.5,
    ),
    Mistake(
        "largest head",
        "Of each weight the largest head's is taken. The heads are to be averaged.",
        _rolled(mix=lambda layers: layers.max(dim=2).values),
        0.5,
    ),
    Mistake(
        "first head only",
        "Only the first head is used. Average over all of them.",
        _rolled(mix=lambda layers: layers[:, :, 0]),
        0.25,
    ),
    Mistake(
        "transposed",
        "Rows and columns are exchanged. Row i is to say where position i's vector comes from.",
        lambda weights: rollout(weights).mT,
        0.5,
    ),
    Mistake(
        "averaged over the batch",
        "The sentences are averaged. Each has its own rollout: [batch query key].",
        lambda weights: rollout(weights).mean(dim=0),
        0.25,
    ),
    Mistake(
        "bypass at the end only",
        "The bypass is added once, to the product. Each layer has one.",
        lambda weights: (_rolled(bypass=lambda layer, eye: layer)(weights) + torch.eye(weights.size(-1))) / 2,
        0.25,
    ),
]


# 9.5 a probe that has seen its test


def probe_cases(seed: int) -> list[Case]:
    """Return vectors of two classes, which lie near each other, in templates that move them."""
    g = torch.Generator().manual_seed(seed + 4000)

    def case(name: str, counts: list[int], d: int, numbers: list[int] | None = None) -> Case:
        template = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
        template = template[torch.randperm(len(template), generator=g)]
        label = torch.zeros(len(template), dtype=torch.long)
        for number in range(len(counts)):
            rows = (template == number).nonzero().flatten()
            label[rows] = (torch.arange(len(rows)) + number) % 2
        towards = draw(g, d)
        vectors = draw(g, len(template), d) + draw(g, len(counts), d)[template] + towards * label[:, None] * 0.8 + 1
        template = torch.tensor(numbers)[template] if numbers else template
        return Case(name, {"vectors": vectors, "label": label, "template": template})

    more, wide = sizes(g, 3, 4, 9), pick(g, 5, 8)
    s = torch.Generator().manual_seed(seed + 4500)
    return [
        case("small", [3, 3], 2),
        case("three templates", [3, 7, 6], 3),
        case("sizes from the seed", more, 4),
        case("many templates", [3, 3, 4, 6, 7], 2),
        case("one is large", [3, 14], 3),
        case("wide", [6, 7, 3], wide),
        case("other numbers", [4, 3, 5], 3, [pick(s, 1, 2), pick(s, 4, 5), pick(s, 8, 9)]),
        case("one has a single sentence", [5, 1, 4], 2),
    ]


def probed(vectors: Tensor, label: Tensor, template: Tensor) -> Tensor:
    """Return the right accuracies."""
    return _probe()(vectors, label, template)


def _nearest(vectors: Tensor, centres: Tensor) -> Tensor:
    return ((vectors[:, None] - centres) ** 2).sum(dim=-1).argmin(dim=-1)


def _probe(
    known: Callable[[Tensor, Tensor], Tensor] = lambda template, number: template != number,
    asked: Callable[[Tensor, Tensor], Tensor] = lambda template, number: template == number,
    choose: Callable[[Tensor, Tensor], Tensor] = _nearest,
) -> Callable[..., Tensor]:
    """Return a probe that is trained on some sentences and asked others, for each template."""

    def answer(vectors: Tensor, label: Tensor, template: Tensor) -> Tensor:
        found = []
        for number in template.unique():
            train, test = known(template, number), asked(template, number)
            centres = torch.stack([vectors[train & (label == c)].mean(dim=0) for c in (0, 1)])
            found.append((choose(vectors[test], centres) == label[test]).to(vectors.dtype).mean())
        return torch.stack(found)

    return answer


def probed_by_boundary(vectors: Tensor, label: Tensor, template: Tensor) -> Tensor:
    """Return the same by the plane half way between the centres."""
    rates = []
    for number in sorted(set(template.tolist())):
        train = template != number
        one, zero = (vectors[train & (label == c)].sum(0) / (train & (label == c)).sum() for c in (1, 0))
        said = (vectors - (one + zero) / 2) @ (one - zero) > 0
        rates.append(float((said == label.bool())[~train].double().mean()))
    return torch.tensor(rates, dtype=vectors.dtype)


def probed_by_matrix(vectors: Tensor, label: Tensor, template: Tensor) -> Tensor:
    """Return the same, all templates at once, with one-hot tables."""
    inside = torch.nn.functional.one_hot(template.unique(return_inverse=True)[1]).T  # [template sentence]
    of_class = torch.nn.functional.one_hot(label).T
    train = ((1 - inside)[:, None] * of_class).to(vectors.dtype)  # [template class sentence]
    centres = train @ vectors / train.sum(dim=-1, keepdim=True)
    said = torch.cdist(vectors.expand(len(inside), -1, -1), centres).argmin(dim=-1)
    return ((said == label) * inside).sum(dim=1).to(vectors.dtype) / inside.sum(dim=1)


def _everything(template: Tensor, number: Tensor) -> Tensor:
    return torch.ones_like(template, dtype=torch.bool)


def _numbered(numbers: Callable[[Tensor], range]) -> Callable[..., Tensor]:
    """Return a probe that asks templates of these numbers, whichever there are."""

    def answer(vectors: Tensor, label: Tensor, template: Tensor) -> Tensor:
        found = []
        for number in numbers(template):
            train, test = template != number, template == number
            centres = torch.stack([vectors[train & (label == c)].mean(dim=0) for c in (0, 1)])
            found.append((_nearest(vectors[test], centres) == label[test]).to(vectors.dtype).mean())
        return torch.stack(found)

    return answer


PROBE_WRONG = [
    Mistake(
        "templates counted from 0",
        "It's taken for granted that the templates are numbered 0, 1, 2 and so on. Go through `template.unique()`: the "
        "numbers that are there.",
        _numbered(lambda template: range(len(template.unique()))),
        0.75,
    ),
    Mistake(
        "numbers that aren't there",
        "There's a share for every number up to the largest, NaN where no template has it. Go through "
        "`template.unique()`.",
        _numbered(lambda template: range(int(template.max()) + 1)),
        0.75,
    ),
    Mistake(
        "both bugs are there",
        "Both bugs are still there: the centres are made from all sentences, and all are asked. So the probe is asked "
        "what it was shown.",
        _probe(_everything, _everything),
    ),
    Mistake(
        "test template in the training",
        "The centres are still made from all sentences, those of the template that is asked, too. Leave them out: what "
        "the probe has seen it may know by heart.",
        _probe(known=_everything),
        0.5,
    ),
    Mistake(
        "training sentences in the test",
        "The centres are right now, but all sentences are asked, those that they were made from, too. Ask those of the "
        "template alone.",
        _probe(asked=_everything),
        0.5,
    ),
    Mistake(
        "trained on the template alone",
        "The probe is trained on the template and tested on the others: it's the other way round.",
        _probe(lambda t, number: t == number, lambda t, number: t != number),
        0.25,
    ),
    Mistake(
        "trained and tested on one template",
        "The probe is trained on the very sentences that it's asked.",
        _probe(known=lambda t, number: t == number),
    ),
    Mistake(
        "one number",
        "One accuracy is given for all templates. They differ: return each template's own.",
        lambda *inputs: probed(*inputs).mean().expand(int(inputs[2].max()) + 1),
        0.25,
    ),
    Mistake(
        "wrong answers counted",
        "This is the share of wrong answers.",
        lambda *inputs: 1 - probed(*inputs),
        0.5,
    ),
    Mistake(
        "largest product",
        "The class is chosen whose centre has the largest product with the vector: a long centre wins too often. The "
        "nearest centre was asked for.",
        _probe(choose=lambda vectors, centres: (vectors @ centres.T).argmax(dim=-1)),
        0.5,
    ),
    Mistake(
        "largest cosine",
        "The class is chosen whose centre points most nearly the same way. The nearest centre, by distance, was asked "
        "for.",
        _probe(
            choose=lambda vectors, centres: (vectors @ torch.nn.functional.normalize(centres, dim=-1).T).argmax(dim=-1)
        ),
        0.5,
    ),
    Mistake(
        "number of right answers",
        "This is the number of right answers in each template. Divide by the number of its sentences.",
        lambda vectors, label, template: probed(vectors, label, template) * torch.bincount(template),
        0.5,
    ),
    Mistake(
        "share of all sentences",
        "Right answers are divided by the number of all sentences. Divide by the template's own.",
        lambda vectors, label, template: probed(vectors, label, template) * torch.bincount(template) / len(template),
        0.5,
    ),
]


# 9.6 how many answers flip


def flip_cases(seed: int) -> list[Case]:
    """Return margins as they are and with each head patched."""
    g = torch.Generator().manual_seed(seed + 5000)

    def case(name: str, layers: int, heads: int, count: int) -> Case:
        margin = draw(g, count, mean=0.6, scale=1.5)
        margin[:4] = torch.tensor([1.1, -0.7, 2.3, 0.4])[:count]
        return Case(name, {"margin": margin, "patched": margin + draw(g, layers, heads, count, mean=-0.2, scale=2.5)})

    layers, heads, count = sizes(g, 3, 2, 9)
    return [
        case("small", 1, 2, 4),
        case("two layers", 2, 3, 7),
        case("sizes from the seed", layers, heads, count + 4),
        case("one head", 3, 1, 9),
        case("many sentences", 2, 2, 23),
        case("all sizes alike", 5, 5, 5),
    ]


def flips(margin: Tensor, patched: Tensor) -> Tensor:
    """Return the right shares."""
    return (patched[..., margin > 0] < 0).to(margin.dtype).mean(dim=-1)


def flips_by_loop(margin: Tensor, patched: Tensor) -> Tensor:
    """Return the same, sentence by sentence."""
    shares = []
    for layer in patched.tolist():
        for head in layer:
            pairs = [(a, b) for a, b in zip(margin.tolist(), head, strict=True) if a > 0]
            shares.append(sum(b < 0 for _, b in pairs) / len(pairs))
    return torch.tensor(shares, dtype=margin.dtype).reshape(patched.shape[:2])


def flips_by_product(margin: Tensor, patched: Tensor) -> Tensor:
    """Return the same by a product of truth values."""
    right = (margin > 0).to(margin.dtype)
    return ((patched < 0).to(margin.dtype) @ right) / right.sum()


FLIP_WRONG = [
    Mistake(
        "share of all answers",
        "The flips are divided by the number of all sentences. Only answers that were right can turn: divide by those.",
        lambda margin, patched: ((margin > 0) & (patched < 0)).to(margin.dtype).mean(dim=-1),
        0.5,
    ),
    Mistake(
        "flips both ways",
        "Wrong answers that turn right are counted, too. Only right ones that turn wrong were asked for.",
        lambda margin, patched: ((margin > 0) != (patched > 0)).to(margin.dtype).mean(dim=-1),
        0.5,
    ),
    Mistake(
        "wrong afterwards",
        "These are the wrong answers after patching, those that were wrong before among them. Look at the right ones "
        "only.",
        lambda margin, patched: (patched < 0).to(margin.dtype).mean(dim=-1),
        0.25,
    ),
    Mistake(
        "loss of accuracy",
        "This is the accuracy before minus that after. Answers that turn right hide some that turn wrong.",
        lambda margin, patched: (margin > 0).to(margin.dtype).mean() - (patched > 0).to(margin.dtype).mean(dim=-1),
        0.5,
    ),
    Mistake(
        "still right",
        "This is the share of right answers that stay right.",
        lambda margin, patched: 1 - flips(margin, patched),
        0.5,
    ),
    Mistake(
        "wrong answers mended",
        "These are wrong answers that turn right, as a share of the wrong ones: it's the other way round.",
        lambda margin, patched: (patched[..., margin < 0] > 0).to(margin.dtype).mean(dim=-1),
        0.25,
    ),
    Mistake(
        "smaller margin",
        "Every answer whose margin shrinks is counted. It flips when the margin's sign changes.",
        lambda margin, patched: (patched < margin)[..., margin > 0].to(margin.dtype).mean(dim=-1),
        0.25,
    ),
    Mistake(
        "mean change",
        "This is how much the margin changes on average. A share of answers was asked for.",
        lambda margin, patched: (margin - patched)[..., margin > 0].mean(dim=-1),
        0.25,
    ),
    Mistake(
        "number of flips",
        "This is the number of flips. Divide by the number of answers that were right.",
        lambda margin, patched: (patched[..., margin > 0] < 0).to(margin.dtype).sum(dim=-1),
        0.5,
    ),
    Mistake(
        "one share for each layer",
        "The heads of a layer are averaged. Each head has its own share: [layer heads].",
        lambda margin, patched: flips(margin, patched).mean(dim=-1),
        0.5,
    ),
    Mistake(
        "any head",
        "An answer counts for every head as soon as one head of its layer flips it. Each head is patched by itself.",
        lambda margin, patched: (
            (patched[..., margin > 0] < 0)
            .any(dim=1, keepdim=True)
            .to(margin.dtype)
            .mean(dim=-1)
            .expand(patched.shape[:2])
        ),
        0.25,
    ),
]


PROBES = [
    Probe(
        id="9.1",
        title="heads that attend as in the twin",
        kind="error",
        entry="patched_weights",
        points=4,
        minutes=12,
        difficulty=2,
        cases=patched_cases,
        reference=patched,
        original=("ablation.replace_heads",),
        right={"a mask over the heads": patched_by_where, "head by head": patched_by_list},
        wrong=PATCHED_WRONG,
    ),
    Probe(
        id="9.2",
        title="a head replaced by its mean",
        kind="function",
        entry="mean_ablated",
        points=4,
        minutes=12,
        difficulty=2,
        cases=mean_cases,
        reference=mean_ablated,
        right={"word by word": mean_by_loop, "einsum": mean_by_einsum},
        wrong=MEAN_WRONG,
    ),
    Probe(
        id="9.3",
        title="gradient times input",
        kind="function",
        entry="gradient_times_input",
        points=5,
        minutes=18,
        difficulty=3,
        cases=gradient_cases,
        reference=gradient_times_input,
        right={"by differences": gradient_by_differences, "the chain rule": gradient_by_hand},
        wrong=GRADIENT_WRONG,
        tolerance=2e-4,
    ),
    Probe(
        id="9.4",
        title="attention through all layers",
        kind="function",
        entry="rollout",
        points=4,
        minutes=12,
        difficulty=2,
        cases=rollout_cases,
        reference=rollout,
        right={"from the last layer down": rollout_by_paths, "one chain": rollout_by_multi_dot},
        wrong=ROLLOUT_WRONG,
    ),
    Probe(
        id="9.5",
        title="a probe that has seen its test",
        kind="bug",
        entry="probe_accuracy",
        points=4,
        minutes=15,
        difficulty=2,
        cases=probe_cases,
        reference=probed,
        right={"a plane between": probed_by_boundary, "all at once": probed_by_matrix},
        wrong=PROBE_WRONG,
    ),
    Probe(
        id="9.6",
        title="how many answers flip",
        kind="function",
        entry="flip_shares",
        points=3,
        minutes=8,
        difficulty=1,
        cases=flip_cases,
        reference=flips,
        right={"sentence by sentence": flips_by_loop, "a product": flips_by_product},
        wrong=FLIP_WRONG,
    ),
]


QUESTIONS = [
    Question(
        id="9.7",
        title="a head that nobody misses",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "why a head may matter and yet not be missed alone", "others do the same: take out several"),
            (1, "what is unfair about setting a head to zero", "unseen inputs for later layers: mean, or patching"),
            (1, "what patching asks instead", "same words, other weights: does the answer follow the weights?"),
            (1, "what would convince you, in numbers", "several seeds, all heads, groups; chance and controls beside"),
        ),
    ),
    Question(
        id="9.8",
        title="a picture in a paper",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what the map does show, exactly", "where that head takes its average in that layer"),
            (
                1,
                "what is missing between the map and the claim",
                "values, other heads, layers, the bypass; one example",
            ),
            (1, "the controls that you ask for", "twins or counterfactuals, even weights, held-out templates, seeds"),
            (1, "an intervention that could refute the claim", "ablate or patch that head: does the answer change?"),
        ),
    ),
]
