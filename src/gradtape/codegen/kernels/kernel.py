"""Kernel: the structure of one fused loop nest, without sizes. It is its own cache key.

Axes run from the outermost to the innermost, which is vectorised. Sizes, strides, slots and offsets
are run-time arguments, so one kernel serves every size of the same rank and dtypes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

# How an operand moves along the innermost axis; along all others strides are run-time values.
SCALAR, SAME, UNIT, STRIDED = "scalar", "same", "unit", "strided"
# More scalars than this are not kept in registers, but in a table that is read where one is used.
FEW_SCALARS = 12


@dataclass(frozen=True)
class Operand:
    """Something in memory that a kernel reads or writes.

    `indices` are the numbers of operands that hold positions, which move its address.
    """

    dtype: str
    access: str
    indices: tuple[int, ...] = ()


@dataclass(frozen=True)
class Instruction:
    """One op of the body on earlier values, by number; operands are numbered first."""

    op: Any
    params: tuple[Any, ...]
    arguments: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Store:
    """A value written for every point of the iteration space.

    `streaming` writes past the caches: for results too large to be read from them anyway.
    `adds` adds to what is there.
    """

    value: int
    target: Operand
    streaming: bool = False
    adds: bool = False


@dataclass(frozen=True)
class Reduce:
    """A value combined over the reduced axes: sum, prod, max, min, any, all, argmax, argmin.

    For positions, `compared` is the dtype of the value; elsewhere it is that of the result. In a
    scan, every partial result is written; a `recurrence` multiplies by another value first.
    """

    value: int
    kind: str
    dtype: str
    access: str
    compared: str = ""
    factor: int = -1


@dataclass(frozen=True)
class Kernel:
    """A loop nest: `layout` says what is reduced, and where.

    | layout | axes |
    |---|---|
    | map | no reduction |
    | scatter | no reduction; axes that move the target run in order, the innermost is divided |
    | scan | the axis before the innermost is walked in order, every partial result is written |
    | rows | the innermost axes are reduced, the others are not |
    | columns | the innermost axis is kept; those before it are reduced |
    | all | every axis is reduced, in chunks of the outermost; each writes one partial result |

    `reduced` is the number of reduced axes: more than one where operands walk them differently.
    """

    layout: str
    axes: int
    operands: tuple[Operand, ...]
    body: tuple[Instruction, ...]
    stores: tuple[Store, ...]
    reductions: tuple[Reduce, ...]
    reduced: int = 0

    def __hash__(self) -> int:
        # Found once: a kernel may have thousands of instructions.
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(
            (self.layout, self.axes, self.operands, self.body, self.stores, self.reductions)
        )

    @cached_property
    def tabled(self) -> tuple[int, ...]:
        """The scalars that are kept in a table, if they are many: those of one dtype together.

        Of each, the arguments hold no more than its place, after those of all else. A long
        program has hundreds of numbers, each an operand.
        """
        positions = {index for operand in self.operands for index in operand.indices}
        found = [
            number
            for number, operand in enumerate(self.operands)
            if operand.access == SCALAR and not operand.indices and number not in positions
        ]
        if len(found) <= FEW_SCALARS:
            return ()
        return tuple(sorted(found, key=lambda number: self.operands[number].dtype))

    @cached_property
    def width(self) -> int:
        """Bytes of the widest number, which decides how many lanes fit; a complex one is two."""
        codes = {operand.dtype for operand in self.operands}
        codes |= {instruction.dtype for instruction in self.body}
        codes |= {store.target.dtype for store in self.stores}
        return max(map(np_size, codes), default=8)

    @cached_property
    def cost(self) -> int:
        """Rough cost of a point in loads, to decide what is worth a second thread."""
        found = len(self.operands) + len(self.stores)
        for instruction in self.body:
            found += 1 if instruction.op.name in _CHEAP else 8
        return found


_CHEAP = frozenset({
    "add", "subtract", "multiply", "negative", "square", "where", "full", "cast", "maximum",
    "minimum", "abs", "less", "greater", "equal", "not_equal", "less_equal", "greater_equal",
    "logical_and", "logical_or", "logical_not", "relu", "divide", "reciprocal",
})  # fmt: skip


def np_size(dtype: str) -> int:
    if dtype[0] == "c":
        return int(dtype[1:]) // 2
    return int(dtype[1:]) if dtype[0] in "iuf" else 1
