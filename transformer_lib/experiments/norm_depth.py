"""Where the norm stands, how deep the stack is, how it starts, whether the rate warms up: what learns? (chapter 10)"""

from dataclasses import dataclass
from typing import Any

import torch

from transformer_lib import checks, fast
from transformer_lib.experiments import extrapolation
from transformer_lib.experiments.deep_stacks import BATCH, LENGTH, PLACEMENTS, apart, fresh, gradients, loss_of
from transformer_lib.experiments.steps import one_thread, take_step

RATE, STEPS, LONGER, EVERY = 3e-3, 400, 2000, 10
DEPTHS, SCHEDULES = (6, 12, 24), ("constant", "warm-up", "a third")
MORE_DEPTHS, DRAWN = (2, 4, 6, 8, 12, 16, 20, 24), 8  # for gradients, which cost little and vary much


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training run left behind.

    Args:
        losses: one per step, in nats per answer.
        apart: how far apart the tokens are, before each tenth step, the first one first; see `deep_stacks.apart`.
        accuracy: share of right answers on 256 sequences not trained on; a guess has 1/16.
    """

    losses: list[float]
    apart: list[float]
    accuracy: float


def rate_at(step: int, schedule: str, steps: int = STEPS) -> float:
    """Return a step's learning rate, the first step being 1.

    Args:
        schedule: "constant" takes `RATE` from the first step on, "a third" a third of it; "warm-up" rises to it in a
            straight line, over the first half of the steps.
    """
    checks.one_of(SCHEDULES, schedule=schedule)
    return RATE * {"constant": 1, "a third": 1 / 3, "warm-up": min(1, 2 * step / steps)}[schedule]


def train_deep(
    rule: str, depth: int, schedule: str = "constant", *, seed: int, steps: int = STEPS, start: str = "glorot"
) -> Trained:
    """Train a stack to say at each place the symbol three places before it; Adam, fresh sequences at each step.

    Args:
        rule: one of `deep_stacks.RULES`.
        schedule: one of `SCHEDULES`; see `rate_at`.
        start: one of `deep_stacks.STARTS`.
    """
    checks.positive(steps=steps)
    network, generator = fresh(rule, depth, seed, start), torch.Generator().manual_seed(seed)
    optimizer, losses, distances = torch.optim.Adam(network.parameters(), betas=(0.9, 0.98), fused=True), [], []
    with one_thread(), fast.enabled():
        for step in range(1, steps + 1):
            if step % EVERY == 1:
                distances.append(apart(network))
            optimizer.param_groups[0]["lr"] = rate_at(step, schedule, steps)
            losses.append(take_step(optimizer, loss_of(network, BATCH, generator)))
        symbols, answers = extrapolation.three_back(256, LENGTH, generator)
        with torch.no_grad():
            right = (network(symbols).argmax(-1) == answers)[:, 3:]
    return Trained(losses=losses, apart=distances, accuracy=right.float().mean().item())


def _kinds() -> list[tuple[str, int, str, str]]:
    """Return what is trained for the record: rule, depth, start, schedule."""
    two = SCHEDULES[:2]
    found = [(rule, depth, "glorot", how) for depth in DEPTHS for rule in ("post", "pre") for how in two]
    found += [(rule, DEPTHS[0], "glorot", "constant") for rule in ("skip", "no norm", "no residual")]
    found += [("skip", DEPTHS[0], "glorot", "warm-up"), ("pre", DEPTHS[-1], "linear", "constant")]
    found += [("post", depth, "linear", how) for depth in DEPTHS for how in two]
    return found + [("post", 12, "glorot", "a third"), ("post", 24, "linear", "a third")]


def _kept(run: Trained) -> dict[str, Any]:
    """Return what the record keeps of a run, losses and distances in forty parts."""
    part = len(run.losses) // 40
    losses = [round(sum(run.losses[i : i + part]) / part, 3) for i in range(0, len(run.losses), part)]
    distances = [float(f"{distance:.3g}") for distance in run.apart[:: part // EVERY]]
    return {"accuracy": round(run.accuracy, 3), "losses": losses, "apart": distances}


def record(seed: int) -> dict[str, Any]:
    """Return accuracy, loss and distances for placements, depths, starts and schedules, and gradients at the start."""
    found: dict[str, Any] = {"steps": STEPS, "rate": RATE}
    for rule, depth, start, schedule in _kinds():
        kind = f"{rule}, {depth}, {start}, {schedule}"
        found[kind] = _kept(train_deep(rule, depth, schedule, seed=seed, start=start))
    found["longer"] = {how: _kept(train_deep("post", 12, how, seed=seed, steps=LONGER)) for how in SCHEDULES[:2]}
    drawn = range(DRAWN * seed, DRAWN * (seed + 1))
    found["gradients"] = {
        rule: {str(depth): [round(size, 5) for size in gradients(rule, depth, drawn)] for depth in MORE_DEPTHS}
        for rule in PLACEMENTS
    }
    return found
