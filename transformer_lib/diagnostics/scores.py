"""Scores: their scale, the heads' widths, and heads that have stopped choosing."""

from collections.abc import Iterator

import torch
from torch import Tensor

from transformer_lib.diagnostics import structure
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.graph import Node
from transformer_lib.diagnostics.products import main
from transformer_lib.diagnostics.subject import Subject

WIDE = 5.0  # scores' spread, above which a head is mentioned
CLOSE = 0.02  # relative; a number within it is taken for the same
Found = Iterator[Finding | str]
AMBIGUOUS = "by behaviour, unscaled scores are scaled ones with W_q times sqrt(d_k), as T5 draws them on purpose"


def _near(value: float, wanted: float) -> bool:
    return abs(value - wanted) <= CLOSE * wanted


def scale(subject: Subject, attentions: list[Attention]) -> Found:
    """Compare what each attention multiplies its products by with 1 / sqrt(d_k)."""
    if not attentions:
        yield "scale, heads and masks of attention: no softmax between two products was seen"
        return
    groups: dict[tuple[str, str, float], list[Attention]] = {}
    for attention in attentions:
        if attention.scale is None:
            yield f"the scale in {attention.module or 'an attention'}: scores are multiplied by several numbers"
            continue
        kind = _kind(attention, subject)
        if kind is not None:
            groups.setdefault((*kind, round(attention.scale, 6)), []).append(attention)
    for (name, what, number), members in groups.items():
        yield _of_scale(subject, name, what, number, members, len(attentions))


def _kind(attention: Attention, subject: Subject) -> tuple[str, str] | None:
    given, d_k, d_model = abs(attention.scale or 0.0), attention.d_k, attention.query.tensor.size(-1)
    wanted = subject.config.get("scale", d_k**-0.5)
    if _near(given, wanted) or d_k == 1:
        return None
    if attention.operands and attention.projections and all(map(_is_normed, attention.operands, attention.projections)):
        return None  # queries and keys are normed: another scale is usual
    if _near(given, 1.0):
        return "scale-missing", "1"
    if d_model != d_k and _near(given, d_model**-0.5):
        return "scale-wrong", "1 / sqrt(d_model)"
    table = {d_k**0.5: "sqrt(d_k)", 1 / d_k: "1 / d_k", 1 / d_model: "1 / d_model", d_k**-0.25: "d_k^-1/4"}
    return "scale-wrong", next((text for number, text in table.items() if _near(given, number)), "another number")


def _is_normed(node: Node, end: Node) -> bool:
    """Return whether a norm stands between a projection and the product."""
    while node is not end and node.inputs:
        if structure.norm_input(node) is not None:
            return True
        node = main(node)
    return False


def _of_scale(subject: Subject, name: str, what: str, number: float, members: list[Attention], count: int) -> Finding:
    one = members[0]
    rms_q, rms_k = (float(part.float().square().mean().sqrt()) for part in one.compared or (one.scores, one.scores))
    made_up = name == "scale-missing" and rms_q < 1.3 * one.d_k**-0.5 * rms_k
    spread = float(one.scores[one.visible].std()) if one.visible.sum() > 1 else 0.0
    text = f"in {len(members)} of {count} attentions (first: {one.module or 'the model'}) scores are multiplied by "
    text += f"{number:.4g} = {what} where 1 / sqrt(d_k) is {one.d_k**-0.5:.4g} (d_k = {one.d_k}); they spread by "
    text += f"{spread:.2g}. Note: {AMBIGUOUS}"
    numbers = {"scale": number, "wanted": one.d_k**-0.5, "spread": spread, "attentions": len(members)}
    return Finding(name, "note" if made_up else "warning", text, numbers)


def widths(attentions: list[Attention]) -> Found:
    """Compare heads * d_k with d_model, heads that read the same tensor taken together."""
    groups: dict[tuple[int, int, str], list[Attention]] = {}
    for attention in attentions:
        name = attention.module if attention.scores.size(1) > 1 else ""  # a module for each head counts with the others
        groups.setdefault((attention.query.index, attention.key.index, name), []).append(attention)
    for members in groups.values():
        heads = sum(member.scores.size(1) for member in members)
        width, d_model = members[0].d_k * heads, members[0].query.tensor.size(-1)
        if width != d_model and members[0].query.tensor.dim() == 3:
            text = f"{members[0].module or 'an attention'} has {heads} heads of d_k = {members[0].d_k}: "
            text += f"{width} in all, d_model is {d_model}"
            severity = "warning" if heads > 1 else "note"
            yield Finding("heads-width", severity, text, {"heads": heads, "d_k": members[0].d_k, "d_model": d_model})
            return


def saturation(attentions: list[Attention]) -> Found:
    """Look for heads nearly all of whose queries give one key everything, so that scores get no gradient."""
    stuck, total, worst, widest = [], 0, (0.0, ""), (0.0, "")
    for attention in attentions:
        for head, (share, spread) in enumerate(_saturated(attention)):
            total += 1
            widest = max(widest, (spread, f"{attention.module or 'attention'} head {head}"))
            if share > 0.5 or spread > 20:
                stuck.append(f"{attention.module or 'attention'} head {head}")
                worst = max(worst, (spread, stuck[-1]))
    if not stuck:
        if widest[0] > WIDE:
            text = f"scores spread by up to {widest[0]:.2g} ({widest[1]}), where 1 is usual at the start: such a head "
            text += "learns slowly; after training it may be one that has made its choice"
            yield Finding("heads-saturated", "note", text, {"heads": 0, "of": total, "spread": widest[0]})
        return
    text = f"{len(stuck)} of {total} heads give one key more than 0.9999 for most queries, where the gradient of "
    text += f"the softmax is gone; scores spread by up to {worst[0]:.3g} ({worst[1]})"
    severe = len(stuck) > 0.3 * total or worst[0] > 30
    numbers = {"heads": len(stuck), "of": total, "spread": worst[0]}
    yield Finding("heads-saturated", "warning" if severe else "note", text, numbers)


def _saturated(attention: Attention) -> list[tuple[float, float]]:
    """Return for each head the share of its queries with a choice that put all on one key, and its scores' spread."""
    choice = (attention.visible.sum(-1) > 2) & (attention.weights.sum(-1) > 0.5)
    largest = attention.weights.amax(-1)
    found = []
    for head in range(attention.scores.size(1)):
        rows = choice[:, head]
        if int(rows.sum()) < 4:
            found.append((0.0, 0.0))
            continue
        scores: Tensor = attention.scores[:, head][rows]
        visible = attention.visible[:, head][rows]
        spread = float(
            torch.where(visible, scores, scores.new_tensor(float("nan")))
            .nanmean(-1, keepdim=True)
            .sub(torch.where(visible, scores, scores.new_tensor(float("nan"))))
            .square()
            .nanmean()
            .sqrt()
        )
        found.append((float((largest[:, head][rows] > 0.9999).float().mean()), spread))
    return found
