"""The whole Transformer: embeddings, positions, encoder, decoder, output (chapter 06)."""

import math
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, masks, positional
from transformer_lib.layers import NORMS
from transformer_lib.multi_head import KeyValueCache

POSITIONS = ("sinusoidal", "learned")


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The sizes of a Transformer. Keyword-only, so that no two of them can be swapped unseen.

    Args:
        vocabulary: number of token ids, shared by source and target.
        d_model: width of the vectors that flow through the model.
        heads: attentions side by side; must divide `d_model`.
        d_ff: width of the feed-forward network's hidden layer.
        layers: number of encoder layers, and of decoder layers.
        dropout: probability of dropping an element of a sub-layer's output or of the embedded input, in training.
        norm: "pre" or "post"; see `layers.Residual`.
        positions: "sinusoidal" or "learned".
        max_length: number of positions; a longer sequence is an error.
        padding: the id that fills up short sentences.

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is out of range, or they don't fit together.
    """

    vocabulary: int
    d_model: int = 128
    heads: int = 4
    d_ff: int = 256
    layers: int = 4
    dropout: float = 0.1
    norm: str = "pre"
    positions: str = "sinusoidal"
    max_length: int = 256
    padding: int = 0

    def __post_init__(self) -> None:
        sizes = ("vocabulary", "d_model", "heads", "d_ff", "layers", "max_length")
        checks.positive(**{name: getattr(self, name) for name in sizes})
        checks.probability(dropout=self.dropout)
        checks.one_of(NORMS, norm=self.norm)
        checks.one_of(POSITIONS, positions=self.positions)
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"d_model must be even for sinusoidal positions, got {self.d_model}")
        checks.heads_divide(self.d_model, self.heads)
        checks.not_negative(padding=self.padding)
        if self.padding >= self.vocabulary:
            raise ValueError(f"padding must be an id from 0 to {self.vocabulary - 1}, got {self.padding}")


class Embedding(nn.Module):
    """Token vectors scaled by sqrt(d_model), plus positions, then dropout.

    The table is drawn with standard deviation d_model^-0.5, so that the scaled vectors have elements of about the
    size of the sinusoids. The same table turns the decoder's output into logits (`logits`): Press & Wolf (2017),
    Vaswani et al. (2017), section 3.4.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        checks.instance(TransformerConfig, config=config)
        self.config = config
        self.table = nn.Parameter(nn.init.normal_(Tensor(config.vocabulary, config.d_model), std=config.d_model**-0.5))
        self.dropout = nn.Dropout(config.dropout)
        if config.positions == "learned":
            self.learned = positional.LearnedPositions(config.max_length, config.d_model)
        else:
            sinusoids = positional.sinusoidal_positions(config.max_length, config.d_model)
            self.register_buffer("sinusoids", sinusoids, persistent=False)

    def forward(self, tokens: Int[Tensor, "batch position"], first: int = 0) -> Float[Tensor, "batch position d_model"]:
        """Return the vectors of the tokens, which stand at positions `first`, `first` + 1, ...

        Raises:
            TypeError: the tokens are not integers.
            ValueError: the sequence is longer than `max_length`, empty, or holds an id outside the vocabulary.
        """
        checks.not_negative(first=first)
        checks.tokens(self.config.vocabulary, tokens=tokens)
        length, longest = tokens.size(1), self.config.max_length
        if first + length > longest:
            raise ValueError(f"the model has {longest} positions (max_length), got a sequence of {first + length}")
        vectors = nn.functional.embedding(tokens, self.table) * math.sqrt(self.config.d_model)
        if self.config.positions == "learned":
            return self.dropout(vectors + self.learned(length, first))
        return self.dropout(vectors + self.sinusoids[first : first + length])

    def logits(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position vocabulary"]:
        """Return a score for each token of the vocabulary: the product of `x` with each token's vector."""
        checks.fits(self.table, x=x)
        return x @ self.table.T


def start_from_glorot(module: nn.Module) -> None:
    """Draw every weight matrix of the module anew, uniformly with variance 2 / (inputs + outputs).

    Glorot & Bengio (2010), equation 16; biases and norms stay as they are.

    Raises:
        TypeError: it is not a module.
    """
    checks.instance(nn.Module, module=module)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)


def layer_stack(layer: type[nn.Module], config: TransformerConfig) -> list[nn.Module]:
    """Return as many encoder or decoder layers as the config asks for, in its sizes.

    Raises:
        TypeError: `config` is something else, such as a dictionary.
    """
    checks.instance(TransformerConfig, config=config)
    sizes = (config.d_model, config.heads, config.d_ff)
    layers = [layer(*sizes, dropout=config.dropout, norm=config.norm) for _ in range(config.layers)]
    for one in layers:
        start_from_glorot(one)
    return layers


class Transformer(nn.Module):
    """An encoder that reads the source and a decoder that predicts each next token of the target.

    Vaswani et al. (2017), Figure 1; all three uses of the embedding share one table (section 3.4), so source and
    target share one vocabulary. Weight matrices start from Glorot & Bengio's (2010) uniform distribution.

    Raises:
        TypeError: `config` is something else, such as a dictionary.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = encoder_decoder.Encoder(layer_stack(encoder_decoder.EncoderLayer, config))
        self.decoder = encoder_decoder.Decoder(layer_stack(encoder_decoder.DecoderLayer, config))
        self.embedding = Embedding(config)

    def forward(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target"]
    ) -> Float[Tensor, "batch target vocabulary"]:
        """Return, for each target position, the logits of the token that follows it.

        Args:
            target: the decoder's input, which begins with the start token: `batch.target_input`.
        """
        return self.embedding.logits(self.decode(target, self.encode(source), source))

    def encode(self, source: Int[Tensor, "batch source"]) -> Float[Tensor, "batch source d_model"]:
        """Return the memory: one vector per source token."""
        checks.tokens(self.config.vocabulary, source=source)
        return self.encoder(self.embedding(source), masks.padding_mask(source, self.config.padding))

    def decode(
        self,
        target: Int[Tensor, "batch target"],
        memory: Float[Tensor, "batch source d_model"],
        source: Int[Tensor, "batch source"],
        caches: list[tuple[KeyValueCache, KeyValueCache]] | None = None,
    ) -> Float[Tensor, "batch target d_model"]:
        """Return the decoder's vectors for the target's tokens; `embedding.logits` turns them into scores.

        Args:
            source: the tokens behind the memory, for their padding.
            caches: from `decoder.new_caches()`; then `target` holds only the tokens that are new since the last call.
        """
        checks.tokens(self.config.vocabulary, target=target)
        first = caches[0][0].first if caches else 0
        mask = masks.causal_mask(target.size(1), first).to(target.device)
        memory_mask = masks.padding_mask(source, self.config.padding)
        return self.decoder(self.embedding(target, first), memory, mask, memory_mask, caches)
