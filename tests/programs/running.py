"""What the programs share: the ways to run one, and what a repeated run must not do."""

import contextlib

import numpy as np
from tests.jit.agreement import Runs

import gradtape as gt


@contextlib.contextmanager
def nothing_new():
    """Nothing is planned, compiled or derived inside: the same was done before."""
    before = gt.counters()
    yield
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.kernels_compiled == before.kernels_compiled
    assert after.derivatives_built == before.derivatives_built


def taken_outside(program):
    """Value and gradient by the first argument, with a tape around the program."""

    def run(x, *rest):
        x = gt.asarray(x)
        with gt.GradientTape() as tape:
            tape.watch(x)
            value = program(x, *rest)
        return value, tape.gradient(value, x)

    return run


def all_ways(program):
    """The program with its gradient: undecorated, with decorated pieces, and decorated whole."""
    outside = taken_outside(program)
    return {
        "undecorated": outside,
        "tape around the function": taken_outside(gt.function(program)),
        "tape inside the function": gt.function(outside),
        "functions inside functions": gt.function(taken_outside(gt.function(program))),
    }


def differences(f, x, step=1e-6):
    """The gradient of a scalar function of arrays by central differences."""
    x = np.asarray(x, float)
    slopes = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        slopes[place] = (f(up) - f(down)) / (2 * step)
    return slopes


class Counted:
    """A function that counts how often Python runs it."""

    def __init__(self, f):
        self.f = f
        self._runs = Runs()
        self._note = self._runs.note

    @property
    def runs(self):
        return len(self._runs)

    def __call__(self, *args, **kwargs):
        self._note()
        return self.f(*args, **kwargs)
