"""A sentence spoilt so that a model can mend it: words blanked, as for BERT, spans cut, as for T5 (chapter 11)."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_lib.data import PADDING
from transformer_lib.experiments.closed_language import BLANK, SENTINELS, Ids

SHARE = 0.25  # of the words that are blanked; 0.15 in Devlin et al. (2019), section 3.1, whose texts are longer


def blank_some(
    tokens: Int[Tensor, "batch position"], generator: torch.Generator, share: float = SHARE
) -> tuple[Int[Tensor, "batch position"], Bool[Tensor, "batch position"]]:
    """Return the tokens with some of them, drawn by chance, replaced by the blank; and True where that happened."""
    chosen = (torch.rand(tokens.shape, generator=generator) < share) & (tokens != PADDING)
    return tokens.masked_fill(chosen, BLANK), chosen


def some_spans(length: int, generator: torch.Generator) -> list[tuple[int, int]]:
    """Return two spans of a sentence, one to three words each and not side by side: (first place, place after it)."""
    drawn = torch.randint(2**31, (4,), generator=generator).tolist()  # one call: small ones cost time
    first, second = (1 + number % 3 for number in drawn[:2])
    room = length - first - second - 1
    before, after = sorted(number % (room + 1) for number in drawn[2:])
    return [(before, before + first), (after + first + 1, after + first + 1 + second)]


def cut_spans(sentence: Sequence[int], spans: Sequence[tuple[int, int]]) -> tuple[Ids, Ids]:
    """Return the sentence with a sentinel for each span, and the spans, each after its sentinel; one more ends them.

    Raffel et al. (2020), section 3.1.4 and Figure 2.
    """
    source, target, place = [], [], 0
    for sentinel, (begin, end) in zip(SENTINELS, spans, strict=False):
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
