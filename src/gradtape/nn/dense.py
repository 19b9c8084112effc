"""Dense: a matrix product, an offset and an activation."""

from __future__ import annotations

import math
from typing import Any

from gradtape.dtypes import DTypeLike
from gradtape.errors import ShapeError
from gradtape.nn import activations
from gradtape.nn.activations import ActivationLike
from gradtape.nn.initializers import InitializerLike
from gradtape.nn.layer import Layer, words
from gradtape.ops.arrays.movement import reshape
from gradtape.tensor import Tensor, Variable

__all__ = ["Dense"]


class Dense(Layer):
    """activation(x @ kernel + bias), along the last axis of inputs with any number of axes.

    >>> layer = gt.nn.Dense(4, activation="relu")
    >>> layer(np.ones((2, 3))).shape
    (2, 4)
    >>> layer.kernel.shape, layer.bias.shape
    ((3, 4), (4,))

    The variables are made at the first call, or at once if `in_features` is given.
    """

    def __init__(
        self,
        units: int,
        activation: ActivationLike = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        *,
        in_features: int | None = None,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        if units <= 0:
            raise ValueError(f"Dense: units={units} is not a positive number of outputs.")
        self.units = int(units)
        self.activation = activations.get(activation)
        self.use_bias = bool(use_bias)
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel: Any = None
        self.bias: Any = None
        if in_features is not None:
            self.ensure_built((int(in_features),))

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make kernel and bias."""
        if not input_shape:
            raise ShapeError(f"{self.name}: a 0-d input has no features. Reshape it to (1,).")
        self.kernel = self.add_variable(
            "kernel", (input_shape[-1], self.units), self.kernel_initializer
        )
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.units,), self.bias_initializer)

    def call(self, x: Tensor) -> Tensor:
        """The output for inputs of shape (..., features)."""
        y = project(self.name, x, self.kernel)
        y = y if self.bias is None else y + self.bias
        return y if self.activation is None else self.activation(y)

    def describe(self) -> str:
        """The arguments that `repr` shows."""
        return words(units=self.units, activation=self.activation, use_bias=self.use_bias)


def project(name: str, x: Tensor, kernel: Variable | Tensor) -> Tensor:
    """`x @ kernel` along the last axis, as one product of matrices."""
    if not x.shape or x.shape[-1] != kernel.shape[0]:
        raise ShapeError(
            f"{name}: an input of shape {x.shape} does not have the {kernel.shape[0]} features "
            "that the layer was built for along its last axis. Reshape it, or make another layer."
        )
    if len(x.shape) <= 2:
        return x @ kernel
    rows = reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])) @ kernel
    return reshape(rows, (*x.shape[:-1], kernel.shape[1]))
