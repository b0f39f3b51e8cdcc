"""Hints for an answer that is wrong in a way nobody foresaw: how it is related to the right one."""

import itertools
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from transformer_lib.exercises import distributions, relations, truth, values

Rule = Callable[[Tensor, Tensor, dict[str, Any], float], str | None]


def hints(
    got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float, without: Collection[Rule] = ()
) -> list[str]:
    """Return up to two sentences on how `got` differs from `wanted`, the most telling first; some rules left out."""
    got, wanted = got.detach().cpu(), wanted.cpu()
    if wanted.dtype == torch.bool and got.shape == wanted.shape:
        return truth.hints(got, wanted)
    numbers = wanted.is_floating_point() or got.is_floating_point()
    got, wanted = got.double(), wanted.double()
    if got.shape != wanted.shape:
        return _first(1, [_rearranged], got, wanted, inputs, tolerance)
    if not numbers:
        return _first(1, NAMES, got, wanted, inputs, tolerance)
    telling, last = ([rule for rule in rules if rule not in without] for rules in (TELLING, LAST))
    return _first(2, telling, got, wanted, inputs, tolerance) or _first(1, last, got, wanted, inputs, tolerance)


def _first(count: int, rules: list[Rule], *arguments: Any) -> list[str]:
    found = (rule(*arguments) for rule in rules)
    return list(itertools.islice((sentence for sentence in found if sentence), count))


def _rearranged(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Find the right numbers in another shape: axes exchanged, an axis of size 1 too many, flattened."""
    for first, second in itertools.combinations(range(got.dim()), 2):
        if values.same(got.transpose(first, second), wanted, tolerance):
            return f"These are the right numbers with axes {first} and {second} exchanged."
    if got.shape == wanted.shape:
        return None
    if values.same(got.squeeze(), wanted.squeeze(), tolerance):
        return "These are the right numbers, but with an axis of size 1 too many or too few (squeeze, keepdim)."
    if got.numel() == wanted.numel() and values.same(got.flatten(), wanted.flatten(), tolerance):
        return "These are the right numbers, in their order, but in another shape."
    return None


def _not_finite(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    bad = got.isnan() & ~wanted.isnan() | got.isinf() & ~wanted.isinf()
    if not bad.any():
        lost = int((wanted.isinf() & ~got.isinf()).sum())
        return f"Where infinity was wanted, yours is a number, in {lost} of {got.numel()} places." if lost else None
    if wanted.isinf().any() and not got.isnan().any():
        return f"{int(bad.sum())} of {bad.numel()} numbers are infinite where a number was wanted."
    counted = f"{int(bad.sum())} of {bad.numel()} numbers are"
    if (bad & got.isinf()).any() and (bad & got.isnan()).any():
        return f"{counted} NaN or infinite: a division by 0, or the logarithm of 0?"
    if got.isnan().any():
        return f"{counted} NaN: a division 0/0, or inf - inf?"
    below = bool((got[bad] < 0).all())
    cause = "the logarithm of 0, or cut off without need" if below else "a division by 0, or exp of a large number"
    return f"{counted} {'-inf' if below else 'infinite'}: {cause}?"


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
        return (
            f"Places that the mask forbids aren't zero (the largest is {relations.text(float(forbidden.abs().max()))})."
        )
    return None


def _constant(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    if got.numel() > 1 and got.isfinite().all() and float(got.max() - got.min()) < tolerance:
        return f"On this input every number is {relations.text(float(got.flatten()[0]))}."
    return None


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
    ratio = relations.constant_ratio(got, wanted)
    if ratio is None or abs(ratio - 1) < relations.CLOSE:
        return None
    text = relations.named(ratio, inputs)
    if len(wanted[wanted != 0].unique()) > 1:
        return f"Every number is {text} times the right one."
    return f"On this input yours is {text} times the right number." if "=" in text else None  # any number has a ratio


def _offset(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    gap = got - wanted
    if gap.numel() > 1 and gap.isfinite().all() and float(gap.max() - gap.min()) < tolerance * 2:
        return (
            f"Every number is too {'large' if gap.mean() > 0 else 'small'} by {relations.text(abs(float(gap.mean())))}."
        )
    return None


def _flat(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Find an axis along which nothing changes, though it should: as where keys aren't used."""
    for axis in range(-1, -got.dim() - 1, -1):
        gaps = [float((x.amax(axis) - x.amin(axis)).max()) for x in (got, wanted)]
        if gaps[0] < tolerance < 50 * tolerance < gaps[1]:
            return f"On this input your numbers are the same all along axis {axis}. Is what differs there used?"
    return None


def _by_row(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    if got.dim() == 0 or got.size(-1) < 2 or not (got.isfinite().all() and wanted.isfinite().all()):
        return None
    gap = got - wanted
    if float((gap.amax(-1) - gap.amin(-1)).max()) < 2 * tolerance < float(gap.max() - gap.min()):
        least, most = (relations.text(float(number)) for number in (gap.min(), gap.max()))
        return f"Each row is off by a number of its own, from {least} to {most}."
    square = (wanted * wanted).sum(-1, keepdim=True)
    ratio = (got * wanted).sum(-1, keepdim=True) / square.clamp(min=1e-12)
    if f"{ratio.min():.3f}" == f"{ratio.max():.3f}":
        return None
    if ((got - ratio * wanted).norm(dim=-1) < relations.CLOSE * (ratio.abs() * square.sqrt()).squeeze(-1)).all():
        return f"Each row is the right one times a number of its own, from {ratio.min():.3f} to {ratio.max():.3f}."
    return None


def _order(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    if got.dim() == 0 or got.size(-1) < 3 or not got.isfinite().all():
        return None
    if got.argsort(-1).equal(wanted.argsort(-1)):
        return "In each row your numbers are in the right order; it's their sizes that are wrong."
    if got.argsort(-1).equal(wanted.argsort(-1, descending=True)):
        return "In each row your numbers are in the opposite order: a sign?"
    return None


def _some(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    count = int(values.different(got, wanted, tolerance).sum())
    return f"Right here: {got.numel() - count} of {got.numel()} numbers." if count < got.numel() else None


def _none(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    return "None of these integers is the right one." if got.numel() else None


def rounded(got: Tensor, wanted: Tensor, inputs: dict[str, Any], tolerance: float) -> str | None:
    """Say how far numbers are off that are nearly right."""
    largest = float((got - wanted).abs().max()) if got.numel() else 0.0
    if tolerance < largest and relations.close(got, wanted, tolerance):
        return f"Close, but off by up to {largest:.2g}. Half precision, a rounded constant, an epsilon?"
    return None


TELLING: list[Rule] = [
    _not_finite,
    _masked,
    _constant,
    _rearranged,
    _factor,
    *distributions.RULES,
    _reordered,
    _offset,
]
LAST: list[Rule] = [rounded, _flat, _by_row, _order, _some]
NAMES: list[Rule] = [
    _constant,
    _rearranged,
    _reordered,
    _offset,
    _some,
    _none,
]  # of ids: no factor means anything there
