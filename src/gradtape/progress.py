"""Progress: how much of some work is done, shown in the form that was chosen."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from gradtape.progress_choice import Choice, is_terminal, style_of

# Seconds before work is shown that nobody asked to see, and between two moves of a bar.
PATIENCE = 2.0
INTERVAL = 0.1
WIDTH = 30


class Progress:
    """The finished part of some work; a context, which removes the bar at its end.

    `total` is None if nobody knows it. Nothing is shown before `patience` seconds have passed, so
    that quick work leaves the terminal alone. A function that a user gave is told every round.
    """

    __slots__ = (
        "_begun",
        "_clock",
        "_due",
        "_note",
        "_patience",
        "_shown",
        "_stream",
        "_style",
        "_task",
        "done",
        "title",
        "total",
    )

    def __init__(
        self,
        title: str,
        total: int | None,
        choice: Choice = "auto",
        *,
        patience: float = PATIENCE,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title, self.total, self.done = title, total, 0
        self._style = style_of(choice, stream)
        self._stream, self._clock, self._patience = stream, clock, patience
        self._begun = 0.0 if self._style == "off" else clock()
        self._due = self._begun + patience
        # What is on the terminal: a task of rich, or so many characters.
        self._task: Any = None
        self._shown, self._note = 0, ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, count: int = 1) -> None:
        """So much more of the work is done."""
        self.update(self.done + count)

    def update(self, done: int, note: str = "") -> None:
        """So much of the work is done; a note is shown beside the bar."""
        self.done = done
        style = self._style
        if style == "off":
            return
        if callable(style):
            style(self.title, done, self.total)
            return
        now = self._clock()
        if now < self._due:
            return
        self._due, self._note = now + INTERVAL, note
        if style == "rich":
            self._task = BARS.moved(self._task, self.title, done, self.total, note)
        elif is_terminal(self.stream):
            self._write(self._line(now))

    def finish(self, done: int, line: str = "") -> None:
        """The work is over, of which so much was done: a function that was given is told."""
        self.done = done
        if callable(self._style):
            self._style(self.title, done, self.total)
        self.close(line)

    def close(self, line: str = "") -> None:
        """Remove the bar, and leave a line in its place if there is one."""
        if self._task is not None:
            BARS.remove(self._task, line)
            self._task, line = None, ""
        elif self._shown:
            self._write("")
        elif not line and self._style == "plain" and self._took_long():
            line = "" if is_terminal(self.stream) else self._count()
        if line:
            print(line, file=self.stream, flush=True)

    @property
    def stream(self) -> Any:
        """Standard error, unless it was given another."""
        return sys.stderr if self._stream is None else self._stream

    def _took_long(self) -> bool:
        return self._clock() >= self._begun + self._patience

    def _count(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        return f"{self.title}: {self.done}{of}"

    def _line(self, now: float) -> str:
        if not self.total:
            return f"{self._count()} {self._note}".rstrip()
        part = self.done / self.total
        bar = "#" * int(WIDTH * part)
        left = (now - self._begun) * (1 - part) / max(part, 1e-9)
        text = f"{self.title} [{bar:<{WIDTH}}] {part:4.0%}, {left:.0f} s left {self._note}"
        return text.rstrip()

    def _write(self, text: str) -> None:
        blanks = " " * max(0, self._shown - len(text))
        self.stream.write("\r" + text + blanks + ("" if text else "\r"))
        self.stream.flush()
        self._shown = len(text)


class Bars:
    """The bars of rich that are shown now. They share one display, which lasts as long as they do:

    a Jacobian inside a step of a training run is shown below the bar of its epoch.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._display: Any = None
        self._count = 0

    def moved(self, task: Any, title: str, done: int, total: int | None, note: str) -> Any:
        """Move a bar, or make one if there is none yet; gives its task."""
        with self._lock:
            if task is None:
                if self._display is None:
                    self._display = _new_display()
                    self._display.start()
                task = self._display.add_task(title, total=total, note=note)
                self._count += 1
            self._display.update(task, completed=done, note=note)
            return task

    def remove(self, task: Any, line: str) -> None:
        """Remove a bar; the last one ends the display."""
        with self._lock:
            self._display.remove_task(task)
            if line:
                self._display.console.print(line, highlight=False, markup=False, soft_wrap=True)
            self._count -= 1
            if not self._count:
                self._display.stop()
                self._display = None


BARS = Bars()


def _new_display() -> Any:
    # An optional package, and slow to import.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    return Display(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
