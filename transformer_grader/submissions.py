"""What was handed in: a folder's notebooks, each with its owner. No link is followed, nothing but .ipynb is opened."""

import os
import re
import stat
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from transformer_grader import roster
from transformer_grader.roster import Student

ENTRIES, DEPTH = 100_000, 5
REFUSED = {".pt", ".pth", ".pkl", ".pickle", ".npy", ".npz", ".joblib"}


@dataclass
class Submission:
    """All that a student handed in.

    Args:
        path: the notebook that counts; None if there is none.
        notes: what the instructor should know of it.
        unclear: whether a person should look which notebook counts.
    """

    path: Path | None = None
    notes: list[str] = field(default_factory=list)
    late: bool = False
    unclear: bool = False


def found(folder: Path, students: list[Student]) -> tuple[dict[str, list[Path]], list[str]]:
    """Return student's id -> their files, and the files that belong to nobody, or to more than one.

    Raises:
        ValueError: there is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"the submissions must be a folder, got {folder}")
    files: dict[str, list[Path]] = {student.id: [] for student in students}
    orphans: list[str] = []
    owners: dict[str, list[Student]] = {}
    for path in walk(folder):
        parts = path.relative_to(folder).parts
        label = parts[0] if len(parts) > 1 else re.sub(r"( \(\d+\)|-\d+)?\.\w+$", "", parts[0])
        if label not in owners:
            owners[label] = roster.owner(label, students)
        if len(owners[label]) == 1:
            files[owners[label][0].id].append(path)
        elif path.suffix == ".ipynb":
            orphans.append(f"{path.relative_to(folder)!s}: {'nobody' if not owners[label] else 'more than one'}")
    return files, orphans


def walk(folder: Path, depth: int = 0) -> list[Path]:
    """Return the plain files below a folder; links and folders that are too deep are left out."""
    if depth > DEPTH:
        return []
    paths: list[Path] = []
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in (".ipynb_checkpoints", "__MACOSX"):
                paths += walk(Path(entry.path), depth + 1)
        elif entry.is_file(follow_symlinks=False) and not entry.name.startswith("."):
            paths.append(Path(entry.path))
        if len(paths) > ENTRIES:
            raise ValueError(f"a folder of submissions must hold at most {ENTRIES} files, got more in {folder}")
    return paths


def chosen(files: list[Path], stem: str, deadline: datetime | None) -> Submission:
    """Return what counts of a student's files: of the notebooks of the assignment's name the last one saved.

    Late is what Canvas marks so, or what was saved after the deadline.
    """
    notebooks = [path for path in files if path.suffix.lower() == ".ipynb"]
    submission = Submission()
    if refused := sorted(path.name for path in files if path.suffix.lower() in REFUSED):
        submission.notes.append(f"not opened: {', '.join(refused)[:200]}")
    if not notebooks:
        return submission
    named = [path for path in notebooks if stem.lower() in path.name.lower()]
    times = {path: (path.lstat().st_mtime, path.name) for path in named or notebooks}
    submission.path = max(times, key=times.__getitem__)
    if len(notebooks) > 1:
        submission.notes.append(f"{len(notebooks)} notebooks, the newest counts: {submission.path.name}")
        submission.unclear = not named
    saved = datetime.fromtimestamp(times[submission.path][0], tz=timezone.utc)
    marked = any(re.search(r"(^|_)late_", part, re.IGNORECASE) for part in submission.path.parts[-2:])
    submission.late = marked or (deadline is not None and saved > deadline)
    return submission


def content(path: Path, most: int) -> bytes:
    """Return a notebook's bytes.

    Raises:
        ValueError: it isn't a plain file, it's empty, or larger than may be.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(f"can't be opened: {error.strerror}") from error
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or not 0 < about.st_size <= most:
            raise ValueError(f"must be a file of at most {most} bytes, got {about.st_size}")
        return file.read(most)
