"""What does the shipped translator lose when a head is taken out? (chapter 03)"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from transformer_lib import ablation, observe
from transformer_lib.data import Batch, batches, encode_pairs
from transformer_lib.multi30k import load_multi30k
from transformer_lib.training import evaluate
from transformer_lib.translator import load_translator

KINDS = ("encoder self", "decoder self", "decoder cross")
SENTENCES = 250


def kind_of(name: str) -> str:
    """Return which of the three attentions of a Transformer a module is, by its name in the model."""
    return f"{name.split('.')[0]} {name.split('.')[-1].removesuffix('_attention')}"


def loss_without(model: nn.Module, pairs: Sequence[Batch], heads: Mapping[str, Sequence[int]]) -> float:
    """Return the loss in nats per target token, teacher forcing, while heads are taken out.

    Args:
        heads: the attention module's name, as in `observe.attention_modules`, to the numbers of its heads.
    """
    with ablation.edit_attention(model, {name: ablation.zero_heads(*numbers) for name, numbers in heads.items()}):
        return evaluate(model, pairs)


def extra_losses(model: nn.Module, pairs: Sequence[Batch]) -> dict[str, list[float]]:
    """Return by how many nats per token the loss rises without each head: module's name to one number a head."""
    whole = evaluate(model, pairs)
    return {
        name: [loss_without(model, pairs, {name: [head]}) - whole for head in range(module.heads)]
        for name, module in observe.attention_modules(model).items()
    }


def losses_by_kind(model: nn.Module, pairs: Sequence[Batch]) -> dict[str, float]:
    """Return the loss while all heads of a kind are taken out, and of the whole model."""
    modules = observe.attention_modules(model)
    of_kind = {kind: [name for name in modules if kind_of(name) == kind] for kind in KINDS}
    without = {
        kind: loss_without(model, pairs, {name: range(modules[name].heads) for name in names})
        for kind, names in of_kind.items()
    }
    return {"nothing": evaluate(model, pairs), **without}


def removed_in_order(model: nn.Module, pairs: Sequence[Batch], extra: Mapping[str, Sequence[float]]) -> list[float]:
    """Return the loss without the 0, 4, 8, ... heads that are missed least when each is taken out alone."""
    order = sorted((cost, name, head) for name, costs in extra.items() for head, cost in enumerate(costs))
    losses = []
    for count in range(0, len(order) + 1, 4):
        heads: dict[str, list[int]] = {}
        for _, name, head in order[:count]:
            heads.setdefault(name, []).append(head)
        losses.append(loss_without(model, pairs, heads))
    return losses


def record(seed: int) -> dict[str, Any]:
    """Return what is lost on sentences of Multi30k's validation set, another draw for each seed.

    The order of removal is found on one half of them and tested on the other.
    """
    model, tokeniser = (shipped := load_translator()).model, shipped.tokeniser
    pairs = load_multi30k("val")
    drawn = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(seed))[:SENTENCES].tolist()
    ids = encode_pairs([pairs[i] for i in drawn], tokeniser)
    chosen, tested = (batches(half, 2048) for half in (ids[::2], ids[1::2]))
    extra = extra_losses(model, chosen)
    return {
        "losses": {name: round(loss, 3) for name, loss in losses_by_kind(model, tested).items()},
        "extra": {name: [round(cost, 4) for cost in costs] for name, costs in extra.items()},
        "removed": [round(loss, 3) for loss in removed_in_order(model, tested, extra)],
    }
