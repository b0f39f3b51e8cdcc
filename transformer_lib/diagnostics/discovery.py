"""Finding out, by running it, what a model reads: its sequences, the batch's axis, the padding."""

from typing import Any

from torch import Tensor, nn

from transformer_lib.data import PADDING, Batch
from transformer_lib.diagnostics import inputs
from transformer_lib.diagnostics.graph import Numbers
from transformer_lib.diagnostics.lookups import lookups, sequences
from transformer_lib.diagnostics.subject import Run, Sequence, Subject

PADDING_NAMES = ("padding", "pad_token_id", "pad_id", "pad_idx", "padding_idx", "pad", "pad_token")


def settle_axis(subject: Subject) -> None:
    """Settle which axis of the model's tensors is the batch, and turn the sequences to [batch position]."""
    axis = batch_axis(subject)
    for sequence in subject.sequences:
        sequence.batch_axis = axis
        if axis:
            sequence.shape = sequence.shape[1], sequence.shape[0]
            sequence.tokens = None if sequence.tokens is None else sequence.tokens.T


def batch_axis(subject: Subject) -> int:
    """Return 0 or 1: what the caller says, what two sequences share, what padding shows, or where the flow goes."""
    if (said := subject.config.get("batch_first")) is not None:
        return 0 if said else 1
    if isinstance(subject.batch, Batch):
        return 0
    shapes = [sequence.shape for sequence in subject.sequences]
    shared = [axis for axis in (0, 1) if len({shape[axis] for shape in shapes}) == 1]
    if len(shapes) > 1 and len(shared) == 1:
        return shared[0]
    for key, mask in subject.given.tensors().items():
        if "padding" in str(key) and mask.dim() == 2 and shapes[-1][0] != shapes[-1][1]:
            return 1 if tuple(mask.shape) == shapes[-1][::-1] else 0
    if subject.target.tokens is None:
        return 0 if getattr(subject.model, "batch_first", True) else 1
    return int(_flows_down(subject) and (_positions_vary_down(subject) or _one_way(subject)))


def _flows_down(subject: Subject) -> bool:
    """Return whether a change at [0, 0] reaches other rows of its column, and no other column."""
    spread = _spread(subject)
    if spread is None:
        return False
    return bool(spread[1:, 0].any()) and not bool(spread[:, 1:].any())


def _one_way(subject: Subject) -> bool:
    """Return whether a change in the last row leaves all rows before it the same: causal along axis 0."""
    spread = _spread(subject, -1)
    return spread is not None and len(spread) > 2 and not bool(spread[:-1].any())


def _spread(subject: Subject, row: int = 0) -> Tensor | None:
    number = subject.target.number

    def change(vectors: Tensor) -> Tensor:
        vectors = vectors.clone()
        vectors[row, 0] = -vectors[row, 0] + vectors[row - 1, -1]
        return vectors

    before, after = subject.run().output, subject.run({number: change}).output
    if before.shape[:2] != subject.target.shape:
        return None
    return (before - after).abs().amax(dim=-1) > 1e-6


def _positions_vary_down(subject: Subject) -> bool:
    """Return whether equal tokens get vectors that differ along axis 0 and not along axis 1."""
    table = embedded(subject, subject.run({subject.target.number: alike}), subject.target.number)
    return table is not None and bool(table.diff(dim=0).abs().max() > 1e-6) and not table.diff(dim=1).abs().max() > 1e-6


def alike(vectors: Numbers) -> Numbers:
    """Give every token of every sentence the same vector."""
    return vectors[:1, :1].expand_as(vectors).clone()


def embedded(subject: Subject, run: Run, number: int) -> Numbers | None:
    """Return what goes into the layers: token vectors, with positions if they are added. [batch position d_model]"""
    starts = lookups(run) or [n for n in run.trace.nodes if n.name == "input" and n.stage == 1]
    if number >= len(starts):
        return None
    start, sequence = starts[number], next(s for s in subject.sequences if s.number == number)
    last = [n for n in run.trace.nodes if n.stage == 1 and n.tensor.dim() == 3 and n.follows(start)]
    last = [n for n in last if any(user.stage == 2 for user in n.users)]
    if not last:
        return None
    value, batch = last[-1].value, sequence.shape[0]
    axis = sequence.batch_axis
    if value.size(axis) != batch and value.size(1 - axis) == batch:
        axis = 1 - axis  # the model turned it before the layers
    value = value.transpose(0, axis)
    longer = value.size(1) - sequence.shape[1]  # a word or so put before the others
    return value[:, longer:] if value.size(0) == batch and 0 <= longer < 4 else None


def padding_id(subject: Subject) -> int | None:
    """Return the id that fills up sentences: the caller's, the model's configuration's, or that of an embedding."""
    own = getattr(subject.model, "config", None)
    for holder in (subject.config, own, subject.model):
        for name in PADDING_NAMES:
            value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                return value
    for module in subject.model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return module.padding_idx
    return PADDING if isinstance(subject.batch, Batch) else None


def mask_key(subject: Subject, sequence: Sequence) -> int | str | None:
    """Return the argument that says where a sequence is padded, if the model takes one."""
    others = [s for s in subject.sequences if s is not sequence]
    hints = (
        ("tgt", "decoder", "target", "trg") if sequence is subject.target and others else ("src", "source", "enc", "")
    )
    masks = {k: v for k, v in subject.given.tensors().items() if v.dim() == 2 and tuple(v.shape) == sequence.shape}
    masks = {k: v for k, v in masks.items() if "mask" in str(k)}
    for hint in hints:
        for key in masks:
            text = str(key).lower()
            if hint in text and (hint or not any(word in text for word in ("tgt", "decoder", "target", "trg"))):
                return key
    return None


def padding(subject: Subject, sequence: Sequence) -> Numbers | None:
    """Return True at a sequence's padding, or None where nothing says what is padding."""
    key = mask_key(subject, sequence)
    if key is not None:
        mask = subject.given.values[key]
        if mask.is_floating_point() and bool((mask <= 0).all()):
            return mask < -1
        return mask.bool() if "padding" in str(key) else ~mask.bool()
    if sequence.tokens is None:
        return None
    number = padding_id(subject)
    number = _trailing(sequence.tokens) if number is None else number
    if number is None:
        return None
    padded = sequence.tokens == number
    if padded.size(1) > 1 and bool(padded[:, 0].all()) and not bool(padded[:, 1].any()):
        padded[:, 0] = False  # it starts sentences as well, as in T5 and Marian
    return padded


def _trailing(tokens: Tensor) -> int | None:
    """Return the id that ends some rows, two or more times, and occurs nowhere else; 0 may end them once."""
    number = int(tokens[:, -1].mode().values) if not (tokens[:, -1] == 0).any() else 0
    is_it = tokens == number
    ends = is_it.flip(1).long().cumprod(dim=1).sum(dim=1)
    if int(is_it.sum()) != int(ends.sum()) or bool((ends > 0).all()):
        return None
    return number if number == 0 or int(ends.max()) > 1 else None


def examine(model: nn.Module, batch: Any, config: dict[str, Any], adapter: inputs.Adapter | None) -> Subject:
    """Return the model with its batch, its sequences found; it is run a few times for that."""
    given = inputs.Inputs({}) if adapter else inputs.arrange(model, batch)
    if isinstance(batch, Batch):
        given.labels = batch.labels
    subject = Subject(model, batch, given, adapter, config)
    try:
        run = subject.run()
    except Exception:  # it may make the decoder's input from the labels
        if given.labels_key is None:
            raise
        subject.with_labels = True
        run = subject.run()
    if run.output.dim() > 1 and given.labels_key is not None and run.output.size(-2) == 1:
        subject.with_labels = True
        run = subject.run()
    subject.sequences = sequences(run)
    if subject.sequences:
        settle_axis(subject)
        for sequence in subject.sequences:
            sequence.padding = padding(subject, sequence)
    return subject
