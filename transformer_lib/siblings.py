"""The Transformer's two siblings: an encoder alone and a decoder alone, from the same parts (chapter 11)."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, masks, model
from transformer_lib.config import TransformerConfig
from transformer_lib.multi_head import KeyValueCache


class EncoderOnly(nn.Module):
    """A stack in which every position sees all the others, to fill in words or to represent a text, as in BERT.

    Devlin et al. (2019), section 3, without its segment vectors and the extra layer before the logits; the logits come
    from the embedding's table.

    Raises:
        TypeError: `config` is something else, such as a dictionary.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = encoder_decoder.Encoder(model.layer_stack(encoder_decoder.EncoderLayer, config))
        self.config, self.embedding = config, model.Embedding(config)

    def forward(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position vocabulary"]:
        """Return, for each position, the logits of the token that belongs there."""
        return self.embedding.logits(self.encode(tokens))

    def encode(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position d_model"]:
        """Return one vector per token, each of which has seen all tokens that are not padding.

        Raises:
            TypeError: the tokens are not integers.
            ValueError: the sequence is longer than `max_length`, empty, or holds an id outside the vocabulary.
        """
        return self.encoder(self.embedding(tokens), masks.padding_mask(tokens, self.config.padding))


def text_mask(
    tokens: Int[Tensor, "batch query"], prefix: int = 0, past: int = 0, padding: int = 0
) -> Bool[Tensor, "... query key"]:
    """Return True where a position may attend to another while a text is read on: to itself, what came, the prefix.

    Args:
        prefix: number of positions at the start that see each other; they come in one call, the first.
        past: number of earlier positions, already decoded, none of them padding.
        padding: the id that fills up short texts.

    Raises:
        TypeError: the tokens or a number are not integers.
        ValueError: a number is out of range, or the prefix reaches beyond the past into new tokens.
    """
    checks.tokens(tokens=tokens)
    checks.not_negative(prefix=prefix, past=past)
    if 0 < past < prefix:
        raise ValueError(f"prefix must come in one call, at most past = {past} in the later ones, got {prefix}")
    if past:
        return masks.causal_mask(tokens.size(1), past).to(tokens.device)
    return masks.prefix_mask(tokens.size(1), prefix).to(tokens.device) & masks.padding_mask(tokens, padding)


class TextCache(KeyValueCache):
    """The keys and values of the positions read so far, for one layer; the first layer's knows who has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: Tensor | None = None  # [batch]

    def take(self, tokens: Int[Tensor, "batch new"], padding: int) -> None:
        """Note which texts have ended: from padding on, a text holds nothing else.

        Raises:
            TypeError: the tokens or `padding` are not integers.
            ValueError: the first tokens hold padding, a word follows padding, or it's another batch.
        """
        checks.tokens(tokens=tokens)
        checks.not_negative(padding=padding)
        if self.ended is None:
            checks.no_padding(padding, tokens=tokens)
            self.ended = torch.zeros(len(tokens), dtype=torch.bool, device=tokens.device)
        if len(tokens) != len(self.ended):
            raise ValueError(f"tokens must have {len(self.ended)} rows, as before, got {checks.shape(tokens)}")
        ended = self.ended.unsqueeze(1) | ((tokens == padding).cumsum(dim=1) > 0)
        if (wrong := ended & (tokens != padding)).any():
            row = int(wrong.any(dim=1).nonzero()[0])
            raise ValueError(f"from padding ({padding}) on, tokens must hold nothing else, got a word in row {row}")
        self.ended = ended[:, -1]

    def select(self, rows: Int[Tensor, " row"]) -> None:
        """Keep these rows of the batch, in this order."""
        super().select(rows)
        self.ended = None if self.ended is None else self.ended[rows]


class DecoderOnly(nn.Module):
    """A stack in which no position sees a later one, to say which token comes next, as in GPT.

    Radford et al. (2018), section 3.1: encoder layers under a causal mask. With a prefix, whose positions see each
    other, it's the prefix language model of Raffel et al. (2020), section 3.2.1; so a bias by distance tells before
    from after.

    Raises:
        TypeError: `config` is something else, such as a dictionary.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(model.layer_stack(encoder_decoder.EncoderLayer, config))
        self.norm = encoder_decoder.last_norm(self.layers)
        self.config, self.embedding = config, model.Embedding(config)

    def forward(
        self, tokens: Int[Tensor, "batch position"], prefix: int = 0
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Return, for each position, the logits of the token that follows it; see `decode`."""
        return self.embedding.logits(self.decode(tokens, prefix))

    def decode(
        self, tokens: Int[Tensor, "batch position"], prefix: int = 0, caches: list[TextCache] | None = None
    ) -> Float[Tensor, "batch position d_model"]:
        """Return the vectors of the tokens; `embedding.logits` turns them into scores.

        Args:
            prefix: number of positions at the start that see each other; with caches, all in the first call.
            caches: from `new_caches()`; then `tokens` holds only those that are new since the last call.

        Raises:
            TypeError: the tokens are not integers, or the caches are something else.
            ValueError: tokens, prefix or caches don't fit the model or each other, or as for `TextCache.take`: later
                calls would take padding in a cache for words.
        """
        checks.one_for_each_layer(len(self.layers), TextCache, caches=caches)
        past = caches[0].first if caches else 0
        x = self.embedding(tokens, past)
        mask = text_mask(tokens, prefix, past, self.config.padding)
        if caches:
            caches[0].take(tokens, self.config.padding)
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers), strict=True):
            x = layer(x, mask, cache)
        return self.norm(x)

    def new_caches(self) -> list[TextCache]:
        """Return empty caches, one for each layer, for one batch of texts to be continued."""
        return [TextCache() for _ in self.layers]
