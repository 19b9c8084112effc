"""Linear systems with a sparse matrix, against dense ones."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import gradtape as gt
from gradtape.ops.matrices import sparse_solve

N = 6


def matrix(dtype="float64"):
    rng = np.random.default_rng(0)
    full = np.where(rng.random((N, N)) < 0.4, rng.normal(size=(N, N)), 0.0) + 4.0 * np.eye(N)
    if np.dtype(dtype).kind == "c":
        full = full * (1.0 + 0.5j)
    return sp.csr_array(full.astype(dtype))


def side(dtype="float64", columns=()):
    numbers = np.random.default_rng(1).normal(size=(N, *columns)).astype(dtype)
    return numbers * (1.0 - 0.3j) if np.dtype(dtype).kind == "c" else numbers


def dense(a, data):
    """The matrix of these entries, as a tensor."""
    rows = np.repeat(np.arange(N), np.diff(a.indptr))
    places = rows * N + a.indices
    return gt.reshape(gt.scatter_add(gt.zeros(N * N, dtype=data.dtype), places, data), (N, N))


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("columns", [(), (3,), (0,)])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_values(dtype, columns, form):
    a, b = matrix(dtype), side(dtype, columns)
    found = gt.linalg.solve(a.asformat(form), b)
    assert found.dtype == dtype
    expected = np.linalg.solve(a.toarray(), b)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("columns", [(), (2,)])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_derivatives(dtype, columns, mode):
    a, b = matrix(dtype), side(dtype, columns)

    def sparse(data, b):
        return gt.linalg.sparse_solve(a, b, data)

    def full(data, b):
        return gt.linalg.solve(dense(a, data), b)

    found = gt.jacobian(sparse, argnums=(0, 1), mode=mode)(a.data, b)
    expected = gt.jacobian(full, argnums=(0, 1), mode=mode)(a.data, b)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("modes", list(itertools.product([gt.jacfwd, gt.jacrev], repeat=2)))
def test_second_derivatives(modes):
    a, b = matrix(), side()

    def loss(solve):
        return lambda data: gt.sum(gt.sin(solve(data)))

    sparse = loss(lambda data: gt.linalg.sparse_solve(a, b * gt.sum(data), data))
    full = loss(lambda data: gt.linalg.solve(dense(a, data), b * gt.sum(data)))
    found = modes[0](modes[1](sparse))(a.data).numpy()
    np.testing.assert_allclose(found, gt.hessian(full)(a.data).numpy(), rtol=1e-9, atol=1e-11)


def test_many_examples():
    a, many = matrix(), np.stack([side(), 2.0 * side(), side() - 1.0])
    expected = np.stack([np.linalg.solve(a.toarray(), b) for b in many])
    np.testing.assert_allclose(gt.vmap(lambda b: gt.linalg.solve(a, b))(many).numpy(), expected)
    scales = np.array([1.0, 2.0])
    found = gt.vmap(lambda s: gt.linalg.sparse_solve(a, side(), a.data * s))(scales)
    np.testing.assert_allclose(found.numpy(), expected[0] / scales[:, None])


def test_new_entries_build_nothing():
    a, b = matrix(), gt.asarray(side())
    slope = gt.grad(lambda data: gt.sum(gt.linalg.sparse_solve(a, b, data) ** 2))
    for scale in (1.0, 2.0, 3.0):
        slope(a.data * scale).numpy()
    before = gt.counters()
    slope(a.data * 4.0).numpy()
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.derivatives_built == before.derivatives_built


def test_errors():
    a = matrix()
    with pytest.raises(gt.errors.MatrixError, match=r"solve: a sparse matrix .* is singular"):
        gt.linalg.solve(sp.csr_array(np.diag([1.0, 0.0])), [1.0, 1.0])
    with pytest.raises(gt.errors.ShapeError, match="solve: a sparse matrix of shape"):
        gt.linalg.solve(a, np.ones(3))
    with pytest.raises(gt.errors.ShapeError, match="solve: a sparse matrix of shape"):
        gt.linalg.solve(sp.csr_array(np.ones((2, 3))), np.ones(2))
    with pytest.raises(gt.errors.ShapeError, match=r"sparse_solve: data of shape \(3,\)"):
        gt.linalg.sparse_solve(a, np.ones(N), np.ones(3))


def test_a_solution_and_its_derivative_factor_once(monkeypatch):
    found = []
    real = sparse_solve._factors_of
    monkeypatch.setattr(sparse_solve, "_factors_of", lambda *args: found.append(0) or real(*args))
    gt.empty_cache()
    a, b = matrix("complex128"), side("complex128")

    def loss(data):
        return gt.sum(gt.abs(gt.linalg.sparse_solve(a, b, data)) ** 2)

    gt.value_and_grad(loss)(a.data)[1].numpy()
    assert len(found) == 1
    gt.value_and_grad(loss)(a.data * 1.5)[1].numpy()
    assert len(found) == 2
    gt.empty_cache()
    gt.value_and_grad(loss)(a.data * 1.5)[1].numpy()
    assert len(found) == 3


def test_large_factors_are_not_remembered(monkeypatch):
    monkeypatch.setattr(sparse_solve, "LARGEST_KEPT_FACTORS", 10)
    gt.empty_cache()
    gt.linalg.solve(matrix(), side()).numpy()
    assert sparse_solve._last == (None, None)
