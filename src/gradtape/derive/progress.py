"""Progress: one line on a terminal during a long computation."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

# Seconds before the line is shown, and between two updates.
PATIENCE = 2.0
INTERVAL = 0.2
WIDTH = 30


class Progress:
    """Shows the finished part of a known amount of work, if standard error is a terminal."""

    def __init__(
        self,
        title: str,
        total: int,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = title
        self.total = total
        self.stream = sys.stderr if stream is None else stream
        self.clock = clock
        self.begun = clock()
        self.due = self.begun + PATIENCE
        self.shown = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self._write("")

    def update(self, done: int) -> None:
        """Show that `done` of the total amount is finished."""
        now = self.clock()
        if now < self.due or not self._on_terminal():
            return
        self.due = now + INTERVAL
        part = done / max(1, self.total)
        bar = "#" * int(WIDTH * part)
        left = (now - self.begun) * (1 - part) / max(part, 1e-9)
        self._write(f"{self.title} [{bar:<{WIDTH}}] {part:4.0%}, {left:.0f} s left")

    def _on_terminal(self) -> bool:
        try:
            return bool(self.stream.isatty())
        except (AttributeError, ValueError):  # no stream, or a closed one
            return False

    def _write(self, text: str) -> None:
        self.stream.write(
            "\r" + text + " " * max(0, self.shown - len(text)) + ("" if text else "\r")
        )
        self.stream.flush()
        self.shown = len(text)
