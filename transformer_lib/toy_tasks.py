"""Toy tasks that ask for one ability each: recall, two relations at once, rank, sort, shift.

Each returns pairs of ids as `toy.copy_task` does. Save for `recall_task`, a target is as long as its source and
answers it place by place, so that an encoder alone can be trained on it, too.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lib import checks
from transformer_lib.data import SPECIAL_TOKENS, UNKNOWN, Pair

FIRST_SYMBOL = len(SPECIAL_TOKENS)  # the ids below are the special tokens
NOTHING = UNKNOWN  # the answer at places where the task asks for a symbol that isn't there
QUESTION = FIRST_SYMBOL  # what `recall_task` ends a source with


def recall_task(count: int, length: int, distance: int, vocabulary: int, generator: torch.Generator) -> list[Pair]:
    """Return sequences that end in a question, each paired with the one symbol that stands `distance` before it.

    The ids after `QUESTION` are halved: the lower half (rounded up) are symbols, the upper half fillers, which stand
    at all other places. So a symbol can be told by what it is as well as by where it stands.

    Args:
        length: number of ids in a source, the question included.
        distance: positions from the symbol to the question.
        vocabulary: number of ids, special tokens included.

    Raises:
        TypeError: a size is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: a size is below 1, `distance` reaches beyond the source, or `vocabulary` leaves fewer than two
            symbols and a filler.
    """
    checks.positive(length=length, distance=distance)
    if distance >= length:
        raise ValueError(f"distance must be below length = {length}, got {distance}")
    symbols = _symbols(vocabulary, 4) - 1  # without the question
    fillers = QUESTION + 1 + symbols - symbols // 2
    source = _draw(count, length, fillers, vocabulary, generator)
    source[:, -1 - distance] = _draw(count, 1, QUESTION + 1, fillers, generator).squeeze(1)
    source[:, -1] = QUESTION
    return [(row, [row[-1 - distance]]) for row in source.tolist()]


def two_relations_task(
    count: int, length: int, vocabulary: int, generator: torch.Generator, *, offsets: tuple[int, int] = (1, 2)
) -> list[Pair]:
    """Return random symbols, each place's answer telling by how much one of those before it exceeds another.

    With n symbols, numbered from 0, the answer is FIRST_SYMBOL + n - 1 + a - b, where a and b stand so many places
    before; `NOTHING` where there is no such place. An average of both, however weighted, with a linear map after it
    can't subtract: that takes two relations at once, each with values of its own.

    Args:
        offsets: how many places before its own each place asks about, for a and for b.
        vocabulary: number of ids, special tokens included; there are twice as many answers as symbols, less one.

    Raises:
        TypeError: a size or an offset is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: a size or an offset is below 1, the offsets are equal, or `vocabulary` leaves fewer than 3 answers.
    """
    checks.instance(tuple, offsets=offsets)
    if len(offsets) != 2 or len(set(offsets)) != 2:
        raise ValueError(f"offsets must be two different numbers, got {offsets}")
    checks.positive(first_offset=offsets[0], second_offset=offsets[1])
    symbols = (_symbols(vocabulary, 3) + 1) // 2
    rows = _draw(count, length, FIRST_SYMBOL, FIRST_SYMBOL + symbols, generator)
    a, b = (shifted(rows, offset) for offset in offsets)
    answers = FIRST_SYMBOL + symbols - 1 + a - b
    answers[:, : max(offsets)] = NOTHING
    return list(zip(rows.tolist(), answers.tolist(), strict=True))


def sort_task(count: int, length: int, vocabulary: int, generator: torch.Generator) -> list[Pair]:
    """Return random symbols, each sequence paired with itself in rising order; arguments and errors as `rank_task`."""
    rows = _draw(count, length, FIRST_SYMBOL, FIRST_SYMBOL + _symbols(vocabulary, 2), generator)
    return list(zip(rows.tolist(), rows.sort(dim=1).values.tolist(), strict=True))


def rank_task(count: int, length: int, vocabulary: int, generator: torch.Generator) -> list[Pair]:
    """Return random symbols, each place's answer being FIRST_SYMBOL + the number of places that hold smaller ones.

    Args:
        length: number of ids in a sequence.
        vocabulary: number of ids, special tokens included.

    Raises:
        TypeError: a size is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: a size is below 1, or `vocabulary` leaves fewer than two symbols; here also if it has no id for
            the rank `length` - 1.
    """
    checks.positive(length=length)
    rows = _draw(count, length, FIRST_SYMBOL, FIRST_SYMBOL + _symbols(vocabulary, max(2, length)), generator)
    ranks = (rows.unsqueeze(1) < rows.unsqueeze(2)).sum(dim=2)
    return list(zip(rows.tolist(), (FIRST_SYMBOL + ranks).tolist(), strict=True))


def shift_task(count: int, length: int, vocabulary: int, generator: torch.Generator, *, offset: int) -> list[Pair]:
    """Return random symbols, each place's answer being the one `offset` places before it, `NOTHING` at the start.

    Args:
        length: number of ids in a sequence.
        vocabulary: number of ids, special tokens included.
        offset: how many places back.

    Raises:
        TypeError: a size or `offset` is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: a size or `offset` is below 1, or `vocabulary` leaves fewer than two symbols.
    """
    checks.positive(offset=offset)
    rows = _draw(count, length, FIRST_SYMBOL, FIRST_SYMBOL + _symbols(vocabulary, 2), generator)
    return list(zip(rows.tolist(), shifted(rows, offset).tolist(), strict=True))


def shifted(rows: Int[Tensor, "row position"], offset: int) -> Int[Tensor, "row position"]:
    """Return for each place what stands `offset` places before it, `NOTHING` where that is before the start.

    Raises:
        TypeError: the rows are not a tensor of integers, or `offset` is not an integer.
        ValueError: `offset` is below 1, or the rows are not of shape [row position] or are empty.
    """
    checks.positive(offset=offset)
    checks.tokens(rows=rows)
    found = torch.full_like(rows, NOTHING)
    found[:, offset:] = rows[:, :-offset]
    return found


def _symbols(vocabulary: int, fewest: int) -> int:
    """Return the number of ids that are not special tokens."""
    checks.positive(vocabulary=vocabulary)
    if vocabulary < FIRST_SYMBOL + fewest:
        raise ValueError(
            f"vocabulary must hold {FIRST_SYMBOL} special tokens and {fewest} ids or more, "
            f"so at least {FIRST_SYMBOL + fewest}, got {vocabulary}"
        )
    return vocabulary - FIRST_SYMBOL


def _draw(count: int, length: int, low: int, high: int, generator: torch.Generator) -> Tensor:
    """Return ids from `low` to `high` - 1."""
    checks.positive(count=count, length=length)
    checks.instance(torch.Generator, generator=generator)
    return torch.randint(low, high, (count, length), generator=generator)
