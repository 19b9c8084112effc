"""Loops that stop by themselves, branches, maps and prefixes: as in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import gradtape as gt
from gradtape.errors import ShapeError

RNG = np.random.default_rng(7)
W = RNG.normal(size=(3, 3)) * 0.5
START = RNG.normal(size=3)
INPUTS = RNG.normal(size=(6, 3))


def close(got: Any, expected: Any, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), tolerance, tolerance)


OPTIONS = [
    {},
    {"reverse": True},
    {"checkpoint": True},
    {"checkpoint": 4},
    {"checkpoint": 4, "reverse": True},
    {"checkpoint": 1},
    {"checkpoint": 100},
    {"unroll": 3},
]


def collatz(n: Any) -> Any:
    return gt.while_loop(
        lambda s: s[0] > 1,
        lambda s: (gt.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
        (n, 0),
    )[1]


def newton(a: Any, **options: Any) -> Any:
    return gt.while_loop(
        lambda x: gt.abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), a, **options
    )


class TestWhile:
    def test_value(self):
        for _ in range(2):
            assert [int(collatz(n)) for n in (1, 2, 7, 27)] == [0, 1, 16, 111]

    def test_both_modes(self):
        a = gt.asarray(7.0)
        exact = 0.5 / np.sqrt(7.0)
        for _ in range(2):
            close(gt.grad(newton)(a), exact)
            close(gt.jvp(newton, (a,), (1.0,))[1], exact)
            close(gt.grad(gt.grad(newton))(a), -0.25 * 7.0**-1.5)
            close(gt.jacobian(newton, mode="forward")(a), exact)

    def test_variables(self):
        v = gt.Variable(3.0)
        with gt.GradientTape() as tape:
            y = gt.while_loop(lambda x: x < 20.0, lambda x: x * v, 1.0)
        assert float(y) == 27.0
        assert float(tape.gradient(y, v)) == 27.0

    def test_vmap(self):
        assert gt.vmap(collatz)(np.array([1, 2, 7, 27])).tolist() == [0, 1, 16, 111]
        a = np.array([2.0, 7.0, 3.0])
        close(gt.vmap(newton)(a), np.sqrt(a))
        bounded = gt.vmap(gt.grad(lambda a: newton(a, maximum_iterations=30)))
        close(bounded(a), 0.5 / np.sqrt(a))
        close(gt.jvp(gt.vmap(newton), (a,), (np.ones(3),))[1], 0.5 / np.sqrt(a))

    def test_maximum(self):
        assert float(gt.while_loop(lambda x: x > 0, lambda x: x + 1, 1.0, 5)) == 6.0
        assert float(gt.while_loop(lambda x: x > 0, lambda x: x + 1, 1.0, 0)) == 1.0
        assert gt.vmap(lambda x: gt.while_loop(lambda x: x < 9, lambda x: x * 2, x, 2))(
            np.array([1.0, 5.0])
        ).tolist() == [4.0, 10.0]

    def test_inside_a_body(self):
        def total(a: Any, **options: Any) -> Any:
            return gt.scan(lambda c, x: (c + newton(a * x, **options), None), 0.0,
                           np.array([1.0, 2.0]))[0]  # fmt: skip

        for options in ({"maximum_iterations": 30}, {}):
            slope = gt.grad(lambda a, options=options: total(a, **options))(2.0)
            close(slope, 0.5 / np.sqrt(2.0) + 0.5)

    def test_bounds_that_are_tensors(self):
        n = gt.asarray(4)
        close(gt.fori_loop(0, n, lambda i, x: x * 2.0 + i, 1.0), 27.0)
        slope = gt.grad(lambda a: gt.fori_loop(gt.asarray(1), n, lambda i, x: x * a * i, 1.0))(2.0)
        close(slope, 6 * 3 * 4.0)


class TestBranches:
    def test_only_one_is_computed(self):
        called = []

        def note(tag: str) -> Any:
            of = gt.asarray(START)
            return lambda x: gt.numpy_function(lambda a: called.append(tag) or a, [x], of)

        gt.cond(False, note("true"), note("false"), gt.asarray(START)).numpy()
        assert set(called) == {"false"}

    @pytest.mark.parametrize("value", [2.0, -2.0])
    def test_derivatives(self, value):
        k = gt.Variable(3.0)

        def f(x: Any) -> Any:
            return gt.cond(x > 0.0, lambda x: k * x * x, lambda x: gt.exp(x) * k, x)

        def direct(x: float) -> Any:
            return 3.0 * x * x if x > 0 else 3.0 * np.exp(x)

        slope, curve = (6 * value, 6.0) if value > 0 else (direct(value),) * 2
        x = gt.asarray(value)
        for _ in range(2):
            close(f(x), direct(value))
            close(gt.grad(f)(x), slope)
            close(gt.jvp(f, (x,), (1.0,))[1], slope)
            close(gt.grad(gt.grad(f))(x), curve)
            with gt.GradientTape() as tape:
                y = f(value)
            close(tape.gradient(y, k), direct(value) / 3.0)

    def test_vmap(self):
        def f(x: Any) -> Any:
            return gt.cond(x > 0.0, gt.sqrt, lambda x: x * x, x)

        x = np.array([4.0, -3.0, 0.0])
        assert gt.vmap(f)(x).tolist() == [2.0, 9.0, 0.0]
        assert gt.vmap(gt.grad(f))(x).tolist() == [0.25, -6.0, 0.0]
        got = gt.vmap(lambda p, x: gt.cond(p, gt.sqrt, gt.square, x), in_axes=(None, 0))(
            True, x[:1]
        )
        assert got.tolist() == [2.0]

    def test_switch_clamps(self):
        branches = [lambda x, n=n: x * float(n) for n in range(3)]
        found = [float(gt.switch(i, branches, 1.0)) for i in (-5, 0, 1, 2, 7)]
        assert found == [0.0, 0.0, 1.0, 2.0, 2.0]
        assert (
            gt.vmap(lambda i: gt.switch(i, branches, 1.0))(np.array([-5, 0, 1, 2, 7])).tolist()
            == found
        )

    def test_nests_and_no_operands(self):
        found = gt.cond(
            True, lambda: {"a": 1.0, "b": (2, None)}, lambda: {"a": 0.0, "b": (3, None)}
        )
        assert float(found["a"]) == 1.0
        assert int(found["b"][0]) == 2
        assert gt.cond(True, lambda: None, lambda: None) is None

    def test_inside_a_scan(self):
        def step(x: Any, n: Any) -> Any:
            return gt.cond(n % 2 == 0, lambda x: x * x, lambda x: gt.sin(x) + 1.0, x), x

        def loop(x: Any) -> Any:
            for n in range(5):
                x = x * x if n % 2 == 0 else gt.sin(x) + 1.0
            return x

        for derivative in (lambda f: f, gt.grad, lambda f: gt.grad(gt.grad(f))):
            expected = derivative(loop)(gt.asarray(0.7))
            for _ in range(2):
                got = derivative(lambda x: gt.scan(step, x, np.arange(5))[0])(gt.asarray(0.7))
                close(got, expected)


class TestMapAndPrefixes:
    def test_map(self):
        weights = gt.Variable(START)
        with gt.GradientTape() as tape:
            found = gt.map(lambda x: (gt.sum(weights * x["u"]), x["k"] + 1),
                           {"u": INPUTS, "k": np.arange(6)})  # fmt: skip
        close(found[0].numpy(), INPUTS @ START)
        assert found[1].tolist() == [1, 2, 3, 4, 5, 6]
        close(tape.gradient(found[0], weights), INPUTS.sum(0))

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 20), st.booleans(), st.integers(0, 1))
    def test_sums(self, length, reverse, axis):
        shape = (length, 2) if axis == 0 else (2, length)
        x = np.random.default_rng(length).normal(size=shape)
        expected = np.cumsum(np.flip(x, axis) if reverse else x, axis)
        expected = np.flip(expected, axis) if reverse else expected
        close(gt.associative_scan(gt.add, x, reverse=reverse, axis=axis), expected)

    def test_order_of_arguments(self):
        m = RNG.normal(size=(5, 2, 2))
        found = gt.associative_scan(gt.matmul, m)
        total = m[0]
        for number in range(1, 5):
            total = total @ m[number]
            close(found[number], total)
        close(gt.associative_scan(gt.matmul, m, reverse=True)[0],
              m[4] @ m[3] @ m[2] @ m[1] @ m[0])  # fmt: skip

    def test_gradient(self):
        def last(x: Any) -> Any:
            return gt.associative_scan(gt.multiply, x)[-1]

        x = np.array([2.0, 3.0, 4.0])
        assert gt.grad(last)(x).tolist() == [12.0, 8.0, 6.0]

    def test_errors(self):
        with pytest.raises(ShapeError, match=r"elems\[1\] has 3 elements"):
            gt.associative_scan(lambda a, b: a, (np.zeros(2), np.zeros(3)))
        with pytest.raises(ShapeError, match="combines many elements at once"):
            gt.associative_scan(lambda a, b: gt.sum(a), np.zeros(4))
