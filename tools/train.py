"""Train the German-to-English translator: `python -m tools.train` (or `make train`).

Progress is shown, an interrupted run goes on where it stopped, the best state on the validation set is kept, the test
set is translated and scored, and a record is written. `--toy` does the same on the toy grammar, without any download.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics import BLEU

from tools import LIBRARY, ROOT, lock
from tools.record import surroundings
from tools.training_run import Run, forget
from tools.training_settings import USUAL, Corpus, Settings, multi30k_corpus, toy_corpus
from transformer_lib import checks, fast, files, multi30k, translator
from transformer_lib.experiments.steps import count_parameters

RESULTS = ROOT / "book" / "results"
SHIPPED = ROOT / LIBRARY / "weights" / "de_en"
TOY = {"epochs": 4, "vocabulary": 300, "d_model": 64, "d_ff": 128, "layers": 2, "warmup": 100}
PACKAGES = ("torch", "numpy", "tokenizers", "sacrebleu")


def scores(hypotheses: list[str], references: list[str]) -> dict[str, Any]:
    """Return sacreBLEU with its signature, and beside it the lower-cased score by its own name."""
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
        path = record.with_name(f"{record.stem}_{name.replace(' ', '_')}.txt")
        files.write_whole(path, "".join(line + "\n" for line in hypotheses).encode())
        found[name]["hypotheses"] = path.name
    return found


def write_record(run: Run, results: dict[str, Any], path: Path, command: str) -> None:
    """Write what was run, on what, and what came of it."""
    record = {"command": command, "settings": asdict(run.settings), "parameters": count_parameters(run.model)}
    record |= surroundings(PACKAGES) | {"precision": str(run.precision), "steps": run.step}
    record |= {"cpu_minutes": round(run.cpu_seconds / 60, 2), "wall_minutes": round(run.wall_seconds / 60, 2)}
    record |= {"curve": run.curve, "test": results}
    files.write_whole(path, (json.dumps(record, indent=1) + "\n").encode())


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
        other = [f", with --toy {TOY.get(name, default)}" if name in TOY or name in USUAL else ""]
        other += [f", with --of-2017 {default}" if name in USUAL else ""]
        about = f"default {USUAL.get(name, default)}{''.join(other)}"
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), help=about)
    parser.add_argument("--toy", action="store_true", help="the toy grammar instead of Multi30k: no download")
    about = "the model of 2017 that chapter 7 explains and the library ships; --ship means this one, too"
    parser.add_argument("--of-2017", action="store_true", help=about)
    parser.add_argument("--folder", type=Path, help="where checkpoints go; default runs/de_en_seed1 and the like")
    parser.add_argument("--fresh", action="store_true", help="start anew where the folder holds a run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ship", action="store_true", help="make this the translator that the library ships")
    options = parser.parse_args()
    if options.toy and options.ship:
        parser.error("--ship must be without --toy: the library ships a translator from German, got both")
    return options


def chosen(options: argparse.Namespace) -> Settings:
    """Return the settings: what the command line says, else the default for the data.

    Raises:
        ValueError: a setting is out of range, or two don't fit together.
    """
    given = {name: getattr(options, name) for name in asdict(Settings())}
    given = {name: value for name, value in given.items() if value is not None}
    start = TOY if options.toy else {} if options.ship or options.of_2017 else USUAL
    return Settings(**(start | given))


def corpus(toy: bool) -> Corpus:
    """Return the sentence pairs; where Multi30k is not to be had, say what to do instead."""
    try:
        return toy_corpus() if toy else multi30k_corpus()
    except multi30k.DataUnavailable as error:
        sys.exit(f"{error}\nWithout it, train on the toy grammar: make train ARGS=--toy")


def trained(settings: Settings, data: Corpus, folder: Path, fresh: bool) -> Run:
    """Return a run that has taken all its steps."""
    if fresh:
        forget(folder)
    run = Run(settings, data, folder)
    run.resume()
    pairs, at = len(run.corpus.train), f"from step {run.step}" if run.step else "from the start"
    print(f"{pairs} pairs, {count_parameters(run.model)} parameters, {run.precision}, {at}; checkpoints in {folder}")
    try:
        run.train()
    except KeyboardInterrupt:
        saved = f"step {run.saved}" if run.saved else "the start: no checkpoint has been written yet"
        sys.exit(f"\nStopped after step {run.step}. The same command (without --fresh) goes on from {saved}.")
    return run


def finish(run: Run, record: Path, ship: bool) -> None:
    """Translate the test set, write the record, and ship the translator if that is wanted."""
    for part in record.parent.glob(f"{record.stem}*.part"):  # of a run that was killed while it wrote
        part.unlink(missing_ok=True)
    best = run.best()
    results = translate(best, run.corpus, run.settings.alpha, record)
    command = "make train" + (f" ARGS={shlex.quote(shlex.join(sys.argv[1:]))}" if sys.argv[1:] else "")
    write_record(run, results, record, command)
    for decoder, score in results.items():
        print(f"{decoder}: {score['sacrebleu']} ({score['sacrebleu_signature']})")
        print(f"{decoder}, another metric: {score['lower_cased']} ({score['lower_cased_signature']})")
    if ship:
        about = {"seed": run.settings.seed, "record": record.relative_to(ROOT).as_posix(), "test": results["beam 5"]}
        translator.save_translator(SHIPPED, best, **about)
        files.write_whole(SHIPPED / "record.json", record.read_bytes())  # for chapter 07, without the repository
        print(f"Shipped: {SHIPPED}")
    print(f"Record: {record}")


def main() -> None:
    """Train, translate the test set, write the record."""
    options = arguments()
    keep_memory()
    try:
        checks.positive(threads=options.threads)
        torch.set_num_threads(options.threads)
        settings = chosen(options)
        name = f"{'toy' if options.toy else 'de_en'}_seed{settings.seed}"
        folder = options.folder or ROOT / "runs" / (f"{name}_of_2017" if options.ship or options.of_2017 else name)
        data = corpus(options.toy)  # before the folder is made: where there is none, nothing is left behind
        with lock.alone_in(folder):
            run = trained(settings, data, folder, options.fresh)
            finish(run, (RESULTS if options.ship else folder) / f"translator_{name}.json", options.ship)
    except KeyboardInterrupt:
        sys.exit("\nStopped. The same command (without --fresh) goes on from the last checkpoint.")
    except (OSError, ValueError) as error:
        sys.exit(f"make train: {error}")


if __name__ == "__main__":
    main()
