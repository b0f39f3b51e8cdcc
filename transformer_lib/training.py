"""Training: the learning rate, the loss, the precision and the loop (chapter 07)."""

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import checks
from transformer_lib.data import PADDING, Batch

PRECISIONS = (torch.float32, torch.bfloat16, torch.float16)


def noam_rate(step: int, d_model: int, warmup: int, factor: float = 1.0) -> float:
    """Return the learning rate at a step: a linear rise for `warmup` steps, then a fall with 1 / sqrt(step).

    factor * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5); Vaswani et al. (2017), equation 3.

    Args:
        step: counted from 1.

    Raises:
        TypeError: a size is not an integer, or `factor` not a number.
        ValueError: a size is below 1, or `factor` is not above 0 and finite.
    """
    checks.positive(step=step, d_model=d_model, warmup=warmup)
    checks.above_zero(factor=factor)
    return factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def linear_tail(step: int, steps: int, tail: int) -> float:
    """Return what to multiply the learning rate by so that it falls to 0 over the last `tail` of `steps` steps.

    Raises:
        TypeError: a number is not an integer.
        ValueError: `step` or `tail` is not between 1 and `steps`.
    """
    checks.positive(step=step, steps=steps, tail=tail)
    if max(step, tail) > steps:
        raise ValueError(f"step and tail must be at most steps = {steps}, got step = {step} and tail = {tail}")
    return min(1.0, (steps - step + 1) / tail)


def smoothed_loss(
    logits: Float[Tensor, "batch position vocabulary"],
    labels: Int[Tensor, "batch position"],
    smoothing: float = 0.1,
    padding: int = PADDING,
) -> Float[Tensor, ""]:
    """Return the cross-entropy against labels that keep 1 - `smoothing` and give the rest to all tokens alike.

    In nats per real token: positions whose label is padding count neither above nor below the fraction line.
    Szegedy et al. (2016); Vaswani et al. (2017), section 5.4.

    Raises:
        TypeError: the logits are not of floating point, or the labels or `padding` not integers.
        ValueError: every label is padding, a label is outside the vocabulary, or shapes or `smoothing` don't fit.
    """
    checks.probability(smoothing=smoothing)
    checks.not_negative(padding=padding)
    checks.tensors(3, logits=logits)
    checks.tokens(logits.size(-1), labels=labels)
    if logits.shape[:-1] != labels.shape:
        raise ValueError(f"logits must have one row per label, got {checks.shape(logits)} and {checks.shape(labels)}")
    real = labels != padding
    if not real.any():
        raise ValueError(f"at least one label must not be padding ({padding}), got {labels.numel()} that are")
    log_probability = logits[real].log_softmax(dim=-1)
    of_label = log_probability.gather(-1, labels[real].long().unsqueeze(-1)).squeeze(-1)
    of_any = log_probability.mean(dim=-1)
    return -((1 - smoothing) * of_label + smoothing * of_any).mean()


def translation_loss(model: nn.Module, batch: Batch, smoothing: float = 0.1) -> Float[Tensor, ""]:
    """Return the model's smoothed loss on a batch, in nats per target token, teacher forcing.

    Raises:
        TypeError: `model` is not a module, or `batch` not a `Batch`.
        ValueError: `smoothing` is not in [0, 1).
    """
    checks.instance(nn.Module, model=model)
    checks.instance(Batch, batch=batch)
    checks.one_padding(model, PADDING)
    return smoothed_loss(model(batch.source, batch.target_input), batch.labels, smoothing)


def train(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    optimizer: torch.optim.Optimizer,
    rate: Callable[[int], float],
    first: int = 1,
) -> Iterator[float]:
    """Take one optimiser step per batch; yield each batch's loss in nats per token.

    The caller decides what to plot, print, save and when to stop. Gradients are clipped to a norm of 1.

    Args:
        rate: learning rate by step, counted from 1.
        first: number of the first step, above 1 when training goes on from a checkpoint.

    Raises:
        TypeError: an argument or what `loss_of` returns is of another kind.
        ValueError: the loss is not one finite number (the parameters are as before that step), or `first` is below 1.
    """
    checks.positive(first=first)
    checks.instance(nn.Module, model=model)
    checks.instance(torch.optim.Optimizer, optimizer=optimizer)
    checks.iterable(batches=batches)
    checks.function(loss_of=loss_of, rate=rate)
    for step, batch in enumerate(batches, start=first):
        model.train()  # each time: whoever takes the losses may evaluate between two of them
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, batch)
        checks.finite_loss(loss, step)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Batch], smoothing: float = 0.0) -> float:
    """Return the mean loss over all batches' real target tokens, in nats per token, in evaluation mode.

    Afterwards the model is in the mode that it was in.

    Raises:
        TypeError: `model` is not a module, or `batches` holds something else than `Batch`.
        ValueError: there is no batch.
    """
    checks.instance(nn.Module, model=model)
    checks.iterable(batches=batches)
    was_training, total, tokens = model.training, 0.0, 0
    model.eval()
    try:
        for batch in batches:
            total += translation_loss(model, batch, smoothing).item() * batch.target_tokens
            tokens += batch.target_tokens
    finally:
        model.train(was_training)
    if not tokens:
        raise ValueError("evaluate needs at least one batch, got none")
    return total / tokens


def best_precision(device: torch.device | str) -> torch.dtype:
    """Return the fastest safe dtype for autocast: bfloat16 where the device computes in it, else a wider one.

    On a GPU without native bfloat16 (before Ampere) it is float16, which needs `torch.amp.GradScaler`;
    on a CPU without it, float32.

    Raises:
        ValueError: torch knows no such device.
    """
    device = _device(device)
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.get_device_capability(device)[0] >= 8 else torch.float16
    if device.type == "cpu" and any(_cpu_has(name) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")):
        return torch.bfloat16
    return torch.float32


def _device(device: torch.device | str) -> torch.device:
    try:
        return torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be one that torch knows, such as 'cpu' or 'cuda', got {device!r}") from error


def _cpu_has(name: str) -> bool:
    return bool(getattr(torch.cpu, name, lambda: False)())  # private to torch: absent in some versions


def autocast(device: torch.device | str, precision: torch.dtype) -> contextlib.AbstractContextManager:
    """Return a context in which matrix products run in `precision`; float32 changes nothing.

    Raises:
        ValueError: `precision` is not float32, bfloat16 or float16, or torch knows no such device.
    """
    if not isinstance(precision, torch.dtype) or precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(map(str, PRECISIONS))}, got {checks.shown(precision)}")
    return torch.autocast(_device(device).type, precision, enabled=precision != torch.float32)
