"""Toy tasks whose answer is known: copy a sequence, reverse it."""

import torch

from transformer_lib import checks
from transformer_lib.data import SPECIAL_TOKENS, Pair

FIRST_SYMBOL = len(SPECIAL_TOKENS)  # the ids below are the special tokens


def copy_task(
    count: int, length: int, vocabulary: int, generator: torch.Generator, *, shortest: int | None = None
) -> list[Pair]:
    """Return random sequences of ids, each paired with itself.

    Args:
        length: the number of ids in a sequence, or in the longest when `shortest` is given.
        vocabulary: the number of ids, special tokens included, as in `TransformerConfig`.
        shortest: lengths are drawn evenly from `shortest` to `length`; None makes all of them `length`.

    Raises:
        TypeError: a size is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: a size is below 1, `vocabulary` leaves fewer than two symbols, or `shortest` exceeds `length`.
    """
    return [(symbols, symbols) for symbols in _sequences(count, length, vocabulary, generator, shortest)]


def reverse_task(
    count: int, length: int, vocabulary: int, generator: torch.Generator, *, shortest: int | None = None
) -> list[Pair]:
    """Return random sequences of ids, each paired with itself read backwards; arguments and errors as `copy_task`."""
    return [(symbols, symbols[::-1]) for symbols in _sequences(count, length, vocabulary, generator, shortest)]


def _sequences(
    count: int, length: int, vocabulary: int, generator: torch.Generator, shortest: int | None
) -> list[list[int]]:
    shortest = length if shortest is None else shortest
    checks.positive(count=count, length=length, vocabulary=vocabulary, shortest=shortest)
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"generator must be a torch.Generator, got {type(generator).__name__}")
    if vocabulary < FIRST_SYMBOL + 2:
        raise ValueError(
            f"vocabulary must hold {FIRST_SYMBOL} special tokens and 2 symbols or more, "
            f"so at least {FIRST_SYMBOL + 2}, got {vocabulary}"
        )
    if shortest > length:
        raise ValueError(f"shortest must be at most length = {length}, got {shortest}")
    symbols = torch.randint(FIRST_SYMBOL, vocabulary, (count, length), generator=generator).tolist()
    lengths = torch.randint(shortest, length + 1, (count,), generator=generator).tolist()
    return [row[:size] for row, size in zip(symbols, lengths, strict=True)]
