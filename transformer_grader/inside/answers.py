"""A submission's answers inside the sandbox: which functions and classes they are, and what comes of calling them.

An answer that runs the library's own version of what is asked for is told from others, as the notebook's check tells
it. That is for honest students: who tampers with this process can hide it, or copy the library's lines.
"""

import frames
from line import soft
from past import Past

WATCHED = 20_000  # calls and returns of one call of an answer, so that a long loop isn't made much longer
KINDS = ("value", "error", "nothing", "borrowed")  # of what comes of a call, the best first


class Answers:
    """What a notebook's cells define under the names of the exercises."""

    def __init__(self, task, space):
        self.task, self.space, self.history = task, space, {}
        self.past = Past(space)
        self.own, self.codes = {}, {}  # exercise -> the library's versions and their code, before a cell changes them
        for number, entry in task["entries"].items():
            if entry.get("original"):
                from transformer_lib.exercises import originals

                self.own[number] = originals.pieces(entry["original"])
                self.codes[number] = originals.codes(self.own[number])

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
                (value, errors, message), borrowed = self.watched(number, how, answer, parts)
                kind, (fields, body) = kind_of(value, errors, borrowed), reply(value, errors, message)
            found.append((kind, fields | {"borrowed": True} if borrowed else fields, body))
            if kind == "value" or (kind == "error" and how == "error" and "NameError" not in errors):
                return found[-1]
        return min(found, key=lambda one: KINDS.index(one[0]))

    def watched(self, number, how, answer, parts):
        """Return what comes of a call, and whether the library's version ran in it."""
        if number not in self.codes:
            return self.outcome(number, how, answer, parts), False
        from transformer_lib.exercises import originals

        with originals.watched(self.codes[number], WATCHED) as ran:
            return self.outcome(number, how, answer, parts), bool(ran)

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
