"""Containers and arrays outside, whose content changes."""

from __future__ import annotations

import collections

import numpy as np
from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Place, place


@place
def attribute_dictionary() -> Place:
    class Attributes(dict):
        __getattr__ = dict.__getitem__

    own = Attributes(number=1.0)
    return lambda: own.number, lambda number: own.__setitem__("number", number)


@place
def dictionary_subclass() -> Place:
    class Own(dict):
        pass

    own = Own(number=1.0)
    return lambda: own["number"], lambda number: own.__setitem__("number", number)


@place
def missing_key() -> Place:
    class Own(dict):
        default = 1.0

        def __missing__(self, key):
            return self.default

    own = Own()
    return lambda: own["number"], lambda number: setattr(own, "default", number)


@place
def user_dictionary() -> Place:
    own = collections.UserDict(number=1.0)
    return lambda: own["number"], lambda number: own.__setitem__("number", number)


@place
def chain_map() -> Place:
    first, second = {}, {"number": 1.0}
    own = collections.ChainMap(first, second)
    return lambda: own["number"], lambda number: first.__setitem__("number", number)


@place
def list_item() -> Place:
    own = [0.0, 1.0]
    return lambda: own[1], lambda number: own.__setitem__(1, number)


@place
def list_length() -> Place:
    own = [0.0]
    return lambda: float(len(own)), lambda number: own.append(number)


@place
def long_list() -> Place:
    own = [1.0] * 100
    return lambda: own[77], lambda number: own.__setitem__(77, number)


@place
def deep_list() -> Place:
    own = [[[[[[1.0]]]]]]
    return lambda: own[0][0][0][0][0][0], lambda n: own[0][0][0][0][0].__setitem__(0, n)


@place
def list_of_objects() -> Place:
    own = [Holder(), Holder()]
    return (
        lambda: sum(each.number for each in own),
        lambda number: setattr(own[1], "number", number),
    )


@place
def list_subclass() -> Place:
    class Own(list):
        pass

    own = Own([1.0])
    return lambda: own[0], lambda number: own.__setitem__(0, number)


@place
def tuple_of_lists() -> Place:
    own = ([1.0], [2.0])
    return lambda: own[0][0], lambda number: own[0].__setitem__(0, number)


@place
def dictionary_item() -> Place:
    own = {"number": 1.0}
    return lambda: own["number"], lambda number: own.__setitem__("number", number)


@place
def dictionary_get() -> Place:
    own = {}
    return lambda: own.get("number", 1.0), lambda number: own.__setitem__("number", number)


@place
def dictionary_order() -> Place:
    own = {"a": 1.0, "b": 5.0}

    def write(number):
        own["a"] = own.pop("a")

    return lambda: next(iter(own.values())), write


@place
def dictionary_of_objects() -> Place:
    own = {"a": Holder(), "b": Holder()}
    return (
        lambda: sum(each.number for each in own.values()),
        lambda number: setattr(own["b"], "number", number),
    )


@place
def dictionary_of_dictionaries() -> Place:
    own = {"a": {"b": {"c": {"d": {"e": 1.0}}}}}
    return (
        lambda: own["a"]["b"]["c"]["d"]["e"],
        lambda number: own["a"]["b"]["c"]["d"].__setitem__("e", number),
    )


@place
def keys_that_are_objects() -> Place:
    key = object()
    own = {key: 1.0, 2: 5.0}
    return lambda: own[key], lambda number: own.__setitem__(key, number)


@place
def ordered_dictionary() -> Place:
    own = collections.OrderedDict(number=1.0)
    return lambda: own["number"], lambda number: own.__setitem__("number", number)


@place
def default_dictionary() -> Place:
    own = collections.defaultdict(float, number=1.0)
    return lambda: own["number"], lambda number: own.__setitem__("number", number)


@place
def counter() -> Place:
    own = collections.Counter("a")
    return lambda: float(own["a"]), lambda number: own.update("a")


@place
def deque_item() -> Place:
    own = collections.deque([1.0], maxlen=3)
    return lambda: own[0], lambda number: own.appendleft(number)


@place
def set_membership() -> Place:
    own = {1}
    return lambda: 2.0 if 7 in own else 1.0, lambda number: own.symmetric_difference_update({7})


@place
def set_of_tuples() -> Place:
    own = {(1, 2)}
    return lambda: float(len(own)), lambda number: own.add((number, 0))


@place
def bytes_array() -> Place:
    own = bytearray(b"\x01")
    return lambda: float(own[0]), lambda number: own.__setitem__(0, int(number))


@place
def array_item() -> Place:
    own = np.ones(3)
    return lambda: float(own[1]), lambda number: own.__setitem__(1, number)


@place
def array_as_operand() -> Place:
    own = np.ones(1)
    return lambda: own[0] * 1.0, lambda number: own.__setitem__(0, number)


@place
def view_of_array() -> Place:
    base = np.ones(4)
    own = base[1:3]
    own.flags.writeable = False
    return lambda: float(own[0]), lambda number: base.__setitem__(1, number)


@place
def numpy_scalar() -> Place:
    own = Holder(np.float64(1.0))
    return lambda: float(own.number), lambda number: setattr(own, "number", np.float64(number))
