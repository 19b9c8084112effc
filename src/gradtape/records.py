"""Dataclasses whose methods are compiled at their first use, and not at import.

`dataclasses.dataclass` compiles up to six methods of each class as it is defined. That took 45 of
the 130 ms of `import gradtape`, which defines 66 such classes, and a run constructs few of them.
Here a class gets its fields at once and each of its methods at the first use. Type checkers see the
standard decorator. A class that users construct, or one with slots, takes the standard decorator,
because `inspect.signature` has to show its fields.
"""

from __future__ import annotations

import builtins
import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True):
        """What `dataclasses.dataclass` makes, with methods that are compiled when first used."""
        if cls is None:
            return lambda cls: _with_methods(cls, frozen, eq, repr)
        return _with_methods(cls, frozen, eq, repr)


def _with_methods(cls: type, frozen: bool, eq: bool, shown: bool) -> type:
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    names = ["__init__"]
    names += ["__repr__"] if shown else []
    names += ["__eq__"] if eq else []
    names += ["__hash__"] if eq and frozen else []
    names = [name for name in names if name not in vars(cls)]
    for name in names:
        setattr(cls, name, _until_first_use(cls, name, frozen))
    if eq and not frozen and "__hash__" not in vars(cls):
        cls.__hash__ = None  # type: ignore[assignment]
    if frozen:
        for name, method in (("__setattr__", _refuse_change), ("__delattr__", _refuse_deletion)):
            if name in vars(cls):
                raise TypeError(f"{cls.__name__} is frozen and defines {name}. Remove one of both.")
            setattr(cls, name, method)
    return cls


def _until_first_use(cls: type, name: str, frozen: bool) -> Callable[..., object]:
    def method(self: object, *args: object, **kwargs: object) -> object:
        made = _compiled(cls, name, frozen)
        setattr(cls, name, made)
        return made(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _compiled(cls: type, name: str, frozen: bool) -> Callable[..., object]:
    fields = dataclasses.fields(cls)
    known: dict[str, Any] = {
        # C code that a method calls imports by the builtins of its caller: NumPy's dtypes do.
        "__name__": __name__,
        "__builtins__": builtins,
        "absent": _ABSENT,
        "write": object.__setattr__,
    }
    texts = {
        "__init__": lambda: _init_text(cls, fields, frozen, known),
        "__repr__": lambda: _repr_text([each.name for each in fields if each.repr]),
        "__eq__": lambda: _eq_text([each.name for each in fields if each.compare]),
        "__hash__": lambda: _hash_text(
            [each.name for each in fields if (each.compare if each.hash is None else each.hash)]
        ),
    }
    # The name of this file marks it as code of the library, which `gt.function` does not watch.
    exec(compile("\n".join(texts[name]()), __file__, "exec"), known)
    found: Callable[..., object] = known[name]
    found.__qualname__ = f"{cls.__qualname__}.{name}"
    found.__module__ = cls.__module__
    return found


class _Absent:
    """The default of an argument whose value a factory makes."""


_ABSENT = _Absent()


def _init_text(
    cls: type, fields: tuple[dataclasses.Field[Any], ...], frozen: bool, known: dict[str, Any]
) -> list[str]:
    parameters: list[str] = []
    body: list[str] = []
    keyword_only = False
    for each in sorted(fields, key=lambda each: bool(each.kw_only)):
        if not each.init:
            continue
        if each.kw_only and not keyword_only:
            parameters.append("*")
            keyword_only = True
        if each.default is not dataclasses.MISSING:
            known[f"default_{each.name}"] = each.default
            parameters.append(f"{each.name}=default_{each.name}")
        elif each.default_factory is not dataclasses.MISSING:
            known[f"factory_{each.name}"] = each.default_factory
            parameters.append(f"{each.name}=absent")
            body.append(f"if {each.name} is absent: {each.name} = factory_{each.name}()")
        else:
            parameters.append(each.name)
    for each in fields:
        value = each.name
        if not each.init:
            if each.default_factory is dataclasses.MISSING:
                continue
            known[f"factory_{each.name}"] = each.default_factory
            value = f"factory_{each.name}()"
        body.append(
            f"write(self, {each.name!r}, {value})" if frozen else f"self.{each.name} = {value}"
        )
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    head = ", ".join(["self", *parameters])
    return [f"def __init__({head}):", *(f"    {line}" for line in body or ["pass"])]


def _repr_text(names: list[str]) -> list[str]:
    shown = ", ".join(f"{name}={{self.{name}!r}}" for name in names)
    return ["def __repr__(self):", f"    return f'{{type(self).__qualname__}}({shown})'"]


def _tuple(of: str, names: list[str]) -> str:
    return "(" + "".join(f"{of}.{name}, " for name in names) + ")"


def _eq_text(names: list[str]) -> list[str]:
    return [
        "def __eq__(self, other):",
        "    if other.__class__ is not self.__class__: return NotImplemented",
        f"    return {_tuple('self', names)} == {_tuple('other', names)}",
    ]


def _hash_text(names: list[str]) -> list[str]:
    return ["def __hash__(self):", f"    return hash({_tuple('self', names)})"]


def _refuse_change(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(
        f"cannot assign to field {name!r} of a {type(self).__name__}: it never changes. "
        "Make another with dataclasses.replace."
    )


def _refuse_deletion(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(
        f"cannot delete field {name!r} of a {type(self).__name__}: it never changes."
    )
