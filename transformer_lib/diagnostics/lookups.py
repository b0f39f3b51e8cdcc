"""Which lookups embed the sequences of words: each with those that are added to it, positions with ids aside."""

from torch import Tensor

from transformer_lib.diagnostics.graph import ATTENTION, Node, Numbers, is_lookup
from transformer_lib.diagnostics.subject import Run, Sequence, is_sequence


def lookups(run: Run) -> list[Node]:
    """Return the nodes in which sequences of tokens were embedded, in order."""
    return [n for n in run.trace.nodes if is_lookup(n) and n.stage == 1 and is_sequence(n)]


def ids_of(lookup: Node) -> Numbers:
    """Return the ids that were looked up."""
    return next(n.tensor for n in lookup.inputs if n.active and not n.tensor.is_floating_point())


def sequences(run: Run) -> list[Sequence]:
    """Return the sequences of tokens that a run embedded, or else those of vectors that the model was given."""
    found = [_sequence(members) for members in _together(run)]
    if not found:
        vectors = [n for n in run.trace.nodes if n.name == "input" and n.tensor.is_floating_point()]
        vectors = [node.tensor for node in vectors if node.tensor.dim() == 3]
        found = [Sequence(number, tuple(v.shape[:2]), None) for number, v in enumerate(vectors)]
    return found[:2]


def _sequence(members: dict[int, Tensor]) -> Sequence:
    """Return the sequence of lookups that are added up: its words are the first one whose ids aren't positions."""
    words = [number for number, ids in members.items() if not counts_up(ids)] or list(members)[:1]
    ids = members[words[0]]
    counted = len(words) < len(members)
    return Sequence(words[0], tuple(ids.shape), ids.detach().clone(), also=tuple(words[1:]), counted=counted)


def _together(run: Run) -> list[dict[int, Tensor]]:
    """Return the lookups' numbers and ids, those together whose vectors are added before any attention."""
    nodes = lookups(run)
    mixed = sum(1 << n.index for n in run.trace.nodes if n.name in (ATTENTION, "softmax"))
    sums = [n for n in run.trace.nodes if n.name == "add" and n.stage and not n.ancestors & mixed]
    groups: list[dict[int, Tensor]] = []
    for number, node in enumerate(nodes):
        mates = [g for g in groups if any(s.follows(node) and s.follows(nodes[min(g)]) for s in sums)]
        group = mates[0] if mates else {}
        group[number] = ids_of(node)
        groups += [] if mates else [group]
    return groups


def counts_up(ids: Numbers) -> bool:
    """Return whether ids are positions: steps of 1, or of 0 and one jump at padding, from one number in all rows."""
    for rows in (ids, ids.T):
        steps = rows.diff(dim=1)
        jumps = ((steps != 0) & (steps != 1)).sum(1)
        if rows.size(1) > 2 and bool((jumps <= 1).all()) and bool(((steps == 1).sum(1) > 0).any()):
            return len(rows.amin(1).unique()) == 1 or bool((jumps > 0).any())
    return False
