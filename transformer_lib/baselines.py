"""What came before attention: recurrent and convolutional networks, for comparison (chapter 01).

Each maps vectors [batch position d_model] to as many of the same width, and no position sees a later one.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import checks


class ElmanRNN(nn.Module):
    """A recurrent network: one vector, the state, carries what came before from each position to the next.

    h_t = tanh(W x_t + U h_(t-1) + b), with h = 0 before the first position; Elman (1990).

    Raises:
        TypeError: `d_model` is not an integer.
        ValueError: it is below 1.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        checks.positive(d_model=d_model)
        self.input = nn.Linear(d_model, d_model)
        self.hidden = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the state after each position.

        Raises:
            TypeError: a dtype is not the weights'.
            ValueError: `x` has another width or number of dimensions, or no position.
        """
        checks.sequences(self.input.weight, x=x)
        state, states = torch.zeros_like(x[:, 0]), []
        for x_t in x.unbind(dim=1):
            state = torch.tanh(self.input(x_t) + self.hidden(state))
            states.append(state)
        return torch.stack(states, dim=1)


class LSTM(nn.Module):
    """A recurrent network whose memory, the cell, is added to instead of overwritten, under control of three gates.

    With i, f, o = sigmoid(W x_t + U h_(t-1) + b) and g the same with tanh, each with weights of its own:
    c_t = f * c_(t-1) + i * g and h_t = o * tanh(c_t). Hochreiter & Schmidhuber (1997), with the forget gate f of
    Gers et al. (2000).

    Raises:
        TypeError: `d_model` is not an integer.
        ValueError: it is below 1.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        checks.positive(d_model=d_model)
        self.input = nn.Linear(d_model, 4 * d_model)
        self.hidden = nn.Linear(d_model, 4 * d_model, bias=False)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the state h after each position.

        Raises:
            TypeError: a dtype is not the weights'.
            ValueError: `x` has another width or number of dimensions, or no position.
        """
        checks.sequences(self.input.weight, x=x)
        state, cell, states = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0]), []
        for x_t in x.unbind(dim=1):
            i, f, g, o = (self.input(x_t) + self.hidden(state)).chunk(4, dim=-1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
            states.append(state)
        return torch.stack(states, dim=1)


class CausalConvolution(nn.Module):
    """A weighted sum of the vectors at `width` places, the last of which is the position itself.

    y_t = b + W_0 x_t + W_1 x_(t - dilation) + W_2 x_(t - 2 dilation) + ..., with zeros before the first position;
    van den Oord et al. (2016), section 2.1.

    Args:
        width: number of places.
        dilation: positions from one place to the next; 1 is a plain convolution.

    Raises:
        TypeError: a size is not an integer.
        ValueError: one is below 1.
    """

    def __init__(self, d_model: int, width: int, dilation: int = 1) -> None:
        super().__init__()
        checks.positive(d_model=d_model, width=width, dilation=dilation)
        self.before = (width - 1) * dilation
        self.places = nn.Conv1d(d_model, d_model, width, dilation=dilation)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the sum at each position.

        Raises:
            TypeError: a dtype is not the weights'.
            ValueError: `x` has another width or number of dimensions, or no position.
        """
        checks.sequences(self.places.bias, x=x)
        padded = nn.functional.pad(x.transpose(1, 2), (self.before, 0))  # [batch d_model before+position]
        return self.places(padded).transpose(1, 2)


class CausalCNN(nn.Module):
    """A stack of causal convolutions, each followed by a ReLU and added to its input.

    With dilations 1, 2, 4, ... what a position sees doubles with each layer, without them it grows by the same number;
    van den Oord et al. (2016), Bai et al. (2018).

    Args:
        width: number of places that each convolution sums over.
        dilations: one for each layer, from the first on.

    Raises:
        TypeError: a size is not an integer.
        ValueError: one is below 1, or there is no layer.
    """

    def __init__(self, d_model: int, width: int, dilations: Sequence[int]) -> None:
        super().__init__()
        receptive_field(width, dilations)
        self.layers = nn.ModuleList(CausalConvolution(d_model, width, dilation) for dilation in dilations)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the vectors after the last layer."""
        for layer in self.layers:
            x = x + layer(x).relu()
        return x


def receptive_field(width: int, dilations: Sequence[int]) -> int:
    """Return how many positions, its own included, a position sees after a stack of causal convolutions.

    1 + (width - 1) * (sum of the dilations).

    Args:
        width: number of places that each convolution sums over.
        dilations: one for each layer.

    Raises:
        TypeError: a size is not an integer, or the dilations are not a sequence.
        ValueError: one is below 1, or there is no layer.
    """
    checks.positive(width=width)
    checks.instance(Sequence, dilations=dilations)
    if not len(dilations):
        raise ValueError("dilations must hold one number for each layer, got none")
    for dilation in dilations:
        checks.positive(dilation=dilation)
    return 1 + (width - 1) * sum(dilations)
