"""What a batch holds, sorted by what it is for: arguments of the model, labels, padding."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from transformer_lib.data import Batch
from transformer_lib.diagnostics.graph import Numbers

LABELS = ("labels", "label", "targets", "target_output", "tgt_out", "y", "trg_y", "tgt_y", "lm_labels")


@dataclass
class Inputs:
    """A model's arguments, by place (int) or by name (str), and what is known beside them.

    Args:
        values: the arguments, labels excluded.
        labels: what the model should say, or None.
        labels_key: the argument that takes the labels, if the model has one.
        guessed: what was assumed, in words.
    """

    values: dict[int | str, Any]
    labels: Tensor | None = None
    labels_key: int | str | None = None
    guessed: str = ""

    def arguments(self, with_labels: bool = False) -> tuple[list[Any], dict[str, Any]]:
        """Return the positional and the named arguments."""
        values = dict(self.values)
        if with_labels and self.labels_key is not None:
            values[self.labels_key] = self.labels
        places = sorted(key for key in values if isinstance(key, int))
        return [values[key] for key in places], {k: v for k, v in values.items() if isinstance(k, str)}

    def replaced(self, **changes: Any) -> "Inputs":
        """Return a copy with other values for some arguments; those by place are named `at0`, `at1`, ..."""
        values = dict(self.values)
        for name, value in changes.items():
            values[int(name[2:]) if name[2:].isdigit() and name.startswith("at") else name] = value
        return Inputs(values, self.labels, self.labels_key, self.guessed)

    def tensors(self) -> dict[int | str, Numbers]:
        """Return those arguments that are tensors."""
        return {key: value for key, value in self.values.items() if isinstance(value, Tensor)}


def arrange(model: nn.Module, batch: Any) -> Inputs:
    """Return how to call a model with a batch: a `data.Batch`, a tensor, a tuple, a dictionary, a dataclass.

    Raises:
        TypeError: the batch is of another kind.
    """
    takes, required, open_ended = _signature(model)
    if isinstance(batch, Batch):
        sequences = [batch.source, batch.target_input] if len(required) > 1 else [batch.target_input]
        return Inputs(dict(enumerate(sequences)), batch.labels)
    if isinstance(batch, Tensor):
        guess = "the model takes two sequences and got one: both were given the same tokens"
        twice = len(required) == 2
        return Inputs({0: batch, 1: batch}, guessed=guess) if twice else Inputs({0: batch})
    if is_dataclass(batch) and not isinstance(batch, type):
        batch = {field.name: getattr(batch, field.name) for field in fields(batch)}
    if not isinstance(batch, Mapping | tuple | list) and hasattr(batch, "__dict__"):
        batch = {name: value for name, value in vars(batch).items() if name in takes or name.lower() in LABELS}
    if isinstance(batch, Mapping) and batch:
        return _named(batch, takes, open_ended)
    if isinstance(batch, tuple | list) and any(isinstance(part, Tensor) for part in batch):
        return _placed(list(batch), takes, required)
    raise TypeError(f"batch must be a Batch, a tensor, or a tuple or dict of tensors, got {type(batch).__name__}")


def _signature(model: nn.Module) -> tuple[list[str], list[str], bool]:
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return [], [], True
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = [p.name for p in plain if p.default is p.empty and p.kind != p.KEYWORD_ONLY]
    return [p.name for p in plain], required, any(p.kind == p.VAR_KEYWORD for p in parameters)


def _named(batch: Mapping[str, Any], takes: list[str], open_ended: bool) -> Inputs:
    key = next((name for name in batch if str(name).lower() in LABELS), None)
    labels = batch[key] if key else None
    values = {name: value for name, value in batch.items() if name != key and (open_ended or name in takes)}
    if not values:  # other names than the model's: by order
        values = dict(enumerate(value for name, value in batch.items() if name != key))
    return Inputs(values, labels, key if key in takes else None)


def _placed(parts: list[Any], takes: list[str], required: list[str]) -> Inputs:
    if len(parts) > max(len(required), 1):
        place = len(parts) - 1
        name = takes[place] if place < len(takes) else ""
        last = parts[place]
        if isinstance(last, Tensor) and not last.is_floating_point() and last.dtype != torch.bool:
            if name.lower() in LABELS or name == "target":
                return Inputs(dict(enumerate(parts[:-1])), last, place)
            if not name or "mask" not in name.lower():
                return Inputs(dict(enumerate(parts[:-1])), last)
    return Inputs(dict(enumerate(parts)))


def logits_of(result: Any) -> Numbers | None:
    """Return the tensor of logits or vectors in what a model returns, whatever it is wrapped in."""
    if isinstance(result, Tensor):
        return result if result.is_floating_point() and result.dim() else None
    for name in ("logits", "prediction_logits", "output", "last_hidden_state"):
        inner = result.get(name) if isinstance(result, Mapping) else getattr(result, name, None)
        if isinstance(inner, Tensor) and inner.dim():
            return inner
    parts = list(result.values()) if isinstance(result, Mapping) else result
    if is_dataclass(result):
        parts = [getattr(result, field.name) for field in fields(result)]
    if not isinstance(parts, tuple | list):
        return None
    found = [part for part in map(logits_of, parts) if part is not None and part.dim() > 1]
    return found[0] if found else None


def loss_of(result: Any) -> Numbers | None:
    """Return the loss among what a model returns, or None."""
    inner = result.get("loss") if isinstance(result, Mapping) else getattr(result, "loss", None)
    if isinstance(inner, Tensor):
        return inner
    parts = result if isinstance(result, tuple | list) else ()
    scalars = [part for part in parts if isinstance(part, Tensor) and not part.dim() and part.is_floating_point()]
    return scalars[0] if scalars else None


Adapter = Callable[[nn.Module, Any], Any]


def argument(key: int | str) -> str:
    """Return the name by which `Inputs.replaced` takes an argument."""
    return f"at{key}" if isinstance(key, int) else key
