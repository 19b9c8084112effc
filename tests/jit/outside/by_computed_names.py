"""Functions of C, text that is evaluated, built-ins, caches and tables of functions."""

from __future__ import annotations

import builtins
import functools
import itertools
import operator

from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Place, place


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

        @functools.cache  # noqa: B019
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
