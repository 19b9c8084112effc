"""gt.function: what a function does outside, it does in every call, as if it were not decorated."""

import itertools
import logging
import os
import random
import secrets
import time
import uuid
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from tests.jit.twins import assert_twins

import gradtape as gt
from gradtape.jit.capture.capture_run import ContainerChanges

A = gt.asarray
EFFECTS = {
    "append": lambda s, x: s.log.append(len(s.log)),
    "append_argument": lambda s, x: s.log.append(float(x)),
    "counter": lambda s, x: setattr(s, "count", s.count + 1),
    "item": lambda s, x: s.table.__setitem__(len(s.table), 1.0),
    "same_item": lambda s, x: s.table.__setitem__("a", s.table.get("a", 0.0) + 0.5),
    "set": lambda s, x: s.seen.add(len(s.seen)),
    "pop": lambda s, x: s.long.pop(),
    "reverse": lambda s, x: s.long.reverse(),
    "rotate": lambda s, x: s.long.append(s.long.pop(0)),
    "new_attribute": lambda s, x: setattr(s, f"name{len(vars(s))}", 1.0),
    "toggle": lambda s, x: setattr(s, "flag", not s.flag),
    "array": lambda s, x: s.array.__setitem__(0, s.array[0] + 1.0),
    "array_in_place": lambda s, x: np.add(s.array, 1.0, out=s.array),
    "tensor_kept": lambda s, x: setattr(s, "kept", x * 2.0),
    "tensors_kept": lambda s, x: s.log.append(x * 3.0),
    "variable": lambda s, x: s.variable.assign_add(x),
    "cache": lambda s, x: s.table.setdefault(len(s.table) // 2, len(s.table)),
    "nested": lambda s, x: s.deep["a"]["b"].append(len(s.deep["a"]["b"])),
    "class": lambda s, x: setattr(type(s.own), "total", type(s.own).total + 1),
    "then_undone": lambda s, x: (s.log.append(1.0), s.log.clear()),
    "deleted": lambda s, x: s.table.pop("gone", None),
    "moved_iterator": lambda s, x: s.log.append(next(s.numbers)),
    "sorted": lambda s, x: (s.log.insert(0, -len(s.log)), s.log.sort()),
}


def world():
    class Own:
        total = 0

    return SimpleNamespace(
        log=[], count=0, table={"gone": 1.0}, seen=set(), long=list(range(60)), flag=False,
        array=np.zeros(2), kept=A(0.0), variable=gt.Variable(0.0), deep={"a": {"b": []}},
        own=Own(), numbers=itertools.count(),
    )  # fmt: skip


@pytest.mark.parametrize("name", EFFECTS)
def test_effects_are_those_of_the_undecorated_function(name):
    def make():
        state, effect = world(), EFFECTS[name]

        def f(x):
            effect(state, x)
            return x * 2.0 + state.count + len(state.log)

        def look():
            held = {key: each for key, each in vars(state).items() if key not in ("own", "numbers")}
            held["seen"] = sorted(held["seen"])
            return [held, state.own.total]

        return f, [(A(float(number % 4)),) for number in range(45)], look

    assert_twins(make)


def called(f, times=6):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "gt.function: ")
        return [f(A(1.0)) for _ in range(times)]


def test_text_is_printed_by_every_call(capsys):
    @gt.function
    def f(x):
        print("called")
        return x

    called(f)
    assert capsys.readouterr().out == "called\n" * 6


def test_lines_are_written_by_every_call(tmp_path):
    @gt.function
    def f(x):
        with open(tmp_path / "log", "a") as file:
            file.write("line\n")
        return x

    called(f)
    assert (tmp_path / "log").read_text() == "line\n" * 6


def test_arrays_are_written_to_files_by_every_call(tmp_path):
    numbers = np.ones(2)

    @gt.function
    def f(x):
        numbers.tofile(tmp_path / "numbers")
        return x

    for _ in range(4):
        called(f, 1)
        os.remove(tmp_path / "numbers")


def test_messages_are_logged_by_every_call(caplog):
    log = logging.getLogger("gradtape_test")

    @gt.function
    def f(x):
        log.warning("called")
        return x

    called(f)
    assert sum(record.name == log.name for record in caplog.records) == 6


def test_warnings_are_issued_by_every_call():
    @gt.function
    def f(x):
        warnings.warn("of the user", stacklevel=1)
        return x

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(6):
            f(A(1.0))
    assert sum("of the user" in str(each.message) for each in caught) == 6


MOVING = {
    "clock": lambda: time.perf_counter_ns() % 10**9,
    "clock_passed_on": lambda: next(iter(time.perf_counter_ns, None)) % 10**9,
    "python": lambda: random.random(),
    "own_python": lambda: random.Random().random(),
    "own_python_passed_on": lambda: next(iter(random.Random().random, None)),
    "system": lambda: random.SystemRandom().random(),
    "numpy": lambda: np.random.rand(),
    "own_numpy": lambda: np.random.default_rng().random(),
    "numpy_of_class": lambda: np.random.Generator(np.random.PCG64()).random(),
    "old_numpy": lambda: np.random.RandomState().rand(),
    "uuid": lambda: uuid.uuid4().int % 10**9,
    "bytes": lambda: int.from_bytes(os.urandom(4)),
    "secret": lambda: secrets.randbelow(10**9),
    "mapped": lambda: next(map(random.uniform, [0.0], [1.0])),
    "by_name": lambda: getattr(random, "ran" + "dom")(),
    "by_computed_import": lambda: __import__("random").random(),
}


@pytest.mark.parametrize("name", MOVING)
def test_numbers_that_move_are_not_repeated(name):
    read = MOVING[name]
    found = called(gt.function(lambda x: x * read()), 8)
    assert len({float(each) for each in found}) == 8


def test_a_list_that_another_thread_empties_is_an_error_of_the_caller():
    """The stand-in has been made from entries that the caller's list does not hold any more."""
    box = [gt.asarray([1.0])]
    with pytest.raises(RuntimeError, match="another thread changed a list among the arguments"):
        ContainerChanges([[]], [box], [])
