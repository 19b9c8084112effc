"""Modes: switches that each thread has of its own."""

from __future__ import annotations

import threading
from typing import Any


class Modes(threading.local):
    """The modes of the running thread; `tensor.modes` turns them on and off for users."""

    # The class of a recording's list of handles. The eager debug mode, debug_nans and the report
    # of saved values set a subclass whose `append` reads each new handle.
    handle_list: type[list[Any]] = list
    # Whether results that differ between runs, such as unseeded random numbers, are refused.
    deterministic = False
    # Whether plans are compiled before their first run. NumPy and compiled code round differently,
    # so a run that is resumed repeats its numbers only if every run of a plan is of one tier.
    compile_first = False


modes = Modes()
