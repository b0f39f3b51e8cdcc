"""What a loss counts: padded labels must move neither its sum nor its count."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.diagnostics import discovery, inputs
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.learning import Loss, applied, labels_of, real_labels, takes_model, whole_loss
from transformer_lib.diagnostics.subject import Run, Subject

Found = Iterator[Finding | str]


def counted(subject: Subject, base: Run, loss: Loss | None) -> Found:
    """Test whether padded labels move the loss: its gradient there, and its value with more of them."""
    labels = labels_of(subject, base)
    if loss is None and subject.given.labels_key is None:
        yield "whether the loss counts padding: give loss, a function of (model, batch) or of (logits, labels)"
        return
    if labels is None:
        yield "whether the loss counts padding: the batch has no labels, one for each output"
        return
    padded = ~real_labels(subject, labels)
    if loss is not None and not takes_model(loss):
        yield from _apart(subject, base, loss, labels, padded)
        return
    if not padded.any() or padded.all():
        yield "whether the loss counts padding: no label in the batch is padding"
        return
    yield from _within(subject, loss, padded)


def _apart(subject: Subject, base: Run, loss: Loss, labels: Tensor, padded: Tensor) -> Found:
    number = int(labels[padded][0]) if padded.any() else discovery.padding_id(subject)
    if number is None:
        yield "whether the loss counts padding: nothing says which label is padding; give config={'padding': id}"
        return
    logits = base.output.detach().float()
    generator = torch.Generator().manual_seed(2)
    more = torch.randn(len(logits), 3, logits.size(-1), generator=generator).to(logits) * 3
    longer = torch.cat([logits, more], dim=1), torch.cat([labels, labels.new_full((len(labels), 3), number)], dim=1)
    before, after = float(applied(loss, logits, labels)), float(applied(loss, *longer))
    leaf = longer[0].clone().requires_grad_()
    slope = torch.autograd.grad(applied(loss, leaf, longer[1]), leaf)[0].abs().sum(-1)
    share = float(slope[:, -3:].mean() / slope[:, :-3][~padded].mean().clamp(min=1e-12))
    if abs(after - before) > 1e-4 * max(abs(before), 1e-3) or share > 1e-6:
        text = f"three more columns of padding change the loss from {before:.4f} to {after:.4f}; its gradient at "
        text += f"padding is {share:.2g} of that at words"
        yield Finding("loss-counts-padding", "error", text, {"before": before, "after": after, "gradient": share})


def _with_logits(subject: Subject, loss: Loss | None) -> tuple[Tensor | None, list[Tensor]]:
    """Return the loss, and the logits that the model returned on the way."""
    caught: list[Tensor] = []

    def hook(module: nn.Module, given: Any, result: Any) -> None:
        logits = inputs.logits_of(result)
        if logits is not None and logits.requires_grad:
            caught.append(logits)

    handle = subject.model.register_forward_hook(hook)
    try:
        return whole_loss(subject, loss), caught
    finally:
        handle.remove()


def _within(subject: Subject, loss: Loss | None, padded: Tensor) -> Found:
    value, caught = _with_logits(subject, loss)
    if not caught or value is None or not value.requires_grad:
        yield "whether the loss counts padding: the model isn't called as a whole, or gradients don't flow"
        return
    slope = torch.autograd.grad(value, caught[-1], allow_unused=True)[0]
    if slope is None or (slope := subject._aligned(slope, subject.given).abs().sum(-1)).shape != padded.shape:
        yield "whether the loss counts padding: the loss isn't computed from the model's output"
        return
    if subject.given.labels_key is not None and _shifts(slope, padded):
        slope, padded = slope[:, :-1], padded[:, 1:]
    share = float(slope[padded].mean() / slope[~padded].mean().clamp(min=1e-12)) if padded.any() else 0.0
    if share > 1e-6:
        text = f"the loss has a gradient at padded labels, {share:.2g} of that at words"
        yield Finding("loss-counts-padding", "error", text, {"gradient": share})


def _shifts(slope: Tensor, padded: Tensor) -> bool:
    """Return whether the model shifts labels by itself: each output has a gradient where the next label counts."""
    return not bool((slope[~padded] > 0).all()) and bool((slope[:, :-1][~padded[:, 1:]] > 0).all())
