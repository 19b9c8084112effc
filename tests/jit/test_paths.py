"""A function that keeps taking the same way through its guards computes it by one plan."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import CALLS_BEFORE_JOINING


def plans_of(call):
    before = gt.counters().plans_run
    result = call()
    return gt.counters().plans_run - before, result


def newton():
    @gt.function
    def root(a):
        with gt.GradientTape() as tape:
            tape.watch(a)
            x = a
            while gt.abs(x * x * x - a) > 1e-10:
                x = x - (x * x * x - a) / (3.0 * x * x)
        return x, tape.gradient(x, a)

    return root


def repeat(function, *args, times=CALLS_BEFORE_JOINING + 6):
    for _ in range(times):
        function(*args)


def check_root(root, value):
    x, slope = root(gt.asarray(value))
    np.testing.assert_allclose(float(x), np.cbrt(value), rtol=1e-9)
    np.testing.assert_allclose(float(slope), np.cbrt(value) / (3 * value), rtol=1e-6)


def test_one_plan_for_a_loop():
    root = newton()
    a = gt.asarray(7.0)
    count, _ = plans_of(lambda: root(a))
    repeat(root, a)
    joined, _ = plans_of(lambda: root(a))
    assert joined == 1
    assert count > 5
    check_root(root, 7.0)


def test_other_values_take_other_ways():
    root = newton()
    repeat(root, gt.asarray(7.0))
    for value in (0.5, 7.0, 300.0, 7.0, 7.1, 2.0, 1e6, 7.0):
        check_root(root, value)


def test_values_that_change_at_every_call():
    root = newton()
    rng = np.random.default_rng(0)
    repeat(root, gt.asarray(7.0))
    for value in rng.uniform(0.1, 50.0, 60):
        check_root(root, value)


def test_assignments_happen_once():
    counter, total = gt.Variable(0.0), gt.Variable(0.0)

    @gt.function
    def step(x):
        counter.assign_add(1.0)
        if x > 0:
            total.assign_add(x)
        else:
            total.assign_sub(10.0 * x)
        return total * 2.0

    expected = 0.0
    pattern = [1.0] * (CALLS_BEFORE_JOINING + 5) + [-1.0, 2.0, -3.0] * 3 + [1.0] * 5
    for calls, value in enumerate(pattern, start=1):
        found = step(gt.asarray(value))
        expected += value if value > 0 else -10 * value
        assert float(found) == 2 * expected
        assert float(total.value) == expected
        assert float(counter.value) == calls


def test_variables_and_outside_tensors_are_read_at_each_call():
    scale = gt.Variable(2.0)

    @gt.function
    def f(x):
        y = scale * x
        if gt.sum(y) > 100:
            y = y / 10.0
        return y

    x = gt.asarray([1.0, 2.0])
    repeat(f, x)
    assert f(x).tolist() == [2.0, 4.0]
    scale.assign(3.0)
    assert f(x).tolist() == [3.0, 6.0]
    scale.assign(100.0)
    assert f(x).tolist() == [10.0, 20.0]


def test_results_of_several_steps():
    @gt.function
    def f(x):
        kept = [gt.sum(x)]
        while kept[-1] < 100:
            kept.append(kept[-1] * 2.0)
        return kept

    x = gt.asarray([1.0, 2.0])
    for _ in range(CALLS_BEFORE_JOINING + 4):
        found = f(x)
    assert [float(v) for v in found] == [3.0, 6.0, 12.0, 24.0, 48.0, 96.0, 192.0]
    assert [float(v) for v in f(x * 10.0)] == [30.0, 60.0, 120.0]


@pytest.mark.parametrize("times", [1, CALLS_BEFORE_JOINING + 4])
def test_what_may_fail_or_is_random_stays_apart(times):
    generator = gt.random.Generator(3)
    twin = gt.random.Generator(3)

    def f(generator, a):
        noise = generator.normal((2,))
        if gt.sum(a) > 0:
            return gt.linalg.solve(a, noise)
        return noise

    compiled = gt.function(lambda a: f(generator, a))
    a = gt.asarray(np.array([[2.0, 1.0], [0.0, 3.0]]))
    for _ in range(times):
        np.testing.assert_allclose(compiled(a).numpy(), f(twin, a).numpy())
    with pytest.raises(np.linalg.LinAlgError):
        compiled(gt.asarray(np.ones((2, 2))))


def test_integers_looked_at():
    @gt.function
    def f(x, n):
        for _ in range(int(n)):
            x = x * 2.0
        return x if gt.max(x) > 5 else -x

    x = gt.asarray([1.0])
    for n in [3] * (CALLS_BEFORE_JOINING + 4) + [1, 4, 3, 0]:
        expected = 2.0**n
        assert float(f(x, gt.asarray(n))[0]) == (expected if expected > 5 else -expected)
