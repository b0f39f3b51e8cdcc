"""Tables of positions: the base of their wavelengths, and which of their rows were trained."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.subject import Sequence, Subject

Found = Iterator[Finding | str]
CERTAIN = 5.0  # standard errors between trained and untrained rows, the best of all cuts


def base(name: str, same: Float[Tensor, "batch position d_model"]) -> Found:
    """Compare the base of sinusoids, if positions are sinusoids, with 10000."""
    found = sinusoid_base(same[0].double())
    if found is not None and not 9000 < found < 11000:
        width = same.size(-1)
        if 9000 < found ** ((width - 2) / width) < 11000:
            return  # exponents that reach 1 at the last pair: tensor2tensor's form
        text = f"the {name}'s sinusoids have wavelengths of a base of {found:.3g}, the paper's is 10000"
        yield Finding("positions-wrong-base", "warning", text, {"base": found})


def sinusoid_base(vectors: Float[Tensor, "position d_model"]) -> float | None:
    """Return the base of sinusoids that are added to one vector at all positions; None if it's something else.

    Each pair of dimensions must move on a circle, by the same angle at each step; pairs stand side by side, or half
    the width apart.
    """
    width = vectors.size(-1)
    if width % 2 or width < 8 or len(vectors) < 4:
        return None
    half = width // 2
    side, apart = (vectors[:, 0::2], vectors[:, 1::2]), (vectors[:, :half], vectors[:, half:])
    for first, second in (side, apart):
        steps = torch.complex(first.diff(dim=0), second.diff(dim=0))
        size = steps.abs()
        turns = (steps[1:] * steps[:-1].conj()).angle()  # all alike on a circle
        even = size.std(dim=0) < 0.02 * size.mean(dim=0) + 1e-6
        rate = turns.mean(dim=0).abs()
        good = even & (turns.std(dim=0) < 0.02 * rate + 1e-4) & (rate > 0.02)
        if int(good.sum()) >= min(3, half) and bool(good[:2].all()):
            return _fitted(rate, good, half)
    return None


def _fitted(rate: Tensor, good: Tensor, half: int) -> float | None:
    used = int((~good).long().argmax()) if bool((~good).any()) else len(good)
    if used < 2:
        return None
    place, log = torch.arange(used, dtype=torch.float64), rate[:used].log()
    slope = float((place * (log - log[0])).sum() / place.square().sum())
    return math.exp(-slope * half)


def trained(subject: Subject, sequence: Sequence, name: str) -> Found:
    """Compare the length with the trained one: the caller's, or what a learned table shows."""
    length, limit = sequence.shape[1], subject.config.get("trained_length")
    if limit is not None:
        if length > limit:
            text = f"the {name} has {length} positions, training had {limit}"
            yield Finding("positions-untrained", "warning", text, {"length": length, "trained": limit})
        return
    for module_name, table in _tables(subject.model):
        end = trained_rows(table)
        if end is not None and end < length <= len(table) and _surely_before(table, end, length):
            text = (
                f"the {name} has {length} positions; from {end} on the rows of {module_name} look as drawn at the start"
            )
            yield Finding("positions-untrained", "warning", text, {"length": length, "trained": end})
            return
    if sequence is subject.target:
        yield "whether these lengths were trained: give config={'trained_length': n}"


def _tables(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        if "pos" in name.lower() or name.endswith("learned.table") or "wpe" in name:
            table = parameter.detach().squeeze()
            if table.dim() == 2 and table.size(0) > 7 and table.size(1) > 3:
                yield name, table.double()


def _surely_before(table: Tensor, end: int, length: int) -> bool:
    """Return whether the rows in use, from `end` to `length`, look drawn by themselves: see `trained_rows`."""
    unit = table / table.norm(dim=1, keepdim=True).clamp(min=1e-12)
    cosine = (unit[1:] * unit[:-1]).sum(dim=1) * math.sqrt(table.size(1))
    before, here = cosine[: end - 1], cosine[end : length - 1]
    if len(here) < 3:
        return False
    spread = before.var().clamp(1, 4) / len(before) + here.var().clamp(1, 4) / len(here)
    chance = abs(float(here.mean())) < 2.5 * len(here) ** -0.5
    return chance and float((before.mean() - here.mean()).abs() / spread.sqrt()) > 3.0


def trained_rows(table: Float[Tensor, "position d_model"]) -> int | None:
    """Return from which row on a table of positions looks untrained, or None if it looks the same throughout.

    Training moves neighbouring rows alike; rows as they were drawn, or only decayed since, share no direction: the
    cosine of two neighbours is 0 with a standard deviation of 1 / sqrt(d_model). The cut is where cosines before and
    after differ most, if those after are chance.
    """
    unit = table / table.norm(dim=1, keepdim=True).clamp(min=1e-12)
    cosine = (unit[1:] * unit[:-1]).sum(dim=1) * math.sqrt(table.size(1))
    best, place = CERTAIN, None
    for cut in range(4, len(table) - 4):
        before, after = cosine[: cut - 1], cosine[cut:]
        spread = before.var().clamp(1, 4) / len(before) + after.var().clamp(1, 4) / len(after)
        apart = float((before.mean() - after.mean()).abs() / spread.sqrt())
        if apart > best and abs(float(after.mean())) < 2.5 * len(after) ** -0.5:
            best, place = apart, cut
    return place
