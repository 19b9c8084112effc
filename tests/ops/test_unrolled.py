"""Stacks of small matrices in compiled programs, against NumPy and with the errors of LAPACK."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import MatrixError
from gradtape.runtime import tiers

RNG = np.random.default_rng(5)
MANY = 40


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


def triangles(n, dtype="float64", lower=True):
    found = RNG.normal(size=(MANY, n, n)) + 4 * np.eye(n)
    return (np.tril(found) if lower else np.triu(found)).astype(dtype)


def positive(n, dtype="float64"):
    found = RNG.normal(size=(MANY, n, n))
    return (found @ np.swapaxes(found, -1, -2) + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
class TestValues:
    @pytest.mark.slow
    def test_cholesky(self, n, dtype):
        x = positive(n, dtype)
        found = gt.linalg.cholesky(x).numpy()
        np.testing.assert_allclose(
            found,
            np.linalg.cholesky(x),
            rtol=1e-4 if dtype == "float32" else 1e-10,
            atol=1e-5 if dtype == "float32" else 1e-12,
        )
        assert not np.triu(found, 1).any()

    @pytest.mark.slow
    @pytest.mark.parametrize("columns", [1, 3])
    @pytest.mark.parametrize("lower", [True, False])
    @pytest.mark.parametrize("unit", [True, False])
    def test_triangular_solve(self, n, dtype, columns, lower, unit):
        a, b = triangles(n, dtype, lower), RNG.normal(size=(MANY, n, columns)).astype(dtype)
        # The other triangle, and a unit diagonal, are not read.
        given = a + (np.triu(np.full((n, n), 7), 1) if lower else np.tril(np.full((n, n), 7), -1))
        given = given.astype(dtype)
        if unit:
            a = a - np.eye(n, dtype=dtype) * a + np.eye(n, dtype=dtype)
        found = gt.linalg.triangular_solve(given, b, lower=lower, unit_diagonal=unit).numpy()
        assert found.dtype == dtype
        right = np.linalg.solve(a.astype(float), b.astype(float))
        loose = 1e-2 if dtype == "float32" else 1e-8
        scale = np.abs(right).max(axis=(1, 2), keepdims=True)
        assert (np.abs(found - right) <= loose * scale).all()

    def test_products(self, n, dtype):
        a, b = RNG.normal(size=(2, MANY, n, n)).astype(dtype)
        found = gt.matmul(a, gt.matrix_transpose(b)).numpy()
        np.testing.assert_allclose(found, a @ np.swapaxes(b, 1, 2), rtol=1e-4, atol=1e-5)


def test_gradients():
    def loss(x, b):
        factor = gt.linalg.cholesky(x)
        y = gt.linalg.triangular_solve(factor, b)
        return gt.sum(y * y) + gt.sum(gt.log(gt.diagonal(factor)))

    x, b = positive(4), RNG.normal(size=(MANY, 4, 2))
    found = gt.grad(loss, (0, 1))(x, b)
    inverse = np.linalg.inv(x)
    solved = inverse @ b
    expected = -solved @ np.swapaxes(solved, 1, 2) + 0.5 * inverse, 2 * solved
    for one, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), right, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("decorated", [False, True])
class TestErrors:
    def test_not_positive_definite(self, decorated):
        x = positive(3)
        x[7, 2, 2] = -1.0
        f = gt.function(gt.linalg.cholesky) if decorated else gt.linalg.cholesky
        for _ in range(3):
            with pytest.raises(MatrixError, match="not positive definite"):
                f(gt.asarray(x)).numpy()
        np.testing.assert_allclose(f(gt.asarray(positive(3))).shape, (MANY, 3, 3))

    def test_zero_on_the_diagonal(self, decorated):
        a, b = triangles(3), np.ones((MANY, 3, 2))
        a[11, 1, 1] = 0.0
        solve = gt.linalg.triangular_solve
        f = gt.function(solve) if decorated else solve
        for _ in range(3):
            with pytest.raises(MatrixError, match="0 at position 1 of its diagonal"):
                f(gt.asarray(a), gt.asarray(b)).numpy()


@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("shape", [(3, 3), (5, 2, 4), (2, 3, 4, 2)])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64", "bool"])
def test_triangles(k, shape, dtype):
    x = (RNG.normal(size=shape) * 3).astype(dtype)
    if dtype == "float32":
        x.flat[::2] = np.nan
    np.testing.assert_array_equal(gt.tril(x, k=k).numpy(), np.tril(x, k))
    np.testing.assert_array_equal(gt.triu(x, k=k).numpy(), np.triu(x, k))
