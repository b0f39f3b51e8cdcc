"""Faster forms of the library's pieces, each tested equal to the clear one that a chapter lists.

`enabled()` puts them in; outside it the clear forms run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib import attention, checks
from transformer_lib.data import PADDING, Batch

FUSED_FROM = 512  # keys: on a CPU fused attention's backward is slower below about this length


def attend(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query d_v"]:
    """Return what `attention.attend` returns, by torch's fused kernel where that one is faster.

    Raises:
        TypeError: the mask is not boolean: torch would add one of floating point to the scores.
        ValueError: shapes don't fit together.
    """
    checks.same_size("d_k", query=query, key=key)
    checks.one_value_per_key(key, value)
    if mask is not None:
        checks.mask_fits(mask, torch.Size([*query.shape[:-1], key.size(-2)]))
    if query.device.type == "cpu" and key.size(-2) < FUSED_FROM:
        scores = query @ key.transpose(-2, -1) * query.size(-1) ** -0.5
        if mask is None:
            return scores.softmax(dim=-1) @ value
        floor = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~mask, floor).softmax(dim=-1)
        if not mask.any(dim=-1).all():
            weights = weights.masked_fill(~mask, 0.0)
        return weights.to(value.dtype) @ value
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def dropout(x: Float[Tensor, "..."], probability: float) -> Float[Tensor, "..."]:
    """Drop elements with one random byte each: the probability is rounded to the nearest 256th below 1.

    What is kept is scaled by the exact inverse of the rounded probability, so that the mean stays.

    Raises:
        TypeError: `x` is not a tensor of floating point, or `probability` not a number.
        ValueError: `probability` is not in [0, 1).
    """
    checks.tensors(0, x=x)
    checks.probability(probability=probability)
    threshold = min(round(probability * 256), 255)
    if threshold == 0:
        return x
    words = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device).random_(-(2**63), None)
    keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= threshold
    return x * keep.mul(torch.tensor(256 / (256 - threshold), dtype=x.dtype))


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


def translation_loss(model: nn.Module, batch: Batch, smoothing: float = 0.1) -> Float[Tensor, ""]:
    """Return what `training.translation_loss` returns, computing logits for real tokens only, in chunks.

    Raises:
        TypeError: `batch` is not a `Batch`.
        ValueError: every label is padding, or `smoothing` is not in [0, 1).
    """
    checks.instance(Batch, batch=batch)
    vectors = model.decode(batch.target_input, model.encode(batch.source), batch.source)
    real = batch.labels != PADDING
    if not real.any():
        raise ValueError(f"at least one label must not be padding ({PADDING}), got {checks.shape(real)} that are")
    return linear_loss(vectors[real], model.embedding.table, batch.labels[real], smoothing)


@contextmanager
def enabled() -> Iterator[None]:
    """Let the library use the fast forms inside a `with` block.

    Attention stays as it is where a piece of it has been replaced (`exercises.use`), which the fast form would pass by.
    """
    clear_attend, clear_dropout = attention.attend, nn.Dropout.forward
    pieces = (attention.attend, attention.attention_weights, attention.attention_scores, attention.masked_softmax)
    if all(piece.__module__ == attention.__name__ for piece in pieces):
        attention.attend = attend

    def forward(module: nn.Dropout, x: Tensor) -> Tensor:
        return dropout(x, module.p) if module.training and module.p < 1 else clear_dropout(module, x)

    nn.Dropout.forward = forward
    try:
        yield
    finally:
        attention.attend, nn.Dropout.forward = clear_attend, clear_dropout
