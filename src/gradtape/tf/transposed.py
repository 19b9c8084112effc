"""Transposed convolutions: what the derivative of a convolution by its input computes."""

from __future__ import annotations

import math
from typing import Any

from gradtape.errors import ShapeError
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import flip, moveaxis, reshape
from gradtape.ops.arrays.padding import pad
from gradtape.ops.matrices.contraction import matmul
from gradtape.tf.conversion import as_shape, common, convert
from gradtape.tf.convolution import Windows, per_axis
from gradtape.tf.dispatch import operation
from gradtape.tf.tensor import Tensor

__all__ = ["conv1d_transpose", "conv2d_transpose", "conv3d_transpose", "conv_transpose"]


def _transposed(
    name: str, input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any, last: bool,
    dilations: Any, spatial: int,
) -> Any:  # fmt: skip
    x, kernel = common([input, filters], name)
    if x.ndim != spatial + 2 or kernel.ndim != spatial + 2:
        raise ShapeError(
            f"{name}: input of shape {x.shape} and filters of shape {kernel.shape}: both need "
            f"{spatial + 2} axes."
        )
    x = x if last else moveaxis(x, 1, -1)
    shape = as_shape(output_shape)
    if len(shape) == spatial + 2:
        shape = shape[1:-1] if last else shape[2:]
    *window, outside, inside = kernel.spec.shape
    if inside != x.spec.shape[-1]:
        raise ShapeError(
            f"{name}: filters for {inside} channels, and the input has {x.spec.shape[-1]}."
        )
    if not isinstance(padding, str) and len(padding) == spatial + 2:
        padding = padding[1:-1] if last else padding[2:]
    steps = per_axis(name, strides, spatial, last)
    gaps = per_axis(name, dilations, spatial, last)
    # The convolution whose transpose this is.
    forward = Windows(name, shape, window, steps, gaps, padding)
    if tuple(forward.counts) != x.spec.shape[1:-1]:
        raise ShapeError(
            f"{name}: an output of {tuple(shape)} comes from an input of {tuple(forward.counts)}, "
            f"not of {x.spec.shape[1:-1]}. Choose another output_shape."
        )
    widths = []
    for n, count, w, gap, step, (before, _) in zip(
        shape, forward.counts, window, gaps, steps, forward.padding, strict=True
    ):
        reach, length = (w - 1) * gap + 1, (count - 1) * step + 1
        first = reach - 1 - before
        widths.append((first, n - length - first + reach - 1))
    ones = (1,) * spatial
    backward = Windows(
        name, [(c - 1) * s + 1 for c, s in zip(forward.counts, steps, strict=True)], window, ones,
        gaps, widths,
    )  # fmt: skip
    rows = concat(backward.parts(_spread(x, steps), 0.0), axis=-1)
    turned = moveaxis(flip(kernel, axis=tuple(range(spatial))), -1, -2)
    matrix = reshape(turned, (math.prod(window) * inside, outside))
    flat = reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1]))
    result = reshape(matmul(flat, matrix), (x.spec.shape[0], *shape, outside))
    return result if last else moveaxis(result, -1, 1)


def _spread(x: Any, steps: Any) -> Any:
    """The elements with zeros between them, so that they are `steps` apart."""
    for axis, step in enumerate(steps, start=1):
        if step > 1:
            shape = x.spec.shape
            x = reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
            x = pad(x, [(0, step - 1 if at == axis + 1 else 0) for at in range(x.ndim)])
            x = reshape(x, (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
            x = x[(slice(None),) * axis + (slice(0, (shape[axis] - 1) * step + 1),)]
    return x


@operation
def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of conv1d: filters have shape (width, out, in).

    >>> x, filters = tf.ones([1, 2, 1]), tf.ones([2, 1, 1])
    >>> tf.nn.conv1d_transpose(x, filters, [1, 4, 1], 2).numpy().reshape(-1).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _transposed(
        "conv1d_transpose", input, filters, output_shape, strides, padding, data_format == "NWC",
        dilations, 1,
    )  # fmt: skip


@operation
def conv2d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of conv2d: filters have shape (height, width, out, in).

    >>> x, filters = tf.ones([1, 2, 2, 1]), tf.ones([2, 2, 1, 1])
    >>> tf.nn.conv2d_transpose(x, filters, [1, 4, 4, 1], 2).shape
    TensorShape([1, 4, 4, 1])
    """
    return _transposed(
        "conv2d_transpose", input, filters, output_shape, strides, padding, data_format == "NHWC",
        dilations, 2,
    )  # fmt: skip


@operation
def conv3d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of conv3d: filters have shape (depth, height, width, out, in).

    >>> x, filters = tf.ones([1, 1, 1, 1, 1]), tf.ones([2, 2, 2, 1, 1])
    >>> tf.nn.conv3d_transpose(x, filters, [1, 2, 2, 2, 1], 2).shape
    TensorShape([1, 2, 2, 2, 1])
    """
    return _transposed(
        "conv3d_transpose", input, filters, output_shape, strides, padding, data_format == "NDHWC",
        dilations, 3,
    )  # fmt: skip


@operation
def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The transpose of a convolution along as many axes as there are.

    >>> x, filters = tf.ones([1, 2, 1]), tf.ones([2, 1, 1])
    >>> tf.nn.conv_transpose(x, filters, [1, 4, 1], 2).shape
    TensorShape([1, 4, 1])
    """
    last = data_format is None or not data_format.startswith("NC")
    spatial = convert(input).ndim - 2
    return _transposed(
        "conv_transpose", input, filters, output_shape, strides, padding, last, dilations, spatial
    )
