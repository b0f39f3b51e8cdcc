"""How much do a schedule's shape, its warm-up and its peak matter? One small translator, many rates. (chapter 07)"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from transformer_lib import checks, fast, training
from transformer_lib.data import batches
from transformer_lib.experiments import translation
from transformer_lib.experiments.steps import one_thread
from transformer_lib.model import Transformer

SHAPES = ("constant", "Noam", "Noam with a tail", "cosine")
PEAKS = (2e-3, 6e-3, 2e-2)
STEPS, WARMUP, TOKENS_PER_BATCH = 100, 20, 512


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a schedule led to.

    Args:
        losses: one per step, smoothed, in nats per token.
        loss: on sentences never trained on, without smoothing, in nats per token.
        accuracy: share of their next tokens that are right, teacher forcing.
    """

    losses: list[float]
    loss: float
    accuracy: float


def rate(shape: str, step: int, steps: int, *, peak: float, warmup: int, rises: bool = True) -> float:
    """Return the learning rate at a step, counted from 1; after the warm-up all shapes begin at the same peak.

    "Noam" falls with 1 / sqrt(step), Vaswani et al. (2017), equation 3, "with a tail" also in a line to 0 over the
    last half of the steps; "cosine" falls by half a wave to 0, Loshchilov & Hutter (2017).

    Args:
        rises: True rises to the peak in a line; False has the peak from step 1 on.

    Raises:
        TypeError: a number is of another kind.
        ValueError: there is no such shape, or `step` or `warmup` is not between 1 and `steps`.
    """
    checks.one_of(SHAPES, shape=shape)
    checks.positive(step=step, steps=steps, warmup=warmup)
    checks.above_zero(peak=peak)
    if max(step, warmup) > steps:
        raise ValueError(f"step and warmup must be at most {steps}, got step = {step} and warmup = {warmup}")
    factor, later = 1.0, max(step, warmup)
    if shape.startswith("Noam"):
        factor = math.sqrt(warmup / later)
    if shape == "cosine":
        factor = (1 + math.cos(math.pi * (later - warmup) / (steps - warmup + 1))) / 2
    if shape == "Noam with a tail":
        factor *= training.linear_tail(step, steps, max(1, steps // 2))
    return peak * factor * (min(1.0, step / warmup) if rises else 1.0)


@cache
def task() -> translation.Task:
    """Return the chapter's toy language: the same sentences for every schedule and seed."""
    return translation.prepare("quick")


def train_with(shape: str, *, peak: float, rises: bool = True, seed: int, steps: int = STEPS) -> Trained:
    """Train the quick profile's model by Adam with one schedule; all schedules meet the same start and batches.

    Args:
        shape: as for `rate`.
        rises: as for `rate`.
    """
    generator, plan = torch.Generator().manual_seed(seed), []
    while len(plan) < steps:
        plan += batches(task().pairs, TOKENS_PER_BATCH, generator=generator)
    with torch.random.fork_rng(devices=[]), one_thread(), fast.enabled():
        torch.manual_seed(seed)
        model = Transformer(task().config)
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)

        def at(step: int) -> float:
            return rate(shape, step, steps, peak=peak, warmup=WARMUP, rises=rises)

        losses = list(training.train(model, plan[:steps], fast.translation_loss, optimizer, at))
        model.eval()
        held_out = batches(task().held_out_pairs, 2 * TOKENS_PER_BATCH)
        loss, accuracy = training.evaluate(model, held_out), translation.accuracy(model, held_out)
    return Trained(losses=losses, loss=loss, accuracy=accuracy)


def record(seed: int) -> dict[str, Any]:
    """Return what the full run finds: each shape with and without a rise, at three peaks."""
    found: dict[str, Any] = {}
    for shape in SHAPES:
        found[shape] = {"with warm-up": {}, "without warm-up": {}}
        for name, rises in (("with warm-up", True), ("without warm-up", False)):
            for peak in PEAKS:
                run = train_with(shape, peak=peak, rises=rises, seed=seed)
                found[shape][name][str(peak)] = {"loss": round(run.loss, 4), "accuracy": round(run.accuracy, 4)}
    return found
