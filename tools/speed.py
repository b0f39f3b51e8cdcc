"""The page of measurements beside other libraries, `book/speed.md`, made from `book/results/benchmarks/*.json`.

`python -m tools.speed` checks that the page is what the files say; `--write` makes it. `make bench` makes the files.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from tools import ROOT, cells, pages, quality_picture
from tools.results import about
from tools.training_settings import Settings, command

PAGE, RECORDS = Path("book/speed.md"), Path("book/results/benchmarks")
HEAD = """\
# How fast, how large, how good

This library is written to be read. It's also meant to be quick: the chapters list the clear form of each piece, and
where a faster form pays, it stands in `transformer_lib.fast`, tested equal to the clear one. This page measures both
beside other libraries that you might have picked.

How to read the tables: all contenders of a table take turns, round by round, on one thread. In training, decoding and
memory each has a process of its own, as if you ran it alone. A *ratio* is a contender's speed over that of the row with
ratio 1, in the same round; given are the median over the rounds, the lowest and the highest. Seconds are of the
processor. Other machines give other seconds, and similar ratios if they too
compute in bfloat16; where one doesn't, `autocast` and "default" mean float32, and those rows say little.
`make bench` measures all of it again, except the last table: that one is of whole training runs.
"""
# Each section: its file, its title, what is done there and how to read it.
SECTIONS: dict[str, tuple[str, str]] = {
    "training": (
        "Training",
        """\
The translator of [chapter 7](../notebooks/07_training.ipynb) in a middling size: width 256, 8 heads, 3 + 3 layers,
1,024 hidden units, a vocabulary of 8,000, batches of about 2,048 target tokens of Multi30k. Everyone gets the same
batches, Adam, and the same smoothed loss.

The first row is PyTorch's own module, as most people train it. `autocast` is the same model with its matrix products in
bfloat16. "As ours" is PyTorch's module with this book's choices: one table for embeddings and output, dropout only
where the paper has it, Adam in one kernel. Compare like with like: our float32 with the float32 rows, our default with
the autocast rows. The last column counts target tokens.

In float32 the rows differ by what is computed at all: fewer dropouts, no logits for padding. In bfloat16 there is a
second cause, [attention](#attention-against-length). For sentences as short as these, PyTorch's fused kernel is slow
there, and whoever has no dropout on the attention weights gets it. That's why "as ours" gains less by autocast than
PyTorch's module with its dropouts. The library multiplies explicitly at these lengths.

The rows of products are the ceiling. They only multiply matrices of the sizes that a training step multiplies by its
weights, and do nothing else: no attention, no softmax, no loss, no optimiser. What computes the same model in the same
precision can hardly be faster.

A part of each row is the allocator's. On Linux, a large tensor's memory goes back to the system when it's freed, and is
taken anew, page by page, for the next one. In the rows "freed memory kept" the process doesn't give it back. That's one
call, `mallopt`, and `make train` makes it. PyTorch's module gains most: it holds the largest tensors. With kept memory
on both sides, float32 like for like differs by some 6 in a hundred, against 15 without.""",
    ),
    "decoding": (
        "Decoding",
        """\
200 sentences of Multi30k, twenty new tokens each, random weights of the same size; the last column counts sentences.
The first row is what tutorials do: one sentence at a time, the whole prefix through the decoder for every token. It's
so slow that it gets 24 of the sentences only. Batches of 64 gain much of the
difference, the cache of [chapter 8](../notebooks/08_decode.ipynb) the rest. In bfloat16 the weights are half as large:
`fast.narrowed`.""",
    ),
    "loading": (
        "Batches of similar length",
        """\
The same models, trained on batches of similar length (about 2,048 target tokens) and on 128 sentences as they come. The
ratio is for each model by itself. Work on padding is work for nothing; the faster form skips it in the loss, so it
loses less. The column before the last counts target tokens.""",
    ),
    "memory": (
        "Memory",
        """\
Each contender trains in a process of its own: the most that the process ever held, and the same without Python and
PyTorch themselves. Here a *smaller* ratio is better.""",
    ),
    "startup": (
        "Starting",
        """\
A new Python process: importing PyTorch, then what each library adds. Here a *smaller* ratio is better.""",
    ),
    "notebooks": (
        "The notebooks",
        """\
Each notebook of chapters and solutions, executed one after the other as it is stored.""",
    ),
}
# What is said of some rows of a section, where the record has them: a part of their names, and the text.
REMARKS: dict[str, tuple[str, str]] = {
    "memory": (
        "kernels kept",
        """\
In bfloat16 the numbers are half as long, and yet the process is larger. oneDNN, which multiplies them on a processor,
compiles a kernel for each new shape of matrices, and batches of similar length come in many shapes. It keeps the last
1,024 kernels. The rows "16 kernels kept" set `ONEDNN_PRIMITIVE_CACHE_CAPACITY=16`, and compile more often instead; what
that costs in time stands in the last row of [training](#training).""",
    ),
}
BUDGETS = (15, 30, 60)  # minutes of computing time
QUALITY = """\
## Quality for computing time

German to English on Multi30k's test set of 2016: cased sacreBLEU with five beams and greedy, the computing time on one
core, and how many parameters. The loss is that of the validation set, in nats per token; it alone chose the settings,
the test set chose none. Each run is from scratch with the seed given, by `make train` with the arguments given. Where
two rows differ in the seed alone, compare them first: a smaller difference between two other rows says nothing.

```{raw} html
:file: quality.svg
```

*Each mark is a training run. Filled marks (rotary positions) lie a point or two above hollow ones of the same width, or
reach them in little more than half of the time. For a quarter of an hour width 192 is best, for an hour 256.*

Two changes helped, and cost little. *Rotary positions* {cite}`su2021` turn queries and keys by their places;
[chapter 4](../notebooks/04_positions.ipynb) builds them: `--positions rotary`. *BPE dropout* {cite}`provilkov2020`
splits the source sentences into other pieces in every epoch, by leaving out a join now and then: `--bpe-dropout`. The
filled marks near an hour have both.

What to choose, if you have so much computing time on a core: the run with the lowest validation loss.
"""
DEFAULT = """\
`make train` without arguments takes the settings for a quarter of an hour. What the library *ships* is another, and the
smallest: the model of 2017, which chapters 7 to 9 explain and look into. `make train ARGS=--of-2017` trains one like
it. (Leave `--ship` out, and the one that is there stays.) A run that is done joins the table by
`python -m benchmarks.quality FOLDER`.
"""
UNITS = {"per_second": "a second", "ratio": "ratio"}


def records(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Return each benchmark's file by its name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((root / RECORDS).glob("*.json"))}


def page(found: dict[str, dict[str, Any]]) -> str:
    """Return the whole page as MyST Markdown."""
    parts = [HEAD]
    for name, (title, text) in SECTIONS.items():
        if name in found:
            parts += [f"## {title}\n\n{text}\n", table(found[name]["rows"])]
            part, remark = REMARKS.get(name, ("", ""))
            if part and any(part in row for row in found[name]["rows"]):
                parts.append(remark + "\n")
            parts.append(made(name, found[name]))
    if "attention" in found:
        parts.append(attention(found["attention"]))
    if "quality" in found:
        parts.append(quality(found["quality"]))
    return "\n".join(parts).rstrip("\n") + "\n"


def made(name: str, record: dict[str, Any]) -> str:
    """Return how a table was made, folded away."""
    rounds = f"- rounds: {record['rounds']}\n" if "rounds" in record else ""
    return f"```{{dropdown}} How this was made\n{about(f'benchmarks/{name}', record)}{rounds}```\n"


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return rows of numbers, a column for each kind of number that one of them has."""
    kinds = list(dict.fromkeys(kind for row in rows.values() for kind in row))
    lines = ["| | " + " | ".join(UNITS.get(kind, kind) for kind in kinds) + " |", "|---|" + "---:|" * len(kinds)]
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(shown(row.get(kind)) for kind in kinds) + " |")
    return "\n".join(lines) + "\n"


def shown(value: float | None) -> str:
    """Return a number with two decimals or three digits that count, whole above a thousand; nothing for None."""
    if value is None:
        return ""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 10 and isinstance(value, float) else f"{value:.3g}"


def attention(record: dict[str, Any]) -> str:
    """Return the section on attention against length: speed relative to the explicit form, and memory."""
    head = """\
## Attention against length

Forward and backward through causal attention, {heads} heads of {d_k}, {tokens a pass:,} tokens a pass. Speed is over
that of the form that [chapter 2](../notebooks/02_attention.ipynb) lists. On a CPU, PyTorch's fused kernel wins in
float32 at any length, and in bfloat16 only for long sequences: its backward pass is slow for short ones. The library
chooses by that.
"""
    head = head.format_map(record)
    speed = {name: {form: one["ratio"] for form, one in row.items()} for name, row in record["speed"].items()}
    memory = """\
The explicit form holds a score for every pair of positions, so its memory grows with the square of the length; the
fused one never does. In MiB, forward and backward, one sequence, float32:
"""
    return "\n".join([head, table(speed), memory, table(record["MiB of one sequence"]), made("attention", record)])


def quality(record: dict[str, Any]) -> str:
    """Return the section on translation quality for computing time."""
    runs, columns = record["runs"], record["columns"]
    chosen = {f"{minutes} minutes: {run['name']}": {key: run[key] for key in columns} for minutes, run in best(runs)}
    commands = "\n".join(f"- {run['name']}: `{command(Settings(**run['settings']))}`" for run in runs)
    means = over_seeds(runs, columns)
    return "\n".join(
        [
            QUALITY,
            table(chosen),
            DEFAULT,
            "All runs:\n",
            table({run["name"]: {key: run[key] for key in columns} for run in runs}),
            *(["Means over the seeds of one setting:\n", table(means)] if means else []),
            f"```{{dropdown}} How this was made\n{commands}\n- sacreBLEU's signature: `{record['signature']}`\n```\n",
        ]
    )


def best(runs: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return for each budget of computing time the run of the lowest validation loss, if more time finds another."""
    found: list[tuple[int, dict[str, Any]]] = []
    for minutes in BUDGETS:
        within = [run for run in runs if run["CPU-minutes"] <= minutes]
        one = min(within, key=lambda run: run["validation loss"], default=None)
        if one is not None and all(one is not other for _, other in found):
            found.append((minutes, one))
    return found


def over_seeds(runs: list[dict[str, Any]], columns: list[str]) -> dict[str, dict[str, Any]]:
    """Return for each setting that was run with several seeds how many they are, and the mean of each column."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        alike.setdefault(run["name"].rsplit(", seed ", 1)[0], []).append(run)
    return {
        name: {"seeds": len(own)} | {key: round(statistics.mean(run[key] for run in own), 3) for key in columns}
        for name, own in alike.items()
        if len(own) > 1
    }


def drawn(root: Path = ROOT) -> dict[Path, str]:
    """Return the page, and the picture on it where there are runs, by their paths."""
    found = records(root)
    made = {PAGE: page(found)}
    if "quality" in found:
        made[quality_picture.PICTURE] = quality_picture.picture(found["quality"]["runs"])
    return made


def problems(root: Path = ROOT) -> list[str]:
    """Say whether the page or its picture is stale, and which file has no section."""
    unknown = set(records(root)) - set(SECTIONS) - {"attention", "quality"}
    said = [f"{RECORDS / name}.json: has no section in tools/speed.py" for name in sorted(unknown)]
    return said + [line for path, text in drawn(root).items() for line in pages.stale(path, text, RECORDS, root)]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Check page and picture, after writing them where `--write` asks for that."""
    write = lambda: [cells.write_text(root / path, text) for path, text in drawn(root).items()]  # noqa: E731
    return pages.run(arguments, "speed", __doc__, write, lambda: problems(root))


if __name__ == "__main__":
    sys.exit(main())
