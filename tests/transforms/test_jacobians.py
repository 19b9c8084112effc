"""Jacobians of random functions: against rows of gradients, differences, and each other."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradtape as gt
from tests.transforms.random_functions import apply

STEPS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 35), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=7,
)
SHAPES = st.sampled_from([(2, 3), (3,), (4,), (), (1,), (2, 1, 2), (0,), (3, 0), (1, 4)])


@pytest.fixture(autouse=True)
def reference_tier(monkeypatch, request):
    if "compiled" not in request.keywords:
        monkeypatch.setattr("gradtape.runtime.tiers.MODE", "off")


def arrays(seed, *shapes, dtype="float64"):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.0, 1.0, shape).astype(dtype) for shape in shapes]


def rows_of_gradients(f, x):
    """The Jacobian, one gradient after the other."""
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    found = np.zeros((y.size, *x.shape), x.dtype)
    for place in range(y.size):
        seed = np.zeros(y.size, y.dtype)
        seed[place] = 1
        row = tape.gradient(y, x, seed.reshape(y.shape), unconnected_gradients="zero")
        found[place] = row.numpy()
    return found.reshape((*y.shape, *x.shape))


def close(found, expected, single=False):
    found = np.asarray(found)
    assert found.shape == expected.shape
    tolerance = 2e-4 if single else 1e-9
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@settings(deadline=None, derandomize=True, max_examples=250)
@given(steps=STEPS, shape=SHAPES, seed=st.integers(0, 1000))
def test_all_ways_agree(steps, shape, seed):
    first, second = arrays(seed, shape, (3,))

    def f(x):
        return apply(steps, x, second)

    expected = rows_of_gradients(f, gt.asarray(first))
    for mode in ("auto", "forward", "reverse"):
        found = gt.jacobian(f, mode=mode)(first)
        assert found.dtype == first.dtype
        close(found, expected)
    rows = math.prod(expected.shape[: expected.ndim - first.ndim])
    flat = expected.reshape(rows, first.size)
    for mode in ("auto", "forward", "reverse"):
        close(gt.jacobian(f, mode=mode, sparse=True)(first).toarray(), flat)
    either = gt.jacobian(f, sparse="auto")(first)
    close(either.toarray() if hasattr(either, "toarray") else either.numpy().reshape(flat.shape), flat)
