"""One submission, run in a sandbox: its cells, then the hidden inputs, one call at a time.

Where a cell or an answer hangs or ends the process, the sandbox is killed and started anew without that part, so that
it forfeits only what it holds.
"""

import secrets
import time
from collections.abc import Callable
from typing import Any

from transformer_grader import sandbox
from transformer_grader.conversation import Conversation, Ended
from transformer_grader.inside import frames
from transformer_grader.limits import Limits
from transformer_grader.sandbox import Box
from transformer_grader.task import Call, Task, Transcript
from transformer_lib.exercises.declared import Outcome

GRACE = 1.0  # seconds from the soft limit, which an answer can ignore, to the hard one
PIECE = 1 << 20
SPARE = 200  # messages about cells, beyond a few for each


class Runner:
    """Runs one submission until all is answered, or its time or its restarts are spent."""

    def __init__(self, box: Box, slot: int, limits: Limits, task: Task, notebook: bytes) -> None:
        self.box, self.slot, self.limits, self.task, self.notebook = box, slot, limits, task, notebook
        self.transcript, self.skip = Transcript(), set()
        self.deadline = time.monotonic() + limits.total_seconds

    def run(self) -> Transcript:
        """Return what came of it; nothing that the submission does raises."""
        for _ in range(self.limits.restarts + 1):
            self.place: tuple[str, Any] = ("start", None)
            self.transcript.starts += 1
            try:
                with sandbox.started(self.box, self.limits) as process:
                    self._converse(Conversation(process, self.limits, self.deadline), process)
                return self.transcript
            except Ended as ended:
                if not self._blame(ended):
                    return self.transcript
        return self.transcript

    def _blame(self, ended: Ended) -> bool:
        """Note what was lost; tell whether another start makes sense."""
        what, which = self.place
        if what == "cell":
            self.skip.add(which)
            self.transcript.cells[which] = ended.status
        elif what == "call":
            self.transcript.lost[which] = ended.status
        else:
            self.transcript.trouble = (ended.status, f"while it was {what}: {ended}")
        over = time.monotonic() >= self.deadline
        last = over or self.transcript.starts > self.limits.restarts
        if last and self.transcript.trouble is None and self._pending():
            self.transcript.trouble = (ended.status, "its time is spent" if over else "it was started too often")
        return not last and what in ("cell", "call")

    def _pending(self) -> list[Call]:
        done = self.transcript
        return [c for c in self.task.calls if c.exercise not in done.lost and c.key not in done.outcomes]

    def _converse(self, line: Conversation, process: sandbox.Process) -> None:
        place = self.box.task(self.slot)
        line.send(
            "task",
            limits=self.limits.inside(place["uid"]),
            path=place["path"],
            torch=self.task.torch,
            prelude=self.task.prelude,
            given=self.task.given,
            shown=self.task.shown,
            entries={number: one for number, one in self.task.entries.items() if number not in self.transcript.lost},
            skip=sorted(self.skip),
            cell_seconds=self.limits.cell_seconds,
            call_seconds=self.limits.call_seconds,
            notebook_bytes=len(self.notebook),
        )
        self._ready(line, process)
        for start in range(0, len(self.notebook), PIECE):
            line.send("piece", self.notebook[start : start + PIECE])
        self.place = ("read", None)
        if self._cells(line):
            for call in self._pending():
                if call.exercise not in self.transcript.lost and self.transcript.found.get(call.exercise):
                    self._ask(line, call)

    def _ready(self, line: Conversation, process: sandbox.Process) -> None:
        try:
            header, _ = line.receive(self.limits.start_seconds)
        except Ended as ended:
            raise sandbox.NoSandbox(f"the sandbox didn't start ({ended}): {process.complaint()}") from ended
        if header["kind"] != "ready":
            raise sandbox.NoSandbox("the sandbox didn't start as it should")

    def _cells(self, line: Conversation) -> bool:
        """Follow the cells as they run; tell whether there are answers to call."""
        seconds, self.messages = self.limits.cell_seconds + GRACE, SPARE
        while self.messages:
            self.messages -= 1
            header, body = line.receive(seconds)
            header["open"] = frames.texts(body) if header["kind"] == "notebook" else {}
            early = header["kind"] in ("unreadable", "notebook")  # before any code of the student's runs
            if (take := self._taken.get(header["kind"])) is None or early != (self.place[0] == "read"):
                raise Ended("it sent a message out of turn")
            if (more := take(self, header)) is not None:
                return more
        raise Ended("it sent too many messages")

    def _unreadable(self, header: dict[str, Any]) -> bool:
        self.transcript.trouble = ("unreadable", _text(header.get("why"), 200))
        return False

    def _read(self, header: dict[str, Any]) -> None:
        self.place, self.messages = ("cell", 0), SPARE + 8 * _count(header.get("count"))
        self.transcript.open = {_text(k, 20): _text(v, 8000) for k, v in list(header["open"].items())[:50]}

    def _cell(self, header: dict[str, Any]) -> None:
        self.place = ("cell", _count(header.get("number")))

    def _done(self, header: dict[str, Any]) -> None:
        number, error = _count(header.get("number")), header.get("error")
        self.transcript.cells.pop(number, None) if number not in self.skip else None
        if error and len(self.transcript.cells) < 200:
            told = "timeout" if error == "TimeUp" else f"{_text(error, 60)}: {_text(header.get('told'), 200)}"
            self.transcript.cells[number] = told

    def _find(self, header: dict[str, Any]) -> None:
        number = header.get("exercise")
        self.place = ("call", number) if number in list(self.task.entries) else ("find", None)

    def _ran(self, header: dict[str, Any]) -> bool:
        found = header.get("found") if isinstance(header.get("found"), dict) else {}
        known = ("name", "check", "id")
        self.transcript.found = {n: found.get(n) if found.get(n) in known else None for n in self.task.entries}
        return True

    _taken: dict[str, Callable[..., bool | None]] = {
        "unreadable": _unreadable,
        "notebook": _read,
        "cell": _cell,
        "done": _done,
        "find": _find,
        "ran": _ran,
    }

    def _ask(self, line: Conversation, call: Call) -> None:
        """Send one call's inputs; keep what comes back, if it is a value or an error."""
        self.place = ("call", call.exercise)
        parts = [call.case.inputs, call.case.constructor, call.case.state]
        tree, body = frames.encode([list(part.values()) for part in parts])
        nonce = secrets.token_hex(8)
        names = [list(part) for part in parts]
        line.send("call", body, exercise=call.exercise, how=call.kind, tree=tree, names=names, nonce=nonce)
        header, body = line.receive(self.limits.call_seconds + GRACE)
        if header["kind"] != "reply" or header.get("nonce") != nonce:
            raise Ended("it sent a reply that nobody asked for")
        self.transcript.outcomes[call.key] = _outcome(header, body)
        if header.get("borrowed") is True:
            self.transcript.borrowed.add(call.exercise)
        if self.transcript.outcomes[call.key].errors[:1] == ("TimeUp",):
            self.transcript.lost[call.exercise] = "timeout"


def _outcome(header: dict[str, Any], body: bytes) -> Outcome:
    """Return what a reply holds; a reply that isn't one ends the conversation."""
    errors = header.get("errors")
    if isinstance(errors, list) and errors:
        return Outcome(errors=tuple(_text(name, 60) for name in errors[:10]), message=_text(header.get("message"), 300))
    try:
        return Outcome(value=frames.decode(header.get("tree"), body))
    except (frames.Malformed, RuntimeError, ValueError) as error:
        raise Ended("its reply isn't a value") from error


def _text(value: Any, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 100_000 else 0
