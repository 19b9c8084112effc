"""Outside names: the names that a function reads besides its arguments, found in its code.

Code objects list the names that they use. The search begins with the function, and goes on in
Python functions and objects of the user's that those names stand for, up to a bound.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# Functions and objects that are searched, and entries of a container that are compared.
FUNCTIONS = 32
ENTRIES = 32
# Attributes of attributes are followed this deep.
DEPTH = 2

SIMPLE = (bool, int, float, complex, str, bytes, type(None), enum.Enum)
CONTAINERS = (list, tuple, dict, set, frozenset)
# The value of a name that is not bound any more.
GONE = object()


class OutsideName:
    """A name that a function reads: its owner, and how to read it there.

    The owner is a cell, the dictionary of globals, or a reference to an object.
    """

    __slots__ = ("_read", "_template", "label", "owner")

    def __init__(
        self, label: str, owner: object, template: str, read: Callable[[], object]
    ) -> None:
        self.label = label
        self.owner = owner
        self._template = template
        self._read = read

    def expression(self, owner: str) -> str:
        """The value as a Python expression, where the owner is known by this name."""
        return self._template.format(owner=owner)

    def value(self) -> Any:
        """The value now."""
        try:
            return self._read()
        except (ValueError, KeyError, AttributeError, TypeError):
            return GONE


def reference_to(thing: object) -> Callable[[], Any]:
    """A weak reference, or a strong one to what has none."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def outside_names(function: Callable[..., Any], args: Iterable[object]) -> list[OutsideName]:
    """The names that a function uses, its own and those of functions that it names.

    `args` are the arguments whose attributes count: None in the place of others.
    """
    search = _Search()
    search.begin(function, list(args))
    found: dict[tuple[str, int], OutsideName] = {}
    for name in search.run():
        found.setdefault((name.label, id(name.owner)), name)
    return list(found.values())


class _Search:
    """Searches a function, and the functions and objects that it names, for names it reads."""

    def __init__(self) -> None:
        self._functions: dict[int, types.FunctionType] = {}
        self._objects: dict[int, tuple[str, object]] = {}

    def begin(self, function: Any, args: list[Any]) -> None:
        """Start with a function and the arguments that it is called with."""
        while isinstance(function, functools.partial):
            args = [*function.args, *args]
            function = function.func
        if isinstance(function, types.MethodType):
            args.insert(0, function.__self__)
            function = function.__func__
        elif not isinstance(function, types.FunctionType):
            args.insert(0, function)
            function = type(function).__call__
        self._add_function(function)
        code = getattr(function, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        for number, arg in enumerate(args):
            self._add_object(names[number] if number < len(names) else f"argument {number}", arg)

    def run(self) -> list[OutsideName]:
        """All names, once the search finds no new functions and objects through them."""
        count = -1
        found: list[OutsideName] = []
        while count != len(self._functions) + len(self._objects):
            count = len(self._functions) + len(self._objects)
            functions = list(self._functions.values())
            names = {name for each in functions for name in _names(each.__code__)}
            places = [place for each in functions for place in _places_of(each)]
            for label, thing in list(self._objects.values()):
                places += _attributes(label, thing, names)
                for name in (*names, "__call__"):
                    self._add_function(_of_class(thing, name))
                    self._add_function(
                        vars(thing).get(name) if hasattr(thing, "__dict__") else None
                    )
            found = []
            for place in places:
                value = place.value()
                if not (isinstance(value, _NAMESPACES) or _is_definition(place.label, value)):
                    found.append(place)
                self._add_function(value)
                if place.label.count(".") < DEPTH:
                    self._add_object(place.label, value)
        return found

    def _add_object(self, label: str, value: object) -> None:
        """Search the attributes of an object."""
        if _has_attributes(value) and len(self._objects) < FUNCTIONS:
            self._objects.setdefault(id(value), (label, value))

    def _add_function(self, value: Any) -> None:
        """Search a function."""
        if isinstance(value, _NAMESPACES):
            return
        while not isinstance(value, types.FunctionType):
            inner = [getattr(value, name, None) for name in _INNER]
            value = next((each for each in inner if callable(each)), None)
            if value is None:
                return
        if not _is_library(value) and len(self._functions) < FUNCTIONS:
            self._functions.setdefault(id(value), value)


# Attributes under which callable objects keep the function behind them.
_INNER = ("__func__", "python_function", "func", "fget", "__wrapped__")
_NAMESPACES = (types.ModuleType, type)


def _places_of(function: types.FunctionType) -> Iterator[OutsideName]:
    """The variables of functions around a function, and the globals that it names."""
    code, known = function.__code__, function.__globals__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        yield OutsideName(
            name, cell, "{owner}.cell_contents", functools.partial(getattr, cell, "cell_contents")
        )
    for name in _names(code):
        if name in known:
            yield OutsideName(
                name, known, f"{{owner}}[{name!r}]", functools.partial(known.__getitem__, name)
            )


def _attributes(label: str, thing: object, names: Iterable[str]) -> Iterator[OutsideName]:
    """Attributes of an object, of its class, of a class or of a module."""
    reference = reference_to(thing)
    held = getattr(thing, "__dict__", {})
    for name in names:
        if name in held or isinstance(_of_class(thing, name), _PLAIN_ATTRIBUTES):
            yield OutsideName(
                f"{label}.{name}",
                reference,
                f"{{owner}}().{name}",
                functools.partial(_read_attribute, reference, name),
            )


def _read_attribute(reference: Callable[[], Any], name: str) -> Any:
    return getattr(reference(), name)


def _of_class(thing: object, name: str) -> Any:
    """The entry of a class or its bases under a name, without running descriptors."""
    for kind in type(thing).__mro__:
        if name in vars(kind):
            return vars(kind)[name]
    return None


# Slots, and values that all instances share.
_PLAIN_ATTRIBUTES = (
    types.MemberDescriptorType, bool, int, float, complex, str, list, tuple, dict, np.ndarray,
    Tensor, Variable,
)  # fmt: skip


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            found |= _names(part)
    return found


def _has_attributes(value: object) -> bool:
    """Whether something of the user's own has attributes: an object, a class or a module."""
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, Tensor, Variable)):
        return False
    if isinstance(value, (*SIMPLE, *CONTAINERS, np.ndarray, np.generic)):
        return False
    if isinstance(value, types.ModuleType):
        return not _is_foreign(value.__name__)
    return not _is_foreign((value if isinstance(value, type) else type(value)).__module__)


def _is_foreign(module: str) -> bool:
    """Whether a module is the library's own, Python's or one that was installed."""
    root = module.partition(".")[0]
    if root in ("gradtape", "numpy", "scipy") or module == "__main__":
        return root != "__main__"
    if module == "types":  # a SimpleNamespace is the user's
        return False
    if root in sys.stdlib_module_names:
        return True
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" in path


def _is_definition(label: str, value: object) -> bool:
    """Whether a name is that of a function that was defined or imported under it."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, np.ufunc)
    return isinstance(value, kinds) and value.__name__ == label.rpartition(".")[2]


def _is_library(function: types.FunctionType) -> bool:
    module = function.__module__ or ""
    return module.partition(".")[0] in ("gradtape", "numpy", "scipy")
