"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Unpack

from gradtape.optimizers.optimizer import Optimizer, SharedArguments, Update, with_shared_arguments
from gradtape.optimizers.rate import LearningRate
from gradtape.optimizers.rows import add_to_rows
from gradtape.tensor import RowSparse, Tensor

__all__ = ["SGD"]


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
        momentum: float = 0.0,
        nesterov: bool = False,
        **shared: Unpack[SharedArguments],
    ) -> None:
        super().__init__(learning_rate, **shared)
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"SGD: momentum={momentum} is not between 0 and 1.")
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
