"""In which ways an answer is called: once, a second time, with its gradient tried, or place by place with caches."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib import multi_head
from transformer_lib.exercises import values

WAY = "the way that it's called"  # beside what a constructor takes; no parameter can have such a name
STEP, CLOSE = 1e-5, 1e-4  # of the differences that a gradient is compared with, and how near the two must be


def once(made: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """Call a function or a module with the inputs, by position: a reader may name the parameters otherwise.

    Where `caches` is among them, it holds names of the library's caches: new ones are made, and each place of the
    first input is a call of its own, as in decoding.

    Raises:
        ValueError: a cache wasn't asked once at each place.
    """
    if "caches" not in inputs:
        return made(*inputs.values())
    x, *others = (value for name, value in inputs.items() if name != "caches")
    caches = tuple(getattr(multi_head, name)() for name in inputs["caches"])
    found = [made(x[:, i : i + 1], *others, caches) for i in range(x.size(1))]
    if wrong := [f"caches[{number}]" for number, cache in enumerate(caches) if cache.first != len(found)]:
        raise ValueError(f"{' and '.join(wrong)} must be handed on once in each call")
    return torch.cat(found, dim=1)


def twice(made: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """Return what comes of a second call with the same inputs.

    Raises:
        ValueError: the first one has changed them.
    """
    before = values.copied(inputs)
    once(made, inputs)
    if names := values.edited(before, inputs):
        raise ValueError(f"it changes {' and '.join(names)} in place")
    return once(made, inputs)


@torch.enable_grad()
def with_gradients(made: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """Return what comes out, if its gradient is what small steps of all inputs and parameters say.

    Raises:
        ValueError: it isn't, or there is none.
    """
    leaves = [x.requires_grad_() for x in inputs.values() if isinstance(x, Tensor) and x.is_floating_point()]
    leaves += list(made.parameters()) if isinstance(made, nn.Module) else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of float(...) on what needs a gradient, which is found out here anyway
        value = once(made, inputs)
    generator = torch.Generator().manual_seed(1)
    ahead = [torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype) for leaf in leaves]
    gradients = torch.autograd.grad(_total(value), leaves, allow_unused=True)
    slope = sum(float((g * a).sum()) for g, a in zip(gradients, ahead, strict=True) if g is not None)
    measured = []
    with torch.no_grad():
        for step in (STEP, -2 * STEP):
            for leaf, direction in zip(leaves, ahead, strict=True):
                leaf += step * direction
            measured.append(float(_total(once(made, inputs))))
    difference = (measured[0] - measured[1]) / (2 * STEP)
    if abs(slope - difference) > CLOSE * (1 + abs(difference)):
        raise ValueError("its gradient isn't the slope of what it returns")
    return value


def _total(value: Any) -> Tensor:
    """Return one number in which each number of the (first) output counts in its own measure."""
    first = value[0] if isinstance(value, list | tuple) else value
    measure = torch.linspace(1.0, 2.0, first.numel(), dtype=first.dtype).reshape(first.shape)
    return (first * measure).sum() + (first * first).sum() / 2


WAYS = {"once": once, "twice": twice, "with gradients": with_gradients}
