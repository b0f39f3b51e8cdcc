"""How much memory a sandbox's processes hold together, seen from outside."""

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable

WRITABLE = ("tmp", "dev/shm")  # in a sandbox
ENTRY = 1024  # bytes that the kernel keeps for a file, even an empty one
LISTED = os.path.exists("/proc/thread-self/children")  # most kernels list them


def of_family(root: int) -> int:
    """Return the bytes that a process and all of its descendants hold for themselves."""
    children = _listed if LISTED else _searched()
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        total += _own(pid)
        waiting += children(pid)
    return total


def of_files(root: int, most: int) -> int:
    """Return the bytes that a sandbox's files in memory take, with what the kernel keeps for each of them.

    Args:
        most: how large such a file system is; another one is the host's, as it is before the sandbox is ready.
    """
    total = 0
    for place in WRITABLE:
        with contextlib.suppress(OSError):
            found = os.statvfs(f"/proc/{root}/root/{place}")
            if found.f_blocks * found.f_frsize <= most:
                total += (found.f_blocks - found.f_bfree) * found.f_frsize + (found.f_files - found.f_ffree) * ENTRY
    return total


def _listed(pid: int) -> list[int]:
    """Return a process's children, which each of its threads may have."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
    return found


def _searched() -> Callable[[int], list[int]]:
    """Return the same from a look at every process of the machine."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))) is not None:
            children[parent].append(int(name))
    return lambda pid: children.get(pid, [])


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def _own(pid: int) -> int:
    """Return the pages of a process that aren't of a file; what forks share counts for each."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            rows = dict(line.split(b":", 1) for line in file if b":" in line)
    except OSError:
        return 0
    return sum(int(rows[name].split()[0]) * 1024 for name in (b"RssAnon", b"RssShmem") if name in rows)
