"""The loss over the vocabulary in chunks of rows, so that no more than a chunk of logits is ever held."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib import checks


class _LinearLoss(torch.autograd.Function):
    """Smoothed cross-entropy of x @ table.T in chunks of rows: the gradient is computed along the way.

    With e = exp(logits - their maximum) and S the sum of a row, a row's gradient is e / S minus (1 - smoothing) at the
    label minus smoothing / vocabulary everywhere. Only e is as wide as the vocabulary: the other two terms and the
    division act on matrices as narrow as the model.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, labels: Tensor, smoothing: float, chunk: int) -> Tensor:
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        narrow, rows, each = table.to(dtype), x.to(dtype), smoothing / len(table)
        total = x.new_zeros((), dtype=torch.float32)
        grad_x, grad_table = (torch.zeros_like(part, dtype=torch.float32) for part in (x, table))
        for start in range(0, len(labels), chunk):
            part, label = rows[start : start + chunk], labels[start : start + chunk, None]
            logits = (part @ narrow.T).float()
            highest = logits.amax(dim=-1, keepdim=True)
            total += (highest - (1 - smoothing) * logits.gather(1, label)).sum()
            e = logits.sub_(highest).exp_()
            share = e.sum(dim=-1, keepdim=True)
            total += share.log().sum()
            e = e.to(dtype)
            grad_x[start : start + chunk] = (e @ narrow) / share
            grad_table += e.T @ (part / share).to(dtype)
        column, row = narrow.float().sum(dim=0), rows.float().sum(dim=0)
        grad_x.sub_(table[labels], alpha=1 - smoothing).sub_(column, alpha=each)
        grad_table.index_add_(0, labels, rows.float(), alpha=smoothing - 1).sub_(row, alpha=each)
        total -= each * (column * row).sum()
        ctx.save_for_backward(grad_x.div_(len(labels)).to(x.dtype), grad_table.div_(len(labels)).to(table.dtype))
        return total / len(labels)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_x, grad_table = ctx.saved_tensors
        return grad * grad_x, grad * grad_table, None, None, None


def linear_loss(
    x: Float[Tensor, "token d_model"],
    table: Float[Tensor, "vocabulary d_model"],
    labels: Int[Tensor, " token"],
    smoothing: float = 0.1,
    chunk: int = 512,
) -> Float[Tensor, ""]:
    """Return the smoothed cross-entropy of the logits x @ table.T, without ever holding all of them.

    Args:
        chunk: rows of logits held at a time.

    Raises:
        TypeError: a dtype is wrong, or `chunk` is not an integer.
        ValueError: shapes don't fit together, a label is outside the vocabulary, or a number is out of range.
    """
    checks.probability(smoothing=smoothing)
    checks.positive(chunk=chunk)
    checks.tensors(2, x=x, table=table)
    checks.instance(Tensor, labels=labels)
    checks.fits(table, x=x)
    checks.tokens(len(table), labels=labels[None])
    if x.shape[:-1] != labels.shape:
        raise ValueError(f"x must have one row per label, got {checks.shape(x)} and {checks.shape(labels)}")
    return _LinearLoss.apply(x, table, labels, smoothing, chunk)
