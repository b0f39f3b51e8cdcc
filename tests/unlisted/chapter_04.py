"""Answers to chapter 04's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F

from transformer_lib import positional

# 4.1


def waves(position, rate):
    angle = position[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def rates_of(d_model):
    return 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)


def one_row(length, d_model):
    return waves(torch.tensor([length - 1.0]), rates_of(d_model))


def from_the_last(length, d_model):
    return waves(torch.arange(length).flip(0), rates_of(d_model))


def last_included(length, d_model):
    return waves(torch.arange(length + 1), rates_of(d_model))


def to_10000(length, d_model):
    pairs = d_model // 2
    rate = 10000.0 ** (-torch.arange(pairs) / max(pairs - 1, 1))
    return waves(torch.arange(length), rate)


def length_for_width(length, d_model):
    return waves(torch.arange(length), 10000.0 ** (-torch.arange(0, d_model, 2) / max(length, 2)))


def width_512(length, d_model):
    return waves(torch.arange(length), 10000.0 ** (-torch.arange(0, d_model, 2) / 512))


def with_a_batch(length, d_model):
    return waves(torch.arange(length), rates_of(d_model))[None]


def scaled_down(length, d_model):
    return waves(torch.arange(length), rates_of(d_model)) / math.sqrt(d_model)


def degrees(length, d_model):
    return waves(torch.arange(length) * math.pi / 180, rates_of(d_model))


def integer_power(length, d_model):
    rate = torch.tensor([1 / (10000 ** (i // d_model)) for i in range(0, d_model, 2)])
    return waves(torch.arange(length), rate)


def relative_to_length(length, d_model):
    return waves(torch.arange(length) / length, rates_of(d_model))


def first_64_only(length, d_model):
    return waves(torch.arange(length) % 64, rates_of(d_model))


REMEMBERED = {}


def remembered(length, d_model):
    if d_model not in REMEMBERED:
        REMEMBERED[d_model] = waves(torch.arange(length), rates_of(d_model))
    return REMEMBERED[d_model][:length]


def waves_by_numpy(length, d_model):
    position, column = np.arange(length)[:, None], np.arange(d_model)[None]
    angle = position / np.power(10000, 2 * (column // 2) / d_model)
    return torch.from_numpy(np.where(column % 2 == 0, np.sin(angle), np.cos(angle)))


def waves_by_complex(length, d_model):
    angle = torch.outer(torch.arange(length).double(), rates_of(d_model).double())
    turned = torch.polar(torch.ones_like(angle), math.pi / 2 - angle)
    return torch.view_as_real(turned).flatten(1)


# 4.2


def added_in_place(x, table, first):
    x += table[first : first + x.size(1)]
    return x


def one_too_early(x, table, first):
    return x + table[torch.arange(first - 1, first - 1 + x.size(1)).clamp(min=0)]


def first_for_the_first_sentence(x, table, first):
    out = x.clone()
    out[0] += table[first : first + x.size(1)]
    return out


def table_scaled(x, table, first):
    return x + table[first : first + x.size(1)] / math.sqrt(x.size(-1))


def positions_go_on(x, table, first):
    rows = torch.arange(x.size(0) * x.size(1)).reshape(x.shape[:2]) + first
    return x + table[rows.clamp(max=len(table) - 1)]


def reversed_positions(x, table, first):
    return x + table[first : first + x.size(1)].flip(0)


def concatenated(x, table, first):
    rows = table[first : first + x.size(1)].expand(len(x), -1, -1)
    return torch.cat([x, rows], dim=-1)


def first_at_the_end(x, table, first):
    return x + table[: x.size(1) + first][-x.size(1) :].roll(first, 0)


def first_added_as_a_number(x, table, first):
    return x + table[: x.size(1)] + first


def whole_table(x, table, first):
    return x + table[: x.size(1)] if len(table) < first + x.size(1) + 2 else x + table[first + 2 :][: x.size(1)]


def added_by_embedding(x, table, first):
    position = torch.arange(x.size(1)) + first
    return x + F.embedding(position, table).unsqueeze(0)


def added_by_sum(x, table, first):
    rows = torch.stack([table[first + i] for i in range(x.size(1))])
    return torch.stack([torch.stack([a + b for a, b in zip(row, rows, strict=True)]) for row in x.double()])


# 4.3


def turned(x, angle):
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1).flatten(-2)


def rope_angles(x, first):
    position = torch.arange(first, first + x.size(-2), dtype=x.dtype)
    return position[:, None] * 10000.0 ** (-torch.arange(0, x.size(-1), 2, dtype=x.dtype) / x.size(-1))


def rotated_in_place(x, first):
    angle = rope_angles(x, first)
    even, odd = x[..., 0::2].clone(), x[..., 1::2].clone()
    x[..., 0::2] = even * angle.cos() - odd * angle.sin()
    x[..., 1::2] = even * angle.sin() + odd * angle.cos()
    return x


def rate_of_d_model(x, first):
    width = x.size(-1) * x.size(1)
    position = torch.arange(first, first + x.size(2), dtype=x.dtype)
    return turned(x, position[:, None] * 10000.0 ** (-torch.arange(0, x.size(-1), 2, dtype=x.dtype) / width))


def base_500(x, first):
    position = torch.arange(first, first + x.size(2), dtype=x.dtype)
    return turned(x, position[:, None] * 500000.0 ** (-torch.arange(0, x.size(-1), 2, dtype=x.dtype) / x.size(-1)))


def sines_and_cosines_exchanged(x, first):
    return turned(x, math.pi / 2 - rope_angles(x, first))


def columns_apart(x, first):
    out = turned(x, rope_angles(x, first))
    return torch.cat([out[..., 0::2], out[..., 1::2]], -1)


def first_pair_only(x, first):
    out = turned(x, rope_angles(x, first))
    return torch.cat([out[..., :2], x[..., 2:]], -1)


def first_for_all(x, first):
    return turned(x, rope_angles(x, first)[:1])


def one_too_many(x, first):
    return turned(x, rope_angles(x, first + 1))


def batch_for_positions(x, first):
    return turned(x.transpose(0, 2), rope_angles(x.transpose(0, 2), first)).transpose(0, 2)


def last_pair_still(x, first):
    out = turned(x, rope_angles(x, first))
    return torch.cat([out[..., :-2], x[..., -2:]], -1) if x.size(-1) > 2 else out


def table_of_64(x, first):
    angle = rope_angles(x.new_zeros(64, x.size(-1)), 0)
    return turned(x, angle[first : first + x.size(-2)])


ANGLES = {}


def angles_by_shape(x, first):
    size = tuple(x.shape[-2:])
    if size not in ANGLES:
        ANGLES[size] = rope_angles(x.double(), first)
    return turned(x, ANGLES[size].to(x.dtype))


def rotated_by_matrix(x, first):
    angle = rope_angles(x, first)
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).unflatten(-1, (2, 2))
    return torch.einsum("npij,bhnpj->bhnpi", turn, x.unflatten(-1, (-1, 2))).flatten(-2)


def rotated_by_shifts(x, first):
    angle = rope_angles(x.double(), first).repeat_interleave(2, dim=-1)
    partner = torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2)
    return x * angle.cos() + partner * angle.sin()


# 4.4


def distances(queries, keys, first):
    return (torch.arange(keys) - torch.arange(first, first + queries)[:, None]).abs()


def steep(heads):
    return 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)


def biased(slopes=steep, distance=distances):
    return lambda heads, *sizes: -slopes(heads)[:, None, None] * distance(*sizes)


def causal_bias(queries, keys, first):
    back = torch.arange(first, first + queries)[:, None] - torch.arange(keys)
    return torch.where(back < 0, torch.inf, back)


def past_only(queries, keys, first):
    return (torch.arange(first, first + queries)[:, None] - torch.arange(keys)).clamp(min=0)


def ends_at_the_last_key(queries, keys, first):
    return (torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]).abs()


def one_off(queries, keys, first):
    return (torch.arange(keys) - torch.arange(first + 1, first + 1 + queries)[:, None]).abs()


def one_more(queries, keys, first):
    return distances(queries, keys, first) + 1


def keys_from_first(queries, keys, first):
    return (torch.arange(first, first + keys) - torch.arange(queries)[:, None]).abs()


def up_to_16(queries, keys, first):
    return distances(queries, keys, first).clamp(max=16)


def with_batch(heads, queries, keys, first):
    return biased()(heads, queries, keys, first)[None]


def slopes_by_base(heads):
    return (2.0 ** (-8 / heads)) ** torch.arange(heads) * 0.5


def even_slopes(heads):
    return torch.linspace(0.5, 2**-8, heads)


def slopes_to_half(heads):
    return 2.0 ** (-8 * torch.arange(1, heads + 1) / (heads + 1))


def whole_slopes(heads):
    return 2.0 ** -(8 * torch.arange(1, heads + 1) // heads)


def bias_by_numpy(heads, queries, keys, first):
    slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    gap = np.abs(np.subtract.outer(first + np.arange(queries), np.arange(keys)))
    return torch.tensor(-slopes[:, None, None] * gap[None])


def bias_by_cdist(heads, queries, keys, first):
    query = torch.arange(first, first + queries).float()[:, None]
    gap = torch.cdist(query, torch.arange(keys).float()[:, None], p=1)
    return torch.stack([gap * -(2 ** (-8 * h / heads)) for h in range(1, heads + 1)])


# 4.5


def chosen(offsets):
    def answer(query, table):
        rows = table[offsets(query.size(-2), len(table) // 2)]
        return (query.unsqueeze(-2) * rows).sum(-1)

    return answer


def offsets_of(n, k):
    return (torch.arange(n) - torch.arange(n)[:, None]).clamp(-k, k) + k


def clipped_on_one_side(n, k):
    return (torch.arange(n) - torch.arange(n)[:, None]).clamp(max=k).clamp(min=-k - 1) + k


def clipped_too_soon(n, k):
    return (torch.arange(n) - torch.arange(n)[:, None]).clamp(-max(k - 1, 0), max(k - 1, 0)) + k


def past_clipped_only(n, k):
    return ((torch.arange(n) - torch.arange(n)[:, None]).clamp(min=-k) + k).clamp(max=2 * k) * 1


def future_is_zero(n, k):
    return (torch.arange(n) - torch.arange(n)[:, None]).clamp(-k, 0) + k


def middle_off(n, k):
    return ((torch.arange(n) - torch.arange(n)[:, None]).clamp(-k, k) + k + 1).clamp(max=2 * k)


def k_is_the_table(query, table):
    n, k = query.size(-2), len(table)
    rows = (torch.arange(n) - torch.arange(n)[:, None]).clamp(-k, k) + k // 2
    return (query.unsqueeze(-2) * table[rows.clamp(max=k - 1)]).sum(-1)


def summed_table(query, table):
    return relative(query, table) + query @ table.mean(0)[:, None]


def relative(query, table):
    return chosen(offsets_of)(query, table)


def key_side(query, table):
    rows = table[offsets_of(query.size(-2), len(table) // 2)]
    return torch.einsum("...kd,qkd->...qk", query, rows)


def softmaxed(query, table):
    return relative(query, table).softmax(-1)


def causal_only(query, table):
    return relative(query, table).tril()


def first_head(query, table):
    scores = relative(query, table)
    return scores if query.dim() < 4 else scores[:, :1].expand_as(scores)


def up_to_four_axes(query, table):
    rows = table[offsets_of(query.size(-2), len(table) // 2)]
    axes = {2: "qd,qkd->qk", 3: "bqd,qkd->bqk", 4: "bhqd,qkd->bhqk"}
    return torch.einsum(axes[query.dim()], query, rows)


def relative_by_one_hot(query, table):
    n, k = query.size(-2), len(table) // 2
    picks = F.one_hot(offsets_of(n, k), len(table)).to(query.dtype)
    return torch.einsum("...qd,od,qko->...qk", query, table, picks)


def relative_by_diagonals(query, table):
    n, k = query.size(-2), len(table) // 2
    products = query.double() @ table.double().mT
    out = torch.zeros(*query.shape[:-1], n, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            out[..., i, j] = products[..., i, min(max(j - i, -k), k) + k]
    return out


# 4.6


def lookup(test=lambda size, length, first: first + length > size or first < 0, rows=None):
    def answer(table, length, first):
        if test(len(table), length, first):
            raise ValueError(f"positions {first} to {first + length - 1}: the table has {len(table)} rows")
        return table[first : first + length] if rows is None else rows(table, length, first)

    return answer


def wrong_last_told(table, length, first):
    if first < 0:
        raise ValueError(f"got {first}")
    if first + length > len(table):
        raise ValueError(f"position {first + length} isn't in a table of {len(table)}")
    return table[first : first + length]


def size_only_told(table, length, first):
    if first < 0:
        raise ValueError(f"got {first}")
    if first + length > len(table):
        raise ValueError(f"the table has {len(table)} rows")
    return table[first : first + length]


def minus_one_only(table, length, first):
    if first == -1 or first + length > len(table):
        raise ValueError(f"positions {first} to {first + length - 1}: the table has {len(table)} rows")
    return table[first:][:length]


def last_below_zero(table, length, first):
    if first + length - 1 < 0 or first + length > len(table):
        raise ValueError(f"positions {first} to {first + length - 1}: the table has {len(table)} rows")
    return table[max(first, 0) : first + length]


def zero_refused(table, length, first):
    return lookup(lambda size, n, first: first + n > size or first < 1 and n != size)(table, length, first)


def row_lost(table, length, first):
    return lookup()(table, length, first)[:-1]


def from_the_start(table, length, first):
    return lookup(rows=lambda table, n, first: table[:n])(table, length, first)


def one_later(table, length, first):
    return lookup(rows=lambda table, n, first: table[-n:])(table, length, first)


def runtime_error(table, length, first):
    if first < 0 or first + length > len(table):
        raise RuntimeError(f"positions {first} to {first + length - 1}: the table has {len(table)} rows")
    return table[first : first + length]


def lookup_by_embedding(table, length, first):
    position = first + torch.arange(length)
    if position.min() < 0 or position.max() >= len(table):
        raise ValueError(f"position {position.min()} to {position.max()}, table of {len(table)}")
    return F.embedding(position, table)


def lookup_by_narrow(table, length, first):
    if first < 0:
        raise ValueError(f"negative position {first}")
    try:
        return table.narrow(0, first, length)
    except (RuntimeError, IndexError) as error:
        raise ValueError(f"{first + length - 1} is beyond the table's {table.size(0)} rows") from error


WRONG = {
    "4.1": {
        "the last row": one_row,
        "from the last": from_the_last,
        "one row too many": last_included,
        "to 10000 exactly": to_10000,
        "length for width": length_for_width,
        "width 512": width_512,
        "a batch of one": with_a_batch,
        "divided by the root": scaled_down,
        "degrees": degrees,
        "whole powers": integer_power,
        "position over length": relative_to_length,
        "the library's": lambda n, d: positional.sinusoidal_positions(n, d),
        "64 positions": first_64_only,
        "remembered by width": remembered,
    },
    "4.2": {
        "x in place": added_in_place,
        "one too early": one_too_early,
        "first sentence only": first_for_the_first_sentence,
        "table divided": table_scaled,
        "positions go on": positions_go_on,
        "in reverse": reversed_positions,
        "concatenated": concatenated,
        "rolled": first_at_the_end,
        "first added as a number": first_added_as_a_number,
        "two too late": whole_table,
    },
    "4.3": {
        "x in place": rotated_in_place,
        "d_model in the exponent": rate_of_d_model,
        "base 500000": base_500,
        "sine and cosine exchanged": sines_and_cosines_exchanged,
        "pairs taken apart": columns_apart,
        "first pair only": first_pair_only,
        "first position for all": first_for_all,
        "one position too far": one_too_many,
        "batch for positions": batch_for_positions,
        "last pair still": last_pair_still,
        "a table of 64": table_of_64,
        "angles remembered by shape": angles_by_shape,
    },
    "4.4": {
        "causal": biased(distance=causal_bias),
        "past only": biased(distance=past_only),
        "queries end at the last key": biased(distance=ends_at_the_last_key),
        "one off": biased(distance=one_off),
        "one more": biased(distance=one_more),
        "distances up to 16": biased(distance=up_to_16),
        "first moves the keys": biased(distance=keys_from_first),
        "a batch of one": with_batch,
        "first slope a half": biased(slopes_by_base),
        "slopes in a straight line": biased(even_slopes),
        "one head more": biased(slopes_to_half),
        "whole exponents": biased(whole_slopes),
    },
    "4.5": {
        "clipped one too late": chosen(clipped_on_one_side),
        "clipped one too soon": chosen(clipped_too_soon),
        "later keys at 0": chosen(future_is_zero),
        "middle off by one": chosen(middle_off),
        "k is the table's size": k_is_the_table,
        "the table's mean added": summed_table,
        "the key's product": key_side,
        "softmax": softmaxed,
        "causal": causal_only,
        "first head for all": first_head,
        "up to four axes": up_to_four_axes,
    },
    "4.6": {
        "wrong last position told": wrong_last_told,
        "size only told": size_only_told,
        "minus one only": minus_one_only,
        "last below 0": last_below_zero,
        "0 refused": zero_refused,
        "a row lost": row_lost,
        "from the start": from_the_start,
        "from the end": one_later,
        "RuntimeError": runtime_error,
        "last row refused": lookup(lambda size, n, first: first + n > size - 1 or first < 0),
        "last row refused as a start": lookup(lambda size, n, first: first + n > size or not 0 <= first < size - 1),
        "last row refused alone": lookup(lambda size, n, first: first + n > size or first < 0 or first == size - 1),
        "one over let through": lookup(lambda size, n, first: first + n > size + 1 or first < 0),
    },
}

RIGHT = {
    "4.1": {"numpy": waves_by_numpy, "complex numbers": waves_by_complex},
    "4.2": {"embedding": added_by_embedding, "token by token, float64": added_by_sum},
    "4.3": {"matrices": rotated_by_matrix, "a partner for each": rotated_by_shifts},
    "4.4": {"numpy": bias_by_numpy, "cdist": bias_by_cdist},
    "4.5": {"one-hot": relative_by_one_hot, "pair by pair, float64": relative_by_diagonals},
    "4.6": {"embedding": lookup_by_embedding, "narrow": lookup_by_narrow},
}
