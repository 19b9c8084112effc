"""Adagrad."""

from __future__ import annotations

from typing import Unpack

from gradtape.ops.elementwise.unary import sqrt, square
from gradtape.optimizers.optimizer import Optimizer, SharedArguments, Update, with_shared_arguments
from gradtape.optimizers.rate import LearningRate
from gradtape.tensor.tensor import Tensor

__all__ = ["Adagrad"]


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
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
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
        accumulator = slots[0] + square(gradient)
        return weight - rate * gradient / sqrt(accumulator + self.epsilon), [accumulator]
