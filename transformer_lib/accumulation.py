"""Large batches in small parts, and half precision with a scaled loss: more than `training.train` does (chapter 07)."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from transformer_lib import checks
from transformer_lib.data import Batch


def groups(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Return the batches in lists of `size`, the last list with what is left.

    Raises:
        TypeError: `size` is not an integer, or `batches` not an iterable.
        ValueError: `size` is below 1.
    """
    checks.positive(size=size)
    checks.iterable(batches=batches)
    remaining = iter(batches)
    return iter(lambda: list(islice(remaining, size)), [])


def accumulate(
    model: nn.Module,
    group: Sequence[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    scaler: torch.amp.GradScaler | None = None,
) -> float:
    """Add the gradient of the group's loss to the parameters' gradients, batch by batch; return that loss.

    The loss is what one batch of all the group's pairs would have, in nats per token: each batch weighs as much as it
    has real target tokens. Only one batch at a time is held in memory.

    Args:
        scaler: multiplies the gradients by its scale; None multiplies by nothing.

    Raises:
        TypeError: an argument is of another kind, or what `loss_of` returns not a tensor of floating point.
        ValueError: the group is empty or without real tokens, or a loss is not one finite number.
    """
    checks.function(loss_of=loss_of)
    checks.instance(torch.amp.GradScaler | None, scaler=scaler)
    checks.sequence_of(Batch, group=group)
    tokens, total = sum(batch.target_tokens for batch in group), 0.0
    if not tokens:
        raise ValueError(f"a group must hold batches with real target tokens, got {len(group)} batches without")
    for batch in group:
        loss = loss_of(model, batch)
        checks.tensors(0, loss=loss)
        if loss.numel() != 1 or not math.isfinite(loss.item()):
            raise ValueError(f"the loss must be one finite number, got {loss.tolist()}")
        loss = loss * (batch.target_tokens / tokens)
        (loss if scaler is None else scaler.scale(loss)).backward()
        total += loss.item()
    return total


def gradient_scaler(device: torch.device | str, precision: torch.dtype) -> torch.amp.GradScaler:
    """Return what keeps small gradients from vanishing in float16; for any other precision, one that does nothing.

    It multiplies the loss before the backward pass, divides the gradients after it, skips a step whose gradients are
    not finite and then halves its factor; Micikevicius et al. (2018), section 3.2.

    Raises:
        TypeError: `precision` is not a dtype.
        ValueError: torch knows no such device.
    """
    checks.instance(torch.dtype, precision=precision)
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be one that torch knows, such as 'cpu' or 'cuda', got {device!r}") from error
    return torch.amp.GradScaler(kind, enabled=precision == torch.float16)


def train_in_groups(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_of: Callable[[nn.Module, Batch], Tensor],
    optimizer: torch.optim.Optimizer,
    rate: Callable[[int], float],
    *,
    size: int = 1,
    scaler: torch.amp.GradScaler | None = None,
    first: int = 1,
) -> Iterator[float]:
    """Take one optimiser step for each `size` batches; yield each group's loss in nats per token.

    With `size` 1 and no scaler it does what `training.train` does. A step whose gradients a scaler finds not finite
    leaves the parameters as they are; it counts, and its loss is yielded.

    Args:
        size: batches a step; at the end of `batches` a step has what is left.
        scaler: from `gradient_scaler`, if `loss_of` computes in float16; None for the other precisions.
        first: as for `training.train`.

    Raises:
        TypeError: an argument is of another kind, or as for `accumulate`.
        ValueError: `size` or `first` is below 1, or as for `accumulate` (the parameters are as before that step).
    """
    checks.positive(first=first)
    checks.instance(nn.Module, model=model)
    checks.instance(torch.optim.Optimizer, optimizer=optimizer)
    checks.instance(torch.amp.GradScaler | None, scaler=scaler)
    checks.function(loss_of=loss_of, rate=rate)
    scaler = torch.amp.GradScaler("cpu", enabled=False) if scaler is None else scaler
    for step, group in enumerate(groups(batches, size), start=first):
        model.train()  # each time: whoever takes the losses may evaluate between two of them
        for parameters in optimizer.param_groups:
            parameters["lr"] = rate(step)
        optimizer.zero_grad(set_to_none=True)
        loss = accumulate(model, group, loss_of, scaler)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        yield loss
