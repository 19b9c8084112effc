"""RMSprop."""

from __future__ import annotations

from typing import Unpack

from gradtape.ops.elementwise.unary import sqrt, square
from gradtape.optimizers.optimizer import Optimizer, SharedArguments, Update, with_shared_arguments
from gradtape.optimizers.rate import LearningRate
from gradtape.tensor.tensor import Tensor

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Gradients divided by a running root of their mean square (Hinton 2012), as in Keras.

        v = rho * v + (1 - rho) * g**2
        a = rho * a + (1 - rho) * g                   if centered; d = v - a**2, else d = v
        step = learning_rate * g / sqrt(d + epsilon)
        w -= step                                     without momentum
        m = momentum * m + step;  w -= m              with momentum

    Epsilon is inside the root. A row-sparse gradient gives the same as the dense one; with `lazy`
    rows that were not looked up keep weight and moments.

    >>> w = gt.Variable(1.0)
    >>> optimizer = gt.optimizers.RMSprop(learning_rate=0.1)
    >>> loss = optimizer.minimize(lambda: w * w, [w])
    >>> round(float(w), 6)
    0.683772
    """

    hyperparameters = ("rho", "momentum", "epsilon", "centered")

    @with_shared_arguments
    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **shared: Unpack[SharedArguments],
    ) -> None:
        super().__init__(learning_rate, **shared)
        self.rho = float(rho)
        self.momentum = float(momentum)
        self.epsilon = float(epsilon)
        self.centered = bool(centered)
        more = [("momentum", self.momentum > 0.0), ("average_gradient", self.centered)]
        self.slots = ("velocity", *(slot for slot, used in more if used))

    def update(
        self, gradient: Tensor, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """One step of the formula above."""
        (rate,) = rates
        found = dict(zip(self.slots, slots, strict=True))
        velocity = self.rho * found["velocity"] + (1.0 - self.rho) * square(gradient)
        found["velocity"] = denominator = velocity
        if self.centered:
            average = self.rho * found["average_gradient"] + (1.0 - self.rho) * gradient
            found["average_gradient"] = average
            denominator = velocity - square(average)
        step = rate * gradient / sqrt(denominator + self.epsilon)
        if self.momentum > 0.0:
            step = found["momentum"] = self.momentum * found["momentum"] + step
        return weight - step, list(found.values())
