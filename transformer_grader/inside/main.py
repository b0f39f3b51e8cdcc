"""What runs inside the sandbox, one process a submission: confine, run the cells, answer calls one at a time.

Nothing here is trusted by the grader: a student's code may change all of it, and gains nothing by that.
"""

import ast
import builtins
import contextlib
import gc
import hashlib
import json
import os
import resource
import signal
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import frames
import notebook

COROUTINE = 0x80  # of a code object's flags


def digest(source):
    return hashlib.sha256(source.strip().encode(errors="replace")).hexdigest()


class TimeUp(BaseException):
    """The soft limit of a cell or of a call has passed."""


class Line:
    """The two ends that lead out, moved away from where prints go."""

    def __init__(self):
        self.inward, self.outward = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(null, number)

    def silence(self):
        os.dup2(0, 2)

    def send(self, kind, body=b"", **fields):
        data = memoryview(frames.pack({"kind": kind, **fields}, body))
        while data:
            data = data[os.write(self.outward, data) :]

    def receive(self):
        header, body = frames.sizes(self._exactly(frames.HEAD.size))
        return frames.parsed(self._exactly(header)), self._exactly(body)

    def _exactly(self, count):
        parts = []
        while count:
            part = os.read(self.inward, min(count, 1 << 20))
            if not part:
                os._exit(0)
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def confine(limits):
    """Set limits that can't be lifted again, and become nobody; an error stops everything."""
    wanted = {
        "AS": limits["memory"],
        "CPU": limits["cpu"],
        "FSIZE": limits["file"],
        "NOFILE": 128,
        "CORE": 0,
    }
    if limits["uid"] is not None:  # without a sandbox the uid is the instructor's own, with processes of its own
        wanted["NPROC"] = limits["processes"]
    for name, most in wanted.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        resource.setrlimit(kind, (most, most))
    if limits["uid"] is not None and os.getuid() == 0:
        os.setgroups([])
        os.setresgid(limits["uid"], limits["uid"], limits["uid"])
        os.setresuid(limits["uid"], limits["uid"], limits["uid"])
    if limits["uid"] is not None and 0 in (os.getuid(), os.geteuid(), os.getgid()):
        os._exit(77)


@contextlib.contextmanager
def soft(seconds):
    """Raise TimeUp where the body takes longer."""

    def up(number, frame):
        signal.setitimer(signal.ITIMER_REAL, 0.2)  # again, should somebody have caught it
        raise TimeUp

    signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def told(error):
    """Return an error's class and text; a class of the student's own may do anything when it's asked."""
    try:
        with soft(1.0):
            return str(type(error).__name__)[:60], " ".join(str(error).split())[:200]
    except BaseException:
        return "Exception", ""


class Absorbing(types.ModuleType):
    """A module of Colab's, or IPython's shell: everything can be got from it, and called, and does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absorbing(name)

    def __call__(self, *arguments, **named):
        return None


def namespace():
    """Return what a notebook's cells find at first."""
    for name in ("google.colab", "google.colab.drive", "google.colab.files"):
        sys.modules.setdefault(name, Absorbing(name))
    main = types.ModuleType("__main__")
    sys.modules["grader"] = sys.modules["__main__"]  # a module that nobody holds is emptied
    sys.modules["__main__"] = main
    main.__dict__.update(__builtins__=builtins, get_ipython=lambda: Absorbing("shell"))
    main.__dict__["display"] = lambda *objects, **named: None
    return main.__dict__


class Session:
    """One submission: its cells, what they define, the answers to the grader's calls."""

    def __init__(self, line, task):
        self.line, self.task, self.space, self.history = line, task, namespace(), {}

    def run(self, data):
        try:
            self.cells, answers = notebook.read(data)
        except ValueError as error:
            self.line.send("unreadable", why=str(error)[:200])
            os._exit(0)
        self.line.send("notebook", json.dumps(answers).encode(), count=len(self.cells))
        for n, cell in enumerate(self.cells):
            if n not in self.task["skip"]:
                self.line.send("cell", number=n)
                cell.prepare()
        with contextlib.suppress(BaseException):
            exec(self.task["prelude"], self.space)
        shown = self.shown()
        late = [n for n in range(len(self.cells)) if n not in shown and self.cell(n) == "NameError"]
        for n in [*shown, *late] if late else []:  # cells in another order: what they needed is there by now
            self.cell(n)
        self.line.send("ran", found=self.find())

    def shown(self):
        """Return the given cells that need not be run: no function of another cell looks for what they define."""
        given = [n for n, cell in enumerate(self.cells) if digest(cell.source) in self.task["shown"]]
        wanted = set().union(*(cell.needed for n, cell in enumerate(self.cells) if n not in given))
        return [n for n in given if not self.cells[n].bound & wanted]

    def cell(self, number):
        """Run one cell, say how it went, and return the name of its error, if any."""
        if number in self.task["skip"] or notebook.OURS.fullmatch(self.cells[number].source):
            return None
        self.line.send("cell", number=number)
        name, text = None, ""
        try:
            with soft(self.task["cell_seconds"]):
                self.execute(self.cells[number].source, f"<cell {number}>")
        except BaseException as error:
            name, text = told(error)
        for entry in self.task["entries"].values():
            known = self.history.setdefault(entry["name"], [])
            value = self.space.get(entry["name"])
            if value is not None and (not known or known[-1] is not value):
                known.append(value)
        self.line.send("done", number=number, error=name, told=text)
        return name

    def execute(self, source, name):
        """Run a cell's source, which may await something outside of any function."""
        code = compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & COROUTINE:
            import asyncio  # which few notebooks need

            asyncio.run(types.FunctionType(code, self.space)())
        else:
            exec(code, self.space)

    def find(self):
        """Find each exercise's answer: by the name it defines, else by its check, else by the cell's id."""
        checks, found, self.answers, self.names = {}, {}, {}, {}
        for cell in self.cells:
            checks |= cell.checks
        for number, entry in self.task["entries"].items():
            self.line.send("find", exercise=number)
            value, how = list(self.history.get(entry["name"], [])), "name"
            expression, names = checks.get(number, (None, None))
            if not value and expression:
                value, how = [self.value(expression)], "check"
            if not value or value[0] is None:
                value, how = [self.by_id(number)], "id"
            self.answers[number] = [one for one in value if callable(one)]
            self.names[number] = self.value(names) if names else None
            found[number] = how if self.answers[number] else None
        return found

    def value(self, expression):
        try:
            with soft(self.task["cell_seconds"]):
                return eval(expression, self.space)
        except BaseException:
            return None

    def by_id(self, number):
        wanted = "answer-" + number.replace(".", "-")
        for cell in reversed(self.cells):
            if wanted in cell.names and cell.defined:
                return self.space.get(cell.defined[-1])
        return None

    def serve(self):
        """Answer calls until the grader hangs up."""
        while True:
            header, body = self.line.receive()
            inputs, constructor, state = frames.decode(header["tree"], body)
            names = header["names"]
            parts = [dict(zip(n, v, strict=True)) for n, v in zip(names, (inputs, constructor, state), strict=True)]
            try:
                with soft(self.task["call_seconds"]):
                    fields, reply = self.call(header["exercise"], header["how"], parts)
            except BaseException as error:
                fields, reply = {"errors": [told(error)[0]], "message": ""}, b""
            try:
                self.line.send("reply", reply, nonce=header["nonce"], **fields)
            except frames.Malformed:
                self.line.send("reply", nonce=header["nonce"], tree={"x": "too large"})

    def call(self, number, how, parts):
        """Call the last answer that isn't a stub; return the reply's fields and bytes."""
        fields, body = {"errors": ["NotImplementedError"], "message": ""}, b""
        for answer in reversed(self.answers[number]):
            value, errors, message = self.outcome(how, answer, parts, self.names[number])
            if errors:
                fields, body = {"errors": [name[:60] for name in errors[:10]], "message": message[:300]}, b""
            else:
                tree, body = frames.encode(value)
                fields = {"tree": tree}
            if "NotImplementedError" not in errors and not (not errors and (value is None or value is ...)):
                break
        return fields, body

    def outcome(self, how, answer, parts, names):
        if self.task["torch"]:
            from transformer_lib.exercises import protocols
            from transformer_lib.exercises.declared import Case

            got, _ = protocols.run(how, answer, Case("", *parts), names if isinstance(names, dict) else None)
            return got.value, got.errors, got.message
        try:
            return answer(*parts[0].values()), (), ""
        except (Exception, SystemExit) as error:
            return None, [parent.__name__ for parent in type(error).__mro__][:10], str(error)[:300]


def main():
    line = Line()
    task, _ = line.receive()
    confine(task["limits"])
    sys.path[1:1] = task["path"]
    if task["torch"]:
        gc.disable()  # nothing of what is imported will be garbage
        import torch

        import transformer_lib.exercises.protocols  # noqa: F401

        torch.set_num_threads(1)
        gc.freeze()
        gc.enable()
    line.send("ready", uid=os.getuid(), pid=os.getpid())
    line.silence()
    data, size = [], 0
    while size < task["notebook_bytes"]:
        _, part = line.receive()
        data.append(part)
        size += len(part)
    session = Session(line, task)
    session.run(b"".join(data))
    session.serve()


if __name__ == "__main__":
    main()
