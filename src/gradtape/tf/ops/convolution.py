"""Convolutions, also transposed and by channel, with the padding and layouts of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable

import gradtape as gt
from gradtape.errors import ShapeError
from gradtape.libraries import check_exports, shown
from gradtape.ops.families.convolution_phases import Steps
from gradtape.ops.matrices.windows import Windows, convolved
from gradtape.tf.base.conversion import as_shape, common, convert
from gradtape.tf.base.dispatch import documented, named_in, operation
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Name, ShapeLike, TensorLike
from gradtape.tf.ops.windows import (
    Padding,
    PerAxis,
    channels_last,
    per_axis,
    spatial_padding,
)
from gradtape.typing import Size

__all__ = [
    "atrous_conv2d",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "conv_transpose",
    "convolution",
    "depthwise_conv2d",
    "separable_conv2d",
]


def _operands(
    name: str,
    input: TensorLike,
    filters: TensorLike,
    spatial: int,
    last: bool,
    inside: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Input, with channels last, and filters, whose axis `inside` has the input's channels."""
    x, kernel = common([input, filters], name)
    if x.ndim != spatial + 2 or kernel.ndim != spatial + 2:
        raise ShapeError(
            f"{name}: input of shape {x.shape} and filters of shape {kernel.shape}: both need "
            f"{spatial + 2} axes."
        )
    x = x if last else gt.moveaxis(x, 1, -1)
    channels = x.spec.shape[-1]
    expected = channels if inside is None else kernel.spec.shape[inside]
    if expected != channels:
        raise ShapeError(f"{name}: filters for {expected} channels, and the input has {channels}.")
    return x, kernel


def _convolved(
    name: str,
    input: TensorLike,
    filters: TensorLike,
    strides: PerAxis | None,
    padding: Padding,
    last: bool,
    dilations: PerAxis | None,
    spatial: int,
) -> Tensor:
    x, kernel = _operands(name, input, filters, spatial, last)
    channels, (inside, outside) = x.spec.shape[-1], kernel.spec.shape[-2:]
    groups = channels // inside if inside else 1
    if groups * inside != channels or (groups and outside % groups):
        raise ShapeError(
            f"{name}: filters for {inside} channels with {outside} results, and the input has "
            f"{channels} channels. Make that a multiple of {inside}, and the results a multiple "
            "of the number of groups."
        )
    windows = Windows(
        name,
        x.spec.shape[1:-1],
        kernel.spec.shape[:-2],
        per_axis(name, strides, spatial, last),
        per_axis(name, dilations, spatial, last),
        spatial_padding(name, padding, spatial, last),
    )
    result = convert(convolved(x, kernel, groups, windows.steps()))
    return result if last else gt.moveaxis(result, -1, 1)


@operation
def conv1d(
    input: TensorLike,
    filters: TensorLike,
    stride: PerAxis,
    padding: Padding,
    data_format: str = "NWC",
    dilations: PerAxis | None = None,
    name: Name = None,
) -> Tensor:
    """Convolution along one axis: input (batch, length, channels), filters (width, in, out).

    >>> x = tf.reshape([1.0, 2.0, 3.0], [1, 3, 1])
    >>> tf.nn.conv1d(x, tf.ones([2, 1, 1]), 1, "VALID").numpy().reshape(-1).tolist()
    [3.0, 5.0]
    """
    last = channels_last(data_format)
    return _convolved("conv1d", input, filters, stride, padding, last, dilations, 1)


def _convolution(
    spatial: int, layout: str, sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a convolution along some number of axes."""
    own = named_in(example)

    def conv(
        input: TensorLike,
        filters: TensorLike,
        strides: PerAxis,
        padding: Padding,
        data_format: str = layout,
        dilations: PerAxis | None = None,
        name: Name = None,
    ) -> Tensor:
        last = channels_last(data_format)
        return _convolved(own, input, filters, strides, padding, last, dilations, spatial)

    return operation(documented(conv, __name__, sentence, example, result))


conv2d = _convolution(
    2,
    "NHWC",
    "Convolution along two axes: filters of shape (height, width, in, out).",
    "tf.nn.conv2d(tf.ones([1, 3, 3, 1]), tf.ones([2, 2, 1, 1]), 1, 'VALID').numpy()[0, 0, :, 0]",
    "array([4., 4.], dtype=float32)",
)
conv3d = _convolution(
    3,
    "NDHWC",
    "Convolution along three axes: filters of shape (depth, height, width, in, out).",
    "tf.nn.conv3d(tf.ones([1, 2, 2, 2, 1]), tf.ones([2, 2, 2, 1, 1]), 1, 'VALID').numpy().item()",
    "8.0",
)


@operation
def atrous_conv2d(
    value: TensorLike, filters: TensorLike, rate: Size, padding: Padding, name: Name = None
) -> Tensor:
    """conv2d with dilated filters: they read elements that are `rate` apart.

    >>> tf.nn.atrous_conv2d(tf.ones([1, 3, 3, 1]), tf.ones([2, 2, 1, 1]), 2, "VALID").shape
    TensorShape([1, 1, 1, 1])
    """
    return _convolved("atrous_conv2d", value, filters, 1, padding, True, rate, 2)


@operation
def convolution(
    input: TensorLike,
    filters: TensorLike,
    strides: PerAxis | None = None,
    padding: Padding = "VALID",
    data_format: str | None = None,
    dilations: PerAxis | None = None,
    name: Name = None,
) -> Tensor:
    """Convolution along all spatial axes.

    >>> tf.nn.convolution(tf.ones([1, 3, 1]), tf.ones([2, 1, 1])).shape
    TensorShape([1, 2, 1])
    """
    spatial, last = convert(input).ndim - 2, channels_last(data_format)
    return _convolved("convolution", input, filters, strides, padding, last, dilations, spatial)


def _transposed(
    name: str,
    input: TensorLike,
    filters: TensorLike,
    output_shape: ShapeLike,
    strides: PerAxis,
    padding: Padding,
    last: bool,
    dilations: PerAxis | None,
    spatial: int,
) -> Tensor:
    """The derivative of a convolution by its input: windows over an input that is spread out."""
    x, kernel = _operands(name, input, filters, spatial, last, -1)
    shape = as_shape(output_shape)
    if len(shape) == spatial + 2:
        shape = shape[1:-1] if last else shape[2:]
    if len(shape) != spatial:
        raise ShapeError(
            f"{name}: output_shape={shown(output_shape)} has no length for each of {spatial} "
            "spatial axes. Pass one for each."
        )
    window = kernel.spec.shape[:-2]
    steps = per_axis(name, strides, spatial, last)
    gaps = per_axis(name, dilations, spatial, last)
    # The convolution whose transpose this is.
    forward = Windows(
        name, shape, window, steps, gaps, spatial_padding(name, padding, spatial, last)
    )
    if tuple(forward.counts) != x.spec.shape[1:-1]:
        raise ShapeError(
            f"{name}: an output of {tuple(shape)} comes from an input of {tuple(forward.counts)}, "
            f"not of {x.spec.shape[1:-1]}. Choose another output_shape."
        )
    spreads, around = tuple(forward.strides), []
    for n, count, w, gap, spread, (before, _) in zip(
        shape, forward.counts, window, gaps, spreads, forward.padding, strict=True
    ):
        around.append(((w - 1) * gap - before, n - 1 - (count - 1) * spread + before))
    flipped = gt.moveaxis(gt.flip(kernel, axis=tuple(range(spatial))), -1, -2)
    transposed = Steps((1,) * spatial, gaps, spreads, tuple(around))
    result = convert(convolved(x, flipped, 1, transposed))
    return result if last else gt.moveaxis(result, -1, 1)


def _transpose(
    spatial: int | None, layout: str | None, sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a transposed convolution along some number of axes, or (None) all there are."""
    own = named_in(example)

    def conv_transpose(
        input: TensorLike,
        filters: TensorLike,
        output_shape: ShapeLike,
        strides: PerAxis,
        padding: Padding = "SAME",
        data_format: str | None = layout,
        dilations: PerAxis | None = None,
        name: Name = None,
    ) -> Tensor:
        axes = convert(input).ndim - 2 if spatial is None else spatial
        last = channels_last(data_format)
        return _transposed(
            own, input, filters, output_shape, strides, padding, last, dilations, axes
        )

    return operation(documented(conv_transpose, __name__, sentence, example, result))


conv1d_transpose = _transpose(
    1,
    "NWC",
    "The transpose of conv1d: filters have shape (width, out, in).",
    "tf.nn.conv1d_transpose(tf.ones([1, 2, 1]), tf.ones([2, 1, 1]), [1, 4, 1], 2).numpy()[0, :, 0]",
    "array([1., 1., 1., 1.], dtype=float32)",
)
conv2d_transpose = _transpose(
    2,
    "NHWC",
    "The transpose of conv2d: filters have shape (height, width, out, in).",
    "tf.nn.conv2d_transpose(tf.ones([1, 2, 2, 1]), tf.ones([2, 2, 1, 1]), [4, 4], 2).shape",
    "TensorShape([1, 4, 4, 1])",
)
conv3d_transpose = _transpose(
    3,
    "NDHWC",
    "The transpose of conv3d: filters have shape (depth, height, width, out, in).",
    "tf.nn.conv3d_transpose(tf.ones([1] * 5), tf.ones([2, 2, 2, 1, 1]), [2, 2, 2], 2).shape",
    "TensorShape([1, 2, 2, 2, 1])",
)
conv_transpose = _transpose(
    None,
    None,
    "The transpose of a convolution along all spatial axes.",
    "tf.nn.conv_transpose(tf.ones([1, 2, 1]), tf.ones([2, 1, 1]), [1, 4, 1], 2).shape",
    "TensorShape([1, 4, 1])",
)


@operation
def depthwise_conv2d(
    input: TensorLike,
    filter: TensorLike,
    strides: PerAxis,
    padding: Padding,
    data_format: str | None = None,
    dilations: PerAxis | None = None,
    name: Name = None,
) -> Tensor:
    """Each channel convolved with its own filters, of shape (height, width, channels, multiplier).

    >>> x = tf.ones([1, 2, 2, 3])
    >>> tf.nn.depthwise_conv2d(x, tf.ones([2, 2, 3, 1]), [1, 1, 1, 1], "VALID").numpy().tolist()
    [[[[4.0, 4.0, 4.0]]]]
    """
    own, last = "depthwise_conv2d", channels_last(data_format)
    x, kernel = _operands(own, input, filter, 2, last, -2)
    _, *lengths, channels = x.spec.shape
    *window, _, multiplier = kernel.spec.shape
    windows = Windows(
        own,
        lengths,
        window,
        per_axis(own, strides, 2, last),
        per_axis(own, dilations, 2, last),
        spatial_padding(own, padding, 2, last),
    )
    # Each channel is a group.
    taps = gt.reshape(kernel, (*window, 1, channels * multiplier))
    result = convert(convolved(x, taps, channels, windows.steps()))
    return result if last else gt.moveaxis(result, -1, 1)


@operation
def separable_conv2d(
    input: TensorLike,
    depthwise_filter: TensorLike,
    pointwise_filter: TensorLike,
    strides: PerAxis,
    padding: Padding,
    data_format: str | None = None,
    dilations: PerAxis | None = None,
    name: Name = None,
) -> Tensor:
    """Each channel convolved on its own, and then all channels mixed element by element.

    >>> deep, point = tf.ones([2, 2, 3, 1]), tf.ones([1, 1, 3, 1])
    >>> tf.nn.separable_conv2d(
    ...     tf.ones([1, 2, 2, 3]), deep, point, [1, 1, 1, 1], "VALID"
    ... ).numpy().tolist()
    [[[[12.0]]]]
    """
    between = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(between, pointwise_filter, 1, "VALID", data_format or "NHWC")


check_exports(globals(), __all__)
