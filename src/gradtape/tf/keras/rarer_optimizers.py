"""Optimizers that only Keras users ask for: Adadelta, Adamax, Nadam, Ftrl and Lion."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from gradtape import (
    Variable,
    abs as size,
    cast,
    clip,
    float64,
    maximum,
    pow as power_of,
    sign,
    sqrt,
    square,
)
from gradtape.libraries import check_exports
from gradtape.optimizers import Optimizer
from gradtape.typing import Decay, Finite, NonNegative, Probability

Update = tuple[Any, list[Any]]


_SHARED = [
    parameter
    for parameter in inspect.signature(Optimizer.__init__).parameters.values()
    if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
]


class _Configured(Optimizer):
    """An optimizer whose own arguments are the numbers that its class declares, in that order.

    They follow the learning rate in the constructor, and precede what all optimizers share.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = [
            inspect.Parameter(
                name, _SHARED[0].POSITIONAL_OR_KEYWORD, default=getattr(cls, name), annotation=kind
            )
            for name, kind in inspect.get_annotations(cls).items()
        ]
        if not own:
            return
        signature = inspect.Signature([*_SHARED[:2], *own, *_SHARED[2:]], return_annotation="None")
        cls.hyperparameters = tuple(parameter.name for parameter in own)

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            try:
                _, *given = signature.bind(self, *args, **kwargs).arguments.items()
            except TypeError as error:
                raise TypeError(f"{cls.__name__}.__init__() {error}") from None
            shared = dict(given)
            numbers = {name: shared.pop(name) for name in cls.hyperparameters if name in shared}
            Optimizer.__init__(self, **shared)
            for name, number in numbers.items():
                setattr(self, name, float(number))
            self._prepare()

        __init__.__signature__ = signature  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[method-assign]

    def _prepare(self) -> None:
        """Make the state that belongs to no variable."""

    def get_config(self) -> dict[str, Any]:
        found = super().get_config()
        found.pop("lazy")
        return found


class Adadelta(_Configured):
    """Learning rates from the sizes of past gradients and past steps (Zeiler 2012).

    a += (1 - rho) * (g**2 - a)
    d = -sqrt(s + epsilon) / sqrt(a + epsilon) * g
    s += (1 - rho) * (d**2 - s)
    w += learning_rate * d
    """

    slots = ("accumulated_grad", "accumulated_delta_var")
    rho: Probability = 0.95
    epsilon: NonNegative = 1e-7

    def update(self, gradient: Any, weight: Any, slots: list[Any], *rates: Any) -> Update:
        squares, steps = slots
        squares = self.rho * squares + (1.0 - self.rho) * square(gradient)
        delta = -sqrt(steps + self.epsilon) * gradient / sqrt(squares + self.epsilon)
        steps = self.rho * steps + (1.0 - self.rho) * square(delta)
        return weight + rates[0] * delta, [squares, steps]


class Adamax(_Configured):
    """Adam with the largest gradient in place of the second moment (Kingma and Ba 2015).

    m += (1 - beta_1) * (g - m)
    u = max(beta_2 * u, |g|)
    w -= learning_rate / (1 - beta_1**t) * m / (u + epsilon)
    """

    slots = ("momentum", "norm")
    beta_1: Decay = 0.9
    beta_2: Decay = 0.999
    epsilon: NonNegative = 1e-7

    def rates(self, learning_rate: Any, step: Any) -> tuple[Any, ...]:
        """The learning rate corrected for a moment that begins at 0."""
        return (learning_rate / (1.0 - power_of(self.beta_1, cast(step + 1, float64))),)

    def update(self, gradient: Any, weight: Any, slots: list[Any], *rates: Any) -> Update:
        momentum, norm = slots
        momentum = momentum + (gradient - momentum) * (1.0 - self.beta_1)
        norm = maximum(self.beta_2 * norm, size(gradient + 0.0))
        return weight - rates[0] * momentum / (norm + self.epsilon), [momentum, norm]


class Nadam(_Configured):
    """Adam with Nesterov's momentum (Dozat 2016).

    Its momentum is warmed up: in step t it is u(t) = beta_1 * (1 - 0.96**t / 2), and p(t) is the
    product of all so far.

        m += (1 - beta_1) * (g - m)
        v += (1 - beta_2) * (g**2 - v)
        n = u(t+1) / (1 - p(t+1)) * m + (1 - u(t)) / (1 - p(t)) * g
        w -= learning_rate * n / (sqrt(v / (1 - beta_2**t)) + epsilon)
    """

    slots = ("momentum", "velocity")
    beta_1: Decay = 0.9
    beta_2: Decay = 0.999
    epsilon: NonNegative = 1e-7

    def _prepare(self) -> None:
        """Make the product of momenta."""
        self._product = self.make_variable(np.float64(1.0), "u_product")

    def named_variables(self) -> list[tuple[str, Variable]]:
        """All state with its names, the product of momenta included."""
        return [*super().named_variables(), ("u_product", self._product)]

    def rates(self, learning_rate: Any, step: Any) -> tuple[Any, ...]:
        """What m and g count for, and what v is divided by."""
        t = cast(step + 1, float64)
        now, later = (self.beta_1 * (1.0 - 0.5 * power_of(0.96, t + n)) for n in (0.0, 1.0))
        product = self._product.value * now
        self._product.assign(product)
        first = learning_rate * later / (1.0 - product * later)
        second = learning_rate * (1.0 - now) / (1.0 - product)
        return first, second, 1.0 / (1.0 - power_of(self.beta_2, t))

    def update(self, gradient: Any, weight: Any, slots: list[Any], *rates: Any) -> Update:
        first, second, third = rates
        momentum, velocity = slots
        momentum = momentum + (gradient - momentum) * (1.0 - self.beta_1)
        velocity = velocity + (square(gradient) - velocity) * (1.0 - self.beta_2)
        step = (first * momentum + second * gradient) / (sqrt(velocity * third) + self.epsilon)
        return weight - step, [momentum, velocity]


class Ftrl(_Configured):
    """Follow the regularized leader (McMahan et al. 2013), for weights that shall be sparse.

        b = a + g**2
        z += g + 2 * l2_shrinkage * w - (b**-p - a**-p) / learning_rate * w
        q = b**-p / learning_rate + 2 * l2 + beta / learning_rate
        w = (clip(z, -l1, l1) - z) / q
        a = b                                         from initial_accumulator_value on

    with p the learning_rate_power.
    """

    slots = ("accumulator", "linear")
    learning_rate_power: Finite = -0.5
    initial_accumulator_value: NonNegative = 0.1
    l1_regularization_strength: NonNegative = 0.0
    l2_regularization_strength: NonNegative = 0.0
    l2_shrinkage_regularization_strength: NonNegative = 0.0
    beta: Finite = 0.0

    def _prepare(self) -> None:
        if self.learning_rate_power > 0:
            raise ValueError(
                f"Ftrl: learning_rate_power={self.learning_rate_power} is above 0. Pass 0 for "
                "one rate at all steps, or a negative number such as -0.5."
            )

    def start_of(self, slot: str) -> float:
        """The number that a slot is filled with at the beginning."""
        return self.initial_accumulator_value if slot == "accumulator" else 0.0

    def update(self, gradient: Any, weight: Any, slots: list[Any], *rates: Any) -> Update:
        (rate,) = rates
        before, linear = slots
        gradient = gradient + 0.0
        after = before + square(gradient)
        power = -self.learning_rate_power
        old, new = (x**power / rate for x in (before, after))
        shrunk = gradient + 2.0 * self.l2_shrinkage_regularization_strength * weight
        linear = linear + shrunk - (new - old) * weight
        quadratic = new + 2.0 * (self.l2_regularization_strength + self.beta / (2.0 * rate))
        bound = self.l1_regularization_strength
        return (clip(linear, -bound, bound) - linear) / quadratic, [after, linear]


class Lion(_Configured):
    """Steps of one size, in the direction of a momentum (Chen et al. 2023).

    w -= learning_rate * sign(beta_1 * m + (1 - beta_1) * g)
    m += (1 - beta_2) * (g - m)
    """

    slots = ("momentum",)
    beta_1: Decay = 0.9
    beta_2: Decay = 0.99

    def update(self, gradient: Any, weight: Any, slots: list[Any], *rates: Any) -> Update:
        (momentum,) = slots
        direction = sign(momentum * self.beta_1 + gradient * (1.0 - self.beta_1))
        momentum = momentum * self.beta_2 + gradient * (1.0 - self.beta_2)
        return weight - rates[0] * direction, [momentum]


check_exports(globals(), ("Adadelta", "Adamax", "Nadam", "Ftrl", "Lion"))
