"""What chapter 06's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib import layers, multi_head
from transformer_lib.exercises.authoring import draw, guarded, pick, probe, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Question


def _tril(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def _real(lengths: list[int], longest: int) -> Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


# 6.1 the decoder layer


def _state(g: torch.Generator, d_model: int, d_ff: int) -> dict[str, Tensor]:
    parts = [f"{kind}_attention.{part}.weight" for kind in ("self", "cross") for part in PROJECTIONS]
    state = {part: draw(g, d_model, d_model, scale=0.6) for part in parts}
    state |= {"feed_forward.inner.weight": draw(g, d_ff, d_model), "feed_forward.inner.bias": draw(g, d_ff)}
    state |= {"feed_forward.outer.weight": draw(g, d_model, d_ff), "feed_forward.outer.bias": draw(g, d_model)}
    for number in range(3):
        state[f"residuals.{number}.norm.weight"] = draw(g, d_model, mean=1.2, scale=0.4)
        state[f"residuals.{number}.norm.bias"] = draw(g, d_model, scale=0.4)
    return state


PROJECTIONS = ("query", "key", "value", "output")
CACHES = ("KeyValueCache", "MemoryCache")


def layer_cases(seed: int) -> list[Case]:
    """Return layers of both kinds of norm, with masks of several shapes and without, with caches, and in training.

    In one, both sentences are of one length. In training nearly everything is dropped: what then comes out is certain.
    """
    g = torch.Generator().manual_seed(seed)

    def case(
        name: str, shape: tuple[int, int, int], heads: int, norm: str, dropout: float | None = None, **more: Any
    ) -> Case:
        batch, n, m = shape
        d_model, d_ff = max(2 * heads, 3), pick(g, 3, 5)
        inputs = {"x": draw(g, batch, n, d_model), "memory": draw(g, batch, m, d_model, mean=0.4)} | more
        constructor = {"d_model": d_model, "heads": heads, "d_ff": d_ff, "norm": norm}
        constructor |= {} if dropout is None else {"dropout": dropout}
        return Case(name, inputs, constructor, _state(g, d_model, d_ff))

    long, short = pick(g, 4, 6), sizes(g, 2, 2, 3)
    real = _real([3, 2], 4)[:, None, None, :]
    window = torch.stack([_tril(3), _tril(3).triu(-1)])  # one for each head
    padded = _tril(2) & _real([2, 1], 2)[:, None, None, :]
    late = real & torch.ones(2, 4, dtype=torch.bool).tril(1)  # while the source is still being read
    recent = {"mask": _tril(4).triu(-1), "memory_mask": _real([short[1]], 4)[:, None, None, :]}
    return [
        case("small, pre-norm", (1, short[0], short[1]), 2, "pre"),
        case("post-norm", (1, short[1], long), 2, "post"),
        case("both masks", (2, 3, 4), 2, "pre", 0.4, mask=_tril(3), memory_mask=real),
        case("both masks, one length", (2, 3, 3), 2, "post", mask=window, memory_mask=real[..., 1:4]),
        case("the memory's mask alone", (2, 2, 4), 2, "pre", mask=None, memory_mask=late),
        case("the target's mask alone", (2, 2, short[0]), 3, "post", mask=padded),
        case("in steps, with caches", (2, short[0], 4), 2, "pre", mask=None, memory_mask=real, caches=CACHES),
        case("a prompt of three, then a step", (1, 4, 4), 2, "post", **recent, caches=CACHES, prompt=3),
        case("in training, pre-norm", (1, short[0], short[1]), 1, "pre", NEARLY_ALL, training=True),
        case("in training, post-norm", (1, short[1], short[0]), 1, "post", NEARLY_ALL, training=True),
    ]


NEARLY_ALL = 0.9999999  # as a dropout; 1 isn't allowed


Cache = multi_head.KeyValueCache | None


class Layer(nn.Module):
    """The right layer, in steps, each of which a mistake can replace."""

    def __init__(self, d_model: int, heads: int, d_ff: int, norm: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = (multi_head.MultiHeadAttention(d_model, heads) for _ in range(2))
        self.feed_forward = layers.FeedForward(d_model, d_ff)
        self.residuals = nn.ModuleList(layers.Residual(d_model, dropout, norm) for _ in range(3))

    def around(self, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a sub-layer's output in its residual connection."""
        return self.residuals[number](x, sublayer)

    def own(self, y: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Return what the target finds in itself."""
        return self.self_attention(y, y, mask, self.caches[0])

    def cross(self, y: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Return what the target finds in the memory."""
        return self.cross_attention(y, memory, memory_mask, self.caches[1])

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        caches: tuple[Cache, Cache] = (None, None),
    ) -> Tensor:
        """Return what the three sub-layers make of the target, `steps`, with the caches at hand."""
        self.caches = caches
        return self.steps(x, memory, mask, memory_mask)

    def steps(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Return the target's vectors after the three sub-layers."""
        x = self.around(0, x, lambda y: self.own(y, memory, mask, memory_mask))
        x = self.around(1, x, lambda y: self.cross(y, memory, mask, memory_mask))
        return self.around(2, x, self.feed_forward)


class LayerInFull(Layer):
    """The right layer with the norm's two places written out."""

    def steps(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Return the same."""
        first, second, third = (residual.norm for residual in self.residuals)
        drop = self.residuals[0].dropout
        if self.residuals[0].norm_first:
            y = first(x)
            x = x + drop(self.self_attention(y, y, mask, self.caches[0]))
            x = x + drop(self.cross_attention(second(x), memory, memory_mask, self.caches[1]))
            return x + drop(self.feed_forward(third(x)))
        x = first(x + drop(self.self_attention(x, x, mask, self.caches[0])))
        x = second(x + drop(self.cross_attention(x, memory, memory_mask, self.caches[1])))
        return third(x + drop(self.feed_forward(x)))


class LayerByHead(Layer):
    """The right layer without the library's attention: head after head, weights and all."""

    def own(self, y: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Return the same."""
        return _by_head(self.self_attention, y, y, mask, self.caches[0])

    def cross(self, y: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        """Return the same."""
        return _by_head(self.cross_attention, y, memory, memory_mask, self.caches[1])


def _by_head(attention: nn.Module, x: Tensor, memory: Tensor, mask: Tensor | None, cache: Cache) -> Tensor:
    project = attention.keys_and_values
    key, value = project(memory) if cache is None else cache(memory, project, x.size(1))
    found, d_k = [], x.size(-1) // attention.heads
    allowed = torch.tensor(True) if mask is None else mask
    allowed = allowed.expand(len(x), attention.heads, x.size(1), key.size(2))
    for head in range(attention.heads):
        part = slice(head * d_k, (head + 1) * d_k)
        scores = torch.einsum("bnc,bmc->bnm", attention.query(x)[..., part], key[:, head]) * d_k**-0.5
        scores = scores.masked_fill(~allowed[:, head], -math.inf)
        found.append(scores.softmax(dim=-1) @ value[:, head])
    return attention.output(torch.cat(found, dim=-1))


def _layer(**changes: Callable[..., Any]) -> type[Layer]:
    """Return the layer with some of its steps replaced."""
    return type("DecoderLayer", (Layer,), changes)


def _no_residual(*without: int) -> Callable[..., Tensor]:
    """Return a step that adds nothing around some of the sub-layers."""

    def around(self: Layer, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        residual = self.residuals[number]
        if number not in without:
            return residual(x, sublayer)
        return sublayer(residual.norm(x)) if residual.norm_first else residual.norm(sublayer(x))

    return around


def _placed(first: Callable[[bool], bool]) -> Callable[..., Tensor]:
    """Return a step whose norm stands before the sub-layer where `first` says so of what was asked for."""

    def around(self: Layer, number: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        norm = self.residuals[number].norm
        return x + sublayer(norm(x)) if first(self.residuals[number].norm_first) else norm(x + sublayer(x))

    return around


def _only_causal(self: Layer, y: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
    return self.self_attention(y, y, None if mask is None else _tril(y.size(1)), self.caches[0])


class _CrossFirst(Layer):
    def steps(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        x = self.around(0, x, lambda y: self.cross(y, memory, mask, memory_mask))
        x = self.around(1, x, lambda y: self.own(y, memory, mask, memory_mask))
        return self.around(2, x, self.feed_forward)


class _FromTheStart(Layer):
    def steps(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        own = self.around(0, x, lambda y: self.own(y, memory, mask, memory_mask))
        start = self.residuals[1].norm(x) if self.residuals[1].norm_first else x
        found = self.around(1, own, lambda y: self.cross(start, memory, mask, memory_mask))
        return self.around(2, found, self.feed_forward)


class _NoFeedForward(Layer):
    def steps(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        x = self.around(0, x, lambda y: self.own(y, memory, mask, memory_mask))
        return self.around(1, x, lambda y: self.cross(y, memory, mask, memory_mask))


class _NoCross(Layer):
    def steps(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        x = self.around(0, x, lambda y: self.own(y, memory, mask, memory_mask))
        return self.around(2, x, self.feed_forward)


def _uncached(
    self: Layer,
    x: Tensor,
    memory: Tensor,
    mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    caches: tuple[Cache, Cache] = (None, None),
) -> Tensor:
    return self.steps(x, memory, mask, memory_mask)


def _memory_asks(self: Layer, y: Tensor, memory: Tensor) -> Tensor:
    if y.size(1) == 1:
        raise ValueError("the memory isn't that of the first call")  # so says the memory's cache at the second step
    return self.cross_attention(memory, y)


LAYER_WRONG = [
    Mistake(
        "target mask in cross-attention",
        "The cross-attention gets the target's mask. Its keys are the source's: `memory_mask` says which of them are "
        "words. (With sentences of one length nobody complains, and each target word is kept from most of the source.)",
        _layer(cross=lambda self, y, memory, mask, memory_mask: self.cross_attention(y, memory, mask, self.caches[1])),
        0.5,
    ),
    Mistake(
        "masks exchanged",
        "The two masks are exchanged: `mask` is for the target's self-attention, `memory_mask` for the memory.",
        _layer(
            own=lambda self, y, memory, mask, memory_mask: self.self_attention(y, y, memory_mask, self.caches[0]),
            cross=lambda self, y, memory, mask, memory_mask: self.cross_attention(y, memory, mask, self.caches[1]),
        ),
        0.5,
    ),
    Mistake(
        "memory's mask left out",
        "The cross-attention has no mask: it also reads the source's padding. Hand `memory_mask` on.",
        _layer(cross=lambda self, y, memory, mask, memory_mask: self.cross_attention(y, memory, None, self.caches[1])),
        0.5,
    ),
    Mistake(
        "target's mask left out",
        "The self-attention has no mask: each target word sees the words that it's to predict. Hand `mask` on.",
        _layer(own=lambda self, y, memory, mask, memory_mask: self.self_attention(y, y, None, self.caches[0])),
        0.5,
    ),
    Mistake(
        "no mask at all",
        "Neither mask is used: the target sees its future, and the source's padding is read.",
        _layer(
            own=lambda self, y, memory, mask, memory_mask: self.self_attention(y, y, None, self.caches[0]),
            cross=lambda self, y, memory, mask, memory_mask: self.cross_attention(y, memory, None, self.caches[1]),
        ),
        0.25,
    ),
    Mistake(
        "no mask with caches",
        "With caches the target's mask isn't handed on. A prompt of several words may come in one call, and each of "
        "them must see no later one: hand `mask` on in any case.",
        _layer(
            own=lambda self, y, memory, mask, memory_mask: self.self_attention(
                y, y, mask if self.caches[0] is None else None, self.caches[0]
            )
        ),
        0.75,
    ),
    Mistake(
        "a causal mask of its own",
        "A causal mask is made in place of the one that's passed. `mask` may hide more, such as padding or what is far "
        "away: hand it on as it is.",
        _layer(own=_only_causal),
        0.5,
    ),
    Mistake(
        "memory not used",
        "The second attention looks at the target again: keys and values come from x, so that nothing of the source "
        "ever arrives. Its second argument is the memory.",
        _layer(cross=lambda self, y, memory, mask, memory_mask: self.cross_attention(y, y, mask, self.caches[1])),
        0.25,
    ),
    Mistake(
        "attention to the memory left out",
        "The second sub-layer is missing: this is an encoder's layer, and the source never arrives.",
        _NoCross,
        0.25,
    ),
    Mistake(
        "the memory asks",
        "Queries come from the memory, keys and values from the target: one output for each source word. It's the "
        "target that asks.",
        _layer(cross=lambda self, y, memory, mask, memory_mask: _memory_asks(self, y, memory)),
        0.25,
    ),
    Mistake(
        "the memory asks, masked",
        "The memory asks the target: exchange the two.",
        _layer(
            cross=lambda self, y, memory, mask, memory_mask: self.cross_attention(
                memory, y, memory_mask, self.caches[1]
            )
        ),
        0.25,
    ),
    Mistake(
        "one attention for both",
        "The memory is read with the matrices of self_attention, where cross_attention has four of its own.",
        _layer(cross=lambda self, y, memory, mask, seen: self.self_attention(y, memory, seen, self.caches[1])),
        0.5,
    ),
    Mistake(
        "memory normalised",
        "The norm is applied to the memory, too. The encoder's last norm has seen to that; here it's the target's "
        "vectors alone that are normalised.",
        _layer(
            cross=lambda self, y, memory, mask, memory_mask: self.cross_attention(
                y, self.residuals[1].norm(memory), memory_mask, self.caches[1]
            )
        ),
        0.5,
    ),
    Mistake(
        "no residual around the memory",
        "What is found in the memory replaces the target's vectors, where it should be added to them: the words "
        "written so far are lost.",
        _layer(around=_no_residual(1)),
        0.5,
    ),
    Mistake(
        "no residuals",
        "Each sub-layer's output replaces its input. Put each into its residual connection: x + ...",
        _layer(around=_no_residual(0, 1, 2)),
        0.25,
    ),
    Mistake(
        "no residual around the feed-forward",
        "The feed-forward network's output isn't added to its input. It has a residual connection as the attentions "
        "do.",
        _layer(around=_no_residual(2)),
        0.5,
    ),
    Mistake(
        "memory first",
        "The memory is read before the target has looked at itself. First self-attention: the query should know the "
        "words so far.",
        _CrossFirst,
        0.5,
    ),
    Mistake(
        "queries from the layer's input",
        "The memory is asked by the layer's input, not by what the self-attention has made of it. Each sub-layer reads "
        "what the one before returned.",
        _FromTheStart,
        0.5,
    ),
    Mistake(
        "feed-forward left out",
        "The feed-forward network is missing: three sub-layers, not two.",
        _NoFeedForward,
        0.5,
    ),
    Mistake(
        "one norm for all",
        "The first residual connection is used three times, so that all share one norm. There are three: residuals[0], "
        "[1] and [2].",
        _layer(around=lambda self, number, x, sublayer: self.residuals[0](x, sublayer)),
        0.5,
    ),
    Mistake(
        "dropout left out",
        "In training nothing is dropped. `self.residuals[i](x, sublayer)` sees to that; if you write the connection "
        "out yourself, put what the sub-layer returns through `self.residuals[i].dropout` before it's added.",
        _layer(around=_placed(lambda first: first)),
        0.75,
    ),
    Mistake(
        "caches not handed on",
        "The caches aren't handed on as they should be: caches[0] to the self-attention, caches[1] to the attention to "
        "the memory. Without them each new word would see itself alone when chapter 08 decodes.",
        type("DecoderLayer", (Layer,), {"caches": (None, None), "forward": _uncached}),
        0.75,
    ),
    Mistake(
        "pre-norm always",
        "The norm always stands before the sub-layer. `norm` may be post: then it stands after the addition.",
        _layer(around=_placed(lambda first: True)),
        0.5,
    ),
    Mistake(
        "post-norm always",
        "The norm always stands after the addition. `norm` may be pre: then the sub-layer reads normalised vectors, "
        "and what it returns is added to x as it is.",
        _layer(around=_placed(lambda first: False)),
        0.5,
    ),
]


# 6.2 the norm's two places


def residual_cases(seed: int) -> list[Case]:
    """Return vectors of several sizes.

    In some cases they are so small that the epsilon counts; in some their squares are too large for float32's digits.
    """
    g = torch.Generator().manual_seed(seed + 1000)

    def case(name: str, norm: str, shape: list[int], scale: float = 1.0) -> Case:
        d_model = shape[2]
        x = draw(g, *shape, mean=0.6) * scale
        inputs = {"x": x, "W": draw(g, d_model, d_model, scale=0.7)}
        inputs |= {"gain": draw(g, d_model, mean=1.3, scale=0.4), "shift": draw(g, d_model, scale=0.5)}
        return Case(name, inputs | {"norm": norm})

    def far(name: str, norm: str, n: int) -> Case:
        made = case(name, norm, [1, n, 4])
        apart = torch.stack([torch.randperm(4, generator=g) * 10 for _ in range(n)])
        apart = apart + torch.randint(0, 16, (n, 4), generator=g) / 4
        made.inputs["x"] = (5000 + apart)[None]  # in quarters, so that sums are exact in any order
        W = torch.randint(-1, 2, (4, 4), generator=g) / 4
        W[3] = -W[:3].sum(dim=0)  # the sums stay as far from 0, all alike
        made.inputs["W"] = W
        return made

    return [
        case("small, post-norm", "post", [1, 2, 3]),
        case("small, pre-norm", "pre", [1, 3, 4]),
        case("batch, post-norm", "post", sorted(sizes(g, 3))),
        case("batch, pre-norm", "pre", sorted(sizes(g, 3))),
        case("tiny vectors, post-norm", "post", [2, 1, 4], 0.005),
        case("tiny vectors, pre-norm", "pre", [2, 3, 5], 0.005),
        far("numbers far from 0, post-norm", "post", pick(g, 2, 3)),
        far("numbers far from 0, pre-norm", "pre", pick(g, 2, 3)),
    ]


EPS = 1e-5


def _normal(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    mean, variance = x.mean(dim=-1, keepdim=True), x.var(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + EPS) * gain + shift


def residual(x: Tensor, W: Tensor, gain: Tensor, shift: Tensor, norm: str) -> Tensor:
    """Return the right sum, with its norm."""
    if norm == "pre":
        return x + _normal(x, gain, shift) @ W
    return _normal(x + x @ W, gain, shift)


def residual_by_torch(x: Tensor, W: Tensor, gain: Tensor, shift: Tensor, norm: str) -> Tensor:
    """Return the same by PyTorch's own norm."""
    own = nn.functional.layer_norm
    read = own(x, gain.shape, gain, shift) if norm == "pre" else x
    total = x + torch.einsum("bnd,de->bne", read, W)
    return total if norm == "pre" else own(total, gain.shape, gain, shift)


def residual_by_loop(x: Tensor, W: Tensor, gain: Tensor, shift: Tensor, norm: str) -> Tensor:
    """Return the same, token by token."""

    def normal(v: Tensor) -> Tensor:
        mean = v.sum() / len(v)
        return gain * (v - mean) * ((v - mean).square().sum() / len(v) + EPS).rsqrt() + shift

    pre = norm == "pre"
    rows = [[token + normal(token) @ W if pre else normal(token + token @ W) for token in row] for row in x]
    return torch.stack([torch.stack(row) for row in rows])


def _with(normal: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return the right places for another norm."""

    def answer(x: Tensor, W: Tensor, gain: Tensor, shift: Tensor, norm: str) -> Tensor:
        return x + normal(x, gain, shift) @ W if norm == "pre" else normal(x + x @ W, gain, shift)

    return answer


def _over(*axes: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a norm whose mean and variance are taken over other axes."""

    def normal(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        mean, variance = x.mean(dim=axes, keepdim=True), x.var(dim=axes, keepdim=True, unbiased=False)
        return (x - mean) / torch.sqrt(variance + EPS) * gain + shift

    return normal


def _divided(size: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a norm that divides by another number."""
    return lambda x, gain, shift: (x - x.mean(dim=-1, keepdim=True)) / size(x) * gain + shift


RESIDUAL_WRONG = [
    Mistake(
        "pre and post exchanged",
        "The two are exchanged. Post, as in the paper: norm(x + sublayer(x)). Pre: x + sublayer(norm(x)).",
        lambda x, W, gain, shift, norm: residual(x, W, gain, shift, "post" if norm == "pre" else "pre"),
        0.5,
    ),
    Mistake(
        "always post",
        "The norm always stands after the addition. With norm = pre it stands before the sub-layer.",
        lambda x, W, gain, shift, norm: residual(x, W, gain, shift, "post"),
        0.5,
    ),
    Mistake(
        "always pre",
        "The norm always stands before the sub-layer. With norm = post it stands after the addition.",
        lambda x, W, gain, shift, norm: residual(x, W, gain, shift, "pre"),
        0.5,
    ),
    Mistake(
        "the norm on the bypass, too",
        "With norm = pre the normalised vectors are added where x itself should be: norm(x) + sublayer(norm(x)). The "
        "bypass of pre-norm is free of norms; that's its point.",
        lambda x, W, gain, shift, norm: (
            _normal(x, gain, shift) + _normal(x, gain, shift) @ W
            if norm == "pre"
            else residual(x, W, gain, shift, norm)
        ),
        0.5,
    ),
    Mistake(
        "the norm on what is added",
        "The sub-layer's output is normalised, and x is added to that. Post-norm normalises the sum, pre-norm the "
        "sub-layer's input.",
        lambda x, W, gain, shift, norm: x + _normal(x @ W, gain, shift),
        0.25,
    ),
    Mistake(
        "normalised twice",
        "With norm = post the sub-layer reads normalised vectors as well. It reads x; the norm comes at the end only.",
        lambda x, W, gain, shift, norm: (
            _normal(x + _normal(x, gain, shift) @ W, gain, shift)
            if norm == "post"
            else residual(x, W, gain, shift, norm)
        ),
        0.5,
    ),
    Mistake(
        "no residual",
        "x isn't added: the sub-layer's output replaces its input.",
        lambda x, W, gain, shift, norm: _normal(x, gain, shift) @ W if norm == "pre" else _normal(x @ W, gain, shift),
        0.25,
    ),
    Mistake(
        "no norm",
        "Nothing is normalised: this is x + sublayer(x).",
        lambda x, W, gain, shift, norm: x + x @ W,
    ),
    Mistake(
        "divided by d_model - 1",
        "The variance is divided by d_model - 1, as torch.var does unless told otherwise. A LayerNorm divides by "
        "d_model: unbiased=False.",
        _with(_divided(lambda x: torch.sqrt(x.var(dim=-1, keepdim=True) + EPS))),
        0.75,
    ),
    Mistake(
        "epsilon outside the root",
        "The epsilon is added to the standard deviation. It's added to the variance, before the root: with small "
        "vectors that's another number.",
        _with(_divided(lambda x: x.std(dim=-1, keepdim=True, unbiased=False) + EPS)),
        0.75,
    ),
    Mistake(
        "no epsilon",
        "The epsilon is missing: small vectors come out too large, and a vector whose numbers are all alike as NaN.",
        _with(_divided(lambda x: x.std(dim=-1, keepdim=True, unbiased=False))),
        0.75,
    ),
    Mistake(
        "d_model - 1 and epsilon outside",
        "Two slips at once, as in a well-known tutorial: the variance is divided by d_model - 1, and the epsilon is "
        "added after the root.",
        _with(_divided(lambda x: x.std(dim=-1, keepdim=True) + EPS)),
        0.5,
    ),
    Mistake(
        "divided by the variance",
        "Numbers are divided by the variance. It's the standard deviation, its root.",
        _with(_divided(lambda x: x.var(dim=-1, keepdim=True, unbiased=False) + EPS)),
        0.5,
    ),
    Mistake(
        "over the positions",
        "Mean and variance are taken over the positions. A LayerNorm looks at one token alone: dim=-1.",
        _with(_over(1)),
        0.25,
    ),
    Mistake(
        "over the batch",
        "Mean and variance are taken over the sentences of the batch, as a batch norm does: dim=-1 is each token's "
        "own.",
        _with(_over(0)),
        0.25,
    ),
    Mistake(
        "over the whole sentence",
        "Mean and variance are taken over all tokens of a sentence together. Each token has its own: dim=-1.",
        _with(_over(1, 2)),
        0.25,
    ),
    Mistake(
        "mean not subtracted",
        "The mean isn't subtracted. (That's an RMSNorm, of chapter 11.)",
        _with(lambda x, gain, shift: x * (x.square().mean(dim=-1, keepdim=True) + EPS).rsqrt() * gain + shift),
        0.5,
    ),
    Mistake(
        "gain and shift left out",
        "`gain` and `shift` aren't used: the normalised numbers are multiplied by the one, and the other is added.",
        _with(lambda x, gain, shift: _normal(x, torch.ones_like(gain), torch.zeros_like(shift))),
        0.5,
    ),
    Mistake(
        "shift left out",
        "`shift` isn't added.",
        _with(lambda x, gain, shift: _normal(x, gain, torch.zeros_like(shift))),
        0.75,
    ),
]


# 6.3 a cross-attention that works as long as both sentences are of one length


def cross_cases(seed: int) -> list[Case]:
    """Return targets and sources of unlike and of like lengths; every source has a word."""
    g = torch.Generator().manual_seed(seed + 2000)

    def case(name: str, shape: tuple[int, int, int, int, int], lengths: list[int]) -> Case:
        batch, n, m, d_k, d_v = shape
        d = 3 if n != 3 else 4
        inputs = {"x": draw(g, batch, n, d), "memory": draw(g, batch, m, d, mean=0.3), "real": _real(lengths, m)}
        return Case(name, inputs | {"W_q": draw(g, d, d_k), "W_k": draw(g, d, d_k), "W_v": draw(g, d, d_v)})

    n, m, d_k, d_v = sizes(g, 4, 2, 6)
    far = case("words with scores far below 0", (1, 2, 4, 3, 2), [3])
    far.inputs["x"] = far.inputs["x"][:, :1].sign() * torch.tensor([[-40.0], [-60.0]])
    far.inputs["memory"] = far.inputs["x"][:, :1].sign() * -3 + far.inputs["memory"] / 50
    far.inputs["W_q"] = far.inputs["W_k"] = torch.eye(3) + 0.01
    above = case("padding with scores far above 0", (2, 2, 4, 3, 2), [3, 2])
    above.inputs["x"] = above.inputs["x"] / 50 + torch.tensor([40.0, 60.0])[:, None, None]
    above.inputs["memory"] = above.inputs["memory"] / 50 + torch.tensor([0.0, 3.0])[:, None, None]
    above.inputs["memory"] += 5.0 * ~above.inputs["real"][..., None]
    above.inputs["x"], above.inputs["memory"] = (_rounded(above.inputs[name]) for name in ("x", "memory"))
    above.inputs["W_q"] = above.inputs["W_k"] = torch.eye(3)
    scattered = case("padding in between", (2, 3, 4, 2, 2), [4, 4])
    scattered.inputs["real"] = torch.tensor([[True, False, True, True], [False, True, True, False]])
    return [
        case("small", (1, 2, 3, 2, 1), [2]),
        case("one length, no padding", (2, 4, 4, 3, 2), [4, 4]),
        case("one length, padding", (2, 3, 3, 2, 2), [3, 1]),
        case("as many sentences as words", (3, 3, 3, 2, 3), [2, 3, 1]),
        case("sizes from the seed", (2, n, m, d_k, d_v), [m, m - 1]),
        case("one target word", (2, 1, 5, 3, 2), [4, pick(g, 1, 3)]),
        scattered,
        far,
        above,
    ]


def _rounded(x: Tensor) -> Tensor:
    return (x * 100).round() / 100


def crossed(x: Tensor, memory: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    """Return what the target finds in the memory."""
    return _attended(x @ W_q, memory @ W_k, memory @ W_v, real[:, None, :])


def _attended(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None = None) -> Tensor:
    scores = query @ key.mT / (math.sqrt(query.size(-1)) if scale is None else scale)
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim=-1).nan_to_num(0.0) @ value


def crossed_by_sentence(x: Tensor, memory: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    """Return the same, sentence by sentence, the source's padding cut off."""
    found = []
    for target, source, words in zip(x, memory, real, strict=True):
        weights = ((target @ W_q) @ (source[words] @ W_k).T / W_k.size(1) ** 0.5).softmax(dim=1)
        found.append(weights @ (source[words] @ W_v))
    return torch.stack(found)


def crossed_by_einsum(x: Tensor, memory: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    """Return the same with W_q W_k^T as one matrix, and values made at the end."""
    scores = torch.einsum("bnd,dc,ec,bme->bnm", x, W_q, W_k, memory) * W_q.size(1) ** -0.5
    weights = (scores - 1e9 * (~real)[:, None, :]).softmax(dim=-1)
    return torch.einsum("bnm,bme,ev->bnv", weights, memory, W_v)


def _cross(
    sources: str = "xmm", mask: Callable[[Tensor, Tensor], Tensor | None] = lambda real, past: real[:, None, :]
) -> Callable[..., Tensor]:
    """Return an attention whose queries, keys and values come from x or memory, by letter, under another mask.

    Args:
        mask: is given which source tokens are words, and the target's causal mask.
    """

    def answer(x: Tensor, memory: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
        query, key, value = (
            (x if letter == "x" else memory) @ W for letter, W in zip(sources, (W_q, W_k, W_v), strict=True)
        )
        return _attended(query, key, value, mask(real, _tril(x.size(1))))

    return answer


def _rescaled(x: Tensor, memory: Tensor, real: Tensor, W_q: Tensor, W_k: Tensor, W_v: Tensor) -> Tensor:
    weights = ((x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))).softmax(dim=-1) * real[:, None, :]
    return weights / weights.sum(dim=-1, keepdim=True) @ (memory @ W_v)


CROSS_WRONG = [
    Mistake(
        "both bugs are there",
        "Both bugs are still there: the target's causal mask hides source words, and the values are made from the "
        "target.",
        _cross("xmx", lambda real, past: past),
    ),
    Mistake(
        "values from the target",
        "The mask is mended, but the values are still made from x: what comes back is a mixture of target words. Keys "
        "and values are two sides of the same vectors, those of the memory.",
        _cross("xmx"),
        0.5,
    ),
    Mistake(
        "causal mask in cross-attention",
        "The values are mended, but the mask is still the target's causal one. Every source word may be seen, whatever "
        "its place; only padding must not.",
        _cross("xmm", lambda real, past: past),
        0.5,
    ),
    Mistake(
        "both masks at once",
        "Padding is hidden, but so are source words, by the target's causal mask. There is no future in the source: "
        "it's known as a whole.",
        _cross("xmm", lambda real, past: real[:, None, :] & past),
        0.5,
    ),
    Mistake(
        "both masks at once, as wide as the source",
        "Padding is hidden, but so are source words, by a causal mask. There is no future in the source: it's known as "
        "a whole.",
        _cross("xmm", lambda real, past: real[:, None, :] & torch.ones(len(past), real.size(1)).tril().bool()),
        0.5,
    ),
    Mistake(
        "no mask",
        "The causal mask is gone, but padding is read: hide what `real` calls no word.",
        _cross("xmm", lambda real, past: None),
        0.5,
    ),
    Mistake(
        "words hidden",
        "Words are hidden, and padding is read: in this book a mask is True where a query may attend.",
        _cross("xmm", lambda real, past: ~real[:, None, :]),
        0.5,
    ),
    Mistake(
        "batch taken for queries",
        "`real` is used as it is, [batch source]: broadcasting takes its batch for the queries. Give it an axis for "
        "them: [:, None, :].",
        _cross("xmm", lambda real, past: real),
        0.5,
    ),
    Mistake(
        "queries hidden",
        "The mask runs along the target: [:, :, None] empties rows. Padding stands among the keys: [:, None, :].",
        _cross("xmm", lambda real, past: real[:, :, None]),
        0.25,
    ),
    Mistake(
        "everything from the target",
        "Queries, keys and values all come from x: self-attention. The memory isn't used.",
        _cross("xxx", lambda real, past: past),
        0.25,
    ),
    Mistake(
        "everything from the memory",
        "Queries come from the memory, too: one output for each source word. It's the target that asks.",
        _cross("mmm"),
        0.25,
    ),
    Mistake(
        "hidden after the softmax",
        "Padding takes part in the softmax; its weights are set to 0 afterwards, and the others rescaled. Where a "
        "padding's score is far above the words', nothing is left to rescale: 0/0. Hide scores, before the softmax.",
        _rescaled,
        0.75,
    ),
    Mistake(
        "no scale",
        "The scores aren't divided by sqrt(d_k).",
        lambda x, memory, real, W_q, W_k, W_v: _attended(x @ W_q, memory @ W_k, memory @ W_v, real[:, None, :], 1.0),
        0.5,
    ),
    Mistake(
        "sqrt(d_model)",
        "The scores are divided by sqrt(d_model). They are sums of d_k products: W_k has d_k columns.",
        lambda x, memory, real, W_q, W_k, W_v: _attended(
            x @ W_q, memory @ W_k, memory @ W_v, real[:, None, :], math.sqrt(x.size(-1))
        ),
        0.5,
    ),
]


# 6.4 one table, used twice


def tied_cases(seed: int) -> list[Case]:
    """Return tokens, a table, and what the decoder says."""
    g = torch.Generator().manual_seed(seed + 3000)

    def case(name: str, batch: int, n: int, vocabulary: int, d: int) -> Case:
        tokens = torch.randint(0, vocabulary, (batch, n), generator=g)
        return Case(
            name,
            {"tokens": tokens, "table": draw(g, vocabulary, d, scale=0.6), "x": draw(g, batch, n, d, mean=0.2)},
        )

    return [
        case("small", 1, 2, 4, 3),
        case("batch", *sizes(g, 3, 2, 5), 6),
        case("wide", 2, 3, 4, pick(g, 7, 9)),
        case("more words than features", 1, 3, pick(g, 8, 12), 2),
        case("one word", 1, 1, 5, pick(g, 2, 4)),
        case("all sizes alike", *[pick(g, 3, 4)] * 4),
    ]


def tied(tokens: Tensor, table: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the right vectors and logits."""
    return table[tokens] * math.sqrt(table.size(1)), x @ table.T


def tied_by_one_hot(tokens: Tensor, table: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same, words as one-hot vectors."""
    chosen = nn.functional.one_hot(tokens, len(table)).to(table.dtype)
    return chosen @ (table * table.size(1) ** 0.5), torch.einsum("bnd,vd->bnv", x, table)


def tied_by_loop(tokens: Tensor, table: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same, word by word."""
    vectors = torch.stack([torch.stack([table[i] * len(table[i]) ** 0.5 for i in row]) for row in tokens])
    return vectors, torch.stack([(x * word).sum(dim=-1) for word in table], dim=-1)


def _tied(
    vectors: Callable[[Tensor, Tensor], Tensor] = lambda v, table: v * table.size(1) ** 0.5,
    logits: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda scores, table, x: scores,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return an answer from the plain rows and from the plain products."""
    return lambda tokens, table, x: (vectors(table[tokens], table), logits(x @ table.T, table, x))


TIED_WRONG = [
    Mistake(
        "vectors not scaled",
        "The rows of the table are returned as they are. On the way in they're multiplied by sqrt(d_model), or the "
        "positions would drown them.",
        _tied(vectors=lambda v, table: v),
        0.5,
    ),
    Mistake(
        "multiplied by d_model",
        "The vectors are multiplied by d_model. It's its root.",
        _tied(vectors=lambda v, table: v * table.size(1)),
        0.5,
    ),
    Mistake(
        "vectors divided",
        "The vectors are divided by sqrt(d_model), as scores are. They're multiplied by it.",
        _tied(vectors=lambda v, table: v / table.size(1) ** 0.5),
        0.5,
    ),
    Mistake(
        "root of the vocabulary",
        "The vectors are multiplied by the root of the vocabulary's size. It's that of their own width, d_model.",
        _tied(vectors=lambda v, table: v * len(table) ** 0.5),
        0.5,
    ),
    Mistake(
        "logits scaled, too",
        "The logits are made with the scaled table. The factor belongs to the way in alone.",
        _tied(logits=lambda scores, table, x: scores * table.size(1) ** 0.5),
        0.5,
    ),
    Mistake(
        "logits divided",
        "The logits are divided by sqrt(d_model), as attention's scores are (and as T5 does). Here they are plain "
        "products.",
        _tied(logits=lambda scores, table, x: scores / table.size(1) ** 0.5),
        0.5,
    ),
    Mistake(
        "scaled at the wrong end",
        "The factor stands at the wrong end: the vectors are plain and the logits scaled.",
        _tied(lambda v, table: v, lambda scores, table, x: scores * table.size(1) ** 0.5),
        0.25,
    ),
    Mistake(
        "probabilities",
        "The softmax has been taken. Logits were asked for; the loss takes the softmax itself, and would take it "
        "twice.",
        _tied(logits=lambda scores, table, x: scores.softmax(dim=-1)),
        0.5,
    ),
    Mistake(
        "cosines",
        "The products are divided by the lengths of both vectors: cosines. Plain products were asked for.",
        _tied(logits=lambda s, table, x: s / x.norm(dim=-1, keepdim=True) / table.norm(dim=-1)),
        0.5,
    ),
    Mistake(
        "the next word itself",
        "The word with the highest logit is returned. All logits were asked for, one for each word.",
        _tied(logits=lambda scores, table, x: scores.argmax(dim=-1)),
        0.25,
    ),
    Mistake(
        "exchanged",
        "Vectors and logits are exchanged: first the vectors of the tokens, then the logits.",
        lambda tokens, table, x: tied(tokens, table, x)[::-1],
        0.75,
    ),
    Mistake(
        "logits of the input",
        "The logits are made from the tokens' vectors. They are made from `x`, what the decoder says.",
        lambda tokens, table, x: (tied(tokens, table, x)[0], table[tokens] @ table.T),
        0.5,
    ),
]


# 6.5 does this memory belong to this target?


def fitted_cases(seed: int) -> list[Case]:
    """Return targets, memories and sources that fit together, and such that don't."""
    g = torch.Generator().manual_seed(seed + 4000)

    def case(
        name: str, x: list[int], memory: list[int], source: list[int], padding: int = 0, at_fault: str = ""
    ) -> Case:
        tokens = torch.randint(1, 9, source, generator=g)
        tokens.view(-1)[-1] = padding
        inputs = {"x": draw(g, *x), "memory": draw(g, *memory), "source": tokens, "padding": padding}
        shapes = {"x": x, "memory": memory, "source": source}
        words = tuple(", ".join(map(str, shapes[name])) for name in at_fault.split())
        return Case(name, inputs, mentions=words, telling="both shapes" if words else "")

    b, n, m, d = sizes(g, 4, 2, 6)
    s = torch.Generator().manual_seed(seed + 4500)

    def fit(name: str, padding: int) -> Case:
        b, n, m, d = sizes(s, 4, 2, 6)
        return case(name, [b, n, d], [b, m, d], [b, m], padding)

    def misfit(name: str, at_fault: str, shapes: Callable[[int, int, int, int], tuple[list[int], ...]]) -> Case:
        return case(name, *shapes(*sizes(s, 4, 2, 6)), 0, at_fault)

    def typed(name: str, dtype: torch.dtype, named: str = "") -> Case:
        made = fit(name, 0)
        made.inputs["source"] = made.inputs["source"].to(dtype)
        return Case(
            name, made.inputs, mentions=(named,) if named else (), telling="the dtype that came" if named else ""
        )

    zero = fit("0 is a word, in 16 bits", 9)
    zero.inputs["source"][0, 1], zero.inputs["source"][1, 1] = 0, 9
    zero.inputs["source"] = zero.inputs["source"].short()
    alike = case("one length, in 32 bits", [b, n, d], [b, n, d], [b, n])
    alike.inputs["source"] = alike.inputs["source"].int()
    nothing = case("a source of nothing but padding", [2, n, 2], [2, 3, 2], [2, 3], 5)
    nothing.inputs["source"][0] = 5
    only = misfit("a memory of another batch than both", "", lambda b, n, m, d: ([b, n, d], [1, m, d], [b, m]))
    shape = ", ".join(map(str, only.inputs["memory"].shape))
    only = Case(only.name, only.inputs, mentions=(shape,), telling="the memory's shape")
    of_memory, of_target, half = "memory source", "x memory", (torch.float16, torch.bfloat16)[pick(s, 0, 1)]
    return [
        case("small", [1, 2, 3], [1, 4, 3], [1, 4]),
        case("sizes from the seed", [b, n, d], [b, m, d], [b, m], 3),
        alike,
        zero,
        misfit("another source", of_memory, lambda b, n, m, d: ([b, n, d], [b, m, d], [b, m + 1])),
        misfit("the target's tokens", of_memory, lambda b, n, m, d: ([b, n, d], [b, m, d], [b, n])),
        misfit("a source of another batch", of_memory, lambda b, n, m, d: ([b, n, d], [b, m, d], [1, m])),
        misfit("a memory of another batch", of_target, lambda b, n, m, d: ([b, n, d], [1, m, d], [1, m])),
        misfit("a source without a batch", of_memory, lambda b, n, m, d: ([b, n, d], [b, b, d], [b])),
        misfit("a source with an axis more", of_memory, lambda b, n, m, d: ([b, n, d], [b, d, d], [b, d, d])),
        misfit("three memories for two targets", of_target, lambda b, n, m, d: ([2, n, d], [3, m, d], [3, m])),
        misfit("two memories for four targets", of_target, lambda b, n, m, d: ([4, n, d], [2, m, d], [2, m])),
        misfit("a wider memory", of_target, lambda b, n, m, d: ([b, n, d], [b, m, d + 2], [b, m])),
        misfit("a narrower memory", of_target, lambda b, n, m, d: ([b, n, d + 1], [b, m, d], [b, m])),
        only,
        typed("integers of 8 bits", torch.uint8),
        nothing,
        typed("not integers", torch.float32, "float32"),
        typed("not integers, of half precision", half, str(half).removeprefix("torch.")),
        typed("True and False", torch.bool, "bool"),
    ]


def fitted(x: Tensor, memory: Tensor, source: Tensor, padding: int) -> Tensor:
    """Return the right mask, or say what doesn't fit."""
    if not _integers(source):
        raise TypeError(f"source must hold integers, got {source.dtype}")
    if source.shape != memory.shape[:2]:
        raise ValueError(f"source {list(source.shape)} doesn't belong to memory {list(memory.shape)}")
    if x.size(0) != memory.size(0) or x.size(2) != memory.size(2):
        raise ValueError(f"x {list(x.shape)} and memory {list(memory.shape)} must agree in batch and d_model")
    return _shown(source, padding)


def _integers(source: Tensor) -> bool:
    return not source.is_floating_point() and source.dtype != torch.bool


def _shown(source: Tensor, padding: int) -> Tensor:
    return (source != padding)[:, None, None, :]


def fitted_by_names(x: Tensor, memory: Tensor, source: Tensor, padding: int) -> Tensor:
    """Return the same, sizes unpacked, the mask in a loop."""
    if "int" not in str(source.dtype):
        raise TypeError(f"want integers, got {source.dtype}")
    (batch, _, width), (other, length, other_width) = x.shape, memory.shape
    if (batch, width) != (other, other_width) or tuple(source.shape) != (other, length):
        raise ValueError(f"{list(x.shape)}, {list(memory.shape)}, {list(source.shape)}")
    rows = [[[[token.item() != padding for token in row]]] for row in source]
    return torch.tensor(rows)


def fitted_by_torch(x: Tensor, memory: Tensor, source: Tensor, padding: int) -> Tensor:
    """Return the same, products tried instead of sizes compared."""
    if torch.result_type(source, 0.5) == source.dtype or source.dtype == torch.bool:
        raise TypeError(f"got {source.dtype}")
    try:
        torch.bmm(x, memory.mT)
        torch.stack([source, memory[:, :, 0].long()])
    except RuntimeError as error:
        raise ValueError(f"x {list(x.shape)}, memory {list(memory.shape)}, source {list(source.shape)}") from error
    return source.ne(padding).reshape(len(source), 1, 1, -1)


def _letting(*dtypes: torch.dtype) -> Callable[..., Tensor]:
    """Return the right answer, but that source tokens of some dtypes are let through."""

    def answer(x: Tensor, memory: Tensor, source: Tensor, padding: int) -> Tensor:
        return fitted(x, memory, source.long() if source.dtype in dtypes else source, padding)

    return answer


def _refusing(test: Callable[[torch.Size, torch.Size, torch.Size], bool]) -> Callable[..., Tensor]:
    """Return an answer that refuses shapes of which a test holds, and source tokens that aren't integers."""

    def answer(x: Tensor, memory: Tensor, source: Tensor, padding: int) -> Tensor:
        if not _integers(source):
            raise TypeError(f"source must hold integers, got {source.dtype}")
        if test(x.shape, memory.shape, source.shape):
            raise ValueError(f"x {list(x.shape)}, memory {list(memory.shape)}, source {list(source.shape)}")
        return _shown(source, padding)

    return answer


FITTED_WRONG = [
    Mistake(
        "one length demanded",
        "Targets of another length than the source are refused. They may differ: that's what the weights' shape, "
        "target x source, is for. Batch and width of x and memory must agree, nothing else.",
        _refusing(lambda x, memory, source: x != memory or source != memory[:2]),
        0.5,
    ),
    Mistake(
        "nothing checked",
        "Nothing is checked: what doesn't fit is found out later, somewhere in the attention, or never.",
        lambda x, memory, source, padding: _shown(source, padding),
        0.25,
    ),
    Mistake(
        "source not checked",
        "A source that isn't the memory's is let through: its shape must be the memory's first two sizes.",
        _refusing(lambda x, memory, source: (x[0], x[2]) != (memory[0], memory[2])),
        0.5,
    ),
    Mistake(
        "target not checked",
        "A memory that doesn't go with x is let through: batch and d_model must be the same.",
        _refusing(lambda x, memory, source: source != memory[:2]),
        0.5,
    ),
    Mistake(
        "width not checked",
        "Batch and lengths are checked, the width isn't: x and memory must have the same d_model here.",
        _refusing(lambda x, memory, source: source != memory[:2] or x[0] != memory[0]),
        0.75,
    ),
    Mistake(
        "batch not checked",
        "Lengths and widths are checked, the batches aren't. A batch of 1 is broadcast in silence: every target would "
        "read the same source.",
        _refusing(lambda x, memory, source: source[1] != memory[1] or x[2] != memory[2]),
        0.75,
    ),
    Mistake(
        "one batch size may be 1",
        "A batch of 1 is let through, as broadcasting would. Here it's a mistake: every target would read the same "
        "source.",
        _refusing(
            lambda x, memory, source: (
                source[1] != memory[1]
                or x[2] != memory[2]
                or (1 not in (source[0], memory[0]) and not x[0] == memory[0] == source[0])
            )
        ),
        0.75,
    ),
    Mistake(
        "axes not counted",
        "Two sizes of source are compared, and an axis more, or less, isn't thought of. Compare the whole shape: "
        "source.shape != memory.shape[:2].",
        _refusing(
            lambda x, memory, source: (
                source[0] != memory[0] or source[1] != memory[1] or (x[0], x[2]) != (memory[0], memory[2])
            )
        ),
        0.75,
    ),
    Mistake(
        "half precision let through",
        "float32 is refused, but float16 comes through. `is_floating_point()` knows all of these dtypes.",
        _letting(torch.float16, torch.bfloat16),
        0.75,
    ),
    Mistake(
        "True and False let through",
        "A source of True and False is let through. These aren't integers: somebody has passed a mask instead of the "
        "tokens. `is_floating_point()` doesn't find it; compare with torch.bool, too.",
        _letting(torch.bool),
        0.75,
    ),
    Mistake(
        "causal, too",
        "The mask hides later places. There's no future in the source: padding alone is hidden.",
        guarded(
            fitted,
            lambda x, memory, source, padding: (
                _shown(source, padding) & torch.ones(x.size(1), memory.size(1), dtype=torch.bool).tril()
            ),
        ),
        0.25,
    ),
    Mistake(
        "True hides",
        "True and False are exchanged: in this book True means may attend.",
        guarded(fitted, lambda x, memory, source, padding: ~_shown(source, padding)),
        0.5,
    ),
    Mistake(
        "a column",
        "The mask is a column, [batch 1 source 1]. Padding stands among the keys, the last axis: [:, None, None, :].",
        guarded(fitted, lambda x, memory, source, padding: (source != padding)[:, None, :, None]),
        0.5,
    ),
    Mistake(
        "one axis too few",
        "The mask has the shape [batch 1 source]. Scores are [batch heads target source]: two axes of size 1.",
        guarded(fitted, lambda x, memory, source, padding: (source != padding)[:, None]),
        0.5,
    ),
    Mistake(
        "0 taken for padding",
        "The id 0 is taken for the padding's. It's `padding` that says which id fills up.",
        guarded(fitted, lambda x, memory, source, padding: _shown(source, 0)),
        0.75,
    ),
    Mistake(
        "assert",
        "Errors are raised by assert. Python leaves assertions out when run with -O: raise TypeError or ValueError.",
        with_errors(fitted, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "ValueError for the dtype",
        "A wrong dtype raises ValueError. By Python's custom that's for a wrong value; a wrong type is a TypeError.",
        with_errors(fitted, lambda error: ValueError(str(error))),
        0.75,
    ),
    Mistake(
        "errors that don't tell",
        "The errors are of the right kinds, but their texts lack the shapes, or the dtype, that came.",
        with_errors(fitted, lambda error: type(error)("the shapes don't fit")),
        0.75,
    ),
]


# 6.6 every head's error rate


def rates_cases(seed: int) -> list[Case]:
    """Return weights of several heads, sure and possible links, and which target rows are words.

    In other rows links are marked, too; they don't count.
    """
    g = torch.Generator().manual_seed(seed + 5000)

    def case(name: str, shape: tuple[int, int, int, int], lengths: list[int], share: float = 0.3) -> Case:
        batch, heads, n, m = shape
        weights = draw(g, batch, heads, n, m, scale=2.0).softmax(dim=-1)
        words = _real(lengths, n)
        if len(lengths) > 1:
            words[1:, 1:-1] &= torch.rand(batch - 1, n - 2, generator=g) < 0.8
        sure = torch.zeros(batch, n, m, dtype=torch.bool)
        sure.scatter_(-1, weights.mean(dim=1).argmax(dim=-1, keepdim=True), True)
        sure &= torch.rand(batch, n, 1, generator=g) < 0.75
        sure[:, 0, 0] = True
        possible = sure | (torch.rand(batch, n, m, generator=g) < share)
        return Case(name, {"weights": weights, "sure": sure, "possible": possible, "words": words})

    n, m = sizes(g, 2, 6, 9)
    perfect = case("a head without a mistake", (1, 2, pick(g, 3, 5), 4), [3])
    best = perfect.inputs["weights"][:, 1].argmax(dim=-1, keepdim=True)
    perfect.inputs["sure"] = torch.zeros_like(perfect.inputs["sure"]).scatter(-1, best, True)
    perfect.inputs["possible"] = perfect.inputs["sure"].clone()
    return [
        case("small", (1, 2, 3, 4), [3]),
        case("batch", (2, 3, 5, 4), [5, 4]),
        case("padding", (3, 2, 6, 5), [6, 2, 3]),
        case("sizes from the seed", (2, pick(g, 4, 6), n, m), [n, n - 3]),
        case("as many words", (2, 3, 7, 7), [7, 4]),
        case("only sure links", (2, 4, 5, 3), [5, 3], 0.0),
        case("a sentence without a word", (2, pick(g, 2, 3), 4, 5), [4, 0]),
        perfect,
        _shared(case("two largest weights alike", (1, 3, pick(g, 5, 6), 4), [5]), g),
    ]


def _shared(case: Case, g: torch.Generator) -> Case:
    """Return the case with rows in which two words share the largest weight; both are marked alike.

    So it doesn't matter which of the two gives the link, only that there is one. In the first head it's so in rows
    without a mark, in the second in all rows, in the third in none.
    """
    weights, sure, possible = (case.inputs[name] for name in ("weights", "sure", "possible"))
    for row in range(weights.size(2)):
        places, marked = torch.randperm(4, generator=g), row % 3 != 0
        for head, share in enumerate((not marked, True, False)):
            mixed = torch.tensor([0.4, 0.4, 0.15, 0.05] if share else [0.4, 0.35, 0.15, 0.1])
            weights[0, head, row, places] = mixed if share else mixed[torch.randperm(4, generator=g)]
        sure[0, row, places[:2]] = possible[0, row, places[:2]] = marked
    return case


def _counts(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return for each sentence and head: links found, of these sure and possible ones; and how many sure ones are."""
    sure, possible = sure & words[..., None], possible & words[..., None]
    found = nn.functional.one_hot(weights.argmax(dim=-1), weights.size(-1)).bool() & words[:, None, :, None]
    both = [(found & links[:, None]).sum(dim=(-2, -1)) for links in (sure, possible)]
    return found.sum(dim=(-2, -1)), both[0], both[1], sure.sum(dim=(-2, -1))[:, None]


def rates(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> Tensor:
    """Return the right error rates, in the weights' dtype."""
    found, hits, near, wanted = _counts(weights, sure, possible, words)
    return (1 - (hits + near).sum(dim=0) / (found + wanted).sum(dim=0)).to(weights.dtype)


def rates_by_sets(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> Tensor:
    """Return the same with sets of links."""

    def links(table: Tensor) -> set[tuple[int, ...]]:
        return set(map(tuple, table.nonzero().tolist()))

    one, other, found = links(sure & words[..., None]), links(possible & words[..., None]), []
    for head in weights.unbind(dim=1):
        best = head.argmax(dim=-1)
        chosen = {(b, t, int(best[b, t])) for b, t in links(words)}
        found.append(1 - (len(chosen & one) + len(chosen & other)) / (len(chosen) + len(one)))
    return torch.tensor(found, dtype=weights.dtype)


def rates_by_gather(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> Tensor:
    """Return the same by looking up each link in both tables."""
    best = weights.argmax(dim=-1).transpose(1, 2)  # [batch target heads]
    hits = (sure.gather(2, best).double() + possible.gather(2, best).double()) * words[..., None]
    return (1 - hits.sum(dim=(0, 1)) / (words.sum() + sure[words].sum())).to(weights.dtype)


def _counted(rate: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a rate of the counts, each summed over the sentences."""
    return lambda *inputs: rate(*(count.sum(dim=0) for count in _counts(*inputs))).to(inputs[0].dtype)


def _by_sentence(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> Tensor:
    found, hits, near, wanted = _counts(weights, sure, possible, words)
    return (1 - (hits + near) / (found + wanted).clamp(min=1)).mean(dim=0).to(weights.dtype)


def _by_source(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> Tensor:
    """Return rates of links from each source word to the target row that gives it the most."""
    sure, possible = sure & words[..., None], possible & words[..., None]
    hidden = weights.masked_fill(~words[:, None, :, None], -1.0)
    chosen = nn.functional.one_hot(hidden.argmax(dim=-2), weights.size(-2)).mT.bool()
    both = sum((chosen & links[:, None]).sum(dim=(0, 2, 3)) for links in (sure, possible))
    return (1 - both / (chosen.sum(dim=(0, 2, 3)) + sure.sum())).to(weights.dtype)


def _in_padding(above: bool = False, below: bool = False) -> Callable[..., Tensor]:
    """Return rates that count rows of padding above the fraction line, or their sure links below it."""

    def answer(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> Tensor:
        everywhere = torch.ones_like(words)
        _, hits, near, marked = (x.sum(dim=0) for x in _counts(weights, sure, possible, everywhere if above else words))
        wanted = sure.sum() if below else sure[words].sum()
        return (1 - (hits + near) / (words.sum() + wanted)).to(weights.dtype)

    return answer


def _all_largest(weights: Tensor, sure: Tensor, possible: Tensor, words: Tensor) -> Tensor:
    found = (weights == weights.amax(dim=-1, keepdim=True)) & words[:, None, :, None]
    hits = sum((found & links[:, None]).sum(dim=(0, 2, 3)) for links in (sure, possible))
    return (1 - hits / (found.sum(dim=(0, 2, 3)) + sure[words].sum())).to(weights.dtype)


RATES_WRONG = [
    Mistake(
        "mean of the sentences' rates",
        "Each sentence's rate is computed, and then their mean. Count over all sentences first, then divide once: "
        "short sentences would weigh too much.",
        _by_sentence,
        0.75,
    ),
    Mistake(
        "padding rows counted",
        "Rows of padding have links, too. Only the rows where `words` is True count.",
        lambda weights, sure, possible, words: rates(weights, sure, possible, torch.ones_like(words)),
        0.5,
    ),
    Mistake(
        "links found in padding rows",
        "A link that is found in a row of padding counts above the fraction line. Rows count where `words` is True, "
        "and nowhere else.",
        _in_padding(above=True),
        0.75,
    ),
    Mistake(
        "links marked in padding rows",
        "Sure links that are marked in rows of padding are counted in |S|. Rows count where `words` is True, and "
        "nowhere else.",
        _in_padding(below=True),
        0.75,
    ),
    Mistake(
        "links found and marked in padding rows",
        "Rows of padding count in |S|, and above the fraction line, where their links happen to be marked. Rows count "
        "where `words` is True, and nowhere else.",
        _in_padding(above=True, below=True),
        0.5,
    ),
    Mistake(
        "links from source to target",
        "The largest weight is looked for along the target: one link for each source word. It's one for each row, over "
        "the source: dim=-1.",
        _by_source,
        0.25,
    ),
    Mistake(
        "share of right links",
        "This is 1 minus the error rate: a perfect head is to get 0.",
        _counted(lambda found, hits, near, wanted: (hits + near) / (found + wanted)),
        0.5,
    ),
    Mistake(
        "sure links only",
        "Possible links aren't used: a link that is possible, but not sure, counts as half right.",
        _counted(lambda found, hits, near, wanted: 1 - 2 * hits / (found + wanted)),
        0.5,
    ),
    Mistake(
        "possible links taken for sure",
        "Possible links are treated as sure ones: both in the numerator and in the size that's divided by.",
        lambda weights, sure, possible, words: rates(weights, possible, possible, words),
        0.5,
    ),
    Mistake(
        "possible links demanded",
        "The found links are divided by found and possible links. Nobody has to find the possible ones: |A| + |S|.",
        lambda weights, sure, possible, words: _counted(
            lambda found, hits, near, wanted: 1 - (hits + near) / (found + possible[words].sum())
        )(weights, sure, possible, words),
        0.5,
    ),
    Mistake(
        "only what was found",
        "This is the share of found links that aren't even possible. Sure links that weren't found must count, too.",
        _counted(lambda found, hits, near, wanted: 1 - near / found),
        0.5,
    ),
    Mistake(
        "only what was missed",
        "This is the share of sure links that weren't found. Found links that are wrong must count, too.",
        _counted(lambda found, hits, near, wanted: 1 - hits / wanted),
        0.5,
    ),
    Mistake(
        "one rate for all heads",
        "All heads get one rate, from their links together. Each head has its own.",
        lambda *inputs: rates(*inputs).mean().expand(inputs[0].size(1)),
        0.25,
    ),
    Mistake(
        "heads averaged first",
        "The heads' weights are averaged before the links are read off. Each head has links of its own.",
        lambda weights, sure, possible, words: rates(
            weights.mean(dim=1, keepdim=True).expand_as(weights), sure, possible, words
        ),
        0.25,
    ),
    Mistake(
        "two links from one row",
        "Where two source words share the largest weight, both are counted. Each row gives one link: argmax takes one "
        "of them.",
        _all_largest,
        0.75,
    ),
    Mistake(
        "smallest weight",
        "The source word with the smallest weight is taken. argmax is wanted.",
        lambda weights, sure, possible, words: rates(-weights, sure, possible, words),
        0.25,
    ),
]


PROBES = [
    probe(
        "6.1",
        "the decoder layer",
        "module",
        "DecoderLayer",
        (5, 15, 2),
        cases=layer_cases,
        reference=Layer,
        right={"the norm written out": LayerInFull, "head by head": LayerByHead},
        wrong=LAYER_WRONG,
        replaces="encoder_decoder.DecoderLayer",
    ),
    probe(
        "6.2",
        "two places for a norm",
        "function",
        "with_residual",
        (4, 15, 2),
        cases=residual_cases,
        reference=residual,
        right={"PyTorch's norm": residual_by_torch, "token by token": residual_by_loop},
        original=("layers.Residual",),
        wrong=RESIDUAL_WRONG,
    ),
    probe(
        "6.3",
        "sentences of one length only",
        "bug",
        "cross_attention",
        (4, 12, 2),
        cases=cross_cases,
        reference=crossed,
        right={"sentence by sentence": crossed_by_sentence, "einsum": crossed_by_einsum},
        wrong=CROSS_WRONG,
    ),
    probe(
        "6.4",
        "one table, used twice",
        "function",
        "tied",
        (3, 8, 1),
        cases=tied_cases,
        reference=tied,
        right={"one-hot vectors": tied_by_one_hot, "word by word": tied_by_loop},
        original=("model.Embedding",),
        wrong=TIED_WRONG,
    ),
    probe(
        "6.5",
        "does this memory belong here?",
        "error",
        "memory_mask",
        (4, 12, 2),
        cases=fitted_cases,
        reference=fitted,
        right={"sizes unpacked": fitted_by_names, "products tried": fitted_by_torch},
        wrong=FITTED_WRONG,
    ),
    probe(
        "6.6",
        "every head's error rate",
        "function",
        "error_rates",
        (5, 18, 3),
        cases=rates_cases,
        reference=rates,
        right={"sets of links": rates_by_sets, "looked up": rates_by_gather},
        wrong=RATES_WRONG,
    ),
]


QUESTIONS = [
    Question(
        id="6.7",
        title="why the source's length is free",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "which shapes hold the source's length, and which the target's", "keys, values m; queries, output n"),
            (1, "what must agree between target and memory", "batch, and the width that queries and keys end up in"),
            (1, "why a wrong mask may go unnoticed", "equal lengths, or axes of size 1 that broadcast"),
            (1, "a test that would have noticed", "unequal lengths; change padding; change a late source word"),
        ),
    ),
    Question(
        id="6.8",
        title="a map as evidence",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "which row belongs to a word", "the one that writes it, not the one that reads it"),
            (1, "what the largest weight can't say", "values' sizes, other heads and layers, the residual bypass"),
            (1, "what to compare the rate with", "chance, the diagonal, other seeds"),
            (1, "a test of what the word depends on", "hide or change that source word; gradients; not the map"),
        ),
    ),
]
