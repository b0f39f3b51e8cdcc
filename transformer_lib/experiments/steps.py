"""What the experiments share: one step of an optimiser, a model's size, one thread for small tensors, a call's time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lib import checks


def take_step(optimizer: torch.optim.Optimizer, loss: Float[Tensor, ""]) -> float:
    """Move the parameters one step down the loss; return the loss as it was before the step.

    `training.train` does the same for a whole run, and clips the gradients.
    """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def count_parameters(model: nn.Module) -> int:
    """Return how many numbers a model learns."""
    return sum(parameter.numel() for parameter in model.parameters())


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: tensors this small gain nothing from more, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def cpu_seconds(action: Callable[[], Any], repeats: int) -> float:
    """Return the processor's time for one call, the shortest of several after one to warm up.

    The shortest is the one that other programs disturbed least.
    """
    checks.positive(repeats=repeats)
    found = []
    for _ in range(repeats + 1):
        started = time.process_time()
        action()
        found.append(time.process_time() - started)
    return min(found[1:])
