"""Reductions and running sums, with TensorFlow's dtypes: a sum has the dtype of its terms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.arrays.creation import full
from gradtape.ops.arrays.joining import concat
from gradtape.ops.arrays.movement import flip
from gradtape.ops.elementwise.arithmetic import logaddexp
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axes, normalize_axis
from gradtape.ops.reductions import reduction as core
from gradtape.ops.reductions.cumulative import cumulative_prod, cumulative_sum
from gradtape.ops.reductions.logsumexp import logsumexp
from gradtape.ops.reductions.norm import norm as core_norm
from gradtape.tf.conversion import as_axes, common, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.dtypes import as_dtype, int64

__all__ = [
    "add_n", "argmax", "argmin", "count_nonzero", "cumprod", "cumsum", "cumulative_logsumexp",
    "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max",
    "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance",
    "zero_fraction",
]  # fmt: skip


def _require(name: str, x: Any, kinds: str, what: str) -> None:
    if x.spec.dtype.kind not in kinds:
        raise DtypeError(
            f"{name}: a tensor of dtype {x.dtype.name} has no {what}. Use tf.cast first."
        )


@operation
def reduce_sum(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The sum over axes, all by default.

    >>> tf.reduce_sum([[1, 2], [3, 4]], axis=0).numpy().tolist()
    [4, 6]
    """
    x = convert(input_tensor)
    _require("reduce_sum", x, "iufc", "sum")
    return core.sum(x, axis=as_axes(axis), dtype=x.spec.dtype, keepdims=keepdims)


@operation
def reduce_prod(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The product over axes, all by default.

    >>> tf.reduce_prod([[1, 2], [3, 4]], axis=0).numpy().tolist()
    [3, 8]
    """
    x = convert(input_tensor)
    _require("reduce_prod", x, "iufc", "product")
    return core.prod(x, axis=as_axes(axis), dtype=x.spec.dtype, keepdims=keepdims)


@operation
def reduce_mean(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The mean over axes, all by default; that of integers is rounded down to one.

    >>> tf.reduce_mean([[1.0, 2.0], [3.0, 4.0]], axis=0).numpy().tolist()
    [2.0, 3.0]
    """
    x = convert(input_tensor)
    axes = as_axes(axis)
    if x.spec.dtype.kind in "iu":
        # As TensorFlow has it: an integer, cut off towards zero.
        count = max(1, int(np.prod([x.shape[a] for a in normalize_axes("mean", axes, x.ndim)])))
        from gradtape.tf.elementwise import FUNCTIONS

        return FUNCTIONS["truncatediv"](reduce_sum(x, axes, keepdims), count)
    _require("reduce_mean", x, "fc", "mean")
    return core.mean(x, axis=axes, keepdims=keepdims)


@operation
def reduce_max(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The maximum over axes, all by default.

    >>> tf.reduce_max([[1, 2], [3, 4]], axis=1).numpy().tolist()
    [2, 4]
    """
    return _extreme("reduce_max", core.max, input_tensor, axis, keepdims)


@operation
def reduce_min(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The minimum over axes, all by default.

    >>> tf.reduce_min([[1, 2], [3, 4]], axis=1).numpy().tolist()
    [1, 3]
    """
    return _extreme("reduce_min", core.min, input_tensor, axis, keepdims)


def _extreme(name: str, function: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    x = convert(x)
    _require(name, x, "iuf", "order")
    axes = as_axes(axis)
    if not x.spec.size:
        return _extreme_of_nothing(name, x, axes, keepdims)
    return function(x, axis=axes, keepdims=keepdims)


def _extreme_of_nothing(name: str, x: Any, axis: Any, keepdims: bool) -> Any:
    """The least, for a maximum, or the greatest value of the dtype."""
    axes = normalize_axes(name, axis, x.ndim)
    kept = [1 if at in axes else n for at, n in enumerate(x.spec.shape)]
    shape = [n for at, n in enumerate(kept) if keepdims or at not in axes]
    least, greatest = (
        (-math.inf, math.inf) if x.spec.dtype.kind == "f" else (x.dtype.min, x.dtype.max)
    )
    return full(tuple(shape), least if name == "reduce_max" else greatest, dtype=x.spec.dtype)


@operation
def reduce_all(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Whether all hold, over axes.

    >>> bool(tf.reduce_all([True, False]))
    False
    """
    x = convert(input_tensor)
    _require("reduce_all", x, "b", "truth value")
    return core.all(x, axis=as_axes(axis), keepdims=keepdims)


@operation
def reduce_any(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Whether any holds, over axes.

    >>> bool(tf.reduce_any([True, False]))
    True
    """
    x = convert(input_tensor)
    _require("reduce_any", x, "b", "truth value")
    return core.any(x, axis=as_axes(axis), keepdims=keepdims)


@operation
def reduce_logsumexp(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """log(sum(exp(x))) over axes, without overflow.

    >>> tf.reduce_logsumexp([1000.0, -1000.0]).numpy().item()
    1000.0
    """
    x = convert(input_tensor)
    _require("reduce_logsumexp", x, "f", "exponential")
    return logsumexp(x, axis=as_axes(axis), keepdims=keepdims)


@operation
def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The variance over axes: the mean of squared distances from the mean.

    >>> tf.math.reduce_variance([1.0, 3.0]).numpy().item()
    1.0
    """
    x = convert(input_tensor)
    _require("reduce_variance", x, "fc", "variance")
    return core.var(x, axis=as_axes(axis), keepdims=keepdims)


@operation
def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The standard deviation over axes.

    >>> tf.math.reduce_std([1.0, 3.0]).numpy().item()
    1.0
    """
    x = convert(input_tensor)
    _require("reduce_std", x, "fc", "standard deviation")
    return core.std(x, axis=as_axes(axis), keepdims=keepdims)


@operation
def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """The square root of the sum of squares over axes.

    >>> tf.math.reduce_euclidean_norm([3.0, 4.0]).numpy().item()
    5.0
    """
    x = convert(input_tensor)
    found = core_norm(x, 2, as_axes(axis), keepdims)
    return found if x.spec.dtype.kind == "f" else cast(found, x.spec.dtype)


@operation
def count_nonzero(
    input: Any,
    axis: Any = None,
    keepdims: bool = False,
    dtype: Any = int64,
    name: str | None = None,
) -> Any:
    """How many elements are not zero, over axes.

    >>> tf.math.count_nonzero([0.0, 1.0, -2.0]).numpy().item()
    2
    """
    found = core.count_nonzero(convert(input), axis=as_axes(axis), keepdims=keepdims)
    return cast(found, as_dtype(dtype).dtype)


@operation
def zero_fraction(value: Any, name: str | None = None) -> Any:
    """Which share of the elements is zero.

    >>> tf.math.zero_fraction([0.0, 1.0, 0.0, 2.0]).numpy().item()
    0.5
    """
    x = convert(value)
    return 1.0 - cast(core.count_nonzero(x), np.dtype(np.float32)) / float(x.size or np.nan)


@operation
def argmax(input: Any, axis: Any = None, output_type: Any = int64, name: str | None = None) -> Any:
    """Where the maximum is along an axis, 0 by default.

    >>> tf.argmax([[1.0, 5.0], [3.0, 2.0]]).numpy().tolist()
    [1, 0]
    """
    return _position(core.argmax, input, axis, output_type)


@operation
def argmin(input: Any, axis: Any = None, output_type: Any = int64, name: str | None = None) -> Any:
    """Where the minimum is along an axis, 0 by default.

    >>> tf.argmin([[1.0, 5.0], [3.0, 2.0]], axis=1).numpy().tolist()
    [0, 1]
    """
    return _position(core.argmin, input, axis, output_type)


def _position(function: Any, x: Any, axis: Any, output_type: Any) -> Any:
    found = function(convert(x), axis=0 if axis is None else int(axis))
    return cast(found, as_dtype(output_type).dtype)


@operation
def add_n(inputs: Any, name: str | None = None) -> Any:
    """The sum of a list of tensors of one shape.

    >>> tf.add_n([[1.0, 2.0], [3.0, 4.0]]).numpy().tolist()
    [4.0, 6.0]
    """
    if not isinstance(inputs, (list, tuple)):
        inputs = list(convert(inputs))
    if not inputs:
        raise ValueError("add_n: inputs must be a list of at least one tensor.")
    total, *rest = common(inputs, "add_n")
    for each in rest:
        if each.spec.shape != total.spec.shape:
            raise ShapeError(f"add_n: shapes {total.shape} and {each.shape} differ.")
        total = total + each
    return total


def _running(function: Any, x: Any, axis: Any, exclusive: bool, reverse: bool) -> Any:
    x = convert(x)
    axis = normalize_axis("cumsum", int(axis), x.ndim)
    if reverse:
        x = flip(x, axis=axis)
    found = function(x, axis=axis, dtype=x.spec.dtype, include_initial=exclusive)
    if exclusive:
        found = found[(slice(None),) * axis + (slice(0, x.spec.shape[axis]),)]
    return flip(found, axis=axis) if reverse else found


@operation
def cumsum(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Running sums along an axis; without the element itself if `exclusive`.

    >>> tf.cumsum([1, 2, 3]).numpy().tolist()
    [1, 3, 6]
    >>> tf.cumsum([1, 2, 3], exclusive=True, reverse=True).numpy().tolist()
    [5, 3, 0]
    """
    return _running(cumulative_sum, x, axis, exclusive, reverse)


@operation
def cumprod(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Running products along an axis; without the element itself if `exclusive`.

    >>> tf.math.cumprod([1, 2, 3]).numpy().tolist()
    [1, 2, 6]
    """
    return _running(cumulative_prod, x, axis, exclusive, reverse)


@operation
def cumulative_logsumexp(
    x: Any,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """The logarithm of running sums of exp(x) along an axis.

    >>> tf.math.cumulative_logsumexp([0.0, 0.0]).numpy().round(4)
    array([0.    , 0.6931], dtype=float32)
    """
    x = convert(x)
    _require("cumulative_logsumexp", x, "f", "exponential")
    axis = normalize_axis("cumulative_logsumexp", int(axis), x.ndim)
    x = flip(x, axis=axis) if reverse else x
    length = x.spec.shape[axis]
    if exclusive and length:
        x = _delayed(x, axis, 1)
    # Sums of one, two, four and so on: exact whatever the largest element is.
    step = 1
    while step < length:
        x = logaddexp(x, _delayed(x, axis, step))
        step *= 2
    return flip(x, axis=axis) if reverse else x


def _delayed(x: Any, axis: int, steps: int) -> Any:
    """Elements moved on along an axis, with the logarithm of nothing in front."""
    shape = x.spec.shape
    front = full((*shape[:axis], steps, *shape[axis + 1 :]), -math.inf, dtype=x.spec.dtype)
    return concat([front, x[(slice(None),) * axis + (slice(0, shape[axis] - steps),)]], axis=axis)
