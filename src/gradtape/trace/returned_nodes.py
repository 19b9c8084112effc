"""Returned nodes: the nodes of a derivative, as applications of the time when it was returned.

The nodes of a derivative are interned and belong to no time: the same derivative, returned again in
the next line, consists of the same ones. If a tape records meanwhile, each time a derivative is
returned it gets copies of its nodes, as each application of an op gets a node of its own. All of
them count as applied at one position of the recording.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from gradtape.ir.node import Node


class ReturnedNodes:
    """The copies for all derivatives that one recording returned while tapes recorded."""

    __slots__ = ("_known", "_waiting", "counts", "groups", "size", "starts")

    def __init__(self) -> None:
        # The positions of the derivatives in order, and for each its copies, with their originals.
        self.starts: list[int] = []
        self.groups: list[Mapping[Node, Node]] = []
        # The number of all copies.
        self.size = 0
        # The number of times that the same nodes were returned.
        self.counts: dict[tuple[Node, ...], int] = {}
        # The position of each copy, and the derivatives whose copies are not in there yet.
        self._known: dict[Node, int] = {}
        self._waiting: list[tuple[int, Mapping[Node, Node]]] = []

    def add(self, position: int, copies: Mapping[Node, Node]) -> None:
        """Note that these nodes count as applied at a position."""
        self.size += len(copies)
        at = bisect_right(self.starts, position)
        # Nearly always at the end, where inserting is cheap.
        self.starts.insert(at, position)
        self.groups.insert(at, copies)
        self._waiting.append((position, copies))

    def move(self, start: int, position: int) -> None:
        """Let all derivatives from a position on count as returned at an earlier one."""
        at = bisect_left(self.starts, start)
        moved, self.groups, self.starts = self.groups[at:], self.groups[:at], self.starts[:at]
        self.size -= sum(map(len, moved))
        for copies in moved:
            self.add(position, copies)

    def lie_before(self, position: int | None) -> bool:
        """Whether all derivatives were returned before a position, and in this recording."""
        if position is None or not self.starts:
            return position is not None
        return self.starts[0] >= 0 and self.starts[-1] < position

    def outside(self, windows: Iterable[Sequence[int | None]]) -> list[Mapping[Node, Node]]:
        """The copies of the derivatives that were returned outside some windows, in order."""
        found: list[Mapping[Node, Node]] = []
        at: int | None = 0
        for start, end in windows:
            found += self.groups[at : bisect_left(self.starts, start)]  # type: ignore[type-var]
            at = len(self.starts) if end is None else bisect_left(self.starts, end)
        return found + self.groups[at:]

    def position(self, node: Node) -> int | None:
        """The position of the returned derivative that a copy belongs to; None for other nodes."""
        if self._waiting:
            for position, copies in self._waiting:
                self._known.update(dict.fromkeys(copies, position))
            self._waiting.clear()
        return self._known.get(node)
