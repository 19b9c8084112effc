"""Provenance, for debugging: the user's line of each node, and what it is the derivative of."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any


class Provenance:
    """Where nodes come from, as far as somebody has asked for it to be noted."""

    def __init__(self) -> None:
        self.lines: dict[Any, str] = {}
        # Of which node each one belongs to the derivative of; None for what belongs to none.
        self.origins: dict[Any, Any] = {}
        # Nodes that a transform has just recorded: their lines are those of what they were made of.
        self.carried: set[Any] = set()

    def copy(self, old: Any, new: Any) -> None:
        """A node stands for another one from now on."""
        line, origin = self.lines.get(old), self.origins.get(old)
        if line is not None:
            self.lines[new] = line
        if line is not None or origin is not None:
            self.origins[new] = origin

    def inherit(self, old: Any, new: Iterable[Any]) -> None:
        """Nodes were made of another one."""
        for node in new:
            if node not in self.lines and self.origins.get(node) is None:
                self.copy(old, node)

    def origin(self, node: Any) -> Any:
        """The node that this one is part of a derivative of, of whatever order; or None."""
        found = self.origins.get(node)
        while found is not None and self.origins.get(found) is not None:
            found = self.origins[found]
        return found


class _Local(threading.local):
    current: Provenance | None = None


_local = _Local()


def provenance() -> Provenance | None:
    """What this thread notes into, if it does."""
    return _local.current


def note_into(found: Provenance | None) -> Provenance | None:
    """Note into this from now on, or nothing; gives what was noted into before."""
    before, _local.current = _local.current, found
    return before
