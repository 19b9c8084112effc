"""NumPy's functions that make, join, split and rearrange, with NumPy's parameter names."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.numpy_protocols.binding import Function, refusal
from gradtape.ops.arrays import creation, indexing, joining, movement, padding, sorting, triangles
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axis
from gradtape.ops.reductions import reduction
from gradtape.tensor.tensor import Tensor, asarray

__all__ = ["FUNCTIONS"]

_ORDERS = ("C", "F", "A", "K", "c", "f", "a", "k")


def _by_columns(name: str, order: Any) -> bool:
    """Whether elements are read column by column: tensors have C order, so A and K mean C."""
    if order is not None and order not in _ORDERS:
        raise ValueError(f"{name}: order={order!r} is not one of 'C', 'F', 'A', 'K'.")
    return order in ("F", "f")


def _reversed_axes(a: Any) -> Any:
    return movement.permute_dims(a, tuple(reversed(range(a.ndim))))


def reshape(a: Any, shape: Any, order: Any = "C", copy: Any = None) -> Tensor:
    if not _by_columns("np.reshape", order):
        return movement.reshape(a, shape, copy=copy)
    lengths = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return _reversed_axes(movement.reshape(_reversed_axes(asarray(a)), lengths[::-1]))


def ravel(a: Any, order: Any = "C") -> Tensor:
    a = asarray(a)
    return movement.reshape(_reversed_axes(a) if _by_columns("np.ravel", order) else a, (a.size,))


def resize(a: Any, new_shape: Any) -> Tensor:
    flat = ravel(a)
    shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    count = int(np.prod(shape))
    if not flat.size:
        return creation.zeros(shape, dtype=flat.dtype)
    times = -(-count // flat.size)
    return movement.reshape(padding.tile(flat, times)[:count], shape)


def transpose(a: Any, axes: Any = None) -> Tensor:
    a = asarray(a)
    return _reversed_axes(a) if axes is None else movement.permute_dims(a, axes)


def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    a = asarray(a)
    if axis is None:
        return movement.reshape(roll(ravel(a), shift, 0), a.shape)
    shifts: dict[int, int] = {}
    for each, along in np.broadcast(shift, axis):
        place = normalize_axis("roll", int(along), a.ndim)
        shifts[place] = shifts.get(place, 0) + operator.index(each)
    return movement.roll(a, tuple(shifts.values()), axis=tuple(shifts))


def rollaxis(a: Any, axis: Any, start: Any = 0) -> Tensor:
    a = asarray(a)
    axis = normalize_axis("rollaxis", axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return movement.moveaxis(a, axis, start - 1 if axis < start else start)


def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Tensor:
    m = asarray(m)
    first, second = (normalize_axis("rot90", axis, m.ndim) for axis in axes)
    if first == second:
        raise ValueError(f"np.rot90: axes={tuple(axes)} are one axis. Give two.")
    k = operator.index(k) % 4
    if k == 2:
        return movement.flip(m, axis=(first, second))
    if k == 1:
        return movement.swapaxes(movement.flip(m, axis=second), first, second)
    return movement.flip(movement.swapaxes(m, first, second), axis=second) if k else m.copy()


def _flipped(name: str, axis: int) -> Function:
    def call(m: Any) -> Tensor:
        m = asarray(m)
        if m.ndim <= axis:
            raise ValueError(f"np.{name}: shape {m.shape} needs {axis + 1} axes or more.")
        return movement.flip(m, axis=axis)

    return call


def _at_least(ndim: int) -> Function:
    def one(a: Any) -> Tensor:
        a = asarray(a)
        if a.ndim >= ndim:
            return a
        if ndim == 3:  # NumPy puts a row in the middle and a matrix in front
            shape = {0: (1, 1, 1), 1: (1, *a.shape, 1), 2: (*a.shape, 1)}[a.ndim]
        else:
            shape = (1,) * (ndim - a.ndim) + a.shape
        return movement.reshape(a, shape)

    def call(*arys: Any) -> Any:
        return one(arys[0]) if len(arys) == 1 else tuple(one(a) for a in arys)

    return call


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    # None and texts, which plotting functions pass, stay arrays of objects.
    parts = [x if hasattr(x, "enter") else np.asarray(x) for x in args]
    shape = np.broadcast_shapes(*[tuple(part.shape) for part in parts])
    return tuple(
        np.broadcast_to(part, shape)
        if isinstance(part, np.ndarray) and part.dtype.kind not in "biufc"
        else movement.broadcast_to(part, shape)
        for part in parts
    )


# Joining.


def _joined(parts: Any, dtype: Any, casting: Any) -> list[Any]:
    tensors = [asarray(part) for part in parts]
    if dtype is None:
        if casting != "same_kind" and tensors:
            found = np.result_type(*[t.dtype for t in tensors])
            _check_cast(tensors, found, casting)
        return tensors
    _check_cast(tensors, dtype, casting)
    return [cast(tensor, dtype) for tensor in tensors]


def _check_cast(tensors: Sequence[Any], dtype: Any, casting: Any) -> None:
    for tensor in tensors:
        if not np.can_cast(tensor.dtype, dtype, casting):
            raise TypeError(
                f"np.concatenate: casting={casting!r} does not allow {tensor.dtype} to become "
                f"{np.dtype(dtype)}. Cast with gt.cast first."
            )


def concatenate(
    arrays: Any, /, axis: Any = 0, *, dtype: Any = None, casting: Any = "same_kind"
) -> Tensor:
    return joining.concat(_joined(arrays, dtype, casting), axis=axis)


def stack(arrays: Any, axis: Any = 0, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    return joining.stack(_joined(arrays, dtype, casting), axis=axis)


def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    tensors = [atleast_1d(part) for part in tup]
    axis = 0 if tensors and tensors[0].ndim == 1 else 1
    return joining.concat(_joined(tensors, dtype, casting), axis=axis)


def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Tensor:
    return joining.concat(_joined([atleast_2d(part) for part in tup], dtype, casting), axis=0)


def dstack(tup: Any) -> Tensor:
    return joining.concat([atleast_3d(part) for part in tup], axis=2)


def column_stack(tup: Any) -> Tensor:
    parts = [asarray(part) for part in tup]
    return joining.concat([transpose(atleast_2d(p)) if p.ndim < 2 else p for p in parts], axis=1)


def append(arr: Any, values: Any, axis: Any = None) -> Tensor:
    if axis is None:
        return joining.concat([ravel(arr), ravel(values)], axis=0)
    return joining.concat([asarray(arr), asarray(values)], axis=axis)


def _depth(nest: Any) -> int:
    return 1 + max(map(_depth, nest)) if isinstance(nest, list) else 0


def block(arrays: Any) -> Tensor:
    depth = _depth(arrays)

    def joined(nest: Any, axis: int) -> Tensor:
        if not isinstance(nest, list):
            a = asarray(nest)
            return movement.reshape(a, (1,) * (depth - a.ndim) + a.shape) if a.ndim < depth else a
        parts = [joined(item, axis + 1) for item in nest]
        ndim = max(part.ndim for part in parts)
        parts = [movement.reshape(p, (1,) * (ndim - p.ndim) + p.shape) for p in parts]
        return joining.concat(parts, axis=axis - depth)

    return joined(arrays, 0) if depth else asarray(arrays)


# Splitting.


def _sections(name: str, sections: Any) -> Any:
    return sections.numpy() if hasattr(sections, "enter") else sections


def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    return list(joining.split(ary, _sections("split", indices_or_sections), axis=axis))


def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Tensor]:
    sections = _sections("array_split", indices_or_sections)
    if np.ndim(sections):
        return split(ary, sections, axis)
    length, count = asarray(ary).shape[axis], operator.index(sections)
    if count <= 0:
        raise ValueError(f"np.array_split: {count} sections. Ask for one or more.")
    sizes = [length // count + (at < length % count) for at in range(count)]
    return split(ary, np.cumsum(sizes[:-1], dtype=int), axis)


def _split_along(name: str, axis: int, least: int) -> Function:
    def call(ary: Any, indices_or_sections: Any) -> list[Tensor]:
        ary = asarray(ary)
        if ary.ndim < least:
            raise ValueError(f"np.{name}: shape {ary.shape} needs {least} axes or more.")
        return split(ary, indices_or_sections, 0 if ary.ndim == 1 else axis)

    return call


def unstack(x: Any, /, *, axis: Any = 0) -> tuple[Tensor, ...]:
    return joining.unstack(x, axis=axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis)


# Picking.


def _in_range(name: str, indices: Any, length: int, mode: Any) -> Any:
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"{name}: mode={mode!r} is not one of 'raise', 'wrap', 'clip'.")
    if mode == "wrap":
        return arithmetic.remainder(asarray(indices), length)
    return arithmetic.clip(indices, 0, length - 1) if mode == "clip" else indices


def take(a: Any, indices: Any, axis: Any = None, mode: Any = "raise") -> Tensor:
    if mode != "raise":
        length = asarray(a).size if axis is None else asarray(a).shape[axis]
        indices = _in_range("np.take", indices, length, mode)
    elif isinstance(indices, (list, tuple)):
        indices = np.asarray(indices, dtype=None if len(indices) else int)
    return indexing.take(a, indices, axis=axis)


def compress(condition: Any, a: Any, axis: Any = None) -> Tensor:
    flags = condition.numpy() if hasattr(condition, "enter") else np.asarray(condition)
    return indexing.take(a, np.flatnonzero(flags), axis=axis)


def delete(arr: Any, obj: Any, axis: Any = None) -> Tensor:
    arr = asarray(arr)
    length = arr.size if axis is None else arr.shape[axis]
    obj = obj.numpy() if hasattr(obj, "enter") else obj
    return indexing.take(arr, np.delete(np.arange(length), obj), axis=axis)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Tensor:
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


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return sorting.nonzero(condition)
    if x is None or y is None:
        raise ValueError(f"np.where: x={x} and y={y}. Give both, or neither.")
    return arithmetic.where(condition, x, y)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = arithmetic.where(condition, choice, result)
    return result


def choose(a: Any, choices: Any, mode: Any = "raise") -> Tensor:
    choices = [asarray(choice) for choice in choices]
    places = _in_range("np.choose", asarray(a), len(choices), mode)
    parts = movement.broadcast_arrays(places, *choices)
    rows = movement.expand_dims(parts[0], 0)
    return indexing.take_along_axis(joining.stack(parts[1:]), rows, axis=0)[0]


def argwhere(a: Any) -> Tensor:
    a = asarray(a)
    if not a.ndim:
        return creation.zeros((int(bool(a)), 0), dtype="int64")
    return joining.stack(sorting.nonzero(a), axis=1)


def extract(condition: Any, arr: Any) -> Tensor:
    return compress(ravel(condition), ravel(arr))


def sort(a: Any, axis: Any = -1) -> Tensor:
    return sorting.sort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def argsort(a: Any, axis: Any = -1) -> Tensor:
    return sorting.argsort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def partition(a: Any, kth: Any, axis: Any = -1) -> Tensor:
    # Sorted elements are in order around every one of them.
    return sort(a, axis)


def unique(
    ar: Any, return_index: Any = False, return_inverse: Any = False, return_counts: Any = False,
    axis: Any = None, *, equal_nan: Any = True, **kwargs: Any,
) -> Any:  # fmt: skip
    ar = asarray(ar)
    _, index, inverse, counts = np.unique(
        ar.numpy(), True, True, True, axis=axis, equal_nan=equal_nan
    )
    values = indexing.take(ar, index, axis=axis)
    wanted = (return_index, index), (return_inverse, inverse), (return_counts, counts)
    others = [asarray(found) for flag, found in wanted if flag]
    return (values, *others) if others else values


def diag(v: Any, k: Any = 0) -> Tensor:
    return triangles.diag(v, k=k)


def diagflat(v: Any, k: Any = 0) -> Tensor:
    return triangles.diag(ravel(v), k=k)


def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Tensor:
    return triangles.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None) -> Tensor:
    return reduction.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _triangle(ours: Function) -> Function:
    def call(m: Any, k: Any = 0) -> Tensor:
        m = asarray(m)
        if m.ndim == 1:  # NumPy makes a matrix of equal rows first
            m = movement.broadcast_to(m, (m.size, m.size))
        return ours(m, k=k)

    return call


def meshgrid(*xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    grids = joining.meshgrid(*[ravel(x) for x in xi], indexing=indexing)
    if sparse:
        order = [1, 0, *range(2, len(xi))] if indexing == "xy" and len(xi) > 1 else range(len(xi))
        flat = [ravel(x) for x in xi]
        grids = [
            movement.reshape(x, tuple(x.size if axis == at else 1 for axis in order))
            for at, x in enumerate(flat)
        ]
    return tuple(grids)


def diff(a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Tensor:
    if n == 0:  # NumPy joins nothing then
        return asarray(a)
    return joining.diff(a, n=n, axis=axis, prepend=prepend, append=append)


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    ary = ravel(ary)
    ends = [None if end is None else cast(ravel(end), ary.dtype) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], joining.diff(ary), ends[1]) if part is not None]
    return joining.concat(parts, axis=0) if len(parts) > 1 else parts[0]


def tile(A: Any, reps: Any) -> Tensor:
    return padding.tile(A, tuple(reps) if np.ndim(reps) else reps)


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    values = kwargs.pop("constant_values", 0)
    for name, value in kwargs.items():
        if not (name == "reflect_type" and value == "even"):
            raise refusal("np.pad", name, value)
    if callable(mode) or mode not in ("constant", *padding.COPYING):
        raise refusal("np.pad", "mode", mode)
    return padding.pad(array, pad_width, mode, values)


def astype(x: Any, dtype: Any, /, *, copy: Any = True) -> Tensor:
    return cast(x, dtype)


def _like(ours: Function, of_shape: Function) -> Function:
    def call(a: Any, /, dtype: Any = None, shape: Any = None) -> Tensor:
        if shape is None:
            return ours(a, dtype=dtype)
        return of_shape(shape, dtype=asarray(a).dtype if dtype is None else dtype)

    return call


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Tensor:
    a = asarray(a)
    dtype = a.dtype if dtype is None else dtype
    value = cast(asarray(fill_value), dtype)
    whole = a.shape if shape is None else (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return arithmetic.identity(movement.broadcast_to(value, whole))


def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: Any = False,
    dtype: Any = None, axis: Any = 0,
) -> Any:  # fmt: skip
    start, stop = asarray(start), asarray(stop)
    pieces = num - 1 if endpoint else num
    step = (stop - start) / (pieces if pieces > 0 else np.nan)
    parts = np.arange(num) / pieces if pieces > 0 else np.arange(num) * 0.0
    span = start.ndim if start.ndim > stop.ndim else stop.ndim
    weights = parts.reshape((num,) + (1,) * span)
    found = start * (1.0 - weights) + stop * weights
    found = movement.moveaxis(found, 0, axis) if axis != 0 else found
    if dtype is not None:
        whole = np.dtype(dtype).kind in "iu"
        found = cast(np.floor(found) if whole else found, dtype)
    return (found, step) if retstep else found


FUNCTIONS: dict[Function, Function] = {
    np.reshape: reshape, np.ravel: ravel, np.resize: resize, np.transpose: transpose,
    np.permute_dims: transpose, np.matrix_transpose: movement.matrix_transpose,
    np.rollaxis: rollaxis, np.rot90: rot90, np.flip: movement.flip,
    np.fliplr: _flipped("fliplr", 1), np.flipud: _flipped("flipud", 0),
    np.broadcast_to: movement.broadcast_to, np.expand_dims: movement.expand_dims,
    np.squeeze: movement.squeeze, np.moveaxis: movement.moveaxis, np.swapaxes: movement.swapaxes,
    np.roll: roll,
    np.broadcast_arrays: broadcast_arrays,
    np.atleast_1d: atleast_1d, np.atleast_2d: atleast_2d, np.atleast_3d: atleast_3d,
    np.concatenate: concatenate, np.stack: stack, np.hstack: hstack, np.vstack: vstack,
    np.dstack: dstack, np.column_stack: column_stack, np.append: append, np.block: block,
    np.split: split, np.array_split: array_split, np.unstack: unstack,
    np.hsplit: _split_along("hsplit", 1, 1), np.vsplit: _split_along("vsplit", 0, 2),
    np.dsplit: _split_along("dsplit", 2, 3),
    np.take: take, np.take_along_axis: indexing.take_along_axis, np.compress: compress,
    np.delete: delete, np.insert: insert, np.where: where, np.select: select, np.choose: choose,
    np.argwhere: argwhere, np.extract: extract, np.nonzero: sorting.nonzero,
    np.flatnonzero: lambda a: sorting.nonzero(ravel(a))[0], np.sort: sort, np.argsort: argsort,
    np.partition: partition,
    np.unique: unique, np.unique_all: sorting.unique_all, np.unique_counts: sorting.unique_counts,
    np.unique_inverse: sorting.unique_inverse, np.unique_values: sorting.unique_values,
    np.searchsorted: sorting.searchsorted, np.isin: sorting.isin, np.diag: diag,
    np.diagflat: diagflat, np.diagonal: diagonal, np.trace: trace,
    np.tril: _triangle(triangles.tril), np.triu: _triangle(triangles.triu),
    np.meshgrid: meshgrid, np.diff: diff, np.ediff1d: ediff1d, np.tile: tile,
    np.repeat: padding.repeat, np.pad: pad, np.astype: astype,
    np.zeros_like: _like(creation.zeros_like, creation.zeros),
    np.ones_like: _like(creation.ones_like, creation.ones),
    np.empty_like: _like(creation.empty_like, creation.empty), np.full_like: full_like,
    np.linspace: linspace, np.copy: arithmetic.identity,
}  # fmt: skip
