"""Special methods that classes gain or lose, and classes that decide about instances."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar

from tests.jit.outside.scenarios import Place, place


def _gained(name: str, read: Callable[[Any], float], method: Callable[[float], Any]) -> Place:
    """A class without a special method, which it gets later."""

    class Own:
        number = 1.0

    own = Own()

    def write(number):
        setattr(Own, name, method(number))

    return (lambda: read(own)), write


def _or(function, errors=(TypeError,)):
    def read(own):
        try:
            return function(own)
        except errors:
            return 7.0

    return read


def _contains(own):
    return 1.0 in own


GAINED = {
    "bool": ("__bool__", lambda o: 5.0 if o else 1.0, lambda n: lambda self: n == 3.0),
    "len": ("__len__", lambda o: 5.0 if o else 1.0, lambda n: lambda self: int(n == 3.0)),
    "eq": ("__eq__", lambda o: 5.0 if o == 1.0 else 1.0, lambda n: lambda self, _: n == 2.0),
    "str": ("__str__", lambda o: float(len(f"{o}") > 20), lambda n: lambda self: "a" * int(n)),
    "repr": ("__repr__", lambda o: float(len(repr(o)) > 20), lambda n: lambda self: "a" * int(n)),
    "format": ("__format__", lambda o: float(len(f"{o:}") > 20), lambda n: lambda self, _: "a"),
    "float": ("__float__", _or(float), lambda n: lambda self: n),
    "index": ("__index__", _or(lambda o: float([0, 1, 2, 3][o])), lambda n: lambda self: int(n)),
    "iter": ("__iter__", _or(lambda o: sum(o)), lambda n: lambda self: iter([n])),
    "getitem": ("__getitem__", _or(lambda o: o[0]), lambda n: lambda self, key: n),
    "contains": ("__contains__", _or(_contains), lambda n: lambda self, key: n == 2.0),
    "call": ("__call__", _or(lambda o: o()), lambda n: lambda self: n),
    "add": ("__add__", _or(lambda o: o + 1.0), lambda n: lambda self, other: n),
    "radd": ("__radd__", _or(lambda o: 1.0 + o), lambda n: lambda self, other: n),
    "neg": ("__neg__", _or(lambda o: -o), lambda n: lambda self: n),
    "abs": ("__abs__", _or(abs), lambda n: lambda self: n),
    "lt": ("__lt__", _or(lambda o: 3.0 if o < 1.0 else 2.0), lambda n: lambda self, _: n == 2.0),
    "getattr": (
        "__getattr__",
        _or(lambda o: o.late, AttributeError),
        lambda n: lambda self, name: n,
    ),
    "getattribute": (
        "__getattribute__",
        lambda o: o.number,
        lambda n: lambda self, name: n * 5.0,
    ),
    "property": ("late", _or(lambda o: o.late, AttributeError), lambda n: property(lambda _: n)),
    "hasattr": ("late", lambda o: 4.0 if hasattr(o, "late") else 2.0, lambda n: n),
    "callable": ("__call__", lambda o: 4.0 if callable(o) else 2.0, lambda n: lambda self: n),
}
for _name, _parts in GAINED.items():
    place(functools.partial(_gained, *_parts), f"gained_{_name}")


@place
def constructor_replaced() -> Place:
    class Own:
        def __init__(self):
            self.number = 1.0

    def write(number):
        def initialise(self):
            self.number = number

        Own.__init__ = initialise

    return lambda: Own().number, write


@place
def constructor_gained() -> Place:
    class Own:
        number = 1.0

    def write(number):
        def initialise(self):
            self.number = number

        Own.__init__ = initialise

    return lambda: Own().number, write


@place
def class_made_anew() -> Place:
    space = {}
    exec("class Own:\n    def get(self): return 1.0\ndef read(): return Own().get()", space)
    return (
        space["read"],
        lambda number: exec(f"class Own:\n    def get(self): return {number}", space),
    )


@place
def bases_replaced() -> Place:
    class One:
        def get(self):
            return 1.0

    class Two:
        def get(self):
            return 2.0

    class Own(One):
        pass

    own = Own()

    def write(number):
        Own.__bases__ = (Two,) if number == 2.0 else (One,)

    return lambda: own.get(), write


@place
def meta_class_call() -> Place:
    class Meta(type):
        def __call__(cls, *args):
            return 1.0

    class Own(metaclass=Meta):
        pass

    def write(number):
        Meta.__call__ = lambda cls, *args: number

    return lambda: Own(), write


@place
def meta_class_fallback() -> Place:
    class Meta(type):
        store: ClassVar = {"number": 1.0}

        def __getattr__(cls, name):
            return cls.store[name]

    class Own(metaclass=Meta):
        pass

    return lambda: Own.number, lambda number: Meta.store.__setitem__("number", number)


@place
def class_attribute_hides_meta_class() -> Place:
    class Meta(type):
        number = 1.0

    class Own(metaclass=Meta):
        pass

    return lambda: Own.number, lambda number: setattr(Own, "number", number)


@place
def instance_check() -> Place:
    class Meta(type):
        accepts = 1.0

        def __instancecheck__(cls, instance):
            return instance < cls.accepts

    class Own(metaclass=Meta):
        pass

    return (
        lambda: 5.0 if isinstance(1.5, Own) else 4.0,
        lambda number: setattr(Meta, "accepts", number),
    )


@place
def virtual_subclass() -> Place:
    class Kind(abc.ABC):  # noqa: B024
        pass

    class One:
        pass

    class Two:
        pass

    one, two = One(), Two()
    return (
        lambda: 1.0 + isinstance(one, Kind) + 2.0 * isinstance(two, Kind),
        lambda number: Kind.register(One if number == 2.0 else Two),
    )


@place
def virtual_subclass_of_class() -> Place:
    class Kind(abc.ABC):  # noqa: B024
        pass

    class One:
        pass

    return lambda: 3.0 if issubclass(One, Kind) else 2.0, lambda number: Kind.register(One)


@place
def subclass_hook() -> Place:
    store = [1.0]

    class Kind(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other):
            return store[0] > 1.5

    class One:
        pass

    def write(number):
        store[0] = number
        Kind._abc_caches_clear()

    one = One()
    return lambda: 3.0 if isinstance(one, Kind) else 2.0, write
