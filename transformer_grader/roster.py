"""Who is graded: the roster, and which of a folder's files are whose."""

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from transformer_grader import sheets

HEADERS = {
    "id": ("id", "student id", "student_id", "idnumber", "id number", "sis user id"),
    "name": ("name", "student", "full name"),
    "first": ("first name", "given name"),
    "last": ("surname", "last name", "family name"),
    "email": ("email", "email address", "e-mail"),
    "login": ("login", "sis login id", "username"),
    "section": ("section", "group"),
    "participant": ("identifier", "participant"),
}
CANVAS = re.compile(r"(?P<login>[^_]+)_(?:late_)?(?P<id>\d+)_\d+_.*", re.IGNORECASE | re.DOTALL)
MOODLE = re.compile(r"(?P<name>.+)_(?P<participant>\d+)_assignsubmission_.*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Student:
    """One line of the roster."""

    id: str
    name: str = ""
    email: str = ""
    login: str = ""
    section: str = ""
    participant: str = ""

    def known_as(self) -> set[str]:
        """Return what may stand for this student in the name of a file or folder."""
        number = re.sub(r"\D", "", self.participant)
        found = {self.id, self.login, self.email, self.email.partition("@")[0], number, slug(self.name)}
        return {plain(key) for key in found if key.strip()}


def plain(text: str) -> str:
    """Return a text without differences of case and of Unicode's forms."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


def slug(text: str) -> str:
    """Return the letters and figures of a text."""
    return re.sub(r"[\W_]+", "", plain(text))


def read(path: Path) -> list[Student]:
    """Return the students on a roster: a CSV with a column of ids; an export of Canvas or Moodle will do.

    Raises:
        ValueError: it has no such column, no student, an empty id, or one twice.
    """
    rows = [row for row in sheets.read(path) if any(cell.strip() for cell in row)]
    header = [plain(cell) for cell in rows[0]] if rows else []
    columns = {f: next((header.index(n) for n in names if n in header), None) for f, names in HEADERS.items()}
    if columns["id"] is None and columns["email"] is None:
        raise ValueError(f"{path} must have a column named id, got {', '.join(header) or 'an empty file'}")
    students = [_student(row, columns) for row in rows[1:]]
    students = [one for one in students if not one.name.startswith("Points Possible")]  # Canvas's second line
    if not students:
        raise ValueError(f"{path} must have a line for each student, got none")
    seen: set[str] = set()
    for one in students:
        if not one.id or one.id in seen:
            raise ValueError(f"{path}: each student must have an id of their own, got {one.id!r} for {one.name!r}")
        seen.add(one.id)
    return students


def _student(row: list[str], columns: dict[str, int | None]) -> Student:
    found = {f: row[n].strip() if n is not None and n < len(row) else "" for f, n in columns.items()}
    name = found["name"] or f"{found.pop('first')} {found.pop('last')}".strip()
    kept = {field: found[field] for field in ("email", "login", "section", "participant")}
    return Student(found["id"] or found["email"], name, **kept)


def by_key(students: list[Student]) -> dict[str, list[Student]]:
    """Return what may stand for a student in a name -> whom it may stand for."""
    found: dict[str, list[Student]] = {}
    for student in students:
        for key in student.known_as():
            found.setdefault(key, []).append(student)
    return found


def owner(label: str, known: dict[str, list[Student]]) -> list[Student]:
    """Return the students that the name of a folder or file may stand for: none, one, or more where it's unclear.

    Args:
        known: what `by_key` returns.
    """
    for texts in _readings(label):
        wanted = {plain(text) for text in texts} | {slug(text) for text in texts if len(slug(text)) > 3}
        if found := list(dict.fromkeys(student for key in sorted(wanted) for student in known.get(key, []))):
            return found
    return []


def _readings(label: str) -> list[list[str]]:
    """Return the texts that a label holds, the surest first: all of it, Canvas's and Moodle's parts, its words."""
    readings = [[label]]
    if match := MOODLE.fullmatch(label):
        readings += [[match["participant"]], [match["name"]]]
    if match := CANVAS.fullmatch(label):
        readings += [[match["id"]], [match["login"]]]
    return [*readings, [word for word in re.split(r"[_\s]+", label) if word]]
