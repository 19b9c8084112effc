"""Ordinary training steps and predictions, which must be replayed and not run in Python.

Each maker gives a function and its arguments.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gradtape as gt

X, Y = gt.ones((4, 3)), gt.ones((4, 1))
STEPS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}


def step(make, name=""):
    STEPS[name or make.__name__] = make
    return make


@dataclasses.dataclass
class Settings:
    rate: float = 0.01
    weights: list[float] = dataclasses.field(default_factory=lambda: [1.0, 0.5])

    def scaled(self, x):
        return x * self.rate


@dataclasses.dataclass(frozen=True)
class FrozenSettings:
    rate: float = 0.01
    name: str = "a"


SETTINGS, FROZEN = Settings(), FrozenSettings()


class Mode(enum.Enum):
    MEAN = "mean"
    SUM = "sum"


class Two(gt.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = gt.nn.Dense(5, activation="tanh"), gt.nn.Dense(1)

    def __call__(self, x):
        return self.second(self.first(x))


class Lists(gt.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [gt.nn.Dense(5, activation=gt.tanh) for _ in range(3)]
        self.heads = {"a": gt.nn.Dense(1), "b": gt.nn.Dense(1)}
        self.inner = Two()

    def __call__(self, x):
        skip = self.inner(x)
        for layer in self.layers:
            x = layer(x)
        return skip + sum(head(x) for head in self.heads.values())


class WithDropout(gt.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.dropout, self.norm = gt.nn.Dense(5), gt.nn.Dropout(0.5), gt.nn.LayerNorm()
        self.out = gt.nn.Dense(1)

    def __call__(self, x, training=True):
        x = self.dropout(gt.relu(self.dense(x)), training=training)
        return self.out(self.norm(x))


class PlainModel:
    """A model without the library's base class."""

    def __init__(self):
        self.w, self.b = gt.Variable(np.ones((3, 1)) * 0.1), gt.Variable(np.zeros(1))

    def __call__(self, x):
        return x @ self.w.value + self.b.value

    @property
    def trainable_variables(self):
        return [self.w, self.b]


def trained(model, optimizer=None, loss=None):
    optimizer = optimizer or gt.optimizers.SGD(0.01)

    def train(x, y):
        with gt.GradientTape() as tape:
            value = gt.mean((model(x) - y) ** 2) if loss is None else loss(model(x), y)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
        return value

    return train, (X, Y)


MODELS = {
    "dense": lambda: gt.nn.Dense(1),
    "sequential": lambda: gt.nn.Sequential([gt.nn.Dense(5, activation="relu"), gt.nn.Dense(1)]),
    "own_module": Two,
    "lists_of_layers": Lists,
    "dropout_and_norm": WithDropout,
    "plain_class": PlainModel,
    "nested_sequential": lambda: gt.nn.Sequential([Two(), gt.nn.Sequential([gt.nn.Dense(1)])]),
}
for _name, _make in MODELS.items():
    step(functools.partial(lambda make: trained(make()), _make), f"model_{_name}")

CELLS = {"rnn": gt.nn.RNN, "gru": gt.nn.GRU, "lstm": gt.nn.LSTM}
for _name, _kind in CELLS.items():

    def _recurrent(kind=_kind):
        layer = kind(4)
        return (lambda x: layer(x)), (gt.ones((2, 5, 3)),)

    step(_recurrent, f"layer_{_name}")

SCHEDULES = gt.optimizers.schedules
OPTIMIZERS = {
    "sgd": lambda: gt.optimizers.SGD(0.01),
    "momentum": lambda: gt.optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    "adam": lambda: gt.optimizers.Adam(0.01),
    "adamw": lambda: gt.optimizers.AdamW(0.01),
    "rmsprop": lambda: gt.optimizers.RMSprop(0.01),
    "adagrad": lambda: gt.optimizers.Adagrad(0.01),
    "exponential": lambda: gt.optimizers.SGD(SCHEDULES.ExponentialDecay(0.01, 10, 0.9)),
    "cosine": lambda: gt.optimizers.Adam(SCHEDULES.CosineDecay(0.01, 10)),
    "piecewise": lambda: gt.optimizers.SGD(SCHEDULES.PiecewiseConstantDecay([5], [0.1, 0.01])),
    "polynomial": lambda: gt.optimizers.SGD(SCHEDULES.PolynomialDecay(0.1, 10)),
    "inverse_time": lambda: gt.optimizers.SGD(SCHEDULES.InverseTimeDecay(0.1, 10, 0.5)),
    "restarts": lambda: gt.optimizers.SGD(SCHEDULES.CosineDecayRestarts(0.1, 10)),
}
for _name, _make in OPTIMIZERS.items():
    step(functools.partial(lambda make: trained(Two(), make()), _make), f"optimizer_{_name}")


def penalty(variables, weight=0.01):
    return weight * sum(gt.sum(v.value**2) for v in variables)


@step
def helpers_and_closures():
    model, optimizer, weight = Two(), gt.optimizers.Adam(0.01), 0.1

    def loss_of(x, y):
        return gt.mean((model(x) - y) ** 2) + penalty(model.trainable_variables, weight)

    def train(x, y):
        with gt.GradientTape() as tape:
            loss = loss_of(x, y)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss, sum(gt.sum(g * g) for g in gradients)

    return train, (X, Y)


@step
def settings_as_global():
    return trained(Two(), loss=lambda p, y: gt.sum((p - y) ** 2) * SETTINGS.rate * FROZEN.rate)


@step
def settings_as_argument():
    def f(x, settings):
        return settings.scaled(x) * settings.weights[0] + sum(settings.weights)

    return f, (X, Settings())


@step
def frozen_settings_as_argument():
    return (lambda x, s: x * s.rate * len(s.name)), (X, FrozenSettings())


@step
def settings_in_dictionary():
    options = {"loss": {"weights": [1.0, 0.5], "kind": Mode.MEAN}, "clip": (0.0, 1.0)}

    def f(x):
        reduce = gt.mean if options["loss"]["kind"] is Mode.MEAN else gt.sum
        return reduce(gt.clip(x * options["loss"]["weights"][1], *options["clip"]))

    return f, (X,)


@step
def partials():
    power = functools.partial(lambda p, x: x**p, 2)
    return (lambda x: gt.sum(power(x))), (X,)


@step
def constants_of_math_and_numpy():
    scale = np.array([0.1, 0.2, 0.3])

    def f(x):
        return x * math.pi * np.e + scale - math.sqrt(2.0) + np.log(2.0) * float(np.float64(3.0))

    return f, (X,)


@step
def custom_gradient():
    @gt.custom_gradient
    def clipped(x):
        return gt.clip(x, -1.0, 1.0), lambda upstream: upstream

    return gt.grad(lambda x: gt.sum(clipped(x) ** 2)), (X,)


@step
def transforms_inside():
    def f(x):
        slopes = gt.vmap(gt.grad(lambda row: gt.sum(gt.sin(row) * row)))(x)
        return slopes, gt.jacfwd(lambda row: row * row[0])(x[0]), gt.hessian(gt.sum)(x[0])

    return f, (X,)


@step
def loops_and_branches():
    def f(x):
        total, rows = gt.scan(lambda c, row: (c + gt.sum(row), c), gt.asarray(0.0), x)
        best = gt.cond(total > 0.0, lambda: total * 2.0, lambda: -total)
        return best, rows, gt.fori_loop(0, 3, lambda i, c: c * 0.5, total)

    return f, (X,)


@step
def random_numbers():
    generator = gt.random.Generator(3)
    return (lambda x: x + generator.normal((4, 3)) + gt.random.normal((4, 3))), (X,)


@step
def running_average():
    average, decay = gt.Variable(np.zeros(3)), 0.9

    def f(x):
        average.assign(decay * average.value + (1.0 - decay) * gt.mean(x, axis=0))
        return x - average.value

    return f, (X,)


@step
def losses_of_library():
    model = gt.nn.Dense(5)
    labels = gt.one_hot(gt.asarray([0, 1, 2, 3]), 5)
    return (lambda x: gt.nn.losses.softmax_cross_entropy_with_logits(labels, model(x))), (X,)


class Batch(NamedTuple):
    x: Any
    y: Any


@step
def nests_as_arguments():
    def f(batch, parameters):
        return gt.mean((batch.x @ parameters["w"] - batch.y) ** 2)

    return f, (Batch(X, Y), {"w": gt.ones((3, 1))})


@step
def python_around_tensors():
    def f(x, count, rate):
        found = []
        for number in range(count):
            found.append(x * rate**number)
        pairs = sorted(((len(str(i)), i) for i in range(3)), reverse=True)
        return gt.stack(found)[pairs[0][1] % count], {f"part{i}": v for i, v in enumerate(found)}

    return f, (X, 3, 0.5)


@step
def methods_and_properties():
    class Decay:
        def __init__(self):
            self.rates, self._scale = {"a": 0.1}, 2.0

        @property
        def scale(self):
            return self._scale

        def __getitem__(self, key):
            return self.rates[key]

        @staticmethod
        def shifted(x):
            return x + 1.0

        @classmethod
        def made(cls):
            return cls()

    decay = Decay.made()
    return (lambda x: decay.shifted(x) * decay["a"] * decay.scale), (X,)


@step
def attributes_by_name():
    model = Two()
    model(X)

    def f(x):
        for name in ("first", "second"):
            if hasattr(model, name):
                x = getattr(model, name)(x)
        return x

    return f, (X,)


@step
def errors_that_are_handled():
    table = {"a": 1.0}

    def f(x):
        try:
            return x * table["b"]
        except KeyError:
            return x * table["a"]

    return f, (X,)


@step
def nested_functions():
    inner = gt.function(lambda x: gt.sin(x) * SETTINGS.rate)
    return (lambda x: inner(x) + inner(x * 2.0)), (X,)


@step
def checkpointed():
    dense = gt.nn.Dense(3)
    dense(X)
    block = gt.checkpoint(lambda x: gt.tanh(dense(x)))
    return gt.grad(lambda x: gt.sum(block(block(x)))), (X,)
