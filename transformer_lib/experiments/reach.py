"""How far back does a gradient reach? (chapter 01, in networks that aren't trained yet)"""

import torch
from torch import nn

from transformer_lib import baselines, checks
from transformer_lib.experiments import networks

D_MODEL, LENGTH, SEQUENCES = 32, 129, 64


def gradient_reach(network: nn.Module, length: int = LENGTH, *, d_model: int = D_MODEL, seed: int = 0) -> list[float]:
    """Return the size of dh_T/dx_t at each distance T - t, from 0 on: how strongly an input moves the last output.

    The size is the Frobenius norm of the Jacobian, as the root of the mean square over sequences of random vectors.
    A random vector v of N(0, 1) is sent back: the mean square of |v dh_T/dx_t| is the square of that norm.
    """
    checks.positive(length=length, d_model=d_model)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(SEQUENCES, length, d_model, generator=generator).requires_grad_()
    sent_back = torch.randn(SEQUENCES, d_model, generator=generator)
    (gradient,) = torch.autograd.grad(network(x)[:, -1], x, sent_back)
    return gradient.double().square().sum(dim=-1).mean(dim=0).sqrt().flip(0).tolist()


def fresh_reach(name: str, length: int = LENGTH, *, seed: int = 0) -> list[float]:
    """Return `gradient_reach` of one of `networks.NAMES` with fresh weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = networks.network(name, D_MODEL)
    return gradient_reach(network, length, seed=seed)


def seen(network: baselines.CausalCNN, length: int) -> int:
    """Return how many of `length` inputs the last output depends on, counted by their gradients.

    First all weights are set to the same positive number and all biases to 1, so that no ReLU is shut and no two paths
    cancel: what could pass, passes.

    Raises:
        ValueError: the length is below 1.
    """
    checks.positive(length=length)
    network.double()  # a deep stack multiplies hundreds of numbers
    for layer in network.layers:
        nn.init.ones_(layer.places.bias)
        nn.init.constant_(layer.places.weight, 1 / layer.places.in_channels)
    x = torch.ones(1, length, network.layers[0].places.in_channels, dtype=torch.double, requires_grad=True)
    (gradient,) = torch.autograd.grad(network(x)[:, -1].sum(), x)
    return int((gradient[0].amax(dim=-1) > 0).sum())
