"""The classes and functions that a file may name: the library's, and registered ones.

A file holds data and names, never code. `gt.load` looks a name up here; it imports nothing that a
file names. The packages of the library register their classes when they are imported, and the
prefix of a name says which package of the library to import first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from gradtape import pytree, random
from gradtape.libraries import check_exports, check_function, new_lock, shown, tell_change
from gradtape.random import Generator

__all__ = [
    "Change",
    "Codec",
    "register",
    "register_family",
    "register_library",
    "take_attributes",
]

Thing = TypeVar("Thing")


@dataclasses.dataclass(frozen=True)
class Change:
    """A change of one object that is ready to be made, and how to take it back.

    >>> found = []
    >>> gt.storage.Change(lambda: found.append(1), found.clear).apply()
    >>> found
    [1]
    """

    apply: Callable[[], object]
    undo: Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Codec:
    """How objects of one class are taken apart and put together.

    `take_apart` gives the state, a tree. With `fill` an empty instance is made first and then
    filled, so that the state may refer to it; `fill` is also how an existing object takes a loaded
    state. Classes without `fill` are made by `make`, from the state.

    >>> gt.storage.Codec(complex, "complex", lambda z: [z.real, z.imag]).take_apart(1j)
    [0.0, 1.0]
    """

    type: type
    name: str
    take_apart: Callable[[Any], Any]
    fill: Callable[[Any, Any], Change] | None = None
    make: Callable[[Any], Any] | None = None
    # If true, functions in the state are noted by name, as code that `into` has.
    holds_code: bool = False
    # If true, the state refers to variables elsewhere in the tree, so it is filled in last.
    fills_last: bool = False
    # The part that takes the loaded state in place, if it is not all that `take_apart` gives.
    guide: Callable[[Any], Any] | None = None


# The packages of the library whose classes a file may name. They are imported when it does.
PACKAGES = ("nn", "optimizers", "tf", "training")

_lock = new_lock()
_kinds: dict[type, Codec] = {}
_names: dict[str, type] = {}
# Bases whose subclasses are taken apart alike.
_families: dict[type, Callable[[type, str], Codec]] = {}
_functions: dict[str, Callable[..., Any]] = {}
# Functions of libraries that make functions.
_makers: set[str] = set()


def full_name(thing: Any) -> str:
    """The module and the name of a class or function; of another callable, its class."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{getattr(named, '__module__', None)}.{named.__qualname__}"


def register(
    thing: Thing,
    to_state: Callable[[Any], Any] | None = None,
    from_state: Callable[[Any], Any] | None = None,
    *,
    name: str | None = None,
) -> Thing:
    """Allow `gt.load` to make instances of a class, or to give a function back.

    Modules, optimisers, schedules, dataclasses and NamedTuples need no more than the class. For
    other classes `to_state(x)` gives a tree that can be saved, and `from_state(tree)` makes x.
    A file names the class by its module and name, or by `name`.

    >>> class Celsius:
    ...     def __init__(self, degrees):
    ...         self.degrees = degrees
    >>> _ = gt.storage.register(Celsius, lambda c: c.degrees, Celsius, name="Celsius")
    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gt.save([Celsius(20.5)], os.path.join(folder, "t.npz"))
    ...     gt.load(os.path.join(folder, "t.npz"))[0].degrees
    20.5
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"register: name={shown(name)} is not a text. Pass one, or None.")
    if not callable(thing):
        raise TypeError(
            f"register: {shown(thing)} is neither a class nor a function. Pass one of them."
        )
    if (to_state is None) != (from_state is None):
        raise TypeError("register: to_state and from_state belong together. Pass both, or neither.")
    title = full_name(thing) if name is None else name
    if title.startswith("gradtape.") and full_name(thing) != title:
        raise ValueError(f"register: name={title!r} belongs to the library. Choose another.")
    if not isinstance(thing, type):
        if to_state is not None:
            raise TypeError("register: a function has no state. Pass it alone.")
        with _lock:
            _functions[title] = thing
        return thing
    if to_state is not None:
        if not callable(to_state) or not callable(from_state):
            raise TypeError("register: to_state and from_state are not functions. Pass functions.")
        _add(Codec(thing, title, to_state, make=from_state))
        return thing
    family = _family(thing)
    if family is not None:
        _add(family(thing, title))
    elif has_fields(thing) or pytree.registered(thing) is not None:
        with _lock:
            _names[title] = thing
    else:
        raise TypeError(
            f"register: instances of {thing.__name__} cannot be taken apart. "
            "Pass to_state and from_state, or make it a dataclass or a NamedTuple."
        )
    return thing


def _add(kind: Codec) -> None:
    with _lock:
        _kinds[kind.type] = kind
        _names[kind.name] = kind.type


def register_family(base: type, kind: Callable[[type, str], Codec]) -> None:
    """Set how instances of the subclasses of a base are taken apart.

    >>> class Unit:
    ...     pass
    >>> def codec(cls, name):
    ...     return gt.storage.Codec(cls, name, vars, fill=gt.storage.take_attributes)
    >>> gt.storage.register_family(Unit, codec)
    """
    check_function("register_family: kind", kind)
    with _lock:
        _families[base] = kind


def register_library(prefix: str, things: Mapping[str, Any], makes: bool = False) -> None:
    """Name classes and functions of a library, as `gradtape.nn.Dense`, so that files may name them.

    With `makes` they are functions that make functions: `gt.load` calls them again with the
    arguments of a `MadeFunction`.

    >>> gt.storage.register_library("physics", {"gravity": lambda t: 9.81})
    """
    for own, thing in things.items():
        name, family = f"{prefix}.{own}", _family(thing) if isinstance(thing, type) else None
        if family is not None and not has_fields(thing):
            _add(family(thing, name))
        else:
            with _lock:
                (_names if isinstance(thing, type) else _functions)[name] = thing
                if makes:
                    _makers.add(name)


def _family(cls: type) -> Callable[[type, str], Codec] | None:
    return next((_families[base] for base in cls.__mro__ if base in _families), None)


def has_fields(cls: type) -> bool:
    """Whether a class is a NamedTuple or a dataclass."""
    return dataclasses.is_dataclass(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


def field_names(cls: Any) -> list[str]:
    """The names of the fields of a NamedTuple or a dataclass."""
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(cls._fields)


def name_of(cls: type) -> str:
    """The name under which a class is written."""
    kind = _kinds.get(cls)
    if kind is not None:
        return kind.name
    return next((name for name, known in _names.items() if known is cls), full_name(cls))


def kind_of(cls: type) -> Codec | None:
    """How instances of a class are taken apart, registered or not; None for plain data."""
    kind = _kinds.get(cls)
    if kind is not None:
        return kind
    family = None if has_fields(cls) else _family(cls)
    return None if family is None else family(cls, full_name(cls))


def class_named(name: str) -> type | None:
    """The class that a file means by a name, if it may be made."""
    found = _names.get(name)
    if found is None and _import_package(name):
        found = _names.get(name)
    if found is None:
        # A class that is registered as a pytree can be made by the functions given there.
        found = next((cls for cls in pytree.registered_classes() if full_name(cls) == name), None)
    return found


def _import_package(name: str) -> bool:
    """Import the package of the library that a name begins with, if it is one of four."""
    parts = name.split(".")
    if len(parts) > 2 and parts[0] == "gradtape" and parts[1] in PACKAGES:
        import_module(f"gradtape.{parts[1]}")
        return True
    return False


def function_name(function: Any) -> str | None:
    """The name of a registered function."""
    return next((name for name, known in _functions.items() if known is function), None)


def function_named(name: str, makes: bool = False) -> Callable[..., Any] | None:
    """The function that a file means by a name, if it is known; with `makes`, one that may make."""
    if name not in _functions:
        _import_package(name)
    return _functions.get(name) if not makes or name in _makers else None


def take_attributes(x: Any, state: dict[str, Any]) -> Change:
    """The change by which an object gets the attributes of a state.

    >>> class Unit:
    ...     pass
    >>> unit = Unit()
    >>> gt.storage.take_attributes(unit, {"scale": 2.0}).apply()
    >>> unit.scale
    2.0
    """
    before = dict(vars(x))

    def replace(attributes: dict[str, Any]) -> None:
        vars(x).clear()
        vars(x).update(attributes)
        tell_change()

    new = {**before, **state}
    return Change(lambda: replace(new), lambda: replace(before))


def _restore(generator: Generator, state: Any) -> Change:
    new = Generator.from_state(state).state
    before = generator.state
    return Change(lambda: generator.restore(new), lambda: generator.restore(before))


_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")


def _numpy_state(generator: np.random.Generator) -> Any:
    state: Any = generator.bit_generator.state
    if state.get("bit_generator") not in _BIT_GENERATORS:
        raise TypeError(f"the bit generator {state.get('bit_generator')} is not one of NumPy's")
    return state


def _numpy_generator(state: Any) -> np.random.Generator:
    if state["bit_generator"] not in _BIT_GENERATORS:
        raise ValueError(f"{state['bit_generator']!r} is not a bit generator of NumPy")
    made = getattr(np.random, state["bit_generator"])(0)
    made.state = state
    return np.random.Generator(made)


def _restore_numpy(generator: np.random.Generator, state: Any) -> Change:
    _numpy_generator(state)
    bits, before = generator.bit_generator, generator.bit_generator.state
    if before["bit_generator"] != state["bit_generator"]:
        raise ValueError(f"{before['bit_generator']} here and {state['bit_generator']} there")
    return Change(lambda: setattr(bits, "state", state), lambda: setattr(bits, "state", before))


_add(
    Codec(
        Generator,
        "gradtape.random.Generator",
        lambda g: g.state,
        fill=_restore,
        make=Generator.from_state,
    )
)
_add(
    Codec(
        np.random.Generator,
        "numpy.random.Generator",
        _numpy_state,
        fill=_restore_numpy,
        make=_numpy_generator,
    )
)


class SharedStream:
    """Stands in a tree for the stream of `gt.random`."""


def set_stream(_: SharedStream, state: Any) -> Change:
    """The change by which the stream goes on from a state; None is that of an unused stream."""
    before = random.get_state()
    new = None if state is None else Generator.from_state(state).state

    def set_to(state: Any) -> None:
        if state is not None:
            random.set_state(state)

    return Change(lambda: set_to(new), lambda: set_to(before))


SHARED_STREAM = SharedStream()
_add(
    Codec(
        SharedStream,
        "gradtape.random.SharedStream",
        lambda _: random.get_state(),
        fill=set_stream,
        make=lambda state: state,
    )
)


check_exports(globals(), __all__)
