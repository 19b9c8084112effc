"""Objects and classes that the walk meets: their attributes by the names that are read."""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from gradtape.functions.outside import visit_containers, visit_functions
from gradtape.functions.outside.trusted_code import (
    c_base,
    is_library_class,
    is_own_class,
    is_trusted_function,
    is_trusted_module,
    reads_whole_objects,
    tells_changes,
    what_it_may_do,
)
from gradtape.pytree import registered
from gradtape.tensor.generator import Generator
from gradtape.tensor.tensor import Tensor
from gradtape.tensor.variable import Variable

if TYPE_CHECKING:
    from gradtape.functions.outside.walk import Walk

_MISSING = object()
# Registrations of abstract classes are counted by Python.
_NO_ENTRIES = frozenset(
    ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "_abc_impl")
)
# Wrappers of Python functions, with the attributes that hold them.
_WRAPPERS: dict[type, tuple[str, ...]] = {
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.cached_property: ("func",),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
}
# Those whose parts nobody can replace.
_FIXED_WRAPPERS = (staticmethod, classmethod, property)
# Entries of classes that are equal to no other object, or to texts that say the same: lists of
# them are compared by C in a tenth of the time of comparing one by one.
_SAME_IF_EQUAL = (
    types.FunctionType, staticmethod, classmethod, property, functools.cached_property,
    types.MemberDescriptorType, types.GetSetDescriptorType, type(None), str, type,
)  # fmt: skip


def visit_object(walk: Walk, value: Any, expression: str, label: str, told: bool) -> None:
    """An instance of a class: who it is, its content, its attributes, its class."""
    comparisons, kind = walk.comparisons, type(value)
    now = walk.meet(value, expression)
    try:
        reference: Any = weakref.ref(value)
    except TypeError:
        comparisons.check(f"{now} is not {comparisons.thing(value)}", now, told)
    else:
        # The object may be gone, and None in its place.
        comparisons.check(
            f"{now} is None or {now} is not {comparisons.thing(reference)}()", now, told
        )
    if isinstance(value, (Tensor, Variable, Generator)):
        _visit_followed(walk, value, now, label)
        return
    for wrapper, parts in _WRAPPERS.items():
        if isinstance(value, wrapper):
            fixed = told and kind in _FIXED_WRAPPERS
            for part in parts:
                walk.later(getattr(value, part), f"{now}.{part}", f"{label}.{part}", None, fixed)
            if kind is wrapper:
                return
    if isinstance(value, functools._lru_cache_wrapper):
        # A function that was not run this time may be run next time, and read anything.
        if not is_trusted_function(value.__wrapped__):
            walk.unknown.append(f"it reads {label}, whose cache may be emptied")
        return
    if is_library_class(kind):
        visit_functions.search_held(walk, value, label)
        return
    if not _visit_content(walk, value, now, label):
        return
    comparisons.check(f"type({now}) is not {comparisons.thing(kind)}", now, tells_changes(value))
    _visit_attributes(walk, value, now, label)
    visit_class(walk, kind, kind.__qualname__)


def _visit_followed(walk: Walk, value: Any, now: str, label: str) -> None:
    """Tensors, variables and generators: the capture itself follows what they hold."""
    if isinstance(value, Tensor):
        walk.tensors.append(weakref.ref(value))
    elif isinstance(value, Variable) and (walk.any_own_attribute or "trainable" in walk.names):
        walk.later(value.trainable, f"{now}.trainable", f"{label}.trainable", told=True)


def _visit_content(walk: Walk, value: Any, now: str, label: str) -> bool:
    """What an object of a subclass of a class of C holds besides attributes; False if unknown."""
    comparisons, base = walk.comparisons, c_base(type(value))
    if base in (list, deque, tuple):
        items = [*base.__iter__(value)]
        comparisons.check(f"{comparisons.thing(base.__len__)}({now}) != {len(items)}", now)
        listed = comparisons.local(f"[*{comparisons.thing(base.__iter__)}({now})]")
        visit_containers.visit_items(walk, items, listed, label)
    elif issubclass(base, dict):
        visit_containers.visit_entries(walk, value, now, label)
    elif base in (set, frozenset):
        items = [*base.__iter__(value)]
        comparisons.check(f"{comparisons.thing(base.__len__)}({now}) != {len(items)}", now)
        listed = comparisons.local(f"[*{comparisons.thing(base.__iter__)}({now})]")
        visit_containers.visit_items(walk, items, listed, f"an element of {label}, ")
    elif base in (int, float, complex, str, bytes):
        make: Any = base.__new__
        convert = str.__str__ if base is str else functools.partial(make, base)
        comparisons.check_value(f"{comparisons.thing(convert)}({now})", convert(value))
    elif base not in (object, types.SimpleNamespace, *_WRAPPERS):
        name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        if "random" in name.lower() or "random" in label:
            walk.unknown.append(f"it reads {label}, {what_it_may_do('random')}")
        else:
            walk.unknown.append(f"it reads {label}, a {name}, whose state cannot be seen")
        return False
    return True


def _visit_attributes(walk: Walk, value: Any, now: str, label: str) -> None:
    comparisons, kind = walk.comparisons, type(value)
    told = tells_changes(value)
    held: Any = getattr(value, "__dict__", None)
    has_dictionary = type(held) is dict
    if not has_dictionary:
        held = {}
    everything = _any_name(walk, kind) or reads_whole_objects(kind)
    for name in sorted(held if everything else walk.names & held.keys()):
        if name.isidentifier():
            walk.later(held[name], _reading(kind, now, name), f"{label}.{name}", None, told)
    for name in _slots(kind):
        if everything or name in walk.names:
            found = getattr(value, name, _MISSING)
            if found is _MISSING:
                comparisons.check(f"hasattr({now}, {name!r})", told=told)
            else:
                walk.later(found, f"{now}.{name}", f"{label}.{name}", None, told)
    if everything and has_dictionary:
        comparisons.check(f"len({now}.__dict__) != {len(held)}", told=told)
    elif has_dictionary:
        # An attribute of the object would come before that of its class.
        absent = {name for name in walk.names - held.keys() if not _is_special(name)}
        if not (walk.handles_errors or _in_class(kind, "__getattr__")):
            absent = {name for name in absent if _in_class(kind, name)}
        if absent:
            hidden = comparisons.thing(frozenset(absent))
            comparisons.check(f"not {now}.__dict__.keys().isdisjoint({hidden})", told=told)


def visit_class(walk: Walk, kind: type, label: str) -> None:
    """A class and its bases: what is read of them by name, and methods that ran."""
    if (id(kind), "class") in walk.scopes:
        return
    walk.scopes[id(kind), "class"] = None
    comparisons = walk.comparisons
    if all(each is object or is_trusted_module(each.__module__) for each in kind.__mro__):
        return
    ways = [each for each in kind.__mro__ if c_base(each) is not each]
    if all(is_trusted_module(each.__module__) for each in ways):
        return
    comparisons.begin(f"class {label}", kind)
    comparisons.check(f"{comparisons.thing(kind)}.__mro__ is not {comparisons.thing(kind.__mro__)}")
    if type(kind) is not type:
        visit_class(walk, type(kind), type(kind).__qualname__)
    functions = registered(kind)
    if functions is not None:
        now = f"{comparisons.thing(registered)}({comparisons.thing(kind)})"
        walk.later(functions, now, f"flatten and unflatten of {label}")
    for each in ways:
        if not is_trusted_module(each.__module__):
            _visit_own(walk, each, label if each is kind else each.__qualname__)


def _visit_own(walk: Walk, kind: type, label: str) -> None:
    """The entries of one class."""
    if (id(kind), "own") in walk.scopes:
        return
    walk.scopes[id(kind), "own"] = None
    comparisons = walk.comparisons
    comparisons.begin(f"class {label}", kind)
    own = comparisons.thing(kind.__dict__)
    entries = list(kind.__dict__.items())
    any_name = _any_name(walk, kind)
    together: set[str] = set()
    if any_name and is_own_class(kind):
        any_name = False
        # What a class of the library holds may be replaced, and does not change. The names come
        # first, so that a new entry moves the values.
        seen = comparisons.thing([*kind.__dict__, *kind.__dict__.values()])
        comparisons.check(f"[*{own}, *{own}.values()] != {seen}")
        together = {name for name, entry in entries if type(entry) in _SAME_IF_EQUAL}
        for name, entry in entries:
            if name not in together:
                comparisons.check(f"{own}[{name!r}] is not {comparisons.thing(entry)}")
    else:
        # A new name may come before that of a base, or be one that Python looks up by itself.
        comparisons.check(f"{own}.keys() != {comparisons.thing(frozenset(kind.__dict__))}")
    for name, entry in entries:
        called = _functions(entry)
        is_read = name in walk.names or (any_name and not (_is_special(name) and not called))
        if any_name and not is_read and name not in _NO_ENTRIES:
            # Data that Python keeps for itself, such as `__match_args__`.
            comparisons.check(f"{own}[{name!r}] is not {comparisons.thing(entry)}")
        if name in _NO_ENTRIES or not (is_read or (_is_special(name) and called)):
            continue
        if called and not is_read and not _run(walk, called):
            continue
        walk.later(entry, f"{own}[{name!r}]", f"{label}.{name}", told=name in together)


def _any_name(walk: Walk, kind: type) -> bool:
    """Whether attributes of any name may be read of such objects."""
    return walk.any_attribute or (walk.any_own_attribute and any(map(is_own_class, kind.__mro__)))


def _run(walk: Walk, functions: list[Any]) -> bool:
    return not walk.observed or any(each.__code__ in walk.executed for each in functions)


def _functions(entry: Any) -> list[Any]:
    """The Python functions behind an entry of a class."""
    if isinstance(entry, types.FunctionType):
        return [entry]
    if isinstance(entry, (staticmethod, classmethod)):
        return _functions(entry.__func__)
    if isinstance(entry, property):
        parts = (entry.fget, entry.fset, entry.fdel)
        return [each for part in parts if part is not None for each in _functions(part)]
    return []


def _is_special(name: str) -> bool:
    return name[:2] == "__" == name[-2:]


def _reading(kind: type, now: str, name: str) -> str:
    """How an attribute in the dictionary of an object is read."""
    return (
        f"{now}.__dict__[{name!r}]"
        if _in_class(kind, name) or name[:2] == "__"
        else f"{now}.{name}"
    )


def _in_class(kind: type, name: str) -> bool:
    return any(name in each.__dict__ for each in kind.__mro__)


def _slots(kind: type) -> list[str]:
    return [
        name
        for each in kind.__mro__
        for name, entry in each.__dict__.items()
        if isinstance(entry, types.MemberDescriptorType) and c_base(each) is not each
    ]
