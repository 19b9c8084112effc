"""Sequential: one module after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradtape.nn.module import Module
from gradtape.tensor.tensor import Tensor

__all__ = ["Sequential"]


class Sequential(Module):
    """Modules, or any functions, applied one after the other.

    >>> model = gt.nn.Sequential([gt.nn.Dense(8), gt.nn.relu, gt.nn.Dense(1)])
    >>> model(np.zeros((4, 2))).shape
    (4, 1)
    >>> print(model)
    Sequential(
      layers.0: Dense(units=8, activation=None, use_bias=True)
      layers.2: Dense(units=1, activation=None, use_bias=True)
    )
    """

    def __init__(self, layers: Iterable[Callable[..., Any]] = (), name: str | None = None) -> None:
        self.name = "sequential" if name is None else name
        self.layers: list[Callable[..., Any]] = []
        for layer in layers:
            self.add(layer)

    def add(self, layer: Callable[..., Any]) -> None:
        """Append a module or function.

        >>> model = gt.nn.Sequential()
        >>> model.add(gt.nn.Dense(3))
        >>> len(model)
        1
        """
        if not callable(layer):
            raise TypeError(
                f"Sequential: {type(layer).__name__} cannot be called. Pass modules or functions."
            )
        self.layers.append(layer)

    def call(self, x: Tensor) -> Any:
        """The output of the last layer."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> Callable[..., Any]:
        return self.layers[index]

    def __iter__(self) -> Iterator[Callable[..., Any]]:
        return iter(self.layers)
