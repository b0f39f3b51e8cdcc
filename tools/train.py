"""Train the German-to-English translator: `python -m tools.train` (or `make train`).

Progress is shown, an interrupted run goes on where it stopped, the best state on the validation set is kept, the test
set is translated and scored, and a record is written. `--toy` does the same on the toy grammar, without any download.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tools import LIBRARY, ROOT
from transformer_lib import checkpoints, fast, files, multi30k, toy_grammar, training, translator
from transformer_lib.data import Batch, batches, encode_pairs
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.tokeniser import Tokeniser, train_tokeniser

RESULTS = ROOT / "book" / "results"
SAVE_EVERY = 100  # steps


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run depends on, besides the data."""

    seed: int = 1
    epochs: int = 12
    vocabulary: int = 5000
    d_model: int = 128
    heads: int = 4
    d_ff: int = 256
    layers: int = 4
    dropout: float = 0.1
    tokens_per_batch: int = 1024
    warmup: int = 1000  # steps
    factor: float = 1.0  # of the Noam rate
    tail: float = 0.5  # share of the steps over which the rate falls to 0
    smoothing: float = 0.1
    alpha: float = 1.0  # length penalty, chosen on the validation set


@dataclass(frozen=True)
class Corpus:
    """Sentence pairs as text, (source, target)."""

    train: list[tuple[str, str]]
    validation: list[tuple[str, str]]
    test: list[tuple[str, str]]


def multi30k_corpus() -> Corpus:
    """Return Multi30k, German to English."""
    return Corpus(*(multi30k.load_multi30k(split) for split in multi30k.SPLITS))


def toy_corpus() -> Corpus:
    """Return sentences of the toy grammar: the same task without a download."""
    chance = torch.Generator().manual_seed(0)
    known, held_out = toy_grammar.split_sentences(toy_grammar.sample_sentences(6000, chance), 600, chance)
    text = [[pair.text for pair in part] for part in (known, held_out)]
    return Corpus(text[0], text[1][: len(text[1]) // 2], text[1][len(text[1]) // 2 :])


class Run:
    """One training run in a folder: it knows how far it is, and goes on from there."""

    def __init__(self, settings: Settings, corpus: Corpus, folder: Path) -> None:
        self.settings, self.corpus, self.folder = settings, corpus, folder
        self.tokeniser = self._tokeniser()
        self.pairs, self.validation = (encode_pairs(part, self.tokeniser) for part in (corpus.train, corpus.validation))
        torch.manual_seed(settings.seed)
        self.model = Transformer(self._config())
        self.optimizer = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
        self.precision = training.best_precision("cpu")
        self.step, self.curve, self.cpu_seconds, self.wall_seconds, self.losses = 0, [], 0.0, 0.0, []

    def _tokeniser(self) -> Tokeniser:
        path = self.folder / "tokeniser.json"
        if not path.exists():
            lines = [line for pair in self.corpus.train for line in pair]
            train_tokeniser(lines, self.settings.vocabulary).save(path)
        return Tokeniser.load(path)

    def _config(self) -> TransformerConfig:
        names = ("d_model", "heads", "d_ff", "layers", "dropout")
        return TransformerConfig(
            vocabulary=len(self.tokeniser), **{name: getattr(self.settings, name) for name in names}
        )

    def epoch_batches(self, epoch: int) -> list[Batch]:
        """Return an epoch's batches, which depend on the seed and the epoch alone."""
        generator = torch.Generator().manual_seed(1000 * self.settings.seed + epoch)
        return batches(self.pairs, self.settings.tokens_per_batch, generator=generator)

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one.

        Raises:
            ValueError: it was made with other settings.
        """
        path = self.folder / "last.pt"
        if not path.exists():
            return
        step, extra = checkpoints.load_checkpoint(path, self.model, self.optimizer)
        if extra["settings"] != asdict(self.settings):
            raise ValueError(
                f"{path} was made with {extra['settings']}, this run has {asdict(self.settings)}: "
                "give another folder with --folder, or --fresh to start anew"
            )
        self.step, self.curve, self.losses = step, extra["curve"], extra["losses"]
        self.cpu_seconds, self.wall_seconds = extra["cpu_seconds"], extra["wall_seconds"]

    def save(self, name: str) -> None:
        """Write a checkpoint."""
        names = ("curve", "losses", "cpu_seconds", "wall_seconds")
        extra = {name: getattr(self, name) for name in names} | {"settings": asdict(self.settings)}
        checkpoints.save_checkpoint(self.folder / name, self.model, self.optimizer, step=self.step, **extra)

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the loss of one batch, in the precision that suits the machine."""
        with training.autocast("cpu", self.precision):
            return fast.translation_loss(model, batch, self.settings.smoothing)

    def rate(self, steps: int) -> Callable[[int], float]:
        """Return the learning rate by step: Noam's, with a linear tail."""
        s, tail = self.settings, max(1, round(self.settings.tail * steps))

        def at(step: int) -> float:
            step = min(step, steps)  # epochs may differ by a batch or two
            return training.noam_rate(step, s.d_model, s.warmup, s.factor) * training.linear_tail(step, steps, tail)

        return at

    def train(self) -> None:
        """Take the steps that are still to be taken."""
        plan = [len(self.epoch_batches(epoch)) for epoch in range(self.settings.epochs)]
        rate, started = self.rate(sum(plan)), (time.process_time(), time.time())
        with fast.enabled(), tqdm(total=sum(plan), initial=self.step, unit="step") as bar:
            for epoch, count in enumerate(plan):
                done = min(max(self.step - sum(plan[:epoch]), 0), count)
                if done == count:
                    continue
                todo = self.epoch_batches(epoch)[done:]
                for loss in training.train(self.model, todo, self.loss, self.optimizer, rate, self.step + 1):
                    self.step += 1
                    self.losses.append(loss)
                    bar.update()
                    if self.step % SAVE_EVERY == 0:
                        started = self._clock(started)
                        self.save("last.pt")
                started = self._clock(started)
                self._end_epoch(bar)

    def _clock(self, started: tuple[float, float]) -> tuple[float, float]:
        now = (time.process_time(), time.time())
        self.cpu_seconds += now[0] - started[0]
        self.wall_seconds += now[1] - started[1]
        return now

    def _end_epoch(self, bar: tqdm) -> None:
        with training.autocast("cpu", self.precision):
            validation = training.evaluate(self.model, batches(self.validation, 2 * self.settings.tokens_per_batch))
        row = {"step": self.step, "train_loss": round(sum(self.losses) / len(self.losses), 4)}
        row |= {"validation_loss": round(validation, 4), "cpu_minutes": round(self.cpu_seconds / 60, 2)}
        best = not self.curve or validation < min(row["validation_loss"] for row in self.curve)
        self.curve.append(row)
        self.losses = []
        if best:
            self.save("best.pt")
        self.save("last.pt")
        bar.set_postfix_str(f"validation {validation:.3f} nats per token")
        bar.write(json.dumps(row))

    def best(self) -> translator.Translator:
        """Return the translator with the lowest loss on the validation set."""
        model = Transformer(self._config())
        checkpoints.load_checkpoint(self.folder / "best.pt", model)
        return translator.Translator(model.eval(), self.tokeniser)


def scores(hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    """Return sacreBLEU with its signature, and beside it the score that many tutorials quote, by its own name."""
    from sacrebleu.metrics import BLEU

    found = {}
    for name, metric in (("sacrebleu", BLEU()), ("lower_cased", BLEU(lowercase=True))):
        found[name] = round(metric.corpus_score(hypotheses, [references]).score, 2)
        found[f"{name}_signature"] = str(metric.get_signature())
    return found


def translate(best: translator.Translator, corpus: Corpus, alpha: float, record: Path) -> dict[str, Any]:
    """Translate the test set greedily and with five beams; write the hypotheses beside the record."""
    sources, references = ([pair[side] for pair in corpus.test] for side in (0, 1))
    found: dict[str, Any] = {}
    for name, beam in (("greedy", 1), ("beam 5", 5)):
        started = time.process_time()
        with fast.enabled():
            hypotheses = best.translate(sources, beam, alpha)
        found[name] = scores(hypotheses, references) | {"cpu_seconds": round(time.process_time() - started, 1)}
        text = "".join(line + "\n" for line in hypotheses)
        files.write_whole(record.with_name(f"{record.stem}_{name.replace(' ', '_')}.txt"), text.encode())
    return found


def processor() -> str:
    """Return the processor's name as the system tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def write_record(run: Run, results: dict[str, Any], path: Path, command: str) -> None:
    """Write what was run, on what, and what came of it."""
    record = {"command": command, "settings": asdict(run.settings), "parameters": parameters(run.model)}
    record |= {"machine": f"{processor()}, {torch.get_num_threads()} thread", "precision": str(run.precision)}
    record |= {"versions": {"python": platform.python_version(), "torch": torch.__version__}}
    record |= {"cpu_minutes": round(run.cpu_seconds / 60, 2), "wall_minutes": round(run.wall_seconds / 60, 2)}
    record |= {"curve": run.curve, "test": results}
    files.write_whole(path, (json.dumps(record, indent=1) + "\n").encode())


def parameters(model: torch.nn.Module) -> int:
    """Return the number of the model's parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def keep_memory() -> None:
    """Ask glibc to keep freed memory: giving it back and taking it again costs a tenth of the time."""
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        libc = ctypes.CDLL(None)
        for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            libc.mallopt(option, 2**30)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make train ARGS=...", description=__doc__.split("\n")[0])
    for name, default in asdict(Settings()).items():
        parser.add_argument(
            "--" + name.replace("_", "-"), type=type(default), default=default, help=f"default {default}"
        )
    parser.add_argument("--toy", action="store_true", help="the toy grammar instead of Multi30k: no download")
    parser.add_argument("--folder", type=Path, help="where checkpoints go; default runs/de_en_seed1 and the like")
    parser.add_argument("--fresh", action="store_true", help="start anew where the folder holds a run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ship", action="store_true", help="make this the translator that the library ships")
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    for name, default in asdict(Settings()).items():
        value = getattr(options, name)
        toy = {"epochs": 4, "vocabulary": 300, "d_model": 64, "d_ff": 128, "layers": 2, "warmup": 100}
        yield name, toy[name] if options.toy and name in toy and value == default else value


def main() -> None:
    """Train, translate the test set, write the record."""
    options = arguments()
    settings = Settings(**dict(_chosen(options)))
    name = f"{'toy' if options.toy else 'de_en'}_seed{settings.seed}"
    folder = options.folder or ROOT / "runs" / name
    if options.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    keep_memory()
    torch.set_num_threads(options.threads)
    try:
        corpus = toy_corpus() if options.toy else multi30k_corpus()
    except multi30k.DataUnavailable as error:
        sys.exit(f"{error}\nWithout it, train on the toy grammar: make train ARGS=--toy")
    run = Run(settings, corpus, folder)
    print(f"{len(corpus.train)} pairs, {parameters(run.model)} parameters, {run.precision}; checkpoints in {folder}")
    run.resume()
    try:
        run.train()
    except KeyboardInterrupt:
        sys.exit(f"\nStopped after step {run.step}. The same command goes on from the last checkpoint.")
    best = run.best()
    record = (RESULTS if options.ship else folder) / f"translator_{name}.json"
    results = translate(best, corpus, settings.alpha, record)
    write_record(run, results, record, "make train ARGS='" + " ".join(sys.argv[1:]) + "'")
    for decoder, score in results.items():
        print(f"{decoder}: {score['sacrebleu']} ({score['sacrebleu_signature']})")
        print(f"{decoder}, another metric: {score['lower_cased']} ({score['lower_cased_signature']})")
    if options.ship:
        about = {"seed": settings.seed, "record": os.path.relpath(record, ROOT), "test": results["beam 5"]}
        translator.save_translator(ROOT / LIBRARY / "weights" / "de_en", best, **about)
        print(f"Shipped: {LIBRARY / 'weights' / 'de_en'}")
    print(f"Record: {record}")


if __name__ == "__main__":
    main()
