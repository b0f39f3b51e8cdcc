"""One training run in a folder: what it depends on, how far it is, and how it goes on after a stop at any point.

The same settings and data give the same steps: a run that was stopped and started again ends bit for bit where an
uninterrupted one ends (on one machine, with the same versions and threads).
"""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from tools.bpe_dropout import SubwordSampler
from tools.training_settings import Corpus, Settings
from transformer_lib import accumulation, checkpoints, fast, files, training, translator
from transformer_lib.data import Batch, Pair, batches, encode_pairs
from transformer_lib.model import Transformer
from transformer_lib.tokeniser import Tokeniser, train_tokeniser

SAVE_EVERY = 100  # steps
LONGEST = 128  # tokens of a source or a target; what follows is cut off
UNSAID = {"positions": "sinusoidal", "bpe_dropout": 0.0}  # in a folder from before there were these settings
LAST, BEST, TOKENISER, SETTINGS = FILES = ("last.pt", "best.pt", "tokeniser.json", "settings.json")


def forget(folder: Path) -> None:
    """Remove what a run has written into its folder, and nothing else."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    _remove_parts(folder)


def _remove_parts(folder: Path) -> None:
    """Remove what was being written when a run was killed."""
    for name in FILES:
        for path in folder.glob(f"{name}.*.part"):
            path.unlink(missing_ok=True)


class Run:
    """One training run in a folder: it knows how far it is, and goes on from there."""

    def __init__(self, settings: Settings, corpus: Corpus, folder: Path) -> None:
        self.settings, self.corpus, self.folder = settings, corpus, folder
        self.curve: list[dict[str, Any]] = []
        self.step, self.saved, self.losses, self.cpu_seconds, self.wall_seconds = 0, 0, [], 0.0, 0.0
        self.precision, self._since = training.best_precision("cpu"), _now()
        self.scaler = accumulation.gradient_scaler("cpu", self.precision)
        self._claim()
        self.tokeniser = self._tokeniser()
        self.pairs, self.validation = (
            encode_pairs(part, self.tokeniser, LONGEST) for part in (corpus.train, corpus.validation)
        )
        self._sampler, self._sampled = self._source_sampler(), {}
        torch.manual_seed(settings.seed)
        self.model = Transformer(settings.config(len(self.tokeniser)))
        self.optimizer = torch.optim.Adam(self.model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)

    def _claim(self) -> None:
        """Write into an unused folder what the run depends on; refuse a folder of another run."""
        _remove_parts(self.folder)
        path = self.folder / SETTINGS
        data = hashlib.sha256(repr((self.corpus.train, self.corpus.validation)).encode()).hexdigest()
        own = asdict(self.settings) | {"data": data}
        if path.exists():
            _demand_same(own, _settings(path), path)
        elif not (self.folder / LAST).exists():  # one that has it is older than this file: `resume` compares
            files.write_whole(path, json.dumps(own, indent=1).encode() + b"\n")

    def _tokeniser(self) -> Tokeniser:
        path = self.folder / TOKENISER
        if not path.exists():
            lines = [line for pair in self.corpus.train for line in pair]
            train_tokeniser(lines, self.settings.vocabulary).save(path)
        return Tokeniser.load(path)

    def epoch_batches(self, epoch: int) -> list[Batch]:
        """Return an epoch's batches, which depend on the seed and the epoch alone."""
        seed = 1000 * self.settings.seed + epoch
        generator = torch.Generator().manual_seed(seed)
        return batches(self._epoch_pairs(epoch, seed), self.settings.tokens_per_batch, generator=generator)

    def _source_sampler(self) -> SubwordSampler | None:
        if self.settings.bpe_dropout == 0:
            return None
        sources = [source for source, _ in self.corpus.train]
        return SubwordSampler(self.tokeniser, sources, self.settings.bpe_dropout)

    def _epoch_pairs(self, epoch: int, seed: int) -> list[Pair]:
        """Return the pairs with that epoch's split of the sources; it is asked for twice, and kept."""
        if self._sampler is None:
            return self.pairs
        if epoch not in self._sampled:
            self._sampled[epoch] = [ids[:LONGEST] for ids in self._sampler.sample(random.Random(seed))]
        return [(source, target) for source, (_, target) in zip(self._sampled[epoch], self.pairs, strict=True)]

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one, in the precision in which the run began.

        Raises:
            ValueError: it is damaged, or was made with other settings.
        """
        path = self.folder / LAST
        if not path.exists():
            return
        self.step, extra = checkpoints.load_checkpoint(path, self.model, self.optimizer)
        _demand_same(asdict(self.settings), extra["settings"], path)
        self.saved, self.curve, self.losses = self.step, extra["curve"], extra["losses"]
        self.cpu_seconds, self.wall_seconds = extra["cpu_seconds"], extra["wall_seconds"]
        self.precision = getattr(torch, extra.get("precision", str(self.precision)).removeprefix("torch."))
        self.scaler = accumulation.gradient_scaler("cpu", self.precision)
        if state := extra.get("scaler"):  # empty where the precision needs none
            self.scaler.load_state_dict(state)

    def save(self, name: str) -> None:
        """Write a checkpoint."""
        names = ("curve", "losses", "cpu_seconds", "wall_seconds")
        extra = {name: getattr(self, name) for name in names} | {"settings": asdict(self.settings)}
        extra |= {"precision": str(self.precision), "scaler": self.scaler.state_dict()}
        checkpoints.save_checkpoint(self.folder / name, self.model, self.optimizer, step=self.step, **extra)
        self.saved = self.step

    def loss(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """Return the loss of one batch, in the precision that suits the machine."""
        with training.autocast("cpu", self.precision):
            return fast.translation_loss(model, batch, self.settings.smoothing)

    def rate(self, steps: int) -> Callable[[int], float]:
        """Return the learning rate by step: Noam's, with a linear tail."""
        s, tail = self.settings, max(1, round(self.settings.tail * steps))

        def at(step: int) -> float:
            return training.noam_rate(step, s.d_model, s.warmup, s.factor) * training.linear_tail(step, steps, tail)

        return at

    def train(self) -> None:
        """Take the steps that are still to be taken, and evaluate after each epoch."""
        if len(self.curve) == self.settings.epochs:
            return
        ends = [0]
        for epoch in range(self.settings.epochs):
            ends.append(ends[-1] + len(self.epoch_batches(epoch)))
        with fast.enabled(), tqdm(total=ends[-1], initial=self.step, unit="step") as bar:
            for epoch in range(len(self.curve), self.settings.epochs):  # one that wasn't evaluated is not over
                self._steps(self.epoch_batches(epoch)[self.step - ends[epoch] :], self.rate(ends[-1]), bar)
                self._end_epoch(bar)

    def _steps(self, todo: list[Batch], rate: Callable[[int], float], bar: tqdm) -> None:
        parts = self.model, todo, self.loss, self.optimizer, rate
        for loss in accumulation.train_in_groups(*parts, scaler=self.scaler, first=self.step + 1):
            self.step += 1
            self.losses.append(loss)
            bar.update()
            if self.step % SAVE_EVERY == 0:
                self._count_time()
                self.save(LAST)

    def _count_time(self) -> None:
        """Add the time since the last call: what a stop throws away with its steps is not in the record."""
        now = _now()
        self.cpu_seconds += now[0] - self._since[0]
        self.wall_seconds += now[1] - self._since[1]
        self._since = now

    def _end_epoch(self, bar: tqdm) -> None:
        with training.autocast("cpu", self.precision):
            validation = training.evaluate(self.model, batches(self.validation, 2 * self.settings.tokens_per_batch))
        self._count_time()
        row = {"step": self.step, "train_loss": round(sum(self.losses) / len(self.losses), 4)}
        row |= {"validation_loss": round(validation, 4), "cpu_minutes": round(self.cpu_seconds / 60, 2)}
        best = all(row["validation_loss"] < before["validation_loss"] for before in self.curve)
        self.curve.append(row)
        self.losses = []
        if best:
            self.save(BEST)
        self.save(LAST)
        bar.set_postfix_str(f"validation {validation:.3f} nats per token")
        bar.write(json.dumps(row))

    def best(self) -> translator.Translator:
        """Return the translator with the lowest loss on the validation set, its weights rounded as they ship."""
        model = Transformer(self.settings.config(len(self.tokeniser)))
        checkpoints.load_checkpoint(self.folder / BEST, model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(parameter.half())
        return translator.Translator(model.eval(), self.tokeniser)


def _settings(path: Path) -> dict[str, Any]:
    content = path.read_text(errors="replace")
    try:
        return dict(json.loads(content))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} must hold a run's settings, got {content[:40]!r}: --fresh starts anew") from error


def _demand_same(wanted: dict[str, Any], got: dict[str, Any], path: Path) -> None:
    got = UNSAID | got
    other = [name for name in wanted if got.get(name) != wanted[name]]
    if other:
        this, that = (", ".join(f"{name} = {values.get(name)}" for name in other) for values in (wanted, got))
        how = "give another folder with --folder, or --fresh to start anew"
        raise ValueError(f"{path} is of a run with {that}; this one has {this}: {how}")


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()
