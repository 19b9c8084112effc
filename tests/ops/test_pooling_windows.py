"""The largest elements and sums of padded windows, beside plain loops, in both tiers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradtape as gt
import gradtape.tf as tf
from gradtape.ops.reductions.window_extrema import window_max
from gradtape.runtime import tiers


@pytest.fixture(params=["off", "always"])
def tier(request, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", request.param)
    return request.param


def windows(shape, window, strides, dilations, padding):
    """For each window, its index in the result and the elements of x that it reads, in order."""
    counts = [
        (n + sum(pair) - (w - 1) * d - 1) // s + 1
        for n, w, s, d, pair in zip(shape[1:-1], window, strides, dilations, padding, strict=True)
    ]
    for index in np.ndindex(shape[0], *counts, shape[-1]):
        read = []
        for at in itertools.product(*map(range, window)):
            place = [
                p * s + q * d - low
                for p, s, q, d, (low, _) in zip(
                    index[1:-1], strides, at, dilations, padding, strict=True
                )
            ]
            if all(0 <= i < n for i, n in zip(place, shape[1:-1], strict=True)):
                read.append((index[0], *place, index[-1]))
        yield index, read


CASES = [
    ((2, 9, 3), (3,), (2,), (1,), ((1, 1),)),
    ((2, 8, 2), (3,), (1,), (1,), ((1, 1),)),
    ((1, 11, 2), (2,), (3,), (2,), ((2, 0),)),
    ((2, 7, 6, 3), (3, 3), (2, 2), (1, 1), ((0, 1), (1, 1))),
    ((1, 5, 6, 2), (2, 3), (1, 2), (2, 1), ((1, 1), (0, 2))),
    ((1, 4, 4, 4, 2), (2, 2, 3), (2, 1, 2), (1, 1, 1), ((0, 0), (1, 0), (1, 1))),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_largest_and_its_slope(tier, case, dtype):
    shape, *params = case
    rng = np.random.default_rng(sum(shape))
    # Few different values, so that windows have equal elements.
    x = rng.integers(0, 5, shape).astype(dtype)
    found = list(windows(shape, *params))
    got = window_max(gt.asarray(x), *params).numpy()
    for index, read in found:
        assert got[index] == max(x[at] for at in read)
    if dtype == "int16":
        return
    g = rng.standard_normal(got.shape).astype(dtype)
    expected = np.zeros(shape, dtype)
    for index, read in found:
        expected[max(read, key=lambda at: x[at])] += g[index]
    before = gt.counters()
    slope = gt.grad(lambda x: gt.sum(window_max(x, *params) * gt.asarray(g)))(gt.asarray(x))
    np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert gt.counters().python_calls == before.python_calls


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [1, 2, 3])
def test_means(tier, padding, strides):
    rng = np.random.default_rng(strides)
    x = rng.standard_normal((2, 7, 8, 5))
    y = tf.nn.avg_pool2d(tf.constant(x), 3, strides, padding)
    counts = y.shape[1:3]
    pairs = [(0, 0)] * 2
    if padding == "SAME":
        pairs = [
            ((total := max((c - 1) * strides + 3 - n, 0)) // 2, total - total // 2)
            for c, n in zip(counts, x.shape[1:3], strict=True)
        ]
    found = list(windows(x.shape, (3, 3), (strides,) * 2, (1, 1), pairs))
    expected, g = np.zeros(y.shape), rng.standard_normal(y.shape)
    slope = np.zeros(x.shape)
    for index, read in found:
        expected[index] = np.mean([x[at] for at in read])
        for at in read:
            slope[at] += g[index] / len(read)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
    before = gt.counters()
    mean = lambda x: tf.nn.avg_pool2d(x, 3, strides, padding)  # noqa: E731
    got = gt.grad(lambda x: gt.sum(mean(x) * gt.asarray(g)))(gt.asarray(x))
    np.testing.assert_allclose(got.numpy(), slope, rtol=1e-11, atol=1e-13)
    assert gt.counters().python_calls == before.python_calls


def test_groups_of_channels(tier):
    """As in TensorFlow, filters with fewer channels than the input are for groups of these."""
    rng = np.random.default_rng(0)
    x, filters = rng.standard_normal((2, 6, 5, 6)), rng.standard_normal((3, 3, 2, 9))
    whole = tf.nn.conv2d(x, filters, 2, "SAME").numpy()
    parts = [
        tf.nn.conv2d(x[..., 2 * n : 2 * n + 2], filters[..., 3 * n : 3 * n + 3], 2, "SAME").numpy()
        for n in range(3)
    ]
    np.testing.assert_allclose(whole, np.concatenate(parts, -1), rtol=1e-11)
