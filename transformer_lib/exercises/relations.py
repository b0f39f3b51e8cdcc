"""How two tensors, or two numbers, are related: the arithmetic behind `diagnosis`."""

import math
from typing import Any

from torch import Tensor

CLOSE = 2e-3  # relative: how well a relation must hold to be told


def sums_to_one(weights: Tensor, axis: int) -> bool:
    """Tell whether the weights are at least 0 and sum to 1 along an axis; sums of 0 (nothing allowed) are let pass."""
    if weights.dim() < -axis or not weights.isfinite().all() or weights.min() < -1e-6:
        return False
    sums = weights.sum(dim=axis)
    ones = (sums - 1).abs() < CLOSE
    return bool((ones | (sums.abs() < 1e-9)).all() and ones.any())


def constant_ratio(got: Tensor, wanted: Tensor) -> float | None:
    """Return the one number by which `wanted` must be multiplied to give `got`; None if there is none."""
    if not (got.isfinite().all() and wanted.isfinite().all()) or (square := float((wanted * wanted).sum())) < 1e-12:
        return None
    ratio = float((got * wanted).sum()) / square
    fits = (got - ratio * wanted).norm() < CLOSE * max(abs(ratio), 1e-6) * wanted.norm()
    return ratio if fits and abs(ratio) > 1e-6 else None


def named(ratio: float, inputs: dict[str, Any]) -> str:
    """Return the number, with the size it may come from: "2.828 = sqrt(8), 8 being the last size of query"."""
    fixed = {"minus 1": -1.0, "1/ln(2) (bits, not nats?)": 1 / math.log(2), "ln(2)": math.log(2)}
    candidates = dict(fixed)
    for name, tensor in reversed(inputs.items()):
        for axis, size in enumerate(tensor.shape if isinstance(tensor, Tensor) else ()):
            if size > 1:
                origin = f"{size} being the size of {name}'s axis {axis - tensor.dim()}"
                forms = {"": size, "1/": 1 / size, "sqrt": size**0.5, "1/sqrt": size**-0.5}
                for form, number in forms.items():
                    text = f"{form}({size})" if form.endswith("sqrt") else f"{form}{size}"
                    candidates[f"{text}, {origin},"] = number
    for text, number in reversed(candidates.items()):
        if math.isclose(ratio, number, rel_tol=2 * CLOSE):
            return f"{ratio:.3f} = {text}"
    return f"{ratio:.3f}"
