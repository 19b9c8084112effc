"""Sorting and counting: sort, top_k, unique, searchsorted and histograms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import gradtape as gt
from gradtape import sum as total
from gradtape.errors import DtypeError, ShapeError
from gradtape.libraries import check_exports, described
from gradtape.ops.arrays import sorting as core
from gradtape.tf.base.conversion import common, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.dtypes import as_dtype, int32
from gradtape.tf.base.errors import InvalidValueError
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Array, CountLike, DTypeLike, IntLike, Name, SizeLike, TensorLike
from gradtape.tf.ops.indexing import as_indices

__all__ = [
    "TopKV2",
    "Unique",
    "UniqueWithCounts",
    "argsort",
    "bincount",
    "confusion_matrix",
    "histogram_fixed_width",
    "histogram_fixed_width_bins",
    "in_top_k",
    "invert_permutation",
    "searchsorted",
    "sort",
    "top_k",
    "unique",
    "unique_with_counts",
]


@described(values="The largest elements.", indices="Their indices.")
class TopKV2(NamedTuple):
    """The result of `top_k`: values and their indices.

    >>> tf.math.top_k([1.0, 3.0])._fields
    ('values', 'indices')
    """

    values: Tensor
    indices: Tensor


@described(y="The distinct elements.", idx="For each element its number in `y`.")
class Unique(NamedTuple):
    """The result of `unique`: the distinct elements, and the number of each element among them.

    >>> tf.unique([1, 1])._fields
    ('y', 'idx')
    """

    y: Tensor
    idx: Tensor


@described(
    y="The distinct elements.",
    idx="For each element its number in `y`.",
    count="How often each of `y` occurs.",
)
class UniqueWithCounts(NamedTuple):
    """The result of `unique_with_counts`.

    >>> tf.unique_with_counts([1, 1])._fields
    ('y', 'idx', 'count')
    """

    y: Tensor
    idx: Tensor
    count: Any


def _descending(name: str, direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"{name}: direction {direction!r}: use 'ASCENDING' or 'DESCENDING'.")
    return direction == "DESCENDING"


@operation
def sort(
    values: TensorLike, axis: IntLike = -1, direction: str = "ASCENDING", name: Name = None
) -> Tensor:
    """The elements sorted along an axis; derivatives follow each element to its place.

    >>> tf.sort([3, 1, 2], direction="DESCENDING").numpy().tolist()
    [3, 2, 1]
    """
    return core.sort(convert(values), axis=int(axis), descending=_descending("sort", direction))


@operation
def argsort(
    values: TensorLike,
    axis: IntLike = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: Name = None,
) -> Tensor:
    """The indices that sort along an axis.

    >>> tf.argsort([3, 1, 2]).numpy().tolist()
    [1, 2, 0]
    """
    result = core.argsort(
        convert(values), axis=int(axis), descending=_descending("argsort", direction)
    )
    return gt.cast(result, int32.dtype)


@operation
def top_k(
    input: TensorLike,
    k: CountLike = 1,
    sorted: bool = True,
    index_type: DTypeLike = int32,
    name: Name = None,
) -> TopKV2:
    """The k largest elements along the last axis, largest first, and their indices.

    >>> values, indices = tf.math.top_k([1.0, 3.0, 2.0], k=2)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([3.0, 2.0], [1, 2])
    """
    x = convert(input)
    if x.spec.dtype.kind not in "iuf":
        raise DtypeError(f"top_k: a tensor of dtype {x.dtype.name} has no order. Use tf.cast.")
    if not x.ndim or not 0 <= int(k) <= x.spec.shape[-1]:
        raise ShapeError(f"top_k: k={int(k)} does not fit the last axis of shape {x.shape}.")
    values, indices = adopt(core.top_k(x, int(k)))
    return TopKV2(values, gt.cast(indices, as_dtype(index_type).dtype))


@operation
def in_top_k(targets: TensorLike, predictions: TensorLike, k: IntLike, name: Name = None) -> Tensor:
    """For each row whether its target is among the k largest predictions.

    >>> tf.math.in_top_k([0, 1], [[0.1, 0.9], [0.2, 0.8]], 1).numpy().tolist()
    [False, True]
    """
    chosen, scores = as_indices("in_top_k", targets), convert(predictions)
    # A target that is the number of no class is in no row.
    exists = gt.logical_and(chosen >= 0, gt.less(chosen, scores.spec.shape[1]))
    own = gt.take_along_axis(scores, gt.where(exists, chosen, 0)[:, None], axis=1)
    ahead = total(gt.cast(gt.less(own, scores), np.dtype(np.int64)), axis=1)
    known = gt.logical_and(gt.all(gt.isfinite(scores), axis=1), exists)
    return gt.logical_and(gt.less(ahead, int(k)), known)


@operation
def unique(x: TensorLike, out_idx: DTypeLike = int32, name: Name = None) -> Unique:
    """The distinct elements in order of appearance, and the number of each element among them.

    >>> y, idx = tf.unique([5, 3, 5])
    >>> y.numpy().tolist(), idx.numpy().tolist()
    ([5, 3], [0, 1, 0])
    """
    y, idx, _ = _distinct("unique", x, out_idx)
    return Unique(y, idx)


@operation
def unique_with_counts(
    x: TensorLike, out_idx: DTypeLike = int32, name: Name = None
) -> UniqueWithCounts:
    """The distinct elements as in `unique`, and how often each occurs.

    >>> tf.unique_with_counts([5, 3, 5]).count.numpy().tolist()
    [2, 1]
    """
    return UniqueWithCounts(*_distinct("unique_with_counts", x, out_idx))


def _distinct(name: str, x: TensorLike, out_idx: DTypeLike) -> tuple[Tensor, Tensor, Tensor]:
    x = convert(x)
    if x.ndim != 1:
        raise ShapeError(f"{name}: a tensor of shape {x.shape} is not a vector. Flatten it.")
    _, first, inverse, counts = np.unique(
        x.read(), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    dtype = as_dtype(out_idx)
    return (
        gt.take(x, np.sort(first), axis=0),
        convert(place[inverse].astype(dtype)),
        convert(counts[order].astype(dtype)),
    )


@operation
def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: str = "left",
    out_type: DTypeLike = int32,
    name: Name = None,
) -> Tensor:
    """The indices at which values keep sorted rows sorted.

    >>> tf.searchsorted([1.0, 2.0, 3.0], [2.5, 0.0]).numpy().tolist()
    [2, 0]
    """
    rows, wanted = common([sorted_sequence, values], "searchsorted")
    if rows.ndim == 1:
        result = core.searchsorted(rows, wanted, side=side)
    else:
        # Compare with every element, because each row has its own order.
        compare = gt.less(rows[..., None, :], wanted[..., :, None])
        if side == "right":
            compare = rows[..., None, :] <= wanted[..., :, None]
        result = total(gt.cast(compare, np.dtype(np.int64)), axis=-1)
    return gt.cast(result, as_dtype(out_type).dtype)


@operation
def bincount(
    arr: TensorLike,
    weights: TensorLike | None = None,
    minlength: CountLike | None = None,
    maxlength: CountLike | None = None,
    dtype: DTypeLike = int32,
    name: Name = None,
    axis: IntLike | None = None,
    binary_output: bool = False,
) -> Tensor:
    """The counts of the integers from 0 on, or the sums of the weights of their occurrences.

    >>> tf.math.bincount([1, 1, 3]).numpy().tolist()
    [0, 2, 0, 1]
    """
    result = np.asarray(as_indices("bincount", arr).read())
    if result.size and result.min() < 0:
        raise InvalidValueError("bincount: negative numbers are not counted. Shift them.")
    if axis not in (None, 0, -1):
        raise InvalidValueError(f"bincount: axis {axis} is neither None nor 0 nor -1.")
    length = max(int(result.max(initial=-1)) + 1, int(minlength or 0))
    length = length if maxlength is None else min(length, int(maxlength))
    # If rows are counted separately, each has its own range of numbers.
    rows = result.shape[0] if axis == -1 and result.ndim == 2 else 1
    numbers = (result.reshape(rows, -1) + np.arange(rows)[:, None] * length).reshape(-1)
    inside = np.flatnonzero(result.reshape(-1) < length)
    if weights is None:
        counted = np.bincount(numbers[inside], minlength=rows * length)
        counted = np.minimum(counted, 1) if binary_output else counted
        total = convert(counted.astype(as_dtype(dtype)))
    else:
        shares = convert(weights).reshape(-1)[inside]
        nothing = gt.zeros((rows * length,), dtype=shares.spec.dtype)
        total = adopt(gt.scatter_add(nothing, numbers[inside], shares))
    return (
        total
        if rows == 1 and not (axis == -1 and result.ndim == 2)
        else total.reshape(rows, length)
    )


@operation
def histogram_fixed_width(
    values: TensorLike,
    value_range: TensorLike,
    nbins: SizeLike = 100,
    dtype: DTypeLike = int32,
    name: Name = None,
) -> Tensor:
    """The number of values in each of equal bins; values outside count in the end bins.

    >>> tf.histogram_fixed_width([0.0, 1.0, 9.0], [0.0, 3.0], nbins=3).numpy().tolist()
    [1, 1, 1]
    """
    places = _bins(values, value_range, nbins).reshape(-1)
    return convert(np.bincount(places, minlength=int(nbins)).astype(as_dtype(dtype)))


@operation
def histogram_fixed_width_bins(
    values: TensorLike,
    value_range: TensorLike,
    nbins: SizeLike = 100,
    dtype: DTypeLike = int32,
    name: Name = None,
) -> Tensor:
    """The number of the bin of each value; values outside are in the first or the last bin.

    >>> tf.histogram_fixed_width_bins([0.0, 1.0, 9.0], [0.0, 3.0], nbins=3).numpy().tolist()
    [0, 1, 2]
    """
    return convert(_bins(values, value_range, nbins).astype(as_dtype(dtype)))


def _bins(values: TensorLike, value_range: TensorLike, nbins: SizeLike) -> Array:
    x = np.asarray(convert(values).read())
    low, high = np.asarray(convert(value_range).read(), float)
    if not low < high:
        raise InvalidValueError(f"histogram_fixed_width: the range from {low} to {high} is empty.")
    count = int(nbins)
    return np.clip(np.floor((x - low) / (high - low) * count), 0, count - 1).astype(int)


@operation
def invert_permutation(x: TensorLike, name: Name = None) -> Tensor:
    """The inverse of a permutation.

    >>> tf.math.invert_permutation([2, 0, 1]).numpy().tolist()
    [1, 2, 0]
    """
    order = as_indices("invert_permutation", x)
    known = np.asarray(order.read())
    if known.ndim != 1 or not np.array_equal(np.sort(known), np.arange(known.size)):
        raise ValueError("invert_permutation: every number from 0 on must occur once.")
    return convert(np.argsort(known).astype(known.dtype))


@operation
def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: CountLike | None = None,
    weights: TensorLike | None = None,
    dtype: DTypeLike = int32,
    name: Name = None,
) -> Tensor:
    """The confusion matrix: counts of each label (row) predicted as each class (column).

    >>> tf.math.confusion_matrix([0, 1, 1], [0, 0, 1]).numpy().tolist()
    [[1, 0], [1, 1]]
    """
    rows = np.asarray(as_indices("confusion_matrix", labels).read()).reshape(-1)
    columns = np.asarray(as_indices("confusion_matrix", predictions).read()).reshape(-1)
    if rows.shape != columns.shape:
        raise ShapeError("confusion_matrix: labels and predictions differ in number.")
    ends = np.concatenate([rows, columns]).astype(int)
    highest, lowest = ends.max(initial=-1), ends.min(initial=0)
    count = highest + 1 if num_classes is None else int(num_classes)
    if lowest < 0 or highest >= count:
        raise InvalidValueError(
            f"confusion_matrix: classes from {lowest} to {highest} are not all from 0 to "
            f"{count - 1}. Give num_classes, or leave them out."
        )
    kind = as_dtype(dtype).dtype
    shares = np.ones(rows.shape, kind) if weights is None else gt.cast(convert(weights), kind)
    nothing = gt.zeros((count * count,), dtype=kind)
    return adopt(gt.scatter_add(nothing, rows * count + columns, shares).reshape(count, count))


check_exports(globals(), __all__)
