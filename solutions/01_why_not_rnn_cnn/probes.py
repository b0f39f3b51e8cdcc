"""What chapter 01's answers are compared with: inputs, references, and the wrong answers that people give.

None of this code ships: `python -m tools.exercise_data --write` turns it into values in
`transformer_lib/exercise_data/`. A grader imports it and uses other seeds.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.exercises.authoring import draw, pick, sizes, with_errors
from transformer_lib.exercises.declared import Case, Mistake, Probe, Question

# 1.1 Elman's network


def elman_cases(seed: int) -> list[Case]:
    """Return sequences, and weights that don't fill up the tanh; in one the inputs are so large that they do."""
    g = torch.Generator().manual_seed(seed)

    def case(name: str, batch: int, n: int, d: int, scale: float = 1.0) -> Case:
        state = {"input.weight": draw(g, d, d, scale=0.6), "input.bias": draw(g, d, scale=0.5)}
        state |= {"hidden.weight": draw(g, d, d, scale=0.7)}
        return Case(name, {"x": draw(g, batch, n, d, scale=scale)}, {"d_model": d}, state)

    batch, n, d = sizes(g, 3, 2, 5)
    return [
        case("small", 1, 3, 2),
        case("batch", batch, n, d),
        case("one position", 3, 1, 2),
        case("longer", 1, pick(g, 6, 9), 3),
        case("one feature", 2, pick(g, 3, 5), 1),
        case("all sizes alike", *[pick(g, 2, 4)] * 3),
        case("large numbers", 3, pick(g, 4, 6), 3, 80.0),
    ]


class Elman(nn.Module):
    """The right network, in steps, each of which a mistake can replace."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.input = nn.Linear(d_model, d_model)
        self.hidden = nn.Linear(d_model, d_model, bias=False)

    def step(self, x_t: Tensor, state: Tensor) -> Tensor:
        """Return the next state."""
        return torch.tanh(self.input(x_t) + self.hidden(state))

    def forward(self, x: Tensor) -> Tensor:
        """Return the state after each position."""
        state, states = torch.zeros_like(x[:, 0]), []
        for x_t in x.unbind(dim=1):
            state = self.step(x_t, state)
            states.append(state)
        return torch.stack(states, dim=1)


class ElmanAtOnce(Elman):
    """The same, with all inputs projected first."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the state after each position."""
        states: list[Tensor] = []
        for projected in self.input(x).unbind(dim=1):
            states.append(torch.tanh(projected + (self.hidden(states[-1]) if states else 0.0)))
        return torch.stack(states, dim=1)


class ElmanByTorch(Elman):
    """The same by PyTorch's own."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the state after each position."""
        theirs = nn.RNN(x.size(-1), x.size(-1), batch_first=True).to(x.dtype)
        weights = {"weight_ih_l0": self.input.weight, "weight_hh_l0": self.hidden.weight}
        weights |= {"bias_ih_l0": self.input.bias, "bias_hh_l0": torch.zeros_like(self.input.bias)}
        return torch.func.functional_call(theirs, weights, (x,))[0]


def _stepping(step: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]) -> type[Elman]:
    """Return a network with another step, from x_t, the state, W, U and b."""

    class Other(Elman):
        def step(self, x_t: Tensor, state: Tensor) -> Tensor:
            return step(x_t, state, self.input.weight.T, self.hidden.weight.T, self.input.bias)

    return Other


def _changed(change: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor]) -> type[Elman]:
    """Return a network that does something else with the right one."""

    class Other(Elman):
        def forward(self, x: Tensor) -> Tensor:
            return change(super().forward, x)

    return Other


ELMAN_WRONG = [
    Mistake(
        "no tanh",
        "The states aren't squashed: tanh is missing.",
        _stepping(lambda x, h, W, U, b: x @ W + h @ U + b),
        0.5,
    ),
    Mistake(
        "tanh by its formula",
        "For large numbers NaN comes out: exp overflows, and infinity is divided by infinity. torch.tanh takes care of "
        "that.",
        _stepping(lambda x, h, W, U, b: ((e := (2 * (x @ W + h @ U + b)).exp()) - 1) / (e + 1)),
        0.75,
    ),
    Mistake(
        "sigmoid for tanh",
        "The states are squashed by a sigmoid, to 0 ... 1. Elman's network takes tanh here, to -1 ... 1.",
        _stepping(lambda x, h, W, U, b: (x @ W + h @ U + b).sigmoid()),
        0.5,
    ),
    Mistake(
        "relu for tanh",
        "What is below 0 is cut off, as by a ReLU. The formula says tanh.",
        _stepping(lambda x, h, W, U, b: (x @ W + h @ U + b).relu()),
        0.5,
    ),
    Mistake(
        "state not carried",
        "Each state depends on its own input only. Is `state` set anew in the loop, so that the next step gets zeros?",
        _stepping(lambda x, h, W, U, b: torch.tanh(x @ W + b)),
        0.25,
    ),
    Mistake(
        "tanh around the state only",
        "The tanh stands around U h only. W x and b belong inside, too.",
        _stepping(lambda x, h, W, U, b: x @ W + b + torch.tanh(h @ U)),
        0.5,
    ),
    Mistake(
        "tanh around the input only",
        "The tanh stands around W x + b only. U h belongs inside, too.",
        _stepping(lambda x, h, W, U, b: torch.tanh(x @ W + b) + h @ U),
        0.5,
    ),
    Mistake(
        "no U",
        "The old state is added as it is: the matrix U (`hidden`) must multiply it first.",
        _stepping(lambda x, h, W, U, b: torch.tanh(x @ W + h + b)),
        0.5,
    ),
    Mistake(
        "state added",
        "The old state is added to the new one. It's overwritten here; adding is what the LSTM's cell does.",
        _stepping(lambda x, h, W, U, b: h + torch.tanh(x @ W + h @ U + b)),
        0.5,
    ),
    Mistake(
        "W and U exchanged",
        "`hidden` multiplies the input, and `input` the state. It's the other way round.",
        _stepping(lambda x, h, W, U, b: torch.tanh(x @ U + h @ W + b)),
        0.5,
    ),
    Mistake(
        "transposed",
        "The weights are used transposed. A linear layer computes x @ weight.T.",
        _stepping(lambda x, h, W, U, b: torch.tanh(x @ W.T + h @ U.T + b)),
        0.75,
    ),
    Mistake(
        "no bias",
        "The bias b is missing.",
        _stepping(lambda x, h, W, U, b: torch.tanh(x @ W + h @ U)),
        0.75,
    ),
    Mistake(
        "batch taken for positions",
        "The loop runs over the batch: each sentence gets the state of the one before. Positions are axis 1: "
        "x.unbind(dim=1), or x[:, t].",
        _changed(lambda right, x: right(x.transpose(0, 1)).transpose(0, 1)),
        0.5,
    ),
    Mistake(
        "positions first",
        "The states are stacked along axis 0: [position batch d_model]. Give stack dim=1.",
        _changed(lambda right, x: right(x).transpose(0, 1)),
        0.75,
    ),
    Mistake(
        "last state only",
        "Only the last state comes back. The state after each position was asked for: [batch position d_model].",
        _changed(lambda right, x: right(x)[:, -1]),
        0.5,
    ),
    Mistake(
        "state before each position",
        "The states are one place late: the first is all zeros. Add the new state to the list, not the old one.",
        _changed(lambda right, x: F.pad(right(x), (0, 0, 1, 0))[:, :-1]),
        0.5,
    ),
    Mistake(
        "from right to left",
        "The chain runs from the last position to the first.",
        _changed(lambda right, x: right(x.flip(1)).flip(1)),
        0.5,
    ),
    Mistake(
        "starts with ones",
        "The first state isn't computed from zeros. Before the first position, h = 0.",
        _changed(lambda right, x: _from_ones(right.__self__, x)),
        0.5,
    ),
]


def _from_ones(network: Elman, x: Tensor) -> Tensor:
    state, states = torch.ones_like(x[:, 0]), []
    for x_t in x.unbind(dim=1):
        state = network.step(x_t, state)
        states.append(state)
    return torch.stack(states, dim=1)


# 1.2 one step of an LSTM


def lstm_cases(seed: int) -> list[Case]:
    """Return inputs, states and cells, with gates neither open nor shut; in one they are all wide open or shut."""
    g = torch.Generator().manual_seed(seed + 1000)

    def case(name: str, batch: int, d_in: int, d: int, scale: float = 1.0) -> Case:
        weights = {"W": draw(g, 4 * d, d_in, scale=0.7), "U": draw(g, 4 * d, d, scale=0.7)}
        tensors = {"x": draw(g, batch, d_in, scale=scale), "state": draw(g, batch, d, scale=0.5)}
        tensors |= {"cell": draw(g, batch, d, scale=scale)}
        return Case(name, tensors | weights | {"b": draw(g, 4 * d, scale=0.7)})

    batch, d_in, d = sizes(g, 3, 2, 5)
    return [
        case("small", 1, 2, 2),
        case("batch", batch, d_in, d),
        case("one feature", pick(g, 2, 4), 3, 1),
        case("all sizes alike", *[pick(g, 2, 3)] * 3),
        case("as many features as gates", pick(g, 2, 3), 4, 4),
        case("as many sentences as gates", 4, 1, pick(g, 2, 3)),
        case("large numbers", 3, 2, pick(g, 4, 5), 300.0),
    ]


def _parts(x: Tensor, state: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    return (x @ W.T + state @ U.T + b).chunk(4, dim=-1)


def lstm(x: Tensor, state: Tensor, cell: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the right state and cell."""
    i, f, g, o = _parts(x, state, W, U, b)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def lstm_by_torch(x: Tensor, state: Tensor, cell: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same by PyTorch's own."""
    theirs = nn.LSTMCell(x.size(-1), state.size(-1)).to(x.dtype)
    theirs.weight_ih.data, theirs.weight_hh.data = W, U
    theirs.bias_ih.data, theirs.bias_hh.data = b, torch.zeros_like(b)
    return theirs(x, (state, cell))


def lstm_by_gates(x: Tensor, state: Tensor, cell: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same from one product for each gate."""
    d = state.size(-1)

    def gate(number: int) -> Tensor:
        rows = slice(number * d, (number + 1) * d)
        return F.linear(x, W[rows]) + F.linear(state, U[rows], b[rows])

    new = torch.sigmoid(gate(1)) * cell + torch.sigmoid(gate(0)) * torch.tanh(gate(2))
    return torch.sigmoid(gate(3)) * torch.tanh(new), new


def _lstm(change: Callable[..., tuple[Tensor, Tensor]], order: str = "ifgo") -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a step from the old cell and the four parts before they're squashed, taken in another order."""

    def answer(x: Tensor, state: Tensor, cell: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        parts = dict(zip(order, _parts(x, state, W, U, b), strict=True))
        return change(cell, *(parts[name] for name in "ifgo"))

    return answer


def _step(cell: Tensor, i: Tensor, f: Tensor, g: Tensor, o: Tensor) -> tuple[Tensor, Tensor]:
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _shown(cell: Tensor, o: Tensor) -> tuple[Tensor, Tensor]:
    return o.sigmoid() * cell.tanh(), cell


def _share(gate: Tensor) -> Tensor:
    return gate.exp() / (1 + gate.exp())


def _interleaved(x: Tensor, state: Tensor, cell: Tensor, W: Tensor, U: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    parts = (x @ W.T + state @ U.T + b).unflatten(-1, (-1, 4))
    return _step(cell, *parts.unbind(dim=-1))


LSTM_WRONG = [
    Mistake(
        "order i f o g",
        "The parts are taken in the order i, f, o, g. Here it's i, f, g, o, as in the chapter and in PyTorch.",
        _lstm(_step, "ifog"),
        0.75,
    ),
    Mistake(
        "order f i g o",
        "The gates f and i are exchanged: the first quarter of the rows is i, the second f.",
        _lstm(_step, "figo"),
        0.75,
    ),
    Mistake(
        "gates interleaved",
        "The four parts are taken from every fourth row. Each is a block: .chunk(4, dim=-1).",
        _interleaved,
        0.75,
    ),
    Mistake(
        "sigmoid for g",
        "g is squashed by a sigmoid, too, so that only positive numbers can be written. g isn't a gate: tanh.",
        _lstm(lambda c, i, f, g, o: _shown(f.sigmoid() * c + i.sigmoid() * g.sigmoid(), o)),
        0.5,
    ),
    Mistake(
        "g not squashed",
        "What is written, g, isn't squashed: tanh is missing there.",
        _lstm(lambda c, i, f, g, o: _shown(f.sigmoid() * c + i.sigmoid() * g, o)),
        0.5,
    ),
    Mistake(
        "tanh for the gates",
        "The gates are squashed by tanh, to -1 ... 1. A gate is a share from 0 to 1: sigmoid.",
        _lstm(lambda c, i, f, g, o: (o.tanh() * (n := f.tanh() * c + i.tanh() * g.tanh()).tanh(), n)),
        0.5,
    ),
    Mistake(
        "sigmoid by its formula",
        "For large numbers NaN comes out: exp overflows, and infinity is divided by infinity. torch.sigmoid takes care "
        "of that.",
        _lstm(lambda c, i, f, g, o: (_share(o) * (n := _share(f) * c + _share(i) * g.tanh()).tanh(), n)),
        0.75,
    ),
    Mistake(
        "gates not squashed",
        "The gates aren't squashed: i, f and o each need a sigmoid.",
        _lstm(lambda c, i, f, g, o: (o * (n := f * c + i * g.tanh()).tanh(), n)),
        0.5,
    ),
    Mistake(
        "no forget gate",
        "The old cell is kept whole, as in the LSTM of 1997. The forget gate f must multiply it.",
        _lstm(lambda c, i, f, g, o: _shown(c + i.sigmoid() * g.tanh(), o)),
        0.5,
    ),
    Mistake(
        "forget gate turned round",
        "The old cell is multiplied by 1 - f. In spite of its name, f says how much is kept.",
        _lstm(lambda c, i, f, g, o: _shown((1 - f.sigmoid()) * c + i.sigmoid() * g.tanh(), o)),
        0.5,
    ),
    Mistake(
        "no input gate",
        "g is written in full. The gate i must multiply it.",
        _lstm(lambda c, i, f, g, o: _shown(f.sigmoid() * c + g.tanh(), o)),
        0.5,
    ),
    Mistake(
        "gates coupled",
        "g is multiplied by 1 - f, as in a GRU. An LSTM has a gate of its own for writing: i.",
        _lstm(lambda c, i, f, g, o: _shown(f.sigmoid() * c + (1 - f.sigmoid()) * g.tanh(), o)),
        0.5,
    ),
    Mistake(
        "cell overwritten",
        "The old cell is gone: f times the old cell must be added to what is written.",
        _lstm(lambda c, i, f, g, o: _shown(i.sigmoid() * g.tanh(), o)),
        0.25,
    ),
    Mistake(
        "no output gate",
        "The whole cell is shown. The gate o must multiply it.",
        _lstm(lambda c, i, f, g, o: (_step(c, i, f, g, o)[1].tanh(), _step(c, i, f, g, o)[1])),
        0.5,
    ),
    Mistake(
        "no tanh on the way out",
        "The cell is shown as it is: the state is o times the tanh of the cell.",
        _lstm(lambda c, i, f, g, o: (o.sigmoid() * (n := _step(c, i, f, g, o)[1]), n)),
        0.5,
    ),
    Mistake(
        "old cell shown",
        "The state is made from the old cell. Compute the new cell first.",
        _lstm(lambda c, i, f, g, o: (o.sigmoid() * c.tanh(), _step(c, i, f, g, o)[1])),
        0.5,
    ),
    Mistake(
        "cell squashed",
        "The cell that comes back has gone through tanh. Squash it for the state only: the memory itself is added to.",
        _lstm(lambda c, i, f, g, o: ((s := _step(c, i, f, g, o))[0], s[1].tanh())),
        0.5,
    ),
    Mistake(
        "cell first",
        "Both are right, but in the other order: (state, cell) was asked for.",
        _lstm(lambda c, i, f, g, o: _step(c, i, f, g, o)[::-1]),
        0.75,
    ),
    Mistake(
        "state only",
        "Only the state comes back. The next step needs the cell, too: return (state, cell).",
        _lstm(lambda c, i, f, g, o: _step(c, i, f, g, o)[0]),
        0.5,
    ),
    Mistake(
        "old state not used",
        "The old state isn't used: state @ U.T belongs to what the gates are computed from.",
        lambda x, h, c, W, U, b: lstm(x, h * 0, c, W, U, b),
        0.25,
    ),
    Mistake(
        "no bias",
        "The bias b is missing.",
        lambda x, h, c, W, U, b: lstm(x, h, c, W, U, b * 0),
        0.75,
    ),
]


# 1.3 a convolution that looks ahead


def convolution_cases(seed: int) -> list[Case]:
    """Return widths and dilations, even widths and single places among them."""
    g = torch.Generator().manual_seed(seed + 2000)

    def case(name: str, sizes: tuple[int, int, int, int], width: int, dilation: int) -> Case:
        batch, n, d_in, d_out = sizes
        tensors = {"x": draw(g, batch, n, d_in), "weight": draw(g, d_out, d_in, width), "bias": draw(g, d_out)}
        return Case(name, tensors | {"dilation": dilation})

    batch, d_in, n, d_out = sizes(g, 4, 1, 5)
    return [
        case("small", (1, 4, 1, 1), 3, 1),
        case("batch", (2, 5, 2, 3), 3, 1),
        case("dilated", (1, pick(g, 7, 9), 2, 2), 3, 2),
        case("width 2", (2, 5, 2, 2), 2, 1),
        case("width 2, dilated", (1, pick(g, 6, 8), 1, 2), 2, 3),
        case("shorter than the window", (2, 3, 2, 2), 4, 2),
        case("one place", (1, 3, 2, 2), 1, 1),
        case("one position", (2, 1, 2, 3), 3, 2),
        case("sizes from the seed", (batch, n + 2, d_in, d_out), pick(g, 2, 5), pick(g, 1, 3)),
        case("all sizes alike", (3, 3, 3, 3), 3, 1),
    ]


def _padded(left: int, right: int, mode: str = "constant") -> Callable[[Tensor], Tensor]:
    return lambda x: F.pad(x.transpose(1, 2), (left, right), mode=mode)


def _convolved(padded: Tensor, weight: Tensor, bias: Tensor | None, dilation: int) -> Tensor:
    return F.conv1d(padded, weight, bias, dilation=dilation).transpose(1, 2)


def _before(weight: Tensor, dilation: int) -> int:
    return (weight.size(-1) - 1) * dilation


def convolution(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """Return the right convolution."""
    return _convolved(_padded(_before(weight, dilation), 0)(x), weight, bias, dilation)


def convolution_by_loop(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """Return the same, place by place."""
    rows = []
    for t in range(x.size(1)):
        row = bias.expand(len(x), -1)
        for back in range(weight.size(-1)):
            if t - back * dilation >= 0:
                row = row + x[:, t - back * dilation] @ weight[:, :, -1 - back].T
        rows.append(row)
    return torch.stack(rows, dim=1)


def convolution_cut(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
    """Return the same, padded at both sides, and what is too much at the end cut off."""
    reach = _before(weight, dilation)
    return F.conv1d(x.mT, weight, bias, padding=reach, dilation=dilation)[..., : x.size(1)].mT


def _conv(change: Callable[[Tensor, Tensor, Tensor, int, int], Tensor]) -> Callable[..., Tensor]:
    """Return an answer that is told, too, how many places before are needed."""
    return lambda x, weight, bias, dilation: change(x, weight, bias, dilation, _before(weight, dilation))


def _padding(left: Callable[[int], int], right: Callable[[int], int], mode: str = "constant") -> Callable[..., Tensor]:
    """Return an answer with other padding, from the places before that are needed."""
    return _conv(lambda x, w, b, r, n: _convolved(_padded(left(n), right(n), mode)(x), w, b, r))


def _repeated(x: Tensor, w: Tensor, b: Tensor, r: int, n: int) -> Tensor:
    return _convolved(torch.cat([x[:, :1].expand(-1, n, -1), x], dim=1).transpose(1, 2), w, b, r)


def _wrapped(x: Tensor, w: Tensor, b: Tensor, r: int, n: int) -> Tensor:
    places = torch.arange(-n, x.size(1)) % x.size(1)
    return _convolved(x[:, places].transpose(1, 2), w, b, r)


CONVOLUTION_WRONG = [
    Mistake(
        "the bug is there",
        "Zeros still stand on both sides, so that half of the window lies ahead. All of them belong before the first "
        "position.",
        _padding(lambda n: n // 2, lambda n: n - n // 2),
    ),
    Mistake(
        "the bug, the odd zero in front",
        "Zeros still stand on both sides, now with the odd one in front: about half of the window lies ahead.",
        _padding(lambda n: n - n // 2, lambda n: n // 2),
    ),
    Mistake(
        "padded at the end",
        "Each position sees itself and what comes after: all zeros stand at the end, or they stand on both sides and "
        "the front was cut off. The first number that F.pad takes is for the left; [:, : x.size(1)] keeps the front.",
        _padding(lambda n: 0, lambda n: n),
        0.25,
    ),
    Mistake(
        "nothing cut off",
        "There are more outputs than positions: zeros on both sides make n + reach of them. Pad the left only.",
        _padding(lambda n: n, lambda n: n),
        0.5,
    ),
    Mistake(
        "cut off with minus 0",
        "For a window of one place nothing is to be cut off, but [:-0] leaves nothing. [:, : x.size(1)] is safe.",
        _conv(lambda x, w, b, r, n: _convolved(_padded(n, n)(x), w, b, r)[:, :-n]),
        0.75,
    ),
    Mistake(
        "no padding",
        "There are fewer outputs than positions, since nothing is padded (for a window longer than the input, torch "
        "complains).",
        _padding(lambda n: 0, lambda n: 0),
        0.25,
    ),
    Mistake(
        "dilation left out of the padding",
        "With a dilation the window reaches (width - 1) * dilation places back. You pad width - 1 of them.",
        lambda x, w, b, r: _convolved(_padded(w.size(-1) - 1, 0)(x), w, b, r),
        0.5,
    ),
    Mistake(
        "dilation left out",
        "The places of the window are neighbours: dilation isn't passed to conv1d.",
        lambda x, w, b, r: convolution(x, w, b, 1),
        0.5,
    ),
    Mistake(
        "own position hidden",
        "Each position sees only what came before it, not itself: one zero too many stands in front.",
        _conv(lambda x, w, b, r, n: _convolved(_padded(n + 1, -1)(x), w, b, r)),
        0.5,
    ),
    Mistake(
        "width times dilation",
        "width * dilation zeros stand in front, and there are more outputs than positions: the first of the width "
        "places needs none.",
        lambda x, w, b, r: _convolved(_padded(w.size(-1) * r, 0)(x), w, b, r),
        0.5,
    ),
    Mistake(
        "weights in reverse",
        "It's causal, but the weights are in reverse: the last of them belongs to the position itself.",
        lambda x, w, b, r: convolution(x, w.flip(-1), b, r),
        0.5,
    ),
    Mistake(
        "first place repeated",
        "Before the first position stand copies of it. Zeros were asked for.",
        _conv(_repeated),
        0.5,
    ),
    Mistake(
        "end wrapped round",
        "Before the first position stands the end of the sequence (circular padding, or roll): that's the future.",
        _conv(_wrapped),
        0.25,
    ),
    Mistake(
        "no bias",
        "The bias is gone.",
        lambda x, w, b, r: convolution(x, w, b * 0, r),
        0.75,
    ),
    Mistake(
        "not turned back",
        "The axes are [batch d_out position]: turn them back at the end.",
        lambda x, w, b, r: convolution(x, w, b, r).transpose(1, 2),
        0.75,
    ),
    Mistake(
        "ahead instead of back",
        "This looks ahead by as much as it should look back: is the sequence reversed?",
        lambda x, w, b, r: convolution(x.flip(1), w, b, r).flip(1),
        0.25,
    ),
]


# 1.4 what a stack sees


def seen_cases(seed: int) -> list[Case]:
    """Return stacks that see every place up to an end, and stacks with holes."""
    g = torch.Generator().manual_seed(seed + 4000)
    drawn = [(pick(g, 2, 4), tuple(pick(g, 1, 6) for _ in range(layers)), pick(g, 9, 17)) for layers in (2, 3)]
    stacks = {
        "small": (3, (1,), 5),
        "plain": (3, (1, 1, 1), 9),
        "doubling": (2, (1, 2, 4), 10),
        "doubling, width 3": (3, (1, 2, 4), 17),
        "one layer, dilated": (3, (3,), 9),
        "holes": (2, (2, 6), 11),
        "wide holes": (3, (1, 7), 20),
        "the same twice": (2, (3, 3), 8),
        "not all of it": (3, (1, 2, 4), 6),
        "holes, not all of it": (2, (2, 7), 6),
        "order changed": (2, (5, 1), 9),
        "width 1": (1, (1, 2), 4),
        "longer": (4, (2, 1 + seed % 3), 18),
        "no layer": (3, (), 4),
        "one number": (3, (1, 2), 1),
        "many layers": (2, (1,) * 10, 12),
        "two layers from the seed": drawn[0],
        "three layers from the seed": drawn[1],
    }
    return [Case(name, {"width": w, "dilations": r, "length": n}) for name, (w, r, n) in stacks.items()]


def _marked(places: set[int], length: int) -> Tensor:
    return torch.tensor([back in places for back in range(length)])


def _reached(width: int, dilations: tuple[int, ...]) -> set[int]:
    reached = {0}
    for dilation in dilations:
        reached = {back + place * dilation for back in reached for place in range(width)}
    return reached


def seen(width: int, dilations: tuple[int, ...], length: int) -> Tensor:
    """Return the right places."""
    return _marked(_reached(width, dilations), length)


def seen_by_shifting(width: int, dilations: tuple[int, ...], length: int) -> Tensor:
    """Return the same from a mask that each layer shifts."""
    mask = torch.arange(length) == 0
    for dilation in dilations:
        shifted = [F.pad(mask, (place * dilation, 0))[:length] for place in range(width)]
        mask = torch.stack(shifted).any(dim=0)
    return mask


def seen_by_gradients(width: int, dilations: tuple[int, ...], length: int) -> Tensor:
    """Return the same from gradients through convolutions whose weights are all 1."""
    with torch.enable_grad():
        x = torch.zeros(1, 1, length, requires_grad=True)
        y = x
        for r in dilations:
            y = F.conv1d(F.pad(y, ((width - 1) * r, 0)), torch.ones(1, 1, width), dilation=r)
        (gradient,) = torch.autograd.grad(y[0, 0, -1], x)
    return gradient[0, 0].flip(0) > 0


def _field(field: Callable[[int, tuple[int, ...]], int]) -> Callable[..., Tensor]:
    """Return all places up to an end."""
    return lambda width, dilations, length: torch.arange(length) < field(width, dilations)


def _paths(width: int, dilations: tuple[int, ...], length: int) -> Tensor:
    counts = torch.zeros(length, dtype=torch.long)
    counts[0] = 1
    for r in dilations:
        counts = sum(F.pad(counts, (place * r, 0))[:length] for place in range(width))
    return counts


SEEN_WRONG = [
    Mistake(
        "holes filled",
        "All places up to the farthest are marked, as if there were no holes. With dilations (2, 6) and a width of 2, "
        "odd places aren't reached at all: go through the layers.",
        _field(lambda w, r: 1 + (w - 1) * sum(r)),
        0.5,
    ),
    Mistake(
        "dilations left out",
        "The places of each window are taken for neighbours: each layer adds multiples of its dilation.",
        _field(lambda w, r: 1 + (w - 1) * len(r)),
        0.25,
    ),
    Mistake(
        "layers not combined",
        "The layers' own places are put side by side. A layer starts from every place that the layers above it reach: "
        "add its places to each of these.",
        lambda w, r, n: _marked({0} | {place * one for one in r for place in range(w)}, n),
        0.5,
    ),
    Mistake(
        "last layer only",
        "Only the last layer's places are marked. The others widen what is seen.",
        lambda w, r, n: seen(w, r[-1:], n),
        0.25,
    ),
    Mistake(
        "first layer only",
        "Only the first layer's places are marked. Is there a return inside the loop?",
        lambda w, r, n: seen(w, r[:1], n),
        0.25,
    ),
    Mistake(
        "a place too many per layer",
        "Each layer has one place too many: `width` of them are 0 to width - 1 times the dilation.",
        lambda w, r, n: seen(w + 1, r, n),
        0.5,
    ),
    Mistake(
        "a place too few per layer",
        "Each layer has one place too few: `width` of them are 0 to width - 1 times the dilation.",
        lambda w, r, n: seen(max(w - 1, 1), r, n),
        0.5,
    ),
    Mistake(
        "itself left out",
        "The position itself, 0 places back, isn't marked. Every window holds it.",
        lambda w, r, n: seen(w, r, n) & (torch.arange(n) > 0),
        0.75,
    ),
    Mistake(
        "each layer must move",
        "The position itself is left out of every window, so that each layer moves back by at least one place. A "
        "window's first place is the position itself.",
        lambda w, r, n: _marked({sum(ps) for ps in _moves(w, r)}, n),
        0.5,
    ),
    Mistake(
        "farthest places only",
        "Only the places at the far end of the windows are followed. A window has places in between, too.",
        lambda w, r, n: _marked({sum(ps) for ps in _ends(w, r)}, n),
        0.5,
    ),
    Mistake(
        "from left to right",
        "The places are in the order of the text, so that the position itself stands last. Index d should mean d "
        "places back.",
        lambda w, r, n: seen(w, r, n).flip(0),
        0.5,
    ),
    Mistake(
        "paths counted",
        "These are numbers of paths, or 1 and 0. True and False were asked for: > 0 makes them.",
        _paths,
        0.75,
    ),
    Mistake(
        "numbers",
        "These are numbers. True and False were asked for: dtype=torch.bool.",
        lambda w, r, n: seen(w, r, n).float(),
        0.75,
    ),
    Mistake(
        "dilations multiplied",
        "Dilations are multiplied from layer to layer, like strides. A dilation is given in positions of the text: "
        "they add up.",
        lambda w, r, n: seen(w, tuple(math.prod(r[: i + 1]) for i in range(len(r))), n),
        0.5,
    ),
    Mistake(
        "wrapped round",
        "Places further back than the row is long come in again at its start: roll does that, and so does %. They fall "
        "out of the row.",
        lambda w, r, n: _marked({back % n for back in _reached(w, r)}, n),
        0.75,
    ),
    Mistake(
        "True hides",
        "True and False are exchanged: True means seen.",
        lambda w, r, n: ~seen(w, r, n),
        0.5,
    ),
    Mistake(
        "whole field returned",
        "The right places, but not `length` of them: there should be exactly that many, whatever the stack sees.",
        lambda w, r, n: _marked(_reached(w, r), 1 + (w - 1) * sum(r)),
        0.5,
    ),
]


def _moves(width: int, dilations: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for r in dilations:
        found = [(*before, place * r) for before in found for place in range(1, width)]
    return found


def _ends(width: int, dilations: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for r in dilations:
        found = [(*before, place * r) for before in found for place in (0, width - 1)]
    return found


# 1.5 the gradient through time


def gradient_cases(seed: int) -> list[Case]:
    """Return states of networks that were run, with their matrices."""
    g = torch.Generator().manual_seed(seed + 3000)

    def case(name: str, n: int, d: int, d_in: int, full: int | None = None) -> Case:
        W, U = draw(g, d, d_in, scale=0.7), draw(g, d, d, scale=0.8)
        state, states = torch.zeros(d), []
        for x in draw(g, n, d_in):
            state = torch.tanh(W @ x + U @ state)
            states.append(state)
        rounded = (torch.stack(states) * 1000).round() / 1000
        if full is not None:
            rounded[full, :2] = torch.tensor([1.0, -1.0])  # as tanh gives from about 9 on: the step has no inverse
        return Case(name, {"states": rounded, "W": W, "U": U})

    n, d, d_in = sizes(g, 3, 2, 5)
    return [
        case("small", 3, 2, 2),
        case("one position", 1, 2, 3),
        case("two positions", 2, 3, 3),
        case("longer", pick(g, 6, 8), 3, 3),
        case("one feature", 4, 1, 1),
        case("more inputs than features", pick(g, 3, 5), 2, 3),
        case("sizes from the seed", n, d, d_in),
        case("all sizes alike", *[pick(g, 2, 4)] * 3),
        case("tanh filled up", pick(g, 4, 5), 3, 2, 1),
    ]


def _damped(matrix: Tensor, state: Tensor) -> Tensor:
    """Return diag(1 - state^2) times the matrix."""
    return (1 - state**2)[:, None] * matrix


def gradients(states: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """Return the right derivatives."""
    product, found = torch.eye(len(U), dtype=U.dtype), []
    for state in states.flip(0):
        found.append(product @ _damped(W, state))
        product = product @ _damped(U, state)
    return torch.stack(found[::-1])


def gradients_by_forward(states: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """Return the same from the first position on, every derivative carried along."""
    found: list[Tensor] = []
    for state in states:
        found = [torch.diag(1 - state**2) @ U @ before for before in found] + [torch.diag(1 - state**2) @ W]
    return torch.stack(found)


def gradients_by_rows(states: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """Return the same, one output at a time, as backpropagation does."""
    found = torch.empty(len(states), len(U), W.size(1), dtype=U.dtype)
    for row, one in enumerate(torch.eye(len(U), dtype=U.dtype)):
        for t in reversed(range(len(states))):
            one = one * (1 - states[t] ** 2)
            found[t, row] = one @ W
            one = one @ U
    return found


def _through(
    factor: Callable[[Tensor, Tensor], Tensor] = _damped,
    last: Callable[[Tensor, Tensor], Tensor] = _damped,
    combine: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return an answer with other factors for the steps, another for the input, or another product."""

    def answer(states: Tensor, W: Tensor, U: Tensor) -> Tensor:
        product, found = torch.eye(len(U), dtype=U.dtype), []
        for state in states.flip(0):
            found.append(product @ last(W, state))
            product = combine(product, factor(U, state))
        return torch.stack(found[::-1])

    return answer


def _by_column(matrix: Tensor, state: Tensor) -> Tensor:
    return matrix * (1 - state**2)


def _one_step(states: Tensor, W: Tensor, U: Tensor) -> Tensor:
    found = [_damped(U, after) @ _damped(W, state) for state, after in zip(states[:-1], states[1:], strict=True)]
    return torch.stack([*found, _damped(W, states[-1])])


def _late(states: Tensor, W: Tensor, U: Tensor) -> Tensor:
    """Return derivatives whose factors have the state that they come from."""
    before = torch.cat([torch.zeros_like(states[:1]), states[:-1]])
    product, found = torch.eye(len(U), dtype=U.dtype), []
    for state, old in zip(states.flip(0), before.flip(0), strict=True):
        found.append(product @ _damped(W, state))
        product = product @ _damped(U, old)
    return torch.stack(found[::-1])


GRADIENT_WRONG = [
    Mistake(
        "factors in reverse",
        "The factors are right, but multiplied in the wrong order. The latest step stands on the left, next to h_T.",
        _through(combine=lambda product, factor: factor @ product),
        0.5,
    ),
    Mistake(
        "1 - h",
        "tanh's derivative is 1 - tanh^2: square the states.",
        _through(lambda U, h: (1 - h)[:, None] * U, lambda W, h: (1 - h)[:, None] * W),
        0.5,
    ),
    Mistake(
        "tanh of the states",
        "tanh is taken of the states once more. They are its outcomes already: 1 - states**2.",
        _through(lambda U, h: _damped(U, h.tanh()), lambda W, h: _damped(W, h.tanh())),
        0.5,
    ),
    Mistake(
        "no tanh",
        "These are the derivatives of a network without tanh: each factor needs diag(1 - h^2) on its left.",
        _through(lambda U, h: U, lambda W, h: W),
        0.25,
    ),
    Mistake(
        "input's own tanh left out",
        "The steps are right, but the input's own factor isn't: dh_t/dx_t is diag(1 - h_t^2) W, not W.",
        _through(last=lambda W, h: W),
        0.5,
    ),
    Mistake(
        "tanh at the input only",
        "Only the input's own factor is damped. Each step's needs diag(1 - h^2), too.",
        _through(factor=lambda U, h: U),
        0.5,
    ),
    Mistake(
        "columns damped",
        "1 - h^2 multiplies the columns. The diagonal matrix stands on the left, so that it multiplies rows: "
        "(1 - h**2)[:, None] * U.",
        _through(_by_column, lambda W, h: _by_column(W, h) if W.size(1) == len(h) else _damped(W, h)),
        0.5,
    ),
    Mistake(
        "columns of the steps damped",
        "In the steps 1 - h^2 multiplies U's columns. The diagonal matrix stands on the left, so that it multiplies "
        "rows: (1 - h**2)[:, None] * U.",
        _through(_by_column),
        0.5,
    ),
    Mistake(
        "state before the step",
        "Each factor has the state that the step comes from. It should be the one that it leads to.",
        _late,
        0.5,
    ),
    Mistake(
        "one step at most",
        "Only the last of the steps is there. All those from t to T are to be multiplied.",
        _one_step,
        0.25,
    ),
    Mistake(
        "one step too many",
        "There is one factor too many: at the last position there's no step, only the input's own factor.",
        lambda h, W, U: _damped(U, h[-1]) @ gradients(h, W, U),
        0.5,
    ),
    Mistake(
        "number by number",
        "The matrices are multiplied number by number. It's matrix products here: @, not *.",
        lambda h, W, U: _number_by_number(h, W, U),
        0.25,
    ),
    Mistake(
        "U transposed",
        "U is used transposed.",
        lambda h, W, U: gradients(h, W, U.T),
        0.5,
    ),
    Mistake(
        "transposed",
        "The matrices are transposed: rows are features of h_T, columns are features of x_t.",
        lambda h, W, U: gradients(h, W, U).mT,
        0.75,
    ),
    Mistake(
        "by distance",
        "The derivatives are in order of distance. Index t was asked for, so that the last position stands last.",
        lambda h, W, U: gradients(h, W, U).flip(0),
        0.75,
    ),
    Mistake(
        "from the first position",
        "This is as if the first position were the last: the product must run from T back to t.",
        lambda h, W, U: gradients(h.flip(0), W, U).flip(0),
        0.25,
    ),
    Mistake(
        "sizes only",
        "These are sizes. The derivatives themselves were asked for: a matrix for each position.",
        lambda h, W, U: gradients(h, W, U).flatten(1).norm(dim=1),
        0.75,
    ),
]


def _number_by_number(states: Tensor, W: Tensor, U: Tensor) -> Tensor:
    product, found = torch.ones_like(U), []
    for state in states.flip(0):
        own = _damped(W, state)
        found.append(product * own if own.shape == product.shape else product @ own)
        product = product * _damped(U, state)
    return torch.stack(found[::-1])


# 1.6 what a layer costs


def cost_cases(seed: int) -> list[Case]:
    """Return sizes that fit, the smallest that do, and calls that must be refused; sizes are no powers of two."""
    g = torch.Generator().manual_seed(seed + 5000)

    def case(name: str, layer: str, numbers: tuple[Any, ...], words: tuple[str, ...] = (), telling: str = "") -> Case:
        inputs = dict(zip(("layer", "n", "d", "k"), (layer, *numbers), strict=False))
        return Case(name, inputs, mentions=words, telling=telling)

    came, kind = "the name {} and the number that came", "the name n and the type that came"
    of_n, of_k = came.format("n"), came.format("k")
    (n, d, k), below, wide = sizes(g, 3, 5, 15), -pick(g, 4, 20), pick(g, 1100, 1900)
    s = torch.Generator().manual_seed(seed + 5500)
    no_layer, before, after = ("".join(chr(pick(s, 97, 122)) for _ in range(letters)) for letters in (5, 4, 2))
    names = f"{before}-attention", f"convolution{after}", "convolution"[: pick(s, 4, 10)]
    return [
        case("small", "recurrent", (3, 2, 3)),
        case("recurrent", "recurrent", (n, d, k)),
        case("recurrent, one word, k isn't used", "recurrent", (1, d, 1)),
        case("convolution", "convolution", (9, 3, 3)),
        case("convolution, not even", "convolution", (10 + 6 * pick(g, 0, 5), 3, 4)),
        case("convolution, rounded", "convolution", (10, 5, 3)),
        case("wide convolution", "convolution", (6, 3, 9)),
        case("convolution, sizes from the seed", "convolution", (n + d, d, k)),
        case("convolution of width 2", "convolution", (k, 3, 2)),
        case("convolution, one word", "convolution", (1, d, k)),
        case("convolution, k not given", "convolution", (d, 3)),
        case("attention", "attention", (5, 3, 3)),
        case("long attention", "attention", (20 + n, d, k)),
        case("attention, one word, k isn't used", "attention", (1, d, 0)),
        case("another name", no_layer, (n, d, k), (no_layer,), "the name that came"),
        case("a name that holds a known one", names[0], (n, k, d), names[:1], "the name that came"),
        case("length 0", "attention", (0, d, k), ("n", "0"), of_n),
        case("length negative", "recurrent", (below, d, k), ("n", str(below)), of_n),
        case("width 1", "convolution", (n, d, 1), ("k", "1"), of_k),
        case("width 0", "convolution", (n, d, 0), ("k", "0"), of_k),
        case("width negative", "convolution", (n, d, below), ("k", str(below)), of_k),
        case("not an integer", "recurrent", (pick(s, 2, 19) + 0.5, d, k), ("n", "float"), kind),
        case("not an integer, in attention", "attention", (n + 0.5, d, k), ("n", "float"), kind),
        case("a whole number, but a float", "convolution", (float(n), d, k), ("n", "float"), kind),
        case("a whole number, but a tensor", "attention", (torch.tensor(float(n)), d, k), ("n", "Tensor"), kind),
        case("convolution, one more layer for one word more", "convolution", (2 * wide, 3, wide)),
        case("a name that begins as a known one", names[1], (d, n, k), names[1:2], "the name that came"),
        case("a piece of a known name", names[2], (d, k, n), names[2:], "the name that came"),
        case("length 0, convolution", "convolution", (0, k, d), ("n", "0"), of_n),
        case("width 1, one word", "convolution", (1, d, 1), ("k", "1"), of_k),
    ]


def cost(layer: str, n: int, d: int, k: int = 3) -> tuple[int, int, int]:
    """Return the right numbers, or say what is wrong."""
    if not isinstance(n, int):
        raise TypeError(f"n must be an integer, got {type(n).__name__}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if layer == "recurrent":
        return 2 * n * d * d, n, n
    if layer == "convolution":
        if k < 2:
            raise ValueError(f"k must be at least 2, got {k}")
        return k * n * d * d, 1, -(-(n - 1) // (k - 1))
    if layer == "attention":
        return 4 * n * d * d + 2 * n * n * d, 4, 1
    raise ValueError(f"layer must be 'recurrent', 'convolution' or 'attention', got {layer!r}")


def cost_by_table(layer: str, n: int, d: int, k: int = 3) -> tuple[int, int, int]:
    """Return the same from a table."""
    if type(n) is not int:
        raise TypeError(f"n = {n} is a {type(n)}")
    if n < 1 or (layer == "convolution" and k < 2):
        raise ValueError(f"n must be 1 or more and k 2 or more, got n = {n} and k = {k}")
    table = {
        "recurrent": (2 * n * d**2, n, n),
        "convolution": (k * n * d**2, 1, math.ceil((n - 1) / max(k - 1, 1))),
        "attention": (4 * n * d**2 + 2 * n**2 * d, 4, 1),
    }
    if layer not in table:
        raise ValueError(f"no such layer: {layer}")
    return table[layer]


def cost_by_counting(layer: str, n: int, d: int, k: int = 3) -> tuple[int, int, int]:
    """Return the same, counted: a product for each position, layers until the first position is in sight."""
    if not isinstance(n, int):
        raise TypeError(f"n = {n!r} has the type {type(n).__name__}")
    if n <= 0 or layer not in ("recurrent", "convolution", "attention"):
        raise ValueError(f"n = {n}, layer = {layer}")
    per_position = {"recurrent": 2, "convolution": k, "attention": 4}[layer]
    multiplications = sum(per_position * d * d for _ in range(n))
    if layer == "attention":
        return multiplications + sum(2 * d for _ in range(n) for _ in range(n)), 4, 1
    if layer == "recurrent":
        return multiplications, n, n
    if k <= 1:
        raise ValueError(f"a window of k = {k} sees only itself")
    layers = next(count for count in range(n) if 1 + count * (k - 1) >= n)
    return multiplications, 1, layers


def _costing(**changes: Callable[[int, int, int], tuple[Any, ...]]) -> Callable[..., Any]:
    """Return an answer that gives something else for some layers, and refuses what is to be refused."""

    def answer(layer: str, n: int, d: int, k: int = 3) -> Any:
        right = cost(layer, n, d, k)
        return changes[layer](n, d, k) if layer in changes else right

    return answer


def _accepting(refused: str) -> Callable[..., Any]:
    """Return an answer that lacks one of the guards."""

    def answer(layer: str, n: Any, d: int, k: int = 3) -> Any:
        if refused == "n" and isinstance(n, int) and n < 1:
            return _unguarded(layer, n, d, k)
        if refused == "type" and not isinstance(n, int):
            return _unguarded(layer, n, d, k)
        if refused == "type but float" and not isinstance(n, int | float):
            return _unguarded(layer, n, d, k)
        if refused == "k" and layer == "convolution" and k < 2:
            return _unguarded(layer, n, d, k)
        if refused == "name" and layer not in ("recurrent", "convolution", "attention"):
            return 4 * n * d * d + 2 * n * n * d, 4, 1
        return cost(layer, n, d, k)

    return answer


def _unguarded(layer: str, n: Any, d: int, k: int = 3) -> Any:
    if layer == "recurrent":
        return 2 * n * d**2, n, n
    if layer == "convolution":
        return k * n * d**2, 1, -(-(n - 1) // (k - 1))
    return 4 * n * d**2 + 2 * n**2 * d, 4, 1


def _with_square(layer: str, n: Any, d: int, k: int, square: int) -> tuple[int, int, int]:
    multiplications, in_a_row, path = cost(layer, n, d, k)
    products = {"recurrent": 2, "convolution": k, "attention": 4}[layer] * n
    return multiplications + products * (square - d * d), in_a_row, path


COST_WRONG = [
    Mistake(
        "constants left out",
        "These are the paper's orders, without their constants. Count: W x and U h are two products for each position, "
        "attention has four projections, and n^2 scores and n^2 shares.",
        _costing(recurrent=lambda n, d, k: (n * d * d, n, n), attention=lambda n, d, k: (n * n * d, 4, 1)),
        0.5,
    ),
    Mistake(
        "one product for each step",
        "The recurrent layer has two products for each position: W x and U h.",
        _costing(recurrent=lambda n, d, k: (n * d * d, n, n)),
        0.75,
    ),
    Mistake(
        "no projections",
        "Attention's four projections are missing: queries, keys, values and output, d^2 each for each position.",
        _costing(attention=lambda n, d, k: (2 * n * n * d, 4, 1)),
        0.75,
    ),
    Mistake(
        "three projections",
        "Attention has four projections, and you count three: the output is projected, too.",
        _costing(attention=lambda n, d, k: (3 * n * d * d + 2 * n * n * d, 4, 1)),
        0.75,
    ),
    Mistake(
        "scores only",
        "The scores are counted, the averages aren't: n^2 d multiplications for each of the two.",
        _costing(attention=lambda n, d, k: (4 * n * d * d + n * n * d, 4, 1)),
        0.75,
    ),
    Mistake(
        "one product in a row for attention",
        "Attention's products wait for each other four times: project, compare, average, output. O(1) means that the "
        "number doesn't grow, not that it's 1.",
        _costing(attention=lambda n, d, k: (cost("attention", n, d, k)[0], 1, 1)),
        0.75,
    ),
    Mistake(
        "recurrence in parallel",
        "The recurrent layer's products don't wait for each other in your count. h_2 needs h_1: n in a row.",
        _costing(recurrent=lambda n, d, k: (2 * n * d * d, 1, n)),
        0.5,
    ),
    Mistake(
        "attention waits for each word",
        "Attention computes all positions at once: four products in a row, at any length.",
        _costing(attention=lambda n, d, k: (cost("attention", n, d, k)[0], n, 1)),
        0.5,
    ),
    Mistake(
        "path rounded down",
        "The number of layers is rounded down, so that the first position is just out of sight: round up.",
        _costing(convolution=lambda n, d, k: (k * n * d * d, 1, (n - 1) // (k - 1))),
        0.75,
    ),
    Mistake(
        "path rounded to the nearest",
        "The number of layers is rounded to the nearest integer. Whatever is left over takes one layer more: round up.",
        _costing(convolution=lambda n, d, k: (k * n * d * d, 1, math.floor((n - 1) / (k - 1) + 0.5))),
        0.75,
    ),
    Mistake(
        "path n / k",
        "The path is n / k, rounded up: the paper's order. A layer adds k - 1 positions to the first one: (n - 1) / "
        "(k - 1).",
        _costing(convolution=lambda n, d, k: (k * n * d * d, 1, -(-n // k))),
        0.75,
    ),
    Mistake(
        "path (n - 1) / k",
        "Each layer adds k - 1 positions, not k: the position itself is one of the window's.",
        _costing(convolution=lambda n, d, k: (k * n * d * d, 1, -(-(n - 1) // k))),
        0.75,
    ),
    Mistake(
        "path n / (k - 1)",
        "The position itself is in sight from the start: n - 1 are left, and each layer adds k - 1.",
        _costing(convolution=lambda n, d, k: (k * n * d * d, 1, -(-n // (k - 1)))),
        0.75,
    ),
    Mistake(
        "width left out",
        "The convolution's width k is missing from its multiplications: k products for each position.",
        _costing(convolution=lambda n, d, k: (n * d * d, 1, cost("convolution", n, d, k)[2])),
        0.75,
    ),
    Mistake(
        "two to the power of d",
        "2**d is two to the power of d. A d x d matrix times a vector takes d**2 multiplications. (For d = 2 and d = 4 "
        "the two are the same.)",
        lambda layer, n, d, k=3: _with_square(layer, n, d, k, 2**d),
        0.75,
    ),
    Mistake(
        "k always checked",
        "A k below 2 is refused for every layer. The recurrent layer and attention don't use k: whatever it is, they "
        "have an answer.",
        lambda layer, n, d, k=3: cost("convolution" if k < 2 else layer, n, d, k),
        0.75,
    ),
    Mistake(
        "one layer at least",
        "At least one layer is counted. For a single word it takes none: the first word is the last.",
        _costing(convolution=lambda n, d, k: (k * n * d * d, 1, max(1, -(-(n - 1) // (k - 1))))),
        0.75,
    ),
    Mistake(
        "k must be given",
        "Without k it raises an error. k has a default, 3, as the signature says: k: int = 3.",
        lambda layer, n, d, k: cost(layer, n, d, k),
        0.75,
    ),
    Mistake(
        "whole floats taken",
        "A length of 3.0 is taken for an integer. It's a float: a TypeError is wanted, whatever its value.",
        lambda layer, n, d, k=3: cost(layer, int(n) if n == int(n) else n, d, k),
        0.75,
    ),
    Mistake(
        "stack counted",
        "You count the convolution's whole stack. The multiplications and the products in a row are one layer's.",
        _costing(convolution=lambda n, d, k: ((m := -(-(n - 1) // (k - 1))) * k * n * d * d, m, m)),
        0.5,
    ),
    Mistake(
        "nothing refused",
        "The numbers are right, but what makes no sense isn't refused in the way that was asked for.",
        _unguarded,
        0.5,
    ),
    Mistake(
        "any name taken",
        "A name that isn't known is taken for attention: an else without a question. Refuse it.",
        _accepting("name"),
        0.75,
    ),
    Mistake("no guard for n", "A length below 1 isn't refused.", _accepting("n"), 0.75),
    Mistake(
        "only floats refused",
        "Floats are refused, but whatever else isn't an integer comes through, such as a tensor: ask with "
        "`isinstance(n, int)`.",
        _accepting("type but float"),
        0.75,
    ),
    Mistake("no guard for the type", "A length of 2.5 isn't refused: a TypeError is wanted.", _accepting("type"), 0.75),
    Mistake(
        "division by zero",
        "A width below 2 isn't refused: for k = 1 a division by zero comes through, for less a number without a "
        "meaning. Ask before you divide, and say what is wrong: a window of one place never sees another.",
        _accepting("k"),
        0.75,
    ),
    Mistake(
        "assertions",
        "Assertions refuse, but python -O leaves them out: raise ValueError and TypeError.",
        with_errors(cost, lambda error: AssertionError(str(error))),
        0.75,
    ),
    Mistake(
        "ValueError for all",
        "Everything is refused by a ValueError. What has the wrong type deserves a TypeError.",
        with_errors(cost, lambda error: ValueError(str(error))),
        0.75,
    ),
    Mistake(
        "texts that say nothing",
        "The classes are right, but the texts don't say what came. Whoever reads them needs the name and the value.",
        with_errors(cost, lambda error: type(error)("bad input")),
        0.75,
    ),
]


PROBES = [
    Probe(
        id="1.1",
        title="Elman's network",
        kind="module",
        entry="ElmanRNN",
        points=4,
        minutes=12,
        difficulty=1,
        cases=elman_cases,
        reference=Elman,
        original=("baselines.ElmanRNN",),
        right={"inputs projected first": ElmanAtOnce, "PyTorch's own": ElmanByTorch},
        wrong=ELMAN_WRONG,
    ),
    Probe(
        id="1.2",
        title="one step of an LSTM",
        kind="function",
        entry="lstm_step",
        points=4,
        minutes=12,
        difficulty=2,
        cases=lstm_cases,
        reference=lstm,
        right={"PyTorch's own": lstm_by_torch, "gate by gate": lstm_by_gates},
        wrong=LSTM_WRONG,
    ),
    Probe(
        id="1.3",
        title="a convolution that looks ahead",
        kind="bug",
        entry="causal_convolution",
        points=4,
        minutes=10,
        difficulty=2,
        cases=convolution_cases,
        reference=convolution,
        right={"place by place": convolution_by_loop, "padded on both sides, cut": convolution_cut},
        original=("baselines.CausalConvolution",),
        wrong=CONVOLUTION_WRONG,
    ),
    Probe(
        id="1.4",
        title="what a stack sees",
        kind="function",
        entry="places_seen",
        points=4,
        minutes=12,
        difficulty=2,
        cases=seen_cases,
        reference=seen,
        right={"a mask, shifted": seen_by_shifting, "gradients": seen_by_gradients},
        wrong=SEEN_WRONG,
    ),
    Probe(
        id="1.5",
        title="the gradient through time, by hand",
        kind="function",
        entry="gradients_through_time",
        points=5,
        minutes=15,
        difficulty=3,
        cases=gradient_cases,
        reference=gradients,
        right={"from the first position on": gradients_by_forward, "row by row": gradients_by_rows},
        wrong=GRADIENT_WRONG,
    ),
    Probe(
        id="1.6",
        title="what a layer costs",
        kind="error",
        entry="layer_cost",
        points=5,
        minutes=15,
        difficulty=2,
        cases=cost_cases,
        reference=cost,
        right={"a table": cost_by_table, "counted": cost_by_counting},
        wrong=COST_WRONG,
    ),
]


QUESTIONS = [
    Question(
        id="1.7",
        title="a headline",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (
                1,
                "what of it is true, and where it comes from",
                "a product of factors, one for each step; below 1: gone",
            ),
            (1, "what decides whether the factors stay near 1", "size of U, start of the gates: not the name RNN"),
            (1, "why a gradient that arrives isn't yet enough", "a chance to learn; positions, steps, data are needed"),
            (
                1,
                "a measurement that could prove the headline wrong",
                "dh_T/dx_t by distance, or recall with equal size",
            ),
        ),
    ),
    Question(
        id="1.8",
        title="which layer for this job",
        points=4,
        minutes=10,
        difficulty=2,
        rubric=(
            (1, "what attention would have to keep and to compute", "all keys and values, and a score for each: grows"),
            (1, "how deep the dilated stack must be", "1 + 2 (2^L - 1) >= 1001, so nine layers see 1,023 places"),
            (1, "what speaks for and against the recurrent network", "one state, constant cost; must learn to hold on"),
            (1, "what you would measure before you decide", "accuracy by distance, time and memory on that device"),
        ),
    ),
]
