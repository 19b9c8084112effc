"""Give way: long work of a background thread lets go of the GIL every half millisecond.

Python lets another thread wait up to five milliseconds for the GIL, a thousand times as long as a
small call takes. Work that is done in the background therefore calls `give_way` in its loops.
Nowhere else does that do anything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Seconds that background work keeps the GIL at most, as far as its loops call `give_way`.
SLICE = 5e-4


class _Here(threading.local):
    """The running thread: what it asks in between if it works in the background."""

    stops: Callable[[], bool] | None = None
    since = 0.0


class StoppedError(Exception):
    """Work in the background is not wanted any more: the process ends."""


_here = _Here()


def work_in_background(stops: Callable[[], bool]) -> None:
    """Let this thread give way from now on, and stop its work as soon as `stops` says so."""
    _here.stops = stops
    _here.since = time.perf_counter()


def is_in_background() -> bool:
    """Whether this thread works in the background."""
    return _here.stops is not None


def give_way() -> None:
    """In the background: let other threads have the GIL if this one had it for long."""
    stops = _here.stops
    if stops is None or time.perf_counter() - _here.since < SLICE:
        return
    if stops():
        raise StoppedError
    # The shortest sleep: if nobody waits for the GIL, it comes back at once.
    time.sleep(1e-6)
    _here.since = time.perf_counter()
