"""Look-ups in captured functions: indices are inputs, whatever they were when captured."""

import numpy as np
import pytest

import gradtape as gt


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_indices_differ_between_calls(dtype):
    table = gt.asarray(np.arange(4.0) * 10.0)
    look_up = gt.function(lambda ids: gt.take(table, ids))
    for ids in ([0, 1], [3, 2], [1, 1]):
        found = look_up(gt.asarray(np.array(ids, dtype)))
        assert found.tolist() == [10.0 * k for k in ids]


def test_negative_indices():
    x = gt.asarray([1.0, 2.0, 3.0])
    pick = gt.function(lambda x, i: x[i])
    for ids in ([-1, 0], [1, -2], [2, 2]):
        assert pick(x, gt.asarray(ids)).tolist() == np.array([1.0, 2.0, 3.0])[ids].tolist()


def test_row_sparse_results():
    table = gt.Variable([[1.0], [2.0], [3.0]])

    @gt.function
    def slope(ids):
        with gt.GradientTape() as tape:
            y = gt.sum(gt.take(table, ids, axis=0) ** 2)
        return tape.gradient(y, table)

    for ids in ([0, 1], [2, 2], [1, 0]):
        found = slope(gt.asarray(ids))
        assert isinstance(found, gt.RowSparse)
        assert found.indices.tolist() == ids
        assert found.values.tolist() == [[2.0 * (k + 1)] for k in ids]
