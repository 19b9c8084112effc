"""Singular values and vectors of one large matrix in compiled programs, by its bidiagonal form."""

import numpy as np
import pytest
from tests.codegen.instruction_runs import library_calls

import gradtape as gt
from gradtape.errors import MatrixError
from gradtape.graph.node import apply, outputs
from gradtape.graph.op import REGISTRY
from gradtape.ops.matrices import lapack

N = 130
FORMS = ["bidiagonal", "bidiagonal_values", "bidiagonal_vectors"]


def matrix(*shape, dtype="float64"):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def decomposed(x, full_matrices=False):
    """Singular values and the decomposition, of a node."""
    values = apply(REGISTRY["svdvals"], (x,))
    return [values, *outputs(apply(REGISTRY["svd"], (x,), (full_matrices,)))]


def compiled(x, f=decomposed):
    return library_calls(x, f)


def check(x, values, u, s, vh):
    unit = 30 * np.finfo(x.dtype).eps * max(x.shape)
    expected = np.linalg.svd(x, compute_uv=False)
    for found in (values, s):
        assert found.dtype == x.dtype
        np.testing.assert_allclose(found, expected, atol=unit * expected[0])
        assert (np.diff(found) <= 0).all()
    assert u.shape == (x.shape[0], len(s))
    assert vh.shape == (len(s), x.shape[1])
    np.testing.assert_allclose(u.T @ u, np.eye(len(s)), atol=unit)
    np.testing.assert_allclose(vh @ vh.T, np.eye(len(s)), atol=unit)
    np.testing.assert_allclose((u * s) @ vh, x, atol=unit * expected[0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape", [(128, 128), (N, N), (145, 145), (180, 140), (140, 180), (131, 130)]
)
def test_one_form_serves_values_and_vectors(shape, dtype):
    x = matrix(*shape, dtype=dtype)
    calls, results = compiled(x)
    assert calls == FORMS
    check(x, *results)


def test_vectors_have_the_signs_that_numpy_gives_them():
    # The same steps lead to both, so a compiled call does not turn the vectors of earlier calls.
    x = matrix(N, N)
    _, (_, u, _, vh) = compiled(x)
    expected = np.linalg.svd(x)
    np.testing.assert_allclose(u, expected[0], atol=1e-8)
    np.testing.assert_allclose(vh, expected[2], atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "x",
    [matrix(127, 127), matrix(270, N), matrix(N, 270), matrix(2, N, N), matrix(N, N) + 1j],
    ids=["small", "long", "wide", "stack", "complex"],
)
def test_other_matrices_are_left_to_numpy(x):
    calls, results = compiled(x)
    assert calls == ["svd", "svdvals"]
    np.testing.assert_array_equal(results[0], np.linalg.svd(x, compute_uv=False))


def test_full_bases_are_left_to_numpy():
    x = matrix(150, N)
    calls, (_, u, _, _) = compiled(x, lambda node: decomposed(node, True))
    assert calls == ["bidiagonal", "bidiagonal_values", "svd"]
    np.testing.assert_array_equal(u, np.linalg.svd(x)[0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["zeros", "ones", "low rank", "equal", "graded"])
def test_special_matrices(kind, dtype):
    x = {
        "zeros": np.zeros((N, N)),
        "ones": np.ones((N, N)),
        "low rank": matrix(N, 3) @ matrix(3, N),
        "equal": np.eye(N)[::-1],
        "graded": matrix(N, N) * np.logspace(0, -30, N),
    }[kind].astype(dtype)
    _, results = compiled(x)
    check(x, *results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "scales"),
    [("float64", (1e-320, 1e-200, 1e-150, 1e150, 1e300)), ("float32", (1e-42, 1e-15, 1e15, 1e37))],
)
def test_very_large_and_small_matrices_are_those_of_numpy(dtype, scales):
    for scale in scales:
        x = (matrix(N, N) * scale).astype(dtype)
        _, results = compiled(x)
        expected = np.linalg.svd(x, full_matrices=False)
        np.testing.assert_array_equal(results[0], np.linalg.svd(x, compute_uv=False))
        for one, other in zip(results[1:], expected, strict=True):
            np.testing.assert_array_equal(one, other)


def replayed(f):
    """A function whose calls are compiled by now."""
    found = gt.function(lambda a: f(a))
    for _ in range(4):
        found(gt.asarray(matrix(N, N)))
    return found


def outcome(f, x):
    """The results of a call as arrays, or the first line of its error."""
    try:
        found = f(gt.asarray(x))
    except MatrixError as error:
        return str(error).splitlines()[0]
    return [each.numpy() for each in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.slow
@pytest.mark.parametrize("f", [gt.linalg.svdvals, gt.linalg.svd], ids=["svdvals", "svd"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_end_as_they_do_in_numpy(f, value):
    function = replayed(f)
    for place in ((0, 0), (30, 50), (129, 129)):
        bad = matrix(N, N)
        bad[place] = value
        expected, found = outcome(f, bad), outcome(function, bad)
        if isinstance(expected, str):
            assert found == expected
            continue
        # LAPACK lets some infinities pass, but no NaN.
        assert value == np.inf
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("routine", ["bdsqr", "bdsdc"])
def test_if_lapack_fails_numpy_decides(monkeypatch, routine):
    usual, asked = lapack.call, []

    def failing(name, *arguments):
        if name != routine:
            return usual(name, *arguments)
        asked.append(name)
        return 1

    monkeypatch.setattr(lapack, "call", failing)
    x = matrix(N, N)
    _, results = compiled(x)
    assert asked == [routine]
    if routine == "bdsqr":
        np.testing.assert_array_equal(results[0], np.linalg.svd(x, compute_uv=False))
    else:
        np.testing.assert_array_equal(results[1], np.linalg.svd(x)[0])


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(N, N), (150, N), (N, 150)])
def test_the_derivative_of_singular_values(shape):
    weights = np.linspace(1.0, 2.0, min(shape))
    x, direction = matrix(*shape), matrix(*shape[::-1]).T

    def loss(a):
        return gt.sum(gt.linalg.svdvals(a) * weights)

    found = gt.function(gt.value_and_grad(loss))
    for _ in range(4):
        value, slope = found(gt.asarray(x))
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(value.numpy(), s @ weights, rtol=1e-12)
    np.testing.assert_allclose(slope.numpy(), (u * weights) @ vh, atol=1e-9)

    def at(step):
        return np.linalg.svd(x + step * direction, compute_uv=False) @ weights

    difference = (at(1e-6) - at(-1e-6)) / 2e-6
    np.testing.assert_allclose((slope.numpy() * direction).sum(), difference, rtol=1e-6)


def test_the_derivative_of_a_function_of_vectors():
    # The polar factor does not depend on the signs of vectors.
    x = matrix(N, N)
    target = matrix(N, N + 1)[:, 1:]

    def loss(a):
        u, _, vh = gt.linalg.svd(a, full_matrices=False)
        return gt.sum(u @ vh * target)

    plain = gt.grad(loss)(gt.asarray(x)).numpy()
    slope = gt.function(gt.grad(loss))
    for _ in range(4):
        found = slope(gt.asarray(x))
    np.testing.assert_allclose(found.numpy(), plain, atol=1e-8 * np.abs(plain).max())


def test_a_transposed_and_scaled_operand():
    x = matrix(160, 135)
    f = gt.function(lambda a: gt.linalg.svdvals(gt.permute_dims(a, (1, 0)) * 2.0))
    for _ in range(4):
        found = f(gt.asarray(x))
    np.testing.assert_allclose(found.numpy(), 2 * np.linalg.svd(x, compute_uv=False), rtol=1e-12)


@pytest.mark.parametrize("name", FORMS)
def test_stacks_are_taken_one_by_one(name):
    op = REGISTRY[name]
    samples = [s.inputs for s in op.samples() if s.inputs[-1].shape == (4, 3)][:1] * 2
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


def test_arrays_with_gaps_are_not_handed_to_lapack():
    with pytest.raises(AssertionError, match="not contiguous"):
        lapack.call("gebrd", np.dtype("float64"), 4, np.zeros(8)[::2])
