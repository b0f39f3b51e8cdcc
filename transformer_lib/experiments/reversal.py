"""Can one head learn to read a sequence backwards? (chapter 02, with and without the scale)"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import attention, checks
from transformer_lib.experiments.steps import one_thread

SYMBOLS, LENGTH, BATCH, RATE = 16, 48, 32, 2e-3


class OneHead(nn.Module):
    """One attention head between an embedding with learned positions and a linear answer.

    The input has variance 1 in each feature and the projections are Xavier-uniform, so that queries and keys
    have the variance that the argument for the scale assumes.

    Args:
        scale: what the products of queries and keys are multiplied by.
        query_factor: what W_q is multiplied by at the start.
    """

    def __init__(self, d_k: int, scale: float, query_factor: float = 1.0) -> None:
        super().__init__()
        checks.positive(d_k=d_k)
        self.scale = scale
        self.symbol = nn.Embedding(SYMBOLS, d_k)
        self.position = nn.Parameter(torch.randn(LENGTH, d_k))
        self.query, self.key, self.value = (nn.Linear(d_k, d_k, bias=False) for _ in range(3))
        for layer in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(layer.weight)
        with torch.no_grad():
            self.query.weight *= query_factor
        self.answer = nn.Linear(d_k, SYMBOLS)

    def forward(
        self, symbols: Int[Tensor, "batch position"]
    ) -> tuple[Float[Tensor, "batch position symbol"], Float[Tensor, "batch query key"]]:
        """Return a logit for each symbol at each position, and the attention weights."""
        x = (self.symbol(symbols) + self.position) / math.sqrt(2)
        scores = self.query(x) @ self.key(x).transpose(-2, -1) * self.scale
        weights = attention.masked_softmax(scores)
        return self.answer(weights @ self.value(x)), weights


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a training run left behind.

    Args:
        losses: one per step, in nats per symbol.
        first_weights: the largest weight of each row at step 1, averaged.
        gradient: the norm of all gradients at step 1.
        query_gradient: the norm of the gradient of W_q at step 1.
        score_gradient: the median size of a score's gradient at step 1.
        accuracy: share of symbols right, on sequences not trained on.
        weights: the attention map after training, averaged over sequences.
        largest: each query's largest weight after training, averaged over sequences.
    """

    losses: list[float]
    first_weights: float
    gradient: float
    query_gradient: float
    score_gradient: float
    accuracy: float
    weights: Float[Tensor, "query key"]
    largest: Float[Tensor, " query"]


def train_to_reverse(
    scale: float, *, seed: int = 0, steps: int = 120, d_k: int = 64, query_factor: float = 1.0
) -> Record:
    """Train one head to put out its random input backwards; Adam, 32 sequences of 48 symbols a step.

    A model that guesses has a loss of ln 16 = 2.77 nats per symbol.

    Args:
        scale: what the products of queries and keys are multiplied by; the paper's is d_k ** -0.5.
        query_factor: what W_q is multiplied by at the start, and only there.
    """
    checks.positive(steps=steps, d_k=d_k)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        model = OneHead(d_k, scale, query_factor)
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        first, losses = {}, []
        for _ in range(steps):
            loss, weights = _loss(model, BATCH)
            optimizer.zero_grad()
            weights.retain_grad()
            loss.backward()
            first = first or _at_the_start(model, weights)
            optimizer.step()
            losses.append(loss.item())
        return Record(losses=losses, **first, **_at_the_end(model))


def _loss(model: OneHead, sequences: int) -> tuple[Tensor, Tensor]:
    symbols = torch.randint(SYMBOLS, (sequences, LENGTH))
    logits, weights = model(symbols)
    return F.cross_entropy(logits.flatten(0, 1), symbols.flip(1).flatten()), weights


def _at_the_start(model: OneHead, weights: Tensor) -> dict[str, float]:
    norms = torch.stack([parameter.grad.norm() for parameter in model.parameters()])
    weights, gradient = weights.detach(), weights.grad
    at_scores = weights * (gradient - (weights * gradient).sum(-1, keepdim=True))  # the softmax's Jacobian
    return {
        "first_weights": weights.amax(-1).mean().item(),
        "gradient": norms.norm().item(),
        "query_gradient": model.query.weight.grad.norm().item(),
        "score_gradient": at_scores.abs().median().item(),
    }


@torch.no_grad()
def _at_the_end(model: OneHead) -> dict[str, float | Tensor]:
    symbols = torch.randint(SYMBOLS, (256, LENGTH))
    logits, weights = model(symbols)
    right = logits.argmax(-1) == symbols.flip(1)
    return {
        "accuracy": right.float().mean().item(),
        "weights": weights.mean(0),
        "largest": weights.amax(-1).mean(0),
    }
