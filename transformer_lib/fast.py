"""Faster forms of the library's pieces, each tested equal to the clear one that a chapter lists.

`enabled()` puts them in; outside it the clear forms run.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partialmethod
from types import ModuleType

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lib import attention, checks, fast_loss, multi_head
from transformer_lib.data import PADDING, Batch
from transformer_lib.multi_head import KeyValueCache, MemoryCache, MultiHeadAttention, merge_heads
from transformer_lib.positional import PositionScheme

FUSED_FROM = 1024  # keys: on a CPU, in 16 bits, the fused kernel's backward pass is slower below about this length


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
    if _is_explicit_faster(query, key):
        scores = query @ key.transpose(-2, -1) * query.size(-1) ** -0.5
        if mask is None:
            return scores.softmax(dim=-1) @ value
        floor = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~mask, floor).softmax(dim=-1)
        if not mask.any(dim=-1).all():
            weights = weights.masked_fill(~mask, 0.0)
        return weights.to(value.dtype) @ value
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def _is_explicit_faster(query: Tensor, key: Tensor) -> bool:
    """Return whether the explicit form beats the fused kernel: on a CPU, for one query, or in 16 bits for few keys."""
    if query.device.type != "cpu":
        return False
    return query.size(-2) == 1 or (query.element_size() < 4 and key.size(-2) < FUSED_FROM)


def packed_attention(
    module: MultiHeadAttention,
    x: Float[Tensor, "batch query d_model"],
    memory: Float[Tensor, "batch key d_model"],
    mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "batch query d_model"]:
    """Return what `MultiHeadAttention.forward` returns without a cache and a position scheme.

    Queries, keys and values of self-attention come from one matrix product, keys and values otherwise.

    Raises:
        TypeError: `module` is another module, a dtype is not the weights', or the mask is not boolean.
        ValueError: shapes don't fit together, or the module has a position scheme.
    """
    checks.instance(MultiHeadAttention, module=module)
    if type(module.position) is not PositionScheme:
        raise ValueError(f"the module must have no position scheme, got {type(module.position).__name__}")
    checks.fits(module.query.weight, x=x, memory=memory)
    if x is memory:
        query, key, value = _packed([module.query, module.key, module.value], x, module.heads)
    else:
        (query,) = _packed([module.query], x, module.heads)
        key, value = _packed([module.key, module.value], memory, module.heads)
    return module.output(merge_heads(attention.attend(query, key, value, mask)))


def _packed(maps: list[nn.Linear], x: Tensor, heads: int) -> Tensor:
    weight = torch.cat([part.weight for part in maps])
    bias = None if maps[0].bias is None else torch.cat([part.bias for part in maps])
    return F.linear(x, weight, bias).unflatten(-1, (len(maps), heads, -1)).permute(2, 0, 3, 1, 4)


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


def translation_loss(model: nn.Module, batch: Batch, smoothing: float = 0.1) -> Float[Tensor, ""]:
    """Return what `training.translation_loss` returns, computing logits for real tokens only, in chunks.

    Raises:
        TypeError: `model` is not a module, or `batch` not a `Batch`.
        ValueError: every label is padding, or `smoothing` is not in [0, 1).
    """
    checks.instance(nn.Module, model=model)
    checks.instance(Batch, batch=batch)
    checks.one_padding(model, PADDING)
    vectors = model.decode(batch.target_input, model.encode(batch.source), batch.source)
    real = batch.labels != PADDING
    if not real.any():
        raise ValueError(f"at least one label must not be padding ({PADDING}), got {checks.shape(real)} that are")
    return fast_loss.linear_loss(vectors[real], model.embedding.table, batch.labels[real], smoothing)


def narrowed(model: nn.Module, precision: torch.dtype) -> nn.Module:
    """Return a copy whose weights are in another precision, such as bfloat16: for decoding, where nothing is learnt.

    Half as many bytes and, where the processor computes in that precision, about half the time. Tokens that are nearly
    as likely as each other may change places. `training.best_precision` says which precision suits a device.

    Raises:
        TypeError: `model` is not a module, or `precision` not a dtype of floating point.
        ValueError: the model is in training mode: so narrow, small steps of learning would be rounded away.
    """
    checks.instance(nn.Module, model=model)
    checks.instance(torch.dtype, precision=precision)
    if not precision.is_floating_point:
        raise TypeError(f"precision must be a dtype of floating point, got {precision}")
    checks.evaluating(model)
    return copy.deepcopy(model).to(precision)


@contextmanager
def enabled() -> Iterator[None]:
    """Let the library use the fast forms inside a `with` block.

    Attention stays as it is where a piece of it has been replaced (`exercises.use`), which the fast form would pass by.
    """
    before = attention.attend, nn.Dropout.forward, MultiHeadAttention.forward
    if _untouched(attention, "attend", "attention_weights", "attention_scores", "masked_softmax"):
        attention.attend = attend
    if _untouched(multi_head, "MultiHeadAttention", "split_heads", "merge_heads", "attend_with_bias"):
        MultiHeadAttention.forward = partialmethod(_forward, before[2])
    nn.Dropout.forward = lambda module, x: (
        dropout(x, module.p) if module.training and module.p < 1 else before[1](module, x)
    )
    try:
        yield
    finally:
        attention.attend, nn.Dropout.forward, MultiHeadAttention.forward = before


def _untouched(module: ModuleType, *names: str) -> bool:
    return all(getattr(module, name).__module__ == module.__name__ for name in names)


def _forward(
    module: MultiHeadAttention,
    clear: Callable[..., Tensor],
    x: Tensor,
    memory: Tensor,
    mask: Tensor | None = None,
    cache: KeyValueCache | None = None,
) -> Tensor:
    if cache is None and type(module.position) is PositionScheme:
        return packed_attention(module, x, memory, mask)
    found = clear(module, x, memory, mask, cache)
    if isinstance(cache, MemoryCache):  # laid out once: else every step's products would copy them anew
        cache.key, cache.value = cache.key.contiguous(), cache.value.contiguous()
    return found
