"""Deep stacks whose norms stand in several places, before training: their gradients, their tokens (chapter 10)."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, layers, model
from transformer_lib.experiments import extrapolation

D_MODEL, HEADS, LENGTH, BATCH, VOCABULARY = 32, 4, 12, 32, extrapolation.VOCABULARY
STARTS = ("glorot", "linear")
Rule = Callable[[nn.Module, Tensor, Callable[[Tensor], Tensor]], Tensor]

RULES: dict[str, Rule] = {
    "post": lambda norm, x, sublayer: norm(x + sublayer(x)),  # Vaswani et al. (2017), section 3.1
    "pre": lambda norm, x, sublayer: x + sublayer(norm(x)),  # Xiong et al. (2020), figure 1
    "skip": lambda norm, x, sublayer: norm(x) + sublayer(x),  # nobody's: the norm on the bypass
    "no norm": lambda norm, x, sublayer: x + sublayer(x),
    "no residual": lambda norm, x, sublayer: norm(sublayer(x)),
}
PLACEMENTS = ("post", "pre", "skip")


class Placed(layers.Residual):
    """A residual connection whose norm stands where a rule of `RULES` says.

    Raises:
        ValueError: there is no such rule.
    """

    def __init__(self, d_model: int, rule: str) -> None:
        checks.one_of(tuple(RULES), rule=rule)
        super().__init__(d_model, norm="pre" if rule == "pre" else "post")
        self.rule = RULES[rule]

    def forward(
        self, x: Float[Tensor, "batch position d_model"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch position d_model"]:
        """Return what the rule makes of the input and its sub-layer."""
        return self.rule(self.norm, x, sublayer)


class Deep(nn.Module):
    """Symbols in, one answer for each place out: a stack of encoder layers whose norms stand where a rule says.

    With "pre" a last norm follows, as in `encoder_decoder.Encoder`; else none. Positions are learned.

    Args:
        start: "glorot" draws the layers' matrices with variance 2 / (inputs + outputs); "linear" leaves what
            `nn.Linear` draws, variance 1 / (3 inputs), which is a third of that where a matrix is square.
    """

    def __init__(self, rule: str, depth: int, start: str = "glorot") -> None:
        super().__init__()
        checks.positive(depth=depth)
        checks.one_of(STARTS, start=start)
        self.symbol, self.answer = nn.Embedding(VOCABULARY, D_MODEL), nn.Linear(D_MODEL, VOCABULARY)
        self.position = nn.Parameter(torch.randn(LENGTH, D_MODEL))
        stack = [encoder_decoder.EncoderLayer(D_MODEL, HEADS, 2 * D_MODEL) for _ in range(depth)]
        for layer in stack:
            layer.residuals = nn.ModuleList(Placed(D_MODEL, rule) for _ in layer.residuals)
        self.encoder = encoder_decoder.Encoder(stack)
        if start == "glorot":
            model.start_from_glorot(self.encoder)

    def forward(self, symbols: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position vocabulary"]:
        """Return the logits of each place's answer."""
        return self.answer(self.top(symbols))

    def top(self, symbols: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position d_model"]:
        """Return what the stack makes of the symbols, before the answers."""
        return self.encoder((self.symbol(symbols) + self.position) / math.sqrt(2))


def fresh(rule: str, depth: int, seed: int, start: str = "glorot") -> Deep:
    """Return a model before training; the same weights for each rule."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Deep(rule, depth, start)


@torch.no_grad()
def apart(network: Deep, count: int = 64) -> float:
    """Return how far apart a sequence's tokens are at the top: 1 minus their cosine; 0 if all are alike.

    The mean over all pairs of tokens of some fixed sequences. It's made from distances, half the square of each
    between two unit vectors, since 1 minus a cosine close to 1 would be the rounding error.
    """
    symbols, _ = extrapolation.three_back(count, LENGTH, torch.Generator().manual_seed(0))
    unit = F.normalize(network.top(symbols).double(), dim=-1)
    from_mean = (unit - unit.mean(dim=1, keepdim=True)).square().sum(dim=-1)
    return from_mean.mean().item() * LENGTH / (LENGTH - 1)


def loss_of(network: nn.Module, count: int, generator: torch.Generator) -> Float[Tensor, ""]:
    """Return the mean loss of so many fresh sequences, in nats per answer; a guess among 16 symbols has 2.77."""
    symbols, answers = extrapolation.three_back(count, LENGTH, generator)
    return F.cross_entropy(network(symbols)[:, 3:].flatten(0, 1), answers[:, 3:].flatten())


def gradients(rule: str, depth: int, seeds: Sequence[int] = (0, 1, 2)) -> list[float]:
    """Return for each layer, from the input up, how large the gradient of its matrices is before the first step.

    The root of the sum of the squares of all their numbers; the geometric mean over the seeds.
    """
    logs = torch.zeros(depth)
    for seed in seeds:
        network = fresh(rule, depth, seed)
        loss_of(network, BATCH, torch.Generator().manual_seed(seed)).backward()
        for number, layer in enumerate(network.encoder.layers):
            squares = sum(matrix.grad.square().sum() for matrix in layer.parameters() if matrix.dim() > 1)
            logs[number] += squares.sqrt().log() / len(seeds)
    return logs.exp().tolist()
