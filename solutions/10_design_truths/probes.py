"""What chapter 10's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.exercises.authoring import draw, guarded, pick, probe, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Question


def _normed(x: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=eps)


# 10.1 a sub-layer, normed before or after


def block_cases(seed: int) -> list[Case]:
    """Return vectors and parameters, for either place of the norm."""
    g = torch.Generator().manual_seed(seed)

    def case(name: str, batch: int, n: int, d_model: int, d_ff: int, norm: str) -> Case:
        state = {"norm.weight": draw(g, d_model, mean=1.0, scale=0.4), "norm.bias": draw(g, d_model, scale=0.4)}
        state |= {"inner.weight": draw(g, d_ff, d_model, scale=0.6), "inner.bias": draw(g, d_ff, scale=0.4)}
        state |= {"outer.weight": draw(g, d_model, d_ff, scale=0.6), "outer.bias": draw(g, d_model, scale=0.4)}
        sizes = {"d_model": d_model, "d_ff": d_ff, "norm": norm}
        return Case(name, {"x": draw(g, batch, n, d_model, mean=0.5, scale=1.5)}, sizes, state)

    s = torch.Generator().manual_seed(seed + 500)
    d_model, d_ff, n, longer = sizes(s, 4, 2, 5)
    alike = case("features almost alike", 1, 1, 4, 2, "pre")
    alike.inputs["x"] = _alike(torch.Generator().manual_seed(seed + 600), 1, 1, 4)
    alike.state["inner.bias"] = alike.state["inner.bias"] + 3  # so that the ReLU lets all through
    return [
        case("small", 1, 2, 3, 4, "pre"),
        case("small, normed after", 1, 2, 3, 5, "post"),
        case("batch", 2, n, d_model + 1, d_ff + 2, "pre"),
        case("batch, normed after", 3, 2, d_ff + 1, d_model + 2, "post"),
        case("all sizes alike", *[pick(s, 3, 4)] * 4, "pre"),
        case("all sizes alike, normed after", *[pick(s, 3, 4)] * 4, "post"),
        case("longer", 1, pick(s, 4, 6), 5, 2, "pre"),
        case("longer, normed after", 1, longer + 2, 6, 2, "post"),
        alike,
    ]


def _alike(generator: torch.Generator, *shape: int) -> Tensor:
    """Return vectors whose features differ so little that what is added to the variance counts."""
    places = torch.rand(shape, generator=generator).argsort(dim=-1)
    return (places - 2) / 100 + draw(generator, *shape[:-1], 1)


class Block(nn.Module):
    """The right module."""

    def __init__(self, d_model: int, d_ff: int, norm: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm_first = norm == "pre"

    def update(self, x: Tensor) -> Tensor:
        """Return what the feed-forward network makes of the vectors."""
        return self.outer(self.inner(x).relu())

    def forward(self, x: Tensor) -> Tensor:
        """Return x with the network's contribution added."""
        return x + self.update(self.norm(x)) if self.norm_first else self.norm(x + self.update(x))


class BlockByHand(Block):
    """The same, the norm written out."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x with the network's contribution added."""
        total = x if self.norm_first else x + self.update(x)
        centred = total - total.mean(dim=-1, keepdim=True)
        normed = centred / (centred.pow(2).mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        normed = normed * self.norm.weight + self.norm.bias
        return x + self.update(normed) if self.norm_first else normed


class BlockByPosition(Block):
    """The same, position by position, by matrix products."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x with the network's contribution added."""
        return torch.stack([torch.stack([self.at(vector) for vector in row]) for row in x])

    def at(self, vector: Tensor) -> Tensor:
        """Return what becomes of one position."""
        read = self.norm(vector) if self.norm_first else vector
        hidden = torch.clamp(self.inner.weight @ read + self.inner.bias, min=0)
        total = vector + self.outer.weight @ hidden + self.outer.bias
        return total if self.norm_first else self.norm(total)


def _block(
    pre: Callable[[Block, Tensor], Tensor] | None = None, post: Callable[[Block, Tensor], Tensor] | None = None
) -> type[Block]:
    """Return a module that does something else where the norm comes first, or last."""

    class Other(Block):
        def forward(self, x: Tensor) -> Tensor:
            change = pre if self.norm_first else post
            return change(self, x) if change else super().forward(x)

    return Other


def _same(change: Callable[[Block, Tensor], Tensor]) -> type[Block]:
    return _block(change, change)


def _with_norm(norm: Callable[[nn.LayerNorm, Tensor], Tensor]) -> type[Block]:
    """Return a module whose norm is another function of its parameters and the vectors."""
    return _block(
        lambda m, x: x + m.update(norm(m.norm, x)),
        lambda m, x: norm(m.norm, x + m.update(x)),
    )


def _with_update(update: Callable[[Block, Tensor], Tensor]) -> type[Block]:
    return _block(lambda m, x: x + update(m, m.norm(x)), lambda m, x: m.norm(x + update(m, x)))


def _over(x: Tensor, weight: Tensor, bias: Tensor, axes: Any, unbiased: bool = False) -> Tensor:
    spread = x.var(dim=axes, keepdim=True, unbiased=unbiased)
    return (x - x.mean(dim=axes, keepdim=True)) / (spread + 1e-5).sqrt() * weight + bias


BLOCK_WRONG = [
    Mistake(
        "norm without eps",
        "Vectors whose features are almost alike come out too large, or as NaN: the norm adds eps to the variance, "
        "under the root.",
        _with_norm(
            lambda n, x: (
                (x - x.mean(dim=-1, keepdim=True)) / x.std(dim=-1, keepdim=True, correction=0) * n.weight + n.bias
            )
        ),
        0.75,
    ),
    Mistake(
        "exchanged",
        "Pre-norm and post-norm are exchanged: 'pre' norms what the sub-layer reads, 'post' norms the sum.",
        _block(lambda m, x: m.norm(x + m.update(x)), lambda m, x: x + m.update(m.norm(x))),
        0.5,
    ),
    Mistake(
        "always pre",
        "The norm comes first whatever `norm` says: 'post' norms the sum.",
        _block(post=lambda m, x: x + m.update(m.norm(x))),
        0.5,
    ),
    Mistake(
        "always post",
        "The norm comes last whatever `norm` says: 'pre' norms only what the sub-layer reads.",
        _block(pre=lambda m, x: m.norm(x + m.update(x))),
        0.5,
    ),
    Mistake(
        "residual dropped",
        "x isn't added: only the sub-layer's contribution comes back. In a deep stack nothing would get through.",
        _block(lambda m, x: m.update(m.norm(x)), lambda m, x: m.norm(m.update(x))),
        0.25,
    ),
    Mistake(
        "residual from the norm",
        "With 'pre', the normed vectors are added in place of x, as where x = norm(x) comes first. The residual path "
        "must stay clean: x + sublayer(norm(x)).",
        _block(pre=lambda m, x: m.norm(x) + m.update(m.norm(x))),
        0.5,
    ),
    Mistake(
        "only the contribution normed",
        "With 'post', the norm is taken of the sub-layer's contribution, before x is added. Post-norm norms the sum.",
        _block(post=lambda m, x: x + m.norm(m.update(x))),
        0.5,
    ),
    Mistake(
        "normed on both sides",
        "With 'pre', the sum is normed once more. One norm is enough: what leaves the block is the plain sum.",
        _block(pre=lambda m, x: m.norm(x + m.update(m.norm(x)))),
        0.5,
    ),
    Mistake(
        "normed on both sides with post",
        "With 'post', the sub-layer reads normed vectors, too. It reads x as it is; the sum is normed.",
        _block(post=lambda m, x: m.norm(x + m.update(m.norm(x)))),
        0.5,
    ),
    Mistake(
        "normed over the sentence",
        "Mean and variance are taken over all positions of a sentence. LayerNorm takes each vector by itself.",
        _with_norm(lambda norm, x: _over(x, norm.weight, norm.bias, (-2, -1))),
        0.5,
    ),
    Mistake(
        "normed over the positions",
        "Mean and variance are taken over the positions, for each feature. LayerNorm takes them over the features, of "
        "each vector by itself.",
        _with_norm(lambda norm, x: _over(x, norm.weight, norm.bias, -2)),
        0.25,
    ),
    Mistake(
        "unbiased variance",
        "The variance is divided by d_model - 1, which is torch's default (unbiased). LayerNorm divides by d_model.",
        _with_norm(lambda norm, x: _over(x, norm.weight, norm.bias, -1, unbiased=True)),
        0.75,
    ),
    Mistake(
        "weight and bias of the norm not used",
        "The norm's own weight and bias aren't used: after mean and variance come a factor and an offset for each "
        "feature, which are learnt.",
        _with_norm(lambda norm, x: _normed(x)),
        0.5,
    ),
    Mistake(
        "mean not taken off",
        "The vectors are divided by their size, but their mean isn't taken off first. That's RMSNorm.",
        _with_norm(lambda norm, x: x / (x.pow(2).mean(dim=-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias),
        0.5,
    ),
    Mistake(
        "no ReLU",
        "The ReLU between the two linear maps is missing.",
        _with_update(lambda m, x: m.outer(m.inner(x))),
        0.5,
    ),
    Mistake(
        "ReLU at the end",
        "The ReLU comes after the second linear map. It stands between the two.",
        _with_update(lambda m, x: m.outer(m.inner(x)).relu()),
        0.5,
    ),
    Mistake(
        "norm on the bypass with post",
        "With 'post', x is normed on its way past the sub-layer: norm(x) + F(x). That's neither form. Post-norm norms "
        "the sum.",
        _block(post=lambda m, x: m.norm(x) + m.update(x)),
        0.5,
    ),
    Mistake(
        "norm on the bypass",
        "x is normed on its way past the sub-layer, norm(x) + F(x), whatever `norm` says. That's neither form: 'pre' "
        "norms what the sub-layer reads, 'post' norms the sum.",
        _same(lambda m, x: m.norm(x) + m.update(x)),
        0.25,
    ),
    Mistake(
        "x replaced by its norm",
        "x is replaced by its norm at the start, whatever `norm` says, so that the normed vectors are added, too. What "
        "is added to is the plain x.",
        _same(lambda m, x: m.norm(x) + m.update(m.norm(x))),
        0.25,
    ),
    Mistake(
        "only the contribution normed with pre",
        "With 'pre', the norm is taken of the sub-layer's contribution. It's taken of what the sub-layer reads.",
        _block(pre=lambda m, x: x + m.norm(m.update(x))),
        0.5,
    ),
    Mistake(
        "no norm",
        "There's no norm, in either form: this is x + F(x).",
        _same(lambda m, x: x + m.update(x)),
        0.25,
    ),
    Mistake(
        "no norm with post",
        "With 'post', the sum isn't normed.",
        _block(post=lambda m, x: x + m.update(x)),
        0.5,
    ),
    Mistake(
        "no norm with pre",
        "With 'pre', the sub-layer reads x itself. It reads the normed vectors.",
        _block(pre=lambda m, x: x + m.update(x)),
        0.5,
    ),
    Mistake(
        "ReLU at the start",
        "The ReLU comes before the first linear map. It stands between the two.",
        _with_update(lambda m, x: m.outer(m.inner(x.relu()))),
        0.5,
    ),
    Mistake(
        "GELU for ReLU",
        "It's a GELU where the paper's network has a ReLU, max(0, ...).",
        _with_update(lambda m, x: m.outer(F.gelu(m.inner(x)))),
        0.75,
    ),
]


# 10.2 what a norm does to a gradient


def backward_cases(seed: int) -> list[Case]:
    """Return vectors, gradients of what their norm gives, and what is added to the variance."""
    g = torch.Generator().manual_seed(seed + 1000)
    s = torch.Generator().manual_seed(seed + 1500)
    rows, width, more = sizes(s, 3, 3, 6)
    kinds = {
        "small": ((4,), 1.0, 1e-5),
        "batch": ((rows, width), 2.0, 1e-5),
        "two batch dimensions": ((3, 2, more), 1.0, 1e-5),
        "as many rows as features": ((3, 3), 3.0, 1e-5),
        "large vectors": ((width, more), 30.0, 1e-5),
        "small vectors": ((3, pick(s, 4, 6)), 0.3, 0.01),
        "large epsilon": ((4, pick(s, 3, 5)), 1.0, 0.5),
        "wider": ((3, pick(s, 7, 10)), 1.5, 0.001),
    }
    return [Case(name, _backward_inputs(g, *numbers)) for name, numbers in kinds.items()]


def _backward_inputs(g: torch.Generator, shape: tuple[int, ...], scale: float, eps: float) -> dict[str, Any]:
    """Return inputs whose numbers don't lie close together, neither in a row nor along the first axis."""
    while True:
        x = draw(g, *shape, mean=0.5, scale=scale)
        if x.var(dim=-1).min() > 0.2 * scale**2 and (x.dim() == 1 or x.var(dim=0).min() > 0.03 * scale**2):
            return {"x": x, "upstream": draw(g, *shape, mean=0.4), "eps": eps}


Backward = Callable[[Tensor, Tensor, float], Tensor]


def _backward(
    combine: Callable[[Tensor, Tensor], Tensor] | None = None,
    divisor: Callable[[Tensor, float], Tensor] | None = None,
    unbiased: bool = False,
    axis: int = -1,
) -> Backward:
    """Return a gradient that is made in another way from the upstream one and the normed vectors, or over a divisor."""

    def right(upstream: Tensor, normed: Tensor) -> Tensor:
        along = (upstream * normed).mean(dim=axis, keepdim=True)
        return upstream - upstream.mean(dim=axis, keepdim=True) - normed * along

    def answer(x: Tensor, upstream: Tensor, eps: float) -> Tensor:
        variance = x.var(dim=axis, keepdim=True, unbiased=unbiased)
        normed = (x - x.mean(dim=axis, keepdim=True)) / (variance + eps).sqrt()
        by = divisor(variance, eps) if divisor else (variance + eps).sqrt()
        return (combine or right)(upstream, normed) / by

    return answer


backward = _backward()


def backward_by_autograd(x: Tensor, upstream: Tensor, eps: float) -> Tensor:
    """Return the same by PyTorch's own."""
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        return torch.autograd.grad(_normed(leaf, eps), leaf, upstream)[0]


def backward_by_jacobian(x: Tensor, upstream: Tensor, eps: float) -> Tensor:
    """Return the same row by row, by the whole matrix of derivatives."""
    rows, d = [], x.size(-1)
    for vector, given in zip(x.reshape(-1, d), upstream.reshape(-1, d), strict=True):
        spread = (vector.var(unbiased=False) + eps).sqrt()
        normed = (vector - vector.mean()) / spread
        jacobian = (torch.eye(d, dtype=x.dtype) - 1 / d - torch.outer(normed, normed) / d) / spread
        rows.append(jacobian.T @ given)
    return torch.stack(rows).reshape(x.shape)


def _mean(x: Tensor) -> Tensor:
    return x.mean(dim=-1, keepdim=True)


def _along(x: Tensor, upstream: Tensor, eps: float, direction: Tensor) -> Tensor:
    """Return a gradient without the part along some other direction than the normed vector."""
    spread = (x.var(dim=-1, keepdim=True, unbiased=False) + eps).sqrt()
    return (upstream - _mean(upstream) - direction * _mean(upstream * direction)) / spread


def _backward_divided(by: Callable[[Tensor], Tensor]) -> Backward:
    """Return a gradient whose part along the normed vector is divided by something more."""

    def answer(x: Tensor, upstream: Tensor, eps: float) -> Tensor:
        spread = (x.var(dim=-1, keepdim=True, unbiased=False) + eps).sqrt()
        normed = (x - _mean(x)) / spread
        return (upstream - _mean(upstream) - normed * _mean(upstream * normed) / by(spread)) / spread

    return answer


BACKWARD_WRONG = [
    Mistake(
        "only divided",
        "The gradient is divided by the standard deviation, as if mean and variance were constants. They depend on x, "
        "too.",
        _backward(lambda g, y: g),
        0.25,
    ),
    Mistake(
        "variance taken for a constant",
        "That the mean depends on x is in it, that the variance does isn't: the part along the normed vector must go, "
        "too.",
        _backward(lambda g, y: g - _mean(g)),
        0.5,
    ),
    Mistake(
        "mean taken for a constant",
        "That the variance depends on x is in it, that the mean does isn't: take off the gradient's mean.",
        _backward(lambda g, y: g - y * _mean(g * y)),
        0.5,
    ),
    Mistake(
        "divided by the variance",
        "All is divided by the variance. It's the standard deviation, its root.",
        _backward(divisor=lambda variance, eps: variance + eps),
        0.5,
    ),
    Mistake(
        "not divided",
        "The division by the standard deviation is missing: long vectors get smaller gradients.",
        _backward(divisor=lambda variance, eps: torch.ones_like(variance)),
        0.5,
    ),
    Mistake(
        "multiplied",
        "The gradient is multiplied by the standard deviation. A function that divides has a derivative that divides.",
        _backward(divisor=lambda variance, eps: (variance + eps) ** -0.5),
        0.5,
    ),
    Mistake(
        "eps outside the root",
        "eps is added to the standard deviation. It belongs under the root, to the variance.",
        lambda x, upstream, eps: _eps_outside(x, upstream, eps),
        0.75,
    ),
    Mistake(
        "eps left out",
        "The eps that's given isn't used: there's none, or always the same. Where vectors are short, it matters.",
        lambda x, upstream, eps: backward(x, upstream, 0.0),
        0.75,
    ),
    Mistake(
        "unbiased variance",
        "The variance is divided by d - 1, which is torch's default. LayerNorm divides by d.",
        _backward(unbiased=True),
        0.75,
    ),
    Mistake(
        "sum for mean",
        "The product with the normed vector is summed, not averaged: it's d times too large.",
        _backward(lambda g, y: g - _mean(g) - y * (g * y).sum(dim=-1, keepdim=True)),
        0.5,
    ),
    Mistake(
        "plus for minus",
        "The part along the normed vector is added. It's to be taken off: the norm doesn't care how long x is.",
        _backward(lambda g, y: g - _mean(g) + y * _mean(g * y)),
        0.5,
    ),
    Mistake(
        "along the first axis",
        "Mean and variance are taken along the first axis. Each vector is normed by itself: dim=-1.",
        _backward(axis=0),
        0.25,
    ),
    Mistake(
        "the norm itself",
        "This is the norm of x, not the gradient that goes back through it.",
        lambda x, upstream, eps: _normed(x, eps),
    ),
    Mistake(
        "x for the normed vector",
        "The part along x is taken off. It's that along the normed vector (x - mean) / standard deviation.",
        lambda x, upstream, eps: _along(x, upstream, eps, x),
        0.5,
    ),
    Mistake(
        "both summed",
        "The gradient and its product with the normed vector are summed, not averaged: divide both by d.",
        _backward(lambda g, y: g - g.sum(dim=-1, keepdim=True) - y * (g * y).sum(dim=-1, keepdim=True)),
        0.5,
    ),
    Mistake(
        "product not averaged",
        "The product of gradient and normed vector is taken number by number. It's to be averaged over the features "
        "before it's multiplied by the normed vector.",
        _backward(lambda g, y: g - _mean(g) - y * (g * y)),
        0.5,
    ),
    Mistake(
        "normed vector left out",
        "The mean of the product is taken off, but not along the normed vector: multiply it by that.",
        _backward(lambda g, y: g - _mean(g) - _mean(g * y)),
        0.5,
    ),
    Mistake(
        "centred for normed",
        "The part along x - mean is taken off as if that had length 1. Divide it by the standard deviation first, in "
        "both places.",
        lambda x, upstream, eps: _along(x, upstream, eps, x - _mean(x)),
        0.5,
    ),
    Mistake(
        "means over all vectors",
        "The means of the gradient are taken over all vectors at once. Each vector has its own.",
        _backward(lambda g, y: g - g.mean() - y * (g * y).mean()),
        0.25,
    ),
    Mistake(
        "mean added",
        "The gradient's mean is added. It's to be taken off: the norm doesn't care for an offset.",
        _backward(lambda g, y: g + _mean(g) - y * _mean(g * y)),
        0.5,
    ),
    Mistake(
        "along divided twice",
        "The part along the normed vector is divided by the standard deviation twice.",
        _backward_divided(lambda spread: spread),
        0.5,
    ),
    Mistake(
        "along not divided",
        "The part along the normed vector isn't divided by the standard deviation, as the rest is.",
        _backward_divided(lambda spread: 1 / spread),
        0.5,
    ),
    Mistake(
        "diagonal only",
        "Each number's gradient comes from its own y alone. Through mean and standard deviation every x has an effect "
        "on every y.",
        _backward(lambda g, y: g * (1 - 1 / g.size(-1) - y.square() / g.size(-1))),
        0.25,
    ),
]


def _eps_outside(x: Tensor, upstream: Tensor, eps: float) -> Tensor:
    spread = x.std(dim=-1, keepdim=True, unbiased=False) + eps
    normed = (x - _mean(x)) / spread
    return (upstream - _mean(upstream) - normed * _mean(upstream * normed)) / spread


# 10.3 the gradient in each layer


def depth_cases(seed: int) -> list[Case]:
    """Return stacks of linear layers with the norm in either place."""
    g = torch.Generator().manual_seed(seed + 2000)
    s = torch.Generator().manual_seed(seed + 2500)

    def case(name: str, layers: int, n: int, d: int, norm: str) -> Case:
        while True:
            x, weights = draw(g, n, d, mean=0.5), draw(g, layers, d, d, scale=0.7 / math.sqrt(d))
            if _spread(x, weights) > 0.01:
                return Case(name, {"x": x, "weights": weights, "direction": draw(g, n, d), "norm": norm})

    return [
        case("small", 2, 2, 3, "pre"),
        case("small, normed after", 2, 2, 4, "post"),
        case("deeper", *sizes(s, 2, 3, 6), 4, "pre"),
        case("deeper, normed after", pick(s, 4, 7), 2, 3, "post"),
        case("one layer", 1, pick(s, 4, 6), 3, "pre"),
        case("all sizes alike", *[pick(s, 3, 4)] * 3, "post"),
        case("longer", 4, pick(s, 5, 7), 3, "pre"),
        case("wider, normed after", 3, 2, pick(s, 5, 7), "post"),
    ]


def _spread(x: Tensor, weights: Tensor) -> float:
    """Return the smallest variance that a norm meets, in either place, with the residual connections and without."""
    rows = [x]
    for kept in (1, 0):
        pre = post = x
        for w in weights:
            pre, total = kept * pre + _normed(pre) @ w, kept * post + post @ w
            post = _normed(total)
            rows += [pre, total]
    return min(float(row.var(dim=-1).min()) for row in rows)


def _step(x: Tensor, w: Tensor, norm: str) -> Tensor:
    return x + _normed(x) @ w if norm == "pre" else _normed(x + x @ w)


def _last(x: Tensor, norm: str) -> Tensor:
    return _normed(x) if norm == "pre" else x


def _depths(
    step: Callable[[Tensor, Tensor, str], Tensor] = _step,
    last: Callable[[Tensor, str], Tensor] = _last,
    loss: Callable[[Tensor, Tensor], Tensor] = lambda x, direction: (x * direction).sum(),
    measure: Callable[[Tensor, Tensor], Tensor] = lambda gradients, weights: gradients.flatten(1).norm(dim=1),
    inputs: bool = False,
) -> Callable[[Tensor, Tensor, Tensor, str], Tensor]:
    """Return an answer with another layer, end, loss or measure of the gradients [layers d d].

    Args:
        inputs: the gradients are those of the layers' inputs.
    """

    @torch.enable_grad()
    def answer(x: Tensor, weights: Tensor, direction: Tensor, norm: str) -> Tensor:
        leaves = [w.detach().clone().requires_grad_() for w in weights]
        reads = [x.detach().clone().requires_grad_()]
        for w in leaves:
            reads.append(step(reads[-1], w, norm))
        wanted = reads[:-1] if inputs else leaves
        gradients = torch.autograd.grad(loss(last(reads[-1], norm), direction), wanted)
        return measure(torch.stack(gradients), weights)

    return answer


depths = _depths()


@torch.enable_grad()
def depths_by_backward(x: Tensor, weights: Tensor, direction: Tensor, norm: str) -> Tensor:
    """Return the same, all weights one leaf, by backward()."""
    leaf = weights.detach().clone().requires_grad_()
    for number in range(len(leaf)):
        read = _normed(x) if norm == "pre" else x
        x = x + read @ leaf[number]
        x = x if norm == "pre" else _normed(x)
    x = _normed(x) if norm == "pre" else x
    (x * direction).sum().backward()
    return torch.stack([gradient.pow(2).sum().sqrt() for gradient in leaf.grad])


def depths_by_hand(x: Tensor, weights: Tensor, direction: Tensor, norm: str) -> Tensor:
    """Return the same by the chain rule, from the last layer to the first."""
    reads = [x]
    for w in weights:
        reads.append(_step(reads[-1], w, norm))
    found, gradient = [], backward(reads[-1], direction, 1e-5) if norm == "pre" else direction
    for read, w in zip(reversed(reads[:-1]), reversed(list(weights)), strict=True):
        if norm == "pre":
            found.append((_normed(read).T @ gradient).norm())
            gradient = gradient + backward(read, gradient @ w.T, 1e-5)
        else:
            inner = backward(read + read @ w, gradient, 1e-5)
            found.append((read.T @ inner).norm())
            gradient = inner + inner @ w.T
    return torch.stack(found[::-1])


def _stepped(
    pre: Callable[[Tensor, Tensor], Tensor] = lambda x, w: _step(x, w, "pre"),
    post: Callable[[Tensor, Tensor], Tensor] = lambda x, w: _step(x, w, "post"),
) -> Callable[[Tensor, Tensor, Tensor, str], Tensor]:
    """Return an answer with another layer where the norm comes first, or last."""
    return _depths(step=lambda x, w, norm: pre(x, w) if norm == "pre" else post(x, w))


def _over_largest(sizes: Tensor) -> Tensor:
    return sizes / sizes.max()


DEPTH_WRONG = [
    Mistake(
        "exchanged",
        "Pre-norm and post-norm are exchanged.",
        lambda *inputs: depths(*inputs[:3], "post" if inputs[3] == "pre" else "pre"),
        0.5,
    ),
    Mistake(
        "always pre",
        "The norm comes first in every layer, whatever `norm` says.",
        lambda *inputs: depths(*inputs[:3], "pre"),
        0.5,
    ),
    Mistake(
        "always post",
        "The norm comes last in every layer, whatever `norm` says.",
        lambda *inputs: depths(*inputs[:3], "post"),
        0.5,
    ),
    Mistake(
        "no residual",
        "x isn't added in the layers. Without it gradients must go through every weight on their way.",
        _depths(step=lambda x, w, norm: _normed(x) @ w if norm == "pre" else _normed(x @ w)),
        0.25,
    ),
    Mistake(
        "no norm",
        "There's no norm in the layers.",
        _depths(step=lambda x, w, norm: x + x @ w, last=lambda x, norm: x),
        0.25,
    ),
    Mistake(
        "last norm missing",
        "With 'pre', the norm after the last layer is missing: nothing has normed the sum of all layers yet.",
        _depths(last=lambda x, norm: x),
        0.5,
    ),
    Mistake(
        "of the vectors",
        "These are gradients of what the layers read. Those of their weights were asked for.",
        _depths(inputs=True),
        0.5,
    ),
    Mistake(
        "squared",
        "The squares are summed, but the root is missing.",
        _depths(measure=lambda gradients, w: gradients.pow(2).sum(dim=(1, 2))),
        0.5,
    ),
    Mistake(
        "root of the mean square",
        "The squares are averaged, not summed: this is the size of one number in the gradient. The norm was asked for.",
        _depths(measure=lambda gradients, w: gradients.pow(2).mean(dim=(1, 2)).sqrt()),
        0.75,
    ),
    Mistake(
        "sum of absolute values",
        "These are sums of absolute values. The norm is the root of the sum of squares.",
        _depths(measure=lambda gradients, w: gradients.abs().sum(dim=(1, 2))),
        0.5,
    ),
    Mistake(
        "largest",
        "This is the largest number of each gradient. The norm is the root of the sum of squares.",
        _depths(measure=lambda gradients, w: gradients.abs().amax(dim=(1, 2))),
        0.5,
    ),
    Mistake(
        "last layer first",
        "The numbers are right, but the last layer's comes first. Gradients are found in that order; turn it round.",
        _depths(measure=lambda gradients, w: gradients.flatten(1).norm(dim=1).flip(0)),
        0.75,
    ),
    Mistake(
        "over the weights' norm",
        "The norms are divided by those of the weights. A useful number, but not the one that was asked for.",
        _depths(measure=lambda gradients, w: gradients.flatten(1).norm(dim=1) / w.flatten(1).norm(dim=1)),
        0.5,
    ),
    Mistake(
        "mean for sum",
        "The loss is a mean. It's the sum of all products.",
        _depths(loss=lambda x, direction: (x * direction).mean()),
        0.75,
    ),
    Mistake(
        "norm of the weights",
        "These are the norms of the weights. Those of their gradients were asked for.",
        lambda x, weights, direction, norm: weights.flatten(1).norm(dim=1),
    ),
    Mistake(
        "residual from the norm",
        "With 'pre', the normed vectors are added in place of x, as where x = normed(x) comes first.",
        _stepped(pre=lambda x, w: _normed(x) + _normed(x) @ w),
        0.5,
    ),
    Mistake(
        "pre-norm's sum normed",
        "With 'pre', the sum of each layer is normed, too. Only the last one is, after the last layer.",
        _stepped(pre=lambda x, w: _normed(x + _normed(x) @ w)),
        0.5,
    ),
    Mistake(
        "only the contribution normed with pre",
        "With 'pre', the layer's contribution is normed. The norm is taken of what it reads.",
        _stepped(pre=lambda x, w: x + _normed(x @ w)),
        0.5,
    ),
    Mistake(
        "norm on the bypass",
        "With 'post', x is normed on its way past the matrix: normed(x) + x W. Post-norm norms the sum.",
        _stepped(post=lambda x, w: _normed(x) + x @ w),
        0.5,
    ),
    Mistake(
        "only the contribution normed with post",
        "With 'post', the layer's contribution is normed before x is added. Post-norm norms the sum.",
        _stepped(post=lambda x, w: x + _normed(x @ w)),
        0.5,
    ),
    Mistake(
        "weights transposed",
        "The matrices are transposed: it's x @ w here.",
        _stepped(lambda x, w: x + _normed(x) @ w.T, lambda x, w: _normed(x + x @ w.T)),
        0.75,
    ),
    Mistake(
        "largest singular value",
        "This is each gradient's largest singular value (its norm as a map). The root of the sum of squares was asked "
        "for.",
        _depths(measure=lambda gradients, w: torch.linalg.matrix_norm(gradients, 2)),
        0.5,
    ),
    Mistake(
        "mean of absolute values",
        "These are means of absolute values. The norm is the root of the sum of squares.",
        _depths(measure=lambda gradients, w: gradients.abs().mean(dim=(1, 2))),
        0.5,
    ),
    Mistake(
        "over the largest",
        "The norms are divided by the largest of them. A useful number, but not the one that was asked for.",
        _depths(measure=lambda gradients, w: _over_largest(gradients.flatten(1).norm(dim=1))),
        0.5,
    ),
    Mistake(
        "direction left out",
        "The loss is the plain sum of what comes out. A normed vector's sum is 0, whatever the weights are: multiply "
        "by `direction` first.",
        _depths(loss=lambda x, direction: x.sum()),
        0.25,
    ),
    Mistake(
        "products squared",
        "The products are squared before they're summed.",
        _depths(loss=lambda x, direction: (x * direction).square().sum()),
        0.5,
    ),
]


# 10.4 a pre-norm stack with three bugs


def stack_cases(seed: int) -> list[Case]:
    """Return vectors and weights of several layers."""
    g = torch.Generator().manual_seed(seed + 3000)
    s = torch.Generator().manual_seed(seed + 3500)
    batch, n, layers = sizes(s, 3, 2, 5)
    many, alike = pick(s, 3, 4), pick(s, 3, 4)
    shapes = {
        "small": (1, 2, 3, 1),
        "batch": (batch, n, pick(s, 4, 6), 2),
        "as many sentences as positions": (many, many, 5, 2),
        "all sizes alike": (alike, alike, alike, alike),
        "one position": (2, 1, pick(s, 4, 6), layers),
        "longer": (1, pick(s, 4, 8), 3, 2),
    }
    made = [
        Case(name, {"x": draw(g, b, n, d, mean=0.6, scale=1.4), "weights": draw(g, layers, d, d)})
        for name, (b, n, d, layers) in shapes.items()
    ]
    return [*made, Case("features almost alike", {"x": _alike(s, 1, 2, 5), "weights": draw(g, 2, 5, 5)})]


def _stacked(
    norm: Callable[[Tensor], Tensor] = _normed,
    clean: bool = True,
    last: bool = True,
    layer: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a stack with another norm, without clean residuals or last norm, or with another layer.

    Args:
        clean: x is added as it is, not normed.
    """

    def usual(x: Tensor, w: Tensor) -> Tensor:
        return (x if clean else norm(x)) + (norm(x) @ w).relu()

    def answer(x: Tensor, weights: Tensor) -> Tensor:
        for w in weights:
            x = (layer or usual)(x, w)
        return norm(x) if last else x

    return answer


stacked = _stacked()


def stacked_by_hand(x: Tensor, weights: Tensor) -> Tensor:
    """Return the same, sentence by sentence, the norm written out."""

    def norm(v: Tensor) -> Tensor:
        centred = v - v.mean(dim=-1, keepdim=True)
        return centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()

    results = []
    for sentence in x:
        total = sentence
        for w in weights.unbind():
            total = total + torch.einsum("nd,de->ne", norm(total), w).clamp(min=0)
        results.append(norm(total))
    return torch.stack(results)


def stacked_by_recursion(x: Tensor, weights: Tensor) -> Tensor:
    """Return the same, the first layer and then the rest."""
    if len(weights) == 0:
        return _normed(x)
    return stacked_by_recursion(x + torch.relu(_normed(x) @ weights[0]), weights[1:])


def _over_sentence(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[1:])


def _ended(end: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a stack with the right layers and another end."""
    return lambda x, weights: end(_stacked(last=False)(x, weights))


STACK_WRONG = [
    Mistake(
        "all three bugs are there",
        "All three bugs are still there: the norm runs over positions, too, the residual path is normed, and the last "
        "norm is missing.",
        _stacked(norm=_over_sentence, clean=False, last=False),
    ),
    Mistake(
        "normed over positions",
        "The norm takes mean and variance over all positions of a sentence, so that words see each other in it, later "
        "ones, too. Each vector is normed by itself: x.shape[-1:].",
        _stacked(norm=_over_sentence),
        0.5,
    ),
    Mistake(
        "residual from the norm",
        "The normed vectors are added where x should be: the residual path is normed in every layer.",
        _stacked(clean=False),
        0.5,
    ),
    Mistake(
        "last norm missing",
        "The last norm is missing: with pre-norm nothing has normed the sum of all layers yet.",
        _stacked(last=False),
        0.5,
    ),
    Mistake(
        "only the last norm mended",
        "The last norm is there now, but the norm runs over positions, too, and the residual path is normed.",
        _stacked(norm=_over_sentence, clean=False),
        0.25,
    ),
    Mistake(
        "only the residual mended",
        "x is added as it is now, but the norm runs over positions, too, and the last norm is missing.",
        _stacked(norm=_over_sentence, last=False),
        0.25,
    ),
    Mistake(
        "only the norm's axes mended",
        "Each vector is normed by itself now, but the residual path is normed, and the last norm is missing.",
        _stacked(clean=False, last=False),
        0.25,
    ),
    Mistake(
        "post-norm",
        "This is a post-norm stack: the sums are normed, and layers read what is normed already.",
        _stacked(layer=lambda x, w: _normed(x + (x @ w).relu()), last=False),
        0.5,
    ),
    Mistake(
        "only the contribution normed",
        "The layers' contributions are normed, not what they read.",
        _stacked(layer=lambda x, w: x + _normed((x @ w).relu())),
        0.5,
    ),
    Mistake(
        "last norm in every layer",
        "The sum is normed after each layer. The last norm comes once, after the last layer.",
        _stacked(layer=lambda x, w: _normed(x + (_normed(x) @ w).relu())),
        0.5,
    ),
    Mistake(
        "residual dropped",
        "x isn't added: each layer's contribution replaces what was there.",
        _stacked(layer=lambda x, w: (_normed(x) @ w).relu()),
        0.25,
    ),
    Mistake(
        "ReLU around the sum",
        "The ReLU is taken of the sum: what's below 0 on the residual path is lost in every layer.",
        _stacked(layer=lambda x, w: (x + _normed(x) @ w).relu()),
        0.5,
    ),
    Mistake(
        "no ReLU",
        "The ReLU is gone.",
        _stacked(layer=lambda x, w: x + _normed(x) @ w),
        0.5,
    ),
    Mistake(
        "normed along the positions",
        "The norm runs along the positions, for each feature. It should run along the features.",
        _stacked(norm=lambda x: _normed(x.mT).mT),
        0.25,
    ),
    Mistake(
        "weights transposed",
        "The weights are transposed: it's x @ w here.",
        _stacked(layer=lambda x, w: x + (_normed(x) @ w.T).relu()),
        0.75,
    ),
    Mistake(
        "last norm over the sentence",
        "The layers are right. But the last norm takes mean and variance over the whole sentence: x.shape[-1:] there, "
        "too.",
        _ended(_over_sentence),
        0.5,
    ),
    Mistake(
        "layers' norms over the sentence",
        "The last norm is right. But those in the layers take mean and variance over the whole sentence: x.shape[-1:] "
        "there, too.",
        _stacked(layer=lambda x, w: x + (_over_sentence(x) @ w).relu()),
        0.5,
    ),
    Mistake(
        "normed at the start",
        "The norm that was to follow the last layer stands before the first one.",
        lambda x, weights: _ended(lambda x: x)(_normed(x), weights),
        0.5,
    ),
    Mistake(
        "last norm added",
        "The last norm is added to the sum. It replaces it: nothing is added to any more.",
        _ended(lambda x: x + _normed(x)),
        0.5,
    ),
    Mistake(
        "normed over the batch",
        "The norm takes mean and variance over everything, all sentences together.",
        _stacked(norm=lambda x: F.layer_norm(x, x.shape)),
        0.25,
    ),
    Mistake(
        "norm on the bypass",
        "x is normed on its way past the matrix, and what the matrix reads isn't. In pre-norm it's vice versa.",
        _stacked(layer=lambda x, w: _normed(x) + (x @ w).relu()),
        0.5,
    ),
    Mistake(
        "no norm in the layers",
        "The layers read x as it is. In pre-norm each reads its norm.",
        _stacked(layer=lambda x, w: x + (x @ w).relu()),
        0.5,
    ),
    Mistake(
        "ReLU before the matrix",
        "The ReLU is taken of what the matrix reads. It's taken of the product.",
        _stacked(layer=lambda x, w: x + _normed(x).relu() @ w),
        0.5,
    ),
    Mistake(
        "unbiased variance",
        "The variance is divided by d - 1, which is torch's default. LayerNorm divides by d.",
        _stacked(norm=lambda x: (x - _mean(x)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()),
        0.75,
    ),
]


# 10.5 Fourier features


def fourier_cases(seed: int) -> list[Case]:
    """Return points and frequencies."""
    g = torch.Generator().manual_seed(seed + 4000)
    s = torch.Generator().manual_seed(seed + 4500)
    batch, d, m = sizes(s, 3, 2, 6)
    many, alike = pick(s, 3, 4), pick(s, 3, 4)
    shapes = {
        "small": ((), 2, 3),
        "one dimension": ((d + 1,), 1, m),
        "batch": ((batch,), d, m),
        "two batch dimensions": ((2, d), pick(s, 3, 5), 2),
        "as many frequencies as dimensions": ((2,), many, many),
        "all sizes alike": ((alike,), alike, alike),
        "longer": ((pick(s, 5, 8),), 2, 3),
    }
    return [
        Case(
            name,
            {"x": draw(g, *batch, d, mean=0.3, scale=0.6), "frequencies": _far_from_zero(draw(g, m, d, scale=0.6))},
        )
        for name, (batch, d, m) in shapes.items()
    ]


def _far_from_zero(x: Tensor) -> Tensor:
    return x + torch.where(x < 0, -0.2, 0.2)


def _waves(
    angle: Callable[[Tensor, Tensor], Tensor] = lambda x, B: 2 * math.pi * x @ B.T,
    join: Callable[[Tensor], Tensor] = lambda angle: torch.cat([angle.cos(), angle.sin()], dim=-1),
    scale: Callable[[int, int], float] = lambda m, d: m**-0.5,
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return features with another angle, put together in another way, or with another factor."""

    def answer(x: Tensor, frequencies: Tensor) -> Tensor:
        return join(angle(x, frequencies)) * scale(*frequencies.shape)

    return answer


fourier = _waves()


def fourier_by_loop(x: Tensor, frequencies: Tensor) -> Tensor:
    """Return the same, wave by wave."""
    cosines, sines = [], []
    for frequency in frequencies:
        angle = 2 * math.pi * (x * frequency).sum(dim=-1)
        cosines.append(torch.cos(angle))
        sines.append(torch.sin(angle))
    return torch.stack(cosines + sines, dim=-1) / math.sqrt(len(frequencies))


def fourier_by_complex(x: Tensor, frequencies: Tensor) -> Tensor:
    """Return the same by complex numbers."""
    waves = torch.exp(2j * math.pi * torch.einsum("...d,md->...m", x, frequencies))
    return torch.cat([waves.real, waves.imag], dim=-1) / len(frequencies) ** 0.5


def _parts(x: Tensor, frequencies: Tensor, cosines: float, sines: float) -> Tensor:
    """Return features whose halves have factors of their own."""
    angle = 2 * math.pi * x @ frequencies.T
    return torch.cat([cosines * angle.cos(), sines * angle.sin()], dim=-1)


FOURIER_WRONG = [
    Mistake(
        "2 pi left out",
        "2 pi is missing: a frequency of 1 should make one whole turn for each unit.",
        _waves(angle=lambda x, B: x @ B.T),
        0.5,
    ),
    Mistake(
        "pi for 2 pi",
        "The angle is pi times the product. A whole turn is 2 pi.",
        _waves(angle=lambda x, B: math.pi * x @ B.T),
        0.75,
    ),
    Mistake(
        "divided by the frequency",
        "2 pi is divided by the frequency, as if it were a wavelength.",
        _waves(angle=lambda x, B: 2 * math.pi * x @ (1 / B).T),
        0.5,
    ),
    Mistake(
        "no factor",
        "The factor 1 / sqrt(m) is missing: the features' length should be 1, however many there are.",
        _waves(scale=lambda m, d: 1.0),
        0.5,
    ),
    Mistake(
        "factor for 2m",
        "The factor is 1 / sqrt(2m). There are 2m features, but cosine and sine of one angle have length 1 together.",
        _waves(scale=lambda m, d: (2 * m) ** -0.5),
        0.75,
    ),
    Mistake(
        "divided by m",
        "All is divided by m. It's its root, so that products of two are divided by m.",
        _waves(scale=lambda m, d: 1 / m),
        0.5,
    ),
    Mistake(
        "divided by the root of d",
        "The factor is that of the points' dimension. It's 1 / sqrt(m), m being the number of frequencies.",
        _waves(scale=lambda m, d: d**-0.5),
        0.5,
    ),
    Mistake(
        "sines first",
        "The sines come first. Here it's all cosines, then all sines.",
        _waves(join=lambda angle: torch.cat([angle.sin(), angle.cos()], dim=-1)),
        0.75,
    ),
    Mistake(
        "interleaved",
        "Cosine and sine alternate, as in the paper's positions. Here it's all cosines, then all sines.",
        _waves(join=lambda angle: torch.stack([angle.cos(), angle.sin()], dim=-1).flatten(-2)),
        0.75,
    ),
    Mistake(
        "cosines only",
        "Only cosines: a point and its mirror image can't be told apart. The sines are missing.",
        _waves(join=torch.cos),
        0.25,
    ),
    Mistake(
        "sines only",
        "Only sines: the cosines are missing.",
        _waves(join=torch.sin),
        0.25,
    ),
    Mistake(
        "cosines twice",
        "Both halves are cosines.",
        _waves(join=lambda angle: torch.cat([angle.cos(), angle.cos()], dim=-1)),
        0.25,
    ),
    Mistake(
        "dimensions not joined",
        "Each dimension has features of its own. A frequency is a direction: its product with the point is one number.",
        _waves(angle=lambda x, B: (2 * math.pi * x.unsqueeze(-2) * B).flatten(-2)),
        0.5,
    ),
    Mistake(
        "root of 2 / m",
        "The factor is sqrt(2 / m), that of m cosines at random phases. With cosine and sine of each angle it's "
        "1 / sqrt(m).",
        _waves(scale=lambda m, d: (2 / m) ** 0.5),
        0.75,
    ),
    Mistake(
        "multiplied by the root",
        "All is multiplied by sqrt(m). Divide by it.",
        _waves(scale=lambda m, d: m**0.5),
        0.5,
    ),
    Mistake(
        "only the sines scaled",
        "Only the sines are divided: in `torch.cat([..., angle.sin()] ...)` the division belongs to the whole.",
        lambda x, frequencies: _parts(x, frequencies, 1.0, len(frequencies) ** -0.5),
        0.75,
    ),
    Mistake(
        "only the cosines scaled",
        "Only the cosines are divided. Divide the sines, too.",
        lambda x, frequencies: _parts(x, frequencies, len(frequencies) ** -0.5, 1.0),
        0.75,
    ),
    Mistake(
        "sines with a minus",
        "The sines have the wrong sign, as in a transform's exp(-2 pi i ...).",
        lambda x, frequencies: _parts(x, frequencies, len(frequencies) ** -0.5, -(len(frequencies) ** -0.5)),
        0.75,
    ),
    Mistake(
        "scaled inside",
        "The angles are divided by sqrt(m), not the waves.",
        _waves(angle=lambda x, B: 2 * math.pi * x @ B.T / len(B) ** 0.5, scale=lambda m, d: 1.0),
        0.5,
    ),
    Mistake(
        "divided by the points",
        "The factor is that of the number of points. It's 1 / sqrt(m), m being the number of frequencies.",
        lambda x, frequencies: _waves(scale=lambda m, d: len(x) ** -0.5)(x, frequencies),
        0.5,
    ),
]


# 10.6 what each head compares


def form_cases(seed: int) -> list[Case]:
    """Return projections to queries and keys that heads divide, and some that they don't."""
    g = torch.Generator().manual_seed(seed + 5000)

    def case(name: str, d_model: int, heads: int, words: tuple[int, ...] = (), telling: str = "") -> Case:
        tensors = {"W_q": draw(g, d_model, d_model), "W_k": draw(g, d_model, d_model), "heads": heads}
        return Case(name, tensors, mentions=tuple(map(str, words)), telling=telling)

    s = torch.Generator().manual_seed(seed + 5500)
    few, d, many = sizes(s, 3, 2, 5)
    odd, below = pick(s, 3, 5), pick(s, 2, 3)
    return [
        case("small", 4, 2),
        case("one head", d, 1),
        case("heads of width one", *[pick(s, 3, 4)] * 2),
        case("wide heads", 6, 2),
        case("more heads than they are wide", 6, 3),
        case("not divided", 7, odd, (7, odd), "the heads and d_model"),
        case("more heads than features", few, 2 * few, (few, 2 * few), "the heads and d_model"),
        case("no heads", many, 0, (0,), "the heads"),
        case("heads below zero", 6, -below, (-below,), "the heads"),
    ]


def forms(W_q: Tensor, W_k: Tensor, heads: int) -> Tensor:
    """Return the right matrices, or say why there are none."""
    if heads < 1 or len(W_q) % heads:
        raise ValueError(f"heads must be at least 1 and divide d_model = {len(W_q)}, got {heads}")
    return _forms()(W_q, W_k, heads)


Cut = Callable[[Tensor, int], Tensor]


def _columns(W: Tensor, heads: int) -> Tensor:
    """Return each head's columns: [heads d_model d_k]."""
    return W.unflatten(1, (heads, -1)).transpose(0, 1)


def _forms(
    cut: Cut = _columns,
    product: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.mT,
    scale: Callable[[int, int], float] = lambda d_k, d_model: d_k**-0.5,
) -> Callable[[Tensor, Tensor, int], Tensor]:
    """Return matrices that are made from other parts, in another way, or with another factor."""

    def answer(W_q: Tensor, W_k: Tensor, heads: int) -> Tensor:
        return product(cut(W_q, heads), cut(W_k, heads)) * scale(len(W_q) // heads, len(W_q))

    return answer


def forms_by_loop(W_q: Tensor, W_k: Tensor, heads: int) -> Tensor:
    """Return the same, head by head."""
    d_model = W_q.shape[0]
    if heads <= 0 or d_model % heads != 0:
        raise ValueError(f"can't cut {d_model} features into {heads} heads")
    d_k = d_model // heads
    found = []
    for h in range(heads):
        columns = slice(h * d_k, (h + 1) * d_k)
        found.append(W_q[:, columns] @ W_k[:, columns].T / math.sqrt(d_k))
    return torch.stack(found)


def forms_by_einsum(W_q: Tensor, W_k: Tensor, heads: int) -> Tensor:
    """Return the same by einsum."""
    forms(W_q, W_k, heads)
    queries, keys = (W.reshape(len(W), heads, -1) for W in (W_q, W_k))
    return torch.einsum("ihd,jhd->hij", queries, keys) / queries.size(-1) ** 0.5


FORM_WRONG = [
    Mistake(
        "rows cut",
        "The rows are cut into heads. Rows belong to the features of x; a head's queries are columns of x @ W_q.",
        guarded(forms, _forms(cut=lambda W, h: _columns(W.T, h))),
        0.5,
    ),
    Mistake(
        "transposed",
        "Each matrix is transposed: queries and keys are exchanged.",
        guarded(forms, lambda *inputs: forms(*inputs).mT),
        0.5,
    ),
    Mistake(
        "every so many columns",
        "A head gets every so many columns. Its columns stand side by side: the first d_k are the first head's.",
        guarded(forms, _forms(cut=lambda W, h: W.unflatten(1, (-1, h)).permute(2, 0, 1))),
        0.5,
    ),
    Mistake(
        "cut by reshape",
        "reshape(heads, d_model, d_k) cuts the numbers in the order in which they lie in memory: rows are torn apart. "
        "Cut the columns, then move the heads to the front.",
        guarded(forms, _forms(cut=lambda W, h: W.reshape(h, len(W), -1))),
        0.25,
    ),
    Mistake(
        "no scale",
        "The factor 1 / sqrt(d_k) is missing.",
        guarded(forms, _forms(scale=lambda d_k, d: 1.0)),
        0.5,
    ),
    Mistake(
        "scale by d_model",
        "The factor is 1 / sqrt(d_model). It's that of a head's width, d_k = d_model / heads.",
        guarded(forms, _forms(scale=lambda d_k, d: d**-0.5)),
        0.5,
    ),
    Mistake(
        "divided by d_k",
        "All is divided by d_k. It's its root.",
        guarded(forms, _forms(scale=lambda d_k, d: 1 / d_k)),
        0.5,
    ),
    Mistake(
        "summed over the heads",
        "The heads' matrices are summed. Each head has its own softmax, so that each needs its own matrix.",
        guarded(forms, lambda *inputs: forms(*inputs).sum(dim=0)),
        0.25,
    ),
    Mistake(
        "one matrix for all",
        "Each head gets the product of the whole projections. A head sees its own columns only.",
        guarded(forms, lambda q, k, h: (q @ k.T / math.sqrt(len(q) // h)).expand(h, -1, -1)),
        0.25,
    ),
    Mistake(
        "features of the heads",
        "The product is [d_k d_k], over the features of x. It's over a head's own features: [d_model d_model].",
        guarded(forms, _forms(product=lambda q, k: q.mT @ k)),
        0.25,
    ),
    Mistake(
        "queries with queries",
        "The queries' projection is multiplied by itself: W_k isn't used.",
        guarded(forms, lambda q, k, h: forms(q, q, h)),
        0.25,
    ),
    Mistake(
        "cut short in silence",
        "Nothing is refused: where heads doesn't divide d_model, columns are left over, or there's an error from "
        "somewhere else.",
        lambda q, k, h: _unguarded(q, k, h),
        0.5,
    ),
    Mistake(
        "heads below one let through",
        "It's checked whether heads divides d_model, but not whether there's a head at all.",
        lambda q, k, h: _barely_guarded(q, k, h),
        0.75,
    ),
    Mistake(
        "assertions",
        "Errors are raised by assert, which python -O leaves out: raise ValueError.",
        with_errors(forms, lambda error: AssertionError(str(error))),
        0.5,
    ),
    Mistake(
        "errors that don't tell",
        "ValueError is right, but its text lacks the numbers that came.",
        with_errors(forms, lambda error: ValueError("bad heads")),
        0.75,
    ),
    Mistake(
        "rows of W_k",
        "Of W_k the head's rows are taken, as if it were transposed already. It's the same columns of both "
        "projections; then transpose what is cut out of W_k.",
        guarded(forms, lambda q, k, h: forms(q, k.T, h)),
        0.5,
    ),
    Mistake(
        "scale by the heads",
        "The factor is 1 / sqrt(heads). It's that of a head's width, d_k = d_model / heads.",
        guarded(forms, _forms(scale=lambda d_k, d: (d_k / d) ** 0.5)),
        0.5,
    ),
    Mistake(
        "multiplied by the root",
        "All is multiplied by sqrt(d_k). Divide by it.",
        guarded(forms, _forms(scale=lambda d_k, d: d_k**0.5)),
        0.5,
    ),
    Mistake(
        "first head for all",
        "Each head gets the first head's columns. Move on by d_k for each head.",
        guarded(forms, lambda q, k, h: forms(q, k, h)[:1].expand(h, -1, -1)),
        0.25,
    ),
    Mistake(
        "softmax taken",
        "A softmax is taken. M isn't a map of weights: it's what scores are made with.",
        guarded(forms, lambda *inputs: forms(*inputs).softmax(dim=-1)),
        0.5,
    ),
]


def _unguarded(W_q: Tensor, W_k: Tensor, heads: int) -> Tensor:
    """Return matrices for any number of heads; columns that are left over are dropped."""
    d_k = len(W_q) // heads
    parts = [(W[:, h * d_k : (h + 1) * d_k] for W in (W_q, W_k)) for h in range(heads)]
    return torch.stack([q @ k.T / math.sqrt(d_k or 1) for q, k in parts])


def _barely_guarded(W_q: Tensor, W_k: Tensor, heads: int) -> Tensor:
    if heads and len(W_q) % heads:
        raise ValueError(f"{heads} heads don't divide {len(W_q)}")
    return _unguarded(W_q, W_k, heads)


PROBES = [
    probe(
        "10.1",
        "a sub-layer, normed before or after",
        "module",
        "ResidualFeedForward",
        (4, 12, 1),
        cases=block_cases,
        reference=Block,
        right={"the norm written out": BlockByHand, "position by position": BlockByPosition},
        original=("layers.Residual",),
        wrong=BLOCK_WRONG,
    ),
    probe(
        "10.2",
        "what a norm does to a gradient",
        "function",
        "layer_norm_gradient",
        (5, 18, 3),
        cases=backward_cases,
        reference=backward,
        right={"PyTorch's own": backward_by_autograd, "the matrix of derivatives": backward_by_jacobian},
        wrong=BACKWARD_WRONG,
    ),
    probe(
        "10.3",
        "the gradient in each layer",
        "function",
        "gradient_norms",
        (5, 15, 2),
        cases=depth_cases,
        reference=depths,
        right={"backward": depths_by_backward, "the chain rule by hand": depths_by_hand},
        wrong=DEPTH_WRONG,
    ),
    probe(
        "10.4",
        "a pre-norm stack with three bugs",
        "bug",
        "pre_norm_stack",
        (5, 12, 2),
        cases=stack_cases,
        reference=stacked,
        right={"sentence by sentence": stacked_by_hand, "recursion": stacked_by_recursion},
        wrong=STACK_WRONG,
    ),
    probe(
        "10.5",
        "Fourier features",
        "function",
        "fourier_features",
        (3, 8, 1),
        cases=fourier_cases,
        reference=fourier,
        right={"wave by wave": fourier_by_loop, "complex numbers": fourier_by_complex},
        wrong=FOURIER_WRONG,
    ),
    probe(
        "10.6",
        "what each head compares",
        "error",
        "score_matrices",
        (5, 15, 2),
        cases=form_cases,
        reference=forms,
        right={"head by head": forms_by_loop, "einsum": forms_by_einsum},
        wrong=FORM_WRONG,
    ),
]


QUESTIONS = [
    Question(
        id="10.7",
        title="deep, and it doesn't learn",
        points=4,
        minutes=10,
        difficulty=3,
        rubric=(
            (
                1,
                "what to measure before the first step",
                "gradient by layer or how alike the tokens are, at the real start",
            ),
            (
                1,
                "what it looks like with the norm in either place",
                "top's gradient: post as large as ever, pre smaller; tokens: post alike",
            ),
            (
                1,
                "why a warm-up can help, and what it can't mend",
                "small steps while Adam's averages are young; no bug, and slow with a bad start",
            ),
            (1, "an experiment that decides, with its controls", "same seeds, data, rates; only the place differs"),
        ),
    ),
    Question(
        id="10.8",
        title="three checks, all passed",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (
                1,
                "why each of the checks can't find the fault",
                "shape, sums and falling loss hold for many wrong models",
            ),
            (1, "a fault that passes all three", "no causal mask; the scale; the mask's polarity; heads mixed up"),
            (1, "a property that the fault breaks", "later tokens don't matter; padding doesn't; equal to PyTorch's"),
            (1, "how to know that a check can fail", "plant the fault on purpose and see the check fail"),
        ),
    ),
]
