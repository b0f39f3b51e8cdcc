"""How much a submission may take, and how a row may end."""

from dataclasses import asdict, dataclass

UNSANDBOXED = "unsandboxed"
STATUSES = ("graded", "timeout", "crashed", "unreadable", "missing", "needs-review")
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes for one submission.

    Args:
        start_seconds: for a sandbox to be ready (importing torch).
        cell_seconds: for one cell; past it the cell is interrupted, past a second more it is killed.
        call_seconds: the same, for one call of an answer.
        total_seconds: for everything of one submission, restarts among it.
        restarts: how often a submission is started anew without the part that hung or crashed.
        memory: of all its processes together, and of addresses for each (twice that).
    """

    start_seconds: float = 60.0
    cell_seconds: float = 20.0
    call_seconds: float = 5.0
    total_seconds: float = 180.0
    restarts: int = 4
    memory: int = 2048 * MEGABYTE
    disk: int = 64 * MEGABYTE
    processes: int = 32
    notebook_bytes: int = 64 * MEGABYTE
    reply_bytes: int = 64 * MEGABYTE

    def inside(self, uid: int | None) -> dict[str, int | None]:
        """Return the limits that a sandbox's first process sets for itself."""
        most = {"memory": 3 * self.memory, "cpu": int(self.total_seconds) + 1, "file": self.disk}
        return most | {"processes": self.processes, "uid": uid}

    def text(self) -> str:
        """Return what enters a result's fingerprint."""
        return repr(sorted(asdict(self).items()))
