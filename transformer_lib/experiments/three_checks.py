"""A lecture's three checks as code, and faults to try them on, beside `diagnostics.check_model` (chapter 10)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from transformer_lib import attention, checks, diagnostics, layers, multi_head, positional, training
from transformer_lib.config import TransformerConfig
from transformer_lib.data import Batch
from transformer_lib.experiments import deep_stacks
from transformer_lib.model import Transformer

SIZES = {"vocabulary": 40, "d_model": 64, "heads": 2, "d_ff": 96, "layers": 2, "max_length": 24, "norm": "post"}
WIDTHS = (32, 128)  # what the third check allows for d_k
Loss = Callable[[nn.Module, Batch], Tensor]


class Case(NamedTuple):
    """A model with a batch and a loss, as `diagnostics.check_model` takes them."""

    model: Transformer
    batch: Batch
    loss: Loss = training.translation_loss


def healthy(seed: int = 0, **changes: object) -> Case:
    """Return a sound model that all three checks pass, unless `changes` to its sizes says otherwise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        source, target = torch.randint(4, 40, (4, 7)), torch.randint(4, 40, (4, 9))
        target[:, 0] = 1
        source[1, 5:], source[2, 4:], target[1, 6:], target[3, 5:] = 0, 0, 0, 0
        return Case(Transformer(TransformerConfig(**(SIZES | changes))), Batch(source, target))


def objections(model: Transformer) -> list[str]:
    """Return which of the lecture's three checks object to a model: "residual", "positions", "heads".

    "residual": each is LayerNorm(x + sublayer(x)). "positions": what tells equal tokens apart at different places are
    sinusoids with base 10000. "heads": h d_k = d_model, and d_k lies in `WIDTHS`. The code reads what the model does,
    so that it's stricter than a look at the source.
    """
    checks.instance(Transformer, model=model)
    attentions = [part for part in model.modules() if isinstance(part, multi_head.MultiHeadAttention)]
    residuals = [part for part in model.modules() if isinstance(part, layers.Residual)]
    found = {
        "residual": all(_is_post_norm(part) for part in residuals),
        "positions": _adds_sinusoids(model),
        "heads": all(_has_usual_heads(part, model.config.d_model) for part in attentions),
    }
    return [name for name, passes in found.items() if not passes]


@torch.no_grad()
def _is_post_norm(residual: layers.Residual) -> bool:
    x = torch.linspace(-2, 3, residual.norm.normalized_shape[0]).sin().expand(1, 2, -1)
    return torch.allclose(residual.eval()(x, torch.square), residual.norm(x + x.square()), atol=1e-5)


@torch.no_grad()
def _adds_sinusoids(model: Transformer) -> bool:
    length = model.config.max_length
    given = model.eval().embedding(torch.full((1, length), 5))[0]
    wanted = positional.sinusoidal_positions(length, model.config.d_model)
    return torch.allclose(given - given[:1], wanted - wanted[:1], atol=1e-4)


def _has_usual_heads(module: multi_head.MultiHeadAttention, d_model: int) -> bool:
    width = module.query.out_features
    return width == d_model and WIDTHS[0] <= width // module.heads <= WIDTHS[1]


def _rule(name: str) -> Callable[[Case], Case]:
    def plant(case: Case) -> Case:
        for part in case.model.modules():
            if isinstance(part, layers.Residual):
                part.forward = lambda x, sublayer, norm=part.norm: deep_stacks.RULES[name](norm, x, sublayer)
        return case

    return plant


def _attend(weights_of: Callable[[Tensor, Tensor, Tensor | None], Tensor]) -> Callable[[Case], Case]:
    def plant(case: Case) -> Case:
        for part in case.model.modules():
            if isinstance(part, multi_head.MultiHeadAttention):
                part.forward = lambda x, memory, mask=None, cache=None, of=part: _attended(of, (x, memory), mask)
        return case

    def _attended(of: multi_head.MultiHeadAttention, given: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        x, memory = given
        parts = (multi_head.split_heads(part, of.heads) for part in (of.query(x), of.key(memory), of.value(memory)))
        query, key, value = parts
        return of.output(multi_head.merge_heads(weights_of(query, key, mask) @ value))

    return plant


def _base(case: Case) -> Case:
    d_model = case.model.config.d_model
    angle = torch.arange(24).unsqueeze(1) * 100.0 ** (-torch.arange(0, d_model, 2) / d_model)
    case.model.embedding.sinusoids = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(start_dim=1)
    return case


def _narrow(case: Case) -> Case:
    for layer in [*case.model.encoder.layers, *case.model.decoder.layers]:
        own, d_model = layer.self_attention, case.model.config.d_model
        own.query, own.key, own.value = (nn.Linear(d_model, d_model // 2, bias=False) for _ in range(3))
        own.output = nn.Linear(d_model // 2, d_model, bias=False)
    return case


def _both_ways(case: Case) -> Case:
    for layer in case.model.decoder.layers:
        own = layer.forward
        layer.forward = lambda x, memory, mask, *rest, own=own: own(x, memory, torch.ones_like(mask), *rest)
    return case


def _no_padding_mask(case: Case) -> Case:
    for layer in case.model.encoder.layers:
        own = layer.forward
        layer.forward = lambda x, mask=None, own=own: own(x, None)
    return case


def _unshifted(model: nn.Module, batch: Batch) -> Tensor:
    return training.smoothed_loss(model(batch.source, batch.labels), batch.labels)


def _no_gradient(case: Case) -> Case:
    case.model.encoder.forward = torch.no_grad()(case.model.encoder.forward)
    return case


def _large_table(case: Case) -> Case:
    with torch.no_grad():
        case.model.embedding.table *= 4
    return case


FAULTS: dict[str, tuple[str, Callable[[Case], Case]]] = {  # what was done: (the doctor's name for it, how)
    "residual left out": ("residual-missing", _rule("no residual")),
    "norm on the bypass": ("norm-misplaced", _rule("skip")),
    "sinusoids with base 100": ("positions-wrong-base", _base),
    "scores not scaled": (
        "scale-missing",
        _attend(lambda q, k, mask: attention.masked_softmax(q @ k.transpose(-2, -1), mask)),
    ),
    "masked after the softmax": (
        "mask-after-softmax",
        _attend(lambda q, k, mask: attention.attention_weights(q, k).masked_fill(~mask, 0.0)),
    ),
    "causal mask forgotten": ("mask-leak", _both_ways),
    "padding mask forgotten": ("padding-attended", _no_padding_mask),
    "input not shifted": ("input-not-shifted", lambda case: case._replace(loss=_unshifted)),
    "table drawn four times too large": ("loss-at-start", _large_table),
    "encoder without gradient": ("no-gradient", _no_gradient),
}


def planted(name: str, seed: int = 0) -> Case:
    """Return a model with one of the `FAULTS` planted in it."""
    checks.one_of(tuple(FAULTS), name=name)
    return FAULTS[name][1](healthy(seed))


def doctor(case: Case) -> list[str]:
    """Return the faults that `diagnostics.check_model` finds, the cause first."""
    return diagnostics.check_model(*case).ids
