"""Answers to chapter 06's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import encoder_decoder, layers, multi_head

# 6.1


class Layer(encoder_decoder.DecoderLayer):
    """The right layer, as in the notebook."""

    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        x = self.residuals[0](x, lambda y: self.self_attention(y, y, mask, caches[0]))
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_mask, caches[1]))
        return self.residuals[2](x, self.feed_forward)


class CachesIgnored(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        return super().forward(x, memory, mask, memory_mask)


class CachesExchanged(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        return super().forward(x, memory, mask, memory_mask, caches[::-1])


class OwnCacheOnly(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        return super().forward(x, memory, mask, memory_mask, (caches[0], None))


class OneCacheForBoth(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        return super().forward(x, memory, mask, memory_mask, (caches[0], caches[0]))


class NoCaches(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, memory_mask)


class MemoryMaskNeeded(Layer):
    def forward(self, x, memory, mask, memory_mask, caches=(None, None)):
        return super().forward(x, memory, mask, memory_mask, caches)


class AlwaysCausal(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        if mask is None and caches[0] is None:
            mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        return super().forward(x, memory, mask, memory_mask, caches)


class MasksOfTheFirst(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        memory_mask = None if memory_mask is None else memory_mask[:1]
        return super().forward(x, memory, mask, memory_mask, caches)


class MaskOnlyIfBoth(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        if mask is None or memory_mask is None:
            mask = memory_mask = None
        return super().forward(x, memory, mask, memory_mask, caches)


class AddedTwice(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        x = self.residuals[0](x, lambda y: self.self_attention(y, y, mask, caches[0]))
        x = x + self.residuals[1](x, lambda y: self.cross_attention(y, memory, memory_mask, caches[1]))
        return self.residuals[2](x, self.feed_forward)


class OutsideInputs(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        y = self.residuals[0](x, lambda _: self.self_attention(x, x, mask, caches[0]))
        z = self.residuals[1](y, lambda _: self.cross_attention(y, memory, memory_mask, caches[1]))
        return self.residuals[2](z, lambda _: self.feed_forward(z))


class NormsInDisorder(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        x = self.residuals[1](x, lambda y: self.self_attention(y, y, mask, caches[0]))
        x = self.residuals[0](x, lambda y: self.cross_attention(y, memory, memory_mask, caches[1]))
        return self.residuals[2](x, self.feed_forward)


class AttentionsExchanged(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        x = self.residuals[0](x, lambda y: self.cross_attention(y, y, mask, caches[0]))
        x = self.residuals[1](x, lambda y: self.self_attention(y, memory, memory_mask, caches[1]))
        return self.residuals[2](x, self.feed_forward)


class MemoryCut(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        return super().forward(x, memory.detach(), mask, memory_mask, caches)


class Parent(encoder_decoder.DecoderLayer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        return super().forward(x, memory, mask, memory_mask, caches)


class Untouched(encoder_decoder.DecoderLayer):
    pass


def masked(own=lambda mask, x, caches: mask, cross=lambda mask, x, caches: mask):
    """Return the right layer, but that it does something to its masks."""

    class Other(Layer):
        def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
            mask = None if mask is None else own(mask, x, caches)
            memory_mask = None if memory_mask is None else cross(memory_mask, x, caches)
            return super().forward(x, memory, mask, memory_mask, caches)

    return Other


def around(connection):
    """Return the layer with another residual connection; it's given the residual, x and the sub-layer."""

    class Other(encoder_decoder.DecoderLayer):
        def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
            first, second, third = self.residuals
            x = connection(first, x, lambda y: self.self_attention(y, y, mask, caches[0]))
            x = connection(second, x, lambda y: self.cross_attention(y, memory, memory_mask, caches[1]))
            return connection(third, x, self.feed_forward)

    return Other


def dropped_before(r, x, f):
    return x + f(r.dropout(r.norm(x))) if r.norm_first else r.norm(x + f(r.dropout(x)))


def dropped_sum(r, x, f):
    return r.dropout(x + f(r.norm(x))) if r.norm_first else r.norm(r.dropout(x + f(x)))


def dropped_in_pre_norm(r, x, f):
    return r(x, f) if r.norm_first else r.norm(x + f(x))


def always_dropped(r, x, f):
    def drop(y):
        return F.dropout(y, r.dropout.p)

    return x + drop(f(r.norm(x))) if r.norm_first else r.norm(x + drop(f(x)))


def dropped_by_function(r, x, f):
    y = F.dropout(f(r.norm(x) if r.norm_first else x), r.dropout.p, r.training) + x
    return y if r.norm_first else r.norm(y)


class PromptUncached(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        return super().forward(x, memory, mask, memory_mask, (None, None) if x.size(1) > 1 else caches)


class PromptCutShort(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        if caches[0] is not None:
            return super().forward(x[:, -1:], memory, None, memory_mask, caches).expand_as(x)
        return super().forward(x, memory, mask, memory_mask, caches)


class WordByWord(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        if caches[0] is None or x.size(1) == 1:
            return super().forward(x, memory, mask, memory_mask, caches)
        steps = [super(WordByWord, self).forward(y, memory, None, memory_mask, caches) for y in x.split(1, dim=1)]
        return torch.cat(steps, dim=1)


class Evaluating(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        self.eval()
        return super().forward(x, memory, mask, memory_mask, caches)


def without_attention_dropout():
    class Other(Layer):
        def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
            self.residuals[0].eval()
            self.residuals[1].eval()
            return super().forward(x, memory, mask, memory_mask, caches)

    return Other


class Sketched(nn.Module):
    """The right layer from its own constructor."""

    def __init__(self, d_model, heads, d_ff, norm="pre", dropout=0.0):
        super().__init__()
        self.self_attention = multi_head.MultiHeadAttention(d_model, heads)
        self.cross_attention = multi_head.MultiHeadAttention(d_model, heads)
        self.feed_forward = layers.FeedForward(d_model, d_ff)
        self.residuals = nn.ModuleList([layers.Residual(d_model, dropout, norm) for _ in range(3)])

    def forward(self, x, memory, mask=None, memory_mask=None, caches=(None, None)):
        def own(y):
            return self.self_attention(y, y, mask=mask, cache=caches[0])

        def cross(y):
            return self.cross_attention(y, memory, mask=memory_mask, cache=caches[1])

        for residual, part in zip(self.residuals, (own, cross, self.feed_forward), strict=True):
            x = residual(x, part)
        return x


class WrittenOut(encoder_decoder.DecoderLayer):
    def forward(self, target, memory, mask=None, memory_mask=None, caches=(None, None)):
        first, second, third = self.residuals
        before = (lambda r, y: r.norm(y)) if first.norm_first else (lambda r, y: y)
        after = (lambda r, y: y) if first.norm_first else (lambda r, y: r.norm(y))
        y = before(first, target)
        x = after(first, target + first.dropout(self.self_attention(y, y, mask, caches[0])))
        y = self.cross_attention(before(second, x), memory, memory_mask, caches[1])
        x = after(second, x + second.dropout(y))
        return after(third, x + third.dropout(self.feed_forward(before(third, x))))


# 6.2


def normal(x, gain, shift, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * gain + shift


def with_norm(norm_of):
    def answer(x, W, gain, shift, norm):
        return x + norm_of(x, gain, shift) @ W if norm == "pre" else norm_of(x + x @ W, gain, shift)

    return answer


def x_in_place(x, W, gain, shift, norm):
    if norm == "pre":
        x += normal(x, gain, shift) @ W
        return x
    return normal(x + x @ W, gain, shift)


def transposed(x, W, gain, shift, norm):
    return with_norm(normal)(x, W.T, gain, shift, norm)


def residual_of_the_norm(x, W, gain, shift, norm):
    return normal(x, gain, shift) + x @ W if norm == "pre" else normal(x + x @ W, gain, shift)


def norm_of_part(x, W, gain, shift, norm):
    return x + normal(x, gain, shift) @ W if norm == "pre" else x + normal(x @ W, gain, shift)


def both(x, W, gain, shift, norm):
    out = x + normal(x, gain, shift) @ W
    return normal(out, gain, shift) if norm == "post" else out


def anything_else_is_post(x, W, gain, shift, norm):
    return with_norm(normal)(x, W, gain, shift, "post" if norm != "Pre" else "pre")


def shift_scaled(x, gain, shift):
    return (normal(x, torch.ones_like(gain), torch.zeros_like(shift)) + shift) * gain


def variance_over_all(x, gain, shift):
    return (x - x.mean(-1, keepdim=True)) / (x.var(unbiased=False) + 1e-5).sqrt() * gain + shift


def mean_square_about_zero(x, gain, shift):
    return (x - x.mean(-1, keepdim=True)) / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain + shift


def by_squares(dtype=None, least=None):
    """Return a norm whose variance is the mean of the squares less the square of the mean."""

    def own(x, gain, shift):
        y = x.to(dtype or x.dtype)
        mean = y.mean(-1, keepdim=True)
        variance = y.square().mean(-1, keepdim=True) - mean.square()
        variance = variance if least is None else variance.clamp(min=least)
        return ((y - mean) / (variance + 1e-5).sqrt()).to(x.dtype) * gain + shift

    return own


def in_half(x, gain, shift):
    return normal(x.half().to(x.dtype), gain, shift)


def added_by_torch(x, W, gain, shift, norm):
    layer = nn.LayerNorm(x.size(-1), dtype=x.dtype)
    layer.weight.data, layer.bias.data = gain, shift
    return x + layer(x) @ W if norm == "pre" else layer(x + x @ W)


def added_by_moments(x, W, gain, shift, norm):
    def own(y):
        y = y.double()
        variance, mean = torch.var_mean(y, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(shift.double(), (y - mean) * torch.rsqrt(variance + 1e-5), gain.double())

    return torch.add(x, torch.matmul(own(x), W.double())) if norm == "pre" else own(x + torch.matmul(x, W))


# 6.3


def crossed(x, memory, real, W_q, W_k, W_v, mask=None, scale=None):
    scores = (x @ W_q) @ (memory @ W_k).mT / (scale or math.sqrt(W_q.size(1)))
    scores = scores.masked_fill(~(real[:, None, :] if mask is None else mask), -math.inf)
    return scores.softmax(-1) @ (memory @ W_v)


def by_lengths(x, memory, real, W_q, W_k, W_v):
    seen = torch.arange(memory.size(1)) < real.sum(1, keepdim=True)
    return crossed(x, memory, seen, W_q, W_k, W_v)


def first_source(x, memory, real, W_q, W_k, W_v):
    return crossed(x, memory[:1].expand(len(x), -1, -1), real, W_q, W_k, W_v)


def padding_zeroed(x, memory, real, W_q, W_k, W_v):
    memory = memory * real[..., None]
    return crossed(x, memory, torch.ones_like(real), W_q, W_k, W_v)


def memory_in_place(x, memory, real, W_q, W_k, W_v):
    memory[~real] = 0.0
    return crossed(x, memory, real, W_q, W_k, W_v)


def weights_scaled_after(x, memory, real, W_q, W_k, W_v):
    weights = ((x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))).softmax(-1)
    return weights @ (memory @ W_v * real[..., None])


def scale_of_values(x, memory, real, W_q, W_k, W_v):
    return crossed(x, memory, real, W_q, W_k, W_v, scale=math.sqrt(W_v.size(1)))


def keys_and_queries(x, memory, real, W_q, W_k, W_v):
    return crossed(x, memory, real, W_k, W_q, W_v)


def minus_ten(x, memory, real, W_q, W_k, W_v):
    scores = (x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))
    return (scores - 10.0 * ~real[:, None, :]).softmax(-1) @ (memory @ W_v)


def minus_fifty(x, memory, real, W_q, W_k, W_v):
    scores = (x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))
    return scores.masked_fill(~real[:, None, :], -50.0).softmax(-1) @ (memory @ W_v)


def rescaled(least=None, shift=None):
    """Return an attention that hides padding after the softmax, or after exp."""

    def answer(x, memory, real, W_q, W_k, W_v):
        scores = (x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))
        weights = scores.softmax(-1) if shift is None else (scores - shift(scores)).exp()
        weights = weights * real[:, None, :]
        total = weights.sum(-1, keepdim=True)
        return weights / (total if least is None else total.clamp(min=least)) @ (memory @ W_v)

    return answer


def largest_word_of_all(x, memory, real, W_q, W_k, W_v):
    scores = ((x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))).masked_fill(~real[:, None, :], -math.inf)
    weights = (scores - scores.max()).exp()
    return weights / weights.sum(-1, keepdim=True) @ (memory @ W_v)


def padding_far_below(x, memory, real, W_q, W_k, W_v):
    scores = (x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))
    return (scores - 300.0 * ~real[:, None, :]).softmax(-1) @ (memory @ W_v)


def crossed_by_exp(x, memory, real, W_q, W_k, W_v):
    scores = ((x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))).masked_fill(~real[:, None, :], -math.inf)
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights @ (memory @ W_v) / weights.sum(-1, keepdim=True)


def residual_too(x, memory, real, W_q, W_k, W_v):
    found = crossed(x, memory, real, W_q, W_k, W_v)
    return found + x if found.shape == x.shape else found * 2


def diagonal_if_square(x, memory, real, W_q, W_k, W_v):
    mask = real[:, None, :]
    if x.size(1) == memory.size(1):
        mask = mask & torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril() | mask & ~mask.cumsum(-1).gt(1)
    return crossed(x, memory, real, W_q, W_k, W_v, mask=mask)


def softmax_over_targets(x, memory, real, W_q, W_k, W_v):
    scores = (x @ W_q) @ (memory @ W_k).mT / math.sqrt(W_q.size(1))
    return (scores.softmax(-2) * real[:, None, :]) @ (memory @ W_v)


def crossed_by_torch(x, memory, real, W_q, W_k, W_v):
    return F.scaled_dot_product_attention(x @ W_q, memory @ W_k, memory @ W_v, attn_mask=real[:, None, :])


def crossed_by_words(x, memory, real, W_q, W_k, W_v):
    out = torch.zeros(*x.shape[:2], W_v.size(1), dtype=torch.float64)
    for b in range(len(x)):
        for i in range(x.size(1)):
            places = real[b].nonzero().flatten().tolist()
            scores = [float(x[b, i] @ W_q @ (memory[b, j] @ W_k)) / math.sqrt(W_k.size(1)) for j in places]
            powers = torch.tensor(scores, dtype=torch.float64).softmax(0)
            out[b, i] = sum(p * (memory[b, j] @ W_v).double() for p, j in zip(powers, places, strict=True))
    return out


# 6.4


def tied(tokens, table, x):
    return table[tokens] * math.sqrt(table.size(1)), x @ table.T


def table_in_place(tokens, table, x):
    logits = x @ table.T
    table *= math.sqrt(table.size(1))
    return table[tokens], logits


def scaled_by_512(tokens, table, x):
    return table[tokens] * math.sqrt(512), x @ table.T


def vectors_plus_positions(tokens, table, x):
    return table[tokens] * math.sqrt(table.size(1)) + torch.arange(tokens.size(1))[:, None], x @ table.T


def log_probabilities(tokens, table, x):
    return table[tokens] * math.sqrt(table.size(1)), (x @ table.T).log_softmax(-1)


def square_table(tokens, table, x):
    return table[tokens] * math.sqrt(table.size(1)), x @ (table if table.size(0) == table.size(1) else table.T)


def last_position(tokens, table, x):
    return table[tokens] * math.sqrt(table.size(1)), x[:, -1] @ table.T


def first_sentence(tokens, table, x):
    vectors, logits = tied(tokens, table, x)
    return vectors, logits[:1].expand_as(logits)


def tokens_from_one(tokens, table, x):
    return table[(tokens - 1) % len(table)] * math.sqrt(table.size(1)), x @ table.T


def padding_zero(tokens, table, x):
    vectors, logits = tied(tokens, table, x)
    return vectors * (tokens != 0)[..., None], logits


def logits_only(tokens, table, x):
    return tied(tokens, table, x)[1]


def normalised_rows(tokens, table, x):
    return F.normalize(table[tokens], dim=-1) * math.sqrt(table.size(1)), x @ table.T


def tied_by_embedding(tokens, table, x):
    return F.embedding(tokens, table).mul(table.size(-1) ** 0.5), F.linear(x, table)


def tied_by_rows(tokens, table, x):
    vectors = torch.stack([torch.index_select(table.double(), 0, row) for row in tokens])
    logits = [torch.stack([torch.mv(table.double(), v.double()) for v in row]) for row in x]
    return [vectors * math.sqrt(table.shape[1]), torch.stack(logits)]


# 6.5


def shown(source, padding):
    return (source != padding)[:, None, None, :]


def refusing(shapes=lambda x, m, s: s != m[:2] or x[::2] != m[::2], dtype=None, mask=shown):
    def answer(x, memory, source, padding):
        if (dtype or (lambda s: s.is_floating_point() or s.dtype == torch.bool))(source):
            raise TypeError(f"source must hold integers, got {source.dtype}")
        if shapes(tuple(x.shape), tuple(memory.shape), tuple(source.shape)):
            raise ValueError(f"x {list(x.shape)}, memory {list(memory.shape)}, source {list(source.shape)}")
        return mask(source, padding)

    return answer


def larger_ids(source, padding):
    return (source > padding)[:, None, None, :]


def by_length(source, padding):
    return (torch.arange(source.size(1)) < (source != padding).sum(1, keepdim=True))[:, None, None, :]


def last_is_padding(source, padding):
    mask = shown(source, padding)
    mask[..., -1] = False
    return mask


def at_least_one(source, padding):
    mask = shown(source, padding)
    mask[..., 0] |= ~mask.any(-1)
    return mask


def first_row(source, padding):
    return shown(source[:1].expand_as(source), padding)


def one_of(*dtypes):
    return lambda source: source.dtype in dtypes


def none_of(*dtypes):
    return lambda source: source.dtype not in dtypes


def sizes_compared(x, m, s):
    return s[0] != m[0] or s[1] != m[1] or x[::2] != m[::2]


def two_shapes_told(x, memory, source, padding):
    if source.is_floating_point() or source.dtype == torch.bool:
        raise TypeError(f"source must hold integers, got {source.dtype}")
    if source.shape != memory.shape[:2] or x.shape[::2] != memory.shape[::2]:
        raise ValueError(f"memory {list(memory.shape)}, source {list(source.shape)}")
    return shown(source, padding)


def squeezed_batches(x, memory, source, padding):
    if len(memory) == 1 and len(x) > 1 and len(source) == 1:
        raise ValueError(f"x {list(x.shape)}, memory {list(memory.shape)}")
    return refusing(lambda x, m, s: s != m[:2] or (x[0] % m[0]) or x[2] != m[2])(x, memory, source, padding)


def mask_by_names(x, memory, source, padding):
    if source.dtype not in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        raise TypeError(f"{source.dtype}")
    b, m, d = memory.shape
    if source.size() != (b, m):
        raise ValueError(f"source of {tuple(source.shape)} for memory of {tuple(memory.shape)}")
    if len(x) != b or x.size(-1) != d:
        raise ValueError(f"x of {tuple(x.shape)} for memory of {tuple(memory.shape)}")
    return torch.ne(source, padding).view(b, 1, 1, m)


def mask_by_where(x, memory, source, padding):
    if torch.is_floating_point(source) or source.dtype is torch.bool:
        raise TypeError(f"not {source.dtype}")
    try:
        assert source.shape == memory.shape[:2]
        assert x.shape[0] == memory.shape[0] and x.shape[-1] == memory.shape[-1]
    except AssertionError:
        raise ValueError(f"{list(x.shape)} {list(memory.shape)} {list(source.shape)}") from None
    return torch.where(source == padding, False, True).unsqueeze(1).unsqueeze(1)


def mask_by_limits(x, memory, source, padding):
    try:
        torch.iinfo(source.dtype)
    except TypeError:
        raise TypeError(f"tokens are integers, got {source.dtype}") from None
    if (*source.shape, x.size(-1)) != tuple(memory.shape) or x.size(0) != source.size(0):
        raise ValueError(f"x {list(x.shape)}, memory {list(memory.shape)}, source {list(source.shape)}")
    return source.sub(padding).bool()[:, None, None]


# 6.6


def rated(weights, sure, possible, words, counted=None, below=None):
    """Return error rates; other rows may count above, or below."""
    best = weights.argmax(-1).transpose(1, 2)
    hits = (sure.gather(2, best).to(weights.dtype) + possible.gather(2, best)) * (
        words if counted is None else counted
    )[..., None]
    return 1 - hits.sum((0, 1)) / ((words.sum() if below is None else below) + sure[words].sum())


def padding_above(weights, sure, possible, words):
    return rated(weights, sure, possible, words, counted=torch.ones_like(words))


def padding_below(weights, sure, possible, words):
    return rated(weights, sure, possible, words, below=words.numel())


def marks_of_padding(weights, sure, possible, words):
    return rated(weights, sure, possible, words, below=words.sum() + sure[~words].sum())


def rows_with_links_only(weights, sure, possible, words):
    rows = words & possible.any(-1)
    return rated(weights, sure, possible, words, counted=rows, below=rows.sum())


def rows_with_sure_links_only(weights, sure, possible, words):
    rows = words & sure.any(-1)
    return rated(weights, sure, possible, words, counted=rows, below=rows.sum())


def one_sure_link_a_row(weights, sure, possible, words):
    best = weights.argmax(-1).transpose(1, 2)
    hits = (sure.gather(2, best).to(weights.dtype) + possible.gather(2, best)) * words[..., None]
    return 1 - hits.sum((0, 1)) / (words.sum() + (sure.any(-1) & words).sum())


def possible_or_sure_twice(weights, sure, possible, words):
    best = weights.argmax(-1).transpose(1, 2)
    hits = torch.maximum(2 * sure.gather(2, best).to(weights.dtype), possible.gather(2, best).to(weights.dtype))
    return 1 - (hits * words[..., None]).sum((0, 1)) / (words.sum() + possible[words].sum())


def soft_links(weights, sure, possible, words):
    hits = (weights * (sure.to(weights.dtype) + possible.to(weights.dtype))[:, None] * words[:, None, :, None]).sum(
        (0, 2, 3)
    )
    return 1 - hits / (words.sum() + sure[words].sum())


def half_as_threshold(weights, sure, possible, words):
    found = (weights > 0.5) & words[:, None, :, None]
    hits = (found & sure[:, None]).sum((0, 2, 3)) + (found & possible[:, None]).sum((0, 2, 3))
    return (1 - hits / (found.sum((0, 2, 3)) + sure.sum())).to(weights.dtype)


def first_sentence_rated(weights, sure, possible, words):
    return rated(weights[:1], sure[:1], possible[:1], words[:1])


def one_number(weights, sure, possible, words):
    return rated(weights, sure, possible, words).mean()


def zero_dimensional_when_perfect(weights, sure, possible, words):
    return rated(weights, sure, possible, words).clamp(min=0.1)


def rates_by_counting(weights, sure, possible, words):
    found = []
    for h in range(weights.size(1)):
        hits = total = 0
        for b, t in words.nonzero().tolist():
            s = max(range(weights.size(3)), key=lambda s: weights[b, h, t, s].item())
            hits += int(sure[b, t, s]) + int(possible[b, t, s])
            total += 1
        found.append(1 - hits / (total + int(sure[words].sum())))
    return torch.tensor(found, dtype=weights.dtype)


def rates_by_picks(weights, sure, possible, words):
    rows, links = weights.transpose(1, 2)[words], sure.double()[words] + possible.double()[words]
    top = F.one_hot(rows.argmax(-1), weights.size(-1)).double()
    return (1 - torch.einsum("rhs,rs->h", top, links) / (len(rows) + sure[words].count_nonzero())).to(weights.dtype)


def largest_of_words(weights, sure, possible, words):
    weights = weights.masked_fill(~words[:, None, :, None], 0.0)
    largest = weights.amax(-1, keepdim=True)
    found = (weights == largest) & (largest > 0)
    hits = sum((found & links[:, None]).sum((0, 2, 3)) for links in (sure, possible))
    return (1 - hits / (found.sum((0, 2, 3)) + sure[words].sum())).to(weights.dtype)


def nearly_largest(weights, sure, possible, words):
    found = weights.isclose(weights.amax(-1, keepdim=True)) & words[:, None, :, None]
    hits = sum((found & links[:, None]).sum((0, 2, 3)) for links in (sure, possible))
    return (1 - hits / (found.sum((0, 2, 3)) + sure[words].sum())).to(weights.dtype)


def no_link_from_a_tie(weights, sure, possible, words):
    largest = weights == weights.amax(-1, keepdim=True)
    found = largest & (largest.sum(-1, keepdim=True) == 1) & words[:, None, :, None]
    hits = sum((found & links[:, None]).sum((0, 2, 3)) for links in (sure, possible))
    return (1 - hits / (found.sum((0, 2, 3)) + sure[words].sum())).to(weights.dtype)


def rates_of_the_last(weights, sure, possible, words):
    best = (weights.size(-1) - 1 - weights.flip(-1).argmax(-1)).transpose(1, 2)
    hits = (sure.gather(2, best).double() + possible.gather(2, best)) * words[..., None]
    return (1 - hits.sum((0, 1)) / (words.sum() + sure[words].sum())).to(weights.dtype)


def rates_in(dtype):
    return lambda *inputs: rates_by_picks(*inputs).to(dtype)


WRONG = {
    "6.1": {
        "caches ignored": CachesIgnored,
        "caches exchanged": CachesExchanged,
        "own cache only": OwnCacheOnly,
        "one cache for both": OneCacheForBoth,
        "no caches in the signature": NoCaches,
        "masks needed": MemoryMaskNeeded,
        "always causal": AlwaysCausal,
        "first sentence's mask": MasksOfTheFirst,
        "both masks or none": MaskOnlyIfBoth,
        "added twice": AddedTwice,
        "norms not read": OutsideInputs,
        "norms in disorder": NormsInDisorder,
        "attentions exchanged": AttentionsExchanged,
        "memory detached": MemoryCut,
        "causal where there's a mask": masked(
            lambda m, x, c: torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        ),
        "causal where the mask is square": masked(lambda m, x, c: m.tril() | m.new_ones(m.shape[-2:]).tril()),
        "two axes before the mask": masked(lambda m, x, c: m[None, None]),
        "an axis after the batch": masked(lambda m, x, c: m.unsqueeze(1) if m.dim() == 3 else m),
        "first sentence's target mask": masked(lambda m, x, c: m[:1] if m.dim() == 4 else m),
        "first head's mask": masked(lambda m, x, c: m[:1] if m.dim() == 3 else m),
        "target's padding alone": masked(lambda m, x, c: m[..., -1:, :]),
        "first query's memory mask": masked(cross=lambda m, x, c: m[:, :1, :1]),
        "last query's memory mask": masked(cross=lambda m, x, c: m[..., -1:, :]),
        "memory's mask of a sentence": masked(cross=lambda m, x, c: m.flatten(1)[:, -m.size(-1) :][:, None, None]),
        "no mask with caches": masked(lambda m, x, c: m if c[0] is None else None),
        "the mask's last row with caches": masked(lambda m, x, c: m if c[0] is None else m[..., -1:, :]),
        "prompt not cached": PromptUncached,
        "prompt cut short": PromptCutShort,
        "prompt without its mask": WordByWord,
        "dropout left out": around(lambda r, x, f: x + f(r.norm(x)) if r.norm_first else r.norm(x + f(x))),
        "dropout before the sub-layer": around(dropped_before),
        "dropout of the sum": around(dropped_sum),
        "dropout in pre-norm alone": around(dropped_in_pre_norm),
        "dropout always": around(always_dropped),
        "dropout of the last alone": without_attention_dropout(),
        "always evaluating": Evaluating,
        "the library's, by super().forward": Parent,
        "the library's, nothing overwritten": Untouched,
        "the library's class": encoder_decoder.DecoderLayer,
    },
    "6.2": {
        "x in place": x_in_place,
        "W transposed": transposed,
        "norm on the bypass, not before W": residual_of_the_norm,
        "norm of the sub-layer's output": norm_of_part,
        "both norms": both,
        "always post, by a slip": anything_else_is_post,
        "shift scaled": with_norm(shift_scaled),
        "variance over all": with_norm(variance_over_all),
        "square about zero": with_norm(mean_square_about_zero),
        "epsilon 1e-6": with_norm(lambda x, gain, shift: normal(x, gain, shift, 1e-6)),
        "epsilon 1e-12": with_norm(lambda x, gain, shift: normal(x, gain, shift, 1e-12)),
        "squares less square": with_norm(by_squares()),
        "squares less square, not negative": with_norm(by_squares(least=0.0)),
        "squares less square, at least 1": with_norm(by_squares(least=1.0)),
        "in half precision": with_norm(in_half),
        "gain plus one": with_norm(lambda x, gain, shift: normal(x, gain + 1, shift)),
    },
    "6.3": {
        "by length": by_lengths,
        "first source for all": first_source,
        "padding set to zero": padding_zeroed,
        "memory in place": memory_in_place,
        "values of padding zero": weights_scaled_after,
        "the values' scale": scale_of_values,
        "W_q and W_k exchanged": keys_and_queries,
        "minus ten": minus_ten,
        "minus fifty": minus_fifty,
        "rescaled": rescaled(),
        "rescaled, at least 1e-9": rescaled(1e-9),
        "rescaled, at least 1e-12": rescaled(1e-12),
        "exp": rescaled(shift=lambda scores: 0.0),
        "exp, padding's maximum, too": rescaled(shift=lambda scores: scores.amax(-1, keepdim=True)),
        "exp, one maximum for all": rescaled(shift=lambda scores: scores.max()),
        "exp, less the mean": rescaled(shift=lambda scores: scores.mean(-1, keepdim=True)),
        "exp, one word's maximum for all": largest_word_of_all,
        "padding 300 below": padding_far_below,
        "residual, too": residual_too,
        "causal if square": diagonal_if_square,
        "softmax over the targets": softmax_over_targets,
    },
    "6.4": {
        "table in place": table_in_place,
        "root of 512": scaled_by_512,
        "positions added": vectors_plus_positions,
        "log_softmax": log_probabilities,
        "square table not transposed": square_table,
        "last position": last_position,
        "first sentence's logits": first_sentence,
        "tokens from 1": tokens_from_one,
        "0 is padding": padding_zero,
        "logits only": logits_only,
        "rows of length 1": normalised_rows,
    },
    "6.5": {
        "batch of x free": refusing(lambda x, m, s: s != m[:2] or x[2] != m[2]),
        "source's length free": refusing(lambda x, m, s: s[0] != m[0] or x[::2] != m[::2]),
        "source's batch free": refusing(lambda x, m, s: s[1] != m[1] or x[::2] != m[::2]),
        "source compared with x": refusing(lambda x, m, s: s[0] != x[0] or s[1] != m[1] or x[2] != m[2]),
        "source not longer": refusing(lambda x, m, s: s[0] != m[0] or s[1] > m[1] or x[::2] != m[::2]),
        "source not shorter": refusing(lambda x, m, s: s[0] != m[0] or s[1] < m[1] or x[::2] != m[::2]),
        "memory not wider": refusing(lambda x, m, s: s != m[:2] or x[0] != m[0] or x[2] < m[2]),
        "targets not shorter": refusing(lambda x, m, s: s != m[:2] or x[::2] != m[::2] or x[1] < m[1]),
        "int64 only": refusing(dtype=none_of(torch.int64)),
        "int32 and int64 only": refusing(dtype=none_of(torch.int32, torch.int64)),
        "signed ones only": refusing(dtype=none_of(torch.int8, torch.int16, torch.int32, torch.int64)),
        "float32 alone refused": refusing(dtype=one_of(torch.float32, torch.bool)),
        "float32 and float64 refused": refusing(dtype=one_of(torch.float32, torch.float64, torch.bool)),
        "bool let through": refusing(dtype=lambda s: s.is_floating_point()),
        "first two sizes": refusing(sizes_compared),
        "first and last size": refusing(lambda x, m, s: (s[0], s[-1]) != m[:2] or x[::2] != m[::2]),
        "as far as the axes go": refusing(lambda x, m, s: s != m[: len(s)] or x[::2] != m[::2]),
        "memory's batch not larger": refusing(lambda x, m, s: s != m[:2] or x[0] > m[0] or x[2] != m[2]),
        "memory's batch not smaller": refusing(lambda x, m, s: s != m[:2] or x[0] < m[0] or x[2] != m[2]),
        "larger than the padding": refusing(mask=larger_ids),
        "by length": refusing(mask=by_length),
        "last is padding": refusing(mask=last_is_padding),
        "never empty": refusing(mask=at_least_one),
        "first row for all": refusing(mask=first_row),
        "x not told": two_shapes_told,
        "multiples of the batch": squeezed_batches,
    },
    "6.6": {
        "padding above": padding_above,
        "padding below": padding_below,
        "marks of padding below": marks_of_padding,
        "rows with links only": rows_with_links_only,
        "rows with sure links only": rows_with_sure_links_only,
        "one sure link a row": one_sure_link_a_row,
        "possible ones below": possible_or_sure_twice,
        "soft links": soft_links,
        "more than a half": half_as_threshold,
        "first sentence": first_sentence_rated,
        "one number": one_number,
        "never perfect": zero_dimensional_when_perfect,
        "all largest weights": largest_of_words,
        "all nearly largest weights": nearly_largest,
        "no link where two are alike": no_link_from_a_tie,
    },
}

RIGHT = {
    "6.1": {
        "its own constructor": Sketched,
        "written out": WrittenOut,
        "dropout by its function": around(dropped_by_function),
        "masks of four axes": masked(lambda m, x, c: m[(None,) * (4 - m.dim())].clone()),
    },
    "6.2": {
        "nn.LayerNorm": added_by_torch,
        "moments, float64": added_by_moments,
        "squares less square, float64": with_norm(by_squares(torch.float64)),
    },
    "6.3": {"PyTorch's own": crossed_by_torch, "word by word": crossed_by_words, "exp": crossed_by_exp},
    "6.4": {"embedding": tied_by_embedding, "rows, float64, a list": tied_by_rows},
    "6.5": {"by names": mask_by_names, "where": mask_by_where, "limits of the dtype": mask_by_limits},
    "6.6": {
        "counted": rates_by_counting,
        "picked": rates_by_picks,
        "the last of those alike": rates_of_the_last,
        "float64": rates_in(torch.float64),
        "float32": rates_in(torch.float32),
    },
}
