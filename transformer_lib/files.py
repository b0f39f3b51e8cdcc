"""Files that are either whole or as they were: written under a temporary name, then renamed."""

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: str | Path, content: bytes) -> None:
    """Write `content` to `path` so that a reader sees the old file or the new one, never a part.

    Raises:
        OSError: the disk is full or the folder can't be written; the old file is kept and no temporary file is left.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_and_rename(path, content)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written and is as it was: {error.strerror}") from error


def _write_and_rename(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes it readable by its owner alone
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0o077)  # it can't be read without being set
    os.umask(mask)
    return mask
