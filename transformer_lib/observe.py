"""Attention seen from outside, without a line in the model (chapters 03, 06 and 09); `ablation` changes it::

    with record_attention(model) as weights:
        model(source, target)
    weights["encoder.layers.0.self_attention"][0]  # [batch heads query key]

While a `with` block runs, hooks on the model's attention modules say which of them is at work, and
`attention.masked_softmax` hands over the weights that it computes. Of two nested blocks the inner one comes later:
`record_attention` inside `ablation.edit_attention` records the changed weights. Fast forms are passed over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import attention, checks, multi_head

Weights = Float[Tensor, "batch heads query key"]


@contextmanager
def record_attention(model: nn.Module, *, detach: bool = True) -> Iterator[dict[str, list[Weights]]]:
    """Record the weights of every `MultiHeadAttention` in the model while the block runs.

    What the block gets is a dictionary: the module's name in the model, as in `model.named_modules()`, to its weights
    [batch heads query key], one tensor for each call, in order. In cached decoding that is one for each step: `join`.

    Args:
        detach: False keeps the weights in the graph, and with them all that was computed before, so that
            `torch.autograd.grad` can ask for the gradient with respect to them.

    Raises:
        TypeError: `model` is not a module.
        ValueError: the model has no `MultiHeadAttention`; and from a call of the model, if one computes no weights by
            `attention.masked_softmax` (a reader's `attend` took its place).
    """
    modules = attention_modules(model)
    found: dict[str, list[Tensor]] = {name: [] for name in modules}

    def keep(name: str, weights: Tensor) -> Tensor:
        found[name].append(weights.detach() if detach else weights)
        return weights

    with watching(modules, keep):
        yield found


def attention_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Return the model's `MultiHeadAttention` modules by name, in the order in which they were put in.

    Raises:
        TypeError: `model` is not a module.
        ValueError: there are none.
    """
    checks.instance(nn.Module, model=model)
    kind = multi_head.MultiHeadAttention
    found = {name: module for name, module in model.named_modules() if isinstance(module, kind)}
    if not found:
        raise ValueError(f"the model must hold a MultiHeadAttention, got {type(model).__name__} without one")
    return found


def join(calls: Sequence[Float[Tensor, "..."]]) -> Float[Tensor, "batch heads query key"]:
    """Return the weights of successive calls of cached decoding as one map; keys that came later get 0.

    Raises:
        TypeError: one is not a tensor of floating point.
        ValueError: there is none, or they differ in batch or heads.
    """
    checks.instance(Sequence, calls=calls)
    if not calls:
        raise ValueError("calls must hold the weights of a call or more, got none")
    for weights in calls:
        checks.heads_first(weights=weights)
        if weights.shape[:2] != calls[0].shape[:2]:
            wanted, got = checks.shape(calls[0])[:2], checks.shape(weights)[:2]
            raise ValueError(f"all calls must be of one batch, [batch heads] = {wanted}, got {got}")
    keys = max(weights.size(-1) for weights in calls)
    return torch.cat([nn.functional.pad(weights, (0, keys - weights.size(-1))) for weights in calls], dim=2)


@contextmanager
def watching(modules: Mapping[str, nn.Module], handle: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """Send the weights of each module through a function while the block runs, and put everything back afterwards.

    Args:
        modules: names to modules of attention.
        handle: takes a module's name and its weights [batch heads query key], and returns the weights to go on with.

    Raises:
        TypeError: `modules` is not a mapping, or `handle` not a function.
        ValueError: from a call of a module that computes no weights by `attention.masked_softmax`.
    """
    checks.instance(Mapping, modules=modules)
    checks.function(handle=handle)
    state = _State()
    with ExitStack() as undo:
        for name, module in modules.items():
            undo.callback(module.register_forward_pre_hook(state.enter(name)).remove)
            undo.callback(module.register_forward_hook(state.leave, always_call=True).remove)
        for piece in ("masked_softmax", "attention_weights", "attend"):
            undo.callback(setattr, attention, piece, getattr(attention, piece))
        attention.masked_softmax = state.through(attention.masked_softmax, handle)
        attention.attention_weights = state.through(attention.attention_weights, handle)
        if attention.attend.__module__ == "transformer_lib.fast":
            attention.attend = _clear_attend
        yield


class _State:
    """Which attention module is at work, and whether its weights have come by."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.seen = self.inside = False

    def enter(self, name: str) -> Callable[..., None]:
        def hook(*_: object) -> None:
            self.name, self.seen = name, False

        return hook

    def leave(self, module: nn.Module, arguments: object, output: Tensor | None) -> None:
        name, self.name = self.name, None
        if output is not None and not self.seen:  # None: the module raised an error of its own
            raise ValueError(
                f"{name} must compute its weights by attention.masked_softmax or attention.attention_weights to be "
                f"observed, got none: is attention.attend, here of {attention.attend.__module__}, another one?"
            )

    def through(self, piece: Callable[..., Tensor], handle: Callable[[str, Tensor], Tensor]) -> Callable[..., Tensor]:
        def call(*arguments: Any, **named: Any) -> Tensor:
            if self.name is None or self.inside:  # attention_weights calls masked_softmax: one of them is enough
                return piece(*arguments, **named)
            self.inside = True
            try:
                weights = piece(*arguments, **named)
            finally:
                self.inside = False
            self.seen = True
            return handle(self.name, weights)

        return call


def _clear_attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return attention.attention_weights(query, key, mask) @ value
