"""Linear algebra against NumPy and SciPy, derivatives in both modes, and errors on values."""

import numpy as np
import pytest
import scipy.linalg

import gradtape as gt
from gradtape import linalg
from gradtape.errors import ShapeError, UndefinedRuleError
from gradtape.testing import check_gradients

RNG = np.random.default_rng(0)
SQUARE = [(3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), (2, 0, 0)]
RECTANGULAR = [(3, 2), (2, 3), (2, 2), (2, 3, 2), (1, 1), (2, 0), (0, 2, 2)]
DTYPES = ["float64", "complex128", "float32", "complex64"]
WIDE = ["float64", "complex128"]


def matrix(shape, dtype="float64"):
    """Random, with a distinct and dominant diagonal."""
    found = RNG.uniform(-1.0, 1.0, shape)
    if np.dtype(dtype).kind == "c":
        found = found + 1j * RNG.uniform(-1.0, 1.0, shape)
    count = min(shape[-2:])
    found[..., range(count), range(count)] += 2.0 + 1.5 * np.arange(count)
    return found.astype(dtype)


def transposed(x):
    return np.conj(np.swapaxes(x, -1, -2))


def positive(shape, dtype="float64"):
    x = matrix(shape, dtype)
    return x @ transposed(x) + np.eye(shape[-1], dtype=dtype)


def hermitian(shape, dtype="float64"):
    x = matrix(shape, dtype)
    return (x + transposed(x)) * np.array(0.5, dtype)


def assert_close(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    coarse = expected.dtype.itemsize <= (8 if expected.dtype.kind == "c" else 4)
    tolerance = 2e-4 if coarse else 1e-9
    np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_square_functions_agree_with_numpy(shape, dtype):
    x = matrix(shape, dtype)
    assert_close(linalg.inv(x), np.linalg.inv(x))
    assert_close(linalg.det(x), np.linalg.det(x))
    for found, expected in zip(linalg.slogdet(x), np.linalg.slogdet(x), strict=True):
        assert_close(found, expected)
    for power in (-2, 0, 1, 2, 5):
        assert_close(linalg.matrix_power(x, power), np.linalg.matrix_power(x, power))
    h = hermitian(shape, dtype)
    assert_close(linalg.eigvalsh(h), np.linalg.eigvalsh(h))
    if x.size or x.ndim == 2:
        expected = scipy.linalg.expm(x) if x.size else x
        assert_close(linalg.expm(x), expected.astype(dtype))
    p = positive(shape, dtype)
    assert_close(linalg.cholesky(p), np.linalg.cholesky(p))
    assert_close(linalg.cholesky(p, upper=True), transposed(np.linalg.cholesky(p)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", SQUARE)
def test_square_functions_derivatives(shape, dtype):
    x = matrix(shape, dtype)
    check_gradients(linalg.inv, x)
    check_gradients(linalg.det, x)
    check_gradients(linalg.slogdet, x)
    check_gradients(lambda x: linalg.matrix_power(x, 3), x)
    check_gradients(lambda x: linalg.matrix_power(x, -2), x)
    check_gradients(linalg.expm, x * 0.2)
    check_gradients(linalg.cholesky, positive(shape, dtype))
    check_gradients(lambda x: linalg.cholesky(x, upper=True), positive(shape, dtype))
    check_gradients(linalg.eigvalsh, hermitian(shape, dtype))


SYSTEMS = [
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((2, 2, 2), (2, 2, 1)),
    ((2, 2), (3, 2, 2)),
    ((2, 1, 2, 2), (3, 2, 1)),
    ((2, 2, 2), (2,)),
    ((0, 0), (0, 2)),
    ((3, 3), (3, 0)),
]


def right_side(shape, dtype):
    return matrix(shape, dtype) if len(shape) > 1 else matrix((*shape, 1), dtype)[..., 0]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SYSTEMS, ids=str)
def test_solve(shapes, dtype):
    a, b = matrix(shapes[0], dtype), right_side(shapes[1], dtype)
    assert_close(linalg.solve(a, b), np.linalg.solve(a, b))
    lower = linalg.triangular_solve(a, b)
    assert_close(lower, np.linalg.solve(np.tril(a), b))
    assert_close(linalg.triangular_solve(a, b, lower=False), np.linalg.solve(np.triu(a), b))
    unit = np.triu(a, 1) + np.eye(a.shape[-1], dtype=dtype)
    assert_close(
        linalg.triangular_solve(a, b, lower=False, unit_diagonal=True), np.linalg.solve(unit, b)
    )
    if dtype in WIDE:
        check_gradients(linalg.solve, a, b)
        check_gradients(linalg.triangular_solve, a, b)
        check_gradients(
            lambda a, b: linalg.triangular_solve(a, b, lower=False, unit_diagonal=True), a, b
        )


def test_integers_become_floats():
    assert linalg.solve([[2, 0], [0, 4]], [2, 4]).tolist() == [1.0, 1.0]
    assert linalg.inv([[2, 0], [0, 4]]).dtype == np.float64
    assert linalg.det(gt.asarray([[2, 0], [0, 4]])).dtype == np.float64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGULAR)
def test_decompositions_agree_with_numpy(shape, dtype):
    x = matrix(shape, dtype)
    for found, expected in zip(linalg.qr(x), np.linalg.qr(x), strict=True):
        assert_close(found, expected)
    for found, expected in zip(
        linalg.qr(x, mode="complete"), np.linalg.qr(x, "complete"), strict=True
    ):
        assert_close(found, expected)
    for full in (False, True):
        theirs = np.linalg.svd(x, full_matrices=full)
        for found, expected in zip(linalg.svd(x, full_matrices=full), theirs, strict=True):
            assert found.shape == expected.shape
            assert found.dtype == expected.dtype
    u, s, vh = linalg.svd(x, full_matrices=False)
    assert_close(gt.matmul(u * gt.reshape(s, (*s.shape[:-1], 1, s.shape[-1])), vh), x)
    assert_close(linalg.svdvals(x), np.linalg.svd(x, compute_uv=False))
    assert_close(linalg.pinv(x), np.linalg.pinv(x))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", RECTANGULAR)
def test_decompositions_derivatives(shape, dtype):
    x = matrix(shape, dtype)
    check_gradients(linalg.qr, x)
    check_gradients(linalg.svdvals, x)
    check_gradients(linalg.pinv, x)
    if dtype == "float64":
        check_gradients(lambda x: linalg.svd(x, full_matrices=False), x)


def projections_of(x):
    """What does not depend on the phases that LAPACK chooses."""
    u, s, vh = linalg.svd(x, full_matrices=False)
    v = gt.conj(vh.mT)
    return (
        linalg.matmul(u * gt.exp(-s), vh),
        linalg.matmul(u * s, gt.conj(u.mT)),
        linalg.matmul(v * gt.sin(s), vh),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (3, 3)])
def test_singular_vectors_up_to_their_phase(shape, dtype):
    check_gradients(projections_of, matrix(shape, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2), (1, 1)])
def test_eigh(shape, dtype):
    x = hermitian(shape, dtype)
    w, v = linalg.eigh(x)
    assert_close(w, np.linalg.eigvalsh(x))
    scaled = v * gt.reshape(w, (*w.shape[:-1], 1, w.shape[-1]))
    assert_close(gt.matmul(scaled, gt.conj(v.mT)), x)

    def function_of_matrix(x):
        w, v = linalg.eigh(x)
        scaled = v * gt.reshape(gt.exp(w), (*w.shape[:-1], 1, w.shape[-1]))
        return w, gt.matmul(scaled, gt.conj(v.mT))

    check_gradients(function_of_matrix, x)
    if dtype == "float64":
        check_gradients(linalg.eigh, x)


def test_equal_eigenvalues_give_finite_derivatives():
    x = gt.asarray(np.eye(3))
    for f in (lambda x: gt.sum(linalg.eigh(x)[0]), lambda x: gt.sum(linalg.eigvalsh(x))):
        np.testing.assert_allclose(gt.grad(f)(x).numpy(), np.eye(3), atol=1e-12)
    for f in (lambda x: gt.sum(linalg.svd(x)[1]), lambda x: gt.sum(linalg.svdvals(x))):
        np.testing.assert_allclose(gt.grad(f)(x).numpy(), np.eye(3), atol=1e-12)


def test_cholesky_reads_the_symmetric_part():
    x = matrix((3, 3)) + 3.0 * np.eye(3)
    expected = np.linalg.cholesky((x + x.T) / 2)
    assert_close(linalg.cholesky(x), expected)


def test_derivative_of_det_at_singular_matrices():
    x = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    gradient = gt.grad(linalg.det)(gt.asarray(x))
    np.testing.assert_allclose(gradient.numpy(), minors, atol=1e-12)
    assert gt.grad(linalg.det)(gt.zeros((3, 3))).tolist() == np.zeros((3, 3)).tolist()


def test_slogdet_of_a_singular_matrix():
    sign, size = linalg.slogdet(np.zeros((2, 2)))
    assert float(sign) == 0.0
    assert float(size) == -np.inf


@pytest.mark.parametrize("dtype", WIDE)
def test_lstsq(dtype):
    a, b = matrix((4, 2), dtype), matrix((4, 3), dtype)
    assert_close(linalg.lstsq(a, b), np.linalg.lstsq(a, b)[0])
    assert_close(linalg.lstsq(a, b[:, 0]), np.linalg.lstsq(a, b[:, 0])[0])
    check_gradients(linalg.lstsq, a, b)


def test_pinv_of_lower_rank():
    x = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    assert_close(linalg.pinv(x), np.linalg.pinv(x))
    assert_close(linalg.pinv(matrix((3, 3)), rtol=10.0), np.zeros((3, 3)))

    def along_rank_one(u, v):
        return linalg.pinv(gt.matmul(gt.reshape(u, (3, 1)), gt.reshape(v, (1, 2))), rtol=1e-8)

    check_gradients(along_rank_one, np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0]))


def test_matrix_rank():
    x = np.stack([np.eye(3), np.diag([1.0, 1.0, 0.0]), np.zeros((3, 3))])
    assert linalg.matrix_rank(x).tolist() == [3, 2, 0]
    assert linalg.matrix_rank(np.diag([1.0, 1e-3]), rtol=0.1).tolist() == 1
    assert linalg.matrix_rank(np.zeros((0, 3))).tolist() == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [*WIDE, "int32"])
@pytest.mark.parametrize("offset", [-4, -1, 0, 1, 2, 5])
def test_diagonal_and_trace(offset, dtype):
    for shape in ((3, 3), (2, 2, 4), (4, 2), (0, 2)):
        x = (RNG.normal(size=shape) * 3).astype(dtype)
        expected = np.diagonal(x, offset, -2, -1)
        assert_close(linalg.diagonal(x, offset=offset), expected)
        assert_close(linalg.trace(x, offset=offset), np.trace(x, offset, -2, -1))
        if dtype in WIDE:
            check_gradients(lambda x: linalg.trace(x, offset=offset) ** 2, x)
    assert linalg.trace(np.eye(2, dtype="int8"), dtype="float32").dtype == np.float32


@pytest.mark.slow
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", WIDE)
def test_matrix_norm(dtype, ord, keepdims):
    for shape in ((3, 2), (2, 2, 3)):
        x = matrix(shape, dtype)
        expected = np.linalg.norm(x, ord, axis=(-2, -1), keepdims=keepdims)
        assert_close(linalg.matrix_norm(x, ord=ord, keepdims=keepdims), expected)
        check_gradients(lambda x: linalg.matrix_norm(x, ord=ord, keepdims=keepdims), x)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("ord", [1, 2, 3, np.inf, -np.inf])
def test_vector_norm(ord, axis):
    x = matrix((3, 4))
    flat = x.ravel() if axis in (None, (0, 1)) else x
    expected = np.linalg.norm(flat, ord, axis=None if axis in (None, (0, 1)) else axis)
    assert_close(linalg.vector_norm(x, ord=ord, axis=axis), expected)
    assert linalg.vector_norm(x, axis=axis, keepdims=True).ndim == 2


@pytest.mark.parametrize("dtype", [*WIDE, "int32"])
@pytest.mark.parametrize(
    ("shapes", "axis"),
    [(((3,), (3,)), -1), (((2, 3), (3,)), -1), (((3, 2), (3, 2)), 0), (((0, 3), (3,)), -1)],
)
def test_cross(shapes, axis, dtype):
    a, b = ((RNG.normal(size=shape) * 3).astype(dtype) for shape in shapes)
    assert_close(linalg.cross(a, b, axis=axis), np.cross(a, b, axis=axis))
    if dtype in WIDE:
        check_gradients(lambda a, b: linalg.cross(a, b, axis=axis), a, b)


def test_expm_far_from_zero():
    x = np.array([[0.0, 30.0], [-30.0, 0.0]])
    np.testing.assert_allclose(linalg.expm(x).numpy(), scipy.linalg.expm(x), atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linalg.solve(np.zeros((2, 2)), np.ones(2)), "solve: a matrix is singular"),
        (lambda: linalg.inv(np.zeros((2, 2))), "inv: a matrix is singular"),
        (lambda: linalg.triangular_solve(np.zeros((2, 2)), np.ones(2)), "triangular_solve: "),
        (lambda: linalg.cholesky(-np.eye(2)), "cholesky: a matrix is not positive definite"),
        (lambda: linalg.svd(np.full((2, 2), np.nan)), "svd: LAPACK did not converge"),
    ],
)
def test_errors_on_values_name_op_and_remedy_on_the_line_that_records(call, message):
    pending = gt.asarray([1.0, 2.0]) * 2.0
    with pytest.raises(np.linalg.LinAlgError) as caught:
        call()
    assert str(caught.value).startswith(message)
    assert str(caught.value).count(".") >= 1
    # While the exception is held, other pending work still runs.
    assert pending.tolist() == [2.0, 4.0]


def test_derivative_of_slogdet_at_a_singular_matrix_raises():
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        gt.grad(lambda x: linalg.slogdet(x)[1])(gt.zeros((2, 2))).numpy()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: linalg.det(np.ones((2, 3))),
            "det: shape (2, 3) is not square (axis 0: 2, axis 1: 3). Pass square matrices.",
        ),
        (
            lambda: linalg.qr(np.ones(3)),
            "qr: shape (3,) is not a matrix or a stack of them. Reshape it to two axes or more.",
        ),
        (
            lambda: linalg.solve(np.eye(2), np.ones((3, 1))),
            "solve: shapes (2, 2) and (3, 1) do not match (axis 1: 2, axis 0: 3). "
            "The right-hand side needs a row for each row of the matrix.",
        ),
        (
            lambda: linalg.cross(np.ones(2), np.ones(2)),
            "cross: shapes (2,) and (2,) do not both have length 3 along axis -1. "
            "A cross product needs three components.",
        ),
    ],
)
def test_shape_errors(call, message):
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == message


def test_undefined_derivatives_say_why():
    for f in (
        lambda x: linalg.svd(x)[0],
        lambda x: linalg.qr(x, mode="complete")[0],
    ):
        with pytest.raises(UndefinedRuleError, match="arbitrary"):
            gt.grad(lambda x, f=f: gt.sum(f(x)))(gt.asarray(matrix((3, 2))))


def test_wrong_words():
    with pytest.raises(ValueError, match="mode 'raw'"):
        linalg.qr(np.eye(2), mode="raw")
    with pytest.raises(ValueError, match="ord 3"):
        linalg.matrix_norm(np.eye(2), ord=3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: linalg.solve(np.eye(2), np.ones(2)),
        lambda: linalg.triangular_solve(np.eye(2), np.ones(2)),
        lambda: linalg.lstsq(np.eye(2), np.ones(2)),
        lambda: linalg.cholesky(np.eye(2), upper=True),
        lambda: linalg.matrix_norm(np.ones((2, 2, 2)), ord=1, keepdims=True),
        lambda: linalg.matrix_power(np.eye(2), 1),
    ],
)
def test_results_may_be_written_to(make):
    x = make()
    x[0] = 7.0
    assert np.all(x.numpy()[0] == 7.0)


def test_results_have_names():
    x = matrix((2, 2))
    assert linalg.qr(x)._fields == ("Q", "R")
    assert linalg.svd(x)._fields == ("U", "S", "Vh")
    assert linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.slogdet(x)._fields == ("sign", "logabsdet")


def test_where_keeps_nan_of_a_branch_not_taken_out():
    x = gt.asarray(np.stack([np.eye(2), np.zeros((2, 2))]))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.where(gt.asarray([True, False]), linalg.det(gt.sqrt(x + 1e-300) * x), 0.0)
    assert np.isfinite(tape.gradient(y, x).numpy()).all()
