"""Answers to chapter 11's exercises that its probes don't list: wrong ones, and more right ones."""

import math

import torch
from torch import nn
from torch.nn import functional as F

# 11.1


def masking(chosen=lambda w, s: w < s, blanked=lambda h: h < 0.8, other=lambda h: (h >= 0.8) & (h < 0.9), empty=-100):
    def answer(tokens, which, how, instead, share, blank, specials):
        asked = chosen(which, share) & (tokens >= specials)
        inputs = torch.where(asked & blanked(how), blank, torch.where(asked & other(how), instead, tokens))
        return inputs, torch.where(asked, tokens, empty)

    return answer


def tokens_in_place(tokens, which, how, instead, share, blank, specials):
    inputs, labels = masking()(tokens, which, how, instead, share, blank, specials)
    tokens.copy_(inputs)
    return tokens, labels


def zero_has_no_label(tokens, which, how, instead, share, blank, specials):
    inputs, labels = masking()(tokens, which, how, instead, share, blank, specials)
    return inputs, labels.masked_fill(inputs == blank, -100)


def smallest_draws(tokens, which, how, instead, share, blank, specials):
    count = max(1, round(share * which.numel()))
    least = which.flatten().sort().values[count - 1]
    return masking(lambda w, s: w <= least)(tokens, which, how, instead, share, blank, specials)


def masked_by_steps(tokens, which, how, instead, share, blank, specials):
    places = ((which < share) & (tokens >= specials)).nonzero().tolist()
    inputs, labels = tokens.clone(), torch.zeros_like(tokens) - 100
    for b, i in places:
        labels[b, i] = tokens[b, i]
        draw = float(how[b, i].to(torch.float32).double().mul(1e4).round() / 1e4)
        inputs[b, i] = blank if draw < 0.8 else instead[b, i] if draw < 0.9 else tokens[b, i]
    return inputs, labels


def masked_by_parts(tokens, which, how, instead, share, blank, specials):
    asked = which.lt(share).logical_and(tokens.ge(specials))
    low, high = how.lt(0.8), how.lt(0.9)
    inputs = tokens * ~asked + asked * (low * blank + (high ^ low) * instead + ~high * tokens)
    return inputs, tokens * asked - 100 * (~asked).long()


# 11.2


def needed(cut):
    before = torch.cat([cut.new_zeros(1), cut[:-1]])
    return 1 + int((cut & ~before).sum())


def refuse(cut, sentinels):
    if needed(cut) > len(sentinels):
        raise ValueError(f"{needed(cut)} needed, {len(sentinels)} there")


def spans(guard=refuse, source=lambda s: s, target=lambda t: t):
    def answer(tokens, cut, sentinels):
        guard(cut, sentinels)
        left, taken, count, last = [], [], 0, False
        for token, gone in zip(tokens.tolist(), cut.tolist(), strict=True):
            if gone and not last:
                left.append(sentinels[count])
                taken.append(sentinels[count])
                count += 1
            (taken if gone else left).append(token)
            last = gone
        taken.append(sentinels[count])
        return tuple(torch.tensor(part, dtype=torch.long) for part in (source(left), target(taken)))

    return answer


def merged(ids):
    return [one for i, one in enumerate(ids) if i == 0 or one != ids[i - 1]]


def once(ids):
    return list(dict.fromkeys(ids))


def nothing_cut_first(tokens, cut, sentinels):
    return spans()(tokens, cut, sentinels) if cut.any() else (tokens.clone(), torch.tensor(sentinels[:1]).long())


def two_or_more(cut, sentinels):
    if needed(cut) > 1:
        refuse(cut, sentinels)


def gone_by_value(tokens, cut, sentinels):
    return spans()(tokens, torch.isin(tokens, tokens[cut]), sentinels)


def cut_tokens_counted(cut, sentinels):
    if int(cut.sum()) + 1 > len(sentinels):
        raise ValueError(f"{int(cut.sum()) + 1} needed, {len(sentinels)} there")


def in_floats(tokens, cut, sentinels):
    return tuple(part.float() for part in spans()(tokens, cut, sentinels))


def spans_by_index(tokens, cut, sentinels):
    refuse(cut, sentinels)
    before = torch.cat([cut.new_zeros(1), cut[:-1]])
    first = cut & ~before
    names = torch.tensor(sentinels)[(first.cumsum(0) - 1).clamp(min=0)]
    source = torch.where(cut, names, tokens)[~cut | first]
    pairs = torch.stack([names, tokens], 1)[torch.stack([first, cut], 1)]
    return source, torch.cat([pairs, torch.tensor(sentinels[needed(cut) - 1 : needed(cut)])])


# 11.3


def loss(logs, real=lambda t, p: t != p, mean=lambda found, kept: found.sum(1) / kept.sum(1)):
    def answer(logits, tokens, padding):
        labels = tokens[:, 1:]
        kept = real(labels, padding)
        found = -logs(logits[:, :-1]).gather(-1, labels[..., None])[..., 0]
        return mean(found.masked_fill(~kept, 0.0), kept)

    return answer


def tokens_in_place_too(logits, tokens, padding):
    right = loss(lambda x: x.log_softmax(-1))(logits, tokens, padding)
    tokens[tokens == padding] = -100
    return right


def loss_text_by_text(logits, tokens, padding):
    pairs = zip(logits[:, :-1], tokens[:, 1:], strict=True)
    return torch.stack([F.cross_entropy(x[t != padding], t[t != padding]) for x, t in pairs])


def loss_by_differences(logits, tokens, padding):
    labels = tokens[:, 1:]
    said = logits[:, :-1].gather(-1, labels[..., None])
    found = torch.logsumexp(logits[:, :-1] - said, dim=-1)
    kept = (labels != padding).to(logits.dtype)
    return torch.einsum("bn,bn->b", found, kept) / kept.sum(1)


# 11.4


def mean(x, words):
    return (x * words[..., None]).sum(1) / words.sum(1, keepdim=True).clamp(min=1)


def pooled(finish, pool=mean):
    return lambda x, words: finish(pool(x, words))


def length(m):
    return m.norm(dim=-1, keepdim=True)


def x_in_place(x, words):
    x *= words[..., None]
    return F.normalize(mean(x, words), dim=-1)


def by_einsum(x, words):
    total = torch.einsum("bnd,bn->bd", x, words.to(x.dtype))
    return F.normalize(total / words.sum(1, keepdim=True).clamp(min=1), dim=-1)


def by_largest(x, words):
    found = mean(x, words)
    found = found / found.abs().amax(-1, keepdim=True).clamp(min=1e-20)
    return found / length(found).clamp(min=1e-20)


# 11.5


def unpacked(blocks=lambda p, h: p.T.chunk(3), heads=lambda p, h: p.T.unflatten(0, (h, 3, -1)).unbind(1)):
    def answer(packed, count, by_head):
        if by_head:
            return tuple(part.flatten(0, 1) for part in heads(packed, count))
        return tuple(blocks(packed, count))

    return answer


def by_places(packed, heads, by_head):
    d = len(packed)
    places = torch.arange(3 * d)
    part = places // (d // heads) % 3 if by_head else places // d
    return tuple(packed[:, part == which].T for which in range(3))


def by_permutation(packed, heads, by_head):
    d = len(packed)
    cut = (
        packed.reshape(d, heads, 3, d // heads).permute(2, 1, 3, 0)
        if by_head
        else packed.reshape(d, 3, d).movedim(0, 2)
    )
    query, key, value = cut.reshape(3, d, d)
    return query, key, value


# 11.6


def hidden(scores, mask):
    return (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1)


class Grouped(nn.Module):
    def __init__(self, d_model, heads, groups):
        super().__init__()
        self.heads, self.groups = heads, groups
        self.query, self.output = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(d_model, d_model // heads * groups, bias=False) for _ in range(2))

    def mask(self, mask):
        return mask

    def weights(self, scores, mask):
        return hidden(scores, mask)

    def forward(self, x, mask=None):
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = (each(x).unflatten(-1, (self.groups, -1)).transpose(1, 2) for each in (self.key, self.value))
        key, value = (each.repeat_interleave(self.heads // self.groups, 1) for each in (key, value))
        scores = query @ key.mT / math.sqrt(query.size(-1))
        weights = self.weights(scores, None if mask is None else self.mask(mask))
        return self.output((weights @ value).transpose(1, 2).flatten(2))


def with_mask(change):
    return type("GroupedQueryAttention", (Grouped,), {"mask": lambda self, mask: change(mask)})


def with_weights(weigh):
    return type("GroupedQueryAttention", (Grouped,), {"weights": lambda self, scores, mask: weigh(scores, mask)})


def shares(numbers):
    return numbers / numbers.sum(-1, keepdim=True)


def kept(numbers, mask):
    return numbers if mask is None else numbers * mask


class GroupedByTorch(Grouped):
    def forward(self, x, mask=None):
        query = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        index = torch.arange(self.heads) // (self.heads // self.groups)
        key, value = (
            each(x).unflatten(-1, (self.groups, -1)).transpose(1, 2)[:, index] for each in (self.key, self.value)
        )
        return self.output(F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2))


class GroupedByWeights(Grouped):
    """Each head gets key and value weights of its own, copied from its group."""

    def forward(self, x, mask=None):
        each = self.heads // self.groups
        own = (
            part.weight.unflatten(0, (self.groups, -1)).repeat_interleave(each, 0) for part in (self.key, self.value)
        )
        key, value = (torch.einsum("bnd,hkd->bhnk", x, weight) for weight in own)
        query = torch.einsum("bnd,hkd->bhnk", x, self.query.weight.unflatten(0, (self.heads, -1)))
        scores = torch.einsum("bhnk,bhmk->bhnm", query, key) * key.size(-1) ** -0.5
        found = torch.einsum("bhnm,bhmk->bnhk", hidden(scores, mask), value)
        return self.output(found.flatten(2))


WRONG = {
    "11.1": {
        "which up to the share": masking(lambda w, s: w <= s),
        "blank up to 0.8": masking(blanked=lambda h: h <= 0.8),
        "others above 0.8": masking(other=lambda h: (h > 0.8) & (h < 0.9)),
        "others up to 0.95": masking(other=lambda h: (h >= 0.8) & (h < 0.95)),
        "smallest draws": smallest_draws,
        "no label at the blanks": zero_has_no_label,
        "tokens in place": tokens_in_place,
        "-1 for no label": masking(empty=-1),
    },
    "11.2": {
        "repeated words merged": spans(source=merged),
        "repeated words merged in the target": spans(target=merged),
        "each word once": spans(source=once),
        "nothing cut, nothing needed": nothing_cut_first,
        "two or more checked": spans(two_or_more),
        "tokens cut wherever they stand": gone_by_value,
        "cut tokens counted": spans(cut_tokens_counted),
        "floats": in_floats,
    },
    "11.3": {
        "softmax, then logarithm": loss(lambda x: x.softmax(-1).log()),
        "softmax and a little": loss(lambda x: (x.softmax(-1) + 1e-8).log()),
        "softmax clamped": loss(lambda x: x.softmax(-1).clamp(min=1e-9).log()),
        "exp without the largest": loss(lambda x: x - x.exp().sum(-1, keepdim=True).log()),
        "logits clamped": loss(lambda x: x.clamp(-30, 30).log_softmax(-1)),
        "largest for the sum": loss(lambda x: x - x.amax(-1, keepdim=True)),
        "padding and 0 left out": loss(lambda x: x.log_softmax(-1), lambda t, p: (t != p) & (t != 0)),
        "tokens in place": tokens_in_place_too,
    },
    "11.4": {
        "length clamped at 0.1": pooled(lambda m: m / length(m).clamp(min=0.1)),
        "1e-4 added to the length": pooled(lambda m: m / (length(m) + 1e-4)),
        "1e-6 added under the root": pooled(lambda m: m / (m.square().sum(-1, keepdim=True) + 1e-6).sqrt()),
        "sum of squares over d": pooled(lambda m: m / m.square().mean(-1, keepdim=True).sqrt().clamp(min=1e-12)),
        "absolute sum": pooled(lambda m: F.normalize(m, p=1, dim=-1)),
        "centred": pooled(lambda m: F.normalize(m - m.mean(-1, keepdim=True), dim=-1)),
        "x in place": x_in_place,
    },
    "11.5": {
        "blocks backwards": unpacked(blocks=lambda p, h: p.T.chunk(3)[::-1]),
        "every third column in blocks": unpacked(blocks=lambda p, h: [p[:, i::3].T for i in range(3)]),
        "heads backwards": unpacked(heads=lambda p, h: p.T.unflatten(0, (h, 3, -1)).flip(0).unbind(1)),
        "two heads": unpacked(heads=lambda p, h: p.T.unflatten(0, (1, 3, -1)).unbind(1)),
        "part before head": unpacked(heads=lambda p, h: p.T.unflatten(0, (3, h, -1)).unbind(0)),
        "key and value exchanged": unpacked(heads=lambda p, h: p.T.unflatten(0, (h, 3, -1))[:, [0, 2, 1]].unbind(1)),
        "inputs first by head": unpacked(heads=lambda p, h: [w.mT for w in p.T.unflatten(0, (h, 3, -1)).unbind(1)]),
    },
    "11.6": {
        "square masks causal": with_mask(lambda m: torch.ones_like(m).tril() if m.dim() == 2 else m),
        "masks for padding only": with_mask(lambda m: m[:, :1, :1] if m.dim() == 4 else m),
        "one head's mask": with_mask(lambda m: m[:, :1] if m.dim() == 4 else m),
        "one sentence's mask": with_mask(lambda m: m[:1] if m.dim() == 4 else m),
        "renormalised": with_weights(lambda s, m: shares(kept(s.softmax(-1), m))),
        "exp without the largest": with_weights(lambda s, m: shares(kept(s.exp(), m))),
        "largest of the hidden, too": with_weights(lambda s, m: shares(kept((s - s.amax(-1, keepdim=True)).exp(), m))),
    },
}

RIGHT = {
    "11.1": {"in steps": masked_by_steps, "sums of parts": masked_by_parts},
    "11.2": {"loop": spans(), "indices": spans_by_index},
    "11.3": {"text by text": loss_text_by_text, "differences": loss_by_differences},
    "11.4": {"einsum": by_einsum, "by the largest first": by_largest},
    "11.5": {"by places": by_places, "permuted": by_permutation},
    "11.6": {"PyTorch's own": GroupedByTorch, "weights copied": GroupedByWeights},
}
