"""Linear algebra on the last two axes: solutions, determinants, decompositions, inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gradtape as gt
from gradtape import linalg as core
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports
from gradtape.ops.arrays import triangles
from gradtape.ops.reductions import reduction
from gradtape.tf.base.conversion import common, convert
from gradtape.tf.base.dispatch import documented, operation
from gradtape.tf.base.dtypes import int32
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Axis, Name, TensorLike
from gradtape.tf.ops.products import norm
from gradtape.typing import NonNegative

__all__ = [
    "adjoint",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "logdet",
    "lstsq",
    "matrix_rank",
    "matrix_transpose",
    "normalize",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "trace",
    "triangular_solve",
]


# Each tensor is of the class of the operand, which the tuples of gradtape.linalg do not say: lines
# that pass such tuples on silence the type checker.
class LogMatrixDeterminant(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    log_abs_determinant: Tensor


class Qr(NamedTuple):
    """The result of `qr`."""

    q: Tensor
    r: Tensor


@operation
def matrix_transpose(
    a: TensorLike, name: str = "matrix_transpose", conjugate: bool = False
) -> Tensor:
    """The last two axes exchanged.

    >>> tf.linalg.matrix_transpose([[1, 2, 3]]).shape
    TensorShape([3, 1])
    """
    result = gt.matrix_transpose(convert(a))
    return gt.conj(result) if conjugate and result.spec.dtype.kind == "c" else result


@operation
def adjoint(matrix: TensorLike, name: Name = None) -> Tensor:
    """The conjugate transpose.

    >>> tf.linalg.adjoint([[1 + 2j]]).numpy().tolist()
    [[(1-2j)]]
    """
    return matrix_transpose(matrix, conjugate=True)


@operation
def inv(input: TensorLike, adjoint: bool = False, name: Name = None) -> Tensor:
    """The inverse of square matrices.

    >>> tf.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return core.inv(_adjusted(convert(input), adjoint))


def _adjusted(x: Tensor, adjoint: bool) -> Tensor:
    if not adjoint:
        return x
    transposed = gt.matrix_transpose(x)
    return gt.conj(transposed) if x.spec.dtype.kind == "c" else transposed


@operation
def slogdet(input: TensorLike, name: Name = None) -> LogMatrixDeterminant:
    """Sign and logarithm of the absolute value of the determinant.

    >>> sign, logarithm = tf.linalg.slogdet([[1.0, 0.0], [0.0, -1.0]])
    >>> sign.numpy().item(), logarithm.numpy().item()
    (-1.0, 0.0)
    """
    return LogMatrixDeterminant(*core.slogdet(convert(input)))  # type: ignore[arg-type]


def _row(
    function: Callable[..., Any], sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a function of matrices."""

    def call(input: TensorLike, name: Name = None) -> Tensor:
        return function(convert(input))

    return operation(documented(call, __name__, sentence, example, result))


det = _row(
    core.det,
    "The determinant of square matrices.",
    "round(tf.linalg.det([[2.0, 0.0], [0.0, 4.0]]).numpy().item(), 4)",
    "8.0",
)
cholesky = _row(
    core.cholesky,
    "The lower triangular L with L @ L^H = input.",
    "tf.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).numpy().tolist()",
    "[[2.0, 0.0], [1.0, 1.0]]",
)
expm = _row(
    core.expm,
    "The exponential of square matrices.",
    "tf.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).numpy().tolist()",
    "[[1.0, 1.0], [0.0, 1.0]]",
)


@operation
def logdet(matrix: TensorLike, name: Name = None) -> Tensor:
    """The logarithm of the determinant of positive definite matrices.

    >>> round(tf.linalg.logdet([[2.0, 0.0], [0.0, 0.5]]).numpy().item(), 5)
    0.0
    """
    lower = core.cholesky(convert(matrix))
    return 2.0 * reduction.sum(gt.log(gt.real(triangles.diagonal(lower))), axis=-1)


@operation
def solve(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: Name = None) -> Tensor:
    """The x for which matrix @ x = rhs, for stacks of matrices.

    >>> tf.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [4.0]]).numpy().tolist()
    [[1.0], [1.0]]
    """
    a, b = common([matrix, rhs], "solve")
    _require_matrices("solve", a, b)
    return core.solve(_adjusted(a, adjoint), b)


def _require_matrices(name: str, *matrices: Tensor) -> None:
    for each in matrices:
        if each.ndim < 2:
            raise ShapeError(f"{name}: expected a matrix, got shape {each.shape}.")


@operation
def triangular_solve(
    matrix: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: Name = None,
) -> Tensor:
    """The x for which matrix @ x = rhs, where only one triangle of the matrix is read.

    >>> tf.linalg.triangular_solve([[2.0, 0.0], [1.0, 1.0]], [[2.0], [3.0]]).numpy().tolist()
    [[1.0], [2.0]]
    """
    a, b = common([matrix, rhs], "triangular_solve")
    _require_matrices("triangular_solve", a, b)
    if adjoint:
        a, lower = _adjusted(a, True), not lower
    return core.triangular_solve(a, b, lower=lower)


@operation
def cholesky_solve(chol: TensorLike, rhs: TensorLike, name: Name = None) -> Tensor:
    """The x for which L @ L^H @ x = rhs, given L.

    >>> tf.linalg.cholesky_solve([[2.0, 0.0], [1.0, 1.0]], [[6.0], [4.0]]).numpy().tolist()
    [[1.0], [1.0]]
    """
    a, b = common([chol, rhs], "cholesky_solve")
    half = core.triangular_solve(a, b, lower=True)
    return core.triangular_solve(_adjusted(a, True), half, lower=False)


@operation
def qr(input: TensorLike, full_matrices: bool = False, name: Name = None) -> Qr:
    """Orthonormal Q and upper triangular R with Q @ R = input.

    >>> q, r = tf.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> tf.matmul(q, r).numpy().round(3).tolist()
    [[3.0, 1.0], [4.0, 2.0]]
    """
    mode = "complete" if full_matrices else "reduced"
    return Qr(*core.qr(convert(input), mode=mode))  # type: ignore[arg-type]


@operation
def svd(
    tensor: TensorLike, full_matrices: bool = False, compute_uv: bool = True, name: Name = None
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Singular values and vectors in TensorFlow's order: s, u, v with tensor = u diag(s) v^H.

    >>> s, u, v = tf.linalg.svd([[3.0, 0.0], [0.0, 4.0]])
    >>> s.numpy().tolist()
    [4.0, 3.0]
    """
    x = convert(tensor)
    if not compute_uv:
        return core.svdvals(x)
    u, s, vh = core.svd(x, full_matrices=full_matrices)
    return s, u, _adjusted(vh, True)  # type: ignore[return-value, arg-type]


@operation
def eigh(tensor: TensorLike, name: Name = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    >>> values, vectors = tf.linalg.eigh([[2.0, 0.0], [0.0, 1.0]])
    >>> values.numpy().tolist()
    [1.0, 2.0]
    """
    result = core.eigh(_from_below(convert(tensor)))
    return result[0], result[1]  # type: ignore[return-value]


def _from_below(x: Tensor) -> Tensor:
    """Symmetric matrices from the elements on and below the diagonal."""
    below = triangles.tril(x, k=-1)
    diagonal = triangles.triu(triangles.tril(x, k=0), k=0)
    return below + diagonal + _adjusted(below, True)


@operation
def eigvalsh(tensor: TensorLike, name: Name = None) -> Tensor:
    """Eigenvalues of symmetric (Hermitian) matrices, in ascending order.

    >>> tf.linalg.eigvalsh([[2.0, 0.0], [0.0, 1.0]]).numpy().tolist()
    [1.0, 2.0]
    """
    return core.eigvalsh(_from_below(convert(tensor)))


@operation
def lstsq(
    matrix: TensorLike,
    rhs: TensorLike,
    l2_regularizer: NonNegative = 0.0,
    fast: bool = True,
    name: Name = None,
) -> Tensor:
    """The x for which matrix @ x is nearest to rhs, with an optional penalty on its length.

    >>> tf.linalg.lstsq([[1.0], [1.0]], [[1.0], [3.0]]).numpy().round(4).tolist()
    [[2.0]]
    """
    a, b = common([matrix, rhs], "lstsq")
    _require_matrices("lstsq", a, b)
    if not l2_regularizer:
        return core.lstsq(a, b)
    transposed = _adjusted(a, True)
    ridge = transposed @ a + float(l2_regularizer) * convert(np.eye(a.shape[-1], dtype=a.dtype))
    return core.solve(ridge, transposed @ b)


@operation
def pinv(
    a: TensorLike, rcond: TensorLike | None = None, validate_args: bool = False, name: Name = None
) -> Tensor:
    """The Moore-Penrose pseudo-inverse.

    >>> tf.linalg.pinv([[2.0], [0.0]]).numpy().tolist()
    [[0.5, 0.0]]
    """
    return core.pinv(convert(a), rtol=rcond)


@operation
def matrix_rank(
    a: TensorLike, tol: TensorLike | None = None, validate_args: bool = False, name: Name = None
) -> Tensor:
    """The number of singular values above a tolerance.

    >>> tf.linalg.matrix_rank([[1.0, 1.0], [1.0, 1.0]]).numpy().item()
    1
    """
    x = convert(a)
    if tol is None:
        return gt.cast(core.matrix_rank(x), int32.dtype)
    return gt.cast(reduction.sum(core.svdvals(x) > tol, axis=-1), int32.dtype)


@operation
def cross(a: TensorLike, b: TensorLike, name: Name = None) -> Tensor:
    """The cross product of vectors of three components.

    >>> tf.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).numpy().tolist()
    [0.0, 0.0, 1.0]
    """
    return core.cross(*common([a, b], "cross"))


@operation
def trace(x: TensorLike, name: Name = None) -> Tensor:
    """The sum along the diagonal of the last two axes.

    >>> tf.linalg.trace([[1, 2], [3, 4]]).numpy().item()
    5
    """
    x = convert(x)
    return core.trace(x, dtype=x.spec.dtype)


@operation
def normalize(
    tensor: TensorLike, ord: float | str = "euclidean", axis: Axis = None, name: Name = None
) -> tuple[Tensor, Tensor]:
    """The tensor divided by its norm, and the norm with its axes kept.

    >>> unit, size = tf.linalg.normalize([3.0, 4.0])
    >>> unit.numpy(), size.numpy().tolist()
    (array([0.6, 0.8], dtype=float32), [5.0])
    """
    size = norm(tensor, ord, axis, keepdims=True)
    return convert(tensor) / size, size


check_exports(globals(), __all__)
