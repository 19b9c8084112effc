"""Eigenvalues and vectors of one large matrix in compiled programs, by its tridiagonal form."""

import numpy as np
import pytest
from tests.codegen.instruction_runs import library_calls

import gradtape as gt
from gradtape.errors import MatrixError
from gradtape.graph.node import apply, outputs
from gradtape.graph.op import REGISTRY
from gradtape.ops.matrices import lapack

N = 130
FORMS = [
    "tridiagonal", "tridiagonal_halves", "tridiagonal_reflected", "tridiagonal_values",
    "tridiagonal_vectors",
]  # fmt: skip


def matrix(*shape, dtype="float64"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def symmetric(n, dtype="float64"):
    x = matrix(n, n)
    return ((x + x.T) / 2).astype(dtype)


def compiled(x):
    """Eigenvalues and the decomposition: library calls and results."""

    def decomposed(node):
        values = apply(REGISTRY["eigvalsh"], (node,))
        return [values, *outputs(apply(REGISTRY["eigh"], (node,)))]

    return library_calls(x, decomposed)


def check(x, values, w, v):
    """Of a symmetric matrix; bounds are multiples of what LAPACK's own results reach."""
    unit = 30 * np.finfo(x.dtype).eps * len(x)
    exact = x.astype("float64")
    expected = np.linalg.eigvalsh(exact)
    norm = np.abs(expected).max()
    for found in (values, w):
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, expected, atol=unit * norm)
        assert (np.diff(found) >= 0).all()
    assert v.dtype == x.dtype
    np.testing.assert_allclose(v.T @ v, np.eye(len(x)), atol=unit)
    np.testing.assert_allclose((v * w) @ v.T, x, atol=unit * norm)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", [128, 129, N, 144, 145, 193, 260])
def test_one_form_serves_values_and_vectors(order, dtype):
    x = symmetric(order, dtype)
    calls, results = compiled(x)
    assert calls == FORMS
    check(x, *results)


def test_of_a_matrix_that_is_not_symmetric_the_symmetric_part_is_taken():
    x = matrix(N, N)
    _, results = compiled(x)
    check((x + x.T) * 0.5, *results)


def test_vectors_have_the_signs_that_numpy_gives_them():
    # The same steps lead to both, so a compiled call does not turn the vectors of earlier calls.
    x = symmetric(N)
    _, (_, _, v) = compiled(x)
    np.testing.assert_allclose(v, np.linalg.eigh(x)[1], atol=1e-8)


def test_orthogonality_and_residuals_are_about_those_of_lapack():
    x = symmetric(300)
    _, (_, *found) = compiled(x)

    def errors(w, v):
        return np.linalg.norm(v.T @ v - np.eye(len(x))), np.linalg.norm(x @ v - v * w)

    for ours, theirs in zip(errors(*found), errors(*np.linalg.eigh(x)), strict=True):
        assert ours <= 3 * theirs


@pytest.mark.parametrize(
    "x", [symmetric(127), matrix(2, N, N), matrix(N, N) + 1j], ids=["small", "stack", "complex"]
)
def test_other_matrices_are_left_to_numpy(x):
    calls, results = compiled(x)
    assert calls == ["eigh", "eigvalsh"]
    part = (x + np.conj(np.swapaxes(x, -1, -2))) * 0.5
    np.testing.assert_array_equal(results[0], np.linalg.eigvalsh(part))


KINDS = (
    "zeros", "ones", "identity", "low rank", "equal", "clusters", "graded", "diagonal",
    "tridiagonal", "blocks",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_special_matrices(kind, dtype):
    q = np.linalg.qr(matrix(N, N))[0]
    scales = np.logspace(0, -15, N)
    blocks = symmetric(N)
    blocks[:65, 65:] = blocks[65:, :65] = 0
    x = {
        "zeros": np.zeros((N, N)),
        "ones": np.ones((N, N)),
        "identity": np.eye(N),
        "low rank": matrix(N, 3) @ matrix(N, 3).T,
        "equal": np.eye(N)[::-1],
        "clusters": (q * (np.arange(N) // 40)) @ q.T,
        "graded": symmetric(N) * scales * scales[:, None],
        "diagonal": np.diag(matrix(N)),
        "tridiagonal": np.triu(np.tril(symmetric(N), 1), -1),
        "blocks": blocks,
    }[kind].astype(dtype)
    x = (x + x.T) / 2
    _, results = compiled(x)
    check(x, *results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "scales"),
    [("float64", (1e-320, 1e-200, 1e-150, 1e150, 1e300)), ("float32", (1e-42, 1e-15, 1e15, 1e37))],
)
def test_very_large_and_small_matrices_are_those_of_numpy(dtype, scales):
    for scale in scales:
        x = (symmetric(N) * scale).astype(dtype)
        _, results = compiled(x)
        part = (x + x.T) * x.dtype.type(0.5)
        np.testing.assert_array_equal(results[0], np.linalg.eigvalsh(part))
        for one, other in zip(results[1:], np.linalg.eigh(part), strict=True):
            np.testing.assert_array_equal(one, other)


def replayed(f):
    """A function whose calls are compiled by now."""
    found = gt.function(lambda a: f(a))
    for _ in range(4):
        found(gt.asarray(symmetric(N)))
    return found


def outcome(f, x):
    """The results of a call as arrays, or the first line of its error."""
    try:
        found = f(gt.asarray(x))
    except MatrixError as error:
        return str(error).splitlines()[0]
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.slow
@pytest.mark.parametrize("f", [gt.linalg.eigvalsh, gt.linalg.eigh], ids=["eigvalsh", "eigh"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_end_as_they_do_in_numpy(f, value):
    function = replayed(f)
    for place in ((0, 0), (30, 50), (129, 129)):
        bad = symmetric(N)
        bad[place] = value
        expected, found = outcome(f, bad), outcome(function, bad)
        if isinstance(expected, str):
            assert found == expected
            continue
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("routine", ["sterf", "laed1"])
def test_if_lapack_fails_numpy_decides(monkeypatch, routine):
    usual, asked = lapack.call, []

    def failing(name, *arguments):
        if name != routine:
            return usual(name, *arguments)
        asked.append(name)
        return 1

    monkeypatch.setattr(lapack, "call", failing)
    x = symmetric(N)
    _, results = compiled(x)
    assert asked
    if routine == "sterf":
        np.testing.assert_array_equal(results[0], np.linalg.eigvalsh(x))
    else:
        np.testing.assert_array_equal(results[2], np.linalg.eigh(x)[1])


def test_the_derivative_of_eigenvalues():
    weights = np.linspace(1.0, 2.0, N)
    x, direction = symmetric(N), matrix(N, N + 1)[:, 1:]

    def loss(a):
        return gt.sum(gt.linalg.eigvalsh(a) * weights)

    found = gt.function(gt.value_and_grad(loss))
    for _ in range(4):
        value, slope = found(gt.asarray(x))
    w, v = np.linalg.eigh(x)
    np.testing.assert_allclose(value.numpy(), w @ weights, rtol=1e-12)
    np.testing.assert_allclose(slope.numpy(), (v * weights) @ v.T, atol=1e-9)

    def at(step):
        moved = x + step * (direction + direction.T) / 2
        return np.linalg.eigvalsh(moved) @ weights

    difference = (at(1e-6) - at(-1e-6)) / 2e-6
    np.testing.assert_allclose((slope.numpy() * direction).sum(), difference, rtol=1e-6)


@pytest.mark.parametrize("repeated", [False, True])
def test_the_derivative_of_a_function_of_vectors(repeated):
    # The exponential of a matrix does not depend on the signs of vectors, nor on a basis of those
    # that belong to equal eigenvalues.
    x = np.diag(np.repeat([1.0, 2.0], N // 2)) if repeated else symmetric(N) / 10
    target = matrix(N, N + 1)[:, 1:]

    def loss(a):
        w, v = gt.linalg.eigh(a)
        return gt.sum((v * gt.exp(w)) @ gt.permute_dims(v, (1, 0)) * target)

    plain = gt.grad(loss)(gt.asarray(x)).numpy()
    slope = gt.function(gt.grad(loss))
    for _ in range(4):
        found = slope(gt.asarray(x))
    np.testing.assert_allclose(found.numpy(), plain, atol=1e-8 * np.abs(plain).max())


def test_a_transposed_and_scaled_operand():
    x = matrix(N, N)
    f = gt.function(lambda a: gt.linalg.eigvalsh(gt.permute_dims(a, (1, 0)) * 2.0))
    for _ in range(4):
        found = f(gt.asarray(x))
    np.testing.assert_allclose(found.numpy(), np.linalg.eigvalsh(x + x.T), atol=1e-12 * 100)


@pytest.mark.parametrize("name", FORMS)
def test_stacks_are_taken_one_by_one(name):
    op = REGISTRY[name]
    samples = [s.inputs for s in op.samples() if s.inputs[0].shape[-1] == 4][:1] * 2
    stacked = op.numpy(*(np.stack(each) for each in zip(*samples, strict=True)))
    alone = op.numpy(*samples[0])
    for one, other in zip(
        stacked if type(stacked) is tuple else (stacked,),
        alone if type(alone) is tuple else (alone,),
        strict=True,
    ):
        np.testing.assert_array_equal(one, np.stack([other, other]))


@pytest.mark.parametrize("name", FORMS)
def test_operands_with_gaps(name):
    op = REGISTRY[name]
    for sample in op.samples():
        gaps = [np.stack([x, x + 1], axis=-1)[..., 0] for x in sample.inputs]
        expected, found = op.numpy(*sample.inputs), op.numpy(*gaps)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
