"""Kernel: one fused loop nest, without sizes. It is its own cache key.

Axes run from the outermost to the innermost, which is vectorised. Sizes, strides, slots and offsets
are run-time arguments, so one kernel serves every size of the same rank and dtypes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gradtape.caches import remembered
from gradtape.compiler.passes.scalar_steps import Apply
from gradtape.config import FEW_SCALAR_OPERANDS
from gradtape.dtypes import DType
from gradtape.ir import Accumulation, NotLowered, Op
from gradtape.ir.math_function import Composition
from gradtape.records import dataclass

_TYPES = {
    "b": "i1",
    "i1": "i8",
    "i2": "i16",
    "i4": "i32",
    "i8": "i64",
    "u1": "i8",
    "u2": "i16",
    "u4": "i32",
    "u8": "i64",
    "f4": "float",
    "f8": "double",
    "c8": "float",
    "c16": "double",
}
BOOL = np.dtype(bool)
INDEX = np.dtype(np.int64)


@remembered(256)
def scalar_type(dtype: DType | str) -> str:
    """The IR type of one element in a register; for complex numbers, of one part.

    Booleans are single bits in registers.
    """
    dtype = np.dtype(dtype)
    found = _TYPES.get(dtype.kind if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}")
    if found is None:
        raise NotLowered(str(dtype))
    return found


def memory_type(dtype: DType | str) -> str:
    """The IR type of one element in memory, where booleans are bytes."""
    return "i8" if np.dtype(dtype).kind == "b" else scalar_type(dtype)


# The step of an operand along the innermost axis; along all others strides are run-time values.
SCALAR, SAME, UNIT, STRIDED = "scalar", "same", "unit", "strided"
# A float sum of n terms in a row has an error that grows with n. Sums therefore add this many terms
# in a row, then this many such sums, and so on: a few levels bound the error as pairwise
# summation does, without a branch per element.
RADIX = 16
# Vectors per chunk of a whole-tensor reduction: fixed, so that results do not depend on threads.
CHUNK = RADIX * RADIX * RADIX


class KernelLayout(Enum):
    """The order of a kernel's axes: which of them are reduced, and which are divided."""

    # No reduction. Threads divide the outermost axis.
    MAP = auto()
    # No reduction. Axes that move the target run in order, and threads divide the innermost.
    SCATTER = auto()
    # The same for single elements: the innermost axis has length 1, and there are no vectors.
    SCATTER_ELEMENTS = auto()
    # The axis before the innermost is walked in order, and every partial result is written.
    RUNNING = auto()
    # The innermost axes are reduced, the others are kept.
    ROWS = auto()
    # The innermost axis is kept and the axes before it are reduced; the outermost ones are kept.
    COLUMNS = auto()
    # All axes are reduced, in chunks of the outermost; each chunk writes one partial result.
    WHOLE = auto()
    # No axes: every element of every array is a scalar of its own (`register_code`).
    REGISTERS = auto()


@dataclass(frozen=True)
class KernelArray:
    """An array that a kernel reads or writes: its dtype, and how it moves along the innermost axis.

    `indices` are the numbers of operands that hold positions, which move its address.
    """

    dtype: str
    access: str
    indices: tuple[int, ...] = ()


class KernelStep(NamedTuple):
    """One op of the body on earlier values, by number; operands are numbered first.

    A tuple is made, hashed and compared by C code: the body of a long program has thousands.
    """

    op: Op
    params: tuple[object, ...]
    arguments: tuple[int, ...]
    dtype: str


class JointCall(NamedTuple):
    """One call for two instructions: a function, and the one beside it, by their positions."""

    function: Composition
    beside: int
    position: int


@dataclass(frozen=True)
class Store:
    """A value written for every point of the iteration space.

    `streaming` writes past the caches, for results that are too large to stay in them.
    `adds` adds the value to the one in memory.
    """

    value: int
    target: KernelArray
    streaming: bool = False
    adds: bool = False


@dataclass(frozen=True)
class Reduce:
    """A value combined over the reduced axes.

    `compared` is the dtype of the values whose positions are found; it is empty for others. In a
    running layout every partial result is written, and `factor` is the number of a second operand.
    """

    value: int
    accumulation: Accumulation
    dtype: str
    access: str
    compared: str = ""
    factor: int = -1


@dataclass(frozen=True)
class Kernel:
    """A loop nest.

    `reduced` is the number of reduced axes: several if some operand cannot walk them as one.
    """

    layout: KernelLayout
    axes: int
    operands: tuple[KernelArray, ...]
    body: tuple[KernelStep, ...]
    stores: tuple[Store, ...]
    reductions: tuple[Reduce, ...]
    reduced: int = 0

    def __hash__(self) -> int:
        # Computed once: a kernel may have thousands of instructions.
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(
            (self.layout, self.axes, self.operands, self.body, self.stores, self.reductions)
        )

    @cached_property
    def tabled(self) -> tuple[int, ...]:
        """The numbers of scalars that are kept in a table, sorted by dtype; none if they are few.

        A long program has hundreds of numbers, each an operand. The arguments hold only the slot
        and the offset of each, after the arguments of all other operands.
        """
        positions = {index for operand in self.operands for index in operand.indices}
        found = [
            number
            for number, operand in enumerate(self.operands)
            if operand.access == SCALAR and not operand.indices and number not in positions
        ]
        if len(found) <= FEW_SCALAR_OPERANDS:
            return ()
        return tuple(sorted(found, key=lambda number: self.operands[number].dtype))

    @cached_property
    def joint(self) -> dict[int, JointCall]:
        """The calls that compute two functions of the body, by the positions of both."""
        return joint_calls(enumerate(self.body))

    @cached_property
    def width(self) -> int:
        """Bytes of the widest number, which decides the number of lanes; a complex one is two."""
        codes = {operand.dtype for operand in self.operands}
        codes |= {instruction.dtype for instruction in self.body}
        codes |= {store.target.dtype for store in self.stores}
        return max(map(_size, codes), default=8)

    @cached_property
    def cost(self) -> int:
        """The rough cost of a point, in loads: it decides whether a second thread is worth it."""
        touched = len(self.operands) + len(self.stores)
        return touched + sum(instruction.op.compiled_cost for instruction in self.body)


def joint_calls(body: Iterable[tuple[int, KernelStep | Apply]]) -> dict[int, JointCall]:
    """The calls that compute two functions of some instructions, by the positions of both."""
    found: dict[int, JointCall] = {}
    calls: dict[tuple[object, tuple[int, ...]], int] = {}
    for position, each in body:
        if each.op.function is not None:
            calls[each.op.function, each.arguments] = position
    for (function, arguments), position in calls.items():
        if isinstance(function, Composition) and function.beside is not None:
            beside = calls.get((function.beside, arguments))
            if beside is not None:
                found[position] = found[beside] = JointCall(function, beside, position)
    return found


def lane_count(kernel: Kernel, bits: int) -> int:
    """Lanes per vector: as many of the widest element as fit, at least two."""
    if kernel.layout is KernelLayout.SCATTER_ELEMENTS:
        return 1
    return max(2, bits // (8 * kernel.width))


def element_bytes(dtype: str) -> int:
    """Bytes of one element in memory, by its dtype code."""
    return int(dtype[1:])


def _size(dtype: str) -> int:
    """Bytes of one real number of a dtype code such as `f8`."""
    if dtype[0] == "c":
        return int(dtype[1:]) // 2
    return int(dtype[1:]) if dtype[0] in "iuf" else 1
