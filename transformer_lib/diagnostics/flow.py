"""What may reach what: later words, padding, other sentences. Tests of behaviour: change one thing, see what moves."""

from collections.abc import Iterator

import torch
from torch import Tensor

from transformer_lib.diagnostics import copies, inputs
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.graph import Numbers
from transformer_lib.diagnostics.intention import causal_intended, is_square
from transformer_lib.diagnostics.lookups import lookups
from transformer_lib.diagnostics.subject import Change, Run, Sequence, Subject

TOLERANCE = 1e-6  # of the outputs' size; what can't reach an output leaves it the same to the last bit
Found = Iterator[Finding | str]


def moved(before: Numbers, after: Numbers) -> Numbers:
    """Return by how much outputs moved, in sizes of the outputs: [batch position]."""
    before, after = before.detach().double(), after.detach().double()
    size = before.std().clamp(min=1e-12)
    return ((before - after).abs().amax(dim=-1) / size).nan_to_num(0.0)


def noise(where: Numbers) -> Change:
    """Return a change that puts other vectors of the same size at some places [batch position]."""

    def change(vectors: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        other = torch.randn(vectors.shape, generator=generator).to(vectors)
        other = other * vectors.detach().float().std().to(vectors)
        return torch.where(where.to(vectors.device).unsqueeze(-1), vectors + 2 * other, vectors)

    return change


def later_words(subject: Subject, base: Run, attentions: list[Attention]) -> Found:
    """Test whether an output changes with words that come after it."""
    batch, length = subject.target.shape
    if length < 3 or base.output.shape[:2] != (batch, length):
        yield f"later words: outputs {list(base.output.shape)} aren't one for each of {length} positions"
        return
    cut = length // 2
    where = (torch.arange(length) >= cut).expand(batch, length)
    after = subject.run({subject.target.number: noise(where)}).output
    forward = _at_words(subject, moved(base.output, after))[:, :cut]
    if float(forward.max()) <= TOLERANCE:
        return
    intended, why = causal_intended(subject, attentions)
    numbers = {"moved": float(forward.max()), "positions_moved": float((forward > TOLERANCE).float().mean())}
    text = (
        f"changing the words from position {cut} on moves outputs before it by up to {numbers['moved']:.2g} of their "
    )
    text += f"spread (at {numbers['positions_moved']:.0%} of the positions)"
    if intended is None:
        yield Finding(
            "mask-leak", "note", f"{text}: right for an encoder, a leak if it predicts the next word", numbers
        )
    elif intended:
        own = [a for a in attentions if sequence_of(subject, base, a) is subject.target]
        yield Finding("mask-leak", "error", f"{text}; {why}{_who_looks_ahead(own)}", numbers)


def _at_words(subject: Subject, distances: Tensor) -> Tensor:
    """Return how far outputs moved, 0 at padding: on the left it may see nothing but what is masked for all."""
    padded = subject.target.padding
    if padded is None or padded.shape != distances.shape:
        return distances
    return distances.masked_fill(padded.to(distances.device), 0.0)


def sequence_of(subject: Subject, base: Run, attention: Attention) -> Sequence | None:
    """Return the sequence whose words an attention's queries are; None if they come from none of them."""
    starts = lookups(base)
    for sequence in reversed(subject.sequences):  # queries of a decoder come from the source, too
        if sequence.number >= len(starts) or attention.query.follows(starts[sequence.number]):
            return sequence
    return None


def _who_looks_ahead(attentions: list[Attention]) -> str:
    names = [a.module for a in attentions if is_square(a) and bool((a.used.triu(1) > 1e-9).any())]
    if not names:
        return "; no attention weight looks ahead, so look at norms, sums or reshapes over positions"
    return f"; weights look ahead in {names[0] or 'the model'}" + (
        f" and {len(names) - 1} more" if len(names) > 1 else ""
    )


def other_sentences(subject: Subject, base: Run, attentions: list[Attention]) -> Found:
    """Test whether a sentence's outputs change with the other sentences of its batch."""
    batch = subject.target.shape[0]
    if batch < 2:
        yield "whether sentences of a batch mix: the batch has one sentence only"
        return
    mine = 0.0
    for kept in (0, batch - 1):
        changes = {}
        for sequence in subject.sequences:
            where = torch.ones(sequence.shape, dtype=torch.bool)
            where[kept] = False
            changes[sequence.number] = noise(where)
        after = subject.run(changes).output
        mine = max(mine, float(moved(base.output[kept], after[kept]).max()))
    lengths = {sequence.shape[1] + more for sequence in subject.sequences for more in range(4)}
    across = [a for a in attentions if a.scores.size(-1) == a.scores.size(-2) == batch and batch not in lengths]
    if across and mine <= TOLERANCE:
        text = f"{across[0].module or 'an attention'} has {batch} keys, as many as the batch has sentences: it attends "
        yield Finding("batch-mixing", "error", f"{text}across the batch, not along the words", {"keys": batch})
    if mine > TOLERANCE:
        text = f"changing all other sentences moves one's outputs by up to {mine:.2g} of their spread"
        text += "; if the batch is [position batch], give config={'batch_first': False}"
        yield Finding("batch-mixing", "error", text, {"moved": mine})


def sequence_name(subject: Subject, sequence: Sequence) -> str:
    """Return what to call a sequence."""
    if len(subject.sequences) == 1:
        return "input"
    return "target" if sequence is subject.target else "source"


def short(error: Exception) -> str:
    """Return the kind of an error and the start of its text."""
    return f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"


def anything(subject: Subject, base: Run) -> Found:
    """Test whether outputs change at all when every word is changed."""
    if not base.output.isfinite().all():
        return
    if (other := copies.stirred(subject)) is not None:  # zeros at the start let nothing through for one step only
        subject, base = other, other.run()
    for sequence in subject.sequences:
        everywhere = torch.ones(sequence.shape, dtype=torch.bool)
        if float(moved(base.output, subject.run({sequence.number: noise(everywhere)}).output).max()) <= TOLERANCE:
            text = f"changing every word of the {sequence_name(subject, sequence)} leaves all outputs as they are"
            yield Finding("input-ignored", "error", text)


def chance(subject: Subject, base: Run) -> Found:
    """Test whether the model computes the same twice in evaluation mode."""
    outputs = []
    for seed in (1, 2):
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            outputs.append(inputs.logits_of(subject.call()))
    first, second = (subject._aligned(output, subject.given) for output in outputs)
    apart = float(moved(first, second).max())
    if apart > 1e-5 or base.trace.dropped:
        where, p = base.trace.dropped[0] if base.trace.dropped else ("", 0.0)
        text = f"two runs in evaluation mode differ by up to {apart:.2g} of the outputs' spread"
        text += f"; dropout of {p} is on in {where or 'the model'}" if p else ""
        yield Finding("dropout-in-evaluation", "error", text, {"moved": apart})
