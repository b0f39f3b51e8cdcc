"""What the experiments' training loops share: one step of an optimiser, and one thread for small tensors."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor


def take_step(optimizer: torch.optim.Optimizer, loss: Float[Tensor, ""]) -> float:
    """Move the parameters one step down the loss; return the loss as it was before the step.

    `training.train` does the same for a whole run, and clips the gradients.
    """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: tensors this small gain nothing from more, and lose much on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
