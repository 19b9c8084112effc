"""Pending matrices: sparse derivatives inside a captured function, with a tensor for the entries.

Reading the entries reads values out of the function, as with any tensor. A matrix that is only
returned is made from the computed entries in every replay.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gradtape.sparsity.pattern import Pattern, SparseMatrix

# The class, once it was made: it derives from SciPy's, which is slow to import.
_made: list[type] = []


@lru_cache(maxsize=1)
def _kind() -> type:
    from scipy.sparse import csr_array  # slow to import

    class PendingMatrix(csr_array):
        """A CSR array whose entries are a tensor until somebody looks at them."""

        pattern: Pattern
        entries: Any

        @property
        def data(self) -> Any:
            found = self.__dict__.get("data")
            if found is None:
                found = self.__dict__["data"] = self.entries.numpy().copy()
            return found

        @data.setter
        def data(self, new: Any) -> None:
            self.__dict__["data"] = new

        @property
        def dtype(self) -> Any:
            return self.entries.dtype if self.__dict__.get("data") is None else self.data.dtype

        @dtype.setter
        def dtype(self, new: Any) -> None:
            self.data = self.data.astype(new)

    _made.append(PendingMatrix)
    return PendingMatrix


def pending_matrix(pattern: Pattern, entries: Any) -> SparseMatrix:
    """The matrix with a tensor for the entries of a pattern."""
    found = pattern.with_data(None, _kind())
    found.pattern, found.entries = pattern, entries
    return found


def is_pending(thing: object) -> bool:
    """Whether an object is a pending matrix whose entries nobody has read."""
    return type(thing) in _made and thing.__dict__.get("data") is None
