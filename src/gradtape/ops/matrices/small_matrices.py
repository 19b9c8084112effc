"""Many small matrices at once: NumPy kernels that compute one element of all of them at a time.

A call of LAPACK costs a microsecond or more, which is many times the arithmetic of a 6×6 matrix.
Here the stack is the innermost axis, so that every NumPy call works on a long vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gradtape.dtypes import Array

# Larger matrices, or fewer of them, go to LAPACK one by one.
_LARGEST = 16
_FEWEST = 32
# Elements per block, and matrices at least: what a step reads and writes stays in the cache.
_BLOCK = 65_536
_SMALLEST_BLOCK = 64
# Above this order the half of a matrix that nobody needs costs more than a call for each column.
_AT_ONCE = 8


def are_small(batch: tuple[int, ...], n: int) -> bool:
    """Whether a stack of n×n matrices is better computed together."""
    return 0 < n <= _LARGEST and math.prod(batch) >= _FEWEST


def cholesky(x: Array) -> Array | None:
    """The lower Cholesky factors of Hermitian matrices; None if one is not positive definite."""
    n = x.shape[-1]
    found = np.zeros(x.shape, x.dtype)
    lower = np.tril_indices(n)
    real = x.dtype.kind == "f"
    for block, into in zip(_blocks(x, n), _blocks(found, n), strict=True):
        factor = _innermost(block)
        for j in range(n):
            pivot = factor[j, j].real
            # Also false for NaN.
            if not (pivot > 0).all():
                return None
            column = factor[j:, j]
            column /= np.sqrt(pivot)
            rest = column[1:]
            other = rest if real else np.conj(rest)
            if n <= _AT_ONCE:
                # All columns to the right; what lies above the diagonal is not read again.
                factor[j + 1 :, j + 1 :] -= rest[:, None] * other
                continue
            for k in range(j + 1, n):
                factor[k:, k] -= column[k - j :] * other[k - j - 1]
        into[:, *lower] = factor[lower].T
    return found


def solve_triangular(a: Array, b: Array, lower: bool, unit_diagonal: bool) -> Array | int:
    """The x with a @ x = b, or the position of a 0 on the diagonal of a matrix."""
    n, columns = b.shape[-2:]
    order = range(n) if lower else range(n - 1, -1, -1)
    result = np.empty(b.shape, b.dtype)
    width = max(n, columns)
    parts = zip(_blocks(a, width), _blocks(b, width), _blocks(result, width), strict=True)
    for block, right, into in parts:
        matrices, x = _innermost(block), _innermost(right)
        for i in order:
            if not unit_diagonal:
                pivot = matrices[i, i]
                if not pivot.all():
                    return i
                x[i] /= pivot
            rest = slice(i + 1, None) if lower else slice(0, i)
            x[rest] -= matrices[rest, i][:, None] * x[i]
        into[...] = x.transpose(2, 0, 1)
    return result


def _blocks(x: Array, width: int) -> Iterator[Array]:
    """The matrices of a stack, some at a time; writing to a block of a new array writes to it."""
    flat = x.reshape(-1, *x.shape[-2:])
    size = max(_SMALLEST_BLOCK, _BLOCK // (width * width))
    for start in range(0, len(flat), size):
        yield flat[start : start + size]


def _innermost(block: Array) -> Array:
    """A copy with the axis of the stack last."""
    return np.array(block.transpose(1, 2, 0), order="C")
