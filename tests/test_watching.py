"""Whether a function runs is seen by whatever way it does, and nothing of it is left afterwards."""

import inspect
import os
import sys
import threading
from types import FunctionType

import pytest

from transformer_lib.exercises.watching import Watch, watching


def made(shift):
    """Return a function with a default, a keyword and a variable from around it."""

    def shifted(x, times=2, *, sign=1):
        return sign * times * x + shift

    return shifted


class Parent:
    def forward(self, x):
        return x + 1


class Child(Parent):
    def forward(self, x):
        return 10 * super().forward(x)


def forked(call):
    """Call in a forked process; return whether it went well there."""
    child = os.fork()
    if not child:
        try:
            call()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


WAYS = {
    "called": lambda call: call(),
    "in a thread": lambda call: [t := threading.Thread(target=call), t.start(), t.join()],
    "in a forked process": forked,
    "called from C": lambda call: sorted([0], key=lambda _: call()),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_runs_is_seen(way):
    function, other = made(1), made(1)
    with watching({function: "shifted"}) as watch:
        assert watch.ran() == []
        WAYS[way](lambda: function(3))
        assert watch.ran() == ["shifted"]
        watch.clear()
        assert watch.ran() == []
        WAYS[way](lambda: other(3))
        assert watch.ran() == ["shifted"]  # it has the same code


def test_a_watched_function_does_what_it_did_and_is_itself_again_afterwards():
    function, child = made(5), Child()
    codes = function.__code__, Child.forward.__code__, Parent.forward.__code__
    signature, kept = inspect.signature(function), dict(vars(function))
    with watching({function: "shifted", Child.forward: "child", Parent.forward: "parent"}) as watch:
        assert (function(1), function(1, 3), function(x=1, times=4, sign=-1)) == (7, 8, 1)
        assert inspect.signature(function) == signature
        with pytest.raises(TypeError, match=r"shifted\(\) missing 1 required positional argument"):
            function()
        assert watch.ran() == ["shifted"]
        assert child.forward(1) == 20
        assert watch.ran() == ["shifted", "child", "parent"]
    assert (function.__code__, Child.forward.__code__, Parent.forward.__code__) == codes
    assert vars(function) == kept and function(1) == 7


def test_another_function_is_not_seen():
    def shifted(x, times=2, *, sign=1):
        return sign * times * x + 1

    with watching({made(1): "shifted"}) as watch:
        shifted(1)
        assert watch.ran() == []


def test_a_copy_is_seen_whether_it_came_before_or_comes_meanwhile():
    function = made(1)
    before = FunctionType(function.__code__, globals(), "other", function.__defaults__, function.__closure__)
    with watching({function: "shifted"}) as watch:
        before(1, sign=1)
        assert watch.ran() == ["shifted"]
        watch.clear()
        meanwhile = made(2)
        assert watch.ran() == ["shifted"]
        watch.clear()
        assert watch.ran() == []
        assert meanwhile(1) == 4 and watch.ran() == ["shifted"]


def test_two_watches_may_end_in_any_order():
    function = made(1)
    code = function.__code__
    first, second = (Watch({function: name}) for name in ("first", "second"))
    first.start()
    second.start()
    function(1)
    assert (first.ran(), second.ran()) == (["first"], ["second"])
    second.clear()
    first.stop()
    assert function.__code__ is not code and second.ran() == []
    function(1)
    assert second.ran() == ["second"]
    second.stop()
    assert function.__code__ is code


def test_a_tracer_may_look_at_all_that_a_watched_function_holds():
    seen = []

    def look(frame, event, argument):
        seen.append((event, dict(frame.f_locals)))

    before = sys.getprofile()
    with watching({Child.forward: "child", Parent.forward: "parent"}) as watch:
        sys.setprofile(look)
        try:
            Child().forward(1)
        finally:
            sys.setprofile(before)
        assert watch.ran() == ["child", "parent"]
    assert any(names.get("x") == 1 for _, names in seen)


def test_after_an_error_the_functions_are_themselves_again():
    function = made(1)
    code = function.__code__
    with pytest.raises(KeyError), watching({function: "shifted"}):
        raise KeyError
    assert function.__code__ is code
