"""Sixty-four threads with tapes of their own, shared variables, shared caches, compiled kernels."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gradtape as gt
from gradtape.runtime import tiers

THREADS = 64
SECONDS = 120


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Everything is compiled, by whoever needs it first."""
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()


def together(task):
    """Run `task(number)` in all threads at once; a deadlock fails instead of lasting."""
    begin = threading.Barrier(THREADS)

    def run(number):
        begin.wait(SECONDS)
        return task(number)

    pool = ThreadPoolExecutor(THREADS)
    waiting = [pool.submit(run, number) for number in range(THREADS)]
    try:
        return [each.result(SECONDS) for each in waiting]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def test_gradients_by_shared_variables():
    w = gt.Variable(np.linspace(-1.0, 1.0, 20).reshape(5, 4))
    b = gt.Variable(np.zeros(4))
    weights = w.numpy().copy()

    def task(number):
        x = np.random.default_rng(number).standard_normal((7, 5))
        found = []
        for _ in range(10):
            with gt.GradientTape() as tape:
                loss = gt.sum(gt.tanh(gt.asarray(x) @ w + b))
            found.append([g.numpy() for g in tape.gradient(loss, [w, b])])
        return x, found

    for x, found in together(task):
        slope = 1 - np.tanh(x @ weights) ** 2
        for by_w, by_b in found:
            np.testing.assert_allclose(by_w, x.T @ slope, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(by_b, slope.sum(axis=0), rtol=1e-10, atol=1e-12)


def test_structures_of_their_own_and_shared_ones():
    def f(x, rounds):
        y = x
        for _ in range(rounds):
            y = np.sin(y) * 1.5 + x
        return y

    def task(number):
        results = []
        for rounds in (1, 2, 3, 4 + number % 9):
            x = np.random.default_rng(number + rounds).standard_normal(50 + number)
            y = t = gt.asarray(x)
            for _ in range(rounds):
                y = gt.sin(y) * 1.5 + t
            results.append((y.numpy(), f(x, rounds)))
        return results

    for results in together(task):
        for got, expected in results:
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_no_update_of_a_shared_variable_is_lost():
    total = gt.Variable(np.zeros(3))
    own = [gt.Variable(np.zeros(2)) for _ in range(THREADS)]

    def task(number):
        for _ in range(20):
            total.assign_add(np.ones(3))
            own[number].assign_add(np.full(2, float(number)))
        return own[number].numpy().copy()

    found = together(task)
    assert total.numpy().tolist() == [20.0 * THREADS] * 3
    for number, values in enumerate(found):
        assert values.tolist() == [20.0 * number] * 2


def test_large_tensors_share_the_team():
    def task(number):
        x = np.full(300_000, 1.0 + number, np.float32)
        return [float(gt.sum(gt.sqrt(gt.asarray(x)) * 2.0)) for _ in range(3)]

    for number, found in enumerate(together(task)):
        expected = 600_000 * (1.0 + number) ** 0.5
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert len(set(found)) == 1


def test_threads_that_clear_caches_meanwhile():
    def task(number):
        for _ in range(10):
            if number % 8 == 0:
                gt.clear_plans()
            if number % 16 == 1:
                gt.empty_cache()
            x = gt.asarray(np.arange(20.0) + number)
            found = gt.grad(lambda x: gt.sum(x**3))(x).numpy()
            assert np.array_equal(found, 3 * (np.arange(20.0) + number) ** 2)
        return True

    assert all(together(task))
