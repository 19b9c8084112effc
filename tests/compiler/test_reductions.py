"""Sums as exact as pairwise ones in every layout, with the same bits on any count of threads."""

import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.runtime import tiers

EPS = float(np.finfo(np.float32).eps)
# Pairwise summation of 10^7 numbers was 0.1 to 2 eps off in all of these; 4 leaves some room, and
# is what one rounding in each of a few levels gives. Summing one by one is 20 to 10^5 eps off.
LIMIT = 4.0
# Layouts: one axis; rows; columns, few and many; an axis in the middle; axes apart.
SMALL = [
    ((1,), 0), ((100,), 0), ((4097,), 0), ((7, 5000), 1), ((5000, 7), 0), ((5000, 40), 0),
    ((3, 2000, 5), 1), ((30, 40, 50), (0, 2)), ((30, 40, 50), (1, 2)), ((2, 3, 4, 500), (0, 3)),
]  # fmt: skip
LARGE = [
    ((10_000_000,), 0), ((2, 5_000_000), 1), ((5_000_000, 2), 0), ((3000, 3333), 0),
    ((3000, 3333), 1), ((4, 100_000, 25), 1), ((100, 1000, 100), (0, 2)),
]  # fmt: skip
CASES = [*SMALL, *[pytest.param(*case, marks=pytest.mark.slow) for case in LARGE]]


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    before = gt.get_num_threads()
    yield
    gt.set_num_threads(before)


def numbers(shape, low, high):
    # Of one sign: nothing cancels, and every error is one of rounding.
    return np.random.default_rng(len(shape)).uniform(low, high, shape).astype(np.float32)


def off(found, exact):
    """The largest relative error, in eps."""
    return float(np.max(np.abs(found.numpy() - exact) / np.abs(exact))) / EPS


@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (1000.0, 1001.0)])
def test_sum_and_mean(shape, axis, bounds):
    x = numbers(shape, *bounds)
    # float64 has 29 bits more: enough for ten million terms.
    exact = np.sum(x, axis=axis, dtype=np.float64)
    count = x.size / exact.size
    assert off(gt.sum(gt.asarray(x), axis=axis), exact) <= LIMIT
    assert off(gt.mean(gt.asarray(x), axis=axis), exact / count) <= LIMIT


@pytest.mark.parametrize(("shape", "axis"), CASES[1:])
def test_variance_and_norm(shape, axis):
    x = numbers(shape, -1.0, 1.0)
    exact = np.var(x.astype(np.float64), axis=axis)
    assert off(gt.var(gt.asarray(x), axis=axis), exact) <= 2 * LIMIT
    exact = np.sqrt(np.sum(np.square(x, dtype=np.float64), axis=axis))
    # NumPy adds the squares, and older versions are less exact.
    assert off(gt.norm(gt.asarray(x), axis=axis), exact) <= 2 * LIMIT


@pytest.mark.parametrize(("shape", "axis"), CASES[1:])
def test_a_variance_that_is_small_beside_the_mean(shape, axis):
    x = numbers(shape, 1000.0, 1001.0)
    exact = np.var(x.astype(np.float64), axis=axis)
    # A mean is rounded to 1e-4 of the distances from it. If that entered once, not squared, the
    # error would be a thousand eps.
    assert off(gt.var(gt.asarray(x), axis=axis), exact) <= 8 * LIMIT


@pytest.mark.parametrize("rows", [5, 16, 100, 5000])
@pytest.mark.parametrize("columns", [6, 200])
def test_variances_of_columns_that_are_not_finite(rows, columns):
    x = np.tile(np.float32([[1.0], [2.0]]), (rows // 2 + 1, columns))[:rows]
    x[0, 0] = x[-1, 1] = x[rows // 2, 2] = np.inf
    x[rows // 3, 3] = np.nan
    x[:, 4] = 3e38
    x[::2, 5], x[1::2, 5] = 3e38, -3e38
    found = gt.var(gt.asarray(x), axis=0).numpy()
    assert np.isnan(found[:4]).all()
    # 0, or infinite if the mean is rounded; NumPy's mean is infinite.
    assert not np.isnan(found[4])
    assert found[5] == np.inf
    np.testing.assert_allclose(found[6:], np.var(x[:, 6:], axis=0), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 10, 1000, 100_000, pytest.param(10**7, marks=pytest.mark.slow)])
def test_against_the_exact_sum(n):
    rng = np.random.default_rng(n)
    # Of all sizes and both signs: errors are relative to the sum of magnitudes.
    x = (rng.standard_normal(n) * 10.0 ** rng.uniform(-6, 6, n)).astype(np.float32)
    exact, size = math.fsum(x), math.fsum(np.abs(x))
    found = float(gt.sum(gt.asarray(x)))
    pairwise = float(np.sum(x))
    assert abs(found - exact) <= max(2 * abs(pairwise - exact), EPS * size)


@pytest.mark.parametrize(("shape", "axis"), CASES)
def test_bits_do_not_depend_on_threads_or_runs(shape, axis):
    x = gt.asarray(numbers(shape, -1.0, 1.0))
    found = set()
    for count in (1, 2, 3, 2):
        gt.set_num_threads(count)
        values = gt.sum(x, axis=axis), gt.prod(x, axis=axis), gt.var(x, axis=axis), gt.max(x)
        found.add(b"".join(np.asarray(value.numpy()).tobytes() for value in values))
    assert len(found) == 1
