"""Decompositions of one large real matrix by MKL, if that is installed; NumPy does all others.

NumPy's own LAPACK takes as long as SciPy's, so there is nothing to gain without MKL. The results
are those of the same LAPACK routines that NumPy calls, on the same matrix.
"""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from gradtape.dtypes import Array
from gradtape.ops.blas_lapack import integers, lapack, library

# Below this order, calling LAPACK from Python takes longer than MKL saves.
_SMALLEST = 64
# Columns of the blocks that LAPACK works on, at most.
_BLOCK = 64


def _takes(x: Array) -> bool:
    return (
        x.ndim == 2
        and min(x.shape) >= _SMALLEST
        and x.dtype.name in ("float32", "float64")
        and library().name == "mkl"
        # What LAPACK does with NaN and inf differs, and NumPy's errors are known.
        and bool(np.isfinite(x).all())
    )


def _require_success(info: int, problem: str) -> None:
    if info:
        raise LinAlgError(problem)


def eigh(x: Array) -> tuple[Array, Array]:
    """The eigenvalues and eigenvectors of symmetric matrices."""
    if not _takes(x):
        values, vectors = np.linalg.eigh(x)
        return values, vectors
    values, vectors = _symmetric(x, "V")
    return values, np.ascontiguousarray(vectors.T)


def eigvalsh(x: Array) -> Array:
    """The eigenvalues of symmetric matrices."""
    return _symmetric(x, "N")[0] if _takes(x) else np.linalg.eigvalsh(x)


def _symmetric(x: Array, job: str) -> tuple[Array, Array]:
    """Eigenvalues and, for job "V", eigenvectors as rows."""
    order = len(x)
    # The rows of a symmetric matrix are its columns.
    vectors, values = np.array(x, order="C"), np.empty(order, x.dtype)
    work = np.empty(1 + (_BLOCK + 6) * order + 2 * order**2, x.dtype)
    numbers = integers(3 + 5 * order)
    spaces = (work, len(work), numbers, len(numbers))
    info = lapack("syevd", x.dtype, job, "L", order, vectors, order, values, *spaces)
    _require_success(info, "Eigenvalues did not converge")
    return values, vectors


def svd(x: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    """The singular value decomposition of matrices."""
    if not _takes(x):
        u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
        return u, s, vh
    (rows, columns), short = x.shape, min(x.shape)
    left = np.empty((rows, rows if full_matrices else short), x.dtype, order="F")
    right = np.empty((columns if full_matrices else short, columns), x.dtype, order="F")
    values = _singular(x, "A" if full_matrices else "S", left, right)
    return np.ascontiguousarray(left), values, np.ascontiguousarray(right)


def svdvals(x: Array) -> Array:
    """The singular values of matrices."""
    if not _takes(x):
        return np.linalg.svd(x, compute_uv=False)
    unread = np.empty((1, 1), x.dtype)
    return _singular(x, "N", unread, unread)


def _singular(x: Array, job: str, left: Array, right: Array) -> Array:
    rows, columns = x.shape
    matrix, values = np.array(x, order="F"), np.empty(min(x.shape), x.dtype)
    vectors = (left, len(left), right, len(right))
    arguments = (job, rows, columns, matrix, rows, values, *vectors)
    numbers, length = integers(8 * len(values)), np.empty(1, x.dtype)
    lapack("gesdd", x.dtype, *arguments, length, -1, numbers)
    work = np.empty(int(length[0]), x.dtype)
    info = lapack("gesdd", x.dtype, *arguments, work, len(work), numbers)
    _require_success(info, "SVD did not converge")
    return values


def cholesky(x: Array) -> Array:
    """The lower factors of symmetric matrices."""
    if not _takes(x):
        return np.linalg.cholesky(x)
    order = len(x)
    # The upper triangle of columns in memory is the lower triangle of rows.
    factor = np.array(x, order="C")
    info = lapack("potrf", x.dtype, "U", order, factor, order)
    _require_success(info, "Matrix is not positive definite")
    return np.tril(factor)
