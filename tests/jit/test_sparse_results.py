"""Functions that return sparse derivatives are captured like any other."""

import numpy as np
import pytest
import scipy.sparse as sp

import gradtape as gt

A = gt.asarray
X = np.random.default_rng(0).normal(size=12)


def stencil(x):
    return x[:-2] - 2.0 * x[1:-1] ** 2 + x[2:]


def same(found, expected):
    assert type(found) is sp.csr_array
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=1e-12)


def captured(f, *points):
    """Call it as a function at all points, several times, and compare with the call as it is."""
    compiled = gt.function(f)
    for _ in range(4):
        for point in points:
            same(compiled(A(point)), f(A(point)))
    assert [each.refused for each in compiled.captured] == [None]
    return compiled


DERIVATIVES = {
    "jacobian": gt.jacobian(stencil, sparse=True),
    "forward": gt.jacobian(stencil, sparse=True, mode="forward"),
    "reverse": gt.jacobian(stencil, sparse=True, mode="reverse"),
    "hessian": gt.hessian(lambda x: gt.sum(stencil(x) ** 2), sparse=True),
    "diagonal": gt.jacobian(gt.sin, sparse=True),
    "arrow": gt.jacobian(
        lambda x: gt.concat([gt.reshape(gt.sum(x**2), (1,)), x[1:] * x[0]]), sparse=True
    ),
    "two ways": gt.jacobian(
        lambda x: gt.concat([gt.reshape(gt.sum(gt.sin(x)), (1,)), x * gt.sum(x[:1])]), sparse=True
    ),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_values(name):
    compiled = captured(DERIVATIVES[name], X, X + 1.0, np.ones(12))
    assert compiled.captured[0].steps.root.only_result is not None


def test_nothing_is_derived_and_compiled_again():
    compiled = captured(DERIVATIVES["jacobian"], X)
    before = gt.counters()
    compiled(A(X * 2.0))
    after = gt.counters()
    assert after.derivatives_built == before.derivatives_built
    assert after.plans_built == before.plans_built
    assert after.plans_run == before.plans_run + 1


def test_single_precision_and_complex():
    captured(DERIVATIVES["jacobian"], X.astype("float32"))
    captured(DERIVATIVES["jacobian"], X * (1.0 + 1.0j))


def test_beside_other_results():
    f = gt.function(lambda x: {"value": stencil(x), "matrix": DERIVATIVES["jacobian"](x)})
    for shift in range(4):
        found = f(A(X + shift))
        np.testing.assert_allclose(found["value"].numpy(), stencil(X + shift))
        same(found["matrix"], DERIVATIVES["jacobian"](A(X + shift)))
    assert f.captured[0].refused is None


def test_each_result_is_its_own():
    f = gt.function(DERIVATIVES["jacobian"])
    first = [f(A(X)) for _ in range(4)]
    first[0].data[:] = 0.0
    for other in first[1:]:
        same(other, DERIVATIVES["jacobian"](A(X)))
    same(f(A(X)), DERIVATIVES["jacobian"](A(X)))


def test_under_a_tape():
    f = gt.function(lambda x: (gt.sum(x**2), DERIVATIVES["jacobian"](x)))
    for _ in range(3):
        x = A(X)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y, matrix = f(x)
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * X)
        same(matrix, DERIVATIVES["jacobian"](A(X)))


@pytest.mark.filterwarnings("ignore:gt.function. .* runs in Python")
class TestWhatIsNotFollowed:
    def test_entries_that_are_looked_at(self):
        f = gt.function(lambda x: x[0] * (DERIVATIVES["jacobian"](x) @ np.ones(12)).sum())
        for shift in range(3):
            x = X + shift
            expected = x[0] * DERIVATIVES["jacobian"](A(x)).toarray().sum()
            np.testing.assert_allclose(float(f(A(x))), expected)

    def test_a_matrix_that_is_kept(self):
        kept = []

        def keep(x):
            kept.append(DERIVATIVES["jacobian"](x))
            return x * 2.0

        f = gt.function(keep)
        for shift in range(5):
            f(A(X + shift))
        assert len(kept) == 5
        for shift, matrix in enumerate(kept):
            expected = DERIVATIVES["jacobian"](A(X + shift)).toarray()
            np.testing.assert_allclose(matrix.toarray(), expected)

    def test_patterns_that_depend_on_integers(self):
        def f(x, at):
            return gt.jacobian(lambda x: gt.take(x, at) ** 2, sparse=True)(x)

        compiled = gt.function(f)
        for at in ([0, 1, 2], [3, 3, 1], [0, 1, 2]):
            for _ in range(3):
                same(compiled(A(X), A(np.array(at))), f(A(X), A(np.array(at))))

    def test_a_given_pattern(self):
        pattern = sp.eye_array(12).tocsr()
        f = gt.function(gt.jacobian(gt.sin, sparse=pattern))
        for _ in range(4):
            found = f(A(X))
        np.testing.assert_allclose(found.toarray(), np.diag(np.cos(X)))
        wrong = gt.function(gt.jacobian(gt.sin, sparse=sp.eye_array(12, k=1).tocsr()))
        for _ in range(3):
            with pytest.raises(gt.errors.SparsityError):
                wrong(A(X))


def test_shape_and_count_are_known_without_a_look():
    def f(x):
        matrix = DERIVATIVES["jacobian"](x)
        assert matrix.shape == (10, 12)
        assert matrix.nnz == 30
        assert matrix.dtype == np.float64
        return matrix

    captured(f, X)
