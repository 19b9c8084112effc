"""Forward mode and the tape: what TensorFlow has in `tf.autodiff`."""

from __future__ import annotations

from typing import Any

from gradtape.tape import forward_accumulator as core
from gradtape.tf.suggestions import attribute_finder
from gradtape.tf.tape import GradientTape, UnconnectedGradients, word
from gradtape.tf.tensor import adopt

__all__ = ["ForwardAccumulator", "GradientTape"]


class ForwardAccumulator(core.ForwardAccumulator):
    """Carry tangents along with a computation: forward mode.

    >>> x = tf.constant([2.0, 3.0])
    >>> with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as acc:
    ...     y = tf.reduce_sum(x * x)
    >>> acc.jvp(y).numpy().item()
    4.0
    """

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """The tangent of what was computed inside, in the structure of `primals`.

        >>> x = tf.constant(3.0)
        >>> with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as acc:
        ...     y = {"square": x * x}
        >>> acc.jvp(y)["square"].numpy().item()
        6.0
        """
        return adopt(super().jvp(primals, word(unconnected_gradients)))


__getattr__ = attribute_finder(__name__, globals())
