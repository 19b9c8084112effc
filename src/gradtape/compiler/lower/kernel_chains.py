"""Chains of loops: which loops that follow one another may run for some rows at a time.

A loop divides its range into rows: the part of its arrays at one index of the axis that threads
divide. Loops may be a chain if no row of one reads or writes what another row of another one
writes. Places in memory decide this, because values share the arena.

For sums along columns, the rows of this page are columns of the array: the bytes of one lie between
those of others. Only runs of many columns are read as fast as whole arrays, so a chain of such
loops works on a part of the array that the third cache holds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from gradtape.compiler.emit.plans.bundles import bundle_ir
from gradtape.compiler.emit.plans.instructions import Chain
from gradtape.compiler.lower.arguments import Lowered
from gradtape.compiler.lower.kernel import Kernel, KernelLayout, element_bytes
from gradtape.compiler.lower.plan import SlotPlace
from gradtape.compiler.machine_limits import third_cache
from gradtape.compiler.objects import llvm
from gradtape.compiler.thread_team import get_num_threads
from gradtape.config import (
    CHAIN_COLUMNS_STEP,
    CHAIN_ROWS_BYTES,
    LEAST_CHAIN_COLUMNS,
    LEAST_CHAIN_SHARED_BYTES,
    LONGEST_CHAIN,
)
from gradtape.ir.node import Node
from gradtape.records import dataclass

# A loop and the places of its values.
Placed = tuple[Lowered, Mapping[Node | str, SlotPlace]]


@dataclass(frozen=True)
class Touched:
    """The bytes of a slot that one loop uses: from `start` to `length` beyond it, moved by `step`.

    If `bytes` is less than `length`, they are not in one run.
    """

    slot: int
    start: int
    length: int
    step: int
    bytes: int
    written: bool
    # Whether the bytes of all rows lie between one another, and no two rows have one in common.
    interleaved: bool = False

    def end(self, rows: int) -> int:
        """One past the last byte."""
        return self.start + (rows - 1) * self.step + self.length


@dataclass(frozen=True)
class LoopRows:
    """The accesses of a loop at each number of its range."""

    total: int
    accesses: Sequence[Touched]

    def scaled(self, rows: int) -> list[Touched]:
        """The same for rows of several numbers each."""
        scale = self.total // rows
        return [
            dataclasses.replace(
                each,
                length=each.length + (scale - 1) * each.step,
                step=each.step * scale,
                bytes=each.bytes * (scale if each.step else 1),
            )
            for each in self.accesses
        ]


def rows_of(placed: Placed) -> LoopRows | None:
    """The row-by-row form of a loop; None if it has none."""
    (lowered, places), kernel = placed, placed[0].kernel
    if not isinstance(kernel, Kernel):
        return None
    divided = kernel.axes - 1 if kernel.layout is KernelLayout.COLUMNS else 0
    if not _goes_by_rows(kernel) or lowered.total != lowered.sizes[divided] or lowered.total < 2:
        return None
    sizes = [n for axis, n in enumerate(lowered.sizes) if axis != divided]
    dtypes = [operand.dtype for operand in kernel.operands]
    dtypes += [store.target.dtype for store in kernel.stores]
    dtypes += [reduction.dtype for reduction in kernel.reductions]
    accesses = []
    for number, (owner, offset, strides) in enumerate(lowered.entries):
        if any(stride < 0 for stride in strides):
            return None
        slot, start = places[owner]
        steps = [*strides, *[0] * (kernel.axes - len(strides))]
        step = steps.pop(divided)
        item = element_bytes(dtypes[number])
        moving = [(n, stride) for n, stride in zip(sizes, steps, strict=True) if stride and n > 1]
        length = item + sum((n - 1) * stride for n, stride in moving)
        touched = item * math.prod(n for n, _ in moving)
        apart = min((stride for _, stride in moving), default=0)
        shift = 0 if isinstance(owner, str) else offset
        written = number >= len(kernel.operands)
        between = length > step >= item and apart >= lowered.total * step
        accesses.append(
            Touched(slot, start + shift, length, step, min(touched, length), written, between)
        )
    return LoopRows(lowered.total, accesses)


def _goes_by_rows(kernel: Kernel) -> bool:
    """Whether the range of a kernel is one of its axes, whose index says which bytes it uses."""
    by_rows = {
        KernelLayout.MAP: True,
        KernelLayout.ROWS: kernel.axes > kernel.reduced,
        KernelLayout.COLUMNS: kernel.axes == kernel.reduced + 1,
    }.get(kernel.layout, False)
    # Stores past the caches need vectors that are aligned, and leave nothing to read again.
    return (
        by_rows
        and not any(operand.indices for operand in kernel.operands)
        and not any(s.adds or s.streaming or s.target.indices for s in kernel.stores)
    )


def _meet(a: Touched, b: Touched, rows: int) -> bool:
    """Whether two loops use common bytes."""
    return a.slot == b.slot and a.start < b.end(rows) and b.start < a.end(rows)


def _by_rows(a: Touched, b: Touched) -> bool:
    """Whether common bytes of two loops are in the same row of both."""
    if a.interleaved or b.interleaved:
        return dataclasses.replace(a, written=False) == dataclasses.replace(b, written=False)
    start, end = min(a.start, b.start), max(a.start + a.length, b.start + b.length)
    return a.step == b.step and end - start <= a.step


def _may_follow(members: Sequence[Sequence[Touched]], rows: int) -> bool:
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
    found: list[LoopRows] = []
    best: Chain | None = None
    for loop in loops[:LONGEST_CHAIN]:
        rows = None if loop is None else rows_of(loop)
        if rows is None:
            break
        found.append(rows)
        if len(found) > 1:
            total = min(each.total for each in found)
            if any(each.total % total for each in found):
                break
            members = [each.scaled(total) for each in found]
            # The fewest numbers may be those of the last loop, so all are checked again.
            if not all(_may_follow(members[:end], total) for end in range(2, len(members) + 1)):
                break
            scales = [each.total // total for each in found]
            best = _worthwhile(members, scales, total) or best
    return best


def _worthwhile(
    members: Sequence[Sequence[Touched]], scales: Sequence[int], total: int
) -> Chain | None:
    """The chain of some loops, if a later one reads much again and rows fit a cache."""
    users: dict[tuple[int, int, int], int] = {}
    columns = False
    for accesses in members:
        moving = [a for a in accesses if a.interleaved or a.step >= a.length]
        columns = columns or any(a.interleaved for a in moving)
        for place in {(a.slot, a.start, a.bytes) for a in moving}:
            users[place] = users.get(place, 0) + 1
    shared = total * sum(size for (_, _, size), count in users.items() if count > 1)
    row = sum(size for _, _, size in users)
    if columns:
        room = third_cache() // 2
        at_once = room // get_num_threads() // row // CHAIN_COLUMNS_STEP * CHAIN_COLUMNS_STEP
        worth = shared >= room and at_once >= LEAST_CHAIN_COLUMNS
    else:
        at_once = CHAIN_ROWS_BYTES // row if row else 0
        worth = shared >= LEAST_CHAIN_SHARED_BYTES and at_once > 0
    return Chain(_function(), total, at_once, tuple(scales)) if worth else None


def chains_among(loops: Sequence[Placed | None]) -> Iterator[tuple[int, Chain]]:
    """All chains, each with the number of its first loop."""
    at = 0
    while at < len(loops):
        found = chain_of(loops[at : at + LONGEST_CHAIN])
        if found is not None:
            yield at, found
        at += 1 if found is None else len(found.scales)


@lru_cache(maxsize=1)
def _function() -> int:
    return llvm.compile_ir(bundle_ir()).address("bundle")
