"""Progress: a bar of rich, lines of text, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

CHOICES = ("auto", "rich", "plain", "off")


class Progress:
    """Shows nothing."""

    def begin(self, epoch: int, epochs: int, batches: int) -> None:
        """An epoch begins; 0 batches stand for a number that is not known."""

    def move(self, batch: int, loss: float | None) -> None:
        """So many batches of the epoch are done."""

    def end(self, logs: Mapping[str, float]) -> None:
        """The epoch is over."""

    def close(self) -> None:
        """The run is over."""


class Plain(Progress):
    """One line for each epoch, to the standard error."""

    def begin(self, epoch: int, epochs: int, batches: int) -> None:
        """Note the epoch."""
        self._title = f"epoch {epoch + 1}/{epochs}"

    def end(self, logs: Mapping[str, float]) -> None:
        """Print the line."""
        numbers = "  ".join(f"{name} {value:.6g}" for name, value in logs.items())
        print(f"{self._title}  {numbers}", file=sys.stderr, flush=True)


class Rich(Plain):
    """A bar, and a line for each epoch above it."""

    def __init__(self) -> None:
        # An optional package.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), TextColumn("{task.fields[loss]}"),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._bar.start()
        self._task: Any = None

    def begin(self, epoch: int, epochs: int, batches: int) -> None:
        """A new bar."""
        super().begin(epoch, epochs, batches)
        self._task = self._bar.add_task(self._title, total=batches or None, loss="")

    def move(self, batch: int, loss: float | None) -> None:
        """Move the bar."""
        text = "" if loss is None else f"loss {loss:.6g}"
        self._bar.update(self._task, completed=batch, loss=text)

    def end(self, logs: Mapping[str, float]) -> None:
        """Leave a line in place of the bar."""
        self._bar.remove_task(self._task)
        numbers = "  ".join(f"{name} {value:.6g}" for name, value in logs.items())
        self._bar.console.print(f"{self._title}  {numbers}", highlight=False)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()


def make(choice: str | bool) -> Progress:
    """The progress that a user asked for."""
    word = {True: "auto", False: "off"}.get(choice, choice) if isinstance(choice, bool) else choice
    if word not in CHOICES:
        raise ValueError(f"fit: progress={choice!r} is not one of {', '.join(CHOICES)}.")
    if word == "off":
        return Progress()
    installed = find_spec("rich") is not None
    if word == "rich" and not installed:
        raise ImportError(
            "fit: rich is not installed. Install it with `pip install gradtape[progress]`, or pass "
            "progress='plain'."
        )
    if installed and (word == "rich" or (word == "auto" and sys.stderr.isatty())):
        return Rich()
    return Plain()
