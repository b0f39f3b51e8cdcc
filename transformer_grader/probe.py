"""Does the sandbox hold? Tried at the start of every run: where it doesn't, nothing is run."""

import json
import os
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path

from transformer_grader import sandbox
from transformer_grader.limits import Limits
from transformer_grader.sandbox import Box, NoSandbox
from transformer_grader.session import Runner
from transformer_grader.task import Call, Task
from transformer_lib.exercises.declared import Case

TRIAL = """
import os, socket, resource
PLACES = [f"{place}/trial-of-the-grader" for place in ("", "/usr", "/etc", "/grader", "/library", "/dev")]
def _tried(action):
    try:
        return bool(action())
    except BaseException:
        return False
def _forks():
    pids = []
    try:
        for _ in range(200):
            pid = os.fork()
            if pid == 0:
                import time; time.sleep(30); os._exit(0)
            pids.append(pid)
    except OSError:
        return False
    finally:
        for pid in pids: os.kill(pid, 9)
    return True
def _written(path):
    with open(path, "w"): os.remove(path)
    return True
def _unshared():
    import ctypes
    return ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0
def trial(canary, parent):
    interfaces = [name for _, name in socket.if_nameindex()]
    tried = {
        "read a file of the host": lambda: os.path.exists(canary),
        "see the host's processes": lambda: len([n for n in os.listdir("/proc") if n.isdigit()]) > 5,
        "reach the network": lambda: interfaces not in ([], ["lo"]),
        "be root": lambda: 0 in (os.getuid(), os.geteuid()) or os.setuid(0) is None,
        "write to the system": lambda: any(_tried(lambda p=p: _written(p)) for p in PLACES),
        "fork without end": _forks,
        "make a user namespace": _unshared,
        "lift its limits": lambda: resource.setrlimit(resource.RLIMIT_NPROC, (10**5, 10**5)) is None,
        "see the host's environment": lambda: "TRANSFORMER_GRADER_CANARY" in os.environ,
    }
    return [name for name, action in tried.items() if _tried(action)]
"""


def breaches(box: Box, limits: Limits) -> list[str]:
    """Return what a sandbox lets through that it mustn't; each is tried for real.

    Raises:
        NoSandbox: none can be started.
    """
    text = json.dumps({"cells": [{"cell_type": "code", "source": TRIAL}]}).encode()
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder) / secrets.token_hex(8)
        canary.write_text("seen")
        os.chmod(folder, 0o755)  # so that nothing but the sandbox hides it
        os.environ["TRANSFORMER_GRADER_CANARY"] = "1"
        call = Call(("0", "", 0), "0", "function", Case("", {"canary": str(canary), "parent": os.getpid()}))
        task = Task({"0": {"name": "trial"}}, [call], torch=False)
        quick = replace(limits, call_seconds=30.0, cell_seconds=30.0, restarts=0)
        transcript = Runner(box, 0, quick, task, text).run()
    outcome = transcript.outcomes.get(call.key)
    if outcome is None or outcome.errors or not isinstance(outcome.value, tuple):
        raise NoSandbox(f"no sandbox: the trial did not come back: {transcript.trouble or outcome}")
    return [str(name) for name in outcome.value]


def trusted(box: Box, limits: Limits, kept_out: list[Path]) -> Box:
    """Return the box if it holds.

    Raises:
        NoSandbox: it doesn't, or it could read what must be kept out.
    """
    if problems := sandbox.exposed(kept_out):
        raise NoSandbox(f"no sandbox: {'; '.join(problems)}")
    if found := breaches(box, limits):
        raise NoSandbox(f"no sandbox: in it one can {', '.join(found)}")
    return box
