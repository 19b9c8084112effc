"""Ordinary changes outside a function are seen by the next call: no check is needed for them."""

import collections
import contextlib
import dataclasses
import datetime
import enum
import functools
import itertools
import logging
import os
import queue
import random
import sys
import time
import types
from random import gauss

import numpy as np
import pytest
from tests.jit.package import model, settings

import gradtape as gt

A = gt.asarray
CASES = {}


def case(make):
    """Register a maker of a function and of what changes."""
    CASES[make.__name__] = make
    return make


NUMBER, TEXT, FLAG = 1.0, "a", True


@case
def number():
    return lambda x: x * NUMBER, lambda: globals().update(NUMBER=NUMBER + 1.0)


@case
def string():
    return lambda x: x * len(TEXT), lambda: globals().update(TEXT=TEXT + "b")


@case
def flag():
    return lambda x: x * 2.0 if FLAG else x, lambda: globals().update(FLAG=not FLAG)


@case
def list_in_place():
    held = [1.0, 2.0]
    return lambda x: x * held[0] + len(held), lambda: held.__setitem__(0, 5.0)


@case
def dict_in_place():
    held = {"a": {"b": [1.0]}}
    return lambda x: x * held["a"]["b"][0], lambda: held["a"]["b"].__setitem__(0, 5.0)


@case
def array_in_place():
    held = np.ones(3)
    return lambda x: gt.sum(x * held), lambda: held.__setitem__(0, 5.0)


@case
def attribute():
    held = types.SimpleNamespace(inner=types.SimpleNamespace(rate=1.0))

    def f(x):
        alias = held.inner
        return x * alias.rate

    return f, lambda: setattr(held.inner, "rate", 5.0)


@case
def layer():
    dense = gt.nn.Dense(1, kernel_initializer="ones")

    def f(x):
        return gt.sum(dense(gt.reshape(x, (1, 1))))

    return f, lambda: setattr(dense, "activation", lambda z: z * 5.0)


def scaled(x):
    return x * 2.0


@case
def helper_redefined():
    factor = float(scaled(A(1.0))) + 1.0
    return lambda x: scaled(x), lambda: globals().update(scaled=lambda x: x * factor)


@case
def closure():
    rate = 1.0

    def f(x):
        return x * rate

    def change():
        nonlocal rate
        rate = 5.0

    return f, change


@case
def defaults():
    def inner(x, rate=1.0):
        return x * rate

    return lambda x: inner(x), lambda: setattr(inner, "__defaults__", (5.0,))


@case
def keyword_defaults():
    def inner(x, *, rate=1.0):
        return x * rate

    return lambda x: inner(x), lambda: inner.__kwdefaults__.update(rate=5.0)


@case
def class_attribute():
    class Held:
        rate = 1.0

    held = Held()
    return lambda x: x * held.rate, lambda: setattr(Held, "rate", 5.0)


@case
def metaclass_attribute():
    class Meta(type):
        rate = 1.0

    class Held(metaclass=Meta):
        pass

    return lambda x: x * Held.rate, lambda: setattr(Meta, "rate", 5.0)


@case
def module_attribute():
    return lambda x: x * settings.RATE, lambda: setattr(settings, "RATE", settings.RATE + 1.0)


@case
def relative_import():
    return model.by_module, lambda: setattr(settings, "RATE", settings.RATE + 1.0)


@case
def relative_import_of_a_name():
    return model.by_name, lambda: setattr(settings, "RATE", settings.RATE + 1.0)


@case
def suppressed_attribute():
    held = types.SimpleNamespace()

    def f(x):
        rate = 1.0
        with contextlib.suppress(AttributeError):
            rate = held.rate
        return x * rate

    return f, lambda: setattr(held, "rate", 5.0)


@case
def identity():
    one = [1]
    both = {"other": one}
    return lambda x: x * (2.0 if both["other"] is one else 3.0), lambda: both.update(other=[1])


@case
def functional_enumeration():
    kind = enum.Enum("kind", {"one": 1.0, "two": 2.0})
    held = [kind.one]
    return lambda x: x * held[0].value, lambda: held.__setitem__(0, kind.two)


@case
def functional_data_class():
    held = dataclasses.make_dataclass("Held", [("rate", float, 1.0)])()
    return lambda x: x * held.rate, lambda: setattr(held, "rate", 5.0)


@case
def state_behind_partial():
    class Held:
        rate = 1.0

        def scaled(self, x):
            return x * self.rate

    held = Held()
    apply = functools.partial(Held.scaled, held)
    return lambda x: apply(x), lambda: setattr(held, "rate", 5.0)


@case
def name_of_a_function():
    def named():
        pass

    return lambda x: x * len(named.__name__), lambda: setattr(named, "__name__", "n")


@case
def all_attributes():
    held = types.SimpleNamespace(a=1.0)
    return lambda x: x * sum(vars(held).values()), lambda: setattr(held, "b", 5.0)


@case
def containers_of_the_library():
    held = collections.OrderedDict(a=1.0), collections.Counter(a=1), collections.deque([1.0])
    return lambda x: x * held[0]["a"] * held[1]["a"] * held[2][0], lambda: held[1].update(a=4)


@case
def operators_and_properties():
    class Held:
        number = 1.0

        @property
        def rate(self):
            return self.number

        def __mul__(self, x):
            return x * self.rate

    held = Held()
    return lambda x: held * x, lambda: setattr(held, "number", 5.0)


@case
def context_manager():
    held = [1.0]

    @contextlib.contextmanager
    def opened():
        yield held[0]

    def f(x):
        with opened() as rate:
            return x * rate

    return f, lambda: held.__setitem__(0, 5.0)


@pytest.mark.parametrize("before", [1, 2, 3, 20, 50])
@pytest.mark.parametrize("name", CASES)
def test_the_next_call_sees_it(name, before):
    f, change = CASES[name]()
    decorated = f if isinstance(f, gt.Function) else gt.function(f)
    plain = decorated.python_function
    for _ in range(before):
        assert float(decorated(A(1.0))) == float(plain(A(1.0)))
    was = float(plain(A(1.0)))
    change()
    assert float(plain(A(1.0))) != was
    for _ in range(4):
        assert float(decorated(A(1.0))) == float(plain(A(1.0)))
    assert [each.refused for each in decorated.captured if each.refused] == []


RNG, PYTHON = np.random.default_rng(0), random.Random(0)
DRAW, PART, TELL, CLOCKS = RNG.normal, functools.partial(RNG.normal, 0.0), print, [time.time]
LOG, NUMBERS = logging.getLogger("tests"), queue.Queue()


class Holder:
    shared = np.random.default_rng(1)

    def __init__(self):
        self.own, self.count = random.Random(2), itertools.count()
        self.deep = {"k": [np.random.default_rng(2)]}

    @property
    def drawn(self):
        return self.own.random()

    def draw(self):
        return self.own.random()


HOLDER = Holder()
MOVING = {
    "bound method": lambda x: x * DRAW(),
    "partial": lambda x: x * PART(),
    "imported name": lambda x: x * gauss(0, 1),
    "class attribute": lambda x: x * Holder.shared.random(),
    "attribute": lambda x: x * HOLDER.own.random(),
    "method": lambda x: x * HOLDER.draw(),
    "property": lambda x: x * HOLDER.drawn,
    "container": lambda x: x * HOLDER.deep["k"][0].random(),
    "made inside": lambda x: x * np.random.default_rng().random(),
    "default": lambda x, generator=RNG: x * generator.random(),
    "rare branch": lambda x: x * 2.0 if PYTHON.random() < 1e-3 else x,
    "computed name": lambda x: x * getattr(np, "ran" + "dom").rand(),
    "iterator": lambda x: x * next(HOLDER.count),
    "clock in a list": lambda x: x * CLOCKS[0](),
    "clock of a class": lambda x: x * datetime.datetime.now().year,
    "clock": lambda x: x * time.perf_counter(),
    "environment": lambda x: x * len(os.environ.get("HOME", "")),
    "environment by a function": lambda x: x * len(os.getenv("HOME", "")),
    "print by another name": lambda x: (TELL("", end=""), x)[1],
    "standard output": lambda x: (sys.stdout.write(""), x)[1],
    "log": lambda x: (LOG.debug("x"), x)[1],
    "queue": lambda x: x * NUMBERS.qsize(),
}


@pytest.mark.filterwarnings("ignore:gt.function")
@pytest.mark.parametrize("name", MOVING)
def test_what_moves_is_never_replayed(name):
    decorated = gt.function(MOVING[name])
    for _ in range(4):
        decorated(A(1.0))
    assert all(each.refused for each in decorated.captured), decorated.explain()
