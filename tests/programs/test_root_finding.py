"""Newton's method, bisection and the secant method: loops that end by the values they see."""

import numpy as np
import pytest
from tests.programs.running import Counted, all_ways, nothing_new

import gradtape as gt


def equation(x, a):
    """x³ + a x = 2, which has one root for a > 0."""
    return x**3 + a * x - 2.0


def root(a):
    (found,) = (r.real for r in np.roots([1.0, 0.0, a, -2.0]) if abs(r.imag) < 1e-9)
    return found


def slope(a):
    """dx/da by the implicit function theorem."""
    x = root(a)
    return -x / (3 * x**2 + a)


def newton(a, start=2.0, tolerance=1e-13):
    x = a * 0.0 + start
    while gt.abs(equation(x, a)) > tolerance:
        x = x - equation(x, a) / (3.0 * x**2 + a)
    # One more step: the derivative of the loop lags one step behind its value.
    return x - equation(x, a) / (3.0 * x**2 + a)


def bisection(a):
    low, high = gt.asarray(0.0), gt.asarray(2.0)
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if equation(middle, a) > 0.0:
            high = middle
        else:
            low = middle
    x = gt.stop_gradient(0.5 * (low + high))
    # The halves know nothing of a; a step of Newton's method does.
    return x - equation(x, a) / (3.0 * x**2 + a)


def secant(a):
    before, x = a * 0.0 + 0.5, a * 0.0 + 1.5
    for _ in range(50):
        last, now = equation(before, a), equation(x, a)
        if gt.abs(now) < 1e-14:
            break
        before, x = x, x - now * (x - before) / (now - last)
    else:
        raise ArithmeticError("secant: no root found")
    return x - equation(x, a) / (3.0 * x**2 + a)


METHODS = [newton, bisection, secant]
VALUES = [1.0, 2.0, 0.5, 1.0, 7.0, 2.0, 0.1, 0.5, 1.0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("way", all_ways(newton))
def test_roots_and_their_derivatives(method, way):
    run = all_ways(method)[way]
    for a in VALUES:
        value, gradient = run(gt.asarray(a))
        assert float(value) == pytest.approx(root(a), rel=1e-9)
        assert float(gradient) == pytest.approx(slope(a), rel=1e-9)


@pytest.mark.usefixtures("compiled_at_once")
@pytest.mark.parametrize("method", METHODS)
def test_values_that_were_seen_run_no_python_and_compile_nothing(method):
    counted = Counted(method)
    compiled = gt.function(counted)
    for a in VALUES * 2:
        compiled(gt.asarray(a))
    runs = counted.runs
    assert runs <= 2 * len(set(VALUES))
    with nothing_new():
        found = [float(compiled(gt.asarray(a))) for a in VALUES]
    assert counted.runs == runs
    np.testing.assert_allclose(found, [root(a) for a in VALUES], rtol=1e-9)


@pytest.mark.usefixtures("compiled_at_once")
def test_a_loop_of_any_length_is_planned_once():
    def halvings(x):
        count = 0
        while x > 1.0:
            x = x * 0.5
            count += 1
        return x, count

    compiled = gt.function(halvings)
    compiled(gt.asarray(2.0**10))
    with nothing_new():
        # More steps than any call before: the same body again and again.
        for exponent in (11, 15, 30):
            assert compiled(gt.asarray(2.0**exponent))[1] == exponent


def test_the_derivative_of_a_derivative():
    def curvature(a):
        with gt.GradientTape() as outer:
            outer.watch(a)
            with gt.GradientTape() as inner:
                inner.watch(a)
                # Two steps more: each brings one derivative further.
                x = newton(a)
                x = x - equation(x, a) / (3.0 * x**2 + a)
            first = inner.gradient(x, a)
        return outer.gradient(first, a)

    expected = (slope(2.0 + 1e-5) - slope(2.0 - 1e-5)) / 2e-5
    for run in (curvature, gt.function(curvature)):
        for _ in range(2):
            assert float(run(gt.asarray(2.0))) == pytest.approx(expected, rel=1e-8)


def test_forward_mode_agrees():
    for run in (newton, gt.function(newton)):
        value, tangent = gt.jvp(run, (gt.asarray(2.0),), (gt.asarray(3.0),))
        assert float(value) == pytest.approx(root(2.0))
        assert float(tangent) == pytest.approx(3.0 * slope(2.0))


def test_a_root_in_each_row_with_its_own_count_of_steps():
    rows = np.array([0.1, 1.0, 7.0, 30.0])

    def each(a):
        return gt.stack([newton(row) for row in a])

    for run in all_ways(lambda a: gt.sum(each(a))).values():
        for values in (rows, rows[::-1].copy(), rows):
            value, gradient = run(gt.asarray(values))
            assert float(value) == pytest.approx(sum(root(a) for a in values))
            np.testing.assert_allclose(gradient.numpy(), [slope(a) for a in values], rtol=1e-9)


def test_errors_come_through_and_leave_the_function_usable():
    @gt.function
    def solve(a):
        if a < 0.0:
            raise ValueError("a is negative")
        return newton(a)

    for _ in range(3):
        assert float(solve(gt.asarray(2.0))) == pytest.approx(root(2.0))
        with pytest.raises(ValueError, match="a is negative"):
            solve(gt.asarray(-1.0))
