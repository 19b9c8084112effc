"""Pending matrices: sparse derivatives inside a captured function, whose entries are not known yet.

Whoever looks at the entries reads numbers out of the function, as with any tensor. A matrix that is
only returned is made anew of the entries in every later call.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

# The class, once there is one: it needs SciPy.
_made: list[type] = []


@lru_cache(maxsize=1)
def _kind() -> Any:
    from scipy.sparse import csr_array

    class PendingMatrix(csr_array):
        """A CSR array whose entries are a tensor until somebody looks at them."""

        pattern: Any
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


def pending_matrix(pattern: Any, entries: Any) -> Any:
    """A matrix with a tensor for the entries of a pattern."""
    found = pattern.with_data(None, _kind())
    found.pattern, found.entries = pattern, entries
    return found


def is_pending(thing: Any) -> bool:
    """Whether something is a matrix whose entries nobody has looked at."""
    return type(thing) in _made and thing.__dict__.get("data") is None
