"""Windows over spatial axes, and pooling: the maximum or the mean of each, channel by channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import gradtape as gt
from gradtape.errors import ShapeError
from gradtape.libraries import as_count, check_exports
from gradtape.ops.matrices.windows import pooled
from gradtape.tf.base.conversion import convert
from gradtape.tf.base.dispatch import documented, named_in, operation
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import IntLike, Name, TensorLike

__all__ = [
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pool",
]


# "SAME", "VALID", or a pair of numbers (before, after) for each axis.
Padding: TypeAlias = "str | Sequence[Sequence[IntLike]]"
# One number for all spatial axes, one for each, or also those of batch and channels.
PerAxis: TypeAlias = "IntLike | Sequence[IntLike]"


def channels_last(data_format: str | None) -> bool:
    """Whether channels are the last axis, and not the second."""
    return data_format is None or not data_format.startswith("NC")


def per_axis(name: str, values: PerAxis | None, ndim: int, last: bool) -> tuple[int, ...]:
    """One number for each spatial axis, 1 by default."""
    if values is None:
        return (1,) * ndim
    given = list(values) if hasattr(values, "__iter__") else [values] * ndim
    items = [as_count(f"{name}: a step", n, least=1) for n in given]
    if len(items) == 1:
        items = items * ndim
    if ndim > 0 and len(items) == ndim + 2:
        ends = (items[0], items[-1]) if last else (items[0], items[1])
        if ends != (1, 1):
            raise ValueError(f"{name}: {items} moves along batch or channels. Use 1 there.")
        items = items[1:-1] if last else items[2:]
    if len(items) != ndim:
        raise ShapeError(f"{name}: {values} has no entry for each of {ndim} spatial axes.")
    return tuple(items)


def spatial_padding(name: str, padding: Padding, ndim: int, last: bool) -> Padding:
    """The padding without the pairs of batch and channels, if there are any."""
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise InvalidValueError(f"{name}: padding {padding!r}: use 'SAME', 'VALID' or pairs.")
        return padding
    if len(padding) != ndim + 2:
        return padding
    return padding[1:-1] if last else padding[2:]


def _pooled(
    name: str,
    input: TensorLike,
    spatial: int | None,
    ksize: PerAxis,
    strides: PerAxis | None,
    padding: Padding,
    data_format: str | None,
    highest: bool,
    dilations: PerAxis | None = None,
) -> Tensor:
    x, last = convert(input), channels_last(data_format)
    ndim = x.ndim - 2 if spatial is None else spatial
    if x.ndim != ndim + 2:
        raise ShapeError(f"{name}: an input of shape {x.shape} does not have {ndim + 2} axes.")
    x = x if last else gt.moveaxis(x, 1, -1)
    result = pooled(
        name,
        x,
        per_axis(name, ksize, ndim, last),
        per_axis(name, ksize if strides is None else strides, ndim, last),
        spatial_padding(name, padding, ndim, last),
        per_axis(name, dilations, ndim, last),
        highest,
    )
    return convert(result if last else gt.moveaxis(result, -1, 1))


@operation
def pool(
    input: TensorLike,
    window_shape: PerAxis,
    pooling_type: str,
    strides: PerAxis | None = None,
    padding: Padding = "VALID",
    data_format: str | None = None,
    dilations: PerAxis | None = None,
    name: Name = None,
) -> Tensor:
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
        input: TensorLike,
        ksize: PerAxis,
        strides: PerAxis,
        padding: Padding,
        data_format: str | None = _FORMATS[spatial],
        name: Name = None,
    ) -> Tensor:
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


check_exports(globals(), __all__)
