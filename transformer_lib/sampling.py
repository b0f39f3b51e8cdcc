"""Sampling: the next token drawn by chance, from all of the vocabulary or from its likely part (chapter 08)."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lib import checks, decoding
from transformer_lib.data import END, PADDING, START
from transformer_lib.model import Transformer


def temperature_logits(
    logits: Float[Tensor, "*batch vocabulary"], temperature: float
) -> Float[Tensor, "*batch vocabulary"]:
    """Return the logits over `temperature`, the largest of each row moved to 0, which the softmax doesn't see.

    Ackley et al. (1985), section 2, there as the temperature of a physical system.

    Args:
        temperature: below 1 makes likely tokens likelier, above 1 all of them more alike; at 0, the limit, only the
            likeliest is left, and among equals that with the lowest id, as in greedy decoding.

    Raises:
        TypeError: the logits are not of floating point, or `temperature` not a number.
        ValueError: `temperature` is negative or not finite, or a row allows no token (all -inf) or holds NaN or +inf.
    """
    _distributions(logits)
    checks.at_least_zero(temperature=temperature)
    if temperature == 0:
        return top_k_logits(logits, 1)
    below = logits - logits.amax(dim=-1, keepdim=True)
    return (below / temperature).masked_fill(below == 0, 0.0)  # 0 / 0 where the dtype has no such small temperature


def top_k_logits(logits: Float[Tensor, "*batch vocabulary"], k: int) -> Float[Tensor, "*batch vocabulary"]:
    """Return the logits with all but the `k` largest of each row at -inf; among equals those with lower ids stay.

    Fan et al. (2018), section 5.1.

    Args:
        k: tokens that stay possible; as many as the vocabulary holds, or more, keeps all.

    Raises:
        TypeError: the logits are not of floating point, or `k` is not an integer.
        ValueError: `k` is below 1, or a row allows no token (all -inf) or holds NaN or +inf.
    """
    _distributions(logits)
    checks.positive(k=k)
    order = logits.argsort(dim=-1, descending=True, stable=True)
    return logits.masked_fill(_back(torch.arange(logits.size(-1), device=logits.device) >= k, order), -math.inf)


def top_p_logits(logits: Float[Tensor, "*batch vocabulary"], p: float) -> Float[Tensor, "*batch vocabulary"]:
    """Return the logits with all at -inf that are not of the nucleus: the fewest tokens that together reach `p`.

    Among equals those with lower ids come first. Holtzman et al. (2020), equations 2 and 3.

    Args:
        p: probability, above 0; 1 keeps all. The sums are taken in float64.

    Raises:
        TypeError: the logits are not of floating point, or `p` is not a number.
        ValueError: `p` is not above 0 and at most 1, or a row allows no token (all -inf) or holds NaN or +inf.
    """
    _distributions(logits)
    checks.share(p=p)
    if p == 1:
        return logits
    ordered, order = logits.double().sort(dim=-1, descending=True, stable=True)
    probability = ordered.softmax(dim=-1)
    before = probability.cumsum(dim=-1) - probability  # what the likelier ones reach without this one
    return logits.masked_fill(_back(before >= p, order), -math.inf)


@torch.no_grad()
def sample(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    generator: torch.Generator,
    *,
    temperature: float = 1.0,
    k: int | None = None,
    p: float = 1.0,
    max_length: int | None = None,
) -> list[list[int]]:
    """Return for each source a target whose tokens are drawn one by one, without START and END.

    First the temperature is applied, then `k`, then `p` to what is left. The same generator state gives the same
    targets; for several of one source, repeat its row.

    Args:
        generator: where chance comes from, on the model's device; torch's global one is not touched.
        temperature: as for `temperature_logits`; 0 decodes greedily.
        k: as for `top_k_logits`; None keeps all.
        p: as for `top_p_logits`.
        max_length: as for `decoding.greedy`.

    Raises:
        TypeError: an argument is of another kind, such as a seed for the generator.
        ValueError: a number is out of range, or an argument as for `decoding.greedy`.
    """
    checks.instance(torch.Generator, generator=generator)
    longest = decoding.longest_target(model, source, max_length)
    memory, caches = model.encode(source), model.decoder.new_caches()
    tokens = source.new_full((len(source), 1), START)
    ended = torch.zeros(len(source), 1, dtype=torch.bool, device=source.device)
    for _ in range(longest):
        logits = decoding.log_probabilities(model, tokens[:, -1:], memory, source, caches)
        drawn = draw(logits, generator, temperature=temperature, k=k, p=p).masked_fill(ended, PADDING)
        tokens, ended = torch.cat([tokens, drawn], dim=1), ended | (drawn == END)
        if ended.all():
            break
    return [decoding.words_of(row) for row in tokens.tolist()]


def draw(
    logits: Float[Tensor, "batch vocabulary"],
    generator: torch.Generator,
    *,
    temperature: float = 1.0,
    k: int | None = None,
    p: float = 1.0,
) -> Int[Tensor, "batch 1"]:
    """Return one token for each row, drawn by chance; the arguments are those of `sample`.

    Raises:
        TypeError: an argument is of another kind, such as a seed for the generator.
        ValueError: a number is out of range, or a row of logits allows no token (all -inf) or holds NaN or +inf.
    """
    checks.instance(torch.Generator, generator=generator)
    logits = temperature_logits(logits, temperature)
    logits = top_p_logits(logits if k is None else top_k_logits(logits, k), p)
    return torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)


def _distributions(logits: Tensor) -> None:
    checks.tensors(1, logits=logits)
    if logits.size(-1) == 0:
        raise ValueError(f"logits must be of at least one token, got shape {checks.shape(logits)}")
    largest = logits.amax(dim=-1)
    if not largest.isfinite().all():
        got = largest[~largest.isfinite()][0].item()
        raise ValueError(f"each row of logits must have a finite largest value, got {got}")


def _back(sorted_flags: Bool[Tensor, "*#batch vocabulary"], order: Int[Tensor, "*batch vocabulary"]) -> Tensor:
    """Return flags in the vocabulary's order from flags in the order of `order`."""
    flags = sorted_flags.expand(order.shape)
    return torch.empty_like(flags).scatter(-1, order, flags)
