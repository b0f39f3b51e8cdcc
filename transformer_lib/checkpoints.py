"""Checkpoints: the state of a training run in one file that is whole or as it was (chapter 07)."""

import io
import os
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_lib import files

FORMAT = "transformer_lib checkpoint 1"


def save_checkpoint(
    path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int, **extra: Any
) -> None:
    """Write everything that training needs to go on as if it had not stopped, the random state included.

    Args:
        step: number of optimiser steps taken.
        extra: numbers, strings, lists and dictionaries of them, to be kept beside (the best score, the curve).

    Raises:
        OSError: the disk is full or the folder can't be written; the old file is kept.
    """
    state = {"format": FORMAT, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    state |= {"random": torch.get_rng_state(), "extra": extra}
    buffer = io.BytesIO()
    torch.save(state, buffer)
    files.write_whole(path, buffer.getvalue())


def load_checkpoint(
    path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> tuple[int, dict[str, Any]]:
    """Put a checkpoint's state into the model, the optimiser and torch's random generator; return step and extra.

    Only tensors and plain values are read: a file can't run code. A file that doesn't fit changes nothing.

    Args:
        optimizer: None leaves the optimiser's and the random state out, to use the model only.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is cut short, foreign, or of a model with other sizes.
    """
    state = _read(path)
    wanted, got = _shapes(model.state_dict()), _shapes(state["model"])
    if wanted != got:
        raise ValueError(f"{path} must fit the model, but {_first_difference(wanted, got)}")
    model.load_state_dict(state["model"])
    if optimizer is not None:
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
    return state["step"], state["extra"]


def _read(path: str | Path) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError, KeyError, ValueError) as error:
        size = os.path.getsize(path)
        raise ValueError(f"{path} must be a checkpoint, got a file of {size} bytes that can't be read") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"{path} must be a checkpoint written by save_checkpoint, got another kind of file")
    return state


def _shapes(state: dict[str, torch.Tensor]) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in state.items()}


def _first_difference(wanted: dict[str, list[int]], got: dict[str, list[int]]) -> str:
    name = next(name for name in [*wanted, *got] if wanted.get(name) != got.get(name))
    return f"{name} has shape {got.get(name, 'none')} where {wanted.get(name, 'none')} was wanted"
