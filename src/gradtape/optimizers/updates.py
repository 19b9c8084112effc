"""The formulas of the optimisers: SGD, Adagrad, RMSprop, Adam and AdamW."""

from __future__ import annotations

from typing import Unpack

import gradtape as gt
from gradtape import RowSparse, Tensor
from gradtape.libraries import add_to_rows, check_exports
from gradtape.optimizers.optimizer import (
    ArgumentsAfterDecay,
    Optimizer,
    SharedArguments,
    Update,
    root,
    with_shared_arguments,
)
from gradtape.optimizers.rate import LearningRate
from gradtape.typing import Decay, NonNegative, Probability

__all__ = ["Adagrad", "Adam", "AdamW", "RMSprop", "SGD"]


class SGD(Optimizer):
    """Gradient descent, with momentum if that is not 0.

    Without momentum `w -= learning_rate * g`. With momentum

        m = momentum * m - learning_rate * g
        w += m                                        without nesterov
        w += momentum * m - learning_rate * g         with nesterov

    so the learning rate is part of the momentum, as in Keras. Row-sparse gradients change the rows
    they name; with momentum all rows move on, unless `lazy`.

    >>> w = gt.Variable(1.0)
    >>> optimizer = gt.optimizers.SGD(learning_rate=0.1, momentum=0.5)
    >>> for _ in range(2):
    ...     loss = optimizer.minimize(lambda: w * w, [w])
    >>> round(float(w), 6)
    0.54
    """

    accepts = "fc"
    hyperparameters = ("momentum", "nesterov")

    @with_shared_arguments
    def __init__(
        self,
        learning_rate: LearningRate = 0.01,
        momentum: Probability = 0.0,
        nesterov: bool = False,
        **shared: Unpack[SharedArguments],
    ) -> None:
        super().__init__(learning_rate, **shared)
        self.momentum = float(momentum)
        self.nesterov = bool(nesterov)
        self.slots = ("momentum",) if self.momentum else ()
        self.rows_suffice = not self.momentum

    def update(
        self, gradient: Tensor, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """One step of the formula above."""
        (rate,) = rates
        step = rate * gradient
        if not slots:
            return weight - step, []
        momentum = self.momentum * slots[0] - step
        if self.nesterov:
            return weight + (self.momentum * momentum - step), [momentum]
        return weight + momentum, [momentum]

    def update_sparsely(
        self, gradient: RowSparse, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """The same for some rows; without momentum repeated rows need not be summed first."""
        if slots:
            return super().update_sparsely(gradient, weight, slots, *rates)
        return add_to_rows(weight, gradient, lambda values: -(rates[0] * values)), []


class Adagrad(Optimizer):
    """Learning rates that fall with the squares of all gradients so far (Duchi et al. 2011).

        a += g**2                                     from initial_accumulator_value on
        w -= learning_rate * g / sqrt(a + epsilon)

    Epsilon is inside the root, as in Keras. Rows that a row-sparse gradient does not name stay, as
    they would with a dense one.

    >>> w = gt.Variable(1.0)
    >>> optimizer = gt.optimizers.Adagrad(learning_rate=0.1, initial_accumulator_value=0.0)
    >>> loss = optimizer.minimize(lambda: w * w, [w])
    >>> round(float(w), 6)
    0.9
    """

    slots = ("accumulator",)
    rows_suffice = True
    hyperparameters = ("initial_accumulator_value", "epsilon")

    @with_shared_arguments
    def __init__(
        self,
        learning_rate: LearningRate = 0.001,
        initial_accumulator_value: NonNegative = 0.1,
        epsilon: NonNegative = 1e-7,
        **shared: Unpack[SharedArguments],
    ) -> None:
        super().__init__(learning_rate, **shared)
        self.initial_accumulator_value = float(initial_accumulator_value)
        self.epsilon = float(epsilon)

    def start_of(self, slot: str) -> float:
        """The number that a slot is filled with at the beginning."""
        return self.initial_accumulator_value

    def update(
        self, gradient: Tensor, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """One step of the formula above."""
        (rate,) = rates
        accumulator = slots[0] + gt.square(gradient)
        return weight - rate * gradient / gt.sqrt(accumulator + self.epsilon), [accumulator]


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
        rho: Probability = 0.9,
        momentum: Probability = 0.0,
        epsilon: NonNegative = 1e-7,
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
        velocity = self.rho * found["velocity"] + (1.0 - self.rho) * gt.square(gradient)
        found["velocity"] = denominator = velocity
        if self.centered:
            average = self.rho * found["average_gradient"] + (1.0 - self.rho) * gradient
            found["average_gradient"] = average
            denominator = velocity - gt.square(average)
        step = rate * gradient / gt.sqrt(denominator + self.epsilon)
        if self.momentum > 0.0:
            step = found["momentum"] = self.momentum * found["momentum"] + step
        return weight - step, list(found.values())


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
        beta_1: Decay = 0.9,
        beta_2: Decay = 0.999,
        epsilon: NonNegative = 1e-7,
        amsgrad: bool = False,
        **shared: Unpack[SharedArguments],
    ) -> None:
        super().__init__(learning_rate, **shared)
        self.beta_1 = float(beta_1)
        self.beta_2 = float(beta_2)
        self.epsilon = float(epsilon)
        self.amsgrad = bool(amsgrad)
        self.slots = ("momentum", "velocity", *(("velocity_hat",) if amsgrad else ()))

    def rates(self, learning_rate: Tensor, step: Tensor) -> tuple[Tensor, ...]:
        """The learning rate corrected for moments that begin at 0."""
        t = gt.cast(step + 1, gt.float64)
        second = gt.sqrt(1.0 - gt.pow(self.beta_2, t))
        return (learning_rate * second / (1.0 - gt.pow(self.beta_1, t)),)

    def update(
        self, gradient: Tensor, weight: Tensor, slots: list[Tensor], *rates: Tensor
    ) -> Update:
        """One step of the formula above."""
        (alpha,) = rates
        momentum, velocity = slots[:2]
        momentum = momentum + (gradient - momentum) * (1.0 - self.beta_1)
        velocity = velocity + (gt.square(gradient) - velocity) * (1.0 - self.beta_2)
        new, largest = [momentum, velocity], velocity
        if self.amsgrad:
            largest = gt.maximum(slots[2], velocity)
            new.append(largest)
        return weight - alpha * momentum / (root(largest) + self.epsilon), new


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), 0.004 by default as in Keras.

    Before the update of Adam, `w -= learning_rate * weight_decay * w`. The gradient does not
    contain it. `exclude_from_weight_decay` spares variables such as biases.

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
        weight_decay: NonNegative | None = 0.004,
        beta_1: Decay = 0.9,
        beta_2: Decay = 0.999,
        epsilon: NonNegative = 1e-7,
        amsgrad: bool = False,
        **shared: Unpack[ArgumentsAfterDecay],
    ) -> None:
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **shared
        )


check_exports(globals(), __all__)
