"""Sparse LU factors, of which each thread remembers the last.

The factors of a sparse matrix are no arrays, so that programs cannot pass them on. A solution and
its derivatives have the same matrix, and mostly follow each other: comparing its entries takes a
hundredth of the time of factoring it.
"""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakSet

import numpy as np

from gradtape.dtypes import Array
from gradtape.errors import MatrixError

# The largest factors that are remembered, in bytes.
_REMEMBERED = 64 << 20


class _Last:
    """A matrix by its entries, rows and columns, and its factors."""

    key: tuple[Any, ...] = ()
    arrays: tuple[Array, ...] = ()
    factors: Any = None


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.last = _Last()
        _all.add(self.last)


_all: WeakSet[_Last] = WeakSet()
_of_thread = _OfThread()


def forget() -> None:
    """Forget the factors that all threads remember."""
    for last in list(_all):
        last.key, last.arrays, last.factors = (), (), None


def factored(size: int, dtype: np.dtype[Any], arrays: tuple[Array, ...]) -> Any:
    """SciPy's factors of the matrix with these entries, rows and columns."""
    last, key = _of_thread.last, (size, dtype, *(x.dtype for x in arrays))
    found = last.factors
    if key == last.key and all(map(_same, arrays, last.arrays)) and found is not None:
        return found
    found = _factored(size, dtype, arrays)
    if found.nnz * dtype.itemsize <= _REMEMBERED:
        # Those of a running plan change later.
        last.key, last.arrays, last.factors = key, tuple(map(np.array, arrays)), found
    return found


def _same(x: Array, y: Array) -> bool:
    """Whether arrays are equal; those with NaN never are."""
    return x.shape == y.shape and bool(np.array_equal(x, y))


def _factored(size: int, dtype: np.dtype[Any], arrays: tuple[Array, ...]) -> Any:
    # SciPy is loaded at first use: importing it takes longer than importing gradtape.
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    entries, rows, columns = arrays
    matrix = coo_array((entries.astype(dtype), (rows, columns)), shape=(size, size))
    try:
        return splu(matrix.tocsc())
    except RuntimeError as error:
        if "singular" not in str(error):
            raise
        raise MatrixError(
            f"solve: a sparse matrix of shape {matrix.shape} is singular ({error}). "
            "Add a multiple of the identity."
        ) from None
