"""Positions: are they there, on the right axis, of the right size, with the paper's wavelengths, and trained?"""

from collections.abc import Iterator

import torch
from torch import Tensor

from transformer_lib.diagnostics import attentions, discovery, flow, lookups, tables
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.graph import Node
from transformer_lib.diagnostics.subject import Run, Sequence, Subject

SMALL, LARGE = 0.01, 6.0  # positions to embeddings, root mean squares; healthy models measure 0.02 to 3
Found = Iterator[Finding | str]


def positions(subject: Subject, base: Run) -> Found:
    """Test each sequence's positions."""
    for sequence in subject.sequences:
        name = flow.sequence_name(subject, sequence)
        run = subject.run({sequence.number: discovery.alike})
        same = discovery.embedded(subject, run, sequence.number)
        plain = discovery.embedded(subject, base, sequence.number)
        if same is None or plain is None or sequence.shape[1] < 4:
            yield f"positions of the {name}: no embedding of 4 positions or more was seen"
            continue
        across = float((same - same.mean(dim=1, keepdim=True)).square().mean().sqrt())
        rows = float((same - same[:1]).square().mean().sqrt())
        size = float(same.square().mean().sqrt())
        if rows > 1e-5 * size and not sequence.counted:
            text = (
                f"equal words of the {name} get vectors that differ between sentences (by {rows / size:.2g} of their "
            )
            text += f"size) {'and' if across > 1e-5 * size else 'but not'} between positions"
            yield Finding("positions-wrong-axis", "error", text, {"between_sentences": rows / size})
        elif across > 1e-5 * size:
            yield from _sizes(name, same, plain, across)
            yield from tables.base(name, same)
        else:
            yield from _elsewhere(subject, base, sequence, name)
        yield from tables.trained(subject, sequence, name)


def _sizes(name: str, same: Tensor, plain: Tensor, across: float) -> Found:
    words = plain - same  # positions taken off, but for the one vector that all words were given
    words = float((words - words.mean(dim=(0, 1))).square().mean().sqrt())
    ratio = across / max(words, 1e-12)
    text = f"where the {name} enters the layers, positions have a spread of {across:.3g} and words one of {words:.3g}"
    numbers = {"positions": across, "words": words, "ratio": ratio}
    if ratio < SMALL:
        yield Finding("positions-drowned", "warning", f"{text}: a ratio of {ratio:.2g}", numbers)
    elif ratio > LARGE:
        yield Finding("positions-drowning", "warning", f"{text}: a ratio of {ratio:.2g}", numbers)


def _elsewhere(subject: Subject, base: Run, sequence: Sequence, name: str) -> Found:
    if sequence.tokens is None:
        yield f"positions of the {name}: the model gets vectors, in which they may be already"
        return
    blind = _order_blind(subject, base, sequence)
    if blind is None:
        yield f"positions of the {name}: none are added, and no attention was seen in which they could be"
    elif blind:
        wanted = subject.config.get("positions", getattr(getattr(subject.model, "config", None), "positions", None))
        text = (
            f"exchanging words of the {name} exchanges what the first attention gives them, and changes nothing else: "
        )
        text += "it can't see their order"
        added = _adds_constant(base, subject, sequence)
        if added:
            text += "; something is added to the embeddings, but the same at every position"
            yield Finding("positions-wrong-axis", "error", text)
        elif wanted == "none":
            yield Finding("positions-missing", "note", text + ", as configured")
        else:
            text += " (later layers of a causal model can count, so that such a model may still learn)"
            yield Finding("positions-missing", "warning", text)


def _adds_constant(base: Run, subject: Subject, sequence: Sequence) -> bool:
    starts = lookups.lookups(base)
    start = starts[sequence.number] if sequence.number < len(starts) else None
    for node in base.trace.nodes:
        mine = start is None or node.follows(start)
        if node.name == "add" and node.stage == 1 and len(node.inputs) > 1 and mine:
            other = min(node.inputs, key=lambda given: (given.stage, given.active))
            if _too_short(other, sequence.shape[1]):
                continue
            if not other.stage and other.value.is_floating_point() and float(other.value.abs().max()) > 1e-6:
                return other.value.dim() > 1
    return False


def _too_short(node: Node, length: int) -> bool:
    """Return whether a vector was looked up in a table that has fewer rows than there are positions: of segments."""
    while node.name not in ("embedding", "index_select") and node.inputs:
        node = max(node.inputs, key=lambda given: (given.tensor.is_floating_point(), given.tensor.numel()))
    rows = [len(n.tensor) for n in node.inputs if n.tensor.is_floating_point() and n.tensor.dim() == 2]
    return bool(rows) and rows[0] < length


def _order_blind(subject: Subject, base: Run, sequence: Sequence) -> bool | None:
    """Exchange the first words; see whether the first attention's scores for the last word are just exchanged."""
    first = _first_attention(base, subject, sequence)
    if first is None:
        return None
    length = sequence.shape[1]
    order = torch.arange(length)
    count = max(2, (length - 1) // 2 + 1)
    order[:count] = order[:count].flip(0)
    changed = _first_attention(subject.run({sequence.number: lambda v: v[:, order]}), subject, sequence)
    if changed is None or changed.scores.shape != first.scores.shape:
        return None
    row, other = first.scores[:, :, -1, -length:], changed.scores[:, :, -1, -length:]
    moved_to = (order != torch.arange(length)).to(row.device)
    seen = moved_to & (row > attentions.MASKED) & (other[..., order.argsort()] > attentions.MASKED)
    apart = (row - other[..., order.argsort()]).abs()[seen]
    if not len(apart):
        return None  # a window so small that the last word sees none of the exchanged ones
    return float(apart.max()) < 1e-4 * max(1.0, float(row[seen].abs().max()))


def _first_attention(run: Run, subject: Subject, sequence: Sequence) -> Attention | None:
    starts = lookups.lookups(run)
    for attention in attentions.find(run.trace, sequence.shape[0]):
        mine = len(starts) <= sequence.number or attention.query.follows(starts[sequence.number])
        if mine and not attention.crosses and 0 <= attention.scores.size(-1) - sequence.shape[1] < 4:
            return attention
    return None
