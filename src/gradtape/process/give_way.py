"""Give way: long work of a background thread lets callers have the GIL.

Python lets another thread wait up to five milliseconds for the GIL, a thousand times as long as a
small call takes. Work that is done in the background therefore calls `give_way` in its loops, and
is asked to between the modules that it imports. It lets go of the GIL every half millisecond.
Nowhere else does that do anything.

Half a millisecond is long for a call of many NumPy ops: each of them lets go of the GIL, and would
find it taken at its end. Such a call says that it goes first (`going_first`), and the background
then does next to nothing until it has ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# Seconds that background work keeps the GIL at most, as far as its loops call `give_way`.
SLICE = 5e-4
# Seconds that it waits at most for calls that go first, before it takes a slice: such a call may
# itself wait for a module that the background is importing.
LONGEST_PAUSE = 5e-3


class _Here(threading.local):
    """The running thread: what it asks in between if it works in the background."""

    stops: Callable[[], bool] | None = None
    since = 0.0
    # Whether it has waited for as long as it may, and has a slice in spite of a call.
    insists = False


class StoppedError(Exception):
    """Work in the background is not wanted any more: the process ends."""


class _First:
    """The threads whose calls go first, and what is set when the last of these calls ends."""

    def __init__(self) -> None:
        # Dictionaries are changed by one instruction, so several threads need no lock. A thread
        # that is interrupted before its context begins is taken out at the end of its next one.
        self.threads: dict[int, None] = {}
        self.ended = threading.Event()

    def __enter__(self) -> None:
        self.ended.clear()
        self.threads[threading.get_ident()] = None

    def __exit__(self, *error: object) -> None:
        self.threads.pop(threading.get_ident(), None)
        if not self.threads:
            self.ended.set()


class _BetweenModules:
    """An import hook that finds nothing: before each module it gives way to calls that go first.

    To other calls only Python's own switching gives way. A caller that never lets go of the GIL has
    it for five milliseconds after each module, and the compiler has more than a hundred of them.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find no module."""
        if _first.threads:
            give_way()


_here = _Here()
_first = _First()


def going_first() -> _First:
    """A context in which the background leaves the GIL to this thread, but for a tenth."""
    return _first


def work_in_background(stops: Callable[[], bool]) -> None:
    """Let this thread give way from now on, and stop its work as soon as `stops` says so."""
    _here.stops = stops
    _here.since = time.perf_counter()
    if _BetweenModules not in sys.meta_path:
        sys.meta_path.insert(0, _BetweenModules)


def is_in_background() -> bool:
    """Whether this thread works in the background."""
    return _here.stops is not None


def give_way() -> None:
    """In the background: let other threads have the GIL if this one had it for long."""
    stops = _here.stops
    if stops is None:
        return
    waits = bool(_first.threads) and not _here.insists
    if not waits and time.perf_counter() - _here.since < SLICE:
        return
    if stops():
        raise StoppedError
    if waits:
        _here.insists = not _first.ended.wait(LONGEST_PAUSE)
    else:
        _here.insists = False
        # The shortest sleep: if nobody waits for the GIL, it comes back at once.
        time.sleep(1e-6)
    _here.since = time.perf_counter()


def _begin_again() -> None:
    """In a forked child: threads that held a lock of the event, or went first, are not there."""
    global _first
    _first = _First()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
