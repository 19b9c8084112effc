"""Module: an object whose attributes hold variables and other modules."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from gradtape import Variable
from gradtape.libraries import check_exports
from gradtape.nn.module import Module as CoreModule
from gradtape.tf.base.scopes import name_scope

__all__ = ["Module"]

R = TypeVar("R")


class Module:
    """An object whose attributes hold variables and other modules, also in lists and dicts.

    >>> class Line(tf.Module):
    ...     def __init__(self, name=None):
    ...         super().__init__(name=name)
    ...         self.slope = tf.Variable(2.0, name="slope")
    ...
    ...     def __call__(self, x):
    ...         return self.slope * x
    >>> line = Line()
    >>> line(3.0).numpy().item(), line.name, [v.name for v in line.trainable_variables]
    (6.0, 'line', ['slope:0'])
    """

    def __init__(self, name: str | None = None) -> None:
        if name is not None and not re.match(r"^[A-Za-z_]\w*$", name):
            raise ValueError(f"{name!r} is not a valid module name: use an identifier.")
        self._name = name or _snake_case(type(self).__name__)

    @property
    def name(self) -> str:
        """The name of the module; by default that of its class."""
        return getattr(self, "_name", _snake_case(type(self).__name__))

    @property
    def name_scope(self) -> name_scope:
        """The scope that prefixes names of variables with the name of the module."""
        return name_scope(f"{self.name}/")

    @property
    def variables(self) -> Sequence[Any]:
        """All variables, by the names of their attributes; those of modules inside come last."""
        return tuple(thing for thing in _walk(self) if isinstance(thing, Variable))

    @property
    def trainable_variables(self) -> Sequence[Any]:
        """The variables that are to be trained."""
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def non_trainable_variables(self) -> Sequence[Any]:
        """The variables that are not to be trained."""
        return tuple(variable for variable in self.variables if not variable.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules inside."""
        result = (thing for thing in _walk(self) if isinstance(thing, Module))
        return tuple(module for module in result if module is not self)

    @classmethod
    def with_name_scope(cls, method: Callable[..., R]) -> Callable[..., R]:
        """The method, called inside the name scope of its module.

        >>> class Line(tf.Module):
        ...     @tf.Module.with_name_scope
        ...     def build(self):
        ...         self.slope = tf.Variable(2.0, name="slope")
        >>> line = Line()
        >>> line.build()
        >>> line.slope.name
        'line/slope:0'
        """

        @functools.wraps(method)
        def inside(self: Module, *args: Any, **kwargs: Any) -> R:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return inside


def _snake_case(name: str) -> str:
    spaced = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", spaced).lower().lstrip("_")


def _walk(root: object) -> Iterator[object]:
    """A module, its own variables, then the same of each module inside; each thing once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        module = waiting.pop(0)
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield module
        inside: list[object] = []
        own = module.attributes() if hasattr(module, "attributes") else None
        for value in [value for _, value in sorted(vars(module).items())] if own is None else own:
            _collect(value, inside, ())
        for thing in inside:
            if isinstance(thing, Variable) and id(thing) not in seen:
                seen.add(id(thing))
                yield thing
        waiting[:0] = [thing for thing in inside if not isinstance(thing, Variable)]


def _collect(value: object, result: list[object], inside: tuple[int, ...]) -> None:
    if isinstance(value, (Variable, Module, CoreModule)):
        result.append(value)
        return
    if isinstance(value, dict):
        parts = [part for _, part in sorted(value.items(), key=lambda item: str(item[0]))]
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        return
    if id(value) not in inside:
        for part in parts:
            _collect(part, result, (*inside, id(value)))


check_exports(globals(), __all__)
