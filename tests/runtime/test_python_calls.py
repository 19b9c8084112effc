"""Plans that call Python, and kernels that fail: in plans, in bodies of loops, in native calls."""

import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.runtime import tiers

SPEC = ((3,), gt.float64)
X = np.array([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


def callback(function, x):
    return gt.numpy_function(function, [x], SPEC)


def test_a_body_with_a_callback_stays_native():
    seen = []

    def double(x):
        seen.append(x.copy())
        return 2.0 * x

    @gt.function
    def run(x):
        return gt.scan(lambda c, _: (callback(double, c) + 1.0, gt.sum(c)), x, None, length=4)

    run(gt.asarray(X))
    del seen[:]
    before = gt.counters().python_calls
    last, sums = run(gt.asarray(X))
    assert gt.counters().python_calls == before + 4
    assert len(seen) == 4
    np.testing.assert_allclose(last.numpy(), 16.0 * X + 15.0)
    np.testing.assert_allclose(sums.numpy()[0], 6.0)


def test_an_error_of_a_callback_ends_a_loop():
    calls = []

    def refuse(x):
        calls.append(1)
        if len(calls) > 2:
            raise RuntimeError("enough")
        return x

    @gt.function
    def run(x):
        # Without the error it would go on for long.
        return gt.while_loop(lambda c: gt.sum(c) < 1e9, lambda c: callback(refuse, c) + 1e-3, x)

    with pytest.raises(RuntimeError, match="enough"):
        run(gt.asarray(X)).numpy()
    assert len(calls) <= 4  # the run, and Python once more to name the line


def test_a_callback_may_use_gradtape():
    def inner(x):
        return gt.function(lambda y: gt.cumulative_sum(y) * 2.0)(gt.asarray(x)).numpy()

    @gt.function
    def run(x):
        return callback(inner, x) + gt.sin(x)

    for _ in range(3):
        np.testing.assert_allclose(run(gt.asarray(X)).numpy(), 2 * np.cumsum(X) + np.sin(X))


def test_values_that_a_callback_keeps_do_not_change():
    kept = []

    def keep(x):
        kept.append(x)
        return x

    @gt.function
    def run(x):
        return gt.scan(lambda c, _: (callback(keep, c * 2.0), None), x, None, length=3)[0]

    run(gt.asarray(X)).numpy()
    del kept[:]
    run(gt.asarray(X)).numpy()
    for step, array in enumerate(kept[-3:], 1):
        np.testing.assert_array_equal(array, X * 2.0**step)


def solved(matrix, x):
    return gt.linalg.solve(matrix, x) + 1.0


def in_a_loop(matrix, x):
    step = lambda c, s: (gt.linalg.solve(matrix * s, c), None)  # noqa: E731
    return gt.scan(step, x, gt.asarray([1.0, 2.0]))[0]


@pytest.mark.parametrize("function", [solved, in_a_loop])
def test_failures_raise_as_in_numpy_also_in_native_calls(function, monkeypatch):
    good, bad = gt.asarray(np.diag(X)), gt.asarray(np.zeros((3, 3)))
    x = gt.asarray(X)
    monkeypatch.setattr(tiers, "MODE", "off")
    with pytest.raises(gt.errors.MatrixError) as expected:
        function(bad, x).numpy()
    monkeypatch.setattr(tiers, "MODE", "always")
    f = gt.function(function)
    want = f(good, x).numpy()
    for _ in range(2000):  # by then the call is native
        f(good, x)
    for _ in range(3):
        with pytest.raises(gt.errors.MatrixError) as found:
            f(bad, x)
        assert str(found.value) == str(expected.value)
        np.testing.assert_array_equal(f(good, x).numpy(), want)


def test_a_bad_index_raises_after_many_good_ones():
    table = gt.asarray(np.arange(5.0))
    f = gt.function(lambda i: table[i] * 2.0)
    for _ in range(2000):
        assert f(gt.asarray([1, 4])).tolist() == [2.0, 8.0]
    for _ in range(2):
        with pytest.raises(IndexError, match="index 5 is out of range"):
            f(gt.asarray([1, 5]))
        assert f(gt.asarray([1, -1])).tolist() == [2.0, 8.0]


def test_failures_of_one_thread_do_not_disturb_others():
    f = gt.function(solved)
    good, bad, x = gt.asarray(np.diag(X)), gt.asarray(np.zeros((3, 3))), gt.asarray(X)
    want = f(good, x).numpy()
    wrong = []

    def work(fails):
        for _ in range(200):
            try:
                found = f(bad if fails else good, x).numpy()
                if fails or not np.array_equal(found, want):
                    wrong.append(found)
            except gt.errors.MatrixError:
                if not fails:
                    wrong.append("raised")

    workers = [threading.Thread(target=work, args=(fails,)) for fails in (True, False, True, False)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
