"""Chains of loops: which loops that follow one another may run for some rows at a time.

A loop divides its range into rows: the part of its arrays at one index of its outermost axis. Loops
may be a chain if no row of one reads or writes what another row of another one writes. Places in
memory decide this, because values share the arena.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from gradtape.codegen import llvm
from gradtape.codegen.kernels.arguments import Lowered
from gradtape.codegen.kernels.kernel import Kernel, Layout, element_bytes
from gradtape.codegen.plans.chains import chain_ir
from gradtape.codegen.plans.instructions import Chain
from gradtape.graph.node import Node
from gradtape.process.records import dataclass
from gradtape.runtime.plan import Place

# A loop and the places of its values.
Placed = tuple[Lowered, Mapping[Node | str, Place]]

# Bytes of the rows that a chain works on at once: half of a small second-level cache.
AT_ONCE = 1 << 18
# A chain is worth it if so many bytes are read again by a later loop.
LEAST_SHARED = 1 << 20
# The most loops of a chain.
LONGEST = 8


@dataclass(frozen=True)
class Access:
    """The bytes of a slot that one loop uses: `length` from `start` on, moved by `step` per row."""

    slot: int
    start: int
    length: int
    step: int
    written: bool

    def end(self, rows: int) -> int:
        """One past the last byte, if the step is not negative."""
        return self.start + (rows - 1) * self.step + self.length


@dataclass(frozen=True)
class Rows:
    """The accesses of a loop at each number of its range."""

    total: int
    accesses: Sequence[Access]

    def scaled(self, rows: int) -> list[Access]:
        """The same for rows of several numbers each."""
        scale = self.total // rows
        return [
            dataclasses.replace(
                each, length=each.length + (scale - 1) * each.step, step=each.step * scale
            )
            for each in self.accesses
        ]


def rows_of(placed: Placed) -> Rows | None:
    """How a loop works row by row; None if it does not."""
    (lowered, places), kernel = placed, placed[0].kernel
    if not _goes_by_rows(kernel) or lowered.total != lowered.sizes[0] or lowered.total < 2:
        return None
    dtypes = [operand.dtype for operand in kernel.operands]
    dtypes += [store.target.dtype for store in kernel.stores]
    dtypes += [reduction.dtype for reduction in kernel.reductions]
    accesses = []
    for number, (owner, offset, strides) in enumerate(lowered.entries):
        if any(stride < 0 for stride in strides):
            return None
        slot, start = places[owner]
        step, *inner = (*strides, *[0] * (kernel.axes - len(strides)))
        length = element_bytes(dtypes[number]) + sum(
            (n - 1) * stride for n, stride in zip(lowered.sizes[1:], inner, strict=True)
        )
        shift = 0 if isinstance(owner, str) else offset
        written = number >= len(kernel.operands)
        accesses.append(Access(slot, start + shift, length, step, written))
    return Rows(lowered.total, accesses)


def _goes_by_rows(kernel: Kernel) -> bool:
    """Whether the range of a kernel is its outermost axis, and indices say which bytes it uses."""
    if kernel.layout is Layout.ROWS:
        by_rows = kernel.axes > kernel.reduced
    else:
        by_rows = kernel.layout is Layout.MAP
    # Stores past the caches need vectors that are aligned, and leave nothing to read again.
    return (
        by_rows
        and not any(operand.indices for operand in kernel.operands)
        and not any(s.adds or s.streaming or s.target.indices for s in kernel.stores)
    )


def _meet(a: Access, b: Access, rows: int) -> bool:
    """Whether two loops use common bytes."""
    return a.slot == b.slot and a.start < b.end(rows) and b.start < a.end(rows)


def _by_rows(a: Access, b: Access) -> bool:
    """Whether common bytes of two loops are in the same row of both."""
    start, end = min(a.start, b.start), max(a.start + a.length, b.start + b.length)
    return a.step == b.step and end - start <= a.step


def _may_follow(members: Sequence[Sequence[Access]], rows: int) -> bool:
    """Whether rows of the last loop are independent of other rows of those before, and beside."""
    *before, last = members
    beside = False
    for accesses in before:
        for a in accesses:
            for b in last:
                if not _meet(a, b, rows):
                    continue
                aligned = _by_rows(a, b)
                if (a.written or b.written) and not aligned:
                    return False
                beside = beside or aligned
    return beside


def chain_of(loops: Sequence[Placed | None]) -> Chain | None:
    """The chain that begins with the first of some loops; None stands for anything else."""
    found: list[Rows] = []
    best: Chain | None = None
    for loop in loops[:LONGEST]:
        rows = None if loop is None else rows_of(loop)
        if rows is None:
            break
        found.append(rows)
        if len(found) > 1:
            total = min(each.total for each in found)
            if any(each.total % total for each in found):
                break
            members = [each.scaled(total) for each in found]
            # The fewest numbers may be those of the last loop, so all are looked at again.
            if not all(_may_follow(members[:end], total) for end in range(2, len(members) + 1)):
                break
            scales = [each.total // total for each in found]
            best = _worthwhile(members, scales, total) or best
    return best


def _worthwhile(
    members: Sequence[Sequence[Access]], scales: Sequence[int], total: int
) -> Chain | None:
    """The chain of some loops, if a later one reads much again and rows fit the cache."""
    users: dict[tuple[int, int, int], int] = {}
    for accesses in members:
        for place in {(a.slot, a.start, a.length) for a in accesses if a.step >= a.length}:
            users[place] = users.get(place, 0) + 1
    shared = sum(length for (_, _, length), count in users.items() if count > 1)
    row = sum(length for _, _, length in users)
    if shared * total < LEAST_SHARED or row > AT_ONCE:
        return None
    return Chain(_function(), total, max(1, AT_ONCE // row), tuple(scales))


def chains_among(loops: Sequence[Placed | None]) -> Iterator[tuple[int, Chain]]:
    """All chains, each with the number of its first loop."""
    at = 0
    while at < len(loops):
        found = chain_of(loops[at : at + LONGEST])
        if found is not None:
            yield at, found
        at += 1 if found is None else len(found.scales)


@lru_cache(maxsize=1)
def _function() -> int:
    return llvm.compile_ir(chain_ir()).address("chain")
