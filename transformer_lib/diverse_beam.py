"""Diverse beam search: groups of beams, each kept from saying what the groups before it say (chapter 08)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_lib import checks, decoding
from transformer_lib.decoding import Beams
from transformer_lib.model import Transformer


@torch.no_grad()
def diverse_beam_search(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    beam: int = 6,
    groups: int = 3,
    strength: float = 0.5,
    alpha: float = 0.6,
    max_length: int | None = None,
) -> list[list[list[int]]]:
    """Return for each source one target from each group of beams, the first group's first, without START and END.

    Every step, the groups choose in turn. Before a group does, each token loses `strength` times the number of beams
    of the groups before it that have just chosen it (Hamming diversity); the loss stays in the group's scores, as in
    the authors' code. So the first group is an ordinary beam search, `decoding.beam_search` with beam / groups beams.
    Vijayakumar et al. (2018), section 4 and algorithm 1.

    Args:
        beam: candidates per source, in all groups together.
        groups: each has beam / groups of them; 1 makes it `decoding.beam_search`.
        strength: in nats; 0 makes all groups alike.
        alpha: strength of the length penalty.
        max_length: as for `decoding.greedy`.

    Raises:
        TypeError: `beam` or `groups` is not an integer, `strength` or `alpha` not a number, or as for `greedy`.
        ValueError: `groups` does not divide `beam`, a number is out of range, or an argument as for `greedy`.
    """
    width = _width(beam, groups)
    checks.at_least_zero(strength=strength)
    longest = decoding.longest_target(model, source, max_length)
    decoding.length_penalty(longest, alpha)  # a wrong alpha is named before the encoder runs
    caches, parts = model.decoder.new_caches(), [Beams.start(source, width) for _ in range(groups)]
    memory, copies = model.encode(source).repeat_interleave(beam, dim=0), source.repeat_interleave(beam, dim=0)
    first = width * torch.arange(len(source) * groups, device=source.device).view(-1, groups, 1)  # row of each group
    for _ in range(longest):
        last = torch.stack([part.live[:, :, -1] for part in parts], dim=1)
        found = decoding.log_probabilities(model, last.view(-1, 1), memory, copies, caches)
        origins = advance_in_turn(parts, found.view(len(source), groups, width, -1), strength, alpha)
        if all(part.settled(longest, alpha) for part in parts):
            break
        for pair in caches:
            pair[0].select((first + origins).flatten())  # the memory is the same for all beams of a source
    return [list(targets) for targets in zip(*(part.best() for part in parts), strict=True)]


def advance_in_turn(
    parts: list[Beams],
    log_probability: Float[Tensor, "batch groups beam vocabulary"],
    strength: float,
    alpha: float,
) -> Int[Tensor, "batch groups beam"]:
    """Take one step with each group, given what those before it chose; return which live beam each new one continues.

    Raises:
        TypeError: the log-probabilities are not of floating point, `parts` not `Beams`, or a number is not one.
        ValueError: the log-probabilities are not one row for each live beam of each group, or a number is out of range.
    """
    checks.at_least_zero(strength=strength)
    _fits(parts, log_probability)
    chosen = torch.zeros_like(log_probability[:, 0, 0])  # [batch vocabulary]: how often in this step
    origins = []
    for part, own in zip(parts, log_probability.unbind(dim=1), strict=True):
        before = part.live_scores
        origins.append(part.advance(own - strength * chosen.unsqueeze(1), alpha))
        alive = before.gather(1, origins[-1]) > -math.inf  # the places of beams that had ended choose nothing
        chosen = chosen.scatter_add(1, part.live[:, :, -1], alive.to(chosen.dtype))
    return torch.stack(origins, dim=1)


def _width(beam: int, groups: int) -> int:
    checks.positive(beam=beam, groups=groups)
    if beam % groups:
        raise ValueError(f"groups must divide beam, got beam = {beam} and groups = {groups}")
    return beam // groups


def _fits(parts: list[Beams], log_probability: Tensor) -> None:
    checks.sequence_of(Beams, parts=parts)
    checks.tensors(0, log_probability=log_probability)
    if not parts:
        raise ValueError("parts must hold the beams of at least one group, got none")
    batch, beam, _ = parts[0].live.shape
    wanted = [batch, len(parts), beam]
    if log_probability.dim() != 4 or list(log_probability.shape[:3]) != wanted or not log_probability.size(-1):
        raise ValueError(
            f"log_probability must have shape [batch groups beam vocabulary] with {len(parts)} groups, the first three "
            f"{wanted}, got {checks.shape(log_probability)}"
        )
    for part in parts:
        if part.live.shape[:2] != (batch, beam):
            got = checks.shape(part.live)[:2]
            raise ValueError(f"all parts must be of one [batch beam] = {[batch, beam]}, got {got}")
