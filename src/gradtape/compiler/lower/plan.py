"""The types that plans share.

A plan is run on *inputs*, a `Value` or a Python number each, and gives *contents*: a buffer of the
pool or a NumPy array each, from which the caller makes Values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.compiler.emit.plans.instructions import Instructions
from gradtape.records import dataclass
from gradtape.trace.value import Content

# A Value or a Python number (in tests also an array): plans distinguish them where they read them.
Input = Any
PlanFunction = Callable[[Sequence[Input]], list[Content]]

# A slot and an offset in bytes.
SlotPlace = tuple[int, int]
# The slots and numbers of one run in memory, and the address of this memory.
RunMemory = tuple[ctypes.Array[ctypes.c_char], int]


@dataclass(frozen=True)
class CallMemory:
    """The places of the operands and results of one node, and its allocation while it runs."""

    operands: Sequence[SlotPlace]
    # Results that are read, by number.
    results: Mapping[int, SlotPlace]
    # Takes some bytes of the arena, for as long as the node is computed.
    take: Callable[[int], SlotPlace]

    def result(self, number: int, nbytes: int) -> SlotPlace:
        """The place of a result; scratch memory if it has no reader."""
        return self.results.get(number) or self.take(nbytes)


@dataclass(frozen=True)
class Stretch:
    """Native instructions that one call runs, on the slots at an address.

    `run` gives a number that is not zero if a kernel has failed.
    """

    run: Callable[[int], int]
    instructions: Instructions
    parallel: bool
    # If true, the instructions are so quick that the call keeps the GIL.
    quick: bool
    # The number of instructions before the first that computes something.
    preparing: int = 0


@dataclass(frozen=True)
class SlotLayout:
    """How a run fills the slots of a compiled plan, which is a single stretch.

    Slots begin with the arena, the numbers and the status; then come input arrays, outputs and
    constant tables.
    """

    # Positions among the inputs: of arrays, and of numbers with their dtypes.
    arrays: Sequence[int]
    scalars: Sequence[tuple[int, np.dtype[Any]]]
    # Offset of each number in the memory of a run.
    offsets: Sequence[int]
    # Sizes of the outputs in bytes, and the order in which they are returned.
    written: Sequence[int]
    order: Sequence[int]
    # The contents of the slots after the outputs, the same in every run.
    unset: Sequence[int]
    # Offset of the status in the memory of a run.
    status: int
    # Bytes of the arena, number of slots, number of ops.
    arena: int
    slots: int
    ops: int
    stretch: Stretch
    # Writes all slots and numbers into the memory of a run.
    pack: Callable[..., None]
    # Numbers of any kind as `struct` takes them.
    converted: Callable[[Sequence[Input]], list[Any]]
    new_memory: Callable[[], RunMemory]
