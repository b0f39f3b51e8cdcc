"""Training by several processes, each with its share of every batch (chapter 07).

Each process holds the whole model and is given the whole of every batch; it takes its rows, and the gradients are
averaged. Started by `torchrun`, as `tools/train_distributed.py` shows::

    with distributed.process_group() as device:
        model = DistributedDataParallel(model.to(device))
        for loss in training.train(model, batches, distributed.shared_loss(training.translation_loss), optimizer, rate):
            ...
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as processes
from torch import Tensor, nn

from transformer_lib import checks
from transformer_lib.data import Batch


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Join the other processes that `torchrun` has started, and leave them at the end; yield this one's device.

    That is a GPU of its own where there are any (NCCL), else the CPU (Gloo). Without `torchrun` there is one process.

    Raises:
        ValueError: there are GPUs, but not one for each process of this machine.
    """
    device = torch.device("cpu")
    if torch.cuda.is_available():
        own, found = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
        if own >= found:
            raise ValueError(f"wanted a GPU for each process of this machine, got {found} GPUs for process {own}")
        device = torch.device("cuda", own)
        torch.cuda.set_device(device)
    alone = {} if "RANK" in os.environ else {"store": processes.HashStore(), "rank": 0, "world_size": 1}
    processes.init_process_group("nccl" if device.type == "cuda" else "gloo", **alone)
    try:
        yield device
    finally:
        processes.destroy_process_group()


def rows_of(batch: Batch, rank: int, count: int) -> Batch:
    """Return the share of process `rank` out of `count`: that row of the batch and every `count`-th after it.

    Raises:
        TypeError: `batch` is not a `Batch`, or a number not an integer.
        ValueError: `count` is below 1, or `rank` is not from 0 to `count` - 1, or there is no such row.
    """
    checks.instance(Batch, batch=batch)
    checks.positive(count=count)
    checks.not_negative(rank=rank)
    limit = min(count, len(batch.source))
    if rank >= limit:
        raise ValueError(f"rank must be below {limit} with {len(batch.source)} rows for {count} processes, got {rank}")
    return Batch(batch.source[rank::count], batch.target[rank::count])


def shared_loss(loss_of: Callable[[nn.Module, Batch], Tensor]) -> Callable[[nn.Module, Batch], Tensor]:
    """Return a loss of the whole batch for which each process computes its rows only; all must be given the same batch.

    Its value is the same in every process: so all of them stop if it is not finite. Its gradient is the process's own
    part, weighted by its real tokens: a mean over processes alone would weigh a token in a short share more. The mean
    of these gradients, which `DistributedDataParallel` takes, is the gradient of the whole batch.

    Args:
        loss_of: in nats per token; it must call the model itself, where the averaging starts, and not its parts.

    Raises:
        TypeError: `loss_of` is not a function; when it is called, as for `rows_of`.
        ValueError: when it is called outside a `process_group`.
    """
    checks.function(loss_of=loss_of)

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        if not processes.is_initialized():
            raise ValueError("a shared loss needs other processes or a process_group of one, got none")
        rank, count = processes.get_rank(), processes.get_world_size()
        has_rows = rank < len(batch.source)
        part = rows_of(batch, rank if has_rows else 0, count)  # without rows it takes part, but weighs nothing
        own = loss_of(model, part) * (has_rows * part.target_tokens * count / batch.target_tokens)
        whole = own.detach().clone()
        processes.all_reduce(whole)
        return own + (whole / count - own.detach())

    return loss
