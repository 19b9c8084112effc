"""Functions return the caller's own tensors, and one tensor twice, where Python has it so."""

import numpy as np
import pytest

import gradtape as gt

A = gt.asarray
# Enough for all ways of calling: the captured run, Python, and native code.
CALLS = range(80)


def test_an_argument_is_itself():
    f, x = gt.function(lambda x: x), A([1.0, 2.0])
    for _ in CALLS:
        assert f(x) is x
    found = f(x)
    found += 1.0
    assert x.tolist() == [2.0, 3.0]


def test_one_tensor_in_several_places():
    f = gt.function(lambda x, k: (y := x * k, [y, x], y, x))
    flat = gt.function(lambda x, k: (y := x * k, y, x, 3, x))
    for number in CALLS:
        x = A([1.0, number])
        first, (second, back), third, again = f(x, 2.0)
        assert first is second is third
        assert back is again is x
        assert first.tolist() == [2.0, 2.0 * number]
        first, second, back, three, again = flat(x, 2.0)
        assert first is second
        assert back is again is x
        assert (first.tolist(), three) == ([2.0, 2.0 * number], 3)


def test_an_array_comes_back_as_a_tensor_of_its_own():
    f = gt.function(lambda x: (x, x))
    for _ in CALLS:
        given = np.array([1.0, 2.0])
        one, two = f(given)
        assert one is two
        one += 1.0
        assert (given.tolist(), two.tolist()) == ([1.0, 2.0], [2.0, 3.0])


def test_an_argument_that_is_changed():
    @gt.function
    def f(x):
        x += 1.0
        return x, x * 2.0

    x = A([0.0])
    for number in CALLS:
        found, twice = f(x)
        assert found is x
        assert (x.tolist(), twice.tolist()) == ([number + 1.0], [2.0 * number + 2.0])


def test_a_tensor_from_outside_that_is_changed():
    total = A([0.0])

    @gt.function
    def f(x):
        total.__iadd__(x)
        return total

    for _ in CALLS:
        assert f(A([1.0])) is total
    assert total.tolist() == [80.0]


def test_on_one_of_two_paths():
    f = gt.function(lambda x: x if x[0] > 0.0 else x * 2.0)
    for number in CALLS:
        x = A([(-1.0) ** (number // 3), 2.0])
        assert (f(x) is x) == (number // 3 % 2 == 0)


def test_constants_and_variables_are_apart_in_every_call():
    v = gt.Variable(3.0)
    for f in (gt.function(lambda: gt.asarray(3.0)), gt.function(lambda: v.value)):
        for _ in range(3):
            one, two = f(), f()
            with gt.GradientTape() as tape:
                tape.watch(one)
                y = one * two * v
            assert float(tape.gradient(y, one)) == 9.0


def test_a_view_is_refused_as_in_python():
    @gt.function
    def f(x):
        x += 1.0
        return x

    x = A([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3):
        with pytest.raises(gt.errors.InPlaceError, match="made by indexing"):
            f(x[0])
        row = A([1.0, 2.0])
        assert f(row) is row
        assert row.tolist() == [2.0, 3.0]


def test_a_variable_that_is_a_source_without_being_watched():
    v = gt.Variable([1.0, 2.0])

    def f(x):
        with gt.GradientTape(watch_accessed_variables=False) as tape:
            y = v * x
        return tape.jvp(y, v, [1.0, 1.0])

    x, g = A([3.0, 4.0]), gt.function(f)
    for _ in range(3):
        assert g(x).tolist() == f(x).tolist() == [3.0, 4.0]
