"""Whether the model can learn: gradients reach its parameters, and one batch can be learnt by heart."""

import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.diagnostics import copies, inputs
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.learning import Loss, labels_of, next_words, real_labels, whole_loss
from transformer_lib.diagnostics.subject import Run, Subject

Found = Iterator[Finding | str]
Named = tuple[str, nn.Parameter]
RATE, LEARNT = 1e-2, 0.25  # of Adam; the share of the first loss that must be reached


def gradients(subject: Subject, base: Run) -> Found:
    """Look for parameters that the outputs give no gradient, and for gradients that are not finite."""
    learnable = [(name, p) for name, p in subject.model.named_parameters() if p.requires_grad]
    if not learnable or not base.output.requires_grad:
        text = "the output has none" if learnable else "no parameter asks for a gradient"
        yield Finding("no-gradient", "error" if learnable else "note", text)
        return
    if not base.output.isfinite().all():
        return
    slopes = _slopes(base.output, [p for _, p in learnable])
    if any(slope is not None and not slope.isfinite().all() for slope in slopes):
        yield Finding("not-finite", "error", "the outputs are finite, but gradients are not")
        return
    yield from _frozen(subject.model)
    dead = [part for part, slope in zip(learnable, slopes, strict=True) if slope is None or not slope.any()]
    dead = _dead_after_zeros(subject, dead)
    if dead:
        size = sum(p.numel() for _, p in dead) / sum(p.numel() for _, p in learnable)
        text = f"{len(dead)} of {len(learnable)} parameters ({size:.0%} of all numbers) get no gradient, first "
        text += dead[0][0]
        yield Finding("no-gradient", "error" if size > 0.15 else "note", text, {"share": size})


def _slopes(output: Tensor, parameters: list[nn.Parameter]) -> tuple[Tensor | None, ...]:
    """Return the gradient that a fixed random sum of the outputs gives each parameter, None where it gives none."""
    fixed = torch.randn(output.shape, generator=torch.Generator().manual_seed(3)).to(output)
    return torch.autograd.grad((output * fixed).sum(), parameters, allow_unused=True)


def _dead_after_zeros(subject: Subject, dead: list[Named]) -> list[Named]:
    """Return those parameters that get no gradient when maps that start at 0 are drawn, either."""
    other = copies.stirred(subject) if dead else None
    if other is None:
        return dead
    names = dict(other.model.named_parameters())
    slopes = _slopes(other.run().output, [names[name] for name, _ in dead])
    return [part for part, slope in zip(dead, slopes, strict=True) if slope is None or not slope.any()]


def _frozen(model: nn.Module) -> Found:
    """Mention parameters that ask for no gradient: right for fine-tuning, a slip if it was meant to be trained."""
    frozen = [(name, p) for name, p in model.named_parameters() if not p.requires_grad]
    if frozen:
        share = sum(p.numel() for _, p in frozen) / sum(p.numel() for p in model.parameters())
        text = f"{len(frozen)} parameters ({share:.0%} of all numbers) are frozen (requires_grad=False), first "
        text += frozen[0][0]
        yield Finding("no-gradient", "note", text, {"frozen": share})


def overfit(subject: Subject, base: Run, loss: Loss | None, steps: int) -> Found:
    """Train a copy on the one batch, without dropout, and see whether its loss gets small."""
    if not steps:
        yield "whether one batch can be learnt by heart: give overfit=100 (steps; it takes a while)"
        return
    if subject.adapter is not None and loss is None:
        yield "whether one batch can be learnt by heart: give loss"
        return
    track = _trained(subject, base, loss, steps)
    if track is None:
        yield "whether one batch can be learnt by heart: no loss that depends on trainable parameters"
    elif not min(track[-5:]) < LEARNT * track[0]:
        text = f"after {steps} steps of Adam on this one batch the loss fell from {track[0]:.3f} to only "
        text += f"{min(track[-5:]):.3f}"
        yield Finding("cannot-overfit", "warning", text, {"first": track[0], "last": min(track[-5:])})


def _trained(subject: Subject, base: Run, loss: Loss | None, steps: int) -> list[float] | None:
    """Return the losses of a copy that is trained, in evaluation mode; None without a loss to train it by."""
    subject = copy.copy(subject)
    subject.model = copies.twin(subject.model)
    parameters = [p for p in subject.model.parameters() if p.requires_grad]
    plain = loss is None and subject.given.labels_key is None
    if not parameters:
        return None
    optimizer, track = torch.optim.Adam(parameters, lr=RATE), []
    for _ in range(steps):
        value = _plain_loss(subject, base) if plain else whole_loss(subject, loss)
        if value is None or not value.requires_grad:
            return None
        track.append(float(value.detach()))
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return track


def _plain_loss(subject: Subject, base: Run) -> Tensor | None:
    labels = labels_of(subject, base)
    labels = next_words(subject, base) if labels is None else labels
    if labels is None:
        return None
    output = subject._aligned(inputs.logits_of(subject.call()), subject.given)
    real = real_labels(subject, labels)
    return F.cross_entropy(output[real], labels[real])
