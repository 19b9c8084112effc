"""Ops that become others in compiled plans: when, and with the same values."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.passes.compositions import expand_compositions
from gradtape.config import SMALL_MATRIX_PRODUCT

RNG = np.random.default_rng(0)


def expanded(f, *arrays):
    """The names of the ops that a compiled plan of a function computes."""
    program = gt.function(f).program(*map(gt.asarray, arrays))
    return [node.op.name for node in expand_compositions(program).nodes]


def product(x, y):
    return x @ y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("left", "right"), [((3, 5), (5,)), ((5,), (5, 3)), ((1, 1), (1,)), ((32, 32), (32,))]
)
def test_a_small_matrix_times_a_vector_is_a_loop(left, right, dtype):
    x, y = RNG.normal(size=left).astype(dtype), RNG.normal(size=right).astype(dtype)
    assert "matmul" not in expanded(product, x, y)
    f = gt.function(product)
    for _ in range(4):
        found = f(gt.asarray(x), gt.asarray(y))
    assert found.dtype == dtype
    np.testing.assert_allclose(found.numpy(), x @ y, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        ((SMALL_MATRIX_PRODUCT, 2), (2,), "float64"),
        ((5,), (5,), "float64"),
        ((3, 3), (3, 3), "float64"),
        ((2, 3, 3), (3,), "float64"),
        ((3, 3), (3,), "complex128"),
        ((0, 3), (3,), "float64"),
        ((3, 0), (0,), "float64"),
    ],
)
def test_other_products_stay(left, right, dtype):
    x, y = np.ones(left, dtype), np.ones(right, dtype)
    assert "matmul" in expanded(product, x, y)
    f = gt.function(product)
    for _ in range(4):
        found = f(gt.asarray(x), gt.asarray(y))
    np.testing.assert_allclose(found.numpy(), x @ y)
