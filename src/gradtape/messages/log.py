"""Log: records for the loggers `gradtape.<room>`, handed on by a thread of their own.

Most of what is worth a record happens while a lock of the library's is held: a plan is compiled, a
function is captured. A handler holds a lock as well while it formats a message, and a user's
message may contain a tensor, whose text is computed then. Were records handed on where they are
made, two threads could wait for each other. So they are kept, with their time and thread, and a
thread that holds no lock hands them on. It ends when no record is left.

A logger that is not enabled for a level costs one look at its cache, and none of this is called
where ops are recorded, plans are run or functions are replayed.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections import deque

# Records that wait at most; of more, the oldest are dropped.
MOST = 10_000
# Seconds that the end of the process waits for handlers.
LAST_SECONDS = 2.0


class Log:
    """The logger of one room. Arguments of messages are numbers and texts, never tensors."""

    __slots__ = ("_logger",)

    def __init__(self, room: str) -> None:
        self._logger = logging.getLogger(f"gradtape.{room}")

    def debug(self, message: str, *args: float | str) -> None:
        """Something that happens often."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._keep(logging.DEBUG, message, args)

    def info(self, message: str, *args: float | str) -> None:
        """Something that happens seldom."""
        if self._logger.isEnabledFor(logging.INFO):
            self._keep(logging.INFO, message, args)

    def warning(self, message: str, *args: float | str) -> None:
        """Something that the user should do something about."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._keep(logging.WARNING, message, args)

    def _keep(self, level: int, message: str, args: tuple[float | str, ...]) -> None:
        # The line that called `debug`, `info` or `warning`.
        at = sys._getframe(2)
        code = at.f_code
        made = self._logger.makeRecord(
            self._logger.name, level, code.co_filename, at.f_lineno, message, args, None,
            code.co_name,
        )  # fmt: skip
        _state.add(self._logger, made)


class _State:
    """The records that wait, and the thread that hands them on."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may log at any point.
        self.changed = threading.Condition(threading.RLock())
        self.waiting: deque[tuple[logging.Logger, logging.LogRecord]] = deque(maxlen=MOST)
        self.thread: threading.Thread | None = None

    def add(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        with self.changed:
            self.waiting.append((logger, record))
            if self.thread is not None:
                return
            self.thread = threading.Thread(target=self._run, name="gradtape-log", daemon=True)
            try:
                self.thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                self.thread = None

    def _run(self) -> None:
        while True:
            with self.changed:
                if not self.waiting:
                    self.thread = None
                    self.changed.notify_all()
                    return
                logger, record = self.waiting.popleft()
            # `handle` reports errors of handlers itself; a filter's must not end the thread.
            try:
                logger.handle(record)
            except Exception:
                logging.Handler().handleError(record)


_state = _State()


def drain(timeout: float | None = None) -> bool:
    """Wait until all records are handed on; False if that took longer than so many seconds."""
    state = _state
    if threading.current_thread() is state.thread:
        return False
    deadline = None if timeout is None else time.monotonic() + timeout
    with state.changed:
        while state.thread is not None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            # Short turns: the main thread sees signals in between.
            state.changed.wait(0.05 if left is None else min(left, 0.05))
    return True


def _begin_again() -> None:
    # The parent hands on what was waiting.
    global _state
    _state = _State()


atexit.register(drain, LAST_SECONDS)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
