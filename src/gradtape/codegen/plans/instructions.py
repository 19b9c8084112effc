"""The instructions of a plan in memory, as `run_plan` reads them, and the signature of a kernel.

A kernel is `void kernel(ptr slots, ptr args, i64 lo, i64 hi, i64 part)`: it works on the part
[lo, hi) of its range. `slots` holds the addresses of the buffers of this run; `args` are words that
never change. So one compiled plan serves all runs, on whatever buffers they have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from gradtape.codegen.routine import Routine
from gradtape.process.records import dataclass

# Words of an instruction: function, args, total, grain, parallel, work, always, and the address of
# its times.
WORDS = 8
# Words before the first instruction, in which timed runs are counted: see `timing`.
HEADER_WORDS = 4
# Words of the times of one instruction: cycles of shared runs, and of serial runs.
TIME_WORDS = 2


def kernel_routine(name: str) -> Routine:
    """The empty routine of a kernel."""
    return Routine(f"void @{name}(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %part)")


@dataclass(frozen=True)
class Instruction:
    """A kernel, its constant words, and how its range may be cut.

    The range [0, total) is cut at multiples of `grain`, into at most one part per thread.
    """

    function: int
    arguments: Sequence[int]
    total: int
    grain: int = 1
    parallel: bool = False
    # About how many operands it loads: after much work the plan asks for pending signals.
    work: int = 0
    # Whether it runs even if an interrupt has stopped the plan.
    always: bool = False
    # Holds the machine code of the function, if that may be freed.
    code: object = None


class Instructions:
    """Instructions as `run_plan` reads them. The object must live while they may run."""

    __slots__ = (
        "__weakref__", "_arguments", "_code", "_times", "_words", "address", "count", "parallel",
    )  # fmt: skip

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.count = len(instructions)
        self._code = [each.code for each in instructions if each.code is not None]
        self.parallel = any(each.parallel for each in instructions)
        sizes = [len(each.arguments) for each in instructions]
        self._arguments = (ctypes.c_int64 * sum(sizes))()
        self._words = (ctypes.c_int64 * (HEADER_WORDS + WORDS * self.count))()
        self.address = ctypes.addressof(self._words) + 8 * HEADER_WORDS
        self._times = (ctypes.c_int64 * (TIME_WORDS * max(self.count, 1)))()
        start = 0
        for index, (each, size) in enumerate(zip(instructions, sizes, strict=True)):
            self._arguments[start : start + size] = list(each.arguments)
            row = HEADER_WORDS + index * WORDS
            self._words[row : row + WORDS] = [
                each.function,
                ctypes.addressof(self._arguments) + 8 * start,
                each.total,
                max(each.grain, 1),
                int(each.parallel),
                each.work,
                int(each.always),
                ctypes.addressof(self._times) + 8 * TIME_WORDS * index,
            ]
            start += size

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
