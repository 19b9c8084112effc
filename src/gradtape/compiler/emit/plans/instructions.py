"""The instructions of a plan in memory, as `run_plan` reads them, and the signature of a kernel.

A kernel is `void kernel(ptr slots, ptr args, i64 lo, i64 hi, i64 part)`: it works on the part
[lo, hi) of its range. `slots` holds the addresses of the buffers of this run; `args` are words that
never change. So one compiled plan serves all runs, on whatever buffers they have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence

from gradtape.compiler.emit.writer import Routine
from gradtape.compiler.objects.llvm import NativeFunction
from gradtape.records import dataclass

# Slots with fixed roles: the arena, the numbers, and the address of the status of the run, a word
# that a kernel sets to one if it cannot compute its result.
ARENA, SCALARS, STATUS = 0, 1, 2
# The first slot of the others.
FIRST = 3

# Words of an instruction.
INSTRUCTION = (
    "function",
    "args",
    "total",
    "grain",
    "parallel",
    "work",
    "always",
    # The same four for runs that are not timed, in which the first of a chain runs all of it; the
    # function is null in the others of a chain.
    "joint_function",
    "joint_args",
    "joint_total",
    "joint_grain",
    "times",
)
WORDS = len(INSTRUCTION)
# Words before the first instruction, in which timed runs are counted: see `timing`.
HEADER_WORDS = 4
# Words of a part of a bundle: its function, the address of its arguments, and its total.
PART_WORDS = 3
# Words of the times of one instruction: cycles of shared runs, and of serial runs.
TIME_WORDS = 2


def kernel_routine(name: str, attributes: str = "") -> Routine:
    """The empty routine of a kernel."""
    head = f"void @{name}(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part)"
    return Routine(head + attributes)


def write_failure(r: Routine) -> None:
    """Set the status of the run: the plan stops after this instruction."""
    r.store_shared(1, r.pointer("%slots", 8 * STATUS))


@dataclass(frozen=True)
class Chain:
    """How an instruction and those after it run for some rows at a time: see `bundles`.

    There are `total` rows. Instruction k has `scales[k]` numbers of its range per row.
    """

    function: int
    total: int
    rows_at_once: int
    scales: tuple[int, ...]


@dataclass(frozen=True)
class Instruction:
    """A kernel, its constant words, and how its range may be cut.

    The range [0, total) is cut at multiples of `grain`, into at most one part per thread.
    """

    # An address, or a function that is compiled with the others of its plan.
    function: int | NativeFunction
    arguments: Sequence[int]
    total: int
    grain: int = 1
    parallel: bool = False
    # About how many operands it loads: after much work the plan checks for pending signals.
    work: int = 0
    # Whether it runs even if an interrupt has stopped the plan.
    always: bool = False
    # Holds the machine code of the function, if that may be freed.
    code: object = None
    # The chain that begins with this instruction.
    chain: Chain | None = None
    # The instructions that a bundle runs: see `bundles`.
    parts: tuple[Instruction, ...] = ()

    def functions(self) -> Iterator[int | NativeFunction]:
        """The functions that it calls."""
        yield self.function
        for part in self.parts:
            yield from part.functions()


def _address(function: int | NativeFunction) -> int:
    return function if isinstance(function, int) else function.module.address(function.name)


class Instructions:
    """Instructions as `run_plan` reads them. The object must live while they may run."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.count = len(instructions)
        self._code = [each.code for each in instructions if each.code is not None]
        self.parallel = any(each.parallel for each in instructions)
        self._parts: list[ctypes.Array[ctypes.c_int64]] = []
        arguments = [[*each.arguments, *self._bundled(each.parts)] for each in instructions]
        sizes = [len(each) for each in arguments]
        self._arguments = (ctypes.c_int64 * sum(sizes))()
        self._words = (ctypes.c_int64 * (HEADER_WORDS + WORDS * self.count))()
        self.address = ctypes.addressof(self._words) + 8 * HEADER_WORDS
        self._times = (ctypes.c_int64 * (TIME_WORDS * max(self.count, 1)))()
        self._chains: list[ctypes.Array[ctypes.c_int64]] = []
        base, start = ctypes.addressof(self._arguments), 0
        places: list[int] = []
        for own_words, size in zip(arguments, sizes, strict=True):
            self._arguments[start : start + size] = list(own_words)
            places.append(base + 8 * start)
            start += size
        chained = 0
        for index, (each, place) in enumerate(zip(instructions, places, strict=True)):
            own = [_address(each.function), place, each.total, max(each.grain, 1)]
            joint = own
            if each.chain is not None:
                chained = len(each.chain.scales)
                members = slice(index, index + chained)
                joint = self._chained(each.chain, instructions[members], places[members])
            elif chained:
                joint = [0, 0, 0, 1]
            chained = max(0, chained - 1)
            flags = [int(each.parallel), each.work, int(each.always)]
            times = ctypes.addressof(self._times) + 8 * TIME_WORDS * index
            row = HEADER_WORDS + index * WORDS
            self._words[row : row + WORDS] = [*own, *flags, *joint, times]

    def _bundled(self, parts: Sequence[Instruction]) -> list[int]:
        """The words of the parts of a bundle."""
        words: list[int] = []
        for part in parts:
            arguments = (ctypes.c_int64 * len(part.arguments))(*part.arguments)
            self._parts.append(arguments)
            words += [_address(part.function), ctypes.addressof(arguments), part.total]
        return words

    def _chained(
        self, chain: Chain, members: Sequence[Instruction], places: Sequence[int]
    ) -> list[int]:
        """The joint words of the first of a chain."""
        words = [len(chain.scales), 1, chain.rows_at_once]
        for each, place, scale in zip(members, places, chain.scales, strict=True):
            words += [_address(each.function), place, scale]
        table = (ctypes.c_int64 * len(words))(*words)
        self._chains.append(table)
        return [chain.function, ctypes.addressof(table), chain.total, 1]

    def counted(self) -> tuple[int, int, int, int]:
        """Of timed runs: how many, their cycles, how many were serial, and the cycles of those."""
        runs, cycles, serial, spent = self._words[:HEADER_WORDS]
        return runs, cycles, serial, spent

    def cycles(self) -> int:
        """The cycles of all timed runs."""
        return self._words[1]

    def times(self) -> list[tuple[int, int]]:
        """For each instruction: cycles in timed runs with the team, and in serial ones."""
        flat = self._times
        return [(flat[at], flat[at + 1]) for at in range(0, TIME_WORDS * self.count, TIME_WORDS)]
