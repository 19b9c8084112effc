"""Functions outside: helpers that are redefined, defaults, closures, wrappers."""

from __future__ import annotations

import functools

from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Place, place


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
