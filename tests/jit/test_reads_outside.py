"""gt.function: what a function reads in Python besides its arguments may change between calls."""

import functools
import gc
import pickle
import random
import types
import warnings
import weakref

import numpy as np
import pytest
from tests.jit.agreement import Runs

import gradtape as gt

A = gt.asarray
FACTOR = 2.0


def results(f, *args, change, times=3):
    """Results of calls, with a change after each two."""
    found = []
    for number in range(times):
        found += [float(f(*args)), float(f(*args))]
        change(number)
    return found


def by_global(x):
    return x * FACTOR


class TestNames:
    def test_globals(self):
        f = gt.function(by_global)

        def change(number):
            globals()["FACTOR"] = 3.0 + number

        try:
            assert results(f, A(1.0), change=change) == [2.0, 2.0, 3.0, 3.0, 4.0, 4.0]
        finally:
            globals()["FACTOR"] = 2.0
        assert float(f(A(1.0))) == 2.0
        assert f.captures == 3
        assert "FACTOR, which it reads from outside, was 2.0 and is 3.0" in f.explain()

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (2.0, 3.0),
            (2, 3),
            (True, False),
            (A(2.0), A(3.0)),
            (gt.Variable(2.0), gt.Variable(3.0)),
            (np.array(2.0), np.array(3.0)),
            (gt.sin, gt.cos),
            (lambda x: x, lambda x: -x),
        ],
        ids=["float", "int", "bool", "tensor", "variable", "array", "function", "lambda"],
    )
    def test_variables_of_functions_around(self, first, second):
        what = first

        def plain(x):
            return what(x) if callable(what) else x * what

        f = gt.function(plain)
        for each in (first, first, second, second, first, second):
            what = each
            assert float(f(A(5.0))) == pytest.approx(float(plain(A(5.0))))
        assert f.captures == 2

    def test_functions_that_it_calls(self):
        scale = 1.0

        def inner(x):
            return x * scale

        decorated = gt.function(inner)
        partial = functools.partial(inner)
        f = gt.function(lambda x: inner(x) + decorated(x) + partial(x))
        for scale in (1.0, 2.0, 2.0, 3.0, 1.0):
            assert float(f(A(1.0))) == 3.0 * scale

    @pytest.mark.parametrize(
        ("content", "change"),
        [
            ({"rate": 1.0}, lambda c: c.update(rate=2.0)),
            ([1.0, 5.0], lambda c: c.__setitem__(0, 2.0)),
            (np.ones(3), lambda c: c.__setitem__(0, 2.0)),
            (np.ones((600, 3)), lambda c: c.__setitem__((0, 0), 2.0)),
            (np.ones((3, 4)).T, lambda c: c.__setitem__((0, 0), 2.0)),
        ],
        ids=["dict", "list", "array", "large", "turned"],
    )
    def test_contents(self, content, change):
        def plain(x):
            if isinstance(content, np.ndarray):
                return gt.sum(x * content) + content.ravel()[0]
            return x * content["rate" if isinstance(content, dict) else 0]

        f = gt.function(plain)
        before = float(plain(A(1.0)))
        assert [float(f(A(1.0))) for _ in range(3)] == [before] * 3
        change(content)
        assert float(plain(A(1.0))) != before
        assert [float(f(A(1.0))) for _ in range(3)] == [float(plain(A(1.0)))] * 3

    def test_an_equal_value_is_the_same(self):
        runs = Runs()
        note = runs.note
        name, number = "ab", 1000.0

        @gt.function
        def f(x):
            note()
            return x * number * len(name)

        for _ in range(3):
            name, number = "".join(["a", "b"]), float("1e3")
            assert float(f(A(1.0))) == 2000.0
        assert len(runs) == 2


class TestObjects:
    def test_attributes_of_the_instance(self):
        class Model:
            def __init__(self):
                self.rate = 0.5
                self.options = types.SimpleNamespace(scale=1.0)
                self.table = {"a": 1.0}

            def _inner(self, x):
                return x * self.rate * self.options.scale * self.table["a"]

            @gt.function
            def step(self, x):
                return self._inner(x)

        model, other = Model(), Model()
        other.rate = 9.0
        assert [float(model.step(A(2.0))) for _ in range(3)] == [1.0] * 3
        model.rate = 1.0
        assert float(model.step(A(2.0))) == 2.0
        model.options.scale = 3.0
        assert float(model.step(A(2.0))) == 6.0
        model.table["a"] = 2.0
        assert float(model.step(A(2.0))) == 12.0
        model.rate, model.options.scale, model.table["a"] = 0.5, 1.0, 1.0
        assert float(model.step(A(2.0))) == 1.0
        assert float(other.step(A(2.0))) == 18.0

    def test_bound_methods_and_callable_objects(self):
        class Scale:
            def __init__(self):
                self.factor = 2.0

            def __call__(self, x):
                return x * self.factor

            def apply(self, x):
                return self(x)

        for make in (lambda s: s, lambda s: s.apply, lambda s: lambda x: s.apply(x)):
            scale = Scale()
            f = gt.function(make(scale))
            for scale.factor in (2.0, 2.0, 3.0, 2.0):
                assert float(f(A(1.0))) == scale.factor

    def test_objects_are_not_kept(self):
        class Options:
            scale = 1.0

        options = Options()
        options.scale = 2.0
        f = gt.function(lambda x: x * options.scale)
        assert [float(f(A(1.0))) for _ in range(2)] == [2.0, 2.0]
        reference = weakref.ref(options)
        options = Options()
        gc.collect()
        assert reference() is None
        assert float(f(A(1.0))) == 1.0


class Slotted:
    __slots__ = ("value",)


class Shared:
    value = 2.0


class Hidden:
    def __init__(self):
        self._inner = 2.0

    @property
    def value(self):
        return self._inner


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Slotted, "value"),
        (Hidden, "_inner"),
        (lambda: Shared, "value"),
        (lambda: types.ModuleType("options"), "value"),
        (types.SimpleNamespace, "value"),
    ],
    ids=["slot", "property", "class", "module", "namespace"],
)
def test_attributes_of_all_kinds(make, name):
    options = make()
    f = gt.function(lambda x: x * options.value)
    for value in (2.0, 2.0, 3.0, 3.0, 2.0):
        setattr(options, name, value)
        assert float(f(A(1.0))) == value
    assert f.captures == 2
    setattr(options, name, 2.0)


@pytest.mark.parametrize(
    ("nest", "change"),
    [
        ({"a": {"b": 2.0}}, lambda n: n["a"].update(b=3.0)),
        ({"a": {"b": np.full(1, 2.0)}}, lambda n: n["a"]["b"].fill(3.0)),
        ({"a": {"b": A(2.0)}}, lambda n: n["a"].update(b=A(3.0))),
        ({"a": {"b": gt.Variable(2.0)}}, lambda n: n["a"].update(b=gt.Variable(3.0))),
    ],
    ids=["number", "array", "tensor", "variable"],
)
def test_nests(nest, change):
    f = gt.function(lambda x: gt.sum(x * nest["a"]["b"]))
    assert [float(f(A(1.0))) for _ in range(3)] == [2.0] * 3
    kept = dict(nest["a"])
    change(nest)
    assert [float(f(A(1.0))) for _ in range(3)] == [3.0] * 3
    # An array that enters the program whole has proven to be an input of it.
    is_array = isinstance(nest["a"]["b"], np.ndarray)
    assert f.captures == (1 if is_array else 2)
    assert kept


def test_training_with_a_rate_that_falls():
    class Trainer:
        def __init__(self):
            self.steps, self.rate, self.losses = 0, 0.1, []
            self.w = gt.Variable(1.0)

        @gt.function
        def update(self, x):
            with gt.GradientTape() as tape:
                loss = (self.w * x - 1.0) ** 2
            self.w.assign_sub(self.rate * tape.gradient(loss, self.w))
            return loss

        def train(self, x):
            self.losses.append(float(self.update(x)))
            self.steps += 1
            if self.steps % 3 == 0:
                self.rate *= 0.5

    trainer, w, rate = Trainer(), 1.0, 0.1
    for number in range(12):
        x = 0.5 + 0.1 * number
        trainer.train(A(x))
        w -= rate * 2 * (w * x - 1) * x
        rate *= 0.5 if number % 3 == 2 else 1.0
        assert float(trainer.w) == pytest.approx(w)
    assert len(trainer.update.captured) == 4


class TestEffects:
    def test_effects_of_a_frozen_function_happen_once(self):
        seen, count, table = [], 0, {"n": 0}

        @gt.function(frozen=True)
        def f(x):
            nonlocal count
            count += 1
            seen.append(count)
            table["n"] += 1
            return x * 2.0

        assert [float(f(A(1.0))) for _ in range(4)] == [2.0] * 4
        assert (count, seen, table) == (1, [1], {"n": 1})

    def test_changes_in_every_call_run_in_python(self):
        number = 0
        f = gt.function(lambda x: x * number)
        found = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for each in range(20):
                number = each
                found.append(float(f(A(1.0))))
        assert found == [float(n) for n in range(20)]
        (warning,) = caught
        assert "number, which it reads from outside in " in str(warning.message)
        assert "Pass it as an argument" in str(warning.message)
        assert number == 19

    @pytest.mark.parametrize("draw", [random.random, lambda: np.random.rand()])
    def test_random_numbers_of_others_run_in_python(self, draw):
        f = gt.function(lambda x: x * draw())
        with pytest.warns(UserWarning, match=r"random numbers of .* Use gt\.random"):
            assert len({float(f(A(1.0))) for _ in range(5)}) == 5

    def test_iterators_are_moved_on_by_every_call(self):
        f = gt.function(lambda x, numbers: x * next(numbers))
        numbers = iter([1.0, 2.0, 3.0])
        with pytest.warns(UserWarning, match=r"given an iterator.* Pass a list"):
            assert [float(f(A(1.0), numbers)) for _ in range(3)] == [1.0, 2.0, 3.0]

    def test_generators_are_told_once(self):
        f = gt.function(lambda numbers: sum(numbers))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = [float(f(A(float(n + k)) for k in range(3))) for n in range(8)]
        assert found == [3.0 * n + 3.0 for n in range(8)]
        assert len(caught) == 1


class Pickled:
    def __init__(self):
        self.factor = gt.Variable(2.0)

    @gt.function
    def apply(self, x):
        return self.factor * x


def test_bound_methods_are_pickled():
    apply = pickle.loads(pickle.dumps(Pickled().apply))
    assert float(apply(A(3.0))) == 6.0


def test_large_arrays_are_warned_of():
    data = np.zeros(1 << 22)
    f = gt.function(lambda x: x + gt.asarray(data[:3]))
    f(gt.asarray(np.ones(3)))
    with pytest.warns(UserWarning, match="data is a NumPy array of 32 MB.*gt.asarray"):
        f(gt.asarray(np.ones(3)))
    for _ in range(3):
        assert f(gt.asarray(np.ones(3))).tolist() == [1.0] * 3
    tensor = gt.asarray(data)
    g = gt.function(lambda x: x + tensor[:3])
    for _ in range(3):
        assert g(gt.asarray(np.ones(3))).tolist() == [1.0] * 3
