"""A submission's answers inside the sandbox: which functions and classes they are, and what comes of calling them.

An answer that runs the library's own version of what is asked for is told from others, as the notebook's check tells
it: also in a thread, or in a process forked from this one. That is for honest students: who tampers with this process,
or starts Python anew, can hide it, or copy the library's lines.
"""

import frames
from line import soft
from past import Past

UNFIT = "must have the parameters"  # says the library where a module's have other names
KINDS = ("value", "error", "nothing", "borrowed")  # of what comes of a call, the best first


class Answers:
    """What a notebook's cells define under the names of the exercises, or check."""

    def __init__(self, task, space, checks):
        self.task, self.space, self.checks, self.history, self.called = task, space, checks, {}, {}
        self.past = checks.past = Past(space)
        self.own, self.watches = {}, {}  # exercise -> the library's versions, before a cell changes or forks anything
        self.begun = set()  # exercises whose answers have been called
        for number, entry in task["entries"].items():
            if entry.get("original"):
                from transformer_lib.exercises import originals, watching

                self.own[number] = originals.pieces(entry["original"])
                self.watches[number] = watching.Watch(originals.functions(self.own[number]))
                self.watches[number].start()

    def note(self, checked=()):
        """Keep what now stands under each exercise's name, and what else it finds, also where a check names it."""
        for number, entry in self.task["entries"].items():
            known = self.history.setdefault(entry["name"], [])
            value = self.space.get(entry["name"])
            if value is not None and (not known or known[-1] is not value):
                known.append(value)
                self.past.keep(id(value))
            if number in checked or entry["name"] in checked:
                self.past.keep(number)
                if known:
                    self.past.keep(id(known[-1]))

    def settle(self):
        """Compare what was kept with what the names stand for after all cells."""
        values = {number: self.space.get(entry["name"]) for number, entry in self.task["entries"].items()}
        able = {number for number, value in values.items() if callable(value)}
        own = {n for n in able if any(values[n] is one for one in self.own.get(n, ()))}
        self.past.settle({self.task["entries"][number]["name"] for number in able - own})

    def find(self, cells, line):
        """Find each exercise's answer; return exercise -> how it was found, or None.

        What a reader has imported from the library under that name counts only where there is nothing else.
        """
        found = {}
        for number, entry in self.task["entries"].items():
            line.send("find", exercise=number)
            found[number], self.called[number] = self.chosen(number, entry["name"], cells)
        return found

    def chosen(self, number, name, cells):
        """Return how an answer was found (by its name, its check, a cell's id), and what may be it, likeliest last.

        Of what is written under its name and what else the student has checked, the last that passes its check counts.
        """
        ways = {"name": self.history.get(name, []), "check": self.checks.answers(number)}
        written = {how: self.written(number, values) for how, values in ways.items()}
        others = [one for one in written["check"] if not any(one is other for other in written["name"])]
        if called := others + written["name"]:
            passing = (one for one in reversed(others) if self.passes(number, name, one))
            called += [one for one in [next(passing, None)] if one is not None] if len(called) > 1 else []
            return "name" if written["name"] else "check", called
        ways["id"] = self.of_cell(number, cells)
        if called := self.written(number, ways["id"]):
            return "id", called
        able = {how: [value for value in values if callable(value)] for how, values in ways.items()}
        return next(((how, values) for how, values in able.items() if values), (None, []))

    def written(self, number, values):
        """Return those of some values that can be called and aren't the library's own."""
        return [v for v in values if callable(v) and not any(v is one for one in self.own.get(number, ()))]

    def of_cell(self, number, cells):
        """Return what a cell with an exercise's id defines last."""
        wanted = "answer-" + number.replace(".", "-")
        named = [cell for cell in cells if wanted in cell.names and cell.defined]
        return [self.space.get(named[-1].defined[-1])] if named else []

    def passes(self, number, name, answer):
        try:
            then = self.past.views(id(answer), number)[0]
            with soft(self.task["call_seconds"]), self.past.restored(then):
                return self.checks.passes(number, name, answer)
        except BaseException:
            return False

    def call(self, number, how, parts):
        """Call the last answer that isn't a stub, nor runs the library's; return the reply's fields and bytes."""
        spare = {"errors": ["NotImplementedError"], "message": ""}, b""
        for answer in reversed(self.called[number]):
            kind, fields, body = self.best(number, how, answer, parts)
            if kind in ("value", "error"):
                return fields, body
            if kind == "borrowed" or "borrowed" not in spare[0]:
                spare = fields, body
        return spare

    def best(self, number, how, answer, parts):
        """Call an answer with the names of its time, and with those of now if that leads to nothing."""
        found = []
        for then in self.past.views(id(answer), number):
            with self.past.restored(then):
                (value, errors), (fields, body), borrowed = self.watched(number, how, answer, parts)
            kind = kind_of(value, errors, borrowed)
            found.append((kind, fields | {"borrowed": True} if borrowed else fields, body))
            if kind == "value" or (kind == "error" and how == "error" and "NameError" not in errors):
                return found[-1]
        return min(found, key=lambda one: KINDS.index(one[0]))

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

            for names in self.checks.names(number, answer) if how == "module" else [None]:
                got, _ = protocols.run(how, answer, Case("", *parts), names)
                if UNFIT not in got.message:
                    break
            return got.value, got.errors, got.message
        try:
            return answer(*parts[0].values()), (), ""
        except (Exception, SystemExit) as error:
            return None, [parent.__name__ for parent in type(error).__mro__][:10], str(error)[:300]


def kind_of(value, errors, borrowed):
    if borrowed:
        return "borrowed"
    nothing = "NotImplementedError" in errors or (not errors and (value is None or value is ...))
    return "nothing" if nothing else "error" if errors else "value"


def reply(value, errors, message):
    """Return the fields and bytes of a reply."""
    if errors:
        return {"errors": [name[:60] for name in errors[:10]], "message": message[:300]}, b""
    tree, body = frames.encode(value)
    return {"tree": tree}, body
