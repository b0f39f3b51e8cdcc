"""What the command line takes, and the secret."""

import argparse
import os
import secrets
from datetime import datetime
from pathlib import Path

from transformer_grader.limits import MEGABYTE, Limits

HOME = Path(__file__).resolve().parents[1]


def named(command: argparse.ArgumentParser, roster_too: bool = True) -> None:
    """Add what each command takes."""
    command.add_argument("chapter", help='such as "02"')
    if roster_too:
        command.add_argument("roster", type=_path, help="a CSV with a column of ids")
    command.add_argument("--out", type=_path, help="where results are (runs/grading/CHAPTER)")
    command.add_argument("--book", type=_path, default=HOME, help="the book's folder, with solutions/")
    command.add_argument("--secret", type=_path, help="file that decides the hidden inputs; made if there is none")
    command.add_argument("--variant", type=_path, help="variant.json of a private variant")


def grading(command: argparse.ArgumentParser) -> None:
    """Add what a run takes."""
    named(command, roster_too=False)
    command.add_argument("submissions", type=_path, help="the folder")
    command.add_argument("roster", type=_path, help="a CSV with a column of ids")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    command.add_argument(
        "--workers", type=_count, default=cores, help=f"how many at a time ({cores}: one for each core)"
    )
    command.add_argument("--deadline", type=_moment, help="such as 2027-05-01T23:59+02:00; later files are late")
    command.add_argument("--late", type=_share, default=1.0, metavar="FACTOR", help="of a late submission's points")
    command.add_argument("--cell-seconds", type=_seconds, default=Limits.cell_seconds)
    command.add_argument("--call-seconds", type=_seconds, default=Limits.call_seconds)
    command.add_argument("--total-seconds", type=_seconds, default=Limits.total_seconds)
    command.add_argument("--memory", type=_count, default=Limits.memory // MEGABYTE, help="megabytes of a submission")
    command.add_argument("--fresh", action="store_true", help="grade anew what has been graded")
    command.add_argument("--unsafe-local", action="store_true", help="run students' code without a sandbox")


def _path(text: str) -> Path:
    return Path(text).expanduser()  # which not every shell does after an equals sign


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _share(text: str) -> float:
    if not 0 <= (number := float(text)) <= 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, got {text}")
    return number


def _seconds(text: str) -> float:
    if not (number := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return number


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


def secret_of(path: Path | None) -> tuple[bytes, Path]:
    """Return the secret, made at the first time; it stands outside of any repository, readable by its owner alone."""
    path = path or Path.home() / ".config" / "transformer-grader" / "secret"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    if len(secret := path.read_bytes().strip()) < 16:
        raise ValueError(f"the secret in {path} must have at least 16 characters, got {len(secret)}")
    return secret, path
