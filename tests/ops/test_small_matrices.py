"""Stacks of small matrices against NumPy."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import MatrixError

DTYPES = ("float32", "float64", "complex64", "complex128")


def stack(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def positive(shape, dtype):
    x = stack(shape, dtype)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + shape[-1] * np.eye(shape[-1], dtype=dtype)


def assert_close(got, want):
    tolerance = 200 * np.finfo(want.dtype).eps
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(40, 1, 1), (7, 9, 2, 2), (2500, 3, 3), (33, 16, 16)])
def test_cholesky(shape, dtype):
    x = positive(shape, dtype)
    assert_close(gt.linalg.cholesky(gt.asarray(x)).numpy(), np.linalg.cholesky(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(
    ("matrices", "right"),
    [
        ((50, 4, 4), (50, 4, 1)),
        ((1100, 3, 3), (3, 2)),
        ((3, 3), (5, 40, 3, 2)),
        ((40, 1, 1, 1), (2, 1, 3)),
    ],
)
def test_triangular_solve(matrices, right, lower, unit, dtype):
    n = matrices[-1]
    a = stack(matrices, dtype) * np.asarray(0.2, dtype) + 2 * np.eye(n, dtype=dtype)
    b = stack(right, dtype, 1)
    triangle = np.tril(a) if lower else np.triu(a)
    if unit:
        triangle[..., range(n), range(n)] = 1
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    want = np.linalg.solve(triangle, np.broadcast_to(b, batch + b.shape[-2:]))
    got = gt.linalg.triangular_solve(gt.asarray(a), gt.asarray(b), lower=lower, unit_diagonal=unit)
    assert_close(got.numpy(), want)


@pytest.mark.parametrize("bad", [-1.0, 0.0])
def test_one_matrix_that_is_not_positive_definite(bad):
    x = positive((64, 3, 3), "float64")
    x[50, 1, 1] = bad
    with pytest.raises(MatrixError, match="cholesky: a matrix is not positive definite"):
        gt.linalg.cholesky(gt.asarray(x)).numpy()


def test_one_zero_on_a_diagonal():
    a = positive((64, 3, 3), "float64")
    a[50, 1, 1] = 0.0
    with pytest.raises(MatrixError, match=r"singular \(0 at position 1 of its diagonal\)"):
        gt.linalg.triangular_solve(gt.asarray(a), gt.asarray(np.ones((64, 3, 1)))).numpy()
    gt.linalg.triangular_solve(
        gt.asarray(a), gt.asarray(np.ones((64, 3, 1))), unit_diagonal=True
    ).numpy()


def test_operands_stay_as_they_are():
    a, b = positive((64, 3, 3), "float64"), np.ones((64, 3, 2))
    before = a.copy(), b.copy()
    gt.linalg.triangular_solve(gt.asarray(a), gt.asarray(b)).numpy()
    gt.linalg.cholesky(gt.asarray(a)).numpy()
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])
