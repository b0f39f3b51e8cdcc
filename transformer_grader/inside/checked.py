"""What a student's cells hand to `check` and `use`, kept while they run; the check itself runs where its word is asked.

A check says which function or class the student means, whatever it is called, and how a module's parameters are called.
"""

import functools
import types
from collections.abc import Mapping


class Later:
    """Stands for a check's feedback, which is made when somebody first asks for it."""

    def __init__(self, make):
        self._make = functools.cache(make)

    def __bool__(self):
        return bool(self._make())

    def __repr__(self):
        return repr(self._make())

    def __getattr__(self, name):
        if name.startswith("__") or name == "_make":
            raise AttributeError(name)
        return getattr(self._make(), name)


class Checks:
    """The calls of `check` and `use` in a notebook, in order.

    Args:
        listening: whether the cell that runs is the student's: what a given cell checks says nothing of them.
        bare: whether it holds nothing but such calls: then nothing needs to be put into the library.
        past: where the names that an answer finds at its check are kept.
    """

    def __init__(self):
        self.listening, self.bare, self.kept, self.past = False, False, {}, None
        self.real, self.put, self.load, self.pieces = (lambda *given: None), (lambda **given: None), None, {}

    def installed(self, torch):
        """Take the place of the library's `check` and `use`; return what cells find under the name `exercises`."""
        if not torch:
            nothing = dict.fromkeys(("reset", "example", "in_use"), lambda *given: None)
            return types.SimpleNamespace(check=self.check, use=self.use, **nothing)
        from transformer_lib import exercises
        from transformer_lib.exercises import checking, store, swapping

        self.real, self.put, self.load, self.pieces = checking.check, swapping.use, store.load, store.pieces()
        exercises.check = checking.check = self.check
        exercises.use = swapping.use = self.use
        return exercises

    def check(self, number, answer=None, names=None):
        """Keep what a check is given; its feedback comes later."""
        if not isinstance(number, str):
            return self.real(number, answer, names)
        self.keep(number, answer, names)
        return Later(lambda: self.real(number, answer, names))

    def use(self, **answers):
        """Keep what the library is to use, and let it, unless the cell does nothing else."""
        for name, answer in answers.items():
            if name in self.pieces:
                self.keep(self.pieces[name], answer, None)
        return None if self.bare else self.put(**answers)

    def keep(self, number, answer, names):
        if self.listening:
            names = dict(names) if isinstance(names, Mapping) else {}
            self.kept.setdefault(number, []).append((answer, names))
            for moment in (number, id(answer)) if self.past else ():
                self.past.keep(moment)

    def answers(self, number):
        """Return what has been checked as an exercise's answer, each thing once, the last one last."""
        found = []
        for answer, _ in self.kept.get(number, []):
            found = [one for one in found if one is not answer] + [answer]
        return found

    def names(self, number, answer):
        """Return what an answer's parameters may be called: as it was checked, as another was, as the exercise asks."""
        given = [(one, names) for one, names in self.kept.get(number, []) if names]
        mine = [names for one, names in given if one is answer]
        return [*mine[-1:], *[names for _, names in given[-1:]], None]

    def passes(self, number, name, answer):
        """Tell whether an answer passes the notebook's check; False in a variant, which that check isn't made for."""
        if self.load is None or self.load(number).entry != name:
            return False
        return any(self.real(number, answer, names) for names in self.names(number, answer))
