"""What chapter 03's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.exercises.authoring import pick, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Probe, Question


def _draw(generator: torch.Generator, *shape: int, mean: float = 0.0) -> Tensor:
    """Return normal numbers with two decimals, so that what is stored is exactly what was used."""
    return ((torch.randn(shape, generator=generator) + mean) * 100 + 0.37).round() / 100 + 0.001


# 3.1 split heads


def split_cases(seed: int) -> list[Case]:
    """Return vectors of several sizes; heads, positions, batch and d_k are unlike each other in most."""
    g = torch.Generator().manual_seed(seed)

    def case(name: str, batch: int, n: int, heads: int, d_k: int) -> Case:
        return Case(name, {"x": _draw(g, batch, n, heads * d_k), "heads": heads})

    alike = pick(g, 2, 3)
    return [
        case("small", 1, 3, 2, 2),
        case("batch", *sizes(g, 4, 2, 5)),
        case("three heads", 3, 2, 3, 5),
        case("one head", 2, 3, 1, pick(g, 2, 4)),
        case("heads of width 1", 2, pick(g, 2, 4), pick(g, 5, 8), 1),
        case("one position", 2, 1, pick(g, 2, 4), 3),
        case("all sizes alike", alike, alike, alike, alike),
    ]


def split(x: Tensor, heads: int) -> Tensor:
    """Return each vector in pieces, the heads before the positions."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def split_by_loop(x: Tensor, heads: int) -> Tensor:
    """Return the same, a slice for each head."""
    d_k = x.size(-1) // heads
    return torch.stack([x[:, :, h * d_k : (h + 1) * d_k] for h in range(heads)], dim=1)


def split_by_chunk(x: Tensor, heads: int) -> Tensor:
    """Return the same, from torch's own chunks."""
    return torch.cat([piece.unsqueeze(1) for piece in x.chunk(heads, dim=-1)], dim=1)


def _reshaped(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.size(0), heads, x.size(1), -1)


SPLIT_WRONG = [
    Mistake(
        "reshaped, not transposed",
        "The numbers are cut straight into [batch heads position d_k]: reshape (or view) keeps their order, so that a "
        "head gets pieces of several positions' vectors. First cut the last axis alone, [batch position heads d_k], "
        "then exchange positions and heads by transpose(1, 2).",
        _reshaped,
        0.25,
    ),
    Mistake(
        "heads after the positions",
        "Each vector is cut rightly, but the heads still come after the positions. Each head is to have its own table "
        "of positions: transpose(1, 2).",
        lambda x, heads: x.unflatten(-1, (heads, -1)),
        0.5,
    ),
    Mistake(
        "every h-th number",
        "Head i gets every h-th number of a vector. It's to get one block: the first d_k numbers go to head 0, the "
        "next d_k to head 1. So the last axis is cut into (heads, d_k), not (d_k, heads).",
        lambda x, heads: x.unflatten(-1, (-1, heads)).movedim(-1, 1),
        0.5,
    ),
    Mistake(
        "heads in the batch",
        "Heads and batch are one axis. Some libraries do that; here heads have an axis of their own, after the batch.",
        lambda x, heads: split(x, heads).flatten(0, 1),
        0.5,
    ),
    Mistake(
        "heads first",
        "The heads come before the batch. The order is [batch heads position d_k].",
        lambda x, heads: split(x, heads).transpose(0, 1),
        0.5,
    ),
    Mistake(
        "positions last",
        "In each head, positions and features are exchanged: its rows are to be positions.",
        lambda x, heads: split(x, heads).transpose(-2, -1),
        0.5,
    ),
    Mistake(
        "positions shared out",
        "The positions are shared out among the heads. Every head is to see every position, in d_k of its dimensions.",
        lambda x, heads: x.repeat_interleave(heads, dim=1).unflatten(1, (heads, -1))[..., : x.size(-1) // heads],
    ),
    Mistake(
        "every head gets all",
        "Each head gets the whole vector. The heads are to share it: d_k = d_model / heads numbers each.",
        lambda x, heads: x.unsqueeze(1).expand(-1, heads, -1, -1),
    ),
    Mistake(
        "the same piece for every head",
        "All heads get the first d_k numbers. Head 1 is to get the next d_k, and so on.",
        lambda x, heads: x[:, None, :, : x.size(-1) // heads].expand(-1, heads, -1, -1),
    ),
    Mistake(
        "heads and d_k exchanged",
        "The pieces have the width `heads`, and there are d_k of them. It's the other way round: `heads` pieces.",
        lambda x, heads: split(x, x.size(-1) // heads),
        0.25,
    ),
]


# 3.2 merge heads, a planted bug


def merge_cases(seed: int) -> list[Case]:
    """Return outputs of heads, of several sizes."""
    g = torch.Generator().manual_seed(seed + 1000)
    shapes = {
        "small": (1, 2, 3, 2),
        "batch": sizes(g, 4, 2, 5),
        "one head": (2, 1, 3, pick(g, 2, 4)),
        "one position": (3, 2, 1, 3),
        "all sizes alike": [pick(g, 2, 3)] * 4,
        "many heads": (2, pick(g, 5, 8), 2, 1),
    }
    return [Case(name, {"x": _draw(g, *shape)}) for name, shape in shapes.items()]


def merge(x: Tensor) -> Tensor:
    """Return the heads' pieces side by side."""
    return x.transpose(1, 2).flatten(start_dim=2)


MERGE_WRONG = [
    Mistake(
        "reshape alone",
        "The bug is still there: reshape keeps the order of the numbers, and there heads come before positions. So one "
        "row is filled from several positions of one head. Exchange the two axes first: transpose(1, 2).",
        lambda x: x.reshape(x.size(0), x.size(2), -1),
    ),
    Mistake(
        "features before heads",
        "The pieces aren't side by side: the numbers of all heads alternate in each row. Heads are to stay together: "
        "[batch position heads d_k] before the last two axes become one.",
        lambda x: x.permute(0, 2, 3, 1).flatten(start_dim=2),
        0.5,
    ),
    Mistake(
        "heads stacked as positions",
        "The heads stand one below the other, as further positions. They belong side by side, in one row for each "
        "position.",
        lambda x: x.flatten(1, 2),
        0.25,
    ),
    Mistake(
        "heads summed",
        "The heads are summed. They are to be joined, side by side, so that W_o can weigh each of them by itself.",
        lambda x: x.sum(dim=1),
    ),
    Mistake(
        "heads averaged",
        "The heads are averaged. They are to be joined, side by side, so that W_o can weigh each of them by itself.",
        lambda x: x.mean(dim=1),
    ),
    Mistake(
        "not flattened",
        "The axes are in the right order, but heads and d_k are still two: make one of them, d_model wide.",
        lambda x: x.transpose(1, 2),
        0.5,
    ),
    Mistake(
        "batch and positions exchanged",
        "Positions come before the batch. The order is [batch position d_model].",
        lambda x: merge(x).transpose(0, 1),
        0.5,
    ),
    Mistake(
        "heads in reverse",
        "The heads' pieces are joined from the last to the first.",
        lambda x: merge(x.flip(1)),
        0.5,
    ),
]


# 3.3 multi-head attention


def layer_cases(seed: int) -> list[Case]:
    """Return self- and cross-attention, with masks of all shapes that broadcast; queries that may see nothing.

    At the end, scores are far from 0, and those of forbidden keys far above the others.
    """
    g = torch.Generator().manual_seed(seed + 2000)

    def case(name: str, sizes: tuple[int, int, int], d_model: int, heads: int, mask: Tensor | None = None) -> Case:
        batch, n, m = sizes
        x = _draw(g, batch, n, d_model)
        memory = _draw(g, batch, m, d_model, mean=0.3) if "cross" in name else x.clone()
        state = {f"{part}.weight": _draw(g, d_model, d_model) for part in ("query", "key", "value", "output")}
        inputs = {"x": x, "memory": memory} | ({} if mask is None else {"mask": mask})
        return Case(name, inputs, {"d_model": d_model, "heads": heads}, state)

    longest, n = pick(g, 4, 5), pick(g, 2, 3)
    real = (torch.arange(longest) < torch.tensor([[longest - 1], [2]]))[:, None, None, :]
    per_head = torch.tensor([[[True, False], [True, True]], [[False, True], [False, False]]])[None]
    return [
        case("small, cross-attention", (1, 2, 3), 4, 2),
        case("self-attention", (2, n, n), 6, 3),
        case("causal mask", (2, 3, 3), 2, 2, torch.ones(3, 3, dtype=torch.bool).tril()),
        case("padding mask, cross-attention", (2, 3, longest), 4, 2, real),
        case("a mask for each head, nothing allowed once", (2, 2, 2), 2, 2, per_head),
        case("cross-attention, as many keys as queries", (1, 3, 3), 4, 2),
        case("one head", (pick(g, 2, 3), 2, 2), 3, 1),
        case("four heads of width 1, cross-attention", (1, pick(g, 1, 3), pick(g, 2, 4)), 4, 4),
        *[case(name, sizes, 2, 2, mask) for name, (sizes, mask) in _masks(g).items()],
        _far(g, "scores far from 0"),
        _far(g, "forbidden keys with scores far above the others", [[True, True, False], [False, False, True]]),
    ]


def _masks(generator: torch.Generator) -> dict[str, tuple[tuple[int, int, int], Tensor]]:
    """Return masks of shapes that are easily taken for others, each with the batch, queries and keys they are for."""
    turn, length = pick(generator, 0, 2), pick(generator, 4, 5)
    rows = torch.tensor([[[True, False, True], [True, True, False]], [[True, True, False], [False, True, True]]])
    past, place = torch.ones(3, 3, dtype=torch.bool).tril(), torch.arange(length)
    real = torch.tensor([[True, True, False], [False, True, True]])
    pairs = torch.stack([rows, ~rows]).roll(turn, -1)
    pairs[turn % 2, 0, 1] = False
    return {
        "three axes, a mask for each head, cross-attention": ((2, 2, 3), rows.roll(turn, -1)),
        "three axes, keys for each head, cross-attention": ((2, pick(generator, 1, 2), 3), rows[:, :1].roll(turn, -1)),
        "future and padding hidden": ((2, 3, 3), past & real[:, None, None, :]),
        "a mask for each sentence and head, cross-attention": ((2, 2, 3), pairs),
        "a window to both sides": ((1, length, length), (place[:, None] - place).abs() < 2),
        "queries that may see all or nothing, cross-attention": ((2, 3, 2), (torch.arange(3) != turn)[:, None]),
        "nothing allowed at all, cross-attention": ((1, 2, 3), torch.zeros(1, 3, dtype=torch.bool)),
    }


def _far(generator: torch.Generator, name: str, allowed: list[list[bool]] | None = None) -> Case:
    """Return cross-attention in which allowed keys have nearly the same scores, in one head beyond 709, in one -709.

    All products are exact, and 709 is as far as exp reaches, in float64, too. Where a sentence has one key alone, its
    scores are beyond 100,000: farther than large numbers with which people fill.
    """
    seen = torch.ones(1, 3, dtype=torch.bool) if allowed is None else torch.tensor(allowed)
    state = {f"{part}.weight": _draw(generator, 2, 2) for part in ("query", "key", "value", "output")}
    x, memory = _draw(generator, len(seen), 2, 2), _draw(generator, len(seen), 3, 2)
    signs = torch.tensor([1.0, -1.0]).roll(pick(generator, 0, 1))
    state["query.weight"] = torch.stack([signs * pick(generator, 5, 6), torch.zeros(2)], dim=1)
    state["key.weight"] = torch.tensor([[pick(generator, 5, 6), 0.25], [pick(generator, 5, 6), -0.25]])
    x[..., 0] = torch.tensor([pick(generator, 5, 6), -pick(generator, 5, 6)])
    x[seen.sum(dim=1) == 1, :, 0] *= 200
    memory[..., 0] = seen * 12.0 - 6.0
    memory[..., 1] = torch.tensor([0.0, 0.25, 0.75])[torch.randperm(3, generator=generator)]
    mask = {} if allowed is None else {"mask": seen[:, None, None, :]}
    return Case(name, {"x": x, "memory": memory} | mask, {"d_model": 2, "heads": 2}, state)


def _softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores.softmax(dim=-1)
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0.0)


class Layer(nn.Module):
    """The right layer, in steps, each of which a mistake can replace."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    split = staticmethod(split)
    merge = staticmethod(merge)
    softmax = staticmethod(_softmax)

    def scale(self, query: Tensor, key: Tensor) -> float:
        """Return what the scores are divided by."""
        return math.sqrt(query.size(-1))

    def sources(self, x: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what queries, keys and values are made from."""
        return x, memory, memory

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return what the heads find, joined and mixed."""
        layers = (self.query, self.key, self.value)
        pairs = zip(layers, self.sources(x, memory), strict=True)
        query, key, value = (self.split(layer(source), self.heads) for layer, source in pairs)
        weights = self.softmax(query @ key.mT / self.scale(query, key), mask)
        return self.output(self.merge(weights @ value))


class LayerByHead(Layer):
    """The right layer, head after head, each with its own rows of the weights."""

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the sum of what each head adds to the output."""
        n, m, d_k, total = x.size(1), memory.size(1), x.size(2) // self.heads, 0.0
        allowed = torch.ones(1, 1, n, m, dtype=torch.bool) if mask is None else mask
        allowed = allowed.expand(x.size(0), self.heads, n, m)
        for head in range(self.heads):
            rows = slice(head * d_k, (head + 1) * d_k)
            query, key = x @ self.query.weight[rows].T, memory @ self.key.weight[rows].T
            weights = _softmax(query @ key.transpose(1, 2) * d_k**-0.5, allowed[:, head])
            total = total + weights @ (memory @ self.value.weight[rows].T) @ self.output.weight[:, rows].T
        return total


class LayerByEinsum(Layer):
    """The right layer in letters: b batch, n queries, m keys, h heads, c features of a head, d of the model."""

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the output, no axis ever exchanged."""
        query, key, value = (w.weight.unflatten(0, (self.heads, -1)) for w in (self.query, self.key, self.value))
        query, key = torch.einsum("bnd,hcd->bnhc", x, query), torch.einsum("bmd,hcd->bmhc", memory, key)
        weights = _softmax(torch.einsum("bnhc,bmhc->bhnm", query, key) / query.size(-1) ** 0.5, mask)
        mixed = torch.einsum("bhnm,hcd,bmd->bnhc", weights, value, memory)
        return torch.einsum("bnhc,dhc->bnd", mixed, self.output.weight.unflatten(1, (self.heads, -1)))


def _layer(**changes: Callable[..., Any]) -> type[Layer]:
    """Return the layer with some of its steps replaced."""
    return type("MultiHeadAttention", (Layer,), changes)


def _needs_mask(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0.0)


def _filled(number: float) -> Callable[..., Tensor]:
    return lambda s, m: (s if m is None else s.masked_fill(~m, number)).softmax(dim=-1)


def _late(scores: Tensor, mask: Tensor | None) -> Tensor:
    return scores.softmax(dim=-1) if mask is None else scores.softmax(dim=-1) * mask


def _brought_back(scores: Tensor, mask: Tensor | None) -> Tensor:
    weights = _late(scores, mask)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)


def _exp(scores: Tensor, mask: Tensor | None) -> Tensor:
    powers = scores.exp() if mask is None else scores.exp() * mask
    sums = powers.sum(dim=-1, keepdim=True)
    return powers / sums.masked_fill(sums == 0, 1.0)


def _along(axis: int) -> Callable[..., Tensor]:
    return lambda s, m: (s if m is None else s.masked_fill(~m, -math.inf)).softmax(dim=axis).nan_to_num(0.0)


class _Identity(Layer):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        self.output = nn.Identity()
        return super().forward(x, memory, mask)


class _Exchanged(Layer):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        self.query, self.key = self.key, self.query
        return super().forward(x, memory, mask)


class _Unmapped(Layer):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        self.value = nn.Identity()
        return super().forward(x, memory, mask)


class _Residual(Layer):
    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        return x + super().forward(x, memory, mask)


LAYER_WRONG = [
    Mistake(
        "one wide head",
        "There is one head, as wide as the model: the vectors aren't cut into heads. Each head is to make weights of "
        "its own, from its own d_k dimensions.",
        _layer(split=staticmethod(lambda x, heads: x[:, None]), softmax=staticmethod(lambda s, m: _whole(s, m))),
        0.25,
    ),
    Mistake(
        "split by reshape",
        "The heads are cut by a reshape straight to [batch heads position d_k], which mixes positions. Cut the last "
        "axis, then transpose(1, 2).",
        _layer(split=staticmethod(_reshaped)),
        0.5,
    ),
    Mistake(
        "merged by reshape",
        "The heads are cut rightly but joined by a reshape alone, which mixes positions: transpose(1, 2) first, so "
        "that heads and d_k stand side by side.",
        _layer(merge=staticmethod(lambda x: x.reshape(x.size(0), x.size(2), -1))),
        0.5,
    ),
    Mistake(
        "every h-th number",
        "Head i takes every h-th number of the projections, where it's to take one block of d_k.",
        _layer(
            split=staticmethod(lambda x, heads: x.unflatten(-1, (-1, heads)).movedim(-1, 1)),
            merge=staticmethod(lambda x: x.movedim(1, -1).flatten(start_dim=2)),
        ),
        0.5,
    ),
    Mistake(
        "no output projection",
        "The heads' outputs are joined, but W_o is missing: without it the heads never mix. Call self.output at last.",
        _Identity,
        0.5,
    ),
    Mistake(
        "sqrt(d_model)",
        "The scores are divided by sqrt(d_model). A head's score is a sum of d_k = d_model / heads products.",
        _layer(scale=lambda self, query, key: math.sqrt(query.size(-1) * self.heads)),
        0.5,
    ),
    Mistake("no scale", "The scores aren't divided by sqrt(d_k).", _layer(scale=lambda self, query, key: 1.0), 0.5),
    Mistake(
        "divided by d_k",
        "The scores are divided by d_k, without the root.",
        _layer(scale=lambda self, query, key: query.size(-1)),
        0.5,
    ),
    Mistake(
        "values from x",
        "The values come from x. What is passed on belongs to the keys: both come from memory.",
        _layer(sources=lambda self, x, memory: (x, memory, x)),
        0.25,
    ),
    Mistake(
        "keys from x",
        "The keys come from x. Keys and values are two sides of the same vectors: both come from memory.",
        _layer(sources=lambda self, x, memory: (x, x, memory)),
        0.25,
    ),
    Mistake(
        "memory ignored",
        "Queries, keys and values all come from x, so that memory isn't used. Only the queries come from x.",
        _layer(sources=lambda self, x, memory: (x, x, x)),
        0.25,
    ),
    Mistake(
        "x and memory exchanged",
        "The queries come from memory, keys and values from x. It's x that asks: one output for each of its positions.",
        _layer(sources=lambda self, x, memory: (memory, x, x)),
        0.25,
    ),
    Mistake(
        "maps exchanged",
        "The maps of queries and keys are exchanged: queries are self.query(x), keys are self.key(memory).",
        _Exchanged,
        0.5,
    ),
    Mistake(
        "no value map",
        "The values are memory itself. What a head passes on is self.value(memory), cut into heads.",
        _Unmapped,
        0.5,
    ),
    Mistake(
        "residual added",
        "x is added to the output. That's the residual connection, which comes later, around the layer; here only "
        "what the heads found was asked for.",
        _Residual,
        0.75,
    ),
    Mistake(
        "mask ignored",
        "The mask isn't used: heads also look where they may not.",
        _layer(softmax=staticmethod(lambda s, m: s.softmax(dim=-1))),
        0.5,
    ),
    Mistake(
        "mask the wrong way round",
        "The mask is read the wrong way round. In this book True means: may attend.",
        _layer(softmax=staticmethod(lambda s, m: _softmax(s, None if m is None else ~m))),
        0.5,
    ),
    Mistake(
        "mask after the softmax",
        "The mask comes after the softmax: forbidden keys have taken their share by then.",
        _layer(softmax=staticmethod(_late)),
        0.5,
    ),
    Mistake(
        "brought back to 1 after the softmax",
        "The mask comes after the softmax, and the rows are brought back to 1. Where a forbidden key's score is far "
        "above the others', these have next to nothing left that could be brought back: hide keys before the softmax.",
        _layer(softmax=staticmethod(_brought_back)),
        0.75,
    ),
    Mistake(
        "exp without the maximum",
        "exp is taken of the scores as they are. Far above 0 it overflows, and far below nothing is left of it: "
        "subtract the largest score of each row first, as softmax does.",
        _layer(softmax=staticmethod(_exp)),
        0.75,
    ),
    Mistake(
        "three axes taken for a batch",
        "A mask with three axes is taken for [batch query key]. It broadcasts to [batch heads query key], from the "
        "last axis on: its first axis is the heads'. Use it as it is.",
        _layer(softmax=staticmethod(lambda s, m: _softmax(s, m[:, None] if m is not None and m.dim() == 3 else m))),
        0.75,
    ),
    Mistake(
        "uniform where nothing is allowed",
        "A query that may attend to nothing gets equal weights for all keys, as from a fill with -1e9. Its weights are "
        "to be zero.",
        _layer(softmax=staticmethod(_filled(-1e9))),
        0.75,
    ),
    Mistake(
        "NaN where nothing is allowed",
        "A query that may attend to nothing gets NaN: a row of -inf has no softmax. Its weights are to be zero, as "
        "attention.attend makes them.",
        _layer(softmax=staticmethod(_filled(-math.inf))),
        0.75,
    ),
    Mistake(
        "mask must be there",
        "Without a mask it raises an error. The mask may be None.",
        _layer(softmax=staticmethod(_needs_mask)),
        0.5,
    ),
    Mistake(
        "softmax over the queries",
        "The softmax runs over the queries' axis. Each query shares out its attention over the keys: dim=-1.",
        _layer(softmax=staticmethod(_along(-2))),
        0.25,
    ),
    Mistake(
        "softmax over the heads",
        "The softmax runs over the heads, dim=1, so that heads compete. Each head has a softmax of its own: dim=-1.",
        _layer(softmax=staticmethod(_along(1))),
        0.25,
    ),
]


def _whole(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return one head's softmax; of a mask for each head, the first."""
    return _softmax(scores, mask if mask is None or mask.dim() < 4 else mask[:, :1])


# 3.4 a head by hand


def hand_cases(seed: int) -> list[Case]:
    """Return lengths and widths; the strength is no whole number and depends on the seed."""
    g = torch.Generator().manual_seed(seed + 3000)

    def case(name: str, length: int, d_content: int) -> Case:
        strength = 5 + float(torch.randint(1, 400, (1,), generator=g)) / 100 + 0.003
        return Case(name, {"length": length, "d_content": d_content, "strength": round(strength, 3)})

    square = pick(g, 3, 5)
    sizes_of = {"small": (3, 2), "long": (pick(g, 6, 9), 2), "wide": (3, pick(g, 5, 8)), "square": (square, square)}
    sizes_of |= {"two positions": (2, 3), "sizes from the seed": sizes(g, 2, 3, 8), "content of one number": (4, 1)}
    return [case(name, *size) for name, size in sizes_of.items()]


def by_hand(length: int, d_content: int, strength: float) -> tuple[Tensor, Tensor]:
    """Return the projections of a head that copies the previous token's content."""
    query = torch.zeros(length + d_content, length)
    query[:length] = strength * torch.eye(length).roll(1, 0).tril(-1)
    return query, torch.eye(length + d_content)[:, length:]


def by_hand_in_loops(length: int, d_content: int, strength: float) -> tuple[Tensor, Tensor]:
    """Return the same, number by number."""
    query, value = torch.zeros(length + d_content, length), torch.zeros(length + d_content, d_content)
    for i in range(1, length):
        query[i, i - 1] = strength
    for j in range(d_content):
        value[length + j, j] = 1.0
    return query, value


def by_hand_in_blocks(length: int, d_content: int, strength: float) -> tuple[Tensor, Tensor]:
    """Return the same in float64, from blocks."""
    shift = torch.diag(torch.full((length - 1,), strength, dtype=torch.float64), diagonal=-1)
    query = torch.cat([shift, torch.zeros(d_content, length)])
    return query, torch.cat([torch.zeros(length, d_content), torch.eye(d_content)]).double()


def _hand(
    shift: Callable[[Tensor], Tensor], value: Callable[[Tensor, int], Tensor] = lambda v, length: v
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the head with its block of W_q, or its W_v, replaced."""

    def answer(length: int, d_content: int, strength: float) -> tuple[Tensor, Tensor]:
        query, own = by_hand(length, d_content, strength)
        query[:length] = shift(query[:length].clone())
        return query, value(own, length)

    return answer


HAND_WRONG = [
    Mistake(
        "next token",
        "This head looks at the next token: row i of W_q is the query of position i, and its key is that of i - 1. The "
        "numbers belong below the diagonal.",
        _hand(lambda q: q.T),
        0.5,
    ),
    Mistake(
        "wraps around",
        "Position 0 has no token before it, but its query asks for the last one, as roll leaves it. Its row is to be "
        "zero.",
        lambda length, d_content, strength: (
            torch.cat([strength * torch.eye(length).roll(1, 0), torch.zeros(d_content, length)]),
            by_hand(length, d_content, strength)[1],
        ),
        0.75,
    ),
    Mistake(
        "each token itself",
        "Each query matches its own position's key: this head copies nothing from elsewhere. The query of position i "
        "must be the key of position i - 1.",
        _hand(lambda q: q.max() * torch.eye(q.size(0))),
        0.25,
    ),
    Mistake(
        "the first looks at itself",
        "The query of position 0 asks for itself. Its row was to be zero: it has no token before it.",
        _hand(lambda q: q + q.max() * torch.nn.functional.pad(torch.ones(1, 1), (0, len(q) - 1, 0, len(q) - 1))),
        0.75,
    ),
    Mistake(
        "strength left out",
        "The numbers in W_q are 1. The scores are then at most 1, and the softmax hardly prefers any key: multiply by "
        "strength.",
        _hand(lambda q: q / q.max()),
        0.5,
    ),
    Mistake(
        "strength divided by sqrt(d_k)",
        "The strength is divided by sqrt(d_k) already. The attention does that itself: once is enough.",
        _hand(lambda q: q / math.sqrt(len(q))),
        0.75,
    ),
    Mistake(
        "everyone before",
        "Each query matches all the keys before it. Only one was asked for: the previous one.",
        _hand(lambda q: q.max() * torch.ones_like(q).tril(-1)),
        0.5,
    ),
    Mistake(
        "positions passed on",
        "W_v passes on the wrong part of x: its first numbers, which tell the position. Content begins after `length` "
        "numbers.",
        _hand(lambda q: q, lambda v, length: torch.eye(len(v))[:, : v.size(1)]),
        0.5,
    ),
    Mistake(
        "as nn.Linear stores them",
        "Both are transposed, as nn.Linear stores its weight. Here x stands on the left, x @ W_q: one row for each "
        "number of x.",
        lambda *sizes: tuple(w.T for w in by_hand(*sizes)),
        0.75,
    ),
    Mistake(
        "W_v scaled, too",
        "W_v is multiplied by strength, too, so that the copied content comes out larger. Strength sharpens the "
        "softmax: it belongs in W_q alone.",
        lambda length, d_content, strength: (
            by_hand(length, d_content, strength)[0],
            by_hand(length, d_content, strength)[1] * strength,
        ),
        0.75,
    ),
    Mistake(
        "content asks, too",
        "The rows of W_q that belong to the content aren't zero. Then a query depends on what the token is, not only "
        "on where it stands.",
        lambda length, d_content, strength: (
            by_hand(length, d_content, strength)[0]
            + torch.nn.functional.pad(torch.ones(d_content, length), (0, 0, length, 0)),
            by_hand(length, d_content, strength)[1],
        ),
        0.5,
    ),
    Mistake(
        "W_v and W_q exchanged",
        "The two are returned in the wrong order: W_q first, then W_v.",
        lambda *sizes: by_hand(*sizes)[::-1],
        0.75,
    ),
]


# 3.5 which head matters


def head_cases(seed: int) -> list[Case]:
    """Return heads' outputs, W_o, and which positions are words."""
    g = torch.Generator().manual_seed(seed + 4000)

    def case(name: str, lengths: list[int], heads: int, d_k: int, d_model: int) -> Case:
        outputs = _draw(g, len(lengths), heads, max(lengths), d_k) * torch.arange(1, heads + 1)[:, None, None]
        real = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        return Case(name, {"outputs": outputs, "W_o": _draw(g, d_model, heads * d_k), "real": real})

    heads, d_k = sizes(g, 2, 2, 4)
    scattered = case("padding in between", [4, 4], heads, d_k, pick(g, 5, 8))
    scattered.inputs["real"] = torch.tensor([[True, False, True, True], [False, True, False, True]])
    return [
        case("small", [2], 2, 2, 4),
        case("padded batch", [4, 1, 2], 3, 2, 6),
        case("two sentences", [3, 3], 2, 3, 6),
        case("one head", [2, 1], 1, 3, 3),
        case("a wider model", [1, pick(g, 2, 4)], 2, 2, pick(g, 6, 9)),
        case("all sizes alike", [3, 1, 2], 3, 3, 9),
        case("a sentence without a word", [pick(g, 2, 3), 0], 2, 2, 5),
        scattered,
    ]


def _parts(outputs: Tensor, W_o: Tensor) -> Tensor:
    """Return what each head adds to the layer's output, [batch heads position d_model]."""
    return torch.einsum("bhnc,dhc->bhnd", outputs, W_o.unflatten(1, (outputs.size(1), -1)))


def importance(outputs: Tensor, W_o: Tensor, real: Tensor) -> Tensor:
    """Return the mean length of what each head adds, over the words."""
    return _parts(outputs, W_o).norm(dim=-1).transpose(1, 2)[real].mean(dim=0)


def importance_by_ablation(outputs: Tensor, W_o: Tensor, real: Tensor) -> Tensor:
    """Return the same as it is told: compute the output without each head, and compare."""
    whole, found = merge(outputs) @ W_o.T, []
    for head in range(outputs.size(1)):
        kept = outputs.clone()
        kept[:, head] = 0.0
        change = ((whole - merge(kept) @ W_o.T) ** 2).sum(dim=-1).sqrt()
        found.append((change * real).sum() / real.sum())
    return torch.stack(found)


def importance_by_slices(outputs: Tensor, W_o: Tensor, real: Tensor) -> Tensor:
    """Return the same from each head's columns of W_o, word by word."""
    d_k, found = outputs.size(-1), []
    for head in range(outputs.size(1)):
        columns = W_o[:, head * d_k : (head + 1) * d_k]
        words = [outputs[b, head, n] for b in range(len(real)) for n in range(real.size(1)) if real[b, n]]
        found.append(sum(torch.linalg.vector_norm(columns @ word) for word in words) / len(words))
    return torch.stack(found)


def _measured(measure: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return an importance from what heads add [batch heads position d_model], measured otherwise."""
    return lambda outputs, W_o, real: measure(_parts(outputs, W_o), real)


def _over_words(lengths: Tensor, real: Tensor) -> Tensor:
    return lengths.transpose(1, 2)[real].mean(dim=0)


def _mean_of_means(parts: Tensor, real: Tensor) -> Tensor:
    lengths = parts.norm(dim=-1) * real[:, None]
    return (lengths.sum(dim=-1) / real.sum(dim=-1, keepdim=True).clamp(min=1)).mean(dim=0)


def _rest(outputs: Tensor, W_o: Tensor) -> Tensor:
    parts = _parts(outputs, W_o)
    return parts.sum(dim=1, keepdim=True) - parts


def _others(outputs: Tensor, W_o: Tensor, real: Tensor) -> Tensor:
    return _over_words(_rest(outputs, W_o).norm(dim=-1), real)


IMPORTANCE_WRONG = [
    Mistake(
        "padding counted",
        "The average runs over padding, too. Only positions where `real` is True count.",
        _measured(lambda parts, real: parts.norm(dim=-1).mean(dim=(0, 2))),
        0.5,
    ),
    Mistake(
        "padding as zeros",
        "Padding is set to zero, but still counted in the average: divide by the number of words, real.sum().",
        _measured(lambda parts, real: (parts.norm(dim=-1) * real[:, None]).mean(dim=(0, 2))),
        0.5,
    ),
    Mistake(
        "mean of means",
        "Each sentence is averaged first, and then the sentences: a short sentence's words count for more. All words "
        "are to count alike.",
        _measured(_mean_of_means),
        0.75,
    ),
    Mistake(
        "without W_o",
        "This is the length of the heads' own outputs. What reaches the model is a head's output times its columns of "
        "W_o, which may be large or nearly nothing.",
        lambda outputs, W_o, real: _over_words(outputs.norm(dim=-1), real),
        0.25,
    ),
    Mistake(
        "the other heads",
        "This is how much all the other heads add together: the length of the output without the head. Its change was "
        "asked for: the output with the head minus that without it.",
        _others,
        0.25,
    ),
    Mistake(
        "difference of lengths",
        "These are differences of the output's lengths with and without the head. A vector can turn and keep its "
        "length: take the length of the difference.",
        lambda outputs, W_o, real: _over_words(
            (merge(outputs) @ W_o.T).norm(dim=-1)[:, None] - _rest(outputs, W_o).norm(dim=-1), real
        ),
        0.25,
    ),
    Mistake(
        "averaged over the features, too",
        "The average runs over the features, too: a vector's length is the root of the sum of its squares, not of "
        "their mean.",
        _measured(lambda parts, real: _over_words((parts**2).mean(dim=-1).sqrt(), real)),
        0.75,
    ),
    Mistake(
        "squares",
        "These are means of squared lengths: the root is missing.",
        _measured(lambda parts, real: _over_words((parts**2).sum(dim=-1), real)),
        0.75,
    ),
    Mistake(
        "sum of absolute values",
        "The changes' absolute values are summed. The length of a vector is the root of the sum of its squares.",
        _measured(lambda parts, real: _over_words(parts.abs().sum(dim=-1), real)),
        0.5,
    ),
    Mistake(
        "one long vector",
        "One length is taken of all words' changes together. Take the length at each word, then the average.",
        _measured(lambda parts, real: (parts * real[:, None, :, None]).transpose(0, 1).flatten(1).norm(dim=-1)),
        0.5,
    ),
    Mistake(
        "length of the mean",
        "The changes are averaged first and measured then, so that opposite ones cancel. Take the length at each word.",
        _measured(lambda parts, real: parts.transpose(1, 2)[real].mean(dim=0).norm(dim=-1)),
        0.5,
    ),
    Mistake(
        "rows of W_o",
        "W_o is cut into rows. A head owns d_k of its columns, since W_o is stored as nn.Linear stores it, [d_model "
        "heads*d_k], and applied by outputs @ W_o.T.",
        lambda outputs, W_o, real: _by_rows(outputs, W_o, real),
        0.25,
    ),
    Mistake(
        "every h-th column",
        "Head i takes every h-th column of W_o. Its columns are one block: from i * d_k to (i + 1) * d_k.",
        lambda outputs, W_o, real: importance(
            outputs, W_o.unflatten(1, (-1, outputs.size(1))).transpose(1, 2).flatten(1), real
        ),
        0.5,
    ),
    Mistake(
        "shares",
        "The numbers are divided by their sum. Lengths were asked for, not shares.",
        lambda *inputs: importance(*inputs) / importance(*inputs).sum(),
        0.75,
    ),
    Mistake(
        "summed over the words",
        "The lengths are summed over the words. Their mean was asked for.",
        _measured(lambda parts, real: (parts.norm(dim=-1) * real[:, None]).sum(dim=(0, 2))),
        0.75,
    ),
]


def _by_rows(outputs: Tensor, W_o: Tensor, real: Tensor) -> Tensor:
    heads, d_k = outputs.size(1), outputs.size(-1)
    parts = [outputs[:, h] @ W_o[h * d_k : (h + 1) * d_k] for h in range(heads)]
    return _over_words(torch.stack(parts, dim=1).norm(dim=-1), real)


# 3.6 counting parameters


def count_cases(seed: int) -> list[Case]:
    """Return sizes that fit and sizes that don't."""
    g = torch.Generator().manual_seed(seed + 5000)
    width, few = 2 * pick(g, 2, 8), pick(g, 3, 7)
    uneven, odd = few * pick(g, 4, 9) + pick(g, 1, few - 1), 2 * pick(g, 2, 9) + 1
    many, pairs, less = pick(g, 5, 9), pick(g, 3, 5), pick(g, 2, 6)
    rest, heads = many * pick(g, 4, 9) + pick(g, 1, many - 1), pairs * pick(g, 1, 3) + pick(g, 1, pairs - 1)
    more = less * pick(g, 2, 4)

    def case(name: str, d_model: int, heads: int, shared: int, bias: bool, wrong: tuple[int, ...] = ()) -> Case:
        inputs = {"d_model": d_model, "heads": heads, "key_value_heads": shared, "bias": bias}
        return Case(name, inputs, mentions=tuple(map(str, wrong)), telling="both numbers" if wrong else "")

    return [
        case("every head has its own", 4 * width, 4, 4, False),
        case("with biases", 4 * width, 4, 4, True),
        case("keys and values shared", 8 * width, 8, 2, False),
        case("shared, with biases", 6 * width, 6, 2, True),
        case("one pair for all", 3 * width, 3, 1, True),
        case("one head", width, 1, 1, True),
        case("three pairs", 9 * width, 9, 3, False),
        case("an odd width", 3 * odd, 3, 1, False),
        case("one pair of width 1", few, few, 1, True),
        case("heads don't divide the width", rest, many, many, False, (rest, many)),
        case("heads don't divide the width, one pair", uneven, few, 1, True, (uneven, few)),
        case("wider heads than the model", few, few + 2, 1, False, (few, few + 2)),
        case("heads can't share evenly", heads * pick(g, 4, 12), heads, pairs, False, (heads, pairs)),
        case("more pairs than heads", more * pick(g, 3, 8), less, more, True, (less, more)),
    ]


def count(d_model: int, heads: int, key_value_heads: int, bias: bool) -> int:
    """Return the number of parameters, from the shapes."""
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    if heads % key_value_heads:
        raise ValueError(f"key_value_heads must divide heads, got {key_value_heads} and {heads}")
    shared = d_model // heads * key_value_heads
    return 2 * (d_model + bias) * d_model + 2 * (d_model + bias) * shared


def count_by_layers(d_model: int, heads: int, key_value_heads: int, bias: bool) -> int:
    """Return the same from layers of that shape."""
    if heads * (d_model // heads) != d_model or key_value_heads * (heads // key_value_heads) != heads:
        raise ValueError(f"{d_model}, {heads} and {key_value_heads} don't fit")
    widths = [d_model, *[d_model // heads * key_value_heads] * 2, d_model]
    layers = [nn.Linear(d_model, width, bias=bias) for width in widths]
    return sum(p.numel() for layer in layers for p in layer.parameters())


def _counted(number: Callable[[int, int, int, int], int]) -> Callable[..., int]:
    """Return a count that checks its arguments rightly, but counts otherwise; it is given 0 or 1 for the bias."""

    def answer(d_model: int, heads: int, key_value_heads: int, bias: bool) -> int:
        count(d_model, heads, key_value_heads, bias)
        return number(d_model, d_model // heads, key_value_heads, int(bias))

    return answer


def _unchecked(d_model: int, heads: int, key_value_heads: int, bias: bool) -> int:
    return 2 * (d_model + bias) * (d_model + d_model // heads * key_value_heads)


def _first_only(d_model: int, heads: int, key_value_heads: int, bias: bool) -> int:
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    return _unchecked(d_model, heads, key_value_heads, bias)


COUNT_WRONG = [
    Mistake(
        "times the heads",
        "Every head is counted as wide as the model. They share the width: each has d_k = d_model / heads columns of "
        "W_q, so that all together have d_model, whatever their number.",
        _counted(lambda d, k, shared, bias: (d // k) * 2 * (d + bias) * d + shared * 2 * (d + bias) * d),
        0.25,
    ),
    Mistake(
        "no output projection",
        "The output projection W_o isn't counted. It's as large as W_q.",
        _counted(lambda d, k, shared, bias: (d + bias) * d + 2 * (d + bias) * k * shared),
        0.5,
    ),
    Mistake(
        "nothing shared",
        "Keys and values are counted as if each head had its own. There are only key_value_heads of them, d_k wide.",
        _counted(lambda d, k, shared, bias: 4 * (d + bias) * d),
        0.25,
    ),
    Mistake(
        "biases forgotten",
        "The biases aren't counted: each layer has one for each of its outputs.",
        _counted(lambda d, k, shared, bias: 2 * d * d + 2 * d * k * shared),
        0.5,
    ),
    Mistake(
        "d_model biases everywhere",
        "Each layer is counted with d_model biases. The shared keys and values have fewer outputs, so fewer biases.",
        _counted(lambda d, k, shared, bias: 2 * d * d + 2 * d * k * shared + 4 * d * bias),
        0.75,
    ),
    Mistake(
        "output shared, too",
        "W_o is counted as narrow as the keys. It takes the outputs of all the heads, d_model numbers.",
        _counted(lambda d, k, shared, bias: (d + bias) * d + 2 * (d + bias) * k * shared + (k * shared + bias) * d),
        0.5,
    ),
    Mistake(
        "one head's width",
        "Only one head's keys and values are counted. There are key_value_heads of them.",
        _counted(lambda d, k, shared, bias: 2 * (d + bias) * (d + k)),
        0.5,
    ),
    Mistake(
        "nothing checked",
        "Sizes that don't fit get a number. No layer of that shape could be built: raise ValueError.",
        _unchecked,
        0.5,
    ),
    Mistake(
        "only the width checked",
        "That heads divide d_model is checked, but not that key_value_heads divides heads.",
        _first_only,
        0.75,
    ),
    Mistake(
        "assert",
        "Sizes are checked by assert. Python leaves assertions out when it runs with -O: raise ValueError.",
        with_errors(count, lambda error: AssertionError(str(error))),
        0.75,
    ),
    Mistake(
        "an error that doesn't tell",
        "ValueError is right, but its text doesn't hold the two numbers that don't fit together.",
        with_errors(count, lambda error: ValueError("sizes don't fit")),
        0.75,
    ),
]


PROBES = [
    Probe(
        id="3.1",
        title="one vector, many heads",
        kind="function",
        entry="split_heads",
        points=3,
        minutes=10,
        difficulty=1,
        cases=split_cases,
        reference=split,
        right={"a slice for each head": split_by_loop, "chunks": split_by_chunk},
        wrong=SPLIT_WRONG,
        replaces="multi_head.split_heads",
    ),
    Probe(
        id="3.2",
        title="a bug in the way back",
        kind="bug",
        entry="merge_heads",
        points=3,
        minutes=8,
        difficulty=1,
        cases=merge_cases,
        reference=merge,
        right={
            "head after head": lambda x: torch.cat([x[:, h] for h in range(x.size(1))], dim=-1),
            "permute and reshape": lambda x: x.permute(0, 2, 1, 3).reshape(x.size(0), x.size(2), -1),
        },
        wrong=MERGE_WRONG,
        replaces="multi_head.merge_heads",
    ),
    Probe(
        id="3.3",
        title="multi-head attention",
        kind="module",
        entry="MultiHeadAttention",
        points=6,
        minutes=20,
        difficulty=2,
        cases=layer_cases,
        reference=Layer,
        original=("multi_head.MultiHeadAttention", "experiments.modern.GroupedQueryAttention", "fast.packed_attention"),
        right={"head after head": LayerByHead, "einsum": LayerByEinsum},
        wrong=LAYER_WRONG,
    ),
    Probe(
        id="3.4",
        title="a head with weights set by hand",
        kind="function",
        entry="previous_token_head",
        points=4,
        minutes=15,
        difficulty=2,
        cases=hand_cases,
        reference=by_hand,
        right={"loops": by_hand_in_loops, "blocks": by_hand_in_blocks},
        wrong=HAND_WRONG,
    ),
    Probe(
        id="3.5",
        title="which head would be missed?",
        kind="function",
        entry="head_importance",
        points=5,
        minutes=20,
        difficulty=3,
        cases=head_cases,
        reference=importance,
        right={"by taking heads out": importance_by_ablation, "word by word": importance_by_slices},
        wrong=IMPORTANCE_WRONG,
    ),
    Probe(
        id="3.6",
        title="what heads cost",
        kind="error",
        entry="parameter_count",
        points=4,
        minutes=12,
        difficulty=2,
        cases=count_cases,
        reference=count,
        right={"layers": count_by_layers, "in floats": lambda *sizes: round(float(count(*sizes)))},
        wrong=COUNT_WRONG,
    ),
]

QUESTIONS = [
    Question(
        id="3.7",
        title="do many heads save anything?",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "how the number of parameters depends on the number of heads", "not at all, with d_k = d_model / h"),
            (1, "how the number of multiplications depends on it", "scores and mixing cost n^2 d_model whatever h is"),
            (1, "what does grow with the number of heads", "the weights that are stored: h maps of n x n"),
            (1, "what a head loses as there are more of them", "its width: rank at most d_k of the scores' matrix"),
        ),
    ),
    Question(
        id="3.8",
        title="a head that nobody misses",
        points=4,
        minutes=12,
        difficulty=3,
        rubric=(
            (1, "what taking out one head at a time can't show", "two heads that stand in for each other: each alone"),
            (1, "a measurement that would show it", "take out pairs, or greedily, each time measuring again"),
            (1, "what the change in the loss tells that the change in the output doesn't", "large but useless changes"),
            (1, "on which data, and how often, it must be measured", "held-out sentences, several seeds, the spread"),
        ),
    ),
]
