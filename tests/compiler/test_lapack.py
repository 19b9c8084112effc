"""Ops on matrices in compiled plans: LAPACK by address and routines of ours, without Python."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.compiler.test_factors import both_plans
from tests.ops.test_blas_lapack import KINDS

import gradtape as gt
from gradtape.compiler.emit.library import function_of, lapack_routine
from gradtape.ir.node import apply, outputs
from gradtape.ir.op import REGISTRY
from gradtape.ops import blas_lapack
from gradtape.ops.control.scan import SCAN
from gradtape.ops.matrices import lapack_calls
from gradtape.runtime import tiers
from gradtape.runtime.compiled_plan import LoweredBody, body_of
from gradtape.runtime.profiler_sink import compiled_plans
from gradtape.trace.record import record

DTYPES = ["float32", "float64", "complex64", "complex128"]


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def drawn(shape, dtype):
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def regular(shape, dtype):
    return drawn(shape, dtype) + (2 + shape[-1] ** 0.5) * np.eye(shape[-1], dtype=dtype)


def positive(shape, dtype):
    x = drawn(shape, dtype)
    return x @ adjoint(x) / np.array(shape[-1] or 1, dtype) + np.eye(shape[-1], dtype=dtype)


def right(x, columns):
    shape = (*x.shape[:-1], columns)
    numbers = np.cos(0.7 * np.arange(math.prod(shape))).reshape(shape)
    return (numbers * (1 + 0.3j) if x.dtype.kind == "c" else numbers).astype(x.dtype)


def rebuilt_eigh(x):
    w, v = gt.linalg.eigh(x)
    return w, gt.matmul(v * w[..., None, :], gt.conj(gt.matrix_transpose(v)))


def rebuilt_svd(full):
    def rebuild(x):
        u, s, vh = gt.linalg.svd(x, full_matrices=full)
        k = s.shape[-1]
        return s, gt.matmul(u[..., :, :k] * s[..., None, :], vh[..., :k, :])

    return rebuild


def rank_and_pinv(x):
    return gt.linalg.matrix_rank(x), gt.linalg.pinv(x)


def cofactor(x):
    det = np.asarray(np.linalg.det(x))[..., None, None]
    return (det * np.swapaxes(np.linalg.inv(x), -1, -2)).astype(x.dtype)


def triangle(x, lower, unit):
    x = np.tril(x) if lower else np.triu(x)
    places = range(x.shape[-1])
    if unit:
        x[..., places, places] = 1
    return x


def triangular(lower, unit, columns):
    """A case: only one triangle of the matrix is read."""
    return (
        regular,
        lambda x: gt.linalg.triangular_solve(
            x / x.shape[-1], gt.asarray(right(x, columns)), lower=lower, unit_diagonal=unit
        ),
        lambda x: np.linalg.solve(
            triangle(x / np.array(x.shape[-1], x.dtype), lower, unit), right(x, columns)
        ),
    )


# The matrices, the function, and the same by NumPy.
SQUARE = {
    "solve": (
        regular,
        lambda x: gt.linalg.solve(x, gt.asarray(right(x, 1))),
        lambda x: np.linalg.solve(x, right(x, 1)),
    ),
    "solve with columns": (
        regular,
        lambda x: gt.linalg.solve(x, gt.asarray(right(x, 19))),
        lambda x: np.linalg.solve(x, right(x, 19)),
    ),
    "solve with the adjoint": (
        regular,
        lambda x: gt.linalg.solve(gt.conj(gt.matrix_transpose(x)), gt.asarray(right(x, 3))),
        lambda x: np.linalg.solve(adjoint(x), right(x, 3)),
    ),
    "lower": triangular(True, False, 1),
    "lower with columns": triangular(True, True, 11),
    "upper": triangular(False, True, 1),
    "upper with columns": triangular(False, False, 19),
    "inv": (regular, gt.linalg.inv, np.linalg.inv),
    "det": (regular, gt.linalg.det, np.linalg.det),
    "slogdet": (regular, lambda x: tuple(gt.linalg.slogdet(x)), np.linalg.slogdet),
    "cofactor": (regular, lambda x: record(REGISTRY["cofactor"], (x,)), cofactor),
    "cholesky": (positive, gt.linalg.cholesky, np.linalg.cholesky),
    "eigh": (positive, rebuilt_eigh, lambda x: (np.linalg.eigvalsh(x), x)),
    "eigvalsh": (positive, gt.linalg.eigvalsh, np.linalg.eigvalsh),
}
TALL = {
    "qr": (lambda x: tuple(gt.linalg.qr(x)), np.linalg.qr),
    "complete qr": (
        lambda x: tuple(gt.linalg.qr(x, mode="complete")),
        lambda x: np.linalg.qr(x, "complete"),
    ),
    "svd": (rebuilt_svd(False), lambda x: (np.linalg.svd(x, compute_uv=False), x)),
    "full svd": (rebuilt_svd(True), lambda x: (np.linalg.svd(x, compute_uv=False), x)),
    "svdvals": (gt.linalg.svdvals, lambda x: np.linalg.svd(x, compute_uv=False)),
    "rank and pinv": (rank_and_pinv, lambda x: (np.linalg.matrix_rank(x), np.linalg.pinv(x))),
}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(tiers, "MODE", "always")


def compiled(f, *arguments):
    """The results of one native call, which calls no Python and does not fail."""
    f = gt.function(f)
    for _ in range(3):
        f(*arguments)
    before = gt.counters()
    calls, plans = before.python_calls, before.plans_run
    found = f(*arguments)
    found = found if isinstance(found, tuple) else (found,)
    results = [each.numpy() for each in found]
    after = gt.counters()
    assert after.python_calls == calls
    assert after.plans_run > plans or all(not each.size for each in results)
    return results


def check(found, expected, dtype):
    expected = expected if isinstance(expected, tuple) else (expected,)
    limit = 500 * np.finfo(dtype).eps
    for got, want in zip(found, expected, strict=True):
        want = np.asarray(want)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        scale = max(1.0, np.abs(want).max(initial=0.0))
        np.testing.assert_allclose(got / scale, want / scale, rtol=limit, atol=limit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SQUARE)
class TestSquareMatrices:
    @pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 6, 6), (12, 12), (40, 2, 2)])
    def test_values(self, name, dtype, shape):
        make, f, numpy = SQUARE[name]
        x = make(shape, dtype)
        check(compiled(f, gt.asarray(x)), numpy(x), dtype)

    @pytest.mark.parametrize("n", [4, 10])
    def test_in_the_body_of_a_scan(self, name, dtype, n):
        make, f, numpy = SQUARE[name]
        x = make((5, n, n), dtype)

        def whole(x):
            return gt.scan(lambda carry, one: (carry, f(one)), gt.asarray(0.0), x)[1]

        expected = [numpy(one) for one in x]
        if isinstance(expected[0], tuple):
            stacked = tuple(np.stack(parts) for parts in zip(*expected, strict=True))
        else:
            stacked = np.stack(expected)
        check(compiled(whole, gt.asarray(x)), stacked, dtype)


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_without_elements(name, shape):
    make, f, numpy = SQUARE[name]
    x = make(shape, "float64")
    if name == "cofactor":
        numpy = np.zeros_like
    check(compiled(f, gt.asarray(x)), numpy(x), "float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 2), (2, 5), (3, 6, 4), (30, 12), (2, 0)])
@pytest.mark.parametrize("name", TALL)
def test_tall_and_wide_matrices(name, shape, dtype):
    f, numpy = TALL[name]
    x = drawn(shape, dtype)
    if name == "rank and pinv":
        x = np.ascontiguousarray(x)
    check(compiled(f, gt.asarray(x)), numpy(x), dtype)


@pytest.mark.parametrize("name", ["eigh", "svd"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_numpys(name, dtype):
    x = positive((9, 9), dtype)
    x = (x + adjoint(x)) / np.array(2, dtype)
    f, numpy = getattr(gt.linalg, name), getattr(np.linalg, name)
    check(compiled(lambda x: tuple(f(x)), gt.asarray(x)), tuple(numpy(x)), dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("n", [3, 10])
@pytest.mark.parametrize("name", SQUARE)
def test_derivatives(name, n, dtype, monkeypatch):
    make, f, _ = SQUARE[name]
    x = gt.asarray(make((n, n), dtype))

    def loss(x):
        found = f(x)
        parts = found if isinstance(found, tuple) else (found,)
        return sum(gt.sum(gt.real(part) ** 2) for part in parts)

    def summed(x):
        """The same in the body of a loop."""
        xs = gt.stack([x, x * 1.5])
        return gt.scan(lambda carry, one: (carry + loss(one), None), gt.asarray(0.0), xs)[0]

    for function in (loss, summed):
        (found,) = compiled(gt.grad(function), x)
        with monkeypatch.context() as patch:
            patch.setattr(tiers, "MODE", "off")
            expected = gt.grad(function)(x).numpy()
        check([found], expected, dtype)


def singular(n):
    x = regular((n, n), "float64")
    x[:, 1] = 0.0
    return x


def indefinite(n):
    return positive((n, n), "float64") - 5 * np.eye(n)


def with_nan(n):
    x = positive((n, n), "float64")
    x[0, 1] = np.nan
    return x


def outcome(f, x):
    try:
        found = f(gt.asarray(x))
        parts = found if isinstance(found, tuple) else (found,)
        return [part.numpy() for part in parts]
    except (gt.errors.MatrixError, np.linalg.LinAlgError) as error:
        return type(error), str(error)


BAD = [
    *[
        (name, singular)
        for name in ("solve", "solve with columns", "inv", "slogdet", "det", "lower")
    ],
    ("cholesky", indefinite),
    *[(name, with_nan) for name in (*SQUARE, *TALL)],
]


@pytest.mark.parametrize("in_a_loop", [False, True])
@pytest.mark.parametrize("n", [4, 11])
@pytest.mark.parametrize(("name", "make"), BAD)
def test_bad_matrices(name, make, n, in_a_loop, monkeypatch):
    f = SQUARE[name][1] if name in SQUARE else TALL[name][0]
    x = make(n)
    function = f
    if in_a_loop:
        x = np.stack([positive((n, n), "float64"), x])

        def function(x):
            return gt.scan(lambda carry, one: (carry, f(one)), gt.asarray(0.0), x)[1]

    called = gt.function(function)
    good = gt.asarray(np.broadcast_to(np.eye(n) * 2, x.shape).copy())
    for _ in range(3):
        called(good)
    found = outcome(called, x)
    monkeypatch.setattr(tiers, "MODE", "off")
    expected = outcome(function, x)
    if isinstance(expected, tuple):
        # Lines of the program follow the text.
        assert found[0] is expected[0]
        assert found[1].split("\n")[0] == expected[1].split("\n")[0]
    else:
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "name",
    [
        "solve",
        "solve with columns",
        "solve with the adjoint",
        "inv",
        "slogdet",
        "upper with columns",
    ],
)
class TestMatricesThatTheTeamShares:
    def test_values(self, name, dtype):
        _, f, numpy = SQUARE[name]
        # Pivots are far from the diagonal, and the last panel is narrower.
        for n in (70, 203):
            x = regular((n, n), dtype)
            x = x if "upper" in name else x[::-1].copy()
            check(compiled(f, gt.asarray(x)), numpy(x), dtype)

    def test_singular(self, name, dtype, monkeypatch):
        _, f, _ = SQUARE[name]
        zeros = (slice(None), 150) if "upper" not in name else (150, 150)
        x = regular((203, 203), dtype)
        called = gt.function(f)
        for _ in range(3):
            called(gt.asarray(x))
        x[zeros] = 0
        found = outcome(called, x)
        monkeypatch.setattr(tiers, "MODE", "off")
        expected = outcome(f, x)
        assert type(found) is type(expected)
        if name == "slogdet":
            np.testing.assert_array_equal([float(np.abs(part)) for part in found], [0.0, np.inf])


def test_two_threads_at_once():
    x = gt.asarray(regular((250, 250), "float64"))
    f = gt.function(lambda x: gt.linalg.inv(x))
    for _ in range(3):
        expected = f(x).numpy()
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: f(x).numpy(), range(20)))
    for each in found:
        np.testing.assert_allclose(each, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_each_library(kind, monkeypatch):
    found = KINDS[kind]()
    for module in (blas_lapack, lapack_routine):
        monkeypatch.setattr(module, "library", lambda: found)
    caches = (blas_lapack._routine, lapack_calls._best_lengths, function_of)
    for cached in caches:
        cached.cache_clear()
    try:
        x = positive((20, 20), "float64")
        _, expected, results = both_plans(_several, x, right(x, 12))
        check(results, tuple(expected), "float64")
    finally:
        for cached in caches:
            cached.cache_clear()


def _several(x, b):
    ops = [REGISTRY[name] for name in ("inv", "cholesky", "eigvalsh", "svdvals")]
    orthogonal = outputs(apply(REGISTRY["qr"], (x,), (False,)))
    return [apply(REGISTRY["solve"], (x, b)), *[apply(op, (x,)) for op in ops], *orthogonal]


def routines(lowered):
    """The names of the routines of a program and of its bodies."""
    for node in lowered.natives:
        if node.op is SCAN:
            yield from routines(LoweredBody(node.params[0], body_of))
        elif node.op.native is not None:
            yield node.op.native(node).routine


@pytest.mark.parametrize("n", [4, 12])
def test_a_step_and_its_pullback_factor_once_each(n):
    def loss(x, ys):
        def step(carry, y):
            system = carry + x
            found = gt.linalg.solve(system, y)
            return carry * 0.5, gt.linalg.slogdet(system)[1] + gt.sum(y * found)

        return gt.sum(gt.scan(step, x * 0.1, ys)[1])

    x, ys = gt.asarray(positive((n, n), "float64")), gt.asarray(drawn((6, n), "float64"))
    before = {id(plan) for plan in compiled_plans()}
    compiled(gt.value_and_grad(loss), x, ys)
    plans = [plan for plan in compiled_plans() if id(plan) not in before]
    found = [list(routines(plan.lowered)) for plan in plans]
    counts = [sum("factor_lu" in name for name in names) for names in found]
    assert max(counts) == 2
