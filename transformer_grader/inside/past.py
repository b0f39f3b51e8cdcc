"""The names that a notebook's functions look for, as they were when an answer was written or checked.

A later cell may give such a name another value, as when it imports the library's version under the answer's own name.
The notebook's check, which stood before that cell, saw the value of that time; so an answer is called with it.
"""

import builtins
import contextlib

NOTHING = object()


class Past:
    """What some names stood for at some moments.

    Args:
        names: those that are kept; to be set before the first moment.
    """

    def __init__(self, space):
        self.space, self.names, self.moments = space, (), {}

    def keep(self, moment):
        """Keep what the names stand for now; later calls for the same moment count."""
        now = {name: self.now(name) for name in self.names}
        self.moments[moment] = {name: value for name, value in now.items() if value is not NOTHING}

    def now(self, name):
        return self.space.get(name, vars(builtins).get(name, NOTHING))

    def settle(self, written):
        """Make each moment a list of what to restore: names that had another value, the best to try first.

        Args:
            written: names of answers whose last version is the student's own; the last version counts elsewhere, too.
        """
        for moment, values in self.moments.items():
            then = {name: value for name, value in values.items() if self.now(name) is not value}
            others = {name: value for name, value in then.items() if name not in written}
            some = [others, {}, then] if others else [{}, then]
            self.moments[moment] = some[:-1] if len(others) == len(then) else some

    def views(self, *moments):
        """Return what to restore when an answer is called, one after the other until the call leads to something."""
        return next((self.moments[moment] for moment in moments if moment in self.moments), [{}])

    @contextlib.contextmanager
    def restored(self, then):
        """Let names have the values of a moment; what the body makes of them is there the next time."""
        now = {name: self.space.get(name, NOTHING) for name in then}
        self.space.update(then)
        try:
            yield
        finally:
            for name, value in now.items():
                then[name] = self.space.get(name, then[name])
                if value is NOTHING:
                    self.space.pop(name, None)
                else:
                    self.space[name] = value
