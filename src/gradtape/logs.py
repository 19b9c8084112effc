"""Log: records for the loggers `gradtape.<package>`, handed on by a thread of their own.

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
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from gradtape.ir.frames import current_line

if TYPE_CHECKING:
    import logging

# Records that wait at most; of more, the oldest are dropped.
MOST = 10_000
# Seconds that the end of the process waits for handlers.
LAST_SECONDS = 2.0
# The levels, as in `logging`.
DEBUG, INFO, WARNING = 10, 20, 30


class Log:
    """The logger of one package. Arguments of messages are numbers and texts, never tensors.

    `logging` takes a few milliseconds to import. While nobody has imported it, nobody listens to
    what is below a warning.
    """

    __slots__ = ("_logger", "_package")

    def __init__(self, package: str) -> None:
        self._package = package
        self._logger: logging.Logger | None = None

    def debug(self, message: str, *args: float | str) -> None:
        """Something that happens often."""
        logger = self._logger or self._found()
        if logger is not None and logger.isEnabledFor(DEBUG):
            log_record(logger, DEBUG, message, args)

    def info(self, message: str, *args: float | str) -> None:
        """Something that happens seldom."""
        logger = self._logger or self._found()
        if logger is not None and logger.isEnabledFor(INFO):
            log_record(logger, INFO, message, args)

    def warning(self, message: str, *args: float | str) -> None:
        """Something that the user should do something about."""
        # Slow to import.
        import logging

        logger = self._logger = logging.getLogger(f"gradtape.{self._package}")
        if logger.isEnabledFor(WARNING):
            log_record(logger, WARNING, message, args)

    def _found(self) -> logging.Logger | None:
        """The logger, if the program uses `logging`; another thread may be importing it now."""
        make = getattr(sys.modules.get("logging"), "getLogger", None)
        self._logger = None if make is None else make(f"gradtape.{self._package}")
        return self._logger


def log_record(
    logger: logging.Logger, level: int, message: str, args: tuple[float | str, ...]
) -> None:
    """Make a record, by a factory that may be the user's, and have it handed on."""
    # The line that called `debug`, `info` or `warning`.
    at = sys._getframe(2)
    code = at.f_code
    made = logger.makeRecord(
        logger.name, level, code.co_filename, current_line(at), message, args, None, code.co_name
    )
    _state.add(logger, made)


class _State:
    """The records that wait, and the thread that hands them on."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may log at any point.
        self.changed = threading.Condition(threading.RLock())
        self.waiting: deque[tuple[logging.Logger, logging.LogRecord]] = deque(maxlen=MOST)
        self.thread: threading.Thread | None = None

    def add(self, logger: logging.Logger, record: logging.LogRecord) -> None:
        with self.changed:
            if not _at_exit:
                # After `logging` was imported, so before its handlers are closed.
                _at_exit.append(atexit.register(drain, LAST_SECONDS))
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
            # Handlers report their errors themselves; that of a filter must not end the thread.
            try:
                logger.handle(record)
            except Exception:
                # It is imported: there is a logger.
                import logging

                logging.Handler().handleError(record)


_state = _State()
# What is called at the end of the process, once there was a record.
_at_exit: list[object] = []


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
