"""LayerNorm: each example brought to mean 0 and variance 1 along some axes."""

from __future__ import annotations

from typing import Any

from gradtape.dtypes import DTypeLike
from gradtape.nn.initializers import InitializerLike
from gradtape.nn.layer import Layer, words
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.elementwise.unary import rsqrt, square
from gradtape.ops.families.shapes import normalize_axes
from gradtape.ops.families.signatures import Axis
from gradtape.ops.reductions.reduction import mean
from gradtape.tensor import Tensor, Variable

__all__ = ["LayerNorm"]

Parameter = Tensor | Variable | None


class LayerNorm(Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, with moments along `axis`.

    >>> y = gt.nn.LayerNorm()(np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]))
    >>> np.round(y.numpy(), 2).tolist()
    [[-1.22, 0.0, 1.22], [-1.22, 0.0, 1.22]]

    Epsilon is 0.001 by default, as in Keras' LayerNormalization.
    """

    def __init__(
        self,
        axis: Axis = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: InitializerLike = "zeros",
        gamma_initializer: InitializerLike = "ones",
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        self.axis = axis
        self.epsilon = float(epsilon)
        self.center, self.scale = bool(center), bool(scale)
        self.beta_initializer, self.gamma_initializer = beta_initializer, gamma_initializer
        self.gamma: Any = None
        self.beta: Any = None

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make gamma and beta, one number for each place along the axes."""
        axes = normalize_axes("LayerNorm", self.axis, len(input_shape))
        shape = tuple(input_shape[axis] for axis in axes)
        if self.scale:
            self.gamma = self.add_variable("gamma", shape, self.gamma_initializer)
        if self.center:
            self.beta = self.add_variable("beta", shape, self.beta_initializer)

    def call(self, x: Tensor) -> Tensor:
        """The normalised input."""
        axes = normalize_axes("LayerNorm", self.axis, x.ndim)
        return normalized(x, axes, self.epsilon, self.gamma, self.beta)

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return words(axis=self.axis, epsilon=self.epsilon)


def normalized(
    x: Tensor, axes: tuple[int, ...], epsilon: float, gamma: Parameter, beta: Parameter
) -> Tensor:
    """The input with mean 0 and variance 1 along axes, then scaled by gamma and shifted by beta."""
    distance = x - mean(x, axis=axes, keepdims=True)
    variance = mean(square(distance), axis=axes, keepdims=True)
    y = distance * rsqrt(variance + epsilon)
    shape = tuple(n if axis in axes else 1 for axis, n in enumerate(x.shape))
    y = y if gamma is None else y * reshape(gamma, shape)
    return y if beta is None else y + reshape(beta, shape)
