"""Decompositions that MKL computes where it is installed: here by any LAPACK, beside NumPy's."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.linalg import LinAlgError

from gradtape.ops.matrices import large_matrices

TOLERANCE = {"float32": 2e-3, "float64": 1e-11}


@pytest.fixture(autouse=True)
def taken_for_mkl(monkeypatch):
    """The routines are those of the library in use, whatever its name is."""
    monkeypatch.setattr(large_matrices, "library", lambda: SimpleNamespace(name="mkl"))


def drawn(dtype, *shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
class TestBesideNumpy:
    def test_eigenvalues_and_vectors(self, dtype):
        a = drawn(dtype, 90, 90)
        symmetric, limit = a + a.T, 100 * TOLERANCE[dtype]
        values, vectors = large_matrices.eigh(symmetric)
        assert (values.dtype, vectors.dtype) == (a.dtype, a.dtype)
        np.testing.assert_allclose(vectors * values @ vectors.T, symmetric, atol=limit)
        expected = np.linalg.eigvalsh(symmetric)
        np.testing.assert_allclose(values, expected, atol=limit)
        np.testing.assert_allclose(large_matrices.eigvalsh(symmetric), expected, atol=limit)

    @pytest.mark.parametrize("shape", [(90, 70), (70, 90), (80, 80)])
    @pytest.mark.parametrize("full", [False, True])
    def test_singular_values_and_vectors(self, dtype, shape, full):
        a, limit, short = drawn(dtype, *shape), 10 * TOLERANCE[dtype], min(shape)
        u, s, vh = large_matrices.svd(a, full)
        expected = np.linalg.svd(a, full_matrices=full)
        assert [x.shape for x in (u, s, vh)] == [x.shape for x in expected]
        np.testing.assert_allclose(u[:, :short] * s @ vh[:short], a, atol=limit)
        np.testing.assert_allclose(s, expected[1], atol=limit)
        np.testing.assert_allclose(large_matrices.svdvals(a), expected[1], atol=limit)

    def test_factors_of_positive_matrices(self, dtype):
        a = drawn(dtype, 80, 80)
        positive = a @ a.T + 80 * np.eye(80, dtype=dtype)
        found = large_matrices.cholesky(positive)
        np.testing.assert_allclose(found, np.linalg.cholesky(positive), atol=TOLERANCE[dtype])
        assert not np.triu(found, 1).any()


def test_a_matrix_that_is_not_positive_definite():
    with pytest.raises(LinAlgError, match="not positive definite"):
        large_matrices.cholesky(-np.eye(80))


@pytest.mark.parametrize("shape", [(5, 5), (2, 70, 70)])
def test_numpy_takes_the_others(shape, monkeypatch):
    monkeypatch.setattr(large_matrices, "lapack", None)
    a = drawn("float64", *shape)
    np.testing.assert_array_equal(large_matrices.svdvals(a), np.linalg.svd(a, compute_uv=False))


def test_numpy_takes_numbers_that_are_not_finite(monkeypatch):
    monkeypatch.setattr(large_matrices, "lapack", None)
    matrix = np.full((80, 80), np.nan)
    try:
        expected = np.linalg.eigvalsh(matrix)
    except LinAlgError as error:
        with pytest.raises(LinAlgError, match=str(error)):
            large_matrices.eigvalsh(matrix)
    else:
        np.testing.assert_array_equal(large_matrices.eigvalsh(matrix), expected)
