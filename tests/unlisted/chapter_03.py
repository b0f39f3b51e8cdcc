"""Answers to chapter 03's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import attention, multi_head

# 3.1


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def split_first_sentence(x, heads):
    return split(x[:1], heads).expand(len(x), -1, -1, -1)


def split_scaled(x, heads):
    return split(x, heads) / math.sqrt(x.size(-1) // heads)


def split_reversed(x, heads):
    return split(x, heads).flip(1)


def split_as_a_list(x, heads):
    return list(x.chunk(heads, dim=-1))


def split_by_permute(x, heads):
    return x.unflatten(-1, (heads, -1)).permute(2, 0, 1, 3)


def split_by_transposed_view(x, heads):
    return x.transpose(1, 2).reshape(x.size(0), heads, x.size(1), -1)


def split_flat(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2).flatten(2)


def split_for_4(x, heads):
    return split(x, min(heads, 4))


def split_by_reshape(x, heads):
    batch, n, d_model = x.shape
    return x.reshape(batch, n, heads, -1).transpose(1, 2)


def split_by_unfold(x, heads):
    d_k = x.size(-1) // heads
    return x.unfold(-1, d_k, d_k).permute(0, 2, 1, 3)


def split_by_einsum(x, heads):
    return torch.einsum("bnhd->bhnd", x.reshape(*x.shape[:2], heads, x.size(2) // heads))


def split_by_index(x, heads):
    d_k = x.size(-1) // heads
    out = torch.empty(x.size(0), heads, x.size(1), d_k, dtype=torch.float64)
    for h in range(heads):
        for c in range(d_k):
            out[:, h, :, c] = x[:, :, h * d_k + c]
    return out


# 3.2


def merge(x):
    return x.transpose(1, 2).flatten(start_dim=2)


def merge_by_view(x):
    return x.transpose(1, 2).view(x.size(0), x.size(2), -1)


def merge_without_batch(x):
    return torch.cat(list(x[0]), dim=-1).expand(len(x), -1, -1)


def merge_positions_last(x):
    return merge(x).mT


def merge_features_first(x):
    return x.permute(0, 3, 1, 2).flatten(1, 2).mT


def merge_first_head(x):
    return x[:, 0].repeat(1, 1, x.size(1))


def merge_scaled(x):
    return merge(x) / x.size(1)


def merge_last_two(x):
    return x.transpose(1, 2).transpose(2, 3).flatten(2)


def merge_by_split_again(x):
    return x.flatten(1, 2).reshape(x.size(0), x.size(2), -1)


def merge_batch_flattened(x):
    return merge(x).flatten(0, 1)


def merge_by_einsum(x):
    return torch.einsum("bhnd->bnhd", x).reshape(x.size(0), x.size(2), x.size(1) * x.size(3))


def merge_by_index(x):
    out = torch.zeros(x.size(0), x.size(2), x.size(1) * x.size(3), dtype=x.dtype)
    for h in range(x.size(1)):
        out[:, :, h * x.size(3) : (h + 1) * x.size(3)] = x[:, h]
    return out


# 3.3


class Maps(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))

    def cut(self, x, memory):
        pairs = ((self.query, x), (self.key, memory), (self.value, memory))
        return [split(layer(source), self.heads) for layer, source in pairs]


def masked(scores, mask):
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0.0)


class FixedHeads(Maps):
    def forward(self, x, memory, mask=None):
        self.heads = 2 if x.size(-1) % 2 == 0 else self.heads
        query, key, value = self.cut(x, memory)
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


class MaskWithoutHeads(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        if mask is not None and mask.dim() == 4:
            mask = mask[:, :1]
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


class MaskOfFirstSentence(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        if mask is not None and mask.dim() == 4:
            mask = mask[:1]
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


class NothingFilledLate(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        scores = query @ key.mT / math.sqrt(query.size(-1))
        scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
        return self.output(merge(scores.softmax(-1) @ value)).nan_to_num(0.0)


class OutputTransposed(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        return merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value) @ self.output.weight


class OutputTwice(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        mixed = merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value)
        return self.output(self.output(mixed))


class ValueByKey(Maps):
    def forward(self, x, memory, mask=None):
        query, key, _ = self.cut(x, memory)
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ key))


class ScaledTwice(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        query = query / math.sqrt(query.size(-1))
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


class MeanOfHeads(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        weights = masked(query @ key.mT / math.sqrt(query.size(-1)), mask).mean(1, keepdim=True)
        return self.output(merge(weights.expand(-1, self.heads, -1, -1) @ value))


class Cut(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        weights = masked(query @ key.mT / math.sqrt(query.size(-1)), mask).detach()
        return self.output(merge(weights @ value))


class Numbers(Maps):
    @torch.no_grad()
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


class WithWeights(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        weights = masked(query @ key.mT / math.sqrt(query.size(-1)), mask)
        return self.output(merge(weights @ value)), weights


class CutInTraining(Maps):
    def forward(self, x, memory, mask=None):
        if self.training:
            x, memory = x.detach(), memory.detach()
        query, key, value = self.cut(x, memory)
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


class Library(multi_head.MultiHeadAttention):
    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, mask)


def changing(mask):
    """Return the right layer, but that what is given as a mask is changed first."""

    class Changed(Maps):
        def forward(self, x, memory, given=None):
            query, key, value = self.cut(x, memory)
            own = given if given is None else mask(given)
            return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), own) @ value))

    return Changed


def weighing(weights):
    """Return the right layer, but that weights are made from the scores and the mask in another way."""

    class Weighed(Maps):
        def forward(self, x, memory, mask=None):
            query, key, value = self.cut(x, memory)
            return self.output(merge(weights(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))

    return Weighed


def three_axes_if_queries(mask):
    return mask.unsqueeze(1) if mask.dim() == 3 and mask.size(1) > 1 else mask


def three_axes_if_one_query(mask):
    return mask.unsqueeze(1) if mask.dim() == 3 and mask.size(1) == 1 else mask


def padding_if_no_heads(mask):
    return mask[:, 0, 0][:, None, None] if mask.dim() == 4 and mask.size(1) == 1 else mask


def padding_if_a_batch(mask):
    return mask[:, :1, :1] if mask.dim() == 4 and mask.size(0) > 1 else mask


def first_sentence_if_heads(mask):
    return mask[:1] if mask.dim() == 4 and mask.size(1) > 1 else mask


def first_head_if_a_batch(mask):
    return mask[:, :1] if mask.dim() == 4 and mask.size(0) > 1 else mask


def heads_and_sentences_exchanged(mask):
    return mask.transpose(0, 1) if mask.dim() == 4 and mask.size(0) == mask.size(1) else mask


def causal_if_square(mask):
    return torch.ones_like(mask).tril() if mask.dim() == 2 and mask.size(0) == mask.size(1) else mask


def padding_if_two_axes(mask):
    return mask[:, None, None, :] if mask.dim() == 2 and mask.size(0) != mask.size(1) else mask


class CausalForTwoAxes(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        if mask is not None and mask.dim() == 2:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.output(merge(mixed))


class MaskInSelfAttentionOnly(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        mask = None if mask is not None and mask.dim() == 2 and not x.equal(memory) else mask
        return self.output(merge(masked(query @ key.mT / math.sqrt(query.size(-1)), mask) @ value))


class ByLoopWithoutThreeAxes(Maps):
    def forward(self, x, memory, mask=None):
        whole = []
        for query, key, value in zip(*(torch.unbind(t, dim=1) for t in self.cut(x, memory)), strict=True):
            number = len(whole)
            own = mask if mask is None or mask.dim() < 4 else mask[:, min(number, mask.size(1) - 1)]
            whole.append(attention.attend(query, key, value, own))
        return F.linear(torch.cat(whole, dim=2), self.output.weight)


def nothing_is_everything(scores, mask):
    return masked(scores, mask if mask is not None and mask.any() else None)


def empty_by_sentence(scores, mask):
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask.any(0), 0.0)


def by_key(scores, mask):
    if mask is not None:
        columns = [scores[..., j].masked_fill(~mask[..., j], -math.inf) for j in range(mask.size(-1))]
        scores = torch.stack(columns, dim=-1)
    return masked(scores, mask)


def restored(scores, mask):
    weights = scores.softmax(-1)
    if mask is None:
        return weights
    weights = weights * mask
    sums = weights.sum(-1, keepdim=True)
    return weights / sums.masked_fill(sums == 0, 1.0)


def below_all(scores, mask):
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    powers = powers if mask is None else powers * mask
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def one_maximum(scores, mask):
    powers = (masked_scores(scores, mask) - scores.max()).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-30)


def exp_in_float64(scores, mask):
    powers = masked_scores(scores.double(), mask).exp()
    return (powers / powers.sum(-1, keepdim=True).clamp(min=1e-300)).to(scores.dtype)


def clamped_exp(scores, mask):
    powers = masked_scores(scores.clamp(-80, 80), mask).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1e-36)


def masked_scores(scores, mask):
    return scores if mask is None else scores.masked_fill(~mask, -math.inf)


def filled(number):
    """Return weights from a fill with a number, brought to zero where the mask forbids."""

    def weights(scores, mask):
        if mask is None:
            return scores.softmax(-1)
        return scores.masked_fill(~mask, number).softmax(-1).masked_fill(~mask, 0.0)

    return weights


def infinity_added(scores, mask):
    bias = torch.zeros_like(scores)
    bias = bias if mask is None else bias.masked_fill(~mask, -math.inf)
    return (scores + bias).softmax(-1).nan_to_num(0.0)


def logarithm_added(scores, mask):
    return scores.softmax(-1) if mask is None else (scores + mask.to(scores.dtype).log()).softmax(-1).nan_to_num(0.0)


def nothing_over_nothing(scores, mask):
    largest = masked_scores(scores, mask).amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    powers = (masked_scores(scores, mask) - largest).exp()
    return (powers / powers.sum(-1, keepdim=True)).nan_to_num(0.0)


def where(scores, mask):
    if mask is None:
        return scores.softmax(-1)
    weights = torch.where(mask, scores, -math.inf).softmax(-1)
    return torch.where(mask.expand(scores.shape).any(-1, keepdim=True), weights, 0.0)


def by_query(scores, mask):
    if mask is None:
        return scores.softmax(-1)
    rows = [masked(scores[..., i, :], mask.expand(scores.shape)[..., i, :]) for i in range(scores.size(-2))]
    return torch.stack(rows, dim=-2)


def shifted(scores, mask):
    scores = masked_scores(scores, mask)
    largest = scores.amax(-1, keepdim=True).clamp(min=-1e30)
    powers = (scores - largest).exp()
    sums = powers.sum(-1, keepdim=True)
    return powers / sums.masked_fill(sums == 0, 1.0)


class ByTorch(Maps):
    def forward(self, x, memory, mask=None):
        query, key, value = self.cut(x, memory)
        return self.output(merge(F.scaled_dot_product_attention(query, key, value, attn_mask=mask)))


class ByLoop(Maps):
    def forward(self, x, memory, mask=None):
        whole, sizes = [], (x.size(0), self.heads, x.size(1), memory.size(1))
        for query, key, value in zip(*(torch.unbind(t, dim=1) for t in self.cut(x, memory)), strict=True):
            own = None if mask is None else mask.expand(sizes)[:, len(whole)]
            whole.append(attention.attend(query, key, value, own))
        return F.linear(torch.cat(whole, dim=2), self.output.weight)


def made(d_model, heads):
    return ByLoop(d_model, heads)


# 3.4


def head(length, d_content, strength):
    query = torch.zeros(length + d_content, length)
    for i in range(1, length):
        query[i, i - 1] = strength
    value = torch.zeros(length + d_content, d_content)
    value[length:] = torch.eye(d_content)
    return query, value


def changed(query=lambda q, strength: q, value=lambda v, length: v):
    def answer(length, d_content, strength):
        q, v = head(length, d_content, strength)
        return query(q, strength), value(v, length)

    return answer


def two_back(q, strength):
    return strength * torch.eye(len(q), q.size(1)).roll(2, 0).tril(-2)


def last_row_missing(q, strength):
    out = q.clone()
    out[q.size(1) - 1] = 0
    return out


def minus_for_the_first(q, strength):
    out = q.clone()
    out[0] = -strength
    return out


def minus_elsewhere(q, strength):
    n = q.size(1)
    out = q.clone()
    out[1:n] = out[1:n] - strength * (out[1:n] == 0)
    return out


def content_reversed(v, length):
    return torch.cat([v[:length], v[length:].flip(0)])


def mean_of_content(v, length):
    return torch.cat([v[:length], torch.full_like(v[length:], 1 / v.size(1))])


def identity_everywhere(v, length):
    return torch.eye(len(v))


def strength_rounded(length, d_content, strength):
    return head(length, d_content, round(strength))


def strength_10(length, d_content, strength):
    return head(length, d_content, 10.0)


def fixed_length(length, d_content, strength):
    q, v = head(length, d_content, strength)
    q[3:] = 0
    return q, v


def query_only(length, d_content, strength):
    return head(length, d_content, strength)[0]


def head_by_pad(length, d_content, strength):
    below = F.pad(torch.eye(length - 1) * strength, (0, 1, 1, 0))
    return F.pad(below, (0, 0, 0, d_content)), F.pad(torch.eye(d_content), (0, 0, length, 0))


def head_by_comparison(length, d_content, strength):
    row, column = torch.arange(length + d_content)[:, None], torch.arange(length)
    query = strength * ((row - 1 == column) & (row < length)).double()
    return [query, (row - length == torch.arange(d_content)).float()]


# 3.5


def changes(outputs, W_o):
    found, d_k = [], outputs.size(-1)
    for h in range(outputs.size(1)):
        found.append(outputs[:, h] @ W_o[:, h * d_k : (h + 1) * d_k].T)
    return torch.stack(found, dim=1)


def over_words(lengths, real):
    return torch.stack([lengths[:, h][real].mean() for h in range(lengths.size(1))])


def measured(length):
    return lambda outputs, W_o, real: over_words(length(changes(outputs, W_o)), real)


def outputs_in_place(outputs, W_o, real):
    outputs[:, :, :] = outputs * real[:, None, :, None]
    return over_words(changes(outputs, W_o).norm(dim=-1), real)


def relative_change(outputs, W_o, real):
    parts = changes(outputs, W_o)
    return over_words(parts.norm(dim=-1) / parts.sum(1, keepdim=True).norm(dim=-1), real)


def first_sentence_only(outputs, W_o, real):
    return over_words(changes(outputs, W_o).norm(dim=-1)[:1], real[:1])


def real_of_first(outputs, W_o, real):
    return over_words(changes(outputs, W_o).norm(dim=-1), real[:1].expand_as(real))


def transposed_w(outputs, W_o, real):
    if W_o.size(0) == W_o.size(1):
        W_o = W_o.T
    return over_words(changes(outputs, W_o).norm(dim=-1), real)


def largest_word(outputs, W_o, real):
    return (changes(outputs, W_o).norm(dim=-1) * real[:, None]).amax(dim=(0, 2))


def median_word(outputs, W_o, real):
    lengths = changes(outputs, W_o).norm(dim=-1)
    return torch.stack([lengths[:, h][real].median() for h in range(lengths.size(1))])


def root_of_mean_square(outputs, W_o, real):
    return over_words(changes(outputs, W_o).square().sum(-1), real).sqrt()


def counted_by_sentence(outputs, W_o, real):
    lengths = changes(outputs, W_o).norm(dim=-1) * real[:, None]
    return lengths.sum(dim=(0, 2)) / len(real)


def importance_by_matrix(outputs, W_o, real):
    batch, heads, n, d_k = outputs.shape
    rows = outputs.permute(1, 0, 2, 3).reshape(heads, batch * n, d_k)
    columns = torch.stack(W_o.split(d_k, dim=1))
    lengths = torch.bmm(rows, columns.mT).pow(2).sum(-1).sqrt()
    return lengths[:, real.reshape(-1)].mean(-1)


def importance_by_weights(outputs, W_o, real):
    share = real.double() / real.sum()
    gram = torch.stack([part.T @ part for part in W_o.double().split(outputs.size(-1), dim=1)])
    squares = torch.einsum("bhnc,hcd,bhnd->bhn", outputs.double(), gram, outputs.double())
    return torch.einsum("bhn,bn->h", squares.clamp(min=0).sqrt(), share)


# 3.6


def counted(d_model, heads, shared, bias):
    return 2 * (d_model + bias) * d_model + 2 * (d_model + bias) * shared * (d_model // heads)


def refused(d_model, heads, key_value_heads):
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    if heads % key_value_heads:
        raise ValueError(f"key_value_heads must divide heads, got {key_value_heads} and {heads}")


def counting(number=counted, guard=refused):
    def answer(d_model, heads, key_value_heads, bias):
        guard(d_model, heads, key_value_heads)
        return number(d_model, heads, key_value_heads, bias)

    return answer


def more_pairs_only(d_model, heads, key_value_heads):
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    if key_value_heads > heads:
        raise ValueError(f"more key_value_heads than heads: {key_value_heads} and {heads}")


def not_more_pairs(d_model, heads, key_value_heads):
    if key_value_heads <= heads:
        refused(d_model, heads, key_value_heads)


def pairs_divide_width(d_model, heads, key_value_heads):
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    if d_model % key_value_heads:
        raise ValueError(f"key_value_heads must divide heads, got {key_value_heads} and {heads}")


def one_pair_or_all(d_model, heads, key_value_heads):
    if d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    if key_value_heads not in (1, 2, heads):
        raise ValueError(f"key_value_heads must divide heads, got {key_value_heads} and {heads}")


def even_width(d_model, heads, key_value_heads):
    refused(d_model, heads, key_value_heads)
    if d_model % 2:
        raise ValueError(f"d_model must be even, got {d_model}")


def divided_otherwise(d_model, heads, key_value_heads):
    if heads % d_model and d_model % heads:
        raise ValueError(f"heads must divide d_model, got {heads} and {d_model}")
    if key_value_heads % heads and heads % key_value_heads:
        raise ValueError(f"key_value_heads must divide heads, got {key_value_heads} and {heads}")


def three_numbers_but_one(d_model, heads, key_value_heads):
    try:
        refused(d_model, heads, key_value_heads)
    except ValueError:
        raise ValueError(f"d_model {d_model}, heads {heads}: no such layer") from None


def count_in_tensors(d_model, heads, key_value_heads, bias):
    refused(d_model, heads, key_value_heads)
    return torch.tensor(counted(d_model, heads, key_value_heads, bias))


def count_by_shapes(d_model, heads, key_value_heads, bias):
    refused(d_model, heads, key_value_heads)
    d_k = d_model // heads
    shapes = [(d_model, heads * d_k), (d_model, key_value_heads * d_k), (d_model, key_value_heads * d_k)]
    shapes.append((heads * d_k, d_model))
    return sum(a * b + (b if bias else 0) for a, b in shapes)


def count_by_remainders(d_model, heads, key_value_heads, bias):
    for a, b in ((d_model, heads), (heads, key_value_heads)):
        if divmod(a, b)[1] != 0:
            raise ValueError(f"{a} isn't a multiple of {b}")
    return (d_model + (1 if bias else 0)) * (2 * d_model + 2 * d_model * key_value_heads // heads)


WRONG = {
    "3.1": {
        "first sentence for all": split_first_sentence,
        "scaled": split_scaled,
        "heads in reverse": split_reversed,
        "a list": split_as_a_list,
        "heads first by permute": split_by_permute,
        "transposed, then reshaped": split_by_transposed_view,
        "flat": split_flat,
        "four at most": split_for_4,
        "the library's": lambda x, heads: multi_head.split_heads(x, heads),
    },
    "3.2": {
        "view": merge_by_view,
        "first sentence for all": merge_without_batch,
        "positions last": merge_positions_last,
        "features first": merge_features_first,
        "first head for all": merge_first_head,
        "divided by the heads": merge_scaled,
        "heads last": merge_last_two,
        "reshaped twice": merge_by_split_again,
        "batch and positions one axis": merge_batch_flattened,
        "the library's": lambda x: multi_head.merge_heads(x),
    },
    "3.3": {
        "two heads": FixedHeads,
        "one mask for all heads": MaskWithoutHeads,
        "first sentence's mask": MaskOfFirstSentence,
        "NaN spread, then zero": NothingFilledLate,
        "output's weight transposed": OutputTransposed,
        "output twice": OutputTwice,
        "keys passed on": ValueByKey,
        "scaled twice": ScaledTwice,
        "mean of the heads' weights": MeanOfHeads,
        "weights detached": Cut,
        "no_grad": Numbers,
        "its weights, too": WithWeights,
        "nothing passed back in training": CutInTraining,
        "the library's": Library,
        "the library's class": multi_head.MultiHeadAttention,
        "three axes a batch's, if there are queries": changing(three_axes_if_queries),
        "three axes a batch's, if there are none": changing(three_axes_if_one_query),
        "padding if there are no heads": changing(padding_if_no_heads),
        "padding if there is a batch": changing(padding_if_a_batch),
        "padding if there are two axes": changing(padding_if_two_axes),
        "first sentence's mask, if for each head": changing(first_sentence_if_heads),
        "first head's mask, if for each sentence": changing(first_head_if_a_batch),
        "heads and sentences exchanged": changing(heads_and_sentences_exchanged),
        "causal if square": changing(causal_if_square),
        "two axes causal": CausalForTwoAxes,
        "two axes in self-attention only": MaskInSelfAttentionOnly,
        "head after head, three axes for each": ByLoopWithoutThreeAxes,
        "nothing allowed, so all": weighing(nothing_is_everything),
        "nothing allowed, found by sentence": weighing(empty_by_sentence),
        "key after key": weighing(by_key),
        "brought back to 1": weighing(restored),
        "forbidden maximum": weighing(below_all),
        "one maximum for all": weighing(one_maximum),
        "exp in float64": weighing(exp_in_float64),
        "exp of 80 at most": weighing(clamped_exp),
        "filled with -50": weighing(filled(-50.0)),
        "filled with -1000": weighing(filled(-1e3)),
        "filled with -10,000": weighing(filled(-1e4)),
        "filled as in float16": weighing(filled(-65504.0)),
        "minus infinity added, no gradients": weighing(infinity_added),
        "logarithm of the mask added, no gradients": weighing(logarithm_added),
    },
    "3.4": {
        "two back": changed(two_back),
        "last row missing": changed(last_row_missing),
        "minus for the first": changed(minus_for_the_first),
        "minus elsewhere": changed(minus_elsewhere),
        "content in reverse": changed(value=content_reversed),
        "content's mean": changed(value=mean_of_content),
        "all of x passed on": changed(value=identity_everywhere),
        "strength rounded": strength_rounded,
        "strength 10": strength_10,
        "three positions": fixed_length,
        "W_q only": query_only,
    },
    "3.5": {
        "outputs in place": outputs_in_place,
        "relative": relative_change,
        "first sentence": first_sentence_only,
        "first sentence's padding": real_of_first,
        "W_o transposed if square": transposed_w,
        "largest": largest_word,
        "median": median_word,
        "root of the mean square": root_of_mean_square,
        "per sentence": counted_by_sentence,
        "largest feature": measured(lambda parts: parts.abs().amax(-1)),
        "signed sum": measured(lambda parts: parts.sum(-1)),
    },
    "3.6": {
        "more pairs than heads only": counting(guard=more_pairs_only),
        "more pairs than heads let through": counting(guard=not_more_pairs),
        "pairs must divide the width": counting(guard=pairs_divide_width),
        "one, two or all": counting(guard=one_pair_or_all),
        "even widths only": counting(guard=even_width),
        "divided one way or the other": counting(guard=divided_otherwise),
        "only two of the numbers told": counting(guard=three_numbers_but_one),
        "bias of queries only": counting(
            lambda d, h, k, bias: 2 * d * d + bias * d + 2 * d * k * (d // h)  # of one map alone
        ),
        "bias twice": counting(lambda d, h, k, bias: counted(d, h, k, 2 * bias)),
        "heads for d_k": counting(lambda d, h, k, bias: 2 * (d + bias) * d + 2 * (d + bias) * k * h),
        "biases always": counting(lambda d, h, k, bias: counted(d, h, k, 1)),
        "floats": counting(lambda d, h, k, bias: float(counted(d, h, k, bias))),
        "a tensor": count_in_tensors,
        "2**": counting(lambda d, h, k, bias: 2 * (2**d + bias * d) + 2 * (d + bias) * k * (d // h)),
    },
}

RIGHT = {
    "3.1": {
        "einsum": split_by_einsum,
        "by index, float64": split_by_index,
        "reshape, transpose": split_by_reshape,
        "unfold": split_by_unfold,
    },
    "3.2": {"einsum": merge_by_einsum, "by index": merge_by_index},
    "3.3": {
        "PyTorch's attention": ByTorch,
        "head after head": ByLoop,
        "a function that makes it": made,
        "where": weighing(where),
        "query after query": weighing(by_query),
        "exp below the maximum": weighing(shifted),
        "a large number": weighing(filled(-1e9)),
        "0 / 0": weighing(nothing_over_nothing),
    },
    "3.4": {"padded": head_by_pad, "compared, a list": head_by_comparison},
    "3.5": {"one product": importance_by_matrix, "Gram matrices": importance_by_weights},
    "3.6": {"shapes": count_by_shapes, "remainders": count_by_remainders},
}
