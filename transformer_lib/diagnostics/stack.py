"""Checks of the stack: residual connections, norms, the embedding's scale, its tie to the output."""

import math
from collections.abc import Iterator
from typing import Any

from transformer_lib.config import TransformerConfig
from transformer_lib.diagnostics import lookups, structure
from transformer_lib.diagnostics.attentions import Attention
from transformer_lib.diagnostics.findings import Finding
from transformer_lib.diagnostics.graph import STATISTICS, Node, Trace
from transformer_lib.diagnostics.products import scalar
from transformer_lib.diagnostics.structure import LINEAR, Sublayer, strip
from transformer_lib.diagnostics.subject import Run, Subject

Found = Iterator[Finding | str]


def residuals_and_norms(base: Run, attentions: list[Attention]) -> Found:
    """Look for sub-layers without a residual connection, and for norms that are missing or in an unusual place."""
    subs = structure.sublayers(base.trace, attentions)
    if not subs:
        yield "residual connections and norms: no attention was seen"
        return
    bare = [sub for sub in subs if sub.added is None]
    if bare:
        text = (
            f"{len(bare)} of {len(subs)} sub-layers (first: the {bare[0].kind} in {bare[0].module or 'the model'}) are "
        )
        text += "not added to what they were computed from"
        yield Finding("residual-missing", "warning", text, {"missing": len(bare), "of": len(subs)})
    yield from _norms(base.trace, subs, attentions)


def _norms(trace: Trace, subs: list[Sublayer], attentions: list[Attention]) -> Found:
    style = [_style(sub) for sub in subs]
    wrong = [sub for sub, what in zip(subs, style, strict=True) if what == "misplaced"]
    missing = _without_norm(trace, subs, style)
    if wrong:
        text = f"{_first_of(wrong, subs)} read what no norm has seen, while their output or the skip is normed "
        text += "(res-post-norm, as in Swin V2 and OLMo 2, does so on purpose)"
        yield Finding("norm-misplaced", "warning", text, {"sublayers": len(wrong)})
    elif missing:
        text = f"{_first_of(missing, subs)} read what no norm has seen"
        yield Finding("norm-missing", "warning", text, {"missing": len(missing), "of": len(subs)})
    elif any(not strip(a.key)[1] and strip(a.key)[0].name == "add" for a in attentions if a.crosses):
        text = "the memory that the decoder reads has not been normed: the encoder's last norm is missing"
        yield Finding("norm-missing", "warning", text)
    elif not _last_normed(trace):
        text = "the stack ends without a norm: what the output map reads has not been normed"
        yield Finding("norm-missing", "warning", text)


def _first_of(some: list[Sublayer], subs: list[Sublayer]) -> str:
    name = some[0].module or "the model"
    return f"{len(some)} of {len(subs)} sub-layers (first: the {some[0].kind} in {name})"


def _without_norm(trace: Trace, subs: list[Sublayer], style: list[str]) -> list[Sublayer]:
    """Return what reads a tensor that no norm has seen; a stack of post-norm layers begins so, rightly."""
    pre = style.count("pre") > len(style) / 2
    found = []
    for sub, what in zip(subs, style, strict=True):
        begins = strip(sub.enters)[0].stage < 2 or not any(sub.enters.follows(other.inside) for other in subs)
        if what == "none" and (pre or not begins):
            found.append(sub)
    alone = len(subs) <= 2 and not {"pre", "post"} & set(style)
    return subs if alone and not found and not _last_normed(trace) else found


def _style(sub: Sublayer) -> str:
    normed = strip(sub.enters)[1]
    if sub.added is None:
        return "post" if normed else "none"
    _, skip, branch = sub.added
    if normed:
        return "post" if strip(skip)[1] else "pre"
    return "misplaced" if strip(branch)[1] or strip(skip)[1] else "none"


def _last_normed(trace: Trace) -> bool:
    """Return whether a norm stands between the last residual addition and what is computed from it."""
    sums = structure.additions(trace)
    if not sums:
        return True
    last = sums[-1][0]
    todo, seen = [last], set()
    while todo:
        node = todo.pop()
        if node.index in seen:
            continue
        seen.add(node.index)
        if structure.norm_input(node) is not None or node.name in STATISTICS:
            return True
        todo += [user for user in node.users if user.name not in LINEAR]
    return False


def embeddings(subject: Subject, base: Run) -> Found:
    """Compare the embedding's scale and its tie to the output with the configuration, if there is one."""
    numbers = [sequence.number for sequence in subject.sequences]
    starts = [node for number, node in enumerate(lookups.lookups(base)) if number in numbers]
    if not starts:
        yield "the embeddings' scale and tie: no lookup of tokens was seen"
        return
    ours = isinstance(getattr(subject.model, "config", None), TransformerConfig)
    yield from _scaled(starts, subject.config.get("scale_embeddings", True if ours else None))
    output = next((n for n in reversed(base.trace.nodes) if n.name in LINEAR and n.stage == 2), None)
    table = max((n.tensor for n in starts[-1].inputs if n.tensor.is_floating_point()), key=lambda t: t.dim())
    of_words = output is not None and output.tensor.size(-1) == len(table)  # a map to classes can't be tied
    tied = _storage(starts[-1]) & _storage(output) if of_words else None
    wanted = _wanted_tie(subject, ours)
    if wanted is None or tied is None:
        yield "whether embedding and output should be tied: give config={'tied': True} or False"
    elif bool(tied) != wanted:
        text = "the output map and the embedding are " + ("one parameter" if tied else "two parameters")
        yield Finding(
            "embedding-tied", "warning", text + f", the configuration wants them {'tied' if wanted else 'apart'}"
        )
    elif wanted and len({tuple(sorted(_storage(lookup))) for lookup in starts}) > 1 and ours:
        yield Finding(
            "embedding-tied", "warning", "source and target are embedded by two tables, the configuration has one"
        )


def _wanted_tie(subject: Subject, ours: bool) -> bool | None:
    own: Any = getattr(subject.model, "config", None)
    for name in ("tied", "tie_weights", "tie_word_embeddings", "weight_tying", "tie_embeddings"):
        for holder in (subject.config, own):
            value = holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
            if isinstance(value, bool):
                return value
    return True if ours else None


def _storage(node: Node) -> set[int]:
    """Return where the parameters that a node reads are stored."""
    found: set[int] = set()
    for given in node.inputs:
        while not given.active and given.inputs and given.tensor.is_floating_point():
            given = given.inputs[0]
        if given.name == "leaf" and given.tensor.is_floating_point() and given.tensor.dim() > 1:
            found.add(given.tensor.untyped_storage().data_ptr())
    return found


def _scaled(starts: list[Node], wanted: bool | None) -> Found:
    for lookup in starts:
        factor, d_model = _factor(lookup), lookup.tensor.size(-1)
        root = math.sqrt(d_model)
        numbers = {"factor": factor, "sqrt_d_model": root}
        text = f"token vectors are multiplied by {factor:.4g}; sqrt(d_model) is {root:.4g}"
        near = abs(factor / root - 1) < 0.02
        if wanted is not None and near != wanted:
            yield Finding(
                "embedding-scale", "warning", f"{text}, and the configuration wants {'it' if wanted else '1'}", numbers
            )
            return
        if wanted is None and not near and d_model > 4 and _odd(factor, d_model):
            yield Finding("embedding-scale", "warning", text, numbers)
            return


def _odd(factor: float, d_model: int) -> bool:
    """Return whether a factor is neither near 1 nor near sqrt(d_model), nor between them."""
    return not 0.5 < factor < 2 * math.sqrt(d_model)


def _factor(lookup: Node) -> float:
    """Return what the token vectors are multiplied by before anything is added to them."""
    factor, node = 1.0, lookup
    for _ in range(8):
        following = [
            user for user in node.users if user.stage == 1 and user.name in ("mul", "div", "dropout", "transpose")
        ]
        following = [user for user in following if user.tensor.numel() == node.tensor.numel()]
        if not following:
            break
        node = following[0]
        if node.name in ("mul", "div"):
            number = scalar(node)
            factor *= 1.0 if number is None else (number if node.name == "mul" else 1 / number)
    return factor
