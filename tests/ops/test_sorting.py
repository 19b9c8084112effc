"""Sorting, searching and sets, against NumPy; derivatives follow the indices."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import gradtape as gt
from gradtape.errors import ShapeError
from gradtape.ops.arrays import sorting
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import asarray
from gradtape.testing import check_gradients

X = np.sin(np.arange(24.0) * 7).reshape(2, 3, 4)
SHAPES = hnp.array_shapes(max_dims=2, min_side=0, max_side=6)


def same(got, expected):
    expected = np.asarray(expected)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got.numpy(), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(axis, descending):
    expected = np.flip(np.sort(X, axis), axis) if descending else np.sort(X, axis)
    same(sorting.sort(asarray(X), axis=axis, descending=descending), expected)
    order = sorting.argsort(asarray(X), axis=axis, descending=descending)
    np.testing.assert_array_equal(np.take_along_axis(X, order.numpy(), axis), expected)
    check_gradients(lambda x: sorting.sort(x, axis=axis, descending=descending) ** 3, X)


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.int64, SHAPES, elements=st.integers(0, 3)), st.booleans())
def test_equal_elements_keep_their_order(array, descending):
    order = sorting.argsort(asarray(array), descending=descending)
    expected = np.argsort(-array if descending else array, axis=-1, stable=True)
    same(order, expected)
    same(
        sorting.sort(asarray(array), descending=descending), np.take_along_axis(array, expected, -1)
    )


def test_the_derivative_of_a_tie_follows_the_index():
    x = asarray([1.0, 1.0, 0.0])
    with GradientTape() as tape:
        tape.watch(x)
        y = sorting.sort(x) * np.array([1.0, 10.0, 100.0])
    assert tape.gradient(y, x).tolist() == [10.0, 100.0, 1.0]


def test_sort_of_other_dtypes_and_shapes():
    same(sorting.sort(asarray([True, False, True])), [False, True, True])
    same(
        sorting.sort(asarray(np.array([3, 1], np.uint8)), descending=True),
        np.array([3, 1], np.uint8),
    )
    same(sorting.sort(asarray(np.zeros((0, 2))), axis=0), np.zeros((0, 2)))
    assert np.isnan(sorting.sort(asarray([np.nan, 1.0])).numpy()).tolist() == [False, True]
    with pytest.raises(ShapeError, match="0-d"):
        sorting.sort(asarray(1.0))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_top_k(axis):
    values, indices = sorting.top_k(asarray(X), 2, axis=axis)
    expected = np.take(np.flip(np.sort(X, axis), axis), [0, 1], axis)
    same(values, expected)
    np.testing.assert_array_equal(np.take_along_axis(X, indices.numpy(), axis), expected)
    check_gradients(lambda x: sorting.top_k(x, 2, axis=axis)[0] ** 2, X)
    with pytest.raises(ShapeError, match="k = 9"):
        sorting.top_k(asarray(X), 9, axis=axis)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    line, points = np.array([0.0, 1.0, 1.0, 2.0]), np.array([[1.0, -1.0], [3.0, 0.5]])
    same(
        sorting.searchsorted(asarray(line), points, side=side), np.searchsorted(line, points, side)
    )
    same(sorting.searchsorted(asarray(line), 1.0, side=side), np.searchsorted(line, 1.0, side))
    mixed = line[::-1]
    found = sorting.searchsorted(asarray(mixed), points, side=side, sorter=np.argsort(mixed))
    same(found, np.searchsorted(line, points, side))


def test_searchsorted_refuses():
    with pytest.raises(ShapeError, match="must be 1-d"):
        sorting.searchsorted(asarray(X), 1.0)
    with pytest.raises(ValueError, match="'middle'"):
        sorting.searchsorted(asarray([1.0]), 1.0, side="middle")


def test_sets():
    array = np.array([[3, 1, 3], [2, 1, 3]])
    found, expected = sorting.unique_all(asarray(array)), np.unique_all(array)
    for name in expected._fields:
        same(getattr(found, name), getattr(expected, name))
    same(sorting.unique_values(asarray(array)), [1, 2, 3])
    same(sorting.unique_counts(asarray(array)).counts, [2, 1, 3])
    same(sorting.unique_inverse(asarray(array)).inverse_indices, expected.inverse_indices)
    # Every NaN is a value of its own.
    assert sorting.unique_values(asarray([np.nan, np.nan])).shape == (2,)
    same(sorting.isin(asarray(array), [1, 2]), np.isin(array, [1, 2]))
    same(sorting.isin(asarray(array), 3, invert=True), np.isin(array, 3, invert=True))


def test_nonzero():
    array = np.array([[0, 1], [2, 0]])
    for got, expected in zip(sorting.nonzero(asarray(array)), np.nonzero(array), strict=True):
        same(got, expected)
    assert [axis.shape for axis in sorting.nonzero(asarray(np.zeros((2, 0))))] == [(0,), (0,)]
    with pytest.raises(ShapeError, match="0-d"):
        sorting.nonzero(asarray(1))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distinct", [3, 5_000, 10**9])
def test_long_argsorts_are_stable(dtype, distinct, descending):
    rng = np.random.default_rng(distinct)
    x = rng.integers(0, distinct, (3, 5_000, 2)).astype(dtype)
    x[0, ::700] = np.nan
    x[1, ::900] = -0.0
    signed = np.flip(x, 1) if descending else x
    want = np.argsort(signed, 1, kind="stable")
    if descending:
        want = np.flip(5_000 - 1 - want, 1)
    got = gt.argsort(gt.asarray(x), axis=1, descending=descending)
    np.testing.assert_array_equal(got.numpy(), want)


def test_a_sort_computes_no_order_unless_a_derivative_is_asked_for():
    x = gt.asarray([3.0, 1.0, 2.0])
    assert "argsort" not in str(gt.plan_of(gt.sort(x)))
    derivative = gt.grad(lambda x: gt.sum(gt.sort(x) * gt.asarray([1.0, 2.0, 3.0])))
    assert derivative(x).tolist() == [3.0, 1.0, 2.0]
