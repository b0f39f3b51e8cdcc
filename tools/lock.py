"""One process at a time in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no such lock: there nobody is kept out
    fcntl = None

LOCK = "lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder while the block runs; the lock goes with the process, even if it is killed.

    Raises:
        OSError: the folder can't be made or written.
        ValueError: another run is at work there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                how = "wait for its end, or give another folder with --folder"
                raise ValueError(
                    f"{folder} must be used by one run at a time, got another at work there: {how}"
                ) from error
        yield
