"""The variables and random streams of an object by the path of attributes that leads to them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from gradtape import Variable as CoreVariable
from gradtape.nn.module import Module as CoreModule
from gradtape.optimizers.optimizer import Optimizer
from gradtape.random import Generator as CoreGenerator
from gradtape.tf.ops.random_numbers import Generator
from gradtape.tf.programs.module import Module

# Attributes of layers that hold what other attributes hold as well, or what no state is.
_PASSED_OVER = frozenset(
    (
        "_added",
        "_arguments",
        "_between",
        "_chain",
        "_inputs",
        "_outputs",
        "_owner",
        "_regularized",
        "_symbolic_call",
    )
)

Cell = CoreVariable | CoreGenerator


def cells_of(root: Any) -> dict[str, Cell]:
    """The variables and streams below an object by path, each once, under its first path."""
    found: dict[str, Cell] = {}
    _collect(root, "", found, set())
    return found


def is_trackable(thing: Any) -> bool:
    """Whether an object may hold variables."""
    kinds = (
        CoreVariable,
        Module,
        CoreModule,
        Optimizer,
        Generator,
        CoreGenerator,
        list,
        tuple,
        dict,
    )
    return isinstance(thing, kinds) or hasattr(thing, "variables")


def _collect(thing: Any, path: str, found: dict[str, Cell], seen: set[int]) -> None:
    if id(thing) in seen or not is_trackable(thing):
        return
    seen.add(id(thing))
    if isinstance(thing, (CoreVariable, CoreGenerator)):
        found[path or "value"] = thing
        return
    parts: list[tuple[Any, Any]]
    if isinstance(thing, Generator):
        parts = [("stream", thing._stream)]
    elif isinstance(thing, (list, tuple)):
        parts = list(enumerate(thing))
    elif isinstance(thing, dict):
        parts = list(thing.items())
    elif isinstance(thing, (Module, CoreModule)):
        # Public attributes first: a variable is known by the name that users gave it.
        named = sorted(vars(thing).items(), key=lambda item: (item[0].startswith("_"), item[0]))
        parts = [(name, value) for name, value in named if name not in _PASSED_OVER]
    else:
        # Optimizers and metrics list their state in an order that does not change.
        parts = list(enumerate(thing.variables))
    for name, part in parts:
        _collect(part, f"{path}.{name}" if path else str(name), found, seen)


class Waiting:
    """Values that were read before the variables that they belong to were made."""

    def __init__(
        self,
        root: Any,
        values: dict[str, Any],
        cells: Callable[[Any], dict[str, Cell]],
        fill: Callable[[Any, Any], None],
    ) -> None:
        self.root = weakref.ref(root)
        self.values, self.cells, self.fill = values, cells, fill

    def settle(self) -> None:
        """Give values to variables that have been made since."""
        root = self.root()
        if root is None:
            self.values.clear()
            return
        for name, cell in self.cells(root).items():
            if name in self.values:
                self.fill(cell, self.values.pop(name))


_waiting: list[Waiting] = []


def wait_for(waiting: Waiting) -> None:
    """Keep values until their variables are made."""
    _waiting.append(waiting)


def stop_waiting(root: Any) -> None:
    """Forget the values that wait for variables of an object: others are read now."""
    _waiting[:] = [each for each in _waiting if each.root() is not root]


def variables_were_made() -> None:
    """Layers and optimizers call this when they have made variables."""
    if _waiting:
        for each in list(_waiting):
            each.settle()
        _waiting[:] = [each for each in _waiting if each.values]
