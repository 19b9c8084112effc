"""Errors of ops that run later than they were recorded name the line that did."""

from typing import ClassVar

import numpy as np
import pytest

import gradtape as gt

GOOD, BAD = gt.asarray(np.eye(3)), gt.asarray(-np.eye(3))


def note_of(call, error=Exception):
    with pytest.raises(error) as caught:
        call()
    return "\n".join(getattr(caught.value, "__notes__", []))


def line(function, offset):
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def factor(a):
    b = a * 1.0
    lower = gt.linalg.cholesky(b)
    return gt.sum(lower)


def test_while_capturing_and_in_later_calls():
    f = gt.function(factor)
    expected = f"gradtape: cholesky recorded at {line(factor, 2)}"
    assert note_of(lambda: f(BAD), np.linalg.LinAlgError) == expected
    for _ in range(3):
        assert float(f(GOOD)) == 3.0
        assert note_of(lambda: f(BAD), np.linalg.LinAlgError) == expected


def test_a_failed_capture_leaves_the_function_usable():
    f = gt.function(factor)
    with pytest.raises(np.linalg.LinAlgError):
        f(BAD)
    f(GOOD)
    before = gt.counters().plans_built
    f(GOOD)
    assert gt.counters().plans_built == before
    assert "1 path," in f.explain()


def test_one_of_several():
    def two(a, b):
        first = gt.linalg.cholesky(a)
        second = gt.linalg.cholesky(b)
        return first + second

    f = gt.function(two)
    f(GOOD, GOOD)
    for _ in range(2):
        assert note_of(lambda: f(BAD, GOOD)).endswith(line(two, 1))
        assert note_of(lambda: f(GOOD, BAD)).endswith(line(two, 2))


def test_behind_a_branch():
    def chosen(a):
        if gt.sum(a) > 0.0:
            return gt.sum(gt.linalg.cholesky(a))
        return gt.sum(gt.linalg.inv(a))

    f = gt.function(chosen)
    f(GOOD), f(BAD)
    singular = gt.asarray(np.zeros((3, 3)))
    assert note_of(lambda: f(singular)) == f"gradtape: inv recorded at {line(chosen, 3)}"


def test_results_that_nobody_reads_are_tried():
    def checked(a):
        gt.linalg.cholesky(a)
        return a + 1.0

    f = gt.function(checked)
    f(GOOD)
    assert "cholesky" in note_of(lambda: f(BAD), np.linalg.LinAlgError)


def test_inside_vmap():
    matrices = gt.asarray(np.stack([np.eye(3), -np.eye(3)]))
    expected = f"gradtape: cholesky recorded at {line(factor, 2)}"
    for f, given in (
        (gt.vmap(factor), matrices),
        (gt.function(gt.vmap(factor)), matrices),
        (gt.vmap(gt.vmap(factor)), matrices[None]),
    ):
        assert note_of(lambda f=f, x=given: f(x), np.linalg.LinAlgError) == expected


def test_callbacks_that_raise():
    def refuse(x):
        if x[0] > 1.0:
            raise RuntimeError("too large")
        return x

    def called(x):
        return gt.numpy_function(refuse, [x], ((2,), gt.float64)) + 1.0

    f = gt.function(called)
    for _ in range(3):
        f(gt.asarray([0.0, 1.0]))
        note = note_of(lambda: f(gt.asarray([2.0, 1.0])), RuntimeError)
        assert note == f"gradtape: numpy_function recorded at {line(called, 1)}"


def test_derivatives_of_callbacks_that_raise():
    def refuse(x, dy):
        raise RuntimeError("no derivative today")

    def recorded(x):
        return gt.py_function(gt.sin, [x], ((), gt.float64), gradient=refuse)

    x = gt.asarray(1.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = recorded(x)
    slope = tape.gradient(y, x)
    note = note_of(lambda: float(slope), RuntimeError)
    assert note == f"gradtape: a derivative of py_function recorded at {line(recorded, 1)}"


class TestIndices:
    """What a function is captured with must not decide for other indices."""

    TABLE = gt.asarray(np.arange(9.0).reshape(3, 3))
    LOOKUPS: ClassVar = {
        "take": lambda a, i: gt.take(a, i, axis=0),
        "item": lambda a, i: a[i],
        "scatter": lambda a, i: gt.scatter_add(a, i, a[:2]),
        "set": lambda a, i: gt.scatter_set(a, i, a[:2]),
    }

    @pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
    @pytest.mark.parametrize("first", [[-1, 0], [0, 1]], ids=["negative", "positive"])
    def test_each_call_has_its_own(self, lookup, first):
        f = gt.function(lookup)
        for indices in (first, [0, 1], [2, -2], [1, 2]):
            given = gt.asarray(np.array(indices))
            expected = lookup(self.TABLE, given).numpy()
            np.testing.assert_array_equal(f(self.TABLE, given).numpy(), expected)

    @pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
    def test_out_of_range(self, lookup):
        f = gt.function(lookup)
        for _ in range(3):
            f(self.TABLE, gt.asarray(np.array([0, 1])))
            note = note_of(lambda: f(self.TABLE, gt.asarray(np.array([0, 7]))), IndexError)
            assert "recorded at" in note

    def test_a_variable_as_index(self):
        v = gt.Variable(np.array([0, 1]))
        f = gt.function(lambda a: a[v] * 1.0)
        np.testing.assert_array_equal(self.TABLE[v].numpy(), self.TABLE.numpy()[:2])
        f(self.TABLE)
        v.assign(np.array([-1, 0]))
        np.testing.assert_array_equal(f(self.TABLE).numpy(), self.TABLE.numpy()[[-1, 0]])


class TestKnownValues:
    """Plans are found by structure, so they must not look through values that are known."""

    def test_constants_looked_at_are_not_part_of_the_structure(self):
        def noted(x, derivative):
            return gt.numpy_function(derivative, [x], ((), gt.float64))

        @gt.custom_gradient
        def sine(x):
            return noted(x, np.sin), lambda dy: dy * cosine(x)

        @gt.custom_gradient
        def cosine(x):
            return noted(x, np.cos), lambda dy: -dy * sine(x)

        f, expected = sine, [np.sin(1.0), np.cos(1.0), -np.sin(1.0), -np.cos(1.0), np.sin(1.0)]
        for value in expected:
            assert float(f(gt.asarray(1.0))) == pytest.approx(value)
            f = gt.grad(f)

    def test_movements_of_what_was_looked_at(self):
        x = gt.asarray([1.0, 2.0])
        with gt.GradientTape() as tape:
            tape.watch(x)
            for make in (gt.negative, lambda a: gt.reshape(a, (2, 1))):
                y = make(x)
                y.numpy()
                z = gt.reshape(make(y), (1, 2))
                np.testing.assert_array_equal(np.abs(z.numpy()), [[1.0, 2.0]])
