"""NumPy's functions that pick, sort and find elements, with NumPy's parameter names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.interop.numpy_protocols.arranging import ravel
from gradtape.interop.numpy_protocols.binding import Function
from gradtape.ops.arrays import creation, indexing, joining, movement, sorting
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axis
from gradtape.tensor.tensor import Tensor, asarray

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import ShapeLike, TensorLike

__all__ = ["FUNCTIONS"]


def _in_range(name: str, indices: TensorLike, length: int, mode: str) -> TensorLike:
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"{name}: mode={mode!r} is not one of 'raise', 'wrap', 'clip'.")
    if mode == "wrap":
        return arithmetic.remainder(asarray(indices), length)
    return arithmetic.clip(indices, 0, length - 1) if mode == "clip" else indices


def take(
    a: TensorLike, indices: TensorLike, axis: int | None = None, mode: str = "raise"
) -> Tensor:
    if mode != "raise":
        length = asarray(a).size if axis is None else asarray(a).shape[axis]
        indices = _in_range("np.take", indices, length, mode)
    elif isinstance(indices, (list, tuple)):
        indices = np.asarray(indices, dtype=None if len(indices) else int)
    return indexing.take(a, indices, axis=axis)


def compress(condition: Any, a: TensorLike, axis: int | None = None) -> Tensor:
    flags = condition.numpy() if hasattr(condition, "enter") else np.asarray(condition)
    return indexing.take(a, np.flatnonzero(flags), axis=axis)


def delete(arr: TensorLike, obj: Any, axis: int | None = None) -> Tensor:
    arr = asarray(arr)
    length = arr.size if axis is None else arr.shape[axis]
    obj = obj.numpy() if hasattr(obj, "enter") else obj
    return indexing.take(arr, np.delete(np.arange(length), obj), axis=axis)


def insert(arr: TensorLike, obj: Any, values: TensorLike, axis: int | None = None) -> Tensor:
    arr = asarray(arr)
    arr, axis = (ravel(arr), 0) if axis is None else (arr, normalize_axis("insert", axis, arr.ndim))
    obj = obj.numpy() if hasattr(obj, "enter") else obj
    # NumPy's own insert on positions tells which elements are new, and where old ones go.
    marks = np.insert(np.arange(arr.shape[axis]), obj, -1)
    new = np.flatnonzero(marks < 0)
    shape = (*arr.shape[:axis], len(new), *arr.shape[axis + 1 :])
    values = cast(asarray(values), arr.dtype)
    if np.ndim(obj) == 0 and not isinstance(obj, slice) and values.ndim == arr.ndim - 1 and axis:
        values = movement.expand_dims(values, axis)
    if np.ndim(obj) == 0 and not isinstance(obj, slice) and values.ndim and arr.ndim == 1:
        marks = np.insert(np.arange(len(arr)), [int(obj)] * values.size, -1)
        new, shape = np.flatnonzero(marks < 0), values.shape
    elif np.ndim(obj) > 0:
        # Values are in the order of `obj`, places in the order of the result.
        order = np.argsort(np.argsort(np.asarray(obj), kind="stable"), kind="stable")
        full = movement.broadcast_to(values, shape)
        values = indexing.take(full, np.argsort(order, kind="stable"), axis=axis)
    both = joining.concat([arr, movement.broadcast_to(values, shape)], axis=axis)
    places = np.where(marks < 0, arr.shape[axis] + np.cumsum(marks < 0) - 1, marks)
    return indexing.take(both, places, axis=axis)


def where(
    condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, /
) -> Tensor | tuple[Tensor, ...]:
    if x is None and y is None:
        return sorting.nonzero(condition)
    if x is None or y is None:
        raise ValueError(f"np.where: x={x} and y={y}. Give both, or neither.")
    return arithmetic.where(condition, x, y)


def select(
    condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0
) -> TensorLike:
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = arithmetic.where(condition, choice, result)
    return result


def choose(a: TensorLike, choices: Sequence[TensorLike], mode: str = "raise") -> Tensor:
    choices = [asarray(choice) for choice in choices]
    places = _in_range("np.choose", asarray(a), len(choices), mode)
    parts = movement.broadcast_arrays(places, *choices)
    rows = movement.expand_dims(parts[0], 0)
    return indexing.take_along_axis(joining.stack(parts[1:]), rows, axis=0)[0]


def argwhere(a: TensorLike) -> Tensor:
    a = asarray(a)
    if not a.ndim:
        return creation.zeros((int(bool(a)), 0), dtype="int64")
    return joining.stack(sorting.nonzero(a), axis=1)


def extract(condition: TensorLike, arr: TensorLike) -> Tensor:
    return compress(ravel(condition), ravel(arr))


def sort(a: TensorLike, axis: int | None = -1) -> Tensor:
    return sorting.sort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def argsort(a: TensorLike, axis: int | None = -1) -> Tensor:
    return sorting.argsort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def partition(a: TensorLike, kth: ShapeLike, axis: int | None = -1) -> Tensor:
    # Sorted elements are in order around every one of them.
    return sort(a, axis)


def unique(
    ar: TensorLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    **kwargs: object,
) -> Tensor | tuple[Tensor, ...]:
    ar = asarray(ar)
    _, index, inverse, counts = np.unique(
        ar.numpy(), True, True, True, axis=axis, equal_nan=equal_nan
    )
    values = indexing.take(ar, index, axis=axis)
    wanted = (return_index, index), (return_inverse, inverse), (return_counts, counts)
    others = [asarray(found) for flag, found in wanted if flag]
    return (values, *others) if others else values


FUNCTIONS: dict[Function, Function] = {
    np.take: take,
    np.take_along_axis: indexing.take_along_axis,
    np.compress: compress,
    np.delete: delete,
    np.insert: insert,
    np.where: where,
    np.select: select,
    np.choose: choose,
    np.argwhere: argwhere,
    np.extract: extract,
    np.nonzero: sorting.nonzero,
    np.flatnonzero: lambda a: sorting.nonzero(ravel(a))[0],
    np.sort: sort,
    np.argsort: argsort,
    np.partition: partition,
    np.unique: unique,
    np.unique_all: sorting.unique_all,
    np.unique_counts: sorting.unique_counts,
    np.unique_inverse: sorting.unique_inverse,
    np.unique_values: sorting.unique_values,
    np.searchsorted: sorting.searchsorted,
    np.isin: sorting.isin,
}
