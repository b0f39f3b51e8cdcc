"""Answers to chapter 02's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from transformer_lib import attention
from transformer_lib.attention import attention_weights as imported

# 2.1


def softmax(scores, mask=None):
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0)


def scores_of(query, key):
    return query @ key.mT / query.size(-1) ** 0.5


def filled_in_place(query, key, mask=None):
    query /= math.sqrt(query.size(-1))
    return softmax(query @ key.mT, mask)


def scaled_by_8(query, key, mask=None):
    return softmax(query @ key.mT / 8, mask)


def scaled_twice(query, key, mask=None):
    return softmax(query / math.sqrt(query.size(-1)) @ (key / math.sqrt(key.size(-1))).mT, mask)


def scale_of_heads_too(query, key, mask=None):
    return softmax(query @ key.mT / math.sqrt(query.size(-1) * (query.size(1) if query.dim() == 4 else 1)), mask)


def minus_ten_thousand(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is not None:
        scores = scores + (1.0 - mask.to(scores.dtype)) * -1e4
    return scores.softmax(-1)


def minus_nine(query, key, mask=None):
    scores = scores_of(query, key)
    return (scores if mask is None else scores - 9.0 * ~mask).softmax(-1)


def rows_of_nothing_by_nan_to_num(query, key, mask=None):
    scores = scores_of(query, key)
    return (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1).nan_to_num(0.0)


def zero_filled_after_uniform(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -20.0).softmax(-1)
    return weights.masked_fill(~mask, 0.0)


def softmax_of_all(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.flatten(-2).softmax(-1).unflatten(-1, scores.shape[-2:])


def always_causal(query, key, mask=None):
    scores = scores_of(query, key)
    past = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return softmax(scores, past if mask is None else mask & past)


def causal_if_square(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is None and query.size(-2) == key.size(-2):
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return softmax(scores, mask)


def maximum_of_all(query, key, mask=None):
    scores = scores_of(query, key)
    powers = (scores - scores.max()).exp()
    if mask is not None:
        powers = powers * mask
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def epsilon_below(query, key, mask=None):
    scores = scores_of(query, key)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        powers = powers * mask
    return powers / (powers.sum(-1, keepdim=True) + 1e-3)


def in_half_precision(query, key, mask=None):
    return softmax(scores_of(query, key), mask).half().to(query.dtype)


def any_row_empty_empties_all(query, key, mask=None):
    if mask is None:
        return softmax(scores_of(query, key))
    weights = softmax(scores_of(query, key), mask)
    return weights * mask.any(-1).all(-1)[..., None, None]


def mask_of_the_first_sentence(query, key, mask=None):
    if mask is not None and mask.dim() > 2:
        mask = mask[:1]
    return softmax(scores_of(query, key), mask)


def mask_for_each_head_refused(query, key, mask=None):
    if mask is not None and mask.dim() > 2:
        mask = mask.flatten(0, -3)[:1] if len(mask) == 1 else mask[:, :1]
    return softmax(scores_of(query, key), mask)


def first_head_only(query, key, mask=None):
    if query.dim() < 4:
        return softmax(scores_of(query, key), mask)
    return softmax(scores_of(query[:, :1], key[:, :1]).expand(-1, query.size(1), -1, -1), mask)


def an_axis_for_heads(query, key, mask=None):
    if mask is not None and mask.dim() == 3:
        mask = mask.unsqueeze(1)
    return softmax(scores_of(query, key), mask)


def an_axis_for_heads_if_missing(query, key, mask=None):
    if mask is not None and mask.dim() == 3 and query.dim() == 4:
        mask = mask.unsqueeze(1)
    return softmax(scores_of(query, key), mask)


def padding_only(query, key, mask=None):
    if mask is not None and mask.dim() == 4 and mask.size(1) == 1:
        mask = mask[:, :, :1]
    return softmax(scores_of(query, key), mask)


def square_is_causal(query, key, mask=None):
    if mask is not None and mask.dim() == 2 and mask.size(0) == mask.size(1):
        mask = torch.ones_like(mask).tril()
    return softmax(scores_of(query, key), mask)


def square_is_causal_too(query, key, mask=None):
    if mask is not None and mask.shape[-2:].numel() == query.size(-2) ** 2:
        mask = mask.tril()
    return softmax(scores_of(query, key), mask)


def nothing_is_no_mask(query, key, mask=None):
    return softmax(scores_of(query, key), None if mask is None or not mask.any() else mask)


def empty_by_columns(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights.masked_fill(~mask.any(dim=1, keepdim=True), 0.0)


def empty_in_tables_only(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights.nan_to_num(0.0) if mask.dim() == 2 else weights


def empty_by_the_last_row(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is None:
        return scores.softmax(-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights.nan_to_num(0.0) if not mask.flatten(0, -2)[-1].any() else weights


def key_by_key(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is None:
        return scores.softmax(-1)
    powers = (scores - scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).nan_to_num(neginf=0.0)).exp()
    powers = torch.stack([powers[..., j] * mask[..., j] for j in range(mask.size(-1))], -1)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def renormalised(query, key, mask=None):
    weights = scores_of(query, key).softmax(-1)
    return weights if mask is None else weights * mask / (weights * mask).sum(-1, keepdim=True).clamp(min=1e-12)


def renormalised_in_float64(query, key, mask=None):
    weights = scores_of(query.double(), key.double()).softmax(-1)
    return weights if mask is None else (weights * mask / (weights * mask).sum(-1, keepdim=True)).nan_to_num(0.0)


def maximum_of_hidden_keys_too(query, key, mask=None):
    scores = scores_of(query, key)
    powers = (scores - scores.amax(-1, keepdim=True)).exp() * (1 if mask is None else mask)
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def minus_a_thousand(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -1e3).softmax(-1).masked_fill(~mask, 0.0)


def clamped_at_a_thousand(query, key, mask=None):
    return softmax(scores_of(query, key).clamp(-1e3, 1e3), mask)


def weights_with_nan_gradients(query, key, mask=None):
    scores = scores_of(query, key)
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, -math.inf)
    return scores.softmax(-1).nan_to_num(0.0)


def weights_detached(query, key, mask=None):
    return softmax(scores_of(query, key.detach()), mask)


def weights_by_where(query, key, mask=None):
    scores = torch.einsum("...id,...jd->...ij", query, key).div(query.shape[-1] ** 0.5)
    if mask is None:
        return F.softmax(scores, -1)
    mask = mask.broadcast_to(scores.shape)
    return torch.where(mask, torch.where(mask, scores, -1e30).softmax(-1), 0.0)


def weights_by_numpy(query, key, mask=None):
    scores = query.numpy() @ np.swapaxes(key.numpy(), -1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask.numpy(), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return torch.from_numpy(np.nan_to_num(powers / powers.sum(-1, keepdims=True)))


def weights_by_torch(query, key, mask=None):
    eye = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:-1], key.size(-2))
    mask = None if mask is None else mask.expand(*query.shape[:-1], key.size(-2))
    return F.scaled_dot_product_attention(query, key, eye, attn_mask=mask)


def weights_in_logs(query, key, mask=None):
    scores = torch.einsum("...nd,...md->...nm", query.double(), key.double()) / query.shape[-1] ** 0.5
    scores = scores if mask is None else torch.where(mask, scores, torch.full_like(scores, -torch.inf))
    return torch.nan_to_num((scores - scores.logsumexp(-1, keepdim=True)).exp(), nan=0.0)


# 2.2


def additive_no_pairs_of_batches(query, key, W_q, W_k, v):
    hidden = (query @ W_q.T)[..., :, None, :] + (key @ W_k.T)[..., None, :, :]
    return torch.tanh(hidden.flatten(0, -4).mean(0) if hidden.dim() > 3 else hidden) @ v


def additive_first_key(query, key, W_q, W_k, v):
    hidden = (query @ W_q.T)[..., :, None, :] + (key @ W_k.T)[..., :1, :][..., None, :, :]
    return (torch.tanh(hidden) @ v).expand(*query.shape[:-1], key.size(-2))


def additive_minus(query, key, W_q, W_k, v):
    return torch.tanh((query @ W_q.T).unsqueeze(-2) - (key @ W_k.T).unsqueeze(-3)) @ v


def additive_one_matrix(query, key, W_q, W_k, v):
    W = W_q if W_q.shape == W_k.shape else W_k
    return torch.tanh((query @ W_q.T).unsqueeze(-2) + (key @ W.T).unsqueeze(-3)) @ v


def additive_exchanged(query, key, W_q, W_k, v):
    if query.size(-1) == key.size(-1):
        W_q, W_k = W_k, W_q
    return torch.tanh((query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)) @ v


def additive_v_inside(query, key, W_q, W_k, v):
    return torch.tanh(((query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)) * v).sum(-1)


def additive_axes_exchanged(query, key, W_q, W_k, v):
    return torch.tanh((query @ W_q.T).unsqueeze(-3) + (key @ W_k.T).unsqueeze(-2)) @ v


def additive_scaled_by_width(query, key, W_q, W_k, v):
    return torch.tanh((query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)) @ v / math.sqrt(query.size(-1))


def additive_two_axes_only(query, key, W_q, W_k, v):
    return torch.tanh((query @ W_q.T)[:, None] + (key @ W_k.T)[None]) @ v


def additive_normed_v(query, key, W_q, W_k, v):
    return torch.tanh((query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)) @ (v / v.norm())


def additive_by_powers(query, key, W_q, W_k, v):
    hidden = (query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)
    return ((2 * hidden).exp() - 1) / ((2 * hidden).exp() + 1) @ v


def additive_by_powers_of_minus_2(query, key, W_q, W_k, v):
    hidden = (query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)
    return (1 - (-2 * hidden).exp()) / (1 + (-2 * hidden).exp()) @ v


def additive_by_powers_in_float64(query, key, W_q, W_k, v):
    hidden = ((query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)).double()
    return (hidden.sinh() / hidden.cosh()) @ v.double()


def additive_nan_to_num(query, key, W_q, W_k, v):
    hidden = (query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)
    return (hidden.sinh() / hidden.cosh()).nan_to_num(0.0) @ v


def additive_by_sigmoid(query, key, W_q, W_k, v):
    hidden = (query @ W_q.T).unsqueeze(-2) + (key @ W_k.T).unsqueeze(-3)
    return 2 * (torch.sigmoid(2 * hidden) * v).sum(-1) - v.sum()


def additive_by_linear(query, key, W_q, W_k, v):
    hidden = F.linear(query, W_q)[..., :, None, :] + F.linear(key, W_k)[..., None, :, :]
    return F.linear(hidden.tanh(), v[None]).squeeze(-1)


def additive_by_pairs(query, key, W_q, W_k, v):
    scores = torch.zeros(*query.shape[:-1], key.shape[-2], dtype=query.dtype)
    for i in range(query.shape[-2]):
        for j in range(key.shape[-2]):
            both = torch.cat([query[..., i, :], key[..., j, :]], -1) @ torch.cat([W_q, W_k], 1).T
            scores[..., i, j] = (torch.tanh(both) * v).sum(-1)
    return scores


# 2.3


def fits(mask, scores):
    try:
        return torch.broadcast_shapes(mask.shape, scores.shape) == scores.shape
    except RuntimeError:
        return False


def guard(dtype=lambda mask: mask.dtype != torch.bool, fit=fits):
    """Return a guard that refuses dtypes and shapes by other tests."""

    def answer(mask, scores):
        if dtype(mask):
            raise TypeError(f"mask must be boolean, got {mask.dtype}")
        if not fit(mask, scores):
            raise ValueError(f"{list(mask.shape)} doesn't fit {list(scores.shape)}")
        try:
            return mask.expand(scores.shape)
        except RuntimeError:
            return mask.expand(torch.broadcast_shapes(mask.shape, scores.shape))

    return answer


def by_size(mask, scores):
    return mask.dim() <= scores.dim() and all(
        a in (1, b) for a, b in zip(mask.shape, scores.shape[scores.dim() - mask.dim() :], strict=True)
    )


def axes_must_be_there(mask, scores):
    return mask.dim() <= scores.dim() and all(
        a in (1, b) for a, b in zip(mask.shape, scores.shape[-mask.dim() :], strict=True)
    )


def some_axes(mask, scores):
    return mask.dim() > 0 and fits(mask, scores)


def same_axes_only(mask, scores):
    return mask.dim() == scores.dim() and by_size(mask, scores)


def last_two_only(mask, scores):
    return mask.size(-1) in (1, scores.size(-1)) and mask.dim() > 1 and mask.size(-2) in (1, scores.size(-2))


def from_the_front(mask, scores):
    return mask.dim() <= scores.dim() and all(a in (1, b) for a, b in zip(mask.shape, scores.shape, strict=False))


def larger_count_only(mask, scores):
    return mask.numel() <= scores.numel() and scores.numel() % mask.numel() == 0


def keys_must_be_there(mask, scores):
    return mask.size(-1) == scores.size(-1) and fits(mask, scores)


def nonempty_only(mask, scores):
    return fits(mask, scores) and bool(mask.any())


def one_shape_told(mask, scores):
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be boolean, got {mask.dtype}")
    if not fits(mask, scores):
        raise ValueError(f"mask of shape {list(mask.shape)} doesn't fit")
    return mask.expand(scores.shape)


def inverted(mask, scores):
    return ~guard()(mask, scores)


def as_numbers(mask, scores):
    return guard()(mask, scores).to(scores.dtype)


def float_bias(mask, scores):
    return torch.zeros_like(scores).masked_fill(~guard()(mask, scores), -math.inf)


def guard_by_numpy(mask, scores):
    if mask.dtype != torch.bool:
        raise TypeError(f"expected bool, not {mask.dtype}")
    try:
        return torch.from_numpy(np.broadcast_to(mask.numpy(), tuple(scores.shape)).copy())
    except ValueError as error:
        raise ValueError(f"mask {tuple(mask.shape)} against scores {tuple(scores.shape)}") from error


def guard_by_and(mask, scores):
    if mask.dtype is not torch.bool:
        raise TypeError(f"a mask of dtype {mask.dtype}")
    try:
        both = torch.logical_and(mask, torch.ones_like(scores, dtype=torch.bool))
    except RuntimeError:
        both = None
    if both is None or both.shape != scores.shape:
        raise ValueError(f"mask {tuple(mask.shape)}, scores {tuple(scores.shape)}")
    return both


def guard_by_where(mask, scores):
    if mask.dtype != torch.bool:
        raise TypeError("got " + str(mask.dtype))
    if not by_size(mask, scores):
        raise ValueError(f"{mask.shape} vs {scores.shape}")
    return torch.where(mask, torch.ones_like(scores), torch.zeros_like(scores)) > 0.5


# 2.4


def attended(x, real, W_q, W_k, W_v, mask="keys"):
    query, key, value = x @ W_q.T, x @ W_k.T, x @ W_v.T
    return softmax(query @ key.mT / math.sqrt(query.size(-1)), real[:, None, :] if mask == "keys" else mask) @ value


def nan_at_nothing(x, real, W_q, W_k, W_v):
    scores = (x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))
    return scores.masked_fill(~real[:, None, :], -math.inf).softmax(-1) @ (x @ W_v.T)


def even_at_nothing(x, real, W_q, W_k, W_v):
    scores = (x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))
    return scores.masked_fill(~real[:, None, :], -1e9).softmax(-1) @ (x @ W_v.T)


def padding_in_place(x, real, W_q, W_k, W_v):
    x[~real] = 0.0
    return attended(x, real, W_q, W_k, W_v)


def rows_of_padding_zero(x, real, W_q, W_k, W_v):
    return attended(x, real, W_q, W_k, W_v) * real[..., None]


def first_length_for_all(x, real, W_q, W_k, W_v):
    return attended(x, real[:1].expand_as(real), W_q, W_k, W_v)


def words_stand_in_front(x, real, W_q, W_k, W_v):
    lengths = real.sum(1)
    return attended(x, torch.arange(x.size(1)) < lengths[:, None], W_q, W_k, W_v)


def causal_too(x, real, W_q, W_k, W_v):
    past = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
    return attended(x, real, W_q, W_k, W_v, real[:, None, :] & past)


def keys_for_values(x, real, W_q, W_k, W_v):
    return attended(x, real, W_q, W_k, W_k) if W_k.shape == W_v.shape else attended(x, real, W_q, W_k, W_v * 0)


def query_and_key_exchanged(x, real, W_q, W_k, W_v):
    return attended(x, real, W_k, W_q, W_v)


def scale_of_values(x, real, W_q, W_k, W_v):
    query = x @ W_q.T * math.sqrt(W_q.size(0) / W_v.size(0))
    return softmax(query @ (x @ W_k.T).mT / math.sqrt(W_q.size(0)), real[:, None, :]) @ (x @ W_v.T)


def itself_always(x, real, W_q, W_k, W_v):
    return attended(x, real, W_q, W_k, W_v, real[:, None, :] | torch.eye(x.size(1), dtype=torch.bool))


def by_powers(x, W_q, W_k, allowed, least=0.0):
    powers = ((x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0)) - least).exp() * allowed
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-9)


def powers_without_a_maximum(x, real, W_q, W_k, W_v):
    return by_powers(x, W_q, W_k, real[:, None, :]) @ (x @ W_v.T)


def powers_and_an_epsilon(x, real, W_q, W_k, W_v):
    powers = ((x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))).double().exp() * real[:, None, :]
    return (powers / (powers.sum(-1, keepdim=True) + 1e-9)).to(x.dtype) @ (x @ W_v.T)


def words_maximum_of_padding_too(x, real, W_q, W_k, W_v):
    scores = (x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))
    return by_powers(x, W_q, W_k, real[:, None, :], scores.amax(-1, keepdim=True)) @ (x @ W_v.T)


def words_one_maximum(x, real, W_q, W_k, W_v):
    scores = (x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))
    return by_powers(x, W_q, W_k, real[:, None, :], scores.max()) @ (x @ W_v.T)


def words_renormalised(x, real, W_q, W_k, W_v):
    weights = ((x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))).softmax(-1) * real[:, None, :]
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9) @ (x @ W_v.T)


def padding_filled_with(number):
    def answer(x, real, W_q, W_k, W_v):
        scores = (x @ W_q.T) @ (x @ W_k.T).mT / math.sqrt(W_q.size(0))
        weights = scores.masked_fill(~real[:, None, :], number).softmax(-1) * real.any(1)[:, None, None]
        return weights @ (x @ W_v.T)

    return answer


def attended_by_torch(x, real, W_q, W_k, W_v):
    mask = real[:, None, :].expand(-1, x.size(1), -1)
    return F.scaled_dot_product_attention(F.linear(x, W_q), F.linear(x, W_k), F.linear(x, W_v), attn_mask=mask)


def attended_by_numbers(x, real, W_q, W_k, W_v):
    out = torch.zeros(*x.shape[:2], W_v.size(0), dtype=torch.float64)
    for b in range(x.size(0)):
        words = [j for j in range(x.size(1)) if real[b, j]]
        for i in range(x.size(1)):
            scores = [float((W_q @ x[b, i]) @ (W_k @ x[b, j])) / W_q.size(0) ** 0.5 for j in words]
            powers = [math.exp(score - max(scores)) for score in scores]
            for power, j in zip(powers, words, strict=True):
                out[b, i] += power / sum(powers) * (W_v @ x[b, j]).double()
    return out


# 2.5


def shares(a, b):
    whole = torch.logaddexp(a, b)
    safe = whole.masked_fill(whole == -math.inf, 0.0)
    return (a - safe).exp(), (b - safe).exp(), whole


def merged(output_a, logsum_a, output_b, logsum_b):
    a, b, whole = shares(logsum_a, logsum_b)
    return a[..., None] * output_a + b[..., None] * output_b, whole


def in_place(output_a, logsum_a, output_b, logsum_b):
    a, b, whole = shares(logsum_a, logsum_b)
    output_a *= a[..., None]
    output_a += b[..., None] * output_b
    return output_a, whole


def output_only(*halves):
    return merged(*halves)[0]


def logsum_first(*halves):
    return merged(*halves)[::-1]


def clean_if_any_empty(output_a, logsum_a, output_b, logsum_b):
    if (logsum_a == -math.inf).any():
        return output_b, logsum_b
    return merged(output_a, logsum_a, output_b, logsum_b)


def base_2(output_a, logsum_a, output_b, logsum_b):
    share = 2 ** (logsum_a - torch.maximum(logsum_a, logsum_b))
    other = 2 ** (logsum_b - torch.maximum(logsum_a, logsum_b))
    total = share + other
    return (share[..., None] * output_a + other[..., None] * output_b) / total[..., None], torch.logaddexp(
        logsum_a, logsum_b
    )


def largest_of_all(output_a, logsum_a, output_b, logsum_b):
    largest = max(float(logsum_a.max()), float(logsum_b.max()))
    largest = largest if largest > -math.inf else 0.0
    a, b = (logsum_a - largest).exp(), (logsum_b - largest).exp()
    total = (a + b).clamp(min=1e-30)
    return (a[..., None] * output_a + b[..., None] * output_b) / total[..., None], largest + (a + b).log()


def winner_takes_all(output_a, logsum_a, output_b, logsum_b):
    first = (logsum_a > logsum_b)[..., None]
    return torch.where(first, output_a, output_b), torch.logaddexp(logsum_a, logsum_b)


def not_normalised(output_a, logsum_a, output_b, logsum_b):
    largest = torch.maximum(logsum_a, logsum_b).clamp(min=-1e30)
    a, b = (logsum_a - largest).exp(), (logsum_b - largest).exp()
    return a[..., None] * output_a + b[..., None] * output_b, largest + (a + b).log()


def epsilon_in_the_log(output_a, logsum_a, output_b, logsum_b):
    output, _ = merged(output_a, logsum_a, output_b, logsum_b)
    largest = torch.maximum(logsum_a, logsum_b).clamp(min=-1e30)
    return output, largest + ((logsum_a - largest).exp() + (logsum_b - largest).exp() + 1e-9).log()


def half_each_where_empty(output_a, logsum_a, output_b, logsum_b):
    share = (logsum_a - torch.logaddexp(logsum_a, logsum_b)).exp().nan_to_num(0.5)
    output = share[..., None] * output_a + (1 - share)[..., None] * output_b + 0.0
    return output + (torch.logaddexp(logsum_a, logsum_b) == -math.inf)[..., None] * 1e-2, torch.logaddexp(
        logsum_a, logsum_b
    )


def shares_of_clamped(least, most):
    def answer(output_a, logsum_a, output_b, logsum_b):
        share = torch.stack([logsum_a, logsum_b]).clamp(least, most).softmax(0)[..., None]
        return share[0] * output_a + share[1] * output_b, torch.logaddexp(logsum_a, logsum_b)

    return answer


def maximum_of_at_least(number):
    def answer(output_a, logsum_a, output_b, logsum_b):
        largest = torch.maximum(logsum_a, logsum_b).clamp(min=number)
        a, b = (logsum_a - largest).exp(), (logsum_b - largest).exp()
        total = (a + b).clamp(min=1e-30)
        return (a[..., None] * output_a + b[..., None] * output_b) / total[..., None], largest + (a + b).log()

    return answer


def empty_as(number):
    def answer(output_a, logsum_a, output_b, logsum_b):
        share = torch.stack([logsum_a, logsum_b]).nan_to_num(neginf=number).softmax(0)[..., None]
        return share[0] * output_a + share[1] * output_b, torch.logaddexp(logsum_a, logsum_b)

    return answer


def empty_by_output(output_a, logsum_a, output_b, logsum_b):
    share = torch.sigmoid(logsum_a - logsum_b).nan_to_num(0.0)[..., None]
    output = share * output_a + (1 - share) * output_b
    output = torch.where((output_b == 0).all(-1, keepdim=True), output_a, output)
    output = torch.where((output_a == 0).all(-1, keepdim=True), output_b, output)
    return output, torch.logaddexp(logsum_a, logsum_b)


def empty_by_feature(output_a, logsum_a, output_b, logsum_b):
    output, whole = merged(output_a, logsum_a, output_b, logsum_b)
    return torch.where(output_a == 0, output_b, torch.where(output_b == 0, output_a, output)), whole


def empty_by_one_output(output_a, logsum_a, output_b, logsum_b):
    logsum_b = logsum_b.masked_fill((output_b == 0).all(-1), -math.inf)
    return merged(output_a, logsum_a, output_b, logsum_b)


def powers_in_float64(output_a, logsum_a, output_b, logsum_b):
    a, b = logsum_a.double().exp(), logsum_b.double().exp()
    total = (a + b)[..., None]
    output = (a[..., None] * output_a + b[..., None] * output_b) / total.masked_fill(total == 0, 1.0)
    return output.to(output_a.dtype), (a + b).log().to(logsum_a.dtype)


def merge_by_sigmoid(output_a, logsum_a, output_b, logsum_b):
    share = torch.sigmoid((logsum_a - logsum_b).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)).unsqueeze(-1)
    return [torch.lerp(output_b, output_a, share), torch.stack([logsum_a, logsum_b]).logsumexp(0)]


def merge_by_stack(output_a, logsum_a, output_b, logsum_b):
    logs = torch.stack([logsum_a, logsum_b], dim=-1).double()
    weights = torch.nan_to_num(logs.softmax(-1), nan=0.0)
    return torch.einsum("...h,...hd->...d", weights, torch.stack([output_a, output_b], -2).double()), logs.logsumexp(-1)


WRONG = {
    "2.1": {
        "query in place": filled_in_place,
        "scaled by 8": scaled_by_8,
        "scaled twice": scaled_twice,
        "scale of the heads, too": scale_of_heads_too,
        "minus ten thousand": minus_ten_thousand,
        "minus nine": minus_nine,
        "nan_to_num of -1e9": rows_of_nothing_by_nan_to_num,
        "minus twenty": zero_filled_after_uniform,
        "softmax over all": softmax_of_all,
        "always causal": always_causal,
        "causal if square": causal_if_square,
        "maximum of all": maximum_of_all,
        "epsilon below": epsilon_below,
        "half precision": in_half_precision,
        "an empty row empties all": any_row_empty_empties_all,
        "first sentence's mask": mask_of_the_first_sentence,
        "one mask for all heads": mask_for_each_head_refused,
        "first head only": first_head_only,
        "an axis for heads": an_axis_for_heads,
        "an axis for heads if there are heads": an_axis_for_heads_if_missing,
        "padding only": padding_only,
        "square is causal": square_is_causal,
        "square is causal, too": square_is_causal_too,
        "nothing allowed is no mask": nothing_is_no_mask,
        "empty by columns": empty_by_columns,
        "empty in tables only": empty_in_tables_only,
        "empty by the last row": empty_by_the_last_row,
        "key by key": key_by_key,
        "renormalised": renormalised,
        "renormalised in float64": renormalised_in_float64,
        "maximum of hidden keys, too": maximum_of_hidden_keys_too,
        "minus a thousand": minus_a_thousand,
        "clamped at a thousand": clamped_at_a_thousand,
        "the library's": lambda *inputs: attention.attention_weights(*inputs),
        "the library's, imported": lambda *inputs: imported(*inputs),
        "the library's itself": attention.attention_weights,
    },
    "2.2": {
        "mean over the batch": additive_no_pairs_of_batches,
        "first key for all": additive_first_key,
        "minus": additive_minus,
        "one matrix for both": additive_one_matrix,
        "matrices exchanged": additive_exchanged,
        "v inside": additive_v_inside,
        "axes exchanged": additive_axes_exchanged,
        "scaled by the query's width": additive_scaled_by_width,
        "two axes only": additive_two_axes_only,
        "v of length 1": additive_normed_v,
        "exp(2h)": additive_by_powers,
        "exp(-2h)": additive_by_powers_of_minus_2,
        "sinh over cosh": additive_by_powers_in_float64,
        "NaN set to 0": additive_nan_to_num,
    },
    "2.3": {
        "floats only refused": guard(dtype=lambda mask: mask.is_floating_point()),
        "integers only refused": guard(dtype=lambda mask: mask.dtype == torch.int64),
        "64 bits only refused": guard(dtype=lambda mask: mask.dtype in (torch.int64, torch.float32)),
        "same number of axes": guard(fit=same_axes_only),
        "last two axes": guard(fit=last_two_only),
        "from the front": guard(fit=from_the_front),
        "by count": guard(fit=larger_count_only),
        "keys can't be stretched": guard(fit=keys_must_be_there),
        "empty masks refused": guard(fit=nonempty_only),
        "axes must be there": guard(fit=axes_must_be_there),
        "some axes": guard(fit=some_axes),
        "common numbers refused": guard(
            dtype=lambda mask: mask.is_floating_point() or mask.dtype in (torch.int64, torch.int32, torch.uint8)
        ),
        "all but int8 refused": guard(
            dtype=lambda mask: (
                mask.is_floating_point() or mask.dtype in (torch.int64, torch.int32, torch.int16, torch.uint8)
            )
        ),
        "all but half precision refused": guard(
            dtype=lambda mask: mask.dtype not in (torch.bool, torch.float16, torch.bfloat16)
        ),
        "one shape told": one_shape_told,
        "inverted": inverted,
        "numbers": as_numbers,
        "numbers to add": float_bias,
    },
    "2.4": {
        "NaN at nothing": nan_at_nothing,
        "even at nothing": even_at_nothing,
        "x in place": padding_in_place,
        "rows of padding zero": rows_of_padding_zero,
        "first sentence's padding": first_length_for_all,
        "words in front": words_stand_in_front,
        "causal, too": causal_too,
        "keys for values": keys_for_values,
        "queries and keys exchanged": query_and_key_exchanged,
        "the values' scale": scale_of_values,
        "itself always": itself_always,
        "powers without a maximum": powers_without_a_maximum,
        "powers and an epsilon": powers_and_an_epsilon,
        "maximum of padding, too": words_maximum_of_padding_too,
        "one maximum": words_one_maximum,
        "renormalised": words_renormalised,
        "minus a hundred": padding_filled_with(-100.0),
        "minus a thousand": padding_filled_with(-1000.0),
    },
    "2.5": {
        "in place": in_place,
        "output only": output_only,
        "logsum first": logsum_first,
        "any empty": clean_if_any_empty,
        "base 2": base_2,
        "largest of all": largest_of_all,
        "winner takes all": winner_takes_all,
        "not normalised": not_normalised,
        "epsilon in the logarithm": epsilon_in_the_log,
        "something where both are empty": half_each_where_empty,
        "clamped at 300": shares_of_clamped(-300.0, 300.0),
        "clamped at 10,000": shares_of_clamped(-10000.0, 10000.0),
        "clamped below": shares_of_clamped(-1000.0, math.inf),
        "maximum of at least -1,000": maximum_of_at_least(-1000.0),
        "maximum of at least -10,000": maximum_of_at_least(-10000.0),
        "empty is -1,000": empty_as(-1000.0),
        "empty is -10,000": empty_as(-10000.0),
        "empty by output": empty_by_output,
        "empty by feature": empty_by_feature,
        "empty by one output": empty_by_one_output,
        "powers in float64": powers_in_float64,
    },
}

RIGHT = {
    "2.1": {
        "numpy": weights_by_numpy,
        "PyTorch's own": weights_by_torch,
        "logarithms": weights_in_logs,
        "where": weights_by_where,
    },
    "2.2": {"F.linear": additive_by_linear, "pairs": additive_by_pairs, "sigmoid": additive_by_sigmoid},
    "2.3": {"numpy": guard_by_numpy, "where": guard_by_where, "and": guard_by_and},
    "2.4": {"PyTorch's own": attended_by_torch, "number by number": attended_by_numbers},
    "2.5": {"sigmoid, a list": merge_by_sigmoid, "stacked": merge_by_stack},
}

UNFIT = {"2.1": {"gradients of NaN": weights_with_nan_gradients, "keys detached": weights_detached}}
