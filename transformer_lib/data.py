"""Sentences to batches: special tokens, a subword tokeniser (both from `tokeniser`), batches of similar length."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_lib import checks
from transformer_lib.tokeniser import (
    END,
    PADDING,
    SPECIAL_TOKENS,
    START,
    UNKNOWN,
    Tokeniser,
    WordTokeniser,
    train_tokeniser,
)

__all__ = [
    "END",
    "PADDING",
    "SPECIAL_TOKENS",
    "START",
    "UNKNOWN",
    "Batch",
    "Pair",
    "Tokeniser",
    "WordTokeniser",
    "batches",
    "encode_pairs",
    "pad",
    "train_tokeniser",
]

Pair = tuple[Sequence[int], Sequence[int]]  # source and target ids, without special tokens


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentence pairs of similar length as two padded matrices of ids.

    A row of `source` is the sentence's ids; a row of `target` is START, the ids, END. Both end in PADDING.

    Raises:
        TypeError: a part is not a tensor of int64.
        ValueError: a part is not a matrix, the two differ in rows, or `target` has no room for START and END.
    """

    source: Int[Tensor, "batch source"]
    target: Int[Tensor, "batch target"]

    def __post_init__(self) -> None:
        for name, part in (("source", self.source), ("target", self.target)):
            if not isinstance(part, Tensor) or part.dtype != torch.int64:
                raise TypeError(f"{name} must be a tensor of int64, got {getattr(part, 'dtype', type(part).__name__)}")
            if part.dim() != 2:
                raise ValueError(f"{name} must have shape (batch, position), got {tuple(part.shape)}")
        if len(self.source) != len(self.target) or self.target.size(1) < 2:
            raise ValueError(
                "source and target must have as many rows, and target at least 2 columns, "
                f"got {tuple(self.source.shape)} and {tuple(self.target.shape)}"
            )

    @classmethod
    def from_pairs(cls, pairs: Sequence[Pair]) -> "Batch":
        """Return the pairs as one batch, in their order, with START and END around each target; errors as for `pad`."""
        checks.pairs(pairs=pairs)
        return cls(pad([source for source, _ in pairs]), pad([[START, *target, END] for _, target in pairs]))

    @property
    def target_input(self) -> Int[Tensor, "batch position"]:
        """What the decoder reads: the target without its last column."""
        return self.target[:, :-1]

    @property
    def labels(self) -> Int[Tensor, "batch position"]:
        """What the decoder must say: the target without START, one position ahead of `target_input`."""
        return self.target[:, 1:]

    @property
    def target_tokens(self) -> int:
        """The number of labels that are not padding: what a loss per token divides by."""
        return int((self.labels != PADDING).sum())

    def to(self, device: torch.device | str) -> "Batch":
        """Return the same batch on another device."""
        return Batch(self.source.to(device), self.target.to(device))


def pad(sentences: Sequence[Sequence[int]]) -> Int[Tensor, "batch position"]:
    """Return the sentences as rows of one matrix, filled up with PADDING on the right.

    Raises:
        ValueError: there is no sentence, all are empty, or an id is negative or PADDING.
        TypeError: an id is not an integer, or a sentence not a list of them.
    """
    checks.lists(sentences=sentences)
    lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
    if not lengths.sum():
        raise ValueError(f"wanted at least one sentence with a token, got {len(sentences)} sentences without any")
    ids = _ids(list(chain.from_iterable(sentences)))
    rows = torch.full((len(lengths), int(lengths.max())), PADDING)
    rows[torch.arange(rows.size(1)) < lengths.unsqueeze(1)] = ids
    return rows


def _ids(numbers: list[int]) -> Int[Tensor, "token"]:
    try:
        ids = torch.tensor(numbers)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"ids must be integers, got {numbers[0]!r} ({error})") from error
    if ids.dtype != torch.int64:
        raise TypeError(f"ids must be integers, got {ids.dtype}")
    if ids.min() <= PADDING:
        raise ValueError(f"ids in a sentence must be above {PADDING} (padding), got {int(ids.min())}")
    return ids


def batches(pairs: Sequence[Pair], tokens_per_batch: int, *, generator: torch.Generator | None = None) -> list[Batch]:
    """Return one epoch: every pair once, in batches of similar length, the short last one included.

    A batch has as many rows as fit: rows times the longer of source and target input is at most `tokens_per_batch`.

    Args:
        tokens_per_batch: the most positions, padding included, in a batch's source or in its target input.
        generator: where chance comes from (which pairs meet, and the batches' order); None sorts by length instead.

    Raises:
        ValueError: there are no pairs, a source is empty, or a pair alone exceeds `tokens_per_batch`.
        TypeError: `generator` is not a `torch.Generator`.
    """
    checks.positive(tokens_per_batch=tokens_per_batch)
    checks.instance(torch.Generator | None, generator=generator)
    lengths = _lengths(pairs, tokens_per_batch)
    groups = _groups(lengths.tolist(), _by_length(lengths, generator), tokens_per_batch)
    if generator is not None:
        groups = [groups[i] for i in torch.randperm(len(groups), generator=generator).tolist()]
    return [Batch.from_pairs([pairs[i] for i in group]) for group in groups]


def _lengths(pairs: Sequence[Pair], tokens_per_batch: int) -> Int[Tensor, "pair 2"]:
    checks.pairs(pairs=pairs)
    if not len(pairs):
        raise ValueError("wanted at least one sentence pair, got none")
    lengths = torch.tensor([(len(source), len(target) + 1) for source, target in pairs])
    if not lengths[:, 0].all():
        raise ValueError(f"wanted a token in every source, got none in pair {int(lengths[:, 0].argmin())}")
    longest = lengths.amax(dim=1)
    if longest.max() > tokens_per_batch:
        raise ValueError(
            f"tokens_per_batch must hold the longest pair: pair {int(longest.argmax())} needs "
            f"{int(longest.max())}, got {tokens_per_batch}"
        )
    return lengths


def _by_length(lengths: Int[Tensor, "pair 2"], generator: torch.Generator | None) -> list[int]:
    """Return the pairs' order: by target length, then by source length, ties by chance or as they came."""
    source, target = lengths.unbind(dim=1)
    key = (target * (source.max() + 1) + source).double()
    if generator is not None:
        key += torch.rand(len(key), generator=generator, dtype=key.dtype)
    return key.argsort(stable=True).tolist()


def _groups(lengths: list[list[int]], order: list[int], tokens_per_batch: int) -> list[list[int]]:
    """Cut the order where one more row would exceed the limit."""
    groups: list[list[int]] = [[]]
    longest = 0
    for i in order:
        longest = max(longest, *lengths[i])
        if longest * (len(groups[-1]) + 1) > tokens_per_batch:
            groups.append([])
            longest = max(lengths[i])
        groups[-1].append(i)
    return groups


def encode_pairs(
    pairs: Iterable[tuple[str, str]], tokeniser: Tokeniser | WordTokeniser, max_length: int = 128
) -> list[Pair]:
    """Return each pair's ids; source and target are cut to their first `max_length` tokens, and no pair is dropped.

    Args:
        max_length: in tokens, START and END not counted: a model needs one position more than this.

    Raises:
        TypeError: there are no pairs of strings, or the tokeniser or `max_length` is of another kind.
        ValueError: `max_length` is below 1.
    """
    checks.positive(max_length=max_length)
    checks.instance(Tokeniser | WordTokeniser, tokeniser=tokeniser)
    checks.iterable(pairs=pairs)
    checks.pairs(pairs=(pairs := list(pairs)))
    return [(tokeniser.encode(source)[:max_length], tokeniser.encode(target)[:max_length]) for source, target in pairs]
