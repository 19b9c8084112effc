"""Reading ahead: a thread makes the next batches while the current one is worked on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

_END: Any = object()


class _Failure:
    """An error of the thread, on its way to whoever asks for the next batch."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


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
                item = next(self._source, _END)
                self._items.put(item)
                if item is _END:
                    return
        except BaseException as error:
            self._items.put(_Failure(error))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = self._items.get()
        if item is _END or isinstance(item, _Failure):
            # Whoever asks again gets the same answer.
            self._items.put(item)
            if item is _END:
                raise StopIteration
            raise item.error
        self._permits.put(True)
        return item

    def __enter__(self) -> ReadAhead:
        return self

    def __exit__(self, *error: object) -> None:
        self._permits.put(False)
