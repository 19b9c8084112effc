"""Modes: switches that each thread has of its own."""

from __future__ import annotations

import threading
from typing import Any


class Modes(threading.local):
    """Switches that each thread has of its own."""

    # What a recording lists its handles in; the eager debug mode installs a list that evaluates.
    handle_list: type[list[Any]] = list
    deterministic = False


modes = Modes()
