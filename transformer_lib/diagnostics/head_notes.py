"""What each head does, as notes: nothing here is a fault."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib import checks, head_statistics
from transformer_lib.diagnostics import attentions, discovery, inputs
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding, Report
from transformer_lib.diagnostics.lending import untouched

BROAD, MOST, ALIKE = 0.95, 0.5, 0.95  # of the largest entropy; of the attention; of 1 - JS / log 2


def heads(
    model: nn.Module, batch: Any, config: Mapping[str, Any] | None = None, *, adapter: inputs.Adapter | None = None
) -> Report:
    """Return what each head of a model does on a batch, as notes: broad, on one key, on a neighbour, like another.

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
    kinds: list[tuple[str, str, Tensor]] = [("broad", "its weights are nearly even", even - BROAD + MOST)]
    if weights.size(2) == weights.size(3) > 2 and not attention.crosses:
        for what, offset in (("the word before", -1), ("the word itself", 0), ("the next word", 1)):
            kinds.append((what, f"most goes to {what}", head_statistics.weight_at_offset(weights, offset, real)))
    first = torch.zeros(weights.size(0), weights.size(3), dtype=torch.bool)
    first[:, 0] = True
    parked = head_statistics.weight_on_keys(weights, first, real)
    kinds.append(("first", "most goes to the first key, a place to park", parked))
    for head in range(weights.size(1)):
        for _, text, share in kinds:
            if float(share[head]) > MOST:
                numbers = {"entropy": float(even[head]), "share": float(share[head])}
                said = f"{name} head {head}: {text} (normalised entropy {numbers['entropy']:.2f})"
                yield Finding("head-kind", "note", said, numbers)
                break
    yield from _alike(name, head_statistics.similarity(weights, real))


def _alike(name: str, similarity: Tensor) -> Iterator[Finding]:
    for first in range(len(similarity)):
        for second in range(first + 1, len(similarity)):
            alike = float(similarity[first, second])
            if alike > ALIKE:
                text = f"{name} heads {first} and {second} agree ({alike:.2f} of 1); at the start all do"
                yield Finding("head-kind", "note", text, {"similarity": alike})
