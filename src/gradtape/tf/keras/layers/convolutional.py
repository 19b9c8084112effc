"""Convolution and pooling as layers; channels are last."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape.errors import ShapeError
from gradtape.libraries import as_count, check_exports
from gradtape.ops.reductions import reduction
from gradtape.tf.base.casting import cast
from gradtape.tf.base.conversion import convert
from gradtape.tf.keras import activations
from gradtape.tf.keras.layers.base import Layer, require_channels_last
from gradtape.tf.ops.arrays import pad, repeat
from gradtape.tf.ops.convolution import conv_transpose, convolution, depthwise_conv2d
from gradtape.tf.ops.windows import avg_pool, max_pool
from gradtape.typing import Size, Sizes

if TYPE_CHECKING:
    from gradtape.tf.base.tensor import Tensor
    from gradtape.tf.keras.types import (
        ActivationLike,
        ConstraintLike,
        InitializerLike,
        RegularizerLike,
    )

__all__ = [
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Convolution1D",
    "Convolution2D",
    "Convolution3D",
    "DepthwiseConv2D",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "UpSampling2D",
]


def each(given: Any, count: int) -> tuple[int, ...]:
    """One number for each axis."""
    return tuple(given) if hasattr(given, "__iter__") else (int(given),) * count


class _Convolution(Layer):
    """What convolutions along any number of axes share."""

    spatial = 1

    def __init__(
        self,
        filters: Size,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        groups: Size = 1,
        activation: ActivationLike = None,
        use_bias: bool = True,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        activity_regularizer: RegularizerLike = None,
        kernel_constraint: ConstraintLike = None,
        bias_constraint: ConstraintLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        require_channels_last(type(self).__name__, data_format)
        if groups != 1:
            raise ValueError(
                f"{type(self).__name__}: groups={groups} is not covered. Use one layer for each "
                "group, and Concatenate."
            )
        allowed = ("valid", "same", *(("causal",) if self.spatial == 1 else ()))
        if padding.lower() not in allowed:
            raise ValueError(
                f"{type(self).__name__}: padding={padding!r} is unknown. Use one of {allowed}."
            )
        self.filters = as_count(f"{type(self).__name__}: filters", filters, least=1)
        self.kernel_size = each(kernel_size, self.spatial)
        self.strides = each(strides, self.spatial)
        self.dilation_rate = each(dilation_rate, self.spatial)
        self.padding = padding.lower()
        self.activation = activations.get(activation)
        self.use_bias = bool(use_bias)
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.kernel: Any = None
        self.bias: Any = None

    def kernel_shape(self, channels: int) -> tuple[int, ...]:
        """The shape of the kernel for inputs of so many channels."""
        return (*self.kernel_size, channels, self.filters)

    def build(self, input_shape: Any) -> None:
        if len(input_shape) != self.spatial + 2:
            raise ShapeError(
                f"{self.name}: an input of shape {tuple(input_shape)} does not have "
                f"{self.spatial + 2} axes: examples, {self.spatial} in space, channels."
            )
        self.kernel = self._add_named("kernel", self.kernel_shape(input_shape[-1]))
        if self.use_bias:
            self.bias = self._add_named("bias", (self._outputs(input_shape[-1]),))

    def _outputs(self, channels: int) -> int:
        return self.filters

    def convolve(self, inputs: Tensor) -> Tensor:
        """The convolution without bias and activation."""
        padding = self.padding.upper()
        if padding == "CAUSAL":
            before = (self.kernel_size[0] - 1) * self.dilation_rate[0]
            inputs, padding = pad(inputs, [[0, 0], [before, 0], [0, 0]]), "VALID"
        return convolution(inputs, self.kernel, self.strides, padding, dilations=self.dilation_rate)

    def call(self, inputs: Tensor) -> Tensor:
        y = self.convolve(inputs)
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


class Conv3D(_Convolution):
    """Convolution along three axes; channels are last.

    >>> tf.keras.layers.Conv3D(4, 3, padding="same")(tf.zeros([2, 5, 5, 5, 1])).shape
    TensorShape([2, 5, 5, 5, 4])
    """

    spatial = 3


Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D


class _Transposed(_Convolution):
    """What transposed convolutions share."""

    def __init__(
        self,
        filters: Size,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        **kwargs: Any,
    ) -> None:
        if output_padding is not None or any(n != 1 for n in each(dilation_rate, 1)):
            raise ValueError(
                f"{type(self).__name__}: output_padding and dilation_rate are not covered. Use "
                "padding, or tf.nn.conv_transpose."
            )
        super().__init__(filters, kernel_size, strides, padding, data_format, **kwargs)

    def kernel_shape(self, channels: int) -> tuple[int, ...]:
        """The shape of the kernel for inputs of so many channels."""
        return (*self.kernel_size, self.filters, channels)

    def convolve(self, inputs: Tensor) -> Tensor:
        """The transposed convolution without bias and activation."""
        batch, *lengths, _ = inputs.shape
        grown = [
            n * step if self.padding == "same" else n * step + max(window - step, 0)
            for n, step, window in zip(lengths, self.strides, self.kernel_size, strict=True)
        ]
        return conv_transpose(
            inputs, self.kernel, [batch, *grown, self.filters], self.strides, self.padding.upper()
        )


class Conv1DTranspose(_Transposed):
    """The transpose of a convolution along one axis: it makes sequences longer.

    >>> tf.keras.layers.Conv1DTranspose(4, 3, strides=2, padding="same")(tf.zeros([2, 5, 1])).shape
    TensorShape([2, 10, 4])
    """


class Conv2DTranspose(_Transposed):
    """The transpose of a convolution along two axes: it makes images larger.

    >>> layer = tf.keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same")
    >>> layer(tf.zeros([2, 5, 5, 1])).shape
    TensorShape([2, 10, 10, 4])
    """

    spatial = 2


class DepthwiseConv2D(_Convolution):
    """Convolution along two axes, each channel by itself.

    >>> tf.keras.layers.DepthwiseConv2D(3, padding="same")(tf.zeros([2, 5, 5, 4])).shape
    TensorShape([2, 5, 5, 4])
    """

    spatial = 2

    def __init__(
        self,
        kernel_size: Sizes,
        strides: Sizes = 1,
        padding: str = "valid",
        depth_multiplier: Size = 1,
        data_format: str | None = None,
        dilation_rate: Sizes = 1,
        activation: ActivationLike = None,
        use_bias: bool = True,
        depthwise_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        depthwise_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        activity_regularizer: RegularizerLike = None,
        depthwise_constraint: ConstraintLike = None,
        bias_constraint: ConstraintLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            depth_multiplier,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            1,
            activation,
            use_bias,
            depthwise_initializer,
            bias_initializer,
            depthwise_regularizer,
            bias_regularizer,
            activity_regularizer,
            depthwise_constraint,
            bias_constraint,
            **kwargs,
        )
        self.depth_multiplier = as_count(
            "DepthwiseConv2D: depth_multiplier", depth_multiplier, least=1
        )

    def _outputs(self, channels: int) -> int:
        return channels * self.filters

    def convolve(self, inputs: Tensor) -> Tensor:
        """The convolution of each channel by itself."""
        return depthwise_conv2d(
            inputs,
            self.kernel,
            (1, *self.strides, 1),
            self.padding.upper(),
            dilations=self.dilation_rate,
        )


class UpSampling2D(Layer):
    """Each pixel several times, in both directions.

    >>> tf.keras.layers.UpSampling2D()(tf.zeros([2, 5, 5, 4])).shape
    TensorShape([2, 10, 10, 4])
    """

    def __init__(
        self,
        size: Sizes = (2, 2),
        data_format: str | None = None,
        interpolation: str = "nearest",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_channels_last("UpSampling2D", data_format)
        if interpolation != "nearest":
            raise ValueError(
                f"UpSampling2D: interpolation={interpolation!r} is not covered. Use 'nearest'."
            )
        self.size = each(size, 2)

    def call(self, inputs: Tensor) -> Tensor:
        return repeat(repeat(inputs, self.size[0], axis=1), self.size[1], axis=2)


_AXES = {1: "one axis", 2: "two axes", 3: "three axes"}


class _Pooling(Layer):
    """What pooling layers share."""

    spatial = 1
    function: Any = staticmethod(max_pool)

    def __init__(
        self,
        pool_size: Sizes = 2,
        strides: Sizes | None = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_channels_last(type(self).__name__, data_format)
        if padding.lower() not in ("valid", "same"):
            raise ValueError(f"{self.name}: padding={padding!r} is unknown. Use 'valid' or 'same'.")
        self.pool_size = each(pool_size, self.spatial)
        self.strides = self.pool_size if strides is None else each(strides, self.spatial)
        self.padding = padding.lower()

    def call(self, inputs: Tensor) -> Tensor:
        return self.function(inputs, self.pool_size, self.strides, self.padding.upper())


class _Global(Layer):
    """What layers share that leave one number of each channel."""

    spatial = 1
    function: Any = None

    def __init__(
        self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        require_channels_last(type(self).__name__, data_format)
        self.keepdims = bool(keepdims)

    def call(self, inputs: Tensor) -> Tensor:
        axes = tuple(range(1, self.spatial + 1))
        return self.function(inputs, axis=axes, keepdims=self.keepdims)


def _masked_call(self: Any, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
    """The mean of the steps that count."""
    if mask is None:
        return _Global.call(self, inputs)
    shares = cast(mask, inputs.dtype)[..., None]
    sums = reduction.sum(inputs * shares, axis=1, keepdims=self.keepdims)
    return sums / reduction.sum(shares, axis=1, keepdims=self.keepdims)


def _no_mask(self: Any, inputs: Tensor, mask: Tensor | None = None) -> None:
    """No mask: the result has no steps."""


def _made(
    name: str, base: type[Layer], spatial: int, function: Callable[..., Tensor], doc: str
) -> Any:
    shape = [1, *[4] * spatial, 3]
    result = [1, 3] if base is _Global else [1, *[2] * spatial, 3]
    example = f">>> tf.keras.layers.{name}()(tf.zeros({shape})).shape\n    TensorShape({result})"
    members = {
        "spatial": spatial,
        "function": staticmethod(function),
        "__module__": __name__,
        "__doc__": f"{doc} along {_AXES[spatial]}.\n\n    {example}\n    ",
    }
    if name == "GlobalAveragePooling1D":
        members |= {
            "call": _masked_call,
            "supports_masking": True,
            "compute_mask": _no_mask,
        }
    return type(name, (base,), members)


_OF_WINDOWS = ((max_pool, "Max", "largest"), (avg_pool, "Average", "mean"))
_OF_ALL = ((reduction.max, "Max", "largest"), (reduction.mean, "Average", "mean"))
MaxPooling1D, MaxPooling2D, MaxPooling3D, AveragePooling1D, AveragePooling2D, AveragePooling3D = (
    _made(f"{word}Pooling{n}D", _Pooling, n, function, f"The {what} of each window")
    for function, word, what in _OF_WINDOWS
    for n in (1, 2, 3)
)
GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalAveragePooling1D, GlobalAveragePooling2D = (
    _made(f"Global{word}Pooling{n}D", _Global, n, function, f"The {what} of each channel")
    for function, word, what in _OF_ALL
    for n in (1, 2)
)

# Keras' other names.
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
GlobalAvgPool1D, GlobalAvgPool2D = GlobalAveragePooling1D, GlobalAveragePooling2D
GlobalMaxPool1D, GlobalMaxPool2D = GlobalMaxPooling1D, GlobalMaxPooling2D


check_exports(globals(), __all__)
