"""What chapter 08's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises.authoring import draw, guarded, pick, probe, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Question

# 8.1 the nucleus


def nucleus_cases(seed: int) -> list[Case]:
    """Return rows of logits and p; sums of probabilities come near p, and logits near each other, only where meant."""
    g = torch.Generator().manual_seed(seed)

    def case(name: str, shape: tuple[int, ...], p: float, scale: float = 1.5) -> Case:
        return Case(name, {"logits": _clear(lambda: draw(g, *shape, mean=0.4, scale=scale), p), "p": p})

    s = torch.Generator().manual_seed(seed + 500)
    rows, batch, n = sizes(s, 3, 2, 5)
    width = pick(s, 5, 7)
    impossible = case("impossible tokens", (rows, width), 0.8)
    impossible.inputs["logits"] = _clear(lambda: _without_two(draw(g, rows, width, mean=0.4)), 0.8)
    far = case("all of it, one far ahead", (rows, 5), 1.0, 0.5)
    far.inputs["logits"][:, 2] += 22.0  # so far that its probability is rounded to 1
    t = torch.Generator().manual_seed(seed + 700)
    nearly = Case("nearly all of it", {"logits": draw(t, rows, 5, scale=0.5), "p": 0.999})
    nearly.inputs["logits"][:, 1:3] = torch.tensor([-12.25, -13.5])
    even = {"logits": _hardly_unlike(t, pick(t, 2, 3), 4), "p": pick(t, 1, 3) / 4}
    beyond = {"logits": _hardly_unlike(t, pick(t, 2, 5), 8), "p": pick(t, 2, 6) / 8 + 1e-4}
    return [
        case("small", (5,), 0.7),
        case("batch", (batch, pick(s, 6, 8)), 0.85),
        case("two batch dimensions", (2, n, 6), 0.6),
        case("as many rows as tokens", (5, 5), 0.9),
        case("the first is enough", (n, 4), 0.05),
        impossible,
        case("all of it", (rows, pick(s, 4, 6)), 1.0),
        far,
        case("longer", (3, pick(s, 10, 13)), 0.5, 0.8),
        Case("exactly p", even),
        Case("hardly more than they have", beyond),
        nearly,
        _equals(t, pick(t, 2, 3), pick(t, 5, 7)),
    ]


def _hardly_unlike(generator: torch.Generator, rows: int, width: int) -> Tensor:
    """Return logits so near to each other that in float32 all tokens are equally likely, and yet their order is sure.

    The k likeliest have a little more than k / width together, rounded or not: their number is sure, too.
    """
    return torch.stack([torch.randperm(width, generator=generator) * 1e-9 for _ in range(rows)])


def _equals(generator: torch.Generator, rows: int, width: int) -> Case:
    """Return logits that are equal but for one above and one below; the nucleus ends among the equals, by far."""
    logits = draw(generator, rows, 1).expand(rows, width).clone()
    for row in logits:
        above, below = torch.randperm(width, generator=generator)[:2].tolist()
        row[above] += 0.5
        row[below] -= 1.0
    return Case("equally likely ones", {"logits": logits, "p": round(0.3 + 0.1 * pick(generator, 2, 4), 1)})


def _without_two(logits: Tensor) -> Tensor:
    logits[..., :2] = -math.inf
    return logits


def _clear(make: Callable[[], Tensor], p: float) -> Tensor:
    """Return logits in each row of which the likelier tokens' sum steps over p and 1 - p by far, and none are alike."""
    while True:
        logits = make()
        ordered = logits.sort(dim=-1, descending=True).values
        gaps = ordered[..., :-1] - ordered[..., 1:]
        shares = ordered.softmax(dim=-1)
        near = torch.stack([shares.cumsum(dim=-1) - p, shares.cumsum(dim=-1) - 1 + p, shares - p]).abs().min() < 0.005
        if (gaps > 0.005).logical_or(gaps.isnan()).all() and (p == 1 or not near):
            return logits


def nucleus(logits: Tensor, p: float) -> Tensor:
    """Return the right logits."""
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    probability = ordered.softmax(dim=-1)
    cut = (probability.cumsum(dim=-1) - probability >= p) & (p < 1)
    return ordered.masked_fill(cut, -math.inf).gather(-1, order.argsort(dim=-1))


def nucleus_by_loop(logits: Tensor, p: float) -> Tensor:
    """Return the same, row by row and token by token."""
    rows = []
    for row in logits.reshape(-1, logits.size(-1)):
        kept, total = torch.full_like(row, -math.inf), 0.0
        for token in row.argsort(descending=True, stable=True).tolist():
            kept[token] = row[token]
            total += float(row.double().softmax(dim=-1)[token])
            if total >= p:
                break
        rows.append(kept)
    return torch.stack(rows).reshape(logits.shape)


def nucleus_by_pairs(logits: Tensor, p: float) -> Tensor:
    """Return the same without sorting: for each token, what all likelier ones, and equal ones before it, have."""
    shares, place = logits.softmax(dim=-1), torch.arange(logits.size(-1))
    equal = (logits.unsqueeze(-2) == logits.unsqueeze(-1)) & (place < place[:, None])
    likelier = (logits.unsqueeze(-2) > logits.unsqueeze(-1)) | equal
    before = (likelier * shares.unsqueeze(-2)).sum(dim=-1)
    return torch.where((before < p) | torch.tensor(p == 1), logits, torch.full_like(logits, -math.inf))


def _cut(keep: Callable[[Tensor, float], Tensor], back: bool = True, filling: float = -math.inf) -> Any:
    """Return an answer that keeps other places of the sorted probabilities, from these and p."""

    def answer(logits: Tensor, p: float) -> Tensor:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        kept = keep(ordered.softmax(dim=-1), p)
        kept = kept.gather(-1, order.argsort(dim=-1)) if back else kept
        return logits.masked_fill(~kept, filling)

    return answer


def _before(probability: Tensor, p: float) -> Tensor:
    return (probability.cumsum(dim=-1) - probability < p) | torch.tensor(p == 1)


def _tail(probability: Tensor, p: float) -> Tensor:
    return probability.flip(-1).cumsum(dim=-1).flip(-1) <= (p if p < 1 else 2)


def _one_more(probability: Tensor, p: float) -> Tensor:
    kept = _before(probability, p)
    return torch.cat([kept[..., :1], kept[..., :-1]], dim=-1)


def _by_order(logits: Tensor, p: float) -> Tensor:
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    return logits.masked_fill(~_before(ordered.softmax(dim=-1), p).gather(-1, order), -math.inf)


def _softmax_over_rows(logits: Tensor, p: float) -> Tensor:
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    kept = _before(ordered.softmax(dim=0), p)
    return logits.masked_fill(~kept.gather(-1, order.argsort(dim=-1)), -math.inf)


NUCLEUS_WRONG = [
    Mistake(
        "p = 1 left to rounding",
        "For p = 1 all tokens stay, but here some are cut where one is far ahead: rounded, the sum reaches 1 before "
        "the unlikely ones are added. Ask for p == 1 first.",
        _cut(lambda share, p: share.cumsum(dim=-1) - share < p),
        0.75,
    ),
    Mistake(
        "the one that reaches p left out",
        "The token with which the sum reaches p is left out, as with cumsum <= p. It belongs to the nucleus; where the "
        "likeliest token alone has more than p, nothing at all is left. Compare what the likelier ones have *before* "
        "it.",
        _cut(lambda share, p: share.cumsum(dim=-1) <= (p if p < 1 else 2)),
        0.5,
    ),
    Mistake(
        "one more where p is met exactly",
        "Where the likeliest tokens have exactly p, one more is kept, as where cumsum > p is moved by one place. p or "
        "more was asked for, and p is enough: >=.",
        _cut(lambda share, p: (share.cumsum(dim=-1) - share <= p) | torch.tensor(p == 1)),
        0.75,
    ),
    Mistake(
        "all equals kept",
        "Of equally likely tokens all are kept, though fewer would do, as where logits are compared with the least one "
        "of the nucleus. Keep as many as are needed, those with the lower ids.",
        lambda logits, p: _from_the_least(logits, p),
        0.75,
    ),
    Mistake(
        "higher ids first",
        "Of equally likely tokens those with the higher ids are kept, as where a rising sort is turned round. The "
        "lower ids come first: descending=True and stable=True.",
        lambda logits, p: nucleus(logits.flip(-1), p).flip(-1),
        0.75,
    ),
    Mistake(
        "one too many",
        "One token too many is kept: the flags are moved by one place once more after the token that reaches p.",
        _cut(_one_more),
        0.5,
    ),
    Mistake(
        "each by itself",
        "Each token's own probability is compared with p. It's the sum of the likeliest ones that must reach p.",
        _cut(lambda share, p: share >= p),
        0.25,
    ),
    Mistake(
        "sum of the unlikely",
        "The sum is taken from the unlikely end: unlikely tokens are kept, and likely ones are gone. Sort with "
        "descending=True.",
        _cut(_tail),
        0.25,
    ),
    Mistake(
        "1 - p",
        "The nucleus reaches 1 - p, where it should reach p.",
        lambda logits, p: nucleus(logits, 1 - p),
        0.5,
    ),
    Mistake(
        "flags not put back",
        "What was found for the sorted tokens is applied to the unsorted ones: the first in the vocabulary are kept, "
        "not the likeliest. Scatter the flags back to where their tokens stand.",
        _cut(_before, back=False),
        0.5,
    ),
    Mistake(
        "sorted",
        "The numbers come back sorted. Token i must stay at place i, or another word will be said.",
        lambda logits, p: nucleus(logits, p).sort(dim=-1, descending=True).values,
        0.5,
    ),
    Mistake(
        "zero for minus infinity",
        "The others are set to 0. As a logit, 0 is a number like any other, and its token may be drawn: -inf.",
        _cut(_before, filling=0.0),
        0.5,
    ),
    Mistake(
        "probabilities",
        "These are probabilities. Logits were wanted, those of the nucleus as they were: the softmax comes later.",
        lambda logits, p: nucleus(logits, p).softmax(dim=-1),
        0.5,
    ),
    Mistake(
        "logits changed",
        "The nucleus is right, but its logits have been changed, as log_softmax does. The distribution is the same; "
        "here they should stay as they are.",
        lambda logits, p: nucleus(logits, p).log_softmax(dim=-1),
        0.75,
    ),
    Mistake(
        "logits summed",
        "Logits are added up and compared with p. It's probabilities that sum to 1: softmax first.",
        lambda logits, p: _by_sum_of_logits(logits, p),
        0.25,
    ),
    Mistake(
        "a share of the tokens",
        "A share p of the *tokens* is kept, however likely they are: that's top-k. p is a share of the probability.",
        lambda logits, p: logits.masked_fill(
            _ranks(logits) >= max(1, math.ceil(p * logits.size(-1))),
            -math.inf,
        ),
        0.25,
    ),
    Mistake(
        "one nucleus for all",
        "The first row's nucleus is used for all rows. Each row has its own.",
        lambda logits, p: _first_row_s(logits, p),
        0.5,
    ),
    Mistake(
        "flags gathered by the order",
        "The flags go back to the wrong places: flags.gather(-1, order) sorts them once more. The way back is the "
        "inverse, flags.gather(-1, order.argsort(dim=-1)), or a scatter.",
        _by_order,
        0.5,
    ),
    Mistake(
        "one size for all",
        "Each row keeps as many tokens as the row with the largest nucleus does. Each row has a size of its own.",
        lambda logits, p: logits.masked_fill(
            _ranks(logits) >= int((nucleus(logits, p) > -math.inf).sum(-1).max()), -math.inf
        ),
        0.5,
    ),
    Mistake(
        "summed over the rows",
        "Probabilities are added up over the rows of the batch, one below the other. A row's own tokens are the last "
        "axis: cumsum(dim=-1).",
        _cut(lambda share, p: (share.cumsum(dim=0) - share < p) | torch.tensor(p == 1)),
        0.25,
    ),
    Mistake(
        "softmax over the rows",
        "The softmax runs over the rows of the batch, so that a row's numbers don't sum to 1. Tokens are the last "
        "axis: softmax(dim=-1).",
        _softmax_over_rows,
        0.25,
    ),
    Mistake(
        "nothing cut",
        "The logits are as they were: nothing is set to -inf.",
        lambda logits, p: logits.clone(),
    ),
]


def _by_sum_of_logits(logits: Tensor, p: float) -> Tensor:
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    cut = ordered.nan_to_num(neginf=0.0).cumsum(dim=-1) - ordered.nan_to_num(neginf=0.0) >= p
    return ordered.masked_fill(cut, -math.inf).gather(-1, order.argsort(dim=-1))


def _ranks(logits: Tensor) -> Tensor:
    return logits.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)


def _from_the_least(logits: Tensor, p: float) -> Tensor:
    kept = nucleus(logits, p)
    least = kept.masked_fill(kept == -math.inf, math.inf).amin(dim=-1, keepdim=True)
    return logits.masked_fill(logits < least, -math.inf)


def _first_row_s(logits: Tensor, p: float) -> Tensor:
    rows = logits.reshape(-1, logits.size(-1))
    return logits.masked_fill(nucleus(rows[0], p) == -math.inf, -math.inf)


# 8.2 a token for a number between 0 and 1


def drawn_cases(seed: int) -> list[Case]:
    """Return logits, a temperature, and a number for each row that comes near a border only where meant."""
    g = torch.Generator().manual_seed(seed + 1000)

    def case(name: str, rows: int, vocabulary: int, temperature: float, first: int = 0) -> Case:
        logits = _clear(lambda: draw(g, rows, vocabulary, scale=1.2), 1.0)
        logits[:, :first] = -math.inf
        uniform = _between(g, logits, temperature)
        return Case(name, {"logits": logits, "temperature": temperature, "uniform": uniform})

    def at_zero(rows: int) -> Case:
        """Return a case in which temperature 1 gives other tokens."""
        while True:
            found = case("at zero", rows, 5, 0.0)
            logits, uniform = found.inputs["logits"], found.inputs["uniform"]
            if not drawn(logits, 1.0, uniform).equal(logits.argmax(dim=-1)):
                return found

    s = torch.Generator().manual_seed(seed + 1500)
    some, many, more = sizes(s, 3, 7, 11)
    width = 2 ** pick(s, 1, 3)  # of equally likely tokens: their sums are exact
    none = {"logits": torch.zeros(more, width), "temperature": 1.0, "uniform": torch.ones(more)}
    none["uniform"][pick(s, 0, more - 2)] = 0.2
    return [
        case("small", 3, 4, 1.0),
        case("batch", 6, 5, 1.0),
        case("as many rows as tokens", *[pick(s, 6, 8)] * 2, 1.0),
        case("cold", some, 6, 0.4),
        case("hot", many, 5, 2.5),
        at_zero(pick(s, 4, 6)),
        case("impossible tokens", more, pick(s, 6, 8), 1.3, 2),
        case("longer", 12, pick(s, 9, 12), 0.7),
        _on_the_border(s, pick(s, 2, 5), pick(s, 5, 8)),
        _hardly_apart(g, pick(s, 3, 5)),
        _tiny(g, pick(s, 4, 6), 5, 5e-4),
        _far_from_zero(g, pick(s, 2, 4)),
        Case("no sum is larger", none),
    ]


def _on_the_border(generator: torch.Generator, rows: int, vocabulary: int) -> Case:
    """Return rows of a few equally likely tokens, whose sums are exact, so that "larger" is decided."""
    logits, uniform = torch.full((rows, vocabulary), -math.inf), torch.zeros(rows)
    for row in range(rows):
        likely = 2 ** pick(generator, 1, 2)
        logits[row, 1 + torch.randperm(vocabulary - 1, generator=generator)[:likely]] = 0.0
        uniform[row] = pick(generator, 0, likely - 1) / likely if row else 0.0
    return Case("on the border", {"logits": logits, "temperature": 1.0, "uniform": uniform})


def _hardly_apart(generator: torch.Generator, rows: int) -> Case:
    """Return the limit of temperature 0 for rows whose two best lie near each other; the number says the other one."""
    order = torch.rand(rows, 3, generator=generator).argsort(dim=-1)
    logits = torch.tensor([1.5, 1.4999, -1.5])[order]
    first = logits.argmax(dim=-1) < (logits == logits.median(dim=-1, keepdim=True).values).int().argmax(dim=-1)
    return Case(
        "at zero, hardly apart",
        {"logits": logits, "temperature": 0.0, "uniform": torch.where(first, torch.tensor(0.9), torch.tensor(0.1))},
    )


def _tiny(generator: torch.Generator, rows: int, vocabulary: int, temperature: float) -> Case:
    """Return logits as near to each other as a tiny temperature asks for, so that chance still decides."""
    while True:
        numbers = draw(generator, rows, vocabulary, scale=1.2).double()
        logits = ((numbers * temperature * 1e7).round() / 1e7).float()
        uniform = _between(generator, logits, temperature)
        if not drawn(logits, temperature, uniform).equal(logits.argmax(dim=-1)):
            return Case("hardly above zero", {"logits": logits, "temperature": temperature, "uniform": uniform})


def _far_from_zero(generator: torch.Generator, rows: int) -> Case:
    """Return logits whose exponentials overflow in one half of the rows, and vanish in the other, even in float64."""
    while True:
        shift = torch.tensor([800.0, -800.0]).repeat(rows)[:, None]
        logits = ((draw(generator, 2 * rows, 4, scale=1.2) + shift) * 100).round() / 100
        uniform = _between(generator, logits, 1.0)
        if not drawn(logits, 1.0, uniform).equal(logits.argmax(dim=-1)) and drawn(logits, 1.0, uniform).count_nonzero():
            return Case("far from zero", {"logits": logits, "temperature": 1.0, "uniform": uniform})


def _between(generator: torch.Generator, logits: Tensor, temperature: float) -> Tensor:
    """Return a number between 0 and 1 for each row, with three decimals, not within 0.004 of a border."""
    borders = (logits / (temperature or 1.0)).softmax(dim=-1).cumsum(dim=-1)
    while True:
        uniform = (torch.rand(len(logits), generator=generator) * 996 + 2).round() / 1000
        if (borders[:, :-1] - uniform[:, None]).abs().min() > 0.004:
            return uniform


def _drawn(
    shares: Callable[[Tensor, float], Tensor] | None = None,
    pick: Callable[[Tensor, Tensor], Tensor] | None = None,
    cold: bool = True,
) -> Callable[[Tensor, float, Tensor], Tensor]:
    """Return an answer with other probabilities, or another way from probabilities and numbers to tokens.

    Args:
        cold: whether temperature 0 takes the likeliest.
    """

    def answer(logits: Tensor, temperature: float, uniform: Tensor) -> Tensor:
        if temperature == 0 and cold:
            return logits.argmax(dim=-1)
        probability = (shares or _heated)(logits, temperature or 1.0)
        return (pick or _reached)(probability, uniform)

    return answer


def _heated(logits: Tensor, temperature: float) -> Tensor:
    return (logits / temperature).softmax(dim=-1)


def _reached(probability: Tensor, uniform: Tensor) -> Tensor:
    """Return how many tokens' sums stay at or below each number: the place of the first that is above."""
    sums = probability.cumsum(dim=-1)
    return (sums <= uniform[:, None]).sum(dim=-1).clamp(max=probability.size(-1) - 1)


drawn = _drawn()


def drawn_by_loop(logits: Tensor, temperature: float, uniform: Tensor) -> Tensor:
    """Return the same, row by row."""
    tokens = []
    for row, number in zip(logits.double(), uniform.tolist(), strict=True):
        if temperature == 0:
            tokens.append(int(row.argmax()))
            continue
        weights = [math.exp((x - float(row.max())) / temperature) for x in row.tolist()]
        sums = list(itertools.accumulate(weights))
        tokens.append(next((i for i, total in enumerate(sums) if total > number * sums[-1]), len(row) - 1))
    return torch.tensor(tokens)


def drawn_by_search(logits: Tensor, temperature: float, uniform: Tensor) -> Tensor:
    """Return the same by torch.searchsorted."""
    if temperature == 0:
        return logits.max(dim=-1).indices
    sums = (logits / temperature).softmax(dim=-1).cumsum(dim=-1)
    found = torch.searchsorted(sums, uniform.unsqueeze(-1).to(sums.dtype), right=True)[:, 0]
    return found.clamp(max=logits.size(-1) - 1)


def _in_sorted_order(probability: Tensor, uniform: Tensor) -> Tensor:
    return _reached(probability.sort(dim=-1, descending=True).values, uniform)


def _likeliest_first(probability: Tensor, uniform: Tensor) -> Tensor:
    ordered, order = probability.sort(dim=-1, descending=True)
    return order.gather(-1, _reached(ordered, uniform)[:, None])[:, 0]


DRAWN_WRONG = [
    Mistake(
        "as large instead of larger",
        "On a border the token before it is taken, as with >= for >. A number of 0 then draws token 0 even where that "
        "one is impossible: the sum must be *larger* than the number.",
        _drawn(pick=lambda share, u: (share.cumsum(dim=-1) < u[:, None]).sum(dim=-1).clamp(max=share.size(-1) - 1)),
        0.75,
    ),
    Mistake(
        "beyond the last",
        "Where no sum is larger than the number, a token comes out that isn't in the vocabulary. That's rare, and it "
        "may stop a program after days: .clamp(max=logits.size(-1) - 1).",
        _drawn(pick=lambda share, u: (share.cumsum(dim=-1) <= u[:, None]).sum(dim=-1)),
        0.75,
    ),
    Mistake(
        "token 0 where no sum is larger",
        "Where no sum is larger than the number, token 0 comes out: argmax of nothing but False is 0. The last token "
        "was asked for.",
        _drawn(pick=lambda share, u: (share.cumsum(dim=-1) > u[:, None]).int().argmax(dim=-1)),
        0.75,
    ),
    Mistake(
        "cold taken for 0",
        "At a low temperature the likeliest token is taken, as if it were 0. Only 0 itself asks for that; near 0, "
        "close logits still leave it to chance.",
        lambda logits, t, u: logits.argmax(dim=-1) if t < 0.1 else drawn(logits, t, u),
        0.75,
    ),
    Mistake(
        "0 taken for 0.01",
        "A small temperature stands for 0, so that nothing is divided by 0. Where two logits are close, that still "
        "leaves it to chance. Ask for 0 first, and take the likeliest.",
        lambda logits, t, u: drawn(logits, max(t, 0.01), u),
        0.75,
    ),
    Mistake(
        "exp overflows",
        "The exponentials of large logits overflow, and those of very negative ones vanish: NaN. softmax subtracts "
        "each row's maximum first.",
        _drawn(shares=lambda logits, t: (logits / t).exp() / (logits / t).exp().sum(dim=-1, keepdim=True)),
        0.75,
    ),
    Mistake(
        "the likeliest",
        "The likeliest token is taken, whatever the number is. That's greedy decoding; only temperature 0 asks for it.",
        _drawn(pick=lambda share, u: share.argmax(dim=-1)),
        0.25,
    ),
    Mistake(
        "temperature multiplied",
        "The logits are multiplied by the temperature: cold draws come out wild, and hot ones tame. Divide.",
        _drawn(shares=lambda logits, t: (logits * t).softmax(dim=-1)),
        0.5,
    ),
    Mistake(
        "temperature after the softmax",
        "The temperature divides probabilities, which are then made to sum to 1 again: it cancels. It belongs to the "
        "logits, before the softmax.",
        _drawn(shares=lambda logits, t: logits.softmax(dim=-1)),
        0.25,
    ),
    Mistake(
        "softmax twice",
        "There's a softmax too many: probabilities were taken for logits.",
        _drawn(shares=lambda logits, t: (logits / t).softmax(dim=-1).softmax(dim=-1)),
        0.25,
    ),
    Mistake(
        "one token before",
        "The token before the one whose sum goes over the number is taken. It's the first whose sum is larger.",
        _drawn(pick=lambda share, u: (_reached(share, u) - 1).clamp(min=0)),
        0.5,
    ),
    Mistake(
        "one token after",
        "The token after the one whose sum goes over the number is taken.",
        _drawn(pick=lambda share, u: (_reached(share, u) + 1).clamp(max=share.size(-1) - 1)),
        0.5,
    ),
    Mistake(
        "from the end",
        "Probabilities are added up from the vocabulary's end. Token 0 comes first.",
        _drawn(pick=lambda share, u: share.size(-1) - 1 - _reached(share.flip(-1), u)),
        0.5,
    ),
    Mistake(
        "sorted, not put back",
        "The tokens were sorted by their probability, and a place in that order is returned: it's taken for an id.",
        _drawn(pick=_in_sorted_order),
        0.25,
    ),
    Mistake(
        "likeliest first",
        "Probabilities are added up from the likeliest on. Each token is as likely as it should be, but here they're "
        "to be added up in the vocabulary's order.",
        _drawn(pick=_likeliest_first),
        0.75,
    ),
    Mistake(
        "each by itself",
        "Each token's own probability is compared with the number. It's their sum from token 0 on that must go over "
        "it.",
        _drawn(pick=lambda share, u: (share > u[:, None]).float().argmax(dim=-1)),
        0.25,
    ),
    Mistake(
        "nearest",
        "The token whose probability lies nearest to the number is taken.",
        _drawn(pick=lambda share, u: (share - u[:, None]).abs().argmin(dim=-1)),
    ),
    Mistake(
        "nearest end",
        "The token whose piece ends nearest to the number is taken. It's the first whose piece ends *beyond* it, "
        "however far.",
        _drawn(pick=lambda share, u: (share.cumsum(dim=-1) - u[:, None]).abs().argmin(dim=-1)),
        0.5,
    ),
    Mistake(
        "ends beyond counted",
        "The pieces that end beyond the number are counted. It's those that end at or below it that say whose piece it "
        "falls on.",
        _drawn(pick=lambda share, u: (share.cumsum(dim=-1) > u[:, None]).sum(dim=-1).clamp(max=share.size(-1) - 1)),
        0.5,
    ),
    Mistake(
        "summed over the rows",
        "Probabilities are added up over the rows of the batch. A row's own tokens are the last axis: cumsum(dim=-1).",
        _drawn(pick=lambda share, u: (share.cumsum(dim=0) <= u[:, None]).sum(dim=-1).clamp(max=share.size(-1) - 1)),
        0.25,
    ),
    Mistake(
        "logits summed",
        "Logits are added up. It's probabilities that lie side by side from 0 to 1: softmax first.",
        _drawn(shares=lambda logits, t: logits / t),
        0.25,
    ),
    Mistake(
        "exp alone",
        "exp(logits / temperature) is added up as it is. Divide by each row's sum, as softmax does, or the pieces "
        "don't end at 1.",
        _drawn(shares=lambda logits, t: (logits / t).exp()),
        0.5,
    ),
    Mistake(
        "a power, not made to sum to 1",
        "Probabilities to the power 1 / temperature are the right idea, but they no longer sum to 1. Divide by their "
        "sum, or divide the logits before the softmax.",
        _drawn(shares=lambda logits, t: logits.softmax(dim=-1).pow(1 / t)),
        0.5,
    ),
    Mistake(
        "divided, not made to sum to 1",
        "The temperature divides probabilities, which then no longer sum to 1. It belongs to the logits, before the "
        "softmax.",
        _drawn(shares=lambda logits, t: logits.softmax(dim=-1) / t),
        0.25,
    ),
    Mistake(
        "temperature 0 gives token 0",
        "At temperature 0 token 0 comes out, whatever the logits are. A division by 0 makes NaN, and a comparison with "
        "NaN is false. Ask for 0 first, and take the likeliest.",
        lambda logits, t, u: drawn(logits, t, u) if t else torch.zeros(len(logits), dtype=torch.long),
        0.75,
    ),
    Mistake(
        "equally likely",
        "All tokens are equally likely: the logits aren't used.",
        _drawn(pick=lambda share, u: (u * share.size(-1)).long()),
        0.25,
    ),
    Mistake(
        "one number for all",
        "The first row's number is used for all rows. Each has its own.",
        _drawn(pick=lambda share, u: _reached(share, u[:1].expand(len(share)))),
        0.5,
    ),
    Mistake(
        "temperature 0 taken for 1",
        "Temperature 0 is treated like 1, perhaps to avoid 0/0. Its limit is the likeliest token.",
        _drawn(cold=False),
        0.75,
    ),
    Mistake(
        "an axis too many",
        "The tokens are right, but have an axis of size 1 too many: one token a row, [batch].",
        lambda *inputs: drawn(*inputs).unsqueeze(-1),
        0.75,
    ),
]


# 8.3 a step with a cache


def cached_cases(seed: int) -> list[Case]:
    """Return new vectors, weights, and keys and values of the past, of which there may be none."""
    g = torch.Generator().manual_seed(seed + 2000)
    s = torch.Generator().manual_seed(seed + 2500)
    d_model, d_k, d_v = sizes(s, 3, 2, 4)
    new, past = sizes(s, 2, 2, 3)
    shapes = {
        "small": (1, 1, 2, 3, 2, 4),
        "nothing yet": (2, 1, 0, d_k, d_v, d_model),
        "a prompt at once": (1, 3, 0, d_model, d_k, d_v),
        "several after some": (2, new, past, 4, 2, 1),
        "as many new as past": (1, new, new, d_v, d_model, d_k),
        "all sizes alike": [2] * 6,
        "longer": (1, 2, pick(s, 5, 6), 3, 2, 1),
    }
    cases = [Case(name, _cached_inputs(g, *numbers)) for name, numbers in shapes.items()]
    wide = sizes(s, 3, 1, 3)
    return [
        *cases,
        Case("scores far above zero", _level_inputs(g, 1, wide, 100, 200)),
        Case("scores far below zero", _level_inputs(g, 2, wide, -260, -150)),
        Case("a later one far ahead", _ahead_inputs(g, 2, pick(s, 0, 1), wide)),
    ]


def _cached_inputs(g: torch.Generator, batch: int, new: int, past: int, d_model: int, d_k: int, d_v: int) -> dict:
    return {
        "x": draw(g, batch, new, d_model),
        "W_q": draw(g, d_model, d_k),
        "W_k": draw(g, d_model, d_k),
        "W_v": draw(g, d_model, d_v),
        "key": draw(g, batch, past, d_k),
        "value": draw(g, batch, past, d_v),
    }


def _level_inputs(g: torch.Generator, new: int, wide: list[int], low: float, high: float) -> dict:
    """Return inputs whose vectors are much alike, so that all scores lie between two numbers, near each other."""
    while True:
        inputs = _cached_inputs(g, 1, new, 1, *wide)
        common = draw(g, 1, 1, wide[0], scale=8.0)
        inputs["x"] = _short(common + inputs["x"] / 10)
        inputs["key"] = _short(common @ inputs["W_k"] + inputs["key"] / 10)
        scores = _scores(inputs)
        spread = (scores.amax(dim=-1) - scores.amin(dim=-1)).max()
        if scores.min() > low and scores.max() < high and spread < 4:
            return inputs


def _ahead_inputs(g: torch.Generator, new: int, past: int, wide: list[int]) -> dict:
    """Return inputs in which the last of the new ones scores far above all else with those that mustn't see it."""
    while True:
        inputs = _cached_inputs(g, 1, new, past, *wide)
        inputs["x"][:, -1] = _short(inputs["x"][:, -1] * 40)
        scores = _scores(inputs)
        earlier, own = scores[0, :-1], scores[0, -1].sort(descending=True).values
        lead = (earlier[:, -1:] - earlier[:, :-1]).min()
        if lead > 150 and earlier.abs().max() < 400 and own[0] - own[1] > 30:
            return inputs


def _short(x: Tensor) -> Tensor:
    return (x * 100).round() / 100


def _scores(inputs: dict) -> Tensor:
    """Return what the new ones' queries score with all keys, hidden ones among them."""
    keys = torch.cat([inputs["key"], inputs["x"] @ inputs["W_k"]], dim=1)
    return inputs["x"] @ inputs["W_q"] @ keys.mT / math.sqrt(keys.size(-1))


Cached = tuple[Tensor, Tensor, Tensor]


def _cached(
    see: Callable[[int, int], Tensor] | None = None,
    scale: Callable[[Tensor, Tensor], float] | None = None,
    weigh: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(dim=-1),
    keep: Callable[..., tuple[Tensor, Tensor]] | None = None,
    hidden: float = -math.inf,
) -> Callable[..., Cached]:
    """Return a step in which another part is as the arguments say.

    Args:
        see: True where a new one [row] may see a key [column], from the number of new ones and of those in the past.
        scale: what the scores are divided by, from the vectors and the keys.
        keep: what is kept of the past's keys, the new ones, the past's values, the new ones.
        hidden: what stands for the scores of those that mustn't be seen.
    """

    def answer(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, key: Tensor, value: Tensor) -> Cached:
        new_key, new_value = x @ W_k, x @ W_v
        keys, values = torch.cat([key, new_key], dim=1), torch.cat([value, new_value], dim=1)
        scores = x @ W_q @ keys.mT / (scale or (lambda x, keys: math.sqrt(keys.size(-1))))(x, keys)
        mask = (see or _not_later)(x.size(1), key.size(1))
        weights = weigh(scores.masked_fill(~mask, hidden)).nan_to_num(0.0)
        kept = keep(key, new_key, value, new_value) if keep else (keys, values)
        return weights @ values, *kept

    return answer


def _not_later(new: int, past: int) -> Tensor:
    return torch.ones(new, past + new, dtype=torch.bool).tril(past)


cached = _cached()


def cached_by_loop(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, key: Tensor, value: Tensor) -> Cached:
    """Return the same, one new position after the other."""
    outputs = []
    for i in range(x.size(1)):
        one = x[:, i]
        key = torch.cat([key, (one @ W_k)[:, None]], dim=1)
        value = torch.cat([value, (one @ W_v)[:, None]], dim=1)
        scores = torch.einsum("bd,bkd->bk", one @ W_q, key) / W_k.size(1) ** 0.5
        outputs.append(torch.einsum("bk,bkd->bd", scores.softmax(dim=-1), value))
    return torch.stack(outputs, dim=1), key, value


def cached_by_torch(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, key: Tensor, value: Tensor) -> Cached:
    """Return the same by PyTorch's own attention."""
    keys, values = torch.cat([key, x @ W_k], dim=1), torch.cat([value, x @ W_v], dim=1)
    mask = torch.arange(keys.size(1)) <= torch.arange(key.size(1), keys.size(1))[:, None]
    output = torch.nn.functional.scaled_dot_product_attention(x @ W_q, keys, values, attn_mask=mask)
    return output, keys, values


def _new_first(*inputs: Tensor) -> Cached:
    x, _, W_k, W_v, key, value = inputs
    return cached(*inputs)[0], torch.cat([x @ W_k, key], dim=1), torch.cat([x @ W_v, value], dim=1)


def _new_first_in_all(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, key: Tensor, value: Tensor) -> Cached:
    keys, values = torch.cat([x @ W_k, key], dim=1), torch.cat([x @ W_v, value], dim=1)
    mask = _not_later(x.size(1), key.size(1))
    return torch.nn.functional.scaled_dot_product_attention(x @ W_q, keys, values, attn_mask=mask), keys, values


def _masked_late(weigh: Callable[[Tensor], Tensor], again: bool) -> Callable[..., Cached]:
    """Return a step whose weights are masked when they're made, and made to sum to 1 again or not."""

    def answer(x: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor, key: Tensor, value: Tensor) -> Cached:
        keys, values = torch.cat([key, x @ W_k], dim=1), torch.cat([value, x @ W_v], dim=1)
        weights = weigh(x @ W_q @ keys.mT / math.sqrt(keys.size(-1))) * _not_later(x.size(1), key.size(1))
        return (weights / weights.sum(dim=-1, keepdim=True) if again else weights) @ values, keys, values

    return answer


CACHED_WRONG = [
    Mistake(
        "cache not used",
        "The new ones attend to each other only: the keys and values of the past aren't used. Join them first.",
        _cached(see=lambda n, past: _not_later(n, past) & (torch.arange(past + n) >= past)),
        0.25,
    ),
    Mistake(
        "own key missing",
        "A new position doesn't see its own key, as where the cache is read before it's extended. The first token of "
        "all would see nothing.",
        _cached(see=lambda n, past: torch.ones(n, past + n, dtype=torch.bool).tril(past - 1)),
        0.5,
    ),
    Mistake(
        "only the past",
        "The new ones see the past, but neither themselves nor each other: join the new keys and values first.",
        _cached(see=lambda n, past: (torch.arange(past + n) < past).expand(n, -1)),
        0.25,
    ),
    Mistake(
        "no mask among the new",
        "With one new position no mask is needed. With several, as at a prompt, a new one sees later new ones here.",
        _cached(see=lambda n, past: torch.ones(n, past + n, dtype=torch.bool)),
        0.5,
    ),
    Mistake(
        "one too many",
        "A new position sees the new one after it, too: the triangle is moved by one place too many. New position i "
        "stands at past + i, and that's the last that it sees.",
        _cached(see=lambda n, past: torch.ones(n, past + n, dtype=torch.bool).tril(past + 1)),
        0.5,
    ),
    Mistake(
        "the past and itself",
        "A new position sees the past and itself, but not the new ones before it. With several at once, those are its "
        "past, too.",
        _cached(see=lambda n, past: torch.cat([torch.ones(n, past), torch.eye(n)], dim=1).bool()),
        0.5,
    ),
    Mistake(
        "mask after the softmax",
        "The weights are masked after the softmax, so that a row's weights no longer sum to 1. Mask the scores, with "
        "-inf.",
        _masked_late(lambda scores: scores.softmax(dim=-1), again=False),
        0.5,
    ),
    Mistake(
        "mask after the softmax, divided again",
        "The weights are masked after the softmax, and then made to sum to 1 again. Where a later key scores far above "
        "the rest, nothing is left to divide by: 0/0. Mask the scores, with -inf.",
        _masked_late(lambda scores: scores.softmax(dim=-1), again=True),
        0.75,
    ),
    Mistake(
        "exp overflows",
        "The exponentials of large scores overflow, and those of very negative ones vanish: NaN. softmax subtracts "
        "each row's maximum first.",
        _masked_late(torch.exp, again=True),
        0.75,
    ),
    Mistake(
        "-100 for minus infinity",
        "Hidden scores are set to a number such as -100. Those that are seen may be lower still, and the hidden ones "
        "win: -inf.",
        _cached(hidden=-100.0),
        0.75,
    ),
    Mistake(
        "mask without the past",
        "The mask counts as if there were no past: new position i stands at past + i, and sees that many keys.",
        _cached(see=lambda n, past: torch.ones(n, past + n, dtype=torch.bool).tril()),
        0.5,
    ),
    Mistake(
        "mask the wrong way round",
        "The new ones see later positions in place of earlier ones.",
        _cached(see=lambda n, past: torch.ones(n, past + n, dtype=torch.bool).triu(past)),
        0.25,
    ),
    Mistake(
        "new ones first",
        "The output is right, but in what is kept the new keys come before the old ones. At the next step, with "
        "several new positions, the mask would hide the wrong keys.",
        _new_first,
        0.75,
    ),
    Mistake(
        "new ones first in all",
        "The new keys and values are put before the old ones, but the mask counts the old ones first, and hides the "
        "wrong ones. Join them in the order of their positions: old, then new.",
        _new_first_in_all,
        0.5,
    ),
    Mistake(
        "cache not extended",
        "The output is right, but the cache comes back as it was: the next step won't know of these positions.",
        _cached(keep=lambda key, new_key, value, new_value: (key, value)),
        0.5,
    ),
    Mistake(
        "cache overwritten",
        "The output is right, but only the new keys and values are kept: at the next step the past is forgotten.",
        _cached(keep=lambda key, new_key, value, new_value: (new_key, new_value)),
        0.5,
    ),
    Mistake(
        "exchanged",
        "Keys and values are exchanged in what is returned: output, keys, values.",
        lambda *inputs: tuple(cached(*inputs)[i] for i in (0, 2, 1)),
        0.75,
    ),
    Mistake(
        "output alone",
        "The output comes back alone. Keys and values are wanted, too, or there's nothing to pass to the next step.",
        lambda *inputs: cached(*inputs)[0],
        0.5,
    ),
    Mistake(
        "no scale",
        "The scores aren't divided by sqrt(d_k).",
        _cached(scale=lambda x, keys: 1.0),
        0.5,
    ),
    Mistake(
        "scale by d_model",
        "The scores are divided by the root of d_model. It's that of d_k, the width of queries and keys.",
        _cached(scale=lambda x, keys: math.sqrt(x.size(-1))),
        0.5,
    ),
    Mistake(
        "scale by d_k",
        "The scores are divided by d_k. It's its root.",
        _cached(scale=lambda x, keys: keys.size(-1)),
        0.5,
    ),
    Mistake(
        "softmax over the new ones",
        "The softmax runs over the queries. With a single new one every weight is 1: keys are the last axis.",
        _cached(weigh=lambda scores: scores.softmax(dim=-2)),
        0.25,
    ),
]


# 8.4 what a cache saves


def cost_cases(seed: int) -> list[Case]:
    """Return lengths, widths and heads that fit, and some that don't."""
    s = torch.Generator().manual_seed(seed + 3500)
    heads, d_k, below = sizes(s, 3, 2, 7)
    square, odd = pick(s, 5, 8), pick(s, 4, 6)
    fitting = {
        "small": (2, 4, 2),
        "one token": (1, 3 * pick(s, 2, 4), 3),
        "long": (pick(s, 40, 60), 8, 2),
        "wide": (3, 10 * heads * d_k, heads),
        "one head": (4, pick(s, 9, 14), 1),
        "square": (square, square, square),
        "a whole page": (pick(s, 280, 320), 512, 8),
        "more digits than a float holds": (4 * pick(s, 240, 270) + 1, 3 * (2 * pick(s, 20000, 24999) + 1), 3),
    }
    wrong = {
        "no token": ((0, 3 * d_k, 3), ("0",), "the length"),
        "length below zero": ((-below, 12, 2), (str(-below),), "the length"),
        "heads don't divide": ((3, 8 * odd + 2, odd), (str(8 * odd + 2), str(odd)), "d_model and heads"),
    }
    names = ("length", "d_model", "heads")
    cases = [Case(name, dict(zip(names, numbers, strict=True))) for name, numbers in fitting.items()]
    return cases + [
        Case(name, dict(zip(names, numbers, strict=True)), mentions=words, telling=telling)
        for name, (numbers, words, telling) in wrong.items()
    ]


def cost(length: int, d_model: int, heads: int) -> tuple[int, int]:
    """Return the right numbers, or say why there are none."""
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    return _costs()(length, d_model, heads)


def _costs(
    without: Callable[[int, int], int] | None = None,
    cached_step: Callable[[int, int], int] | None = None,
    steps: Callable[[int], range] = lambda length: range(1, length + 1),
) -> Callable[[int, int, int], tuple[int, int]]:
    """Return the numbers, with another cost of a step at which t tokens are there, without or with the cache."""

    def right(t: int, d: int) -> int:
        return 4 * t * d * d + 2 * t * t * d

    def right_cached(t: int, d: int) -> int:
        return 4 * d * d + 2 * t * d

    def answer(length: int, d_model: int, heads: int) -> tuple[int, int]:
        first = sum((without or right)(t, d_model) for t in steps(length))
        return first, sum((cached_step or right_cached)(t, d_model) for t in steps(length))

    return answer


def cost_by_formula(length: int, d_model: int, heads: int) -> tuple[int, int]:
    """Return the same without a loop."""
    if length <= 0 or d_model % heads != 0:
        raise ValueError(f"can't decode {length} tokens with {heads} heads in a width of {d_model}")
    n, d = length, d_model
    squares = n * (n + 1) * (2 * n + 1) // 6
    return 2 * d * d * n * (n + 1) + 2 * d * squares, 4 * d * d * n + d * n * (n + 1)


def cost_by_heads(length: int, d_model: int, heads: int) -> tuple[int, int]:
    """Return the same, product by product and head by head."""
    cost(length, d_model, heads)
    totals, d_k = [0, 0], d_model // heads
    for t in range(1, length + 1):
        for which, queries in enumerate((t, 1)):
            projections = 3 * heads * queries * d_model * d_k + queries * d_model * d_model
            totals[which] += projections + heads * (queries * t * d_k + queries * t * d_k)
    return totals[0], totals[1]


def _in_floats(n: int, d: int) -> tuple[int, int]:
    return round(2 * d * d * n * (n + 1) + d * n * (n + 1) * (2 * n + 1) / 3), 4 * d * d * n + d * n * (n + 1)


def _in_float32(n: int, d: int) -> tuple[int, int]:
    t = torch.arange(1, n + 1).float()
    return int((4 * t * d * d + 2 * t * t * d).sum()), int((4.0 * d * d + 2 * t * d).sum())


COST_WRONG = [
    Mistake(
        "no output projection",
        "Three projections are counted. There's a fourth, after the heads are joined: the output projection.",
        guarded(cost, _costs(lambda t, d: 3 * t * d * d + 2 * t * t * d, lambda t, d: 3 * d * d + 2 * t * d)),
        0.5,
    ),
    Mistake(
        "scores only",
        "The products of queries and keys are counted, but not those of weights and values, which are as many.",
        guarded(cost, _costs(lambda t, d: 4 * t * d * d + t * t * d, lambda t, d: 4 * d * d + t * d)),
        0.5,
    ),
    Mistake(
        "projections left out",
        "The projections are missing. At short lengths they are most of the work.",
        guarded(cost, _costs(lambda t, d: 2 * t * t * d, lambda t, d: 2 * t * d)),
        0.25,
    ),
    Mistake(
        "the cache saves everything",
        "With the cache only projections are counted. The new query still meets all keys: 2 * t * d at step t.",
        guarded(cost, _costs(cached_step=lambda t, d: 4 * d * d)),
        0.5,
    ),
    Mistake(
        "keys projected again",
        "With the cache, keys and values of all positions are projected again at each step. They're kept: only those "
        "of the new position are made.",
        guarded(cost, _costs(cached_step=lambda t, d: 2 * d * d + 2 * t * d * d + 2 * t * d)),
        0.5,
    ),
    Mistake(
        "all queries with the cache",
        "With the cache all queries are asked again. Only the new position's is needed: the earlier ones' outputs are "
        "known.",
        guarded(cost, _costs(cached_step=lambda t, d: 4 * d * d + 2 * t * t * d)),
        0.5,
    ),
    Mistake(
        "half the pairs",
        "Without the cache, pairs that the mask hides are left out. They're computed all the same, and hidden "
        "afterwards.",
        guarded(cost, _costs(lambda t, d: 4 * t * d * d + t * (t + 1) * d)),
        0.75,
    ),
    Mistake(
        "last step only",
        "This is the cost of the last step. All steps together were asked for.",
        guarded(cost, _costs(steps=lambda n: range(n, n + 1))),
        0.25,
    ),
    Mistake(
        "every step like the last",
        "Each step is counted as if all the tokens were there already. At step t there are t.",
        guarded(cost, lambda n, d, h: tuple(n * part for part in _costs(steps=lambda n: range(n, n + 1))(n, d, h))),
        0.5,
    ),
    Mistake(
        "steps from 0",
        "The first step is counted as if there were no token. There is one: <start>.",
        guarded(cost, _costs(steps=lambda n: range(n))),
        0.5,
    ),
    Mistake(
        "times the heads",
        "All is multiplied by the number of heads. Each head is narrower in return: together they cost as much as one.",
        guarded(cost, lambda n, d, h: tuple(h * part for part in cost(n, d, h))),
        0.5,
    ),
    Mistake(
        "heads as wide as the model",
        "Scores and mixing are counted as if each head were as wide as the model. A head has d_model / heads, so that "
        "all of them together take t^2 * d_model.",
        guarded(
            cost,
            lambda n, d, h: _costs(
                lambda t, d: 4 * t * d * d + 2 * t * t * d * h, lambda t, d: 4 * d * d + 2 * t * d * h
            )(n, d, h),
        ),
        0.5,
    ),
    Mistake(
        "scores of one head",
        "Scores and mixing are counted for one head alone. There are `heads` of them.",
        guarded(
            cost,
            lambda n, d, h: _costs(
                lambda t, d: 4 * t * d * d + 2 * t * t * (d // h), lambda t, d: 4 * d * d + 2 * t * (d // h)
            )(n, d, h),
        ),
        0.5,
    ),
    Mistake(
        "one head",
        "This is the cost of one head. All of them were asked for.",
        guarded(cost, lambda n, d, h: tuple(part // h for part in cost(n, d, h))),
        0.5,
    ),
    Mistake(
        "additions, too",
        "All numbers are twice the right ones: additions are counted, too, as in FLOPs. Only multiplications were "
        "asked for.",
        guarded(cost, lambda n, d, h: tuple(2 * part for part in cost(n, d, h))),
        0.75,
    ),
    Mistake(
        "all projected again",
        "With the cache, all four projections are made again for all positions. Only the new one needs them.",
        guarded(cost, _costs(cached_step=lambda t, d: 4 * t * d * d + 2 * t * d)),
        0.5,
    ),
    Mistake(
        "keys and values for nothing",
        "With the cache, the new position's own key and value aren't counted. They must be made once, like all others: "
        "four projections of one vector.",
        guarded(cost, _costs(cached_step=lambda t, d: 2 * d * d + 2 * t * d)),
        0.5,
    ),
    Mistake(
        "no mixing with the cache",
        "With the cache, scores are counted, but not the mixing of the values, which takes as much.",
        guarded(cost, _costs(cached_step=lambda t, d: 4 * d * d + t * d)),
        0.75,
    ),
    Mistake(
        "own key not met",
        "With the cache, the new query meets the keys before it, t - 1 of them. It meets its own, too: t.",
        guarded(cost, _costs(cached_step=lambda t, d: 4 * d * d + 2 * (t - 1) * d)),
        0.75,
    ),
    Mistake(
        "one step too few",
        "The last step is missing, as with range(1, length). Steps run from 1 to length.",
        guarded(cost, _costs(steps=lambda n: range(1, n))),
        0.5,
    ),
    Mistake(
        "one pass, no steps",
        "Without the cache, one pass over the whole is counted, as in training. In decoding, a token is known only "
        "after the step before it: there are `length` passes.",
        guarded(cost, lambda n, d, h: (_costs(steps=lambda n: range(n, n + 1))(n, d, h)[0], cost(n, d, h)[1])),
        0.25,
    ),
    Mistake(
        "exchanged",
        "The two numbers are exchanged: without the cache comes first.",
        guarded(cost, lambda *sizes: cost(*sizes)[::-1]),
        0.75,
    ),
    Mistake(
        "counted in floating point",
        "The last digits of large numbers are wrong: somewhere they were numbers of floating point, as / makes them, "
        "which hold 16 digits. Integers are exact: //.",
        guarded(cost, lambda n, d, h: _in_floats(n, d)),
        0.75,
    ),
    Mistake(
        "counted in float32",
        "The last digits of large numbers are wrong: they were added up in float32, which holds 7 of them. Python's "
        "integers are exact, and so are tensors of int64 up to 9 * 10^18.",
        guarded(cost, lambda n, d, h: _in_float32(n, d)),
        0.75,
    ),
    Mistake(
        "nothing refused",
        "Nothing is refused: a length of 0 costs 0, and heads that don't divide d_model go unnoticed.",
        lambda *sizes: _costs()(*sizes),
        0.5,
    ),
    Mistake(
        "heads let through",
        "The length is checked, but not whether heads divides d_model.",
        lambda *sizes: cost(*sizes[:2], 1),
        0.75,
    ),
    Mistake(
        "assertions",
        "Errors are raised by assert, which python -O leaves out: raise ValueError.",
        with_errors(cost, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "errors that don't tell",
        "ValueError is right, but its text lacks the numbers that came.",
        with_errors(cost, lambda error: ValueError("bad sizes")),
        0.75,
    ),
]


# 8.5 a beam search with three bugs


def _penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def beam_cases(seed: int) -> list[Case]:
    """Return tables of log-probabilities in which each known mistake shows somewhere."""
    g = torch.Generator().manual_seed(seed + 4003)
    sizes = {
        "small": (4, 0, 1, 2, 3, 0.0),
        "length penalty": (6, 0, 1, 3, 6, 1.0),
        "other ids": (7, 5, 2, 2, 7, 0.6),
        "one beam": (5, 2, 4, 1, 6, 0.8),
        "more beams than tokens": (4, 3, 0, 6, 4, 0.7),
        "cut short": (6, 1, 3, 2, 2, 0.5),
        "no end, and more beams than tokens": (4, 2, 0, 9, 2, 0.9),
        "wide": (8, 4, 0, 4, 6, 1.2),
    }
    while True:
        cases = [_beam_case(g, name, numbers) for name, numbers in sizes.items()]
        cases += [_early_end(g, "an early end", 2, 0.5), _early_end(g, "a likelier word", 2, 0.44)]
        cases.append(_early_end(g, "an early end, three beams", 3, 0.5))
        if _telling(cases) and not any(map(_tied, cases)):
            return cases


def _tied(case: Case) -> bool:
    """Tell whether another order among equals changes the result."""
    return _unlike(*(search(*case.inputs.values()) for search in (beam, _split(_kept))))


def _early_end(generator: torch.Generator, name: str, beam: int, ending: float) -> Case:
    """Return a table in which <end> is the likeliest first token, and the best target is a longer one.

    The second likeliest first token ends at once with the given probability; nearly all else goes on to a sure chain.
    The third likeliest always leads to that chain, so that a search that lets it live comes out elsewhere.
    """
    start, end, second, third, link, last = torch.randperm(6, generator=generator).tolist()
    shares = torch.full((6, 6), 0.01)
    shares[start, [end, second, third]] = torch.tensor([0.4, 0.32, 0.25])
    shares[second, [end, link]] = torch.tensor([ending, 0.96 - ending])
    shares[[third, link, last, end], [link, last, end, link]] = 0.96
    shares[:, start] = 0.0
    logits = shares.log() + draw(generator, 6, 6, scale=0.01)
    table = (logits.log_softmax(dim=-1) * 1e4).round() / 1e4
    return Case(name, {"table": table, "start": start, "end": end, "beam": beam, "longest": 6, "alpha": 2.5})


_ENDING = {"cut short": -4.0, "no end, and more beams than tokens": -math.inf}  # what is added to the logit of <end>


def _beam_case(generator: torch.Generator, name: str, sizes: tuple[int, int, int, int, int, float]) -> Case:
    vocabulary, start, end, beam, longest, alpha = sizes
    least = 0.0
    while least < 0.005:  # no two tokens are equally likely
        logits = draw(generator, vocabulary, vocabulary, scale=1.2)
        logits[:, end] += _ENDING.get(name, 0.5)
        logits[:, start] = -math.inf
        ordered = logits.sort(dim=-1, descending=True).values
        least = float((ordered[:, :-1] - ordered[:, 1:]).nan_to_num(nan=math.inf).min())
    table = (logits.log_softmax(dim=-1) * 1e4).round() / 1e4
    numbers = {"start": start, "end": end, "beam": beam, "longest": longest, "alpha": alpha}
    return Case(name, {"table": table, **numbers})


def _telling(cases: list[Case]) -> bool:
    """Tell whether any two of the right answer and the known mistakes say something else, by far, on some case."""
    found: list[list[Any]] = []
    for answer in (beam, *(mistake.answer for mistake in BEAM_WRONG)):
        found.append([answer(*case.inputs.values()) for case in cases])
        if not all(any(map(_unlike, found[-1], other)) for other in found[:-1]):
            return False
    return True


def _unlike(one: "Found", other: "Found") -> bool:
    return one[0].tolist() != other[0].tolist() or abs(float(one[1] - other[1])) > 0.05


Found = tuple[Tensor, Tensor]
Row = tuple[float, list[int]]  # a log-probability and the tokens that have it, <start> among them


def _searched(
    *,
    alike: bool = False,
    grow: bool = False,
    divide: Callable[[float, int, float], float] | None = None,
    first: bool = False,
    apiece: bool = False,
    finished_only: bool = True,
) -> Callable[..., Found]:
    """Return a beam search with one part or more as the arguments say.

    Args:
        alike: all beams start with the same score.
        grow: targets that have ended go on.
        divide: what a target's score is, from its log-probability, its length and alpha.
        first: the search ends with the first target that has ended.
        apiece: each beam keeps its own best extension.
        finished_only: whether those that have ended are preferred.
    """
    divide = divide or (lambda total, length, alpha: total / _penalty(length, alpha))

    def answer(table: Tensor, start: int, end: int, beam: int, longest: int, alpha: float) -> Found:
        rows = table.tolist()
        live: list[Row] = [(0.0, [start])] * (beam if alike else 1)
        done: list[Row] = []
        for _ in range(longest):
            groups = [[(total + step, [*row, j]) for j, step in enumerate(rows[row[-1]])] for total, row in live]
            best = _best(groups, beam, apiece)
            done += [one for one in best if one[1][-1] == end and not grow]
            live = [one for one in best if one[1][-1] != end or grow]
            if not live or (first and done):
                break
        pool = done if done and finished_only else done + live
        total, row = max(pool, key=lambda one: divide(one[0], len(one[1]) - 1, alpha))
        return torch.tensor(row[1:]), torch.tensor(divide(total, len(row) - 1, alpha), dtype=table.dtype)

    return answer


def _best(groups: list[list[Row]], beam: int, apiece: bool) -> list[Row]:
    """Return the best extensions that are possible at all: of all together, or of each group one."""
    if apiece and len(groups) == beam:
        return [max(group, key=lambda one: one[0]) for group in groups]
    everyone = [one for group in groups for one in group if one[0] > -math.inf]
    return sorted(everyone, key=lambda one: one[0], reverse=True)[:beam]


beam = _searched()


def beam_by_tensors(table: Tensor, start: int, end: int, beam: int, longest: int, alpha: float) -> Found:
    """Return the same by tensors, as the broken one, mended."""
    tokens, found = torch.full((beam, 1), start), []
    scores = torch.full((beam,), -math.inf, dtype=table.dtype)
    scores[0] = 0.0
    for _ in range(longest):
        totals = scores[:, None] + table[tokens[:, -1]]
        scores, places = totals.flatten().topk(beam)
        tokens = torch.cat([tokens[places // len(table)], (places % len(table))[:, None]], dim=1)
        ended = (tokens[:, -1] == end) & (scores > -math.inf)
        penalty = _penalty(tokens.size(1) - 1, alpha)
        found += [(score / penalty, row[1:]) for score, row in zip(scores[ended], tokens[ended], strict=True)]
        scores = scores.masked_fill(ended, -math.inf)
    if not found:
        return tokens[scores.argmax(), 1:], scores.max() / _penalty(longest, alpha)
    score, row = max(found, key=lambda pair: float(pair[0]))
    return row, score


def beam_by_recursion(table: Tensor, start: int, end: int, beam: int, longest: int, alpha: float) -> Found:
    """Return the same, one step and then the rest."""

    def search(live: dict[tuple[int, ...], float], left: int) -> Iterator[tuple[tuple[int, ...], float]]:
        if not left or not live:
            yield from live.items()
            return
        pairs = {(*row, j): total + float(table[row[-1], j]) for row, total in live.items() for j in range(len(table))}
        kept = sorted((pair for pair in pairs.items() if pair[1] > -math.inf), key=lambda pair: -pair[1])[:beam]
        yield from (pair for pair in kept if pair[0][-1] == end)
        yield from search({row: total for row, total in kept if row[-1] != end}, left - 1)

    pool = [(row, total / _penalty(len(row) - 1, alpha)) for row, total in search({(start,): 0.0}, longest)]
    ended = [pair for pair in pool if pair[0][-1] == end]
    row, score = max(ended or pool, key=lambda pair: pair[1])
    return torch.tensor(row[1:]), torch.tensor(score)


def _plain(total: float, length: int, alpha: float) -> float:
    return total


def _split(
    split: Callable[[list[Row], list[Row], int, int], tuple[list[Row], list[Row]]],
    choose: Callable[[Row, float], float] | None = None,
) -> Callable[..., Found]:
    """Return a beam search that ends targets in another way.

    Args:
        split: from the possible extensions, best first, those that have ended before, the beam and `end`: which have
            ended by now, and which live on.
        choose: what decides between the finished ones, from a target and alpha.
    """

    def score(one: Row, alpha: float) -> float:
        return one[0] / _penalty(len(one[1]) - 1, alpha)

    def answer(table: Tensor, start: int, end: int, beam: int, longest: int, alpha: float) -> Found:
        live: list[Row] = [(0.0, [start])]
        done: list[Row] = []
        for _ in range(longest):
            grown = [(total + step, [*row, j]) for total, row in live for j, step in enumerate(table[row[-1]].tolist())]
            ordered = sorted((one for one in grown if one[0] > -math.inf), reverse=True)
            done, live = split(ordered, done, beam, end)
        best = max(done or live, key=lambda one: (choose or score)(one, alpha))
        return torch.tensor(best[1][1:]), torch.tensor(score(best, alpha), dtype=table.dtype)

    return answer


def _parted(rows: list[Row], end: int) -> tuple[list[Row], list[Row]]:
    """Return the rows that end in `end`, and the others."""
    return [one for one in rows if one[1][-1] == end], [one for one in rows if one[1][-1] != end]


def _counted_and_live(ordered: list[Row], done: list[Row], beam: int, end: int) -> tuple[list[Row], list[Row]]:
    return done + _parted(ordered[:beam], end)[0], ordered[:beam]


def _enough(ordered: list[Row], done: list[Row], beam: int, end: int) -> tuple[list[Row], list[Row]]:
    ended, live = _parted(ordered[:beam], end)
    return done + ended, live if len(done + ended) < beam else []


def _plain_score(*inputs: Any) -> Found:
    """Return the right target and its log-probability."""
    tokens, score = beam(*inputs)
    return tokens, score * _penalty(len(tokens), inputs[-1])


def _plain_where_cut(*inputs: Any) -> Found:
    """Return the right target; its score lacks the penalty where no target has finished."""
    tokens, score = beam(*inputs)
    return (tokens, score) if tokens[-1] == inputs[2] else _plain_score(*inputs)


def _with_start(table: Tensor, start: int, *others: Any) -> Found:
    tokens, score = beam(table, start, *others)
    return torch.cat([torch.tensor([start]), tokens]), score


def _without_end(table: Tensor, start: int, end: int, *others: Any) -> Found:
    tokens, score = beam(table, start, end, *others)
    return tokens[tokens != end], score


def _stepwise(
    spread: Callable[[list[Row], list[Row]], list[Row]] = lambda old, new: new,
    carry: Callable[[float, float], float] = lambda total, penalty: total,
    possible: bool = True,
) -> Callable[..., Found]:
    """Return a beam search with another step.

    Args:
        spread: from the live targets and their best extensions, what is taken for the extensions.
        carry: what a live target's log-probability is at the next step, from what it is and the length penalty.
        possible: whether extensions of probability 0 are left out.
    """

    def answer(table: Tensor, start: int, end: int, beam: int, longest: int, alpha: float) -> Found:
        live: list[Row] = [(0.0, [start])]
        done: list[Row] = []
        for length in range(1, longest + 1):
            grown = [(total + step, [*row, j]) for total, row in live for j, step in enumerate(table[row[-1]].tolist())]
            grown = [one for one in grown if one[0] > -math.inf or not possible]
            best = spread(live, sorted(grown, key=lambda one: -one[0])[:beam])
            penalty = _penalty(length, alpha)
            done += [(total / penalty, row) for total, row in best if row[-1] == end]
            live = [(carry(total, penalty), row) for total, row in best if row[-1] != end]
            if not live:
                break
        total, row = max(done, key=lambda one: one[0]) if done else max(live, key=lambda one: one[0])
        return torch.tensor(row[1:]), torch.tensor(total if done else total / penalty, dtype=table.dtype)

    return answer


def _misplaced(old: list[Row], new: list[Row]) -> list[Row]:
    """Return the extensions with the tokens of another live target before their last: that of the same place."""
    return [(total, [*old[min(i, len(old) - 1)][1], row[-1]]) for i, (total, row) in enumerate(new)]


def _narrower(ordered: list[Row], done: list[Row], beam: int, end: int) -> tuple[list[Row], list[Row]]:
    ended, live = _parted(ordered[: max(beam - len(done), 0)], end)
    return done + ended, live


def _refilled(ordered: list[Row], done: list[Row], beam: int, end: int) -> tuple[list[Row], list[Row]]:
    return done + _parted(ordered[:beam], end)[0], _parted(ordered, end)[1][:beam]


def _kept(ordered: list[Row], done: list[Row], beam: int, end: int) -> tuple[list[Row], list[Row]]:
    ended, live = _parted(ordered[:beam], end)
    return done + ended, live


BEAM_WRONG = [
    Mistake(
        "best extension of each beam",
        "Once there are enough beams, each keeps its own best extension. The best of all extensions are to be kept: "
        "one beam may have several of them, another none.",
        _searched(apiece=True),
        0.5,
    ),
    Mistake(
        "stops at the first end",
        "The search stops as soon as one target has ended. A longer one may still do better.",
        _searched(first=True),
        0.5,
    ),
    Mistake(
        "unfinished ones returned",
        "A target that hasn't ended may win over one that has. It's only returned where none has ended.",
        _searched(finished_only=False),
        0.5,
    ),
    Mistake(
        "all three bugs are there",
        "All three bugs are still there: the beams start alike, targets that have ended go on, and lengths aren't "
        "made up for.",
        _searched(alike=True, grow=True, divide=_plain),
    ),
    Mistake(
        "beams alike",
        "All beams start with score 0. The best extension of each is then the same, so that they are copies of one "
        "greedy search for ever: let one begin with 0 and the others with -inf.",
        _searched(alike=True),
        0.5,
    ),
    Mistake(
        "ended ones go on",
        "A target that has ended is extended beyond its <end>. Put it aside, with its score, and let it take no more "
        "part.",
        _searched(grow=True),
        0.5,
    ),
    Mistake(
        "ended ones counted, yet they go on",
        "Targets that have ended are put aside, but they also live on: they take places from others at each step. "
        "Take them out of the live ones.",
        _split(_counted_and_live),
        0.75,
    ),
    Mistake(
        "stops when there are enough",
        "The search stops as soon as `beam` targets have ended. Go on until `longest` steps are taken or nothing "
        "lives: with the length penalty a longer one may still win.",
        _split(_enough),
        0.75,
    ),
    Mistake(
        "narrower with each end",
        "Each target that has ended makes the beam narrower by one for the rest of the search. At each step the "
        "`beam` best extensions are kept.",
        _split(_narrower),
        0.75,
    ),
    Mistake(
        "ended ones take no place",
        "Those that end are replaced by the next best, so that there are always `beam` live ones. Here they're among "
        "the `beam` best of their step, and fewer live on.",
        _split(_refilled),
        0.75,
    ),
    Mistake(
        "penalty after the choice",
        "The finished targets are compared without the length penalty, and only the score that's returned has it. "
        "Divide first, then take the largest.",
        _split(_kept, choose=lambda one, alpha: one[0]),
        0.75,
    ),
    Mistake(
        "no length penalty",
        "Log-probabilities of targets of different lengths are compared as they are: each token makes them smaller, "
        "so that short ones win. Divide by the length penalty.",
        _searched(divide=_plain),
        0.5,
    ),
    Mistake(
        "ended ones go on, no length penalty",
        "The beams are no longer alike, but targets that have ended go on, and lengths aren't made up for.",
        _searched(grow=True, divide=_plain),
        0.25,
    ),
    Mistake(
        "beams alike, no length penalty",
        "Targets end now, but the beams start alike, and lengths aren't made up for.",
        _searched(alike=True, divide=_plain),
        0.25,
    ),
    Mistake(
        "beams alike, ended ones go on",
        "Lengths are made up for now, but the beams start alike, and targets that have ended go on.",
        _searched(alike=True, grow=True),
        0.25,
    ),
    Mistake(
        "multiplied by the penalty",
        "Log-probabilities are multiplied by the length penalty. They're negative: that punishes length once more. "
        "Divide.",
        _searched(divide=lambda total, n, alpha: total * _penalty(n, alpha)),
        0.5,
    ),
    Mistake(
        "divided by the length",
        "Log-probabilities are divided by the length, or a power of it. It's ((5 + length) / 6) to the power alpha.",
        _searched(divide=lambda total, n, alpha: total / n**alpha),
        0.75,
    ),
    Mistake(
        "only the sum to the power",
        "Only 5 + length is raised to alpha, and then divided by 6. The power is that of the whole fraction.",
        _searched(divide=lambda total, n, alpha: total / ((5 + n) ** alpha / 6)),
        0.75,
    ),
    Mistake(
        "penalty at every step",
        "The log-probability is divided by the length penalty at each step, and the next step adds to what is left: "
        "early tokens are divided again and again. Divide once, when a target has finished.",
        _stepwise(carry=lambda total, penalty: total / penalty),
        0.5,
    ),
    Mistake(
        "score without the penalty",
        "The target is right, but its score is its log-probability. Return what decided between the targets: that over "
        "the length penalty.",
        _plain_score,
        0.75,
    ),
    Mistake(
        "no penalty where none has finished",
        "Where no target has finished, the score comes back without the length penalty. It's divided like any other.",
        _plain_where_cut,
        0.75,
    ),
    Mistake(
        "beginnings mixed up",
        "The tokens aren't taken along: an extension is written behind the beginning at its own place in the list, not "
        "behind the one that it extends. place // vocabulary says which one that is.",
        _stepwise(spread=_misplaced),
        0.5,
    ),
    Mistake(
        "impossible ones finished",
        "With more beams than possible extensions, some of the best have a log-probability of -inf. Those that end in "
        "`end` are put among the finished ones here: they're no targets.",
        _stepwise(possible=False),
        0.75,
    ),
    Mistake(
        "<start> returned",
        "<start> comes back with the target. It was given, not found: leave it out.",
        _with_start,
        0.75,
    ),
    Mistake(
        "<end> left out",
        "<end> is left out of what comes back. Here it belongs to the target.",
        _without_end,
        0.75,
    ),
    Mistake(
        "<start> counted",
        "<start> is counted in the length. The length is that of what is returned, <end> included.",
        _searched(divide=lambda total, n, alpha: total / _penalty(n + 1, alpha)),
        0.75,
    ),
    Mistake(
        "<end> not counted",
        "<end> isn't counted in the length. It was chosen like any other token, and has its probability.",
        _searched(divide=lambda total, n, alpha: total / _penalty(n - 1, alpha)),
        0.75,
    ),
]


# 8.6 groups that keep out of each other's way


def group_cases(seed: int) -> list[Case]:
    """Return scores and log-probabilities of groups of beams; each known mistake shows somewhere."""
    g = torch.Generator().manual_seed(seed + 5000)
    s = torch.Generator().manual_seed(seed + 5500)
    groups, beam, vocabulary = sizes(s, 3, 2, 6)
    many = pick(s, 3, 4)
    shapes = {
        "small": (2, 1, 4, 1.0),
        "two beams each": (3, 2, pick(s, 5, 7), 0.8),
        "one group": (1, pick(s, 2, 3), vocabulary + 3, 2.0),
        "as many groups as beams": (3, 3, pick(s, 6, 8), 0.7),
        "all sizes alike": (many, many, many, 0.5),
        "strong": (groups, 2, 6, 3.0),
        "no strength": (2, min(beam, 4), 5, 0.0),
        "wider": (3, 2, pick(s, 8, 10), 1.3),
    }
    return [_group_case(g, name, *numbers) for name, numbers in shapes.items()]


def _group_case(
    generator: torch.Generator, name: str, groups: int, beam: int, vocabulary: int, strength: float
) -> Case:
    """Return one step in which no choice is a close one, and whose groups would like the same tokens."""
    while True:
        shared = draw(generator, 1, 1, vocabulary, scale=1.2)
        logits = shared + draw(generator, groups, beam, vocabulary, scale=0.4)
        found = (logits.log_softmax(dim=-1) * 1e4).round() / 1e4
        scores = draw(generator, groups, beam, mean=-2.0, scale=0.5)
        if all(_margin(scores, found, size) > 2e-3 for size in (0.0, strength)) and _steady(scores, found, strength):
            return Case(name, {"scores": scores, "log_probability": found, "strength": strength})


def _steady(scores: Tensor, found: Tensor, strength: float) -> bool:
    """Tell whether no mistake has a close choice, either: a little more or less makes no difference to its tokens."""
    few, more = ([m.answer(scores, found * size, strength)[0] for m in GROUP_WRONG] for size in (0.9995, 1.0005))
    return all(one.shape == other.shape and one.equal(other) for one, other in zip(few, more, strict=True))


def _margin(scores: Tensor, found: Tensor, strength: float) -> float:
    """Return by how much each choice beats the next one, at least."""
    chosen, least = torch.zeros(found.size(-1)), math.inf
    for own, row in zip(found, scores, strict=True):
        totals = (row[:, None] + own - strength * chosen).flatten()
        best = totals.topk(len(row) + 1)
        least = min(least, float((best.values[:-1] - best.values[1:]).min()))
        chosen = chosen + torch.bincount(best.indices[:-1] % len(chosen), minlength=len(chosen))
    return least


Chosen = tuple[Tensor, Tensor, Tensor]


def _grouped(
    loss: Callable[[list[Tensor], int], Tensor] | None = None,
    score: Callable[[Tensor, Tensor], Tensor] = lambda lowered, plain: lowered,
    pick: Callable[[Tensor, int], tuple[Tensor, Tensor]] | None = None,
    start: Callable[[Tensor], Tensor] = lambda scores: scores,
) -> Callable[[Tensor, Tensor, float], Chosen]:
    """Return a step of the groups, of which a part is as the arguments say.

    Args:
        loss: what each token loses, in strengths, from the tokens that the groups before have chosen.
        score: what is kept as the score, from the score with the loss and without.
        pick: which beams and tokens are chosen, as two tensors, from the totals [beam vocabulary].
    """

    def answer(scores: Tensor, log_probability: Tensor, strength: float) -> Chosen:
        before: list[Tensor] = []
        rows = []
        for own, plain in zip(log_probability, start(scores), strict=True):
            totals = plain[:, None] + own
            lowered = totals - strength * (loss or _counts)(before, own.size(-1)).to(own.dtype)
            origins, tokens = (pick or _top)(lowered, len(plain))
            rows.append((tokens, origins, score(lowered[origins, tokens], totals[origins, tokens])))
            before.append(tokens)
        return tuple(torch.stack(part) for part in zip(*rows, strict=True))

    return answer


def _counts(before: list[Tensor], vocabulary: int) -> Tensor:
    return sum((torch.bincount(tokens, minlength=vocabulary) for tokens in before), torch.zeros(vocabulary).long())


def _top(totals: Tensor, beam: int) -> tuple[Tensor, Tensor]:
    places = totals.flatten().topk(beam).indices
    return places // totals.size(-1), places % totals.size(-1)


def _top_apiece(totals: Tensor, beam: int) -> tuple[Tensor, Tensor]:
    best = totals.max(dim=-1)
    origins = best.values.argsort(descending=True)
    return origins, best.indices[origins]


def _dealt(totals: Tensor, beam: int) -> tuple[Tensor, Tensor]:
    """Return tokens that no two beams of the group share."""
    origins, tokens = [], []
    for place in totals.flatten().argsort(descending=True).tolist():
        origin, token = divmod(place, totals.size(-1))
        if token not in tokens and len(tokens) < beam:
            origins.append(origin)
            tokens.append(token)
    return torch.tensor(origins), torch.tensor(tokens)


grouped = _grouped()


def grouped_by_loop(scores: Tensor, log_probability: Tensor, strength: float) -> Chosen:
    """Return the same by plain numbers."""
    taken: list[int] = []
    results: list[list[tuple[float, int, int]]] = []
    for row, own in zip(scores.tolist(), log_probability.tolist(), strict=True):
        candidates = [
            (total + value - strength * taken.count(token), token, origin)
            for origin, (total, values) in enumerate(zip(row, own, strict=True))
            for token, value in enumerate(values)
        ]
        best = sorted(candidates, reverse=True)[: len(row)]
        taken += [token for _, token, _ in best]
        results.append(best)
    parts = [[[one[i] for one in best] for best in results] for i in range(3)]
    return torch.tensor(parts[1]), torch.tensor(parts[2]), torch.tensor(parts[0], dtype=scores.dtype)


def grouped_by_sorting(scores: Tensor, log_probability: Tensor, strength: float) -> Chosen:
    """Return the same with one table of losses that grows, and a sort."""
    groups, beam, vocabulary = log_probability.shape
    tokens, origins, kept = (torch.zeros(groups, beam, dtype=d) for d in (torch.long, torch.long, scores.dtype))
    loss = torch.zeros(vocabulary, dtype=scores.dtype)
    for i in range(groups):
        flat = (scores[i].unsqueeze(-1) + log_probability[i] - loss).reshape(-1)
        order = flat.argsort(descending=True)[:beam]
        tokens[i], origins[i], kept[i] = order.remainder(vocabulary), order // vocabulary, flat[order]
        loss = loss.index_add(0, tokens[i], torch.full((beam,), strength, dtype=loss.dtype))
    return tokens, origins, kept


def _exchanged(*inputs: Any) -> Chosen:
    tokens, origins, scores = grouped(*inputs)
    return origins, tokens, scores


def _renumbered(inputs: tuple, numbers: Callable[[Tensor, Tensor, int], Tensor]) -> Chosen:
    tokens, origins, scores = grouped(*inputs)
    return tokens, numbers(origins, tokens, inputs[1].size(-1)), scores


def _normalised(scores: Tensor, log_probability: Tensor, strength: float) -> Chosen:
    chosen, rows = torch.zeros(log_probability.size(-1), dtype=scores.dtype), []
    for own, before in zip(log_probability, scores, strict=True):
        best = (before[:, None] + (own - strength * chosen).log_softmax(dim=-1)).flatten().topk(len(before))
        tokens = best.indices % len(chosen)
        chosen = chosen + torch.bincount(tokens, minlength=len(chosen))
        rows.append((tokens, best.indices // len(chosen), best.values))
    return tuple(torch.stack(part) for part in zip(*rows, strict=True))


GROUP_WRONG = [
    Mistake(
        "no loss",
        "No token loses anything: the groups take no notice of each other, and will mostly say the same.",
        _grouped(loss=lambda before, v: torch.zeros(v)),
        0.25,
    ),
    Mistake(
        "only the group before",
        "A group avoids only the one just before it. All groups before it count.",
        _grouped(loss=lambda before, v: _counts(before[-1:], v)),
        0.5,
    ),
    Mistake(
        "only the first group",
        "All groups avoid the first one only. All groups before it count.",
        _grouped(loss=lambda before, v: _counts(before[:1], v)),
        0.5,
    ),
    Mistake(
        "once, however many",
        "A token loses `strength` once, however many beams have chosen it. It's `strength` for each of them.",
        _grouped(loss=lambda before, v: _counts(before, v).clamp(max=1)),
        0.5,
    ),
    Mistake(
        "once a group",
        "A token loses `strength` once for each group that has chosen it. It's once for each beam.",
        _grouped(loss=lambda before, v: sum((_counts([t], v).clamp(max=1) for t in before), torch.zeros(v))),
        0.75,
    ),
    Mistake(
        "only the best beam",
        "Only the best beam of each group counts. All its beams do.",
        _grouped(loss=lambda before, v: _counts([tokens[:1] for tokens in before], v)),
        0.5,
    ),
    Mistake(
        "a reward",
        "Tokens that others have chosen gain where they should lose: the groups run after each other.",
        _grouped(loss=lambda before, v: -_counts(before, v)),
        0.5,
    ),
    Mistake(
        "a ban",
        "What others have chosen is forbidden. It's to lose `strength`, and may still be the best.",
        _grouped(loss=lambda before, v: _counts(before, v) * 1e6),
        0.25,
    ),
    Mistake(
        "loss not kept",
        "The loss decides what is chosen, but isn't kept in the scores. Here, as in the authors' code, it stays.",
        _grouped(score=lambda lowered, plain: plain),
        0.75,
    ),
    Mistake(
        "scores so far left out",
        "The scores so far aren't added: beams that have done badly are treated like good ones.",
        _grouped(start=torch.zeros_like),
        0.25,
    ),
    Mistake(
        "one extension a beam",
        "Each beam keeps its own best extension. The best of all the group's extensions are wanted: one beam may have "
        "several of them, another none.",
        _grouped(pick=_top_apiece),
        0.5,
    ),
    Mistake(
        "no token twice in a group",
        "Beams of one group are kept from choosing the same token. Only groups before it count; inside a group, two "
        "beams may be extended by the same word.",
        _grouped(pick=_dealt),
        0.5,
    ),
    Mistake(
        "// and % exchanged",
        "Beams and tokens are exchanged: in a flattened [beam vocabulary], place // vocabulary is the beam and "
        "place % vocabulary the token.",
        _exchanged,
        0.5,
    ),
    Mistake(
        "place not taken apart",
        "In place of the beam comes the place in the flattened table [beam vocabulary]. The beam is "
        "place // vocabulary.",
        lambda *inputs: _renumbered(inputs, lambda beams, tokens, v: beams * v + tokens),
        0.5,
    ),
    Mistake(
        "beams numbered through",
        "Beams are numbered through all groups. Here they're counted within their group, from 0.",
        lambda *inputs: _renumbered(
            inputs, lambda beams, tokens, v: beams + beams.size(1) * torch.arange(len(beams))[:, None]
        ),
        0.75,
    ),
    Mistake(
        "made to sum to 1 again",
        "After the loss, probabilities are made to sum to 1 again, which changes all scores. The loss is only "
        "subtracted.",
        _normalised,
        0.5,
    ),
    Mistake(
        "worst first",
        "Each group's beams are in rising order. The best comes first.",
        lambda *inputs: tuple(part.flip(-1) for part in grouped(*inputs)),
        0.75,
    ),
]


PROBES = [
    probe(
        "8.1",
        "the nucleus",
        "function",
        "top_p_logits",
        (4, 12, 2),
        cases=nucleus_cases,
        reference=nucleus,
        right={"token by token": nucleus_by_loop, "without sorting": nucleus_by_pairs},
        wrong=NUCLEUS_WRONG,
        replaces="sampling.top_p_logits",
    ),
    probe(
        "8.2",
        "a token for a number between 0 and 1",
        "function",
        "drawn_tokens",
        (4, 10, 1),
        cases=drawn_cases,
        reference=drawn,
        right={"row by row": drawn_by_loop, "searchsorted": drawn_by_search},
        wrong=DRAWN_WRONG,
    ),
    probe(
        "8.3",
        "a step with a cache",
        "function",
        "cached_step",
        (5, 15, 2),
        cases=cached_cases,
        reference=cached,
        right={"one after the other": cached_by_loop, "PyTorch's attention": cached_by_torch},
        wrong=CACHED_WRONG,
    ),
    probe(
        "8.4",
        "what a cache saves",
        "error",
        "decoding_cost",
        (4, 12, 2),
        cases=cost_cases,
        reference=cost,
        right={"a formula": cost_by_formula, "head by head": cost_by_heads},
        wrong=COST_WRONG,
    ),
    probe(
        "8.5",
        "a beam search with three bugs",
        "bug",
        "beam_search",
        (6, 20, 3),
        cases=beam_cases,
        reference=beam,
        right={"the broken one, mended": beam_by_tensors, "recursion": beam_by_recursion},
        original=("decoding.Beams.advance",),
        wrong=BEAM_WRONG,
    ),
    probe(
        "8.6",
        "groups that keep out of each other's way",
        "function",
        "diverse_step",
        (5, 15, 3),
        cases=group_cases,
        reference=grouped,
        right={"plain numbers": grouped_by_loop, "a table of losses": grouped_by_sorting},
        original=("diverse_beam.advance_in_turn",),
        wrong=GROUP_WRONG,
    ),
]


QUESTIONS = [
    Question(
        id="8.7",
        title="wider and worse",
        points=4,
        minutes=10,
        difficulty=3,
        rubric=(
            (
                1,
                "whether a wider beam finds more probable targets",
                "mostly; not surely, since a beam may drop a start",
            ),
            (1, "how the score can fall all the same", "the model itself prefers short or empty ones: model error"),
            (
                1,
                "how to tell the search's errors from the model's",
                "score the reference; the better is more probable?",
            ),
            (1, "what to try, and on which sentences to choose it", "length penalty, on the validation sentences"),
        ),
    ),
    Question(
        id="8.8",
        title="the same again and again",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "which decodings loop, and why one loop goes on", "greedy, beam: once said, a phrase gets likelier"),
            (1, "what a bug would look like instead", "a cache or positions that don't move on: loops from the start"),
            (1, "a test that tells the two apart", "with and without cache the same; probability of the next repeat"),
            (1, "a cure, and what it costs", "sampling with top-p, less sure; forbidding n-grams forbids right ones"),
        ),
    ),
]
