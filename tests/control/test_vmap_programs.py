"""The programs that vmap makes: chunks of them, when they run, and that they are found again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.runtime import tiers
from gradtape.trace.recording import state

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4, 3))
MATRIX = RNG.normal(size=(3, 3))


def loop(f: Any, *columns: Any) -> Any:
    """What vmap stands for."""
    rows = [gt.pytree.flatten(f(*map(gt.asarray, row))) for row in zip(*columns, strict=True)]
    columns = zip(*[leaves for leaves, _ in rows], strict=True)
    stacked = [np.stack([np.asarray(x) for x in column]) for column in columns]
    return gt.pytree.unflatten(rows[0][1], stacked)


def close(got: Any, expected: Any) -> None:
    got, expected = gt.pytree.flatten(got)[0], gt.pytree.flatten(expected)[0]
    for a, b in zip(got, expected, strict=True):
        a, b = (x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in (a, b))
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def check(f: Any, *columns: Any) -> None:
    close(gt.vmap(f)(*columns), loop(f, *columns))


def difference(before: Any) -> dict[str, int]:
    after = gt.counters()
    return {name: getattr(after, name) - getattr(before, name) for name in vars(before)}


# Chunks.


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5])
def test_chunks(chunk):
    def f(x):
        return {"a": x * 2.0, "b": (gt.sum(x), gt.ones(2))}

    mapped = gt.vmap(f, out_axes={"a": 1, "b": (0, None)}, chunk_size=chunk)
    found = mapped(ROWS)
    close(found, {"a": ROWS.T * 2.0, "b": (ROWS.sum(1), np.ones(2))})
    slope = gt.grad(lambda x: gt.sum(mapped(x)["a"] * x.T))(gt.asarray(ROWS))
    close(slope, 4.0 * ROWS)


def test_all_chunks_of_one_length_are_one_program():
    x = gt.asarray(RNG.normal(size=(200, 3)))
    f = gt.vmap(lambda x: gt.sum(gt.sin(x) * x), chunk_size=4)
    before = gt.counters()
    close(f(x), (np.sin(x.numpy()) * x.numpy()).sum(1))
    # One plan for the fifty chunks and one that joins their results, compiled when it runs again.
    assert difference(before)["plans_built"] <= 2
    f(x).numpy()
    before = gt.counters()
    f(x).numpy()
    found = difference(before)
    assert found["plans_built"] == 0
    assert found["kernels_compiled"] == 0


# Laziness and caches.


def test_nothing_runs_before_somebody_looks():
    before = gt.counters().plans_run
    y = gt.vmap(lambda x: gt.sum(gt.sin(x)))(ROWS)
    z = y * 2.0
    assert gt.counters().plans_run == before
    z.numpy()
    assert gt.counters().plans_run == before + 1


def test_later_calls_build_and_compile_nothing():
    weights = gt.asarray(MATRIX)

    def step(rows):
        found = gt.vmap(gt.value_and_grad(lambda x: gt.sum(gt.tanh(weights @ x) ** 2) * 0.5))(rows)
        return [y.numpy() for y in found]

    for _ in range(3):
        step(ROWS)
    before = gt.counters()
    for scale in (1.0, 2.0, 3.0):
        step(ROWS * scale)
    found = difference(before)
    assert found["batches_built"] == 0
    assert found["batch_hits"] == 3
    assert found["derivatives_built"] == 0
    assert found["plans_built"] == 0
    assert found["kernels_compiled"] == 0


def test_a_new_batch_size_compiles_nothing(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    f = gt.vmap(gt.grad(lambda x: gt.sum(gt.tanh(x) ** 2)))
    for size in (4, 5):
        f(RNG.normal(size=(size, 3))).numpy()
    before = gt.counters()
    for size in (6, 7, 9):
        f(RNG.normal(size=(size, 3))).numpy()
    assert difference(before)["kernels_compiled"] == 0


def test_a_training_loop_builds_nothing_after_its_first_steps():
    v = gt.Variable(MATRIX)

    def step(rows):
        with gt.GradientTape() as tape:
            y = gt.mean(gt.vmap(lambda x: gt.sum(gt.tanh(v @ x) ** 2))(rows))
        v.assign_sub(0.1 * tape.gradient(y, v))
        return y

    for number in range(3):
        float(step(ROWS * number))
    before = gt.counters()
    for number in range(4):
        float(step(ROWS + number))
    found = difference(before)
    assert found["batches_built"] == found["plans_built"] == found["derivatives_built"] == 0


def test_a_long_loop_is_cut():
    y = gt.asarray(ROWS)
    f = gt.vmap(lambda x: gt.sin(x) * 0.9 + 0.1)
    for _ in range(6000):
        y = f(y)
    assert len(state.recording.log) < 15_000
    expected = ROWS
    for _ in range(6000):
        expected = np.sin(expected) * 0.9 + 0.1
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-9)


def test_eager_mode():
    with gt.eager():
        check(lambda x: gt.sum(gt.sin(x)), ROWS)
        check(gt.grad(lambda x: gt.sum(gt.exp(x) * x)), ROWS)
