"""Locks that are open in a forked child, where the threads that held them do not exist.

The data they guard is consistent after every bytecode instruction, so the child can use it.
"""

from __future__ import annotations

import os
import threading

from gradtape.process.weak_table import WeakTable

_locks: WeakTable[int, threading.RLock] = WeakTable()


class Process:
    """This process among its ancestors."""

    # How many forks lie between this process and the first one.
    forks = 0


def new_lock() -> threading.RLock:
    """A reentrant lock for an object that may live through a fork."""
    lock = threading.RLock()
    _locks.setdefault(id(lock), lock)
    return lock


def _reopen() -> None:
    Process.forks += 1
    for lock in _locks.values():
        lock._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen)
