"""Answers to chapter 10's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def centred(x):
    return x - x.mean(-1, keepdim=True)


def variance(x):
    return x.var(-1, keepdim=True, correction=0)


SPREADS = {
    "no eps": lambda x: variance(x).sqrt(),
    "eps outside the root": lambda x: variance(x).sqrt() + 1e-5,
    "eps far too small": lambda x: (variance(x) + 1e-12).sqrt(),
    "eps too large": lambda x: (variance(x) + 1e-3).sqrt(),
    "variance clamped": lambda x: variance(x).clamp(min=1e-5).sqrt(),
    "mean absolute deviation": lambda x: centred(x).abs().mean(-1, keepdim=True) + 1e-5,
}


def norm_with(spread):
    return lambda x: centred(x) / spread(x)


def plain(x):
    return F.layer_norm(x, x.shape[-1:])


# 10.1


class Block(nn.Module):
    def __init__(self, d_model, d_ff, norm):
        super().__init__()
        self.norm, self.place = nn.LayerNorm(d_model), norm
        self.inner, self.outer = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def normed(self, x):
        return self.norm(x)

    def network(self, x):
        return self.outer(self.inner(x).clamp(min=0))

    def forward(self, x):
        return x + self.network(self.normed(x)) if self.place == "pre" else self.normed(x + self.network(x))


def block(**changes):
    return type("ResidualFeedForward", (Block,), changes)


def block_normed(norm):
    return block(normed=lambda self, x: self.norm.weight * norm(x) + self.norm.bias)


def in_place(self, x):
    x += self.network(self.normed(x)) if self.place == "pre" else self.network(x)
    return x if self.place == "pre" else self.normed(x)


class BlockByFunctions(Block):
    def forward(self, x):
        reads = F.layer_norm(x, (x.size(-1),), self.norm.weight, self.norm.bias) if self.place == "pre" else x
        hidden = torch.maximum(reads @ self.inner.weight.T + self.inner.bias, torch.zeros(()).to(x))
        total = x + hidden @ self.outer.weight.T + self.outer.bias
        return total if self.place == "pre" else F.layer_norm(total, (x.size(-1),), self.norm.weight, self.norm.bias)


class BlockInTwoSteps(Block):
    def forward(self, x):
        found = torch.add(x, self.network(self.norm(x) if self.place != "post" else x))
        return self.norm(found) if self.place == "post" else found


# 10.2


def backward(sigma=lambda x, eps: (variance(x) + eps).sqrt()):
    def answer(x, upstream, eps):
        spread = sigma(x, eps)
        y = centred(x) / spread
        return (centred(upstream) - y * (upstream * y).mean(-1, keepdim=True)) / spread

    return answer


def upstream_not_centred(x, upstream, eps):
    spread = (variance(x) + eps).sqrt()
    y = centred(x) / spread
    return (upstream - y * (upstream * y).mean(-1, keepdim=True)) / spread


def along_the_direction(x, upstream, eps):
    unit = F.normalize(centred(x), dim=-1)
    return (centred(upstream) - unit * (upstream * unit).sum(-1, keepdim=True)) / (variance(x) + eps).sqrt()


def default_eps(x, upstream, eps):
    return backward()(x, upstream, 1e-5)


def upstream_in_place(x, upstream, eps):
    right = backward()(x, upstream, eps)
    upstream -= upstream.mean(-1, keepdim=True)
    return right


def backward_by_functions(x, upstream, eps):
    with torch.enable_grad():
        leaf = x.detach().clone().requires_grad_()
        value = (F.layer_norm(leaf, leaf.shape[-1:], eps=eps) * upstream).sum()
        return torch.autograd.grad(value, leaf, create_graph=True)[0]


def backward_in_float64(x, upstream, eps):
    return backward()(x.double(), upstream.double(), eps).to(x.dtype)


# 10.3


def norms(norm=plain, measure=lambda g: g.flatten(1).norm(dim=1), direct=lambda h, d: (h * d).sum(), last=True):
    def answer(x, weights, direction, place):
        with torch.enable_grad():
            leaves = weights.detach().clone().requires_grad_()
            h = x
            for w in leaves:
                h = h + norm(h) @ w if place == "pre" else norm(h + h @ w)
            h = norm(h) if place == "pre" and last else h
            return measure(torch.autograd.grad(direct(h, direction), leaves)[0])

    return answer


def weights_made_to_collect(x, weights, direction, place):
    with torch.enable_grad():
        h = x
        weights.requires_grad_()
        for w in weights:
            h = h + plain(h) @ w if place == "pre" else plain(h + h @ w)
        ((plain(h) if place == "pre" else h) * direction).sum().backward()
        return weights.grad.flatten(1).norm(dim=1)


def norms_by_list(x, weights, direction, place):
    with torch.enable_grad():
        leaves, h = [w.detach().clone().requires_grad_() for w in weights], x
        for w in leaves:
            h = h + plain(h) @ w if place == "pre" else plain(h + h @ w)
        h = plain(h) if place == "pre" else h
        found = torch.autograd.grad(torch.tensordot(h, direction, dims=2), leaves)
    return torch.stack([g.square().sum() ** 0.5 for g in found])


# 10.4


def stack(norm=plain, end=None, update=lambda h, w: (h @ w).relu()):
    def answer(x, weights):
        for w in weights:
            x = x + update(norm(x), w)
        return (end or norm)(x)

    return answer


def stack_in_place(x, weights):
    for w in weights:
        x += (plain(x) @ w).relu()
    return plain(x)


def first_layer_again(x, weights):
    return stack()(x, weights[:1].expand_as(weights))


def stack_by_hand(x, weights):
    def norm(v):
        return centred(v) * (centred(v).square().mean(-1, keepdim=True) + 1e-5).rsqrt()

    return stack(norm, update=lambda h, w: torch.einsum("bnd,de->bne", h, w).clamp(min=0))(x, weights)


# 10.5


def waves(angle=lambda x, f: 2 * math.pi * x @ f.T, scale=lambda f: len(f) ** -0.5):
    def answer(x, frequencies):
        found = angle(x, frequencies)
        return torch.cat([found.cos(), found.sin()], -1) * scale(frequencies)

    return answer


def sines_by_root(x, frequencies):
    cosines = (2 * math.pi * x @ frequencies.T).cos()
    return torch.cat([cosines, (1 - cosines**2).clamp(min=0).sqrt()], -1) / len(frequencies) ** 0.5


def of_length_2(x, frequencies):
    return F.normalize(waves()(x, frequencies), dim=-1) * 2


def waves_by_polar(x, frequencies):
    angle = math.tau * (x.unsqueeze(-2) * frequencies).sum(-1)
    wave = torch.polar(torch.full_like(angle, len(frequencies) ** -0.5), angle)
    return torch.cat([wave.real, wave.imag], -1)


def waves_by_shift(x, frequencies):
    angle = torch.einsum("...d,md->...m", x, frequencies) * 2 * math.pi
    shift = torch.tensor([[0.0], [math.pi / 2]], dtype=x.dtype)
    return ((angle.unsqueeze(-2) - shift).cos() / math.sqrt(len(frequencies))).flatten(-2)


# 10.6


def refuse(d_model, heads):
    if heads < 1 or d_model % heads:
        raise ValueError(f"{heads} heads for {d_model} features")


def matrices(check=refuse, change=lambda found: found):
    def answer(W_q, W_k, heads):
        check(len(W_q), heads)
        queries, keys = (W.unflatten(1, (heads, -1)).transpose(0, 1) for W in (W_q, W_k))
        return change(queries @ keys.mT / math.sqrt(len(W_q) // heads))

    return answer


def zero_only(d_model, heads):
    if heads == 0 or d_model % heads:
        raise ValueError(f"{heads} heads for {d_model} features")


def heads_told(d_model, heads):
    if heads < 1 or d_model % heads:
        raise ValueError(f"it can't be cut into {heads}")


def not_more_than_features(d_model, heads):
    if heads < 1 or heads <= d_model and d_model % heads:
        raise ValueError(f"{heads} heads for {d_model} features")


def first_not_scaled(found):
    return torch.cat([found[:1] * found.size(-1) ** 0.5, found[1:]])


def matrices_by_masks(W_q, W_k, heads):
    refuse(len(W_q), heads)
    d_k = len(W_q) // heads
    chosen = (torch.arange(len(W_q)) // d_k == torch.arange(heads)[:, None]).to(W_q.dtype)
    return torch.einsum("ic,hc,jc->hij", W_q, chosen, W_k) * d_k**-0.5


def matrices_by_chunks(W_q, W_k, heads):
    refuse(len(W_q), heads)
    pairs = zip(W_q.chunk(heads, dim=1), W_k.chunk(heads, dim=1), strict=True)
    return torch.stack([(q / q.size(1) ** 0.25) @ (k / k.size(1) ** 0.25).T for q, k in pairs])


WRONG = {
    "10.1": {
        **{name: block_normed(norm_with(spread)) for name, spread in SPREADS.items()},
        "x in place": block(forward=in_place),
        "leaky": block(network=lambda self, x: self.outer(F.leaky_relu(self.inner(x)))),
    },
    "10.2": {
        "eps squared": backward(lambda x, eps: (variance(x) + eps**2).sqrt()),
        "variance clamped": backward(lambda x, eps: variance(x).clamp(min=eps).sqrt()),
        "upstream not centred": upstream_not_centred,
        "along the direction": along_the_direction,
        "an eps of its own": default_eps,
        "upstream in place": upstream_in_place,
    },
    "10.3": {
        "weights made to collect gradients": weights_made_to_collect,
        "eps too large": norms(norm_with(SPREADS["eps too large"])),
        "mean absolute deviation": norms(norm_with(SPREADS["mean absolute deviation"])),
        "no last norm": norms(last=False),
        "columns first": norms(measure=lambda g: g.norm(dim=1).mean(-1)),
        "nuclear": norms(measure=lambda g: torch.linalg.matrix_norm(g, "nuc")),
        "mean of the products": norms(direct=lambda h, d: (h * d).mean()),
        "squares of the products": norms(direct=lambda h, d: (h * d).square().sum()),
    },
    "10.4": {
        **{name: stack(norm_with(spread)) for name, spread in SPREADS.items()},
        "x in place": stack_in_place,
        "first layer again": first_layer_again,
        "leaky": stack(update=lambda h, w: F.leaky_relu(h @ w)),
        "last norm without mean": stack(end=lambda x: x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()),
    },
    "10.5": {
        "pi is 3.14": waves(lambda x, f: 2 * 3.14 * x @ f.T),
        "degrees": waves(lambda x, f: 360 * x @ f.T),
        "no sign of the sines": sines_by_root,
        "of length 2": of_length_2,
        "minus the angle": waves(lambda x, f: -2 * math.pi * x @ f.T),
        "points of length 1": waves(lambda x, f: 2 * math.pi * F.normalize(x, dim=-1) @ f.T),
        "scaled by both": waves(scale=lambda f: f.numel() ** -0.5),
    },
    "10.6": {
        "zero only refused": matrices(zero_only),
        "more heads than features": matrices(not_more_than_features),
        "d_model not told": matrices(heads_told),
        "first not scaled": matrices(change=first_not_scaled),
        "heads in reverse": matrices(change=lambda found: found.flip(0)),
        "made symmetric": matrices(change=lambda found: (found + found.mT) / 2),
        "heads last": matrices(change=lambda found: found.movedim(0, -1)),
    },
}

RIGHT = {
    "10.1": {"functions": BlockByFunctions, "two steps": BlockInTwoSteps},
    "10.2": {"functions": backward_by_functions, "float64 within": backward_in_float64},
    "10.3": {"one leaf": norms(), "a list of leaves": norms_by_list},
    "10.4": {"one line": stack(), "by hand": stack_by_hand},
    "10.5": {"polar": waves_by_polar, "cosines shifted": waves_by_shift},
    "10.6": {"masks": matrices_by_masks, "chunks": matrices_by_chunks},
}
