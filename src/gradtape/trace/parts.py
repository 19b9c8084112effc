"""Parts: the nodes that a derivative consists of, as applications of the time it was handed out.

The nodes of a derivative are interned and belong to no time: the derivative that a tape is handed
in the next line consists of the same ones. If a tape records while it is handed out, each hand-out
gets copies of its own, as each application of an op gets a node of its own. All of them count as
applied at one position of the recording.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from gradtape.ir.node import Node


class Parts:
    """The parts of all derivatives that were handed out in one recording while tapes recorded."""

    __slots__ = ("_known", "_waiting", "counts", "groups", "size", "starts")

    def __init__(self) -> None:
        # The positions of the derivatives in order, and for each its parts, with the nodes that
        # they are copies of.
        self.starts: list[int] = []
        self.groups: list[Mapping[Node, Node]] = []
        # How many parts there are in all.
        self.size = 0
        # How many times the same nodes were handed out.
        self.counts: dict[tuple[Node, ...], int] = {}
        # The position of each part, and the derivatives whose parts are not in there yet.
        self._known: dict[Node, int] = {}
        self._waiting: list[tuple[int, Mapping[Node, Node]]] = []

    def add(self, position: int, parts: Mapping[Node, Node]) -> None:
        """Note that these nodes count as applied at a position."""
        self.size += len(parts)
        at = bisect_right(self.starts, position)
        # Nearly always at the end, where inserting is cheap.
        self.starts.insert(at, position)
        self.groups.insert(at, parts)
        self._waiting.append((position, parts))

    def move(self, start: int, position: int) -> None:
        """Let all derivatives from a position on count as handed out at an earlier one."""
        at = bisect_left(self.starts, start)
        moved, self.groups, self.starts = self.groups[at:], self.groups[:at], self.starts[:at]
        self.size -= sum(map(len, moved))
        for parts in moved:
            self.add(position, parts)

    def lie_before(self, position: int | None) -> bool:
        """Whether all derivatives were handed out before a position, and in this recording."""
        if position is None or not self.starts:
            return position is not None
        return self.starts[0] >= 0 and self.starts[-1] < position

    def outside(self, windows: Iterable[Sequence[int | None]]) -> list[Mapping[Node, Node]]:
        """The parts of the derivatives that were handed out outside some windows, in order."""
        found: list[Mapping[Node, Node]] = []
        at: int | None = 0
        for start, end in windows:
            found += self.groups[at : bisect_left(self.starts, start)]  # type: ignore[type-var]
            at = len(self.starts) if end is None else bisect_left(self.starts, end)
        return found + self.groups[at:]

    def position(self, node: Node) -> int | None:
        """Where the derivative was handed out that a node is a part of; None for other nodes."""
        if self._waiting:
            for position, parts in self._waiting:
                self._known.update(dict.fromkeys(parts, position))
            self._waiting.clear()
        return self._known.get(node)
