"""LU factors that several ops share.

The derivative of a solution solves again with the transposed matrix, and that of a determinant
needs the inverse. In a compiled program `solve`, `inv` and `slogdet` are compositions, so that the
matrix is factored once; their ops appear there only, after differentiation. Between programs, such
as a loss and its gradient, and in NumPy, each thread remembers the matrix that it factored last.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gradtape.dtypes import Array
from gradtape.errors import MatrixError
from gradtape.graph import Node, Op, Spec, Undefined, apply, declare, outputs, spec
from gradtape.ops import blas_lapack
from gradtape.ops.arrays.movement import PERMUTE_DIMS
from gradtape.ops.families import Sample
from gradtape.ops.families.reads import dense, matrices
from gradtape.ops.families.shapes import broadcast_shapes
from gradtape.ops.matrices import checks, operation_counts
from gradtape.ops.matrices.stacks import batch_all, over_stacks

# A smaller matrix is factored faster than LAPACK is called; NumPy factors stacks of matrices.
_SMALLEST = 64
_LATER = Undefined("factors of matrices appear in compiled programs, after differentiation")
# Columns of the blocks that LAPACK works on, at most: its routines want work space for one.
_BLOCK = 64


class _Last(threading.local):
    """The matrix that this thread factored last, and its factors and pivots."""

    known: tuple[Array, Array, Array] | None = None


_last = _Last()
# The largest matrix that is remembered, in bytes.
_REMEMBERED = 16 << 20


def forget() -> None:
    """Forget the matrix that this thread factored last."""
    _last.known = None


def _remembered(x: Array) -> tuple[Array, Array] | None:
    """The factors of a matrix if it is the last one to the last bit: looking takes little time."""
    if _last.known is None or x.shape != _last.known[0].shape or x.dtype != _last.known[0].dtype:
        return None
    matrix, *found = _last.known
    bits = f"i{x.dtype.itemsize}"
    same = np.array_equal(np.ascontiguousarray(x).view(bits), matrix.view(bits))
    return (found[0], found[1]) if same else None


def _factor_kernel(x: Array) -> tuple[Array, Array]:
    found = _remembered(x)
    if found is None:
        found = _factored(x)
        if x.nbytes <= _REMEMBERED:
            for array in found:
                array.flags.writeable = False
            _last.known = (np.array(x, order="C"), *found)
    return found


def _factored(x: Array) -> tuple[Array, Array]:
    # Of the matrix itself, as NumPy does it, and not of its transpose, which has other pivots: of a
    # triangular matrix one of the two has nothing to eliminate. Columns lie in memory one by one.
    factors, order = np.array(x, order="F"), len(x)
    pivots = blas_lapack.integers(order)
    blas_lapack.lapack("getrf", x.dtype, order, order, factors, order, pivots)
    return factors.T, pivots.astype(np.int64)


def _by_lapack(x: Array) -> bool:
    """Whether a matrix is factored by LAPACK here, and not inside NumPy."""
    return x.ndim == 2 and len(x) >= _SMALLEST and x.dtype.kind == "f"


def solved(a: Array, b: Array) -> Array:
    """The solution of systems, as NumPy gives it."""
    if not _by_lapack(a) or b.ndim != 2:
        return np.asarray(np.linalg.solve(a, b))
    turned = _remembered(a.T)
    factors, pivots = turned or _factor_kernel(a)
    return _solve_kernel(factors, pivots, b, transposed=turned is not None)


def inverse(x: Array) -> Array:
    """The inverses of matrices, as NumPy gives them."""
    return _inverse_kernel(*_factor_kernel(x)) if _by_lapack(x) else np.asarray(np.linalg.inv(x))


def sign_and_logarithm(x: Array) -> tuple[Array, Array]:
    """Sign and logarithm of determinants, as NumPy gives them."""
    if _by_lapack(x):
        return _slogdet_kernel(*_factor_kernel(x))
    sign, logarithm = np.linalg.slogdet(x)
    return np.asarray(sign), np.asarray(logarithm)


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
    sign = np.prod(np.sign(diagonal)) * (-1) ** swaps
    with np.errstate(divide="ignore"):
        logarithm = np.sum(np.log(np.abs(diagonal)))
    return np.asarray(sign, factors.dtype), np.asarray(logarithm, factors.dtype)


def _sample_factors() -> list[Any]:
    sampled = checks.sample_matrices("lu_factors", ((3, 3), (1, 1)), ("float64", "float32"))
    return [_factor_kernel(x) for x in sampled]


def _factor_spec(x: Spec) -> tuple[Spec, Spec]:
    return x, spec(x.shape[:-1], np.dtype(np.int64))


def _solve_spec(factors: Spec, pivots: Spec, b: Spec, transposed: bool) -> Spec:
    batch = broadcast_shapes("lu_solve", [factors.shape[:-2], b.shape[:-2]])
    return spec(batch + b.shape[-2:], b.dtype)


def _inverse_spec(factors: Spec, pivots: Spec) -> Spec:
    return factors


def _slogdet_spec(factors: Spec, pivots: Spec) -> tuple[Spec, Spec]:
    return (spec(factors.shape[:-2], factors.dtype),) * 2


# The factors of the matrix, column after column, and LAPACK's pivots, which count from 1.
LU_FACTORS = declare(Op(
    "lu_factors", "library", spec=_factor_spec,
    numpy=over_stacks(_factor_kernel, _factor_spec, 2), jvp=_LATER, vjp=_LATER, batch=batch_all,
    sparsity=matrices, flops=operation_counts.of_matrices(operation_counts.lu), solves=True,
    expensive=True, samples=lambda: [Sample((f,)) for f, _ in _sample_factors()],
))  # fmt: skip
LU_SOLVE = declare(Op(
    "lu_solve", "library", params=("transposed",), spec=_solve_spec,
    numpy=over_stacks(_solve_kernel, _solve_spec, 2, 1, 2), jvp=_LATER, vjp=_LATER, batch=batch_all,
    flops=operation_counts.of_systems(operation_counts.nothing, operation_counts.two_triangles),
    sparsity=dense, solves=True, expensive=True, may_fail=True,
    samples=lambda: [
        Sample((f, p, f[:, :1].copy()), {"transposed": turned})
        for f, p in _sample_factors() for turned in (False, True)
    ],
))  # fmt: skip
LU_INVERSE = declare(Op(
    "lu_inverse", "library", spec=_inverse_spec,
    numpy=over_stacks(_inverse_kernel, _inverse_spec, 2, 1), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, solves=True, expensive=True, may_fail=True,
    flops=operation_counts.of_matrices(operation_counts.lu_inverse),
    samples=lambda: [Sample(pair) for pair in _sample_factors()],
))  # fmt: skip
LU_SLOGDET = declare(Op(
    "lu_slogdet", "library", spec=_slogdet_spec,
    numpy=over_stacks(_slogdet_kernel, _slogdet_spec, 2, 1), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, expensive=True,
    flops=operation_counts.of_matrices(lambda n, _: float(n)),
    samples=lambda: [Sample(pair) for pair in _sample_factors()],
))  # fmt: skip


def _factors_of(a: Node) -> tuple[Node, Node] | None:
    if a.ndim != 2 or a.shape[0] < _SMALLEST or a.dtype.kind != "f":
        return None
    factors, pivots = outputs(apply(LU_FACTORS, (a,)))
    return factors, pivots


def solve_by_factors(a: Node, b: Node) -> Node | None:
    """The solution of one large system, by factors that others share."""
    transposed = a.op is PERMUTE_DIMS and a.params == ((1, 0),)
    found = _factors_of(a.inputs[0] if transposed else a) if b.ndim == 2 else None
    return None if found is None else apply(LU_SOLVE, (*found, b), (transposed,))


def inverse_by_factors(x: Node) -> Node | None:
    """The inverse of one large matrix, by factors that others share."""
    found = _factors_of(x)
    return None if found is None else apply(LU_INVERSE, found)


def slogdet_by_factors(x: Node) -> tuple[Node, ...] | None:
    """Sign and logarithm of the determinant of one large matrix, by factors that others share."""
    found = _factors_of(x)
    return None if found is None else tuple(outputs(apply(LU_SLOGDET, found)))
