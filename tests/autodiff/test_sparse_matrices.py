"""Sparse Jacobians and Hessians: given patterns, meshes, what is kept and what is not."""

import numpy as np
import pytest
from scipy import sparse

import gradtape as gt
from gradtape.errors import SparsityError


def stencil(x):
    return gt.concat([x[:1], x[2:] - 2.0 * x[1:-1] ** 2 + x[:-2], x[-1:]])


def points(count=8):
    return np.linspace(0.1, 1.0, count)


def test_auto_takes_what_is_smaller():
    x = points(50)
    assert sparse.issparse(gt.jacobian(stencil, sparse="auto")(x))
    full = gt.jacobian(lambda x: x * gt.sum(x), sparse="auto")(x)
    assert isinstance(full, gt.Tensor)
    np.testing.assert_allclose(full.numpy(), gt.jacobian(lambda x: x * gt.sum(x))(x).numpy())
    assert sparse.issparse(gt.hessian(lambda x: gt.sum(x**4), sparse="auto")(x))
    assert isinstance(gt.hessian(lambda x: gt.sum(x) ** 3, sparse="auto")(x), gt.Tensor)


def test_auto_does_not_colour_what_is_dense():
    x = np.ones(3000)
    before = gt.counters().plans_run
    found = gt.jacobian(lambda x: gt.cumulative_sum(x) * gt.sum(x), sparse="auto")(x)
    assert isinstance(found, gt.Tensor)
    assert gt.counters().plans_run == before


@pytest.mark.parametrize("form", ["pattern", "csr", "coo", "array", "boolean"])
def test_a_given_pattern(form):
    x = points()
    pattern = gt.sparsity_pattern(stencil, x)
    given = {
        "pattern": pattern,
        "csr": pattern.matrix,
        "coo": sparse.coo_array(pattern.toarray().astype(float)),
        "array": pattern.toarray().astype(float),
        "boolean": pattern.toarray(),
    }[form]
    found = gt.jacobian(stencil, sparse=given)(x)
    np.testing.assert_allclose(found.toarray(), gt.jacobian(stencil)(x).numpy())


def test_a_given_pattern_may_be_too_large():
    x = points()
    given = gt.sparsity_pattern(stencil, x).toarray() | np.eye(8, k=3, dtype=bool)
    found = gt.jacobian(stencil, sparse=given)(x)
    np.testing.assert_allclose(found.toarray(), gt.jacobian(stencil)(x).numpy())
    assert found.nnz == given.sum()


def test_a_given_pattern_that_is_too_small_is_an_error():
    x = points()
    given = np.eye(8, dtype=bool)
    with pytest.raises(SparsityError, match=r"too few entries: 6 rows, the first of them row 1"):
        gt.jacobian(stencil, sparse=given)(x)
    with pytest.raises(SparsityError, match="too few entries"):
        gt.jacobian(lambda x: x * gt.sum(x), sparse=given)(x)


def test_a_given_pattern_of_another_shape_is_an_error():
    with pytest.raises(SparsityError, match=r"shape \(3, 8\) and the matrix \(8, 8\)"):
        gt.jacobian(stencil, sparse=np.eye(3, 8))(points())


def test_given_patterns_are_kept_by_content():
    x = points()
    given = gt.sparsity_pattern(stencil, x).toarray()
    for _ in range(3):
        gt.jacobian(stencil, sparse=given.copy())(x)
    before = gt.counters()
    gt.jacobian(stencil, sparse=given.copy())(x + 1.0)
    after = gt.counters()
    assert after.derivatives_built == before.derivatives_built
    assert after.plans_built == before.plans_built


def test_half_a_pattern_of_a_hessian():
    def f(x):
        return gt.sum(x[1:] * x[:-1] ** 2)

    x = points()
    whole = gt.hessian_pattern(f, x).toarray()
    found = gt.hessian(f, sparse=np.triu(whole))(x)
    np.testing.assert_allclose(found.toarray(), gt.hessian(f)(x).numpy(), atol=1e-12)
    with pytest.raises(SparsityError, match="too few entries"):
        gt.hessian(f, sparse=np.eye(8))(x)


def test_what_is_too_large_to_be_listed():
    x = np.ones(20_000)
    with pytest.raises(SparsityError, match=r"Use sparse=False"):
        gt.jacobian(lambda x: gt.cumulative_sum(x) * gt.sum(x), sparse=True)(x)


def test_two_meshes_through_one_program():
    def f(x, left, right):
        return gt.scatter_add(gt.zeros(x.shape), left, gt.sin(x[right]) * x[left])

    x = points(6)
    meshes = [
        (np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4])),
        (np.array([5, 5, 0, 2]), np.array([0, 1, 5, 2])),
    ]
    patterns = []
    for _ in range(3):
        for left, right in meshes:
            found = gt.jacobian(f, sparse=True)(x, left, right)
            np.testing.assert_allclose(
                found.toarray(), gt.jacobian(f)(x, left, right).numpy(), rtol=1e-12
            )
            patterns.append(found.nnz)
    assert len(set(patterns)) == 2
    before = gt.counters()
    for left, right in meshes:
        gt.jacobian(f, sparse=True)(x * 2.0, left, right)
    after = gt.counters()
    assert after.derivatives_built == before.derivatives_built
    assert after.plans_built == before.plans_built


def test_values_that_were_looked_at_or_not():
    """What a recording has computed already is part of what a program needs."""

    def run(look, x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            h = gt.tanh(x) @ np.ones((8, 8)) + x
            y = gt.sin(h) * x
            if look:
                h.numpy()
                y.numpy()
        return tape.jacobian(y, x, sparse=True).toarray()

    data = points()
    expected = gt.jacobian(lambda x: gt.sin(gt.tanh(x) @ np.ones((8, 8)) + x) * x)(data).numpy()
    for look in (True, False, True, False, False):
        np.testing.assert_allclose(run(look, gt.asarray(data)), expected, rtol=1e-12)


def test_the_matrix_is_the_users():
    """Changes to one matrix do not reach the next."""
    x = points()
    first = gt.jacobian(stencil, sparse=True)(x)
    expected = first.toarray()
    first.data[:] = 7.0
    copied = first.copy()
    copied.data[0] = 0.0
    copied.eliminate_zeros()
    np.testing.assert_array_equal(gt.jacobian(stencil, sparse=True)(x).toarray(), expected)


@pytest.mark.parametrize("unconnected", ["none", "zero"])
def test_unconnected(unconnected):
    x, other = gt.asarray(points()), gt.asarray([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([x, other])
        y = stencil(x)
        z = gt.stop_gradient(x) * 2.0
    for target, source in ((y, other), (z, x)):
        for wanted in (True, "auto"):
            found = tape.jacobian(target, source, unconnected, sparse=wanted)
            if unconnected == "none":
                assert found is None
            else:
                assert found.shape == (target.size, source.size)
                assert not found.nnz
    found = tape.hessian(gt.sum(y), other, unconnected, sparse=True)
    assert found is None if unconnected == "none" else found.shape == (2, 2)


def test_both_ways_together():
    def arrow(x):
        return gt.concat([gt.reshape(gt.sum(x * x), (1,)), x[1:] * x[0]])

    x = points(60)
    found = gt.jacobian(arrow, sparse=True)(x)
    np.testing.assert_allclose(found.toarray(), gt.jacobian(arrow)(x).numpy(), rtol=1e-12)
    assert found.dtype == np.float64
    single = gt.jacobian(arrow, sparse=True)(x.astype("float32"))
    assert single.dtype == np.float32


def test_second_derivatives_of_nests():
    def f(p):
        return gt.sum(p["a"] ** 2 * p["b"]) + gt.sum(p["b"] ** 3)

    p = {"a": points(4), "b": points(4) + 1.0}
    whole, found = gt.hessian(f)(p), gt.hessian(f, sparse=True)(p)
    for a in p:
        for b in p:
            np.testing.assert_allclose(found[a][b].toarray(), whole[a][b].numpy(), rtol=1e-12)


def test_empty():
    found = gt.jacobian(lambda x: x[:0], sparse=True)(points())
    assert found.shape == (0, 8)
    found = gt.jacobian(lambda x: gt.concat([x, np.ones(2)]), sparse=True)(np.zeros(0))
    assert found.shape == (2, 0)


def test_scalars():
    found = gt.jacobian(lambda x: x * x, sparse=True)(3.0)
    assert found.toarray().tolist() == [[6.0]]
    found = gt.hessian(lambda x: x**3, sparse=True)(2.0)
    assert found.toarray().tolist() == [[12.0]]
