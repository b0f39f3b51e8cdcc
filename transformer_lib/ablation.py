"""Attention changed from outside: heads taken out, made uniform, or patched with another run's weights (chapter 09)::

    with edit_attention(model, {"encoder.layers.0.self_attention": zero_heads(1)}):
        model(source, target)

An edit is given the weights after mask and softmax; the values, and whatever comes after, are computed as ever.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import checks, observe

Edit = Callable[[Tensor], Tensor]  # from a module's weights [batch heads query key] to those that take their place


@contextmanager
def edit_attention(model: nn.Module, edits: Mapping[str, Edit]) -> Iterator[None]:
    """Let functions change the attention weights of named modules while the block runs.

    Args:
        edits: module's name, as in `observe.attention_modules`, to a function that takes its weights
            [batch heads query key] and returns those to use: such as `zero_heads(0)`, `uniform_heads(0)` and
            `replace_heads(other, 0)`.

    Raises:
        TypeError: `model` is not a module, `edits` no mapping to functions, or one returns something else than a
            tensor of floating point.
        ValueError: a name is not one of the model's attention modules, or what an edit returns has another shape or
            dtype.
    """
    modules = observe.attention_modules(model)
    checks.instance(Mapping, edits=edits)
    if unknown := sorted(set(edits) - set(modules)):
        raise ValueError(f"the model's attention modules are {', '.join(modules)}, got {', '.join(unknown)}")
    for name, edit in edits.items():
        if not callable(edit):
            raise TypeError(f"edits must be functions of the weights, got {type(edit).__name__} for {name}")

    def change(name: str, weights: Tensor) -> Tensor:
        edited = edits[name](weights)
        checks.tensors(4, **{f"the edited weights of {name}": edited})
        if edited.shape != weights.shape or edited.dtype != weights.dtype:
            wanted, got = (f"{checks.shape(one)} of {one.dtype}" for one in (weights, edited))
            raise ValueError(f"an edit must return weights of shape {wanted}, got {got} for {name}")
        return edited

    with observe.watching({name: modules[name] for name in edits}, change):
        yield


def zero_heads(*heads: int) -> Edit:
    """Return an edit that takes heads out: all their weights become 0.

    Args:
        heads: their numbers, from 0; without any, all heads. One that the module doesn't have is a `ValueError` when
            the edit is used.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is negative.
    """
    _numbers(heads)
    return lambda weights: weights.index_fill(1, _rows(heads, weights), 0.0)


def uniform_heads(*heads: int) -> Edit:
    """Return an edit that makes heads attend evenly to all keys whose weight is above 0: masked keys stay out.

    Arguments and errors as for `zero_heads`.
    """
    _numbers(heads)

    def edit(weights: Tensor) -> Tensor:
        visible = (weights > 0).to(weights.dtype)
        even = visible / visible.sum(dim=-1, keepdim=True).clamp(min=1)
        return replace_heads(even, *heads)(weights)

    return edit


def replace_heads(other: Float[Tensor, "batch heads query key"], *heads: int) -> Edit:
    """Return an edit that gives heads the weights of another run, as recorded: patching.

    Args:
        heads: as for `zero_heads`.

    Raises:
        TypeError: `other` is not a tensor of floating point, or a head not an integer.
        ValueError: `other` has another number of dimensions, or a head is negative; when the edit is used, `other`
            has another shape than the weights.
    """
    _numbers(heads)
    checks.heads_first(other=other)

    def edit(weights: Tensor) -> Tensor:
        if other.shape != weights.shape:
            raise ValueError(f"other must have the weights' shape {checks.shape(weights)}, got {checks.shape(other)}")
        rows = _rows(heads, weights)
        return weights.index_copy(1, rows, other.to(weights)[:, rows])

    return edit


def _numbers(heads: tuple[int, ...]) -> None:
    checks.not_negative(**{f"heads[{i}]": head for i, head in enumerate(heads)})


def _rows(heads: tuple[int, ...], weights: Tensor) -> Tensor:
    if heads and max(heads) >= weights.size(1):
        raise ValueError(f"heads must be from 0 to {weights.size(1) - 1}, got {max(heads)}")
    return torch.tensor(heads or range(weights.size(1)), device=weights.device)
