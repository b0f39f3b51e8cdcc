"""Checks of what a whole model is given."""

from torch import Tensor, nn

from transformer_lib.checks.ids import tokens
from transformer_lib.checks.tensors import shape, tensors


def decoder_input(vocabulary: int, target: Tensor, memory: Tensor, source: Tensor) -> None:
    """Demand target ids, and a memory with one vector for each source token: before a cache has taken anything in.

    Raises:
        TypeError: a dtype is wrong.
        ValueError: an id of the target is outside the vocabulary, or memory, source and target don't fit together.
    """
    tokens(vocabulary, target=target)
    tokens(source=source)  # `encode` has looked at its ids; here every step of decoding passes by
    tensors(3, memory=memory)
    if memory.shape[:2] != source.shape:
        raise ValueError(
            f"memory must have one vector for each source token, got shapes {shape(memory)} and {shape(source)}"
        )
    if len(target) != len(source):
        raise ValueError(f"target and source must be of one batch, got shapes {shape(target)} and {shape(source)}")


def one_padding(model: nn.Module, padding: int) -> None:
    """Demand a model whose padding, where its configuration names one, is that of the batches.

    Raises:
        ValueError: it is another id, so that the model would take the batches' padding for a word.
    """
    own = getattr(getattr(model, "config", None), "padding", padding)
    if own != padding:
        raise ValueError(f"the model's padding must be {padding}, with which a Batch is filled up, got {own}")


def evaluating(model: nn.Module) -> None:
    """Demand a model in evaluation mode, in which dropout does nothing.

    Raises:
        ValueError: it is in training mode.
    """
    if model.training:
        raise ValueError("the model must be in evaluation mode to decode, got training mode: call model.eval()")
