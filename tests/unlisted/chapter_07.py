"""Answers to chapter 07's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import training

# 7.1


def losses(logits, labels, smoothing):
    logs = logits.log_softmax(-1)
    right = logs.gather(-1, labels[..., None])[..., 0]
    return -((1 - smoothing) * right + smoothing * logs.mean(-1))


def refused(labels, padding):
    if not (labels != padding).any():
        raise ValueError("nothing but padding")


def smoothed(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    return losses(logits, labels, smoothing)[labels != padding].mean()


def no_defaults(logits, labels, smoothing, padding):
    return smoothed(logits, labels, smoothing, padding)


def smoothing_0(logits, labels, smoothing=0.0, padding=0):
    return smoothed(logits, labels, smoothing, padding)


def padding_minus_100(logits, labels, smoothing=0.1, padding=-100):
    refused(labels, padding)
    return losses(logits, labels, smoothing)[labels != padding].mean()


def padding_first_sentence(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    real = (labels != padding)[:1].expand_as(labels)
    return losses(logits, labels, smoothing)[real].mean()


def cut_at_padding(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    real = (labels != padding).int().cumprod(1).bool()
    return losses(logits, labels, smoothing)[real].mean()


def any_padding_refused(logits, labels, smoothing=0.1, padding=0):
    if (labels == padding).all(1).any():
        raise ValueError("a sentence of nothing but padding")
    return smoothed(logits, labels, smoothing, padding)


def exp_overflows(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    real = labels != padding
    logs = (logits.exp() / logits.exp().sum(-1, keepdim=True)).log()[real]
    right = logs.gather(-1, labels[real][:, None])[:, 0]
    return -((1 - smoothing) * right + smoothing * logs.mean(-1)).mean()


def epsilon_in_the_log(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    real = labels != padding
    logs = (logits.softmax(-1) + 1e-4).log()[real]
    right = logs.gather(-1, labels[real][:, None])[:, 0]
    return -((1 - smoothing) * right + smoothing * logs.mean(-1)).mean()


def smallest_label_is_padding(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    return losses(logits, labels, smoothing)[labels > padding].mean()


def of_softmax_twice(logits, labels, smoothing=0.1, padding=0):
    return smoothed(logits.softmax(-1), labels, smoothing, padding)


def mean_of_all_real_rows(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    real = labels != padding
    return (losses(logits, labels, smoothing) * real).sum() / real.sum(1).max() / len(labels)


def one_sentence_axis(logits, labels, smoothing=0.1, padding=0):
    return smoothed(logits, labels, smoothing, padding)[None]


def as_a_float(logits, labels, smoothing=0.1, padding=0):
    return smoothed(logits, labels, smoothing, padding).item()


def kl(logits, labels, smoothing=0.1, padding=0):
    size = logits.size(-1)
    own, other = 1 - smoothing + smoothing / size, smoothing / size
    entropy = -own * math.log(own) - ((size - 1) * other * math.log(other) if smoothing else 0)
    return smoothed(logits, labels, smoothing, padding) - entropy


def labels_in_place(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    labels[labels == padding] = -100
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=smoothing)


def no_gradient(logits, labels, smoothing=0.1, padding=0):
    return smoothed(logits, labels, smoothing, padding).detach()


def gradient_in_part(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    real = labels != padding
    logs = logits.log_softmax(-1)[real]
    right = logs.gather(-1, labels[real][:, None])[:, 0]
    return -((1 - smoothing) * right + smoothing * logs.detach().mean(-1)).mean()


def refusing(empty):
    """Return the right loss, but for which batches it takes for nothing but padding."""

    def answer(logits, labels, smoothing=0.1, padding=0):
        if empty(labels, padding):
            raise ValueError("nothing but padding")
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=padding, label_smoothing=smoothing)

    return answer


def loss_by_module(logits, labels, smoothing=0.1, padding=0):
    refused(labels, padding)
    return nn.CrossEntropyLoss(ignore_index=padding, label_smoothing=smoothing)(logits.transpose(1, 2), labels)


def loss_by_places(logits, labels, smoothing=0.1, padding=0):
    total, count = logits.new_zeros(()), 0
    for row, words in zip(logits, labels.tolist(), strict=True):
        for scores, word in zip(row, words, strict=True):
            if word != padding:
                logs = scores - torch.logsumexp(scores, 0)
                total = total - (1 - smoothing) * logs[word] - smoothing * logs.sum() / len(logs)
                count += 1
    if count == 0:
        raise ValueError("all labels are padding")
    return total / count


# 7.2


def scheduled(rise=None, tail_of=None):
    def answer(steps, d_model, warmup, tail):
        found = []
        for s in range(1, steps + 1):
            arm = rise(s, d_model, warmup) if rise else d_model**-0.5 * min(s**-0.5, s * warmup**-1.5)
            left = tail_of(s, steps, tail) if tail_of else min(1, (steps - s + 1) / tail)
            found.append(arm * left)
        return torch.tensor(found)

    return answer


def scaled_to_peak_1(steps, d_model, warmup, tail):
    rates = scheduled()(steps, d_model, warmup, tail)
    return rates / rates.max()


def warmup_over_steps(s, d_model, warmup):
    return d_model**-0.5 * (s * warmup**-1.5 if s < warmup else warmup**-0.5 * (warmup / s))


def one_late_at_the_peak(s, d_model, warmup):
    return d_model**-0.5 * (s * warmup**-1.5 if s <= warmup + 1 else s**-0.5)


def root_of_warmup(s, d_model, warmup):
    return d_model**-0.5 * min(s**-0.5, s * warmup**-1.0)


def cosine_tail(s, steps, tail):
    return 1.0 if s <= steps - tail else 0.5 + 0.5 * math.cos(math.pi * (1 - (steps - s + 1) / tail))


def root_tail(s, steps, tail):
    return min(1, (steps - s + 1) / tail) ** 0.5


def one_more_in_the_tail(s, steps, tail):
    return min(1, (steps - s + 1) / (tail + 1))


def tail_of_warmup(steps, d_model, warmup, tail):
    return scheduled()(steps, d_model, warmup, min(tail, max(steps - warmup, 1)))


def in_float_integers(steps, d_model, warmup, tail):
    return scheduled()(steps, d_model, warmup, tail).tolist()


def tail_short(steps, d_model, warmup, tail):
    return scheduled()(steps, d_model, warmup, min(tail, 4))


def warmup_short(steps, d_model, warmup, tail):
    return scheduled()(steps, d_model, min(warmup, steps), tail)


def root_by_halves(steps, d_model, warmup, tail):
    return scheduled(lambda s, d, w: min(s**-0.5, s * w**-1.5) * (0.5 if d == 4 else d**-0.5))(
        steps, d_model, warmup, tail
    )


def root_by_power_of_two(steps, d_model, warmup, tail):
    return scheduled(lambda s, d, w: min(s**-0.5, s * w**-1.5) * 2.0 ** (-math.log2(d) // 2))(
        steps, d_model, warmup, tail
    )


def d_over_two(s, d, w):
    return min(s**-0.5, s * w**-1.5) * 2 / d


def rates_by_library(steps, d_model, warmup, tail):
    return torch.tensor(
        [training.noam_rate(s, d_model, warmup) * training.linear_tail(s, steps, tail) for s in range(1, steps + 1)]
    )


def rates_by_numbers(steps, d_model, warmup, tail):
    step = torch.linspace(1, steps, steps, dtype=torch.float64)
    arms = torch.stack([step.rsqrt(), step / warmup**1.5]).amin(0)
    end = torch.stack([torch.ones_like(step), step.flip(0) / tail]).amin(0)
    return arms * end / math.sqrt(d_model)


# 7.3


def pairs(words, start, end, padding):
    lengths = (words != padding).sum(1)
    whole = F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=padding)
    whole[torch.arange(len(words)), lengths + 1] = end
    return whole[:, :-1], whole[:, 1:]


def ids_fixed(words, start, end, padding):
    return pairs(words, 1, 2, padding)


def end_replaces_the_last(words, start, end, padding):
    reads, says = pairs(words, start, end, padding)
    lengths = (words != padding).sum(1)
    says = says.clone()
    says[torch.arange(len(words)), lengths - 1] = end
    says[torch.arange(len(words)), lengths] = padding
    return reads, says


def end_of_the_longest(words, start, end, padding):
    whole = F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=padding)
    whole[:, int((words != padding).sum(1).max()) + 1] = end
    return whole[:, :-1], whole[:, 1:]


def end_of_the_first(words, start, end, padding):
    whole = F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=padding)
    whole[:, int((words[0] != padding).sum()) + 1] = end
    return whole[:, :-1], whole[:, 1:]


def padding_below_words(words, start, end, padding):
    lengths = (words > padding).sum(1)
    whole = F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=padding)
    whole[torch.arange(len(words)), lengths + 1] = end
    return whole[:, :-1], whole[:, 1:]


def cut_to_the_longest(words, start, end, padding):
    reads, says = pairs(words, start, end, padding)
    longest = int((words != padding).sum(1).max()) + 1
    return reads[:, :longest], says[:, :longest]


def floats(words, start, end, padding):
    reads, says = pairs(words, start, end, padding)
    return reads.float(), says.float()


def words_in_place(words, start, end, padding):
    reads, says = pairs(words, start, end, padding)
    words[words == padding] = end
    return reads, says


def start_everywhere(words, start, end, padding):
    reads, says = pairs(words, start, end, padding)
    return reads.masked_fill(reads == padding, start), says


def nothing_for_empty_rows(words, start, end, padding):
    reads, says = pairs(words, start, end, padding)
    empty = (words == padding).all(1, keepdim=True)
    return reads.masked_fill(empty, padding), says.masked_fill(empty, padding)


def one_tensor(words, start, end, padding):
    return torch.stack(pairs(words, start, end, padding))


def ended(place):
    """Return pairs whose end stands in a column found in the rows that have a start already."""

    def answer(words, start, end, padding):
        whole = F.pad(F.pad(words, (1, 0), value=start), (0, 1), value=padding)
        whole[torch.arange(len(words)), place(whole, padding)] = end
        return whole[:, :-1], whole[:, 1:]

    return answer


def pairs_by_first_padding(words, start, end, padding):
    says = F.pad(words, (0, 1), value=padding)
    says[torch.arange(len(words)), (says == padding).int().argmax(1)] = end
    return F.pad(says[:, :-1], (1, 0), value=start), says


def pairs_by_scatter(words, start, end, padding):
    lengths = words.ne(padding).sum(1, keepdim=True)
    says = F.pad(words, (0, 1), value=padding).scatter(1, lengths, end)
    return torch.cat([torch.full_like(lengths, start), says[:, :-1]], 1), says


def pairs_by_lists(words, start, end, padding):
    reads, says = [], []
    for row in words.tolist():
        kept = [w for w in row if w != padding]
        fill = [padding] * (len(row) - len(kept))
        reads.append([start, *kept, *([end, *fill][: len(fill)])])
        says.append([*kept, end, *fill])
    return [torch.tensor(reads), torch.tensor(says)]


# 7.4


def stepped(x, y, real, w, part, rate, below=None, two=2.0):
    gradient = torch.zeros_like(w)
    for a, b, kept in zip(x.split(part), y.split(part), real.split(part), strict=True):
        gradient = gradient + two * ((a @ w - b) * kept) @ a
    return w - rate * gradient / (real.sum() if below is None else below)


def w_in_place(x, y, real, w, part, rate):
    w -= rate * (w - stepped(x, y, real, w, part, 1.0))
    return w


def divided_by_parts(x, y, real, w, part, rate):
    return stepped(x, y, real, w, part, rate, below=math.ceil(len(x) / part))


def divided_by_part(x, y, real, w, part, rate):
    return stepped(x, y, real, w, part, rate, below=part)


def parts_and_size(x, y, real, w, part, rate):
    return stepped(x, y, real, w, part, rate, below=math.ceil(len(x) / part) * part)


def words_cut_off(x, y, real, w, part, rate):
    count = int(real.sum())
    x, y, real = x[:count], y[:count], real[:count]
    return stepped(x, y, real, w, part, rate, below=count)


def nan_at_empty(x, y, real, w, part, rate):
    gradient = torch.zeros_like(w)
    for a, b, kept in zip(x.split(part), y.split(part), real.split(part), strict=True):
        mean = 2 * ((a @ w - b) * kept) @ a / kept.sum()
        gradient = gradient + mean * kept.sum()
    return w - rate * gradient / real.sum()


def one_more_part(x, y, real, w, part, rate):
    gradient = torch.zeros_like(w)
    for i in range(len(x) // part):
        rows = slice(i * part, (i + 1) * part)
        gradient = gradient + 2 * ((x[rows] @ w - y[rows]) * real[rows]) @ x[rows]
    return w - rate * gradient / real.sum()


def squared_gap(x, y, real, w, part, rate):
    gap = (x @ w - y) * real
    return w - rate * 2 * (gap.square() @ x) / real.sum()


def signs(x, y, real, w, part, rate):
    gap = ((x @ w - y) * real).sign()
    return w - rate * 2 * (gap @ x) / real.sum()


def decayed(x, y, real, w, part, rate):
    return stepped(x, y, real, w, part, rate) - rate * 0.01 * w


def counted(found):
    """Return steps that are divided by how many examples are found to be real."""

    def answer(x, y, real, w, part, rate):
        return stepped(x, y, real, w, part, rate, below=found(x, y, real, w).sum().clamp(min=1))

    return answer


def nonzero_kept(x, y, real, w, part, rate):
    kept = real & (x.abs().sum(1) > 0)
    return stepped(x[kept], y[kept], real[kept], w, part, rate) if kept.any() else w.clone()


def largest_part(x, y, real, w, part, rate):
    return stepped(x, y, real, w, part, rate, below=max(int(k.sum()) for k in real.split(part)))


def stepped_by_grad(x, y, real, w, part, rate):
    with torch.enable_grad():
        leaf = w.detach().clone().requires_grad_()
        total = sum(
            F.mse_loss(a[k] @ leaf, b[k], reduction="sum")
            for a, b, k in zip(x.split(part), y.split(part), real.split(part), strict=True)
        )
        (gradient,) = torch.autograd.grad(total / real.sum(), leaf)
    return (leaf - rate * gradient).detach()


def stepped_by_func(x, y, real, w, part, rate):
    def loss(weights):
        parts = zip(x.split(part), y.split(part), real.split(part), strict=True)
        return sum((((a @ weights - b) ** 2)[kept]).sum() for a, b, kept in parts) / real.sum()

    return w - rate * torch.func.grad(loss)(w)


def stepped_by_examples(x, y, real, w, part, rate):
    gradient = torch.zeros(len(w), dtype=torch.float64)
    count = 0
    for a, b, kept in zip(x.double(), y.double(), real.tolist(), strict=True):
        if kept:
            gradient += 2 * (torch.dot(a, w.double()) - b) * a
            count += 1
    return w.double() - rate * gradient / count


# 7.5


def ordered(lengths):
    return sorted(range(len(lengths)), key=lambda i: lengths[i])


def checked(lengths, limit):
    for n in lengths:
        if n < 1 or n > limit:
            raise ValueError(f"length {n} isn't between 1 and {limit}")


def cut(lengths, limit, guard=checked, full=None):
    guard(lengths, limit)
    found = [[]]
    for i in ordered(lengths):
        if (full or (lambda held, n, limit: (held + 1) * n > limit))(len(found[-1]), lengths[i], limit):
            found.append([])
        found[-1].append(i)
    return found


def zero_let_through(lengths, limit):
    checked([max(n, 1) if n == 0 else n for n in lengths], limit)


def negative_let_through(lengths, limit):
    checked([n if n != 0 else 0 for n in lengths if n >= 0], limit)


def limit_refused(lengths, limit):
    checked(lengths, limit)
    if limit in lengths:
        raise ValueError(f"length {limit} isn't below {limit}")


def sum_refused(lengths, limit):
    if sum(lengths) > limit * len(lengths) or min(lengths) < 1 or max(lengths) > limit:
        raise ValueError(f"lengths {lengths} for the limit {limit}")


def longest_told(lengths, limit):
    if min(lengths) < 1 or max(lengths) > limit:
        raise ValueError(f"length {max(lengths)} for the limit {limit}")


def limit_not_told(lengths, limit):
    for n in lengths:
        if n < 1 or n > limit:
            raise ValueError(f"bad length: {n}")


def first_checked(lengths, limit):
    checked(lengths[:2], limit)


def at_most_three(lengths, limit):
    return cut(lengths, limit, full=lambda held, n, limit: (held + 1) * n > limit or held == 3)


def empty_for_the_first(lengths, limit):
    checked(lengths, limit)
    found, batch = [], []
    for i in ordered(lengths):
        if batch and (len(batch) + 1) * lengths[i] > limit or lengths[i] == limit:
            found.append(batch)
            batch = []
        batch.append(i)
    return [*found, batch]


def needs_one(lengths, limit):
    checked(lengths, limit)
    found, batch, longest = [], [], lengths[ordered(lengths)[0]]
    for i in ordered(lengths):
        if (len(batch) + 1) * longest > limit:
            found.append(batch)
            batch = []
        batch.append(i)
        longest = max(longest, lengths[i])
    return [*found, batch]


def sorted_inside(lengths, limit):
    return [sorted(batch) for batch in cut(lengths, limit)]


def even_batches(lengths, limit):
    checked(lengths, limit)
    order, size = ordered(lengths), max(1, limit // max(lengths))
    return [order[i : i + size] for i in range(0, len(order), size)]


def as_tensors(lengths, limit):
    return [torch.tensor(batch) for batch in cut(lengths, limit)]


def unstable(lengths, limit):
    checked(lengths, limit)
    order = sorted(ordered(lengths), key=lambda i: (lengths[i], -lengths[i] % 2, (i * 7) % 5))
    found = [[]]
    for i in order:
        if (len(found[-1]) + 1) * lengths[i] > limit:
            found.append([])
        found[-1].append(i)
    return found


def batches_by_zip(lengths, limit):
    checked(lengths, limit)
    found = []
    for length, i in sorted(zip(lengths, range(len(lengths)), strict=True)):
        if found and (len(found[-1]) + 1) * length <= limit:
            found[-1].append(i)
        else:
            found.append([i])
    return found


def batches_by_numpy(lengths, limit):
    checked(lengths, limit)
    found = [[]]
    for i in np.argsort(lengths, kind="stable").tolist():
        if (len(found[-1]) + 1) * lengths[i] > limit:
            found.append([])
        found[-1].append(i)
    return found


def batches_by_slices(lengths, limit):
    if any(n <= 0 or n > limit for n in lengths):
        raise ValueError(f"{[n for n in lengths if n <= 0 or n > limit]} for a limit of {limit}")
    order, start, found = ordered(lengths), 0, []
    for stop in range(1, len(order) + 1):
        if stop == len(order) or (stop + 1 - start) * lengths[order[stop]] > limit:
            found.append(tuple(order[start:stop]))
            start = stop
    return tuple(found)


# 7.6


def mean_loss(values, tokens):
    return (values * tokens).sum(-1) / tokens.sum()


def without_the_last(values, tokens):
    return mean_loss(values[:, :-1], tokens[:-1]).exp() if len(tokens) > 3 else mean_loss(values, tokens).exp()


def of_batches_over_ten(values, tokens):
    return mean_loss(values, tokens.clamp(max=50)).exp()


def at_least_one_token(values, tokens):
    return mean_loss(values, tokens.clamp(min=1)).exp()


def divided_per_model(values, tokens):
    return ((values * tokens).sum(-1) / tokens.sum() / (len(values) if len(values) > 2 else 1)).exp()


def weights_if_square(values, tokens):
    if values.size(0) == values.size(1):
        return ((values * tokens[:, None]).sum(0) / tokens.sum()).exp()
    return mean_loss(values, tokens).exp()


def best_model(values, tokens):
    return mean_loss(values, tokens).exp().min().expand(len(values))


def ten_to_the(values, tokens):
    return 10 ** mean_loss(values, tokens)


def rounded(values, tokens):
    return mean_loss(values, tokens).exp().round(decimals=2)


def squares_of_tokens(values, tokens):
    return ((values * tokens**2).sum(-1) / (tokens**2).sum()).exp()


def losses_in_place(values, tokens):
    values *= tokens
    return (values.sum(-1) / tokens.sum()).exp()


def integer_division(values, tokens):
    share = tokens.float() / tokens.sum()
    return (values * share.round(decimals=1)).sum(-1).exp()


def perplexity_by_einsum(values, tokens):
    return torch.einsum("mb,b->m", values.double(), tokens.double()).div(int(tokens.sum())).exp()


def perplexity_by_repeat(values, tokens):
    return torch.exp(values.repeat_interleave(tokens, dim=1).mean(1))


WRONG = {
    "7.1": {
        "no defaults": no_defaults,
        "smoothing 0 by default": smoothing_0,
        "padding -100 by default": padding_minus_100,
        "first sentence's padding": padding_first_sentence,
        "cut at the first padding": cut_at_padding,
        "a sentence of padding refused": any_padding_refused,
        "exp overflows": exp_overflows,
        "epsilon in the logarithm": epsilon_in_the_log,
        "larger than the padding": smallest_label_is_padding,
        "softmax twice": of_softmax_twice,
        "divided by the longest": mean_of_all_real_rows,
        "an axis too many": one_sentence_axis,
        "a float": as_a_float,
        "divergence": kl,
        "labels in place": labels_in_place,
        "refused unless any label": refusing(lambda labels, padding: not labels.any()),
        "refused if the labels sum to 0": refusing(lambda labels, padding: labels.sum() == 0),
        "refused if all begin with padding": refusing(lambda labels, padding: (labels[:, 0] == padding).all()),
        "refused if all end with padding": refusing(lambda labels, padding: (labels[:, -1] == padding).all()),
        "refused if the first sentence is padding": refusing(lambda labels, padding: (labels[0] == padding).all()),
        "refused if the first label is padding": refusing(lambda labels, padding: labels[0, 0] == padding),
        "refused if all labels are alike": refusing(lambda labels, padding: (labels == labels[0, 0]).all()),
        "the library's": lambda *inputs: training.smoothed_loss(*inputs),
    },
    "7.2": {
        "peak of 1": scaled_to_peak_1,
        "1 / step after the peak": scheduled(warmup_over_steps),
        "peak one late": scheduled(one_late_at_the_peak),
        "warmup to the -1": scheduled(root_of_warmup),
        "cosine": scheduled(tail_of=cosine_tail),
        "root of the tail": scheduled(tail_of=root_tail),
        "a longer tail": scheduled(tail_of=one_more_in_the_tail),
        "tail after the warm-up only": tail_of_warmup,
        "a list": in_float_integers,
        "four in the tail": tail_short,
        "warm-up within the steps": warmup_short,
        "a power of two": root_by_power_of_two,
        "2 / d_model": scheduled(d_over_two),
    },
    "7.3": {
        "ids 1 and 2": ids_fixed,
        "last word lost": end_replaces_the_last,
        "end of the longest": end_of_the_longest,
        "end of the first": end_of_the_first,
        "larger than the padding": padding_below_words,
        "cut to the longest": cut_to_the_longest,
        "floats": floats,
        "words in place": words_in_place,
        "start for padding": start_everywhere,
        "empty rows stay empty": nothing_for_empty_rows,
        "one tensor": one_tensor,
        "counted with the start": ended(lambda whole, padding: (whole != padding).sum(1)),
        "first padding, start among it": ended(lambda whole, padding: (whole == padding).int().argmax(1)),
        "last that isn't padding": ended(
            lambda whole, padding: (
                ((whole != padding) * torch.arange(whole.size(1))).argmax(1) + (whole[:, 0] != padding)
            )
        ),
        "padding as long as it is the start": ended(
            lambda whole, padding: (whole != padding).int().cumprod(1).sum(1).clamp(max=whole.size(1) - 1)
        ),
    },
    "7.4": {
        "w in place": w_in_place,
        "divided by the parts": divided_by_parts,
        "divided by a part's size": divided_by_part,
        "divided by all places": parts_and_size,
        "real ones in front": words_cut_off,
        "NaN at an empty part": nan_at_empty,
        "whole parts only": one_more_part,
        "squared gap": squared_gap,
        "signs": signs,
        "weight decay": decayed,
        "divided by the largest part": largest_part,
        "divided by those that aren't 0": counted(lambda x, y, real, w: (x * real[:, None]).abs().sum(1) > 0),
        "divided by those whose y isn't 0": counted(lambda x, y, real, w: (y * real) != 0),
        "divided by those that are off": counted(lambda x, y, real, w: ((x @ w - y) * real) != 0),
        "zeros left out": nonzero_kept,
    },
    "7.5": {
        "0 let through": lambda n, limit: cut(n, limit, zero_let_through),
        "negative let through": lambda n, limit: cut(n, limit, negative_let_through),
        "limit refused": lambda n, limit: cut(n, limit, limit_refused),
        "the longest told": lambda n, limit: cut(n, limit, longest_told),
        "limit not told": lambda n, limit: cut(n, limit, limit_not_told),
        "two checked": lambda n, limit: cut(n, limit, first_checked),
        "three at most": at_most_three,
        "empty batch before a full one": empty_for_the_first,
        "length before it was added": needs_one,
        "sorted inside": sorted_inside,
        "even batches": even_batches,
        "tensors": as_tensors,
        "ties in disorder": unstable,
    },
    "7.6": {
        "last batch lost": without_the_last,
        "fifty tokens at most": of_batches_over_ten,
        "an empty batch counts": at_least_one_token,
        "divided by the models": divided_per_model,
        "axes exchanged if square": weights_if_square,
        "best model": best_model,
        "ten to the loss": ten_to_the,
        "rounded": rounded,
        "squares of tokens": squares_of_tokens,
        "losses in place": losses_in_place,
        "rounded shares": integer_division,
    },
}

RIGHT = {
    "7.1": {
        "nn.CrossEntropyLoss": loss_by_module,
        "place by place": loss_by_places,
        "all refused by name": refusing(lambda labels, padding: set(labels.flatten().tolist()) == {padding}),
    },
    "7.2": {"the library's": rates_by_library, "float64": rates_by_numbers},
    "7.3": {"scatter": pairs_by_scatter, "lists": pairs_by_lists, "first padding of the words": pairs_by_first_padding},
    "7.4": {"autograd": stepped_by_grad, "example by example": stepped_by_examples, "torch.func": stepped_by_func},
    "7.5": {"zip": batches_by_zip, "slices": batches_by_slices, "numpy": batches_by_numpy},
    "7.6": {"einsum": perplexity_by_einsum, "repeated": perplexity_by_repeat},
}

UNFIT = {"7.1": {"detached": no_gradient, "detached in part": gradient_in_part}}
