"""Timing in turns: every contender once a round, so that a busy moment of the machine hits all of them alike."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tools import ROOT

ROUNDS = 5


def interleaved(contenders: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Return each contender's CPU seconds in each round, after one round that isn't counted.

    The order turns by one from round to round. Time of the processor, not of the clock: on one thread both are the same
    on a quiet machine, and other programs disturb the first far less.

    Raises:
        ValueError: there are fewer than two rounds to take a median of, or no contender.
    """
    if rounds < 2 or not contenders:
        raise ValueError(f"wanted at least 2 rounds of at least 1 contender, got {rounds} of {len(contenders)}")
    names, seconds = list(contenders), {name: [] for name in contenders}
    for turn in range(rounds + 1):
        for place in range(len(names)):
            name = names[(place + turn) % len(names)]
            gc.collect()
            started = time.process_time()
            contenders[name]()
            if turn:
                seconds[name].append(time.process_time() - started)
    return seconds


def in_new_process(module: str, *arguments: str, **environment: str) -> float:
    """Return the number that a module of this folder prints last when a new Python runs it as a program.

    Args:
        module: its name, without the folder's.
        arguments: its command line.
        environment: variables to set for it, beside those that are set.

    Raises:
        RuntimeError: it ended with an error, whose last words are given.
    """
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | environment)
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
