"""Thread state: the recording and the tapes of the running thread."""

from __future__ import annotations

import threading
from typing import Any

from gradtape.recording.recording import Recording


class State(threading.local):
    """What each thread has of its own. The native recorder reads `recording` in its dictionary."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.recording = Recording()
        # Entered tapes, innermost last, and how many times any tape was entered.
        self.tapes: list[Any] = []
        self.epoch = 0


state = State()
