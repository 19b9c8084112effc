"""Singular values and vectors of one large matrix by its bidiagonal form, in compiled programs.

The reduction to bidiagonal form takes most of the time of singular values. It is an op of its own,
so native code can compute it, and `svd` and `svdvals` of one matrix share it. LAPACK computes the
rest. Where the elements of a matrix are so large or small that their squares could be lost, or not
all are finite, NumPy does all of it. These ops appear in compiled programs only, after
differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.dtypes import Array
from gradtape.graph import Node, Op, Spec, Undefined, apply, declare, outputs, spec
from gradtape.ops.arrays.movement import PERMUTE_DIMS
from gradtape.ops.families import Sample
from gradtape.ops.families.reads import dense, matrices
from gradtape.ops.matrices import lapack, operation_counts
from gradtape.ops.matrices.checks import explained, sample_matrices
from gradtape.ops.matrices.stacks import batch_all, over_stacks

# On one thread, `svdvals` takes as long either way at order 100, and `svd` at 150.
_SMALLEST = 128
# Bytes of a matrix. Measured beside LAPACK: native code reads a larger one from memory for every
# panel, or even every column, so the wider blocks of LAPACK take less time.
LARGEST = 1 << 24
# Of matrices that are so much longer than wide, LAPACK factors the long side first.
_LONG = 11 / 6
_LATER = Undefined("bidiagonal forms appear in compiled programs, after differentiation")


def converged(name: str, kernel: Callable[[], Any]) -> Any:
    """Run a LAPACK call of an op; its failure becomes an error with op, reason and remedy."""
    return explained(name, "LAPACK did not converge", "Check the matrix for NaN and inf.", kernel)


def _reduce_kernel(x: Array) -> tuple[Array, ...]:
    rows, columns = x.shape
    reduced = np.array(x, order="F")
    diagonal, tauq, taup = (np.zeros(columns, x.dtype) for _ in range(3))
    beside = np.zeros(columns - 1, x.dtype)
    length = (rows + columns) * lapack.BLOCK
    work = np.empty(length, x.dtype)
    vectors = (diagonal, beside, tauq, taup)
    lapack.call("gebrd", x.dtype, rows, columns, reduced, rows, *vectors, work, length)
    return reduced.T, *vectors


def is_safe(diagonal: Array, beside: Array) -> bool:
    """Whether no square is lost: LAPACK, too, takes such matrices as they are.

    The largest elements of a matrix and of its bidiagonal form differ by its order at most. If an
    element of the matrix is not finite, one of the form is NaN, which is in no range.
    """
    found = np.finfo(diagonal.dtype)
    smallest = 1e3 * float(found.tiny) ** 0.5 / float(found.eps)
    largest = max(np.abs(diagonal).max(), np.abs(beside).max(initial=0))
    return bool(smallest <= largest <= 1 / smallest)


def _values_kernel(diagonal: Array, beside: Array, x: Array) -> Array:
    count = len(diagonal)
    if is_safe(diagonal, beside):
        values, work = diagonal.copy(), np.empty(4 * count, x.dtype)
        # Without vectors their places are not read.
        nothing = (work, 1)
        shape = ("U", count, 0, 0, 0)
        vectors = (*nothing, *nothing, *nothing)
        failed = lapack.call("bdsqr", x.dtype, *shape, values, beside.copy(), *vectors, work)
        if not failed:
            return values
    return converged("svdvals", lambda: np.linalg.svd(x, compute_uv=False))


def _vectors_kernel(
    reduced: Array, diagonal: Array, beside: Array, tauq: Array, taup: Array, x: Array
) -> tuple[Array, ...]:
    found = _vectors(reduced, diagonal, beside, tauq, taup) if is_safe(diagonal, beside) else None
    if found is not None:
        return found
    return converged("svd", lambda: tuple(np.linalg.svd(x, full_matrices=False)))


def _vectors(
    reduced: Array, diagonal: Array, beside: Array, tauq: Array, taup: Array
) -> tuple[Array, ...] | None:
    """The vectors of the bidiagonal matrix, and both sides multiplied by the reflectors."""
    columns, rows = reduced.shape
    dtype = reduced.dtype
    values = diagonal.copy()
    left = np.zeros((rows, columns), dtype, order="F")
    right = np.empty((columns, columns), dtype, order="F")
    length = max(3 * columns**2 + 4 * columns, rows * lapack.BLOCK)
    work, numbers = np.empty(length, dtype), np.empty(8 * columns, np.int32)
    arrays = (values, beside.copy(), left, rows, right, columns, work, numbers, work, numbers)
    if lapack.call("bdsdc", dtype, "U", "I", columns, *arrays):
        return None
    # The reflectors lie column after column. In a stack, scales may lie apart.
    reflectors = (np.ascontiguousarray(reduced), rows)
    tauq, taup = np.ascontiguousarray(tauq), np.ascontiguousarray(taup)
    shape = (rows, columns, columns)
    lapack.call("ormbr", dtype, "Q", "L", "N", *shape, *reflectors, tauq, left, rows, work, length)
    shape = (columns, columns, columns)
    lapack.call(
        "ormbr", dtype, "P", "R", "T", *shape, *reflectors, taup, right, columns, work, length
    )
    return np.ascontiguousarray(left), values, np.ascontiguousarray(right)


def _reduce_spec(x: Spec) -> tuple[Spec, ...]:
    *batch, rows, columns = x.shape
    vector = spec((*batch, columns), x.dtype)
    beside = spec((*batch, columns - 1), x.dtype)
    return spec((*batch, columns, rows), x.dtype), vector, beside, vector, vector


def _values_spec(diagonal: Spec, beside: Spec, x: Spec) -> Spec:
    return diagonal


def _vectors_spec(
    reduced: Spec, diagonal: Spec, beside: Spec, tauq: Spec, taup: Spec, x: Spec
) -> tuple[Spec, ...]:
    *batch, columns, _ = reduced.shape
    return x, diagonal, spec((*batch, columns, columns), x.dtype)


def _samples(*picked: int) -> list[Sample]:
    """The reduced forms of some matrices: the results that an op reads, then the matrix."""
    found = sample_matrices("bidiagonal", ((3, 3), (4, 3), (2, 2)), ("float64", "float32"))
    return [Sample((*(_reduce_kernel(x)[number] for number in picked), x)) for x in found]


# The matrix has as many rows as columns or more. The results are those of LAPACK's `gebrd`: the
# reflectors, column after column; the diagonal and the one beside it; and the scales of reflectors.
BIDIAGONAL = declare(Op(
    "bidiagonal", "library", spec=_reduce_spec, numpy=over_stacks(_reduce_kernel, _reduce_spec, 2),
    jvp=_LATER, vjp=_LATER, batch=batch_all, sparsity=matrices, solves=True, expensive=True,
    flops=operation_counts.of_matrices(operation_counts.bidiagonal), samples=_samples,
))  # fmt: skip
BIDIAGONAL_VALUES = declare(Op(
    "bidiagonal_values", "library", spec=_values_spec,
    numpy=over_stacks(_values_kernel, _values_spec, 1, 1, 2), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, expensive=True, may_fail=True,
    samples=lambda: _samples(1, 2),
))  # fmt: skip
BIDIAGONAL_VECTORS = declare(Op(
    "bidiagonal_vectors", "library", spec=_vectors_spec,
    numpy=over_stacks(_vectors_kernel, _vectors_spec, 2, 1, 1, 1, 1, 2), jvp=_LATER, vjp=_LATER,
    batch=batch_all, sparsity=dense, expensive=True, may_fail=True,
    flops=operation_counts.of_matrices(operation_counts.vectors_of_bidiagonal),
    samples=lambda: _samples(0, 1, 2, 3, 4),
))  # fmt: skip


def _reduced(x: Node) -> tuple[Node, tuple[Node, ...], bool] | None:
    """A matrix that is not wider than long, its bidiagonal form, and whether it is transposed."""
    if x.ndim != 2 or x.dtype.name not in lapack.LETTERS or x.spec.nbytes > LARGEST:
        return None
    short, long = sorted(x.shape)
    if short < _SMALLEST or long >= _LONG * short:
        return None
    wide = x.shape[0] < x.shape[1]
    if wide:
        x = apply(PERMUTE_DIMS, (x,), ((1, 0),))
    lapack.load()
    return x, tuple(outputs(apply(BIDIAGONAL, (x,)))), wide


def values_by_bidiagonal(x: Node) -> Node | None:
    """The singular values of one large matrix, by its bidiagonal form."""
    found = _reduced(x)
    if found is None:
        return None
    matrix, (_, diagonal, beside, *_), _ = found
    return apply(BIDIAGONAL_VALUES, (diagonal, beside, matrix))


def svd_by_bidiagonal(x: Node, full_matrices: bool) -> tuple[Node, ...] | None:
    """The singular values and vectors of one large matrix, by its bidiagonal form."""
    found = None if full_matrices else _reduced(x)
    if found is None:
        return None
    matrix, form, wide = found
    u, s, vh = outputs(apply(BIDIAGONAL_VECTORS, (*form, matrix)))
    if not wide:
        return u, s, vh
    return apply(PERMUTE_DIMS, (vh,), ((1, 0),)), s, apply(PERMUTE_DIMS, (u,), ((1, 0),))
