"""Indexing: `x[key]` and `x[key] = v` by all of NumPy's keys, and look-ups by position."""

from __future__ import annotations

import math
from typing import Any, Never

import numpy as np

from gradtape.argument_checks import as_count, as_integer
from gradtape.dtypes import as_dtype, default_dtype
from gradtape.errors import DtypeError, IndexRangeError, ShapeError, SizeError
from gradtape.ir import REGISTRY, Node, Shape, constant, spec
from gradtape.ops.arrays.creation import constant_beside
from gradtape.ops.arrays.gathering import (
    GATHER,
    INT64,
    SCATTER_SET,
    TAKE_ALONG_AXIS,
    gathered_shape,
)
from gradtape.ops.arrays.keys import IndexKey, check_mask, parse
from gradtape.ops.arrays.movement import (
    RESHAPE,
    broadcast_to,
    moveaxis,
    permute,
    reshape,
)
from gradtape.ops.arrays.positions import as_operand, checked, is_symbolic, shape_of
from gradtape.ops.arrays.scatter import scatter_add, scatter_max, scatter_set
from gradtape.ops.arrays.slicing import (
    check_writable,
    read_part,
    remember_read,
    repeated_read,
    write_part,
)
from gradtape.ops.elementwise.arithmetic import add, equal, multiply, record_operand, where
from gradtape.ops.families import broadcast_shapes, cast, normalize_axis
from gradtape.ops.families.signatures import DTypeLike, Tensor, TensorLike, kind_of_operand
from gradtape.suggestions import unexpected_arguments
from gradtape.trace import plain, record
from gradtape.trace.record import SCALARS, any_handle, scalar_spec


def get_item(x: Any, key: Any) -> Any:
    """`x[key]` by NumPy's rules for basic and advanced keys.

    >>> gt.asarray([[1, 2], [3, 4]])[:, [1, 0]].tolist()
    [[2, 1], [4, 3]]
    """
    if type(key) is slice:
        known = repeated_read(x, key)
        if known is not None:
            return known
    x = as_operand(x)
    found = parse(key, x.shape)
    if not found.arrays:
        if found.whole:
            return record(RESHAPE, (x,), (found.shape,))
        part = read_part(x, found.starts, found.lengths, found.steps, found.shape)
        if type(key) is slice:
            remember_read(part, key)
        return part
    merged, positions, axis = _merge(_part(x, found), found)
    result = record(GATHER, (merged, positions), (axis,))
    return _move_block(result, axis, found.position, len(shape_of(positions)))


def _part(x: Any, key: IndexKey) -> Any:
    """The regular part of x that the index arrays of a key index."""
    if key.whole:
        return x if key.shape == x.shape else reshape(x, key.shape)
    return read_part(x, key.starts, key.lengths, key.steps, key.shape)


def _merge(part: Any, key: IndexKey) -> tuple[Any, Any, int]:
    """Merge all indexed axes into one: the part, the positions along that axis, and the axis."""
    axes = [axis for axis, _ in key.arrays]
    positions = _flat_positions(part.shape, key)
    if len(axes) == 1:
        return part, positions, axes[0]
    part = permute(part, _indexed_together(axes, part.ndim))
    at = _merged_axis(axes)
    shape, count = part.shape, len(axes)
    length = math.prod(shape[at : at + count])
    return reshape(part, (*shape[:at], length, *shape[at + count :])), positions, at


def _merged_axis(axes: list[int]) -> int:
    """The place of the merged axis: the first of neighbouring axes, otherwise the front."""
    return axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0


def _indexed_together(axes: list[int], ndim: int) -> tuple[int, ...]:
    at = _merged_axis(axes)
    rest = [axis for axis in range(ndim) if axis not in axes]
    return (*rest[:at], *axes, *rest[at:])


def _flat_positions(shape: Shape, key: IndexKey) -> Any:
    """Positions along the merged axis, which numbers the merged axes in row-major order."""
    _, result = key.arrays[0]
    if len(key.arrays) == 1:
        return result
    try:
        broadcast_shapes("x[...]", [shape_of(positions) for _, positions in key.arrays])
    except ShapeError as error:
        raise IndexRangeError(f"{error} Index arrays of one key have to fit each other.") from None
    for axis, positions in key.arrays[1:]:
        if is_symbolic(result) or is_symbolic(positions):
            result = add(multiply(result, shape[axis]), positions)
        else:
            result = result * shape[axis] + positions
    return result


def _move_block(x: Any, source: int, target: int, count: int) -> Any:
    """Move `count` neighbouring axes from one position to another."""
    if source == target or not count:
        return x
    axes = list(range(source, source + count))
    return moveaxis(x, axes, list(range(target, target + count)))


def set_item(x: Any, key: Any, value: Any) -> Any:
    """The tensor with `x[key]` replaced by a value that broadcasts to it.

    Where a key names an element several times, the last value stays, and gets the derivative.

    >>> from gradtape.ops.arrays.indexing import set_item
    >>> set_item(gt.asarray([1.0, 2.0, 3.0]), slice(0, 2), 5.0).tolist()
    [5.0, 5.0, 3.0]
    """
    x = as_operand(x)
    value = _fitting(x, value)
    mask = _as_mask(key)
    if mask is not None and mask.ndim and mask.ndim <= x.ndim:
        check_mask(mask.shape, x.shape[: mask.ndim])
        rest = x.shape[mask.ndim :]
        chosen = _without_ones(value, len(rest))
        fits = mask.shape == x.shape[: mask.ndim] and len(shape_of(chosen)) <= len(rest)
        if fits and _reaches(shape_of(chosen), rest):
            return where(reshape(mask, mask.shape + (1,) * len(rest)), chosen, x)
    found = parse(key, x.shape)
    if not found.arrays:
        value = _without_ones(value, len(found.shape))
        return write_part(x, value, found.starts, found.lengths, found.steps, found.shape)
    return _scatter(x, value, found)


def _scatter(x: Any, value: Any, key: IndexKey) -> Any:
    """Write by index arrays to the part that they index, then write the part back into x."""
    part = _part(x, key)
    merged, positions, axis = _merge(part, key)
    count = len(shape_of(positions))
    target = gathered_shape(merged.shape, shape_of(positions), axis)
    # The value broadcasts to x[key], where the index axes may be in another place than in `merged`.
    axes = list(range(len(target)))
    block = axes[axis : axis + count]
    rest = axes[:axis] + axes[axis + count :]
    order = rest[: key.position] + block + rest[key.position :]
    shape = tuple(target[at] for at in order)
    value = _without_ones(value, len(shape))
    if not _reaches(shape_of(value), shape):
        raise ShapeError(
            f"x[...] = v: a value of shape {shape_of(value)} does not fit the elements of shape "
            f"{shape} that the key names. Reshape the value."
        )
    value = _move_block(broadcast_to(_as_tensor(x, value), shape), key.position, axis, count)
    written = record(SCATTER_SET, (merged, positions, value), (axis,))
    if len(key.arrays) > 1:
        together = _indexed_together([at for at, _ in key.arrays], part.ndim)
        written = reshape(written, tuple(part.shape[at] for at in together))
        written = permute(written, tuple(np.argsort(together).tolist()))
    if part is x:
        return written
    return write_part(x, written, key.starts, key.lengths, key.steps, key.shape)


def _as_mask(key: Any) -> Any:
    """A key that is one boolean mask, as a node or tensor that need not be computed; else None."""
    if is_symbolic(key):
        return key if key.dtype.kind == "b" else None
    if isinstance(key, np.ndarray) or (isinstance(key, list) and not any_handle(key)):
        array = np.asarray(key)
        return record_operand(array) if array.dtype.kind == "b" else None
    return None


def _fitting(x: Any, value: Any) -> Any:
    """The value, cast to the dtype of x if they differ; a Python scalar adapts to it."""
    if type(value) in SCALARS:
        number = plain(value)
        dtype = scalar_spec(number, type(number), x.dtype).dtype
    else:
        value = as_operand(value)
        dtype = value.dtype
    if dtype == x.dtype:
        return value
    check_writable("x[...] = v", dtype, x.dtype)
    return cast(value, x.dtype)


def _as_tensor(x: Any, value: Any) -> Any:
    if type(value) not in SCALARS:
        return value
    if type(x) is Node:
        return constant(value, spec((), x.dtype))
    return cast(record_operand(value), x.dtype)


def _without_ones(value: Any, ndim: int) -> Any:
    """Drop leading axes of length 1 that the target does not have, as NumPy allows."""
    shape = shape_of(value)
    extra = len(shape) - ndim
    if extra <= 0 or any(n != 1 for n in shape[:extra]):
        return value
    return reshape(value, shape[extra:])


def _reaches(shape: Shape, target: Shape) -> bool:
    """Whether a shape broadcasts to exactly the target shape."""
    if len(shape) > len(target):
        return False
    ends = target[len(target) - len(shape) :]
    return all(m in (1, n) for m, n in zip(shape, ends, strict=True))


@kind_of_operand
def take(
    x: TensorLike, indices: TensorLike, /, axis: int | None = None, *more: Never, **unknown: Never
) -> Tensor:
    """Elements or rows at the given indices along an axis; of the flattened tensor by default.

    >>> gt.take(gt.asarray([[1, 2], [3, 4]]), gt.asarray([1, 1]), axis=0).tolist()
    [[3, 4], [3, 4]]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = as_operand(x)
    if axis is None:
        x, axis = (x if x.ndim == 1 else reshape(x, (x.size,))), 0
    axis = normalize_axis("take", axis, x.ndim)
    return record(GATHER, (x, checked("take", indices, axis, x.shape[axis])), (axis,))


@kind_of_operand
def take_along_axis(
    x: TensorLike, indices: TensorLike, /, axis: int = -1, *more: Never, **unknown: Never
) -> Tensor:
    """Elements at indices that differ from line to line along an axis.

    >>> x = gt.asarray([[3, 1, 2], [4, 6, 5]])
    >>> gt.take_along_axis(x, gt.argsort(x), axis=1).tolist()
    [[1, 2, 3], [4, 5, 6]]
    """
    if more or unknown:
        raise unexpected_arguments(more, unknown)
    x = as_operand(x)
    axis = normalize_axis("take_along_axis", axis, x.ndim)
    return read_along(x, checked("take_along_axis", indices, axis, x.shape[axis]), axis)


def read_along(x: Any, positions: Any, axis: int) -> Any:
    """`take_along_axis` at positions that the caller guarantees to be in range."""
    shape, chosen = x.shape, shape_of(positions)
    if len(chosen) != len(shape):
        raise ShapeError(
            f"take_along_axis: indices of shape {chosen} and a tensor of shape {shape} differ in "
            "the number of axes. Reshape one of them."
        )
    lines = broadcast_shapes("take_along_axis", [_with(shape, axis, 1), _with(chosen, axis, 1)])
    x = _stretched(x, _with(lines, axis, shape[axis]))
    positions = _stretched(positions, _with(lines, axis, chosen[axis]))
    return record(TAKE_ALONG_AXIS, (x, positions), (axis,))


def _with(shape: Shape, axis: int, length: int) -> Shape:
    return (*shape[:axis], length, *shape[axis + 1 :])


def _stretched(x: Any, shape: Shape) -> Any:
    return x if shape_of(x) == shape else broadcast_to(x, shape)


@kind_of_operand
def gather(
    params: TensorLike, indices: TensorLike, axis: int | None = None, batch_dims: int = 0
) -> Tensor:
    """Slices of `params` at indices along an axis, for each of the leading `batch_dims` axes.

    >>> gt.gather(gt.asarray([[1, 2, 3], [4, 5, 6]]), gt.asarray([[2], [0]]), batch_dims=1).tolist()
    [[3], [4]]
    """
    params = as_operand(params)
    chosen = shape_of(indices)
    batch_dims = as_integer("gather: batch_dims", batch_dims)
    batch_dims += len(chosen) if batch_dims < 0 else 0
    axis = normalize_axis("gather", batch_dims if axis is None else axis, params.ndim)
    if not 0 <= batch_dims <= min(axis, len(chosen)):
        raise ShapeError(
            f"gather: batch_dims {batch_dims} is more than axis {axis} or the {len(chosen)} axes "
            "of the indices."
        )
    batch = params.shape[:batch_dims]
    if chosen[:batch_dims] != batch:
        raise ShapeError(
            f"gather: params of shape {params.shape} and indices of shape {chosen} differ in the "
            f"leading {batch_dims} axes, which are the batch. Make them equal."
        )
    length = params.shape[axis]
    positions = checked("gather", indices, axis, length)
    if not batch_dims:
        return record(GATHER, (params, positions), (axis,))
    # One gather serves all batches: they are laid end to end, and each adds its own offset.
    count = math.prod(batch)
    front = moveaxis(params, axis, batch_dims)
    rows = reshape(front, (count * length, *front.shape[batch_dims + 1 :]))
    offsets = (np.arange(count) * length).reshape(batch + (1,) * (len(chosen) - batch_dims))
    found = record(GATHER, (rows, add(positions, offsets)), (0,))
    return _move_block(found, batch_dims, axis, len(chosen) - batch_dims)


@kind_of_operand
def one_hot(indices: TensorLike, num_classes: int, dtype: DTypeLike | None = None) -> Tensor:
    """Rows that are 1 at the index and 0 elsewhere; all 0 where the index is out of range.

    >>> gt.one_hot(gt.asarray([1, 0]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    indices = as_operand(indices)
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"one_hot: indices of dtype {indices.dtype} are not integers. Cast them.")
    dtype = default_dtype() if dtype is None else as_dtype(dtype)
    count = as_count("one_hot: num_classes", num_classes)
    try:
        spec((*indices.shape, count), dtype)
    except SizeError as error:
        raise SizeError(f"one_hot: {error}") from None
    classes = constant_beside(indices, REGISTRY["arange"], (0, count, 1, INT64))
    return cast(equal(reshape(indices, (*indices.shape, 1)), classes), dtype)


__all__ = [
    "gather",
    "get_item",
    "one_hot",
    "read_along",
    "scatter_add",
    "scatter_max",
    "scatter_set",
    "set_item",
    "take",
    "take_along_axis",
]
