"""Reductions and running sums, with TensorFlow's dtypes: a sum has the dtype of its terms.

Most are rows: gradtape's function, the kinds of dtype that it accepts, the property that other
dtypes lack (for the error message), the first sentence of the documentation, an example and its
result.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError, ShapeError
from gradtape.libraries import check_exports, normalize_axes, normalize_axis
from gradtape.ops.reductions import reduction as core
from gradtape.tf.base.conversion import as_axes, as_shape, common, convert
from gradtape.tf.base.dispatch import documented, named_in, operation
from gradtape.tf.base.dtypes import DType, as_dtype, int64
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Axis, DTypeLike, IntLike, Name, ShapeLike, TensorLike
from gradtape.tf.ops.elementwise import truncatediv

__all__ = [
    "accumulate_n",
    "add_n",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "cumulative_logsumexp",
    "is_non_decreasing",
    "is_strictly_increasing",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
    "zero_fraction",
]

# Axes as gradtape's functions take them.
Axes: TypeAlias = "int | tuple[int, ...] | None"


class Reduction(Protocol):
    """A public function that reduces axes, all by default."""

    def __call__(
        self, input_tensor: TensorLike, axis: Axis = None, keepdims: bool = False, name: Name = None
    ) -> Tensor: ...


def _require(name: str, x: Tensor, kinds: str, what: str) -> None:
    if x.spec.dtype.kind not in kinds:
        raise DtypeError(
            f"{name}: a tensor of dtype {x.dtype.name} has no {what}. Use tf.cast first."
        )


def _reduction(
    function: Callable[..., Any],
    accepts: str,
    what: str,
    sentence: str,
    example: str,
    result: str,
    in_own_dtype: bool = False,
    of_integers: Callable[[Tensor, Axes, bool], Tensor] | None = None,
) -> Reduction:
    """A row. `in_own_dtype` is for functions that would widen the dtype of the operand."""
    own = named_in(example)

    def reduce(
        input_tensor: TensorLike, axis: Axis = None, keepdims: bool = False, name: Name = None
    ) -> Tensor:
        x = convert(input_tensor)
        _require(own, x, accepts, what)
        axes = as_axes(axis)
        if in_own_dtype:
            return function(x, axis=axes, dtype=x.spec.dtype, keepdims=keepdims)
        if of_integers is not None and x.spec.dtype.kind in "iu":
            return of_integers(x, axes, keepdims)
        return function(x, axis=axes, keepdims=keepdims)

    return operation(documented(reduce, __name__, sentence, example, result))


def _mean_of_integers(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    """In TensorFlow the mean of integers is an integer, rounded towards zero."""
    count = math.prod(x.spec.shape[at] for at in normalize_axes("mean", axis, x.ndim))
    return truncatediv(reduce_sum(x, axis, keepdims), max(1, count))


def _extremum(
    function: Callable[..., Any], of_nothing: Callable[[DType], float]
) -> Callable[..., Any]:
    """A maximum or minimum, also of no elements."""

    def reduce(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
        if x.spec.size:
            return function(x, axis=axis, keepdims=keepdims)
        # The sum of nothing adds 0, and keeps the result connected to x.
        zero = core.sum(x, axis=axis, dtype=x.spec.dtype, keepdims=keepdims)
        return adopt(gt.full(zero.spec.shape, of_nothing(x.dtype), dtype=x.spec.dtype)) + zero

    return reduce


def _euclidean_norm(x: Tensor, axis: Axes, keepdims: bool) -> Tensor:
    result = gt.norm(x, 2, axis, keepdims)
    return result if x.spec.dtype.kind == "f" else gt.cast(result, x.spec.dtype)


reduce_sum = _reduction(
    core.sum,
    "iufc",
    "sum",
    "The sum over axes, all by default.",
    "tf.reduce_sum([[1, 2], [3, 4]], axis=0).numpy().tolist()",
    "[4, 6]",
    True,
)
reduce_prod = _reduction(
    core.prod,
    "iufc",
    "product",
    "The product over axes, all by default.",
    "tf.reduce_prod([[1, 2], [3, 4]], axis=0).numpy().tolist()",
    "[3, 8]",
    True,
)
reduce_mean = _reduction(
    core.mean,
    "iufc",
    "mean",
    "The mean over axes, all by default; integers give an integer.",
    "tf.reduce_mean([[1.0, 2.0], [3.0, 4.0]], axis=0).numpy().tolist()",
    "[2.0, 3.0]",
    of_integers=_mean_of_integers,
)
reduce_max = _reduction(
    _extremum(core.max, lambda d: -math.inf if d.kind == "f" else d.min),
    "iuf",
    "order",
    "The maximum over axes, all by default.",
    "tf.reduce_max([[1, 2], [3, 4]], axis=1).numpy().tolist()",
    "[2, 4]",
)
reduce_min = _reduction(
    _extremum(core.min, lambda d: math.inf if d.kind == "f" else d.max),
    "iuf",
    "order",
    "The minimum over axes, all by default.",
    "tf.reduce_min([[1, 2], [3, 4]], axis=1).numpy().tolist()",
    "[1, 3]",
)
reduce_all = _reduction(
    core.all,
    "b",
    "truth value",
    "Whether all elements are true, over axes.",
    "bool(tf.reduce_all([True, False]))",
    "False",
)
reduce_any = _reduction(
    core.any,
    "b",
    "truth value",
    "Whether any element is true, over axes.",
    "bool(tf.reduce_any([True, False]))",
    "True",
)
reduce_logsumexp = _reduction(
    gt.logsumexp,
    "f",
    "exponential",
    "log(sum(exp(x))) over axes, without overflow.",
    "tf.reduce_logsumexp([1000.0, -1000.0]).numpy().item()",
    "1000.0",
)
reduce_variance = _reduction(
    core.var,
    "fc",
    "variance",
    "The variance over axes: the mean of squared distances from the mean.",
    "tf.math.reduce_variance([1.0, 3.0]).numpy().item()",
    "1.0",
)
reduce_std = _reduction(
    core.std,
    "fc",
    "standard deviation",
    "The standard deviation over axes.",
    "tf.math.reduce_std([1.0, 3.0]).numpy().item()",
    "1.0",
)
reduce_euclidean_norm = _reduction(
    _euclidean_norm,
    "iufc",
    "norm",
    "The square root of the sum of squares over axes.",
    "tf.math.reduce_euclidean_norm([3.0, 4.0]).numpy().item()",
    "5.0",
)


@operation
def count_nonzero(
    input: TensorLike,
    axis: Axis = None,
    keepdims: bool = False,
    dtype: DTypeLike = int64,
    name: Name = None,
) -> Tensor:
    """The number of elements that are not zero, over axes.

    >>> tf.math.count_nonzero([0.0, 1.0, -2.0]).numpy().item()
    2
    """
    result = core.count_nonzero(convert(input), axis=as_axes(axis), keepdims=keepdims)
    return gt.cast(result, as_dtype(dtype).dtype)


@operation
def zero_fraction(value: TensorLike, name: Name = None) -> Tensor:
    """The share of the elements that is zero.

    >>> tf.math.zero_fraction([0.0, 1.0, 0.0, 2.0]).numpy().item()
    0.5
    """
    x = convert(value)
    return 1.0 - gt.cast(core.count_nonzero(x), np.dtype(np.float32)) / float(x.size or np.nan)


def _position(
    function: Callable[..., Any], sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    def position(
        input: TensorLike,
        axis: IntLike | None = None,
        output_type: DTypeLike = int64,
        name: Name = None,
    ) -> Tensor:
        found = function(convert(input), axis=0 if axis is None else int(axis))
        return gt.cast(found, as_dtype(output_type).dtype)

    return operation(documented(position, __name__, sentence, example, result))


argmax = _position(
    core.argmax,
    "The index of the maximum along an axis, 0 by default.",
    "tf.argmax([[1.0, 5.0], [3.0, 2.0]]).numpy().tolist()",
    "[1, 0]",
)
argmin = _position(
    core.argmin,
    "The index of the minimum along an axis, 0 by default.",
    "tf.argmin([[1.0, 5.0], [3.0, 2.0]], axis=1).numpy().tolist()",
    "[0, 1]",
)


@operation
def add_n(inputs: TensorLike, name: Name = None) -> Tensor:
    """The sum of a list of tensors of one shape.

    >>> tf.add_n([[1.0, 2.0], [3.0, 4.0]]).numpy().tolist()
    [4.0, 6.0]
    """
    parts = inputs if isinstance(inputs, (list, tuple)) else list(convert(inputs))
    if not parts:
        raise ValueError("add_n: inputs must be a list of at least one tensor.")
    total, *rest = common(parts, "add_n")
    for each in rest:
        if each.spec.shape != total.spec.shape:
            raise ShapeError(f"add_n: shapes {total.shape} and {each.shape} differ.")
        total = total + each
    return total


@operation
def accumulate_n(
    inputs: TensorLike,
    shape: ShapeLike | None = None,
    tensor_dtype: DTypeLike | None = None,
    name: Name = None,
) -> Tensor:
    """The sum of a list of tensors of one shape.

    >>> tf.math.accumulate_n([[1.0, 2.0], [3.0, 4.0]]).numpy().tolist()
    [4.0, 6.0]
    """
    if tensor_dtype is not None:
        as_dtype(tensor_dtype)
    result = add_n(inputs)
    if shape is not None and as_shape(shape) != tuple(result.shape):
        raise ShapeError(
            f"accumulate_n: the sum has shape {result.shape}, not {shape}. Leave it out."
        )
    return result


@operation
def is_non_decreasing(x: TensorLike, name: Name = None) -> Tensor:
    """Whether no element is smaller than the one before it.

    >>> bool(tf.math.is_non_decreasing([1, 1, 2]))
    True
    """
    flat = convert(x).reshape(-1)
    return core.all(flat[1:] >= flat[:-1])


@operation
def is_strictly_increasing(x: TensorLike, name: Name = None) -> Tensor:
    """Whether every element is larger than the one before it.

    >>> bool(tf.math.is_strictly_increasing([1, 1, 2]))
    False
    """
    flat = convert(x).reshape(-1)
    return core.all(flat[1:] > flat[:-1])


def _running(
    function: Callable[..., Any], sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    own = named_in(example)

    def running(
        x: TensorLike,
        axis: IntLike = 0,
        exclusive: bool = False,
        reverse: bool = False,
        name: Name = None,
    ) -> Tensor:
        x = convert(x)
        _require(own, x, "iufc", "sum or product")
        at = normalize_axis(own, int(axis), x.ndim)
        x = gt.flip(x, axis=at) if reverse else x
        found = function(x, at, exclusive)
        return gt.flip(found, axis=at) if reverse else found

    return operation(documented(running, __name__, sentence, example, result))


def _accumulated(function: Callable[..., Any], x: Tensor, axis: int, exclusive: bool) -> Tensor:
    result = function(x, axis=axis, dtype=x.spec.dtype, include_initial=exclusive)
    return result[(slice(None),) * axis + (slice(0, x.spec.shape[axis]),)] if exclusive else result


def _accumulated_logsumexp(x: Tensor, axis: int, exclusive: bool) -> Tensor:
    _require("cumulative_logsumexp", x, "f", "exponential")
    length = x.spec.shape[axis]
    if exclusive and length:
        x = _delayed(x, axis, 1)
    # Sums of one, two, four and so on: exact however large the largest element is.
    step = 1
    while step < length:
        x = gt.logaddexp(x, _delayed(x, axis, step))
        step *= 2
    return x


def _delayed(x: Tensor, axis: int, steps: int) -> Tensor:
    """Elements moved on along an axis, after as many log(0)."""
    shape = x.spec.shape
    front = gt.full((*shape[:axis], steps, *shape[axis + 1 :]), -math.inf, dtype=x.spec.dtype)
    kept = x[(slice(None),) * axis + (slice(0, shape[axis] - steps),)]
    return adopt(gt.concat([front, kept], axis=axis))


cumsum = _running(
    functools.partial(_accumulated, gt.cumulative_sum),
    "Running sums along an axis; without the element itself if `exclusive`.",
    "tf.cumsum([1, 2, 3], exclusive=True, reverse=True).numpy().tolist()",
    "[5, 3, 0]",
)
cumprod = _running(
    functools.partial(_accumulated, gt.cumulative_prod),
    "Running products along an axis; without the element itself if `exclusive`.",
    "tf.math.cumprod([1, 2, 3]).numpy().tolist()",
    "[1, 2, 6]",
)
cumulative_logsumexp = _running(
    _accumulated_logsumexp,
    "The logarithm of running sums of exp(x) along an axis.",
    "tf.math.cumulative_logsumexp([0.0, 0.0]).numpy().round(4)",
    "array([0.    , 0.6931], dtype=float32)",
)


check_exports(globals(), __all__)
