"""Answers to chapter 08's exercises that its probes don't list: wrong ones, and more right ones."""

import math
from collections import namedtuple

import torch
import torch.nn.functional as F

# 8.1


def kept(flags):
    """Return an answer that keeps other tokens, from the sorted probabilities, what lies before each, and p."""

    def answer(logits, p):
        if p == 1:
            return logits.clone()
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        share = ordered.softmax(-1)
        keep = flags(share, share.cumsum(-1) - share, p)
        return logits.masked_fill(~keep.gather(-1, order.argsort(-1)), -math.inf)

    return answer


def usual(logits, p):
    if p >= 1:
        return logits.clone()
    ordered, order = logits.sort(descending=True, dim=-1, stable=True)
    remove = ordered.softmax(-1).cumsum(-1) > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    return logits.masked_fill(torch.zeros_like(remove).scatter(-1, order, remove), -math.inf)


def least_of(values):
    """Return an answer that keeps all whose value isn't below the least one of the nucleus."""

    def answer(logits, p):
        if p == 1:
            return logits.clone()
        ordered = logits.sort(-1, descending=True).values
        share = ordered.softmax(-1)
        least = values(ordered).masked_fill(share.cumsum(-1) - share >= p, math.inf).amin(-1, keepdim=True)
        return logits.masked_fill(values(logits) < least, -math.inf)

    return answer


def nearly_one(logits, p):
    return logits.clone() if p > 0.99 else by_scatter(logits, p)


def rising(logits, p):
    if p == 1:
        return logits.clone()
    ordered, order = logits.sort(dim=-1, stable=True)
    below = ordered.softmax(-1).cumsum(-1) <= 1 - p + 1e-9
    below[..., -1] = False
    return logits.masked_fill(torch.zeros_like(below).scatter(-1, order, below), -math.inf)


def two_at_least(logits, p):
    return kept(lambda share, before, p: (before < p) | (torch.arange(share.size(-1)) < 2))(logits, p)


def nucleus_in_place(logits, p):
    return logits.copy_(by_scatter(logits, p))


def flat_batch(logits, p):
    return by_scatter(logits, p) if logits.dim() < 3 else by_scatter(logits[0], p).expand_as(logits)


def by_scatter(logits, p):
    if p == 1:
        return logits.clone()
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    share = ordered.softmax(-1)
    kept_ones = ordered.masked_fill(share.cumsum(-1) - share >= p, -math.inf)
    return torch.full_like(logits, -math.inf).scatter(-1, order, kept_ones)


def by_moved_sums(logits, p):
    ordered, order = logits.double().sort(dim=-1, descending=True, stable=True)
    before = F.pad(ordered.softmax(-1).cumsum(-1)[..., :-1], (1, 0))
    keep = (before < p) | (torch.tensor(p) >= 1)
    return torch.where(keep.gather(-1, order.argsort(-1)), logits, torch.full_like(logits, -math.inf))


def by_counting(logits, p):
    if p == 1:
        return logits.clone()
    rows = logits.reshape(-1, logits.size(-1))
    found = torch.full_like(rows, -math.inf)
    for row, out in zip(rows, found, strict=True):
        order = sorted(range(len(row)), key=lambda i: -float(row[i]))
        share = row.double().softmax(-1)
        count = next(k for k in range(1, len(row) + 1) if k == len(row) or float(share[order[:k]].sum()) >= p)
        out[order[:count]] = row[order[:count]]
    return found.reshape(logits.shape)


# 8.2


def ends(logits, temperature):
    return (logits / temperature).softmax(-1).cumsum(-1)


def found(pick=None, cold=lambda temperature: temperature == 0, floor=0.0, shares=None):
    """Return an answer, with another way to a token, another limit, another least temperature or other sums."""

    def answer(logits, temperature, uniform):
        if cold(temperature):
            return logits.argmax(-1)
        sums = (shares or ends)(logits, max(temperature, floor))
        tokens = (pick or (lambda sums, u: (sums <= u).sum(-1)))(sums, uniform[:, None])
        return tokens if pick else tokens.clamp(max=logits.size(-1) - 1)

    return answer


def exp_ends(logits, temperature):
    weights = (logits / temperature).exp()
    return (weights / weights.sum(-1, keepdim=True)).cumsum(-1)


def exp_ends_of_all(logits, temperature):
    weights = ((logits - logits.max()) / temperature).exp()
    return (weights / weights.sum(-1, keepdim=True)).cumsum(-1)


def never(temperature):
    return False


def first_token_if_none(sums, u):
    return (sums > u).float().argmax(-1)


def last_of_the_batch(sums, u):
    return (sums <= u).sum(-1).clamp(max=max(len(sums), 2) - 1)


def rounded_temperature(logits, temperature, uniform):
    return found(cold=lambda t: round(t, 2) == 0)(logits, temperature, uniform)


def by_bucketize(logits, temperature, uniform):
    if temperature == 0:
        return logits.topk(1).indices.squeeze(-1).int()
    sums = ends(logits, temperature)
    tokens = torch.stack([torch.bucketize(u, row, right=True) for u, row in zip(uniform, sums, strict=True)])
    return tokens.clamp(max=logits.size(-1) - 1)


def by_first_larger(logits, temperature, uniform):
    if temperature < 1e-12:
        return logits.max(-1).indices
    larger = ends(logits, temperature) > uniform.unsqueeze(1)
    larger[:, -1] = True
    return larger.int().argmax(-1)


def by_inner_ends(logits, temperature, uniform):
    if not temperature:
        return logits.argmax(1)
    return (ends(logits, temperature)[:, :-1] <= uniform[:, None]).sum(1)


# 8.3


def joined(x, W_q, W_k, W_v, key, value):
    keys, values = torch.cat([key, x @ W_k], 1), torch.cat([value, x @ W_v], 1)
    seen = torch.ones(x.size(1), keys.size(1), dtype=torch.bool).tril(key.size(1))
    return x @ W_q @ keys.mT / math.sqrt(keys.size(-1)), seen, keys, values


def weighed(weights):
    """Return a step with other weights, from the scores and what may be seen."""

    def answer(*inputs):
        scores, seen, keys, values = joined(*inputs)
        return weights(scores, seen) @ values, keys, values

    return answer


def divided(weights):
    return weights / weights.sum(-1, keepdim=True)


def divided_if_any(weights):
    return weights / weights.sum(-1, keepdim=True).clamp(min=1e-9)


def below_all(scores):
    return (scores - scores.amax(-1, keepdim=True)).exp()


def below_the_first(scores):
    return (scores - scores[..., :1]).exp()


def past_of_one(x, W_q, W_k, W_v, key, value):
    scores, seen, keys, values = joined(x, W_q, W_k, W_v, key, value)
    seen = seen if x.size(1) > 1 else seen & (torch.arange(keys.size(1)) > 0)
    return scores.masked_fill(~seen, -math.inf).softmax(-1).nan_to_num(0.0) @ values, keys, values


def first_batch_kept(*inputs):
    output, keys, values = cached(*inputs)
    return output, keys[:1].expand_as(keys), values


def past_in_place(x, W_q, W_k, W_v, key, value):
    found = cached(x, W_q, W_k, W_v, key, value)
    key.zero_()
    return found


def cached(*inputs):
    scores, seen, keys, values = joined(*inputs)
    return scores.masked_fill(~seen, -math.inf).softmax(-1) @ values, keys, values


Step = namedtuple("Step", "output key value")


def cached_and_named(x, W_q, W_k, W_v, key, value):
    _, seen, keys, values = joined(x, W_q, W_k, W_v, key, value)
    mask = None if x.size(1) == 1 else seen
    return Step(F.scaled_dot_product_attention(x @ W_q, keys, values, attn_mask=mask), keys, values)


def cached_by_maximum(*inputs):
    scores, seen, keys, values = joined(*inputs)
    most = scores.where(seen, torch.tensor(-math.inf)).amax(-1, keepdim=True)
    weights = (scores - most).clamp(max=0.0).exp() * seen
    return [divided(weights) @ values, keys, values]


def cached_with_a_small_number(*inputs):
    return weighed(lambda scores, seen: scores.masked_fill(~seen, -1e9).softmax(-1))(*inputs)


# 8.4


def refused(length, d_model, heads):
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    if d_model % heads:
        raise ValueError(f"{heads} heads don't divide a width of {d_model}")


def costs(count):
    def answer(length, d_model, heads):
        refused(length, d_model, heads)
        return count(length, d_model)

    return answer


def tensors(dtype):
    def count(length, d):
        t = torch.arange(1, length + 1, dtype=dtype)
        return int((4 * t * d * d + 2 * t * t * d).sum(dtype=dtype)), int((4 * d * d + 2 * t * d).sum(dtype=dtype))

    return count


def rounded_thirds(n, d):
    return int(2 * d * d * n * (n + 1) + 2 * d * (n**3 / 3 + n**2 / 2 + n / 6)), 4 * d * d * n + d * n * (n + 1)


def float_squares(n, d):
    return round(2 * d**2.0 * n * (n + 1) + d * n * (n + 1) * (2 * n + 1) // 3), 4 * d * d * n + d * n * (n + 1)


def right_counts(n, d):
    return sum(4 * t * d * d + 2 * t * t * d for t in range(1, n + 1)), 4 * d * d * n + d * n * (n + 1)


def as_floats(n, d):
    return tuple(float(part) for part in right_counts(n, d))


def as_tensor(n, d):
    return torch.tensor(right_counts(n, d))


def zero_length_let_through(length, d_model, heads):
    refused(max(length, 1) if length == 0 else length, d_model, heads)
    return right_counts(length, d_model)


def wide_heads_refused(length, d_model, heads):
    refused(length, d_model, heads)
    if heads == d_model:
        raise ValueError(f"{heads} heads are too many for {d_model}")
    return right_counts(length, d_model)


def length_not_told(length, d_model, heads):
    if length < 1:
        raise ValueError("the length must be at least 1")
    refused(length, d_model, heads)
    return right_counts(length, d_model)


def by_differences(n, d):
    total = step = 0
    for t in range(1, n + 1):
        step += 4 * d * d + 2 * d * (2 * t - 1)
        total += step
    return total, sum(4 * d * d + 2 * d * t for t in range(1, n + 1))


# 8.5


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def searched(stop=lambda best, done, live, beam: False, width=lambda beam, step: beam):
    """Return a beam search that stops earlier, or is of another width.

    Args:
        stop: whether to stop, from the best score so far, the finished ones, the live ones (best first) and the beam.
    """

    def answer(table, start, end, beam, longest, alpha):
        live, done = [(0.0, [start])], []
        for step in range(longest):
            grown = [(total + x, [*row, j]) for total, row in live for j, x in enumerate(table[row[-1]].tolist())]
            best = sorted((one for one in grown if one[0] > -math.inf), reverse=True)[: width(beam, step)]
            done += [(total / penalty(len(row) - 1, alpha), row) for total, row in best if row[-1] == end]
            live = [one for one in best if one[1][-1] != end]
            if not live or (done and stop(max(done)[0], done, live, beam)):
                break
        rest = [(total / penalty(len(row) - 1, alpha), row) for total, row in live]
        score, row = max(done or rest)
        return torch.tensor(row[1:]), torch.tensor(score, dtype=table.dtype)

    return answer


def found_and_floats(*inputs):
    target, score = searched()(*inputs)
    return target.float(), score


def score_with_an_axis(*inputs):
    target, score = searched()(*inputs)
    return target, score[None]


def score_alone(*inputs):
    return searched()(*inputs)[1]


def first_half_of_the_steps(table, start, end, beam, longest, alpha):
    return searched()(table, start, end, beam, max(1, longest // 2), alpha)


def one_step_more(table, start, end, beam, longest, alpha):
    return searched()(table, start, end, beam, longest + 1, alpha)


def search_by_tensors(table, start, end, beam, longest, alpha):
    tokens, scores, done = torch.tensor([[start]]), table.new_zeros(1), []
    for step in range(1, longest + 1):
        totals = scores[:, None] + table[tokens[:, -1]]
        scores, places = totals.flatten().topk(min(beam, totals.numel()))
        tokens = torch.cat([tokens[places // len(table)], (places % len(table))[:, None]], 1)[scores > -math.inf]
        scores = scores[scores > -math.inf]
        over = tokens[:, -1] == end
        done += [(x / penalty(step, alpha), row) for x, row in zip(scores[over], tokens[over], strict=True)]
        if over.all():
            break
        scores, tokens = scores[~over], tokens[~over]
    if done:
        score, row = max(done, key=lambda one: float(one[0]))
        return row[1:], score
    return tokens[scores.argmax(), 1:], scores.max() / penalty(longest, alpha)


def search_that_stops_in_time(table, start, end, beam, longest, alpha):
    sure = penalty(longest, alpha)
    return searched(stop=lambda best, done, live, beam: best >= live[0][0] / sure)(
        table, start, end, beam, longest, alpha
    )


# 8.6


def in_turn(add):
    """Return a step of the groups that counts what was chosen in another way."""

    def answer(scores, log_probability, strength):
        vocabulary = log_probability.size(-1)
        chosen, rows = torch.zeros(vocabulary, dtype=scores.dtype), []
        for row, own in zip(scores, log_probability, strict=True):
            totals = row[:, None] + own - strength * chosen
            values, places = totals.flatten().topk(len(row))
            tokens = places % vocabulary
            rows.append((tokens, places // vocabulary, values))
            chosen = add(chosen, tokens)
        return tuple(torch.stack(part) for part in zip(*rows, strict=True))

    return answer


def added(chosen, tokens):
    return chosen + torch.bincount(tokens, minlength=len(chosen))


def index_once(chosen, tokens):
    chosen = chosen.clone()
    chosen[tokens] += 1
    return chosen


def neighbours_too(chosen, tokens):
    return added(chosen, tokens) + 0.5 * added(torch.zeros_like(chosen), (tokens + 1) % len(chosen))


def halved(chosen, tokens):
    return added(chosen / 2, tokens)


def strength_squared(scores, log_probability, strength):
    return in_turn(added)(scores, log_probability, strength**2)


def scores_sorted_only(*inputs):
    tokens, origins, scores = in_turn(added)(*inputs)
    return tokens.sort(-1).values, origins, scores


def scores_in_float(scores, log_probability, strength):
    tokens, origins, found = in_turn(added)(scores, log_probability, strength)
    return tokens, origins, found.round(decimals=1)


def groups_backwards(scores, log_probability, strength):
    return tuple(part.flip(0) for part in in_turn(added)(scores.flip(0), log_probability.flip(0), strength))


def scores_in_place(scores, log_probability, strength):
    found = in_turn(added)(scores, log_probability, strength)
    scores += found[2]
    return found


def groups_by_one_hot(scores, log_probability, strength):
    found, loss = [], torch.zeros_like(log_probability[0, 0])
    for row, own in zip(scores, log_probability, strict=True):
        best = (row.unsqueeze(-1) + own).sub(loss).reshape(-1).sort(descending=True)
        places = best.indices[: len(row)]
        tokens = places.remainder(len(loss))
        loss = loss + strength * F.one_hot(tokens, len(loss)).sum(0)
        found.append([tokens, places.div(len(loss), rounding_mode="floor"), best.values[: len(row)]])
    return [torch.stack(part) for part in zip(*found, strict=True)]


WRONG = {
    "8.1": {
        "the usual code": usual,
        "exactly p isn't enough": kept(lambda share, before, p: before <= p),
        "a little more is enough": kept(lambda share, before, p: before < p - 1e-3),
        "a little less isn't enough": kept(lambda share, before, p: before < p + 1e-3),
        "two decimals": kept(lambda share, before, p: before.round(decimals=2) < round(p, 2)),
        "least logit": least_of(lambda logits: logits),
        "least probability": least_of(lambda logits: logits.softmax(-1)),
        "from the unlikely end": rising,
        "all for more than 0.99": nearly_one,
        "two at least": two_at_least,
        "in place": nucleus_in_place,
        "the first batch's": flat_batch,
    },
    "8.2": {
        "at least 0.01": found(cold=never, floor=0.01),
        "at least 0.001": found(cold=never, floor=1e-3),
        "at least 0.0001": found(cold=never, floor=1e-4),
        "cold is 0": found(cold=lambda t: t < 0.1),
        "cold is 0, up to 0.001": found(cold=lambda t: t <= 1e-3),
        "rounded temperature": rounded_temperature,
        "exp without maximum": found(shares=exp_ends),
        "maximum of all rows": found(shares=exp_ends_of_all),
        "hint alone": found(pick=lambda sums, u: (sums <= u).sum(-1)),
        "token 0 if none": found(pick=first_token_if_none),
        "searchsorted alone": found(pick=lambda sums, u: torch.searchsorted(sums, u, right=True)[:, 0]),
        "cut at the batch": found(pick=last_of_the_batch),
    },
    "8.3": {
        "masked after the softmax, divided again": weighed(lambda s, seen: divided(s.softmax(-1) * seen)),
        "masked after the softmax, divided by a little": weighed(lambda s, seen: divided_if_any(s.softmax(-1) * seen)),
        "exp without maximum": weighed(lambda s, seen: divided(s.exp() * seen)),
        "exp without maximum, divided by a little": weighed(lambda s, seen: divided_if_any(s.exp() * seen)),
        "maximum of all": weighed(lambda s, seen: divided(below_all(s) * seen)),
        "maximum of all, divided by a little": weighed(lambda s, seen: divided_if_any(below_all(s) * seen)),
        "below the first": weighed(lambda s, seen: divided(below_the_first(s) * seen)),
        "-100": weighed(lambda s, seen: s.masked_fill(~seen, -100.0).softmax(-1)),
        "-30": weighed(lambda s, seen: s.masked_fill(~seen, -30.0).softmax(-1)),
        "0": weighed(lambda s, seen: s.masked_fill(~seen, 0.0).softmax(-1)),
        "scores cut at 50": weighed(lambda s, seen: s.clamp(-50, 50).masked_fill(~seen, -math.inf).softmax(-1)),
        "the first key unseen": past_of_one,
        "the first batch's keys": first_batch_kept,
        "in place": past_in_place,
    },
    "8.4": {
        "float32": costs(tensors(torch.float32)),
        "float64": costs(tensors(torch.float64)),
        "int32": costs(tensors(torch.int32)),
        "thirds": costs(rounded_thirds),
        "a float's square": costs(float_squares),
        "floats": costs(as_floats),
        "a tensor": costs(as_tensor),
        "0 let through": zero_length_let_through,
        "as many heads as d_model refused": wide_heads_refused,
        "length not told": length_not_told,
    },
    "8.5": {
        "ends with the first": searched(stop=lambda best, done, live, beam: True),
        "ends with two": searched(stop=lambda best, done, live, beam: len(done) >= 2),
        "ends when none is better by now": searched(stop=lambda best, done, live, beam: best >= live[0][0]),
        "twice as wide": searched(width=lambda beam, step: 2 * beam),
        "wider at the start": searched(width=lambda beam, step: beam + 1 if step == 0 else beam),
        "floats": found_and_floats,
        "an axis too many": score_with_an_axis,
        "the score alone": score_alone,
        "half of the steps": first_half_of_the_steps,
        "one step more": one_step_more,
    },
    "8.6": {
        "index once": in_turn(index_once),
        "two at most": in_turn(lambda chosen, tokens: added(chosen, tokens).clamp(max=2)),
        "neighbours, too": in_turn(neighbours_too),
        "half of the loss stays": in_turn(halved),
        "strength squared": strength_squared,
        "tokens sorted": scores_sorted_only,
        "scores rounded": scores_in_float,
        "the last group first": groups_backwards,
        "scores in place": scores_in_place,
    },
}

RIGHT = {
    "8.1": {"scatter": by_scatter, "sums moved by one": by_moved_sums, "counted": by_counting},
    "8.2": {"bucketize": by_bucketize, "the first that is larger": by_first_larger, "inner ends": by_inner_ends},
    "8.3": {
        "a named tuple": cached_and_named,
        "the maximum of what is seen": cached_by_maximum,
        "-1e9": cached_with_a_small_number,
    },
    "8.4": {
        "int64": costs(tensors(torch.int64)),
        "differences": costs(by_differences),
        "sum and formula": costs(right_counts),
    },
    "8.5": {"tensors": search_by_tensors, "stops in time": search_that_stops_in_time},
    "8.6": {"one-hot": groups_by_one_hot, "added": in_turn(added)},
}
