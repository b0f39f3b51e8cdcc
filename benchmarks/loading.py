"""What are batches of similar length worth? The same model trains on them, and on batches of sentences as they come."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks import corpus, rounds
from benchmarks.training import TORCH, trainees
from transformer_lib.data import PADDING, Batch

BATCHES, ROWS, LONGEST = 6, 128, 72
SIMILAR, RANDOM = "similar length", f"as they come, {ROWS} a batch"
PADDED = f"as they come, all padded to {LONGEST}"
MODELS = (TORCH, "this book, as listed", "this book, fast, default")


def random_batches(longest: int | None = None) -> list[Batch]:
    """Return batches of sentences as they come; all padded to `longest` tokens if it is given."""
    pairs = corpus.pairs()
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()
    groups = [[pairs[i] for i in order[start : start + ROWS]] for start in range(0, BATCHES * ROWS, ROWS)]
    found = [Batch.from_pairs(group) for group in groups]
    if longest is None:
        return found
    return [Batch(_filled(batch.source, longest), _filled(batch.target, longest)) for batch in found]


def _filled(tokens: torch.Tensor, length: int) -> torch.Tensor:
    return torch.nn.functional.pad(tokens[:, :length], (0, length - tokens.size(1)), value=PADDING)


def padding(batches: list[Batch]) -> float:
    """Return which share of the positions, in sources and target inputs, is padding."""
    parts = [part for batch in batches for part in (batch.source, batch.target_input)]
    return sum(int((part == PADDING).sum()) for part in parts) / sum(part.numel() for part in parts)


def run(count: int = rounds.ROUNDS) -> dict[str, Any]:
    """Return target tokens a second for each way to make batches, and the share of padding; for torch's module, too."""
    epoch = corpus.training_batches()
    ways = {SIMILAR: epoch[:BATCHES], RANDOM: random_batches(), PADDED: random_batches(LONGEST)}
    shares = {name: padding(found) for name, found in ways.items()} | {SIMILAR: padding(epoch)}
    work = {name: float(sum(batch.target_tokens for batch in found)) for name, found in ways.items()}
    rows = {}
    for model in MODELS:
        trainee = trainees()[model]
        seconds = rounds.interleaved(
            {name: lambda b=found, t=trainee: t.steps(b) for name, found in ways.items()}, count
        )
        for name, row in rounds.ratios(seconds, RANDOM, work).items():
            rows[f"{model}: {name}"] = row | {"padding": round(shares[name], 4)}
    return {"rows": rows}
