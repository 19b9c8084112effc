"""Decorated and undecorated functions side by side."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import gradtape as gt

# How often all calls are made, one round after the other.
ROUNDS = 3


@dataclass
class Calls:
    """How often Python ran the decorated function, and the function itself."""

    runs: int
    function: Any
    results: list


class Runs:
    """Counts the runs of a function; `len` gives how many there were.

    A count that grows would be an effect of the function on something outside, and keep it from
    being replayed. The count is kept by code that passes for one of the library's own modules.
    """

    def __init__(self):
        scope = {"__name__": "gradtape.tests", "runs": 0}
        exec("def note():\n    global runs\n    runs += 1\ndef count(): return runs", scope)
        self.note, self.count = scope["note"], scope["count"]

    def __len__(self):
        return self.count()


def counted(f):
    """The function, and the count of its runs in Python."""
    runs = Runs()
    note = runs.note

    def wrapped(*args, **kwargs):
        note()
        return f(*args, **kwargs)

    return wrapped, runs


def agrees(make, calls, **options):
    """Make two functions with state of their own, and call them alike: `make()` gives (f, state).

    Results, errors and the state after each call must be the same. Calls are tuples of arguments,
    or functions that give one.
    """
    plain, plain_state = make()
    inner, state = make()
    inner, runs = counted(inner)
    decorated = gt.function(inner, **options)
    results = []
    # Each path is recorded by two runs before it is replayed.
    for call in [*calls] * ROUNDS:
        want, want_error = _result(plain, call() if callable(call) else call)
        got, got_error = _result(decorated, call() if callable(call) else call)
        assert type(got_error) is type(want_error), (got_error, want_error)
        if want_error is None:
            assert_same(got, want)
            results.append(got)
        for one, other in zip(state, plain_state, strict=True):
            assert_same(one, other)
    return Calls(len(runs), decorated, results)


def stateless(f):
    return lambda: (f, [])


def _result(f, args):
    try:
        return f(*args), None
    except Exception as error:
        return None, error


def assert_same(got, want):
    found, structure = gt.pytree.flatten(got)
    expected, wanted = gt.pytree.flatten(want)
    assert structure == wanted
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, gt.random.Generator):
            assert one.state == other.state
        elif hasattr(other, "numpy"):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-15)
        else:
            assert type(one) is type(other)
            assert one == other or (one != one and other != other)


def tensors(*values):
    """One call for each number."""
    return [(gt.asarray(value),) for value in values]
