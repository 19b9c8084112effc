"""Facts: the words in which an Op tells other stages what kind of op it is."""

from __future__ import annotations

from enum import StrEnum, auto


class Accumulation(StrEnum):
    """How a reduction or a scan combines the elements along its axes."""

    SUM = auto()
    PROD = auto()
    MAX = auto()
    MIN = auto()
    ANY = auto()
    ALL = auto()
    # The position of the first extreme element.
    ARGMAX = auto()
    ARGMIN = auto()
    # Scans only: y[t] = factor[t] * y[t-1] + x[t].
    RECURRENCE = auto()

    @property
    def gives_positions(self) -> bool:
        """Whether the result says where an element stands: the order of axes then matters."""
        return self in (Accumulation.ARGMAX, Accumulation.ARGMIN)
