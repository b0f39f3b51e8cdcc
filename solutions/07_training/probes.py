"""What chapter 07's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from transformer_lib.exercises.authoring import draw, guarded, pick, probe, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Question


def _rows(generator: torch.Generator, lengths: Sequence[int], padding: int, low: int, high: int) -> Tensor:
    """Return rows of ids from low to high - 1, none of which is the padding's, filled up at the end."""
    words = torch.randint(low, high - 1, (len(lengths), max(lengths)), generator=generator)
    words = words + (words >= padding).long() if padding >= low else words
    return words.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], padding)


# 7.1 the smoothed loss


def loss_cases(seed: int) -> list[Case]:
    """Return logits and labels; the padding's id isn't always 0, and 0 may be a word."""
    g = torch.Generator().manual_seed(seed)

    def case(name: str, lengths: list[int], vocabulary: int, smoothing: float, padding: int = 0) -> Case:
        labels = _rows(g, lengths, padding, 0 if padding else 1, vocabulary)
        logits = draw(g, *labels.shape, vocabulary, scale=1.5)
        inputs = {"logits": logits, "labels": labels, "smoothing": smoothing, "padding": padding}
        return Case(name, inputs)

    scattered = case("padding in between", [4, 3], 5, 0.1)
    scattered.inputs["labels"][0, 1] = 0
    defaults = case("smoothing and padding not given", [2, 3], 5, 0.1)
    del defaults.inputs["smoothing"], defaults.inputs["padding"]
    nothing = case("nothing but padding", [2, 1], 4, 0.1)
    nothing = replace(nothing, mentions=("padding",), telling="the word")
    nothing.inputs["labels"].zero_()
    zero = case("0 is a word", [3, 1], 6, 0.2, 5)
    zero.inputs["labels"][0, 1] = 0
    found = [case("small", [2], 4, 0.1), case("padding", [3, 1, 2], 5, 0.1)]
    some, more, vocabulary = sizes(g, 3, 1, 6)
    large = case("large logits", [1, 2], 4, 0.1)
    large.inputs["logits"] *= 70
    empty = case("sentences of nothing but padding", [pick(g, 2, 3), 2, 1], 5, 0.1)
    empty.inputs["labels"][[0, 2]] = 0
    around = case("padding in front, too", [4, 4, 4], 6, 0.1)
    around.inputs["labels"][:, [0, 3]] = around.inputs["labels"][1, 2] = 0
    zeros = case("every label is 0, a word", [2, pick(g, 2, 3)], 5, 0.2, pick(g, 1, 4))
    zeros.inputs["labels"].zero_()
    other = case("nothing but padding, whose id isn't 0", [pick(g, 1, 2), 2], 5, 0.1, pick(g, 1, 4))
    other = replace(other, mentions=("padding",), telling="the word")
    other.inputs["labels"].fill_(other.inputs["padding"])
    return [
        *found,
        case("no padding", [2, 2], 6, 0.1),
        case("no smoothing", [1, 4], 5, 0.0),
        case("much smoothing", [pick(g, 3, 5), 2, 1], 7, 0.4, 3),
        case("sizes from the seed", [some, more], vocabulary + 4, 0.05 * pick(g, 1, 5), pick(g, 0, 3)),
        zero,
        scattered,
        defaults,
        empty,
        large,
        around,
        zeros,
        nothing,
        other,
    ]


def loss(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
    """Return the right loss, or say that there is nothing to average."""
    real = _real(labels, padding)
    logs = logits.log_softmax(dim=-1)[real]
    right = logs.gather(-1, labels[real][:, None])[:, 0]
    return -((1 - smoothing) * right + smoothing * logs.mean(dim=-1)).mean()


def _real(labels: Tensor, padding: int) -> Tensor:
    """Return True at real labels, or say that there are none."""
    if (labels == padding).all():
        raise ValueError(f"wanted a label that isn't padding ({padding}), got {labels.numel()} that are")
    return labels != padding


def loss_by_torch(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
    """Return the same by PyTorch's own."""
    _real(labels, padding)
    return F.cross_entropy(
        logits.reshape(-1, logits.size(-1)), labels.reshape(-1), ignore_index=padding, label_smoothing=smoothing
    )


def loss_by_shares(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
    """Return the same from the wanted shares, each place weighed by 1 or 0."""
    vocabulary = logits.size(-1)
    wanted = (1 - smoothing) * F.one_hot(labels, vocabulary) + smoothing / vocabulary
    places = -(wanted * (logits - logits.logsumexp(dim=-1, keepdim=True))).sum(dim=-1)
    real = _real(labels, padding).to(logits.dtype)
    return (places * real).sum() / real.sum()


def _averaged(average: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a loss that averages the places' losses in another way, given which labels are real."""

    def answer(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
        logs = logits.log_softmax(dim=-1)
        right = logs.gather(-1, labels[..., None])[..., 0]
        places = -((1 - smoothing) * right + smoothing * logs.mean(dim=-1))
        return average(places, _real(labels, padding).to(logits.dtype))

    return answer


def _places(place: Callable[[Tensor, Tensor, float, int], Tensor]) -> Callable[..., Tensor]:
    """Return a loss with something else at each real place, from the logarithms, the labels, smoothing and padding."""

    def answer(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
        real = _real(labels, padding)
        return place(logits.log_softmax(dim=-1)[real], labels[real], smoothing, padding).mean()

    return answer


def _right(logs: Tensor, labels: Tensor) -> Tensor:
    return logs.gather(-1, labels[:, None])[:, 0]


def _none_for_padding(logs: Tensor, labels: Tensor, smoothing: float, padding: int) -> Tensor:
    """Return losses with shares as they are often written: none for the padding, the rest for all the others."""
    size = logs.size(-1)
    others = logs.sum(dim=-1) - _right(logs, labels) - logs[:, padding]
    return -((1 - smoothing) * _right(logs, labels) + smoothing / (size - 2) * others)


LOSS_WRONG = [
    Mistake(
        "padding counted",
        "Places whose label is padding are counted like words: the model is paid for saying <pad>.",
        _averaged(lambda places, real: places.mean()),
        0.5,
    ),
    Mistake(
        "padding counted below",
        "Above the fraction line padding is left out, below it's counted: much padding makes a batch look easy. Divide "
        "by the number of real labels.",
        _averaged(lambda places, real: (places * real).mean()),
        0.5,
    ),
    Mistake(
        "mean of sentences",
        "Each sentence is averaged first, then the sentences are: a word in a short sentence counts for more. Add up "
        "all words, then divide.",
        _averaged(lambda places, real: ((places * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)).mean()),
        0.5,
    ),
    Mistake(
        "exp overflows",
        "The exponentials of large logits overflow, and NaN comes out. log_softmax subtracts each row's maximum first.",
        lambda *inputs: _overflowing(*inputs),
        0.75,
    ),
    Mistake(
        "a sentence of padding refused",
        "A batch in which one sentence holds nothing but padding is refused. There are other words to average: refuse "
        "it only if every label is padding.",
        lambda *inputs: _strict(*inputs),
        0.75,
    ),
    Mistake(
        "per sentence",
        "The sum is divided by the number of sentences. Nats per token were asked for.",
        _averaged(lambda places, real: (places * real).sum() / len(real)),
        0.5,
    ),
    Mistake(
        "sum",
        "The losses are added up, and not divided by the number of real labels.",
        _averaged(lambda places, real: (places * real).sum()),
        0.5,
    ),
    Mistake(
        "one for each place",
        "These are the places' losses. Their average is wanted: one number.",
        _averaged(lambda places, real: places * real),
        0.5,
    ),
    Mistake(
        "no smoothing",
        "This is the loss without smoothing: all tokens should get their part of it.",
        _places(lambda logs, labels, e, p: -_right(logs, labels)),
        0.5,
    ),
    Mistake(
        "smoothing for the others only",
        "The smoothing is shared by the wrong tokens only, smoothing / (V - 1) each. Here all V tokens get "
        "smoothing / V, the right one, too.",
        _places(
            lambda logs, labels, e, p: (
                -((1 - e) * _right(logs, labels) + e / (logs.size(-1) - 1) * (logs.sum(-1) - _right(logs, labels)))
            )
        ),
        0.75,
    ),
    Mistake(
        "none for the padding",
        "The shares are smoothing / (V - 2): none for the right token and none for the padding. It's often done so; "
        "the formula here spreads over all V.",
        _places(_none_for_padding),
        0.75,
    ),
    Mistake(
        "right token keeps all",
        "The right token keeps its full share, so that the shares sum to more than 1. It gets 1 - smoothing of it.",
        _places(lambda logs, labels, e, p: -(_right(logs, labels) + e * logs.mean(-1))),
        0.5,
    ),
    Mistake(
        "sum over the vocabulary",
        "Each token gets the whole smoothing. It is to be divided by their number V.",
        _places(lambda logs, labels, e, p: -((1 - e) * _right(logs, labels) + e * logs.sum(-1))),
        0.5,
    ),
    Mistake(
        "shares exchanged",
        "smoothing and 1 - smoothing are exchanged.",
        _places(lambda logs, labels, e, p: -(e * _right(logs, labels) + (1 - e) * logs.mean(-1))),
        0.5,
    ),
    Mistake(
        "logarithm of the smoothed probability",
        "The probability is smoothed, not the label: -log((1 - smoothing) p + smoothing / V). It's the wanted shares "
        "that change.",
        _places(lambda logs, labels, e, p: -((1 - e) * _right(logs, labels).exp() + e / logs.size(-1)).log()),
        0.25,
    ),
    Mistake(
        "smoothing fixed",
        "smoothing is 0.1 here whatever is passed.",
        lambda logits, labels, smoothing=0.1, padding=0: loss(logits, labels, 0.1, padding),
        0.75,
    ),
    Mistake(
        "0 taken for padding",
        "0 is taken for the padding's id. It's `padding` that says which id fills up.",
        lambda logits, labels, smoothing=0.1, padding=0: loss(logits, labels, smoothing, 0),
        0.75,
    ),
    Mistake(
        "nothing refused",
        "A batch of nothing but padding gives 0/0 = NaN, which would spoil all weights at the next step. Raise a "
        "ValueError.",
        lambda *inputs: _unguarded(*inputs),
        0.75,
    ),
    Mistake(
        "0 taken for padding in the guard",
        "The guard asks whether any label differs from 0, as labels.any() and labels.sum() do. It's `padding` that "
        "says which id fills up: other padding gets through, and sentences of word 0 are refused.",
        lambda *inputs: _guarding_zero(*inputs),
        0.75,
    ),
    Mistake(
        "text that says nothing",
        "ValueError is right, but its text doesn't say what is wrong: it should hold the word padding.",
        lambda *inputs: _asserted(*inputs, kind=ValueError),
        0.75,
    ),
    Mistake(
        "0 for nothing",
        "A batch of nothing but padding gives 0, as if it were perfect. Raise a ValueError.",
        lambda *inputs: _unguarded(*inputs).nan_to_num(0.0),
        0.75,
    ),
    Mistake(
        "assertion",
        "An assertion refuses, but python -O leaves it out: raise ValueError.",
        lambda *inputs: _asserted(*inputs),
        0.75,
    ),
    Mistake(
        "minus missing",
        "The sign is wrong: a loss is positive here.",
        lambda *inputs: -loss(*inputs),
        0.75,
    ),
    Mistake(
        "bits",
        "These are bits: the logarithm is to the base 2. Nats were asked for.",
        lambda *inputs: loss(*inputs) / math.log(2),
        0.75,
    ),
    Mistake(
        "no softmax",
        "The logits are taken for logarithms of probabilities. log_softmax makes them so.",
        lambda logits, labels, smoothing=0.1, padding=0: _raw(logits, labels, smoothing, padding),
        0.25,
    ),
    Mistake(
        "softmax over positions",
        "The softmax runs along the positions. The vocabulary is the last axis: dim=-1.",
        lambda logits, labels, smoothing=0.1, padding=0: _raw(logits.log_softmax(1), labels, smoothing, padding),
        0.25,
    ),
]


def _unguarded(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=padding, label_smoothing=smoothing)


def _guarding_zero(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
    if not labels.any():
        raise ValueError("nothing but padding")
    return _unguarded(logits, labels, smoothing, padding)


def _asserted(
    logits: Tensor,
    labels: Tensor,
    smoothing: float = 0.1,
    padding: int = 0,
    kind: type[Exception] = AssertionError,
) -> Tensor:
    if (labels == padding).all():
        raise kind("bad labels")
    return _unguarded(logits, labels, smoothing, padding)


def _overflowing(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
    return _raw((logits.exp() / logits.exp().sum(dim=-1, keepdim=True)).log(), labels, smoothing, padding)


def _strict(logits: Tensor, labels: Tensor, smoothing: float = 0.1, padding: int = 0) -> Tensor:
    for row in labels:
        _real(row, padding)
    return loss(logits, labels, smoothing, padding)


def _raw(logs: Tensor, labels: Tensor, smoothing: float, padding: int) -> Tensor:
    real = _real(labels, padding)
    logs, labels = logs[real], labels[real]
    return -((1 - smoothing) * _right(logs, labels) + smoothing * logs.mean(dim=-1)).mean()


# 7.2 the rate of every step


def rate_cases(seed: int) -> list[Case]:
    """Return runs with a warm-up and a tail."""
    g = torch.Generator().manual_seed(seed + 1000)
    steps, wide = pick(g, 9, 12), pick(g, 10, 40)
    runs = {
        "small": (5, 4, 2, 1),
        "warm-up and tail": (8, 4, 4, 3),
        "tail of all": (6, 2, 2, 6),
        "tail into the warm-up": (6, 3, 5, 4),
        "warm-up of one": (6, 4, 1, 2),
        "never at its peak": (5, 2, 9, 2),
        "wider": (pick(g, 6, 8), 9, 3, 4),
        "numbers from the seed": (steps, wide, pick(g, 3, 5), pick(g, 2, 7)),
        "one step": (1, pick(g, 2, 9), pick(g, 2, 5), 1),
    }
    names = ("steps", "d_model", "warmup", "tail")
    return [Case(name, dict(zip(names, numbers, strict=True))) for name, numbers in runs.items()]


def _rates(
    noam: Callable[[Tensor, int, int], Tensor] | None = None,
    tail: Callable[[Tensor, int, int], Tensor] | None = None,
) -> Callable[[int, int, int, int], Tensor]:
    """Return the rates, with another rise and fall or another tail, each from the steps 1, 2 and so on."""

    def right(step: Tensor, d_model: int, warmup: int) -> Tensor:
        return d_model**-0.5 * torch.minimum(step**-0.5, step * warmup**-1.5)

    def end(step: Tensor, steps: int, last: int) -> Tensor:
        return ((steps - step + 1) / last).clamp(max=1)

    def answer(steps: int, d_model: int, warmup: int, tail_steps: int) -> Tensor:
        step = torch.arange(1, steps + 1).float()
        return (noam or right)(step, d_model, warmup) * (tail or end)(step, steps, tail_steps)

    return answer


rates = _rates()


def rates_by_loop(steps: int, d_model: int, warmup: int, tail: int) -> Tensor:
    """Return the same, step by step."""
    found = []
    for step in range(1, steps + 1):
        rate = step / warmup**1.5 if step < warmup else 1 / math.sqrt(step)
        left = steps - step + 1
        found.append(rate / math.sqrt(d_model) * (left / tail if left < tail else 1))
    return torch.tensor(found)


def rates_by_pieces(steps: int, d_model: int, warmup: int, tail: int) -> Tensor:
    """Return the same from pieces that are put together."""
    peak = (d_model * warmup) ** -0.5
    rise = torch.arange(1, warmup + 1) / warmup
    fall = (warmup / torch.arange(warmup + 1, warmup + steps + 1)) ** 0.5
    whole = peak * torch.cat([rise, fall])[:steps]
    whole[steps - tail :] *= torch.arange(tail, 0, -1) / tail
    return whole


RATE_WRONG = [
    Mistake(
        "larger of the two",
        "The larger of the two arms is taken: a rise that never ends, after a start too steep. min is wanted.",
        _rates(lambda s, d, w: d**-0.5 * torch.maximum(s**-0.5, s * w**-1.5)),
        0.5,
    ),
    Mistake(
        "counted from 0",
        "Steps are counted from 0: the first rate is 0, and all are one step late. The first step is step 1.",
        _rates(lambda s, d, w: d**-0.5 * torch.minimum((s - 1).clamp(min=1e-9) ** -0.5, (s - 1) * w**-1.5)),
        0.5,
    ),
    Mistake(
        "no warm-up",
        "There's no rise: this is the falling arm alone.",
        _rates(lambda s, d, w: d**-0.5 * s**-0.5),
        0.25,
    ),
    Mistake(
        "no fall",
        "The rate rises to its peak and stays there. After the warm-up it falls with 1 / sqrt(step).",
        _rates(lambda s, d, w: (d * w) ** -0.5 * (s / w).clamp(max=1)),
        0.25,
    ),
    Mistake(
        "warmup to the -0.5",
        "The rising arm is too steep: it's step * warmup**-1.5, so that both arms meet at step = warmup.",
        _rates(lambda s, d, w: d**-0.5 * torch.minimum(s**-0.5, s * w**-0.5)),
        0.5,
    ),
    Mistake(
        "d_model left out",
        "d_model**-0.5 is missing.",
        _rates(lambda s, d, w: torch.minimum(s**-0.5, s * w**-1.5)),
        0.5,
    ),
    Mistake(
        "times sqrt(d_model)",
        "The rates are multiplied by the root of d_model, not divided by it: wider models take smaller steps.",
        _rates(lambda s, d, w: d**0.5 * torch.minimum(s**-0.5, s * w**-1.5)),
        0.5,
    ),
    Mistake(
        "divided by d_model",
        "The rates are divided by d_model. It's its root.",
        _rates(lambda s, d, w: d**-1.0 * torch.minimum(s**-0.5, s * w**-1.5)),
        0.5,
    ),
    Mistake(
        "falls with 1 / step",
        "The rate falls with 1 / step. It's 1 / sqrt(step).",
        _rates(lambda s, d, w: (d * w) ** -0.5 * torch.minimum(w / s, s / w)),
        0.5,
    ),
    Mistake(
        "no tail",
        "Rise and fall are right, but the tail is missing.",
        _rates(tail=lambda s, n, t: torch.ones_like(s)),
        0.5,
    ),
    Mistake(
        "last rate 0",
        "The tail ends at exactly 0, so that the last step is no step. It's (steps - step + 1) / tail: 1 / tail at the "
        "last step.",
        _rates(tail=lambda s, n, t: ((n - s) / t).clamp(max=1)),
        0.75,
    ),
    Mistake(
        "tail from the start",
        "The factor falls from the first step on. It's 1 until the last `tail` steps.",
        _rates(tail=lambda s, n, t: (n - s + 1) / n),
        0.5,
    ),
    Mistake(
        "tail above 1",
        "The tail's factor isn't kept at 1 at most: before the tail it makes the rates larger.",
        _rates(tail=lambda s, n, t: (n - s + 1) / t),
        0.5,
    ),
    Mistake(
        "tail after the end",
        "The tail's factor is 1 at the first of the steps and rises, or the tail stands at the wrong end.",
        _rates(tail=lambda s, n, t: (s / t).clamp(max=1)),
        0.25,
    ),
    Mistake(
        "dropped to 0",
        "In the tail the rate is 0 at once. It should fall in a straight line.",
        _rates(tail=lambda s, n, t: (n - s + 1 > t).float()),
        0.25,
    ),
    Mistake(
        "last rate only",
        "One number comes back. The rate of each step was asked for.",
        lambda *sizes: rates(*sizes)[-1],
        0.25,
    ),
    Mistake(
        "one step too many",
        "There's one rate too many: the steps are 1 to `steps`.",
        lambda steps, d, w, t: torch.cat([torch.zeros(1), rates(steps, d, w, t)]),
        0.5,
    ),
]


# 7.3 what the decoder reads, and what it must say


def shift_cases(seed: int) -> list[Case]:
    """Return rows of words of several lengths; ids of start, end and padding differ from case to case."""
    g = torch.Generator().manual_seed(seed + 2000)

    def case(name: str, lengths: list[int], start: int, end: int, padding: int, longest: int = 0) -> Case:
        words = _rows(g, lengths, padding, 4 if padding < 4 else 0, 12)
        words = F.pad(words, (0, longest - words.size(1)), value=padding) if longest else words
        return Case(name, {"words": words, "start": start, "end": end, "padding": padding})

    start, end, padding = (int(i) for i in torch.randperm(4, generator=g)[:3])
    some, more = sizes(g, 2, 1, 5)
    return [
        case("small", [2], 1, 2, 0),
        case("batch", [3, 1, 2], 1, 2, 0),
        case("no padding", [2, 2, 2], 1, 2, 0),
        case("padding everywhere", [2, 1], 1, 2, 0, pick(g, 4, 6)),
        case("other ids", [1, 3], 2, 1, 3),
        case("padding's id is large", [pick(g, 3, 5), 2], 20, 21, 12),
        case("one word", [1], 3, 2, 1),
        case("sizes from the seed", [some, more, pick(g, 1, 5)], start, end, padding),
        case("a row without a word", [pick(g, 2, 3), 0], 1, 2, 0),
        case("start is padding", [pick(g, 2, 3), 1], 0, pick(g, 1, 3), 0),
        case("start is padding, other ids", [1, 4, 0], same := pick(g, 12, 15), 2, same),
    ]


def _whole(words: Tensor, start: int, end: int, padding: int) -> Tensor:
    """Return start, words, end, padding."""
    lengths = (words != padding).sum(dim=1)
    whole = F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=padding)
    whole[torch.arange(len(words)), lengths + 1] = end
    return whole


def shift(words: Tensor, start: int, end: int, padding: int) -> tuple[Tensor, Tensor]:
    """Return the right pair."""
    whole = _whole(words, start, end, padding)
    return whole[:, :-1], whole[:, 1:]


def shift_by_rows(words: Tensor, start: int, end: int, padding: int) -> tuple[Tensor, Tensor]:
    """Return the same, row by row."""
    reads, says = [], []
    for row in words.tolist():
        whole = [start, *(word for word in row if word != padding), end]
        whole += [padding] * (len(row) + 2 - len(whole))
        reads.append(whole[:-1])
        says.append(whole[1:])
    return torch.tensor(reads), torch.tensor(says)


def shift_by_masks(words: Tensor, start: int, end: int, padding: int) -> tuple[Tensor, Tensor]:
    """Return the same: the end stands at padding before which there's a word."""
    column = torch.full_like(words[:, :1], padding)
    says = torch.cat([words, column], dim=1)
    before = torch.cat([column + 1, words], dim=1)
    says = torch.where((says == padding) & (before != padding), torch.full_like(says, end), says)
    return torch.cat([torch.full_like(column, start), says[:, :-1]], dim=1), says


def _shift(pair: Callable[[Tensor, int, int, int], Any]) -> Callable[..., Any]:
    """Return an answer from the whole rows."""
    return lambda words, start, end, padding: pair(_whole(words, start, end, padding), start, end, padding)


def _ended(place: Callable[[Tensor, int], Tensor]) -> Callable[..., Any]:
    """Return an answer that finds the end's column in the rows with <start> in front, from these and the padding."""

    def answer(words: Tensor, start: int, end: int, padding: int) -> tuple[Tensor, Tensor]:
        whole = F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=padding)
        whole[torch.arange(len(words)), place(whole, padding)] = end
        return whole[:, :-1], whole[:, 1:]

    return answer


def _last_column(words: Tensor, start: int, end: int) -> Tensor:
    return F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=end)


SHIFT_WRONG = [
    Mistake(
        "both bugs are there",
        "Both bugs are still there: the decoder reads what it must say, and <end> stands behind the padding.",
        lambda w, s, e, p: (_last_column(w, s, e)[:, 1:],) * 2,
    ),
    Mistake(
        "end mended, shift not",
        "<end> stands right, but the decoder still reads what it must say. It should read everything but the last "
        "column, and say everything but the first.",
        _shift(lambda whole, s, e, p: (whole[:, 1:],) * 2),
        0.5,
    ),
    Mistake(
        "shift mended, end not",
        "The shift is right, but <end> still stands in the last column, behind the padding. It belongs right behind "
        "each row's last word.",
        lambda w, s, e, p: ((whole := _last_column(w, s, e))[:, :-1], whole[:, 1:]),
        0.5,
    ),
    Mistake(
        "start read and said",
        "Both are the row from <start> on, so that the decoder still reads what it must say.",
        _shift(lambda whole, s, e, p: (whole[:, :-1],) * 2),
        0.25,
    ),
    Mistake(
        "order exchanged",
        "The two are in the other order: first what the decoder reads, then what it must say.",
        _shift(lambda whole, s, e, p: (whole[:, 1:], whole[:, :-1])),
        0.5,
    ),
    Mistake(
        "no end",
        "No <end> is ever said: the model wouldn't learn to stop.",
        _shift(lambda whole, s, e, p: (whole[:, :-1], whole[:, 1:].masked_fill(whole[:, 1:] == e, p))),
        0.5,
    ),
    Mistake(
        "no start",
        "The decoder reads no <start>: the first word would have nothing to be said after.",
        _shift(lambda whole, s, e, p: (whole[:, :-1].masked_fill(whole[:, :-1] == s, p), whole[:, 1:])),
        0.5,
    ),
    Mistake(
        "end for all padding",
        "All padding after the words has become <end>. One is enough; the rest must stay padding, or it's counted in "
        "the loss.",
        _shift(
            lambda whole, s, e, p: (
                w := torch.cat([whole[:, :1], whole[:, 1:].masked_fill(whole[:, 1:] == p, e)], dim=1),
                (w[:, :-1], w[:, 1:]),
            )[1]
        ),
        0.5,
    ),
    Mistake(
        "start counted as padding",
        "Words are counted after <start> has come in front. Where it has the padding's id, it isn't counted, and <end> "
        "overwrites the last word. Count in `words`.",
        _ended(lambda whole, p: (whole != p).sum(dim=1)),
        0.75,
    ),
    Mistake(
        "start taken for padding",
        "<end> is put at the first padding, looked for after <start> has come in front. Where <start> has the "
        "padding's id, it's overwritten itself. Look in `words`.",
        _ended(lambda whole, p: (whole == p).int().argmax(dim=1)),
        0.75,
    ),
    Mistake(
        "end isn't read",
        "The decoder's rows lack <end> where a row is short. That's harmless, since nothing is asked for after it, "
        "but the rows should be the whole one, without its last column.",
        _shift(lambda whole, s, e, p: (whole[:, :-1].masked_fill(whole[:, :-1] == e, p), whole[:, 1:])),
        0.75,
    ),
    Mistake(
        "rolled",
        "The decoder's row is the labels' rolled by one: what falls out at the end comes in at the front. <start> "
        "belongs there.",
        _shift(lambda whole, s, e, p: (whole[:, 1:].roll(1, dims=1), whole[:, 1:])),
        0.5,
    ),
    Mistake(
        "shifted left",
        "The decoder's row is shifted the wrong way: it reads the word after the one that it must say.",
        _shift(lambda whole, s, e, p: (F.pad(whole[:, 2:], (0, 1), value=p), whole[:, 1:])),
        0.25,
    ),
    Mistake(
        "shifted twice",
        "The two are shifted by two places against each other: one too many.",
        _shift(lambda whole, s, e, p: (F.pad(whole[:, :-2], (1, 0), value=s), whole[:, 1:])),
        0.5,
    ),
    Mistake(
        "0 taken for padding",
        "0 is taken for the padding's id. It's `padding` that says which id fills up.",
        lambda w, s, e, p: shift(w, s, e, 0),
        0.5,
    ),
    Mistake(
        "whole rows",
        "Both are the whole rows, <start> to <end>. One lacks its last column, the other its first.",
        _shift(lambda whole, s, e, p: (whole, whole)),
        0.25,
    ),
    Mistake(
        "labels without the end's column",
        "The labels are the words alone, and the decoder's rows are as short: <end> needs a column of its own.",
        lambda w, s, e, p: (F.pad(w[:, :-1], (1, 0), value=s), w),
        0.5,
    ),
]


# 7.4 a large batch in parts


def part_cases(seed: int) -> list[Case]:
    """Return examples of which some are padding, so that the parts hold different numbers of real ones."""
    g = torch.Generator().manual_seed(seed + 3000)

    def case(name: str, real: str, d: int, part: int, rate: float) -> Case:
        n = len(real)
        tensors = {"x": draw(g, n, d), "y": draw(g, n), "real": torch.tensor([mark == "x" for mark in real])}
        return Case(name, tensors | {"w": draw(g, d), "part": part, "rate": rate})

    n, part, d = pick(g, 6, 9), pick(g, 2, 4), pick(g, 1, 4)
    drawn = "".join("x-"[int(mark)] for mark in torch.rand(n, generator=g) < 0.3)
    zeros = case("a real example of zeros", "xxx-x", pick(g, 2, 3), 2, 0.2)
    zeros.inputs["x"][[0, 2]] = 0.0
    zeros.inputs["y"][2] = 0.0
    return [
        case("small", "xxx", 2, 2, 0.1),
        case("padding", "xxx-xx", 3, 3, 0.2),
        case("a tail", "xxxxx", 2, 2, 0.1),
        case("a tail and padding", "xx-xx--x", 2, 3, 0.2),
        case("a part of nothing but padding", "xx--xx", 3, 2, 0.1),
        case("parts of one", "xx-x", 2, 1, 0.3),
        case("all at once", "x-xx", 2, pick(g, 4, 9), 0.2),
        case("sizes from the seed", "x" + drawn, d, part, 0.1 * pick(g, 1, 4)),
        case("one example", "x", pick(g, 2, 3), 2, 0.2),
        zeros,
    ]


def parted(x: Tensor, y: Tensor, real: Tensor, w: Tensor, part: int, rate: float) -> Tensor:
    """Return the right weights."""
    gradient = torch.zeros_like(w)
    for first in range(0, len(x), part):
        rows = slice(first, first + part)
        gap = (x[rows] @ w - y[rows]) * real[rows]
        gradient += 2 * gap @ x[rows]
    return w - rate * gradient / real.sum()


def parted_by_autograd(x: Tensor, y: Tensor, real: Tensor, w: Tensor, part: int, rate: float) -> Tensor:
    """Return the same by backward, part after part."""
    with torch.enable_grad():
        weights = w.detach().clone().requires_grad_()
        for a, b, kept in zip(x.split(part), y.split(part), real.split(part), strict=True):
            (((a @ weights - b) ** 2 * kept).sum() / real.sum()).backward()
    return (weights - rate * weights.grad).detach()


def parted_at_once(x: Tensor, y: Tensor, real: Tensor, w: Tensor, part: int, rate: float) -> Tensor:
    """Return the same from one large batch."""
    x, y = x[real], y[real]
    return w - rate * 2 * (x.T @ (x @ w - y)) / len(x)


def _parts(combine: Callable[[list[tuple[Tensor, int, int]], Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return an answer that puts the parts' sums of gradients together in another way.

    Each part is given as its sum, the number of its real examples and the number of all.
    """

    def answer(x: Tensor, y: Tensor, real: Tensor, w: Tensor, part: int, rate: float) -> Tensor:
        found = []
        for a, b, kept in zip(x.split(part), y.split(part), real.split(part), strict=True):
            found.append((2 * ((a @ w - b) * kept) @ a, int(kept.sum()), len(a)))
        return w - rate * combine(found, w)

    return answer


def _mean(gradient: Tensor, count: int) -> Tensor:
    return gradient / max(count, 1)


def _stepping(x: Tensor, y: Tensor, real: Tensor, w: Tensor, part: int, rate: float) -> Tensor:
    for a, b, kept in zip(x.split(part), y.split(part), real.split(part), strict=True):
        w = w - rate * _mean(2 * ((a @ w - b) * kept) @ a, int(kept.sum()))
    return w


def _tail_lost(x: Tensor, y: Tensor, real: Tensor, w: Tensor, part: int, rate: float) -> Tensor:
    full = len(x) // part * part
    return parted(x[:full], y[:full], real[:full], w, part, rate) if full and real[:full].any() else w.clone()


PART_WRONG = [
    Mistake(
        "mean of means",
        "Each part is averaged by itself, and then the parts are: a short tail, or a part with much padding, weighs as "
        "much as a full one. Each should weigh by its number of real examples.",
        _parts(lambda parts, w: sum(_mean(g, n) for g, n, _ in parts) / len(parts)),
        0.5,
    ),
    Mistake(
        "mean of means of parts with words",
        "Each part is averaged by itself, and then those parts that hold anything are. Each should weigh by its number "
        "of real examples.",
        _parts(lambda parts, w: sum(g / n for g, n, _ in parts if n) / sum(n > 0 for _, n, _ in parts)),
        0.5,
    ),
    Mistake(
        "sum of means",
        "The parts' means are added up: with four parts the step is about four times too long.",
        _parts(lambda parts, w: sum(_mean(g, n) for g, n, _ in parts)),
        0.25,
    ),
    Mistake(
        "sum",
        "The gradients are added up, and not divided by the number of real examples.",
        _parts(lambda parts, w: sum(g for g, _, _ in parts)),
        0.5,
    ),
    Mistake(
        "divided by all",
        "The sum is divided by the number of all examples, padding included.",
        _parts(lambda parts, w: sum(g for g, _, _ in parts) / sum(n for _, _, n in parts)),
        0.5,
    ),
    Mistake(
        "zeros taken for padding",
        "An example whose numbers are all 0 isn't counted. It's real if `real` says so: 0 is a number like any other.",
        lambda x, y, real, w, part, rate: (
            w - (w - parted(x, y, real, w, part, rate)) * real.sum() / (real & (x != 0).any(dim=1)).sum().clamp(min=1)
        ),
        0.75,
    ),
    Mistake(
        "weighed by size",
        "Each part's mean is weighed by the part's size, padding included. It's the real examples that count.",
        _parts(lambda parts, w: sum(_mean(g, n) * size for g, n, size in parts) / sum(size for _, _, size in parts)),
        0.5,
    ),
    Mistake(
        "padding counted",
        "Padding is counted like the rest: `real` isn't used.",
        lambda x, y, real, w, part, rate: parted(x, y, torch.ones_like(real), w, part, rate),
        0.5,
    ),
    Mistake(
        "tail lost",
        "The last part is left out where it isn't full. Its examples count, too.",
        _tail_lost,
        0.5,
    ),
    Mistake(
        "last part only",
        "Only the last part's gradient is left: is it set to zero inside the loop?",
        _parts(lambda parts, w: _mean(parts[-1][0], parts[-1][1])),
        0.25,
    ),
    Mistake(
        "first part only",
        "Only the first part's gradient is used. Is there a return inside the loop?",
        _parts(lambda parts, w: _mean(parts[0][0], parts[0][1])),
        0.25,
    ),
    Mistake(
        "a step for each part",
        "A step is taken after each part. All parts' gradients belong to the old weights; one step follows.",
        _stepping,
        0.25,
    ),
    Mistake(
        "uphill",
        "The step goes uphill: the gradient is to be subtracted.",
        lambda x, y, real, w, part, rate: 2 * w - parted(x, y, real, w, part, rate),
        0.5,
    ),
    Mistake(
        "no 2",
        "The gradient of a square has a factor of 2.",
        lambda x, y, real, w, part, rate: (w + parted(x, y, real, w, part, rate)) / 2,
        0.75,
    ),
    Mistake(
        "rate left out",
        "The gradient isn't multiplied by the rate.",
        lambda x, y, real, w, part, rate: parted(x, y, real, w, part, 1.0),
        0.75,
    ),
    Mistake(
        "the gradient itself",
        "This is the gradient. The weights after the step were asked for.",
        lambda x, y, real, w, part, rate: w - parted(x, y, real, w, part, 1.0),
        0.5,
    ),
    Mistake(
        "the step itself",
        "This is what is to be subtracted. The weights after the step were asked for.",
        lambda x, y, real, w, part, rate: w - parted(x, y, real, w, part, rate),
        0.5,
    ),
]


# 7.5 batches of so many places


def batch_cases(seed: int) -> list[Case]:
    """Return lengths and limits that fit, and lengths that must be refused."""
    g = torch.Generator().manual_seed(seed + 4000)

    def case(name: str, lengths: tuple[int, ...], limit: int, words: tuple[str, ...] = (), telling: str = "") -> Case:
        return Case(name, {"lengths": lengths, "limit": limit}, mentions=words, telling=telling)

    more, alike, long = pick(g, 0, 5), pick(g, 3, 6), pick(g, 11, 19)
    drawn = tuple(pick(g, 1, 9) for _ in range(pick(g, 7, 11)))
    s = torch.Generator().manual_seed(seed + 4500)
    half, limits, over = pick(s, 2, 7), [pick(s, 4, 9) for _ in range(7)], [pick(s, 2, 9) for _ in range(5)]

    def refused(name: str, lengths: tuple[int, ...], wrong: int, limit: int) -> Case:
        return case(name, lengths, limit, (str(wrong), str(limit)), "the length and the limit")

    far, early, low = limits[0] + over[0], limits[2] + over[1], -over[2]
    return [
        case("small", (3, 1, 2), 4),
        case("one long", (2, 9, 2, 2, 1), 9),
        case("all alike", (3, 3, 3, 3, 3), 6),
        case("just full", (half, 2 * half, 2 * half, half), 4 * half),
        case("growing", (1, 2, 3, 4, 5, 6), 10 + more),
        case("in disorder", (7, 2, 5, 2, 7, 3, 1, 4), 14 + more),
        case("each alone", (5, 4), 5),
        case("a long one last", (1, 1, 1, 6), 8),
        case("a single one", (3,), 20),
        case("all as long as the limit", (alike,) * 3, alike),
        case("lengths from the seed", drawn, pick(g, 12, 24)),
        refused("too long", (2, far, 3), far, limits[0]),
        refused("too long by one", (limits[1], limits[1] + 1), limits[1] + 1, limits[1]),
        refused("too long at once", (early, 2), early, limits[2]),
        refused("too long, in the middle", (2, 3, 4, long, 3), long, limits[3]),
        refused("too long, the last", (2, 3, 4, long), long, limits[4]),
        refused("nothing in it", (3, low, 2), low, limits[5]),
        refused("length 0", (over[3], over[4], 0), 0, limits[6] + 6),
    ]


def token_batches(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Return the right batches, or say what is wrong."""
    for length in lengths:
        if not 1 <= length <= limit:
            raise ValueError(f"a length must be between 1 and the limit {limit}, got {length}")
    return _cut(lengths, limit)


def _order(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda i: lengths[i])


def _cut(
    lengths: Sequence[int],
    limit: int,
    full: Callable[[list[int], int], bool] | None = None,
    order: list[int] | None = None,
) -> list[list[int]]:
    """Cut an order where a batch would be too full; `full` is asked with the batch's lengths and the next one."""
    ask = full or (lambda held, new: (len(held) + 1) * max([*held, new]) > limit)
    found: list[list[int]] = []
    for i in _order(lengths) if order is None else order:
        if not found or ask([lengths[j] for j in found[-1]], lengths[i]):
            found.append([])
        found[-1].append(i)
    return found


def token_batches_by_recursion(lengths: Sequence[int], limit: int) -> tuple[tuple[int, ...], ...]:
    """Return the same: as many of the shortest as fit, then the rest."""
    if min(lengths) < 1 or max(lengths) > limit:
        raise ValueError(f"lengths {list(lengths)} don't all lie between 1 and {limit}")
    order, found = _order(lengths), []
    while order:
        count = max(c for c in range(1, len(order) + 1) if c * lengths[order[c - 1]] <= limit)
        found.append(tuple(order[:count]))
        order = order[count:]
    return tuple(found)


def token_batches_by_tensors(lengths: Sequence[int], limit: int) -> list[list[int]]:
    """Return the same, with the order from a tensor."""
    sizes = torch.tensor(lengths)
    if bool(((sizes < 1) | (sizes > limit)).any()):
        raise ValueError(f"wanted 1 to {limit}, got {sizes[(sizes < 1) | (sizes > limit)].tolist()}")
    found, batch = [], []
    for i in sizes.argsort(stable=True).tolist():
        if (len(batch) + 1) * lengths[i] > limit:
            found.append(batch)
            batch = []
        batch.append(i)
    return [*found, batch]


def _lists(batches: list[list[int]], lengths: Sequence[int]) -> list[list[int]]:
    return [[lengths[i] for i in batch] for batch in batches]


BATCH_WRONG = [
    Mistake(
        "padding not counted",
        "The words are added up until the limit is reached. Padding takes places, too: a batch has rows times its "
        "longest row of them.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, lambda held, new: sum(held) + new > limit)),
        0.5,
    ),
    Mistake(
        "length before it was added",
        "Rows are multiplied by the longest row so far, not by the one that comes in. In order of length, it's the new "
        "one that is longest.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, lambda held, new: (len(held) + 1) * max(held) > limit)),
        0.75,
    ),
    Mistake(
        "row before it was added",
        "The new row isn't counted: a batch may be one row over the limit.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, lambda held, new: len(held) * new > limit)),
        0.5,
    ),
    Mistake(
        "cut once it is full",
        "A batch is cut only when it is over the limit already. Ask before you add.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, lambda held, new: len(held) * max(held) > limit)),
        0.5,
    ),
    Mistake(
        "limit not reached",
        "A batch with exactly `limit` places is cut. That many fit: > and not >=.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, lambda held, new: (len(held) + 1) * new >= limit)),
        0.75,
    ),
    Mistake(
        "rows counted",
        "The limit is taken for a number of rows. It's a number of places.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, lambda held, new: len(held) >= limit)),
        0.25,
    ),
    Mistake(
        "not sorted",
        "The sentences aren't sorted: one long one stretches all those it meets.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, order=list(range(len(n))))),
        0.5,
    ),
    Mistake(
        "longest first",
        "The longest come first. The order should rise.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, order=_order(n)[::-1])),
        0.5,
    ),
    Mistake(
        "ties turned round",
        "Sentences of one length should keep the order that they came in.",
        guarded(token_batches, lambda n, limit: _cut(n, limit, order=sorted(range(len(n)), key=lambda i: (n[i], -i)))),
        0.75,
    ),
    Mistake(
        "empty batch before a full one",
        "An empty batch stands in front of a first sentence that fills one by itself: begin a new batch only where the "
        "one before holds something.",
        guarded(token_batches, lambda n, limit: [[], *_cut(n, limit)] if min(n) == limit else _cut(n, limit)),
        0.75,
    ),
    Mistake(
        "last batch lost",
        "The last batch is missing: what is left when the loop ends must be handed over, too.",
        guarded(token_batches, lambda n, limit: _cut(n, limit)[:-1]),
        0.5,
    ),
    Mistake(
        "empty batch first",
        "An empty batch stands in front.",
        guarded(token_batches, lambda n, limit: [[], *_cut(n, limit)]),
        0.75,
    ),
    Mistake(
        "row lost at each cut",
        "The sentence for which there was no room is lost. It begins the next batch.",
        guarded(token_batches, lambda n, limit: _losing(n, limit)),
        0.5,
    ),
    Mistake(
        "lengths for numbers",
        "The batches hold lengths. The sentences' numbers were asked for.",
        guarded(token_batches, lambda n, limit: _lists(_cut(n, limit), n)),
        0.5,
    ),
    Mistake(
        "one batch for each",
        "Each sentence stands alone: that wastes no place, and no time is saved either.",
        guarded(token_batches, lambda n, limit: [[i] for i in _order(n)]),
        0.25,
    ),
    Mistake(
        "no guard",
        "The batches are right, but what doesn't fit isn't refused.",
        _cut,
        0.5,
    ),
    Mistake(
        "no guard against what is too short",
        "What is too long is refused, but a length below 1 isn't.",
        lambda n, limit: token_batches(n, limit) if max(n) > limit else _cut(n, limit),
        0.75,
    ),
    Mistake(
        "too long ones left out",
        "What doesn't fit is left out in silence. Who trains would never know: refuse it.",
        lambda n, limit: _cut(n, limit, order=[i for i in _order(n) if 1 <= n[i] <= limit]),
        0.5,
    ),
    Mistake(
        "assertions",
        "Assertions refuse, but python -O leaves them out: raise ValueError.",
        with_errors(token_batches, lambda error: AssertionError(str(error))),
        0.75,
    ),
    Mistake(
        "texts that say nothing",
        "ValueError is right, but its text doesn't say what came. Whoever reads it needs the length and the limit.",
        with_errors(token_batches, lambda error: ValueError("bad length")),
        0.75,
    ),
]


def _losing(lengths: Sequence[int], limit: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for i in _order(lengths):
        if (len(found[-1]) + 1) * lengths[i] > limit:
            found.append([])
        else:
            found[-1].append(i)
    return found


# 7.6 perplexity


def perplexity_cases(seed: int) -> list[Case]:
    """Return models' mean losses on batches, in nats, and how many tokens each batch had."""
    g = torch.Generator().manual_seed(seed + 5000)

    def case(name: str, tokens: list[int], models: int = 2) -> Case:
        losses = (torch.rand(models, len(tokens), generator=g) * 200 + 20).round() / 100 + 0.001
        return Case(name, {"losses": losses, "tokens": torch.tensor(tokens)})

    return [
        case("small", [3, 1]),
        case("one batch", [7], 3),
        case("equal batches, as many as models", [4, 4, 4], 3),
        case("a short one", [90, 85, 4]),
        case("an empty one", [5, 0, 2]),
        case("one model", [12, 3, 30, 8, 1], 1),
        case("as many models as batches", [2, 9], 2),
        case("sizes from the seed", [pick(g, 1, 60) for _ in range(pick(g, 3, 7))], pick(g, 2, 5)),
        case("many models", [pick(g, 1, 20), pick(g, 21, 40)], pick(g, 6, 9)),
    ]


def perplexity(losses: Tensor, tokens: Tensor) -> Tensor:
    """Return the right perplexities."""
    return ((losses * tokens).sum(dim=-1) / tokens.sum()).exp()


def perplexity_by_loop(losses: Tensor, tokens: Tensor) -> Tensor:
    """Return the same, batch by batch."""
    total, count = torch.zeros_like(losses[:, 0]), 0
    for batch, number in enumerate(tokens.tolist()):
        total = total + losses[:, batch] * number
        count += number
    return torch.exp(total / count)


def perplexity_by_product(losses: Tensor, tokens: Tensor) -> Tensor:
    """Return the same: a geometric mean."""
    return (losses.exp() ** (tokens / tokens.sum())).prod(dim=-1)


PERPLEXITY_WRONG = [
    Mistake(
        "mean of batches",
        "All batches weigh alike. One with few tokens should weigh less: weigh each loss by its tokens.",
        lambda losses, tokens: losses.mean(dim=-1).exp(),
        0.5,
    ),
    Mistake(
        "mean of perplexities",
        "The batches' perplexities are averaged. It's losses that are averaged; exp comes last.",
        lambda losses, tokens: losses.exp().mean(dim=-1),
        0.25,
    ),
    Mistake(
        "weighed mean of perplexities",
        "The perplexities are averaged, each by its tokens. It's losses that are averaged; exp comes last.",
        lambda losses, tokens: (losses.exp() * tokens).sum(dim=-1) / tokens.sum(),
        0.5,
    ),
    Mistake(
        "no exp",
        "This is the mean loss. Perplexity is its exponential.",
        lambda losses, tokens: (losses * tokens).sum(dim=-1) / tokens.sum(),
        0.5,
    ),
    Mistake(
        "2 to the loss",
        "2 is raised to the loss. These are nats: e, not 2.",
        lambda losses, tokens: 2 ** ((losses * tokens).sum(dim=-1) / tokens.sum()),
        0.5,
    ),
    Mistake(
        "minus",
        "This is the mean probability, in the geometric sense. Perplexity is one over it: exp of the loss, not of "
        "minus the loss.",
        lambda losses, tokens: 1 / perplexity(losses, tokens),
        0.5,
    ),
    Mistake(
        "divided by the number of batches",
        "The sum over all tokens is divided by the number of batches, not by that of tokens.",
        lambda losses, tokens: ((losses * tokens).sum(dim=-1) / len(tokens)).clamp(max=80).exp(),
        0.5,
    ),
    Mistake(
        "sum of losses",
        "The batches' losses are added up. Their mean is wanted, each weighed by its tokens.",
        lambda losses, tokens: losses.sum(dim=-1).exp(),
        0.25,
    ),
    Mistake(
        "losses taken for sums",
        "The losses are taken for sums over their tokens: they are means per token already.",
        lambda losses, tokens: (losses.sum(dim=-1) / tokens.sum()).exp(),
        0.5,
    ),
    Mistake(
        "all models together",
        "One number comes back, for all models together. Each has its own: sum along the last axis only.",
        lambda losses, tokens: ((losses * tokens).sum() / (tokens.sum() * len(losses))).exp(),
        0.5,
    ),
    Mistake(
        "one for each batch",
        "These are the batches' perplexities. One number for each model was asked for.",
        lambda losses, tokens: losses.exp(),
        0.25,
    ),
    Mistake(
        "the largest batch's",
        "Only the batch with most tokens counts.",
        lambda losses, tokens: losses[:, tokens.argmax()].exp(),
        0.25,
    ),
]


PROBES = [
    probe(
        "7.1",
        "the smoothed loss",
        "error",
        "smoothed_loss",
        (5, 15, 2),
        cases=loss_cases,
        reference=loss,
        right={"PyTorch's own": loss_by_torch, "wanted shares": loss_by_shares},
        original=("training.smoothed_loss", "fast_loss.linear_loss", "fast_loss._LinearLoss"),
        wrong=LOSS_WRONG,
        replaces="training.smoothed_loss",
    ),
    probe(
        "7.2",
        "the rate of every step",
        "function",
        "learning_rates",
        (3, 10, 1),
        cases=rate_cases,
        reference=rates,
        right={"step by step": rates_by_loop, "pieces": rates_by_pieces},
        wrong=RATE_WRONG,
    ),
    probe(
        "7.3",
        "a decoder that reads the answer",
        "bug",
        "decoder_pair",
        (4, 12, 2),
        cases=shift_cases,
        reference=shift,
        right={"row by row": shift_by_rows, "masks": shift_by_masks},
        original=("data.Batch.from_pairs",),
        wrong=SHIFT_WRONG,
    ),
    probe(
        "7.4",
        "a large batch in parts",
        "function",
        "step_in_parts",
        (5, 15, 3),
        cases=part_cases,
        reference=parted,
        right={"backward": parted_by_autograd, "all at once": parted_at_once},
        wrong=PART_WRONG,
    ),
    probe(
        "7.5",
        "batches of so many places",
        "error",
        "token_batches",
        (5, 15, 2),
        cases=batch_cases,
        reference=token_batches,
        right={"as many as fit": token_batches_by_recursion, "an order from a tensor": token_batches_by_tensors},
        original=("data.batches", "data._groups"),
        wrong=BATCH_WRONG,
    ),
    probe(
        "7.6",
        "perplexity",
        "function",
        "perplexity",
        (3, 8, 1),
        cases=perplexity_cases,
        reference=perplexity,
        right={"batch by batch": perplexity_by_loop, "geometric mean": perplexity_by_product},
        wrong=PERPLEXITY_WRONG,
        tolerance=3e-5,
    ),
]


QUESTIONS = [
    Question(
        id="7.7",
        title="a curve that won't come down",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "why the training loss can't come lower", "smoothed labels have an entropy: about 1.18 at V = 5,000"),
            (1, "why the validation loss may lie below it", "measured without smoothing, and without dropout"),
            (1, "what you would compare instead", "both without smoothing, or the excess over the floor; translations"),
            (1, "a sign that something is wrong after all", "validation rising; a loss below the floor means a leak"),
        ),
    ),
    Question(
        id="7.8",
        title="two scores",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what a score's signature tells", "tokenisation, case, smoothing, references, version"),
            (1, "what else must be alike", "test set, decoding (beam, penalty), detokenised text"),
            (1, "what chance can do", "another seed or test sample moves it: seeds, or a bootstrap"),
            (1, "what BLEU itself doesn't see", "meaning, synonyms, a wrong word that matters: read examples"),
        ),
    ),
]
