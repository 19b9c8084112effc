"""The arena of a plan: one block that its intermediate values share, by their lifetimes.

Offsets are decided once, when the plan is made. A run takes one block from the pool, and because a
plan always requests the same size, it gets pages that are warm from an earlier run.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable

from gradtape.config import ARENA_GAP, LEAST_BYTES_BEFORE_GAP, SMALL_ARENA_PART
from gradtape.ir.node import Node, constant_value

ALIGNMENT = 64


def stored_bytes(node: Node) -> int:
    """The bytes that a node takes when it is computed by itself; views and constants take none."""
    if type(node.spec) is tuple:
        return sum(of.nbytes for of in node.spec)
    return 0 if node.op.view or constant_value(node) is not None else node.spec.nbytes


class Arena:
    """Assigns offsets in one block; the space of a dead value is used again, best fit first."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []
        self._held: dict[Hashable, tuple[int, int]] = {}

    def take(self, key: Hashable, nbytes: int) -> int:
        """The offset of a new value of `nbytes`."""
        need = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        if nbytes >= LEAST_BYTES_BEFORE_GAP:
            need += ARENA_GAP
        for position, (size, offset) in enumerate(self._free):
            if size >= SMALL_ARENA_PART * need:
                break
            if size >= need:
                del self._free[position]
                if size > need:
                    insort(self._free, (size - need, offset + need))
                self._held[key] = (need, offset)
                return offset
        offset, self.size = self.size, self.size + need
        self._held[key] = (need, offset)
        return offset

    def release(self, keys: Iterable[Hashable]) -> None:
        """Free the space of values that nothing reads any more."""
        for key in keys:
            if key in self._held:
                size, offset = self._held.pop(key)
                self._join(size, offset)

    def _join(self, size: int, offset: int) -> None:
        """Put space back, merged with free neighbours."""
        for other in list(self._free):
            length, start = other
            if start + length == offset:
                self._free.remove(other)
                size, offset = size + length, start
            elif offset + size == start:
                self._free.remove(other)
                size += length
        insort(self._free, (size, offset))
