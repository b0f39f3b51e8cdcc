"""The whole Transformer: embeddings, positions, encoder, decoder, output (chapter 06)."""

import math

from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, masks, positional, relative
from transformer_lib.config import TransformerConfig
from transformer_lib.multi_head import KeyValueCache
from transformer_lib.positional import PositionScheme


class Embedding(nn.Module):
    """Token vectors scaled by sqrt(d_model), plus absolute positions if the config wants them, then dropout.

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
        sizes = (config.max_length, config.d_model)
        self.learned = positional.LearnedPositions(*sizes) if config.positions == "learned" else None
        sinusoids = positional.sinusoidal_positions(*sizes) if config.positions == "sinusoidal" else None
        self.register_buffer("sinusoids", sinusoids, persistent=False)

    def forward(self, tokens: Int[Tensor, "batch position"], first: int = 0) -> Float[Tensor, "batch position d_model"]:
        """Return the vectors of the tokens, which stand at positions `first`, `first` + 1, ...

        Raises:
            TypeError: the tokens are not integers.
            ValueError: the sequence is longer than `max_length`, empty, or holds an id outside the vocabulary.
        """
        checks.tokens(self.config.vocabulary, tokens=tokens)
        length = tokens.size(1)
        checks.enough_positions(self.config.max_length, first, length)
        vectors = nn.functional.embedding(tokens, self.table) * math.sqrt(self.config.d_model)
        if self.learned is not None:
            vectors = vectors + self.learned(length, first)
        if self.sinusoids is not None:
            vectors = vectors + self.sinusoids[first : first + length]
        return self.dropout(vectors)

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


def set_norm_eps(module: nn.Module, eps: float) -> None:
    """Let every LayerNorm of the module add `eps` to the variance before it takes the square root.

    Raises:
        TypeError: it is not a module, or `eps` not a number.
        ValueError: `eps` is not above 0 and finite.
    """
    checks.instance(nn.Module, module=module)
    checks.above_zero(eps=eps)
    for part in module.modules():
        if isinstance(part, nn.LayerNorm):
            part.eps = eps


def position_scheme(config: TransformerConfig, causal: bool) -> PositionScheme:
    """Return a new scheme for one self-attention; one that does nothing where positions are absolute or none.

    Args:
        causal: whether no later key is visible; then T5's buckets are all for earlier ones.

    Raises:
        TypeError: `config` is something else, such as a dictionary, or `causal` is not a bool.
    """
    checks.instance(TransformerConfig, config=config)
    checks.instance(bool, causal=causal)
    d_k = config.d_model // config.heads
    schemes = {
        "rotary": lambda: relative.RotaryPositions(d_k),
        "alibi": lambda: relative.LinearBias(config.heads),
        "shaw": lambda: relative.ShawPositions(d_k),
        "t5": lambda: relative.BucketBias(config.heads, bidirectional=not causal),
    }
    return schemes.get(config.positions, PositionScheme)()


def layer_stack(layer: type[nn.Module], config: TransformerConfig) -> list[nn.Module]:
    """Return as many encoder or decoder layers as the config asks for, in its sizes, each with its own scheme.

    Raises:
        TypeError: `config` is something else, such as a dictionary, or `layer` is no class.
    """
    checks.instance(TransformerConfig, config=config)
    checks.function(layer=layer)
    names = {"dropout": "dropout", "norm": "norm", "activation": "activation", "bias": "attention_bias"}
    options = {option: getattr(config, name) for option, name in names.items()}
    causal, layers = layer is encoder_decoder.DecoderLayer, []
    for _ in range(config.layers):
        scheme = position_scheme(config, causal)
        layers.append(layer(config.d_model, config.heads, config.d_ff, position=scheme, **options))
        start_from_glorot(layers[-1])
        set_norm_eps(layers[-1], config.norm_eps)
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
        self.encoder = encoder_decoder.Encoder(layer_stack(encoder_decoder.EncoderLayer, config))
        self.decoder = encoder_decoder.Decoder(layer_stack(encoder_decoder.DecoderLayer, config))
        self.config, self.embedding = config, Embedding(config)

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

        Raises:
            TypeError: a dtype is wrong, or the caches are something else.
            ValueError: an id is outside the vocabulary, shapes don't fit together, or caches are of another model.
        """
        checks.decoder_input(self.config.vocabulary, target, memory, source)
        first = self.decoder.past(caches)
        mask = masks.causal_mask(target.size(1), first).to(target.device)
        memory_mask = masks.padding_mask(source, self.config.padding)
        return self.decoder(self.embedding(target, first), memory, mask, memory_mask, caches)
