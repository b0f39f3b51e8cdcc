"""Can one attention layer copy what stands three places back, with and without positions? (chapter 01)"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_lib import attention, checks, toy_tasks
from transformer_lib.experiments.steps import take_step

VOCABULARY, LENGTH, OFFSET, D_MODEL, BATCH, RATE, STEPS = 20, 16, 3, 48, 32, 3e-3, 400


class Copier(nn.Module):
    """One attention layer without a mask, between an embedding and an answer at each position.

    Args:
        has_positions: whether a learned vector for each position is added to the token's.
    """

    def __init__(self, has_positions: bool) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, D_MODEL)
        self.position = nn.Parameter(torch.randn(LENGTH, D_MODEL)) if has_positions else None
        self.query, self.key, self.value = (nn.Linear(D_MODEL, D_MODEL, bias=False) for _ in range(3))
        for layer in (self.query, self.key, self.value):
            nn.init.xavier_uniform_(layer.weight)
        self.answer = nn.Linear(D_MODEL, VOCABULARY)

    def forward(self, tokens: Int[Tensor, "batch position"]) -> Float[Tensor, "batch position vocabulary"]:
        """Return a logit for each token as the answer at each position."""
        x = self.token(tokens) if self.position is None else self.token(tokens) + self.position
        return self.answer(attention.attend(self.query(x), self.key(x), self.value(x)))


def train_to_copy(has_positions: bool, *, seed: int = 0, steps: int = STEPS) -> tuple[Copier, float]:
    """Train a copier by Adam; return it with its share of right answers on sequences not trained on.

    There are 16 symbols. The first places, where nothing stands so far back, aren't asked.
    """
    checks.positive(steps=steps)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Copier(has_positions)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(steps):
        tokens, answers = batch(BATCH, generator)
        logits = model(tokens)[:, OFFSET:]
        loss = F.cross_entropy(logits.flatten(0, 1), answers[:, OFFSET:].flatten())
        take_step(optimizer, loss)
    tokens, answers = batch(512, generator)
    with torch.no_grad():
        right = (model(tokens).argmax(-1) == answers)[:, OFFSET:]
    return model, right.float().mean().item()


def batch(
    count: int, generator: torch.Generator
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, "batch position"]]:
    """Return random symbols, and for each place the one that stands three places before it."""
    sources, answers = zip(*toy_tasks.shift_task(count, LENGTH, VOCABULARY, generator, offset=OFFSET), strict=True)
    return torch.tensor(sources), torch.tensor(answers)
