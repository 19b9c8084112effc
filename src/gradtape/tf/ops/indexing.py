"""Look-ups and updates at positions: gather, where, slices, masks, one-hot and scatter."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.errors import DtypeError, IndexRangeError, ShapeError
from gradtape.libraries import as_count, check_exports, known_value, normalize_axis
from gradtape.ops.arrays import indexing as core, scatter
from gradtape.ops.elementwise import arithmetic
from gradtape.tf.base.conversion import as_int, as_shape, common, convert
from gradtape.tf.base.dispatch import documented, named_in, operation
from gradtape.tf.base.dtypes import as_dtype, float32
from gradtape.tf.base.tensor import Tensor, adopt
from gradtape.tf.base.types import Array, CountLike, DTypeLike, IntLike, Name, ShapeLike, TensorLike
from gradtape.tf.ops.custom import custom_gradient

__all__ = [
    "boolean_mask",
    "gather",
    "gather_nd",
    "one_hot",
    "scatter_nd",
    "slice",
    "strided_slice",
    "tensor_scatter_nd_add",
    "tensor_scatter_nd_max",
    "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update",
    "where",
]


def as_indices(name: str, indices: TensorLike) -> Tensor:
    """Integer indices as a tensor."""
    result = convert(indices)
    if result.spec.dtype.kind not in "iu":
        # An empty list has no dtype of its own.
        if not result.spec.size:
            return gt.cast(result, np.dtype(np.int32))
        raise DtypeError(
            f"{name}: indices of dtype {result.dtype.name} are not integers. Cast them."
        )
    return result


@operation
def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: object = None,
    axis: IntLike | None = None,
    batch_dims: IntLike = 0,
    name: Name = None,
) -> Tensor:
    """Slices of `params` at indices along an axis, separately for the first `batch_dims` axes.

    >>> tf.gather([[1, 2], [3, 4], [5, 6]], [2, 0]).numpy().tolist()
    [[5, 6], [1, 2]]
    >>> tf.gather([[1, 2], [3, 4]], [[1], [0]], axis=1, batch_dims=1).numpy().tolist()
    [[2], [3]]

    The gradient by a table that was only looked up is an IndexedSlices.
    """
    table = convert(params)
    return core.gather(
        table, as_indices("gather", indices), axis=as_int(axis), batch_dims=int(batch_dims)
    )


def require_no_policy(name: str, policy: str) -> None:
    """Raise an error for any policy but that indices out of range are errors."""
    if policy not in ("", "DEFAULT", "ERROR"):
        raise ValueError(
            f"{name}: bad_indices_policy={policy!r} is not covered; indices out of range are "
            "errors. Leave it out, and mask them with tf.where."
        )


@operation
def gather_nd(
    params: TensorLike,
    indices: TensorLike,
    batch_dims: IntLike = 0,
    name: Name = None,
    bad_indices_policy: str = "",
) -> Tensor:
    """Elements or slices of `params` at positions along its first axes.

    >>> tf.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy().tolist()
    [2, 3]
    """
    require_no_policy("gather_nd", bad_indices_policy)
    x, places = convert(params), as_indices("gather_nd", indices)
    batch = int(batch_dims)
    lead = places.spec.shape[:batch]
    if x.spec.shape[:batch] != lead:
        raise ShapeError(
            f"gather_nd: params of shape {x.shape} and indices of shape {places.shape} differ in "
            f"the leading {batch} axes, which are the batch."
        )
    depth = places.spec.shape[-1]
    if depth + batch > x.ndim:
        raise ShapeError(
            f"gather_nd: indices of {depth} coordinates for params with {x.ndim - batch} axes."
        )
    columns: tuple[Tensor | Array, ...] = tuple(places[..., k] for k in range(depth))
    if batch:
        ndim = places.ndim - 1
        rows = [np.arange(n).reshape((n,) + (1,) * (ndim - at - 1)) for at, n in enumerate(lead)]
        columns = (*rows, *columns)
    if not columns:
        shape = (*places.spec.shape[:-1], *x.spec.shape)
        return arithmetic.identity(gt.broadcast_to(x, shape))
    return x[columns]


@operation
def where(
    condition: TensorLike,
    x: TensorLike | None = None,
    y: TensorLike | None = None,
    name: Name = None,
) -> Tensor:
    """x where the condition holds, y elsewhere; without them, the indices where it holds.

    >>> tf.where([True, False], [1.0, 2.0], 0.0).numpy().tolist()
    [1.0, 0.0]
    >>> tf.where([False, True]).numpy().tolist()
    [[1]]

    The operand that is not chosen sends no NaN back to its gradient.
    """
    chosen = convert(condition)
    if not chosen.spec.size and isinstance(condition, (list, tuple)):
        # An empty list has no dtype of its own.
        chosen = gt.cast(chosen, np.dtype(bool))
    if x is None and y is None:
        return adopt(gt.stack(list(gt.nonzero(chosen)), axis=1))
    if x is None or y is None:
        raise ValueError("where: x and y must both be given, or neither.")
    if chosen.spec.dtype.kind != "b":
        raise DtypeError(f"where: a condition of dtype {chosen.dtype.name} is not bool. Cast it.")
    first, second = common([x, y], "where")
    return arithmetic.where(chosen, first, second)


@operation
def boolean_mask(
    tensor: TensorLike, mask: TensorLike, axis: IntLike | None = None, name: str = "boolean_mask"
) -> Tensor:
    """The elements or slices where a mask is true; the mask is computed now.

    >>> tf.boolean_mask([1, 2, 3], [True, False, True]).numpy().tolist()
    [1, 3]
    """
    x, chosen = convert(tensor), convert(mask)
    at = 0 if axis is None else normalize_axis("boolean_mask", int(axis), x.ndim)
    shape = chosen.spec.shape
    if not shape:
        raise ValueError("boolean_mask: the mask cannot be a scalar.")
    if x.spec.shape[at : at + len(shape)] != shape:
        raise ShapeError(
            f"boolean_mask: a mask of shape {shape} does not fit the tensor of shape {x.shape}."
        )
    flat = gt.reshape(x, (*x.spec.shape[:at], math.prod(shape), *x.spec.shape[at + len(shape) :]))
    places = np.flatnonzero(np.asarray(chosen.read()))
    return core.take(flat, places, axis=at)


@operation
def slice(input_: TensorLike, begin: ShapeLike, size: ShapeLike, name: Name = None) -> Tensor:
    """A part of a tensor: its start along each axis, and its lengths; -1 is for all the rest.

    >>> tf.slice([[1, 2, 3], [4, 5, 6]], [1, 0], [1, -1]).numpy().tolist()
    [[4, 5, 6]]
    """
    x = convert(input_)
    starts, lengths = as_shape(begin), as_shape(size)
    if len(starts) != x.ndim or len(lengths) != x.ndim:
        raise ShapeError(f"slice: begin and size need one entry for each of {x.ndim} axes.")
    key = []
    for axis, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        end = x.spec.shape[axis] if length == -1 else start + length
        if not 0 <= start <= end <= x.spec.shape[axis]:
            raise ShapeError(
                f"slice: from {start} to {end} along axis {axis} leaves the shape {x.shape}."
            )
        key.append(_part(start, end, None))
    return x[tuple(key)]


# The builtin, which the function above hides.
_part = builtins.slice


@operation
def strided_slice(
    input_: TensorLike,
    begin: ShapeLike,
    end: ShapeLike,
    strides: ShapeLike | None = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: object = None,
    name: Name = None,
) -> Tensor:
    """`x[begin:end:strides]`, with one entry for each axis.

    >>> tf.strided_slice([1, 2, 3, 4], [0], [4], [2]).numpy().tolist()
    [1, 3]
    """
    if var is not None:
        raise ValueError("strided_slice: var is not covered. Use v[begin:end].assign(value).")
    begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask = (
        as_count("strided_slice: a mask", mask)
        for mask in (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    )
    x = convert(input_)
    starts, ends = as_shape(begin), as_shape(end)
    steps = (1,) * len(starts) if strides is None else as_shape(strides)
    key: list[Any] = []
    for at, (start, stop, step) in enumerate(zip(starts, ends, steps, strict=True)):
        bit = 1 << at
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(start)
        else:
            first = None if begin_mask & bit else start
            key.append(_part(first, None if end_mask & bit else stop, step))
    return x[tuple(key)]


@operation
def one_hot(
    indices: TensorLike,
    depth: CountLike,
    on_value: TensorLike | None = None,
    off_value: TensorLike | None = None,
    axis: IntLike | None = None,
    dtype: DTypeLike | None = None,
    name: Name = None,
) -> Tensor:
    """One value at the index and another elsewhere, along a new axis, the last by default.

    >>> tf.one_hot([0, 2], 3).numpy().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    places = as_indices("one_hot", indices)
    if dtype is None:
        kinds = [convert(v).dtype for v in (on_value, off_value) if v is not None]
        dtype = kinds[0] if kinds else float32
    wanted = as_dtype(dtype).dtype
    if on_value is None and off_value is None:
        result = core.one_hot(places, int(depth), wanted)
    else:
        chosen = core.one_hot(places, int(depth), np.dtype(bool))
        on, off = (
            convert(default if value is None else value, hint=wanted)
            for value, default in ((on_value, 1), (off_value, 0))
        )
        result = arithmetic.where(chosen, gt.cast(on, wanted), gt.cast(off, wanted))
    last = result.ndim - 1
    at = last if axis is None or axis == -1 else int(axis)
    return result if at == last else gt.moveaxis(result, last, at)


def _rows(
    name: str, x: Tensor, indices: TensorLike, updates: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The tensor with its indexed axes as one, positions along it, and the updates as rows."""
    shape = x.spec.shape
    places = as_indices(name, indices)
    depth = places.spec.shape[-1]
    if depth > len(shape):
        raise ShapeError(f"{name}: indices of {depth} coordinates for a tensor of shape {shape}.")
    front, rest = shape[:depth], shape[depth:]
    count = math.prod(places.spec.shape[:-1])
    wanted = (*places.spec.shape[:-1], *rest)
    if updates.spec.shape != wanted:
        raise ShapeError(
            f"{name}: updates of shape {updates.shape} do not fit indices of shape "
            f"{places.shape} into {shape}: they need shape {wanted}."
        )
    known = known_value(places)
    if known is not None:
        _check_range(name, known, front)
    flat: Any = None
    for k in range(depth):
        column = gt.cast(places[..., k], np.dtype(np.int64))
        flat = column if flat is None else flat * front[k] + column
    if flat is None:
        flat = convert(np.zeros(places.spec.shape[:-1], np.int64))
    merged = gt.reshape(x, (math.prod(front), *rest))
    return merged, gt.reshape(flat, (count,)), gt.reshape(updates, (count, *rest))


def _check_range(name: str, places: Array, lengths: tuple[int, ...]) -> None:
    if places.size and ((places < 0) | (places >= np.array(lengths))).any():
        raise IndexRangeError(
            f"{name}: an index is outside the leading axes, of lengths {lengths}."
        )


def _scattered(
    name: str, function: Callable[..., Any], x: object, indices: TensorLike, updates: object
) -> Tensor:
    whole = convert(x)
    rows = _rows(name, whole, indices, convert(updates, whole.dtype))
    return gt.reshape(function(*rows), whole.spec.shape)


@operation
def scatter_nd(
    indices: TensorLike,
    updates: TensorLike,
    shape: ShapeLike,
    bad_indices_policy: str = "",
    name: Name = None,
) -> Tensor:
    """A tensor of zeros with updates added at positions.

    >>> tf.scatter_nd([[0], [2], [0]], [1.0, 2.0, 3.0], [4]).numpy().tolist()
    [4.0, 0.0, 2.0, 0.0]
    """
    require_no_policy("scatter_nd", bad_indices_policy)
    added = convert(updates)
    nothing = gt.zeros(as_shape(shape), dtype=added.spec.dtype)
    return _scattered("scatter_nd", scatter.scatter_add, nothing, indices, added)


@operation
def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: Name = None
) -> Tensor:
    """The tensor with elements or slices at positions replaced.

    >>> tf.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [7, 8]).numpy().tolist()
    [7, 2, 8]
    """
    return _scattered("tensor_scatter_nd_update", scatter.scatter_set, tensor, indices, updates)


def _scatter(
    function: Callable[..., Any], negate: str, sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row: gradtape's function, of the updates, of everything, or of nothing negated."""
    own = named_in(example)

    def scattered(
        tensor: TensorLike,
        indices: TensorLike,
        updates: TensorLike,
        bad_indices_policy: str = "",
        name: Name = None,
    ) -> Tensor:
        require_no_policy(own, bad_indices_policy)
        x = convert(tensor)
        if function is scatter.scatter_max and x.spec.inexact:
            return _extreme(own, x, indices, convert(updates, x.dtype), bool(negate))
        if not negate:
            return _scattered(own, function, x, indices, updates)
        negated = -convert(updates, x.dtype)
        if negate == "updates":
            return _scattered(own, function, x, indices, negated)
        return -_scattered(own, function, -x, indices, negated)

    return operation(documented(scattered, __name__, sentence, example, result))


def _extreme(name: str, x: Tensor, indices: TensorLike, updates: Tensor, lowest: bool) -> Tensor:
    """A maximum or minimum at positions; equal ones share the derivative, as in TensorFlow."""

    @custom_gradient
    def chosen(x: Tensor, updates: Tensor) -> Any:
        merged, places, rows = _rows(name, x, indices, updates)
        best = scatter.scatter_max(-merged if lowest else merged, places, -rows if lowest else rows)
        best = -best if lowest else best
        dtype = x.spec.dtype
        own = gt.cast(arithmetic.equal(merged, best), dtype)
        others = gt.cast(arithmetic.equal(rows, core.take(best, places, axis=0)), dtype)
        share = 1.0 / arithmetic.maximum(scatter.scatter_add(own, places, others), 1.0)

        def slopes(dy: Tensor) -> Any:
            part = gt.reshape(dy, merged.spec.shape) * share
            of_updates = others * core.take(part, places, axis=0)
            return gt.reshape(own * part, x.spec.shape), gt.reshape(of_updates, updates.spec.shape)

        return gt.reshape(best, x.spec.shape), slopes

    return chosen(x, updates)


tensor_scatter_nd_add = _scatter(
    scatter.scatter_add,
    "",
    "The tensor with updates added at positions.",
    "tf.tensor_scatter_nd_add([1, 2, 3], [[0], [0]], [7, 8]).numpy().tolist()",
    "[16, 2, 3]",
)
tensor_scatter_nd_sub = _scatter(
    scatter.scatter_add,
    "updates",
    "The tensor with updates subtracted at positions.",
    "tf.tensor_scatter_nd_sub([1, 2, 3], [[0]], [7]).numpy().tolist()",
    "[-6, 2, 3]",
)
tensor_scatter_nd_max = _scatter(
    scatter.scatter_max,
    "",
    "The tensor with elements raised to the updates where these are larger.",
    "tf.tensor_scatter_nd_max([1, 2, 3], [[0], [2]], [7, 0]).numpy().tolist()",
    "[7, 2, 3]",
)
tensor_scatter_nd_min = _scatter(
    scatter.scatter_max,
    "all",
    "The tensor with elements lowered to the updates where these are smaller.",
    "tf.tensor_scatter_nd_min([1, 2, 3], [[0], [2]], [7, 0]).numpy().tolist()",
    "[1, 2, 0]",
)


check_exports(globals(), __all__)
