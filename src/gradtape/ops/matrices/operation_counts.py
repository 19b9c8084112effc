"""Operation counts: the floating-point operations of library calls, by their leading terms.

They are the rule `flops` of the ops: multiplications and additions of real numbers, in all matrices
of a stack. A complex product and sum are four times as many. Factorisations and solves: Anderson,
Dongarra and Ostrouchov, Installation guide for LAPACK, LAPACK working note 41, 1992, appendix C.
Spectral decompositions: Golub and Van Loan, Matrix computations, 3rd edition, 1996, sections 5.4.5
and 8.3; they iterate, so the counts are those of usual matrices. Transforms: the convention of
Frigo and Johnson, The design and implementation of FFTW3, 2005, doi:10.1109/JPROC.2004.840301.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gradtape.ir import Node

FlopsRule = Callable[[Node], float]


def of_matrices(count: Callable[[int, int], float]) -> FlopsRule:
    """The rule of an op on one stack of matrices, from the count for one of (rows, columns)."""

    def flops(y: Node) -> float:
        x = y.inputs[0]
        *batch, rows, columns = x.shape
        return _weight(x) * math.prod(batch) * count(rows, columns)

    return flops


def of_systems(
    solve: Callable[[int], float], factor: Callable[[int], float] | None = None
) -> FlopsRule:
    """The rule of a solve: the counts for one right-hand side, and for the factors of a matrix.

    NumPy factors the matrix anew for each element of the stack that results.
    """

    def flops(y: Node) -> float:
        *batch, rows, columns = y.shape
        each = columns * solve(rows) + (factor(rows) if factor else 0.0)
        return _weight(y) * math.prod(batch) * each

    return flops


def _weight(x: Node) -> int:
    return 4 if x.dtype.kind == "c" else 1


def cholesky(n: int, _: int) -> float:
    """A triangular factor of a symmetric matrix."""
    return n**3 / 3


def lu(n: int, _: int = 0) -> float:
    """Triangular factors of a square matrix; determinants are read off them."""
    return 2 * n**3 / 3


def lu_inverse(n: int, _: int) -> float:
    """The inverse from triangular factors."""
    return 4 * n**3 / 3


def inverse(n: int, columns: int) -> float:
    """Factors, and the inverse from them."""
    return lu(n) + lu_inverse(n, columns)


def _reflections(rows: int, columns: int, count: int) -> float:
    """The operations of `count` Householder reflections of a matrix."""
    return 4.0 * rows * columns * count - 2.0 * (rows + columns) * count**2 + 4.0 / 3.0 * count**3


def qr(complete: bool) -> Callable[[int, int], float]:
    """The triangle, and the orthonormal columns, of which a complete Q has as many as rows."""

    def count(rows: int, columns: int) -> float:
        inner = min(rows, columns)
        width = rows if complete else inner
        return _reflections(rows, columns, inner) + _reflections(rows, width, inner)

    return count


def qr_flops(y: Node) -> float:
    """The rule of a QR decomposition, whose param says how many columns Q has."""
    return of_matrices(qr(bool(y.keywords["complete"])))(y)


def eigenvalues(n: int, _: int) -> float:
    """Eigenvalues of a symmetric matrix."""
    return 4 * n**3 / 3


def eigenvectors(n: int, _: int) -> float:
    """Eigenvalues and eigenvectors of a symmetric matrix."""
    return 9.0 * n**3


def bidiagonal(m: int, n: int) -> float:
    """Reduction to bidiagonal form of a matrix that is not wider than long."""
    return 4 * m * n**2 - 4 * n**3 / 3


def singular_values(rows: int, columns: int) -> float:
    """Singular values: bidiagonalisation, after a QR decomposition if the matrix is long."""
    m, n = max(rows, columns), min(rows, columns)
    return min(bidiagonal(m, n), 2.0 * m * n**2 + 2 * n**3)


def singular_vectors(rows: int, columns: int) -> float:
    """Singular values and as many vectors on both sides."""
    m, n = max(rows, columns), min(rows, columns)
    return float(min(14 * m * n**2 + 8 * n**3, 6 * m * n**2 + 20 * n**3))


def full_bases(rows: int, columns: int) -> float:
    """Singular values, and vectors that span the whole spaces on both sides."""
    m, n = max(rows, columns), min(rows, columns)
    return float(4 * m**2 * n + min(8 * m * n**2 + 9 * n**3, 22 * n**3))


def svd_flops(y: Node) -> float:
    """The rule of a singular value decomposition, whose param says how large the bases are."""
    return of_matrices(full_bases if y.keywords["full_matrices"] else singular_vectors)(y)


def pseudo_inverse(rows: int, columns: int) -> float:
    """Singular vectors, and the product of them."""
    return singular_vectors(rows, columns) + 2.0 * rows * columns * min(rows, columns)


def cofactors(n: int, _: int) -> float:
    """Singular vectors, the determinants of both bases, and the product of them."""
    return singular_vectors(n, n) + 2 * lu(n) + 2.0 * n**3


def exponential(n: int, _: int) -> float:
    """Six products and a solve with a matrix, without squarings, whose number depends on values."""
    return 12.0 * n**3 + lu(n) + 2.0 * n**3


def transform(points: int, length: int, per_point: float) -> float:
    """The operations of transforms of `length`, with this total of points."""
    return per_point * points * math.log2(length) if length > 1 else 0.0


def complex_transform(y: Node) -> float:
    """The rule of a complex transform along the axes in its params."""
    length = math.prod(y.shape[axis] for axis in y.keywords["axes"])
    return transform(y.size, length, 5.0)


def real_transform(y: Node) -> float:
    """The rule of a transform from or to real numbers, which is half of a complex one."""
    real = y if y.dtype.kind == "f" else y.inputs[0]
    return transform(real.size, real.shape[y.keywords["axis"]], 2.5)
