"""Surroundings: what a function reads in Python besides its arguments, and whether it has changed.

A captured function holds as long as the names it uses mean the same: variables of the functions
around it, globals, attributes of objects that it is a method of or knows by such a name. They are
found in its code, and in that of the Python functions that it names. What a run of the function
changes itself is an effect of it, and no reason to run it again.
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

from gradtape.graph.lines import warn
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

# Functions that are looked into, and entries of a container that are looked at.
FUNCTIONS = 32
ENTRIES = 32
# Attributes of attributes are looked at this deep.
DEPTH = 2
# Arrays of so many bytes are compared as strings of them.
SHORT = 4096
# To compare arrays of so many bytes takes milliseconds.
LARGE = 1 << 25

_SIMPLE = (bool, int, float, complex, str, bytes, type(None), enum.Enum)
_CONTAINERS = (list, tuple, dict, set, frozenset)
_GONE = object()


class Place:
    """Where a name finds its value: how to read it, also as an expression over `here`."""

    __slots__ = ("expression", "here", "label", "read")

    def __init__(self, label: str, here: Any, expression: str, read: Callable[[], Any]) -> None:
        self.label = label
        self.here = here
        self.expression = expression
        self.read = read

    def value(self) -> Any:
        try:
            return self.read()
        except (ValueError, KeyError, AttributeError, TypeError):
            return _GONE


class Surroundings:
    """The values that names around a function have before a run of it."""

    def __init__(self, function: Callable[..., Any], args: Iterable[Any]) -> None:
        self._known = [
            (place, seen)
            for place in _places(function, args)
            if (seen := _seen(place.value())) is not None
        ]
        self._random = _foreign_generators()

    def has_drawn(self) -> bool:
        """Whether the generators of Python or NumPy that everybody shares have moved since."""
        return _foreign_generators() != self._random

    def settle(self, effects: set[str]) -> Callable[[], bool] | None:
        """After the run: what tells whether something has changed since, unless it never does.

        What the run itself changed is added to its effects.
        """
        effects.update(place.label for place, seen in self._known if not seen.same(place.value()))
        self._known = [each for each in self._known if each[0].label not in effects]
        for place, seen in self._known:
            if isinstance(seen, _Array) and seen.nbytes >= LARGE:
                warn(
                    f"gt.function: {place.label} is a NumPy array of {seen.nbytes >> 20} MB that "
                    "is read from outside, and compared at every call because it can be changed. "
                    "Make it a tensor with gt.asarray, or read-only (flags.writeable = False)."
                )
        return self._written() if self._known else None

    def difference(self) -> tuple[str, str, str] | None:
        """The first name that means something else now, with what it was and is."""
        for place, seen in self._known:
            now = place.value()
            if not seen.same(now):
                label = f"{place.label}, which it reads from outside,"
                return label, seen.words, _words(now)
        return None

    def _written(self) -> Callable[[], bool]:
        """The comparison, written out by name: it is made in every call."""
        names: dict[str, Any] = {}
        tests = []
        for number, (place, seen) in enumerate(self._known):
            names[f"here{number}"] = place.here
            now = place.expression.replace("here", f"here{number}")
            names[f"seen{number}"] = seen.quick
            tests.append(seen.template.format(now=now, seen=f"seen{number}"))
        # Where a name is gone, something has changed, too.
        lines = [
            "def differs():",
            "    try:",
            f"        return {' or '.join(tests)}",
            "    except (ValueError, KeyError, AttributeError, TypeError):",
            "        return True",
        ]
        exec("\n".join(lines), names)
        return names["differs"]


class _Seen:
    """A value as it was: `template` is what tells at once that it is another one."""

    template = "{now} is not {seen}"

    def __init__(self, value: Any) -> None:
        self.quick = value
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        then = self.quick
        if now is then:
            return True
        if isinstance(then, (float, complex)) and type(now) is type(then):
            return repr(now) == repr(then)
        return type(now) is type(then) and bool(now == then)


class _Object(_Seen):
    """An object, which is told from others by being itself, and not kept alive by that."""

    template = "{now} is not {seen}()"

    def __init__(self, value: Any) -> None:
        self.quick = _reference(value)
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        return now is self.quick()


class _Array(_Seen):
    """An array that may be changed in place."""

    template = "not {seen}({now})"

    def __init__(self, value: Any) -> None:
        self._content = np.array(value, order="C")
        self.quick = self.same
        self.words = _words(value)

    @property
    def nbytes(self) -> int:
        return self._content.nbytes

    def same(self, now: Any) -> bool:
        then = self._content
        return (
            type(now) is np.ndarray
            and now.shape == then.shape
            and now.dtype == then.dtype
            and _same_memory(now, then)
        )


class _Content(_Seen):
    """A container that may be changed in place, with what it holds."""

    template = "not {seen}({now})"

    def __init__(self, value: Any, parts: list[_Seen]) -> None:
        self._kind = type(value)
        self._keys = list(value) if self._kind is dict else None
        self._parts = parts
        self.quick = self.same
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        if type(now) is not self._kind or len(now) != len(self._parts):
            return False
        if self._keys is not None:
            if list(now) != self._keys:
                return False
            now = now.values()
        return all(part.same(each) for part, each in zip(self._parts, now, strict=False))


class _Set(_Seen):
    """The same of a set of simple things."""

    template = "not {seen}({now})"

    def __init__(self, value: Any) -> None:
        self._kind, self._content = type(value), frozenset(value)
        self.quick = self.same
        self.words = _words(value)

    def same(self, now: Any) -> bool:
        return type(now) is self._kind and now == self._content


def _same_memory(one: Any, other: Any) -> bool:
    if one.nbytes <= SHORT or not one.flags.c_contiguous:
        return one.tobytes() == other.tobytes()
    word = np.uint64 if one.nbytes % 8 == 0 else np.uint8
    return np.array_equal(one.reshape(-1).view(word), other.reshape(-1).view(word))


def _seen(value: Any, depth: int = 0) -> _Seen | None:
    """What a value is compared with later; None of what is not followed."""
    if isinstance(value, _SIMPLE):
        return _Seen(value)
    if type(value) is np.ndarray:
        if value.dtype.kind not in "biufc" or not _may_change(value):
            return None
        return _Array(value)
    if isinstance(value, (set, frozenset)):
        simple = len(value) <= ENTRIES and all(isinstance(part, _SIMPLE) for part in value)
        return _Set(value) if simple else None
    if type(value) in _CONTAINERS:
        if len(value) > ENTRIES or depth > DEPTH:
            return None
        if type(value) is dict and not all(isinstance(key, _SIMPLE) for key in value):
            return None
        held = value.values() if type(value) is dict else value
        parts = [_seen(part, depth + 1) for part in held]
        known = [part for part in parts if part is not None]
        return _Content(value, known) if len(known) == len(parts) else None
    return None if value is _GONE else _Object(value)


def _reference(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:
        return lambda: thing


def _may_change(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def _foreign_generators() -> tuple[Any, ...]:
    """Where the shared generators of Python and NumPy are, if anybody has imported them."""
    python, numpy = (sys.modules.get(name) for name in ("random", "numpy.random"))
    found: list[Any] = []
    if python is not None:
        _, words, normal = python.getstate()
        found += [words[0], words[-1], normal]
    if numpy is not None:
        _, key, *rest = numpy.get_state()
        found += [int(key[0]), *rest]
    return tuple(found)


def _words(value: Any) -> str:
    if value is _GONE:
        return "nothing"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, (*_SIMPLE, *_CONTAINERS)):
        text = repr(value)
        return text if len(text) < 60 else f"{text[:57]}..."
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    called = f" {name}" if isinstance(name, str) else ""
    return f"a {type(value).__name__}{called} at {id(value):#x}"


# Where names are found.


def _places(function: Callable[..., Any], args: Iterable[Any]) -> list[Place]:
    search = _Search()
    search.begin(function, list(args))
    found: dict[Any, Place] = {}
    for place in search.run():
        found.setdefault((place.label, id(place.here)), place)
    return list(found.values())


class _Search:
    """Goes through a function, and through the functions and objects that it names."""

    def __init__(self) -> None:
        self._functions: dict[int, Any] = {}
        self._objects: dict[int, tuple[str, Any]] = {}

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
        self._enter(function)
        code = getattr(function, "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        for number, arg in enumerate(args):
            self._meet(names[number] if number < len(names) else f"argument {number}", arg)

    def run(self) -> list[Place]:
        """All places, once nothing new is found in them."""
        count = -1
        found: list[Place] = []
        while count != len(self._functions) + len(self._objects):
            count = len(self._functions) + len(self._objects)
            functions = list(self._functions.values())
            names = {name for each in functions for name in _names(each.__code__)}
            places = [place for each in functions for place in _places_of(each)]
            for label, thing in list(self._objects.values()):
                places += _attributes(label, thing, names)
                for name in (*names, "__call__"):
                    self._enter(_of_class(thing, name))
                    self._enter(vars(thing).get(name) if hasattr(thing, "__dict__") else None)
            found = []
            for place in places:
                value = place.value()
                if not (isinstance(value, _NAMESPACES) or _is_definition(place.label, value)):
                    found.append(place)
                self._enter(value)
                if place.label.count(".") < DEPTH:
                    self._meet(place.label, value)
        return found

    def _meet(self, label: str, value: Any) -> None:
        """Look at the attributes of an object."""
        if _has_attributes(value) and len(self._objects) < FUNCTIONS:
            self._objects.setdefault(id(value), (label, value))

    def _enter(self, value: Any) -> None:
        """Look into a function."""
        if isinstance(value, _NAMESPACES):
            return
        while not isinstance(value, types.FunctionType):
            inner = [getattr(value, name, None) for name in _INNER]
            value = next((each for each in inner if callable(each)), None)
            if value is None:
                return
        if not _is_library(value) and len(self._functions) < FUNCTIONS:
            self._functions.setdefault(id(value), value)


# Attributes by which things that are called know the function behind them.
_INNER = ("__func__", "python_function", "func", "fget", "__wrapped__")
_NAMESPACES = (types.ModuleType, type)


def _places_of(function: Any) -> Iterator[Place]:
    """The variables of functions around a function, and the globals that it names."""
    code, known = function.__code__, function.__globals__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        yield Place(
            name, cell, "here.cell_contents", functools.partial(getattr, cell, "cell_contents")
        )
    for name in _names(code):
        if name in known:
            yield Place(name, known, f"here[{name!r}]", functools.partial(known.__getitem__, name))


def _attributes(label: str, thing: Any, names: Iterable[str]) -> Iterator[Place]:
    """Attributes of an object, of its class, of a class or of a module."""
    reference = _reference(thing)
    held = getattr(thing, "__dict__", {})
    for name in names:
        if name in held or isinstance(_of_class(thing, name), _PLAIN_ATTRIBUTES):
            yield Place(
                f"{label}.{name}",
                reference,
                f"here().{name}",
                functools.partial(_read_attribute, reference, name),
            )


def _read_attribute(reference: Callable[[], Any], name: str) -> Any:
    return getattr(reference(), name)


def _of_class(thing: Any, name: str) -> Any:
    """What a class has under a name, without asking descriptors."""
    for kind in type(thing).__mro__:
        if name in vars(kind):
            return vars(kind)[name]
    return None


# Slots, and values that all instances share.
_PLAIN_ATTRIBUTES = (
    types.MemberDescriptorType, bool, int, float, complex, str, list, tuple, dict, np.ndarray,
    Tensor, Variable,
)  # fmt: skip


def _names(code: Any) -> set[str]:
    found = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            found |= _names(part)
    return found


def _has_attributes(value: Any) -> bool:
    """Whether something of the user's own has attributes: an object, a class or a module."""
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, Tensor, Variable)):
        return False
    if isinstance(value, (*_SIMPLE, *_CONTAINERS, np.ndarray, np.generic)):
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


def _is_definition(label: str, value: Any) -> bool:
    """Whether a name is that of a function that was defined or imported under it."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, np.ufunc)
    return isinstance(value, kinds) and value.__name__ == label.rpartition(".")[2]


def _is_library(function: Any) -> bool:
    module = function.__module__ or ""
    return module.partition(".")[0] in ("gradtape", "numpy", "scipy")
