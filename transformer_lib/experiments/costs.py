"""What a layer costs: multiplications, and products that wait for each other (chapter 01, the paper's Table 1)."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

PRODUCTS = ("AddmmBackward", "MmBackward", "BmmBackward", "ConvolutionBackward")  # nodes of the graph that multiply


def multiplications(network: Callable[[Tensor], object], x: Float[Tensor, "..."] | Int[Tensor, "..."]) -> int:
    """Return how many multiplications the network's matrix products and convolutions do on `x`.

    PyTorch counts two operations, a multiplication and an addition, for each. What is done to single numbers, such as
    tanh, softmax or the LSTM's gates, isn't counted.
    """
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(x)
    return counter.get_total_flops() // 2


def waiting_products(output: Float[Tensor, "..."]) -> int:
    """Return how many products, at the most, stand one behind the other between the inputs and this output.

    That is the longest chain in the graph that autograd has kept: however many processors there are, no link of it
    can begin before the one before it is done.
    """
    order, longest = _parents_first(output.grad_fn), {}
    for node in order:
        before = [longest[parent] for parent in _parents(node)]
        longest[node] = max(before, default=0) + node.name().startswith(PRODUCTS)
    return longest[output.grad_fn]


def _parents(node: torch.autograd.graph.Node) -> list[torch.autograd.graph.Node]:
    return [parent for parent, _ in node.next_functions if parent is not None]


def _parents_first(last: torch.autograd.graph.Node) -> list[torch.autograd.graph.Node]:
    """Return the nodes that lead to one, each after its parents; without recursion, since a chain may be long."""
    order, done, stack = [], set(), [(last, False)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            order.append(node)
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            stack += [(parent, False) for parent in _parents(node) if parent not in done]
    return order
