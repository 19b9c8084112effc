"""LU factors that several ops share.

The derivative of a solution solves again with the transposed matrix, and that of a determinant
needs the inverse. In a compiled program `solve`, `inv`, `slogdet` and `det` are compositions, so
that a matrix is factored once; their ops appear there only, after differentiation. The kernels here
are for plans whose native code has failed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.dtypes import REAL_OF, Array, as_dtype
from gradtape.errors import MatrixError
from gradtape.ir import Node, Op, Shape, Spec, Undefined, apply, declare, outputs, spec
from gradtape.ops import blas_lapack
from gradtape.ops.arrays.movement import PERMUTE_DIMS
from gradtape.ops.elementwise.unary import exp
from gradtape.ops.families import Sample, cast
from gradtape.ops.families.shapes import broadcast_shapes, broadcast_to
from gradtape.ops.families.sparsity import dense, matrices
from gradtape.ops.matrices import checks, lapack_calls, operation_counts
from gradtape.ops.matrices.contraction import conjugate
from gradtape.ops.matrices.stacks import batch_all, over_stacks

_LATER = Undefined("factors of matrices appear in compiled programs, after differentiation")
# Columns of the blocks that LAPACK works on, at most: its routines want work space for one.
_BLOCK = 64


def _factor_kernel(x: Array) -> tuple[Array, Array]:
    # Of the matrix itself, as NumPy does it, and not of its transpose, which has other pivots: of a
    # triangular matrix one of the two has nothing to eliminate. Columns lie in memory one by one.
    factors, order = np.array(x, order="F"), len(x)
    pivots = blas_lapack.integers(order)
    blas_lapack.lapack("getrf", x.dtype, order, order, factors, order, pivots)
    return factors.T, pivots.astype(np.int64)


def _as_stored(factors: Array, pivots: Array) -> tuple[Array, int, Array]:
    """Factors in contiguous memory, their order, and pivots as the library's integers."""
    integers = blas_lapack.library().integers
    return np.ascontiguousarray(factors), len(pivots), np.ascontiguousarray(pivots, integers)


def _checked(name: str, factors: Array) -> None:
    if not np.all(np.diagonal(factors)):
        raise MatrixError(
            f"{name}: a matrix is singular (Singular matrix). "
            "Add a multiple of the identity, or use gt.linalg.pinv."
        )


def _solve_kernel(factors: Array, pivots: Array, b: Array, transposed: bool) -> Array:
    _checked("solve", factors)
    order, columns = b.shape
    found = np.array(b, order="F")
    turned, arrays = "T" if transposed else "N", (*_as_stored(factors, pivots), found, order)
    blas_lapack.lapack("getrs", b.dtype, turned, order, columns, *arrays)
    return np.ascontiguousarray(found)


def _inverse_kernel(factors: Array, pivots: Array) -> Array:
    _checked("inv", factors)
    stored, order, rows = _as_stored(np.array(factors, order="C"), pivots)
    length = _BLOCK * order
    work = np.empty(length, stored.dtype)
    blas_lapack.lapack("getri", stored.dtype, order, stored, order, rows, work, length)
    return np.ascontiguousarray(stored.T)


def _slogdet_kernel(factors: Array, pivots: Array) -> tuple[Array, Array]:
    diagonal = np.diagonal(factors)
    swaps = np.count_nonzero(pivots != np.arange(1, len(pivots) + 1))
    real = REAL_OF[factors.dtype]
    size = np.abs(diagonal)
    with np.errstate(divide="ignore", invalid="ignore"):
        signs = np.where(size == 0, 0, diagonal / size)
        logarithm = np.sum(np.log(size))
    sign = np.prod(signs) * (-1) ** swaps
    return np.asarray(sign, factors.dtype), np.asarray(logarithm, real)


def _sample_factors() -> list[Any]:
    dtypes = ("float64", "float32", "complex128")
    sampled = checks.sample_matrices("lu_factors", ((3, 3), (1, 1)), dtypes)
    return [_factor_kernel(x) for x in sampled]


def _factor_spec(x: Spec) -> tuple[Spec, Spec]:
    return x, spec(x.shape[:-1], np.dtype(np.int64))


def _solve_spec(factors: Spec, pivots: Spec, b: Spec, transposed: bool) -> Spec:
    batch = broadcast_shapes("lu_solve", [factors.shape[:-2], b.shape[:-2]])
    return spec(batch + b.shape[-2:], b.dtype)


def _inverse_spec(factors: Spec, pivots: Spec) -> Spec:
    return factors


def _slogdet_spec(factors: Spec, pivots: Spec) -> tuple[Spec, Spec]:
    batch = factors.shape[:-2]
    return spec(batch, factors.dtype), spec(batch, as_dtype(REAL_OF[factors.dtype]))


# The factors of the matrix, column after column, and LAPACK's pivots, which count from 1.
LU_FACTORS = declare(
    Op(
        "lu_factors",
        "library",
        spec=_factor_spec,
        numpy=over_stacks(_factor_kernel, _factor_spec, 2),
        jvp=_LATER,
        vjp=_LATER,
        batch=batch_all,
        sparsity=matrices,
        flops=operation_counts.of_matrices(operation_counts.lu),
        solves=True,
        expensive=True,
        native=lapack_calls.lu_factors,
        samples=lambda: [Sample((f,)) for f, _ in _sample_factors()],
    )
)
LU_SOLVE = declare(
    Op(
        "lu_solve",
        "library",
        params=("transposed",),
        spec=_solve_spec,
        numpy=over_stacks(_solve_kernel, _solve_spec, 2, 1, 2),
        jvp=_LATER,
        vjp=_LATER,
        batch=batch_all,
        flops=operation_counts.of_systems(operation_counts.nothing, operation_counts.two_triangles),
        sparsity=dense,
        solves=True,
        expensive=True,
        may_fail=True,
        native=lapack_calls.lu_solve,
        samples=lambda: [
            Sample((f, p, f[:, :1].copy()), {"transposed": turned})
            for f, p in _sample_factors()
            for turned in (False, True)
        ],
    )
)
LU_INVERSE = declare(
    Op(
        "lu_inverse",
        "library",
        spec=_inverse_spec,
        numpy=over_stacks(_inverse_kernel, _inverse_spec, 2, 1),
        jvp=_LATER,
        vjp=_LATER,
        batch=batch_all,
        sparsity=dense,
        solves=True,
        expensive=True,
        may_fail=True,
        flops=operation_counts.of_matrices(operation_counts.lu_inverse),
        native=lapack_calls.lu_inverse,
        samples=lambda: [Sample(pair) for pair in _sample_factors()],
    )
)
LU_SLOGDET = declare(
    Op(
        "lu_slogdet",
        "library",
        spec=_slogdet_spec,
        numpy=over_stacks(_slogdet_kernel, _slogdet_spec, 2, 1),
        jvp=_LATER,
        vjp=_LATER,
        batch=batch_all,
        sparsity=dense,
        expensive=True,
        flops=operation_counts.of_matrices(lambda n, _: float(n)),
        native=lapack_calls.lu_slogdet,
        samples=lambda: [Sample(pair) for pair in _sample_factors()],
    )
)


def _has_factors(a: Node) -> bool:
    return a.size > 0 and a.dtype.name in blas_lapack.LETTERS


def _factors_of(a: Node) -> tuple[Node, Node]:
    factors, pivots = outputs(apply(LU_FACTORS, (a,)))
    return factors, pivots


def _is_transpose(x: Node) -> bool:
    last = x.ndim - 1
    return x.op is PERMUTE_DIMS and x.params == ((*range(last - 1), last, last - 1),)


def solve_by_factors(a: Node, b: Node) -> Node | None:
    """The solution of systems, by factors that others share, such as those of its derivative."""
    if not b.size or not _has_factors(a):
        return None
    transposed = conjugated = False
    while _is_transpose(a) or a.op.name == "conj":
        if _is_transpose(a):
            transposed = not transposed
        else:
            conjugated = not conjugated
        a = a.inputs[0]
    batch = broadcast_shapes("solve", [a.shape[:-2], b.shape[:-2]])
    # From conj(A) x = b follows A conj(x) = conj(b).
    right = spread(conjugate(b) if conjugated else b, batch, 2)
    factors, pivots = _factors_of(a)
    operands = (spread(factors, batch, 2), spread(pivots, batch, 1), right)
    found = apply(LU_SOLVE, operands, (transposed,))
    return conjugate(found) if conjugated else found


def spread(x: Node, batch: Shape, core: int) -> Node:
    """A stack as routines take it: one matrix for all, or one for each item of the result."""
    cut = x.ndim - core
    if math.prod(x.shape[:cut]) in (1, math.prod(batch)):
        return x
    return broadcast_to(x, batch + x.shape[cut:])


def inverse_by_factors(x: Node) -> Node | None:
    """The inverse of matrices, by factors that others share."""
    return apply(LU_INVERSE, _factors_of(x)) if _has_factors(x) else None


def slogdet_by_factors(x: Node) -> tuple[Node, ...] | None:
    """Sign and logarithm of the determinant of matrices, by factors that others share."""
    return tuple(outputs(apply(LU_SLOGDET, _factors_of(x)))) if _has_factors(x) else None


def det_by_factors(x: Node) -> Node | None:
    """The determinant of matrices, by factors that others share."""
    return determinant(x) if _has_factors(x) else None


def determinant(x: Node) -> Node:
    """The determinant as NumPy computes it: products of some diagonal elements may overflow."""
    sign, logarithm = outputs(apply(LU_SLOGDET, _factors_of(x)))
    return sign * cast(exp(logarithm), x.dtype)
