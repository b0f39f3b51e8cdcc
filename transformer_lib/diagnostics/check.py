"""All checks in order: `check_model`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from transformer_lib import checks
from transformer_lib.data import Batch
from transformer_lib.diagnostics import (
    accounts,
    attentions,
    blanks,
    discovery,
    flow,
    inputs,
    learning,
    places,
    scores,
    stack,
    trials,
    weights,
)
from transformer_lib.diagnostics.findings import Finding, Report
from transformer_lib.diagnostics.lending import untouched
from transformer_lib.diagnostics.subject import Run, Subject

Found = Iterable[Finding | str]


def check_model(
    model: nn.Module,
    batch: Any,
    loss: Callable[..., Any] | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    adapter: inputs.Adapter | None = None,
    overfit: int = 0,
) -> Report:
    """Return what seems wrong with a Transformer, whoever wrote it, and what could not be checked.

    The model is run on the batch some twenty times in evaluation mode, with words, padding or other sentences changed,
    and watched from outside. It's left as it was: mode, parameters, gradients, buffers, hooks, random state.

    Args:
        batch: a `data.Batch`; a tensor of token ids; or a tuple or dict of the model's arguments, labels last or named.
        loss: a function of (model, batch), or of (logits, labels); None where the model returns its own, or has none.
        config: what can't be seen from outside, as far as you know it: "padding" (id), "causal", "tied",
            "scale_embeddings", "batch_first" (bool), "trained_length" (positions), "scale" (number), "positions".
        adapter: adapter(model, batch) returns logits, for a model that is called in another way.
        overfit: steps of training a copy on the batch; 0 leaves that out.

    Raises:
        TypeError: `model` is not a module, `config` not a mapping, or the batch of a kind that can't be read.
    """
    checks.instance(nn.Module, model=model)
    checks.not_negative(overfit=overfit)
    if config is not None:
        checks.instance(Mapping, config=config)
    if isinstance(loss, nn.Module):
        loss = loss.eval() if not loss.training else loss
    findings: list[Finding] = []
    unchecked: list[str] = []
    with untouched(model):
        for part in _all(model, batch, loss, dict(config or {}), (adapter, overfit)):
            (findings if isinstance(part, Finding) else unchecked).append(part)
    ordered = sorted({(f.id, f.evidence): f for f in findings}.values(), key=lambda found: found.rank)
    return Report(tuple(ordered), tuple(dict.fromkeys(unchecked)))


def _all(model: nn.Module, batch: Any, loss: Any, config: dict[str, Any], more: tuple[Any, int]) -> Iterator[Any]:
    adapter, steps = more
    try:
        subject = discovery.examine(model, batch, config, adapter)
        base = subject.run()
    except TypeError as error:
        if str(error).startswith("batch must be"):
            raise
        yield from _broken(model, batch, config, error)
        return
    except Exception as error:
        yield from _broken(model, batch, config, error)
        return
    if subject.given.guessed:
        yield subject.given.guessed
    if not subject.sequences:
        yield "most of all: no embedding of the inputs was seen; give token ids, or vectors [batch position d_model]"
        return
    for name, check in _checks(subject, base, loss, steps):
        yield from _guarded(name, check)


def _checks(subject: Subject, base: Run, loss: Any, steps: int) -> Iterator[tuple[str, Callable[[], Found]]]:
    seen = attentions.find(base.trace, subject.target.shape[0])
    yield "later words", lambda: flow.later_words(subject, base, seen)
    yield "other sentences", lambda: flow.other_sentences(subject, base, seen)
    yield "dependence", lambda: flow.anything(subject, base)
    yield "padding", lambda: blanks.padding(subject, base)
    yield "empty rows", lambda: blanks.empty_rows(subject, base, seen)
    yield "lengths", lambda: weights.lengths(subject, seen)
    yield "chance", lambda: flow.chance(subject, base)
    yield "softmax", lambda: weights.after_softmax(seen)
    yield "positions", lambda: places.positions(subject, base)
    yield "scale", lambda: scores.scale(subject, seen)
    yield "widths of heads", lambda: scores.widths(seen)
    yield "saturation", lambda: scores.saturation(seen)
    yield "residuals and norms", lambda: stack.residuals_and_norms(base, seen)
    yield "embeddings", lambda: stack.embeddings(subject, base)
    yield "loss at the start", lambda: learning.start(subject, base)
    yield "shift", lambda: learning.shift(subject, base, loss)
    yield "padding in the loss", lambda: accounts.counted(subject, base, loss)
    yield "gradients", lambda: trials.gradients(subject, base)
    yield "overfitting", lambda: trials.overfit(subject, base, loss, steps)


def _guarded(name: str, check: Callable[[], Found]) -> Iterator[Finding | str]:
    """Yield what a check finds; one that can't cope with the model says so instead of stopping the others."""
    try:
        yield from check()
    except Exception as error:
        yield f"{name}: the check met {type(error).__name__}: {str(error)[:160]}"


def _broken(model: nn.Module, batch: Any, config: dict[str, Any], error: Exception) -> Iterator[Finding]:
    text = f"{type(error).__name__}: {str(error)[:200]}"
    if _runs_at_one_length(model, batch):
        yield Finding("mask-length", "error", f"it runs only where source and target are equally long, else {text}")
    else:
        yield Finding("does-not-run", "error", text)


def _runs_at_one_length(model: nn.Module, batch: Any) -> bool:
    try:
        given = inputs.arrange(model, batch)
        named = [(k, v) for k, v in given.tensors().items() if v.dim() == 2 and not v.is_floating_point()]
        if len(named) < 2 or named[0][1].size(1) == named[1][1].size(1) or isinstance(batch, Batch) is None:
            return False
        least = min(value.size(1) for _, value in named[:2])
        values = dict(given.values)
        for key, value in named:
            values[key] = value[:, :least]
        positional, keyword = inputs.Inputs(values, given.labels, given.labels_key).arguments()
        with torch.no_grad():
            model(*positional, **keyword)
    except Exception:
        return False
    return True
