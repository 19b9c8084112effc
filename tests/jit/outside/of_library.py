"""Tensors, variables, layers and optimisers outside."""

from __future__ import annotations

from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Place, place

import gradtape as gt


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
