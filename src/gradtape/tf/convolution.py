"""Convolution and pooling: windows are laid side by side, and multiplied as one matrix."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from gradtape.errors import ShapeError
from gradtape.ops.arrays.creation import ones
from gradtape.ops.arrays.joining import concat, stack
from gradtape.ops.arrays.movement import moveaxis, reshape
from gradtape.ops.arrays.padding import pad
from gradtape.ops.matrices.contraction import matmul
from gradtape.ops.reductions.reduction import max as largest
from gradtape.ops.reductions.reduction import sum as total
from gradtape.tf.conversion import common, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.errors import InvalidValueError
from gradtape.tf.tensor import Tensor

__all__ = [
    "atrous_conv2d", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "conv1d", "conv2d",
    "conv3d", "convolution", "max_pool", "max_pool1d", "max_pool2d", "max_pool3d", "pool",
]  # fmt: skip


def per_axis(name: str, given: Any, ndim: int, last: bool) -> tuple[int, ...]:
    """One number for each spatial axis, from one, one for each, or with batch and channels."""
    if given is None:
        return (1,) * ndim
    items = [int(n) for n in given] if hasattr(given, "__iter__") else [int(given)] * ndim
    if len(items) == 1:
        items = items * ndim
    if len(items) == ndim + 2:
        ends = (items[0], items[-1]) if last else (items[0], items[1])
        if ends != (1, 1):
            raise ValueError(f"{name}: {items} moves along batch or channels. Use 1 there.")
        items = items[1:-1] if last else items[2:]
    if len(items) != ndim:
        raise ShapeError(f"{name}: {given} has no entry for each of {ndim} spatial axes.")
    return tuple(items)


class Windows:
    """Where windows lie: how much is padded, and how many there are along each axis."""

    def __init__(
        self,
        name: str,
        lengths: Sequence[int],
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        padding: Any,
    ) -> None:
        self.window, self.strides, self.dilations = window, strides, dilations
        reach = [(w - 1) * d + 1 for w, d in zip(window, dilations, strict=True)]
        if isinstance(padding, str):
            kind = padding.upper()
            if kind not in ("SAME", "VALID"):
                raise InvalidValueError(
                    f"{name}: padding {padding!r}: use 'SAME', 'VALID' or pairs."
                )
            self.padding = [
                _same(n, r, s) if kind == "SAME" else (0, 0)
                for n, r, s in zip(lengths, reach, strides, strict=True)
            ]
        else:
            self.padding = [(int(before), int(after)) for before, after in padding]
        self.counts = [
            (n + sum(pair) - r) // s + 1
            for n, pair, r, s in zip(lengths, self.padding, reach, strides, strict=True)
        ]
        if min(self.counts) < 1:
            raise ShapeError(
                f"{name}: windows of {tuple(window)} do not fit into {tuple(lengths)}. Pad it."
            )

    def parts(self, x: Any, filler: float) -> list[Any]:
        """For each place in the window what all windows have there; channels are last."""
        widths = [(0, 0), *self.padding, (0, 0)]
        x = pad(x, widths, constant_values=filler) if any(map(any, self.padding)) else x
        return [
            x[(slice(None), *self._slices(place), slice(None))]
            for place in itertools.product(*map(range, self.window))
        ]

    def _slices(self, place: tuple[int, ...]) -> list[slice]:
        found = []
        for at, dilation, stride, count in zip(
            place, self.dilations, self.strides, self.counts, strict=True
        ):
            start = at * dilation
            found.append(slice(start, start + (count - 1) * stride + 1, stride))
        return found


def _same(length: int, reach: int, stride: int) -> tuple[int, int]:
    missing = max((math.ceil(length / stride) - 1) * stride + reach - length, 0)
    return missing // 2, missing - missing // 2


def _convolved(
    name: str, input: Any, filters: Any, strides: Any, padding: Any, channels_last: bool,
    dilations: Any, spatial: int,
) -> Any:  # fmt: skip
    x, kernel = common([input, filters], name)
    if x.ndim != spatial + 2 or kernel.ndim != spatial + 2:
        raise ShapeError(
            f"{name}: input of shape {x.shape} and filters of shape {kernel.shape}: both need "
            f"{spatial + 2} axes."
        )
    if not channels_last:
        x = moveaxis(x, 1, -1)
    lengths, channels = x.spec.shape[1:-1], x.spec.shape[-1]
    *window, inside, outside = kernel.spec.shape
    if inside != channels:
        raise ShapeError(f"{name}: filters for {inside} channels, and the input has {channels}.")
    if not isinstance(padding, str) and len(padding) == spatial + 2:
        padding = padding[1:-1] if channels_last else padding[2:]
    windows = Windows(
        name, lengths, window, per_axis(name, strides, spatial, channels_last),
        per_axis(name, dilations, spatial, channels_last), padding,
    )  # fmt: skip
    rows = concat(windows.parts(x, 0.0), axis=-1)
    matrix = reshape(kernel, (math.prod(window) * inside, outside))
    flat = reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1]))
    result = reshape(matmul(flat, matrix), (x.spec.shape[0], *windows.counts, outside))
    return result if channels_last else moveaxis(result, -1, 1)


@operation
def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution along one axis: input (batch, length, channels), filters (width, in, out).

    >>> x = tf.reshape([1.0, 2.0, 3.0], [1, 3, 1])
    >>> tf.nn.conv1d(x, tf.ones([2, 1, 1]), 1, "VALID").numpy().reshape(-1).tolist()
    [3.0, 5.0]
    """
    return _convolved("conv1d", input, filters, stride, padding, data_format == "NWC", dilations, 1)


@operation
def conv2d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution along two axes: input (batch, height, width, channels), filters (h, w, in, out).

    >>> x = tf.ones([1, 3, 3, 1])
    >>> tf.nn.conv2d(x, tf.ones([2, 2, 1, 1]), 1, "VALID").numpy().reshape(-1).tolist()
    [4.0, 4.0, 4.0, 4.0]
    """
    return _convolved(
        "conv2d", input, filters, strides, padding, data_format == "NHWC", dilations, 2
    )


@operation
def conv3d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution along three axes: filters of shape (depth, height, width, in, out).

    >>> x = tf.ones([1, 2, 2, 2, 1])
    >>> tf.nn.conv3d(x, tf.ones([2, 2, 2, 1, 1]), [1] * 5, "VALID").numpy().reshape(-1).tolist()
    [8.0]
    """
    return _convolved(
        "conv3d", input, filters, strides, padding, data_format == "NDHWC", dilations, 3
    )


@operation
def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: Any, name: str | None = None
) -> Tensor:
    """conv2d whose filters have holes: `rate` is the distance of what they read.

    >>> tf.nn.atrous_conv2d(tf.ones([1, 3, 3, 1]), tf.ones([2, 2, 1, 1]), 2, "VALID").shape
    TensorShape([1, 1, 1, 1])
    """
    return _convolved("atrous_conv2d", value, filters, 1, padding, True, rate, 2)


@operation
def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolution along as many axes as there are.

    >>> tf.nn.convolution(tf.ones([1, 3, 1]), tf.ones([2, 1, 1])).shape
    TensorShape([1, 2, 1])
    """
    last = data_format is None or not data_format.startswith("NC")
    spatial = convert(input).ndim - 2
    return _convolved("convolution", input, filters, strides, padding, last, dilations, spatial)


def _pooled(
    name: str, input: Any, ksize: Any, strides: Any, padding: Any, last: bool, spatial: int,
    highest: bool, dilations: Any = None,
) -> Any:  # fmt: skip
    x = convert(input)
    if x.ndim != spatial + 2:
        raise ShapeError(f"{name}: an input of shape {x.shape} does not have {spatial + 2} axes.")
    if not last:
        x = moveaxis(x, 1, -1)
    lengths = x.spec.shape[1:-1]
    window = per_axis(name, ksize, spatial, last)
    steps = per_axis(name, ksize if strides is None else strides, spatial, last)
    if not isinstance(padding, str) and len(padding) == spatial + 2:
        padding = padding[1:-1] if last else padding[2:]
    windows = Windows(
        name, lengths, window, steps, per_axis(name, dilations, spatial, last), padding
    )
    if highest:
        found = largest(stack(windows.parts(x, -math.inf)), axis=0)
    else:
        sums = total(stack(windows.parts(x, 0.0)), axis=0)
        # What was padded does not count.
        present = ones((1, *lengths, 1), dtype=x.spec.dtype)
        found = sums / total(stack(windows.parts(convert(present), 0.0)), axis=0)
    return found if last else moveaxis(found, -1, 1)


@operation
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The largest ("MAX") or the mean ("AVG") of each window, along as many axes as there are.

    >>> x = tf.reshape(tf.range(4.0), [1, 4, 1])
    >>> tf.nn.pool(x, [2], "MAX").numpy().reshape(-1).tolist()
    [1.0, 2.0, 3.0]
    """
    if pooling_type not in ("MAX", "AVG"):
        raise InvalidValueError(f"pool: pooling_type {pooling_type!r} is neither 'MAX' nor 'AVG'.")
    last = data_format is None or not data_format.startswith("NC")
    axes = convert(input).ndim - 2
    steps = (1,) * axes if strides is None else strides
    return _pooled(
        "pool", input, window_shape, steps, padding, last, axes, pooling_type == "MAX", dilations
    )


def _pool(name: str, spatial: int | None, highest: bool, example: str, result: str) -> Any:
    layout = {1: "NWC", 2: "NHWC", 3: "NDHWC"}.get(spatial or 0)

    @operation
    def pool(
        input: Any,
        ksize: Any,
        strides: Any,
        padding: Any,
        data_format: str | None = layout,
        name: str | None = None,
    ) -> Tensor:
        axes = convert(input).ndim - 2 if spatial is None else spatial
        last = data_format is None or not data_format.startswith("NC")
        return _pooled(pool.__name__, input, ksize, strides, padding, last, axes, highest)

    what = "largest" if highest else "mean"
    pool.__name__ = pool.__qualname__ = name
    pool.__module__ = __name__
    pool.__doc__ = (
        f"The {what} of each window, channel by channel.\n\n    >>> {example}\n    {result}\n    "
    )
    return pool


_LINE = 'tf.nn.{}(tf.reshape(tf.range(4.0), [1, 4, 1]), 2, 2, "VALID").numpy().reshape(-1).tolist()'
_PLANE = (
    'tf.nn.{}(tf.reshape(tf.range(4.0), [1, 2, 2, 1]), 2, 2, "VALID").numpy().reshape(-1).tolist()'
)
_SPACE = (
    "tf.nn.{}(tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1]), 2, 2, 'VALID')"
    ".numpy().reshape(-1).tolist()"
)
max_pool = _pool("max_pool", None, True, _LINE.format("max_pool"), "[1.0, 3.0]")
max_pool1d = _pool("max_pool1d", 1, True, _LINE.format("max_pool1d"), "[1.0, 3.0]")
max_pool2d = _pool("max_pool2d", 2, True, _PLANE.format("max_pool2d"), "[3.0]")
max_pool3d = _pool("max_pool3d", 3, True, _SPACE.format("max_pool3d"), "[7.0]")
avg_pool = _pool("avg_pool", None, False, _LINE.format("avg_pool"), "[0.5, 2.5]")
avg_pool1d = _pool("avg_pool1d", 1, False, _LINE.format("avg_pool1d"), "[0.5, 2.5]")
avg_pool2d = _pool("avg_pool2d", 2, False, _PLANE.format("avg_pool2d"), "[1.5]")
avg_pool3d = _pool("avg_pool3d", 3, False, _SPACE.format("avg_pool3d"), "[3.5]")
