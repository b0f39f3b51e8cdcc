"""Watching a model run: every torch function into a trace, with the name of the module that called it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lib.diagnostics.graph import Trace


@contextmanager
def tracing(model: nn.Module, trace: Trace) -> Iterator[Trace]:
    """Record into `trace` while the block runs, with the names of the model's modules; all is put back afterwards."""
    with ExitStack() as undo:
        for name, module in model.named_modules():
            undo.callback(module.register_forward_pre_hook(_enter(trace, name)).remove)
            undo.callback(module.register_forward_hook(lambda *_: _leave(trace), always_call=True).remove)
        for name in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"):
            if hasattr(F, name):  # so that torch's composite functions are seen from inside, too
                undo.callback(setattr, F, name, getattr(F, name))
                setattr(F, name, lambda *_: False)
        undo.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        undo.enter_context(trace)
        yield trace


def _enter(trace: Trace, name: str) -> Callable[..., None]:
    return lambda *_: trace.module.append(name)


def _leave(trace: Trace) -> None:
    trace.module.pop()
