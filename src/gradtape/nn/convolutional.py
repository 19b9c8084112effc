"""Layers over spatial axes: convolution, pooling, flattening. Inputs are (batch, ..., channels)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gradtape as gt
from gradtape import Tensor
from gradtape.errors import ShapeError
from gradtape.libraries import as_count, check_exports
from gradtape.nn import activations
from gradtape.nn.activations import ActivationLike
from gradtape.nn.initializers import InitializerLike
from gradtape.nn.module import Layer
from gradtape.typing import DTypeLike, Size, Sizes

__all__ = [
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Flatten",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
]


def _per_axis(where: str, value: Sizes, spatial: int) -> tuple[int, ...]:
    given = value if isinstance(value, (list, tuple)) else (value,) * spatial
    if len(given) != spatial:
        raise ShapeError(f"{where}={value!r}: pass one number, or {spatial}, one for each axis.")
    return tuple(as_count(where, n, least=1) for n in given)


class _Spatial(Layer):
    """A layer over a fixed number of spatial axes."""

    spatial: ClassVar[int]

    def checked_input(self, x: Tensor) -> Tensor:
        """The input, or an error if it does not have the axes of the layer."""
        if x.ndim != self.spatial + 2:
            raise ShapeError(
                f"{self.name}: an input of shape {x.shape} does not have {self.spatial + 2} axes. "
                "Pass (batch, ..., channels); add a batch axis with gt.expand_dims(x, axis=0)."
            )
        return x


class _Conv(_Spatial):
    shown = ("filters", "kernel_size", "strides", "padding", "activation")

    def __init__(
        self,
        filters: Size,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        dilation_rate: Sizes = 1,
        groups: Size = 1,
        activation: ActivationLike = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        *,
        dtype: DTypeLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        own = type(self).__name__
        self.filters = int(filters)
        self.kernel_size = _per_axis(f"{own}: kernel_size", kernel_size, self.spatial)
        self.strides = _per_axis(f"{own}: strides", strides, self.spatial)
        self.dilation_rate = _per_axis(f"{own}: dilation_rate", dilation_rate, self.spatial)
        self.padding, self.groups = padding, int(groups)
        self.activation = activations.get(activation)
        self.use_bias = bool(use_bias)
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel: Any = None
        self.bias: Any = None

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Make kernel and bias."""
        if len(input_shape) != self.spatial + 2:
            return  # `call` raises an error that says which axes are missing.
        channels = input_shape[-1]
        if channels % self.groups or self.filters % self.groups:
            raise ShapeError(
                f"{self.name}: {self.groups} groups divide neither {channels} channels nor "
                f"{self.filters} filters. Both must be multiples of `groups`."
            )
        shape = (*self.kernel_size, channels // self.groups, self.filters)
        self.kernel = self.add_variable("kernel", shape, self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.filters,), self.bias_initializer)

    def call(self, x: Tensor) -> Tensor:
        """The output for a batch of inputs."""
        y = gt.conv(
            self.checked_input(x),
            self.kernel,
            strides=self.strides,
            padding=self.padding,
            dilations=self.dilation_rate,
            groups=self.groups,
        )
        y = y if self.bias is None else y + self.bias
        return y if self.activation is None else self.activation(y)


class Conv1D(_Conv):
    """Convolution along one axis: inputs (batch, steps, channels).

    >>> layer = gt.nn.Conv1D(4, 3, padding="same", activation="relu")
    >>> layer(np.ones((2, 10, 3))).shape
    (2, 10, 4)
    >>> layer.kernel.shape
    (3, 3, 4)
    """

    spatial = 1


class Conv2D(_Conv):
    """Convolution of images (batch, height, width, channels), with channels last as in Keras.

    >>> layer = gt.nn.Conv2D(16, 3, strides=2, activation="relu")
    >>> layer(np.ones((2, 28, 28, 1))).shape
    (2, 13, 13, 16)
    >>> layer.kernel.shape
    (3, 3, 1, 16)
    """

    spatial = 2


class Conv3D(_Conv):
    """Convolution along three axes: inputs (batch, depth, height, width, channels).

    >>> gt.nn.Conv3D(2, 3)(np.ones((1, 5, 5, 5, 1))).shape
    (1, 3, 3, 3, 2)
    """

    spatial = 3


class _Pool(_Spatial):
    shown = ("pool_size", "strides", "padding")

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: str = "valid",
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        own = type(self).__name__
        self.pool_size = _per_axis(f"{own}: pool_size", pool_size, self.spatial)
        steps = self.pool_size if strides is None else strides
        self.strides = _per_axis(f"{own}: strides", steps, self.spatial)
        self.padding = padding


class _MaxPool(_Pool):
    def call(self, x: Tensor) -> Tensor:
        """The maximum of each window."""
        x = self.checked_input(x)
        return gt.max_pool(x, self.pool_size, strides=self.strides, padding=self.padding)


class _AvgPool(_Pool):
    def call(self, x: Tensor) -> Tensor:
        """The mean of each window."""
        x = self.checked_input(x)
        return gt.avg_pool(x, self.pool_size, strides=self.strides, padding=self.padding)


class MaxPool1D(_MaxPool):
    """The maximum of each window along one axis.

    >>> gt.nn.MaxPool1D(2)(np.arange(4.0).reshape(1, 4, 1)).tolist()
    [[[1.0], [3.0]]]
    """

    spatial = 1


class MaxPool2D(_MaxPool):
    """The maximum of each window of images (batch, height, width, channels).

    >>> gt.nn.MaxPool2D(2)(np.ones((8, 28, 28, 3))).shape
    (8, 14, 14, 3)
    """

    spatial = 2


class MaxPool3D(_MaxPool):
    """The maximum of each window along three axes.

    >>> gt.nn.MaxPool3D(2)(np.ones((1, 4, 4, 4, 2))).shape
    (1, 2, 2, 2, 2)
    """

    spatial = 3


class AvgPool1D(_AvgPool):
    """The mean of each window along one axis.

    >>> gt.nn.AvgPool1D(2)(np.arange(4.0).reshape(1, 4, 1)).tolist()
    [[[0.5], [2.5]]]
    """

    spatial = 1


class AvgPool2D(_AvgPool):
    """The mean of each window of images (batch, height, width, channels).

    >>> gt.nn.AvgPool2D(2)(np.ones((8, 28, 28, 3))).shape
    (8, 14, 14, 3)
    """

    spatial = 2


class AvgPool3D(_AvgPool):
    """The mean of each window along three axes.

    >>> gt.nn.AvgPool3D(2)(np.ones((1, 4, 4, 4, 2))).shape
    (1, 2, 2, 2, 2)
    """

    spatial = 3


class _Global(Layer):
    def _axes(self, x: Tensor) -> tuple[int, ...]:
        if x.ndim < 3:
            raise ShapeError(
                f"{self.name}: an input of shape {x.shape} has no spatial axis. Pass (batch, ..., "
                "channels)."
            )
        return tuple(range(1, x.ndim - 1))


class GlobalAvgPool(_Global):
    """The mean of each channel over all spatial axes.

    >>> gt.nn.GlobalAvgPool()(np.ones((8, 7, 7, 64))).shape
    (8, 64)
    """

    def call(self, x: Tensor) -> Tensor:
        """The means, of shape (batch, channels)."""
        return gt.mean(x, axis=self._axes(x))


class GlobalMaxPool(_Global):
    """The maximum of each channel over all spatial axes.

    >>> gt.nn.GlobalMaxPool()(np.ones((8, 7, 7, 64))).shape
    (8, 64)
    """

    def call(self, x: Tensor) -> Tensor:
        """The maxima, of shape (batch, channels)."""
        return gt.max(x, axis=self._axes(x))


class Flatten(Layer):
    """All axes but the first as one.

    >>> gt.nn.Flatten()(np.ones((8, 7, 7, 64))).shape
    (8, 3136)
    """

    def call(self, x: Tensor) -> Tensor:
        """The input of shape (batch, elements)."""
        if not x.ndim:
            raise ShapeError(f"{self.name}: a 0-d input has no batch axis. Reshape it to (1, 1).")
        return gt.reshape(x, (x.shape[0], math.prod(x.shape[1:])))


check_exports(globals(), __all__)
