"""Residual connections, norms, and the embedding's scale and ties, read from the graph of a run."""

from collections.abc import Iterator
from dataclasses import dataclass

from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.graph import NORMS, PRODUCTS, Node, Trace, is_lookup

LINEAR = PRODUCTS | {"linear", "conv1d"}
ACTIVATIONS = {"relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "mish", "celu", "selu", "softplus"}
ACTIVATIONS |= {"hardswish", "clamp", "erf", "glu", "relu6", "clamp_min", "maximum"}
Found = Iterator[Finding | str]


@dataclass
class Sublayer:
    """An attention or a feed-forward network within the stack.

    Args:
        enters: the tensor that its first linear map reads.
        inside: a node of it that everything passes.
        added: the addition of the residual connection, with its two parts; None where there's none.
    """

    kind: str
    module: str
    enters: Node
    inside: Node
    added: tuple[Node, Node, Node] | None = None  # sum, skip, branch


def norm_input(node: Node) -> Node | None:
    """Return what a norm has been applied to in a node, or None if the node is none."""
    if node.name in NORMS:
        return node.inputs[0]
    if node.name in ("div", "mul") and len(node.inputs) > 1:
        first, second = node.inputs[:2]
        for whole, part in ((first, second), (second, first)):
            narrow = part.inputs[0] if part.name in ("expand_as", "expand") else part
            thin = narrow.tensor.dim() == whole.tensor.dim() and narrow.tensor.size(-1) == 1 < whole.tensor.size(-1)
            if thin and part.stage == 2 and part.active and whole.active:
                return _uncentred(whole)
    return None


def _uncentred(node: Node) -> Node:
    if node.name == "sub" and len(node.inputs) > 1 and node.inputs[1].tensor.size(-1) == 1:
        return node.inputs[0]
    if node.name == "mul" and len(node.inputs) > 1:  # a gain before the division
        others = [given for given in node.inputs if given.active]
        return _uncentred(others[0]) if len(others) == 1 else node
    return node


def strip(node: Node) -> tuple[Node, bool]:
    """Walk back over norms, gains, dropout and views; return where that ends, and whether a norm was among them."""
    normed = False
    while node.inputs and not is_lookup(node):
        below = norm_input(node)
        if below is not None:
            node, normed = below, True
            continue
        active = [given for given in node.inputs if given.active and given.tensor.is_floating_point()]
        if node.name in LINEAR | ACTIVATIONS | {"softmax", "scaled_dot_product_attention"} or len(active) != 1:
            break
        if active[0].tensor.numel() != node.tensor.numel():
            break
        node = active[0]
    return node, normed


def streams(skip: Node) -> list[Node]:
    """Return where a skip begins, and, if that's a sum, where its parts do: branches are added one after the other."""
    start = strip(skip)[0]
    parts = start.inputs[:2] if start.name == "add" else []
    return [start, *(strip(part)[0] for part in parts if part.stage)]


def additions(trace: Trace) -> list[tuple[Node, Node, Node]]:
    """Return the sums in which one part was computed from what the other part is: (sum, skip, branch)."""
    found = []
    for node in trace.nodes:
        if node.name != "add" or len(node.inputs) < 2 or not node.stage:
            continue
        first, second = node.inputs[:2]
        if not (first.stage and second.stage and first.tensor.shape == second.tensor.shape and first.active):
            continue
        for skip, branch in ((first, second), (second, first)):
            start = strip(skip)[0]
            start = next((one for one in streams(skip) if branch.follows(one)), start)
            if branch is not skip and branch.follows(start) and branch.stage == 2 and _works(branch, start):
                found.append((node, skip, branch))
                break
    return found


def _works(branch: Node, start: Node) -> bool:
    """Return whether a linear map or an attention stands between."""
    between, todo = set(), [branch]
    while todo:
        node = todo.pop()
        if node.index in between or node is start or not node.follows(start):
            continue
        if node.name in LINEAR | {"scaled_dot_product_attention"}:
            return True
        between.add(node.index)
        todo += node.inputs
    return False


def sublayers(trace: Trace, attentions: list[Attention]) -> list[Sublayer]:
    """Return attentions and feed-forward networks in order, each with its residual addition."""
    found = []
    for attention in attentions:
        known = [s for s in found if s.kind == "attention" and s.enters is attention.query]
        if not (known and not attention.crosses and known[-1].inside.module != attention.module):
            found.append(Sublayer("attention", attention.module, attention.query, attention.result))
    found += _feed_forwards(trace, attentions)
    sums = additions(trace)
    for sub in found:
        mine = [(s, skip, b) for s, skip, b in sums if b.follows(sub.inside) and not skip.follows(sub.inside)]
        mine = [part for part in mine if any(sub.inside.follows(one) for one in streams(part[1]))]
        sub.added = mine[0] if mine else None
    return sorted(found, key=lambda sub: sub.inside.index)


def _feed_forwards(trace: Trace, attentions: list[Attention]) -> list[Sublayer]:
    if not attentions:
        return []
    found, last = [], max(a.result.index for a in attentions)
    first = min(a.result.index for a in attentions)
    after = 0
    for node in trace.nodes:
        if node.name not in ACTIVATIONS or node.stage != 2 or node.index < first:
            continue
        inner = _linear_before(node)
        outer = next((user for user in _forward(node) if user.name in LINEAR), None)
        if inner is None or outer is None or outer.tensor.size(-1) != _activation_input(inner).tensor.size(-1):
            continue
        after += node.index > last
        if after < 2 and not any(sub.inside is outer for sub in found):
            found.append(Sublayer("feed-forward", node.module, _activation_input(inner), outer))
    return found


def _activation_input(linear: Node) -> Node:
    return next(given for given in linear.inputs if given.active)


def _linear_before(node: Node) -> Node | None:
    for _ in range(6):
        active = [given for given in node.inputs if given.active]
        if not active:
            return None
        node = active[0]
        if node.name in LINEAR:
            return node if any(not g.active for g in node.inputs) else None
    return None


def _forward(node: Node, steps: int = 8) -> Iterator[Node]:
    for _ in range(steps):
        users = [user for user in node.users if user.tensor.is_floating_point()]
        if not users:
            return
        node = next((user for user in users if user.name in LINEAR), users[0])
        yield node
        if node.name in LINEAR:
            return
