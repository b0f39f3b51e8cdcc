"""The browser that tests open pages in: Chromium without a window, moved over its DevTools protocol."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
import time
from pathlib import Path

import pytest
import websocket

from tools import chromium

CHROMIUM = chromium.program()
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
FLAGS = [*chromium.FLAGS, "--dump-dom"]
NO_HOST = chromium.NO_HOST
SECONDS = 300  # for one answer, on a busy machine
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "End": 35}


class Browser:
    """One Chromium with one tab, which reaches no host but this computer; it ends with the `with` block.

    Args:
        folder: an empty one, for its profile and what it writes to the console.
    """

    def __init__(self, folder: Path) -> None:
        self.errors = folder / "errors"
        self.numbers, self.events = itertools.count(1), []
        flags = [*chromium.FLAGS, f"{NO_HOST}, EXCLUDE 127.0.0.1", "--remote-debugging-port=0"]
        with self.errors.open("w") as file:
            command = [CHROMIUM, *flags, f"--user-data-dir={folder}/profile", "about:blank"]
            self.program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=file)

    def __enter__(self) -> Browser:
        try:
            self.socket = websocket.create_connection(self._address(), timeout=SECONDS, suppress_origin=True)
            [target] = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
            self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.program.terminate()
        self.program.wait(timeout=30)

    def _address(self) -> str:
        for _ in range(10 * SECONDS):
            found = re.search(r"DevTools listening on (ws://\S+)", self.errors.read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.1)
        raise TimeoutError(f"Chromium must say where it listens, got {self.errors.read_text()[-500:]!r}")

    def call(self, method: str, **parameters) -> dict:
        """Return the answer to one command of the protocol; what happens meanwhile is kept in `events`."""
        number = next(self.numbers)
        to = {"sessionId": self.session} if hasattr(self, "session") else {}
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters, **to}))
        while (message := json.loads(self.socket.recv())).get("id") != number:
            self.events.append(message)
        if "error" in message:
            raise RuntimeError(f"{method}: {message['error']}")
        return message["result"]

    def open(self, address: str) -> None:
        """Show a page, and wait until it's loaded and its formulas are set."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(json.loads(self.socket.recv()))
        self.run("window.MathJax?.startup?.promise.then(() => null)")

    def run(self, script: str) -> object:
        """Return the value of a piece of JavaScript, once it's there.

        Raises:
            RuntimeError: the script threw.
        """
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description") or script)
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a piece of JavaScript gives something true.

        Raises:
            TimeoutError: it never did.
        """
        for _ in range(5 * SECONDS):
            with contextlib.suppress(RuntimeError):  # as while another page is being opened
                if self.run(condition):
                    return
            time.sleep(0.2)
        raise TimeoutError(f"must become true, got {self.run(condition)!r}: {condition}")

    def screen(self, width: int, height: int = 800) -> None:
        """Give the page a screen of this many pixels; a narrow one is a telephone's, and touched."""
        phone, size = width < 600, {"width": width, "height": height, "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", mobile=phone, **size)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)

    def press(self, key: str, shift: bool = False) -> None:
        """Press a key and let it go, as a hand does."""
        names = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS.get(key, 0), "modifiers": 8 * shift}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **names, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **names)

    def type(self, text: str) -> None:
        """Write into what has the focus."""
        self.call("Input.insertText", text=text)
