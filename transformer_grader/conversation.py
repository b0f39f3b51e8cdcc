"""One process in a sandbox, spoken to over pipes: each message bounded in size and in time."""

import os
import select
import time
from typing import Any

from transformer_grader import memory
from transformer_grader.inside import frames
from transformer_grader.limits import Limits
from transformer_grader.sandbox import Process

LOOK = 0.25  # seconds between two looks at the memory
CHUNK = 1 << 20


class Ended(Exception):
    """The process can't be spoken to any more."""

    status = "crashed"


class TookTooLong(Ended):
    """A limit of time has passed."""

    status = "timeout"


class Conversation:
    """What is sent to a sandbox and what comes back, up to limits; any breach ends it."""

    def __init__(self, process: Process, limits: Limits, deadline: float) -> None:
        self.process, self.limits, self.deadline = process, limits, deadline
        self.left, self.looked = limits.reply_bytes, time.monotonic()
        for stream in (process.child.stdin, process.child.stdout):
            os.set_blocking(stream.fileno(), False)

    def send(self, kind: str, body: bytes = b"", seconds: float = 10.0, **fields: Any) -> None:
        """Send a message; Ended where the other side doesn't take it in time."""
        data, until = memoryview(frames.pack({"kind": kind, **fields}, body)), self._until(seconds)
        while data:
            self._wait(until, writing=True)
            try:
                data = data[os.write(self.process.child.stdin.fileno(), data) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise Ended("it ended by itself") from error

    def receive(self, seconds: float) -> tuple[dict[str, Any], bytes]:
        """Return the next message; Ended where none comes in time, or it isn't one."""
        until = self._until(seconds)
        try:
            header, body = frames.sizes(self._exactly(frames.HEAD.size, until))
            return frames.parsed(self._exactly(header, until)), self._exactly(body, until)
        except frames.Malformed as error:
            raise Ended("what it sent isn't a message") from error

    def _until(self, seconds: float) -> float:
        return min(time.monotonic() + seconds, self.deadline)

    def _exactly(self, count: int, until: float) -> bytes:
        self.left -= count
        if self.left < 0:
            raise Ended("it sent too much")
        parts: list[bytes] = []
        while count:
            self._wait(until)
            try:
                part = os.read(self.process.child.stdout.fileno(), min(count, CHUNK))
            except BlockingIOError:
                continue
            if not part:
                raise Ended("it ended by itself")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _wait(self, until: float, writing: bool = False) -> None:
        """Wait until the pipe is ready, and look at the clock and at the memory meanwhile."""
        while True:
            now = time.monotonic()
            if now >= until:
                raise TookTooLong("it took too long")
            if now - self.looked >= LOOK:
                self.looked = now
                if self._held() > self.limits.memory:
                    raise Ended("it took too much memory")
            ends = [[self.process.child.stdout], []] if not writing else [[], [self.process.child.stdin]]
            if any(select.select(*ends, [], min(LOOK, until - now))):
                return

    def _held(self) -> int:
        first = self.process.first
        return memory.of_family(first) + memory.of_files(first, self.limits.disk)
