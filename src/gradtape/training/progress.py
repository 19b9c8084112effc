"""Epochs: the progress of a training run, as a bar that moves and a line for each epoch."""

from __future__ import annotations

from collections.abc import Mapping

from gradtape.config import PROGRESS_INTERVAL
from gradtape.libraries import Progress, checked_progress, progress_style
from gradtape.typing import ProgressChoice


class Epochs:
    """The bar of the current epoch; the line that it leaves is shown on files, too."""

    def __init__(self, choice: ProgressChoice) -> None:
        self._choice = checked_progress("fit: progress=", choice)
        self._bar: Progress | None = None
        self._title = ""
        # "auto" prints lines instead of a bar without a terminal: a log should have the losses.
        # Where progress is off, or goes to a function, there are none.
        style = progress_style(True if self._choice == "auto" else self._choice)
        self._lines = style in ("rich", "plain")

    def begin(self, epoch: int, epochs: int, batches: int) -> None:
        """An epoch begins; 0 batches stand for a number that is not known."""
        self._title = f"epoch {epoch + 1}/{epochs}"
        self._bar = Progress(self._title, batches or None, self._choice, patience=PROGRESS_INTERVAL)

    def move(self, batch: int, loss: float | None) -> None:
        """Show that `batch` batches of the epoch are done."""
        if self._bar is not None:
            self._bar.update(batch, "" if loss is None else f"loss {loss:.6g}")

    def end(self, batch: int, logs: Mapping[str, float]) -> None:
        """The epoch is over."""
        if self._bar is not None:
            numbers = "  ".join(f"{name} {value:.6g}" for name, value in logs.items())
            self._bar.finish(batch, f"{self._title}  {numbers}" if self._lines else "")
            self._bar = None

    def close(self) -> None:
        """The run is over, perhaps in the middle of an epoch."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
