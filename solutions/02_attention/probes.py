"""What chapter 02's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.exercises.authoring import pick, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Probe, Question


def _draw(generator: torch.Generator, *shape: int, mean: float = 0.0) -> Tensor:
    """Return normal numbers with two decimals, so that what is stored is exactly what was used."""
    return _rounded(torch.randn(shape, generator=generator) + mean)


def _rounded(numbers: Tensor) -> Tensor:
    return (numbers * 100).round() / 100


# 2.1 attention weights


def weights_cases(seed: int) -> list[Case]:
    """Return queries and keys: fewer, more and as many; masks of one to four axes; queries that may see nothing.

    The sizes of a case are unlike primes, so that no factor (a size, a root, a product) has two explanations.
    """
    g = torch.Generator().manual_seed(seed)

    def case(name: str, batch: tuple[int, ...], n: int, m: int, d_k: int, mask: Tensor | None = None) -> Case:
        tensors = {"query": _draw(g, *batch, n, d_k, mean=0.4), "key": _draw(g, *batch, m, d_k, mean=0.3)}
        return Case(name, tensors | ({} if mask is None else {"mask": mask}))

    longest, square = (3, 5)[pick(g, 0, 1)], (2, 3, 5)[pick(g, 0, 2)]
    real = torch.arange(longest) < torch.tensor([[longest - 1], [pick(g, 1, longest - 2)], [0]])
    nothing = torch.tensor([[True, False, True], [False, False, False]])
    per_head = torch.rand(2, 3, 2, 3, generator=g) < 0.5
    per_head[..., pick(g, 0, 2)] = True
    per_head[0, 0, 0], per_head[0, 1, 0] = torch.tensor([True, False, True]), torch.tensor([True, True, False])
    unlike = torch.tensor([[[1, 0, 1], [0, 1, 1]], [[0, 0, 0], [1, 1, 0]]]).bool()  # one row is empty
    by_sentence, by_head, for_all_heads = (unlike.roll(pick(g, 0, 2), -1) for _ in range(3))
    by_head[1, 0, pick(g, 0, 2)] = True
    not_causal = torch.rand(square, square, generator=g) < 0.5
    not_causal |= torch.eye(square, dtype=torch.bool)
    not_causal[0, 1], not_causal[1, 0] = True, False
    some = torch.randperm(longest, generator=g) > 0
    primes = [(2, 3, 5, 7)[i - 2] for i in sizes(g, 3, 2, 5)]
    return [
        case("small", (), 2, 3, 5),
        case("batch and heads", (2, 3), *sorted(primes)[:2], (7, 11, 13)[pick(g, 0, 2)]),
        case("padding mask", (3, 1), 2, longest, 7, real[:, None, None, :]),
        case("causal mask", (2,), square, square, 7, torch.ones(square, square, dtype=torch.bool).tril()),
        case("nothing allowed", (), 2, 3, 7, nothing),
        _far(g, "large scores", [100.0]),
        case("as many keys as queries, no mask", (), square, square, 7),
        case("a mask for each head", (2, 3), 2, 3, 5, per_head),
        _far(g, "large and very negative scores", [100.0, -100.0]),
        _hidden_far_above(g),
        case("as many keys as queries, not causal", (), square, square, 7, not_causal),
        case("a mask for each sentence", (2,), 2, 3, (5, 7)[pick(g, 0, 1)], by_sentence),
        case("a mask for each head, the same for all sentences", (2, 2), 2, 3, (5, 7)[pick(g, 0, 1)], by_head),
        case("a mask for each sentence, the same for all heads", (2, 2), 2, 3, 5, for_all_heads[:, None]),
        case("the same keys for all queries", (3,), 2, longest, 7, some),
        case("no query allowed", (), 2, (3, 5)[pick(g, 0, 1)], 7, torch.zeros(2, 1, dtype=torch.bool)),
    ]


def _far(generator: torch.Generator, name: str, factors: list[float]) -> Case:
    """Return queries that have scores far above 0 with all keys, or far below, but nearly the same ones."""
    near = _draw(generator, 1, 5)
    query = (near.sign() + 0.5) * torch.tensor(factors)[:, None]
    return Case(name, {"query": query, "key": _rounded(near.sign() * 2 + torch.tensor([[0.0], [0.01], [-0.02]]))})


def _hidden_far_above(generator: torch.Generator) -> Case:
    """Return two queries that may see two keys each, with scores near -12,000; hidden keys' scores are near 12,000.

    Vectors are a single number, so that each score is one product, with hardly an error of rounding.
    """
    far = [pick(generator, 4500, 4700) / 100 for _ in range(2)]
    sizes_of_queries = [float(pick(generator, 250, 270)) for _ in range(2)]
    key = torch.tensor([-far[0], -far[0] - 0.02, far[1], far[1] + 0.021, 0.03])[:, None]
    query = torch.tensor([sizes_of_queries[0], -sizes_of_queries[1]])[:, None]
    mask = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]).bool()
    order = torch.randperm(5, generator=generator)
    return Case("hidden keys far above the others", {"query": query, "key": key[order], "mask": mask[:, order]})


def weights(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the right weights, straight from equation 1."""
    return _masked_softmax(query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)), mask)


def _masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0.0)


def weights_by_loop(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the right weights in float64, one number at a time."""
    batch, (n, m) = query.shape[:-2], (query.size(-2), key.size(-2))
    allowed = torch.ones(*batch, n, m, dtype=torch.bool) if mask is None else mask.expand(*batch, n, m)
    queries, keys = query.double().reshape(-1, n, query.size(-1)), key.double().reshape(-1, m, key.size(-1))
    allowed = allowed.reshape(-1, n, m)
    result = torch.zeros(len(queries), n, m, dtype=torch.float64)
    for b, i in ((b, i) for b in range(len(queries)) for i in range(n)):
        seen = [j for j in range(m) if allowed[b, i, j]]
        scores = [float(queries[b, i] @ keys[b, j]) / query.size(-1) ** 0.5 for j in seen]
        powers = [math.exp(score - max(scores)) for score in scores]
        for j, power in zip(seen, powers, strict=True):
            result[b, i, j] = power / sum(powers)
    return result.reshape(*batch, n, m)


def weights_by_einsum(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the right weights by einsum, the mask added, in memory that isn't contiguous."""
    scores = torch.einsum("...qd,...kd->...kq", query / query.shape[-1] ** 0.5, key)
    if mask is not None:
        forbidden = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
        scores = scores + forbidden.expand(*query.shape[:-1], key.shape[-2]).transpose(-2, -1)
    powers = (scores - scores.amax(dim=-2, keepdim=True).clamp(min=-1e30)).exp()
    return (powers / powers.sum(dim=-2, keepdim=True).clamp(min=1e-30)).transpose(-2, -1)


def weights_by_position(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the right weights in float64: those of each query from the keys that it sees, put where they belong."""
    scores = (query.double() @ key.double().mT / math.sqrt(query.size(-1))).contiguous()
    allowed = torch.ones_like(scores).bool() if mask is None else mask.expand(scores.shape)
    result = torch.zeros_like(scores)
    for row, seen, into in zip(scores.flatten(0, -2), allowed.flatten(0, -2), result.flatten(0, -2), strict=True):
        into[seen] = row[seen].softmax(dim=0)
    return result


def _scaled(factor: Callable[[Tensor, Tensor], float]) -> Callable[..., Tensor]:
    """Return weights whose scores are q . k times a wrong factor."""
    return lambda query, key, mask=None: _masked_softmax(query @ key.transpose(-2, -1) * factor(query, key), mask)


def _scores_first(finish: Callable[[Tensor, Tensor | None], Tensor]) -> Callable[..., Tensor]:
    """Return weights with right scores and a wrong rest."""
    return lambda query, key, mask=None: finish(query @ key.transpose(-2, -1) / math.sqrt(query.size(-1)), mask)


def _over_sum(numbers: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Return what shares each row out in proportion to some numbers made from the scores, where a mask allows it."""

    def finish(scores: Tensor, mask: Tensor | None) -> Tensor:
        shares = numbers(scores) if mask is None else numbers(scores) * mask
        sums = shares.sum(dim=-1, keepdim=True)
        return shares / sums.masked_fill(sums == 0, 1.0)

    return finish


def _hardest(scores: Tensor, mask: Tensor | None) -> Tensor:
    filled = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    chosen = torch.nn.functional.one_hot(filled.argmax(dim=-1), scores.size(-1)).to(scores.dtype)
    return chosen if mask is None else chosen * mask


def _needs_a_mask(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0.0)


def _axes_from_the_front(query: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
    return _masked_softmax(query @ key.transpose(0, 1) / math.sqrt(query.size(-1)), mask)


def _exp_without_max(scores: Tensor, mask: Tensor | None) -> Tensor:
    powers = scores.exp() if mask is None else scores.exp() * mask
    sums = powers.sum(dim=-1, keepdim=True)
    return powers / sums.masked_fill(sums == 0, 1.0)


def _renormalised(scores: Tensor, mask: Tensor | None) -> Tensor:
    return _over_sum(lambda s: s.softmax(dim=-1))(scores, mask)


def _one_maximum(scores: Tensor, mask: Tensor | None) -> Tensor:
    return _over_sum(lambda s: (s - s.max()).exp())(scores, mask)


def _causal_if_square(query: Tensor, key: Tensor) -> Tensor | None:
    n, m = query.size(-2), key.size(-2)
    return torch.ones(n, m, dtype=torch.bool).tril() if n == m else None


WEIGHTS_WRONG = [
    Mistake(
        "softmax over the queries",
        "The softmax runs over the queries' axis, so that columns sum to 1. Each query shares out its attention over "
        "the keys: dim=-1.",
        _scores_first(lambda s, m: (s if m is None else s.masked_fill(~m, -math.inf)).softmax(-2).nan_to_num(0.0)),
        0.25,
    ),
    Mistake(
        "no scale",
        "The scores aren't divided by sqrt(d_k): they have a standard deviation of sqrt(d_k), and the softmax "
        "saturates.",
        _scaled(lambda q, k: 1.0),
        0.5,
    ),
    Mistake(
        "divided by d_k",
        "The scores are divided by d_k, without the root: they're too small, and the weights too even.",
        _scaled(lambda q, k: 1 / q.size(-1)),
        0.5,
    ),
    Mistake(
        "multiplied by sqrt(d_k)",
        "The scores are multiplied by sqrt(d_k) where they should be divided by it.",
        _scaled(lambda q, k: q.size(-1) ** 0.5),
        0.5,
    ),
    Mistake(
        "scaled by the number of keys",
        "The scores are divided by the root of the number of keys. It's the width d_k, query.size(-1), that makes them "
        "large: each score is a sum of d_k products.",
        _scaled(lambda q, k: k.size(-2) ** -0.5),
        0.5,
    ),
    Mistake(
        "scaled by the number of queries",
        "The scores are divided by the root of the number of queries (of query's axis -2). It's the "
        "width d_k, query.size(-1), that makes them large: each score is a sum of d_k products.",
        _scaled(lambda q, k: q.size(-2) ** -0.5),
        0.5,
    ),
    Mistake(
        "mask ignored",
        "The mask isn't used: the softmax also shares attention out to keys that aren't allowed.",
        _scores_first(lambda s, m: s.softmax(-1)),
        0.25,
    ),
    Mistake(
        "mask after the softmax",
        "The mask comes after the softmax. Forbidden keys have taken their share by then, so that rows no longer sum "
        "to 1: set their scores to -inf before it.",
        _scores_first(lambda s, m: s.softmax(-1) if m is None else s.softmax(-1) * m),
        0.5,
    ),
    Mistake(
        "hidden keys taken out late",
        "Hidden keys still count when the softmax, or its maximum, is taken: they are taken out only afterwards, or "
        "their scores aren't low enough. Where one lies far above the others, their weights are rounded to 0, and no "
        "division brings them back. Set hidden scores to -inf first.",
        _scores_first(_renormalised),
        0.75,
    ),
    Mistake(
        "mask the wrong way round",
        "The mask is read the wrong way round. In this book True means: may attend. So it's ~mask that is filled.",
        _scores_first(lambda s, m: _masked_softmax(s, None if m is None else ~m)),
        0.5,
    ),
    Mistake(
        "forbidden scores set to 0",
        "Forbidden scores are set to 0. But exp(0) = 1, which is a fair share; only -inf gives exp(-inf) = 0.",
        _scores_first(lambda s, m: (s if m is None else s * m).softmax(-1)),
        0.25,
    ),
    Mistake(
        "forbidden scores set to -10,000",
        "Forbidden scores are set to a number like -1e4. Where the allowed ones are lower, the forbidden keys win. "
        "Only -inf is below everything.",
        _scores_first(
            lambda s, m: (
                s.softmax(-1)
                if m is None
                else s.masked_fill(~m, -1e4).softmax(-1) * m.any(dim=-1, keepdim=True).to(s.dtype)
            )
        ),
        0.75,
    ),
    Mistake(
        "uniform where nothing is allowed",
        "A query that may attend to nothing gets equal weights for all keys: that's what a large finite number such as "
        "-1e9 does to a whole row. Its weights should be zero.",
        _scores_first(lambda s, m: (s if m is None else s.masked_fill(~m, -1e9)).softmax(-1)),
        0.75,
    ),
    Mistake(
        "NaN where nothing is allowed",
        "A query that may attend to nothing gets NaN: a row of -inf has no softmax (0/0). Fill the forbidden places of "
        "the weights with 0 afterwards.",
        _scores_first(lambda s, m: (s if m is None else s.masked_fill(~m, -math.inf)).softmax(-1)),
        0.75,
    ),
    Mistake(
        "exp overflows",
        "The exponentials of large scores overflow, and inf/inf is NaN. Subtract each row's maximum first (it cancels "
        "out), or use softmax(dim=-1), which does.",
        _scores_first(_exp_without_max),
        0.75,
    ),
    Mistake(
        "exp overflows, NaN set to 0",
        "The exponentials of large scores overflow to inf. Setting the NaN of inf/inf to 0 hides that, and the row is "
        "lost. Subtract each row's maximum before exp (it cancels out), or use softmax(dim=-1), which does.",
        _scores_first(lambda s, m: _exp_without_max(s, m).nan_to_num(0.0)),
        0.75,
    ),
    Mistake(
        "exp clamped",
        "Large scores are clamped before exp, so that all above the limit get the same weight. Subtract each row's "
        "maximum instead: it cancels out, and nothing overflows.",
        _scores_first(_over_sum(lambda s: s.clamp(max=50).exp())),
        0.75,
    ),
    Mistake(
        "one maximum for all",
        "The largest score of all rows is subtracted before exp. Rows that lie far below it vanish: each row needs its "
        "own maximum, or softmax(dim=-1), which takes it.",
        _scores_first(_one_maximum),
        0.75,
    ),
    Mistake(
        "causal without being asked",
        "Where there are as many keys as queries and no mask, later keys are hidden. None forbids nothing.",
        lambda query, key, mask=None: weights(query, key, _causal_if_square(query, key) if mask is None else mask),
        0.5,
    ),
    Mistake(
        "scores over their sum",
        "The scores are divided by their sum. They may be negative, and so would the weights be: exponentiate first, "
        "since exp makes every number positive. That's the softmax.",
        _scores_first(_over_sum(lambda s: s)),
        0.25,
    ),
    Mistake(
        "relu for exp",
        "Negative scores are cut off at 0 (relu, clamp) where the softmax exponentiates. exp keeps their order, and "
        "gives every allowed key a share.",
        _scores_first(_over_sum(torch.relu)),
        0.25,
    ),
    Mistake(
        "argmax",
        "All weight goes to the key with the largest score. The softmax shares it out: the others get less, not "
        "nothing. (An argmax has no gradient, either: nothing could learn.)",
        _scores_first(_hardest),
        0.25,
    ),
    Mistake(
        "mask must be there",
        "Without a mask it raises an error. The mask may be None: write mask=None in the signature, and apply ~mask "
        "only where there is one.",
        lambda query, key, mask=None: _scores_first(_needs_a_mask)(query, key, mask),
        0.5,
    ),
    Mistake(
        "axes counted from the front",
        "Without batch dimensions all is right; with them, the wrong axes are exchanged. key.T and transpose(0, 1) "
        "count from the front. Count from the end: key.transpose(-2, -1), or key.mT.",
        _axes_from_the_front,
        0.5,
    ),
    Mistake(
        "no softmax",
        "These are the scores. The softmax that makes weights of them is missing.",
        _scores_first(lambda s, m: s if m is None else s.masked_fill(~m, 0.0)),
    ),
    Mistake(
        "queries and keys exchanged",
        "Queries and keys are exchanged: there should be one row for each query and one column for each key.",
        lambda query, key, mask=None: weights(key, query, None if mask is None else mask.transpose(-2, -1)),
        0.25,
    ),
]


# 2.2 additive scores


def additive_cases(seed: int) -> list[Case]:
    """Return queries and keys of unlike widths, and of one; and sums so large that exp overflows, also in float64."""
    g = torch.Generator().manual_seed(seed + 1000)

    def case(name: str, batch: tuple[int, ...], n: int, m: int, widths: tuple[int, int, int]) -> Case:
        d_query, d_key, d_hidden = widths
        vectors = {"query": _draw(g, *batch, n, d_query, mean=0.3), "key": _draw(g, *batch, m, d_key, mean=-0.2)}
        layers = {"W_q": _draw(g, d_hidden, d_query), "W_k": _draw(g, d_hidden, d_key)}
        return Case(name, {**vectors, **layers, "v": _draw(g, d_hidden, mean=0.5)})

    n, m, d_query, d_key, d_hidden = sizes(g, 5, 2, 6)
    large = case("large sums", (), 3, 2, (pick(g, 2, 4), 2, 4))
    large.inputs["W_q"][:, 0] = _rounded(large.inputs["W_q"][:, 0].abs() + torch.tensor([1.0, 0.0, 0.0, 0.0]))
    large.inputs["query"][:2, 0] = torch.tensor([900.0, -900.0])
    return [
        case("small", (), 2, 3, (2, 3, 4)),
        case("one width", (), *[pick(g, 2, 3)] * 2, (4, 4, 4)),
        case("batch", (2,), n, m, (d_query, d_key, d_hidden)),
        case("batch and heads", (2, 2), 2, 3, (3, 2, pick(g, 5, 7))),
        case("all sizes alike", (3,), 3, 3, (3, 3, 3)),
        case("one query, one key", (2,), 1, 1, (2, pick(g, 3, 4), 3)),
        large,
    ]


def additive(query: Tensor, key: Tensor, W_q: Tensor, W_k: Tensor, v: Tensor) -> Tensor:
    """Return the right scores, every query with every key by broadcasting."""
    return torch.tanh((query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)) @ v


def additive_by_loop(query: Tensor, key: Tensor, W_q: Tensor, W_k: Tensor, v: Tensor) -> Tensor:
    """Return the right scores in float64, one pair at a time."""
    query, key, W_q, W_k, v = (x.double() for x in (query, key, W_q, W_k, v))
    rows = [
        torch.stack(
            [(v * torch.tanh(query[..., i, :] @ W_q.T + key[..., j, :] @ W_k.T)).sum(-1) for j in range(key.size(-2))],
            -1,
        )
        for i in range(query.size(-2))
    ]
    return torch.stack(rows, dim=-2)


def additive_by_einsum(query: Tensor, key: Tensor, W_q: Tensor, W_k: Tensor, v: Tensor) -> Tensor:
    """Return the right scores by einsum, the keys' axis first and then moved."""
    hidden = torch.einsum("...qd,hd->...qh", query, W_q)[..., None, :, :] + torch.einsum(
        "...kd,hd->...kh", key, W_k
    ).unsqueeze(-2)
    return torch.einsum("...kqh,h->...kq", hidden.tanh(), v).transpose(-2, -1)


def _additive(combine: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return scores from the two projections [... query 1 d_hidden] and [... 1 key d_hidden], wrongly combined."""
    return lambda query, key, W_q, W_k, v: combine((query @ W_q.T).unsqueeze(-2), (key @ W_k.T).unsqueeze(-3), v)


ADDITIVE_WRONG = [
    Mistake(
        "tanh outside",
        "The tanh comes after the product with v. Then the score is a function of a(query) + b(key), and every "
        "query ranks the keys alike. It belongs inside: v . tanh(W_q q + W_k k).",
        _additive(lambda q, k, v: torch.tanh((q + k) @ v)),
        0.25,
    ),
    Mistake(
        "no tanh",
        "The tanh is missing. Without it, the score is a(query) + b(key): every query ranks the keys alike.",
        _additive(lambda q, k, v: (q + k) @ v),
        0.25,
    ),
    Mistake(
        "two tanhs",
        "The tanh is taken of each projection alone. Query and key must meet inside it, else they never interact.",
        _additive(lambda q, k, v: (q.tanh() + k.tanh()) @ v),
        0.25,
    ),
    Mistake(
        "softmax already taken",
        "These are weights: the softmax has been taken already. The scores before it were asked for.",
        _additive(lambda q, k, v: (torch.tanh(q + k) @ v).softmax(dim=-1)),
        0.75,
    ),
    Mistake(
        "scaled",
        "The scores are divided by the root of the hidden width. Additive scores need no scale: tanh keeps each "
        "of their terms between -|v_i| and |v_i|.",
        _additive(lambda q, k, v: torch.tanh(q + k) @ v / math.sqrt(v.numel())),
        0.5,
    ),
    Mistake(
        "keys as rows",
        "Rows and columns are exchanged: there should be one row for each query and one column for each key.",
        _additive(lambda q, k, v: (torch.tanh(q + k) @ v).transpose(-2, -1)),
        0.5,
    ),
    Mistake(
        "weights not transposed",
        "W_q and W_k are applied the wrong way round. Their shape is [d_hidden d_query] and [d_hidden d_key], as in "
        "nn.Linear, so that rows of vectors are multiplied by the transpose: query @ W_q.T.",
        lambda query, key, W_q, W_k, v: torch.tanh((query @ W_q).unsqueeze(-2) + (key @ W_k).unsqueeze(-3)) @ v,
        0.25,
    ),
    Mistake(
        "no pairs",
        "The projected queries and keys are added row by row, the first to the first. But every query must meet every "
        "key: (query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3), of shape [... query key d_hidden].",
        lambda query, key, W_q, W_k, v: torch.tanh(query @ W_q.T + key @ W_k.T) @ v,
        0.25,
    ),
    Mistake(
        "dot product",
        "These are dot products of queries and keys. Additive scores come from a sum: v . tanh(W_q q + W_k k).",
        lambda query, key, W_q, W_k, v: query @ key.transpose(-2, -1),
    ),
    Mistake(
        "dot product of the projections",
        "These are dot products of the projected queries and keys. Here they are added, not multiplied, and v weighs "
        "what tanh makes of the sum: v . tanh(W_q q + W_k k).",
        lambda query, key, W_q, W_k, v: (query @ W_q.T) @ (key @ W_k.T).transpose(-2, -1),
    ),
    Mistake(
        "v unused: sum",
        "v isn't used: what comes out of the tanh is only summed up. The score is its product with v: "
        "torch.tanh(...) @ v.",
        _additive(lambda q, k, v: torch.tanh(q + k).sum(dim=-1)),
        0.5,
    ),
    Mistake(
        "v unused: mean",
        "v isn't used: what comes out of the tanh is only averaged. The score is its product with v: "
        "torch.tanh(...) @ v.",
        _additive(lambda q, k, v: torch.tanh(q + k).mean(dim=-1)),
        0.5,
    ),
    Mistake(
        "v unused: all dimensions",
        "v isn't used: this is what comes out of the tanh, d_hidden numbers for each pair. The score is one number, "
        "their product with v: torch.tanh(...) @ v.",
        _additive(lambda q, k, v: torch.tanh(q + k)),
        0.5,
    ),
    Mistake(
        "sigmoid for tanh",
        "A sigmoid stands in the place of the tanh. It's between 0 and 1, so that a hidden unit can't speak against.",
        _additive(lambda q, k, v: torch.sigmoid(q + k) @ v),
        0.5,
    ),
    Mistake(
        "relu for tanh",
        "A relu stands in the place of the tanh: it cuts off what is negative, and nothing bounds the rest.",
        _additive(lambda q, k, v: torch.relu(q + k) @ v),
        0.5,
    ),
    Mistake(
        "exp overflows",
        "The tanh is made from exp(h) and exp(-h). One of them overflows where h is large, on either side of 0, and "
        "inf/inf is NaN. torch.tanh knows better.",
        _additive(lambda q, k, v: ((q + k).exp() - (-q - k).exp()) / ((q + k).exp() + (-q - k).exp()) @ v),
        0.75,
    ),
    Mistake(
        "exp(2h) overflows",
        "The tanh is made from exp(2h), which overflows where h is large, and inf/inf is NaN. torch.tanh knows better.",
        _additive(lambda q, k, v: ((2 * (q + k)).exp() - 1) / ((2 * (q + k)).exp() + 1) @ v),
        0.75,
    ),
    Mistake(
        "query times key",
        "The projections are multiplied, as in dot-product attention. Here they are added, hence the name.",
        _additive(lambda q, k, v: torch.tanh(q * k) @ v),
        0.25,
    ),
]


# 2.3 a mask that can't be misread


def mask_cases(seed: int) -> list[Case]:
    """Return masks that fit and masks that don't; scores are a tensor of which only the shape matters."""
    g = torch.Generator().manual_seed(seed + 2000)

    def mask(*shape: int) -> Tensor:
        drawn = torch.rand(shape, generator=g) < 0.5
        if shape:
            drawn.flatten()[0], drawn.flatten()[-1] = True, False
        return drawn

    def scores(*shape: int) -> Tensor:
        return _draw(g, *shape)

    def misfit(name: str, *shapes: tuple[int, ...]) -> Case:
        words = tuple(", ".join(map(str, shape)) for shape in shapes)
        inputs = {"mask": mask(*shapes[0]), "scores": scores(*shapes[1])}
        return Case(name, inputs, mentions=words, telling="both shapes")

    def refused(name: str, dtype: torch.dtype, *shapes: tuple[int, ...]) -> Case:
        inputs = {"mask": mask(*shapes[0]).to(dtype), "scores": scores(*shapes[1])}
        return Case(name, inputs, mentions=(str(dtype).removeprefix("torch."),), telling="the dtype that came")

    b, h, n, m = sizes(g, 4, 2, 6)
    nothing = Case("allows nothing", {"mask": torch.zeros(n, m, dtype=torch.bool), "scores": scores(b, n, m)})
    return [
        Case("fits as it is", {"mask": mask(2, 3), "scores": scores(2, 3)}),
        Case("padding mask", {"mask": mask(2, 1, 1, 4), "scores": scores(2, 2, 3, 4)}),
        Case("fewer axes", {"mask": mask(3, 4), "scores": scores(2, 3, 4)}),
        refused("integers", torch.int64, (2, 3), (2, 3)),
        refused("numbers", torch.float32, (2, 3), (2, 3)),
        refused("bytes", torch.uint8, (n, m), (n, m)),
        refused("half precision", torch.float16, (n, 1), (n, m)),
        refused("short integers", torch.int16, (m,), (n, m)),
        refused("the shortest integers", torch.int8, (n, m), (b, n, m)),
        misfit("wrong length", (2, 1, 1, 5), (2, 2, 3, 4)),
        misfit("wrong number of queries", (2, 1, 2, 4), (2, 2, 3, 4)),
        misfit("too many axes", (2, 1, 3, 4), (2, 3, 4)),
        misfit("too many axes, of size 1", (1, n, m), (n, m)),
        misfit("blows scores up", (2, 3, 4), (1, 3, 4)),
        misfit("another batch", (b + 1, 1, m), (b, n, m)),
        Case("one mask for all keys", {"mask": mask(b, n, 1), "scores": scores(b, n, m)}),
        Case("sizes from the seed", {"mask": mask(b, 1, n, m), "scores": scores(b, h, n, m)}),
        Case("no axes", {"mask": mask(), "scores": scores(n, m)}),
        nothing,
    ]


def fitted_mask(mask: Tensor, scores: Tensor) -> Tensor:
    """Return the mask in the scores' shape, or say why it can't be."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    if mask.dim() > scores.dim():
        raise ValueError(f"mask must broadcast to {list(scores.shape)}, got shape {list(mask.shape)}")
    padded = [1] * (scores.dim() - mask.dim()) + list(mask.shape)
    if any(size not in (1, wanted) for size, wanted in zip(padded, scores.shape, strict=True)):
        raise ValueError(f"mask must broadcast to {list(scores.shape)}, got shape {list(mask.shape)}")
    return mask.expand(scores.shape)


def fitted_mask_by_expand(mask: Tensor, scores: Tensor) -> Tensor:
    """Return the same, with torch's own opinion on what expands."""
    if mask.dtype is not torch.bool:
        raise TypeError(f"want torch.bool, got a mask of dtype {mask.dtype}")
    try:
        return mask.expand_as(scores).clone()
    except RuntimeError as error:
        raise ValueError(f"want {tuple(scores.shape)}, got {tuple(mask.shape)}") from error


def fitted_mask_by_broadcast(mask: Tensor, scores: Tensor) -> Tensor:
    """Return the same, by asking what shape the two would have together."""
    if str(mask.dtype) != "torch.bool":
        raise TypeError(f"{mask.dtype} isn't torch.bool")
    try:
        together = torch.broadcast_shapes(mask.shape, scores.shape)
    except RuntimeError:
        together = None
    if together != scores.shape:
        raise ValueError(f"{tuple(mask.shape)} doesn't fit {tuple(scores.shape)}")
    return mask & torch.ones(scores.shape, dtype=torch.bool)


def _dtype_only(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    return mask.expand(torch.broadcast_shapes(mask.shape, scores.shape))


def _last_axis_only(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    if mask.size(-1) not in (1, scores.size(-1)):
        raise ValueError(f"want {list(scores.shape)}, got {list(mask.shape)}")
    return mask.expand(torch.broadcast_shapes(mask.shape, scores.shape))


def _stretched(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    try:
        return torch.broadcast_tensors(mask, scores)[0]
    except RuntimeError as error:
        raise ValueError(f"want {list(scores.shape)}, got {list(mask.shape)}") from error


def _asked_together(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    if torch.broadcast_shapes(mask.shape, scores.shape) != scores.shape:
        raise ValueError(f"want {list(scores.shape)}, got {list(mask.shape)}")
    return mask.expand(scores.shape)


def _exact(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    if mask.shape != scores.shape:
        raise ValueError(f"want {list(scores.shape)}, got {list(mask.shape)}")
    return mask


def _expanded(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    return mask.expand(scores.shape)


def _asserted_shape(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    assert fitted_mask_shape(mask, scores)
    return mask.expand(scores.shape)


def _asserted_dtype(mask: Tensor, scores: Tensor) -> Tensor:
    assert mask.dtype == torch.bool
    return fitted_mask(mask, scores)


def _unfitted(mask: Tensor, scores: Tensor) -> Tensor:
    fitted_mask(mask, scores)
    return mask


def _silent(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        raise TypeError("mask has the wrong dtype")
    if fitted_mask_shape(mask, scores):
        return mask.expand(scores.shape)
    raise ValueError("mask has the wrong shape")


def fitted_mask_shape(mask: Tensor, scores: Tensor) -> bool:
    """Tell whether a mask's shape fits."""
    try:
        return torch.broadcast_shapes(mask.shape, scores.shape) == scores.shape
    except RuntimeError:
        return False


MASK_WRONG = [
    Mistake(
        "assert",
        "Errors are raised by assert. Python leaves assertions out when it runs with -O, and callers can't tell one "
        "from another: raise TypeError or ValueError.",
        with_errors(fitted_mask, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "ValueError for the dtype",
        "A wrong dtype raises ValueError. By Python's custom that's for a wrong value; a wrong type is a TypeError.",
        with_errors(fitted_mask, lambda error: ValueError(str(error))),
        0.75,
    ),
    Mistake(
        "integers accepted",
        "mask.bool() hides the error: numbers are turned into truth values in silence. 1 may mean 'attend' or 'hide' "
        "to whoever passed it; nobody will notice which you took.",
        lambda mask, scores: fitted_mask(mask.bool(), scores),
        0.25,
    ),
    Mistake(
        "broadcast in both directions",
        "You let the scores be stretched too; only the mask may be. Broadcasting goes in both directions, so that a "
        "mask that is too large makes the scores larger. And what it can't fit it reports as RuntimeError.",
        _dtype_only,
        0.25,
    ),
    Mistake(
        "scores stretched too",
        "You let the scores be stretched too; only the mask may be. Broadcasting goes in both directions: a mask that "
        "is larger than the scores, or has more axes, gets through.",
        _stretched,
        0.5,
    ),
    Mistake(
        "mask.bool(), and RuntimeError",
        "mask.bool() hides the error: a mask of numbers goes through in silence. And what doesn't fit is reported as "
        "torch's own RuntimeError, where a ValueError with both shapes was asked for.",
        lambda mask, scores: mask.bool().expand(scores.shape),
    ),
    Mistake(
        "mask.bool(), scores stretched too",
        "mask.bool() hides the error: a mask of numbers goes through in silence. And the scores may be stretched, too, "
        "where only the mask may.",
        lambda mask, scores: mask.bool().expand(torch.broadcast_shapes(mask.shape, scores.shape)),
    ),
    Mistake(
        "RuntimeError let through",
        "What doesn't fit is reported as the RuntimeError that expand raises. Catch it, and raise a ValueError that "
        "holds both shapes.",
        _expanded,
        0.5,
    ),
    Mistake(
        "RuntimeError of broadcast_shapes",
        "torch.broadcast_shapes raises a RuntimeError of its own where the two don't fit at all. Catch it, and raise "
        "the ValueError there, too.",
        _asked_together,
        0.75,
    ),
    Mistake(
        "exact shape",
        "Only a mask that has the scores' shape already gets through. That forbids broadcasting: an axis of size 1, or "
        "fewer axes, are to be stretched to the scores' shape.",
        _exact,
        0.25,
    ),
    Mistake(
        "mask not stretched",
        "The errors are right, but a mask that fits comes back in its own shape. It's wanted in that of the scores: "
        "mask.expand(scores.shape).",
        _unfitted,
        0.75,
    ),
    Mistake(
        "assert for the shape",
        "The shape is checked by assert. Python leaves assertions out when it runs with -O, and AssertionError says "
        "nothing of what is wrong: raise ValueError.",
        _asserted_shape,
        0.5,
    ),
    Mistake(
        "assert for the dtype",
        "The dtype is checked by assert. Python leaves assertions out when it runs with -O, and AssertionError says "
        "nothing of what is wrong: raise TypeError.",
        _asserted_dtype,
        0.75,
    ),
    Mistake(
        "only the last axis",
        "Only the last axis is compared. In another one a mask may be larger than the scores, or have more axes, and "
        "get through; or it fails inside torch, with a RuntimeError.",
        _last_axis_only,
        0.25,
    ),
    Mistake(
        "errors that don't tell",
        "The errors are of the right kinds, but a text lacks what whoever reads it needs: the dtype that came, or both "
        "shapes.",
        _silent,
        0.75,
    ),
    Mistake(
        "nothing checked",
        "Nothing is checked: what doesn't fit goes through, or fails somewhere inside torch.",
        lambda mask, scores: mask.expand(torch.broadcast_shapes(mask.shape, scores.shape)),
    ),
]


# 2.4 two planted bugs


def batched_cases(seed: int) -> list[Case]:
    """Return batches of sentences; `real` is False at padding, which may stand anywhere, or be all of a sentence.

    In one case the scores are near 1300 and -1300, and padding's lie far above those of words.
    """
    g = torch.Generator().manual_seed(seed + 3000)

    def case(name: str, lengths: list[int], width: int, d_k: int, d_v: int) -> Case:
        longest = max(lengths)
        real = torch.arange(longest) < torch.tensor(lengths)[:, None]
        x = _draw(g, len(lengths), longest, width, mean=0.3)
        layers = {"W_q": _draw(g, d_k, width), "W_k": _draw(g, d_k, width), "W_v": _draw(g, d_v, width)}
        return Case(name, {"x": x, "real": real, **layers})

    width, d_k, d_v = sizes(g, 3, 2, 5)
    scattered = case("padding in between", [4, 4], width, d_k, d_v)
    scattered.inputs["real"] = torch.tensor([[True, False, True, True], [False, True, True, False]])
    far = case("scores far apart", [4, 4], 1, 1, 2)
    first, second = (pick(g, 3600, 3700) / 100 for _ in range(2))
    far.inputs["x"][0, :, 0] = torch.tensor([-first, second, -first - 0.05, second + 0.1])
    far.inputs["x"][1, :, 0] = torch.tensor([second, second + 0.05, -first, -first - 0.1])
    far.inputs["real"] = torch.tensor([[True, False, True, False], [False, False, True, True]])
    far.inputs.update({name: torch.tensor([[pick(g, 95, 105) / 100]]) for name in ("W_q", "W_k")})
    far.inputs["W_v"] = _rounded(far.inputs["W_v"].abs() + torch.tensor([[1.0], [0.5]]))
    return [
        case("one sentence", [3], 5, 2, 3),
        case("two sentences", [3, 3], 2, 3, 2),
        case("padded", [2, pick(g, 4, 5), 3], 3, 4, 2),
        case("square", [3, 1, 2], 4, 4, 4),
        scattered,
        case("a sentence of nothing but padding", [pick(g, 2, 3), 0], d_v, width, d_k),
        far,
    ]


def self_attention(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    """Return the right output: each sentence by itself, padding hidden from all queries."""
    return _masked_softmax((x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0)), real[:, None, :]) @ (x @ W_v.T)


def self_attention_by_sentence(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    """Return the same, sentence by sentence, with padding cut off instead of masked."""
    outputs = []
    for sentence, kept in zip(x, real, strict=True):
        words = sentence[kept]
        scores = (sentence @ W_q.T) @ (words @ W_k.T).T / W_k.size(0) ** 0.5
        outputs.append(scores.softmax(dim=-1) @ (words @ W_v.T))
    return torch.stack(outputs)


def self_attention_by_einsum(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    """Return the same with positions first, which is the smallest mending of the bug."""
    query, key, value = ((x @ W.T).transpose(0, 1) for W in (W_q, W_k, W_v))
    scores = torch.einsum("qbd,kbd->bqk", query, key) / math.sqrt(query.size(-1))
    return torch.einsum("bqk,kbd->bqd", _masked_softmax(scores, real[:, None, :]), value)


def _positions_first(
    move: Callable[[Tensor, int, int], Tensor], hide: Callable[[Tensor], Tensor]
) -> Callable[..., Tensor]:
    """Return the exercise's function, with a way to bring positions to the front and a way to shape the mask."""

    def function(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
        batch, position, _ = x.shape
        query, key, value = (move(x @ W.T, position, batch) for W in (W_q, W_k, W_v))
        scores = torch.einsum("qbd,kbd->bqk", query, key) / math.sqrt(query.size(-1))
        return torch.einsum("bqk,kbd->bqd", _masked_softmax(scores, hide(real)), value)

    return function


def _reshaped(x: Tensor, position: int, batch: int) -> Tensor:
    return x.reshape(position, batch, -1)


def _moved(x: Tensor, position: int, batch: int) -> Tensor:
    return x.transpose(0, 1)


def _apart(scale: Callable[[Tensor, Tensor], float], zero: bool = False) -> Callable[..., Tensor]:
    """Return self-attention of sentences kept apart, with a scale, and padding hidden or only set to zero."""

    def function(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
        x = x * real[..., None] if zero else x
        scores = (x @ W_q.T) @ (x @ W_k.T).mT / scale(x, W_q)
        return _masked_softmax(scores, None if zero else real[:, None, :]) @ (x @ W_v.T)

    return function


def _hidden_late(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    weights_of_all = ((x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))).softmax(dim=-1)
    return (weights_of_all * real[:, None, :]) @ (x @ W_v.T)


def _shared_out(finish: Callable[[Tensor, Tensor | None], Tensor]) -> Callable[..., Tensor]:
    """Return self-attention whose scores are right, with a wrong way to make weights of them."""

    def function(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
        scores = (x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))
        return finish(scores, real[:, None, :]) @ (x @ W_v.T)

    return function


def _flattened(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    flat = x.flatten(0, 1)
    scores = (flat @ W_q.T) @ (flat @ W_k.T).T / math.sqrt(W_q.size(0))
    return (_masked_softmax(scores, real.flatten()) @ (flat @ W_v.T)).reshape(*x.shape[:2], -1)


def _unfilled(number: float) -> Callable[..., Tensor]:
    """Return self-attention whose forbidden scores are a number, with nothing done where all are."""

    def function(x: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
        scores = (x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))
        return scores.masked_fill(~real[:, None, :], number).softmax(dim=-1) @ (x @ W_v.T)

    return function


BATCHED_WRONG = [
    Mistake(
        "both bugs are there",
        "Both bugs are still there: reshape deals the numbers of all sentences out anew, and the mask hides "
        "queries, not keys.",
        _positions_first(_reshaped, lambda real: real[:, :, None]),
    ),
    Mistake(
        "sentences mixed",
        "The mask is mended, but sentences are still mixed: reshape(position, batch, ...) keeps the order of the "
        "numbers and cuts it elsewhere. To exchange two axes: transpose.",
        _positions_first(_reshaped, lambda real: real[:, None, :]),
        0.5,
    ),
    Mistake(
        "mask on the queries",
        "The sentences are apart, but the mask still hides queries, not keys: real[:, :, None] is a column. Words"
        " still attend to padding.",
        _positions_first(_moved, lambda real: real[:, :, None]),
        0.5,
    ),
    Mistake(
        "mask on both",
        "The mask hides padding as a key, which is right, and also as a query, so that its rows are zero. That's "
        "harmless, but it was asked to compute them like any other row.",
        _positions_first(_moved, lambda real: real[:, :, None] & real[:, None, :]),
        0.75,
    ),
    Mistake(
        "no mask",
        "The sentences are apart, but nothing hides the padding: words attend to it.",
        _positions_first(_moved, lambda real: torch.ones_like(real)[:, None, :]),
        0.5,
    ),
    Mistake(
        "mask after the softmax",
        "Padding is hidden after the softmax. It has taken its share by then, so that the weights of the words no "
        "longer sum to 1: mask the scores, before the softmax.",
        _hidden_late,
        0.5,
    ),
    Mistake(
        "padding taken out late",
        "Padding still counts when the softmax, or its maximum, is taken: it's taken out only afterwards. Where its "
        "score lies far above, the words' weights are rounded to 0, and no division brings them back. Set padding's "
        "scores to -inf first.",
        _shared_out(_renormalised),
        0.75,
    ),
    Mistake(
        "exp overflows",
        "Both bugs are mended, but the exponentials of large scores overflow, and those of very negative ones vanish. "
        "Subtract the row's maximum over the words first (it cancels out), or use attention.masked_softmax.",
        _shared_out(_exp_without_max),
        0.75,
    ),
    Mistake(
        "W_v unused",
        "The weights are right, but they mix x itself. It's the values they should mix: x @ W_v.T.",
        lambda x, real, W_q, W_k, W_v: self_attention(x, real, W_q, W_k, torch.eye(x.size(-1))),
        0.5,
    ),
    Mistake(
        "padding set to zero",
        "x is set to zero at padding, but nothing hides it. A key of zeros has a score of 0, and exp(0) = 1 is still a "
        "share: words attend to padding. Mask the scores.",
        _apart(lambda x, W_q: math.sqrt(W_q.size(0)), zero=True),
        0.5,
    ),
    Mistake(
        "NaN where there is no word",
        "A sentence of nothing but padding gets NaN: a row of -inf has no softmax. It finds nothing: zero.",
        _unfilled(-math.inf),
        0.75,
    ),
    Mistake(
        "even where there is no word",
        "In a sentence of nothing but padding all places get the same weight, as from -1e9. It finds nothing: zero.",
        _unfilled(-1e9),
        0.75,
    ),
    Mistake(
        "words counted, not looked for",
        "The first words are taken, as many as `real` counts. Padding may stand in front or in between: `real` says "
        "where.",
        lambda x, real, W_q, W_k, W_v: self_attention(
            x, torch.arange(x.size(1)) < real.sum(dim=1, keepdim=True), W_q, W_k, W_v
        ),
        0.75,
    ),
    Mistake(
        "no scale",
        "Both bugs are mended, but the scale is gone: divide the scores by math.sqrt(query.size(-1)).",
        _apart(lambda x, W_q: 1.0),
        0.75,
    ),
    Mistake(
        "sqrt(d_model)",
        "Both bugs are mended, but the scores are divided by sqrt(d_model), the width of x. A score is a sum of d_k "
        "products, d_k being the width of the queries.",
        _apart(lambda x, W_q: math.sqrt(x.size(-1))),
        0.75,
    ),
    Mistake(
        "one long sentence",
        "All sentences are joined into one, so that words attend to the words of other sentences.",
        _flattened,
        0.25,
    ),
    Mistake(
        "mask the wrong way round",
        "The mask is read the wrong way round: words attend to padding only. True means: may attend.",
        _positions_first(_moved, lambda real: ~real[:, None, :]),
        0.5,
    ),
]


# 2.5 two halves, one attention


def merge_cases(seed: int) -> list[Case]:
    """Return pairs of partial results: even, far apart, huge, empty ones, and outputs of zero that aren't empty."""
    g = torch.Generator().manual_seed(seed + 4000)

    def case(name: str, *shape: int, width: int, mean: float = 0.5, gap: float = 0.0) -> Case:
        outputs = {"output_a": _draw(g, *shape, width), "output_b": _draw(g, *shape, width, mean=1.0)}
        logs = {"logsum_a": _draw(g, *shape, mean=mean), "logsum_b": _draw(g, *shape, mean=mean + gap)}
        return Case(name, {part: (outputs | logs)[part] for part in ("output_a", "logsum_a", "output_b", "logsum_b")})

    empty = case("one half empty", 3, width=3)
    empty.inputs["output_a"][1], empty.inputs["logsum_a"][1] = 0.0, -math.inf
    empty.inputs["output_b"][2], empty.inputs["logsum_b"][2] = 0.0, -math.inf
    both = case("both halves empty", 2, width=3)
    for half in "ab":
        both.inputs[f"output_{half}"][0], both.inputs[f"logsum_{half}"][0] = 0.0, -math.inf
    b, n, d = sizes(g, 3, 2, 5)
    apart = case("large and very negative scores in turn", 2, width=d, mean=120.0, gap=-0.5)
    for half in "ab":
        apart.inputs[f"logsum_{half}"][1] = _rounded(apart.inputs[f"logsum_{half}"][1] - 260.0)
    thousands = case("logsums of thousands", 8, width=2)
    for half in "ab":
        near = thousands.inputs[f"logsum_{half}"].clamp(-1.0, 1.0)
        far = torch.tensor([400.0, -700.0, 2000.0, -2000.0, 20000.0, -20000.0, -20000.0, -1500.0])
        if half == "b":
            far[4:6] += torch.tensor([20.0, -20.0])  # two that are near would drown in float32's rounding there
        thousands.inputs[f"logsum_{half}"] = _rounded(near + far)
    thousands.inputs["output_a"][7], thousands.inputs["logsum_a"][7] = 0.0, -math.inf
    thousands.inputs["output_b"][6], thousands.inputs["logsum_b"][6] = 0.0, -math.inf
    zero = case("outputs of zero, not empty", 4, width=2)
    zero.inputs["output_a"][0], zero.inputs["output_b"][1] = 0.0, 0.0
    zero.inputs["output_a"][2, 0], zero.inputs["logsum_a"][2] = 0.0, 0.0
    zero.inputs["output_a"][3], zero.inputs["output_b"][3] = 0.0, 0.0
    return [
        case("small", 2, width=3),
        case("batch and heads", 2, b, n, width=d, gap=1.0),
        case("large scores", 3, width=2, mean=120.0, gap=0.5),
        case("very negative scores", 3, width=2, mean=-150.0, gap=-0.5),
        empty,
        both,
        apart,
        case("one half far larger", n, width=pick(g, 1, 3), mean=-110.0, gap=230.0),
        thousands,
        zero,
    ]


def merge(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the right whole: each half counts by its share of the sum of exponentials."""
    logsum = torch.logaddexp(logsum_a, logsum_b)
    safe = logsum.masked_fill(logsum == -math.inf, 0.0)
    share_a, share_b = (logsum_a - safe).exp(), (logsum_b - safe).exp()
    return share_a[..., None] * output_a + share_b[..., None] * output_b, logsum


def merge_by_maximum(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same with a running maximum, as fused kernels do."""
    largest = torch.maximum(logsum_a, logsum_b).clamp(min=-1e30)
    a, b = (logsum_a - largest).exp(), (logsum_b - largest).exp()
    total = a + b
    output = (a.unsqueeze(-1) * output_a + b.unsqueeze(-1) * output_b) / total.clamp(min=1e-30).unsqueeze(-1)
    return output, largest + total.log()


def merge_by_loop(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same in float64, one query at a time, by softmax over the two halves."""
    logs = torch.stack([logsum_a, logsum_b], dim=-1).double().reshape(-1, 2)
    halves = torch.stack([output_a, output_b], dim=-2).double().reshape(len(logs), 2, -1)
    output, logsum = torch.zeros_like(halves[:, 0]), torch.full((len(logs),), -math.inf, dtype=torch.float64)
    for i in range(len(logs)):
        if logs[i].max() > -math.inf:
            output[i], logsum[i] = logs[i].softmax(dim=0) @ halves[i], logs[i].logsumexp(dim=0)
    return output.reshape(output_a.shape), logsum.reshape(logsum_a.shape)


def _merged(
    share: Callable[[Tensor, Tensor], Tensor], total: Callable[[Tensor, Tensor], Tensor]
) -> Callable[..., tuple]:
    """Return a merge with the first half's share and the total as given."""

    def function(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
        first = share(logsum_a, logsum_b)[..., None]
        return first * output_a + (1 - first) * output_b, total(logsum_a, logsum_b)

    return function


def _share(a: Tensor, b: Tensor) -> Tensor:
    return (a - torch.logaddexp(a, b)).exp().nan_to_num(0.0)


def _naive_share(a: Tensor, b: Tensor) -> Tensor:
    return a.exp() / (a.exp() + b.exp())


def _sum(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
    return output_a + output_b, torch.logaddexp(logsum_a, logsum_b)


def _clamped(low: float) -> Callable[..., tuple]:
    """Return a merge whose exponents are limited: to at most 80, and to at least a number."""

    def power(logsum: Tensor) -> Tensor:
        return logsum.clamp(min=low, max=80.0).exp()

    return _merged(
        lambda a, b: (power(a) / (power(a) + power(b))).nan_to_num(0.5), lambda a, b: (power(a) + power(b)).log()
    )


def _with_one_maximum(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
    largest = torch.cat([logsum_a.flatten(), logsum_b.flatten()]).max()
    a, b = (logsum_a - largest).exp(), (logsum_b - largest).exp()
    total = (a + b).clamp(min=1e-30)[..., None]
    return (a[..., None] * output_a + b[..., None] * output_b) / total, largest + (a + b).log()


def _no_axis(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
    first = _share(logsum_a, logsum_b)
    return first * output_a + (1 - first) * output_b, torch.logaddexp(logsum_a, logsum_b)


def _zero_for_empty(output_a: Tensor, logsum_a: Tensor, output_b: Tensor, logsum_b: Tensor) -> tuple[Tensor, Tensor]:
    output, logsum = merge(output_a, logsum_a, output_b, logsum_b)
    without_a, without_b = ((half == 0).all(dim=-1, keepdim=True) for half in (output_a, output_b))
    return torch.where(without_a, output_b, torch.where(without_b, output_a, output)), logsum


def _finite_logsum(a: Tensor, b: Tensor) -> Tensor:
    whole = torch.logaddexp(a, b)
    return whole.masked_fill(whole == -math.inf, 0.0)


MERGE_WRONG = [
    Mistake(
        "shares clamped",
        "The logsums are clamped before exp when the shares are made, so that all above the limit count the same. "
        "Subtract the larger logsum from both instead; it cancels out.",
        _merged(
            lambda a, b: torch.stack([a, b]).clamp(-80.0, 80.0).softmax(0)[0],
            torch.logaddexp,
        ),
        0.5,
    ),
    Mistake(
        "exp clamped above",
        "Large logsums are clamped before exp, so that all above the limit count the same, and the new logsum is too "
        "small. Subtract the larger logsum from both instead; it cancels out.",
        _clamped(-math.inf),
        0.5,
    ),
    Mistake(
        "exp clamped",
        "The logsums are clamped before exp, so that all beyond the limits count the same, and the new logsum is "
        "wrong, too. Subtract the larger logsum from both instead; it cancels out.",
        _clamped(-80.0),
        0.5,
    ),
    Mistake(
        "zero taken for empty",
        "A half whose output is zero is taken for an empty one. But an average of values may be zero, and count all "
        "the same: only a logsum of -inf says that a half is empty.",
        _zero_for_empty,
        0.75,
    ),
    Mistake(
        "0 for an empty logsum",
        "The output is right, but where both halves are empty the logsum is 0, as if there were one key with a score "
        "of 0. The logarithm of an empty sum is -inf: return the logsum from before you made it safe.",
        _merged(_share, _finite_logsum),
        0.75,
    ),
    Mistake(
        "no axis for the features",
        "The shares have one axis fewer than the outputs, one number for each query. Give them an axis of size 1 at "
        "the end, share[..., None], so that every feature of a query gets the same share.",
        _no_axis,
        0.5,
    ),
    Mistake(
        "one maximum for all",
        "The largest logsum of all queries is subtracted before exp. Queries whose logsums lie far below it vanish: "
        "each query needs its own, the larger of its two.",
        lambda a, la, b, lb: _with_one_maximum(a, la, b, lb),
        0.5,
    ),
    Mistake(
        "plain average",
        "The two outputs are averaged, as if both halves held an equal share of the weight. The shares are "
        "exp(logsum_a) and exp(logsum_b), over their sum.",
        _merged(lambda a, b: torch.full_like(a, 0.5), torch.logaddexp),
        0.25,
    ),
    Mistake(
        "outputs added",
        "The two outputs are added. Each is an average whose weights sum to 1 already, so that the sum has "
        "weights that sum to 2.",
        _sum,
        0.25,
    ),
    Mistake(
        "logarithms as shares",
        "The halves are weighted by the logarithms. Exponentiate first: the sums of exponentials are what adds up.",
        _merged(lambda a, b: a / (a + b), torch.logaddexp),
        0.25,
    ),
    Mistake(
        "shares exchanged",
        "The shares are exchanged: the half with the larger logsum should count more.",
        _merged(lambda a, b: _share(b, a), torch.logaddexp),
        0.5,
    ),
    Mistake(
        "logsums added",
        "The output is right, but the two logsums are added. The logarithm of a sum isn't the sum of logarithms: "
        "torch.logaddexp.",
        _merged(_share, torch.add),
        0.5,
    ),
    Mistake(
        "maximum for the sum",
        "The output is right, but the larger logsum is returned, which forgets the other half: torch.logaddexp.",
        _merged(_share, torch.maximum),
        0.5,
    ),
    Mistake(
        "exp overflows",
        "exp(logsum) overflows at large scores and vanishes at very negative ones, and NaN comes out. Subtract "
        "the larger logsum from both first; it cancels out.",
        _merged(_naive_share, lambda a, b: (a.exp() + b.exp()).log()),
        0.5,
    ),
    Mistake(
        "NaN where both are empty",
        "Where both halves are empty, -inf - (-inf) is NaN. The output should be zero there, and the logsum -inf.",
        _merged(lambda a, b: (a - torch.logaddexp(a, b)).exp(), torch.logaddexp),
        0.75,
    ),
]


PROBES = [
    Probe(
        id="2.1",
        title="attention weights from their formula",
        kind="function",
        entry="attention_weights",
        points=4,
        minutes=12,
        difficulty=1,
        cases=weights_cases,
        reference=weights,
        right={"loop": weights_by_loop, "einsum": weights_by_einsum, "by position": weights_by_position},
        original=("attention.attention_weights", "fast.attend"),
        wrong=WEIGHTS_WRONG,
        replaces="attention.attention_weights",
        properties=("rows sum to 1",),
    ),
    Probe(
        id="2.2",
        title="additive scores by hand",
        kind="function",
        entry="additive_scores",
        points=4,
        minutes=12,
        difficulty=1,
        cases=additive_cases,
        reference=additive,
        right={"loop": additive_by_loop, "einsum": additive_by_einsum},
        original=("attention.AdditiveAttention.scores",),
        wrong=ADDITIVE_WRONG,
    ),
    Probe(
        id="2.3",
        title="a mask that can't be misread",
        kind="error",
        entry="fitted_mask",
        points=4,
        minutes=12,
        difficulty=2,
        cases=mask_cases,
        reference=fitted_mask,
        right={"expand": fitted_mask_by_expand, "broadcast": fitted_mask_by_broadcast},
        original=("checks.mask_fits",),
        wrong=MASK_WRONG,
    ),
    Probe(
        id="2.4",
        title="two bugs that need a batch to show",
        kind="bug",
        entry="self_attention",
        points=4,
        minutes=15,
        difficulty=2,
        cases=batched_cases,
        reference=self_attention,
        right={"by sentence": self_attention_by_sentence, "einsum": self_attention_by_einsum},
        wrong=BATCHED_WRONG,
    ),
    Probe(
        id="2.5",
        title="two halves, one attention",
        kind="function",
        entry="merge",
        points=6,
        minutes=20,
        difficulty=3,
        cases=merge_cases,
        reference=merge,
        right={"maximum": merge_by_maximum, "loop": merge_by_loop},
        wrong=MERGE_WRONG,
    ),
]

QUESTIONS = [
    Question(
        id="2.6",
        title="sqrt(d_model) for sqrt(d_k)",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what happens to the scores, and by which factor", "sqrt(8) = 2.83 times too small, not too large"),
            (1, "what happens to the weights", "too even; the softmax does not saturate"),
            (1, "whether the model can still learn, with a reason", "yes: W_q and W_k can grow to make up for it"),
            (1, "what to measure at step 0, and the value to expect", "std of the scores: 0.35 where 1 is right"),
        ),
    ),
    Question(
        id="2.7",
        title="is anything lost?",
        points=4,
        minutes=10,
        difficulty=3,
        rubric=(
            (1, "what an output is made of", "an average of the values: weights of at least 0 that sum to 1"),
            (1, "a case that decides it", "a weight near 0, or two sets of values with the same average"),
            (1, "which part mixes tokens and which changes coordinates", "the weights; W_v and W_o"),
            (1, "what the layer around the head does about it", "the residual path keeps x; other heads"),
        ),
    ),
]
