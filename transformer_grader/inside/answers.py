"""A submission's answers inside the sandbox: which functions and classes they are, and what comes of calling them.

An answer that runs the library's own version of what is asked for is told from others, as the notebook's check tells
it: also in a thread, or in a process forked from this one. That is for honest students: who tampers with this process,
or starts Python anew, can hide it, or copy the library's lines.
"""

import frames
from line import soft


class Answers:
    """What a notebook's cells define under the names of the exercises."""

    def __init__(self, task, space):
        self.task, self.space, self.history = task, space, {}
        self.own, self.watches = {}, {}  # exercise -> the library's versions, before a cell changes or forks anything
        self.begun = set()  # exercises whose answers have been called
        for number, entry in task["entries"].items():
            if entry.get("original"):
                from transformer_lib.exercises import originals, watching

                self.own[number] = originals.pieces(entry["original"])
                self.watches[number] = watching.Watch(originals.functions(self.own[number]))
                self.watches[number].start()

    def note(self):
        """Keep what now stands under each exercise's name."""
        for entry in self.task["entries"].values():
            known = self.history.setdefault(entry["name"], [])
            value = self.space.get(entry["name"])
            if value is not None and (not known or known[-1] is not value):
                known.append(value)

    def find(self, cells, line):
        """Find each exercise's answer; return exercise -> how it was found, or None.

        What a reader has imported from the library under that name counts only where there is nothing else.
        """
        checks, found, self.called, self.names = {}, {}, {}, {}
        for cell in cells:
            checks |= cell.checks
        for number, entry in self.task["entries"].items():
            line.send("find", exercise=number)
            expression, names = checks.get(number, (None, None))
            self.called[number], found[number] = [], None
            for how, values in self.candidates(number, entry["name"], expression, cells):
                able = [value for value in values if callable(value)]
                written = [value for value in able if not any(value is one for one in self.own.get(number, ()))]
                if written or (able and found[number] is None):
                    self.called[number], found[number] = written or able, how
                if written:
                    break
            self.names[number] = self.value(names) if names else None
        return found

    def candidates(self, number, name, expression, cells):
        """Yield what may be an answer: what has its name, what stands in its check, what a cell of its id defines."""
        yield "name", self.history.get(name, [])
        if expression:
            yield "check", [self.value(expression)]
        wanted = "answer-" + number.replace(".", "-")
        for cell in reversed(cells):
            if wanted in cell.names and cell.defined:
                yield "id", [self.space.get(cell.defined[-1])]
                return

    def value(self, expression):
        try:
            with soft(self.task["cell_seconds"]):
                return eval(expression, self.space)
        except BaseException:
            return None

    def call(self, number, how, parts):
        """Call the last answer that isn't a stub, nor runs the library's; return the reply's fields and bytes."""
        spare = {"errors": ["NotImplementedError"], "message": ""}, b""
        for answer in reversed(self.called[number]):
            (value, errors), (fields, body), borrowed = self.watched(number, how, answer, parts)
            if borrowed:
                spare = fields | {"borrowed": True}, body
            elif "NotImplementedError" not in errors and (errors or not (value is None or value is ...)):
                return fields, body
            elif "borrowed" not in spare[0]:
                spare = fields, body
        return spare

    def watched(self, number, how, answer, parts):
        """Return what comes of a call, the reply, and whether the library's version ran: in the call, or for the reply.

        The watch never ends: processes that a cell forked go on for as long as the session.
        """
        if watch := self.watches.get(number):
            if number not in self.begun:
                watch.start()  # on what a cell has loaded anew, too
            self.begun.add(number)
            watch.clear()
        value, errors, message = self.outcome(number, how, answer, parts)
        told = reply(value, errors, message)
        return (value, errors), told, bool(watch and watch.ran())

    def outcome(self, number, how, answer, parts):
        if self.task["torch"]:
            from transformer_lib.exercises import protocols
            from transformer_lib.exercises.declared import Case

            names = self.names[number] if isinstance(self.names[number], dict) else None
            got, _ = protocols.run(how, answer, Case("", *parts), names)
            return got.value, got.errors, got.message
        try:
            return answer(*parts[0].values()), (), ""
        except (Exception, SystemExit) as error:
            return None, [parent.__name__ for parent in type(error).__mro__][:10], str(error)[:300]


def reply(value, errors, message):
    """Return the fields and bytes of a reply."""
    if errors:
        return {"errors": [name[:60] for name in errors[:10]], "message": message[:300]}, b""
    tree, body = frames.encode(value)
    return {"tree": tree}, body
