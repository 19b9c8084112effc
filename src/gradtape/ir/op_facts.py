"""Facts: the types with which an Op declares to other stages what kind of op it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum, StrEnum, auto
from typing import Any

from gradtape.records import dataclass


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
    # The sum of squared distances from the mean.
    SQUARED_DEVIATIONS = auto()
    # Scans only: y[t] = factor[t] * y[t-1] + x[t].
    RECURRENCE = auto()

    @property
    def gives_positions(self) -> bool:
        """Whether the result says where an element stands: the order of axes then matters."""
        return self in (Accumulation.ARGMAX, Accumulation.ARGMIN)

    @property
    def joins_results(self) -> bool:
        """Whether the results for parts of the elements are enough for the result of all."""
        return not self.gives_positions and self is not Accumulation.SQUARED_DEVIATIONS


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


@dataclass(frozen=True)
class NestAxis:
    """One loop of a sum of products: its length, and how each tensor is walked along it.

    `a` and `b` are an axis of the operand and the step along that, or None if the operand does not
    change; `c` is an axis of the result and the step along it.
    """

    length: int
    a: tuple[int, int] | None = None
    b: tuple[int, int] | None = None
    c: tuple[int, int] | None = None


@dataclass(frozen=True)
class Nest:
    """The loops of a sum of products that fills a part of the result.

    `depth` has the loops that the result does not have; if one of them is empty, the part is
    filled with zeros. `starts` has the index of the first element of each operand and of the
    result. Several nests whose parts are not disjoint come in an order, and all but the first of
    them `adds` to what those before it have written.
    """

    batch: tuple[NestAxis, ...]
    rows: tuple[NestAxis, ...]
    columns: tuple[NestAxis, ...]
    depth: tuple[NestAxis, ...]
    starts: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    adds: bool = False

    @property
    def work(self) -> int:
        """The number of multiplications."""
        axes = (*self.batch, *self.rows, *self.columns, *self.depth)
        return math.prod(axis.length for axis in axes)


@dataclass(frozen=True)
class Spectrum:
    """An op gives eigenvalues or singular values of its operand, and perhaps their vectors.

    Where values are equal, the derivative of their vectors has a pole, and `jvp` leaves its share
    out. In a function that does not depend on the choice of vectors the pole meets a zero, and the
    share is a derivative by the values: see `autodiff.modes`.

    | field | what it gives |
    |---|---|
    | kind | ops of one kind have the same values for the same operand |
    | values | which output the values are |
    | direction | `direction(values)` → a change of the values after which no two are equal |
    | poles | `poles(tangent, y, power)` → tangents of the outputs, None for the values: what |
    | | `jvp` leaves out, with 1 / pole replaced by pole^(power-1) / slope^power, where the slope |
    | | is that of the pole along the direction |
    """

    kind: str
    values: int
    direction: Callable[..., Any]
    poles: Callable[..., Any] | None = None
