"""Convolutions in which each channel has filters of its own."""

from __future__ import annotations

import math
from typing import Any

from gradtape.errors import ShapeError
from gradtape.ops.arrays.joining import stack
from gradtape.ops.arrays.movement import moveaxis, reshape
from gradtape.ops.matrices.contraction import matmul
from gradtape.tf.conversion import common
from gradtape.tf.convolution import Windows, conv2d, per_axis
from gradtape.tf.dispatch import operation
from gradtape.tf.tensor import Tensor

__all__ = ["depthwise_conv2d", "separable_conv2d"]


@operation
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Each channel convolved with its own filters, of shape (height, width, channels, multiplier).

    >>> x = tf.ones([1, 2, 2, 3])
    >>> tf.nn.depthwise_conv2d(x, tf.ones([2, 2, 3, 1]), [1, 1, 1, 1], "VALID").numpy().tolist()
    [[[[4.0, 4.0, 4.0]]]]
    """
    x, kernel = common([input, filter], "depthwise_conv2d")
    last = data_format in (None, "NHWC")
    if x.ndim != 4 or kernel.ndim != 4:
        raise ShapeError(
            f"depthwise_conv2d: input of shape {x.shape} and filters of shape {kernel.shape}: "
            "both need 4 axes."
        )
    x = x if last else moveaxis(x, 1, -1)
    batch, *lengths, channels = x.spec.shape
    *window, inside, multiplier = kernel.spec.shape
    if inside != channels:
        raise ShapeError(
            f"depthwise_conv2d: filters for {inside} channels, and the input has {channels}."
        )
    if not isinstance(padding, str) and len(padding) == 4:
        padding = padding[1:-1] if last else padding[2:]
    windows = Windows(
        "depthwise_conv2d", lengths, window, per_axis("depthwise_conv2d", strides, 2, last),
        per_axis("depthwise_conv2d", dilations, 2, last), padding,
    )  # fmt: skip
    # For each channel a matrix: all windows by all places in the window.
    rows = stack(windows.parts(x, 0.0), axis=-1)
    places, positions = math.prod(window), batch * math.prod(windows.counts)
    by_channel = moveaxis(reshape(rows, (positions, channels, places)), 1, 0)
    filters = moveaxis(reshape(kernel, (places, channels, multiplier)), 1, 0)
    found = moveaxis(matmul(by_channel, filters), 0, 1)
    result = reshape(found, (batch, *windows.counts, channels * multiplier))
    return result if last else moveaxis(result, -1, 1)


@operation
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Each channel convolved on its own, and then all channels mixed place by place.

    >>> deep, point = tf.ones([2, 2, 3, 1]), tf.ones([1, 1, 3, 1])
    >>> tf.nn.separable_conv2d(
    ...     tf.ones([1, 2, 2, 3]), deep, point, [1, 1, 1, 1], "VALID"
    ... ).numpy().tolist()
    [[[[12.0]]]]
    """
    between = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return conv2d(between, pointwise_filter, 1, "VALID", data_format or "NHWC")
