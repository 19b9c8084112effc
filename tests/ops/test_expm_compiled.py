"""Exponentials of matrices in compiled plans: against long doubles, without calls of Python."""

import mpmath
import numpy as np
import pytest

import gradtape as gt
from gradtape.runtime import tiers

DTYPES = ["float64", "float32", "complex128", "complex64"]


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")
    gt.clear_plans()
    yield
    gt.clear_plans()


def matrices(shape, dtype, scale=1.0):
    rng = np.random.default_rng(5)
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return (scale * x / np.sqrt(shape[-1])).astype(dtype)


def exponential(x):
    """Taylor's series of a small part of a matrix, and squares, in long doubles.

    SciPy's errors are hundreds of ulps for some of the matrices below.
    """
    squarings = int(np.ceil(np.log2(np.abs(x).sum(axis=-1).max(initial=1.0)))) + 1
    part = x.astype(np.result_type(x.dtype, np.longdouble)) / 2**squarings
    term = total = np.broadcast_to(np.eye(x.shape[-1], dtype=part.dtype), x.shape)
    for k in range(1, 25):
        term = term @ part / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


def exact(x):
    """The exponential of one matrix, to 50 digits."""
    with mpmath.workdps(50):
        found = mpmath.expm(mpmath.matrix(x.astype(complex).tolist()), method="taylor")
        return np.array([complex(value) for value in found]).reshape(x.shape)


def assert_near(x, factor=20.0, exponential=exponential):
    before = gt.counters().python_calls
    found = gt.linalg.expm(gt.asarray(x)).numpy()
    assert gt.counters().python_calls == before
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    expected = exponential(x)
    size = np.abs(expected).max(axis=(-1, -2), keepdims=True, initial=0.0)
    assert (np.abs(found - expected) <= factor * np.finfo(x.dtype).eps * size).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 40, 101])
def test_orders(n, dtype):
    assert_near(matrices((n, n), dtype))
    assert_near(matrices((3, 2, n, n), dtype, 0.01))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 4, 12])
@pytest.mark.parametrize("scale", [1e-9, 0.3, 4.0])
def test_triangles_and_diagonals(n, dtype, scale):
    x = matrices((3, n, n), dtype, scale)
    for found in (np.triu(x), np.tril(x), x * np.eye(n, dtype=dtype)):
        assert_near(found.astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_far_from_normal_are_not_scaled_too_often(dtype):
    for x in ([[0, 1e6], [0, 0]], [[1, 1e6], [0, -1]], [[1, 0], [1e4, -1]]):
        assert_near(np.array(x, dtype), exponential=exact)
    rng = np.random.default_rng(2)
    blocks = np.zeros((6, 6))
    blocks[:3, :3], blocks[3:, 3:] = rng.normal(size=(2, 3, 3))
    blocks[:3, 3:] = 1e5 * rng.normal(size=(3, 3))
    assert_near(blocks.astype(dtype), 40.0, exact)


@pytest.mark.parametrize("time", [0.01, 1.0, 100.0])
def test_rows_of_transition_probabilities_sum_to_one(time):
    rates = np.abs(matrices((50, 4, 4), "float64"))
    rates -= np.eye(4) * rates.sum(axis=-1, keepdims=True)
    found = gt.linalg.expm(gt.asarray(time * rates)).numpy()
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-12)
    assert (found >= -1e-13).all()


def test_a_large_matrix_is_scaled():
    x = np.array([[-49.0, 24.0], [-64.0, 31.0]])
    expected = np.array([[-0.735758758144755, 0.551819099658099],
                         [-1.471517599088236, 1.103638240715688]])  # fmt: skip
    found = gt.linalg.expm(gt.asarray(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_empty_stacks():
    assert gt.linalg.expm(gt.zeros((0, 3, 3))).numpy().shape == (0, 3, 3)
    assert gt.linalg.expm(gt.zeros((2, 0, 0))).numpy().shape == (2, 0, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scipy_decides_on_numbers_that_are_not_finite(value, monkeypatch):
    x = np.eye(3)
    x[0, 1] = x[1, 0] = value

    def outcome():
        gt.clear_plans()
        try:
            with np.errstate(all="ignore"):
                return np.array(gt.linalg.expm(gt.asarray(x)).numpy())
        except Exception as error:
            return type(error)

    found = outcome()
    monkeypatch.setattr(tiers, "MODE", "off")
    np.testing.assert_equal(found, outcome())


def gradient(x):
    def loss(x):
        def step(total, scale):
            return total + gt.sum(gt.sin(gt.linalg.expm(x * scale))), None

        return gt.scan(step, gt.asarray(0.0), gt.asarray([0.5, 1.0]))[0]

    return np.array(gt.grad(loss)(gt.asarray(x)).numpy())


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3), (9, 9)])
def test_derivatives_in_the_body_of_a_scan(shape, monkeypatch):
    x = matrices(shape, "float64")
    before = gt.counters().python_calls
    found = gradient(x)
    assert gt.counters().python_calls == before
    monkeypatch.setattr(tiers, "MODE", "off")
    gt.clear_plans()
    np.testing.assert_allclose(found, gradient(x), rtol=1e-11, atol=1e-12)
