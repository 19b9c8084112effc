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
# Matrices per block: what a step reads stays in the cache.
_BLOCK = 1024


def are_small(batch: tuple[int, ...], n: int) -> bool:
    """Whether a stack of n×n matrices is better computed together."""
    return 0 < n <= _LARGEST and math.prod(batch) >= _FEWEST


def cholesky(x: Array) -> Array | None:
    """The lower Cholesky factors of Hermitian matrices; None if one is not positive definite."""
    n = x.shape[-1]
    found = np.zeros(x.shape, x.dtype)
    for block, into in zip(_blocks(x), _blocks(found), strict=True):
        factor = _innermost(block)
        for j in range(n):
            pivot = factor[j, j].real
            # Also false for NaN.
            if not np.all(pivot > 0):
                return None
            factor[j:, j] /= np.sqrt(pivot)
            for k in range(j + 1, n):
                factor[k:, k] -= factor[k:, j] * np.conj(factor[k, j])
        rows, columns = np.tril_indices(n)
        into[:, rows, columns] = factor[rows, columns].T
    return found


def solve_triangular(a: Array, b: Array, lower: bool, unit_diagonal: bool) -> Array | int:
    """The x with a @ x = b, or the position of a 0 on the diagonal of a matrix."""
    n = a.shape[-1]
    order = range(n) if lower else range(n - 1, -1, -1)
    result = np.empty(b.shape, b.dtype)
    for block, right, into in zip(_blocks(a), _blocks(b), _blocks(result), strict=True):
        matrices, x = _innermost(block), _innermost(right)
        for done, i in enumerate(order):
            if not unit_diagonal:
                if not np.all(matrices[i, i]):
                    return i
                x[i] /= matrices[i, i]
            for k in order[done + 1 :]:
                x[k] -= matrices[k, i] * x[i]
        into[...] = np.moveaxis(x, -1, 0)
    return result


def _blocks(x: Array) -> Iterator[Array]:
    """The matrices of a stack, some at a time; writing to a block of a new array writes to it."""
    flat = x.reshape(-1, *x.shape[-2:])
    for start in range(0, len(flat), _BLOCK):
        yield flat[start : start + _BLOCK]


def _innermost(block: Array) -> Array:
    """A copy with the axis of the stack last."""
    return np.array(np.moveaxis(block, 0, -1), order="C")
