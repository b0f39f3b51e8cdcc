"""Hints for an answer that is wrong in a way nobody foresaw: how it is related to the right one."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import values

CLOSE = 2e-3  # relative: how well a relation must hold to be told
Rule = Callable[[Tensor, Tensor, dict[str, Any], float], str | None]


def hints(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> list[str]:
    """Return up to two sentences on how `got` differs from `wanted`, the most telling first."""
    got, wanted = got.detach().cpu().double(), wanted.double()
    rules = RULES if got.shape == wanted.shape else [_rearranged]
    found = (rule(got, wanted, inputs, tolerance) for rule in rules)
    return list(itertools.islice((sentence for sentence in found if sentence), 2))


def _rearranged(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Find the right numbers in another shape: axes exchanged, an axis of size 1 too many, flattened."""
    for first, second in itertools.combinations(range(got.dim()), 2):
        if values.same(got.transpose(first, second), wanted, tolerance):
            return f"These are the right numbers with axes {first} and {second} exchanged."
    if values.same(got.squeeze(), wanted.squeeze(), tolerance):
        return "These are the right numbers, but with an axis of size 1 too many or too few (squeeze, keepdim)."
    if got.numel() == wanted.numel() and values.same(got.flatten(), wanted.flatten(), tolerance):
        return "These are the right numbers, in their order, but in another shape."
    return None


def _not_finite(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    bad = got.isnan() & ~wanted.isnan() | got.isinf() & ~wanted.isinf()
    if not bad.any():
        return None
    word = "NaN" if got.isnan().any() else "infinite"
    return f"{int(bad.sum())} of {bad.numel()} numbers are {word}: a division 0/0, inf - inf, or exp of a large number?"


def _masked(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Say whether all that differs stands in rows that may attend to nothing, or where the mask forbids."""
    mask = inputs.get("mask")
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        return None
    differs = values.different(got, wanted, tolerance)
    try:
        allowed = mask.expand(wanted.shape)
    except RuntimeError:
        return None
    empty = ~allowed.any(dim=-1, keepdim=True)
    if (differs <= empty).all():
        return "Only rows differ in which the mask allows nothing. They should be zero."
    if (differs <= ~allowed).all():
        return "Only places differ that the mask forbids."
    forbidden = got.masked_select(~allowed & ~empty)
    if forbidden.numel() and (forbidden.abs() > tolerance).any() and wanted.masked_select(~allowed).abs().max() == 0:
        return f"Places that the mask forbids aren't zero (the largest is {float(forbidden.abs().max()):.3f})."
    return None


def _constant(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    if got.numel() > 1 and got.isfinite().all() and float(got.max() - got.min()) < tolerance:
        return f"Every number is {float(got.flatten()[0]):.3f}, whatever the inputs are."
    return None


def _exchanged(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    return _rearranged(got, wanted, inputs, tolerance)


def _reordered(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    for axis in range(-1, -got.dim() - 1, -1):
        if values.same(got.flip(axis), wanted, tolerance):
            return f"These are the right numbers in reverse order along axis {axis}."
        for step in (1, -1):
            if got.size(axis) > 2 and values.same(got.roll(step, axis), wanted, tolerance):
                return f"These are the right numbers, moved by one place along axis {axis}."
    for axis in range(-1, -got.dim() - 1, -1):
        if values.same(got.sort(axis).values, wanted.sort(axis).values, tolerance):
            return f"These are the right numbers, but in another order along axis {axis}."
    return None


def _factor(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    if (ratio := _constant_ratio(got, wanted)) is not None:
        return f"Every number is {_named(ratio, inputs)} times the right one."
    return None


def _offset(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    gap = got - wanted
    if gap.isfinite().all() and float(gap.max() - gap.min()) < tolerance * 2:
        return f"Every number is too {'large' if gap.mean() > 0 else 'small'} by {abs(float(gap.mean())):.3f}."
    return None


def _row_sums(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Where rows should sum to 1, say what they sum to."""
    if not _sums_to_one(wanted, -1) or not got.isfinite().all() or _sums_to_one(got, -1):
        return None
    for axis in range(-2, -got.dim() - 1, -1):
        if _sums_to_one(got, axis):
            return f"Your numbers sum to 1 along axis {axis}, but they should along the last one (the keys)."
    sums = got.sum(dim=-1)
    return f"Your rows sum to between {float(sums.min()):.3f} and {float(sums.max()):.3f}; each should sum to 1."


def _temperature(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Where both are softmaxes, compare what went into them: logarithms, centred in each row."""
    if got.dim() == 0 or not (_sums_to_one(wanted, -1) and _sums_to_one(got, -1)):
        return None
    kept = (got > 1e-12) & (wanted > 1e-12)
    if not ((got > 1e-12) == (wanted > 1e-12)).all():
        return None
    centred = []
    for weights in (got, wanted):
        logs = weights.clamp(min=1e-12).log().where(kept, 0.0)
        centred.append((logs - logs.sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1)).where(kept, 0.0))
    if (ratio := _constant_ratio(*centred)) is None or abs(ratio - 1) < CLOSE:
        return None
    return f"This is a softmax of scores that are {_named(ratio, inputs)} times the right ones."


def _rounded(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    largest = float((got - wanted).abs().max()) if got.numel() else 0.0
    if tolerance < largest < 50 * tolerance:
        return f"Close, but off by up to {largest:.2g}. Half precision, a rounded constant, an epsilon?"
    return None


RULES: list[Rule] = [
    _not_finite,
    _masked,
    _constant,
    _exchanged,
    _factor,
    _temperature,
    _row_sums,
    _reordered,
    _offset,
    _rounded,
]


def _sums_to_one(weights: Tensor, axis: int) -> bool:
    """Tell whether the weights are at least 0 and sum to 1 along an axis; sums of 0 (nothing allowed) are let pass."""
    if weights.dim() < -axis or not weights.isfinite().all() or weights.min() < -1e-6:
        return False
    sums = weights.sum(dim=axis)
    ones = (sums - 1).abs() < CLOSE
    return bool((ones | (sums.abs() < 1e-9)).all() and ones.any())


def _constant_ratio(got: Tensor, wanted: Tensor) -> float | None:
    """Return the one number by which `wanted` must be multiplied to give `got`; None if there is none."""
    if not (got.isfinite().all() and wanted.isfinite().all()) or (square := float((wanted * wanted).sum())) < 1e-12:
        return None
    ratio = float((got * wanted).sum()) / square
    fits = (got - ratio * wanted).norm() < CLOSE * max(abs(ratio), 1e-6) * wanted.norm()
    return ratio if fits and abs(ratio) > 1e-6 else None


def _named(ratio: float, inputs: dict[str, Any]) -> str:
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
