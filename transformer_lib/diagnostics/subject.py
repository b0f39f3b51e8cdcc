"""The model under examination: how to run it, what its inputs are, and how to run it with one of them changed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib.diagnostics import graph, inputs, watching
from transformer_lib.diagnostics.graph import Node, Numbers, Trace
from transformer_lib.diagnostics.lending import devices

Change = Callable[[Tensor], Tensor]  # of a sequence's vectors [batch position d_model]
SEED = 20170612


@dataclass
class Sequence:
    """A sequence that the model embeds: its ids [batch position], or None where it gets vectors, and its padding.

    Args:
        number: its place among the embeddings of the inputs, in the order in which the model makes them.
        batch_axis: the axis of the batch in the model's own tensor.
        padding: True at padding; None where nothing is known.
        counted: positions are looked up by ids of their own, which may differ between sentences.
        also: the numbers of embeddings that are added to this one before the layers, such as features.
    """

    number: int
    shape: tuple[int, int]
    tokens: Int[Tensor, "batch position"] | None
    batch_axis: int = 0
    padding: Bool[Tensor, "batch position"] | None = None
    counted: bool = False
    also: tuple[int, ...] = ()


@dataclass
class Run:
    """One run of the model.

    Args:
        output: [batch position features], or [batch features] of a pooled model, whatever it returned them in.
        raw: what the model returned.
    """

    output: Float[Tensor, "batch *position features"]
    raw: Any
    trace: Trace


@dataclass
class Subject:
    """A model in evaluation mode with its batch.

    Args:
        sequences: what it embeds, in order; the last one is the one that it answers for.
        config: what the caller said about the model.
    """

    model: nn.Module
    batch: Any
    given: inputs.Inputs
    adapter: inputs.Adapter | None
    config: dict[str, Any]
    sequences: list[Sequence] = field(default_factory=list)
    with_labels: bool = False

    @property
    def target(self) -> Sequence:
        """The sequence that the outputs belong to."""
        return self.sequences[-1]

    def run(self, changes: dict[int, Change] | None = None, given: inputs.Inputs | None = None) -> Run:
        """Run the model, with the vectors of some sequences changed, or with other inputs.

        Args:
            changes: the number of a sequence to a function of its vectors, before positions are added.
            given: other inputs than the batch's.
        """
        given = given or self.given
        roots = self._roots(given) if self.adapter is None else list(tensors_in(self.batch))
        if changes and self._takes_vectors():
            given, roots = self._changed(changes)
            changes = None
        trace = Trace(roots, self._edit(changes) if changes else None)
        with torch.random.fork_rng(devices=devices(self.model)), torch.enable_grad():
            torch.manual_seed(SEED)
            with watching.tracing(self.model, trace):
                raw = self.call(given)
        output = inputs.logits_of(raw)
        if output is None:
            raise ValueError(f"the model must return a tensor of logits or vectors, got {type(raw).__name__}")
        return Run(self._aligned(output, given), raw, trace)

    def run_with(self, changes: dict[int, Change] | None, given: inputs.Inputs) -> Run:
        """Run the model with other inputs than the batch's, and the vectors of some sequences changed."""
        before, self.given = self.given, given
        try:
            return self.run(changes)
        finally:
            self.given = before

    def call(self, given: inputs.Inputs | None = None) -> Any:
        """Return what the model returns for its inputs."""
        if self.adapter is not None:
            return self.adapter(self.model, self.batch)
        positional, named = (given or self.given).arguments(self.with_labels)
        return self.model(*positional, **named)

    def _roots(self, given: inputs.Inputs) -> list[Tensor]:
        made_of = [given.labels] if self.with_labels and given.labels is not None else []  # the decoder's input may be
        return [*given.tensors().values(), *made_of]

    def _takes_vectors(self) -> bool:
        return all(sequence.tokens is None for sequence in self.sequences)

    def _changed(self, changes: dict[int, Change]) -> tuple[inputs.Inputs, list[Tensor]]:
        values = dict(self.given.values)
        keys = [key for key, value in self.given.tensors().items() if value.is_floating_point() and value.dim() == 3]
        for number, change in changes.items():
            axis, value = self.sequences[number].batch_axis, values[keys[number]]
            values[keys[number]] = change(value.transpose(0, axis)).transpose(0, axis)
        given = inputs.Inputs(values, self.given.labels, self.given.labels_key)
        return given, list(given.tensors().values())

    def _edit(self, changes: dict[int, Change]) -> graph.Edit:
        seen: list[Node] = []

        def edit(node: Node, vectors: Tensor) -> Tensor:
            if not is_sequence(node):
                return vectors
            number = len(seen)
            seen.append(node)
            mine = [s for s in self.sequences if s.number in changes and number in (s.number, *s.also)]
            if not mine:
                return vectors
            axis = mine[0].batch_axis
            return changes[mine[0].number](vectors.transpose(0, axis)).transpose(0, axis)

        return edit

    def _aligned(self, output: Tensor, given: inputs.Inputs) -> Tensor:
        if not self.sequences:
            return output
        batch, length = self.target.shape
        if output.dim() == 2 and output.size(0) == batch * length and batch * length != batch:
            output = output.unflatten(0, (length, batch) if self.target.batch_axis else (batch, length))
        labels = given.labels
        if output.dim() == 2 and labels is not None and labels.shape == output.shape and output.size(1) == length:
            return output.unsqueeze(-1)  # one number for each word
        if output.dim() == 2:
            return output.unsqueeze(1)
        if self.target.batch_axis and output.size(1) == batch:
            output = output.transpose(0, 1)
        return output.flatten(start_dim=2) if output.dim() > 3 else output


def is_sequence(node: Node) -> bool:
    """Return whether a lookup embeds a sequence of tokens: not positions counted up, not two or three segments."""
    ids = next(n.tensor for n in node.inputs if n.active and not n.tensor.is_floating_point() and n.tensor.dim())
    if ids.dim() != 2 or node.tensor.dim() != 3:
        return False
    counted = [bool((ids.diff(dim=axis) == 1).all()) and bool((ids.diff(dim=1 - axis) == 0).all()) for axis in (0, 1)]
    table = max((n.tensor for n in node.inputs if n.tensor.is_floating_point()), key=lambda t: t.dim())
    return not (any(counted) and ids.numel() > 1) and len(table) > 4


def tensors_in(batch: Any) -> Iterator[Numbers]:
    """Yield the tensors that a batch holds, whatever kind it is."""
    yield from graph.tensors(vars(batch) if hasattr(batch, "__dict__") and not isinstance(batch, Tensor) else batch)
