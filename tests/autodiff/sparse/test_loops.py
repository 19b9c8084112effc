"""Patterns of maps and scans of any length: steps that do not use each other stay apart."""

import numpy as np
import pytest
from benchmarks.bundle_adjustment import Problem

import gradtape as gt

INDEX = np.array([0, 3, 1, 1, 4, 2, 0])
X = np.linspace(0.5, 1.5, 5)


def twice(x):
    return gt.concat([x, x])[:7]


def flat(results):
    return gt.concat([gt.reshape(one, (-1,)) for one in results])


FORMS = {
    "rows": lambda x: gt.map(lambda r: gt.sin(r), twice(x)),
    "gather": lambda x: gt.map(lambda i: x[i] ** 2, INDEX),
    "nested": lambda x: gt.reshape(gt.map(lambda r: gt.map(lambda q: q * r[0], r),
                                          gt.reshape(x[:4], (2, 2))), (-1,)),
    "passed_on": lambda x: gt.scan(lambda c, i: (c, c[i] * c[0]), x, INDEX)[1],
    "counted": lambda x: gt.scan(lambda n, r: (n + 1.0, gt.sin(r)), 0.0, twice(x))[1],
    "summed": lambda x: flat(gt.scan(lambda c, o: (c + o[1], o[1] * x[o[0]]), x[0],
                                     (INDEX, twice(x)))),
    "reverse": lambda x: gt.scan(lambda c, o: (c * 2.0, o[1] * x[o[0]]), 1.0, (INDEX, twice(x)),
                                 reverse=True)[1],
    "recurrent": lambda x: gt.scan(lambda c, o: (c * o, c), 1.0, x)[1],
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_pattern_has_the_entries_of_the_dense_jacobian(name):
    dense = gt.jacobian(FORMS[name])(X).numpy()
    pattern = gt.sparsity_pattern(FORMS[name], X)
    np.testing.assert_array_equal(pattern.toarray(), dense != 0)
    np.testing.assert_allclose(gt.jacobian(FORMS[name], sparse=True)(X).toarray(), dense)


def test_other_indices_have_another_pattern():
    def f(x, index):
        return gt.map(lambda i: x[i] ** 2, index)

    for index in (INDEX, INDEX[::-1].copy(), INDEX):
        found = gt.jacobian(lambda x, index=index: f(x, index), sparse=True)(X)
        np.testing.assert_array_equal(found.indices, index)


@pytest.mark.parametrize("length", [4096, 4097, 20_000])
def test_long_maps_keep_their_blocks(length):
    x = np.ones(3 * length)
    mapped = gt.sparsity_pattern(
        lambda x: gt.map(lambda r: gt.sum(r * r), gt.reshape(x, (length, 3))), x
    )
    scanned = gt.sparsity_pattern(
        lambda x: gt.scan(lambda c, r: (c + r[0], gt.sum(r * r)), 0.0,
                          gt.reshape(x, (length, 3)))[1], x
    )  # fmt: skip
    for pattern in (mapped, scanned):
        assert (pattern.nnz, pattern.notes) == (3 * length, ())


def test_a_long_recurrence_is_named():
    def f(x):
        return gt.scan(lambda c, o: (c * 0.5 + o, c * o), 0.0, x)[1]

    (note,) = gt.sparsity_pattern(f, np.ones(5000)).notes
    assert note.startswith("scan: more than 4096 steps")


@pytest.mark.slow
def test_the_op_is_named_at_which_detection_gave_up():
    matrix = np.ones((5000, 5000))
    (note,) = gt.sparsity_pattern(lambda x: gt.sin(matrix @ x), np.ones(5000)).notes
    assert note.startswith("matmul: more than")


def test_bundle_adjustment_in_four_forms():
    problem = Problem(cameras=3, points=10, sights=25)
    x = problem.drawn()[0]
    forms = problem.forms()
    dense = gt.jacobian(forms["gathers"])(x).numpy()
    for name, f in forms.items():
        found = gt.jacobian(f, sparse=True)(x)
        # Two rows of 11 + 3 + 1 unknowns for each sight, less zeros, and the row of its weight.
        assert found.nnz == 25 * (2 * 14 + 1), name
        np.testing.assert_allclose(found.toarray(), dense, rtol=1e-12, atol=1e-9, err_msg=name)
