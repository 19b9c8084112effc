"""Places outside a function where a number may live: how a function reads it, how a user changes it.

Each maker gives `(read, write)`. `read` is Python code of the user's that a function calls; `write`
changes what it will find.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Callable

import numpy as np

import gradtape as gt

Place = tuple[Callable[[], float], Callable[[float], None]]
PLACES: dict[str, Callable[[], Place]] = {}


def place(make: Callable[[], Place]) -> Callable[[], Place]:
    PLACES[make.__name__] = make
    return make


GLOBAL = 1.0


@place
def global_name() -> Place:
    def write(number):
        global GLOBAL
        GLOBAL = number

    write(1.0)
    return lambda: GLOBAL, write


@place
def closure_cell() -> Place:
    number = 1.0

    def write(new):
        nonlocal number
        number = new

    return lambda: number, write


class Holder:
    limit = 1.0

    def __init__(self, number=1.0):
        self.number = number

    def get(self):
        return self.number

    @property
    def doubled(self):
        return self.number * 2.0

    @classmethod
    def of_class(cls):
        return cls.limit

    @staticmethod
    def twice(number):
        return 2.0 * number

    def __call__(self):
        return self.number

    def __getitem__(self, key):
        return self.number

    def __len__(self):
        return int(self.number)

    def __iter__(self):
        return iter([self.number])

    def __float__(self):
        return self.number

    def __int__(self):
        return int(self.number)

    def __index__(self):
        return int(self.number)

    def __bool__(self):
        return self.number > 1.5

    def __contains__(self, key):
        return key < self.number

    def __add__(self, other):
        return self.number + other

    def __rmul__(self, other):
        return other * self.number

    def __neg__(self):
        return -self.number

    def __eq__(self, other):
        return self.number == other

    def __hash__(self):
        return 1

    def __enter__(self):
        return self.number

    def __exit__(self, *_):
        return None

    def __matmul__(self, other):
        return self.number * other

    def __round__(self):
        return round(self.number)

    def __abs__(self):
        return abs(self.number)


def _holder(read) -> Place:
    holder = Holder()
    return (lambda: read(holder)), (lambda number: setattr(holder, "number", number))


def _with(holder):
    with holder as number:
        return number


HOLDER_READS = {
    "attribute": lambda h: h.number,
    "method": lambda h: h.get(),
    "property": lambda h: h.doubled,
    "call": lambda h: h(),
    "getitem": lambda h: h[0],
    "len": lambda h: float(len(h)),
    "iter": lambda h: sum(h),
    "unpack": lambda h: [*h][0],
    "float": lambda h: float(h),
    "int": lambda h: float(int(h)),
    "index": lambda h: float(range(10)[h]),
    "bool": lambda h: 3.0 if h else 1.0,
    "contains": lambda h: 2.0 if 1.5 in h else 1.0,
    "add": lambda h: h + 1.0,
    "reflected": lambda h: 2.0 * h,
    "negative": lambda h: -h,
    "equal": lambda h: 2.0 if h == 1.0 else 1.0,
    "with": _with,
    "matmul": lambda h: h @ 2.0,
    "round": lambda h: float(round(h)),
    "abs": lambda h: abs(h),
    "getattr": lambda h: getattr(h, "num" + "ber"),
    "vars": lambda h: vars(h)["number"],
    "dictionary": lambda h: h.__dict__["number"],
    "max": lambda h: max(h, key=lambda each: each),
    "sorted": lambda h: sorted(h)[0],
    "zip": lambda h: next(iter(zip(h, h, strict=True)))[0],
    "comprehension": lambda h: [each for each in h][0],
    "star_call": lambda h: max(*h, 0.0),
}
for _name, _read in HOLDER_READS.items():
    PLACES[f"holder_{_name}"] = functools.partial(_holder, _read)


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


@place
def module_attribute() -> Place:
    module = types.ModuleType("settings_of_a_test")
    module.number = 1.0
    return lambda: module.number, lambda number: setattr(module, "number", number)


@place
def imported_inside() -> Place:
    module = types.ModuleType("settings_imported_inside")
    module.number = 1.0
    sys.modules[module.__name__] = module

    def read():
        import settings_imported_inside

        return settings_imported_inside.number

    return read, lambda number: setattr(module, "number", number)


@place
def name_imported_inside() -> Place:
    module = types.ModuleType("settings_named_inside")
    module.number = 1.0
    sys.modules[module.__name__] = module

    def read():
        from settings_named_inside import number

        return number

    return read, lambda number: setattr(module, "number", number)


@place
def function_attribute() -> Place:
    def read():
        return read.number

    read.number = 1.0
    return read, lambda number: setattr(read, "number", number)


@place
def helper_redefined() -> Place:
    space = {}
    exec("def helper(): return 1.0\ndef read(): return helper()", space)
    return space["read"], lambda number: exec(f"def helper(): return {number}", space)


@place
def helper_of_helper_redefined() -> Place:
    space = {}
    exec(
        "def third(): return 1.0\ndef second(): return third()\ndef first(): return second()\n"
        "def read(): return first()",
        space,
    )
    return space["read"], lambda number: exec(f"def third(): return {number}", space)


@place
def lambda_replaced() -> Place:
    space = {"helper": lambda: 1.0}
    exec("def read(): return helper()", space)
    return space["read"], lambda number: space.__setitem__("helper", lambda: number)


@place
def built_in_hidden() -> Place:
    space = {}
    exec("def read(): return float(abs(-1.0))", space)
    return space["read"], lambda number: space.__setitem__("abs", lambda _: number)


@place
def new_global() -> Place:
    space = {}
    exec(
        "def read():\n    try:\n        return late\n    except NameError:\n        return 1.0",
        space,
    )
    return space["read"], lambda number: space.__setitem__("late", number)


@place
def name_with_here() -> Place:
    space = {"where_here_there": 1.0}
    exec("def read(): return where_here_there", space)
    return space["read"], lambda number: space.__setitem__("where_here_there", number)


@place
def default_replaced() -> Place:
    def read(number=1.0):
        return number

    return read, lambda number: setattr(read, "__defaults__", (number,))


@place
def keyword_default_changed() -> Place:
    def read(*, number=1.0):
        return number

    return read, lambda number: read.__kwdefaults__.__setitem__("number", number)


@place
def mutable_default() -> Place:
    store = [1.0]

    def read(numbers=store):
        return numbers[0]

    return read, lambda number: store.__setitem__(0, number)


@place
def code_replaced() -> Place:
    def read():
        return 1.0

    def other(number):
        space = {}
        exec(f"def read(): return {number}", space)
        return space["read"].__code__

    return read, lambda number: setattr(read, "__code__", other(number))


@place
def partial() -> Place:
    store = [1.0]
    read = functools.partial(lambda numbers, at: numbers[at], store, 0)
    return read, lambda number: store.__setitem__(0, number)


@place
def partial_keywords() -> Place:
    read = functools.partial(lambda number: number, number=1.0)
    return read, lambda number: read.keywords.__setitem__("number", number)


@place
def stored_method() -> Place:
    holder = Holder()
    read = holder.get
    return read, lambda number: setattr(holder, "number", number)


@place
def dispatch_table() -> Place:
    table = {"one": lambda: 1.0}
    return lambda: table["one"](), lambda number: table.__setitem__("one", lambda: number)


@place
def decorated_helper() -> Place:
    store = [1.0]

    def decorate(function):
        @functools.wraps(function)
        def inner():
            return function() * store[0]

        return inner

    return decorate(lambda: 1.0), lambda number: store.__setitem__(0, number)


@place
def cached_helper() -> Place:
    store = [1.0]
    read = functools.lru_cache(lambda: store[0])

    def write(number):
        store[0] = number
        read.cache_clear()

    return read, write


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


@place
def inner_function_of_closure() -> Place:
    store = [1.0]

    def outer():
        def inner():
            return store[0]

        return inner

    read = outer()
    return lambda: read(), lambda number: store.__setitem__(0, number)


@place
def generator_expression() -> Place:
    store = [1.0, 1.0]
    return lambda: sum(each for each in store), lambda number: store.__setitem__(0, number)


@place
def generator_function() -> Place:
    store = [1.0]

    def numbers():
        yield from store

    return lambda: next(numbers()), lambda number: store.__setitem__(0, number)


@place
def tensor_outside() -> Place:
    own = Holder(gt.asarray(1.0))
    return lambda: own.number, lambda number: setattr(own, "number", gt.asarray(number))


@place
def tensor_in_list() -> Place:
    own = [gt.asarray(1.0)]
    return lambda: own[0], lambda number: own.__setitem__(0, gt.asarray(number))


@place
def tensor_changed_in_place() -> Place:
    own = gt.asarray([1.0, 2.0])

    def write(number):
        own[0] = number

    return lambda: own[0], write


@place
def variable_outside() -> Place:
    own = gt.Variable(1.0)
    return lambda: own.value, lambda number: own.assign(number)


@place
def variable_replaced() -> Place:
    own = Holder(gt.Variable(1.0))
    return lambda: own.number.value, lambda number: setattr(own, "number", gt.Variable(number))


@place
def variables_in_dictionary() -> Place:
    own = {"a": gt.Variable(1.0)}
    return lambda: own["a"].value, lambda number: own.__setitem__("a", gt.Variable(number))


@place
def layer_in_list() -> Place:
    class Scale(gt.nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    layers = [Scale(1.0), Scale(1.0)]

    def read():
        found = 1.0
        for layer in layers:
            found = layer(found)
        return found

    return read, lambda number: setattr(layers[1], "factor", number)


@place
def layer_appended() -> Place:
    layers = [lambda x: x * 1.0]

    def read():
        found = 1.0
        for layer in layers:
            found = layer(found)
        return found

    return read, lambda number: layers.append(lambda x: x * number)


@place
def activation_of_layer() -> Place:
    layer = gt.nn.Dense(1, use_bias=False, kernel_initializer="ones")
    layer.activation = lambda x: x * 1.0
    one = gt.ones((1, 1))
    return (
        lambda: layer(one)[0, 0],
        lambda number: setattr(layer, "activation", lambda x: x * number),
    )
