"""Decoding: from a trained model's probabilities to a sentence, token by token, with a cache (chapter 08)."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lib import checks
from transformer_lib.data import END, PADDING, START
from transformer_lib.model import Transformer
from transformer_lib.multi_head import KeyValueCache

MARGIN = 50  # tokens that an output may be longer than the input: Vaswani et al. (2017), section 6.1


def length_penalty(length: int, alpha: float) -> float:
    """Return what a sentence's log-probability is divided by before sentences of different length are compared.

    ((5 + length) / 6)^alpha; Wu et al. (2016), equation 14.

    Args:
        length: number of tokens, END included.
        alpha: 0 compares log-probabilities as they are, which favours short sentences; 1 compares means, nearly.

    Raises:
        TypeError: `length` is not an integer, or `alpha` not a number.
        ValueError: `length` is below 1, or `alpha` is negative, not finite, or too large for a float.
    """
    checks.positive(length=length)
    checks.exponent((5 + length) / 6, alpha=alpha)
    return ((5 + length) / 6) ** alpha


def log_probabilities(
    model: Transformer,
    tokens: Int[Tensor, "batch new"],
    memory: Float[Tensor, "batch source d_model"],
    source: Int[Tensor, "batch source"],
    caches: list[tuple[KeyValueCache, KeyValueCache]] | None = None,
) -> Float[Tensor, "batch vocabulary"]:
    """Return the log-probability in nats of each token that may come after the last of `tokens`.

    PADDING and START may not: they get -inf. UNKNOWN may: in training it stands for a word outside the vocabulary.

    Args:
        caches: as in `Transformer.decode`; then `tokens` holds only those that are new since the last call.

    Raises:
        TypeError: `model` is not a `Transformer`. The other errors are those of `Transformer.decode`.
    """
    checks.instance(Transformer, model=model)
    vectors = model.decode(tokens, memory, source, caches)
    found = model.embedding.logits(vectors[:, -1:]).squeeze(1).float().log_softmax(dim=-1)
    found[:, [model.config.padding, START]] = -math.inf  # no label in training is one of them: noise
    return found


@torch.no_grad()
def greedy(model: Transformer, source: Int[Tensor, "batch source"], max_length: int | None = None) -> list[list[int]]:
    """Return for each source the target that takes the likeliest token at every step, without START and END.

    Args:
        max_length: most tokens of an output, END included; None allows the source's length plus 50. The model's own
            `max_length` limits it, too. A target that has not ended by then is returned as far as it got.

    Raises:
        TypeError: `model` is not a `Transformer`, `source` not of integers, or `max_length` not an integer.
        ValueError: the model is in training mode, `source` doesn't fit it, or `max_length` is below 1.
    """
    longest = longest_target(model, source, max_length)
    memory, caches = model.encode(source), model.decoder.new_caches()
    tokens = source.new_full((len(source), 1), START)
    for _ in range(longest):
        vectors = model.decode(tokens[:, -1:], memory, source, caches)
        logits = model.embedding.logits(vectors).squeeze(1).float()
        logits[:, [model.config.padding, START]] = -math.inf  # no label in training is one of them: noise
        tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
        if (tokens == END).any(dim=1).all():
            break
    return [words_of(row) for row in tokens.tolist()]


@dataclass
class Beams:
    """The best unfinished (`live`) and finished (`done`) targets of each source, best first."""

    live: Int[Tensor, "batch beam position"]
    live_scores: Float[Tensor, "batch beam"]  # log-probability in nats
    done: Int[Tensor, "batch beam position"]
    done_scores: Float[Tensor, "batch beam"]  # the same over the length penalty; -inf where there is none yet

    @classmethod
    def start(cls, source: Int[Tensor, "batch source"], beam: int) -> "Beams":
        """Return one live beam per source, holding START; the others are empty."""
        live = source.new_full((len(source), beam, 1), START)
        nothing = torch.full(live.shape[:2], -math.inf, device=source.device)
        first = nothing.clone()
        first[:, 0] = 0.0
        return cls(live, first, live, nothing)

    def advance(self, log_probability: Float[Tensor, "batch beam vocabulary"], alpha: float) -> Int[Tensor, "..."]:
        """Keep the best extensions of the live targets by one token; return which live beam each new one continues.

        An extension by END is finished only if it is among the best: with one beam that is greedy decoding.
        """
        vocabulary, beam = log_probability.size(-1), self.live.size(1)
        totals = (self.live_scores.unsqueeze(-1) + log_probability).flatten(start_dim=1)
        scores, places = totals.topk(beam, dim=1)
        origins, tokens = places // vocabulary, (places % vocabulary).unsqueeze(-1)
        grown, ended = torch.cat([_pick(self.live, origins), tokens], dim=-1), tokens.squeeze(-1) == END
        self._finish(grown, scores.masked_fill(~ended, -math.inf), alpha)
        self.live_scores, kept = scores.masked_fill(ended, -math.inf).sort(dim=1, descending=True)
        self.live = _pick(grown, kept)
        return origins.gather(1, kept)

    def _finish(self, grown: Tensor, scores: Tensor, alpha: float) -> None:
        penalty = length_penalty(grown.size(-1) - 1, alpha)
        longer = torch.nn.functional.pad(self.done, (0, 1), value=PADDING)
        self.done_scores, kept = torch.cat([self.done_scores, scores / penalty], dim=1).topk(self.done.size(1), dim=1)
        self.done = _pick(torch.cat([longer, grown], dim=1), kept)

    def settled(self, longest: int, alpha: float) -> Bool[Tensor, ""]:
        """Return whether no live target can still beat the best finished one of its source."""
        hope = self.live_scores[:, 0] / length_penalty(longest, alpha)  # a log-probability only falls
        return (self.done_scores[:, 0] >= hope).all()

    def best(self) -> list[list[int]]:
        """Return each source's best finished target, or the best live one where none has finished."""
        finished = self.done_scores[:, 0] > -math.inf
        rows = torch.where(finished.unsqueeze(1), self.done[:, 0], self.live[:, 0])
        return [words_of(row) for row in rows.tolist()]


@torch.no_grad()
def beam_search(
    model: Transformer,
    source: Int[Tensor, "batch source"],
    beam: int = 5,
    alpha: float = 0.6,
    max_length: int | None = None,
) -> list[list[int]]:
    """Return for each source the best target found while keeping `beam` candidates at every step.

    Best means the highest log-probability over `length_penalty`. The result holds no START and END. The search is not
    exhaustive: where a wider beam drops the start of what a narrower one finds, it may return a worse target.

    Args:
        beam: candidates per source; 1 is greedy decoding.
        alpha: strength of the length penalty.
        max_length: as for `greedy`; a target that has not ended is returned only if none has.

    Raises:
        TypeError: `beam` is not an integer, `alpha` not a number, or an argument as for `greedy`.
        ValueError: `beam` is below 1, `alpha` is negative or not finite, or an argument as for `greedy`.
    """
    checks.positive(beam=beam)
    longest = longest_target(model, source, max_length)
    length_penalty(longest, alpha)  # a wrong alpha is named before the encoder runs
    caches, beams = model.decoder.new_caches(), Beams.start(source, beam)
    memory, copies = model.encode(source).repeat_interleave(beam, dim=0), source.repeat_interleave(beam, dim=0)
    for _ in range(longest):
        found = log_probabilities(model, beams.live[:, :, -1].reshape(-1, 1), memory, copies, caches)
        origins = beams.advance(found.unflatten(0, (-1, beam)), alpha)
        if beams.settled(longest, alpha):
            break
        rows = (origins + beam * torch.arange(len(source), device=source.device).unsqueeze(1)).flatten()
        for pair in caches:
            pair[0].select(rows)  # the memory is the same for all beams of a source
    return beams.best()


def _pick(targets: Int[Tensor, "batch from position"], which: Int[Tensor, "batch to"]) -> Int[Tensor, "..."]:
    return targets.gather(1, which.unsqueeze(-1).expand(-1, -1, targets.size(-1)))


def longest_target(model: Transformer, source: Int[Tensor, "batch source"], max_length: int | None) -> int:
    """Return how many tokens an output may have; the errors are those of `greedy`."""
    checks.instance(Transformer, model=model)
    if model.config.vocabulary <= END:
        raise ValueError(f"the vocabulary must hold END, whose id is {END}, got {model.config.vocabulary} tokens")
    checks.tokens(model.config.vocabulary, source=source)
    checks.evaluating(model)
    if max_length is None:
        max_length = source.size(1) + MARGIN
    checks.positive(max_length=max_length)
    return min(max_length, model.config.max_length)


def words_of(row: list[int]) -> list[int]:
    """Return a target's tokens after START and before END.

    Raises:
        TypeError: the row is not a list.
    """
    checks.instance(list, row=row)
    return row[1 : row.index(END)] if END in row else row[1:]
