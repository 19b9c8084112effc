"""Logs: the loggers `gradtape.<room>` of rooms that hold locks.

A handler holds a lock of its own while it formats a message, and a user's message may contain a
tensor, whose value is computed then. If a record were handled while this thread holds a lock that
computing needs, two threads could wait for each other. So records go through a queue of the
standard library, whose listener handles them in a thread that holds no lock.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging.handlers import QueueListener


class Log:
    """The logger of one room. Arguments of messages are numbers and texts, never tensors."""

    __slots__ = ("_logger",)

    def __init__(self, room: str) -> None:
        self._logger = logging.getLogger(f"gradtape.{room}")

    def debug(self, message: str, *args: float | str) -> None:
        """Something that happens often."""
        self._record(logging.DEBUG, message, args)

    def info(self, message: str, *args: float | str) -> None:
        """Something that happens seldom."""
        self._record(logging.INFO, message, args)

    def warning(self, message: str, *args: float | str) -> None:
        """Something that the user should act on."""
        self._record(logging.WARNING, message, args)

    def _record(self, level: int, message: str, args: tuple[float | str, ...]) -> None:
        logger = self._logger
        if logger.isEnabledFor(level):
            file, line, function, _ = logger.findCaller(stacklevel=3)
            made = logger.makeRecord(logger.name, level, file, line, message, args, None, function)
            _listen()
            _records.put(made)


class _Loggers(logging.Handler):
    """Passes each record on to the handlers of its own logger."""

    def handle(self, record: logging.LogRecord) -> bool:
        try:
            logging.getLogger(record.name).handle(record)
        except Exception:  # an error of a user's filter must not end the thread
            self.handleError(record)
        return True


# A signal handler may log at any point.
_lock = threading.RLock()
_records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
_listener: QueueListener | None = None


def _listen() -> None:
    """Start the listener, unless it runs."""
    global _listener
    with _lock:
        if _listener is None:
            # With its imports it takes a twentieth of `import gradtape`, and few programs log.
            from logging.handlers import QueueListener

            _listener = QueueListener(_records, _Loggers())
            _listener.start()
            # Registered after `logging` was imported: called before its handlers are closed.
            atexit.register(drain)


def drain() -> None:
    """Wait until all records are handled; the next record starts another listener."""
    global _listener
    with _lock:
        listener, _listener = _listener, None
        atexit.unregister(drain)
    if listener is not None:
        listener.stop()


def _forget_listener() -> None:
    # In a forked child there is no such thread, and the parent handles what was waiting.
    global _listener, _lock, _records
    _listener, _lock, _records = None, threading.RLock(), queue.SimpleQueue()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_listener)
