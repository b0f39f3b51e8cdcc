"""Hints where a softmax was wanted: rules of `diagnosis` for numbers that should sum to 1 along the last axis."""

from typing import Any

from torch import Tensor

from transformer_lib.exercises import relations, values


def negative(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Where weights were wanted, find negative numbers: logarithms of the weights, or what no exp has gone over."""
    if got.dim() == 0 or not relations.sums_to_one(wanted, -1):
        return None
    if values.same(got.exp(), wanted, tolerance):
        return "These are the logarithms of the right numbers: softmax was wanted, not log_softmax."
    if got.isfinite().all() and (least := float(got.min())) < -tolerance:
        return f"Some weights are negative (the smallest is {relations.text(least)}). exp would make them positive."
    return None


def one_hot(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Find weights that are all 0 or 1, where the right ones are not."""
    both = got.dim() > 0 and relations.sums_to_one(got, -1) and relations.sums_to_one(wanted, -1)
    if both and ((got == 0) | (got == 1)).all() and (wanted.amax(-1) < 0.99).any():
        return "In each row all the weight lies on one number, as from an argmax. A softmax shares it out."
    return None


def row_sums(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Where rows should sum to 1, say what they sum to."""
    if not relations.sums_to_one(wanted, -1) or not got.isfinite().all() or relations.sums_to_one(got, -1):
        return None
    if got.min() < -tolerance:
        return None  # `negative` has said more
    for axis in range(-2, -got.dim() - 1, -1):
        if relations.sums_to_one(got, axis):
            return f"Your numbers sum to 1 along axis {axis}, but they should along the last one (the keys)."
    if got.dim() > 1 and relations.sums_to_one(got.flatten(-2), -1):
        return "Your rows sum to 1 all together; each of them should."
    sums = got.sum(dim=-1)
    least, most = (f"{float(total):.3f}" for total in (sums.min(), sums.max()))
    if {least, most} == {"1.000"}:
        return None
    return f"Your rows sum to {least if least == most else f'{least} to {most}'}; each should sum to 1."


def temperature(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Where both are softmaxes, compare what went into them: logarithms, centred in each row."""
    if got.dim() == 0 or not (relations.sums_to_one(wanted, -1) and relations.sums_to_one(got, -1)):
        return None
    kept = (got > 1e-12) & (wanted > 1e-12)
    if not ((got > 1e-12) == (wanted > 1e-12)).all():
        return None
    centred = []
    for weights in (got, wanted):
        logs = weights.clamp(min=1e-12).log().where(kept, 0.0)
        centred.append((logs - logs.sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1)).where(kept, 0.0))
    if (ratio := relations.constant_ratio(*centred)) is None or abs(ratio - 1) < relations.CLOSE:
        return None
    return f"This is a softmax of scores that are {relations.named(ratio, inputs)} times the right ones."


RULES = [temperature, one_hot, negative, row_sums]


def wanted(right: list[Any]) -> bool:
    """Tell whether the rules apply where these are the right values: rows that sum to 1, or to 0, in each of them."""
    filled = [value for value in right if not isinstance(value, Tensor) or value.any()]
    return bool(filled) and all(
        isinstance(value, Tensor) and value.is_floating_point() and relations.sums_to_one(value, -1) for value in filled
    )
