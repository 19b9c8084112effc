"""State that is hidden in C, in the process or in files, and code that reads by computed names."""

from __future__ import annotations

import array
import builtins
import contextvars
import ctypes
import decimal
import functools
import importlib
import itertools
import operator
import os
import pathlib
import random
import sys
import tempfile
import threading
import types
import weakref

import numpy as np
from tests.functions.outside.holders import Holder
from tests.functions.outside.scenarios import Place, Scenario, place, scenario


@place
def decimal_context() -> Place:
    one, three = decimal.Decimal(1), decimal.Decimal(3)

    def write(number):
        decimal.getcontext().prec = int(3 * number)

    write(9)
    return lambda: float(one / three), write


@place
def environment() -> Place:
    os.environ["NUMBER_OF_A_TEST"] = "1.0"
    return (
        lambda: float(os.environ["NUMBER_OF_A_TEST"]),
        lambda number: os.environ.__setitem__("NUMBER_OF_A_TEST", str(number)),
    )


@place
def environment_by_function() -> Place:
    os.environ.pop("LATE_NUMBER_OF_A_TEST", None)
    return (
        lambda: float(os.getenv("LATE_NUMBER_OF_A_TEST", "1.0")),
        lambda number: os.environ.__setitem__("LATE_NUMBER_OF_A_TEST", str(number)),
    )


def _file():
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / "number"
    path.write_text("1.0")

    def write(number, folder=folder):
        path.write_text(str(number) * int(number))

    return path, write


@place
def size_of_file() -> Place:
    path, write = _file()
    name = str(path)
    return lambda: float(os.path.getsize(name)), write


@place
def existence_of_file() -> Place:
    path, write = _file()
    name = str(path)

    def change(number):
        path.unlink() if number == 2.0 else write(number)

    return lambda: 2.0 if os.path.exists(name) else 1.0, change


@place
def content_of_file() -> Place:
    path, write = _file()

    def read():
        with open(path) as file:
            return float(len(file.read()))

    return read, write


@place
def content_of_path() -> Place:
    path, write = _file()
    return lambda: float(len(path.read_text())), write


def _module(name):
    module = types.ModuleType(name)
    module.number = 1.0
    sys.modules[name] = module
    return module, lambda number: setattr(module, "number", number)


@place
def module_by_importlib() -> Place:
    _, write = _module("settings_by_importlib")
    return lambda: importlib.import_module("settings_by_importlib").number, write


@place
def module_by_import() -> Place:
    _, write = _module("settings_by_import")
    return lambda: __import__("settings_by_import").number, write


@place
def module_in_table() -> Place:
    _, write = _module("settings_in_table")
    return lambda: sys.modules["settings_in_table"].number, write


@place
def module_exchanged() -> Place:
    _module("settings_exchanged")

    def read():
        import settings_exchanged

        return settings_exchanged.number

    def write(number):
        module, set_number = _module("settings_exchanged")
        set_number(number)

    return read, write


@place
def module_by_computed_name() -> Place:
    module, write = _module("settings_by_computed_name")
    return lambda: getattr(module, "num" + "ber"), write


@place
def variables_of_module() -> Place:
    module, write = _module("settings_with_variables")
    return lambda: vars(module)["number"], write


@place
def dictionary_of_module() -> Place:
    module, write = _module("settings_with_dictionary")
    return lambda: module.__dict__["number"], write


@place
def late_name_of_module() -> Place:
    module, _ = _module("settings_with_late_name")

    def read():
        try:
            return module.late
        except AttributeError:
            return 1.0

    return read, lambda number: setattr(module, "late", number)


@place
def module_has_name() -> Place:
    module, _ = _module("settings_that_has")
    return (
        lambda: 2.0 if hasattr(module, "late") else 1.0,
        lambda number: setattr(module, "late", number),
    )


@place
def fallback_of_module() -> Place:
    module, _ = _module("settings_with_fallback")
    store = {"late": 1.0}
    module.__getattr__ = store.__getitem__
    return lambda: module.late, lambda number: store.__setitem__("late", number)


@place
def submodule() -> Place:
    module, _ = _module("settings_with_submodule")
    module.inner, write = _module("settings_with_submodule.inner")
    return lambda: module.inner.number, write


@place
def local_of_thread() -> Place:
    own = threading.local()
    own.number = 1.0
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def context_variable() -> Place:
    own = contextvars.ContextVar("own", default=1.0)
    return lambda: own.get(), lambda number: own.set(number)


@place
def weak_reference() -> Place:
    held = [Holder(1.0)]
    own = weakref.ref(held[0])

    def write(number):
        if number == 2.0:
            held.clear()

    return lambda: 1.0 if own() is not None else 2.0, write


@place
def weak_proxy() -> Place:
    held = Holder(1.0)
    own = weakref.proxy(held)
    return lambda: own.number, lambda number: setattr(held, "number", number)


@place
def weak_dictionary() -> Place:
    held = [Holder(1.0), Holder(2.0)]
    own = weakref.WeakValueDictionary({str(i): each for i, each in enumerate(held)})
    return lambda: len(own) * 1.0, lambda number: held.pop() if number == 2.0 else None


@place
def array_of_c() -> Place:
    own = array.array("d", [1.0])
    return lambda: own[0], lambda number: own.__setitem__(0, number)


@place
def view_of_memory() -> Place:
    own = memoryview(bytearray(b"\x01"))
    return lambda: own[0] * 1.0, lambda number: own.__setitem__(0, int(number))


@place
def memory_by_address() -> Place:
    held = ctypes.c_double(1.0)
    address = ctypes.addressof(held)
    return (
        lambda: ctypes.c_double.from_address(address).value,
        lambda number: setattr(held, "value", number),
    )


@place
def number_of_ctypes() -> Place:
    own = ctypes.c_double(1.0)
    return lambda: own.value, lambda number: setattr(own, "value", number)


@place
def structure_of_ctypes() -> Place:
    class Own(ctypes.Structure):
        _fields_ = [("number", ctypes.c_double)]

    own = Own(1.0)
    return lambda: own.number, lambda number: setattr(own, "number", number)


@place
def mapping_proxy() -> Place:
    held = {"number": 1.0}
    own = types.MappingProxyType(held)
    return lambda: own["number"], lambda number: held.__setitem__("number", number)


@place
def read_only_array_changed() -> Place:
    own = np.ones(2)
    own.flags.writeable = False

    def write(number):
        own.flags.writeable = True
        own[0] = number
        own.flags.writeable = False

    return lambda: float(own[0]), write


@place
def print_options() -> Place:
    own = np.array([1 / 3])

    def write(number):
        np.set_printoptions(precision=int(number))

    write(8)
    return lambda: float(len(str(own))), write


@place
def limit_of_recursion() -> Place:
    base = sys.getrecursionlimit()
    return (
        lambda: float(sys.getrecursionlimit() - base),
        lambda number: sys.setrecursionlimit(base + int(number) - 1),
    )


@place
def attribute_getter_inside() -> Place:
    own = Holder(1.0)
    return lambda: operator.attrgetter("num" + "ber")(own), lambda n: setattr(own, "number", n)


@place
def attribute_getter_outside() -> Place:
    own, get = Holder(1.0), operator.attrgetter("number")
    return lambda: get(own), lambda number: setattr(own, "number", number)


@place
def method_caller() -> Place:
    own, call = Holder(1.0), operator.methodcaller("get")
    return lambda: call(own), lambda number: setattr(own, "number", number)


@place
def item_getter() -> Place:
    own, get = {"number": 1.0}, operator.itemgetter("number")
    return lambda: get(own), lambda number: own.__setitem__("number", number)


@place
def sorted_by_table() -> Place:
    table = {"a": 1.0, "b": 2.5}
    return (
        lambda: table[sorted(table, key=table.get)[0]],
        lambda number: table.__setitem__("a", number),
    )


@place
def mapped_by_table() -> Place:
    table = {"a": 1.0}
    return lambda: next(map(table.get, ["a"])), lambda number: table.__setitem__("a", number)


@place
def method_of_table() -> Place:
    table = {"a": 1.0}
    get = table.get
    return lambda: get("a"), lambda number: table.__setitem__("a", number)


@place
def reduced() -> Place:
    own = [1.0, 1.0]
    return lambda: functools.reduce(operator.mul, own), lambda n: own.__setitem__(0, n)


@place
def filtered() -> Place:
    own = [1.0, 0.0]
    return lambda: sum(filter(None, own)), lambda number: own.__setitem__(1, number)


@place
def chained() -> Place:
    own = [[1.0], [1.0]]
    return lambda: sum(itertools.chain.from_iterable(own)), lambda n: own[1].__setitem__(0, n)


@place
def partial_of_c() -> Place:
    table = {"a": 1.0}
    get = functools.partial(operator.getitem, table, "a")
    return lambda: get(), lambda number: table.__setitem__("a", number)


@place
def evaluated_text() -> Place:
    space = {"number": 1.0}
    return lambda: eval("number", space), lambda number: space.__setitem__("number", number)


@place
def executed_text() -> Place:
    text = ["found = 1.0"]

    def read():
        space = {}
        exec(text[0], space)
        return space["found"]

    return read, lambda number: text.__setitem__(0, f"found = {number}")


@place
def all_globals() -> Place:
    space = {"number": 1.0}
    exec("def read(): return globals()['num' + 'ber']", space)
    return space["read"], lambda number: space.__setitem__("number", number)


@place
def variables_without_object() -> Place:
    number = 1.0

    def read():
        return locals()["number"] if number else 0.0

    def write(new):
        nonlocal number
        number = new

    return read, write


@place
def globals_of_helper() -> Place:
    space = {"number": 1.0}
    exec("def helper(): return 0.0", space)
    helper = space["helper"]
    return (
        lambda: helper.__globals__["number"],
        lambda number: space.__setitem__("number", number),
    )


@place
def built_in_replaced() -> Place:
    space = {}
    exec("def read(): return float(abs_of_a_test(-1.0))", space)
    builtins.abs_of_a_test = abs

    def write(number):
        builtins.abs_of_a_test = lambda _: number

    return space["read"], write


@place
def built_in_number() -> Place:
    space = {}
    exec("def read(): return number_of_a_test", space)
    builtins.number_of_a_test = 1.0
    return space["read"], lambda number: setattr(builtins, "number_of_a_test", number)


@place
def own_built_ins() -> Place:
    table = {"number": 1.0}
    space = {"__builtins__": table}
    exec("def read(): return number", space)
    return space["read"], lambda number: table.__setitem__("number", number)


@place
def cache_with_helper() -> Place:
    own = Holder(1.0)

    def helper():
        return own.number

    read = functools.lru_cache(lambda: helper())
    read()

    def write(number):
        own.number = number
        read.cache_clear()

    return lambda: read(), write


@place
def cache_of_method() -> Place:
    class Own:
        hidden = 1.0

        @functools.cache
        def get(self):
            return vars(self).get("hidden", self.hidden)

    own = Own()

    def write(number):
        own.hidden = number
        Own.get.cache_clear()

    return lambda: own.get(), write


@place
def single_dispatch() -> Place:
    @functools.singledispatch
    def read(key):
        return 1.0

    def write(number):
        read.register(int, lambda key: number)

    return lambda: read(5), write


@place
def single_dispatch_method() -> Place:
    class Own:
        @functools.singledispatchmethod
        def get(self, key):
            return 1.0

    own = Own()

    def write(number):
        Own.get.register(int, lambda self, key: number)

    return lambda: own.get(5), write


# Generators and iterators that every call moves on.


@scenario
def counting_iterator() -> Scenario:
    own = [itertools.count(1)]
    return Scenario(
        lambda x: x * next(own[0]), lambda number: own.__setitem__(0, itertools.count(int(number)))
    )


@scenario
def iterator_of_list() -> Scenario:
    own = iter(list(range(1000)))
    return Scenario(lambda x: x * next(own), lambda number: next(own))


@scenario
def generator_outside() -> Scenario:
    def numbers():
        number = 1.0
        while True:
            number = (yield number) or number + 1.0

    own = numbers()
    next(own)
    return Scenario(lambda x: x * next(own), lambda number: own.send(number))


@scenario
def cycle_outside() -> Scenario:
    own = itertools.cycle([1.0, 2.0, 3.0])
    return Scenario(lambda x: x * next(own), lambda number: next(own))


@scenario
def generator_of_numpy() -> Scenario:
    own = np.random.default_rng(3)
    return Scenario(lambda x: x * own.random(), lambda number: own.random())


@scenario
def generator_of_python() -> Scenario:
    own = random.Random(3)
    return Scenario(lambda x: x * own.gauss(0.0, 1.0), lambda number: own.random())


@scenario
def old_generator_of_numpy() -> Scenario:
    own = np.random.RandomState(3)
    return Scenario(lambda x: x * own.rand(), lambda number: own.rand())


@scenario
def draws_passed_on() -> Scenario:
    own = random.Random(3)
    return Scenario(lambda x: x * next(iter(own.random, None)), lambda number: own.random())


@scenario
def draws_mapped() -> Scenario:
    own = random.Random(3)
    return Scenario(
        lambda x: x * sum(itertools.starmap(own.uniform, [(0.0, 1.0)] * 3)),
        lambda number: own.random(),
    )


@scenario
def shuffled_list() -> Scenario:
    own, numbers = random.Random(3), [1.0, 2.0, 3.0]

    def f(x):
        own.shuffle(numbers)
        return x * numbers[0]

    return Scenario(f, lambda number: numbers.append(number), state=lambda: numbers)
