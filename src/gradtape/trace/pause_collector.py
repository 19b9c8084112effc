"""Uncollected: work of the library during which Python's garbage collector does not start.

Graphs and plans are many small objects, and none of them is garbage while they are made. The
collector starts after every few hundred new objects and now and then visits all that there are,
which took a third of the time in which the gradient of a long tape was derived and planned.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# The threads that have stopped the collector and will start it again.
_stopped_by: dict[int, None] = {}


def uncollected(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that makes many objects and no garbage, without automatic collections.

    It must not run code of the user's that may take long. If the collector is off already, this
    leaves it as it is. A second thread may therefore have it back before its own work is done.

    >>> import gc
    >>> from gradtape.trace.pause_collector import uncollected
    >>> uncollected(gc.isenabled), gc.isenabled()
    (False, True)
    """
    if not gc.isenabled():
        return function(*args, **kwargs)
    thread = threading.get_ident()
    try:
        # Inside, so that an interrupt at any place after this starts the collector again.
        _stopped_by[thread] = None
        gc.disable()
        return function(*args, **kwargs)
    finally:
        gc.enable()
        _stopped_by.pop(thread, None)


def _start_again() -> None:
    """In a forked child: start the collector if a thread that does not exist there stopped it."""
    own = threading.get_ident()
    if _stopped_by and own not in _stopped_by:
        gc.enable()
    for thread in list(_stopped_by):
        if thread != own:
            del _stopped_by[thread]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_again)
