"""Who remembers one token over a distance? (chapter 01, at equal parameters and equal steps)"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import checks, toy_tasks
from transformer_lib.experiments import networks
from transformer_lib.experiments.steps import count_parameters, take_step

VOCABULARY, BATCH, RATE, STEPS = 21, 16, 3e-3, 300  # 8 symbols, 8 fillers, the question and 4 special tokens
PARAMETERS = 8_000
DISTANCES = (2, 8, 32, 128, 256)


class Reader(nn.Module):
    """A network between an embedding and an answer that is read off at the last position."""

    def __init__(self, name: str, d_model: int) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, d_model)
        self.network = networks.network(name, d_model)
        self.answer = nn.Linear(d_model, VOCABULARY)

    def forward(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch vocabulary"]:
        """Return a logit for each token as the answer."""
        return self.answer(networks.last_output(self.network, self.token(tokens)))


@dataclass(frozen=True, kw_only=True)
class Recall:
    """What a training run left behind.

    Args:
        losses: one per step, in nats per answer.
        accuracy: share of right answers on 1,024 sequences not trained on; a guess among 8 symbols has 1/8.
        parameters: of the whole model.
    """

    losses: list[float]
    accuracy: float
    parameters: int


def size(name: str, d_model: int) -> int:
    """Return how many parameters a reader of this width has."""
    with torch.random.fork_rng(devices=[]):
        return count_parameters(Reader(name, d_model))


def width(name: str, parameters: int = PARAMETERS) -> int:
    """Return the largest d_model at which a reader has at most so many parameters.

    Raises:
        ValueError: not even d_model = 1 has so few.
    """
    checks.positive(parameters=parameters)
    d_model = 0
    while size(name, d_model + 1) <= parameters:
        d_model += 1
    if not d_model:
        raise ValueError(f"parameters must be at least {size(name, 1)} for {name}, got {parameters}")
    return d_model


def train_to_recall(name: str, distance: int, *, seed: int = 0, steps: int = STEPS, rate: float = RATE) -> Recall:
    """Train a network to answer with the symbol that stands `distance` before the question; Adam, 16 sequences a step.

    A sequence is the symbol, fillers, the question; fresh ones at each step.

    Args:
        name: one of `networks.NAMES`.
        rate: the learning rate.
    """
    checks.positive(distance=distance, steps=steps)
    d_model = width(name)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Reader(name, d_model)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        tokens, answers = _batch(BATCH, distance, generator)
        loss = F.cross_entropy(model(tokens), answers)
        losses.append(take_step(optimizer, loss))
    return Recall(losses=losses, accuracy=_accuracy(model, distance, generator), parameters=size(name, d_model))


def record(seed: int) -> dict[str, Any]:
    """Return each network's share of right answers at each distance, in a dictionary for `tools.record`."""
    accuracy = {
        name: [round(train_to_recall(name, distance, seed=seed, steps=STEPS).accuracy, 3) for distance in DISTANCES]
        for name in networks.NAMES
    }
    parameters = {name: size(name, width(name)) for name in networks.NAMES}
    return {"steps": STEPS, "distances": list(DISTANCES), "parameters": parameters, "accuracy": accuracy}


def _batch(count: int, distance: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    pairs = toy_tasks.recall_task(count, distance + 1, distance, VOCABULARY, generator)
    sources, answers = zip(*pairs, strict=True)
    return torch.tensor(sources), torch.tensor(answers).squeeze(1)


@torch.no_grad()
def _accuracy(model: Reader, distance: int, generator: torch.Generator) -> float:
    tokens, answers = _batch(1024, distance, generator)
    right = torch.cat([model(part).argmax(-1) for part in tokens.split(256)]) == answers
    return right.float().mean().item()
