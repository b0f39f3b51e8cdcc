"""What the weights of attention show: whose mask was used, where it was applied, over which axis they sum to 1."""

from collections.abc import Iterator

import torch
from torch import Tensor

from transformer_lib.diagnostics import flow
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.inputs import argument
from transformer_lib.diagnostics.subject import Sequence, Subject

Found = Iterator[Finding | str]


def lengths(subject: Subject, attentions: list[Attention]) -> Found:
    """Test cross-attention with source and target of unequal lengths, and whose mask it uses."""
    crossing = [a for a in attentions if a.crosses]
    if len(subject.sequences) < 2:
        return
    source, target = subject.sequences
    for attention in crossing:
        if source.shape[1] == target.shape[1] and _triangular(attention.visible):
            text = f"{attention.module}: cross-attention looks one way, like a causal mask of the target"
            yield Finding("mask-length", "error", text)
            return
        if _masked_like(attention, target, source):
            text = f"{attention.module}: cross-attention hides the keys where the target is padded, not the source"
            yield Finding("mask-length", "error", text)
            return
    if subject.adapter or len(subject.given.tensors()) > 2:  # masks among them would have to fit
        if source.shape[1] == target.shape[1]:
            yield "unequal lengths of source and target: give a batch with them"
        return
    yield from _other_length(subject)


def _other_length(subject: Subject) -> Found:
    target = subject.target
    key = _argument_of(subject, target)
    if key is None:
        yield "unequal lengths of source and target: give a batch with them"
        return
    ids = subject.given.values[key]
    shorter = ids[:-1] if target.batch_axis else ids[:, :-1]
    for changed in (shorter, shorter[:-1] if target.batch_axis else shorter[:, :-1]):
        if min(changed.shape) == 0 or changed.shape[1 - target.batch_axis] == subject.sequences[0].shape[1]:
            continue
        try:
            subject.call(subject.given.replaced(**{argument(key): changed}))
        except Exception as error:
            text = f"with a target of {changed.shape[1 - target.batch_axis]} and a source of "
            text += f"{subject.sequences[0].shape[1]} words it raises {flow.short(error)}"
            yield Finding("mask-length", "error", text)
        return


def _argument_of(subject: Subject, sequence: Sequence) -> int | str | None:
    for key, value in reversed(subject.given.tensors().items()):
        ids = value.T if sequence.batch_axis and value.dim() == 2 else value
        if sequence.tokens is not None and ids.shape == sequence.tokens.shape and torch.equal(ids, sequence.tokens):
            return key
    return None


def _triangular(visible: Tensor) -> bool:
    return visible.size(-1) == visible.size(-2) > 2 and bool(
        (visible == visible.new_ones(visible.shape[-2:]).tril()).all()
    )


def _masked_like(attention: Attention, target: Sequence, source: Sequence) -> bool:
    hidden = (~attention.visible).all(dim=2).all(dim=1)  # [batch key]
    if not hidden.any() or target.padding is None or hidden.shape != target.padding.shape:
        return False
    same_as_source = source.padding is not None and bool(torch.equal(hidden, source.padding))
    return bool(torch.equal(hidden, target.padding)) and not same_as_source


def after_softmax(attentions: list[Attention]) -> Found:
    """Look for weights that were masked after the softmax, and for a softmax over another axis than the keys."""
    for attention in attentions:
        if not attention.axis_last:
            text = f"in {attention.module or 'an attention'} the weights of a query don't sum to 1"
            yield Finding("softmax-axis", "error", f"{text}; those over another axis do")
            break
    for attention in attentions:
        rows = attention.used.sum(-1)
        alive = (attention.used != 0).any(-1, keepdim=True)
        lost = (attention.used <= 0) & (attention.weights > 1e-6) & alive
        short = (rows < 0.999) & lost.any(-1)
        if bool(short.any()):
            mean = float(rows[short].mean())
            text = f"in {attention.module or 'an attention'} weights are set to 0 after the softmax: such rows sum to "
            text += f"{mean:.2f} instead of 1, and masked scores still change the other weights"
            yield Finding("mask-after-softmax", "error", text, {"sum": mean})
            break
