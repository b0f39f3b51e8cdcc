"""What chapter 04's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from transformer_lib.exercises.authoring import draw, pick, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Probe, Question

# 4.1 sinusoids


def sinusoid_cases(seed: int) -> list[Case]:
    """Return lengths and widths."""
    g = torch.Generator().manual_seed(seed)
    wide, square = 2 * pick(g, 5, 8), 2 * pick(g, 2, 4)
    tables = {"small": (3, 4), "long": (pick(g, 7, 12), 2), "wide": (2, wide), "square": (square, square)}
    tables |= {"one position": (1, 4), "longer": (pick(g, 9, 14), 8), "as wide as before": (pick(g, 66, 80), 2)}
    return [Case(name, {"length": n, "d_model": d}) for name, (n, d) in tables.items()]


def sinusoids(length: int, d_model: int) -> Tensor:
    """Return the right table."""
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(start_dim=1)


def sinusoids_by_loop(length: int, d_model: int) -> Tensor:
    """Return the same in float64, number by number."""
    table = torch.zeros(length, d_model, dtype=torch.float64)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            table[position, 2 * i], table[position, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return table


def sinusoids_by_slices(length: int, d_model: int) -> Tensor:
    """Return the same as it's often written: every second column."""
    table = torch.zeros(length, d_model)
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table[:, 0::2] = torch.sin(torch.arange(length).unsqueeze(1) * rate)
    table[:, 1::2] = torch.cos(torch.arange(length).unsqueeze(1) * rate)
    return table


def _waves(
    exponent: Callable[[Tensor, int], Tensor],
    even: Callable[[Tensor], Tensor] = torch.sin,
    odd: Callable[[Tensor], Tensor] = torch.cos,
    first: int = 0,
    base: float = 10000.0,
) -> Callable[[int, int], Tensor]:
    """Return a table whose column j turns by base^-exponent a position, with other functions or another start."""

    def answer(length: int, d_model: int) -> Tensor:
        angle = torch.arange(first, first + length)[:, None] * base ** -exponent(torch.arange(d_model), d_model)
        return torch.where(torch.arange(d_model) % 2 == 0, even(angle), odd(angle))

    return answer


def _pairs(column: Tensor, d_model: int) -> Tensor:
    return column // 2 * 2 / d_model


SINUSOID_WRONG = [
    Mistake(
        "exponent doubled twice",
        "The exponent is doubled twice: with i counting columns in steps of 2, it's i / d_model already, no longer "
        "2i / d_model. The waves get slow too fast.",
        _waves(lambda column, d: column // 2 * 4 / d),
        0.5,
    ),
    Mistake(
        "exponent not doubled",
        "The exponent is i / d_model with i counting pairs. It's 2i / d_model: the last pair is nearly 10000 times "
        "slower than the first.",
        _waves(lambda column, d: column // 2 / d),
        0.5,
    ),
    Mistake(
        "each column its own rate",
        "A sine and its cosine turn at different rates: each column has an exponent of its own. Columns 2i and 2i + 1 "
        "are a pair, with one rate: 2i / d_model for both.",
        _waves(lambda column, d: column / d),
        0.5,
    ),
    Mistake(
        "sines first, then cosines",
        "All the sines come first, and then all the cosines. Many implementations do so; the paper's formula, and this "
        "exercise, alternate: sine in column 2i, cosine in column 2i + 1.",
        lambda n, d: torch.cat([sinusoids(n, d)[:, 0::2], sinusoids(n, d)[:, 1::2]], dim=1),
        0.75,
    ),
    Mistake(
        "cosine first",
        "Sine and cosine are exchanged: even columns are sines.",
        _waves(_pairs, torch.cos, torch.sin),
        0.5,
    ),
    Mistake(
        "sines only",
        "All columns are sines. Without the cosine, a shift by one position is no rotation.",
        _waves(_pairs, torch.sin, torch.sin),
        0.25,
    ),
    Mistake(
        "positions from 1",
        "Positions are counted from 1. The first one is 0: its row is 0, 1, 0, 1.",
        _waves(_pairs, first=1),
        0.75,
    ),
    Mistake(
        "multiplied, not divided",
        "The positions are multiplied by 10000^(2i / d_model) where they should be divided by it: waves get faster "
        "from pair to pair.",
        _waves(lambda column, d: -_pairs(column, d)),
        0.5,
    ),
    Mistake("base 1000", "The base is 1000. In the paper it's 10000.", _waves(_pairs, base=1000.0), 0.75),
    Mistake(
        "transposed",
        "Rows and columns are exchanged: one row for each position.",
        lambda n, d: sinusoids(n, d).T,
        0.5,
    ),
    Mistake(
        "times 2 pi",
        "The angles are multiplied by 2 pi. The paper's are radians as they are.",
        _waves(lambda column, d: _pairs(column, d) - math.log(2 * math.pi, 10000)),
        0.75,
    ),
]


# 4.2 positions along the wrong axis


def added_cases(seed: int) -> list[Case]:
    """Return batches, a table that's longer than needed, and where the batch's first token stands."""
    g = torch.Generator().manual_seed(seed + 1000)
    alike = pick(g, 2, 4)
    shapes = {
        "small": (1, 3, 2, 0),
        "batch": (*sizes(g, 3, 2, 5), 0),
        "as many sentences as positions": (3, 3, 2, 0),
        "not from the start": (*sizes(g, 3, 2, 5), pick(g, 2, 6)),
        "one token": (3, 1, 4, pick(g, 3, 6)),
        "all sizes alike": (alike, alike, alike, 1),
    }
    cases = [
        Case(name, {"x": draw(g, b, n, d), "table": draw(g, max(b, n) + first + 2, d), "first": first})
        for name, (b, n, d, first) in shapes.items()
    ]
    last = {"x": draw(g, 2, 3, 2), "table": draw(g, 5, 2), "first": 2}
    return [*cases, Case("up to the table's last row", last)]


def added(x: Tensor, table: Tensor, first: int) -> Tensor:
    """Return the right sum."""
    return x + table[first : first + x.size(1)]


def added_by_loop(x: Tensor, table: Tensor, first: int) -> Tensor:
    """Return the same, position by position."""
    return torch.stack([x[:, i] + table[first + i] for i in range(x.size(1))], dim=1)


ADDED_WRONG = [
    Mistake(
        "both bugs are there",
        "Both bugs are still there: each sentence, not each position, gets a vector, and `first` isn't used.",
        lambda x, table, first: x + table[: x.size(0)].unsqueeze(1),
    ),
    Mistake(
        "one vector for each sentence",
        "`first` is used now, but the table still runs along the batch: all tokens of a sentence get one vector.",
        lambda x, table, first: x + table[first : first + x.size(0)].unsqueeze(1),
        0.5,
    ),
    Mistake(
        "always from the start",
        "The vectors run along the positions now, but always from position 0: `first` isn't used.",
        lambda x, table, first: x + table[: x.size(1)],
        0.5,
    ),
    Mistake(
        "one too late",
        "The first token gets the vector after its own: the slice begins one too late.",
        lambda x, table, first: x + table[first + 1 : first + 1 + x.size(1)],
        0.5,
    ),
    Mistake(
        "multiplied",
        "The vectors are multiplied, where they should be added.",
        lambda x, table, first: x * table[first : first + x.size(1)],
        0.25,
    ),
    Mistake(
        "the same vector for all",
        "Every position gets the vector of the first one.",
        lambda x, table, first: x + table[first],
        0.25,
    ),
    Mistake(
        "x scaled",
        "x is multiplied by sqrt(d_model) first, as the paper's embedding does. Here it comes scaled already.",
        lambda x, table, first: added(x * math.sqrt(x.size(-1)), table, first),
        0.75,
    ),
    Mistake(
        "positions alone",
        "These are the positions' vectors alone: x is missing.",
        lambda x, table, first: added(torch.zeros_like(x), table, first),
        0.25,
    ),
    Mistake(
        "from the end of the table",
        "The table's last rows are taken. Positions count from the table's beginning.",
        lambda x, table, first: x + table[len(table) - x.size(1) :],
        0.25,
    ),
]


# 4.3 rotation


def rotated_cases(seed: int) -> list[Case]:
    """Return queries of several heads, at several places."""
    g = torch.Generator().manual_seed(seed + 2000)
    shapes = {
        "small": (1, 1, 3, 2, 0),
        "two pairs": (1, 2, 3, 4, 0),
        "three pairs, not from the start": (2, 1, 2, 6, pick(g, 3, 9)),
        "batch and heads": (*sizes(g, 3, 2, 4), 4, 1),
        "one token": (2, 2, 1, 4, pick(g, 4, 9)),
        "many pairs": (1, 1, 2, 2 * pick(g, 4, 6), pick(g, 1, 3)),
        "all sizes alike": (4, 4, 4, 4, 2),
        "far from the start": (1, 2, 3, 4, pick(g, 70, 110)),
    }
    return [
        Case(name, {"x": draw(g, b, h, n, d, mean=0.4), "first": first}) for name, (b, h, n, d, first) in shapes.items()
    ]


def _angles(x: Tensor, first: int) -> Tensor:
    position = torch.arange(first, first + x.size(-2), dtype=x.dtype)
    return position[:, None] * 10000.0 ** (-torch.arange(0, x.size(-1), 2, dtype=x.dtype) / x.size(-1))


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    pair = [even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()]
    return torch.stack(pair, dim=-1).flatten(-2)


def rotated(x: Tensor, first: int) -> Tensor:
    """Return the right rotation."""
    return _turned(x, _angles(x, first))


def rotated_by_loop(x: Tensor, first: int) -> Tensor:
    """Return the same, a 2 x 2 matrix for each position and pair."""
    result = torch.empty_like(x)
    for n in range(x.size(2)):
        for i in range(0, x.size(3), 2):
            angle = (first + n) / 10000 ** (i / x.size(3))
            turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]).to(x)
            result[:, :, n, i : i + 2] = x[:, :, n, i : i + 2] @ turn.T
    return result


def rotated_by_complex(x: Tensor, first: int) -> Tensor:
    """Return the same by complex numbers."""
    numbers = torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2)))
    return torch.view_as_real(numbers * torch.exp(1j * _angles(x, first))).flatten(-2)


def _by_halves(x: Tensor, first: int) -> Tensor:
    angle = _angles(x, first)
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * angle.cos() - right * angle.sin(), left * angle.sin() + right * angle.cos()], dim=-1)


def _angled(change: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[[Tensor, int], Tensor]:
    return lambda x, first: _turned(x, change(_angles(x, first), x, first))


ROTATED_WRONG = [
    Mistake(
        "pairs from two halves",
        "Dimension i is paired with i + d_k / 2, as in some models' code. That's another order of the same dimensions; "
        "here, as in the paper, 2i and 2i + 1 are a pair.",
        _by_halves,
        0.75,
    ),
    Mistake(
        "turned the other way",
        "The vectors turn the other way round: it's even * cos - odd * sin, and even * sin + odd * cos.",
        _angled(lambda angle, x, first: -angle),
        0.5,
    ),
    Mistake(
        "sign missing",
        "Both new numbers are sums. One of the two sines has a minus, else it's no rotation: lengths change.",
        lambda x, first: _mirrored(x, _angles(x, first)),
        0.25,
    ),
    Mistake(
        "first not used",
        "Positions are counted from 0, where the first one here is `first`.",
        lambda x, first: rotated(x, 0),
        0.5,
    ),
    Mistake(
        "one rate for all pairs",
        "All pairs turn at the rate of the first one. Pair i turns by 10000^(-2i / d_k) radians a position.",
        _angled(lambda angle, x, first: angle[:, :1].expand_as(angle)),
        0.25,
    ),
    Mistake(
        "heads for positions",
        "The angle grows with the head, not with the position: positions are axis -2.",
        lambda x, first: rotated(x.transpose(1, 2), first).transpose(1, 2),
        0.5,
    ),
    Mistake(
        "position vectors added",
        "Sinusoids are added, as absolute positions are. Rotary positions multiply: a vector keeps its length.",
        lambda x, first: x + sinusoids(first + x.size(2), x.size(3))[first:].to(x.dtype),
        0.25,
    ),
    Mistake(
        "exponent not doubled",
        "The exponent is i / d_k with i counting pairs. It's 2i / d_k.",
        lambda x, first: _turned(
            x, torch.arange(first, first + x.size(2))[:, None] * 10000.0 ** (-torch.arange(x.size(3) // 2) / x.size(3))
        ),
        0.5,
    ),
    Mistake(
        "odd written over",
        "The second number of each pair is made from the first one after it has been turned. Both need the old ones: "
        "keep them before you write.",
        lambda x, first: _overwritten(x, _angles(x, first)),
        0.5,
    ),
]


def _mirrored(x: Tensor, angle: Tensor) -> Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * angle.cos() + odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1).flatten(-2)


def _overwritten(x: Tensor, angle: Tensor) -> Tensor:
    new = x[..., 0::2] * angle.cos() - x[..., 1::2] * angle.sin()
    return torch.stack([new, new * angle.sin() + x[..., 1::2] * angle.cos()], dim=-1).flatten(-2)


# 4.4 linear bias


def bias_cases(seed: int) -> list[Case]:
    """Return numbers of heads, queries and keys, and where the first query stands."""
    g = torch.Generator().manual_seed(seed + 3000)
    late, square = pick(g, 5, 9), pick(g, 3, 5)
    shapes = {
        "small": (2, 3, 3, 0),
        "eight heads": (8, 2, 3, 1),
        "sixteen heads": (16, 1, pick(g, 2, 3), 1),
        "one head": (1, 2, 4, 2),
        "one query": (4, 1, pick(g, 4, 6), 3),
        "square": (4, square, square, 0),
        "late": (2, 2, late + 2, late),
        "beyond the last key": (2, pick(g, 2, 3), 3, pick(g, 4, 7)),
        "more queries than keys": (4, 4, 2, 0),
        "far from the keys": (2, 1, 3, pick(g, 60, 90)),
    }
    names = ("heads", "queries", "keys", "first")
    return [Case(name, dict(zip(names, numbers, strict=True))) for name, numbers in shapes.items()]


def _distance(queries: int, keys: int, first: int) -> Tensor:
    return (torch.arange(keys) - torch.arange(first, first + queries)[:, None]).abs()


def _slopes(heads: int) -> Tensor:
    return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)


def bias(heads: int, queries: int, keys: int, first: int) -> Tensor:
    """Return the right bias."""
    return -_slopes(heads)[:, None, None] * _distance(queries, keys, first)


def bias_by_loop(heads: int, queries: int, keys: int, first: int) -> Tensor:
    """Return the same, number by number."""
    rows = [
        [[-(2 ** (-8 * (h + 1) / heads)) * abs(first + i - j) for j in range(keys)] for i in range(queries)]
        for h in range(heads)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def bias_by_einsum(heads: int, queries: int, keys: int, first: int) -> Tensor:
    """Return the same by an outer product, the slopes as powers of the first one."""
    slopes = torch.full((heads,), 2 ** (-8 / heads)).cumprod(dim=0)
    return torch.einsum("h,qk->hqk", slopes, -_distance(queries, keys, first).float())


def _biased(slopes: Callable[[int], Tensor]) -> Callable[[int, int, int, int], Tensor]:
    return lambda heads, *sizes: -slopes(heads)[:, None, None] * _distance(*sizes)


BIAS_WRONG = [
    Mistake(
        "a reward for distance",
        "The bias is positive: the farther a key, the higher its score. It's to be a loss: minus.",
        lambda *sizes: -bias(*sizes),
        0.5,
    ),
    Mistake(
        "heads counted from 0",
        "Heads are counted from 0, so that the first slope is 1. It's 2^(-8 / heads), the last one 2^-8.",
        _biased(lambda heads: 2.0 ** (-8 * torch.arange(heads) / heads)),
        0.75,
    ),
    Mistake(
        "one slope for all",
        "All heads have the slope of the first. They are to differ, so that some look far and some near.",
        _biased(lambda heads: _slopes(heads)[:1].expand(heads)),
        0.25,
    ),
    Mistake(
        "slopes for eight heads",
        "The slopes are 1/2, 1/4, 1/8, ..., which is right for eight heads only: 2^(-8h / heads).",
        _biased(lambda heads: 2.0 ** -torch.arange(1.0, heads + 1)),
        0.5,
    ),
    Mistake(
        "slopes in reverse",
        "The slopes run from the flattest to the steepest. The first head's is the steepest.",
        _biased(lambda heads: _slopes(heads).flip(0)),
        0.75,
    ),
    Mistake(
        "first not used",
        "Queries are taken to stand at positions 0, 1, ...; the first one here stands at `first`.",
        lambda heads, queries, keys, first: bias(heads, queries, keys, 0),
        0.5,
    ),
    Mistake(
        "squared distance",
        "The bias grows with the square of the distance. It's to be linear.",
        lambda heads, *sizes: bias(heads, *sizes) * _distance(*sizes),
        0.5,
    ),
    Mistake(
        "no absolute value",
        "Later keys get a bias above 0: the distance is without its sign here, |i - j|.",
        lambda heads, queries, keys, first: (
            -_slopes(heads)[:, None, None] * (torch.arange(first, first + queries)[:, None] - torch.arange(keys))
        ),
        0.5,
    ),
    Mistake(
        "queries end at the last key",
        "The last query is taken to stand at the last key, as in decoding. The first one stands at `first`, wherever "
        "the keys end.",
        lambda heads, queries, keys, first: bias(heads, queries, keys, keys - queries),
        0.5,
    ),
    Mistake(
        "keys as rows",
        "Queries and keys are exchanged: one row for each query.",
        lambda *sizes: bias(*sizes).mT,
        0.5,
    ),
    Mistake(
        "distance alone",
        "These are distances alone, with their minus: the slopes are missing.",
        _biased(torch.ones),
        0.25,
    ),
]


# 4.5 relative vectors


def relative_cases(seed: int) -> list[Case]:
    """Return queries, and a vector for each offset from -k to k."""
    g = torch.Generator().manual_seed(seed + 4000)
    shapes = {
        "small": ((), 3, 2, 1),
        "batch": ((pick(g, 2, 3),), pick(g, 4, 6), 3, 2),
        "batch and heads": ((2, 3), 3, 2, 1),
        "none clipped": ((1,), pick(g, 2, 3), 4, 4),
        "as many offsets as positions": ((2,), 3, 3, 1),
        "all sizes alike": ((5,), 5, 5, 2),
        "one vector for all": ((), pick(g, 3, 5), pick(g, 2, 4), 0),
        "one position": ((2,), 1, 3, 2),
        "three axes of batch": ((2, 1, pick(g, 2, 3)), 3, 2, 1),
    }
    return [
        Case(name, {"query": draw(g, *batch, n, d), "table": draw(g, 2 * k + 1, d)})
        for name, (batch, n, d, k) in shapes.items()
    ]


def _offsets(n: int, k: int) -> Tensor:
    return (torch.arange(n) - torch.arange(n)[:, None]).clamp(-k, k) + k


def relative(query: Tensor, table: Tensor) -> Tensor:
    """Return the right scores: a product with each pair's vector."""
    return torch.einsum("...qd,qkd->...qk", query, table[_offsets(query.size(-2), len(table) // 2)])


def relative_by_loop(query: Tensor, table: Tensor) -> Tensor:
    """Return the same, pair by pair."""
    n, k = query.size(-2), len(table) // 2
    rows = [
        torch.stack([(query[..., i, :] * table[max(-k, min(k, j - i)) + k]).sum(-1) for j in range(n)], -1)
        for i in range(n)
    ]
    return torch.stack(rows, dim=-2)


def relative_by_gather(query: Tensor, table: Tensor) -> Tensor:
    """Return the same: products with all vectors first, then the right one for each pair."""
    products = query @ table.T
    return products.gather(-1, _offsets(query.size(-2), len(table) // 2).expand(*products.shape[:-1], -1))


def _picked(offsets: Callable[[int, int], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    def answer(query: Tensor, table: Tensor) -> Tensor:
        chosen = table[offsets(query.size(-2), len(table) // 2)]
        return torch.einsum("...qd,qkd->...qk", query, chosen)

    return answer


RELATIVE_WRONG = [
    Mistake(
        "from key to query",
        "The offsets have the wrong sign: they count from the query to the key, j - i. A key before its query has a "
        "negative one.",
        _picked(lambda n, k: _offsets(n, k).T),
        0.5,
    ),
    Mistake(
        "not shifted by k",
        "Offsets are used as row numbers as they are. Row 0 belongs to -k: add k. (Negative numbers count from a "
        "table's end, so that nobody complains.)",
        _picked(lambda n, k: _offsets(n, k) - k),
        0.5,
    ),
    Mistake(
        "wrapped around, not clipped",
        "Offsets beyond the table begin anew at its other end, as % makes them. They are to be clipped: clamp(-k, k).",
        _picked(lambda n, k: ((torch.arange(n) - torch.arange(n)[:, None]) + k) % (2 * k + 1)),
        0.5,
    ),
    Mistake(
        "distance without sign",
        "Offsets before and after the query use the same vector: the sign is lost.",
        _picked(lambda n, k: (_offsets(n, k) - k).abs() + k),
        0.5,
    ),
    Mistake(
        "absolute positions",
        "Each key gets the vector of its own place in the table, whatever the query. It's the offset that counts.",
        _picked(lambda n, k: torch.arange(n).clamp(max=2 * k).expand(n, n)),
        0.25,
    ),
    Mistake(
        "products with the table",
        "These are the products with all vectors of the table, one column for each offset. For each key, pick the "
        "column of its offset.",
        lambda query, table: query @ table.T,
        0.5,
    ),
    Mistake(
        "scaled",
        "The products are divided by sqrt(d_k). That's done later, to the whole score; here plain products were asked.",
        lambda query, table: relative(query, table) / math.sqrt(query.size(-1)),
        0.75,
    ),
    Mistake(
        "key's vector for all",
        "Each row uses one vector for all its keys. Offsets differ from key to key.",
        _picked(lambda n, k: torch.arange(n).clamp(max=2 * k)[:, None].expand(n, n)),
        0.25,
    ),
]


# 4.6 beyond the table


def table_cases(seed: int) -> list[Case]:
    """Return lookups that fit and lookups that don't."""
    g = torch.Generator().manual_seed(seed + 5000)

    def case(name: str, rows: int, length: int, first: int, words: tuple[int, ...] = (), telling: str = "") -> Case:
        inputs = {"table": draw(g, rows, 3), "length": length, "first": first}
        return Case(name, inputs, mentions=tuple(map(str, words)), telling=telling)

    last = "the last position asked for and the table's size"
    rows, n, more = pick(g, 5, 9), pick(g, 2, 4), pick(g, 1, 5)
    return [
        case("small", 5, 3, 0),
        case("the end of it", rows, n, rows - n),
        case("all of it", n, n, 0),
        case("one", 7, 1, more),
        case("one too long", 12, 13, 0, (12,), "the table's size"),
        case("ends one outside", 15, n, 16 - n, (15,), "the table's size"),
        case("begins inside, ends outside", 20, 8, 17, (24, 20), last),
        case("begins outside", 30, 4, 41 + more, (44 + more, 30), last),
        case("begins where it ends", rows, 1, rows, (rows,), "the table's size"),
        case("negative", 9, 2, -2 - more, (-2 - more,), "the position"),
        case("negative, ends inside", 9, n + 2, -n, (-n,), "the position"),
        case("negative by one", 9, 1, -1, (-1,), "the position"),
        case("the last row alone", rows, 1, rows - 1),
        case("the only row", 1, 1, 0),
    ]


def looked_up(table: Tensor, length: int, first: int) -> Tensor:
    """Return the right rows, or say why there are none."""
    if first < 0:
        raise ValueError(f"first must be at least 0, got {first}")
    if first + length > len(table):
        raise ValueError(f"the last position {first + length - 1} isn't in a table of {len(table)}")
    return table[first : first + length]


def looked_up_by_index(table: Tensor, length: int, first: int) -> Tensor:
    """Return the same by indexing, which complains by itself."""
    rows = torch.arange(first, first + length)
    try:
        return table[rows.masked_fill(rows < 0, len(table))]
    except IndexError as error:
        raise ValueError(f"positions {first} to {first + length - 1}, but the table has {len(table)}") from error


def _checked(
    test: Callable[[int, int, int], bool], rows: Callable[[Tensor, int, int], Tensor]
) -> Callable[[Tensor, int, int], Tensor]:
    """Return an answer that raises where a test of size, length and first holds, and else returns some rows."""

    def answer(table: Tensor, length: int, first: int) -> Tensor:
        if test(len(table), length, first):
            raise ValueError(f"positions {first} to {first + length - 1}, but the table has {len(table)}")
        return rows(table, length, first)

    return answer


def _sliced(table: Tensor, length: int, first: int) -> Tensor:
    return table[first : first + length]


TABLE_WRONG = [
    Mistake(
        "cut off in silence",
        "A slice beyond the end isn't an error in Python: it comes out shorter, or empty, and broadcasting may do the "
        "rest. Check first + length.",
        _sliced,
        0.25,
    ),
    Mistake(
        "length alone checked",
        "Only the length is compared with the table. Where it begins counts, too: first + length.",
        _checked(lambda size, n, first: n > size or first < 0, _sliced),
        0.5,
    ),
    Mistake(
        "first alone checked",
        "Only the first position is compared with the table. The last one must be in it, too.",
        _checked(lambda size, n, first: not 0 <= first < size, _sliced),
        0.5,
    ),
    Mistake(
        "one too strict",
        "The table's last row is refused: positions first to first + length - 1 are needed, so that first + length may "
        "be the table's size.",
        _checked(lambda size, n, first: first + n >= size or first < 0, _sliced),
        0.75,
    ),
    Mistake(
        "negative let through",
        "A negative position counts from the end in Python: the wrong rows come back, or none. Refuse it.",
        _checked(lambda size, n, first: first + n > size, _sliced),
        0.75,
    ),
    Mistake(
        "wrapped around",
        "Positions beyond the table begin anew at 0, as % makes them: two positions then have the same vector.",
        lambda table, n, first: table[torch.arange(first, first + n) % len(table)],
        0.25,
    ),
    Mistake(
        "clamped",
        "All positions beyond the table get its last vector: they can't be told apart.",
        lambda table, n, first: table[torch.arange(first, first + n).clamp(0, len(table) - 1)],
        0.25,
    ),
    Mistake(
        "IndexError",
        "An IndexError is raised. It's a ValueError that was asked for: a caller's number is out of range.",
        with_errors(looked_up, lambda error: IndexError(str(error))),
        0.75,
    ),
    Mistake(
        "assert",
        "Errors are raised by assert. Python leaves assertions out when it runs with -O: raise ValueError.",
        with_errors(looked_up, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "errors that don't tell",
        "ValueError is right, but its text lacks the numbers that whoever reads it needs.",
        with_errors(looked_up, lambda error: ValueError("position out of range")),
        0.75,
    ),
]


PROBES = [
    Probe(
        id="4.1",
        title="sinusoids from their formula",
        kind="function",
        entry="sinusoidal_positions",
        points=4,
        minutes=12,
        difficulty=1,
        cases=sinusoid_cases,
        reference=sinusoids,
        right={"number by number": sinusoids_by_loop, "every second column": sinusoids_by_slices},
        original=("positional.sinusoidal_positions", "experiments.encodings.sinusoids_with_base"),
        wrong=SINUSOID_WRONG,
        replaces="positional.sinusoidal_positions",
    ),
    Probe(
        id="4.2",
        title="positions along the wrong axis",
        kind="bug",
        entry="with_positions",
        points=3,
        minutes=8,
        difficulty=1,
        cases=added_cases,
        reference=added,
        right={"position by position": added_by_loop, "narrow": lambda x, t, f: x + t.narrow(0, f, x.size(1))[None]},
        wrong=ADDED_WRONG,
    ),
    Probe(
        id="4.3",
        title="positions by rotation",
        kind="function",
        entry="rotated",
        points=5,
        minutes=18,
        difficulty=3,
        cases=rotated_cases,
        reference=rotated,
        right={"2 x 2 matrices": rotated_by_loop, "complex numbers": rotated_by_complex},
        original=("relative.RotaryPositions.rotate",),
        wrong=ROTATED_WRONG,
    ),
    Probe(
        id="4.4",
        title="scores that fall with the distance",
        kind="function",
        entry="linear_bias",
        points=4,
        minutes=12,
        difficulty=2,
        cases=bias_cases,
        reference=bias,
        right={"number by number": bias_by_loop, "an outer product": bias_by_einsum},
        original=("relative.linear_slopes", "relative.LinearBias.bias"),
        wrong=BIAS_WRONG,
    ),
    Probe(
        id="4.5",
        title="a vector for each offset",
        kind="function",
        entry="relative_scores",
        points=5,
        minutes=15,
        difficulty=3,
        cases=relative_cases,
        reference=relative,
        right={"pair by pair": relative_by_loop, "gather": relative_by_gather},
        original=("relative.ShawPositions.bias",),
        wrong=RELATIVE_WRONG,
    ),
    Probe(
        id="4.6",
        title="beyond the end of the table",
        kind="error",
        entry="learned_positions",
        points=3,
        minutes=10,
        difficulty=1,
        cases=table_cases,
        reference=looked_up,
        right={"by index": looked_up_by_index, "narrow": lambda t, n, f: looked_up(t, n, f).clone()},
        original=("positional.LearnedPositions",),
        wrong=TABLE_WRONG,
    ),
]

QUESTIONS = [
    Question(
        id="4.7",
        title="what attention sees without positions",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what happens to the outputs if the words are put into another order", "the same outputs, reordered"),
            (1, "which tasks a model without positions can and can't learn", "counting words yes, reversal no"),
            (1, "whether a causal mask changes that", "yes: the first sees one key, the second two"),
            (1, "a test that decides it", "permute the input, compare the permuted outputs; train on reversal"),
        ),
    ),
    Question(
        id="4.8",
        title="twice as long as in training",
        points=4,
        minutes=10,
        difficulty=3,
        rubric=(
            (1, "what learned vectors do there", "there are none, or they are untrained"),
            (1, "what sinusoids and rotations do there", "computable, but combinations and offsets never seen"),
            (1, "what a linear bias does there", "far keys are faint, as in training; but far is unreachable, too"),
            (1, "how to measure it fairly", "accuracy by position and length, several seeds, tasks that need distance"),
        ),
    ),
]
