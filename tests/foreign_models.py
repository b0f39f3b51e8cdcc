"""Transformers in other people's styles, for the doctor: each healthy, or with one named fault.

`fault` is a word that the class's text compares with; an unknown one changes nothing, so tests check that each planted
fault changes something.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class FusedGPT(nn.Module):
    """A small GPT with one matrix for queries, keys and values, tied, returning (logits, loss)."""

    def __init__(self, vocab=50, d=32, heads=4, layers=2, block=32, p=0.1, fault=""):
        super().__init__()
        self.fault = fault
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(block, d)
        self.drop = nn.Dropout(p)
        self.h = nn.ModuleList(FusedBlock(d, heads, block, p, fault) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        if fault == "large head":
            nn.init.normal_(self.wte.weight, std=1.0)
        if fault == "untied":
            self.lm_head.weight = nn.Parameter(self.wte.weight.detach().clone())
        if fault == "saturated":
            for block_ in self.h:
                block_.qkv.weight.data[: 2 * d] *= 60.0

    def forward(self, idx, targets=None):
        b, t = idx.shape
        pos = self.wpe(torch.arange(t))
        if self.fault == "no positions":
            pos = pos * 0.0
        if self.fault == "drowned":
            pos = pos * 1e-3
        if self.fault == "drowning":
            pos = pos * 100.0
        if self.fault == "one position":
            pos = self.wpe(torch.zeros(t, dtype=torch.long))
        if self.fault == "position of the sentence":
            pos = self.wpe(torch.arange(b))[:, None]
        words = self.wte(idx)
        if self.fault == "ignores":
            words = words[:, :1] * 0.0
        x = self.drop(words + pos)
        for block in self.h:
            x = block(x)
        if self.fault != "no last norm":
            x = self.ln_f(x)
        if self.fault == "detached":
            x = x.detach()
        logits = self.lm_head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


class FusedBlock(nn.Module):
    def __init__(self, d, heads, block, p, fault):
        super().__init__()
        self.heads, self.p, self.fault = heads, p, fault
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(p))
        self.register_buffer("bias", torch.tril(torch.ones(block, block))[None, None])

    def attention(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).split(d, dim=2)
        if self.fault == "batch as heads":
            q, k, v = (y.reshape(t, b, self.heads, d // self.heads).permute(1, 2, 0, 3) for y in (q, k, v))
        else:
            q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in (q, k, v))
        d_k = q.size(-1)
        scale = {"unscaled": 1.0, "by d_model": d**-0.5, "times": d_k**0.5, "by d_k": 1 / d_k}.get(
            self.fault, d_k**-0.5
        )
        att = (q @ k.transpose(-2, -1)) * scale
        hidden = self.bias[:, :, :t, :t] == 0
        if self.fault == "off by one":
            hidden = torch.ones(t, t).triu(2).bool()
        if self.fault == "inverted":
            hidden = ~hidden | torch.eye(t).bool().logical_not() & ~hidden
            hidden[..., -1, -1] = False
        if self.fault == "after softmax":
            att = att.softmax(dim=-1).masked_fill(hidden, 0.0)
        elif self.fault == "weak mask":
            att = (att - 8.0 * hidden).softmax(dim=-1)
        elif self.fault == "no mask":
            att = att.softmax(dim=-1)
        else:
            att = att.masked_fill(hidden, -math.inf).softmax(dim=-2 if self.fault == "softmax over queries" else -1)
        att = F.dropout(att, self.p, self.training or self.fault == "dropout")
        y = (att @ v).transpose(1, 2).contiguous().view(b, t, d)
        return self.proj(y)

    def forward(self, x):
        if self.fault == "no residual":
            return self.mlp(self.ln_2(self.attention(self.ln_1(x))))
        if self.fault == "no attention residual":
            x = self.attention(self.ln_1(x))
        elif self.fault == "no norm":
            return (x := x + self.attention(x)) + self.mlp(x)
        elif self.fault == "norm on the branch":
            x = x + self.ln_1(self.attention(x))
            return x + self.ln_2(self.mlp(x))
        elif self.fault == "norm on the skip":
            x = self.ln_1(x) + self.attention(x)
            return self.ln_2(x) + self.mlp(x)
        else:
            x = x + self.attention(self.ln_1(x))
        if self.fault == "no ffn residual":
            return self.mlp(self.ln_2(x))
        if self.fault == "no ffn norm":
            return x + self.mlp(x)
        return x + self.mlp(self.ln_2(x))


class HeadsGPT(nn.Module):
    """A character model with a module for each head, as beginners are taught to write it."""

    def __init__(self, vocab=40, d=32, heads=4, size=None, layers=2, block=16, fault=""):
        super().__init__()
        self.fault, self.block = fault, block
        self.token, self.place = nn.Embedding(vocab, d), nn.Embedding(block, d)
        size = size or d // heads
        self.blocks = nn.Sequential(*[HeadsBlock(d, heads, size, block, fault) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, idx, targets=None):
        b, t = idx.shape
        x = self.token(idx) + self.place(torch.arange(t, device=idx.device))
        logits = self.head(self.norm(self.blocks(x)))
        if targets is None:
            return logits, None
        return logits.view(b * t, -1), F.cross_entropy(logits.view(b * t, -1), targets.view(b * t))


class HeadsBlock(nn.Module):
    def __init__(self, d, heads, size, block, fault):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(d, size, block, fault) for _ in range(heads))
        self.proj = nn.Linear(heads * size, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d), nn.Dropout(0.2))
        self.one, self.two = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        y = self.one(x)
        x = x + self.proj(torch.cat([head(y) for head in self.heads], dim=-1))
        return x + self.ff(self.two(x))


class OneHead(nn.Module):
    def __init__(self, d, size, block, fault):
        super().__init__()
        self.fault = fault
        self.key, self.query, self.value = (nn.Linear(d, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(block, block)))
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        t, c = x.shape[1], x.shape[2]
        k, q = self.key(x), self.query(x)
        width = c if self.fault == "by d_model" else k.shape[-1]
        wei = q @ k.transpose(-2, -1)
        if self.fault != "unscaled":
            wei = wei * width**-0.5
        if self.fault == "after softmax":
            wei = F.softmax(wei, dim=-1) * self.tril[:t, :t]
        elif self.fault == "no mask":
            wei = F.softmax(wei, dim=-1)
        else:
            wei = F.softmax(wei.masked_fill(self.tril[:t, :t] == 0, float("-inf")), dim=-1)
        wei = F.dropout(wei, 0.2) if self.fault == "dropout" else self.dropout(wei)
        return wei @ self.value(x)


class HandNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class HandAttention(nn.Module):
    def __init__(self, h, d, fault=""):
        super().__init__()
        self.h, self.d_k, self.fault = h, d // h, fault
        self.linears = nn.ModuleList(nn.Linear(d, d) for _ in range(4))
        self.attn = None

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        if mask is not None:
            mask = mask.unsqueeze(1)
        pairs = zip(self.linears, (query, key, value), strict=False)
        query, key, value = (lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2) for lin, x in pairs)
        scores = torch.matmul(query, key.transpose(-2, -1))
        scores = scores / {"unscaled": 1.0, "by d_model": math.sqrt(self.h * self.d_k)}.get(
            self.fault, math.sqrt(self.d_k)
        )
        if mask is not None and self.fault != "after softmax":
            scores = scores.masked_fill(mask == 0, -1e9)
        self.attn = scores.softmax(dim=-1)
        if mask is not None and self.fault == "after softmax":
            self.attn = self.attn.masked_fill(mask == 0, 0)
        x = torch.matmul(self.attn, value).transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k)
        return self.linears[-1](x)


class HandConnection(nn.Module):
    def __init__(self, d, p, fault):
        super().__init__()
        self.norm, self.dropout, self.fault = HandNorm(d), nn.Dropout(p), fault

    def forward(self, x, sublayer):
        if self.fault == "no residual":
            return self.dropout(sublayer(self.norm(x)))
        if self.fault == "no norm":
            return x + self.dropout(sublayer(x))
        if self.fault == "norm on the branch":
            return x + self.norm(self.dropout(sublayer(x)))
        return x + self.dropout(sublayer(self.norm(x)))


class HandLayer(nn.Module):
    def __init__(self, d, h, d_ff, p, fault, cross):
        super().__init__()
        self.self_attn = HandAttention(h, d, fault)
        self.src_attn = HandAttention(h, d, fault) if cross else None
        self.ff = nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Dropout(p), nn.Linear(d_ff, d))
        self.connections = nn.ModuleList(HandConnection(d, p, fault) for _ in range(3 if cross else 2))

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.connections[0](x, lambda y: self.self_attn(y, y, y, mask))
        if self.src_attn is not None:
            x = self.connections[1](x, lambda y: self.src_attn(y, memory, memory, memory_mask))
        return self.connections[-1](x, self.ff)


def sinusoids(length, d, base=10000.0, double=1.0):
    pe, position = torch.zeros(length, d), torch.arange(length).unsqueeze(1)
    div = torch.exp(torch.arange(0, d, 2) * -(double * math.log(base) / d))
    pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div), torch.cos(position * div)
    return pe


class HandTransformer(nn.Module):
    """An encoder and a decoder written out by hand: masks of 0 and 1 as arguments, -1e9, log-probabilities."""

    def __init__(self, vocab=30, d=32, h=4, d_ff=64, layers=2, p=0.1, fault=""):
        super().__init__()
        self.fault, self.d = fault, d
        self.src_embed, self.tgt_embed = nn.Embedding(vocab, d), nn.Embedding(vocab, d)
        base, double = (100.0, 1.0) if fault == "base 100" else (10000.0, 2.0 if fault == "doubled" else 1.0)
        self.register_buffer("pe", sinusoids(60, d, base, double).unsqueeze(0))
        self.encoder = nn.ModuleList(HandLayer(d, h, d_ff, p, fault, False) for _ in range(layers))
        self.decoder = nn.ModuleList(HandLayer(d, h, d_ff, p, fault, True) for _ in range(layers))
        self.norms = nn.ModuleList(HandNorm(d) for _ in range(2))
        self.dropout, self.generator = nn.Dropout(p), nn.Linear(d, vocab)
        for q in self.parameters():
            if q.dim() > 1:
                nn.init.xavier_uniform_(q)

    def embed(self, table, x):
        y = table(x) * {"by d_model": 1.0, "scaled by d": self.d / math.sqrt(self.d)}.get("", 1.0)
        y = y * (self.d if self.fault == "scaled by d_model" else math.sqrt(self.d))
        if self.fault == "no positions":
            return self.dropout(y)
        if self.fault == "wrong axis":
            return self.dropout(y + self.pe[0, : x.size(0)].unsqueeze(1))
        if self.fault == "drowned":
            return self.dropout(y + 0.005 * self.pe[:, : x.size(1)])
        return self.dropout(y + self.pe[:, : x.size(1)])

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory = self.embed(self.src_embed, src)
        for layer in self.encoder:
            memory = layer(memory, None if self.fault == "no source mask" else src_mask)
        memory = self.norms[0](memory)
        x = self.embed(self.tgt_embed, tgt)
        cross = None if self.fault in ("no source mask", "no cross mask") else src_mask
        cross = tgt_mask if self.fault == "target mask across" else cross
        if self.fault == "no mask":
            tgt_mask = torch.ones_like(tgt_mask)
        for layer in self.decoder:
            x = layer(x, tgt_mask, memory, cross)
        x = self.norms[1](x) if self.fault != "no last norm" else x
        return F.log_softmax(self.generator(x), dim=-1)


def hand_masks(src, tgt, pad=0):
    causal = torch.ones(1, tgt.size(1), tgt.size(1)).tril() == 1
    return (src != pad).unsqueeze(-2), (tgt != pad).unsqueeze(-2) & causal


class TorchClassifier(nn.Module):
    """`nn.TransformerEncoder` under an embedding, to tag each word; padding is 0."""

    def __init__(self, vocab=60, d=32, heads=4, layers=2, fault="", norm_first=False, activation="gelu", pool=False):
        super().__init__()
        self.fault, self.d, self.pool = fault, d, pool
        self.embedding = nn.Embedding(vocab, d, padding_idx=0)
        self.register_buffer("pe", sinusoids(64, d))
        first = fault != "not batch first"
        layer = nn.TransformerEncoderLayer(d, heads, 64, 0.1, activation, batch_first=first, norm_first=norm_first)
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(d), enable_nested_tensor=False)
        self.output = nn.Linear(d, 9)

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.fault == "wrong axis":
            x = x + self.pe[: x.size(0)].unsqueeze(1)
        elif self.fault != "no positions":
            x = x + self.pe[: x.size(1)]
        hidden = tokens == 0
        if self.fault == "not batch first" or self.fault == "no padding mask":
            x = self.encoder(x)
        elif self.fault == "inverted padding mask":
            x = self.encoder(x, src_key_padding_mask=~hidden)
        else:
            x = self.encoder(x, src_key_padding_mask=hidden)
        return self.output(x.mean(1) if self.pool else x)


class SequenceFirstLM(nn.Module):
    """A language model [position batch] with an additive mask of floats, made anew at each call."""

    def __init__(self, vocab=50, d=32, heads=2, layers=2, fault=""):
        super().__init__()
        self.fault, self.d = fault, d
        self.encoder = nn.Embedding(vocab, d)
        self.register_buffer("pe", sinusoids(64, d).unsqueeze(1))
        layer = nn.TransformerEncoderLayer(d, heads, 64, 0.2)
        self.transformer_encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = nn.Linear(d, vocab)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

    def forward(self, src):
        x = self.encoder(src) * math.sqrt(self.d)
        x = x + (self.pe[: x.size(1)].transpose(0, 1) if self.fault == "wrong axis" else self.pe[: x.size(0)])
        mask = torch.triu(torch.full((len(src), len(src)), float("-inf")), diagonal=1)
        if self.fault == "no mask":
            mask = mask.nan_to_num(neginf=0.0) * 0
        if self.fault == "mask of ones":
            mask = torch.tril(torch.ones(len(src), len(src)))
        return self.decoder(self.transformer_encoder(x, mask))


class TorchTranslator(nn.Module):
    """`nn.Transformer` between embeddings and a linear map, batch first, masks made from the ids."""

    def __init__(self, vocab=40, d=32, fault="", norm_first=False):
        super().__init__()
        self.fault, self.d = fault, d
        self.src, self.tgt = nn.Embedding(vocab, d), nn.Embedding(vocab, d)
        self.register_buffer("pe", sinusoids(64, d))
        self.transformer = nn.Transformer(d, 4, 2, 2, 64, 0.1, batch_first=True, norm_first=norm_first)
        self.generator = nn.Linear(d, vocab)
        for q in self.parameters():
            if q.dim() > 1:
                nn.init.xavier_uniform_(q)

    def forward(self, src, tgt):
        causal = torch.ones(tgt.size(1), tgt.size(1)).triu(1).bool()
        if self.fault == "no mask":
            causal = None
        options = {"tgt_mask": causal, "src_key_padding_mask": src == 0, "tgt_key_padding_mask": tgt == 0}
        if self.fault != "no memory mask":
            options["memory_key_padding_mask"] = tgt == 0 if self.fault == "target padding across" else src == 0
        if self.fault == "triangle across":
            options["memory_mask"] = causal
        x, y = (
            table(ids) * math.sqrt(self.d) + self.pe[: ids.size(1)] for table, ids in ((self.src, src), (self.tgt, tgt))
        )
        return self.generator(self.transformer(x, y, **options))


class DictEncoder(nn.Module):
    """An encoder with the interface of a hub: input_ids and attention_mask in, a dictionary out; post-norm."""

    def __init__(self, vocab=60, d=32, heads=4, layers=2, places=40, fault=""):
        super().__init__()
        self.fault, self.heads = fault, heads
        self.word, self.place, self.kind = nn.Embedding(vocab, d, 0), nn.Embedding(places, d), nn.Embedding(2, d)
        self.norm = nn.LayerNorm(d, eps=1e-12)
        self.layers = nn.ModuleList(DictLayer(d, heads, fault) for _ in range(layers))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, position_ids=None):
        n = input_ids.size(1)
        position_ids = torch.arange(n).unsqueeze(0) if position_ids is None else position_ids
        kinds = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.word(input_ids) + self.kind(kinds)
        x = self.norm(x + self.place(position_ids) if self.fault != "no positions" else x)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        least = -1.0 if self.fault == "weak mask" else torch.finfo(x.dtype).min
        extended = (1.0 - mask[:, None, None, :].to(x.dtype)) * least
        if self.fault == "mask not inverted":
            extended = mask[:, None, None, :].to(x.dtype) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, extended)
        return {"last_hidden_state": x, "pooler_output": torch.tanh(x[:, 0])}


class DictLayer(nn.Module):
    def __init__(self, d, heads, fault):
        super().__init__()
        self.heads, self.fault = heads, fault
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.one, self.two, self.drop = nn.LayerNorm(d), nn.LayerNorm(d), nn.Dropout(0.1)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d // self.heads)
        weights = self.drop(F.softmax(scores + mask, dim=-1))
        y = torch.matmul(weights, v).permute(0, 2, 1, 3).reshape(b, n, d)
        y = self.drop(self.o(y))
        x = self.one(y if self.fault == "no residual" else x + y)
        return self.two(x + self.drop(self.down(F.gelu(self.up(x)))))


class RootNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class RotaryLM(nn.Module):
    """A decoder of today: rotary positions, root-mean-square norms, gated feed-forward, fewer heads of keys."""

    def __init__(self, vocab=60, d=32, heads=4, kv_heads=2, layers=2, fault=""):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(RotaryLayer(d, heads, kv_heads, fault) for _ in range(layers))
        self.norm, self.lm_head = RootNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids, labels=None):
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(self.norm(x))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return {"loss": loss, "logits": logits}


class RotaryLayer(nn.Module):
    def __init__(self, d, heads, kv_heads, fault):
        super().__init__()
        self.heads, self.kv, self.d_k, self.fault = heads, kv_heads, d // heads, fault
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, kv_heads * self.d_k, bias=False) for _ in range(2))
        self.gate, self.up, self.down = nn.Linear(d, 88), nn.Linear(d, 88), nn.Linear(88, d)
        self.one, self.two = RootNorm(d), RootNorm(d)

    def turn(self, x):
        if self.fault == "no positions":
            return x
        rate = 10000.0 ** (-torch.arange(0, self.d_k, 2) / self.d_k)
        angle = torch.cat([torch.outer(torch.arange(x.size(2)), rate)] * 2, dim=-1)
        half = torch.cat([-x[..., self.d_k // 2 :], x[..., : self.d_k // 2]], dim=-1)
        return x * angle.cos() + half * angle.sin()

    def forward(self, x):
        b, n, d = x.shape
        y = self.one(x)
        q = self.turn(self.q(y).view(b, n, self.heads, -1).transpose(1, 2))
        k = self.turn(self.k(y).view(b, n, self.kv, -1).transpose(1, 2)).repeat_interleave(self.heads // self.kv, 1)
        v = self.v(y).view(b, n, self.kv, -1).transpose(1, 2).repeat_interleave(self.heads // self.kv, 1)
        scale = 1.0 if self.fault == "unscaled" else None
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.fault != "no mask", scale=scale)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.silu(self.gate(self.two(x))) * self.up(self.two(x)))
