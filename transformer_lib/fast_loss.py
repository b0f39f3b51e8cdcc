"""The loss over the vocabulary in chunks of rows, so that no more than a chunk of logits is ever held."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib import checks


class _LinearLoss(torch.autograd.Function):
    """Smoothed cross-entropy of x @ table.T in chunks of rows: the gradient is computed along the way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor, labels: Tensor, smoothing: float, chunk: int) -> Tensor:
        dtype = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
        narrow, rows = table.to(dtype), x.to(dtype)
        total = x.new_zeros((), dtype=torch.float32)
        grad_x, grad_table = torch.empty_like(rows), torch.zeros_like(table, dtype=torch.float32)
        for start in range(0, len(labels), chunk):
            part, label = rows[start : start + chunk], labels[start : start + chunk, None]
            logits = (part @ narrow.T).float()
            log_total = logits.logsumexp(dim=-1, keepdim=True)
            total += (log_total - (1 - smoothing) * logits.gather(1, label)).sum() - smoothing * logits.mean(1).sum()
            grad = logits.sub_(log_total).exp_().sub_(smoothing / logits.size(1))
            grad.scatter_add_(1, label, grad.new_full((len(label), 1), smoothing - 1))
            grad = grad.to(dtype)
            torch.mm(grad, narrow, out=grad_x[start : start + chunk])
            grad_table += grad.T @ part
        ctx.save_for_backward(grad_x.to(x.dtype).div_(len(labels)), grad_table.div_(len(labels)).to(table.dtype))
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
    chunk: int = 256,
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
