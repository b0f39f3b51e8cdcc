"""Planted faults for the doctor: every cause in two variants or more, in our model and in other people's.

`FAULTS` holds what was planted as data: the cause that must come first, a name, and a function that returns the
arguments of `check_model`. `HEALTHY` holds models in which nothing may be found.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import foreign_models as foreign
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib import attention, masks, siblings, training
from transformer_lib.config import TransformerConfig
from transformer_lib.data import Batch
from transformer_lib.encoder_decoder import DecoderLayer, EncoderLayer
from transformer_lib.model import Transformer

SIZES = {"vocabulary": 30, "d_model": 32, "heads": 4, "d_ff": 48, "layers": 2, "max_length": 24}
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Planted(NamedTuple):
    """One model with a fault: what must be found first, whose model it is, what was done to it."""

    cause: str
    style: str
    variant: str
    make: Callable[[], Arguments]


def ids(rows: int, columns: int, vocabulary: int, low: int = 4) -> torch.Tensor:
    return torch.randint(low, vocabulary, (rows, columns))


def sentence_pairs(vocabulary: int = 30) -> Batch:
    """Return four pairs of unequal lengths."""
    source, target = ids(4, 7, vocabulary), ids(4, 9, vocabulary)
    target[:, 0] = 1
    source[1, 5:], source[2, 4:], target[1, 6:], target[3, 5:] = 0, 0, 0, 0
    return Batch(source, target)


def ours(**changes: Any) -> Transformer:
    return Transformer(TransformerConfig(**(SIZES | changes)))


def our_check(model: nn.Module, **more: Any) -> Arguments:
    return (model, sentence_pairs(), training.translation_loss), more


def text(rows: int = 3, columns: int = 12, vocabulary: int = 50) -> torch.Tensor:
    return ids(rows, columns, vocabulary, 1)


def next_words(vocabulary: int = 50, columns: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    words = text(3, columns + 1, vocabulary)
    return words[:, :-1].contiguous(), words[:, 1:].contiguous()


def with_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    module.forward = forward.__get__(module)


def attend_by(scores_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `forward` for our `MultiHeadAttention` that compares and weighs in another way."""

    def forward(self: nn.Module, x: Any, memory: Any, mask: Any = None, cache: Any = None) -> Any:
        heads = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(x), self.key(memory)))
        query, key = heads
        value = self.value(memory).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        weights = scores_of(query, key, mask)
        return self.output((weights @ value).transpose(1, 2).flatten(2))

    return forward


def patched(scores_of: Callable[..., Any], which: str = "attention", **changes: Any) -> Arguments:
    model = ours(**changes)
    for name, module in model.named_modules():
        if name.endswith(which):
            with_forward(module, attend_by(scores_of))
    return our_check(model)


def scaled_by(factor: Callable[[int], float]) -> Callable[[], Arguments]:
    return lambda: patched(lambda q, k, m: attention.masked_softmax(q @ k.transpose(-2, -1) * factor(q.size(-1)), m))


def after(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return attention.attention_weights(q, k).masked_fill(~mask, 0.0)


def ours_with(change: Callable[[Transformer], None], **sizes: Any) -> Callable[[], Arguments]:
    def make() -> Arguments:
        model = ours(**sizes)
        change(model)
        return our_check(model)

    return make


def embed_by(vectors_of: Callable[..., torch.Tensor]) -> Callable[[], Arguments]:
    """Return our model whose embedding adds words and positions in another way."""

    def change(model: Transformer) -> None:
        def forward(self: nn.Module, tokens: torch.Tensor, first: int = 0) -> torch.Tensor:
            words = F.embedding(tokens, self.table)
            return self.dropout(vectors_of(words, self.sinusoids, tokens.size(1)))

        with_forward(model.embedding, forward)

    return ours_with(change)


def residual_by(rule: Callable[..., torch.Tensor], norm: str = "pre") -> Callable[[], Arguments]:
    def change(model: Transformer) -> None:
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            for residual in layer.residuals:
                with_forward(residual, lambda self, x, sublayer: rule(self.norm, x, sublayer))

    return ours_with(change, norm=norm)


def gpt(fault: str = "", **more: Any) -> Callable[[], Arguments]:
    return lambda: ((foreign.FusedGPT(fault=fault, **more), next_words()), {})


def heads_gpt(fault: str = "", **more: Any) -> Callable[[], Arguments]:
    return lambda: ((foreign.HeadsGPT(fault=fault, vocab=50, **more), next_words()), {})


def hand(fault: str = "", equal: bool = False, **more: Any) -> Callable[[], Arguments]:
    def make() -> Arguments:
        batch = sentence_pairs()
        source, target = batch.source, batch.target
        if equal:
            target = target[:, :8]
        src_mask, tgt_mask = foreign.hand_masks(source, target[:, :-1])
        given = (source, target[:, :-1], src_mask, tgt_mask, target[:, 1:])
        return (foreign.HandTransformer(fault=fault, **more), given), {}

    return make


def classifier(fault: str = "", **more: Any) -> Callable[[], Arguments]:
    return lambda: ((foreign.TorchClassifier(fault=fault, **more), sentence_pairs().source), {})


def translator(fault: str = "", columns: int = 9, **more: Any) -> Callable[[], Arguments]:
    def make() -> Arguments:
        batch = sentence_pairs()
        target = batch.target[:, :columns]
        return (foreign.TorchTranslator(fault=fault, **more), (batch.source, target[:, :-1], target[:, 1:])), {}

    return make


def hub(fault: str = "") -> Callable[[], Arguments]:
    def make() -> Arguments:
        tokens = sentence_pairs().source
        return (foreign.DictEncoder(fault=fault), {"input_ids": tokens, "attention_mask": (tokens != 0).long()}), {}

    return make


def sequence_first(fault: str = "") -> Callable[[], Arguments]:
    return lambda: ((foreign.SequenceFirstLM(fault=fault), text().T.contiguous()), {})


def rotary(fault: str = "", **more: Any) -> Callable[[], Arguments]:
    def make() -> Arguments:
        words = text(vocabulary=60)
        return (foreign.RotaryLM(fault=fault, **more), {"input_ids": words, "labels": words}), {}

    return make


class EmptyRows(nn.Module):
    """One attention whose padding mask is -inf before a softmax, or a very low number, and nothing after it."""

    def __init__(self, low: float) -> None:
        super().__init__()
        self.table, self.low = nn.Embedding(30, 16), low
        self.query, self.key, self.value, self.output = (nn.Linear(16, 16) for _ in range(4))
        self.norm, self.place = nn.LayerNorm(16), nn.Parameter(torch.randn(24, 16))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.table(tokens) + self.place[: tokens.size(1)])
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / 4.0
        scores = scores.masked_fill((tokens == 0).unsqueeze(1), self.low)
        return self.norm(x + self.output(scores.softmax(-1) @ self.value(x)))


def empty(low: float) -> Callable[[], Arguments]:
    def make() -> Arguments:
        tokens = sentence_pairs().source
        tokens[3] = 0
        return (EmptyRows(low), tokens), {}

    return make


def left_padded() -> Arguments:
    """Return our decoder with weights that don't guard empty rows, and sentences padded on the left."""
    tokens = ids(3, 8, 30)
    tokens[1, :3] = 0
    model = siblings.DecoderOnly(TransformerConfig(**SIZES))
    for layer in model.layers:
        unguarded = attend_by(lambda q, k, m: attention.attention_scores(q, k).masked_fill(~m, -math.inf).softmax(-1))
        with_forward(layer.self_attention, unguarded)
    return (model, tokens), {}


def across_batch(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return attention.attention_weights(q.mean(0, keepdim=True).expand_as(q), k, mask)


def drop(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.dropout(attention.attention_weights(q, k, mask), 0.1)


def saturate(model: Transformer) -> None:
    for name, parameter in model.named_parameters():
        if "attention.query" in name:
            parameter.data *= 100.0


def with_decoder_masks(model: Transformer, change: Callable[[Any, Any, Any], tuple[Any, Any]]) -> None:
    """Let each layer of the decoder take what `change` makes of its input and its two masks."""

    def forward(self: DecoderLayer, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None, caches: Any = None):
        return DecoderLayer.forward(self, x, memory, *change(x, mask, memory_mask))

    for layer in model.decoder.layers:
        with_forward(layer, forward)


def no_memory_mask(model: Transformer) -> None:
    with_decoder_masks(model, lambda x, mask, memory_mask: (mask, None))


def no_source_mask(model: Transformer) -> None:
    for layer in model.encoder.layers:
        with_forward(layer, lambda self, x, mask=None, cache=None: EncoderLayer.forward(self, x, None))


def no_causal_mask(model: Transformer) -> None:
    with_decoder_masks(model, lambda x, mask, memory_mask: (None, memory_mask))


def leak_of_one(model: Transformer) -> None:
    wider = torch.ones(24, 24).tril(1).bool()
    with_decoder_masks(model, lambda x, mask, memory_mask: (wider[: x.size(1), : x.size(1)], memory_mask))


def target_mask_across(model: Transformer) -> None:
    def decode(self: Transformer, target: Any, memory: Any, source: Any, caches: Any = None) -> Any:
        mask = masks.causal_mask(target.size(1))
        return self.decoder(self.embedding(target), memory, mask, masks.padding_mask(target))

    with_forward(model, lambda self, s, t: self.embedding.logits(decode(self, t, self.encode(s), s)))


class Wider(nn.Module):
    """Our attention with heads of a width of its own."""

    def __init__(self, d_model: int, heads: int, d_k: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(d_model, heads * d_k, bias=False) for _ in range(3))
        self.output = nn.Linear(heads * d_k, d_model, bias=False)

    forward = attend_by(lambda q, k, m: attention.attention_weights(q, k, m))


def widths(heads: int, d_k: int) -> Callable[[Transformer], None]:
    def change(model: Transformer) -> None:
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            layer.self_attention = Wider(32, heads, d_k)

    return change


def untrained_places(decayed: bool) -> Callable[[], Arguments]:
    """Return a GPT whose first 12 positions were trained, and a batch of 24."""

    def make() -> Arguments:
        model = foreign.FusedGPT(p=0.0)
        step = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=3.0 if decayed else 0.0)
        for _ in range(60):
            words = torch.arange(13) + torch.randint(1, 30, (16, 1))
            step.zero_grad()
            model(words[:, :-1], words[:, 1:])[1].backward()
            step.step()
        words = torch.arange(24) + torch.randint(1, 25, (3, 1))
        return (model, words), {}

    return make


def our_untrained() -> Arguments:
    model = ours(positions="learned")
    table = model.embedding.learned.table.data
    table[:5] += 0.5 * torch.randn(32)
    return our_check(model, config={"trained_length": 5})


def no_grad_encoder(model: Transformer) -> None:
    with_forward(model.encoder, torch.no_grad()(type(model.encoder).forward))


def no_memory(model: Transformer) -> None:
    model.encoder.register_forward_hook(lambda module, given, memory: memory * 0.0)


def split_tables(model: Transformer) -> None:
    other = nn.Parameter(torch.randn(30, 32) * 32**-0.5)
    model.embedding.register_parameter("other", other)
    with_forward(model.embedding, Transformer and type(model.embedding).forward)
    model.embedding.logits = lambda x: x @ other.T


def unshifted(model: nn.Module, batch: Batch) -> torch.Tensor:
    return training.smoothed_loss(model(batch.source, batch.labels), batch.labels)


def mean_over_all(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    loss = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none") * (labels != 0)
    return loss.mean()


def smoothed_padding(model: nn.Module, batch: Batch) -> torch.Tensor:
    logits = model(batch.source, batch.target_input)
    return F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), label_smoothing=0.1)


def our_loss(loss: Callable[..., Any]) -> Callable[[], Arguments]:
    return lambda: ((ours(), sentence_pairs(), loss), {})


def large_table(model: Transformer) -> None:
    model.embedding.table.data *= 32**0.5


def frozen(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    list(model.parameters())[-1].requires_grad_(True)
    return model


def impossible() -> Arguments:
    """Return a GPT and labels that contradict each other: one question with two answers."""
    words = text()[:1].repeat(4, 1)
    answers = ids(4, 12, 50)
    return (foreign.FusedGPT(p=0.0), (words, answers)), {"overfit": 60}


def stuck() -> Arguments:
    (model, *given), _ = gpt()()
    return (frozen(model), *given), {"overfit": 60}


def places_of(words: Any, table: Any, length: int, size: float = 1.0) -> Any:
    return words * 32**0.5 + size * table[:length]


def other_base(base: float, double: float = 1.0) -> Callable[[], Arguments]:
    table = foreign.sinusoids(24, 32, base, double)
    return embed_by(lambda words, _, n: words * 32**0.5 + table[:n])


def plain(norm: Any, x: Any, sublayer: Any) -> Any:
    return x + sublayer(x)


def branch_only(norm: Any, x: Any, sublayer: Any) -> Any:
    return x + norm(sublayer(x))


def no_skip(norm: Any, x: Any, sublayer: Any) -> Any:
    return sublayer(norm(x))


def skip_only(norm: Any, x: Any, sublayer: Any) -> Any:
    return norm(x) + sublayer(x)


def without_last_norm(model: Transformer) -> None:
    model.decoder.norm = nn.Identity()


def shifted_wrongly() -> Arguments:
    words = text()
    return (foreign.FusedGPT(), (words, words)), {}


def labels_as_input() -> Arguments:
    batch = sentence_pairs()
    return (foreign.TorchTranslator(), (batch.source, batch.labels, batch.labels)), {}


FAULTS = [
    Planted("scale-missing", "ours", "no division", scaled_by(lambda d_k: 1.0)),
    Planted("scale-missing", "GPT", "no division", gpt("unscaled")),
    Planted("scale-missing", "GPT by heads", "no division", heads_gpt("unscaled")),
    Planted("scale-missing", "by hand", "no division", hand("unscaled")),
    Planted("scale-missing", "rotary", "scale=1.0 in the fused call", rotary("unscaled")),
    Planted("scale-wrong", "ours", "sqrt(d_model) for sqrt(d_k)", scaled_by(lambda d_k: 32**-0.5)),
    Planted("scale-wrong", "GPT", "sqrt(d_model) for sqrt(d_k)", gpt("by d_model")),
    Planted("scale-wrong", "GPT by heads", "sqrt(d_model) for sqrt(d_k)", heads_gpt("by d_model")),
    Planted("scale-wrong", "by hand", "sqrt(d_model) for sqrt(d_k)", hand("by d_model")),
    Planted("scale-wrong", "GPT", "multiplied by sqrt(d_k)", gpt("times")),
    Planted("scale-wrong", "GPT", "divided by d_k", gpt("by d_k")),
    Planted("scale-wrong", "ours", "divided twice", scaled_by(lambda d_k: 1 / d_k)),
    Planted("heads-saturated", "ours", "W_q times 60", ours_with(saturate)),
    Planted("heads-saturated", "GPT", "W_q and W_k times 200", gpt("saturated")),
    Planted("mask-leak", "ours", "no causal mask", ours_with(no_causal_mask)),
    Planted("mask-leak", "ours", "diagonal one too high", ours_with(leak_of_one)),
    Planted("mask-leak", "GPT", "no mask", gpt("no mask")),
    Planted("mask-leak", "GPT", "diagonal one too high", gpt("off by one")),
    Planted("mask-leak", "GPT", "minus 8 instead of minus infinity", gpt("weak mask")),
    Planted("mask-leak", "GPT by heads", "no mask", heads_gpt("no mask")),
    Planted("mask-leak", "by hand", "mask of ones", hand("no mask")),
    Planted("mask-leak", "position first", "mask of ones added", sequence_first("mask of ones")),
    Planted("mask-leak", "nn.Transformer", "tgt_mask forgotten", translator("no mask")),
    Planted("mask-leak", "rotary", "is_causal=False", rotary("no mask")),
    Planted("mask-after-softmax", "ours", "filled with 0 after it", lambda: patched(after)),
    Planted("mask-after-softmax", "GPT", "filled with 0 after it", gpt("after softmax")),
    Planted("mask-after-softmax", "GPT by heads", "multiplied after it", heads_gpt("after softmax")),
    Planted("mask-after-softmax", "by hand", "filled with 0 after it", hand("after softmax")),
    Planted("softmax-axis", "GPT", "over the queries", gpt("softmax over queries")),
    Planted(
        "softmax-axis",
        "ours",
        "over the queries",
        lambda: patched(lambda q, k, m: attention.attention_scores(q, k).masked_fill(~m, -1e9).softmax(-2)),
    ),
    Planted("padding-attended", "ours", "no mask across", ours_with(no_memory_mask)),
    Planted("padding-attended", "ours", "no mask in the encoder", ours_with(no_source_mask)),
    Planted("padding-attended", "nn.TransformerEncoder", "no padding mask", classifier("no padding mask")),
    Planted("padding-attended", "nn.TransformerEncoder", "polarity", classifier("inverted padding mask")),
    Planted("padding-attended", "nn.TransformerEncoder", "mean over padding", classifier("", pool=True)),
    Planted("padding-attended", "nn.Transformer", "memory mask forgotten", translator("no memory mask")),
    Planted("padding-attended", "by hand", "no source mask", hand("no source mask")),
    Planted("padding-attended", "hub", "mask not inverted", hub("mask not inverted")),
    Planted("padding-attended", "hub", "minus 1 instead of minus infinity", hub("weak mask")),
    Planted("fully-masked-row", "one attention", "minus infinity, a sentence of padding", empty(-math.inf)),
    Planted("fully-masked-row", "ours", "padding on the left", left_padded),
    Planted("batch-mixing", "ours", "queries averaged over the batch", lambda: patched(across_batch)),
    Planted("batch-mixing", "GPT", "view exchanges batch and heads", gpt("batch as heads")),
    Planted("batch-mixing", "nn.TransformerEncoder", "batch_first forgotten", classifier("not batch first")),
    Planted("positions-missing", "ours", "not added", embed_by(lambda w, p, n: w * 32**0.5)),
    Planted("positions-missing", "GPT", "times 0", gpt("no positions")),
    Planted("positions-missing", "by hand", "not added", hand("no positions")),
    Planted("positions-missing", "nn.TransformerEncoder", "not added", classifier("no positions")),
    Planted("positions-missing", "hub", "not added", hub("no positions")),
    Planted("positions-missing", "rotary", "not turned", rotary("no positions")),
    Planted("positions-drowned", "ours", "positions times 0.005", embed_by(lambda w, p, n: places_of(w, p, n, 0.005))),
    Planted("positions-drowned", "GPT", "positions times 0.001", gpt("drowned")),
    Planted("positions-drowned", "by hand", "positions times 0.005", hand("drowned")),
    Planted("positions-drowning", "ours", "positions times 30", embed_by(lambda w, p, n: places_of(w, p, n, 30.0))),
    Planted("positions-drowning", "GPT", "positions times 100", gpt("drowning")),
    Planted(
        "positions-wrong-axis", "ours", "table by sentence", embed_by(lambda w, p, n: w * 32**0.5 + p[: len(w), None])
    ),
    Planted("positions-wrong-axis", "GPT", "table by sentence", gpt("position of the sentence")),
    Planted("positions-wrong-axis", "GPT", "one vector for all", gpt("one position")),
    Planted("positions-wrong-axis", "by hand", "table by sentence", hand("wrong axis")),
    Planted("positions-wrong-axis", "position first", "table by sentence", sequence_first("wrong axis")),
    Planted("positions-wrong-axis", "nn.TransformerEncoder", "table by sentence", classifier("wrong axis")),
    Planted("positions-wrong-base", "ours", "100", other_base(100.0)),
    Planted("positions-wrong-base", "ours", "exponent doubled", other_base(10000.0, 2.0)),
    Planted("positions-wrong-base", "by hand", "100", hand("base 100")),
    Planted("positions-wrong-base", "by hand", "exponent doubled", hand("doubled")),
    Planted("positions-untrained", "GPT", "12 of 24 trained", untrained_places(False)),
    Planted("positions-untrained", "GPT", "12 of 24 trained, the rest decayed", untrained_places(True)),
    Planted("positions-untrained", "ours", "trained_length in the config", our_untrained),
    Planted("heads-width", "ours", "4 heads of 12", ours_with(widths(4, 12))),
    Planted("heads-width", "ours", "4 heads of d_model", ours_with(widths(4, 32))),
    Planted("heads-width", "GPT by heads", "4 heads of 32", heads_gpt(size=32)),
    Planted("residual-missing", "ours", "everywhere", residual_by(no_skip)),
    Planted("residual-missing", "GPT", "everywhere", gpt("no residual")),
    Planted("residual-missing", "GPT", "around attention", gpt("no attention residual")),
    Planted("residual-missing", "GPT", "around the feed-forward network", gpt("no ffn residual")),
    Planted("residual-missing", "by hand", "everywhere", hand("no residual")),
    Planted("residual-missing", "hub", "around attention", hub("no residual")),
    Planted("norm-missing", "ours", "everywhere", residual_by(plain)),
    Planted("norm-missing", "ours", "the last one", ours_with(without_last_norm)),
    Planted("norm-missing", "GPT", "everywhere", gpt("no norm")),
    Planted("norm-missing", "GPT", "before the feed-forward network", gpt("no ffn norm")),
    Planted("norm-missing", "GPT", "the last one", gpt("no last norm")),
    Planted("norm-missing", "by hand", "the last one", hand("no last norm")),
    Planted("norm-misplaced", "ours", "on the branch's output", residual_by(branch_only)),
    Planted("norm-misplaced", "ours", "on the skip", residual_by(skip_only)),
    Planted("norm-misplaced", "GPT", "on the branch's output", gpt("norm on the branch")),
    Planted("norm-misplaced", "GPT", "on the skip", gpt("norm on the skip")),
    Planted("norm-misplaced", "by hand", "on the branch's output", hand("norm on the branch")),
    Planted("dropout-in-evaluation", "ours", "F.dropout without training", lambda: patched(drop)),
    Planted("dropout-in-evaluation", "GPT", "training or True", gpt("dropout")),
    Planted("dropout-in-evaluation", "GPT by heads", "F.dropout without training", heads_gpt("dropout")),
    Planted("mask-length", "ours", "target's padding across", ours_with(target_mask_across)),
    Planted("mask-length", "by hand", "target's mask across, equal lengths", hand("target mask across", equal=True)),
    Planted("mask-length", "nn.Transformer", "target's padding across", translator("target padding across", columns=8)),
    Planted("mask-length", "nn.Transformer", "triangle across", translator("triangle across", columns=8)),
    Planted("loss-counts-padding", "ours", "smoothed, padding counted", our_loss(smoothed_padding)),
    Planted(
        "loss-counts-padding",
        "nn.Transformer",
        "CrossEntropyLoss without ignore_index",
        lambda: ((*translator()()[0], nn.CrossEntropyLoss(label_smoothing=0.1)), {"config": {"padding": 0}}),
    ),
    Planted(
        "loss-counts-padding",
        "nn.Transformer",
        "divided by all positions",
        lambda: ((*translator()()[0], mean_over_all), {"config": {"padding": 0}}),
    ),
    Planted("embedding-scale", "ours", "not scaled", embed_by(lambda w, p, n: w + p[:n])),
    Planted("embedding-scale", "ours", "scaled by d_model", embed_by(lambda w, p, n: w * 32 + p[:n])),
    Planted("embedding-scale", "by hand", "scaled by d_model", hand("scaled by d_model")),
    Planted("embedding-tied", "ours", "another output map", ours_with(split_tables)),
    Planted(
        "embedding-tied",
        "GPT",
        "a copy instead of the parameter",
        lambda: (gpt("untied")()[0], {"config": {"tied": True}}),
    ),
    Planted("loss-at-start", "ours", "table drawn with 1", ours_with(large_table)),
    Planted("loss-at-start", "GPT", "table drawn with 1", gpt("large head")),
    Planted("input-not-shifted", "ours", "labels fed by the loss", our_loss(unshifted)),
    Planted("input-not-shifted", "GPT", "x is y", shifted_wrongly),
    Planted("input-not-shifted", "nn.Transformer", "labels fed", labels_as_input),
    Planted("no-gradient", "GPT", "detached before the output", gpt("detached")),
    Planted("no-gradient", "ours", "encoder under no_grad", ours_with(no_grad_encoder)),
    Planted("input-ignored", "GPT", "one word embedded throughout", gpt("ignores")),
    Planted("input-ignored", "ours", "memory times 0", ours_with(no_memory)),
    Planted("cannot-overfit", "GPT", "one question, four answers", impossible),
    Planted("cannot-overfit", "GPT", "all but the last parameter frozen", stuck),
]


def raw(batch_first: bool) -> Arguments:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=batch_first)
    source, target = torch.randn(3, 7, 32), torch.randn(3, 5, 32)
    if not batch_first:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    return (model, {"src": source, "tgt": target, "tgt_mask": model.generate_square_subsequent_mask(5)}), {}


def sibling(kind: type[nn.Module], **changes: Any) -> Callable[[], Arguments]:
    return lambda: ((kind(TransformerConfig(**(SIZES | changes))), sentence_pairs().source), {})


POSITIONS = ("sinusoidal", "learned", "none", "rotary", "shaw", "t5")
HEALTHY: dict[str, Callable[[], Arguments]] = {
    **{f"ours, {norm}-norm": (lambda norm=norm: our_check(ours(norm=norm))) for norm in ("pre", "post")},
    **{f"ours, {kind}": (lambda kind=kind: our_check(ours(positions=kind))) for kind in POSITIONS},
    "ours, wide": lambda: our_check(ours(d_model=128, heads=2, layers=1)),
    "EncoderOnly": sibling(siblings.EncoderOnly),
    "DecoderOnly": sibling(siblings.DecoderOnly),
    "DecoderOnly, linear bias": sibling(siblings.DecoderOnly, positions="alibi"),
    "GPT": gpt(),
    "GPT by heads": heads_gpt(),
    "by hand": hand(),
    "nn.TransformerEncoder, post-norm": classifier(),
    "nn.TransformerEncoder, pre-norm": classifier(norm_first=True, activation="relu"),
    "nn.Transformer with embeddings": translator(),
    "nn.Transformer with embeddings, pre-norm": translator(norm_first=True),
    "nn.Transformer, position first": lambda: raw(False),
    "nn.Transformer, batch first": lambda: raw(True),
    "position first, mask of floats": sequence_first(),
    "hub": hub(),
    "rotary": rotary(),
}
