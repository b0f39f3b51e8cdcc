"""A sentence spoilt so that a model can mend it: words blanked, as for BERT, spans cut, as for T5 (chapter 11)."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations_with_replacement, product

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_lib.data import PADDING
from transformer_lib.experiments.closed_language import BLANK, SENTINELS, Ids

Spans = tuple[tuple[int, int], tuple[int, int]]

SHARE = 0.25  # of the words that are blanked; 0.15 in Devlin et al. (2019), section 3.1, whose texts are longer
LONGEST = 3  # words in a span; in Raffel et al. (2020), section 3.5, 3 is the mean


def blank_some(
    tokens: Int[Tensor, "batch position"], generator: torch.Generator, share: float = SHARE
) -> tuple[Int[Tensor, "batch position"], Bool[Tensor, "batch position"]]:
    """Return the tokens with some of them, drawn by chance, replaced by the blank; and True where that happened."""
    chosen = (torch.rand(tokens.shape, generator=generator) < share) & (tokens != PADDING)
    return tokens.masked_fill(chosen, BLANK), chosen


def some_spans(length: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """Return two spans of a sentence, one to three words each and not side by side: (first place, place after it).

    Raises:
        ValueError: the sentence is too short.
    """
    _long_enough(length)
    drawn = torch.randint(2**31, (4,), generator=generator).tolist()  # one call: small ones cost time
    first, second = (1 + number % LONGEST for number in drawn[:2])
    room = length - first - second - 1
    before, after = sorted(number % (room + 1) for number in drawn[2:])
    return _placed(first, second, before, after)


@cache
def possible_spans(length: int) -> dict[Spans, float]:
    """Return every pair of spans that `some_spans` may draw for a sentence, and the chance of each.

    Raises:
        ValueError: the sentence is too short.
    """
    _long_enough(length)
    found: dict[Spans, float] = {}
    for first, second in product(range(1, LONGEST + 1), repeat=2):
        places = range(length - first - second)
        for before, after in combinations_with_replacement(places, 2):
            ways = 1 if before == after else 2  # of drawing two places, in either order
            found[tuple(_placed(first, second, before, after))] = ways / (LONGEST * len(places)) ** 2
    return found


def _placed(first: int, second: int, before: int, after: int) -> list[tuple[int, int]]:
    """Return two spans of these sizes: `before` words stand before the first, `after - before` more between them."""
    return [(before, before + first), (after + first + 1, after + first + 1 + second)]


def _long_enough(length: int) -> None:
    if length < 2 * LONGEST + 1:
        raise ValueError(f"a sentence must have at least {2 * LONGEST + 1} words for two spans, got {length}")


def cut_spans(sentence: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[Ids, Ids]:
    """Return the sentence with a sentinel for each span, and the spans, each after its sentinel; one more ends them.

    Raffel et al. (2020), section 3.1.4 and Figure 2.
    """
    source, target, place = [], [], 0
    for sentinel, (begin, end) in zip(SENTINELS, spans, strict=False):  # more sentinels than spans
        source += [*sentence[place:begin], sentinel]
        target += [sentinel, *sentence[begin:end]]
        place = end
    return [*source, *sentence[place:]], [*target, SENTINELS[len(spans)]]


def put_back(source: Sequence[int], target: Sequence[int]) -> Ids:
    """Return the sentence with each sentinel replaced by the span that follows it in the target: undoes `cut_spans`."""
    spans: dict[int, Ids] = {}
    current: Ids = []
    for token in target:
        if token in SENTINELS:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return [word for token in source for word in (spans.get(token, []) if token in SENTINELS else [token])]
