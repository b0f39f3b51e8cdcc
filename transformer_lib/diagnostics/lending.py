"""Lending a model: what was done to it meanwhile is undone."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import nn


@contextmanager
def untouched(model: nn.Module) -> Iterator[nn.Module]:
    """Lend the model in evaluation mode; give back its modes, buffers and gradients and the random state."""
    before = [(module, _state(module)) for module in model.modules()]
    fast, python, array = torch.backends.mha.get_fastpath_enabled(), random.getstate(), numpy.random.get_state()  # noqa: NPY002
    gradients = [(p, p.grad) for p in model.parameters()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        with torch.random.fork_rng(devices=devices(model)):
            model.eval()
            torch.backends.mha.set_fastpath_enabled(False)
            yield model
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        random.setstate(python)
        numpy.random.set_state(array)  # noqa: NPY002
        for module, state in before:
            _restore(module, state)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for buffer, value in buffers:
            with torch.no_grad():
                buffer.copy_(value)


def _state(module: nn.Module) -> dict[str, Any]:
    """Return a module's attributes; dictionaries (of parameters, hooks, ...) as copies."""
    return {name: dict(value) if type(value) is dict else value for name, value in vars(module).items()}


def _restore(module: nn.Module, state: dict[str, Any]) -> None:
    for name in [name for name in vars(module) if name not in state]:
        del vars(module)[name]
    for name, value in state.items():
        if type(value) is dict and isinstance(own := vars(module).get(name), dict):
            own.clear()
            own.update(value)
        else:
            vars(module)[name] = value


def devices(model: nn.Module) -> list[torch.device]:
    """Return the GPUs that a model's parameters are on, whose random state matters."""
    return list({p.device for p in model.parameters() if p.device.type == "cuda"})
