"""Memory of a plan: which values share storage, decided once from their lifetimes."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable

ALIGNMENT = 64


class Arena:
    """Assigns offsets in one block; space whose value is dead is used again, best fit first."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []
        self._held: dict[Hashable, tuple[int, int]] = {}

    def take(self, key: Hashable, nbytes: int) -> int:
        """The offset of a new value."""
        need = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        for position, (size, offset) in enumerate(self._free):
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
        """Values that nothing reads any more."""
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
