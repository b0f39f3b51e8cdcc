"""The sizes of a Transformer, checked once, where they enter (chapter 06)."""

from dataclasses import dataclass

from transformer_lib import checks
from transformer_lib.layers import ACTIVATIONS, NORMS

POSITIONS = ("sinusoidal", "learned", "none", "rotary", "alibi", "shaw", "t5")


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
        positions: "sinusoidal" or "learned", added to the embeddings; "rotary", "alibi", "shaw" or "t5", inside each
            self-attention; or "none".
        max_length: number of positions; a longer sequence is an error.
        padding: the id that fills up short sentences.
        activation: "relu" or "gelu"; see `layers.FeedForward`.
        attention_bias: whether the attentions' projections have a bias.
        norm_eps: what a LayerNorm adds to the variance before the square root.

    Raises:
        TypeError: a size is not an integer, or another field of another kind.
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
    activation: str = "relu"
    attention_bias: bool = False
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        _check_each(self)
        checks.heads_divide(self.d_model, self.heads)
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"d_model must be even for sinusoidal positions, got {self.d_model}")
        if self.positions == "rotary" and self.d_model // self.heads % 2:
            raise ValueError(f"d_model / heads must be even for rotary positions, got {self.d_model // self.heads}")
        checks.token_id(self.vocabulary, padding=self.padding)


def _check_each(config: TransformerConfig) -> None:
    sizes = ("vocabulary", "d_model", "heads", "d_ff", "layers", "max_length")
    checks.positive(**{name: getattr(config, name) for name in sizes})
    for name in ("vocabulary", "max_length", "d_ff"):
        checks.matrix(**{name: getattr(config, name), "d_model": config.d_model})
    checks.probability(dropout=config.dropout)
    checks.one_of(NORMS, norm=config.norm)
    checks.one_of(POSITIONS, positions=config.positions)
    checks.one_of(tuple(ACTIVATIONS), activation=config.activation)
    checks.instance(bool, attention_bias=config.attention_bias)
    checks.above_zero(norm_eps=config.norm_eps)
