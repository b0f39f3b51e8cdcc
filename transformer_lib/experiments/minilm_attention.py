"""What the heads of the published MiniLM look at, and what they fetch, said in numbers (chapter 11)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_lib import head_statistics, observe
from transformer_lib.multi_head import split_heads
from transformer_lib.published import Published


@torch.no_grad()
def head_table(opened: Published, texts: Sequence[str]) -> dict[str, Float[Tensor, "layer heads"]]:
    """Return chapter 03's statistics for each head, averaged over texts one by one, without padding.

    The weights on the word before, the word after, itself and the marks [CLS] and [SEP] are those of the other tokens.
    """
    found: dict[str, list[Tensor]] = {"entropy": [], "word before": [], "word after": [], "marks": [], "itself": []}
    for text in texts:
        tokens = opened.tokens([text])
        marks = torch.zeros_like(tokens, dtype=torch.bool)
        marks[:, [0, -1]] = True
        with observe.record_attention(opened.encoder) as maps:
            opened.encoder(tokens)
        weights = [calls[0] for calls in maps.values()]
        one = {"entropy": [head_statistics.normalised_entropy(w) for w in weights]}
        for name, offset in {"word before": -1, "word after": 1, "itself": 0}.items():
            one[name] = [head_statistics.weight_at_offset(w, offset, ~marks) for w in weights]
        one["marks"] = [head_statistics.weight_on_keys(w, marks, ~marks) for w in weights]
        for name, layers in one.items():
            found[name].append(torch.stack(layers))
    return {name: torch.stack(tables).mean(dim=0) for name, tables in found.items()}


@torch.no_grad()
def marks_by_length(opened: Published, text: str) -> Float[Tensor, " layer"]:
    """Return how much of what the other tokens fetch comes from [CLS] and [SEP], by length; each layer's mean.

    A head carries `weight * x W_V W_O` from one token to another; Kobayashi et al. (2020), section 2.2, measure the
    length of that in place of the weight alone.
    """
    tokens, shares = opened.tokens([text]), []
    with observe.record_attention(opened.encoder) as maps:
        opened.encoder(tokens)
    x = opened.encoder.embedding(tokens)
    for layer, calls in zip(opened.encoder.encoder.layers, maps.values(), strict=True):
        attention = layer.self_attention
        value = split_heads(attention.value(x), attention.heads)[0]
        back = attention.output.weight.unflatten(1, (attention.heads, -1))
        lengths = torch.einsum("hkv,dhv->hkd", value, back).norm(dim=-1)
        fetched = (calls[0][0] * lengths.unsqueeze(1))[:, 1:-1]
        shares.append((fetched[..., [0, -1]].sum(dim=-1) / fetched.sum(dim=-1)).mean())
        x = layer(x, None)
    return torch.stack(shares)


@torch.no_grad()
def twins(opened: Published) -> dict[str, dict[str, float]]:
    """Return what layer 4, head 2 gives from "it" to the two nouns of each twin."""
    found = {}
    for adjective in ("tired", "wide"):
        text = f"The animal didn't cross the street because it was too {adjective}."
        pieces = opened.pieces(text)
        with observe.record_attention(opened.encoder) as maps:
            opened.encoder(opened.tokens([text]))
        row = [calls[0] for calls in maps.values()][3][0, 1, pieces.index("it")]
        found[adjective] = {noun: round(row[pieces.index(noun)].item(), 3) for noun in ("animal", "street")}
    return found


def even_shares(opened: Published, texts: Sequence[str]) -> dict[str, float]:
    """Return what one token, and what the two marks, would get if each row were even: the mean over the texts."""
    one = sum(1 / len(opened.pieces(text)) for text in texts) / len(texts)
    return {"one token": round(one, 3), "marks": round(2 * one, 3)}
