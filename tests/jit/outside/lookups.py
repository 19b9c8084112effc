"""How Python finds attributes, items and operators: patterns, descriptors, slots, fallbacks."""

from __future__ import annotations

import typing

from tests.jit.outside.scenarios import Place, place


@place
def pattern_of_attribute() -> Place:
    class Own:
        pass

    own = Own()
    own.number = 1.0

    def read():
        match own:
            case Own(number=1.0):
                return 1.0
            case Own(number=found):
                return found * 2.0

    return read, lambda number: setattr(own, "number", number)


@place
def pattern_of_position() -> Place:
    class Own:
        __match_args__ = ("number",)

        def __init__(self):
            self.number, self.other = 1.0, 5.0

    own = Own()

    def read():
        match own:
            case Own(found):
                return found
        return 0.0

    return read, lambda number: setattr(own, "number", number)


@place
def pattern_of_arguments() -> Place:
    class Own:
        __match_args__ = ("one",)
        one, two, three = 1.0, 2.0, 3.0

    own = Own()
    names = {1.0: ("one",), 2.0: ("two",), 3.0: ("three",)}

    def read():
        match own:
            case Own(found):
                return found
        return 0.0

    return read, lambda number: setattr(Own, "__match_args__", names[number])


@place
def pattern_of_mapping() -> Place:
    own = {"number": 1.0, "other": {"deep": [1.0]}}

    def read():
        match own:
            case {"number": found, "other": {"deep": [first, *_]}}:
                return found + first
        return 0.0

    def write(number):
        own["other"]["deep"][0] = number

    return read, write


@place
def reversed_order() -> Place:
    class Own:
        numbers: typing.ClassVar = [1.0]

        def __reversed__(self):
            return iter(self.numbers)

    own = Own()
    return lambda: next(reversed(own)), lambda number: Own.numbers.__setitem__(0, number)


@place
def iteration_by_items() -> Place:
    class Own:
        def __init__(self):
            self.numbers = [1.0, 1.0]

        def __getitem__(self, key):
            return self.numbers[key]

    own = Own()
    return lambda: sum(own), lambda number: own.numbers.append(number)


@place
def in_place_operator() -> Place:
    class Own:
        number = 1.0

        def __iadd__(self, other):
            return other + self.number

    own = Own()

    def read():
        found = own
        found += 1.0
        return found

    return read, lambda number: setattr(own, "number", number)


@place
def delegated_operator() -> Place:
    class Left:
        def __mul__(self, other):
            return NotImplemented

    class Right:
        number = 1.0

        def __rmul__(self, left):
            return self.number

    left, right = Left(), Right()
    return lambda: left * right, lambda number: setattr(right, "number", number)


@place
def method_bound_by_descriptor() -> Place:
    class Bound:
        def __init__(self):
            self.number = 1.0

        def __get__(self, instance, owner):
            return lambda: self.number + instance.extra

    bound = Bound()

    class Own:
        get = bound
        extra = 1.0

    own = Own()
    return lambda: own.get(), lambda number: setattr(bound, "number", number)


@place
def data_descriptor_gained() -> Place:
    class Own:
        def __init__(self):
            self.number = 1.0

    own = Own()

    def write(number):
        Own.number = property(lambda self: number * 4.0)

    return lambda: own.number, write


@place
def class_attribute_removed() -> Place:
    class Base:
        number = 1.0

    class Own(Base):
        number = 2.0

    own = Own()

    def write(number):
        if "number" in vars(Own):
            del Own.number

    return lambda: own.number, write


@place
def instance_attribute_removed() -> Place:
    class Own:
        number = 1.0

    own = Own()
    own.number = 5.0
    return lambda: own.number, lambda number: vars(own).pop("number", None)


@place
def slot_emptied() -> Place:
    class Own:
        __slots__ = ("number",)

    own = Own()
    own.number = 1.0

    def read():
        try:
            return own.number
        except AttributeError:
            return 9.0

    def write(number):
        if number == 2.0:
            del own.number
        else:
            own.number = number

    return read, write


@place
def private_name() -> Place:
    class Own:
        def __init__(self):
            self.__number = 1.0

        def get(self):
            return self.__number

    own = Own()
    return lambda: own.get(), lambda number: setattr(own, "_Own__number", number)


@place
def missing_gained() -> Place:
    class Own(dict):
        pass

    own = Own()

    def read():
        try:
            return own["number"]
        except KeyError:
            return 1.0

    def write(number):
        Own.__missing__ = lambda self, key: number

    return read, write


@place
def fallback_attribute_hidden() -> Place:
    class Own:
        def __getattr__(self, name):
            return 1.0

    own = Own()
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def item_of_class() -> Place:
    class Own:
        store: typing.ClassVar = {"a": 1.0}

        def __class_getitem__(cls, key):
            return cls.store[key]

    return lambda: Own["a"], lambda number: Own.store.__setitem__("a", number)
