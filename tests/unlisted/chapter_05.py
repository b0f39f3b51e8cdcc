"""Answers to chapter 05's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from transformer_lib import masks


def tril(rows, columns, diagonal=0):
    return torch.ones(rows, columns, dtype=torch.bool).tril(diagonal)


# 5.1


def needs_past(length, past):
    return tril(length, past + length, past)


def past_of_one(length, past=1):
    return tril(length, past + length, past)


def square_cut(length, past=0):
    return tril(past + length, past + length)[:length]


def past_as_queries(length, past=0):
    return tril(past + length, length)


def at_most_four(length, past=0):
    return tril(length, past + length, past) & (torch.arange(past + length) < past + 6)


def first_row_hidden(length, past=0):
    mask = tril(length, past + length, past)
    mask[0, :past] = False
    return mask


def last_past_only(length, past=0):
    mask = tril(length, past + length, past)
    mask[:, : max(past - 4, 0)] = False
    return mask


def bytes_for_truth(length, past=0):
    return tril(length, past + length, past).byte()


def with_batch(length, past=0):
    return tril(length, past + length, past)[None]


def one_past(length, past=0):
    return tril(length, past + length, min(past, 1))


def past_or_length(length, past=0):
    return tril(length, (past or 0) + length, past) if past <= length else tril(length, past + length, past + 1)


WHOLE = tril(64, 64)


def kept_and_cut(length, past=0):
    return WHOLE[past : past + length, : past + length]


def kept_for_the_past(length, past=0):
    return tril(64, 64)[-length:, 64 - past - length :] if past else tril(length, length)


def causal_in_bytes(length, past=0):
    key = np.arange(past + length, dtype=np.uint8)
    return torch.from_numpy(key <= key[past:, None]) & (torch.arange(past + length) < 64)


def causal_by_vmap(length, past=0):
    return torch.vmap(lambda i: torch.arange(past + length) <= i + past)(torch.arange(length))


def causal_by_numpy(length, past=0):
    return torch.from_numpy(np.tri(length, past + length, past, dtype=bool))


def causal_by_rows(length, past=0):
    rows = [F.pad(torch.ones(past + i + 1), (0, length - i - 1)) for i in range(length)]
    return torch.stack(rows).gt(0)


# 5.2


def words(tokens, padding):
    return (tokens != padding)[:, None, None, :]


def decoder(tokens, padding):
    return tril(tokens.size(1), tokens.size(1)) & words(tokens, padding)


def cut_at_the_first_padding(tokens, padding):
    seen = (tokens != padding).int().cumprod(1).bool()
    return tril(tokens.size(1), tokens.size(1)) & seen[:, None, None, :]


def by_length(tokens, padding):
    lengths = (tokens != padding).sum(1)
    real = torch.arange(tokens.size(1)) < lengths[:, None]
    return tril(tokens.size(1), tokens.size(1)) & real[:, None, None, :]


def positive_ids(tokens, padding):
    return tril(tokens.size(1), tokens.size(1)) & (tokens > padding)[:, None, None, :]


def never_empty(tokens, padding):
    mask = decoder(tokens, padding)
    mask[:, :, :, 0] |= ~mask.any(-1)
    return mask


def first_always_seen(tokens, padding):
    mask = decoder(tokens, padding)
    mask[..., 0] = True
    return mask


def tokens_in_place(tokens, padding):
    mask = decoder(tokens, padding)
    tokens[tokens == padding] = 0
    return mask


def all_heads(tokens, padding):
    return decoder(tokens, padding).expand(-1, 2, -1, -1)


def batch_second(tokens, padding):
    return decoder(tokens, padding).transpose(0, 1)


def padding_if_last(tokens, padding):
    return decoder(tokens, int(tokens[0, -1]) if len(tokens) == 1 else padding)


def decoder_by_where(tokens, padding):
    n = tokens.size(1)
    key = torch.where(tokens == padding, n, torch.arange(n))  # a key at n is later than any query
    return (key[:, None, :] <= torch.arange(n)[:, None]).unsqueeze(1)


def decoder_by_rows(tokens, padding):
    n = tokens.size(1)
    rows = [[[t != padding and j <= i for j, t in enumerate(row)] for i in range(n)] for row in tokens.tolist()]
    return torch.tensor(rows).view(len(tokens), 1, n, n)


# 5.3


def attended(query, key, value, mask, scale=None):
    scores = query @ key.mT / (scale or math.sqrt(query.size(-1)))
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ value


def by_lengths(query, key, value, real):
    seen = torch.arange(key.size(2)) < real.sum(1, keepdim=True)
    return attended(query, key, value, seen[:, None, None, :])


def rows_emptied_too(query, key, value, real):
    out = attended(query, key, value, real[:, None, None, :])
    return out * real[:, None, :, None] if query.size(2) == key.size(2) else out


def first_mask_for_all(query, key, value, real):
    return attended(query, key, value, real[:1, None, None, :])


def small_number(query, key, value, real):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    return (scores + (~real)[:, None, None, :] * -10.0).softmax(-1) @ value


def hundred(query, key, value, real):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    return scores.masked_fill(~real[:, None, None, :], -100.0).softmax(-1) @ value


def filling(number):
    def answer(query, key, value, real):
        scores = query @ key.mT / math.sqrt(query.size(-1))
        return scores.masked_fill(~real[:, None, None, :], number).softmax(-1) @ value

    return answer


def restoring(least=0.0, more=0.0):
    """Return weights that are set to 0 after the softmax and brought back to 1."""

    def answer(query, key, value, real):
        weights = (query @ key.mT / math.sqrt(query.size(-1))).softmax(-1) * real[:, None, None, :]
        return weights / (weights.sum(-1, keepdim=True).clamp(min=least) + more) @ value

    return answer


def restored_in_float64(query, key, value, real):
    return restoring()(query.double(), key.double(), value.double(), real).to(value.dtype)


def below_padding(query, key, value, real):
    scores = torch.einsum("bhqd,bhkd->bhqk", query.double(), key.double()) / query.size(-1) ** 0.5
    powers = torch.exp(scores - scores.max(-1, keepdim=True).values) * real[:, None, None]
    return torch.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-1, keepdim=True), value.double())


def exponentials(shifted):
    """Return weights from the shifted scores' exp, padding's set to 0."""

    def answer(query, key, value, real):
        scores, mask = (query @ key.mT / math.sqrt(query.size(-1))).double(), real[:, None, None, :]
        powers = shifted(scores).masked_fill(~mask, -math.inf).exp()
        return (powers / powers.sum(-1, keepdim=True)).to(value.dtype) @ value

    return answer


def padding_keys_zero(query, key, value, real):
    key = key * real[:, None, :, None]
    weights = (query @ key.mT / math.sqrt(query.size(-1))).softmax(-1) * real[:, None, None, :]
    return weights / weights.sum(-1, keepdim=True) @ value


def smallest_positive(query, key, value, real):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    tiny = torch.finfo(scores.dtype).tiny
    return scores.masked_fill(~real[:, None, None, :], tiny).softmax(-1) @ value


def times_mask(query, key, value, real):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    return (scores * torch.where(real, 1.0, 1e9)[:, None, None, :]).softmax(-1) @ value


def values_scaled(query, key, value, real):
    weights = (query @ key.mT / math.sqrt(query.size(-1))).softmax(-1)
    return weights @ (value * real[:, None, :, None])


def scale_of_values(query, key, value, real):
    return attended(query, key, value, real[:, None, None, :], math.sqrt(value.size(-1)))


def scale_of_keys(query, key, value, real):
    return attended(query, key, value, real[:, None, None, :], math.sqrt(key.size(-2)))


def causal_too(query, key, value, real):
    mask = real[:, None, None, :]
    if query.size(2) == key.size(2):
        mask = mask & tril(key.size(2), key.size(2)) | (real.cumsum(1) == 1)[:, None, None, :] & mask
    return attended(query, key, value, mask)


def first_key_always(query, key, value, real):
    return attended(query, key, value, (real | (torch.arange(real.size(1)) == 0))[:, None, None, :])


def value_in_place(query, key, value, real):
    value *= real[:, None, :, None]
    return attended(query, key, value, real[:, None, None, :])


def hidden_by_torch(query, key, value, real):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None, :])


def hidden_by_exp(query, key, value, real):
    scores = torch.einsum("bhqd,bhkd->bhqk", query.double(), key.double()) / query.size(-1) ** 0.5
    scores = scores.masked_fill(~real[:, None, None], -math.inf)
    powers = torch.exp(scores - scores.max(-1, keepdim=True).values)
    return torch.einsum("bhqk,bhkd->bhqd", powers / powers.sum(-1, keepdim=True), value.double())


def hidden_by_logarithm(query, key, value, real):
    scores = query @ key.mT / math.sqrt(query.size(-1)) + real[:, None, None, :].to(query.dtype).log()
    return torch.exp(scores - scores.logsumexp(-1, keepdim=True)) @ value


# 5.4


def apart(length):
    position = torch.arange(length)
    return position[:, None] - position, position


def windowed(allowed):
    return lambda length, window, sinks: allowed(*apart(length), window, sinks)


def sinks_cut(back, key, window, sinks):
    return (back >= 0) & ((back < window) | (key < min(sinks, window)))


def sinks_count_in_the_window(back, key, window, sinks):
    return (back >= 0) & ((back < max(window - sinks, 1)) | (key < sinks))


def sinks_only_later(back, key, window, sinks):
    return (back >= 0) & ((back < window) | (key < sinks) & (back > window))


def one_sink(back, key, window, sinks):
    return (back >= 0) & ((back < window) | (key < min(sinks, 1)))


def three_sinks(back, key, window, sinks):
    return (back >= 0) & ((back < window) | (key < min(sinks, 3)))


def sinks_see_all_sinks(back, key, window, sinks):
    both = (key < sinks) & (key < sinks)[:, None]
    return (back >= 0) & ((back < window) | (key < sinks)) | both


def half_windows(back, key, window, sinks):
    return (back >= 0) & ((back <= window // 2) | (key < sinks))


def even_windows(back, key, window, sinks):
    return (back >= 0) & ((back < (window if window % 2 else window + 1)) | (key < sinks))


def numbers(length, window, sinks):
    back, key = apart(length)
    return ((back >= 0) & ((back < window) | (key < sinks))).float()


def window_by_sets(length, window, sinks):
    seen = [set(range(sinks)) | set(range(i - window + 1, i + 1)) for i in range(length)]
    return torch.tensor([[j in seen[i] and j <= i for j in range(length)] for i in range(length)])


def window_by_library(length, window, sinks):
    sink = torch.zeros(length, length, dtype=torch.bool)
    sink[:, :sinks] = True
    return masks.sliding_window_mask(length, window) | sink & masks.causal_mask(length)


# 5.5


def same(sentence):
    return sentence[:, None, :, None] == sentence[:, None, None, :]


def packed(sentence):
    n = sentence.size(1)
    return same(sentence) & tril(n, n) & (sentence != 0)[:, None, None, :]


def two_sentences(sentence):
    n = sentence.size(1)
    both = ((sentence == k)[:, None, :, None] & (sentence == k)[:, None, None, :] for k in (1, 2))
    return (next(both) | next(both)) & tril(n, n)


def three_sentences(sentence):
    return packed(sentence * (sentence < 4))


def padding_row_only(sentence):
    n = sentence.size(1)
    return same(sentence) & tril(n, n) & (sentence != 0).all(1)[:, None, None, None]


def last_is_padding(sentence):
    mask = packed(sentence)
    mask[..., -1] = False
    return mask


def by_boundaries(sentence):
    n = sentence.size(1)
    start = torch.cat([torch.ones_like(sentence[:, :1]), (sentence[:, 1:] != sentence[:, :-1]).long()], 1).cumsum(1)
    return (start[:, None, :, None] == start[:, None, None, :]) & tril(n, n)


def one_word_sentences_hidden(sentence):
    n = sentence.size(1)
    counts = (sentence[:, :, None] == sentence[:, None, :]).sum(-1)
    return packed(sentence) & ((counts > 1)[:, None, None, :] | ~torch.eye(n, dtype=torch.bool))


def sums(sentence):
    n = sentence.size(1)
    total = sentence[:, None, :, None] + sentence[:, None, None, :]
    return (total == 2 * sentence[:, None, :, None]) & tril(n, n)


def products(sentence):
    n = sentence.size(1)
    product = sentence[:, None, :, None] * sentence[:, None, None, :]
    return (product == sentence[:, None, None, :] ** 2) & tril(n, n) & (product < 10) & (product > 0)


def with_heads(sentence):
    return packed(sentence).expand(-1, 4, -1, -1)


def one_hot_of(classes):
    def answer(sentence):
        kind = F.one_hot(sentence, classes)[..., 1:].double()
        return torch.einsum("bqs,bks->bqk", kind, kind).tril().gt(0).unsqueeze(1)

    return answer


def nearly_the_same(sentence):
    n = sentence.size(1)
    query, key = sentence[:, None, :, None], sentence[:, None, None, :]
    return ((query / key.clamp(min=1) - 1).abs() < 0.1) & tril(n, n) & (key > 0)


def in_bits(sentence):
    n = sentence.size(1)
    bit = (torch.ones_like(sentence) << sentence).to(torch.int16)
    return ((bit[:, None, :, None] & bit[:, None, None, :]) > 1) & tril(n, n)


def up_to_ten(sentence):
    n = sentence.size(1)
    return torch.stack([packed(sentence * (sentence == k)) for k in range(1, 11)]).any(0) & tril(n, n)


def packed_by_one_hot(sentence):
    kind = F.one_hot(sentence)[..., 1:].double()
    return torch.einsum("bqs,bks->bqk", kind, kind).tril().gt(0).unsqueeze(1)


def packed_by_changes(sentence):
    n = sentence.size(1)
    place = torch.arange(n)
    new = F.pad(sentence[:, 1:] != sentence[:, :-1], (1, 0), value=True)
    start = torch.where(new, place, 0).cummax(1).values
    return ((place <= place[:, None]) & (place >= start[..., None]) & (sentence > 0)[:, None])[:, None]


def packed_by_starts(sentence):
    rows = torch.zeros(*sentence.shape, sentence.size(1), dtype=torch.bool)
    for b, row in enumerate(sentence.tolist()):
        for i, number in enumerate(row):
            if number:
                rows[b, i, row.index(number) : i + 1] = True
    return rows[:, None]


# 5.6


def prefixed(prefixes, length):
    return tril(length, length) | (torch.arange(length) < prefixes[:, None])[:, None, None, :]


def integers(prefixes):
    if prefixes.is_floating_point() or prefixes.dtype == torch.bool:
        raise TypeError(f"prefixes must be integers, got {prefixes.dtype}")


def checked(prefixes, length):
    integers(prefixes)
    for p in prefixes.tolist():
        if not 0 <= p <= length:
            raise ValueError(f"a prefix must be from 0 to {length}, got {p}")


def prefixing(mask=prefixed, guard=checked):
    def answer(prefixes, length):
        guard(prefixes, length)
        return mask(prefixes, length)

    return answer


def first_checked(prefixes, length):
    checked(prefixes[:1], length)


def last_checked(prefixes, length):
    checked(prefixes[-1:], length)


def whole_refused(prefixes, length):
    checked(prefixes, length)
    if bool((prefixes == length).any()):
        raise ValueError(f"a prefix must be below {length}, got {length}")


def zero_refused(prefixes, length):
    checked(prefixes, length)
    if bool((prefixes == 0).any()):
        raise ValueError("a prefix must be at least 1, got 0")


def one_over(prefixes, length):
    checked(prefixes.clamp(max=length) if bool((prefixes <= length + 1).all()) else prefixes, length)


def sum_checked(prefixes, length):
    integers(prefixes)
    total = int(prefixes.sum())
    if not 0 <= total <= length * len(prefixes) or bool((prefixes > length).any()):
        raise ValueError(f"prefixes {prefixes.tolist()} for the length {length}")


def int64_only(prefixes, length):
    if prefixes.dtype != torch.int64:
        raise TypeError(f"prefixes must be int64, got {prefixes.dtype}")
    checked(prefixes, length)


def by_dtype(refused):
    """Return the right guard, but that the dtype is judged otherwise."""

    def guard(prefixes, length):
        if refused(prefixes.dtype):
            raise TypeError(f"prefixes must be integers, got {prefixes.dtype}")
        checked(prefixes.long(), length)

    return guard


def up_to_one_before(prefixes, length):
    place = torch.arange(length)
    return ((place <= place[:, None]) | (place <= prefixes[:, None, None] - 1)).unsqueeze(1)


def back_from_the_prefix(prefixes, length):
    return tril(length, length) | (prefixes[:, None] - torch.arange(length, dtype=prefixes.dtype) > 0)[:, None, None]


def longest_told(prefixes, length):
    integers(prefixes)
    if int(prefixes.min()) < 0 or int(prefixes.max()) > length:
        raise ValueError(f"prefixes up to {int(prefixes.max())} for the length {length}")


def whole_floats(prefixes, length):
    if prefixes.dtype == torch.bool or bool((prefixes != prefixes.long()).any()):
        raise TypeError(f"got {prefixes.dtype}")
    checked(prefixes.long(), length)


def first_row_too(prefixes, length):
    mask = prefixed(prefixes, length)
    mask[:, :, 0] = True
    return mask


def prefix_of_two(prefixes, length):
    return prefixed(prefixes.clamp(max=2), length)


def without_batch(prefixes, length):
    return prefixed(prefixes, length).squeeze(0)


def prefix_by_columns(prefixes, length):
    try:
        torch.iinfo(prefixes.dtype)
    except TypeError:
        raise TypeError("integers, please, not " + str(prefixes.dtype)) from None
    found = []
    for p in prefixes.tolist():
        if p < 0 or p > length:
            raise ValueError(f"prefix {p}, length {length}")
        found.append(torch.cat([torch.ones(length, p), torch.ones(length, length).tril()[:, p:]], dim=1))
    return torch.stack(found)[:, None] == 1


def prefix_by_library(prefixes, length):
    checked(prefixes, length)
    return torch.stack([masks.prefix_mask(length, p) for p in prefixes.tolist()]).unsqueeze(1)


WRONG = {
    "5.1": {
        "no default": needs_past,
        "default 1": past_of_one,
        "square, cut": square_cut,
        "past among the queries": past_as_queries,
        "six keys": at_most_four,
        "first query without its past": first_row_hidden,
        "four of the past": last_past_only,
        "bytes": bytes_for_truth,
        "a batch of one": with_batch,
        "a past of one": one_past,
        "longer past than length": past_or_length,
        "kept for 64, and cut": kept_and_cut,
        "kept for 64, and cut at the end": kept_for_the_past,
        "64 keys at most": causal_in_bytes,
        "the library's": lambda n, past=0: masks.causal_mask(n, past),
    },
    "5.2": {
        "cut at the first padding": cut_at_the_first_padding,
        "by length": by_length,
        "larger than the padding": positive_ids,
        "never empty": never_empty,
        "first always seen": first_always_seen,
        "tokens in place": tokens_in_place,
        "two heads": all_heads,
        "batch second": batch_second,
        "one sentence's last is padding": padding_if_last,
    },
    "5.3": {
        "by length": by_lengths,
        "rows of padding emptied": rows_emptied_too,
        "first sentence's mask": first_mask_for_all,
        "minus ten": small_number,
        "minus a hundred": hundred,
        "minus a thousand": filling(-1e3),
        "minus ten thousand": filling(-1e4),
        "as in float16": filling(-65504.0),
        "brought back to 1": restoring(),
        "brought back to 1, clamped": restoring(1e-12),
        "brought back to 1, nearly": restoring(more=1e-9),
        "brought back to 1 in float64": restored_in_float64,
        "below padding's maximum": below_padding,
        "exp in float64": exponentials(lambda scores: scores),
        "exp in float64, clamped": exponentials(lambda scores: scores.clamp(-700, 700)),
        "one maximum for all": exponentials(lambda scores: scores - scores.max()),
        "padding's keys zero": padding_keys_zero,
        "smallest positive number": smallest_positive,
        "scores times a large number": times_mask,
        "values set to zero": values_scaled,
        "the values' scale": scale_of_values,
        "scaled by the keys": scale_of_keys,
        "causal, too": causal_too,
        "first key always": first_key_always,
        "values in place": value_in_place,
    },
    "5.4": {
        "at most as many sinks as the window": windowed(sinks_cut),
        "sinks count in the window": windowed(sinks_count_in_the_window),
        "a gap before the window": windowed(sinks_only_later),
        "one sink": windowed(one_sink),
        "three sinks": windowed(three_sinks),
        "sinks see each other": windowed(sinks_see_all_sinks),
        "half of it": windowed(half_windows),
        "even windows one wider": windowed(even_windows),
        "numbers": numbers,
    },
    "5.5": {
        "two sentences at most": two_sentences,
        "three sentences at most": three_sentences,
        "full rows only": padding_row_only,
        "last is padding": last_is_padding,
        "padding a sentence": by_boundaries,
        "sentences of one word hidden": one_word_sentences_hidden,
        "sums compared": sums,
        "products below ten": products,
        "four heads": with_heads,
        "seven sentences at most": one_hot_of(8),
        "fifteen sentences at most": one_hot_of(16),
        "ten sentences at most": up_to_ten,
        "fourteen bits": in_bits,
        "nearly the same number": nearly_the_same,
    },
    "5.6": {
        "first one checked": prefixing(guard=first_checked),
        "last one checked": prefixing(guard=last_checked),
        "whole length refused": prefixing(guard=whole_refused),
        "0 refused": prefixing(guard=zero_refused),
        "one over let through": prefixing(guard=one_over),
        "sum checked": prefixing(guard=sum_checked),
        "int64 only": prefixing(guard=int64_only),
        "the longest told": prefixing(guard=longest_told),
        "whole floats let through": prefixing(lambda p, n: prefixed(p.long(), n), whole_floats),
        "first row, too": prefixing(first_row_too),
        "two at most": prefixing(prefix_of_two),
        "one sentence without its axis": prefixing(without_batch),
        "float32 and float64 refused": prefixing(guard=by_dtype(lambda t: t in (torch.float32, torch.float64))),
        "bfloat16 let through": prefixing(
            guard=by_dtype(lambda t: t in (torch.float16, torch.float32, torch.float64, torch.bool))
        ),
        "floating point refused": prefixing(guard=by_dtype(lambda t: t.is_floating_point)),
        "int32 and int64": prefixing(guard=by_dtype(lambda t: t not in (torch.int32, torch.int64))),
        "no int8": prefixing(guard=by_dtype(lambda t: t not in (torch.int16, torch.int32, torch.int64))),
        "up to one before": prefixing(up_to_one_before),
        "back from the prefix": prefixing(back_from_the_prefix),
    },
}

RIGHT = {
    "5.1": {"numpy": causal_by_numpy, "row by row": causal_by_rows, "vmap": causal_by_vmap},
    "5.2": {"where": decoder_by_where, "rows": decoder_by_rows},
    "5.3": {
        "PyTorch's own": hidden_by_torch,
        "exp, float64": hidden_by_exp,
        "logarithms": hidden_by_logarithm,
        "the smallest number": filling(torch.finfo(torch.float32).min),
    },
    "5.4": {"sets": window_by_sets, "the library's masks": window_by_library},
    "5.5": {"one-hot": packed_by_one_hot, "starts": packed_by_starts, "changes": packed_by_changes},
    "5.6": {"columns": prefix_by_columns, "the library's masks": prefix_by_library},
}
