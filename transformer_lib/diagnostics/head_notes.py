"""What each head does, as notes: nothing here is a fault."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lib import checks, head_statistics
from transformer_lib.diagnostics import attentions, discovery, inputs
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding, Report
from transformer_lib.diagnostics.lending import untouched

BROAD, MOST, ALIKE = 0.95, 0.5, 0.95  # of the largest entropy; of the attention; of 1 - JS / log 2
STRIPED = 0.5  # of the scores' variance within rows


def heads(
    model: nn.Module, batch: Any, config: Mapping[str, Any] | None = None, *, adapter: inputs.Adapter | None = None
) -> Report:
    """Return what each head does on a batch, as notes: broad, on a key or a neighbour, striped, like another.

    Arguments and errors as for `check_model`, but an error of the model's own is passed on.
    """
    checks.instance(nn.Module, model=model)
    with untouched(model):
        subject = discovery.examine(model, batch, dict(config or {}), adapter)
        if not subject.sequences:
            return Report((), ("heads: no embedding of the inputs was seen",))
        found = attentions.find(subject.run().trace, subject.target.shape[0])
        notes = [note for attention in found for note in _notes(attention, _real(subject.sequences, attention))]
    return Report(tuple(notes), () if found else ("heads: no softmax between two products was seen",))


def _real(sequences: list[discovery.Sequence], attention: Attention) -> Tensor | None:
    shape = (attention.weights.size(0), attention.weights.size(2))
    fitting = [s.padding for s in sequences if s.padding is not None and tuple(s.padding.shape) == shape]
    return ~fitting[-1] if len(fitting) == 1 else None


def _notes(attention: Attention, real: Tensor | None) -> Iterator[Finding]:
    weights, name = attention.weights, attention.module or "attention"
    even = head_statistics.normalised_entropy(weights, attention.visible, real)
    kinds: list[tuple[str, str, Tensor]] = []
    if weights.size(2) == weights.size(3) > 2 and not attention.crosses:
        for what, offset in (("the word before", -1), ("the word itself", 0), ("the next word", 1)):
            kinds.append((what, f"most goes to {what}", head_statistics.weight_at_offset(weights, offset, real)))
    first = torch.zeros(weights.size(0), weights.size(3), dtype=torch.bool)
    first[:, 0] = True
    parked = head_statistics.weight_on_keys(weights, first, real)
    kinds.append(("first", "most goes to the first key, a place to park", parked))
    columns = "queries agree on their keys: stripes, as a bias in the query or a key of large norm makes them"
    kinds.append(("striped", columns, striped(attention.scores, attention.visible) - STRIPED + MOST))
    kinds.append(("broad", "its weights are nearly even", even - BROAD + MOST))
    for head in range(weights.size(1)):
        for _, text, share in kinds:
            if float(share[head]) > MOST:
                numbers = {"entropy": float(even[head]), "share": float(share[head])}
                said = f"{name} head {head}: {text} (normalised entropy {numbers['entropy']:.2f})"
                yield Finding("head-kind", "note", said, numbers)
                break
    yield from _alike(name, head_statistics.similarity(weights, real))


def striped(
    scores: Float[Tensor, "batch heads query key"], visible: Bool[Tensor, "batch heads query key"]
) -> Float[Tensor, " heads"]:
    """Return which share of the scores' variance within rows whole columns have in common; 0 with too few queries."""
    visible = visible.expand_as(scores)
    if scores.size(2) < 4 or scores.size(3) < 3:
        return scores.new_zeros(scores.size(1))
    kept, rows, columns = scores.masked_fill(~visible, 0.0), visible.sum(-1, keepdim=True), visible.sum(-2)
    centred = (kept - kept.sum(-1, keepdim=True) / rows.clamp(min=1)).masked_fill(~visible, 0.0)
    together = centred.sum(-2).square() / columns.clamp(min=1)
    return (together.sum(-1) / centred.square().sum((-2, -1)).clamp(min=1e-12)).mean(0)


def _alike(name: str, similarity: Tensor) -> Iterator[Finding]:
    for first in range(len(similarity)):
        for second in range(first + 1, len(similarity)):
            alike = float(similarity[first, second])
            if alike > ALIKE:
                text = f"{name} heads {first} and {second} agree ({alike:.2f} of 1); at the start all do"
                yield Finding("head-kind", "note", text, {"similarity": alike})
