"""The doctor and models of other kinds: healthy ones that look odd, and faults that are seen only with care.

Most are one of two small models, `Encoder` and `Decoder`, with one part written in another way. A healthy one must get
nothing above a note.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.diagnostics import check_model

WORDS, WIDTH = 60, 32


class Encoder(nn.Module):
    """A post-norm tagger of seven classes; padded keys are hidden."""

    def __init__(self, padding=0):
        super().__init__()
        self.padding = padding
        self.words, self.positions = nn.Embedding(WORDS, WIDTH, padding_idx=padding), nn.Embedding(40, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classes = nn.Linear(WIDTH, 7)

    def embed(self, tokens):
        return self.norm(self.words(tokens) + self.positions.weight[: tokens.size(1)])

    def forward(self, tokens):
        return self.classes(self.layers(self.embed(tokens), src_key_padding_mask=tokens == self.padding))


class Attention(nn.Module):
    """Causal self-attention of four heads."""

    def __init__(self):
        super().__init__()
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def forward(self, x):
        heads = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        return self.output(self.attend(*heads).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A pre-norm layer."""

    attention, norm = Attention, nn.LayerNorm

    def __init__(self):
        super().__init__()
        self.first, self.second = self.norm(WIDTH), self.norm(WIDTH)
        self.mix = self.attention()
        self.think = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        x = x + self.mix(self.first(x))
        return x + self.think(self.second(x))


class Decoder(nn.Module):
    """A pre-norm language model; it takes labels, too, and returns its loss with its logits."""

    def __init__(self, block=Block, places=True):
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(40, WIDTH)
        self.blocks, self.norm = nn.ModuleList([block(), block()]), block.norm(WIDTH)
        self.output, self.placed = nn.Linear(WIDTH, WORDS, bias=False), places
        for table in (self.words, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens, labels=None):
        x = self.words(tokens)
        if self.placed:
            x = x + self.positions.weight[: tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        logits = self.output(self.norm(x))
        return logits if labels is None else (F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits)


def with_attention(attend):
    """Return a decoder whose attentions compute `attend(q, k, v)`."""
    kind = type("Other", (Attention,), {"attend": lambda self, q, k, v: attend(q, k, v)})
    return Decoder(type("OtherBlock", (Block,), {"attention": kind}))


def padded(length: int = 10, padding: int = 0) -> torch.Tensor:
    """Return three sentences, the second and the third of which end in padding."""
    tokens = torch.randint(5, WORDS, (3, length))
    for row in (1, 2):
        tokens[row, length - 2 * row :] = padding
    return tokens


def text() -> torch.Tensor:
    return torch.randint(5, WORDS, (3, 13))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(11)


# ---- embeddings that are made of several lookups


class Counting(Encoder):
    """Positions are counted over the words, from the padding's id on, as in RoBERTa."""

    def embed(self, tokens):
        real = (tokens != self.padding).long()
        return self.norm(self.words(tokens) + self.positions(real.cumsum(1) * real + self.padding))


class Hashed(Encoder):
    """A word's vector is the sum of two."""

    def __init__(self):
        super().__init__()
        self.more = nn.Embedding(16, WIDTH)

    def embed(self, tokens):
        return super().embed(tokens) + self.more(tokens % 13)


class Tagged(Hashed):
    """Words come with a class each."""

    def forward(self, tokens, tags):
        x = Encoder.embed(self, tokens) + self.more(tags)
        return self.classes(self.layers(self.norm(x), src_key_padding_mask=tokens == self.padding))


def test_a_second_lookup_is_not_a_second_sequence():
    tokens = padded()
    assert check_model(Counting(padding=1), padded(padding=1)).ids == []
    assert check_model(Hashed(), tokens).ids == []
    assert check_model(Tagged(), {"tokens": tokens, "tags": torch.randint(0, 16, tokens.shape)}).ids == []


class Segmented(Encoder):
    """No positions, but the vector of the first segment at each word."""

    def __init__(self):
        super().__init__()
        self.segments = nn.Embedding(2, WIDTH)

    def embed(self, tokens):
        return self.norm(self.words(tokens) + self.segments(torch.zeros(tokens.shape, dtype=torch.long)))


def test_a_segments_vector_is_not_taken_for_positions():
    assert check_model(Segmented(), padded()).ids == ["positions-missing"]


# ---- norms and sums


class Root(nn.Module):
    """Root-mean-square norm that computes in float32 and gives back its input's type in one of several ways."""

    back = "type_as"

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return getattr(y, self.back)(x) * self.weight


@pytest.mark.parametrize("back", ["type_as", "to", "view_as"])
def test_a_norm_may_take_its_type_from_its_input(back):
    block = type("RootBlock", (Block,), {"norm": type("RootNorm", (Root,), {"back": back})})
    assert check_model(Decoder(block), text()).ids == []


class Projected(Encoder):
    """The embedding is normed and then mapped to the layers' width, as in ELECTRA."""

    def embed(self, tokens):
        return F.linear(super().embed(tokens), self.layers.layers[0].linear1.weight[:WIDTH])


def test_the_first_layer_may_read_a_mapped_embedding():
    assert check_model(Projected(), padded()).ids == []


class Parallel(Block):
    def forward(self, x):
        return x + self.mix(self.first(x)) + self.think(self.second(x))


class Pair(Block):
    def __init__(self):
        super().__init__()
        self.more = self.attention()

    def forward(self, x):
        y = self.first(x)
        x = x + (self.mix(y) + self.more(y))
        return x + self.think(self.second(x))


@pytest.mark.parametrize("block", [Parallel, Pair])
def test_branches_may_be_parallel(block):
    assert check_model(Decoder(block), text()).ids == []


# ---- attention


def normed(q, k, v):
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=10.0)


def normed_queries(q, k, v):
    return F.scaled_dot_product_attention(F.normalize(q, dim=-1), k, v, is_causal=True, scale=10.0)


def test_normed_queries_and_keys_may_have_another_scale():
    assert check_model(with_attention(normed), text()).ids == []
    assert check_model(with_attention(normed_queries), text()).ids == ["scale-wrong"]


def near(q, k, v):
    """Attend to the last four words, nearer ones first."""
    places = torch.arange(q.size(2))
    bias = -0.5 * (places[:, None] - places).abs().float()
    hidden = ~torch.ones_like(bias).tril().triu(-3).bool()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias.masked_fill(hidden, -math.inf))


def test_a_small_window_is_not_blind_to_order():
    model = with_attention(near)
    model.placed = False
    assert check_model(model, text()).ids == []


def strict(q, k, v):
    """Attend to the words before: the first one has none."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(13, 13).tril(-1).bool())


def test_a_word_that_sees_nothing_is_found_where_fused_attention_gives_0():
    report = check_model(with_attention(strict), text())
    assert report.ids == ["fully-masked-row"] and "get 0" in report.faults[0].evidence


def test_the_encoders_empty_rows_are_held_against_its_own_padding():
    source, target = padded(7).flip(1), text()[:, :7]
    model = Translator(source == 0)
    assert "fully-masked-row" not in check_model(model, (source, target), config={"padding": 0}).ids


class Translator(nn.Module):
    """An encoder of one fused attention in which padded queries see nothing, and a decoder of nn.Transformer's kind."""

    def __init__(self, blank, causal=True):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.positions, self.output = nn.Embedding(40, WIDTH), nn.Linear(WIDTH, WORDS)
        self.first, self.mix = nn.LayerNorm(WIDTH), Attention()
        self.mix.attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, self.visible(q, blank))
        self.last, self.blank, self.causal = nn.LayerNorm(WIDTH), blank, causal
        layer = nn.TransformerDecoderLayer(WIDTH, 4, 64, batch_first=True)
        self.decoder = nn.TransformerDecoder(layer, 2)

    def visible(self, q, blank):
        return ~(blank[:, None, None, :] | blank[:, None, :, None]) if blank.size(1) == q.size(2) else None

    def forward(self, source, target):
        x = self.source(source) + self.positions.weight[: source.size(1)]
        memory = self.last(x + self.mix(self.first(x)))
        y = self.target(target) + self.positions.weight[: target.size(1)]
        mask = torch.ones(target.size(1), target.size(1)).triu(1).bool() if self.causal else None
        return self.output(self.decoder(y, memory, tgt_mask=mask, memory_key_padding_mask=self.blank))


def test_a_decoders_leak_is_not_laid_at_the_encoders_door():
    model = Translator(torch.zeros(3, 9, dtype=torch.bool), causal=False)
    found = check_model(model, (text()[:, :9], text()[:, :7])).faults[0]
    assert found.id == "mask-leak" and "decoder.layers.0.self_attn" in found.evidence


def test_nan_is_not_taken_for_a_mask():
    model = Decoder()
    model.positions.weight.data[0] = math.nan
    assert check_model(model, text()).ids == ["not-finite"]


class Left(Decoder):
    """Padding may stand on the left, hidden with a large number, so that a padded query sees all of it evenly."""

    def forward(self, tokens):
        blank = tokens == 0

        def attend(q, k, v):
            hidden = blank[:, None, None] | torch.ones(q.size(2), q.size(2)).triu(1).bool()
            scores = (q @ k.mT * q.size(-1) ** -0.5).masked_fill(hidden, torch.finfo(q.dtype).min)
            return scores.softmax(dim=-1) @ v

        for block in self.blocks:
            block.mix.attend = attend
        return super().forward(tokens)


def test_outputs_at_padding_may_see_later_words():
    tokens = text()
    tokens[1, :6] = 0
    tokens[2, :2] = 0
    assert check_model(Left(), tokens, config={"padding": 0}).ids == []


# ---- parameters that start at 0, or are frozen


def test_maps_may_start_at_0():
    for head, branches in ((True, False), (False, True), (True, True)):
        model = Decoder()
        zeros = [model.output.weight] if head else []
        if branches:
            zeros += [p for b in model.blocks for p in (*b.mix.output.parameters(), *b.think[2].parameters())]
        for parameter in zeros:
            parameter.data.zero_()
        assert check_model(model, text()).ids == []


class Adapted(nn.Module):
    """A frozen map with a trained correction of low rank that starts at 0 (LoRA)."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner.requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, 4, bias=False), nn.Linear(4, inner.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.inner(x) + self.up(self.down(x))


def test_frozen_parameters_are_a_note():
    model = Decoder().requires_grad_(False)
    for block in model.blocks:
        block.mix.qkv = Adapted(block.mix.qkv)
    report = check_model(model, text())
    assert report.ids == []
    assert [f.severity for f in report if f.id == "no-gradient" and "frozen" in f.evidence] == ["note"]


# ---- labels


def test_labels_that_are_the_input_are_found_without_a_telling_name():
    tokens, model = text(), Decoder()
    model.__class__ = type("Reader", (Decoder,), {})
    assert check_model(model, {"tokens": tokens, "labels": tokens}).ids == ["input-not-shifted"]


def test_labels_that_are_shifted_twice_are_found():
    tokens = text()
    report = check_model(Decoder(), {"tokens": tokens[:, :-2], "labels": tokens[:, 2:]})
    assert report.ids == ["input-not-shifted"] and "shifted twice" in report.faults[0].evidence
    assert check_model(Decoder(), {"tokens": tokens[:, :-1], "labels": tokens[:, 1:]}).ids == []


class MaskedLM(Encoder):
    """A tagger that is named as a masked language model is, and computes its loss."""

    def forward(self, tokens, labels=None):
        logits = super().forward(tokens)
        return logits if labels is None else (F.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits)


def test_a_masked_language_model_is_no_causal_one():
    assert check_model(MaskedLM(), padded()).ids == []


def test_labels_at_some_words_only_are_no_shift():
    tokens = padded()
    labels = torch.full_like(tokens, -100)
    labels[:, 2] = torch.tensor([3, 5, 6])
    assert check_model(MaskedLM(), {"tokens": tokens, "labels": labels}).ids == []


def test_a_class_0_is_not_padding_where_padded_labels_are_negative():
    tokens = padded()
    labels = torch.randint(0, 2, tokens.shape).masked_fill(tokens == 0, -100)
    assert check_model(MaskedLM(), {"tokens": tokens, "labels": labels}).ids == []


class Scored(Encoder):
    """One number for each word."""

    def forward(self, tokens, labels=None):
        scores = super().forward(tokens)[..., 0]
        if labels is None:
            return scores
        loss = F.binary_cross_entropy_with_logits(scores, labels.float(), reduction="none")
        return loss[labels >= 0].mean(), scores


def test_one_number_a_word_is_not_pooled():
    tokens = padded()
    assert check_model(Scored(), (tokens, (tokens % 2).masked_fill(tokens == 0, -100))).ids == []


# ---- positions


@pytest.mark.parametrize("seed", [3, 9, 11])
def test_a_table_is_called_untrained_only_beyond_what_was_trained(seed):
    generator = torch.Generator().manual_seed(seed)
    model = Decoder()
    table = 0.02 * torch.randn(40, WIDTH, generator=generator)
    table[:12] += 0.02 * torch.randn(1, WIDTH, generator=generator)  # training moves the rows that it uses alike
    model.positions.weight.data = table
    tokens = torch.randint(5, WORDS, (3, 24))
    assert check_model(model, tokens[:, :12]).ids == []
    assert check_model(model, tokens).ids == ["positions-untrained"]
