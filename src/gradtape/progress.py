"""Progress of long operations: bars of rich, or one plain line.

`gt.set_progress` sets the default of the process; `gt.fit` and `gt.distributed.map` have an
argument of their own.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from gradtape.config import PROGRESS_INTERVAL, PROGRESS_PATIENCE, variable
from gradtape.display import in_notebook

__all__ = ["set_progress"]

# Called with the title of the work, the amount done and the total, which may be None.
Listener = Callable[[str, int, int | None], object]
Choice = str | bool | Listener

CHOICES = ("auto", "rich", "plain", "off")


def set_progress(progress: Choice) -> None:
    """Set the default progress display of long operations.

    >>> seen = []
    >>> gt.set_progress(lambda title, done, total: seen.append((title, done, total)))
    >>> _ = gt.jacobian(lambda x: x * x, chunk_size=2)(np.ones(4))
    >>> seen
    [('jacobian', 2, 4), ('jacobian', 4, 4)]
    >>> gt.set_progress("auto")

    | progress | what is shown |
    |---|---|
    | `"auto"` or True | one of the next two if standard error is a terminal |
    | `"rich"` | a bar of rich, which `pip install gradtape[progress]` installs |
    | `"plain"` | one line: rewritten on a terminal, written at the end elsewhere |
    | `"off"` or False | nothing |
    | a function | it is called after every round: with a title, the amount done, and the total |

    Dense Jacobians and Hessians in chunks, the detection of sparsity patterns and their colouring
    show progress after two seconds. `gt.fit` and `gt.distributed.map` have an argument of their own
    beside this. `GRADTAPE_PROGRESS` makes the choice before the first call. In a notebook lines go
    to standard output, which is no terminal.
    """
    _Default.choice = chosen("set_progress: ", progress)


def chosen(name: str, choice: Any) -> Choice:
    """A user's choice, checked; `name` begins the error.

    >>> gt.libraries.checked_progress("map: progress=", "plain")
    'plain'
    """
    if isinstance(choice, bool) or callable(choice):
        return choice
    if not isinstance(choice, str) or choice not in CHOICES:
        raise ValueError(
            f"{name}{choice!r} is no form of progress. Use one of {', '.join(CHOICES)}, True, "
            "False, or a function of a title, the amount that is done, and the total."
        )
    if choice == "rich" and not _has_rich():
        raise ImportError(
            f"{name}{choice!r}: rich is not installed. Install it with "
            "`pip install gradtape[progress]`, or choose 'plain'."
        )
    return choice


class _Default:
    """The choice of this process. The environment is read at the first use."""

    choice: Choice | None = None


def style_of(choice: Choice) -> str | Listener:
    """`rich`, `plain`, `off`, or a function to call.

    The choice `auto` is the default of the process. True is the same, but shows something
    everywhere, because the caller requested it.

    >>> gt.libraries.progress_style(False)
    'off'
    """
    shown = choice is True
    if choice is True or choice == "auto":
        if _Default.choice is None:
            _Default.choice = chosen("GRADTAPE_PROGRESS=", variable("PROGRESS", "auto"))
        choice = _Default.choice
    if choice is False:
        return "off"
    if not isinstance(choice, bool) and choice != "auto":
        return choice
    if _is_terminal():
        return "rich" if _has_rich() else "plain"
    return "plain" if shown else "off"


def _has_rich() -> bool:
    # Slow to import, and needed when work takes long.
    from importlib.util import find_spec

    return find_spec("rich") is not None


def _stream() -> Any:
    """Standard error; in a notebook standard output, because notebooks mark the other as errors."""
    return sys.stdout if in_notebook() else sys.stderr


def _is_terminal() -> bool:
    try:
        return bool(_stream().isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


class Progress:
    """The finished part of some work; a context, which removes the bar at its end.

    `total` may be None. Nothing is shown before `patience` seconds have passed. A user's function
    is called at every round.

    >>> with gt.libraries.Progress("rows", 2, lambda *seen: print(seen)) as progress:
    ...     progress.advance()
    ('rows', 1, 2)
    """

    def __init__(
        self,
        title: str,
        total: int | None,
        choice: Choice = "auto",
        *,
        patience: float = PROGRESS_PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title, self.total, self.done = title, total, 0
        self._style, self._clock = style_of(choice), clock
        self._due = 0.0 if self._style == "off" else clock() + patience
        self._is_late = False
        # The task of rich, and the characters of the plain line, that are shown now.
        self._task: Any = None
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, count: int = 1) -> None:
        """Add to the amount done."""
        self.update(self.done + count)

    def update(self, done: int, note: str = "") -> None:
        """Set the amount done; a note is shown beside it."""
        self.done = done
        if callable(self._style):
            self._style(self.title, done, self.total)
        elif self._style != "off" and (now := self._clock()) >= self._due:
            self._is_late, self._due = True, now + PROGRESS_INTERVAL
            if self._style == "rich":
                self._task = BARS.moved(self._task, self.title, done, self.total, note)
            elif _is_terminal():
                self._write(f"{self._count()} {note}".rstrip())

    def finish(self, done: int, line: str = "") -> None:
        """Set the amount done for the last time, and call a user's function once more."""
        self.done = done
        if callable(self._style):
            self._style(self.title, done, self.total)
        self.close(line)

    def close(self, line: str = "") -> None:
        """Remove the bar, and leave a line in its place if there is one."""
        if self._task is not None:
            BARS.remove(self._task, line)
            self._task, line = None, ""
        elif self._width:
            self._write("")
        elif not line and self._style == "plain" and not _is_terminal():
            # Work that took longer than the patience leaves a line in a file.
            line = self._count() if self._is_late or self._clock() >= self._due else ""
        if line:
            print(line, file=_stream(), flush=True)

    def _count(self) -> str:
        of = "" if self.total is None else f" of {self.total}"
        return f"{self.title}: {self.done}{of}"

    def _write(self, text: str) -> None:
        stream = _stream()
        stream.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
        stream.flush()
        self._width = len(text)


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
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
        console=Console(file=_stream()),
        transient=True,
    )
