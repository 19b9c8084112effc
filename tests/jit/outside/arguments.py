"""Arguments that are objects, functions and containers, and tensors that have two names."""

from __future__ import annotations

import dataclasses
import functools
import types

import numpy as np
from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Scenario, scenario

import gradtape as gt

A = gt.asarray


@dataclasses.dataclass
class Settings:
    number: float = 1.0
    inner: dict = dataclasses.field(default_factory=lambda: {"deep": [1.0]})

    def doubled(self):
        return 2.0 * self.number


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: float = 1.0


def _argument(use, given, change) -> Scenario:
    return Scenario(lambda x, own: x * use(own), change, lambda: (A(1.0), given()))


@scenario
def argument_object() -> Scenario:
    own = Holder(1.0)
    return _argument(lambda o: o.number, lambda: own, lambda n: setattr(own, "number", n))


@scenario
def argument_object_method() -> Scenario:
    own = Holder(1.0)
    return _argument(lambda o: o.get(), lambda: own, lambda n: setattr(own, "number", n))


@scenario
def argument_objects_made_anew() -> Scenario:
    own = [1.0]
    return _argument(lambda o: o.number, lambda: Holder(own[0]), lambda n: own.__setitem__(0, n))


@scenario
def argument_data_class() -> Scenario:
    own = Settings()
    return _argument(lambda o: o.number, lambda: own, lambda n: setattr(own, "number", n))


@scenario
def argument_data_class_method() -> Scenario:
    own = Settings()
    return _argument(lambda o: o.doubled(), lambda: own, lambda n: setattr(own, "number", n))


@scenario
def argument_data_class_deep() -> Scenario:
    own = Settings()
    return _argument(
        lambda o: o.inner["deep"][0], lambda: own, lambda n: own.inner["deep"].__setitem__(0, n)
    )


@scenario
def argument_frozen_data_class() -> Scenario:
    own = [1.0]
    return _argument(lambda o: o.number, lambda: Frozen(own[0]), lambda n: own.__setitem__(0, n))


@scenario
def argument_closure() -> Scenario:
    number = 1.0

    def read():
        return number

    def change(new):
        nonlocal number
        number = new

    return _argument(lambda o: o(), lambda: read, change)


@scenario
def argument_closures_made_anew() -> Scenario:
    own = [1.0]

    def made():
        number = own[0]
        return lambda: number

    return _argument(lambda o: o(), made, lambda n: own.__setitem__(0, n))


@scenario
def argument_closure_over_object() -> Scenario:
    own = Holder(1.0)
    return _argument(lambda o: o(), lambda: own.get, lambda n: setattr(own, "number", n))


@scenario
def argument_partial() -> Scenario:
    own = [1.0]
    part = functools.partial(lambda numbers: numbers[0], own)
    return _argument(lambda o: o(), lambda: part, lambda n: own.__setitem__(0, n))


@scenario
def argument_function_default() -> Scenario:
    def read(number=1.0):
        return number

    return _argument(lambda o: o(), lambda: read, lambda n: setattr(read, "__defaults__", (n,)))


@scenario
def argument_class() -> Scenario:
    class Own:
        number = 1.0

    return _argument(lambda o: o.number, lambda: Own, lambda n: setattr(Own, "number", n))


@scenario
def argument_module() -> Scenario:
    module = types.ModuleType("settings_as_argument")
    module.number = 1.0
    return _argument(lambda o: o.number, lambda: module, lambda n: setattr(module, "number", n))


@scenario
def argument_list() -> Scenario:
    own = [1.0, 2.0]
    return _argument(lambda o: o[0] + len(o), lambda: own, lambda n: own.append(n))


@scenario
def argument_long_list() -> Scenario:
    own = [1.0] * 50
    return _argument(lambda o: sum(o), lambda: own, lambda n: own.__setitem__(44, n))


@scenario
def argument_deep_list() -> Scenario:
    own = [[[[["a"]]]]]
    return _argument(
        lambda o: len(o[0][0][0][0][0]) * 1.0,
        lambda: own,
        lambda n: own[0][0][0][0].__setitem__(0, "a" * int(n)),
    )


@scenario
def argument_dictionary() -> Scenario:
    own = {"a": 1.0, "b": 2.0}
    return _argument(
        lambda o: next(iter(o.values())),
        lambda: own,
        lambda n: own.__setitem__("a", own.pop("a") + n),
    )


@scenario
def argument_text() -> Scenario:
    own = ["a"]
    return _argument(len, lambda: own[0], lambda n: own.__setitem__(0, "a" * int(n)))


@scenario
def argument_set() -> Scenario:
    own = {1}
    return _argument(lambda o: 1.0 + len(o), lambda: own, lambda n: own.add(int(n)))


@scenario
def argument_array() -> Scenario:
    own = np.ones(2)
    return _argument(lambda o: gt.sum(o), lambda: own, lambda n: own.__setitem__(0, n))


@scenario
def argument_list_of_objects() -> Scenario:
    own = [Holder(1.0), Holder(1.0)]
    return _argument(
        lambda o: sum(each.number for each in o),
        lambda: own,
        lambda n: setattr(own[1], "number", n),
    )


@scenario
def argument_layer() -> Scenario:
    own = gt.nn.Dense(1, kernel_initializer="ones")
    one = gt.ones((1, 1))
    own(one)
    return _argument(lambda o: o(one)[0, 0], lambda: own, lambda n: own.bias.assign([n]))


@scenario
def argument_formatted() -> Scenario:
    own = [0.5]
    return _argument(
        lambda o: float(f"{o:.2f}"), lambda: own[0], lambda n: own.__setitem__(0, n / 3.0)
    )


@scenario
def argument_in_words() -> Scenario:
    own = [0.5]
    return _argument(
        lambda o: len(repr(o)) + len(str(o)) + len(f"{o}") + 0.0,
        lambda: own[0],
        lambda n: own.__setitem__(0, n / 3.0),
    )


@scenario
def argument_asked_for_type() -> Scenario:
    own = [1.0]
    return _argument(
        lambda o: 2.0 if type(o) is float else 3.0,
        lambda: own[0],
        lambda n: own.__setitem__(0, int(n) if n == 2.0 else n),
    )


@scenario
def argument_rounded() -> Scenario:
    own = [1.25]
    return _argument(
        lambda o: round(o) + int(o) + o // 1.0 + divmod(o, 0.5)[1],
        lambda: own[0],
        lambda n: own.__setitem__(0, n * 1.3),
    )


@scenario
def argument_as_key() -> Scenario:
    own, table = [1.0], {1.0: 5.0, 2.0: 6.0, 3.0: 7.0}
    return _argument(lambda o: table[o], lambda: own[0], lambda n: own.__setitem__(0, n))


@scenario
def argument_as_range() -> Scenario:
    own = [1]
    return _argument(
        lambda o: sum(range(o + 1)), lambda: own[0], lambda n: own.__setitem__(0, int(n))
    )


@scenario
def argument_tensor_formatted() -> Scenario:
    own = [1.0]
    return _argument(
        lambda o: float(f"{o:.1f}") + len(f"{o!r}"),
        lambda: A(own[0]),
        lambda n: own.__setitem__(0, n),
    )


# Tensors with two names.


def _product_slope(x, y):
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.sum(x * y)
    return tape.gradient(z, x, unconnected_gradients="zero")


def _alternating(first, second):
    """Arguments of one kind until a change, then of another."""
    now = [1.0]
    return (lambda: first() if now[0] in (1.0, 3.0) else second()), lambda n: now.__setitem__(0, n)


@scenario
def tensor_given_twice() -> Scenario:
    a, b = A([3.0, 4.0]), A([1.0, 2.0])
    arguments, change = _alternating(lambda: (a, a), lambda: (a, b))
    return Scenario(_product_slope, change, arguments)


@scenario
def tensors_given_apart_then_together() -> Scenario:
    a, b = A([3.0, 4.0]), A([1.0, 2.0])
    arguments, change = _alternating(lambda: (a, b), lambda: (a, a))
    return Scenario(_product_slope, change, arguments)


@scenario
def tensor_given_twice_in_nest() -> Scenario:
    a, b = A([3.0, 4.0]), A([1.0, 2.0])
    arguments, change = _alternating(lambda: ({"a": [a, b]},), lambda: ({"a": [a, a]},))
    return Scenario(lambda nest: _product_slope(*nest["a"]), change, arguments)


@scenario
def tensor_given_and_global() -> Scenario:
    a, b = A([3.0, 4.0]), A([1.0, 2.0])
    arguments, change = _alternating(lambda: (b,), lambda: (a,))
    return Scenario(lambda x: _product_slope(x, a), change, arguments)


@scenario
def tensor_given_and_attribute() -> Scenario:
    own, b = Holder(A([3.0, 4.0])), A([1.0, 2.0])
    arguments, change = _alternating(lambda: (b,), lambda: (own.number,))
    return Scenario(lambda x: _product_slope(x, own.number), change, arguments)


@scenario
def tensor_given_and_in_list() -> Scenario:
    own, b = [A([3.0, 4.0])], A([1.0, 2.0])
    arguments, change = _alternating(lambda: (b,), lambda: (own[0],))
    return Scenario(lambda x: _product_slope(x, own[0]), change, arguments)


@scenario
def tensor_put_outside_later() -> Scenario:
    a, b = A([3.0, 4.0]), A([1.0, 2.0])
    own = Holder(b)
    return Scenario(
        lambda x: _product_slope(x, own.number),
        lambda n: setattr(own, "number", a if n == 2.0 else b),
        lambda: (a,),
    )


@scenario
def arguments_compared_by_identity() -> Scenario:
    a, b = A(3.0), A(3.0)
    arguments, change = _alternating(lambda: (a, b), lambda: (a, a))
    return Scenario(lambda x, y: x * (2.0 if x is y else 1.0), change, arguments)


@scenario
def argument_compared_with_global() -> Scenario:
    a, b = A(3.0), A(3.0)
    arguments, change = _alternating(lambda: (b,), lambda: (a,))
    return Scenario(lambda x: x * (2.0 if x is a else 1.0), change, arguments)


@scenario
def argument_searched_in_list() -> Scenario:
    a, b = A(3.0), A(3.0)
    known = [a]
    arguments, change = _alternating(lambda: (b,), lambda: (a,))
    return Scenario(
        lambda x: x * (2.0 if any(each is x for each in known) else 1.0), change, arguments
    )


@scenario
def argument_by_its_id() -> Scenario:
    a, b = A(3.0), A(3.0)
    table = {id(a): 2.0}
    arguments, change = _alternating(lambda: (b,), lambda: (a,))
    return Scenario(lambda x: x * table.get(id(x), 1.0), change, arguments)


@scenario
def variable_given_and_global() -> Scenario:
    v, w = gt.Variable(3.0), gt.Variable(4.0)
    arguments, change = _alternating(lambda: (w,), lambda: (v,))

    def f(x):
        with gt.GradientTape() as tape:
            z = x * v
        return tape.gradient(z, v)

    return Scenario(f, change, arguments)


@scenario
def argument_changed_in_place_and_global() -> Scenario:
    a, b = A([3.0, 4.0]), A([1.0, 2.0])
    arguments, change = _alternating(lambda: (b,), lambda: (a,))

    def f(x):
        x += 1.0
        return x * a

    return Scenario(f, change, arguments, lambda: [a, b])


@scenario
def same_result_twice() -> Scenario:
    own = [1.0]

    def f(x):
        found = x * own[0]
        return found, found

    pair = gt.function(f)

    def shared(x):
        one, other = pair(x)
        return (one, one is other)

    return Scenario(shared, lambda n: own.__setitem__(0, n), decorate=lambda function: function)
