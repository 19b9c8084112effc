"""Thread state: the recording and the tapes that each thread has of its own."""

from __future__ import annotations

import threading
from typing import Any

from gradtape.recording.recording import Recording


class State(threading.local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.recording = Recording()
        # Entered tapes, innermost last, and how many times any was entered.
        self.tapes: list[Any] = []
        self.epoch = 0


state = State()
