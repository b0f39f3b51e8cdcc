"""Checkpoints: the state of a training run in one file that is whole or as it was (chapter 07)."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_lib import checks, files

FORMAT = "transformer_lib checkpoint 1"
PARTS = {"format", "model", "optimizer", "step", "random", "extra"}


def save_checkpoint(
    path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, *, step: int, **extra: Any
) -> None:
    """Write everything that training needs to go on as if it had not stopped, the random state included.

    Args:
        step: number of optimiser steps taken.
        extra: numbers, strings, lists and dictionaries of them, to be kept beside (the best score, the curve).

    Raises:
        OSError: the disk is full or the folder can't be written; the old file is kept.
        TypeError: `extra` holds something else, which could not be read back, or an argument is of another kind.
        ValueError: `step` is negative.
    """
    checks.path(path=path)
    checks.instance(nn.Module, model=model)
    checks.instance(torch.optim.Optimizer, optimizer=optimizer)
    checks.not_negative(step=step)
    _readable(extra)
    state = {"format": FORMAT, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    state |= {"random": torch.get_rng_state(), "random_on_gpus": on_gpus, "extra": extra}
    buffer = io.BytesIO()
    torch.save(state, buffer)
    files.write_whole(path, buffer.getvalue())


def load_checkpoint(
    path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> tuple[int, dict[str, Any]]:
    """Put a checkpoint's state into the model, the optimiser and torch's random generators; return step and extra.

    Only tensors and plain values are read: a file can't run code. A file that doesn't fit changes nothing. The random
    state of GPUs is put back where there are as many as the file knows; a file written without them leaves it as it is.

    Args:
        optimizer: None leaves the optimiser's and the random state out, to use the model only.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: the model or the optimiser is of another kind.
        ValueError: it is cut short, damaged, foreign, or of a model or optimiser with other sizes or dtypes.
    """
    checks.path(path=path)
    checks.instance(nn.Module, model=model)
    if optimizer is not None:
        checks.instance(torch.optim.Optimizer, optimizer=optimizer)
    state = _read(path)
    wanted, got = _shapes(model.state_dict()), _shapes(state["model"])
    if wanted != got:
        raise ValueError(f"{path} must fit the model, but {_first_difference(wanted, got)}")
    if optimizer is not None:
        wanted_groups, got_groups = _group_sizes(optimizer.state_dict()), _group_sizes(state["optimizer"])
        if wanted_groups != got_groups:
            raise ValueError(f"{path} must fit the optimiser's groups of {wanted_groups} parameters, got {got_groups}")
        if missing := set(optimizer.param_groups[0]) - set(state["optimizer"]["param_groups"][0]):
            raise ValueError(
                f"{path} must be of the same kind of optimiser, with {', '.join(sorted(missing))}; got none"
            )
        optimizer.load_state_dict(state["optimizer"])
        _set_random(state)
    model.load_state_dict(state["model"])
    return state["step"], state["extra"]


def _readable(extra: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    try:
        torch.save(extra, buffer)
        buffer.seek(0)
        torch.load(buffer, weights_only=True)
    except (pickle.UnpicklingError, pickle.PicklingError, AttributeError, TypeError) as error:
        kinds = {name: type(value).__name__ for name, value in extra.items()}
        raise TypeError(f"extra must hold numbers, strings, lists and dictionaries of them, got {kinds}") from error


def _read(path: str | Path) -> dict[str, Any]:
    content = Path(path).read_bytes()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            damaged = archive.testzip()  # torch.load doesn't compare the sums that torch.save wrote
        if damaged:
            raise zipfile.BadZipFile(f"{damaged} is damaged")
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # what a damaged or foreign file raises depends on where it is damaged
        got = f"a file of {len(content)} bytes that can't be read ({error})"
        raise ValueError(f"{path} must be a checkpoint written by save_checkpoint, got {got}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT or not state.keys() >= PARTS:
        raise ValueError(f"{path} must be a checkpoint written by save_checkpoint, got another kind of file")
    return state


def _set_random(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["random"])
    on_gpus = state.get("random_on_gpus", [])  # a file of an older version has none
    if on_gpus and torch.cuda.is_available() and torch.cuda.device_count() == len(on_gpus):
        torch.cuda.set_rng_state_all(on_gpus)


def _shapes(state: dict[str, torch.Tensor]) -> dict[str, str]:
    return {name: f"shape {list(tensor.shape)} of {tensor.dtype}" for name, tensor in state.items()}


def _group_sizes(state: dict[str, Any]) -> list[int]:
    return [len(group["params"]) for group in state["param_groups"]]


def _first_difference(wanted: dict[str, str], got: dict[str, str]) -> str:
    name = next(name for name in [*wanted, *got] if wanted.get(name) != got.get(name))
    return f"{name} has {got.get(name, 'shape none')} where {wanted.get(name, 'shape none')} was wanted"
