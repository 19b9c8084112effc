"""Parts: the nodes that a derivative consists of, as applications of the time it was handed out.

The nodes of a derivative are interned and belong to no time: the derivative that a tape is handed
in the next line consists of the same ones. If a tape records while it is handed out, each hand-out
gets copies of its own, as each application of an op gets a node of its own. All of them count as
applied at one position of the recording.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradtape.graph.node import Node


class Parts:
    """The parts of all derivatives that were handed out in one recording while tapes recorded."""

    __slots__ = ("_positions", "counts", "groups")

    def __init__(self) -> None:
        # The position of each derivative, and its parts with the nodes that they are copies of.
        self.groups: list[tuple[int, Mapping[Node, Node]]] = []
        # How many times the same nodes were handed out.
        self.counts: dict[tuple[Node, ...], int] = {}
        self._positions: dict[Node, int] = {}

    def add(self, position: int, parts: Mapping[Node, Node]) -> None:
        """Note that these nodes count as applied at a position."""
        self.groups.append((position, parts))

    def move(self, start: int, position: int) -> None:
        """Let all derivatives from a position on count as handed out at an earlier one."""
        self.groups = [(position if at >= start else at, parts) for at, parts in self.groups]
        self._positions = {}

    def position(self, node: Node) -> int | None:
        """Where the derivative was handed out that a node is a part of; None for other nodes."""
        known = self._positions
        for position, parts in reversed(self.groups):
            if next(iter(parts)) in known:
                break
            known.update(dict.fromkeys(parts, position))
        return known.get(node)
