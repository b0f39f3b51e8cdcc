"""Attention's time and memory against length: the explicit form, torch's fused kernel, and what the library chooses.

`python -m benchmarks.attention NAME LENGTH` prints the memory that one forward and backward pass takes in MiB.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import rounds
from transformer_lib import attention, fast, masks
from transformer_lib.experiments.scale import peak_bytes

HEADS, D_K, TOKENS = 8, 32, 4096
LENGTHS, LONG = (16, 64, 256, 512, 1024, 2048), (1024, 2048, 4096)  # of time, of memory
EXPLICIT = "explicit, as listed"
FORMS: dict[str, Callable[..., torch.Tensor]] = {
    EXPLICIT: attention.attend,
    "fused by torch": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    "the library's choice": fast.attend,
}
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def inputs(length: int, batch: int, precision: torch.dtype) -> list[torch.Tensor]:
    """Return queries, keys and values that want gradients, and the causal mask."""
    torch.manual_seed(0)
    vectors = [torch.randn(batch, HEADS, length, D_K).to(precision).requires_grad_() for _ in range(3)]
    return [*vectors, masks.causal_mask(length)]


def both_ways(form: Callable[..., torch.Tensor], parts: list[torch.Tensor]) -> None:
    """Run forward and backward."""
    form(*parts).float().sum().backward()


def run(count: int = rounds.ROUNDS) -> dict[str, Any]:
    """Return, by precision and length, each form's time over the explicit one's, and its memory in MiB."""
    times: dict[str, dict[str, Any]] = {}
    for kind, precision in PRECISIONS.items():
        for length in LENGTHS:
            parts = inputs(length, max(1, TOKENS // length), precision)
            turns = {name: partial(both_ways, form, parts) for name, form in FORMS.items()}
            times[f"{kind}, length {length}"] = rounds.ratios(rounds.interleaved(turns, count), EXPLICIT)
    memory = {
        f"length {length}": {name: round(rounds.in_new_process("attention", name, str(length)), 1) for name in FORMS}
        for length in LONG
    }
    return {"heads": HEADS, "d_k": D_K, "tokens a pass": TOKENS, "speed": times, "MiB of one sequence": memory}


def main() -> None:
    """Print what one pass adds to this process's peak, after a short one has loaded what is needed."""
    torch.set_num_threads(1)
    form, length = FORMS[sys.argv[1]], int(sys.argv[2])
    both_ways(form, inputs(64, 1, torch.float32))
    parts = inputs(length, 1, torch.float32)
    before = peak_bytes()
    both_ways(form, parts)
    print((peak_bytes() - before) / 2**20)


if __name__ == "__main__":
    main()
