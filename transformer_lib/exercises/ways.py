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

    Three of them say how it's called, and aren't passed as they are:

    - `caches` holds names of the library's caches: new ones are made, and each place of the first input is a call of
      its own, as in decoding. Of `mask` each call gets its own rows, and the columns so far.
    - `prompt`: so many places come together, in the first call.
    - `training`: the module is in training. Its chance is the same in each call, and not the reader's own.

    Raises:
        ValueError: a cache wasn't asked once at each place.
    """
    if inputs.get("training"):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return once(made.train(), {name: value for name, value in inputs.items() if name != "training"})
    if "caches" not in inputs:
        return made(*inputs.values())
    x, *others = ((name, value) for name, value in inputs.items() if name not in ("caches", "prompt"))
    caches = tuple(getattr(multi_head, name)() for name in inputs["caches"])
    length, found, first = x[1].size(1), [], 0
    for end in range(inputs.get("prompt", 1), length + 1):
        seen = [v[..., first:end, :end] if n == "mask" and isinstance(v, Tensor) else v for n, v in others]
        found.append(made(x[1][:, first:end], *seen, caches))
        first = end
    if wrong := [f"caches[{number}]" for number, cache in enumerate(caches) if cache.first != length]:
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

    Modules are tried in training, too: what is cut off there only would keep all before it from learning.

    Raises:
        ValueError: it isn't, or there is none.
    """
    leaves = [x.requires_grad_() for x in inputs.values() if isinstance(x, Tensor) and x.is_floating_point()]
    if not isinstance(made, nn.Module):
        return _followed(made, inputs, leaves)
    leaves += list(made.parameters())
    value = _followed(made, inputs, leaves)
    if not inputs.get("training"):
        _followed(made, inputs | {"training": True}, leaves)
        made.eval()
    return value


def _followed(made: Callable[..., Any], inputs: dict[str, Any], leaves: list[Tensor]) -> Any:
    """Return what comes out, if its gradient with respect to the leaves is the slope."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of float(...) on what needs a gradient, which is found out here anyway
        value = once(made, inputs)
    gradients = torch.autograd.grad(_total(value), leaves, allow_unused=True)
    where = " in training" if inputs.get("training") else ""
    if not _first(value).isfinite().all():  # such as logits cut off, where a small step may jump
        if not any(g is not None and g.isfinite().all() and g.any() for g in gradients):
            raise ValueError(f"no gradient comes back from the finite part of what it returns{where}")
    elif not any(_is_slope(made, inputs, leaves, gradients, seed) for seed in (1, 2)):  # one may meet a ReLU's corner
        raise ValueError(f"its gradient isn't the slope of what it returns{where}")
    return value


def _is_slope(
    made: Callable[..., Any], inputs: dict[str, Any], leaves: list[Tensor], gradients: Any, seed: int
) -> bool:
    """Tell whether small steps of all leaves in a random direction change the total as their gradients say."""
    generator = torch.Generator().manual_seed(seed)
    ahead = [torch.randn(leaf.shape, generator=generator, dtype=leaf.dtype) for leaf in leaves]
    slope = sum(float((g * a).sum()) for g, a in zip(gradients, ahead, strict=True) if g is not None)

    def move(way: float) -> None:
        for leaf, direction in zip(leaves, ahead, strict=True):
            leaf += way * direction

    @torch.no_grad()
    def measured(step: float) -> float:
        move(step)
        before = float(_total(once(made, inputs)))
        move(-2 * step)
        behind = float(_total(once(made, inputs)))
        move(step)
        return (before - behind) / (2 * step)

    if _near(slope, fine := measured(STEP), CLOSE):
        return True
    is_noise = not _near(measured(2 * STEP), fine, CLOSE / 100)  # as where float32 is used, by good custom
    return is_noise and any(_near(slope, measured(times * STEP), 100 * CLOSE) for times in (10, 30, 100))


def _near(number: float, other: float, tolerance: float) -> bool:
    return abs(number - other) <= tolerance * (1 + abs(other))  # False for a NaN


def _total(value: Any) -> Tensor:
    """Return one number in which each finite number of the (first) output counts in its own measure."""
    first = _first(value)
    first = first.masked_fill(~first.isfinite(), 0.0)
    measure = torch.linspace(1.0, 2.0, first.numel(), dtype=first.dtype).reshape(first.shape)
    return (first * measure).sum() + (first * first).sum() / 2


def _first(value: Any) -> Tensor:
    return value[0] if isinstance(value, list | tuple) else value


WAYS = {"once": once, "twice": twice, "with gradients": with_gradients}
