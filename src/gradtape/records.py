"""The standard library's dataclasses, made when a class is first used.

`dataclasses.dataclass` compiles up to six methods of each class as it is defined, which took a
third of `import gradtape`: it defines about fifty such classes, and a run constructs few of them.
Here a class becomes a dataclass when one of its methods is first called. Type checkers see the
standard decorator. A class that users construct, or one with slots, takes the standard decorator,
because `inspect.signature` and `dataclasses.fields` of the class have to see its fields.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, TypeVar

_METHODS = ("__init__", "__repr__", "__eq__", "__hash__")
_FACTS = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__replace__")
_LOCK = threading.RLock()
# The options of classes that were not used yet.
_WAITING: dict[type, dict[str, bool]] = {}

AnyClass = TypeVar("AnyClass")

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """`dataclasses.dataclass`, applied when a method of the class is first called."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        left_out = {"__eq__", "__hash__"} if options.get("eq") is False else set()
        _WAITING[cls] = options
        for name in _METHODS:
            if name not in vars(cls) and name not in left_out:
                setattr(cls, name, _first(cls, name))
        return cls


def _first(cls: type, name: str) -> Callable[..., object]:
    def method(self: Any, *args: object, **kwargs: object) -> object:
        with _LOCK:
            for each in reversed(cls.__mro__):
                if each in _WAITING:
                    _complete(each)
        return hash(self) if name == "__hash__" else getattr(cls, name)(self, *args, **kwargs)

    method.is_first = True  # type: ignore[attr-defined]
    return method


def _complete(cls: Any) -> None:
    """Give a class what the standard decorator makes of a copy of it.

    Other threads use the class meanwhile: attributes are replaced one by one, `__init__` last.
    """
    own = {
        name: value
        for name, value in vars(cls).items()
        if name not in ("__dict__", "__weakref__") and not hasattr(value, "is_first")
    }
    copy = type(cls)(cls.__name__, cls.__bases__, own)
    made = vars(dataclasses.dataclass(**_WAITING[cls])(copy))
    if _WAITING[cls].get("frozen"):
        cls.__setattr__, cls.__delattr__ = _refuse_change, _refuse_deletion
    for name in made["__dataclass_fields__"]:
        if isinstance(own.get(name), dataclasses.Field):
            if name in made:
                setattr(cls, name, made[name])
            else:
                delattr(cls, name)
    for name in (*_FACTS, *reversed(_METHODS)):
        if name in made:
            setattr(cls, name, made[name])
    del _WAITING[cls]


def _refuse_change(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def described(**fields: str) -> Callable[[type[AnyClass]], type[AnyClass]]:
    """A decorator that gives the fields of a named tuple their docstrings.

    >>> from typing import NamedTuple
    >>> @gt.libraries.described(x="Horizontal.", y="Vertical.")
    ... class Point(NamedTuple):
    ...     x: float
    ...     y: float
    >>> Point.y.__doc__
    'Vertical.'
    """

    def decorate(cls: type[AnyClass]) -> type[AnyClass]:
        for name, text in fields.items():
            vars(cls)[name].__doc__ = text
        return cls

    return decorate
