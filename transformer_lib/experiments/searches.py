"""Searches that also say what they found is worth: beam search for several length penalties at once, and exact search.

`decoding.beam_search` returns targets alone. Its search doesn't depend on the length penalty, which only ranks what is
finished, so one search serves several penalties (chapter 08).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_lib import checks, decoding
from transformer_lib.data import END, START
from transformer_lib.decoding import Beams
from transformer_lib.model import Transformer

MOST = 1000  # prefixes that the exact search keeps at once before it gives up
EXTRA = 15  # tokens that an output may be longer than its source, here


@dataclass(frozen=True)
class Found:
    """A target without START and END, and its log-probability in nats, END included."""

    tokens: list[int]
    score: float

    def compared(self, alpha: float) -> float:
        """Return what a search with this length penalty compares."""
        return self.score / decoding.length_penalty(len(self.tokens) + 1, alpha)


@torch.no_grad()
def search(
    model: Transformer, source: Int[Tensor, "batch source"], beam: int, alphas: Sequence[float]
) -> dict[float, list[Found]]:
    """Return what `decoding.beam_search` finds with each length penalty, and its score.

    Outputs may be `EXTRA` tokens longer than the longest source of the batch. A sentence leaves the batch as soon as
    all its results are settled.

    Args:
        alphas: strengths of the length penalty.
    """
    checks.positive(beam=beam)
    longest, waiting = _longest(model, source), torch.arange(len(source))
    parts = {alpha: Beams.start(source, beam) for alpha in alphas}
    results = {alpha: [Found([], -math.inf)] * len(source) for alpha in alphas}
    memory, caches = model.encode(source).repeat_interleave(beam, 0), model.decoder.new_caches()
    copies = source.repeat_interleave(beam, 0)
    for left in reversed(range(longest)):
        last = parts[alphas[0]].live[:, :, -1]
        found = decoding.log_probabilities(model, last.reshape(-1, 1), memory, copies, caches)
        for alpha, part in parts.items():
            origins = part.advance(found.unflatten(0, (-1, beam)), alpha)
        going = _going(parts, longest) & (left > 0)
        for row in (~going).nonzero().flatten().tolist():
            for alpha, part in parts.items():
                results[alpha][waiting[row]] = _best(part, row, alpha)
        if not going.any():
            break
        rows = (origins + beam * torch.arange(len(waiting)).unsqueeze(1))[going].flatten()
        waiting, memory, copies = waiting[going], memory[rows], copies[rows]
        parts = {alpha: Beams(*(field[going] for field in vars(part).values())) for alpha, part in parts.items()}
        _select(caches, rows)
    return results


def _longest(model: Transformer, source: Int[Tensor, "batch source"]) -> int:
    return decoding.longest_target(model, source, source.size(1) + EXTRA)


def _going(parts: dict[float, Beams], longest: int) -> Bool[Tensor, " batch"]:
    """Return for each sentence whether a live target may still win under any penalty; see `Beams.settled`."""
    open_ = [p.done_scores[:, 0] < p.live_scores[:, 0] / decoding.length_penalty(longest, a) for a, p in parts.items()]
    return torch.stack(open_).any(dim=0)


def _best(part: Beams, row: int, alpha: float) -> Found:
    if part.done_scores[row, 0] == -math.inf:
        return Found(decoding.words_of(part.live[row, 0].tolist()), part.live_scores[row, 0].item())
    tokens = decoding.words_of(part.done[row, 0].tolist())
    return Found(tokens, part.done_scores[row, 0].item() * decoding.length_penalty(len(tokens) + 1, alpha))


def _select(caches: list, rows: Int[Tensor, " row"]) -> None:
    for cache in (cache for pair in caches for cache in pair):
        cache.select(rows)


@torch.no_grad()
def exact(model: Transformer, source: Int[Tensor, "1 source"], known: Found, most: int = MOST) -> Found | None:
    """Return the likeliest target of all, or None where that would take more than `most` prefixes at once.

    A log-probability only falls as a target grows. So a prefix that is already less likely than a finished target can
    be dropped; all others are kept. Stahlberg & Byrne (2019) search so, depth first.

    Args:
        known: a finished target, such as a beam search's.
    """
    checks.positive(most=most)
    longest, best = _longest(model, source), known
    tokens, scores = torch.full((1, 1), START), torch.zeros(1)
    memory, caches = model.encode(source), model.decoder.new_caches()
    for _ in range(longest):
        found = decoding.log_probabilities(model, tokens[:, -1:], memory, source.expand(len(tokens), -1), caches)
        totals = scores.unsqueeze(1) + found
        score, row = totals[:, END].max(dim=0)
        if score > best.score:
            best = Found(tokens[row, 1:].tolist(), score.item())
        totals[:, END] = -math.inf
        rows, new = (totals > best.score).nonzero(as_tuple=True)
        if not len(rows) or len(rows) > most:
            return None if len(rows) else best
        tokens, scores, memory = torch.cat([tokens[rows], new.unsqueeze(1)], dim=1), totals[rows, new], memory[rows]
        _select(caches, rows)
    return best
