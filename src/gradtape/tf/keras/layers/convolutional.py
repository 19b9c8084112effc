"""Convolution and pooling as layers."""

from __future__ import annotations

from typing import Any

from gradtape.ops import reduction
from gradtape.tf.conversion import convert
from gradtape.tf.convolution import avg_pool, convolution, max_pool
from gradtape.tf.keras import activations
from gradtape.tf.keras.layers.base import Layer


def _each(given: Any, count: int) -> tuple[int, ...]:
    return tuple(given) if hasattr(given, "__iter__") else (int(given),) * count


class _Convolution(Layer):
    """What convolutions along any number of axes share."""

    spatial = 1

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if groups != 1 or data_format not in (None, "channels_last"):
            raise ValueError(f"{self.name}: groups and channels_first are not covered.")
        self.filters, self.kernel_size = int(filters), _each(kernel_size, self.spatial)
        self.strides, self.dilation_rate = strides, dilation_rate
        self.padding = padding
        self.activation = activations.get(activation)
        self.use_bias = bool(use_bias)
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel: Any = None
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        """Make kernel and bias."""
        shape = (*self.kernel_size, input_shape[-1], self.filters)
        self.kernel = self.add_weight(shape, self.kernel_initializer, name="kernel")
        if self.use_bias:
            self.bias = self.add_weight((self.filters,), self.bias_initializer, name="bias")

    def call(self, inputs: Any) -> Any:
        """The convolution, with an offset and an activation."""
        y = convolution(
            inputs, self.kernel, self.strides, self.padding.upper(), dilations=self.dilation_rate
        )
        return self.activation(y if self.bias is None else y + convert(self.bias))


class Conv1D(_Convolution):
    """Convolution along one axis; channels are last.

    >>> tf.keras.layers.Conv1D(4, 3)(tf.zeros([2, 5, 1])).shape
    TensorShape([2, 3, 4])
    """


class Conv2D(_Convolution):
    """Convolution along two axes; channels are last.

    >>> tf.keras.layers.Conv2D(4, 3, padding="same")(tf.zeros([2, 5, 5, 1])).shape
    TensorShape([2, 5, 5, 4])
    """

    spatial = 2


class _Pooling(Layer):
    """What pooling layers share."""

    spatial = 1
    function: Any = staticmethod(max_pool)

    def __init__(
        self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.pool_size = _each(pool_size, self.spatial)
        self.strides = self.pool_size if strides is None else _each(strides, self.spatial)
        self.padding = padding

    def call(self, inputs: Any) -> Any:
        """One number for each window and channel."""
        return self.function(inputs, self.pool_size, self.strides, self.padding.upper())


class MaxPooling1D(_Pooling):
    """The largest of each window along one axis.

    >>> tf.keras.layers.MaxPooling1D()(tf.zeros([1, 4, 1])).shape
    TensorShape([1, 2, 1])
    """


class MaxPooling2D(_Pooling):
    """The largest of each window along two axes.

    >>> tf.keras.layers.MaxPooling2D()(tf.zeros([1, 4, 4, 1])).shape
    TensorShape([1, 2, 2, 1])
    """

    spatial = 2


class AveragePooling1D(_Pooling):
    """The mean of each window along one axis.

    >>> tf.keras.layers.AveragePooling1D()(tf.zeros([1, 4, 1])).shape
    TensorShape([1, 2, 1])
    """

    function = staticmethod(avg_pool)


class AveragePooling2D(_Pooling):
    """The mean of each window along two axes.

    >>> tf.keras.layers.AveragePooling2D()(tf.zeros([1, 4, 4, 1])).shape
    TensorShape([1, 2, 2, 1])
    """

    spatial = 2
    function = staticmethod(avg_pool)


class GlobalAveragePooling2D(Layer):
    """The mean of each channel.

    >>> tf.keras.layers.GlobalAveragePooling2D()(tf.ones([2, 4, 4, 3])).shape
    TensorShape([2, 3])
    """

    def call(self, inputs: Any) -> Any:
        """One number for each channel."""
        return reduction.mean(inputs, axis=(1, 2))
