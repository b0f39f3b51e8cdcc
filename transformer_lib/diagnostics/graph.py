"""What a model computes, recorded as a graph from outside: every call of a torch function, whoever wrote the model.

A `Trace` is active in a `with` block. It turns dropout off, so that what follows can be compared, and notes what it
turned off. It holds all intermediate tensors until it is dropped: give it small batches.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor
from torch.overrides import TorchFunctionMode

PRODUCTS = {"matmul", "bmm", "baddbmm", "einsum", "mm", "addmm"}
ATTENTION = "scaled_dot_product_attention"
NORMS = {"layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm", "normalize"}
STATISTICS = {"mean", "std", "var", "var_mean", "std_mean", "rsqrt", "norm", "vector_norm", "square", "pow"}
MIXERS = PRODUCTS | NORMS | STATISTICS | {ATTENTION, "linear", "conv1d", "softmax"}
SHAPED_AFTER = {"type_as", "to", "view_as", "expand_as", "reshape_as"}  # another tensor lends its type or shape
LIKE = {"zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "empty_like"}
LIKE |= {"new_zeros", "new_ones", "new_full"}  # nothing but a shape is taken from another tensor
IN_PLACE = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")
QUESTIONS = {"shape", "dtype", "device", "size", "dim", "numel", "requires_grad", "layout", "ndim", "is_leaf", "item"}
QUESTIONS |= {"is_floating_point", "is_cuda", "is_sparse", "is_nested", "grad_fn", "len", "tolist"}
DROPOUTS = {"dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"}
SAME = {"iadd": "add", "radd": "add", "isub": "sub", "rsub": "sub", "imul": "mul", "rmul": "mul", "truediv": "div"}
SAME |= {"itruediv": "div", "divide": "div", "multiply": "mul", "subtract": "sub", "imatmul": "matmul"}
SAME |= {"rmatmul": "matmul", "addcmul": "add", "masked_fill": "masked_fill"}

Numbers = Shaped[Tensor, "..."]  # of any shape and kind
Edit = Callable[["Node", Tensor], Tensor]


class Node:
    """One tensor of a computation, and the call that made it.

    `stage` is 0 before any embedding of the model's inputs, 1 in the embedding stage, 2 once anything has mixed it.
    `ancestors` has the bit of every node that it was computed from.
    """

    def __init__(self, name: str, inputs: "list[Node]", tensor: Tensor, index: int) -> None:
        self.name, self.inputs, self.tensor, self.index = name, inputs, tensor, index
        self.saved: Tensor | None = None
        self.arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self.users: list[Node] = []
        self.module, self.active, self.stage, self.ancestors = "", False, 0, 0

    @property
    def value(self) -> Numbers:
        """The tensor as it was when it was made, without its gradient."""
        return (self.tensor if self.saved is None else self.saved).detach()

    def follows(self, other: "Node") -> bool:
        """Return whether this node was computed from the other one, or is it."""
        return self is other or bool(self.ancestors >> other.index & 1)

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """Return an argument of the call, given by place or by name."""
        positional, named = self.arguments
        return positional[place] if len(positional) > place else named.get(name, default)


class Trace(TorchFunctionMode):
    """The nodes of everything computed while it is active, in order.

    Args:
        roots: tensors that count as the model's inputs.
        edit: takes the node of an embedding of the inputs and its vectors, and returns the vectors to go on with.
    """

    def __init__(self, roots: Iterable[Tensor] = (), edit: Edit | None = None) -> None:
        super().__init__()
        self.nodes: list[Node] = []
        self.node_of: dict[int, Node] = {}
        self.dropped: list[tuple[str, float]] = []
        self.edit, self.module = edit, [""]
        roots = list(roots)
        self.storages = {root.untyped_storage().data_ptr() for root in roots if not root.is_floating_point()}
        for root in roots:
            node = self._add("input", [], root)
            node.active, node.stage = True, int(root.is_floating_point() and root.dim() > 2)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a torch function and record it."""
        kwargs, name = kwargs or {}, op_name(func)
        if name in QUESTIONS:
            return func(*args, **kwargs)
        if name in DROPOUTS | {ATTENTION}:
            args, kwargs = self._without_dropout(name, args, kwargs)
        changed = args[0] if args and isinstance(args[0], Tensor) and _in_place(func) else None
        if changed is not None:
            before = self._node(changed)
            before.saved = changed.detach().clone()
        output = func(*args, **kwargs)
        inputs = [self._node(tensor) for tensor in tensors((args, kwargs))]
        inputs = inputs[:1] if name in SHAPED_AFTER else [] if name in LIKE else inputs
        results = [changed] if changed is not None else list(tensors(output))
        for number, tensor in enumerate(results):
            node = self._record(name, inputs, tensor, (args, kwargs))
            if self.edit and number == 0 and node.stage == 1 and is_lookup(node):
                node.tensor = output = self.edit(node, output)
                self.node_of[id(output)] = node
        return output

    def _record(self, name: str, inputs: list[Node], tensor: Tensor, arguments: Any) -> Node:
        node = self._add(name, inputs, tensor)
        node.arguments = arguments
        node.active = any(given.active for given in inputs)
        stage = max((given.stage for given in inputs), default=0)
        node.stage = 2 if stage and name in MIXERS else max(stage, int(node.active and is_lookup(node)))
        if name == "softmax":
            node.saved = tensor.detach().clone()
        for given in inputs:
            node.ancestors |= given.ancestors | 1 << given.index
            given.users.append(node)
        return node

    def _add(self, name: str, inputs: list[Node], tensor: Tensor) -> Node:
        node = Node(name, inputs, tensor, len(self.nodes))
        node.module = self.module[-1]
        self.nodes.append(node)
        self.node_of[id(tensor)] = node
        return node

    def _node(self, tensor: Tensor) -> Node:
        node = self.node_of.get(id(tensor))
        if node is None:
            node = self._add("leaf", [], tensor)
            whole = not tensor.is_floating_point() and tensor.layout == torch.strided
            node.active = whole and tensor.untyped_storage().data_ptr() in self.storages
        return node

    def _without_dropout(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        args, kwargs = list(args), dict(kwargs)
        place = 4 if name == ATTENTION else 1
        given = args[place] if len(args) > place else kwargs.get("dropout_p", kwargs.get("p", 0.0))
        on = name == ATTENTION or (args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True)))
        if given and on:
            self.dropped.append((self.module[-1], float(given)))
            if len(args) > place:
                args[place] = 0.0
            else:
                kwargs["dropout_p" if name == ATTENTION else "p"] = 0.0
        return tuple(args), kwargs


def op_name(func: Any) -> str:
    """Return a function's name, the same for a function, a method, an operator and their in-place forms."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return getattr(getattr(func, "__self__", None), "__name__", "get")
    name = name.strip("_")
    return SAME.get(name, name)


def _in_place(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name in IN_PLACE
    return name.endswith("_") and not name.startswith("_") and name != "requires_grad_"


def is_lookup(node: Node) -> bool:
    """Return whether a node is made by looking up rows of a table by the model's integer inputs."""
    if not node.tensor.is_floating_point() or node.name not in ("embedding", "getitem", "index_select"):
        return False
    return any(given.active and _is_ids(given.tensor) for given in node.inputs)


def _is_ids(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.int64, torch.int32) and tensor.dim() > 0


def tensors(thing: Any, depth: int = 4) -> Iterator[Numbers]:
    """Yield the tensors in nested tuples, lists, dictionaries and objects with fields."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, tuple | list) and depth:
        for part in thing:
            yield from tensors(part, depth - 1)
    elif isinstance(thing, dict) and depth:
        yield from tensors(list(thing.values()), depth - 1)
