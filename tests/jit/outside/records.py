"""Records outside: data classes, enumerations, named tuples, namespaces and their kin."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import types
import typing

from tests.jit.outside.scenarios import Place, place


def _settings():
    @dataclasses.dataclass
    class Settings:
        number: float = 1.0
        names: list[str] = dataclasses.field(default_factory=list)

        def doubled(self):
            return 2.0 * self.number

    return Settings()


def _setter(own):
    return lambda number: setattr(own, "number", number)


@place
def data_class_as_dictionary() -> Place:
    own = _settings()
    return lambda: dataclasses.asdict(own)["num" + "ber"], _setter(own)


@place
def data_class_as_tuple() -> Place:
    own = _settings()
    return lambda: dataclasses.astuple(own)[0], _setter(own)


@place
def data_class_replaced() -> Place:
    own = _settings()
    return lambda: dataclasses.astuple(dataclasses.replace(own, names=[]))[0], _setter(own)


@place
def data_class_compared() -> Place:
    own = _settings()
    other = type(own)()
    return lambda: 2.0 if own == other else 1.0, _setter(own)


@place
def data_class_in_words() -> Place:
    own = _settings()
    return lambda: 2.0 if "number=1.0" in repr(own) else 1.0, _setter(own)


@place
def data_class_method() -> Place:
    own = _settings()
    return lambda: own.doubled(), _setter(own)


@place
def data_class_fields() -> Place:
    own = _settings()
    return lambda: getattr(own, dataclasses.fields(own)[0].name), _setter(own)


@place
def data_class_default() -> Place:
    own = _settings()
    kind = type(own)

    def write(number):
        kind.__init__.__defaults__ = (number, *kind.__init__.__defaults__[1:])

    return lambda: kind().number, write


@place
def data_class_with_slots() -> Place:
    @dataclasses.dataclass(slots=True)
    class Settings:
        number: float = 1.0

    own = Settings()
    return lambda: own.number, _setter(own)


@place
def frozen_data_class_forced() -> Place:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        number: float = 1.0

    own = Settings()
    return lambda: own.number, lambda number: object.__setattr__(own, "number", number)


@place
def data_class_list() -> Place:
    own = _settings()
    return lambda: 1.0 + len(own.names), lambda number: own.names.append("a")


@place
def data_class_hashed() -> Place:
    @dataclasses.dataclass(unsafe_hash=True)
    class Key:
        number: float = 1.0

    own = Key()
    table = {Key(1.0): 5.0, Key(2.0): 6.0, Key(3.0): 7.0}
    return lambda: table[own], _setter(own)


@place
def copied() -> Place:
    own = _settings()
    return lambda: copy.copy(own).number, _setter(own)


@place
def copied_deeply() -> Place:
    own = {"a": [_settings()]}
    return lambda: copy.deepcopy(own)["a"][0].number, _setter(own["a"][0])


@place
def enumeration_with_method() -> Place:
    class Mode(enum.Enum):
        ONE = 1
        TWO = 2
        THREE = 3

        def rate(self):
            return self.value * 2.0

    own = [Mode.ONE]
    return lambda: own[0].rate(), lambda number: own.__setitem__(0, Mode(int(number)))


@place
def attribute_of_enumeration() -> Place:
    class Mode(enum.Enum):
        ONE = 1

    Mode.ONE.rate = 1.0
    return lambda: Mode.ONE.rate, lambda number: setattr(Mode.ONE, "rate", number)


@place
def value_of_enumeration() -> Place:
    class Mode(enum.Enum):
        ONE = 1.0

    return lambda: Mode.ONE.value, lambda number: setattr(Mode.ONE, "_value_", number)


@place
def enumeration_of_integers() -> Place:
    class Mode(enum.IntEnum):
        ONE = 1
        TWO = 2
        THREE = 3

    own = [Mode.ONE]
    return lambda: own[0] * 1.0, lambda number: own.__setitem__(0, Mode(int(number)))


@place
def flags() -> Place:
    class Option(enum.Flag):
        A = 1
        B = 2

    own = [Option.A]
    return (
        lambda: 2.0 if Option.B in own[0] else 1.0,
        lambda number: own.__setitem__(0, Option(int(number))),
    )


@place
def named_tuple_as_dictionary() -> Place:
    kind = collections.namedtuple("Pair", "number other")
    own = [kind(1.0, 0.0)]
    return (
        lambda: own[0]._asdict()["number"],
        lambda number: own.__setitem__(0, kind(number, 0.0)),
    )


@place
def named_tuple_with_method() -> Place:
    class Pair(typing.NamedTuple):
        number: float
        other: float

        def total(self):
            return self.number + self.other

    own = [Pair(1.0, 1.0)]
    return lambda: own[0].total(), lambda number: own.__setitem__(0, Pair(number, 1.0))


@place
def named_tuple_of_lists() -> Place:
    own = collections.namedtuple("Pair", "numbers")([1.0])
    return lambda: own.numbers[0], lambda number: own.numbers.__setitem__(0, number)


@place
def namespace() -> Place:
    own = types.SimpleNamespace(number=1.0)
    return lambda: own.number, _setter(own)


@place
def namespaces_compared() -> Place:
    own, other = types.SimpleNamespace(number=1.0), types.SimpleNamespace(number=1.0)
    return lambda: 2.0 if own == other else 1.0, _setter(own)


@place
def namespace_in_words() -> Place:
    own = types.SimpleNamespace(number=1.0)
    return lambda: 2.0 if "1.0" in str(own) else 1.0, _setter(own)


@place
def subclass_of_namespace() -> Place:
    class Own(types.SimpleNamespace):
        pass

    own, other = Own(number=1.0), Own(number=1.0)
    return lambda: 2.0 if own == other else 1.0, _setter(own)


@place
def subclass_of_user_dictionary() -> Place:
    class Own(collections.UserDict):
        pass

    own = Own(number=1.0)
    return lambda: own["number"], lambda number: own.__setitem__("number", number)


@place
def subclass_of_user_list() -> Place:
    class Own(collections.UserList):
        pass

    own = Own([1.0])
    return lambda: own[0] + len(own), lambda number: own.__setitem__(0, number)


@place
def subclass_of_chain_map() -> Place:
    class Own(collections.ChainMap):
        pass

    own = Own({"number": 1.0})
    return lambda: own["number"], lambda number: own.maps[0].__setitem__("number", number)


@place
def subclass_of_counter() -> Place:
    class Own(collections.Counter):
        pass

    own = Own(a=1)
    return lambda: own.total() * 1.0, lambda number: own.__setitem__("a", int(number))


@place
def mapping_of_abstract_class() -> Place:
    class Own(collections.abc.Mapping):
        def __init__(self):
            self._held = {"number": 1.0}

        def __getitem__(self, key):
            return self._held[key]

        def __iter__(self):
            return iter(self._held)

        def __len__(self):
            return len(self._held)

    own = Own()
    return (
        lambda: own.get("number", 0.0) + sum(own.values()),
        lambda number: own._held.__setitem__("number", number),
    )


@place
def subclass_of_float() -> Place:
    class Rate(float):
        factor = 1.0

        def scaled(self):
            return self * self.factor

    own = Rate(2.0)
    return lambda: own.scaled(), lambda number: setattr(own, "factor", number)


@place
def subclass_of_text() -> Place:
    class Name(str):
        pass

    own = [Name("a")]
    return lambda: len(own[0]) * 1.0, lambda number: own.__setitem__(0, Name("a" * int(number)))


@place
def typed_dictionary() -> Place:
    class Settings(typing.TypedDict):
        number: float

    own: Settings = {"number": 1.0}
    return lambda: own["number"], lambda number: own.__setitem__("number", number)


@place
def generic_class() -> Place:
    kind = typing.TypeVar("kind")

    class Box(typing.Generic[kind]):
        def __init__(self, number):
            self.number = number

    own = Box[float](1.0)
    return lambda: own.number, _setter(own)


@place
def two_data_classes_deep() -> Place:
    @dataclasses.dataclass
    class Rate:
        number: float = 1.0

    @dataclasses.dataclass
    class Optimiser:
        rates: dict[str, list[Rate]]

    own = Optimiser({"a": [Rate(), Rate()]})
    return (
        lambda: sum(each.number for each in own.rates["a"]),
        lambda number: setattr(own.rates["a"][1], "number", number),
    )
