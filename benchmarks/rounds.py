"""Timing in turns: every contender once a round, so that a busy moment of the machine hits all of them alike."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from tools import ROOT
from tools.train import keep_memory

ROUNDS = 5
# After a contender's name: its process keeps what it frees, as `make train` does; or, of the kernels that oneDNN
# compiles for each shape of matrices in 16 bits, it keeps 16 instead of 1,024.
KEPT, FEW = ", freed memory kept", ", 16 kernels kept"


def in_turns(contenders: dict[str, Callable[[], float]], rounds: int, before: int = 0) -> dict[str, list[float]]:
    """Return what each contender gave in each round; the order turns by one from round to round.

    Args:
        before: rounds that aren't counted, ahead of the others.

    Raises:
        ValueError: there are fewer than two rounds to take a median of, or no contender.
    """
    if rounds < 2 or not contenders:
        raise ValueError(f"wanted at least 2 rounds of at least 1 contender, got {rounds} of {len(contenders)}")
    names, found = list(contenders), {name: [] for name in contenders}
    for turn in range(before + rounds):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            found[name].append(contenders[name]())
    return {name: own[before:] for name, own in found.items()}


def interleaved(contenders: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return each contender's CPU seconds in each round, after one round that isn't counted; all in this process.

    Raises:
        ValueError: as `in_turns`.
    """
    return in_turns({name: partial(cpu_seconds, call) for name, call in contenders.items()}, rounds, before=1)


def apart(module: str, names: Iterable[str], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return what each contender gives in each round, each turn in a new process, as its user would run it.

    In one process, what a contender leaves of the heap would slow or speed the next.

    Args:
        module: a module of this folder that, run as a program with a name, prints the number, such as seconds.

    Raises:
        ValueError: as `in_turns`.
    """
    return in_turns({name: partial(in_new_process, module, name) for name in names}, rounds)


def cpu_seconds(call: Callable[[], Any]) -> float:
    """Return what a call takes of the processor's time.

    On one thread it's the clock's on a quiet machine, and other programs disturb it far less.
    """
    gc.collect()
    started = time.process_time()
    call()
    return time.process_time() - started


def print_seconds(call: Callable[[], Any]) -> None:
    """Print the CPU seconds of a call, after one that isn't counted."""
    call()
    print(cpu_seconds(call))


def settled(name: str) -> str:
    """Set this process up for a contender; return the contender's name, without `KEPT` and `FEW`."""
    torch.set_num_threads(1)
    if name.endswith(KEPT):
        keep_memory()
    if name.endswith(FEW):
        os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = "16"  # read when it multiplies for the first time
    return name.removesuffix(KEPT).removesuffix(FEW)


def in_new_process(module: str, *arguments: str) -> float:
    """Return the number that a module of this folder prints last when a new Python runs it as a program.

    Args:
        module: its name, without the folder's.
        arguments: its command line.

    Raises:
        RuntimeError: it ended with an error, whose last words are given.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join([module, *arguments])}: {done.stderr[-1000:]}")
    return float(done.stdout.split()[-1])


def ratios(seconds: dict[str, list[float]], base: str, work: dict[str, float] | None = None) -> dict[str, Any]:
    """Return for each contender its speed over the base's: the median over the rounds, the lowest and the highest.

    Args:
        base: the contender whose speed is 1.
        work: what each contender did in a round, such as tokens; None if all did the same.

    Raises:
        ValueError: there is no such base.
    """
    if base not in seconds:
        raise ValueError(f"base must be one of {', '.join(seconds)}, got {base!r}")
    done = dict.fromkeys(seconds, 1.0) if work is None else work
    speeds = {name: [done[name] / second for second in found] for name, found in seconds.items()}
    found = {}
    for name, own in speeds.items():
        each = [mine / other for mine, other in zip(own, speeds[base], strict=True)]
        found[name] = {
            "ratio": round(statistics.median(each), 3),
            "lowest": round(min(each), 3),
            "highest": round(max(each), 3),
            "seconds": round(statistics.median(seconds[name]), 4),
        }
        if work is not None:
            found[name]["per_second"] = round(statistics.median(own), 1)
    return found
