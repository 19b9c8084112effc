"""A progress bar for results that stream in: that of rich where it is installed, else a line."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """How many of some items are done, shown on standard error; nothing if it is switched off."""

    def __init__(self, name: str, total: int | None, on: bool) -> None:
        self._name, self._total, self._on = name, total, on
        self._done = 0
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._on:
            try:
                from rich import console, progress  # not installed everywhere
            except ImportError:
                return self
            self._bar = progress.Progress(console=console.Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(self._name, total=self._total)
        return self

    def advance(self, count: int = 1) -> None:
        """Note that so many more items are done."""
        self._done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)
        elif self._on:
            of = "" if self._total is None else f" of {self._total}"
            sys.stderr.write(f"\r{self._name}: {self._done}{of}")
            sys.stderr.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self._on:
            sys.stderr.write("\n")
