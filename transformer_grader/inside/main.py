"""What runs inside the sandbox, one process a submission: confine, run the cells, answer calls one at a time.

Nothing here is trusted by the grader: a student's code may change all of it, and gains nothing by that.
"""

import ast
import contextlib
import gc
import json
import os
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import frames
import notebook
import prose
from answers import Answers
from checked import Checks
from line import Line, confine, soft, told
from space import namespace

COROUTINE = 0x80  # of a code object's flags


class Session:
    """One submission: its cells, what they define, the answers to the grader's calls."""

    def __init__(self, line, task):
        self.line, self.task, self.space = line, task, namespace()
        self.checks = Checks()
        self.answers = Answers(task, self.space, self.checks)
        self.space["exercises"] = self.checks.installed(task["torch"])

    def run(self, data):
        try:
            self.cells, answers = notebook.read(data, self.task["given"])
        except ValueError as error:
            self.line.send("unreadable", why=str(error)[:200])
            os._exit(0)
        self.line.send("notebook", json.dumps(answers).encode(), count=len(self.cells))
        for n, cell in enumerate(self.cells):
            if n not in self.task["skip"]:
                self.line.send("cell", number=n)
                cell.prepare()
                cell.given = prose.digest(cell.source) in self.task["given"]
        with contextlib.suppress(BaseException):
            exec(self.task["prelude"], self.space)
        shown = self.shown()
        errors = {n: self.cell(n) for n in range(len(self.cells)) if n not in shown}
        late = [n for n, error in errors.items() if error == "NameError"]
        needed = shown if any(not self.cells[n].bare for n in late) else []
        for n in [*needed, *late]:  # cells in another order: what they needed is there by now
            errors[n] = self.cell(n)
        for n in errors:
            if errors[n] and not self.cells[n].given:
                self.line.send("cell", number=n)
                self.rest(self.cells[n])
        self.line.send("ran", found=self.answers.find(self.cells, self.line))

    def shown(self):
        """Return the given cells that need not be run: no function of another cell looks for what they define."""
        shown = self.task["shown"]
        given = [n for n, cell in enumerate(self.cells) if cell.given and prose.digest(cell.source) in shown]
        wanted = set().union(*(cell.needed for n, cell in enumerate(self.cells) if n not in given))
        return [n for n in given if not self.cells[n].bound & wanted]

    def cell(self, number):
        """Run one cell, say how it went, and return the name of its error, if any."""
        one = self.cells[number]
        if number in self.task["skip"] or (one.given and one.bare):
            return None
        self.checks.listening, self.checks.bare = not one.given, one.bare
        self.line.send("cell", number=number)
        name, text = None, ""
        try:
            with soft(self.task["cell_seconds"]):
                self.execute(one.source, f"<cell {number}>")
        except BaseException as error:
            name, text = told(error)
        self.answers.note()
        self.line.send("done", number=number, error=name, told=text)
        return name

    def rest(self, cell):
        """Keep what the checks in a cell that failed are given: here it may fail where it didn't at the student's."""
        self.checks.listening = self.checks.bare = True
        for text in cell.checks:
            with contextlib.suppress(BaseException), soft(self.task["cell_seconds"]):
                self.execute(text, "<check>")

    def execute(self, source, name):
        """Run a cell's source, which may await something outside of any function."""
        code = compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & COROUTINE:
            import asyncio  # which few notebooks need

            asyncio.run(types.FunctionType(code, self.space)())
        else:
            exec(code, self.space)

    def serve(self):
        """Answer calls until the grader hangs up."""
        while True:
            header, body = self.line.receive()
            inputs, constructor, state = frames.decode(header["tree"], body)
            names = header["names"]
            parts = [dict(zip(n, v, strict=True)) for n, v in zip(names, (inputs, constructor, state), strict=True)]
            try:
                with soft(self.task["call_seconds"]):
                    fields, reply = self.answers.call(header["exercise"], header["how"], parts)
            except BaseException as error:
                fields, reply = {"errors": [told(error)[0]], "message": ""}, b""
            try:
                self.line.send("reply", reply, nonce=header["nonce"], **fields)
            except frames.Malformed:
                self.line.send("reply", nonce=header["nonce"], tree={"x": "too large"})


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
