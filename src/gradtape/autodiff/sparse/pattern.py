"""Patterns: the entries of a matrix that can be nonzero."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from gradtape.autodiff.sparse.drawing import drawn
from gradtape.display import Text
from gradtape.dtypes import Array
from gradtape.errors import SparsityError
from gradtape.records import dataclass

# A scipy.sparse.csr_array. SciPy is slow to import, so its classes are no annotations here.
SparseMatrix = Any


@dataclass(frozen=True, eq=False, repr=False)
class Pattern:
    """The entries of a matrix that can be nonzero, by rows, with sorted columns.

    `dense` says that every entry counts as nonzero; a dense pattern that is too large to list has
    no `indptr` and `indices`. `notes` are sentences on where detection gave up precision.

    >>> pattern = gt.sparsity_pattern(lambda x: x[1:] * x[:-1], np.ones(4))
    >>> pattern
    Pattern of shape (3, 4), 6 of 12 entries
    >>> pattern.toarray().astype(int).tolist()
    [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """

    shape: tuple[int, int]
    rows: tuple[Array, Array] | None = field(default=None)
    dense: bool = False
    notes: tuple[str, ...] = ()

    def _listed(self) -> tuple[Array, Array]:
        if self.rows is None:
            raise SparsityError(
                f"pattern: a dense pattern of shape {self.shape} is too large to be listed entry "
                "by entry. Use a dense Jacobian, or raise the budget of the detection."
            )
        return self.rows

    @property
    def indptr(self) -> Array:
        """The position in `indices` at which each row begins."""
        return self._listed()[0]

    @property
    def indices(self) -> Array:
        """The columns of the entries, row by row."""
        return self._listed()[1]

    @property
    def nnz(self) -> int:
        """The number of entries that can be nonzero."""
        if self.rows is None:
            return self.shape[0] * self.shape[1]
        return len(self.indices)

    @cached_property
    def row_numbers(self) -> Array:
        """The row of each entry."""
        counts = np.diff(self.indptr)
        return np.repeat(np.arange(self.shape[0], dtype=self.indices.dtype), counts)

    @cached_property
    def transposed(self) -> Pattern:
        """The pattern of the transpose."""
        if self.rows is None:
            return Pattern(self.shape[::-1], None, self.dense, self.notes)
        turned = self.matrix.T.tocsr()
        return Pattern(self.shape[::-1], (turned.indptr, turned.indices), self.dense, self.notes)

    def keeping(self, kept: Array) -> Pattern:
        """The pattern with those of its entries at which `kept` is true."""
        if kept.all():
            return self
        counts = np.bincount(self.row_numbers[kept], minlength=self.shape[0])
        return listed_pattern(self.shape, np.append(0, np.cumsum(counts)), self.indices[kept])

    def with_transpose(self) -> Pattern:
        """The symmetric pattern of the entries of this one and of its transpose."""
        both = self.matrix + self.transposed.matrix
        return listed_pattern(self.shape, both.indptr, both.indices, self.notes)

    @cached_property
    def digest(self) -> bytes:
        """A hash that is the same for equal patterns."""
        # It loads OpenSSL, which takes longer than most of our packages.
        import hashlib

        rows = (np.zeros(0), np.zeros(0)) if self.rows is None else self.rows
        hashed = hashlib.blake2b(repr((self.shape, self.dense)).encode())
        for array in rows:
            hashed.update(np.ascontiguousarray(array, np.int64).tobytes())
        return hashed.digest()

    @property
    def matrix(self) -> SparseMatrix:
        """The pattern as a boolean `scipy.sparse.csr_array`."""
        return self.with_data(np.ones(len(self.indices), bool))

    def with_data(self, data: Array | None, kind: type | None = None) -> SparseMatrix:
        """The `scipy.sparse.csr_array` with these values at the entries, in their order.

        All matrices made from one pattern share its index arrays, which are read-only: SciPy's
        methods that change the structure in place work on a copy only.
        """
        template = self._template
        found: SparseMatrix = object.__new__(type(template) if kind is None else kind)
        found.__dict__.update(template.__dict__)
        found.data = data
        return found

    @cached_property
    def _template(self) -> SparseMatrix:
        # SciPy's constructor checks the indices each time, which takes as long as computing a small
        # matrix.
        from scipy.sparse import csr_array  # slow to import

        data = np.zeros(len(self.indices), bool)
        found = csr_array((data, self.indices, self.indptr), shape=self.shape)
        found.has_canonical_format = True
        found.indices.flags.writeable = False
        found.indptr.flags.writeable = False
        return found

    def toarray(self) -> Array:
        """The pattern as a boolean NumPy array."""
        if self.rows is None:
            return np.ones(self.shape, bool)
        found: Array = self.matrix.toarray()
        return found

    def _repr_html_(self) -> str:
        """The entries as dots, for notebooks."""
        return Text(f"{self!r}\n{drawn(self)}")._repr_html_()

    def __repr__(self) -> str:
        total = self.shape[0] * self.shape[1]
        count = "all" if self.dense else f"{self.nnz} of"
        return f"Pattern of shape {self.shape}, {count} {total} entries"


def pattern_of(matrix: Any) -> Pattern:
    """The stored entries of a sparse matrix, or the nonzero entries of an array."""
    from scipy.sparse import csr_array  # slow to import

    if not hasattr(matrix, "tocsr"):
        matrix = np.asarray(matrix)
    if matrix.ndim != 2 or matrix.dtype.kind not in "biufc":
        raise SparsityError(
            f"expected a matrix of numbers as the pattern, got shape {matrix.shape} and dtype "
            f"{matrix.dtype}. Give a row for each element of the target and a column for each of "
            "the source, nonzero where the derivative can be."
        )
    found = csr_array(matrix, copy=True)
    found.sum_duplicates()
    return listed_pattern(found.shape, found.indptr, found.indices)


def listed_pattern(
    shape: tuple[int, int], indptr: Array, indices: Array, notes: tuple[str, ...] = ()
) -> Pattern:
    """The pattern with these entries, in SciPy's CSR form."""
    full = len(indices) == shape[0] * shape[1]
    return Pattern(shape, (indptr, indices), full, notes)
