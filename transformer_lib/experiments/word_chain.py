"""A language small enough to know everything about: each word has three possible successors.

Their probabilities are 0.5, 0.3 and 0.2, whatever the word. So the entropy of the next word is that of this choice, at
every place of every text, and no model that sees only the words before has an expected loss below it.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib import checks

SUCCESSORS = {  # likeliest first
    ".": ("the", "a", "it"),
    "the": ("animal", "street", "cat"),
    "a": ("cat", "animal", "street"),
    "animal": ("crosses", "sees", "sleeps"),
    "cat": ("sees", "sleeps", "crosses"),
    "street": ("sleeps", ".", "and"),
    "crosses": ("the", "a", "it"),
    "sees": ("a", "it", "the"),
    "it": ("sleeps", "crosses", "and"),
    "sleeps": (".", "and", "while"),
    "and": ("the", "it", "sleeps"),
    "while": ("it", "the", "a"),
}
WORDS = list(SUCCESSORS)  # the first, a full stop, comes before every text
CHANCES = (0.5, 0.3, 0.2)


def transitions() -> Float[Tensor, "word next"]:
    """Return how likely each word follows each: every row sums to 1, with three entries above 0."""
    matrix = torch.zeros(len(WORDS), len(WORDS), dtype=torch.float64)
    for row, successors in enumerate(SUCCESSORS.values()):
        for word, chance in zip(successors, CHANCES, strict=True):
            matrix[row, WORDS.index(word)] = chance
    return matrix


def texts(count: int, length: int, generator: torch.Generator) -> Int[Tensor, "row position"]:
    """Return texts as numbers of words: a full stop, then `length` words of the chain.

    Raises:
        TypeError: a size is not an integer, or `generator` is not a `torch.Generator`.
        ValueError: a size is below 1.
    """
    checks.positive(count=count, length=length)
    checks.instance(torch.Generator, generator=generator)
    matrix, words = transitions(), [torch.zeros(count, dtype=torch.long)]
    for _ in range(length):
        words.append(torch.multinomial(matrix[words[-1]], 1, generator=generator).squeeze(1))
    return torch.stack(words, dim=1)
