"""Thread state: the recording and the tapes of the running thread."""

from __future__ import annotations

import threading
from typing import Any

from gradtape.trace.recording import Recording


class State(threading.local):
    """What each thread has of its own. The native recorder reads `recording` in its dictionary."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.recording = Recording()
        # Entered tapes, innermost last, and how many times any tape was entered.
        self.tapes: list[Any] = []
        self.epoch = 0


state = State()
# Tapes that died, in any thread, and the ends of `with tape` statements. Finalisers put them here,
# and the next flush or tape settles them: a finaliser in Python would lose interrupts.
ended: list[Any] = []


def settle() -> None:
    """Let go of the recordings of dead tapes, and leave tapes that an interrupt kept from it."""
    of_other_threads = []
    while ended:
        try:
            each = ended.pop()
        except IndexError:  # another thread has settled it
            break
        if not each.settle():
            of_other_threads.append(each)
        del each
    ended.extend(of_other_threads)
