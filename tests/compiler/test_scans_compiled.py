"""Cumulative ops and linear recurrences in compiled kernels, against NumPy."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.op import REGISTRY
from gradtape.trace.record import record

DTYPES = ("float64", "float32", "uint8", "complex64", "bool")
SHAPES = [(1,), (300,), (17, 40), (2, 3, 19), (4, 1, 6), (130, 2)]


def values(rng, shape, dtype):
    found = rng.uniform(-1.2, 1.2, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * rng.uniform(-1, 1, shape)
    return np.abs(found).astype(dtype) if dtype == "uint8" else np.asarray(found).astype(dtype)


def assert_close(want, got):
    assert want.dtype == got.dtype
    assert want.shape == got.shape
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    eps = np.finfo(want.dtype).eps
    size = max(1.0, float(np.abs(want).max()))
    np.testing.assert_allclose(got, want, rtol=200 * eps, atol=200 * eps * size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_cumulative(shape, dtype, both_ways, library_calls):
    rng = np.random.default_rng(1)
    x = gt.asarray(values(rng, shape, dtype))
    outputs = [
        record(REGISTRY[name], (x,), (axis, reverse))
        for name in ("cumulative_sum", "cumulative_prod")
        for axis in range(len(shape))
        for reverse in (False, True)
    ]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
def test_recurrences(shape, dtype, both_ways, library_calls):
    rng = np.random.default_rng(2)
    a, b = (gt.asarray(values(rng, shape, dtype) * 0.7) for _ in range(2))
    outputs = [
        record(REGISTRY["linear_recurrence"], (a, b), (axis, reverse))
        for axis in range(len(shape))
        for reverse in (False, True)
    ]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


def test_a_state_of_zero_takes_no_part(both_ways):
    a = gt.asarray(np.array([1.0, np.inf, 2.0, np.nan, 1.0]))
    b = gt.asarray(np.array([0.0, 0.0, 0.0, 1.0, 2.0]))
    outputs = [record(REGISTRY["linear_recurrence"], (a, b), (0, r)) for r in (False, True)]
    for want, got in both_ways(*outputs):
        np.testing.assert_array_equal(got, want)


def test_of_views_and_computed_values(both_ways, library_calls):
    rng = np.random.default_rng(3)
    x = gt.asarray(rng.normal(size=(12, 30)))
    outputs = [
        gt.cumulative_sum(x.T, axis=0), gt.cumulative_sum(gt.sin(x), axis=1) * 2.0,
        gt.cumulative_prod(x[::2, ::-1], axis=1),
        gt.cumulative_sum(gt.broadcast_to(x[0], (4, 30)), axis=0),
        gt.cumulative_sum(x, axis=1, include_initial=True),
    ]  # fmt: skip
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


def test_gradients(both_ways, library_calls):
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5, 8))
    x[2, 3] = x[2, 6] = 0.0
    x = gt.asarray(x)
    outputs = [
        gt.grad(lambda x, f=f, axis=axis: gt.sum(gt.sin(f(x, axis=axis))))(x)
        for f in (gt.cumulative_sum, gt.cumulative_prod, gt.prod)
        for axis in (0, 1)
    ]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)


def test_parts_of_a_split_are_views(both_ways, library_calls):
    rng = np.random.default_rng(5)
    x = gt.asarray(rng.normal(size=(4, 12)))
    a, b, c = gt.split(x, 3, axis=1)
    outputs = [gt.sin(a) * b + c, a, gt.sum(gt.unstack(x)[1])]
    outputs += [gt.split(gt.zeros((4, 12)), 2)[1], gt.split(gt.ones(6), 2)[0] * x[0, :3]]
    assert library_calls(*outputs) == []
    for want, got in both_ways(*outputs):
        assert_close(want, got)
    gradient = gt.grad(lambda x: gt.sum(gt.split(x, 3, axis=1)[1] ** 2))(x)
    assert library_calls(gradient) == []
    for want, got in both_ways(gradient):
        assert_close(want, got)
