"""Classes and instances outside: attributes and methods that are replaced."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import types

from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Place, place


@place
def class_attribute() -> Place:
    class Own:
        number = 1.0

    own = Own()
    return lambda: own.number, lambda number: setattr(Own, "number", number)


@place
def class_attribute_by_name() -> Place:
    class Own:
        number = 1.0

    return lambda: Own.number, lambda number: setattr(Own, "number", number)


@place
def base_class_attribute() -> Place:
    class Base:
        number = 1.0

    class Middle(Base):
        pass

    class Own(Middle):
        pass

    own = Own()
    return lambda: own.number, lambda number: setattr(Middle, "number", number)


@place
def instance_hides_class() -> Place:
    class Own:
        number = 1.0

    own = Own()
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def class_method() -> Place:
    class Own(Holder):
        pass

    return lambda: Own.of_class(), lambda number: setattr(Own, "limit", number)


@place
def method_replaced() -> Place:
    class Own(Holder):
        pass

    own = Own()

    def write(number):
        Own.get = lambda self: number

    return lambda: own.get(), write


@place
def method_of_instance_replaced() -> Place:
    own = Holder()
    return lambda: own.get(), lambda number: setattr(own, "get", lambda: number)


@place
def special_method_replaced() -> Place:
    class Own(Holder):
        pass

    own = Own()

    def write(number):
        Own.__call__ = lambda self: number

    return lambda: own(), write


@place
def class_of_instance_replaced() -> Place:
    class One:
        def get(self):
            return 1.0

    class Two:
        def get(self):
            return 2.0

    class Three:
        def get(self):
            return 3.0

    own = One()

    def write(number):
        own.__class__ = Two if number == 2.0 else Three

    return lambda: own.get(), write


@place
def property_replaced() -> Place:
    class Own(Holder):
        pass

    own = Own()
    return lambda: own.doubled, lambda number: setattr(
        Own, "doubled", property(lambda self: number)
    )


@place
def deep_attribute() -> Place:
    root = types.SimpleNamespace(a=Holder())
    root.a.b = Holder()
    root.a.b.c = types.SimpleNamespace(d=Holder())
    return lambda: root.a.b.c.d.number, lambda number: setattr(root.a.b.c.d, "number", number)


@place
def attribute_object_replaced() -> Place:
    root = Holder()
    root.inner = Holder()
    return lambda: root.inner.number, lambda number: setattr(root, "inner", Holder(number))


@place
def fallback_attribute() -> Place:
    class Own:
        def __init__(self):
            self.store = {"number": 1.0}

        def __getattr__(self, name):
            return self.store[name]

    own = Own()
    return lambda: own.number, lambda number: own.store.__setitem__("number", number)


@place
def string() -> Place:
    own = Holder("a")
    return lambda: float(len(own.number)), lambda number: setattr(own, "number", "a" * int(number))


@place
def switch() -> Place:
    own = Holder(False)
    return lambda: 2.0 if own.number else 1.0, lambda number: setattr(own, "number", number == 2.0)


@place
def none_or_number() -> Place:
    own = Holder(None)
    return (
        lambda: 1.0 if own.number is None else own.number,
        lambda number: setattr(own, "number", number),
    )


@place
def enumeration() -> Place:
    class Mode(enum.Enum):
        ONE = 1.0
        TWO = 2.0
        THREE = 3.0

    own = Holder(Mode.ONE)
    return lambda: own.number.value, lambda number: setattr(own, "number", Mode(number))


@place
def data_class() -> Place:
    @dataclasses.dataclass
    class Config:
        number: float = 1.0

    own = Config()
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def nested_data_class() -> Place:
    @dataclasses.dataclass
    class Inner:
        numbers: list[float]

    @dataclasses.dataclass
    class Config:
        inner: Inner

    own = Config(Inner([1.0]))
    return lambda: own.inner.numbers[0], lambda number: own.inner.numbers.__setitem__(0, number)


@place
def frozen_data_class() -> Place:
    @dataclasses.dataclass(frozen=True)
    class Config:
        number: float = 1.0

    own = Holder(Config())
    return (
        lambda: own.number.number,
        lambda number: setattr(own, "number", dataclasses.replace(own.number, number=number)),
    )


@place
def slots() -> Place:
    class Own:
        __slots__ = ("number",)

        def __init__(self):
            self.number = 1.0

    own = Own()
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def named_tuple() -> Place:
    own = Holder(collections.namedtuple("Pair", "number other")(1.0, 2.0))
    return (
        lambda: own.number.number,
        lambda number: setattr(own, "number", own.number._replace(number=number)),
    )


@place
def cached_property() -> Place:
    class Own:
        def __init__(self):
            self.base = 1.0

        @functools.cached_property
        def number(self):
            return self.base

    own = Own()

    def write(number):
        own.base = number
        own.__dict__.pop("number", None)

    return lambda: own.number, write


@place
def descriptor() -> Place:
    class Number:
        def __init__(self):
            self.number = 1.0

        def __get__(self, instance, owner):
            return self.number

    one = Number()

    class Own:
        number = one

    own = Own()
    return lambda: own.number, lambda number: setattr(one, "number", number)


@place
def meta_class() -> Place:
    class Meta(type):
        limit = 1.0

        @property
        def number(cls):
            return cls.limit

    class Own(metaclass=Meta):
        pass

    return lambda: Own.number, lambda number: setattr(Meta, "limit", number)


@place
def has_attribute() -> Place:
    own = Holder()
    return (
        lambda: own.extra if hasattr(own, "extra") else 1.0,
        lambda number: setattr(own, "extra", number),
    )


@place
def inherited_call() -> Place:
    class Base:
        def get(self):
            return 1.0

    class Own(Base):
        def get(self):
            return super().get()

    own = Own()

    def write(number):
        Base.get = lambda self: number

    return lambda: own.get(), write
