"""What a notebook's cells find around them: a main program of their own, and what Colab and Jupyter would offer."""

import builtins
import sys
import types


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
