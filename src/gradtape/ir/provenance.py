"""Provenance, for debugging: the user's line of each node, and the node it is a derivative of."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradtape.ir.node import Node


class Provenance:
    """Where the nodes made by one thread come from, while it notes into this object."""

    def __init__(self) -> None:
        self.lines: dict[Node, str] = {}
        # The node whose derivative each node is part of; None for nodes of no derivative.
        self.origins: dict[Node, Node | None] = {}
        # Nodes that a transform has just recorded: they have the lines of the nodes they copy.
        self.carried: set[Node] = set()

    def copy(self, old: Node, new: Node) -> None:
        """Give `new`, which replaces `old`, the same line and origin."""
        line, origin = self.lines.get(old), self.origins.get(old)
        if line is not None:
            self.lines[new] = line
        if line is not None or origin is not None:
            self.origins[new] = origin

    def inherit(self, old: Node, new: Iterable[Node]) -> None:
        """Give nodes that were made from `old`, and have no line yet, its line and origin."""
        for node in new:
            if node not in self.lines and self.origins.get(node) is None:
                self.copy(old, node)

    def origin(self, node: Node) -> Node | None:
        """The recorded node whose derivative, of any order, `node` is part of; or None."""
        found = self.origins.get(node)
        while found is not None and self.origins.get(found) is not None:
            found = self.origins[found]
        return found


class _Local(threading.local):
    current: Provenance | None = None


_local = _Local()


def provenance() -> Provenance | None:
    """The object that this thread notes into, or None."""
    return _local.current


def note_into(found: Provenance | None) -> Provenance | None:
    """Make this thread note into `found`, or stop; return what it noted into before."""
    before, _local.current = _local.current, found
    return before
