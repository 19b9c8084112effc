"""Weak table: values by key, each for as long as somebody else holds it.

Like `weakref.WeakValueDictionary`, but no Python code runs when a value dies, where what a signal
handler raises would be lost: the dead reference goes on a list, and the next insertion clears it.
"""

from __future__ import annotations

import weakref

# What WeakValueDictionary uses: it removes a key if the reference there is dead, in one step.
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Reference(weakref.ref[V]):
    __slots__ = ("key",)

    key: Hashable


class WeakTable(Generic[K, V]):
    """Values by key, held weakly."""

    def __init__(self) -> None:
        self._references: dict[K, _Reference[V]] = {}
        self._dead: list[weakref.ref[V]] = []

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        found = self._references.get(key)
        return None if found is None else found()

    def setdefault(self, key: K, value: V) -> V:
        """The value of a key, which is this one if it had none."""
        references = self._references
        self.drop_dead()
        new = _Reference(value, self._dead.append)
        new.key = key
        # Two threads that race here must end with the same object.
        while (found := references.setdefault(key, new)()) is None:
            _remove_dead_weakref(references, key)
        return found

    def drop_dead(self) -> None:
        """Let go of the keys of values that have died."""
        while self._dead:
            try:
                dead = self._dead.pop()
            except IndexError:  # another thread was faster
                break
            _remove_dead_weakref(self._references, dead.key)  # type: ignore[attr-defined]

    def values(self) -> list[V]:
        """All values that are alive."""
        return [found for each in list(self._references.values()) if (found := each()) is not None]

    def __len__(self) -> int:
        return len(self.values())
