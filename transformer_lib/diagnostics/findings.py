"""Findings as data, and the table that they print as."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from transformer_lib import checks
from transformer_lib.diagnostics.catalogue import CAUSES

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Args:
        id: its name, a key of `catalogue.CAUSES`.
        severity: "error" (results are wrong), "warning" (very likely a fault) or "note" (good to know).
        evidence: what was seen, in words.
        numbers: what was measured.

    Raises:
        ValueError: the id is not in the catalogue, or the severity is another word.
    """

    id: str
    severity: str
    evidence: str
    numbers: dict[str, float | int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.one_of(SEVERITIES, severity=self.severity)
        checks.one_of(tuple(CAUSES), id=self.id)

    @property
    def chapter(self) -> int:
        """The number of the chapter that explains it."""
        return CAUSES[self.id].chapter

    @property
    def advice(self) -> str:
        """What to try."""
        return CAUSES[self.id].advice

    @property
    def rank(self) -> tuple[bool, int]:
        """Where it stands in a report: notes last, and a cause before what follows from it."""
        return self.severity == "note", list(CAUSES).index(self.id)


@dataclass(frozen=True)
class Report:
    """What was found, causes first, and what could not be checked; printed, it is a table.

    Args:
        findings: in order, the cause that explains most first.
        unchecked: what could not be checked, and why.
    """

    findings: tuple[Finding, ...]
    unchecked: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that are more than a note."""
        return tuple(found for found in self.findings if found.severity != "note")

    @property
    def ids(self) -> list[str]:
        """The names of the faults, in order."""
        return [found.id for found in self.faults]

    @property
    def brief(self) -> str:
        """The faults, each once: what, and what to try; without figures, so that it's the same on any machine."""
        lines = [] if self.faults else ["No fault found."]
        for name in dict.fromkeys(self.ids):
            found = self.faults[self.ids.index(name)]
            lines.append(f"{found.severity:<8} {name:<24} chapter {found.chapter:02d}")
            lines += _wrapped("try:  ", found.advice)
        return "\n".join(lines)

    def __str__(self) -> str:
        lines = [] if self.faults else ["No fault found."]
        for found in self.findings:
            lines.append(f"{found.severity:<8} {found.id:<24} chapter {found.chapter:02d}")
            lines += _wrapped("seen: ", found.evidence)
            lines += _wrapped("try:  ", found.advice)
        if self.unchecked:
            lines.append("Not checked:")
            lines += [line for reason in self.unchecked for line in _wrapped("- ", reason)]
        return "\n".join(lines)

    __repr__ = __str__


def _wrapped(label: str, text: str) -> list[str]:
    first = " " * 9 + label
    return textwrap.wrap(text, 100, initial_indent=first, subsequent_indent=" " * len(first))
