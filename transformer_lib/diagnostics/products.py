"""Reading products in a graph: what was multiplied by what, and by which number."""

import math

from torch import Tensor

from transformer_lib.diagnostics.graph import Node


def main(node: Node) -> Node:
    """Return the input that a tensor mainly comes from: the most mixed one, then the largest, then the first."""
    return max(node.inputs, key=lambda given: (given.active, given.stage, given.tensor.numel(), -given.index))


def back(node: Node, stop: set[str]) -> tuple[Node, float | None]:
    """Walk back to the first node with one of the names; return it, and the numbers multiplied by on the way.

    The factor is None where the tensor was multiplied by several learnt or given numbers, one for each head, say.
    """
    factor: float | None = 1.0
    while node.name not in stop and node.inputs:
        if node.name in ("mul", "div"):
            number = scalar(node)
            if number is None and _several(node):
                factor = None
            elif number is not None and factor is not None:
                factor *= number if node.name == "mul" else 1 / number
        node = main(node)
    return node, factor


def scalar(node: Node) -> float | None:
    """Return the one number that a product or a quotient has among its parts, or None."""
    positional, named = node.arguments
    for part in [*positional, *named.values()]:
        if isinstance(part, int | float) and not isinstance(part, bool):
            return float(part)
        if isinstance(part, Tensor) and part.numel() == 1 and node.tensor.numel() > 1:
            return float(part)
    return None


def _several(node: Node) -> bool:
    others = [given for given in node.inputs if given is not main(node)]
    return any(g.tensor.is_floating_point() and 1 < g.tensor.numel() <= 256 and not g.active for g in others) and all(
        size == 1 for g in others for size in g.tensor.shape[-2:]
    )


def operands(product: Node) -> tuple[Node, Node] | None:
    """Return queries and keys: the two parts of a product, the one along the last axis of the result second."""
    inputs = product.inputs[1:] if product.name in ("baddbmm", "addmm") else product.inputs
    if len(inputs) < 2:
        return (inputs[0], inputs[0]) if inputs else None
    first, second = inputs[:2]
    if product.name == "einsum" and (equation := _equation(product)):
        (left, right), output = equation
        return (second, first) if output[-1] in left and output[-1] not in right else (first, second)
    return first, second


def _equation(product: Node) -> tuple[list[str], str] | None:
    text = product.argument(0, "equation", "")
    if not isinstance(text, str) or "->" not in text:
        return None
    left, output = text.replace(" ", "").split("->")
    parts = left.split(",")
    return (parts, output) if len(parts) == 2 else None


def contracted(product: Node, pair: tuple[Node, Node]) -> int:
    """Return over how many numbers each product of a query and a key sums."""
    if product.name == "einsum" and (equation := _equation(product)):
        (left, right), output = equation
        places = [place for place, letter in enumerate(left) if letter in right and letter not in output]
        first = product.inputs[0].tensor
        return math.prod(first.size(place) for place in places)
    return pair[0].tensor.size(-1)
