"""What stands between two attentions: the feed-forward network, the residual connection, the norm (chapter 06)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import checks

NORMS = ("pre", "post")
ACTIVATIONS = {"relu": nn.functional.relu, "gelu": nn.functional.gelu}


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between them, the same for every position.

    max(0, x W_1 + b_1) W_2 + b_2; Vaswani et al. (2017), equation 2.

    Args:
        d_ff: width of the hidden layer.
        activation: "relu", or "gelu" as in BERT: x times the probability that a standard normal number is below x;
            Hendrycks & Gimpel (2016).

    Raises:
        TypeError: a size is not an integer.
        ValueError: a size is below 1 or too large, or there is no such activation.
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu") -> None:
        super().__init__()
        checks.matrix(d_model=d_model, d_ff=d_ff)
        checks.one_of(tuple(ACTIVATIONS), activation=activation)
        self.activation = ACTIVATIONS[activation]
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the transformed vectors; no position sees another."""
        checks.fits(self.inner.weight, x=x)
        return self.outer(self.activation(self.inner(x)))


class Residual(nn.Module):
    """A sub-layer's output added to its input, with dropout on the output and a LayerNorm.

    Post-norm, as in Vaswani et al. (2017), section 3.1: LayerNorm(x + Dropout(sublayer(x))).
    Pre-norm, as in Xiong et al. (2020): x + Dropout(sublayer(LayerNorm(x))).

    Args:
        dropout: probability that an element of the sub-layer's output is set to zero in training.
        norm: "pre" or "post".

    Raises:
        ValueError: `norm` is something else, or `dropout` is not in [0, 1).
    """

    def __init__(self, d_model: int, dropout: float = 0.0, norm: str = "pre") -> None:
        super().__init__()
        checks.positive(d_model=d_model)
        checks.probability(dropout=dropout)
        checks.one_of(NORMS, norm=norm)
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm == "pre"

    def forward(
        self, x: Float[Tensor, "batch position d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch position d_model"]:
        """Return `x` with the sub-layer's contribution added.

        Raises:
            TypeError: a dtype is not the weights', or `sublayer` is not a function.
            ValueError: `x` has another width.
        """
        checks.function(sublayer=sublayer)
        checks.fits(self.norm.weight, x=x)
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
