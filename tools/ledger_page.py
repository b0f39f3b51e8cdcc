"""The page of the ledger: a count, controls that a small script fills, and one block for each claim."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

HEAD = """\
# What the lecture says, tested

A widely shared lecture on *Attention Is All You Need* {{cite}}`vaswani2017` made many people curious about the
Transformer. It is a lively text, and much of it holds. We went through it sentence by sentence and kept what can be
checked: {total} claims. For each there is a verdict, what is right instead, and where you can see it for yourself.
[About](about.md) says which lecture it is.

A verdict is about the sentence as it stands, not about who said it. *Holds with limits* means that it's true under
conditions that the sentence doesn't name. *Imprecise* means that something true is near. *A way of seeing* can't be
right or wrong. A claim marked **core** has a cell of its own that runs, and asserts what the verdict rests on. Figures
are quoted as the cell has printed them.

{counts}

<div class="ledger-controls" hidden></div>
<script src="../_static/js/ledger.js" defer></script>
"""
CHAPTERS = {
    "start": "On the first page",
    "01": "Chapter 1: recurrence and convolution",
    "02": "Chapter 2: attention",
    "03": "Chapter 3: several heads",
    "04": "Chapter 4: positions",
    "05": "Chapter 5: masks",
    "06": "Chapter 6: encoder and decoder",
    "07": "Chapter 7: training",
    "08": "Chapter 8: decoding",
    "09": "Chapter 9: who is “it”?",
    "10": "Chapter 10: design truths",
    "11": "Chapter 11: BERT, GPT and T5",
}
SPECIAL = re.compile(r"([\\`*_{}\[\]<>$#|~])")


def escape(text: str) -> str:
    """Return text in which Markdown finds nothing to act on."""
    return SPECIAL.sub(r"\\\1", text)


def page(rows: list[dict], targets: dict[str, Any], written: set[str]) -> str:
    """Return the whole page as MyST Markdown."""
    parts = [HEAD.format(total=len(rows), counts=counts(rows))]
    for chapter, title in CHAPTERS.items():
        mine = [row for row in rows if row["chapter"] == chapter]
        if mine:
            parts.append(f"## {title}\n")
            parts += [block(row, targets, written) for row in mine]
    return "\n".join(parts).rstrip("\n") + "\n"


def counts(rows: list[dict]) -> str:
    """Return a table: how many claims have which verdict, of all and of the core ones."""
    every, core = Counter(row["verdict"] for row in rows), Counter(row["verdict"] for row in rows if row["core"])
    lines = ["| Verdict | Claims | of them core |", "|---|---:|---:|"]
    lines += [f"| {verdict} | {number} | {core[verdict]} |" for verdict, number in every.most_common()]
    return "\n".join([*lines, f"| all | {len(rows)} | {sum(core.values())} |"])


def block(row: dict, targets: dict[str, Any], written: set[str]) -> str:
    """Return one claim with its verdict, correction, figure, cell and sources."""
    classes = f"claim verdict-{row['verdict'].replace(' ', '-')} chapter-{row['chapter']}" + (
        " core" if row["core"] else ""
    )
    id_ = f'<span class="claim-id">{row["id"]}</span>'
    verdict = f'<span class="claim-verdict">{row["verdict"]}</span>'
    core = ' <span class="claim-core">core</span>' if row["core"] else ""
    lines = [
        f"(claim-{anchor(row['id'])})=",
        f"```{{container}} {classes}",
        f'{id_} {verdict}{core} <span class="claim-zh" lang="zh-Hans">{escape(row["zh"])}</span>',
        "",
        f"**{escape(row['claim'])}**",
        "",
        escape(row["right"]),
        "",
        evidence(row, targets, written),
        "```\n",
    ]
    return "\n".join(lines)


def evidence(row: dict, targets: dict[str, Any], written: set[str]) -> str:
    """Return the line that says what was measured, where, and what it's taken from."""
    parts = []
    if row["measured"]:
        parts.append(f"*Measured:* {escape(row['measured'].replace('{', '').replace('}', ''))}.")
    if row["cell"] in targets:
        parts.append(f"{{ref}}`Shown in chapter {int(targets[row['cell']].notebook[:2])} <{row['cell']}>`.")
    elif row["core"] and row["chapter"] not in written:
        parts.append(f"*To be shown in chapter {int(row['chapter'])}, which isn't written yet.*")
    if row["sources"]:
        parts.append("*Sources:* " + "; ".join(source(text) for text in row["sources"]) + ".")
    return " ".join(parts)


def source(text: str) -> str:
    """Return a source as a citation and the place in it."""
    key, _, place = text.partition(" ")
    comma = "" if place.startswith("(") else ","
    return f"{{cite}}`{key}`" + (f"{comma} {escape(place)}" if place else "")


def anchor(name: str) -> str:
    """Return a claim's id as it stands in an address: C2.1-09 as c2-1-09."""
    return name.lower().replace(".", "-")
