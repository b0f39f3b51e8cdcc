"""Where the norm stands, how deep the stack is, whether the rate warms up: what can be trained? (chapter 10)"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, fast, layers, model
from transformer_lib.experiments import extrapolation
from transformer_lib.experiments.steps import one_thread, take_step

D_MODEL, HEADS, LENGTH, BATCH, RATE, STEPS = 32, 4, 12, 32, 3e-3, 200
VOCABULARY = extrapolation.VOCABULARY
DEPTHS, SCHEDULES = (6, 12, 24), ("constant", "warm-up")
MORE_DEPTHS, STARTS = (2, 4, 6, 8, 12, 16, 20, 24), 8  # for gradients, which cost little and vary much
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
    """

    def __init__(self, rule: str, depth: int) -> None:
        super().__init__()
        checks.positive(depth=depth)
        self.symbol, self.answer = nn.Embedding(VOCABULARY, D_MODEL), nn.Linear(D_MODEL, VOCABULARY)
        self.position = nn.Parameter(torch.randn(LENGTH, D_MODEL))
        stack = [encoder_decoder.EncoderLayer(D_MODEL, HEADS, 2 * D_MODEL) for _ in range(depth)]
        for layer in stack:
            layer.residuals = nn.ModuleList(Placed(D_MODEL, rule) for _ in layer.residuals)
        self.encoder = encoder_decoder.Encoder(stack)
        model.start_from_glorot(self.encoder)

    def forward(self, symbols: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position vocabulary"]:
        """Return the logits of each place's answer."""
        return self.answer(self.encoder((self.symbol(symbols) + self.position) / math.sqrt(2)))


def fresh(rule: str, depth: int, seed: int) -> Deep:
    """Return a model before training; the same weights for each rule."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Deep(rule, depth)


def loss_of(network: nn.Module, count: int, generator: torch.Generator) -> Float[Tensor, ""]:
    """Return the mean loss of so many fresh sequences, in nats per answer; a guess among 16 symbols has 2.77."""
    symbols, answers = extrapolation.three_back(count, LENGTH, generator)
    return F.cross_entropy(network(symbols)[:, 3:].flatten(0, 1), answers[:, 3:].flatten())


def gradients(rule: str, depth: int, seeds: Sequence[int] = (0, 1, 2)) -> list[float]:
    """Return for each layer, from the input up, how large the gradient of its matrices is before the first step.

    The norm of all the layer's matrices' gradients together; the geometric mean over the seeds.
    """
    logs = torch.zeros(depth)
    for seed in seeds:
        network = fresh(rule, depth, seed)
        loss_of(network, BATCH, torch.Generator().manual_seed(seed)).backward()
        logs += torch.stack([_norm(layer) for layer in network.encoder.layers]).log() / len(seeds)
    return logs.exp().tolist()


def _norm(layer: nn.Module) -> Tensor:
    return torch.stack([one.grad.norm() for one in layer.parameters() if one.dim() > 1]).norm()


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training run left behind.

    Args:
        losses: one per step, in nats per answer.
        accuracy: share of right answers on 256 sequences not trained on; a guess has 1/16.
    """

    losses: list[float]
    accuracy: float


def train_deep(rule: str, depth: int, schedule: str = "constant", *, seed: int, steps: int = STEPS) -> Trained:
    """Train a stack to say at each place the symbol three places before it; Adam, fresh sequences at each step.

    Args:
        rule: one of `RULES`.
        schedule: "constant" takes `RATE` from the first step on; "warm-up" rises to it in a straight line, over the
            first half of the steps.
    """
    checks.one_of(SCHEDULES, schedule=schedule)
    checks.positive(steps=steps)
    network, generator = fresh(rule, depth, seed), torch.Generator().manual_seed(seed)
    optimizer, losses = torch.optim.Adam(network.parameters(), betas=(0.9, 0.98), fused=True), []
    with one_thread(), fast.enabled():
        for step in range(1, steps + 1):
            optimizer.param_groups[0]["lr"] = RATE * (min(1, 2 * step / steps) if schedule == "warm-up" else 1)
            losses.append(take_step(optimizer, loss_of(network, BATCH, generator)))
        symbols, answers = extrapolation.three_back(256, LENGTH, generator)
        with torch.no_grad():
            right = (network(symbols).argmax(-1) == answers)[:, 3:]
    return Trained(losses=losses, accuracy=right.float().mean().item())


def record(seed: int) -> dict[str, Any]:
    """Return accuracy and loss (each ten steps') for placements, depths and schedules, and gradients at the start."""
    found: dict[str, Any] = {"steps": STEPS, "rate": RATE}
    kinds = [(rule, depth) for depth in DEPTHS for rule in RULES if rule in ("post", "pre") or depth == DEPTHS[0]]
    for rule, depth in kinds:
        for schedule in SCHEDULES:
            run = train_deep(rule, depth, schedule, seed=seed)
            losses = [round(sum(run.losses[i : i + 10]) / 10, 3) for i in range(0, STEPS, 10)]
            found[f"{rule}, {depth}, {schedule}"] = {"accuracy": round(run.accuracy, 3), "losses": losses}
    starts = range(STARTS * seed, STARTS * (seed + 1))
    found["gradients"] = {
        rule: {str(depth): [round(size, 5) for size in gradients(rule, depth, starts)] for depth in MORE_DEPTHS}
        for rule in PLACEMENTS
    }
    return found
