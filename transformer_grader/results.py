"""One student's result, kept as one small file each, so that an interrupted run goes on where it stopped."""

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from transformer_grader.marking import Mark


@dataclass
class Result:
    """All that is known of one student's submission.

    Args:
        status: one of `limits.STATUSES`.
        reason: why it isn't "graded", or what an instructor should know.
        isolation: what held the student's code: "bwrap" or "unsandboxed".
        why: what the result depends on, part by part, as digests: a second run with the same is the same.
        cells: what stopped a cell, by its number: written by the student's process, and treated so.
        open: exercise -> text of an open answer.
        open_points: exercise -> points that a person gave.
    """

    student: str
    status: str
    reason: str = ""
    marks: list[Mark] = field(default_factory=list)
    late: bool = False
    factor: float = 1.0
    isolation: str = ""
    why: dict[str, str] = field(default_factory=dict)
    cells: dict[str, str] = field(default_factory=dict)
    open: dict[str, str] = field(default_factory=dict)
    open_points: dict[str, float] = field(default_factory=dict)

    @property
    def code_points(self) -> float:
        """Return the points for code, before anything is taken off for lateness."""
        return round(sum(mark.points for mark in self.marks), 2)

    @property
    def points(self) -> float:
        """Return all points that are known so far."""
        return round((self.code_points + sum(self.open_points.values())) * self.factor, 2)


def key(student: str) -> str:
    """Return a name for a student's files: never the id itself, which may hold anything."""
    return hashlib.sha256(student.encode()).hexdigest()[:16]


def digest(data: bytes) -> str:
    """Return a short digest."""
    return hashlib.sha256(data).hexdigest()[:16]


class Store:
    """The results of a run, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "results"
        self.folder.mkdir(parents=True, exist_ok=True)

    def load(self, student: str) -> Result | None:
        """Return a student's result, None where there is none or half of one."""
        try:
            fields = json.loads((self.folder / f"{key(student)}.json").read_text(encoding="utf-8"))
            return Result(**(fields | {"marks": [Mark(**one) for one in fields["marks"]]}))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def save(self, result: Result) -> None:
        """Keep a result."""
        write(self.folder / f"{key(result.student)}.json", json.dumps(asdict(result), ensure_ascii=True, indent=1))


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with open(handle, "w", encoding="utf-8", newline="", errors="backslashreplace") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
