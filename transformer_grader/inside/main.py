"""What runs inside the sandbox, one process a submission: confine, run the cells, answer calls one at a time.

Nothing here is trusted by the grader: a student's code may change all of it, and gains nothing by that.
"""

import __future__

import ast
import contextlib
import gc
import json
import linecache
import math
import os
import sys
import time
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import frames
import notebook
import prose
from answers import Answers
from checked import Checks
from line import Line, confine, soft, told
from space import introduce, namespace

COROUTINE = 0x80  # of a code object's flags
FUTURE = __future__.annotations.compiler_flag  # what one cell asks for holds in later ones


class Session:
    """One submission: its cells, what they define, the answers to the grader's calls."""

    def __init__(self, line, task):
        self.line, self.task, self.space, self.future = line, task, namespace(), 0
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
        self.answers.past.names = set().union(*(cell.needed for cell in self.cells))
        errors = self.in_order()
        for n in errors:
            if errors[n] and not self.cells[n].given:
                self.line.send("cell", number=n)
                self.rest(self.cells[n])
        self.answers.settle()
        self.line.send("ran", found=self.answers.find(self.cells, self.line))

    def in_order(self):
        """Run the cells; then again, while that helps, those that lacked a name; return each one's error.

        What they needed may be there by now.
        """
        shown = self.shown()
        errors = {n: self.pass_by(n) if n in shown else self.cell(n) for n in range(len(self.cells))}
        late = [n for n, error in errors.items() if error == "NameError"]
        again = [*(shown if any(not self.cells[n].ours for n in late) else []), *late]
        left, until = 50 + 2 * len(self.cells), math.inf
        while late and left >= len(again) and time.monotonic() < until:
            left, until = left - len(again), min(until, time.monotonic() + self.task["cell_seconds"])
            errors |= {n: self.cell(n, late=True) for n in again}
            before, late = again, [n for n in again if errors[n] == "NameError"]
            if len(late) == len(before):
                break
            again = late
        return errors

    def shown(self):
        """Return the given cells that need not be run: no function of another cell looks for what they define."""
        shown = self.task["shown"]
        given = [n for n, cell in enumerate(self.cells) if cell.given and prose.digest(cell.source) in shown]
        wanted = set().union(*(cell.needed for n, cell in enumerate(self.cells) if n not in given))
        return [n for n in given if not self.cells[n].bound & wanted]

    def pass_by(self, number):
        """Keep what a check that isn't run would have seen."""
        self.answers.note(self.cells[number].checked)

    def cell(self, number, late=False):
        """Run one cell, say how it went, and return the name of its error, if any."""
        one = self.cells[number]
        if number in self.task["skip"] or (one.given and one.ours):
            return None if late else self.pass_by(number)
        self.checks.listening, self.checks.bare = not one.given, one.ours
        self.line.send("cell", number=number)
        name, text = None, ""
        try:
            with soft(self.task["cell_seconds"]):
                self.execute(one.source, f"<cell {number}>")
        except BaseException as error:
            name, text = told(error)
        self.answers.note(one.checked)
        self.line.send("done", number=number, error=name, told=text)
        return name

    def rest(self, cell):
        """Keep what the checks in a cell that failed are given: here it may fail where it didn't at the student's."""
        self.checks.listening = self.checks.bare = True
        self.checks.past = None  # what names stand for now says nothing of the cell's time
        for text in cell.checks:
            with contextlib.suppress(BaseException), soft(self.task["cell_seconds"]):
                self.execute(text, "<check>")

    def execute(self, source, name):
        """Run a cell's source, which may await something outside of any function."""
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        if "IPython" in source and "get_ipython" in source:
            introduce(self.space)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self.future
        code = compile(source, name, "exec", flags, dont_inherit=True)
        self.future |= code.co_flags & FUTURE
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
