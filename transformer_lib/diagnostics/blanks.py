"""Padding: whether outputs at words depend on it, and what becomes of a query that may attend to nothing."""

from collections.abc import Iterator

import torch
from torch import Tensor

from transformer_lib.diagnostics import discovery, flow
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.flow import TOLERANCE, moved, noise, sequence_name
from transformer_lib.diagnostics.graph import Numbers
from transformer_lib.diagnostics.inputs import Inputs, argument
from transformer_lib.diagnostics.subject import Run, Sequence, Subject

Found = Iterator[Finding | str]


def padding(subject: Subject, base: Run) -> Found:
    """Test whether outputs at words change with what stands at padding."""
    for sequence in subject.sequences:
        name = sequence_name(subject, sequence)
        if sequence.padding is None:
            yield f"padding of the {name}: nothing says what is padding; give config={{'padding': id}}"
            continue
        given, padded, planted = subject.given, sequence.padding, ""
        if not padded.any():
            planted_here = plant(subject, sequence)
            if planted_here is None:
                yield f"padding of the {name}: there is none in the batch"
                continue
            (given, padded), planted = planted_here, " (padding put in for the test)"
        before, after = (subject.run_with(changes, given) for changes in (None, {sequence.number: noise(padded)}))
        counted = _real_outputs(subject, sequence, padded, before.output)
        most = float(moved(before.output, after.output)[counted].max()) if bool(counted.any()) else 0.0
        if most > TOLERANCE:
            text = f"other vectors at the {name}'s padding move outputs at words by up to {most:.2g} of their spread"
            yield Finding("padding-attended", "error", text + planted, {"moved": most})


def _real_outputs(subject: Subject, sequence: Sequence, padded: Tensor, output: Tensor) -> Tensor:
    counted = torch.ones(output.shape[:2], dtype=torch.bool)
    if sequence is subject.target and counted.shape == padded.shape:
        counted = ~padded
    elif subject.target.padding is not None and counted.shape == subject.target.padding.shape:
        counted = ~subject.target.padding
    sentences = ~padded.all(dim=1)  # a sentence of nothing but padding has no right answer
    return counted & sentences.unsqueeze(1)


def plant(subject: Subject, sequence: Sequence, all_of_it: bool = False) -> tuple[Inputs, Numbers] | None:
    """Return inputs whose first sentence ends in padding, or is all padding, and where; None if it can't be done."""
    if subject.adapter is not None:
        return None
    number, key = discovery.padding_id(subject), discovery.mask_key(subject, sequence)
    length, axis = sequence.shape[1], sequence.batch_axis
    where = torch.zeros(sequence.shape, dtype=torch.bool)
    where[0, 0 if all_of_it else max(1, length - max(1, length // 3)) :] = True
    changes: dict[str, Tensor] = {}
    if key is not None:
        changes[argument(key)] = _hidden(key, subject.given.values[key], where)
    elif number is not None and sequence.tokens is not None and length > 1:
        for place, value in subject.given.tensors().items():
            ids = value.T if axis and value.dim() == 2 else value
            if ids.shape == sequence.tokens.shape and torch.equal(ids, sequence.tokens):
                filled = ids.masked_fill(where.to(ids.device), number)
                changes[argument(place)] = filled.T if axis else filled
                break
    return (subject.given.replaced(**changes), where) if changes else None


def _hidden(key: int | str, mask: Tensor, where: Tensor) -> Tensor:
    """Return a padding mask that hides some places more, in its own polarity."""
    hidden = float("-inf") if mask.is_floating_point() else ("padding" in str(key))
    if mask.is_floating_point() and bool((mask > 0).any()):
        hidden = 0.0
    return mask.masked_fill(where.to(mask.device), hidden)


def empty_rows(subject: Subject, base: Run, attentions: list[Attention]) -> Found:
    """Test what becomes of a query that may attend to nothing, here and in a sentence of padding only."""
    empty = [a for a in attentions if bool((~a.visible).all(dim=-1).any())]
    bad = ~base.output.isfinite().all()
    if bad:
        share = float((~base.output.isfinite()).any(-1).float().mean())
        text = f"{share:.0%} of the outputs hold NaN or infinity"
        text += f"; in {empty[0].module or 'an attention'} a query may attend to nothing" if empty else ""
        yield Finding("fully-masked-row" if empty else "not-finite", "error", text, {"share": share})
        return
    yield from _at_empty_rows(subject, base, empty)
    yield from _nothing_but_padding(subject)


def _nothing_but_padding(subject: Subject) -> Found:
    planted = plant(subject, subject.sequences[0], all_of_it=True)
    if planted is None or subject.target.shape[0] < 2:
        yield "a sentence of nothing but padding: none could be made"
        return
    try:
        output = subject.run_with(None, planted[0]).output
    except Exception as error:
        yield Finding("fully-masked-row", "note", f"a sentence of padding only raises {flow.short(error)}")
        return
    if not output[1:].isfinite().all():
        text = "one sentence of padding only makes the other sentences' outputs NaN"
        yield Finding("fully-masked-row", "error", text)
    elif not output.isfinite().all():
        yield Finding("fully-masked-row", "note", "a sentence of padding only gets NaN; the batch has none now")


def _at_empty_rows(subject: Subject, base: Run, empty: list[Attention]) -> Found:
    for attention in empty:
        rows = (~attention.visible).all(dim=-1)
        used = float(attention.used.sum(-1)[rows].max())
        at_words, known = _at_words(flow.sequence_of(subject, base, attention), rows.any(1))
        where = f"in {attention.module or 'an attention'} {int(rows.any(1).sum())} queries may attend to nothing, and "
        numbers = {"rows": int(rows.any(1).sum())}
        if used > 0.5:
            severity = "warning" if bool(at_words.any()) else "note"
            text = where + "spread their weight over masked keys all the same"
            yield Finding("fully-masked-row", severity, text, numbers)
            return
        sure = bool(at_words.any() if known else at_words.all(dim=0).any())
        if used < 1e-6 and sure and not attention.crosses:
            yield Finding("fully-masked-row", "warning", f"{where}get 0, words among them", numbers)
            return


def _at_words(sequence: Sequence | None, rows: Tensor) -> tuple[Tensor, bool]:
    """Return which of the queries are words, as far as one knows, and whether one knows where padding is."""
    padding = None if sequence is None else sequence.padding
    if padding is None or padding.shape != rows.shape:
        return rows, False
    return rows & ~padding.to(rows.device), True
