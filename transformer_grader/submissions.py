"""What was handed in: a folder's notebooks, each with its owner. No link is followed, nothing but .ipynb is opened."""

import os
import re
import stat
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

from transformer_grader import roster
from transformer_grader.roster import Student

ENTRIES, DEPTH = 20_000, 6  # at most
LEFT_ASIDE = ("__MACOSX",)
NOTEBOOK = re.compile(r"\.ipynb(\.txt|\.json)?$", re.IGNORECASE)  # some browsers add an ending of their own
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
    """Return student's id -> what they handed in, and the notebooks that belong to nobody, or to more than one.

    Raises:
        ValueError: there is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"the submissions must be a folder, got {folder}")
    files: dict[str, list[Path]] = {student.id: [] for student in students}
    orphans: list[str] = []
    known = roster.by_key(students)
    for entry in entries(folder):
        label = entry.name if is_folder(entry) else re.sub(r"( \(\d+\)|-\d+)?(\.ipynb)?\.\w+$", "", entry.name)
        owners = roster.owner(label, known)
        for path in walk(entry) if is_folder(entry) else [entry]:
            if len(owners) == 1:
                files[owners[0].id].append(path)
            elif NOTEBOOK.search(path.name):
                orphans.append(f"{path.relative_to(folder)!s}: {'nobody' if not owners else 'more than one'}")
    return files, orphans


def entries(folder: Path) -> list[Path]:
    """Return what lies in a folder, without what systems leave there.

    Raises:
        ValueError: it can't be read, or it's too full.
    """
    try:
        with os.scandir(folder) as found:
            names = sorted(entry.name for entry in islice(found, ENTRIES + 1))
    except OSError as error:
        raise ValueError(f"a folder of submissions must be readable, got {error}") from error
    if len(names) > ENTRIES:
        raise ValueError(f"a folder of submissions must hold at most {ENTRIES} entries, got more in {folder}")
    return [folder / name for name in names if not name.startswith(".") and name not in LEFT_ASIDE]


def walk(folder: Path, depth: int = 1) -> list[Path]:
    """Return what lies below a folder; one that can't be read, is too deep or too full stands for itself."""
    paths: list[Path] = []
    try:
        for path in entries(folder) if depth <= DEPTH else [folder]:
            paths += walk(path, depth + 1) if is_folder(path) and path != folder else [path]
    except ValueError:
        return [folder]
    return paths if len(paths) <= ENTRIES else [folder]


def is_folder(path: Path) -> bool:
    """Tell whether a path is a folder itself, and no link to one."""
    return path.is_dir() and not path.is_symlink()


def is_plain(path: Path) -> bool:
    """Tell whether a path is a file itself: no link, pipe or folder."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def chosen(files: list[Path], stem: str, deadline: datetime | None) -> Submission:
    """Return what counts of a student's files: of the notebooks of the assignment's name the last one saved.

    Late is what Canvas marks so, or what was saved after the deadline.
    """
    plain = [path for path in files if is_plain(path)]
    notebooks = [path for path in plain if NOTEBOOK.search(path.name)]
    submission = Submission()
    refused = [path.name for path in plain if path.suffix.lower() in REFUSED]
    if refused := sorted(refused + [f"{path.name} (no plain file)" for path in files if path not in plain]):
        submission.notes.append(f"not opened: {', '.join(refused)[:200]}")
    if not notebooks:
        other = ", ".join(path.name for path in plain if path.suffix.lower() not in REFUSED)
        submission.notes += [f"no notebook, but {other[:200]}"] if other else []
        return submission
    named = [path for path in notebooks if stem.lower() in path.name.lower()]
    times = {path: (saved(path), path.name) for path in named or notebooks}
    submission.path = max(times, key=times.__getitem__)
    if len(notebooks) > 1:
        submission.notes.append(f"{len(notebooks)} notebooks, the newest counts: {submission.path.name}")
        submission.unclear = not named
    marked = any(re.search(r"(^|_)late_", part, re.IGNORECASE) for part in submission.path.parts[-2:])
    submission.late = marked or (deadline is not None and saved(submission.path) > deadline)
    return submission


def saved(path: Path) -> datetime:
    """Return when a file was saved; the last moment there is, where its date is none."""
    try:
        return datetime.fromtimestamp(path.lstat().st_mtime, tz=timezone.utc)
    except (OSError, OverflowError, ValueError):
        return datetime.max.replace(tzinfo=timezone.utc)


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
