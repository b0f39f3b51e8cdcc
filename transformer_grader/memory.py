"""How much memory a sandbox's processes hold together, seen from outside."""

import os
from collections import defaultdict

PAGE = os.sysconf("SC_PAGE_SIZE")


def of_family(root: int) -> int:
    """Return the bytes that a process and all of its descendants hold for themselves."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(int(name))) is not None:
            children[parent].append(int(name))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        total += _own(pid)
        waiting += children[pid]
    return total


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
