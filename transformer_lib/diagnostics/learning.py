"""The loss: where it starts, what it counts, whether the input holds the answer, whether one batch can be learnt."""

import copy
import inspect
import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lib.diagnostics import attentions, discovery, inputs, intention, watching
from transformer_lib.diagnostics import subject as subject_module
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.graph import Numbers, Trace, is_lookup
from transformer_lib.diagnostics.lookups import ids_of
from transformer_lib.diagnostics.subject import Run, Subject, is_sequence

IGNORED = -100
Loss = Callable[..., Tensor]
Found = Iterator[Finding | str]
SLACK = 1.5  # nats above ln(vocabulary): logits that spread by 1 cost 0.5 nats, by 1.7 they cost 1.5


def labels_of(subject: Subject, base: Run) -> Numbers | None:
    """Return labels [batch position] for the outputs: the batch's, or the next words of a model that reads on."""
    labels, target = subject.given.labels, subject.target
    if labels is not None and labels.dim() == 2:
        labels = labels.T if target.batch_axis else labels
        if tuple(labels.shape) == tuple(base.output.shape[:2]):
            return labels
    return None


def real_labels(subject: Subject, labels: Numbers) -> Numbers:
    """Return True at labels that count."""
    number = discovery.padding_id(subject)
    real = labels >= 0
    if number is not None and real.all():  # where some labels are negative, these are the ones that don't count
        real &= labels != number
    elif subject.target.padding is not None and subject.target.padding.shape == labels.shape:
        real &= ~subject.target.padding
    return real


def start(subject: Subject, base: Run) -> Found:
    """Compare the loss on the batch with ln(vocabulary), what guessing costs."""
    labels = labels_of(subject, base)
    logits = base.output.detach().float()
    if labels is None:
        labels = next_words(subject, base)
    if labels is None:
        yield "the loss at the start: the batch has no labels, one for each output"
        return
    real = real_labels(subject, labels) & (labels < logits.size(-1))
    if not real.any() or logits.size(-1) <= int(labels[real].max()):
        yield "the loss at the start: labels don't fit the outputs"
        return
    logits, real = _without_input(subject, logits, labels, real)
    loss, guess = float(F.cross_entropy(logits[real], labels[real].long())), math.log(logits.size(-1))
    if loss > guess + SLACK:
        spread = float(logits[real][logits[real].isfinite()].std())
        text = f"the loss is {loss:.2f} nats a word (logits of the input's own words left out); guessing evenly costs "
        text += f"ln({logits.size(-1)}) = {guess:.2f}; logits spread by {spread:.2g}"
        yield Finding("loss-at-start", "warning", text, {"loss": loss, "ln_vocabulary": guess})


def _without_input(subject: Subject, logits: Tensor, labels: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Leave out the word that is read: a tied model starts by saying it again, and is none the worse for it."""
    tokens = subject.target.tokens
    if tokens is None or tokens.shape != labels.shape or int(tokens.max()) >= logits.size(-1):
        return logits, real
    others = real & (labels != tokens)
    return (logits.scatter(-1, tokens.long().unsqueeze(-1), -math.inf), others) if others.any() else (logits, real)


def next_words(subject: Subject, base: Run) -> Numbers | None:
    """Return the input one word ahead as labels, the last one ignored; None where outputs are no logits of words."""
    tokens = subject.target.tokens
    if (
        tokens is None
        or subject.config.get("causal") is False  # it isn't meant to predict the next word
        or tuple(base.output.shape[:2]) != tuple(tokens.shape)
        or base.output.size(-1) <= int(tokens.max())
    ):
        return None
    return torch.cat([tokens[:, 1:], tokens.new_full((len(tokens), 1), IGNORED)], dim=1)


def shift(subject: Subject, base: Run, loss: Loss | None) -> Found:
    """Test whether the model reads at each position the word that it must say there, or must say the next but one."""
    labels, tokens = labels_of(subject, base), subject.target.tokens
    if labels is None or tokens is None:
        yield "whether input and labels are shifted: the batch has no labels of the input's length"
        return
    read, asked = tokens, labels
    seen = _seen_by_loss(subject, loss)
    if seen is not None:
        read, asked = seen[0] if seen[0] is not None else read, seen[1] if seen[1] is not None else asked
    rows, columns = min(len(read), len(asked)), min(read.size(1), asked.size(1))
    read, asked = read[:rows, :columns], asked[:rows, :columns]
    real = real_labels(subject, asked) if asked.shape == labels.shape else asked >= 0
    same = float((read == asked)[real].float().mean()) if real.any() else 0.0
    intended, _ = intention.causal_intended(subject, attentions.find(base.trace, subject.target.shape[0]))
    if same > 0.9 and (intended or len(subject.sequences) > 1):
        text = f"at {same:.0%} of the positions the input is the label itself"
        yield Finding("input-not-shifted", "error", text, {"same": same})
    once, twice = (_ahead(read, asked, real, by) for by in (1, 2))
    if intended and columns > 4 and twice > 0.9 > once:
        text = f"at {twice:.0%} of the positions the label is the word after the next: shifted twice"
        yield Finding("input-not-shifted", "error", text, {"twice": twice})


def _ahead(read: Tensor, asked: Tensor, real: Tensor, by: int) -> float:
    """Return the share of labels that are the input's word some positions later."""
    same, real = read[:, by:] == asked[:, :-by], real[:, :-by]
    return float(same[real].float().mean()) if real.any() else 0.0


def _seen_by_loss(subject: Subject, loss: Loss | None) -> tuple[Tensor | None, Tensor | None] | None:
    """Return the tokens that were embedded last and the labels that a cross-entropy got while the loss was computed."""
    given = [*subject.given.tensors().values(), subject.given.labels, *subject_module.tensors_in(subject.batch)]
    batch_tensors = [tensor for tensor in given if tensor is not None]
    trace = Trace(batch_tensors)
    try:
        with torch.random.fork_rng(), watching.tracing(subject.model, trace):
            value = whole_loss(subject, loss)
    except Exception:
        return None
    if value is None:
        return None
    starts = [n for n in trace.nodes if is_lookup(n) and n.stage == 1 and is_sequence(n)]
    ids = ids_of(starts[min(subject.target.number, len(starts) - 1)]) if starts else None
    entropy = [n for n in trace.nodes if n.name in ("cross_entropy_loss", "cross_entropy", "nll_loss", "nll_loss_nd")]
    asked = entropy[-1].argument(1, "target") if entropy else None
    batch = subject.target.shape[0]
    if ids is not None and subject.target.batch_axis:
        ids = ids.T
    if asked is not None:
        asked = asked.reshape(batch, -1) if asked.numel() % batch == 0 and not subject.target.batch_axis else None
    return ids, asked


def whole_loss(subject: Subject, loss: Loss | None, model: nn.Module | None = None) -> Numbers | None:
    """Return the loss of the model on its batch: by the caller's function, or by the model itself; else None."""
    model = model or subject.model
    if loss is None:
        if subject.given.labels_key is None:
            return None
        positional, named = subject.given.arguments(with_labels=True)
        return inputs.loss_of(model(*positional, **named))
    if takes_model(loss):
        return loss(model, subject.batch)
    subject_of = copy.copy(subject)
    subject_of.model = model
    output = subject_of._aligned(inputs.logits_of(subject_of.call()), subject.given)
    labels = subject.given.labels
    labels = labels.T if subject.target.batch_axis and labels is not None else labels
    return None if labels is None else applied(loss, output, labels)


def takes_model(loss: Loss) -> bool:
    """Return whether a loss is a function of (model, batch)."""
    try:
        names = list(inspect.signature(loss).parameters)
    except (TypeError, ValueError):
        return False
    return bool(names) and names[0] in ("model", "net", "module", "m")


def applied(loss: Loss, logits: Numbers, labels: Numbers) -> Numbers:
    """Return a loss of logits and labels, in whichever shape the function takes them.

    Raises:
        TypeError: it takes them in none.
    """
    errors = []
    flat = (logits.flatten(0, 1), labels.flatten())
    forms = [flat, (logits, labels)] if isinstance(loss, nn.Module) else [(logits, labels), flat]
    for form in [*forms, (logits.transpose(1, 2), labels)]:
        try:
            value = loss(*form)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
            continue
        if isinstance(value, Tensor) and value.numel() == 1:
            return value.reshape(())
    raise TypeError(f"loss must take (model, batch) or (logits, labels) and return one number, got {errors[:1]}")
