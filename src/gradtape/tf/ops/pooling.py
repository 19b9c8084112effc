"""Pooling: the maximum or the mean of each window, channel by channel."""

from __future__ import annotations

import math
from collections.abc import Callable

from gradtape.errors import ShapeError
from gradtape.ops.arrays.creation import ones
from gradtape.ops.arrays.joining import stack
from gradtape.ops.arrays.movement import moveaxis
from gradtape.ops.reductions.reduction import max as largest
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.table import documented, named_in
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Name, TensorLike
from gradtape.tf.ops.windows import (
    Padding,
    PerAxis,
    Windows,
    channels_last,
    per_axis,
    spatial_padding,
)

__all__ = [
    "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool", "max_pool1d", "max_pool2d",
    "max_pool3d", "pool",
]  # fmt: skip


def _pooled(
    name: str, input: TensorLike, spatial: int | None, ksize: PerAxis, strides: PerAxis | None,
    padding: Padding, data_format: str | None, highest: bool, dilations: PerAxis | None = None,
) -> Tensor:  # fmt: skip
    x, last = convert(input), channels_last(data_format)
    ndim = x.ndim - 2 if spatial is None else spatial
    if x.ndim != ndim + 2:
        raise ShapeError(f"{name}: an input of shape {x.shape} does not have {ndim + 2} axes.")
    x = x if last else moveaxis(x, 1, -1)
    lengths = x.spec.shape[1:-1]
    windows = Windows(
        name, lengths, per_axis(name, ksize, ndim, last),
        per_axis(name, ksize if strides is None else strides, ndim, last),
        per_axis(name, dilations, ndim, last), spatial_padding(padding, ndim, last),
    )  # fmt: skip
    if highest:
        result = largest(stack(windows.parts(x, -math.inf)), axis=0)
    else:
        sums = total(stack(windows.parts(x, 0.0)), axis=0)
        # Padding does not count in the mean.
        present = ones((1, *lengths, 1), dtype=x.spec.dtype)
        result = sums / total(stack(windows.parts(convert(present), 0.0)), axis=0)
    return result if last else moveaxis(result, -1, 1)


@operation
def pool(
    input: TensorLike, window_shape: PerAxis, pooling_type: str, strides: PerAxis | None = None,
    padding: Padding = "VALID", data_format: str | None = None, dilations: PerAxis | None = None,
    name: Name = None,
) -> Tensor:  # fmt: skip
    """The maximum ("MAX") or the mean ("AVG") of each window, along all spatial axes.

    >>> x = tf.reshape(tf.range(4.0), [1, 4, 1])
    >>> tf.nn.pool(x, [2], "MAX").numpy().reshape(-1).tolist()
    [1.0, 2.0, 3.0]
    """
    if pooling_type not in ("MAX", "AVG"):
        raise InvalidValueError(f"pool: pooling_type {pooling_type!r} is neither 'MAX' nor 'AVG'.")
    steps = 1 if strides is None else strides
    highest = pooling_type == "MAX"
    return _pooled(
        "pool", input, None, window_shape, steps, padding, data_format, highest, dilations
    )


# The default of data_format, by the number of spatial axes.
_FORMATS = {None: None, 1: "NWC", 2: "NHWC", 3: "NDHWC"}


def _pool(highest: bool, spatial: int | None, example: str, result: str) -> Callable[..., Tensor]:
    """A row for pooling along some number of spatial axes, or (None) along all there are."""
    own = named_in(example)

    def pool(
        input: TensorLike, ksize: PerAxis, strides: PerAxis, padding: Padding,
        data_format: str | None = _FORMATS[spatial], name: Name = None,
    ) -> Tensor:  # fmt: skip
        return _pooled(own, input, spatial, ksize, strides, padding, data_format, highest)

    sentence = f"The {'maximum' if highest else 'mean'} of each window, channel by channel."
    shown = f"{example}.numpy().reshape(-1).tolist()"
    return operation(documented(pool, __name__, sentence, shown, result))


_LINE = "(tf.reshape(tf.range(4.0), [1, 4, 1]), 2, 2, 'VALID')"
_PLANE = "(tf.reshape(tf.range(4.0), [1, 2, 2, 1]), 2, 2, 'VALID')"
_SPACE = "(tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1]), 2, 2, 'VALID')"

max_pool = _pool(True, None, f"tf.nn.max_pool{_LINE}", "[1.0, 3.0]")
max_pool1d = _pool(True, 1, f"tf.nn.max_pool1d{_LINE}", "[1.0, 3.0]")
max_pool2d = _pool(True, 2, f"tf.nn.max_pool2d{_PLANE}", "[3.0]")
max_pool3d = _pool(True, 3, f"tf.nn.max_pool3d{_SPACE}", "[7.0]")
avg_pool = _pool(False, None, f"tf.nn.avg_pool{_LINE}", "[0.5, 2.5]")
avg_pool1d = _pool(False, 1, f"tf.nn.avg_pool1d{_LINE}", "[0.5, 2.5]")
avg_pool2d = _pool(False, 2, f"tf.nn.avg_pool2d{_PLANE}", "[1.5]")
avg_pool3d = _pool(False, 3, f"tf.nn.avg_pool3d{_SPACE}", "[3.5]")
