"""Train on the toy grammar in several processes (torchrun --standalone --nproc-per-node 2 -m tools.train_distributed).

Each takes its share of every batch, so that any number of processes does the same steps. Without torchrun it is one.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as processes
from torch.nn.parallel import DistributedDataParallel

from transformer_lib import distributed, files, toy_grammar, training
from transformer_lib.data import Batch, batches, encode_pairs
from transformer_lib.model import Transformer, TransformerConfig


def endless_batches(tokens: int, seed: int, device: torch.device) -> Iterator[Batch]:
    """Yield the same batches in every process, epoch after epoch."""
    generator = torch.Generator().manual_seed(seed)
    text = [pair.text for pair in toy_grammar.sample_sentences(4000, generator)]
    pairs = encode_pairs(text, toy_grammar.grammar_tokeniser())
    while True:
        for batch in batches(pairs, tokens, generator=generator):
            yield batch.to(device)


def train(options: argparse.Namespace, device: torch.device) -> Transformer:
    """Take the steps; the first process prints the loss."""
    torch.manual_seed(options.seed)
    sizes = {"d_model": 64, "heads": 4, "d_ff": 128, "layers": 2, "dropout": options.dropout}
    model = Transformer(TransformerConfig(vocabulary=len(toy_grammar.grammar_tokeniser()), **sizes)).to(device)
    torch.manual_seed(options.seed + processes.get_rank())  # for dropout: not the same in every process
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    steps = training.train(
        DistributedDataParallel(model),
        endless_batches(options.tokens_per_batch, options.seed, device),
        distributed.shared_loss(training.translation_loss),
        optimizer,
        lambda step: training.noam_rate(step, model.config.d_model, 100),
    )
    for step, loss in zip(range(1, options.steps + 1), steps, strict=False):
        if processes.get_rank() == 0 and (step % 10 == 0 or step == options.steps):
            print(f"step {step}: {loss:.6f} nats per token, {processes.get_world_size()} processes", flush=True)
    return model


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tokens-per-batch", type=int, default=1024, help="in all processes together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--double", action="store_true", help="compute in float64, to compare runs")
    parser.add_argument("--out", type=Path, help="where the first process writes the trained parameters")
    return parser.parse_args()


def main() -> None:
    """Train in this process, together with those that torchrun has started beside it."""
    options = arguments()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    torch.set_default_dtype(torch.float64 if options.double else torch.float32)
    with distributed.process_group() as device:
        model = train(options, device)
        if options.out and processes.get_rank() == 0:
            buffer = io.BytesIO()
            torch.save(model.state_dict(), buffer)
            files.write_whole(options.out, buffer.getvalue())


if __name__ == "__main__":
    main()
