"""Large systems, inverses and determinants in compiled programs share one factorisation."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.compiler.lower.fused_loops import fusible
from gradtape.compiler.passes import loops_of, optimize
from gradtape.compiler.passes.units import Call
from gradtape.errors import MatrixError
from gradtape.ir.node import PICK, apply, outputs, placeholder
from gradtape.ir.op import REGISTRY
from gradtape.ir.program import program
from gradtape.ir.spec import spec
from gradtape.runtime.compiled_plan import CompiledPlan
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.trace.value import Value

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
    # Eliminating a random lower triangle loses all digits, with each number of threads others.
    if kind in ("upper", "rows", "columns"):
        assert sign == wanted_sign
        np.testing.assert_allclose(log, wanted_log, rtol=1e-10)
    if kind == "upper":
        np.testing.assert_allclose(log, np.sum(np.log(np.abs(np.diagonal(a)))), rtol=1e-12)
    # The residual, because the solution of a matrix far from orthogonal has no digits to compare.
    scale = np.abs(a) @ np.abs(first) + np.abs(b)
    assert np.max(np.abs(a @ first - b) / scale) <= 1e-13


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 20, 20), (3, 1, 4, 4)])
def test_small_matrices_and_stacks_are_factored_once(shape, dtype):
    a = np.random.default_rng(1).standard_normal(shape) + 9 * np.eye(shape[-1])
    a = (a * (1 + 0.5j) if dtype == "complex128" else a).astype(dtype)
    axes = (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)

    def systems(a, b):
        solve = REGISTRY["solve"]
        turned = apply(REGISTRY["permute_dims"], (a,), (axes,))
        adjoint = apply(REGISTRY["conj"], (turned,)) if dtype == "complex128" else turned
        return [apply(solve, (x, b)) for x in (a, turned, adjoint)]

    calls, expected, results = both_plans(systems, a, np.ones((2, *shape[-2:-1], 2), dtype))
    assert calls.count("lu_factors") == 1
    for want, got in zip(expected, results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


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
