"""Adam and AdamW."""

from __future__ import annotations

from typing import Unpack

from gradtape.dtypes import float64
from gradtape.ops.elementwise.arithmetic import maximum
from gradtape.ops.elementwise.arithmetic import pow as power_of
from gradtape.ops.elementwise.unary import sqrt, square
from gradtape.ops.families.casting import cast
from gradtape.optimizers.optimizer import (
    ArgumentsAfterDecay,
    Optimizer,
    SharedArguments,
    Update,
    root,
    with_shared_arguments,
)
from gradtape.optimizers.rate import LearningRate
from gradtape.tensor.tensor import Tensor

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), in the form of their section 2 that Keras uses.

    In step t, counted from 1,

        alpha = learning_rate * sqrt(1 - beta_2**t) / (1 - beta_1**t)
        m += (1 - beta_1) * (g - m)
        v += (1 - beta_2) * (g**2 - v)
        w -= alpha * m / (sqrt(v) + epsilon)

    Epsilon is outside the root and is not corrected for the bias ("epsilon hat" in the paper). With
    `amsgrad`, the largest v so far takes the place of v in the last line.

    A row-sparse gradient gives the same as the dense one: the moments of all rows decay, and rows
    that were not looked up still move by their momentum, as in Keras. With `lazy=True` rows that
    were not looked up keep weight and moments, which costs less and is another algorithm.

    >>> w = gt.Variable([1.0, -1.0])
    >>> optimizer = gt.optimizers.Adam(learning_rate=0.1)
    >>> loss = optimizer.minimize(lambda: gt.sum(w * w), [w])
    >>> [round(x, 6) for x in w.numpy().tolist()]
    [0.9, -0.9]
    """

    hyperparameters = ("beta_1", "beta_2", "epsilon", "amsgrad")

    @with_shared_arguments
    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **shared: Unpack[SharedArguments],
    ) -> None:
        super().__init__(learning_rate, **shared)
        for word, beta in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"{type(self).__name__}: {word}={beta} is not from 0 to below 1.")
        self.beta_1 = float(beta_1)
        self.beta_2 = float(beta_2)
        self.epsilon = float(epsilon)
        self.amsgrad = bool(amsgrad)
        self.slots = ("momentum", "velocity", *(("velocity_hat",) if amsgrad else ()))

    def rates(self, learning_rate: Tensor, step: Tensor) -> tuple[Tensor, ...]:
        """The learning rate corrected for moments that begin at 0."""
        t = cast(step + 1, float64)
        second = sqrt(1.0 - power_of(self.beta_2, t))
        return (learning_rate * second / (1.0 - power_of(self.beta_1, t)),)

    def update(
        self, gradient: Tensor, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """One step of the formula above."""
        (alpha,) = rates
        momentum, velocity = slots[:2]
        momentum = momentum + (gradient - momentum) * (1.0 - self.beta_1)
        velocity = velocity + (square(gradient) - velocity) * (1.0 - self.beta_2)
        new, largest = [momentum, velocity], velocity
        if self.amsgrad:
            largest = maximum(slots[2], velocity)
            new.append(largest)
        return weight - alpha * momentum / (root(largest) + self.epsilon), new


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), 0.004 by default as in Keras.

    Before the update of Adam, `w -= learning_rate * weight_decay * w`. The gradient knows nothing
    of it. `exclude_from_weight_decay` spares variables such as biases.

    >>> w = gt.Variable(1.0)
    >>> optimizer = gt.optimizers.AdamW(learning_rate=0.1, weight_decay=0.5)
    >>> optimizer.apply_gradients([(0.0, w)])
    >>> float(w)
    0.95
    """

    @with_shared_arguments
    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        weight_decay: float | None = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **shared: Unpack[ArgumentsAfterDecay],
    ) -> None:
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **shared
        )
