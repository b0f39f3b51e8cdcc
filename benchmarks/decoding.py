"""How fast does each library translate 200 sentences, twenty new tokens each? Random weights, one thread.

`python -m benchmarks.decoding NAME` prints one contender's CPU seconds; `run` lets them take turns.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks import corpus, rounds, translators
from benchmarks.translators import SIZES, TorchTransformer
from transformer_lib import decoding, fast, training
from transformer_lib.data import PADDING, START
from transformer_lib.generation import in_batches

TORCH = "torch.nn.Transformer, recomputing, one by one"
SENTENCES, FEW, NEW, BEAM, ROWS = 200, 24, 20, 4, 64
Decode = Callable[[Tensor], list[list[int]]]


def recomputing() -> Decode:
    """Return a loop that runs the whole prefix through the decoder for every token, as tutorials do."""
    model = TorchTransformer(SIZES).eval()

    def decode(source: Tensor) -> list[list[int]]:
        target, memory = source.new_full((len(source), 1), START), model.encode(source)
        for _ in range(NEW):
            logits = model.embedded.output(model.decode(target, memory, source)[:, -1])
            target = torch.cat([target, logits.argmax(-1, keepdim=True)], dim=1)
        return target[:, 1:].tolist()

    return decode


def ours(beam: int, precision: torch.dtype = torch.float32) -> Decode:
    """Return this book's greedy decoding or beam search, in the fast forms."""
    model = fast.narrowed(translators.ours().eval(), precision)

    def decode(source: Tensor) -> list[list[int]]:
        with fast.enabled():
            if beam == 1:
                return decoding.greedy(model, source, NEW)
            return decoding.beam_search(model, source, beam, 0.0, NEW)

    return decode


def marian(beam: int, precision: torch.dtype = torch.float32) -> Decode:
    """Return Hugging Face's cached generate."""
    model = translators.Marian(SIZES).eval().model.to(precision)
    options = {"num_beams": beam, "do_sample": False, "min_new_tokens": NEW, "max_new_tokens": NEW}

    def decode(source: Tensor) -> list[list[int]]:
        mask = (source != PADDING).long()
        return model.generate(input_ids=source, attention_mask=mask, **options)[:, 1:].tolist()

    return decode


def x_transformers() -> Decode:
    """Return x-transformers' cached generate, greedy."""
    model = translators.XTransformers(SIZES).eval().model

    def decode(source: Tensor) -> list[list[int]]:
        start = source.new_full((len(source), 1), START)
        return model.generate(source, start, NEW, mask=source != PADDING, temperature=0.0).tolist()

    return decode


def contenders() -> dict[str, tuple[Callable[[], Decode], int, int]]:
    """Return (what makes the decoder, sentences, sentences a batch) by name, of those whose package is installed."""
    found: dict[str, tuple[Callable[[], Decode], int, int]] = {
        TORCH: (recomputing, FEW, 1),
        "torch.nn.Transformer, recomputing, in batches": (recomputing, SENTENCES, ROWS),
    }
    makers = {"this book": ours} | ({"Hugging Face Marian": marian} if importlib.util.find_spec("transformers") else {})
    low = training.best_precision("cpu")
    for name, make in makers.items():
        for way, beam in (("greedy", 1), (f"beam {BEAM}", BEAM)):
            for precision in dict.fromkeys((torch.float32, low)):
                kind = str(precision).removeprefix("torch.")
                found[f"{name}, {way}, {kind}"] = (partial(make, beam, precision), SENTENCES, ROWS)
    if importlib.util.find_spec("x_transformers"):
        found["x-transformers, greedy, float32"] = (x_transformers, SENTENCES, ROWS)
    return found


def run(count: int = rounds.ROUNDS) -> dict[str, Any]:
    """Return each decoder's sentences a second, and its ratio to torch's module recomputing one sentence at a time."""
    work = {name: float(number) for name, (_, number, _) in contenders().items()}
    seconds = rounds.apart("decoding", work, count)
    return {"sentences": SENTENCES, "new tokens": NEW, "rows": rounds.ratios(seconds, TORCH, work)}


def main() -> None:
    """Translate with one contender twice; print the seconds of the second time."""
    make, number, rows = contenders()[rounds.settled(sys.argv[1])]
    torch.manual_seed(0)
    decode, sources = make(), [source for source, _ in corpus.pairs("val")[:number]]
    with torch.inference_mode():
        rounds.print_seconds(lambda: in_batches(sources, decode, rows))


if __name__ == "__main__":
    main()
