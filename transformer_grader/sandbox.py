"""Where a student's code runs: a bubblewrap sandbox with nothing of the host in it but what Python needs."""

import compileall
import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import transformer_lib
from transformer_grader import inside, seccomp
from transformer_grader.limits import Limits

INSIDE = Path(inside.__file__).parent
LIBRARY = Path(transformer_lib.__file__).resolve().parent
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
LINKER = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime")
PASSED_ON = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
PATIENCE = 60.0  # seconds for bwrap to say which process is the sandbox's first
FIRST_UID = 61000  # of the uids that nobody has; one for each worker, so that their process limits are apart


class NoSandbox(RuntimeError):
    """No sandbox can be had here, or what was had doesn't hold."""


@dataclass(frozen=True)
class Box:
    """How sandboxes are made on this machine.

    Args:
        kind: "bwrap" or "unsandboxed".
        program: the path of bwrap.
    """

    kind: str
    program: str = ""

    def command(self, limits: Limits, extra: list[str]) -> list[str]:
        """Return the command line that runs the sandbox's first process."""
        if self.kind != "bwrap":
            return [sys.executable, "-I", str(INSIDE / "main.py")]
        return [self.program, *_walls(), *extra, *_binds(limits), "--", sys.executable, "-I", "/grader/main.py"]

    def task(self, slot: int) -> dict[str, object]:
        """Return what a sandbox must be told of its own place: where the library is, which uid to take."""
        boxed = self.kind == "bwrap"
        return {"path": ["/library"] if boxed else [str(LIBRARY.parent)], "uid": FIRST_UID + slot if boxed else None}


def bubblewrap() -> Box:
    """Return the way to make bubblewrap sandboxes.

    Raises:
        NoSandbox: bwrap isn't installed.
    """
    found = shutil.which("bwrap")
    if sys.platform != "linux" or found is None:
        raise NoSandbox("no sandbox: bubblewrap (bwrap) must be installed, on Linux: apt install bubblewrap")
    return Box("bwrap", found)


def _walls() -> list[str]:
    walls = ["--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL", "--hostname", "sandbox"]
    walls += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if os.getuid() == 0:  # the uid is dropped inside, for good: root's own processes aren't counted
        return [*walls, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    return [*walls, "--unshare-user", "--disable-userns", "--uid", str(FIRST_UID), "--gid", str(FIRST_UID)]


def bound() -> list[str]:
    """Return the folders and files of the host that a sandbox can read, apart from the grader's own inside part."""
    python = [form(prefix) for prefix in (sys.base_prefix, sys.prefix) for form in (str, os.path.realpath)]
    places = [*SYSTEM, *LINKER, *python, str(LIBRARY)]
    return [place for place in dict.fromkeys(places) if os.path.exists(place)]


def _binds(limits: Limits) -> list[str]:
    writable = ["--perms", "1777", "--size", str(limits.disk), "--tmpfs"]
    arguments = [*writable, "/tmp"]  # before what is bound, which may lie in /tmp itself
    parents = {str(parent) for place in bound() for parent in Path(place).parents}
    for folder in sorted(parents - {"/", "/usr", "/tmp"} | {"/library"}):
        arguments += ["--perms", "0755", "--dir", folder]
    for place in bound():
        link = os.path.islink(place) and place in (*SYSTEM, *LINKER)
        there = "/library/transformer_lib" if place == str(LIBRARY) else place
        arguments += ["--symlink", os.readlink(place), there] if link else ["--ro-bind", place, there]
    arguments += ["--ro-bind", str(INSIDE), "/grader", "--proc", "/proc", "--dev", "/dev", *writable, "/dev/shm"]
    for name, value in _variables().items():
        arguments += ["--setenv", name, value]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp"]


def _variables() -> dict[str, str]:
    """Return the sandbox's environment."""
    names = {"HOME": "/tmp", "USER": "student", "LANG": "C.UTF-8", "MPLBACKEND": "Agg", "MPLCONFIGDIR": "/tmp"}
    names |= {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    names |= {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
    return names | {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def compile_all() -> None:
    """Compile what every sandbox imports once, here: in a sandbox it couldn't be kept."""
    for folder in (LIBRARY, INSIDE):
        compileall.compile_dir(folder, quiet=2)


def exposed(secret: list[Path]) -> list[str]:
    """Say which of some places a sandbox could read: those that lie in what is bound, or that hold it."""
    places = [Path(place).resolve() for place in bound()]
    return [
        f"{path} lies in {place}, which every sandbox can read"
        for path in (one.resolve() for one in secret)
        for place in places
        if path == place or place in path.parents
    ]


@contextmanager
def started(box: Box, limits: Limits) -> Iterator["Process"]:
    """Start a sandbox, and leave nothing of it behind."""
    with tempfile.TemporaryFile() as rules:
        info, write = os.pipe()
        extra, passed = ["--info-fd", str(write)], [write]
        if (filtered := seccomp.program()) is not None:
            rules.write(filtered)
            rules.seek(0)
            extra, passed = [*extra, "--seccomp", str(rules.fileno())], [write, rules.fileno()]
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        child = subprocess.Popen(
            box.command(limits, extra),
            **streams,
            pass_fds=passed if box.kind == "bwrap" else (),
            start_new_session=True,
            bufsize=0,
            env=_environment(box),
        )
        os.close(write)
    process = Process(child, info)
    try:
        yield process
    finally:
        process.kill()


def _environment(box: Box) -> dict[str, str]:
    if box.kind == "bwrap":
        return {"PATH": "/usr/bin:/bin"}
    return {
        "PATH": os.environ.get("PATH", ""),
        "HOME": os.environ.get("HOME", ""),
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
    }


class Process:
    """A running sandbox: its pipes, and the process whose death is the death of all in it."""

    def __init__(self, child: subprocess.Popen, info: int) -> None:
        self.child, self.info = child, info  # which stays open: bwrap writes to it more than once
        told = os.read(info, 4096) if select.select([info], [], [], PATIENCE)[0] else b""
        match = re.search(rb'"child-pid": (\d+)', told)
        self.first = int(match.group(1)) if match else child.pid
        self.handle = os.pidfd_open(self.first)  # a number could be another process's by the time of the kill

    def complaint(self) -> str:
        """Return the first lines that the sandbox's own program has said of itself."""
        os.set_blocking(self.child.stderr.fileno(), False)
        try:
            text = os.read(self.child.stderr.fileno(), 2000)
        except OSError:
            text = b""
        return " ".join(text.decode(errors="replace").split())[-400:]

    def kill(self) -> None:
        """Kill the sandbox's first process, which takes all others with it, and bwrap; wait for the end."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        os.close(self.handle)
        os.close(self.info)
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout, self.child.stderr):
            stream.close()
