"""Reading ahead: a thread makes the next batches while the current one is worked on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any


class ReadAhead:
    """An iterator over another one that runs in a thread, at most `count` items ahead.

    >>> from gradtape.training.read_ahead import ReadAhead
    >>> with ReadAhead(iter([1, 2, 3]), 2) as ahead:
    ...     list(ahead)
    [1, 2, 3]
    """

    def __init__(self, source: Iterator[Any], count: int) -> None:
        self._items: SimpleQueue[Any] = SimpleQueue()
        # One permit for each item that may be made; None ends the thread.
        self._permits: SimpleQueue[bool] = SimpleQueue()
        for _ in range(count):
            self._permits.put(True)
        self._source = source
        # A daemon: a source that waits for ever, such as a socket, must not keep the program.
        self._thread = threading.Thread(target=self._run, name="gradtape-read-ahead", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while self._permits.get():
                self._items.put((next(self._source), None))
        except BaseException as error:
            self._items.put((None, error))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item, error = self._items.get()
        if error is not None:
            # The next call has the same end.
            self._items.put((item, error))
            raise error
        self._permits.put(True)
        return item

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *error: object) -> None:
        self._permits.put(False)
