"""How two tensors, or two numbers, are related: the arithmetic behind `diagnosis`."""

import math
from typing import Any

import torch
from torch import Tensor

CLOSE = 2e-3  # relative: how well a relation must hold to be told


def text(number: float) -> str:
    """Return the number with three decimals, or one telling digit where these would all be 0."""
    return f"{number:.3f}" if abs(number) >= 0.0005 or number == 0 else f"{number:.1g}"


def constant(answers: list[Any]) -> str | None:
    """Say so where what an answer returns is one and the same number for all inputs."""
    if not all(isinstance(got, Tensor) and got.numel() and not got.is_complex() for got in answers):
        return None
    numbers = torch.cat([got.detach().cpu().double().flatten() for got in answers])
    if numbers.numel() < 2 or not numbers.isfinite().all() or float(numbers.max() - numbers.min()) > 1e-6:
        return None
    if all(got.dtype == torch.bool for got in answers):
        return f"All is {bool(numbers[0])}, whatever the inputs are."
    return f"Every number is {text(float(numbers[0]))}, whatever the inputs are."


def sums_to_one(weights: Tensor, axis: int) -> bool:
    """Tell whether the weights are at least 0 and sum to 1 along an axis; sums of 0 (nothing allowed) are let pass."""
    if weights.dim() < -axis or not weights.isfinite().all() or weights.min() < -1e-6:
        return False
    sums = weights.sum(dim=axis)
    ones = (sums - 1).abs() < CLOSE
    return bool((ones | (sums.abs() < 1e-9)).all() and ones.any())


def close(got: Tensor, wanted: Tensor, tolerance: float) -> bool:
    """Tell whether two tensors differ by little more than is let pass."""
    return not got.numel() or float((got.double() - wanted.double()).abs().max()) < 50 * tolerance


def constant_ratio(got: Tensor, wanted: Tensor) -> float | None:
    """Return the one number by which `wanted` must be multiplied to give `got`; None if there is none."""
    if not (got.isfinite().all() and wanted.isfinite().all()) or (square := float((wanted * wanted).sum())) < 1e-12:
        return None
    ratio = float((got * wanted).sum()) / square
    fits = (got - ratio * wanted).norm() < CLOSE * max(abs(ratio), 1e-6) * wanted.norm()
    return ratio if fits and abs(ratio) > 1e-6 else None


def named(ratio: float, inputs: dict[str, Any]) -> str:
    """Return the number, with the size it comes from: "2.828 = sqrt(8), 8 being the size of query's axis -1,".

    Where it could come from two sizes, as 2 from 2 or sqrt(4), none is named; of several axes of one size, none.
    """
    fixed = {"minus 1": -1.0, "1/ln(2) (bits, not nats?)": 1 / math.log(2), "ln(2)": math.log(2)}
    if texts := [text for text, number in fixed.items() if math.isclose(ratio, number, rel_tol=2 * CLOSE)]:
        return f"{ratio:.3f} = {texts[0]}"
    found = [
        (text, size, axis, name)
        for name, tensor in inputs.items()
        for axis, size in _axes(tensor)
        for text, number in _forms(size).items()
        if math.isclose(ratio, number, rel_tol=2 * CLOSE)
    ]
    if len({text for text, *_ in found}) != 1:
        return f"{ratio:.3f}"
    text, size, axis, name = found[0]
    if len({axis for _, _, axis, _ in found}) != 1:
        return f"{ratio:.3f} = {text}"
    return f"{ratio:.3f} = {text}, {size} being the size of {name}'s axis {axis},"


def _axes(tensor: Any) -> list[tuple[int, int]]:
    """Return the axes, counted from the end, with their sizes; those of size 1 explain nothing."""
    sizes = tensor.shape if isinstance(tensor, Tensor) else ()
    return [(axis - len(sizes), size) for axis, size in enumerate(sizes) if size > 1]


def _forms(size: int) -> dict[str, float]:
    return {f"{size}": float(size), f"1/{size}": 1 / size, f"sqrt({size})": size**0.5, f"1/sqrt({size})": size**-0.5}
