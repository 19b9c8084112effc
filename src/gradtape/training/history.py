"""History: the numbers of each epoch, and a plot of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradtape.libraries import Displayed, check_exports, new_figure

__all__ = ["History"]


# Points are marked if there are so few.
FEW = 30


class History(Displayed, Mapping[str, list[float]]):
    """The numbers of each epoch by name, as lists.

    >>> history = gt.training.History()
    >>> history.add({"loss": 2.0, "val_loss": 3.0})
    >>> history.add({"loss": 1.0, "val_loss": 2.5})
    >>> history["loss"], history.last(), history.epochs
    ([2.0, 1.0], {'loss': 1.0, 'val_loss': 2.5}, 2)
    """

    def __init__(self) -> None:
        self.numbers: dict[str, list[float]] = {}
        self.epochs = 0
        # Why the run ended: "all epochs", "early stopping".
        self.ended = ""

    def _fields(self) -> list[tuple[str, Any]]:
        numbers = ((name, _shortened(values)) for name, values in self.numbers.items())
        return [("epochs", self.epochs), *numbers, *([("ended", self.ended)] if self.ended else [])]

    def add(self, logs: Mapping[str, float]) -> None:
        """Record the numbers of one more epoch; nan stands for epochs without a number."""
        for name, value in logs.items():
            self.numbers.setdefault(name, [float("nan")] * self.epochs).append(float(value))
        self.epochs += 1
        for values in self.numbers.values():
            values += [float("nan")] * (self.epochs - len(values))

    def last(self) -> dict[str, float]:
        """The numbers of the last epoch."""
        return {name: values[-1] for name, values in self.numbers.items() if values}

    def __getitem__(self, name: str) -> list[float]:
        return self.numbers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={value:.6g}" for name, value in self.last().items())
        numbers = numbers or "nothing; the step returned None, not the loss"
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs} epochs"
        return f"History({epochs}, last: {numbers})"

    def plot(self, path: Any = None) -> Any:
        """The curves as a matplotlib figure, which is also written to `path` if there is one.

        Without a path, a notebook shows the figure below the cell, and a script by `plt.show()`.
        matplotlib comes with `pip install gradtape[plot]`.
        """
        figure = new_figure("History.plot", shown=path is None)
        axes = figure.subplots()
        for name, values in self.numbers.items():
            # A line through one point, or through two with a nan between them, cannot be seen.
            marker = "o" if self.epochs <= FEW else None
            axes.plot(range(1, len(values) + 1), values, marker=marker, label=name)
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
        if self.numbers:
            axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure


def _shortened(values: list[float]) -> str:
    """The first and the last of the numbers."""
    first, last = values[:2], values[2:][-4:]
    between = ["..."] if len(values) > len(first) + len(last) else []
    return ", ".join([*(f"{v:.6g}" for v in first), *between, *(f"{v:.6g}" for v in last)])


check_exports(globals(), __all__)
