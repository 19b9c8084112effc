"""History: the numbers of each epoch, and a plot of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gradtape.libraries import check_exports

__all__ = ["History"]


# Points are marked if there are so few.
FEW = 30


class History(Mapping[str, list[float]]):
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
        return f"History({self.epochs} epochs, last: {numbers})"

    def plot(self, path: Any = None) -> Any:
        """The curves as a matplotlib figure, which is also written to `path` if there is one.

        matplotlib comes with `pip install gradtape[plot]`.
        """
        try:
            # An optional package.
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError(
                "History.plot: matplotlib is not installed. Install it with "
                "`pip install gradtape[plot]`."
            ) from None
        figure = Figure()
        axes = figure.subplots()
        for name, values in self.numbers.items():
            # A line through one point, or through two with a nan between them, cannot be seen.
            marker = "o" if self.epochs <= FEW else None
            axes.plot(range(1, len(values) + 1), values, marker=marker, label=name)
        axes.set_xlabel("epoch")
        if self.numbers:
            axes.legend()
        if path is not None:
            figure.savefig(path)
        return figure


check_exports(globals(), __all__)
