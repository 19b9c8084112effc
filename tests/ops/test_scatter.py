"""Writing to rows by index, and one-hot rows."""

import numpy as np
import pytest

from gradtape.errors import DtypeError, ShapeError
from gradtape.ir.op import REGISTRY
from gradtape.ops.arrays import indexing
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tensor.tensor import asarray
from gradtape.testing import check_gradients
from gradtape.trace.record import record


def same(got, expected):
    expected = np.asarray(expected)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got.numpy(), expected)


ROWS = np.array([[1, 0], [1, 2]])
VALUES = np.arange(16.0).reshape(2, 2, 4) * 0.3 - 1.1


def test_scatter():
    base = np.linspace(-1, 1, 12).reshape(3, 4)
    added, largest, replaced = base.copy(), base.copy(), base.copy()
    np.add.at(added, ROWS, VALUES)
    np.maximum.at(largest, ROWS, VALUES)
    replaced[ROWS] = VALUES
    for function, expected in [
        (indexing.scatter_add, added),
        (indexing.scatter_max, largest),
        (indexing.scatter_set, replaced),
    ]:
        np.testing.assert_allclose(
            function(asarray(base), ROWS, asarray(VALUES)).numpy(), expected, rtol=1e-14
        )
        check_gradients(lambda x, v, f=function: f(x * x, ROWS, v) ** 2, base, VALUES)
        nothing = function(asarray(base), np.zeros(0, int), np.zeros((0, 4)))
        same(nothing, base)
        with pytest.raises(IndexError, match="index 3 is out of range for axis 0 of length 3"):
            function(asarray(base), [3], np.zeros(4))
        with pytest.raises(ShapeError, match="0-d"):
            function(asarray(1.0), [0], [1.0])
    found = record(REGISTRY["scatter_add"], (base, [0, -1], np.ones((2, 4))), (0,))
    same(found, base + np.array([1.0, 0.0, 1.0])[:, None])


def test_ties_of_scatter_max_go_to_the_tensor_then_to_the_first():
    x, v = asarray([1.0, 2.0]), asarray([3.0, 3.0, 2.0, 1.0])
    with GradientTape() as tape:
        tape.watch([x, v])
        y = indexing.scatter_max(x, [0, 0, 1, 1], v)
    gx, gv = tape.gradient(y, [x, v])
    assert gx.tolist() == [0.0, 1.0]
    assert gv.tolist() == [1.0, 0.0, 0.0, 0.0]
    found = indexing.scatter_max(asarray([1.0, np.nan]), [0, 1], asarray([np.nan, 5.0]))
    assert np.isnan(found.numpy()).all()


def test_one_hot():
    found = indexing.one_hot(asarray([[0, 2], [3, -1]]), 3)
    same(found, np.array([[[1, 0, 0], [0, 0, 1]], [[0, 0, 0], [0, 0, 0]]], np.float64))
    assert indexing.one_hot(asarray(1), 2, dtype=np.int8).dtype == np.int8
    with pytest.raises(DtypeError, match="float64 are not integers"):
        indexing.one_hot(asarray([1.0]), 2)
