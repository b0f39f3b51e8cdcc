"""Every attention in a recorded computation: its scores, its weights, its scale, and what it reads."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformer_lib.diagnostics.graph import ATTENTION, PRODUCTS, Node, Trace
from transformer_lib.diagnostics.products import back, contracted, main, operands

MASKED = -9e3  # a score below this one is meant as "may not attend"
SOURCES = {
    "linear",
    "matmul",
    "mm",
    "addmm",
    "bmm",
    "conv1d",
    "einsum",
    "embedding",
    "input",
    "leaf",
}


@dataclass
class Attention:
    """One attention, as it was computed.

    Args:
        module: the name of the module that computed it.
        scores: what went into the softmax, masks included.
        weights: what came out of it.
        used: what the values were multiplied by.
        scale: what products of queries and keys were multiplied by; None where that isn't one number.
        query: what the queries were projected from; `key` likewise.
        made: the node in which the scores were compared, and `result` that of the mixed values.
        axis_last: whether the softmax ran over the last axis.
    """

    module: str
    scores: Float[Tensor, "batch heads query key"]
    weights: Float[Tensor, "batch heads query key"]
    used: Float[Tensor, "batch heads query key"]
    scale: float | None
    d_k: int
    query: Node
    key: Node
    made: Node
    result: Node
    axis_last: bool = True
    projections: tuple[Node, Node] | None = None
    operands: tuple[Node, Node] | None = None  # the nodes that were compared
    compared: tuple[Tensor, Tensor] | None = None  # queries and keys as they were compared

    @property
    def visible(self) -> Bool[Tensor, "batch heads query key"]:
        """True where the scores let a query attend to a key."""
        return ~(self.scores <= MASKED)  # NaN is a fault of its own

    @property
    def crosses(self) -> bool:
        """Whether keys come from another sequence than queries."""
        return self.query is not self.key and not self.key.follows(self.query) and not self.query_reads_key_stream

    @property
    def query_reads_key_stream(self) -> bool:
        """Whether the two are parts of the same stream, such as normed once more."""
        return self.query.inputs and self.query.inputs[:1] == self.key.inputs[:1]


def find(trace: Trace, batch: int) -> list[Attention]:
    """Return the attentions among the nodes of a run, in order.

    Args:
        batch: number of sentences, by which heads are told from them.
    """
    found = []
    for node in trace.nodes:
        if node.name == ATTENTION:
            found.append(_fused(node, batch))
        elif node.name == "softmax" or _is_written_out(node):
            found.append(_explicit(node, batch))
    return [attention for attention in found if attention is not None]


def _is_written_out(node: Node) -> bool:
    if node.name != "div" or len(node.inputs) < 2:
        return False
    top, bottom = node.inputs[:2]
    return bottom.name in ("sum", "add", "clamp") and bottom.follows(top) and _exponential(top)


def _exponential(node: Node) -> bool:
    while node.name in ("mul", "masked_fill", "where", "nan_to_num") and node.inputs:
        node = main(node)
    return node.name == "exp"


def _fused(node: Node, batch: int) -> Attention | None:
    query, key = node.inputs[0], node.inputs[1]
    given = node.argument(6, "scale")
    q, k = query.value.float(), key.value.float()
    if q.dim() > 2 and k.dim() == q.dim() and k.size(-3) != q.size(-3):
        k = k.repeat_interleave(q.size(-3) // k.size(-3), dim=-3)
    (start_q, factor_q), (start_k, factor_k) = back(query, SOURCES), back(key, SOURCES)
    scale = q.size(-1) ** -0.5 if given is None else float(given)
    scores = q @ k.transpose(-2, -1) * scale
    mask, causal = node.argument(3, "attn_mask"), node.argument(5, "is_causal", False)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    maps = [_canonical(part, batch) for part in (scores, weights, weights)]
    total = None if factor_q is None or factor_k is None else scale * factor_q * factor_k
    ends = projected_from(start_q), projected_from(start_k)
    made = Attention(node.module, *maps, total, q.size(-1), *ends, node, node, True, (start_q, start_k))
    made.compared, made.operands = (query.value, key.value), (query, key)
    return made


def _explicit(node: Node, batch: int) -> Attention | None:
    before = node.inputs[0] if node.name == "softmax" else _log_of(node)
    product, factor = back(before, PRODUCTS)
    if product.name not in PRODUCTS or product.stage < 2 or before.value.dim() < 3:
        return None
    pair = operands(product)
    if pair is None or not all(part.active and part.stage for part in pair):
        return None
    mixed = _mixing(node)
    if mixed is None:
        return None
    axis = node.argument(1, "dim", -1) if node.name == "softmax" else -1
    used, result = mixed
    scores = before.value if node.name == "softmax" else before.value.clone()
    (start_q, factor_q), (start_k, factor_k) = (back(part, SOURCES) for part in pair)
    factors = (factor, factor_q, factor_k, _alpha(product))
    scale = None if None in factors else math.prod(factors)
    maps = [_canonical(part.float(), batch) for part in (scores, node.value, used)]
    last = axis in (-1, node.value.dim() - 1)
    ends = projected_from(start_q), projected_from(start_k)
    made = Attention(
        node.module, *maps, scale, contracted(product, pair), *ends, node, result, last, (start_q, start_k)
    )
    made.compared, made.operands = (pair[0].value, pair[1].value), pair
    return made


def _log_of(node: Node) -> Node:
    top = node.inputs[0]
    while top.name != "exp":
        top = main(top)
    return top.inputs[0]


def _alpha(product: Node) -> float:
    return float(product.argument(9, "alpha", 1.0)) if product.name in ("baddbmm", "addmm") else 1.0


def _mixing(node: Node) -> tuple[Tensor, Node] | None:
    """Follow the weights to the product with the values; return what is multiplied, and the product's node."""
    for _ in range(12):
        following = [user for user in node.users if user.tensor.is_floating_point()]
        products = [user for user in following if user.name in PRODUCTS]
        if products:
            return node.value, products[0]
        following = [user for user in following if user.tensor.dim() >= 3 and main(user) is node or node in user.inputs]
        following = [user for user in following if user.tensor.numel() >= node.tensor.numel()]
        if not following:
            return None
        node = following[0]
    return None


def projected_from(node: Node) -> Node:
    """Return what a projection was made from: the input of the linear map."""
    return main(node) if node.inputs else node


def _canonical(maps: Tensor, batch: int) -> Tensor:
    """Return maps as [batch heads query key], whatever came before the last two axes."""
    maps = maps.detach()
    if maps.dim() == 4 and maps.size(0) != batch and maps.size(1) == batch:
        return maps.transpose(0, 1)
    maps = maps.flatten(end_dim=-3)
    return maps.unflatten(0, (batch, -1)) if len(maps) % batch == 0 else maps.unsqueeze(1)
