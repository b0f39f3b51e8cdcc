"""The clinic's patient: one small Transformer that can be given each fault, its training, and what its owner sees."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lib import checks, encoder_decoder, masks, observe, positional
from transformer_lib.experiments import extrapolation
from transformer_lib.experiments.steps import take_step

D_MODEL, HEADS, LONGEST, LENGTH, BATCH, RATE = 32, 4, 64, 16, 32, 3e-3
VOCABULARY, PADDING = extrapolation.VOCABULARY, 0
POSITIONS = ("learned", "sinusoidal")
Task = Callable[[int, int, torch.Generator], extrapolation.Data]


class Patient(nn.Module):
    """Symbols in, one answer for each place out: an embedding with positions, one pre-norm layer, an output map.

    A subclass plants a fault by another `vectors` or `mask`. Symbol 0 is padding.

    Args:
        positions: "learned" or "sinusoidal", either for `LONGEST` places.
        causal: whether later places are hidden.
    """

    def __init__(self, positions: str = "learned", *, causal: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        checks.one_of(POSITIONS, positions=positions)
        self.causal = causal
        self.symbol, self.answer = nn.Embedding(VOCABULARY, D_MODEL), nn.Linear(D_MODEL, VOCABULARY)
        self.learned = positional.LearnedPositions(LONGEST, D_MODEL) if positions == "learned" else None
        if self.learned is None:
            self.register_buffer("sinusoids", positional.sinusoidal_positions(LONGEST, D_MODEL))
        layer = encoder_decoder.EncoderLayer(D_MODEL, HEADS, 2 * D_MODEL, dropout=dropout)
        self.encoder = encoder_decoder.Encoder([layer])

    @property
    def attention(self) -> nn.Module:
        """The one layer's attention."""
        return self.encoder.layers[0].self_attention

    def places(self, length: int, first: int = 0) -> Float[Tensor, "position d_model"]:
        """Return the vectors of the positions."""
        return self.sinusoids[first : first + length] if self.learned is None else self.learned(length, first)

    def vectors(
        self, symbols: Int[Tensor, "batch position"], first: int = 0
    ) -> Float[Tensor, "batch position d_model"]:
        """Return symbols and positions as the layer gets them."""
        return self.symbol(symbols) + self.places(symbols.size(1), first)

    def mask(self, symbols: Int[Tensor, "batch position"]) -> Bool[Tensor, "batch 1 query key"]:
        """Return what may attend to what: not to padding, and not to later places if `causal`."""
        allowed = masks.padding_mask(symbols, PADDING)
        return allowed & masks.causal_mask(symbols.size(1)) if self.causal else allowed

    def forward(
        self, symbols: Int[Tensor, "batch position"], first: int = 0
    ) -> Float[Tensor, "batch position vocabulary"]:
        """Return the logits of each place's answer; positions count from `first`."""
        return self.answer(self.encoder(self.vectors(symbols, first), self.mask(symbols)))


def train(
    model: nn.Module,
    draw: Task = extrapolation.three_back,
    *,
    seed: int,
    steps: int = 300,
    length: int = LENGTH,
    **how: int,
) -> list[float]:
    """Train a model, by default to say which symbol stands three places back; return the losses in nats per answer.

    Adam, 32 fresh sequences a step; guessing costs ln 16 = 2.77 nats. Answers of `PADDING` don't count.

    Args:
        draw: gives symbols and answers for a count, a length and a generator.
        how: `last_start`: the positions of a batch are numbered from a random one between 0 and this, by default 0;
            `warm_up`: steps in which the rate rises, by default 20.
    """
    last_start, warm_up = how.get("last_start", 0), how.get("warm_up", 20)
    checks.positive(steps=steps, length=length, warm_up=warm_up)
    checks.not_negative(last_start=last_start)
    generator = torch.Generator().manual_seed(seed)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=RATE, fused=True), []
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = RATE * min(1.0, step / warm_up)
        symbols, answers = draw(BATCH, length, generator)
        first = int(torch.randint(last_start + 1, (), generator=generator))
        given = (symbols, first) if last_start else (symbols,)
        loss = F.cross_entropy(model(*given).flatten(0, 1), answers.flatten(), ignore_index=PADDING)
        losses.append(take_step(optimizer, loss))
    return losses


def patient(seed: int, kind: type[Patient] = Patient, **parts: object) -> Patient:
    """Return a fresh patient, drawn from `seed`; torch's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(**parts)


@torch.no_grad()
def accuracy(model: nn.Module, *, seed: int = 99, length: int = LENGTH, batch: int = 64, after: int = 3) -> float:
    """Return the share of answers right on 64 new sequences, given `batch` at a time, from place `after` on."""
    checks.positive(length=length, batch=batch)
    symbols, answers = extrapolation.three_back(64, length, torch.Generator().manual_seed(seed))
    said = torch.cat([model(part).argmax(dim=-1) for part in symbols.split(batch)])
    return (said == answers)[:, after:].float().mean().item()


@torch.no_grad()
def maps(model: Patient, symbols: Int[Tensor, "batch position"]) -> Float[Tensor, "batch heads query key"]:
    """Return the weights of a patient's attention."""
    with observe.record_attention(model) as weights:
        model(symbols)
    return weights["encoder.layers.0.self_attention"][0]
