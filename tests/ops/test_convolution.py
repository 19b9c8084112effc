"""Convolutions and windows beside SciPy and plain loops, in both tiers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.signal import correlate

import gradtape as gt
from gradtape.errors import ShapeError
from gradtape.ops.matrices.convolution import convolve
from gradtape.ops.reductions.window_extrema import window_max
from gradtape.runtime import tiers
from gradtape.testing import check_gradients


@pytest.fixture(params=["off", "always"])
def tier(request, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", request.param)
    return request.param


def by_loops(x, kernel, strides, dilations):
    """The definition, one position of the window after the other."""
    window = kernel.shape[1:-2]
    counts = [
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(x.shape[2:-1], window, strides, dilations, strict=True)
    ]
    total = np.zeros((*x.shape[:2], *counts, kernel.shape[-1]), x.dtype)
    for at in itertools.product(*map(range, window)):
        part = x[(
            slice(None), slice(None),
            *(slice(q * d, q * d + (n - 1) * s + 1, s)
              for q, d, n, s in zip(at, dilations, counts, strides, strict=True)),
        )]  # fmt: skip
        taps = kernel[(slice(None), *at)]
        total += np.einsum("gb...c,gco->gb...o", part, taps)
    return total


def drawn(rng, shape, dtype):
    found = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.standard_normal(shape)
    return found.astype(dtype)


def random_case(rng, dtype):
    """Odd sizes: one to three spatial axes, any strides, dilations, groups and channels."""
    spatial = int(rng.integers(1, 4))
    window = tuple(int(n) for n in rng.integers(1, 4, spatial))
    strides = tuple(int(n) for n in rng.integers(1, 4, spatial))
    dilations = tuple(int(n) for n in rng.integers(1, 3, spatial))
    lengths = tuple(
        (w - 1) * d + 1 + int(rng.integers(0, 7)) for w, d in zip(window, dilations, strict=True)
    )
    groups, batch = int(rng.integers(1, 3)), int(rng.integers(1, 5))
    inside, outside = int(rng.integers(1, 10)), int(rng.integers(1, 40))
    x = drawn(rng, (groups, batch, *lengths, inside), dtype)
    kernel = drawn(rng, (groups, *window, inside, outside), dtype)
    return x, kernel, strides, dilations


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("seed", range(12))
def test_any_size(tier, seed, dtype):
    rng = np.random.default_rng(seed)
    x, kernel, strides, dilations = random_case(rng, dtype)
    tolerance = 1e-4 if np.finfo(dtype).bits == 32 else 1e-11
    expected = by_loops(x, kernel, strides, dilations)
    got = convolve(gt.asarray(x), gt.asarray(kernel), strides, dilations).numpy()
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=30 * tolerance)


@pytest.mark.parametrize("seed", range(10))
def test_derivatives_of_any_size(tier, seed):
    """The inner product with a cotangent has the slopes that the definition says."""
    rng = np.random.default_rng(100 + seed)
    x, kernel, strides, dilations = random_case(rng, "float64")
    g = rng.standard_normal(by_loops(x, kernel, strides, dilations).shape)

    def total(x, kernel):
        return gt.sum(convolve(x, kernel, strides, dilations) * gt.asarray(g))

    by_x, by_kernel = gt.grad(total, (0, 1))(gt.asarray(x), gt.asarray(kernel))
    dx, dk = rng.standard_normal(x.shape), rng.standard_normal(kernel.shape)
    along_x = np.sum(by_loops(dx, kernel, strides, dilations) * g)
    along_kernel = np.sum(by_loops(x, dk, strides, dilations) * g)
    np.testing.assert_allclose(np.sum(by_x.numpy() * dx), along_x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.sum(by_kernel.numpy() * dk), along_kernel, rtol=1e-9, atol=1e-9)


def test_like_scipy(tier):
    rng = np.random.default_rng(1)
    x, kernel = rng.standard_normal((9, 11)), rng.standard_normal((3, 4))
    found = convolve(
        gt.asarray(x[None, None, :, :, None]), gt.asarray(kernel[None, :, :, None, None]),
        (1, 1), (1, 1),
    ).numpy()  # fmt: skip
    np.testing.assert_allclose(found[0, 0, :, :, 0], correlate(x, kernel, "valid"), rtol=1e-12)


def test_permuted_operands_are_read_where_they_lie(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    rng = np.random.default_rng(2)
    x, kernel = rng.standard_normal((2, 3, 8, 7)), rng.standard_normal((5, 3, 2, 2))

    def channels_first(x, kernel):
        moved = gt.permute_dims(x, (0, 2, 3, 1)), gt.permute_dims(kernel, (2, 3, 1, 0))
        one = [gt.reshape(part, (1, *part.shape)) for part in moved]
        return convolve(*one, (1, 1), (1, 1))

    before = gt.counters()
    found = channels_first(gt.asarray(x), gt.asarray(kernel)).numpy()
    after = gt.counters()
    expected = by_loops(x.transpose(0, 2, 3, 1)[None], kernel.transpose(2, 3, 1, 0)[None],
                        (1, 1), (1, 1))  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    # No loop copies an operand: nothing but the product runs.
    assert after.kernels_compiled + after.kernels_loaded + after.kernels_reused == (
        before.kernels_compiled + before.kernels_loaded + before.kernels_reused
    )


def test_not_a_number_reaches_the_windows_that_read_it(tier):
    x, kernel = np.ones((1, 1, 9, 1)), np.ones((1, 3, 1, 2))
    x[0, 0, 4, 0] = np.nan
    found = convolve(gt.asarray(x), gt.asarray(kernel), (1,), (1,)).numpy()[0, 0, :, 0]
    assert np.isnan(found).tolist() == [False, False, True, True, True, False, False]
    x[0, 0, 4, 0], kernel[0, 1] = np.inf, 0.0
    found = convolve(gt.asarray(x), gt.asarray(kernel), (1,), (1,)).numpy()[0, 0, :, 0]
    assert np.isnan(found).tolist() == [False, False, False, True, False, False, False]


def test_a_branch_not_taken_sends_back_nothing(tier):
    kernel = gt.asarray(np.ones((1, 2, 1, 1)))

    def f(x):
        y = convolve(gt.sqrt(x), kernel, (1,), (1,))
        keep = gt.asarray(np.array([True, True, False, False]).reshape(1, 1, 4, 1))
        return gt.sum(gt.where(keep, y, 0.0))

    x = gt.asarray(np.array([1.0, 4.0, 9.0, -1.0, 0.0]).reshape(1, 1, 5, 1))
    slope = gt.grad(f)(x).numpy().reshape(-1)
    np.testing.assert_allclose(slope, [0.5, 0.5, 1 / 6, 0.0, 0.0])


def test_examples_in_each_operand(tier):
    rng = np.random.default_rng(3)
    x, kernel = rng.standard_normal((4, 1, 2, 6, 3)), rng.standard_normal((4, 1, 2, 3, 5))

    def one(x, kernel):
        return convolve(x, kernel, (2,), (1,))

    both = gt.vmap(one)(gt.asarray(x), gt.asarray(kernel)).numpy()
    left = gt.vmap(one, in_axes=(0, None))(gt.asarray(x), gt.asarray(kernel[0])).numpy()
    right = gt.vmap(one, in_axes=(None, 0))(gt.asarray(x[0]), gt.asarray(kernel)).numpy()
    for n in range(4):
        np.testing.assert_allclose(both[n], by_loops(x[n], kernel[n], (2,), (1,)), rtol=1e-11)
        np.testing.assert_allclose(left[n], by_loops(x[n], kernel[0], (2,), (1,)), rtol=1e-11)
        np.testing.assert_allclose(right[n], by_loops(x[0], kernel[n], (2,), (1,)), rtol=1e-11)


def test_sparse_jacobian():
    rng = np.random.default_rng(4)
    kernel = gt.asarray(rng.standard_normal((1, 3, 2, 1)))

    def f(x):
        return convolve(x, kernel, (1,), (2,))

    x = gt.asarray(rng.standard_normal((1, 1, 12, 2)))
    dense = gt.jacobian(f)(x).numpy().reshape(8, 24)
    sparse = gt.jacobian(f, sparse=True)(x)
    np.testing.assert_allclose(sparse.toarray().reshape(8, 24), dense)
    assert sparse.nnz == 8 * 3 * 2


def test_what_does_not_fit():
    x, kernel = gt.ones((1, 1, 3, 2)), gt.ones((1, 4, 2, 1))
    with pytest.raises(ShapeError, match="do not fit"):
        convolve(x, kernel, (1,), (1,))
    with pytest.raises(ShapeError, match="channels"):
        convolve(x, gt.ones((1, 2, 3, 1)), (1,), (1,))


def largest(x, window, strides, dilations):
    counts = [
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(x.shape[1:-1], window, strides, dilations, strict=True)
    ]
    parts = [
        x[(
            slice(None),
            *(slice(q * d, q * d + (n - 1) * s + 1, s)
              for q, d, n, s in zip(at, dilations, counts, strides, strict=True)),
        )]
        for at in itertools.product(*map(range, window))
    ]  # fmt: skip
    return np.max(parts, axis=0), np.argmax(parts, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("seed", range(10))
def test_largest_of_each_window(tier, seed, dtype):
    rng = np.random.default_rng(seed)
    spatial = int(rng.integers(1, 4))
    window = tuple(int(n) for n in rng.integers(1, 4, spatial))
    beside = seed % 2 == 0
    strides = window if beside else tuple(int(n) for n in rng.integers(1, 4, spatial))
    dilations = (1,) * spatial if beside else tuple(int(n) for n in rng.integers(1, 3, spatial))
    lengths = tuple(
        (w - 1) * d + 1 + int(rng.integers(0, 6)) for w, d in zip(window, dilations, strict=True)
    )
    shape = (int(rng.integers(1, 4)), *lengths, int(rng.integers(1, 12)))
    # Few different values, so that windows have equal elements.
    x = rng.integers(0, 5, shape).astype(dtype)
    expected, _ = largest(x, window, strides, dilations)
    got = window_max(gt.asarray(x), window, strides, dilations).numpy()
    np.testing.assert_array_equal(got, expected)
    if dtype == "int32":
        return
    g = rng.standard_normal(expected.shape).astype(dtype)

    def total(x):
        return gt.sum(window_max(x, window, strides, dilations) * gt.asarray(g))

    slope = gt.grad(total)(gt.asarray(x)).numpy()
    np.testing.assert_allclose(slope, first_has_it(x, g, window, strides, dilations), rtol=1e-5)


def first_has_it(x, g, window, strides, dilations):
    """The slope: each cotangent goes to the first of the largest elements of its window."""
    _, chosen = largest(x, window, strides, dilations)
    slope = np.zeros(x.shape, g.dtype)
    places = list(itertools.product(*map(range, window)))
    for index in np.ndindex(g.shape):
        at = places[chosen[index]]
        source = tuple(
            p * s + q * d for p, s, q, d in zip(index[1:-1], strides, at, dilations, strict=True)
        )
        slope[(index[0], *source, index[-1])] += g[index]
    return slope


def test_largest_and_not_a_number(tier):
    x = np.array([1.0, np.nan, 3.0, 2.0, 5.0, np.nan]).reshape(1, 6, 1)
    found = window_max(gt.asarray(x), (2,), (2,), (1,)).numpy().reshape(-1)
    np.testing.assert_array_equal(found, [np.nan, 3.0, np.nan])


@pytest.mark.slow
def test_second_derivatives(tier):
    rng = np.random.default_rng(5)
    kernel = rng.standard_normal((1, 2, 2, 1, 3))

    def f(x, kernel):
        y = convolve(x, kernel, (1, 1), (1, 1))
        return gt.sum(window_max(y[0], (2, 2), (2, 2), (1, 1)) ** 2)

    x = rng.standard_normal((1, 1, 5, 5, 1))
    check_gradients(f, x, kernel, order=2)
