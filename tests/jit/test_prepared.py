"""Derivatives prepared once, and derivatives as linear operators."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg, eigsh, gmres, lsmr, svds

import gradtape as gt
from gradtape.tape.function_at_point import Layout


def chain(x):
    return gt.sin(x[1:]) * x[:-1]


def test_prepared_jacobian_equals_the_dense_one():
    x = np.linspace(0.0, 1.0, 40)
    prepared = gt.prepare_jacobian(chain, x, sparse=True)
    assert prepared.shape == (39, 40)
    assert prepared.method == "column"
    assert prepared.colours == 2
    assert prepared.pattern.nnz == 78
    assert repr(prepared) == (
        "Jacobian of shape (39, 40), 78 of 1560 entries, column colouring, 2 products"
    )
    for at in (x, x**2, -x):
        found = prepared(at)
        assert found.format == "csr"
        assert found.has_canonical_format
        np.testing.assert_allclose(found.toarray(), gt.jacobian(chain)(at).numpy(), rtol=1e-14)


def test_calls_only_evaluate():
    x = np.linspace(0.0, 1.0, 40)
    for sparse in (True, False):
        prepared = gt.prepare_jacobian(chain, x, sparse=sparse)
        before = gt.counters()
        for scale in (1.0, 2.0, 3.0):
            prepared(scale * x)
        after = gt.counters()
        assert after.plans_built == before.plans_built
        assert after.kernels_compiled == before.kernels_compiled
        assert after.derivatives_built == before.derivatives_built


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
@pytest.mark.parametrize("sparse", [True, False, "auto"])
def test_forms_and_modes(mode, sparse):
    x = np.linspace(0.0, 1.0, 150)
    prepared = gt.prepare_jacobian(chain, x, sparse=sparse, mode=mode)
    found = prepared(x)
    assert sp.issparse(found) == (sparse is not False)
    dense = found.toarray() if sp.issparse(found) else found
    np.testing.assert_allclose(dense, gt.jacobian(chain)(x).numpy(), rtol=1e-13)
    assert (prepared.pattern is None) == (sparse is False)
    if sparse is False:
        assert prepared.method == "dense"
        assert prepared.colours is None
        assert repr(prepared) == "Jacobian of shape (149, 150), dense"


def test_small_or_full_matrices_are_dense_by_default():
    assert gt.prepare_jacobian(chain, np.ones(10)).method == "dense"
    full = gt.prepare_jacobian(lambda x: gt.sum(x) * x, np.ones(200))
    assert full.method == "dense"
    assert gt.prepare_jacobian(chain, np.ones(200)).method == "column"


def test_a_pattern_may_be_given():
    pattern = gt.sparsity_pattern(chain, np.ones(6))
    prepared = gt.prepare_jacobian(chain, np.ones(6), sparse=pattern)
    x = np.arange(6.0)
    np.testing.assert_allclose(prepared(x).toarray(), gt.jacobian(chain)(x).numpy())
    assert prepared.pattern is pattern


@pytest.mark.parametrize("order", [None, "natural", "largest_first", "smallest_last"])
def test_colourings_and_orders(order):
    def arrow(x):
        return gt.concat([gt.sum(x**2, keepdims=True), x[1:] * x[0]])

    x = np.linspace(1.0, 2.0, 12)
    expected = gt.jacobian(arrow)(x).numpy()
    products = {"column": 12, "row": 12, "bidirectional": 3}
    for colouring, most in products.items():
        prepared = gt.prepare_jacobian(arrow, x, colouring=colouring, order=order)
        assert prepared.method == colouring
        assert prepared.colours == most
        np.testing.assert_allclose(prepared(x).toarray(), expected, rtol=1e-14)

    def energy(x):
        return gt.sum(x[0] * x**3) + gt.sum(x[1:] * x[:-1])

    expected = gt.hessian(energy)(x).numpy()
    for colouring in ("star", "acyclic"):
        hessian = gt.prepare_hessian(energy, x, colouring=colouring, order=order)
        assert hessian.method == colouring
        assert hessian.colours <= 5
        np.testing.assert_allclose(hessian(x).toarray(), expected, rtol=1e-12)


def test_unknown_colourings():
    x = np.ones(3)
    with pytest.raises(ValueError, match="colouring 'star' is unknown"):
        gt.prepare_jacobian(chain, x, colouring="star")
    with pytest.raises(ValueError, match="colouring 'row' is unknown"):
        gt.prepare_hessian(lambda x: gt.sum(x**2), x, colouring="row")
    with pytest.raises(ValueError, match="order 'any' is unknown"):
        gt.prepare_jacobian(chain, x, order="any")
    with pytest.raises(ValueError, match="Drop sparse=False"):
        gt.prepare_jacobian(chain, x, sparse=False, colouring="row")


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.coo_array])
def test_a_pattern_may_be_a_matrix(kind):
    x = np.linspace(0.0, 1.0, 150)
    given = kind(gt.sparsity_pattern(chain, x).toarray().astype(float))
    expected = gt.jacobian(chain)(x).numpy()
    np.testing.assert_allclose(gt.prepare_jacobian(chain, x, sparse=given)(x).toarray(), expected)
    np.testing.assert_allclose(gt.residuals(chain, sparse=given).jac(x).toarray(), expected)
    np.testing.assert_allclose(gt.jacobian(chain, sparse=given)(x).toarray(), expected)


def test_other_arguments_and_nests():
    def f(scale, p):
        return {"u": scale * p["a"] * p["b"], "v": gt.sum(p["a"])}

    example = {"a": np.ones(3), "b": np.ones(3)}
    prepared = gt.prepare_jacobian(f, 2.0, example, argnums=1, sparse=True)
    assert prepared.shape == (4, 6)
    found = prepared(3.0, {"a": np.arange(3.0), "b": np.full(3, 2.0)}).toarray()
    expected = np.zeros((4, 6))
    expected[:3, :3] = 6.0 * np.eye(3)
    expected[:3, 3:] = 3.0 * np.diag(np.arange(3.0))
    expected[3, :3] = 1.0
    np.testing.assert_allclose(found, expected)


def test_another_mesh_is_another_pattern():
    def f(x, index):
        return gt.take(x, index) ** 2

    prepared = gt.prepare_jacobian(f, np.ones(4), np.array([0, 1, 2, 3]), sparse=True)
    x = np.arange(1.0, 5.0)
    for index in ([0, 1, 2, 3], [3, 3, 0, 1], [1, 0, 1, 0]):
        expected = np.zeros((4, 4))
        expected[range(4), index] = 2 * x[index]
        np.testing.assert_allclose(prepared(x, np.array(index)).toarray(), expected)


def test_another_path_is_prepared_too():
    def f(x):
        return x[1:] * x[:-1] if x[0] > 0 else x[:-1] ** 2

    prepared = gt.prepare_jacobian(f, np.ones(4), sparse=True)
    assert prepared(np.ones(4)).nnz == 6
    assert prepared(-np.ones(4)).nnz == 3
    np.testing.assert_allclose(prepared(-np.ones(4)).toarray(), -2.0 * np.eye(3, 4))


def test_matrices_share_indices_that_nobody_may_change():
    prepared = gt.prepare_jacobian(chain, np.ones(5), sparse=True)
    first, second = prepared(np.ones(5)), prepared(np.zeros(5))
    assert np.shares_memory(first.indices, second.indices)
    assert not np.shares_memory(first.data, second.data)
    first.data[:] = 7.0
    np.testing.assert_array_equal(prepared(np.zeros(5)).toarray(), second.toarray())
    with pytest.raises(ValueError, match="read-only"):
        second.eliminate_zeros()
    again = second.copy()
    again.eliminate_zeros()
    assert again.nnz < second.nnz
    for form in ("csc", "coo", "dia", "lil"):
        np.testing.assert_array_equal(second.asformat(form).toarray(), second.toarray())


def test_prepared_hessian():
    def f(x):
        return gt.sum(x[1:] ** 2 * x[:-1])

    x = np.linspace(0.0, 1.0, 30)
    for sparse in (True, False):
        prepared = gt.prepare_hessian(f, x, sparse=sparse)
        found = prepared(x**2)
        found = found.toarray() if sp.issparse(found) else found
        np.testing.assert_allclose(found, gt.hessian(f)(x**2).numpy(), rtol=1e-13, atol=1e-14)
    assert repr(gt.prepare_hessian(f, x, sparse=True)).startswith("Hessian of shape (30, 30)")


def test_wrong_calls():
    with pytest.raises(ValueError, match="prepare_jacobian: argnums 1"):
        gt.prepare_jacobian(chain, np.ones(3), argnums=1)
    with pytest.raises(ValueError, match="mode 'sideways'"):
        gt.prepare_jacobian(chain, np.ones(3), mode="sideways")
    prepared = gt.prepare_jacobian(chain, np.ones(3))
    with pytest.raises(gt.errors.ShapeError, match="do not fit"):
        prepared(np.ones(4))


# Linear operators.


# SciPy from 1.18 on would rather have `matmat` for columns.
@pytest.mark.filterwarnings("ignore:Calling .* on .column vectors.:FutureWarning")
def test_operator_equals_the_matrix():
    rng = np.random.default_rng(0)
    x = rng.normal(size=12)
    A = gt.linear_operator(chain, x)
    J = gt.jacobian(chain)(x).numpy()
    assert A.shape == (11, 12)
    assert A.dtype == np.float64
    v, w = rng.normal(size=12), rng.normal(size=11)
    V, W = rng.normal(size=(12, 4)), rng.normal(size=(11, 3))
    np.testing.assert_allclose(A.matvec(v), J @ v, rtol=1e-13)
    np.testing.assert_allclose(A.rmatvec(w), J.T @ w, rtol=1e-13)
    np.testing.assert_allclose(A @ V, J @ V, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(A.rmatmat(W), J.T @ W, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(A.T @ w, J.T @ w, rtol=1e-13)
    np.testing.assert_allclose(A @ (v + 1j * v**2), J @ (v + 1j * v**2), rtol=1e-12)
    np.testing.assert_allclose((A.T @ A) @ v, J.T @ J @ v, rtol=1e-12)
    assert (A @ np.zeros((12, 0))).shape == (11, 0)
    assert A.matvec(v[:, None]).shape == (11, 1)


def test_operator_of_several_primals_and_nests():
    def f(a, p):
        return [a * p["x"], gt.sum(p["x"])]

    A = gt.linear_operator(f, np.array([2.0, 3.0]), {"x": np.array([5.0, 7.0])})
    expected = [[5.0, 0.0, 2.0, 0.0], [0.0, 7.0, 0.0, 3.0], [0.0, 0.0, 1.0, 1.0]]
    np.testing.assert_allclose(A @ np.eye(4), expected)


def test_operator_of_complex_functions():
    z = np.array([1.0 + 2.0j, -0.5j])
    A = gt.linear_operator(lambda z: z**2, z)
    v = np.array([1.0j, 2.0])
    np.testing.assert_allclose(A @ v, 2 * z * v)
    np.testing.assert_allclose(A.H @ v, np.conj(2 * z) * v)


def test_operator_that_is_zero():
    A = gt.linear_operator(lambda x: gt.floor(x), np.ones(3))
    np.testing.assert_array_equal(A @ np.ones(3), np.zeros(3))
    B = gt.linear_operator(lambda x: gt.ones(2), np.ones(3))
    np.testing.assert_array_equal(B @ np.eye(3), np.zeros((2, 3)))
    np.testing.assert_array_equal(B.T @ np.ones(2), np.zeros(3))


def test_hessian_operator():
    def f(x):
        return gt.sum(x**4) + gt.sum(x[1:] * x[:-1])

    x = np.linspace(1.0, 2.0, 6)
    H = gt.hessian_operator(f, x)
    expected = gt.hessian(f)(x).numpy()
    np.testing.assert_allclose(H @ np.eye(6), expected)
    np.testing.assert_allclose(H.T @ x, expected @ x)
    with pytest.raises(gt.errors.ShapeError, match="returned 6 numbers"):
        gt.hessian_operator(lambda x: x, x)
    with pytest.raises(ValueError, match="no primals"):
        gt.linear_operator(f)


def test_solvers_take_operators():
    x = np.linspace(1.0, 2.0, 8)
    A = gt.linear_operator(lambda x: x**2 + 0.1 * gt.roll(x, 1), x)
    J = A @ np.eye(8)
    b = np.arange(8.0)
    np.testing.assert_allclose(gmres(A, b, rtol=1e-12)[0], np.linalg.solve(J, b), rtol=1e-9)
    found = lsmr(A, b, atol=1e-13, btol=1e-13)[0]
    np.testing.assert_allclose(found, np.linalg.solve(J, b), rtol=1e-8)
    H = gt.hessian_operator(lambda x: gt.sum(x**4) + gt.sum(x[1:] * x[:-1]), x)
    M = H @ np.eye(8)
    np.testing.assert_allclose(cg(H, b, rtol=1e-12)[0], np.linalg.solve(M, b), rtol=1e-9)
    np.testing.assert_allclose(eigsh(H, 1)[0], np.linalg.eigvalsh(M)[-1:])
    np.testing.assert_allclose(svds(A, 1)[1], np.linalg.svd(J)[1][:1])


def test_products_derive_and_compile_nothing_anew():
    x = np.linspace(0.0, 1.0, 20)
    for _ in range(3):
        A = gt.linear_operator(chain, x)
        A.matvec(x), A.rmatvec(x[1:]), A @ np.ones((20, 4))
    before = gt.counters()
    A = gt.linear_operator(chain, x**2)
    for scale in range(1, 6):
        A.matvec(scale * x), A.rmatvec(scale * x[1:]), A @ np.full((20, 4), scale)
    after = gt.counters()
    assert after.plans_built == before.plans_built
    assert after.kernels_compiled == before.kernels_compiled
    assert after.derivatives_built == before.derivatives_built


class TestLinearized:
    """What `linearize` gives, as a map both ways and as an operator."""

    x = np.linspace(1.0, 2.0, 5)

    def test_nests_and_several_primals(self):
        def f(p, s):
            return {"u": p["a"] ** 2 * s, "v": gt.sum(p["b"]) * p["a"][0]}

        given = ({"a": self.x, "b": np.ones(2)}, 2.0)
        _, push = gt.linearize(f, *given)
        operator = push.as_linear_operator()
        assert isinstance(operator, LinearOperator)
        assert operator.shape == (6, 8)
        matrix = gt.linear_operator(f, *given) @ np.eye(8)
        np.testing.assert_allclose(operator @ np.eye(8), matrix, rtol=1e-14)
        np.testing.assert_allclose(operator.H @ np.eye(6), matrix.T, rtol=1e-14)
        v = np.arange(8.0)
        np.testing.assert_allclose(operator.matvec(v), matrix @ v, rtol=1e-14)
        w = np.arange(6.0)
        np.testing.assert_allclose(operator.rmatvec(w), matrix.T @ w, rtol=1e-14)
        by_p, by_s = push.transpose({"u": w[:5], "v": w[5]})
        np.testing.assert_allclose(by_p["a"].numpy(), (matrix.T @ w)[:5], rtol=1e-14)
        assert float(by_s) == pytest.approx((matrix.T @ w)[7])

    def test_complex(self):
        z = self.x * (1.0 + 1j)
        operator = gt.linearize(lambda z: gt.exp(z) * z[0], z)[1].as_linear_operator()
        matrix = gt.jacobian(lambda z: gt.exp(z) * z[0])(z).numpy()
        assert operator.dtype == np.complex128
        np.testing.assert_allclose(operator @ np.eye(5), matrix, rtol=1e-13)
        np.testing.assert_allclose(operator.H @ np.eye(5), matrix.conj().T, rtol=1e-13)

    def test_a_solver(self):
        _, push, aux = gt.linearize(lambda x: (x**3 + x[0], "more"), self.x, has_aux=True)
        assert aux == "more"
        operator = push.as_linear_operator()
        found, trouble = gmres(operator, np.ones(5), rtol=1e-12)
        assert trouble == 0
        np.testing.assert_allclose(operator @ found, np.ones(5), rtol=1e-9)

    def test_wrong_number_of_tangents(self):
        _, push = gt.linearize(lambda x: x, self.x)
        with pytest.raises(ValueError, match="1 primals and 2 tangents"):
            push(self.x, self.x)


class TestReplays:
    """Evaluations of a sparse derivative are captured, where the function allows that."""

    def test_no_python_runs(self):
        x = np.linspace(0.0, 1.0, 40)
        prepared = gt.prepare_jacobian(chain, x, sparse=True)
        before = gt.counters()
        found = [prepared(scale * x) for scale in (1.0, 2.0, 3.0)]
        after = gt.counters()
        # Python that runs asks for the derivative.
        assert after.derivative_hits == before.derivative_hits
        assert after.plans_run - before.plans_run == 3
        for scale, matrix in zip((1.0, 2.0, 3.0), found, strict=True):
            expected = gt.jacobian(chain)(scale * x).numpy()
            np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-14)

    def test_effects_of_the_function_happen_at_every_call(self):
        calls = []

        def f(x):
            calls.append(1)
            return x[1:] * x[:-1]

        prepared = gt.prepare_jacobian(f, np.ones(4), sparse=True)
        calls.clear()
        for number in range(1, 4):
            prepared(np.full(4, float(number)))
            assert len(calls) == number

    def test_the_pattern_is_that_of_the_latest_call(self):
        def f(x):
            return x[1:] * x[:-1] if x[0] > 0 else x[:-1] ** 2

        prepared = gt.prepare_jacobian(f, np.ones(4), sparse=True)
        for _ in range(3):
            for sign, count in ((1.0, 6), (-1.0, 3)):
                assert prepared(np.full(4, sign)).nnz == count
                assert prepared.pattern.nnz == count

    def test_what_the_function_reads_outside_may_change(self):
        scale = {"by": 2.0}
        prepared = gt.prepare_jacobian(lambda x: scale["by"] * x**2, np.ones(3), sparse=True)
        for by in (2.0, 5.0, 2.0):
            scale["by"] = by
            np.testing.assert_allclose(prepared(np.ones(3)).toarray(), 2.0 * by * np.eye(3))

    def test_a_tape_around_takes_the_matrix_for_a_constant(self):
        prepared = gt.prepare_jacobian(lambda x: x**2, np.ones(3), sparse=True)
        x = gt.Variable([1.0, 2.0, 3.0])
        with gt.GradientTape() as tape:
            matrix = prepared(x.numpy())
            y = gt.sum(x * matrix.toarray().sum(axis=0))
        np.testing.assert_allclose(tape.gradient(y, x), [2.0, 4.0, 6.0])

    def test_other_arguments_are_inputs(self):
        prepared = gt.prepare_jacobian(
            lambda a, x, b: a * x**2 * b, 1.0, np.ones(3), np.ones(3), argnums=1, sparse=True
        )
        for a, b in ((2.0, [1.0, 2.0, 3.0]), (3.0, [0.0, 1.0, 0.0])):
            found = prepared(a, np.array([1.0, 2.0, 4.0]), np.array(b)).toarray()
            np.testing.assert_allclose(found, np.diag(2.0 * a * np.array([1.0, 2.0, 4.0]) * b))

    def test_integers_and_other_classes_of_arguments(self):
        prepared = gt.prepare_jacobian(lambda x, k: x**k, np.ones(3), 2, sparse=True)
        for k in (2, 3):
            found = prepared(np.array([1, 2, 3]), k).toarray()
            np.testing.assert_allclose(found, np.diag(k * np.array([1.0, 2.0, 3.0]) ** (k - 1)))


def test_the_value_of_a_tensor_is_not_copied(monkeypatch):
    x = gt.asarray(np.linspace(0.1, 1.0, 50))
    jacobian = gt.prepare_jacobian(lambda x: gt.sin(x[:-1]) * x[1:], x, sparse=True)
    monkeypatch.setattr(Layout, "ravel", lambda *_: pytest.fail("the tensor was copied"))
    found = jacobian(x * 2.0).toarray()
    values = 2.0 * x.numpy()
    wanted = np.zeros((49, 50))
    wanted[np.arange(49), np.arange(49)] = np.cos(values[:-1]) * values[1:]
    wanted[np.arange(49), np.arange(1, 50)] = np.sin(values[:-1])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
