"""Locks that a forked child finds open: the threads that held them do not live in it.

What they guard is whole at every step that Python takes, so the child can go on with it.
"""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet

_locks: WeakSet[Any] = WeakSet()


class Process:
    """This process among its ancestors."""

    # How many forks lie between this process and the first one.
    forks = 0


def new_lock() -> Any:
    """A reentrant lock for something that lives long."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _reopen() -> None:
    Process.forks += 1
    for lock in list(_locks):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reopen)
