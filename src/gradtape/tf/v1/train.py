"""Optimizers of TensorFlow 1, whose `minimize` returns a call to run: `tf.compat.v1.train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from gradtape import Tensor as CoreTensor, optimizers as core
from gradtape.libraries import check_exports
from gradtape.tf.base.casting import cast
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import TensorLike
from gradtape.tf.keras.optimizer import prepared
from gradtape.tf.ops.elementwise import floor, pow
from gradtape.tf.programs.tape import gradients
from gradtape.tf.programs.variable import Variable
from gradtape.tf.v1.graphs import default_graph, local
from gradtape.tf.v1.symbolic import Symbolic
from gradtape.typing import Decay, NonNegative, Positive, Probability

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "RMSPropOptimizer",
    "exponential_decay",
]


# A number, a deferred call that is executed at each step, or a schedule.
Rate: TypeAlias = "float | Symbolic | Callable[[Any], Any]"


class Optimizer:
    """Base class of the optimizers of TensorFlow 1.

    >>> with tf.Graph().as_default():
    ...     w = tf.Variable(1.0)
    ...     step = tf.compat.v1.train.GradientDescentOptimizer(0.1).minimize(w * w)
    ...     with tf.Session() as sess:
    ...         for _ in range(100):
    ...             sess.run(step)
    ...         print(bool(abs(sess.run(w)) < 1e-3))
    True
    """

    def __init__(self, inner: core.Optimizer, name: str) -> None:
        self._inner = inner
        self.name = name

    def minimize(
        self,
        loss: object,
        global_step: Variable | None = None,
        var_list: Iterable[Variable] | None = None,
        gate_gradients: int = 1,
        aggregation_method: object = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: object = None,
    ) -> Symbolic:
        """A call to run that takes one step down the gradient of a loss."""
        pairs = self.compute_gradients(loss, var_list, gate_gradients, grad_loss=grad_loss)
        return self.apply_gradients(pairs, global_step)

    def compute_gradients(
        self,
        loss: object,
        var_list: Iterable[Variable] | None = None,
        gate_gradients: int = 1,
        aggregation_method: object = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: object = None,
    ) -> list[tuple[Any, Variable]]:
        """Pairs of a gradient and its variable; `grad_loss` is the gradient of the loss itself."""
        if gate_gradients not in (0, 1, 2):
            raise ValueError(
                f"compute_gradients: gate_gradients={gate_gradients} is none of GATE_NONE, GATE_OP "
                "and GATE_GRAPH (0, 1, 2). Leave it out: it has no effect."
            )
        variables = _variables(var_list)
        if not variables:
            raise ValueError("No variables to optimize.")
        return list(zip(gradients(loss, variables, grad_loss), variables, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Symbolic:
        """A call to run that takes one step, given pairs of a gradient and its variable."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable.")
        cells = _Cells([v for _, v in pairs], global_step)
        return Symbolic(self._take_step, ([g for g, _ in pairs], cells), {}, True)

    def _take_step(self, gradients: list[Any], cells: _Cells) -> None:
        known = [(g, v) for g, v in zip(gradients, cells.variables, strict=True) if g is not None]
        self._inner.apply_gradients([(prepared(g, v), v) for g, v in known])
        if cells.global_step is not None:
            cells.global_step.assign_add(1)


class _Cells:
    """Holds variables, so that a run passes them on instead of their values."""

    def __init__(self, variables: list[Variable], global_step: Variable | None) -> None:
        self.variables = variables
        self.global_step = global_step


def _variables(var_list: Iterable[Variable] | None) -> list[Variable]:
    if var_list is not None:
        return list(var_list)
    return [v for v in default_graph().variables if v.trainable]


class GradientDescentOptimizer(Optimizer):
    """Gradient descent.

    >>> tf.compat.v1.train.GradientDescentOptimizer(0.1).name
    'GradientDescent'
    """

    def __init__(
        self, learning_rate: Rate, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(core.SGD(_rate(learning_rate)), name)


class _Momentum(core.SGD):
    """Momentum as in TensorFlow 1: m = momentum * m + g, and w -= rate * m.

    In Keras the rate is part of m, which differs as soon as the rate changes.
    """

    def update(
        self, gradient: CoreTensor, weight: CoreTensor, slots: list[CoreTensor], *rates: CoreTensor
    ) -> tuple[CoreTensor, list[CoreTensor]]:
        """One step; with nesterov, w -= rate * (g + momentum * m)."""
        if not slots:
            return super().update(gradient, weight, slots, *rates)
        momentum = self.momentum * slots[0] + gradient
        step = gradient + self.momentum * momentum if self.nesterov else momentum
        return weight - rates[0] * step, [momentum]


class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum.

    >>> tf.compat.v1.train.MomentumOptimizer(0.1, 0.9).name
    'Momentum'
    """

    def __init__(
        self,
        learning_rate: Rate,
        momentum: Probability,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(_Momentum(_rate(learning_rate), momentum, use_nesterov), name)


class AdamOptimizer(Optimizer):
    """Adam.

    >>> tf.compat.v1.train.AdamOptimizer().name
    'Adam'
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta1: Decay = 0.9,
        beta2: Decay = 0.999,
        epsilon: NonNegative = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        inner = core.Adam(_rate(learning_rate), beta_1=beta1, beta_2=beta2, epsilon=epsilon)
        super().__init__(inner, name)


class _FromOne(core.RMSprop):
    """RMSprop whose mean of squares begins at 1, as in TensorFlow 1."""

    def start_of(self, slot: str) -> float:
        """The initial value of all elements of a slot."""
        return 1.0 if slot == "velocity" else 0.0


class RMSPropOptimizer(Optimizer):
    """RMSprop.

    >>> tf.compat.v1.train.RMSPropOptimizer(0.1).name
    'RMSProp'
    """

    def __init__(
        self,
        learning_rate: Rate,
        decay: Probability = 0.9,
        momentum: Probability = 0.0,
        epsilon: NonNegative = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        inner = _FromOne(
            _rate(learning_rate), rho=decay, momentum=momentum, epsilon=epsilon, centered=centered
        )
        super().__init__(inner, name)


class AdagradOptimizer(Optimizer):
    """Adagrad.

    >>> tf.compat.v1.train.AdagradOptimizer(0.1).name
    'Adagrad'
    """

    def __init__(
        self,
        learning_rate: Rate,
        initial_accumulator_value: NonNegative = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        inner = core.Adagrad(
            _rate(learning_rate), initial_accumulator_value=initial_accumulator_value
        )
        super().__init__(inner, name)


def _rate(rate: Rate) -> Any:
    """Turn a deferred learning rate into a function that computes it at each step."""
    if isinstance(rate, Symbolic):
        return lambda step: local.run.values_of(rate)
    return rate


def exponential_decay(
    learning_rate: float,
    global_step: TensorLike,
    decay_steps: Positive,
    decay_rate: NonNegative,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * decay_rate ** (global_step / decay_steps).

    >>> tf.compat.v1.train.exponential_decay(1.0, 10, 10, 0.5).numpy().item()
    0.5
    """
    share = cast(global_step, "float32") / float(decay_steps)
    share = floor(share) if staircase else share
    return learning_rate * pow(float(decay_rate), share)


check_exports(globals(), __all__)
