"""Facts: the words in which an Op tells other stages what kind of op it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class View(Enum):
    """How the elements of a result lie in the memory of its first operand.

    The comment names the params that a stage may read from a node of that kind. A slice is a view
    only if it has one operand: with more, the others are starts that are known when it runs.
    """

    RESHAPE = auto()  # shape
    BROADCAST = auto()  # shape
    PERMUTE = auto()  # axes
    SLICE = auto()  # starts, lengths, steps, shape
    # The result shares memory in NumPy, in a way that no stage follows.
    OTHER = auto()


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


class Join(Enum):
    """How an op lays its operands side by side, along the axis that is its one param."""

    CONCAT = auto()
    # Along a new axis.
    STACK = auto()


@dataclass(frozen=True)
class Linear:
    """The operands in which an element-wise op is linear.

    `together`: the result is a sum with one term for each of them, as of `add`. Otherwise it is
    linear in each while the others are constant, as a product is.
    """

    operands: tuple[int, ...]
    together: bool = False
