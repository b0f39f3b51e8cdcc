"""Generation: a text continued token by token by a decoder alone, with caches (chapter 11); rows decoded in batches."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib import checks, sampling
from transformer_lib.data import pad
from transformer_lib.siblings import DecoderOnly

Choice = Callable[[Float[Tensor, "batch vocabulary"]], Int[Tensor, "batch 1"]]


def continue_greedily(
    model: DecoderOnly, prompt: Int[Tensor, "batch position"], count: int, *, end: int | None = None, prefix: int = 0
) -> list[list[int]]:
    """Return for each prompt the tokens that follow it if the likeliest is taken at every step.

    Args:
        prompt: token ids without padding, so all of one length.
        count: most tokens that are added.
        end: the id after which a text is not continued; it is not returned. None has every text get `count` tokens.
        prefix: number of the prompt's positions that see each other, as in `DecoderOnly.decode`.

    Raises:
        TypeError: `model` is not a `DecoderOnly`, or a number or the prompt not of integers.
        ValueError: the model is in training mode or has too few positions, a number is out of range, or the prompt
            holds padding or an id outside the vocabulary.
    """
    return _continued(model, prompt, count, lambda logits: logits.argmax(dim=-1, keepdim=True), end, prefix)


def continue_by_chance(
    model: DecoderOnly,
    prompt: Int[Tensor, "batch position"],
    count: int,
    generator: torch.Generator,
    *,
    end: int | None = None,
    prefix: int = 0,
    **sampled: float | int | None,
) -> list[list[int]]:
    """Return for each prompt tokens that follow it, drawn one by one; for several texts of one, repeat its row.

    Args:
        generator: where chance comes from, on the model's device; torch's global one is not touched.
        sampled: `temperature`, `k` and `p`, as for `sampling.sample`.

    The other arguments are those of `continue_greedily`.

    Raises:
        TypeError: an argument is of another kind, such as a seed for the generator.
        ValueError: a number is out of range, or an argument as for `continue_greedily`.
    """
    checks.instance(torch.Generator, generator=generator)
    return _continued(model, prompt, count, lambda logits: sampling.draw(logits, generator, **sampled), end, prefix)


@torch.no_grad()
def _continued(
    model: DecoderOnly, prompt: Tensor, count: int, choose: Choice, end: int | None, prefix: int
) -> list[list[int]]:
    _check(model, prompt, count, end)
    padding, caches = model.config.padding, model.new_caches()
    new, found = prompt, prompt[:, :0]
    ended = torch.zeros_like(prompt[:, :1], dtype=torch.bool)
    for _ in range(count):
        logits = model.embedding.logits(model.decode(new, prefix, caches)[:, -1:]).squeeze(1)
        logits[:, padding] = -torch.inf  # no label in training is padding: noise
        new = choose(logits).masked_fill(ended, padding)
        found, ended = torch.cat([found, new], dim=1), ended | (new == end if end is not None else False)
        if ended.all():
            break
    return [row[: row.index(end)] if end in row else row for row in found.tolist()]


def _check(model: DecoderOnly, prompt: Tensor, count: int, end: int | None) -> None:
    checks.instance(DecoderOnly, model=model)
    checks.positive(count=count)
    checks.tokens(model.config.vocabulary, prompt=prompt)
    checks.no_padding(model.config.padding, prompt=prompt)
    checks.evaluating(model)
    if end is not None:
        checks.token_id(model.config.vocabulary, end=end)
    checks.enough_positions(model.config.max_length, 0, prompt.size(1) + count - 1)  # the last one isn't read


def in_batches(
    rows: Sequence[list[int]], decode: Callable[[Int[Tensor, "batch source"]], Sequence[Any]], rows_per_batch: int = 64
) -> list[Any]:
    """Return what `decode` finds for each row of ids, in the order of the rows, computed in batches of similar length.

    Raises:
        TypeError: `rows` are no lists of integers, `decode` is not a function, or `rows_per_batch` not an integer.
        ValueError: `rows_per_batch` is below 1, a batch's rows are all empty, or `decode` returns too few results
            or too many.
    """
    checks.lists(rows=rows)
    checks.function(decode=decode)
    checks.positive(rows_per_batch=rows_per_batch)
    order, found = sorted(range(len(rows)), key=lambda i: len(rows[i])), [None] * len(rows)
    for start in range(0, len(order), rows_per_batch):
        places = order[start : start + rows_per_batch]
        results = decode(pad([rows[i] for i in places]))
        if len(results) != len(places):
            raise ValueError(f"decode must return a result for each of {len(places)} rows, got {len(results)}")
        for place, result in zip(places, results, strict=True):
            found[place] = result
    return found
