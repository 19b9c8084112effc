"""Models, optimisers, schedules and settings of the library that change between calls."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from tests.jit.outside.holders import Holder
from tests.jit.outside.scenarios import Place, Scenario, place, scenario

import gradtape as gt

ONE = gt.ones((2, 3))


class Net(gt.nn.Module):
    """Two layers, a switch and a scale."""

    def __init__(self):
        super().__init__()
        gt.random.seed(5)
        self.layers = [gt.nn.Dense(3, kernel_initializer="ones") for _ in range(2)]
        self.named = {"out": gt.nn.Dense(1, kernel_initializer="ones")}
        self.scale, self.active = 1.0, False
        self(ONE)

    def __call__(self, x, training=False):
        for layer in self.layers:
            x = layer(x)
        x = self.named["out"](x) * self.scale
        return x * 2.0 if self.active or training else x


def _step(model, optimizer):
    def step(x):
        with gt.GradientTape() as tape:
            loss = gt.mean(model(x) ** 2) * 1e-3
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return step


def _trained(change, optimizer=None) -> Scenario:
    model = Net()
    rule = optimizer() if optimizer else gt.optimizers.SGD(0.01)
    return Scenario(
        _step(model, rule),
        lambda number: change(model, rule, number),
        lambda: (ONE,),
        lambda: [each.value for each in model.variables],
    )


CHANGES = {
    "attribute_of_model": lambda m, o, n: setattr(m, "scale", n),
    "switch_of_model": lambda m, o, n: setattr(m, "active", n == 2.0),
    "layer_replaced": lambda m, o, n: m.layers.__setitem__(
        0, gt.nn.Dense(3, kernel_initializer="zeros" if n == 2.0 else "ones")
    ),
    "layer_added": lambda m, o, n: m.layers.append(gt.nn.Dense(3, kernel_initializer="ones")),
    "layer_removed": lambda m, o, n: m.layers.pop() if len(m.layers) > 1 else None,
    "named_layer_replaced": lambda m, o, n: m.named.__setitem__(
        "out", gt.nn.Dense(1, kernel_initializer="zeros" if n == 2.0 else "ones")
    ),
    "activation": lambda m, o, n: setattr(m.layers[0], "activation", gt.tanh),
    "own_activation": lambda m, o, n: setattr(m.layers[0], "activation", lambda x: x * n),
    "trainable": lambda m, o, n: setattr(m.layers[0].kernel, "trainable", n == 1.0),
    "kernel_assigned": lambda m, o, n: m.layers[0].kernel.assign(np.full((3, 3), n / 4.0)),
    "kernel_replaced": lambda m, o, n: setattr(m.layers[0], "kernel", gt.Variable(np.eye(3) * n)),
    "layers_exchanged": lambda m, o, n: (m.layers[0].kernel.assign(np.eye(3)), m.layers.reverse()),
    "learning_rate": lambda m, o, n: setattr(o, "learning_rate", 0.01 * n),
    "variable_added": lambda m, o, n: setattr(m, "late", gt.Variable(n, trainable=False)),
}
for _name, _change in CHANGES.items():
    _maker = functools.partial(_trained, _change)
    _maker.__name__ = f"model_{_name}"
    scenario(_maker)


@scenario
def rate_of_adam() -> Scenario:
    return _trained(
        lambda m, o, n: setattr(o, "learning_rate", 0.01 * n), lambda: gt.optimizers.Adam(0.01)
    )


@scenario
def momentum_of_optimiser() -> Scenario:
    return _trained(
        lambda m, o, n: setattr(o, "momentum", 0.1 * n),
        lambda: gt.optimizers.SGD(0.01, momentum=0.1),
    )


@scenario
def schedule_of_optimiser() -> Scenario:
    schedules = gt.optimizers.schedules
    return _trained(
        lambda m, o, n: setattr(o, "learning_rate", schedules.ExponentialDecay(0.01 * n, 5, 0.5)),
        lambda: gt.optimizers.SGD(schedules.ExponentialDecay(0.01, 5, 0.5)),
    )


@scenario
def schedule_by_function() -> Scenario:
    model, rate = Net(), [1.0]
    optimizer = gt.optimizers.SGD(0.01)

    def step(x):
        optimizer.learning_rate = 0.01 * rate[0]
        return _step(model, optimizer)(x)

    return Scenario(
        step, lambda n: rate.__setitem__(0, n), lambda: (ONE,), lambda: model.layers[0].kernel.value
    )


@scenario
def optimiser_replaced() -> Scenario:
    model, own = Net(), Holder(gt.optimizers.SGD(0.01))

    def change(number):
        own.number = gt.optimizers.Adam(0.01 * number)

    def step(x):
        return _step(model, own.number)(x)

    return Scenario(step, change, lambda: (ONE,), lambda: model.layers[0].kernel.value)


@scenario
def model_replaced() -> Scenario:
    own = Holder(Net())

    def change(number):
        own.number = Net()
        own.number.scale = number

    return Scenario(lambda x: own.number(x), change, lambda: (ONE,))


@scenario
def training_switch() -> Scenario:
    model, training = Net(), [False]
    return Scenario(
        lambda x: model(x, training=training[0]),
        lambda n: training.__setitem__(0, n == 2.0),
        lambda: (ONE,),
    )


@scenario
def dropout_rate() -> Scenario:
    layer, generator = gt.nn.Dropout(0.5), gt.random.Generator(4)

    def f(x):
        kept = generator.uniform((2, 3)) >= layer.rate
        return gt.where(kept, x, 0.0) / (1.0 - layer.rate)

    return Scenario(
        f, lambda n: setattr(layer, "rate", 0.2 * n), lambda: (ONE,), lambda: generator.state
    )


@scenario
def layer_method_replaced() -> Scenario:
    class Scale(gt.nn.Module):
        def __call__(self, x):
            return x * 1.0

    layer = Scale()

    def change(number):
        Scale.__call__ = lambda self, x: x * number

    return Scenario(lambda x: layer(x), change)


@scenario
def layer_class_assigned() -> Scenario:
    class One(gt.nn.Module):
        def __call__(self, x):
            return x * 1.0

    class Two(gt.nn.Module):
        def __call__(self, x):
            return x * 2.0

    layer = One()
    return Scenario(
        lambda x: layer(x), lambda n: setattr(layer, "__class__", Two if n == 2.0 else One)
    )


@scenario
def deep_model() -> Scenario:
    class Block(gt.nn.Module):
        def __init__(self, inner=None):
            super().__init__()
            self.inner, self.rate = inner, 1.0

        def __call__(self, x):
            return (x if self.inner is None else self.inner(x)) * self.rate

    deepest = Block()
    model = Block(Block(Block(Block(deepest))))
    return Scenario(lambda x: model(x), lambda n: setattr(deepest, "rate", n))


@scenario
def sequential_grows() -> Scenario:
    layers = [gt.nn.Dense(3, kernel_initializer="ones")]
    model = gt.nn.Sequential(layers)
    model(ONE)
    return Scenario(
        lambda x: model(x),
        lambda n: model.add(gt.nn.Dense(3, kernel_initializer="ones")),
        lambda: (ONE,),
    )


# Settings of the library, and functions of it that are replaced.


@scenario
def default_dtype() -> Scenario:
    def change(number):
        gt.set_default_dtype(gt.float32 if number == 2.0 else gt.float64)

    return Scenario(lambda x: x * gt.zeros((2,)) + gt.asarray([1.0, 2.0]), change)


@scenario
def generator_replaced() -> Scenario:
    own = Holder(gt.random.Generator(3))
    return Scenario(
        lambda x: x * own.number.normal(()),
        lambda n: setattr(own, "number", gt.random.Generator(int(n))),
    )


@place
def function_of_numpy_replaced() -> Place:
    np.sine_of_a_test = np.sin

    def write(number):
        np.sine_of_a_test = lambda x: number

    return lambda: float(np.sine_of_a_test(1.0)), write


@place
def function_of_library_replaced() -> Place:
    gt.testing.sine_of_a_test = gt.sin

    def write(number):
        gt.testing.sine_of_a_test = lambda x: number

    return lambda: gt.testing.sine_of_a_test(1.0), write


@place
def custom_gradient_outside() -> Place:
    own = Holder(1.0)

    @gt.custom_gradient
    def scaled(x):
        return x * 2.0, lambda upstream: upstream * own.number

    one = gt.asarray(1.0)
    return lambda: gt.grad(scaled)(one), lambda number: setattr(own, "number", number)


@place
def function_inside_transform() -> Place:
    own = Holder(1.0)
    one = gt.ones(3)
    return (
        lambda: gt.sum(gt.vmap(lambda x: gt.grad(lambda y: y * y * own.number)(x))(one)),
        lambda number: setattr(own, "number", number),
    )


@place
def function_inside_loop() -> Place:
    own = Holder(1.0)
    return (
        lambda: gt.scan(lambda c, x: (c + x * own.number, c), gt.asarray(0.0), gt.ones(3))[0],
        lambda number: setattr(own, "number", number),
    )


@place
def function_inside_branch() -> Place:
    own = [lambda: gt.asarray(1.0)]
    yes = gt.asarray(True)
    return (
        lambda: gt.cond(yes, lambda: own[0](), lambda: gt.asarray(0.0)),
        lambda number: own.__setitem__(0, lambda: gt.asarray(number)),
    )


@place
def registered_container() -> Place:
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    gt.register_pytree(Pair, lambda p: ((p.a, p.b), None), lambda _, c: Pair(*c))
    own = Pair(1.0, 2.0)
    return (
        lambda: sum(gt.pytree.flatten(own)[0]),
        lambda number: setattr(own, "a", number),
    )


@place
def data_class_as_container() -> Place:
    @dataclasses.dataclass
    class Pair:
        a: float = 1.0
        b: float = 2.0

    own = Pair()
    return lambda: sum(gt.pytree.flatten(own)[0]), lambda number: setattr(own, "a", number)


@place
def attribute_of_variable() -> Place:
    own = gt.Variable(2.0, name="a")
    return lambda: 2.0 if own.trainable else 1.0, lambda n: setattr(own, "trainable", n == 1.0)
