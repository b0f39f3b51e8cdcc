"""How many heads does it take to look at two places at once? (chapter 03)"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import ablation, checks, multi_head, observe, toy_tasks
from transformer_lib.experiments.steps import count_parameters, take_step

SYMBOLS, LENGTH, D_MODEL, HIDDEN, BATCH, RATE = 8, 12, 64, 64, 32, 2e-3
VOCABULARY = toy_tasks.FIRST_SYMBOL + 2 * SYMBOLS - 1  # ids: as many as there are answers
READOUTS = ("linear", "relu")
FIRST_ANSWER = 2  # the places before it lack one of the two they are asked about


class OneLayer(nn.Module):
    """One multi-head attention between an embedding with learned positions and a readout, without residual.

    Args:
        readout: "linear", or "relu" for a hidden layer with a ReLU before it.
        d_k: width of a head; None for d_model / heads.
        output: False leaves W_o out, so that the readout gets the heads' outputs side by side.
    """

    def __init__(self, heads: int, readout: str = "linear", *, d_k: int | None = None, output: bool = True) -> None:
        super().__init__()
        checks.one_of(READOUTS, readout=readout)
        self.symbol = nn.Embedding(VOCABULARY, D_MODEL)
        self.position = nn.Parameter(torch.randn(LENGTH, D_MODEL))
        self.attention = multi_head.MultiHeadAttention(D_MODEL, heads)
        width = D_MODEL if d_k is None else heads * d_k
        for name in ("query", "key", "value"):
            setattr(self.attention, name, _glorot(D_MODEL, width))
        self.attention.output = _glorot(width, D_MODEL) if output else nn.Identity()
        hidden = [nn.Linear(D_MODEL, HIDDEN), nn.ReLU()] if readout == "relu" else []
        self.answer = nn.Sequential(*hidden, nn.Linear(D_MODEL, VOCABULARY))

    def forward(self, symbols: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position vocabulary"]:
        """Return a logit for each answer at each place."""
        x = (self.symbol(symbols) + self.position) / math.sqrt(2)
        return self.answer(self.attention(x, x))


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a training run left behind.

    Args:
        parameters: number of trained numbers.
        losses: one per step, in nats per answer.
        accuracy: share of answers right, on sequences not trained on.
        without: the same with each head taken out in turn.
        weights: each head's map after training, averaged over sequences.
        overlap: mean squared cosine between the heads' query subspaces, before and after training.
    """

    parameters: int
    losses: list[float]
    accuracy: float
    without: list[float]
    weights: Float[Tensor, "heads query key"]
    overlap: tuple[float, float]


def train_two_relations(
    heads: int,
    readout: str = "linear",
    *,
    seed: int,
    steps: int = 400,
    d_k: int | None = None,
    output: bool = True,
) -> Run:
    """Train one layer to subtract the symbol two places back from the one just before; Adam, 32 sequences a step.

    With 8 symbols there are 15 answers; the commonest, "equal", is right in an eighth of all cases.

    Args:
        readout, d_k, output: as for `OneLayer`.
    """
    checks.positive(heads=heads, steps=steps)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = OneLayer(heads, readout, d_k=d_k, output=output)
    generator = torch.Generator().manual_seed(seed)
    before, losses = _overlap_of(model), []
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    sources, targets = _sequences(steps * BATCH, generator)
    for source, target in zip(sources.split(BATCH), targets.split(BATCH), strict=True):
        loss = F.cross_entropy(model(source)[:, FIRST_ANSWER:].flatten(0, 1), target.flatten())
        losses.append(take_step(optimizer, loss))
    return Run(
        parameters=count_parameters(model),
        losses=losses,
        overlap=(before, _overlap_of(model)),
        **_tested(model, heads, generator),
    )


def subspace_overlap(weight: Float[Tensor, "h_d_k d_model"], heads: int) -> float:
    """Return the mean squared cosine of the principal angles between the row spaces of two heads' blocks of W.

    0 where all are orthogonal, 1 where all are the same; d_k / d_model is expected of random subspaces.

    Args:
        weight: as `nn.Linear` stores it, the heads' blocks below each other.
    """
    bases = [torch.linalg.qr(block.detach().double().T).Q for block in weight.chunk(heads)]
    pairs = [(a.T @ b).square().sum() / a.size(1) for i, a in enumerate(bases) for b in bases[:i]]
    return (sum(pairs) / len(pairs)).item() if pairs else math.nan


def record(seed: int) -> dict[str, Any]:
    """Return what the full run finds: twice the steps of the notebook's, and more kinds of layers."""
    found: dict[str, Any] = {}
    variants: dict[str, dict[str, Any]] = {f"{heads}, linear": {"heads": heads} for heads in (1, 2, 4, 8, 16, 32)}
    variants |= {f"{heads}, relu": {"heads": heads, "readout": "relu"} for heads in (1, 2)}
    variants |= {f"{heads}, no W_o": {"heads": heads, "output": False} for heads in (2, 4)}
    variants |= {"8, d_k 4": {"heads": 8, "d_k": 4}}
    for name, variant in variants.items():
        run = train_two_relations(**variant, seed=seed, steps=800)
        found[name] = {
            "parameters": run.parameters,
            "losses": [round(sum(run.losses[i : i + 20]) / 20, 3) for i in range(0, 800, 20)],
            "accuracy": round(run.accuracy, 3),
            "without": [round(accuracy, 3) for accuracy in run.without],
            "overlap": [round(share, 4) for share in run.overlap] if run.overlap[0] == run.overlap[0] else None,
        }
    return found


def _glorot(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.xavier_uniform_(layer.weight)
    return layer


def _sequences(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    pairs = toy_tasks.two_relations_task(count, LENGTH, VOCABULARY, generator)
    source, target = torch.tensor(pairs).unbind(1)
    return source, target[:, FIRST_ANSWER:]


def _overlap_of(model: OneLayer) -> float:
    return subspace_overlap(model.attention.query.weight, model.attention.heads)


@torch.no_grad()
def _tested(model: OneLayer, heads: int, generator: torch.Generator) -> dict[str, Any]:
    source, target = _sequences(500, generator)

    def accuracy() -> float:
        return (model(source)[:, FIRST_ANSWER:].argmax(-1) == target).float().mean().item()

    without = []
    for head in range(heads):
        with ablation.edit_attention(model, {"attention": ablation.zero_heads(head)}):
            without.append(accuracy())
    with observe.record_attention(model) as weights:
        whole = accuracy()
    return {"accuracy": whole, "without": without, "weights": weights["attention"][0].mean(0)}
