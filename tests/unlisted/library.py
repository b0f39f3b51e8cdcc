"""Answers that call the library's own version of what is asked for: exercise -> name -> answer.

Their values are right, so that the check and the grader must find out what they call.
"""

import torch
from torch import Tensor, nn

from transformer_lib import attention, baselines, bert, checks, data, decoding, diverse_beam, fast, fast_loss, layers
from transformer_lib import model as models
from transformer_lib.experiments import corruptions, encodings, modern
from transformer_lib.multi_head import MultiHeadAttention
from transformer_lib.positional import LearnedPositions
from transformer_lib.relative import LinearBias, RotaryPositions, ShawPositions, linear_slopes


def holding(module: nn.Module, **parameters: Tensor) -> nn.Module:
    """Return a module with other parameters, given by their names with __ for each dot."""
    for name, value in parameters.items():
        *path, last = name.split("__")
        owner = module.get_submodule(".".join(path))
        delattr(owner, last)
        setattr(owner, last, value)
    return module


def convolved(x, weight, bias, dilation):
    wider = max(weight.shape[:2]) - torch.tensor(weight.shape[:2])
    weight = nn.functional.pad(weight, (0, 0, 0, int(wider[1]), 0, int(wider[0])))
    layer = baselines.CausalConvolution(weight.size(0), weight.size(2), dilation)
    holding(layer, places__weight=weight, places__bias=nn.functional.pad(bias, (0, int(wider[0]))))
    return layer(nn.functional.pad(x, (0, int(wider[1]))))[..., : len(bias)]


def fast_weights(query, key, mask=None):
    return fast.attend(query, key, torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:-1], -1), mask)


def additive(query, key, W_q, W_k, v):
    layer = attention.AdditiveAttention(W_q.size(1), W_k.size(1), len(v))
    return holding(layer, query__weight=W_q, key__weight=W_k, score__weight=v[None]).scores(query, key)


def fitted(mask, scores):
    checks.mask_fits(mask, scores.shape)
    return mask.expand(scores.shape)


class Grouped(modern.GroupedQueryAttention):
    def __init__(self, d_model, heads):
        super().__init__(d_model, heads, heads)


class Packed(MultiHeadAttention):
    def forward(self, x, memory, mask=None):
        return fast.packed_attention(self, x, memory, mask)


def slopes(heads, queries, keys, first):
    distance = (torch.arange(keys) - torch.arange(first, first + queries)[:, None]).abs()
    return -torch.tensor(linear_slopes(heads))[:, None, None] * distance


def shaw(query, table):
    table = table if len(table) > 1 else table.repeat(3, 1)
    layer = holding(ShawPositions(query.size(-1), len(table) // 2), table=table)
    found = query.reshape(1, -1, *query.shape[-2:])
    return (layer.bias(found, query.size(-2), 0) * query.size(-1) ** 0.5).reshape(*query.shape[:-1], -1)


def learned(table, length, first):
    return holding(LearnedPositions(*table.shape), table=table)(length, first)


def residual(x, W, gain, shift, norm):
    layer = layers.Residual(x.size(-1), norm=norm)
    return holding(layer, norm__weight=gain, norm__bias=shift)(x, lambda y: y @ W)


def embedded(tokens, table, x):
    config = models.TransformerConfig(
        vocabulary=len(table), d_model=table.size(1), heads=1, positions="none", dropout=0.0
    )
    layer = holding(models.Embedding(config), table=table)
    return layer(tokens), layer.logits(x)


def loss_by_the_table(logits, labels, smoothing=0.1, padding=0):
    real = labels != padding
    if not real.any():
        raise ValueError("every label is padding")
    unit = torch.eye(logits.size(-1), dtype=logits.dtype)
    return fast_loss.linear_loss(logits[real], unit, labels[real], smoothing)


def loss_inside(logits, labels, smoothing=0.1, padding=0):
    real = labels != padding
    if not real.any():
        raise ValueError("every label is padding")
    unit = torch.eye(logits.size(-1), dtype=logits.dtype)
    return fast_loss._LinearLoss.apply(logits[real], unit, labels[real], smoothing, 512).to(logits.dtype)


def pair(words, start, end, padding):
    """Words are numbered anew, so that none is one of the library's special tokens."""
    new = [[int(word) + 10 for word in row if word != padding] for row in words]
    batch = data.Batch.from_pairs([([9], row) for row in new])
    old = dict(zip((data.PADDING, data.START, data.END), (padding, start, end), strict=True))
    target = batch.target.clone().apply_(lambda n: old.get(n, n - 10))
    target = nn.functional.pad(target, (0, words.size(1) + 2 - target.size(1)), value=padding)
    return target[:, :-1], target[:, 1:]


def by_batches(lengths, limit):
    if wrong := [length for length in lengths if not 1 <= length <= limit]:
        raise ValueError(f"a length must be between 1 and the limit {limit}, got {wrong}")
    pairs = [([i + 4] * length, []) for i, length in enumerate(lengths)]
    return [(batch.source[:, 0] - 4).tolist() for batch in data.batches(pairs, limit)]


def by_groups(lengths, limit):
    if wrong := [length for length in lengths if not 1 <= length <= limit]:
        raise ValueError(f"a length must be between 1 and the limit {limit}, got {wrong}")
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return data._groups([[length, 1] for length in lengths], order, limit)


def beams(table, start, end, beam, longest, alpha):
    """Tokens are exchanged, so that the end is where the library has it."""
    spare = nn.functional.pad(table, (4, 0, 4, 0), value=-float("inf"))
    spare[:, data.END], spare[:, end + 4] = spare[:, end + 4].clone(), -float("inf")
    found = decoding.Beams.start(torch.zeros(1, 1, dtype=torch.long), beam)
    found.live_scores, found.done_scores = found.live_scores.to(table.dtype), found.done_scores.to(table.dtype)
    found.live[:] = start + 4
    for _ in range(longest):
        found.advance(spare[found.live[:, :, -1]], alpha)
    ended = bool(found.done_scores[0, 0] > -float("inf"))
    row = (found.done if ended else found.live)[0, 0, 1:]
    row = row[: int((row == data.END).nonzero()[0]) + 1] if ended else row
    score = found.done_scores if ended else found.live_scores / decoding.length_penalty(longest, alpha)
    return torch.where(row == data.END, end, row - 4), score[0, 0]


def in_turn(scores, log_probability, strength):
    spare = nn.functional.pad(log_probability, (4, 0), value=-float("inf"))  # none of the library's special tokens
    groups, beam, _ = log_probability.shape
    parts = [decoding.Beams.start(torch.zeros(1, 1, dtype=torch.long), beam) for _ in range(groups)]
    for part, own in zip(parts, scores, strict=True):
        part.live_scores, part.done_scores = own[None].clone(), part.done_scores.to(own.dtype)
    origins = diverse_beam.advance_in_turn(parts, spare[None], strength, 0.0)
    tokens = torch.stack([part.live[0, :, -1] for part in parts]) - 4
    return tokens, origins[0], torch.stack([part.live_scores[0] for part in parts])


class PreOrPost(nn.Module):
    def __init__(self, d_model, d_ff, norm):
        super().__init__()
        inner = layers.FeedForward(d_model, d_ff)
        self.inner, self.outer = inner.inner, inner.outer
        residual = layers.Residual(d_model, norm=norm)
        self.norm = residual.norm
        object.__setattr__(self, "parts", (residual, inner))

    def forward(self, x):
        return self.parts[0](x, self.parts[1])


def spans(tokens, cut, sentinels):
    edges = (
        cut.long().diff(prepend=torch.zeros(1, dtype=torch.long), append=torch.zeros(1, dtype=torch.long))
    ).tolist()
    begins, ends = ([i for i, edge in enumerate(edges) if edge == sign] for sign in (1, -1))
    if len(begins) >= len(sentinels):
        raise ValueError(f"{len(begins) + 1} sentinels are needed, got {len(sentinels)}")
    before, corruptions.SENTINELS = corruptions.SENTINELS, sentinels
    try:
        source, target = corruptions.cut_spans(tokens.tolist(), list(zip(begins, ends, strict=True)))
    finally:
        corruptions.SENTINELS = before
    return torch.tensor(source, dtype=torch.long), torch.tensor(target, dtype=torch.long)


class Text:
    config = bert.bert_config(9, 4, 1, 4, 1)

    def __init__(self, x):
        self.x = x

    def __call__(self, tokens):
        return self.x


class Queries(modern.GroupedQueryAttention):
    def forward(self, x, mask=None):
        return super().forward(x, x, mask)


BORROWED = {
    "1.3": {"the class": convolved},
    "2.1": {"the fast form": fast_weights},
    "2.2": {"the class": additive},
    "2.3": {"the check": fitted},
    "3.3": {"the class with groups": Grouped, "the fast form": Packed},
    "4.1": {"another base": lambda length, d_model: encodings.sinusoids_with_base(length, d_model, 10000.0)},
    "4.3": {"the scheme": lambda x, first: RotaryPositions(x.size(-1)).rotate(x, first)},
    "4.4": {
        "the scheme": lambda heads, queries, keys, first: LinearBias(heads).bias(
            torch.zeros(1, heads, queries, 1), keys, first
        ),
        "the slopes": slopes,
    },
    "4.5": {"the scheme": shaw},
    "4.6": {"the class": learned},
    "6.2": {"the class": residual},
    "6.4": {"the class": embedded},
    "7.1": {"the fast form": loss_by_the_table, "the fast form's inside": loss_inside},
    "7.3": {"the batch": pair},
    "7.5": {"the batches": by_batches, "the batches' inside": by_groups},
    "8.5": {"the beams": beams},
    "8.6": {"the groups": in_turn},
    "10.1": {"the class": PreOrPost},
    "11.2": {"the experiment's": spans},
    "11.4": {"the encoder's": lambda x, words: bert.TextEncoder.sentence_vectors(Text(x), words.long())},
    "11.6": {"the class": Queries},
}
