"""The networks that chapter 01 compares, under one name each; all map [batch position d_model] to the same shape."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import attention, checks, masks
from transformer_lib.baselines import LSTM, CausalCNN, ElmanRNN, receptive_field

NAMES = ("Elman", "LSTM", "LSTM, open", "plain CNN", "dilated CNN", "attention")
WIDTH, DEPTH = 3, 8  # of the convolutional networks: 17 positions without dilation, 511 with
OPEN = 5.0  # the forget gate's bias in "LSTM, open": sigmoid(5) = 0.993 of the cell stays at each step


class OneAttention(nn.Module):
    """One causal attention layer: each position averages what it and those before it hold, with weights of its own.

    X -> A(X) X W_V W_O with A = softmax(Q K^T / sqrt(d_k)) below the diagonal; Vaswani et al. (2017), section 3.2.
    It has no positions, no residual and no bias.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        checks.positive(d_model=d_model)
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the mixture at each position."""
        mask = masks.causal_mask(x.size(1)).to(x.device)
        return self.output(attention.attend(self.query(x), self.key(x), self.value(x), mask))

    def fused(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the same by PyTorch's own function, which never holds the whole map of weights."""
        parts = (layer(x).unsqueeze(1) for layer in (self.query, self.key, self.value))  # with an axis for one head
        return self.output(F.scaled_dot_product_attention(*parts, is_causal=True).squeeze(1))


def network(name: str, d_model: int) -> nn.Module:
    """Return a network of chapter 01 with fresh weights.

    Args:
        name: one of `NAMES`; "LSTM, open" is an LSTM whose forget gate starts open (Gers et al., 2000).

    Raises:
        ValueError: the name is another, or `d_model` is below 1.
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    made = {
        "Elman": lambda: ElmanRNN(d_model),
        "LSTM": lambda: LSTM(d_model),
        "LSTM, open": lambda: opened(LSTM(d_model)),
        "plain CNN": lambda: CausalCNN(d_model, WIDTH, [1] * DEPTH),
        "dilated CNN": lambda: CausalCNN(d_model, WIDTH, [2**layer for layer in range(DEPTH)]),
        "attention": lambda: OneAttention(d_model),
    }
    return made[name]()


def opened(lstm: LSTM) -> LSTM:
    """Set the bias of an LSTM's forget gate to `OPEN`; return the LSTM."""
    with torch.no_grad():
        lstm.input.bias.chunk(4)[1].fill_(OPEN)  # gates in the order i, f, g, o
    return lstm


def last_output(network: nn.Module, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch d_model"]:
    """Return `network(x)[:, -1]` without what the last position doesn't need, recurrences by PyTorch's own loop."""
    if isinstance(network, ElmanRNN | LSTM):
        return _last_state(network, x)
    if isinstance(network, CausalCNN):
        dilations = [layer.places.dilation[0] for layer in network.layers]
        return network(x[:, -receptive_field(WIDTH, dilations) :])[:, -1]
    if isinstance(network, OneAttention):
        mixed = attention.attend(network.query(x[:, -1:]), network.key(x), network.value(x))
        return network.output(mixed)[:, 0]
    return network(x)[:, -1]


def _last_state(network: ElmanRNN | LSTM, x: Tensor) -> Tensor:
    start = x.new_zeros(1, x.size(0), x.size(2))
    bias = network.input.bias
    weights = [network.input.weight, network.hidden.weight, bias, torch.zeros_like(bias)]  # torch has two biases
    settings = (True, 1, 0.0, False, False, True)  # biases, layers, dropout, training, both ways, batch first
    if isinstance(network, LSTM):
        return torch.lstm(x, (start, start), weights, *settings)[0][:, -1]
    return torch.rnn_tanh(x, start, weights, *settings)[0][:, -1]
