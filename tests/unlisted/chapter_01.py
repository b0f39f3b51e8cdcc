"""Answers to chapter 01's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import baselines

# 1.1


class Network(nn.Module):
    """What the notebook gives: the two layers."""

    def __init__(self, d_model):
        super().__init__()
        self.input = nn.Linear(d_model, d_model)
        self.hidden = nn.Linear(d_model, d_model, bias=False)


class InPlace(Network):
    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        for t in range(x.size(1)):
            x[:, t] = torch.tanh(self.input(x[:, t]) + self.hidden(state))
            state = x[:, t]
        return x


class Detached(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            state = torch.tanh(self.input(x[:, t]) + self.hidden(state.detach()))
            states.append(state)
        return torch.stack(states, dim=1)


class Remembering(Network):
    state = None

    def forward(self, x):
        if self.state is None:
            self.state = torch.zeros_like(x[:, 0])
        states = []
        for t in range(x.size(1)):
            self.state = torch.tanh(self.input(x[:, t]) + self.hidden(self.state))
            states.append(self.state)
        return torch.stack(states, dim=1)


class StatesJoined(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            state = torch.tanh(self.input(x[:, t]) + self.hidden(state))
            states.append(state)
        return torch.cat(states, dim=1)


class FromTheSecond(Network):
    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        states = [state]
        for t in range(1, x.size(1)):
            state = torch.tanh(self.input(x[:, t]) + self.hidden(state))
            states.append(state)
        return torch.stack(states, dim=1)


class BiasOutside(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            state = torch.tanh(x[:, t] @ self.input.weight.T + self.hidden(state)) + self.input.bias
            states.append(state)
        return torch.stack(states, dim=1)


class BiasTwice(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            state = torch.tanh(self.input(x[:, t]) + self.hidden(state) + self.input.bias)
            states.append(state)
        return torch.stack(states, dim=1)


class SquashedTwice(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            state = torch.tanh(self.input(x[:, t]) + self.hidden(state.tanh()))
            states.append(state)
        return torch.stack(states, dim=1)


class StateThroughBoth(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            state = torch.tanh(self.input(x[:, t] + self.hidden(state)))
            states.append(state)
        return torch.stack(states, dim=1)


class FirstSentence(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[0, 0]), []
        for x_t in x[0]:
            state = torch.tanh(self.input(x_t) + self.hidden(state))
            states.append(state)
        return torch.stack(states).expand_as(x)


class WithItsLastState(Network):
    def forward(self, x):
        state, states = torch.zeros_like(x[:, 0]), []
        for t in range(x.size(1)):
            state = torch.tanh(self.input(x[:, t]) + self.hidden(state))
            states.append(state)
        return torch.stack(states, dim=1), state


def squashed_by(tanh):
    """Return Elman's network with a tanh of its own."""

    class Squashed(Network):
        def forward(self, x):
            state, states = torch.zeros_like(x[:, 0]), []
            for t in range(x.size(1)):
                state = tanh(self.input(x[:, t]) + self.hidden(state))
                states.append(state)
            return torch.stack(states, dim=1)

    return Squashed


def tanh_of_both(h):
    return (h.exp() - (-h).exp()) / (h.exp() + (-h).exp())


def tanh_of_twice(h):
    return ((2 * h).exp() - 1) / ((2 * h).exp() + 1)


def tanh_by_sigmoid(h):
    return 2 / (1 + (-2 * h).exp()) - 1


class Borrowed(baselines.ElmanRNN):
    def forward(self, x):
        return super().forward(x)


class ByCell(Network):
    def forward(self, x):
        states = [torch.zeros(len(x), x.size(2), dtype=x.dtype)]
        for x_t in x.transpose(0, 1):
            W, U = self.input.weight, self.hidden.weight
            bias = torch.zeros_like(self.input.bias)
            states.append(torch.rnn_tanh_cell(x_t, states[-1], W, U, self.input.bias, bias))
        return torch.stack(states[1:]).transpose(0, 1)


class ByNumbers(Network):
    def forward(self, x):
        W, b, U = self.input.weight, self.input.bias, self.hidden.weight
        out = torch.zeros_like(x)
        for batch in range(x.size(0)):
            for t in range(x.size(1)):
                before = out[batch, t - 1].clone() if t > 0 else torch.zeros_like(b)
                out[batch, t] = torch.tanh(torch.mv(W, x[batch, t]) + torch.einsum("ij,j->i", U, before) + b)
        return out


# 1.2


def parts(x, state, W, U, b):
    return torch.chunk(x @ W.T + state @ U.T + b, 4, dim=-1)


def cell_in_place(x, state, cell, W, U, b):
    i, f, g, o = parts(x, state, W, U, b)
    cell *= f.sigmoid()
    cell += i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def candidate_without_state(x, state, cell, W, U, b):
    i, f, _, o = parts(x, state, W, U, b)
    g = parts(x, torch.zeros_like(state), W, U, b)[2]
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def forget_bias_added(x, state, cell, W, U, b):
    i, f, g, o = parts(x, state, W, U, b)
    new = (f + 1).sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def chunked_along_the_batch(x, state, cell, W, U, b):
    gates = x @ W.T + state @ U.T + b
    i, f, g, o = gates.reshape(4, len(x), -1)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def bias_twice(x, state, cell, W, U, b):
    i, f, g, o = parts(x, state, W, U, 2 * b)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def gates_exchanged_at_the_end(x, state, cell, W, U, b):
    i, f, g, o = parts(x, state, W, U, b)
    new = f.sigmoid() * cell + o.sigmoid() * g.tanh()
    return i.sigmoid() * new.tanh(), new


def state_as_cell(x, state, cell, W, U, b):
    i, f, g, o = parts(x, state, W, U, b)
    new = f.sigmoid() * state + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh(), new


def gru_like(x, state, cell, W, U, b):
    i, f, g, o = parts(x, state, W, U, b)
    new = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * new.tanh() + (1 - o.sigmoid()) * state, new


def hard_sigmoid(x, state, cell, W, U, b):
    i, f, g, o = parts(x, state, W, U, b)
    i, f, o = F.hardsigmoid(i), F.hardsigmoid(f), F.hardsigmoid(o)
    new = f * cell + i * g.tanh()
    return o * new.tanh(), new


def stepping(sigmoid=torch.sigmoid, tanh=torch.tanh, kept=lambda new: new):
    """Return a step of which some functions are others."""

    def answer(x, state, cell, W, U, b):
        i, f, g, o = parts(x, state, W, U, b)
        new = kept(sigmoid(f) * cell + sigmoid(i) * tanh(g))
        return sigmoid(o) * tanh(new), new

    return answer


def lstm_stacked(x, state, cell, W, U, b):
    both = torch.cat([x, state], dim=1) @ torch.cat([W, U], dim=1).T + b
    d = state.size(1)
    i, f, o = both[:, :d], both[:, d : 2 * d], both[:, 3 * d :]
    new = cell / (1 + torch.exp(-f)) + both[:, 2 * d : 3 * d].tanh() / (1 + torch.exp(-i))
    return new.tanh() / (1 + torch.exp(-o)), new


def lstm_by_sentence(x, state, cell, W, U, b):
    states, cells = [], []
    for x_i, h, c in zip(x, state, cell, strict=True):
        i, f, g, o = torch.split(torch.mv(W, x_i) + torch.mv(U, h) + b, len(h))
        cells.append(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))
        states.append(torch.sigmoid(o) * torch.tanh(cells[-1]))
    return [torch.stack(states), torch.stack(cells)]


# 1.3


def conv(x, weight, bias, dilation, left, right=0):
    return F.conv1d(F.pad(x.transpose(1, 2), (left, right)), weight, bias, dilation=dilation).transpose(1, 2)


def padded_for_width_3(x, weight, bias, dilation):
    return conv(x, weight, bias, dilation, 2 * dilation)[:, : x.size(1)]


def cut_in_front(x, weight, bias, dilation):
    reach = (weight.size(-1) - 1) * dilation
    return conv(x, weight, bias, dilation, reach, reach)[:, reach:]


def zeros_among_features(x, weight, bias, dilation):
    reach = (weight.size(-1) - 1) * dilation
    padded = F.pad(x, (0, 0, 0, reach)).roll(reach, dims=2)
    return F.conv1d(padded.transpose(1, 2), weight, bias, dilation=dilation).transpose(1, 2)


def future_masked_weight(x, weight, bias, dilation):
    kept = weight.clone()
    kept[..., weight.size(-1) // 2 + 1 :] = 0
    reach = (weight.size(-1) - 1) * dilation
    return conv(x, kept, bias, dilation, reach // 2, reach - reach // 2)


def bias_over_positions(x, weight, bias, dilation):
    reach = (weight.size(-1) - 1) * dilation
    out = conv(x, weight, None, dilation, reach)
    return out + bias if x.size(1) != len(bias) else out + bias[:, None]


def padded_by_ones(x, weight, bias, dilation):
    reach = (weight.size(-1) - 1) * dilation
    return F.conv1d(F.pad(x.transpose(1, 2), (reach, 0), value=1.0), weight, bias, dilation=dilation).transpose(1, 2)


def stride_for_dilation(x, weight, bias, dilation):
    reach = weight.size(-1) - 1
    padded = F.pad(x.transpose(1, 2), (reach, 0))
    return F.conv1d(padded, weight, bias, stride=dilation).transpose(1, 2)


def bias_before_the_start(x, weight, bias, dilation):
    out = conv(x, weight, bias, dilation, (weight.size(-1) - 1) * dilation)
    out[:, : (weight.size(-1) - 1) * dilation] -= bias
    return out


def conv_by_einsum(x, weight, bias, dilation):
    width, n = weight.size(-1), x.size(1)
    reach = (width - 1) * dilation
    padded = torch.cat([torch.zeros(len(x), reach, x.size(2)).to(x), x], dim=1)
    places = torch.arange(n)[:, None] + torch.arange(width) * dilation
    return torch.einsum("bnki,oik->bno", padded[:, places], weight) + bias


def conv_by_module(x, weight, bias, dilation):
    layer = nn.Conv1d(weight.size(1), weight.size(0), weight.size(2), dilation=dilation, dtype=x.dtype)
    layer.weight.data, layer.bias.data = weight, bias
    return layer(nn.functional.pad(x.mT, ((weight.size(2) - 1) * dilation, 0))).mT


# 1.4


def reached(width, dilations):
    found = {0}
    for r in dilations:
        found = {back + place * r for back in found for place in range(width)}
    return found


def as_row(found, length):
    return torch.tensor([d in found for d in range(length)])


def seen_for_width_2(width, dilations, length):
    found = {0}
    for r in dilations:
        found = found | {back + r for back in found} | {back + (width - 1) * r for back in found}
    return as_row(found, length)


def first_dilation_only_twice(width, dilations, length):
    found = {0}
    for _ in dilations:
        found = {back + place * dilations[0] for back in found for place in range(width)}
    return as_row(found, length)


def sorted_first(width, dilations, length):
    found = {0}
    for r in sorted(set(dilations)):
        found = {back + place * r for back in found for place in range(width)}
    return as_row(found, length)


def cut_between(width, dilations, length):
    mask = torch.zeros(length, dtype=torch.bool)
    mask[0] = True
    for r in dilations:
        for back in range(length):
            for place in range(width):
                if mask[back] and back + place * r < length:
                    mask[back + place * r] = True
    return mask


def up_to_the_last(width, dilations, length):
    row = as_row(reached(width, dilations), length)
    row[-1] = True
    return row


def each_place_or_none(width, dilations, length):
    step = math.gcd(*dilations)
    back = torch.arange(length)
    return (back <= (width - 1) * sum(dilations)) & (back % step == 0)


def integers(width, dilations, length):
    return as_row(reached(width, dilations), length).long()


def as_a_list(width, dilations, length):
    return [d in reached(width, dilations) for d in range(length)]


def seen_both_ways(width, dilations, length):
    found = {0}
    for r in dilations:
        found = {abs(back + place * r) for back in found for place in range(-(width // 2), (width + 1) // 2)}
    return as_row(found, length)


def shares_of_a_hundredth(width, dilations, length):
    shares = (torch.arange(length) == 0).float()
    for r in dilations:
        shares = sum(F.pad(shares, (place * r, 0))[:length] for place in range(width)) / width
    return shares > 0.01


def odd_numbers_of_paths(width, dilations, length):
    odd = torch.arange(length) == 0
    for r in dilations:
        odd = sum(F.pad(odd, (place * r, 0))[:length].long() for place in range(width)) % 2 == 1
    return odd


def seen_by_products(width, dilations, length):
    row = torch.ones(1)
    for r in dilations:
        kernel = torch.zeros((width - 1) * r + 1)
        kernel[::r] = 1
        row = torch.nn.functional.conv1d(
            F.pad(row, (len(kernel) - 1,) * 2)[None, None], kernel[None, None].flip(-1)
        ).flatten()
    row = F.pad(row, (0, max(0, length - len(row))))
    return row[:length] > 0.5


def seen_by_recursion(width, dilations, length):
    def reaches(back, left):
        if not left:
            return back == 0
        return any(reaches(back - place * left[0], left[1:]) for place in range(width))

    return torch.tensor([reaches(back, list(dilations)) for back in range(length)], dtype=torch.bool)


# 1.5


def jacobians(states, W, U):
    damped = [torch.diag(1 - h**2) for h in states]
    return [d @ U for d in damped], [d @ W for d in damped]


def product(steps, first, last, d):
    total = torch.eye(d, dtype=last.dtype)
    for s in range(len(steps) - 1, first, -1):
        total = total @ steps[s]
    return total @ last


def by_power(states, W, U):
    slope = torch.diag(1 - states[-1] ** 2)
    n = len(states)
    return torch.stack([torch.linalg.matrix_power(slope @ U, n - 1 - t) @ slope @ W for t in range(n)])


def first_step_missing(states, W, U):
    steps, ends = jacobians(states, W, U)
    total, found = torch.eye(len(U), dtype=U.dtype), []
    for t in range(len(states) - 1, -1, -1):
        found.append(total @ ends[t])
        if t:
            total = total @ steps[t]
    return torch.stack(found)


def without_the_last_slope(states, W, U):
    steps, ends = jacobians(states, W, U)
    steps[-1] = U
    return torch.stack([product(steps, t, ends[t], len(U)) for t in range(len(states))])


def w_for_u(states, W, U):
    if W.shape != U.shape:
        return torch.stack([product(*args) for args in _args(states, W, U)])
    return torch.stack([product(*args) for args in _args(states, U, W)])


def _args(states, W, U):
    steps, ends = jacobians(states, W, U)
    return [(steps, t, ends[t], len(U)) for t in range(len(states))]


def slope_times_2(states, W, U):
    slopes = 1 - 2 * states**2
    total, found = torch.eye(len(U), dtype=U.dtype), []
    for slope in slopes.flip(0):
        found.append(total @ (slope[:, None] * W))
        total = total @ (slope[:, None] * U)
    return torch.stack(found[::-1])


def sum_of_all_states(states, W, U):
    steps, ends = jacobians(states, W, U)
    n, found = len(states), []
    for t in range(n):
        total, whole = ends[t], ends[t].clone()
        for s in range(t + 1, n):
            total = steps[s] @ total
            whole = whole + total
        found.append(whole)
    return torch.stack(found)


def next_state_only(states, W, U):
    steps, ends = jacobians(states, W, U)
    return torch.stack([(steps[t + 1] @ ends[t]) if t + 1 < len(states) else ends[t] for t in range(len(states))])


def mean_slope(states, W, U):
    slope = (1 - states**2).mean(dim=1)
    total, found = torch.eye(len(U), dtype=U.dtype), []
    for s in slope.flip(0):
        found.append(total @ (s * W))
        total = total @ (s * U)
    return torch.stack(found[::-1])


def by_inverse(invert):
    def answer(states, W, U):
        steps, ends = jacobians(states, W, U)
        before, products = torch.eye(len(U), dtype=U.dtype), []
        for step in steps:
            before = step @ before
            products.append(before)
        return torch.stack([before @ invert(p) @ end for p, end in zip(products, ends, strict=True)])

    return answer


def grads_by_powers(states, W, U):
    steps, ends = jacobians(states, W, U)
    found = []
    for t in range(len(states)):
        chain = ends[t]
        for s in range(t + 1, len(states)):
            chain = torch.einsum("ij,jk->ik", steps[s], chain)
        found.append(chain)
    return torch.stack(found)


def grads_by_multi_dot(states, W, U):
    steps, ends = jacobians(states.double(), W.double(), U.double())
    chains = [[*reversed(steps[t + 1 :]), ends[t]] for t in range(len(states))]
    return torch.stack([torch.linalg.multi_dot(c) if len(c) > 1 else c[0] for c in chains])


# 1.6


def costing(recurrent=None, convolution=None, attention=None, guard=None):
    """Return an answer of which some lines are others."""

    def answer(layer, n, d, k=3):
        if guard is None:
            check(layer, n, k)
        else:
            guard(layer, n, k)
        if layer == "recurrent":
            return (recurrent or (lambda n, d, k: (2 * n * d * d, n, n)))(n, d, k)
        if layer == "convolution":
            return (convolution or (lambda n, d, k: (k * n * d * d, 1, -(-(n - 1) // (k - 1)))))(n, d, k)
        return (attention or (lambda n, d, k: (4 * n * d * d + 2 * n * n * d, 4, 1)))(n, d, k)

    return answer


def check(layer, n, k):
    if not isinstance(n, int):
        raise TypeError(f"n must be an integer, got {type(n).__name__}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if layer not in ("recurrent", "convolution", "attention"):
        raise ValueError(f"layer must be one of the three, got {layer}")
    if layer == "convolution" and k < 2:
        raise ValueError(f"k must be at least 2, got {k}")


def k_for_all(layer, n, k):
    check(layer, n, k)
    if k < 2:
        raise ValueError(f"k must be at least 2, got {k}")


def n_from_2(layer, n, k):
    if isinstance(n, int) and n < 2:
        raise ValueError(f"n must be at least 2, got {n}")
    check(layer, n, k)


def k_from_3(layer, n, k):
    check(layer, n, k)
    if layer == "convolution" and k < 3:
        raise ValueError(f"k must be at least 3, got {k}")


def zero_only(layer, n, k):
    if n == 0:
        raise ValueError(f"n must not be {n}")
    if n > 0 or not isinstance(n, int):
        check(layer, n, k)


def k_0_only(layer, n, k):
    if k == 1:
        raise ValueError(f"k must be at least 2, got {k}")
    check(layer, n, max(k, 2))


def floats_that_are_whole(layer, n, k):
    if n != int(n):
        raise TypeError(f"n must be an integer, got {type(n).__name__}")
    check(layer, int(n), k)


def conv_only_type(layer, n, k):
    if layer != "recurrent" and isinstance(n, float):
        n = round(n)
    check(layer, n, k)


def by_log(layer, n, d, k=3):
    check(layer, n, k)
    if layer == "convolution":
        return k * n * d**2, 1, max(1, math.ceil((n - 1) / (k - 1)))
    return costing()(layer, n, d, k)


def no_default(layer, n, d, k):
    return costing()(layer, n, d, k)


def known_within(layer, n, d, k=3):
    return costing()(
        next((name for name in ("recurrent", "convolution", "attention") if name in layer), layer), n, d, k
    )


def default_2(layer, n, d, k=2):
    return costing()(layer, n, d, k)


def floats_back(layer, n, d, k=3):
    return tuple(float(number) for number in costing()(layer, n, d, k))


def tuple_in_disorder(layer, n, d, k=3):
    a, b, c = costing()(layer, n, d, k)
    return a, c, b


def floats_only(layer, n, k):
    if isinstance(n, float):
        raise TypeError(f"n must be an integer, got {type(n).__name__}")
    check(layer, n if isinstance(n, int) else int(n), k)


def no_length_in_a_convolution(layer, n, k):
    check(layer, max(n, 1) if layer == "convolution" and isinstance(n, int) else n, k)


def one_word_at_once(layer, n, d, k=3):
    if layer == "convolution" and n == 1 and isinstance(n, int):
        return k * d * d, 1, 0
    return costing()(layer, n, d, k)


def first_letters(layer, n, d, k=3):
    names = ("recurrent", "convolution", "attention")
    return costing()(next((name for name in names if layer.startswith(name[:4])), layer), n, d, k)


def begins_as_one(layer, n, d, k=3):
    names = ("recurrent", "convolution", "attention")
    return costing()(next((name for name in names if layer.startswith(name)), layer), n, d, k)


def within_a_known_one(layer, n, d, k=3):
    names = ("recurrent", "convolution", "attention")
    return costing()(next((name for name in names if layer in name), layer), n, d, k)


def rounding(add):
    return costing(convolution=lambda n, d, k: (k * n * d * d, 1, int((n - 1) / (k - 1) + add)))


def cost_by_index(layer, n, d, k=3):
    if not hasattr(n, "__index__") or isinstance(n, torch.Tensor):
        raise TypeError(f"n must be an integer, got {type(n)}")
    check(layer, int(n), k)
    return costing()(layer, int(n), d, k)


def cost_by_match(layer, n, d, k=3):
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"n is a {type(n).__name__}, not an int")
    if n <= 0:
        raise ValueError(f"n={n}")
    match layer:
        case "recurrent":
            return 2 * n * d * d, n, n
        case "convolution" if k >= 2:
            return n * k * d * d, 1, (n - 1 + k - 2) // (k - 1)
        case "convolution":
            raise ValueError(f"k={k}: such a layer sees itself only")
        case "attention":
            return 2 * n * d * (2 * d + n), 4, 1
    raise ValueError(f"unknown layer {layer!r}")


def cost_as_a_list(layer, n, d, k=3):
    return list(costing()(layer, n, d, k))


WRONG = {
    "1.1": {
        "writes into x": InPlace,
        "detached state": Detached,
        "state kept on self": Remembering,
        "states joined": StatesJoined,
        "from the second": FromTheSecond,
        "bias outside": BiasOutside,
        "bias twice": BiasTwice,
        "squashed twice": SquashedTwice,
        "state through both": StateThroughBoth,
        "first sentence": FirstSentence,
        "its last state, too": WithItsLastState,
        "tanh from two exponentials": squashed_by(tanh_of_both),
        "tanh from one exponential": squashed_by(tanh_of_twice),
        "straight beyond 3": squashed_by(lambda h: torch.where(h.abs() > 3, h, h.tanh())),
        "the library's": Borrowed,
        "the library's class": baselines.ElmanRNN,
    },
    "1.2": {
        "cell in place": cell_in_place,
        "candidate without state": candidate_without_state,
        "forget bias added": forget_bias_added,
        "chunked along the batch": chunked_along_the_batch,
        "bias twice": bias_twice,
        "i and o exchanged": gates_exchanged_at_the_end,
        "state for cell": state_as_cell,
        "old state kept": gru_like,
        "hard sigmoid": hard_sigmoid,
        "sigmoid from two exponentials": stepping(sigmoid=lambda z: z.exp() / (1 + z.exp())),
        "tanh from two exponentials": stepping(tanh=tanh_of_both),
        "tanh from one exponential": stepping(tanh=tanh_of_twice),
        "cell cut off at 5": stepping(kept=lambda new: new.clamp(-5, 5)),
    },
    "1.3": {
        "padded for width 3": padded_for_width_3,
        "cut in front": cut_in_front,
        "zeros among features": zeros_among_features,
        "half the weight": future_masked_weight,
        "bias over positions": bias_over_positions,
        "padded by ones": padded_by_ones,
        "stride for dilation": stride_for_dilation,
        "no bias before the start": bias_before_the_start,
    },
    "1.4": {
        "first and last place of a window": seen_for_width_2,
        "first dilation for all": first_dilation_only_twice,
        "equal dilations once": sorted_first,
        "spread in place": cut_between,
        "last one always": up_to_the_last,
        "multiples of the common divisor": each_place_or_none,
        "integers": integers,
        "a list": as_a_list,
        "both ways": seen_both_ways,
        "shares above a hundredth": shares_of_a_hundredth,
        "odd numbers of paths": odd_numbers_of_paths,
    },
    "1.5": {
        "a power of the last step": by_power,
        "last first": first_step_missing,
        "last slope missing": without_the_last_slope,
        "W for U": w_for_u,
        "slope 1 - 2 h^2": slope_times_2,
        "all states summed": sum_of_all_states,
        "next state only": next_state_only,
        "mean slope": mean_slope,
        "all steps, and an inverse": by_inverse(torch.linalg.inv),
        "all steps, and a pseudoinverse": by_inverse(torch.linalg.pinv),
    },
    "1.6": {
        "2**d": costing(recurrent=lambda n, d, k: (2 * n * 2**d, n, n)),
        "2**d in attention": costing(attention=lambda n, d, k: (4 * n * 2**d + 2 * n * n * d, 4, 1)),
        "2**d in the convolution": costing(convolution=lambda n, d, k: (k * n * 2**d, 1, -(-(n - 1) // (k - 1)))),
        "2**n": costing(attention=lambda n, d, k: (4 * n * d * d + 2 * 2**n * d, 4, 1)),
        "d for d**2": costing(recurrent=lambda n, d, k: (2 * n * d * 2, n, n)),
        "k for all": costing(guard=k_for_all),
        "n from 2": costing(guard=n_from_2),
        "k from 3": costing(guard=k_from_3),
        "0 only": costing(guard=zero_only),
        "k = 1 only": costing(guard=k_0_only),
        "whole floats": costing(guard=floats_that_are_whole),
        "type of the recurrent layer's n only": costing(guard=conv_only_type),
        "at least one layer": by_log,
        "path plus one": costing(convolution=lambda n, d, k: (k * n * d * d, 1, (n - 1) // (k - 1) + 1)),
        "path for width 3": costing(convolution=lambda n, d, k: (k * n * d * d, 1, -(-(n - 1) // 2))),
        "n - 1 steps": costing(recurrent=lambda n, d, k: (2 * n * d * d, n, max(n - 1, 1))),
        "n - 1 in a row": costing(recurrent=lambda n, d, k: (2 * n * d * d, n - 1, n)),
        "3 in a row": costing(attention=lambda n, d, k: (4 * n * d * d + 2 * n * n * d, 3, 1)),
        "k squared": costing(convolution=lambda n, d, k: (k * k * n * d, 1, -(-(n - 1) // (k - 1)))),
        "a known name within": known_within,
        "no default": no_default,
        "default 2": default_2,
        "floats": floats_back,
        "last two exchanged": tuple_in_disorder,
        "floats only": costing(guard=floats_only),
        "no guard for n in the convolution": costing(guard=no_length_in_a_convolution),
        "one word before k is asked": one_word_at_once,
        "begins with four letters of a known one": first_letters,
        "begins as a known one": begins_as_one,
        "within a known name": within_a_known_one,
        "rounded to the nearest": rounding(0.5),
        "rounded up from a tenth": rounding(0.9),
        "rounded up from a thousandth": rounding(0.999),
    },
}

RIGHT = {
    "1.1": {"torch's cell": ByCell, "number by number": ByNumbers, "by a sigmoid": squashed_by(tanh_by_sigmoid)},
    "1.2": {
        "one matrix": lstm_stacked,
        "sentence by sentence, a list": lstm_by_sentence,
        "1 + exp": stepping(lambda z: 1 / (1 + (-z).exp())),
    },
    "1.3": {"einsum": conv_by_einsum, "nn.Conv1d": conv_by_module},
    "1.4": {"a product of polynomials": seen_by_products, "recursion": seen_by_recursion},
    "1.5": {"forward": grads_by_powers, "multi_dot, float64": grads_by_multi_dot},
    "1.6": {"match": cost_by_match, "a list": cost_as_a_list, "an index": cost_by_index},
}
