"""Objects, containers and classes that the search meets: what they hold under the names read."""

from __future__ import annotations

import abc
import collections
import functools
import itertools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

from gradtape.ir.op import Op
from gradtape.jit.guards.guards import dictionary_of
from gradtape.jit.guards.never_replayed import module_of
from gradtape.jit.guards.search import MISSING, SINGLE, GuardSearch, class_entry
from gradtape.pytree import registered
from gradtape.tensor.variable import Variable
from gradtape.trace.change_counter import TellsChanges

# So many entries of one container are compared.
MOST_ENTRIES = 1000
# The flag of classes that are made while the program runs.
_HEAP_TYPE = 1 << 9
_NO_ENTRIES = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__"))
# Special methods that run while objects are made, copied or deleted.
_MAKERS = (
    "__init__",
    "__new__",
    "__post_init__",
    "__init_subclass__",
    "__set_name__",
    "__del__",
    "__reduce__",
    "__getstate__",
    "__setstate__",
)
# Attributes of wrappers that hold what they wrap.
WRAPPERS: tuple[tuple[type, tuple[str, ...]], ...] = (
    (functools.partial, ("func", "args", "keywords")),
    (functools.partialmethod, ("func", "args", "keywords")),
    (functools.cached_property, ("func",)),
    (property, ("fget", "fset", "fdel")),
    (staticmethod, ("__func__",)),
    (classmethod, ("__func__",)),
)


def visit_contents(search: GuardSearch, value: Any, label: str) -> None:
    """Lists, dicts, sets and their subclasses: what they hold, in its order."""
    reads: tuple[Callable[[Any], Any], ...]
    if isinstance(value, dict):
        search.found.containers.add(id(value))
        reads = (dict.keys, dict.values)
        size = dict.__len__(value)
    elif isinstance(value, list):
        search.found.containers.add(id(value))
        reads, size = (list.copy,), list.__len__(value)
    elif isinstance(value, tuple):
        for number, item in enumerate(itertools.islice(tuple.__iter__(value), MOST_ENTRIES)):
            search.enter(item, f"{label}[{number}]")
        return
    elif isinstance(value, (set, frozenset)):
        reads, size = (_elements,), len(_elements(value))
    elif isinstance(value, collections.deque):
        reads, size = (collections.deque.copy,), collections.deque.__len__(value)
    elif isinstance(value, (bytearray, memoryview)) or _is_memory(type(value)):
        reads, size = (_bytes_of,), 1
    elif isinstance(value, types.MappingProxyType):
        reads, size = (_entries,), len(_entries(value))
    else:
        return
    if size > MOST_ENTRIES:
        return
    for read in reads:
        how = _WAYS.get(read, "")
        for number, item in enumerate(search.add(read, value, label, how=how)):
            search.enter(item, f"{label}[{number}]")


def add_attributes(search: GuardSearch, value: Any, names: tuple[str, ...], label: str) -> None:
    labels = [f"{label}.{name}" for name in names]
    read = operator.attrgetter(*names, *names[: len(names) == 1])
    for name, part in zip(labels, search.add(read, value, labels), strict=False):
        search.enter(part, name)


def visit_attributes(search: GuardSearch, value: Any, label: str) -> None:
    """Attributes of an instance by the names that code reads."""
    kind = type(value)
    if isinstance(kind.__getattribute__, types.FunctionType):
        # Reading an attribute would run the user's code.
        held = dictionary_of(value)
        if held is not None:
            search.look_again(lambda names: search.read_dict(held, names, f"{label}."))
        return
    told = _announces(value)
    # Code of the standard library and of installed packages is not looked through.
    is_foreign = any(
        each is not object and module_of(each) != "builtins" and search.is_foreign(module_of(each))
        for each in kind.__mro__
    )
    entries = frozenset().union(*[vars(each) for each in kind.__mro__])
    if not kind.__flags__ & _HEAP_TYPE:
        # Objects of built-in classes keep their class; their methods do not change.
        entries = frozenset()
        if dictionary_of(value) is None:
            return

    def look(names: set[str]) -> None:
        held = dictionary_of(value) or {}
        whole = search.all or (search.all_own and isinstance(value, TellsChanges))
        found = names & entries
        found |= held.keys() if whole or is_foreign else names & held.keys()
        texts = sorted(name for name in found if isinstance(name, str))
        plain = [name for name in texts if _is_plain(kind, name, held)]
        for name in texts:
            if isinstance(class_entry(kind, name), types.MemberDescriptorType):
                if _has(value, name):
                    plain.append(name)
                else:
                    _guard_slot(search, value, name, label)
        _guard_attributes(search, value, plain, label, told)

    search.look_again(look)
    if not told and dictionary_of(value) is not None:
        search.add_absent(dictionary_of, value, search.names, label)


def _announces(value: Any) -> bool:
    """Whether an object announces all its changes."""
    kind = type(value)
    if module_of(kind).startswith("gradtape."):
        return isinstance(value, (TellsChanges, Variable))
    # A class of the user may write to the `__dict__`, past the announcement.
    return isinstance(value, TellsChanges) and kind.__setattr__ is TellsChanges.__setattr__


def _is_plain(kind: type, name: str, held: dict[str, Any]) -> bool:
    """Whether reading an attribute runs no code: it lies in the instance, or is data of a class."""
    entry = class_entry(kind, name)
    if name == "__class__" or entry is MISSING:
        return True
    if hasattr(type(entry), "__get__"):
        return name in held and not hasattr(type(entry), "__set__")
    return True


def _guard_attributes(
    search: GuardSearch, value: Any, names: list[str], label: str, told: bool
) -> None:
    if not names:
        return
    read = operator.attrgetter(*names, *names[: len(names) == 1])
    labels = [f"{label}.{name}" for name in names]
    seen = search.add(read, value, labels, told, "attributes", names)
    for name, part in zip(labels, seen, strict=False):
        if type(part) not in SINGLE and not name.endswith(".__class__"):
            search.never(part, name)
            search.enter(part, name)


def _guard_slot(search: GuardSearch, value: Any, name: str, label: str) -> None:
    """Compare a slot that is empty now."""
    search.add(_optional(name), value, [f"{label}.{name}"])


def visit_held(search: GuardSearch, holder: Any, label: str) -> None:
    """What an object of the library holds: functions and objects of the user's."""
    if isinstance(holder, (Variable, Op)):
        return
    wrapped = getattr(holder, "python_function", None)
    parts = [wrapped] if wrapped is not None else _held_by(holder)
    for part in parts:
        if callable(part) or isinstance(part, (list, tuple, dict)):
            search.enter(part, label)


def visit_class(search: GuardSearch, kind: type) -> None:
    """Attributes and methods of a class and its bases, by the names that code reads."""
    for each in kind.__mro__:
        if each is object or not search.is_users(module_of(each)):
            continue
        _visit_own(search, each)
    for part in registered(kind) or ():
        search.enter(part, f"flatten of {kind.__qualname__}")
    if isinstance(kind, abc.ABCMeta) and not search.registrations:
        # Abstract classes may take others for their subclasses: Python counts when they do.
        search.registrations = True
        search.add(_count_of_registrations, abc, ["subclasses of abstract classes"])
    if type(kind) is not type and type(kind) is not abc.ABCMeta:
        search.enter(type(kind), type(kind).__qualname__)


def visit_makers(search: GuardSearch, kind: type) -> None:
    """What a class that code names may run to make an instance."""
    for each in kind.__mro__:
        if each is not object and search.is_users(module_of(each)):
            held = vars(each)
            made = [name for name in _MAKERS if name in held]
            search.add_items(held, made, f"{each.__qualname__}.")


def _visit_own(search: GuardSearch, kind: type) -> None:
    if kind in search.classes:
        return
    search.classes.add(kind)
    label, held = kind.__qualname__, vars(kind)
    is_own = module_of(kind).startswith("gradtape.")

    def look(names: set[str]) -> None:
        found = [
            name
            for name, entry in list(held.items())
            if name not in (*_NO_ENTRIES, *_MAKERS)
            and (name in names or search.all or (_is_called(name) and _is_code(entry)))
        ]
        if is_own:
            # A class of the library is not changed; its code reads the user's objects.
            for name in found:
                if _is_code(held[name]):
                    search.enter(held[name], f"{label}.{name}")
        else:
            search.add_items(held, found, f"{label}.")

    search.look_again(look)
    if not is_own:
        search.add_absent(vars, kind, search.names, label)


def is_of_library(value: Any) -> bool:
    """Whether a property or method of a class of the library, which does not change."""
    function = getattr(value, "fget", None) or getattr(value, "__func__", None)
    scope = getattr(function, "__globals__", {})
    return str(scope.get("__name__", "")).startswith("gradtape.")


def _optional(name: str) -> Callable[[Any], Any]:
    return lambda value: (getattr(value, name, MISSING),)


def _bytes_of(value: Any) -> tuple[bytes]:
    return (bytes(value),)


def _has(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _is_called(name: str) -> bool:
    """Whether Python calls a method of this name on objects that exist."""
    return name[:2] == "__" == name[-2:] and name not in _MAKERS


def _is_code(entry: Any) -> bool:
    return isinstance(
        entry, (types.FunctionType, property, staticmethod, classmethod, functools.cached_property)
    )


def _count_of_registrations(module: Any) -> tuple[int]:
    return (module.get_cache_token(),)


def _is_memory(kind: type) -> bool:
    """Whether objects of a class are memory that can be written to: `array`, `ctypes`."""
    return any(module_of(each) in ("array", "_ctypes") for each in kind.__mro__)


def _elements(value: Any) -> list[Any]:
    base = set if isinstance(value, set) else frozenset
    return [*base.__iter__(value)]


def _entries(value: Any) -> list[Any]:
    return [*value.keys(), *value.values()]


def _held_by(holder: Any) -> Iterator[Any]:
    """What the slots and the dictionary of an object of the library hold."""
    yield from (dictionary_of(holder) or {}).values()
    for kind in type(holder).__mro__:
        for name, entry in kind.__dict__.items():
            if isinstance(entry, types.MemberDescriptorType):
                yield getattr(holder, name, None)


# How native code compares containers: see `jit.native.guard_table`.
_WAYS: dict[Any, str] = {
    list.copy: "list",
    dict.keys: "keys",
    dict.values: "values",
    _elements: "elements",
}
