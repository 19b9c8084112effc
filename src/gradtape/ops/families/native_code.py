"""NativeCall: how a compiled plan computes an op that is no loop, by a routine of native code.

The rule `native(y)` of an Op gives one for a node, or None if it has none for these shapes and
dtypes. Routines are written in `compiler/emit/library`, one for each name and set of options; all
else is known to the plan alone, so one routine serves all sizes.
"""

from __future__ import annotations

from gradtape.records import dataclass


@dataclass(frozen=True)
class NativeCall:
    """A routine and its constant words.

    A routine computes `total` independent items, of which each thread takes a part. Operands and
    results are contiguous in memory.
    """

    # The name of the routine in `compiler/emit/library`, and what its text depends on.
    routine: str
    options: tuple[str, ...]
    words: tuple[int, ...]
    total: int = 1
    # The cost of all items, in operand loads.
    work: int = 0
    # Bytes of memory that each thread needs beside operands and results.
    scratch: int = 0
    # Whether it calls BLAS or LAPACK, which then runs on one thread.
    calls_library: bool = False
    # Whether it shares parts of its one item with the thread team itself: its last word is the
    # address of the word that holds the team.
    shares: bool = False
    # Bytes that all threads share; the routine has them as one more result.
    shared: int = 0
