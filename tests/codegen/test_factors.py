"""Large systems, inverses and determinants in compiled programs share one factorisation."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.codegen.kernels.lower import fusible
from gradtape.errors import MatrixError
from gradtape.graph.node import PICK, apply, outputs, placeholder
from gradtape.graph.op import REGISTRY
from gradtape.graph.program import program
from gradtape.graph.spec import spec
from gradtape.ops.blas_lapack import library
from gradtape.ops.matrices import factors
from gradtape.optimize import loops_of, optimize
from gradtape.optimize.fuse import Call
from gradtape.recording.value import Value
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan

N = 70


@pytest.fixture
def matrix():
    rng = np.random.default_rng(0)
    return rng.standard_normal((N, N)) + 9 * np.eye(N)


def replayed(f, *arguments):
    """What a function gives once its calls are compiled."""
    f = gt.function(f)
    for _ in range(4):
        found = f(*arguments)
    return found


def test_a_solution_and_its_derivative_factor_once(matrix):
    right = np.linspace(0.0, 1.0, N)

    def loss(a, b):
        return gt.sum(gt.linalg.solve(a, b) ** 2)

    a, b = gt.asarray(matrix), gt.asarray(right)
    value, (da, db) = replayed(gt.value_and_grad(loss, argnums=(0, 1)), a, b)
    x = np.linalg.solve(matrix, right)
    back = np.linalg.solve(matrix.T, 2 * x)
    np.testing.assert_allclose(value.numpy(), (x**2).sum(), rtol=1e-10)
    np.testing.assert_allclose(db.numpy(), back, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(da.numpy(), -np.outer(back, x), rtol=1e-8, atol=1e-12)


def both_plans(f, *arrays):
    """The names of the library calls of a program, and its results by NumPy and compiled.

    The program is written with nodes: on tensors these ops would run on their own lines.
    """
    nodes = tuple(placeholder(spec(array.shape, array.dtype)) for array in arrays)
    found = f(*nodes)
    written = optimize(program(found))
    values = [arrays[nodes.index(node)] for node in written.inputs]
    _, fused = loops_of(written, fusible)
    calls = [unit.node.op for unit in fused.units if isinstance(unit, Call)]
    compiled = CompiledPlan(written).run(values)
    results = [
        Value(got, node.spec).array for got, node in zip(compiled, written.outputs, strict=True)
    ]
    names = sorted(op.name for op in calls if op is not PICK)
    return names, NumpyPlan(written).run(values), results


def solutions(a, b):
    solve, inverse, slogdet = (REGISTRY[name] for name in ("solve", "inv", "slogdet"))
    turned = apply(REGISTRY["permute_dims"], (a,), ((1, 0),))
    return [
        apply(solve, (a, b)), apply(solve, (turned, b)), apply(inverse, (a,)),
        *outputs(apply(slogdet, (a,))),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flipped", [False, True])
def test_one_factorisation_serves_all(matrix, flipped, dtype):
    a = np.ascontiguousarray(matrix[::-1] if flipped else matrix, dtype)
    calls, expected, results = both_plans(solutions, a, np.ones((N, 3), dtype))
    assert calls == ["lu_factors", "lu_inverse", "lu_slogdet", "lu_solve", "lu_solve"]
    for want, got in zip(expected, results, strict=True):
        assert got.dtype == want.dtype
        tolerance = 1000 * np.finfo(dtype).eps
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def structured(kind, n):
    """Matrices whose factors differ much from those of their transposes."""
    rng = np.random.default_rng(n)
    full = rng.standard_normal((n, n))
    scales = 10.0 ** rng.uniform(-8, 8, n)
    return {
        "upper": np.triu(full),
        "lower": np.tril(full),
        "rows": scales[:, None] * full,
        "columns": full * scales,
        "permuted": np.triu(full)[rng.permutation(n)],
    }[kind]


@pytest.mark.parametrize("n", [130, 200])
@pytest.mark.parametrize("kind", ["upper", "lower", "rows", "columns", "permuted"])
def test_compiled_results_are_as_exact_as_numpys(kind, n):
    a = structured(kind, n)
    b = a @ np.ones((n, 1))
    _, expected, results = both_plans(solutions, a, b)
    (first, *_, sign, log), (*_, wanted_sign, wanted_log) = results, expected
    # Eliminating a random lower triangle loses digits, in each library others.
    if kind in ("upper", "rows", "columns") or library().name == "openblas":
        assert sign == wanted_sign
        np.testing.assert_allclose(log, wanted_log, rtol=1e-10)
    if kind == "upper":
        np.testing.assert_allclose(log, np.sum(np.log(np.abs(np.diagonal(a)))), rtol=1e-12)
    # The residual, because the solution of a matrix far from orthogonal has no digits to compare.
    scale = np.abs(a) @ np.abs(first) + np.abs(b)
    assert np.max(np.abs(a @ first - b) / scale) <= 1e-13


@pytest.mark.parametrize("shape", [(5, 5), (2, N, N)])
def test_small_matrices_and_stacks_are_not_factored_apart(shape):
    a = np.random.default_rng(1).standard_normal(shape) + 9 * np.eye(shape[-1])
    calls, _, _ = both_plans(
        lambda a, b: [apply(REGISTRY["solve"], (a, b))], a, np.ones((*shape[:-1], 2))
    )
    assert calls == ["solve"]


def test_the_determinant_of_a_singular_matrix(matrix):
    matrix[:, 3] = 0.0
    _, _, (sign, logarithm) = both_plans(
        lambda a: [*outputs(apply(REGISTRY["slogdet"], (a,)))], matrix
    )
    assert (float(sign), float(logarithm)) == (0.0, -np.inf)


def test_a_singular_matrix_raises_in_a_compiled_program(matrix):
    solve = gt.function(lambda a, b: gt.linalg.solve(a, b))
    b = gt.asarray(np.ones((N, 1)))
    for _ in range(4):
        solve(gt.asarray(matrix), b).numpy()
    matrix[:, 3] = 0.0
    with pytest.raises(MatrixError, match="solve: a matrix is singular"):
        solve(gt.asarray(matrix), b).numpy()


def factored(monkeypatch):
    """The list of matrices that are factored from now on."""
    found = []
    real = factors._factored
    monkeypatch.setattr(factors, "_factored", lambda x: found.append(x) or real(x))
    return found


@pytest.mark.parametrize("mode", ["off", "always"])
def test_a_loss_and_its_gradient_factor_once(mode, monkeypatch):
    monkeypatch.setattr(tiers, "MODE", mode)
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((80, 80)) + 9.0 * np.eye(80), rng.standard_normal((80, 2))
    factors.forget()
    found = factored(monkeypatch)
    x, slope = gt.asarray(a), gt.asarray(b)

    def loss(x):
        return gt.sum(gt.linalg.solve(x, slope) ** 2) + gt.linalg.slogdet(x)[1]

    value, gradient = gt.value_and_grad(loss)(x)
    solution = np.linalg.solve(a, b)
    expected = -2.0 * np.linalg.solve(a.T, solution) @ solution.T + np.linalg.inv(a).T
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(value.numpy(), np.sum(solution**2) + np.linalg.slogdet(a)[1])
    assert len(found) == 1


def test_a_matrix_that_differs_in_a_bit_is_factored(monkeypatch):
    found = factored(monkeypatch)
    a = np.eye(70)
    factors.forget()
    for change in (0.0, 0.0, -0.0, np.nextafter(0.0, 1.0)):
        a[3, 4] = change
        factors.solved(a, np.ones((70, 1)))
    assert len(found) == 3


def test_large_matrices_are_not_remembered(monkeypatch):
    monkeypatch.setattr(factors, "_REMEMBERED", 1000)
    factors.forget()
    found = factored(monkeypatch)
    for _ in range(2):
        factors.inverse(np.eye(70))
    assert len(found) == 2


def test_remembered_factors_are_never_written_to():
    a = np.random.default_rng(8).standard_normal((70, 70))
    first = factors.inverse(a)
    first[...] = 0.0
    np.testing.assert_allclose(factors.inverse(a) @ a, np.eye(70), atol=1e-9)
