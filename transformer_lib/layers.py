"""What stands between two attentions: the feed-forward network, the residual connection, the norm (chapter 06)."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import checks

NORMS = ("pre", "post")


class FeedForward(nn.Module):
    """Two linear maps with a ReLU between them, the same for every position.

    max(0, x W_1 + b_1) W_2 + b_2; Vaswani et al. (2017), equation 2.

    Args:
        d_ff: width of the hidden layer.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        checks.positive(d_model=d_model, d_ff=d_ff)
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "batch position d_model"]) -> Float[Tensor, "batch position d_model"]:
        """Return the transformed vectors; no position sees another."""
        checks.fits(self.inner.weight, x=x)
        return self.outer(self.inner(x).relu())


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
        """Return `x` with the sub-layer's contribution added."""
        checks.fits(self.norm.weight, x=x)
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
