"""Tensors from shapes: zeros, ones, ranges and the like; float32 by default."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError, ShapeError
from gradtape.libraries import check_exports, normalize_axis
from gradtape.ops.arrays import creation as core
from gradtape.tf.base.conversion import as_int, as_shape, common, concrete, convert
from gradtape.tf.base.dispatch import documented, operation
from gradtape.tf.base.dtypes import as_dtype, bool as boolean, float32
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import CountLike, DTypeLike, Name, ShapeLike, TensorLike

__all__ = [
    "eye",
    "fill",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "range",
    "sequence_mask",
    "zeros",
    "zeros_like",
]


def _filled(
    function: Callable[..., Any], sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a tensor of one number."""

    def fill(
        shape: ShapeLike, dtype: DTypeLike = float32, name: Name = None, layout: object = None
    ) -> Tensor:
        return function(as_shape(shape), dtype=as_dtype(dtype).dtype)

    return operation(documented(fill, __name__, sentence, example, result))


def _filled_like(
    function: Callable[..., Any], sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row for a tensor of one number in the shape of another tensor."""

    def fill(
        input: TensorLike, dtype: DTypeLike | None = None, name: Name = None, layout: object = None
    ) -> Tensor:
        x = convert(input)
        kind = x.spec.dtype if dtype is None else as_dtype(dtype).dtype
        return function(x.spec.shape, dtype=kind)

    return operation(documented(fill, __name__, sentence, example, result))


zeros = _filled(core.zeros, "A tensor of zeros.", "tf.zeros([2, 3]).shape", "TensorShape([2, 3])")
ones = _filled(core.ones, "A tensor of ones.", "tf.ones(2, tf.int32).numpy().tolist()", "[1, 1]")
zeros_like = _filled_like(
    core.zeros,
    "Zeros in the shape and dtype of another tensor.",
    "tf.zeros_like([1, 2]).numpy().tolist()",
    "[0, 0]",
)
ones_like = _filled_like(
    core.ones,
    "Ones in the shape and dtype of another tensor.",
    "tf.ones_like([1.5, 2.5]).numpy().tolist()",
    "[1.0, 1.0]",
)


@operation
def fill(dims: ShapeLike, value: TensorLike, name: Name = None, layout: object = None) -> Tensor:
    """A tensor with one value everywhere; derivatives pass to the value.

    >>> tf.fill([2], 7).numpy().tolist()
    [7, 7]
    """
    result = convert(value)
    if result.spec.shape:
        raise ShapeError(f"fill: expected one number, got shape {result.shape}.")
    return gt.broadcast_to(result, as_shape(dims))


@operation
def eye(
    num_rows: CountLike,
    num_columns: CountLike | None = None,
    batch_shape: ShapeLike | None = None,
    dtype: DTypeLike = float32,
    name: Name = None,
) -> Tensor:
    """The identity matrix, or a stack of them.

    >>> tf.eye(2).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    result = core.eye(as_int(num_rows), as_int(num_columns), dtype=as_dtype(dtype).dtype)
    if batch_shape is not None:
        result = gt.broadcast_to(result, (*as_shape(batch_shape), *result.shape))
    return adopt(result)


@operation
def range(
    start: TensorLike,
    limit: TensorLike | None = None,
    delta: TensorLike = 1,
    dtype: DTypeLike | None = None,
    name: str = "range",
) -> Tensor:
    """Numbers from start up to, but without, limit; with one argument, from 0 up to it.

    >>> tf.range(3), tf.range(1.0, 2.0, 0.5).numpy().tolist()
    (<tf.Tensor: shape=(3,), dtype=int32, numpy=array([0, 1, 2], dtype=int32)>, [1.0, 1.5])
    """
    first, last = (0, start) if limit is None else (start, limit)
    ends = [convert(x, None if hasattr(x, "enter") else dtype) for x in (first, last, delta)]
    if dtype is None:
        order = [np.dtype(d) for d in (np.int32, np.int64, np.float32, np.float64)]
        kind = max((end.spec.dtype for end in ends), key=lambda d: order.index(d))
    else:
        kind = as_dtype(dtype).dtype
    # TensorFlow computes all of it, the number of steps included, in the dtype of the result.
    begin, end, step = (concrete(each).astype(kind)[()] for each in ends)
    if not step:
        raise InvalidValueError("range: delta is 0. Give a step.")
    if (end < begin) if step > 0 else (begin < end):
        raise InvalidValueError(
            f"range: steps of {step} do not lead from {begin} to {end}. Give delta the other sign."
        )
    if kind.kind == "f":
        count = math.ceil((end - begin) / step)
    else:
        count = -(-abs(int(end) - int(begin)) // abs(int(step)))
    return core.arange(count, dtype=kind) * step.item() + begin.item()


@operation
def linspace(
    start: TensorLike, stop: TensorLike, num: CountLike, name: Name = None, axis: int = 0
) -> Tensor:
    """`num` numbers from start to stop, at equal distances.

    >>> tf.linspace(0.0, 1.0, 3).numpy().tolist()
    [0.0, 0.5, 1.0]
    """
    first, last = common([start, stop], "linspace")
    if first.spec.dtype.kind in "iu":
        first, last = (gt.cast(x, np.dtype(np.float64)) for x in (first, last))
    if first.spec.dtype.kind != "f":
        raise DtypeError(
            f"linspace: bounds of dtype {first.dtype.name} have no order. Use tf.cast."
        )
    count = int(num)
    shape = np.broadcast_shapes(first.spec.shape, last.spec.shape)
    at = normalize_axis("linspace", axis, len(shape) + 1)
    shares = np.linspace(0.0, 1.0, count, dtype=first.spec.dtype)
    shares = shares.reshape((count,) + (1,) * (len(shape) - at))
    first, last = (_with_axis(gt.broadcast_to(x, shape), at) for x in (first, last))
    return first * (1.0 - convert(shares)) + last * convert(shares)


def _with_axis(x: Tensor, axis: int) -> Tensor:
    return x[(slice(None),) * axis + (None,)]


@operation
def meshgrid(*args: TensorLike, **kwargs: Any) -> list[Tensor]:
    """Coordinates of a grid from the coordinates along its axes, which are flattened.

    >>> [x.shape for x in tf.meshgrid([1, 2], [3, 4, 5])]
    [TensorShape([3, 2]), TensorShape([3, 2])]
    """
    kwargs.pop("name", None)
    lines = [gt.reshape(x, (-1,)) for x in common(args, "meshgrid")]
    return adopt(gt.meshgrid(*lines, **kwargs))


@operation
def sequence_mask(
    lengths: TensorLike,
    maxlen: CountLike | None = None,
    dtype: DTypeLike = boolean,
    name: Name = None,
) -> Tensor:
    """For each length, a row with as many true elements, and false ones after them.

    >>> tf.sequence_mask([1, 3], 3).numpy().tolist()
    [[True, False, False], [True, True, True]]
    """
    lengths = convert(lengths)
    if lengths.spec.dtype.kind not in "iu":
        raise DtypeError("sequence_mask: lengths must be integers. Use tf.cast.")
    if maxlen is None:
        maxlen = int(np.max(lengths.read(), initial=0))
    if int(maxlen) < 0:
        raise ShapeError(f"sequence_mask: maxlen {int(maxlen)} is negative.")
    places = convert(np.arange(int(maxlen), dtype=lengths.spec.dtype))
    result = places < lengths[..., None]
    return result if as_dtype(dtype).kind == "b" else gt.cast(result, as_dtype(dtype).dtype)


check_exports(globals(), __all__)
