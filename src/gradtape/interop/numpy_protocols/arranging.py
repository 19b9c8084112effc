"""NumPy's functions that make, join, split and rearrange tensors, with NumPy's parameter names."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np

from gradtape.interop.numpy_protocols.binding import Function, refusal
from gradtape.ops.arrays import creation, joining, movement, padding, triangles
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axis
from gradtape.ops.reductions import reduction
from gradtape.tensor.tensor import Tensor, asarray

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import DTypeLike, ShapeLike, TensorLike

Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]

__all__ = ["FUNCTIONS"]


def _by_columns(name: str, order: str | None) -> bool:
    """Whether elements are read column by column. NumPy's other orders follow the memory."""
    if order is not None and order not in ("C", "F", "c", "f"):
        raise ValueError(
            f"{name}: order={order!r} is not 'C' or 'F'. A tensor has no memory layout to follow. "
            "Pass one of these."
        )
    return order in ("F", "f")


def _reversed_axes(a: Tensor) -> Tensor:
    return movement.permute_dims(a, tuple(reversed(range(a.ndim))))


def reshape(a: TensorLike, shape: Any, order: str | None = "C", copy: bool | None = None) -> Tensor:
    if not _by_columns("np.reshape", order):
        return movement.reshape(a, shape, copy=copy)
    lengths = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return _reversed_axes(movement.reshape(_reversed_axes(asarray(a)), lengths[::-1]))


def ravel(a: TensorLike, order: str | None = "C") -> Tensor:
    a = asarray(a)
    return movement.reshape(_reversed_axes(a) if _by_columns("np.ravel", order) else a, (a.size,))


def resize(a: TensorLike, new_shape: Any) -> Tensor:
    flat = ravel(a)
    shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    count = int(np.prod(shape))
    if not flat.size:
        return creation.zeros(shape, dtype=flat.dtype)
    times = -(-count // flat.size)
    return movement.reshape(padding.tile(flat, times)[:count], shape)


def transpose(a: TensorLike, axes: Sequence[SupportsIndex] | None = None) -> Tensor:
    a = asarray(a)
    return _reversed_axes(a) if axes is None else movement.permute_dims(a, axes)


def roll(
    a: TensorLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Tensor:
    a = asarray(a)
    if axis is None:
        return movement.reshape(roll(ravel(a), shift, 0), a.shape)
    shifts: dict[int, int] = {}
    for each, along in np.broadcast(shift, axis):
        place = normalize_axis("roll", int(along), a.ndim)
        shifts[place] = shifts.get(place, 0) + operator.index(each)
    return movement.roll(a, tuple(shifts.values()), axis=tuple(shifts))


def rollaxis(a: TensorLike, axis: int, start: int = 0) -> Tensor:
    a = asarray(a)
    axis = normalize_axis("rollaxis", axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return movement.moveaxis(a, axis, start - 1 if axis < start else start)


def rot90(m: TensorLike, k: SupportsIndex = 1, axes: Sequence[SupportsIndex] = (0, 1)) -> Tensor:
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
    def call(m: TensorLike) -> Tensor:
        m = asarray(m)
        if m.ndim <= axis:
            raise ValueError(f"np.{name}: shape {m.shape} needs {axis + 1} axes or more.")
        return movement.flip(m, axis=axis)

    return call


def _at_least(ndim: int) -> Function:
    def one(a: TensorLike) -> Tensor:
        a = asarray(a)
        if a.ndim >= ndim:
            return a
        if ndim == 3:  # NumPy puts a row in the middle and a matrix in front
            shape = {0: (1, 1, 1), 1: (1, *a.shape, 1), 2: (*a.shape, 1)}[a.ndim]
        else:
            shape = (1,) * (ndim - a.ndim) + a.shape
        return movement.reshape(a, shape)

    def call(*arys: TensorLike) -> Tensor | tuple[Tensor, ...]:
        return one(arys[0]) if len(arys) == 1 else tuple(one(a) for a in arys)

    return call


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


def broadcast_arrays(*args: Any) -> tuple[Tensor | np.ndarray, ...]:
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


def _joined(parts: Iterable[TensorLike], dtype: DTypeLike | None, casting: Casting) -> list[Tensor]:
    tensors = [asarray(part) for part in parts]
    if dtype is None:
        if casting != "same_kind" and tensors:
            found = np.result_type(*[t.dtype for t in tensors])
            _check_cast(tensors, found, casting)
        return tensors
    _check_cast(tensors, dtype, casting)
    return [cast(tensor, dtype) for tensor in tensors]


def _check_cast(tensors: Sequence[Tensor], dtype: DTypeLike, casting: Casting) -> None:
    for tensor in tensors:
        if not np.can_cast(tensor.dtype, dtype, casting):
            raise TypeError(
                f"np.concatenate: casting={casting!r} does not allow {tensor.dtype} to become "
                f"{np.dtype(dtype)}. Cast with gt.cast first."
            )


def concatenate(
    arrays: Sequence[TensorLike],
    /,
    axis: int = 0,
    *,
    dtype: DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Tensor:
    return joining.concat(_joined(arrays, dtype, casting), axis=axis)


def stack(
    arrays: Sequence[TensorLike],
    axis: int = 0,
    *,
    dtype: DTypeLike | None = None,
    casting: Casting = "same_kind",
) -> Tensor:
    return joining.stack(_joined(arrays, dtype, casting), axis=axis)


def hstack(
    tup: Sequence[TensorLike], *, dtype: DTypeLike | None = None, casting: Casting = "same_kind"
) -> Tensor:
    tensors = [atleast_1d(part) for part in tup]
    axis = 0 if tensors and tensors[0].ndim == 1 else 1
    return joining.concat(_joined(tensors, dtype, casting), axis=axis)


def vstack(
    tup: Sequence[TensorLike], *, dtype: DTypeLike | None = None, casting: Casting = "same_kind"
) -> Tensor:
    return joining.concat(_joined([atleast_2d(part) for part in tup], dtype, casting), axis=0)


def dstack(tup: Sequence[TensorLike]) -> Tensor:
    return joining.concat([atleast_3d(part) for part in tup], axis=2)


def column_stack(tup: Sequence[TensorLike]) -> Tensor:
    parts = [asarray(part) for part in tup]
    return joining.concat([transpose(atleast_2d(p)) if p.ndim < 2 else p for p in parts], axis=1)


def append(arr: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    if axis is None:
        return joining.concat([ravel(arr), ravel(values)], axis=0)
    return joining.concat([asarray(arr), asarray(values)], axis=axis)


def _depth(nest: object) -> int:
    return 1 + max(map(_depth, nest)) if isinstance(nest, list) else 0


def block(arrays: TensorLike) -> Tensor:
    depth = _depth(arrays)

    def joined(nest: TensorLike, axis: int) -> Tensor:
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


def split(
    ary: TensorLike, indices_or_sections: ShapeLike | np.ndarray | Tensor, axis: int = 0
) -> list[Tensor]:
    return list(joining.split(ary, _sections("split", indices_or_sections), axis=axis))


def array_split(
    ary: TensorLike, indices_or_sections: ShapeLike | np.ndarray | Tensor, axis: int = 0
) -> list[Tensor]:
    sections = _sections("array_split", indices_or_sections)
    if np.ndim(sections):
        return split(ary, sections, axis)
    length, count = asarray(ary).shape[axis], operator.index(sections)
    if count <= 0:
        raise ValueError(f"np.array_split: {count} sections. Ask for one or more.")
    sizes = [length // count + (at < length % count) for at in range(count)]
    return split(ary, np.cumsum(sizes[:-1], dtype=int), axis)


def _split_along(name: str, axis: int, least: int) -> Function:
    def call(ary: TensorLike, indices_or_sections: ShapeLike | np.ndarray | Tensor) -> list[Tensor]:
        ary = asarray(ary)
        if ary.ndim < least:
            raise ValueError(f"np.{name}: shape {ary.shape} needs {least} axes or more.")
        return split(ary, indices_or_sections, 0 if ary.ndim == 1 else axis)

    return call


def unstack(x: TensorLike, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    return joining.unstack(x, axis=axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis)


# Diagonals, differences, and new tensors.


def diag(v: TensorLike, k: int = 0) -> Tensor:
    return triangles.diag(v, k=k)


def diagflat(v: TensorLike, k: int = 0) -> Tensor:
    return triangles.diag(ravel(v), k=k)


def diagonal(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return triangles.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


def trace(
    a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Tensor:
    return reduction.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _triangle(ours: Function) -> Function:
    def call(m: TensorLike, k: int = 0) -> Tensor:
        m = asarray(m)
        if m.ndim == 1:  # NumPy makes a matrix of equal rows first
            m = movement.broadcast_to(m, (m.size, m.size))
        return ours(m, k=k)

    return call


def meshgrid(
    *xi: TensorLike, copy: bool | None = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Tensor, ...]:
    grids = joining.meshgrid(*[ravel(x) for x in xi], indexing=indexing)
    if sparse:
        order = [1, 0, *range(2, len(xi))] if indexing == "xy" and len(xi) > 1 else range(len(xi))
        flat = [ravel(x) for x in xi]
        grids = [
            movement.reshape(x, tuple(x.size if axis == at else 1 for axis in order))
            for at, x in enumerate(flat)
        ]
    return tuple(grids)


def diff(
    a: TensorLike,
    n: int = 1,
    axis: int = -1,
    prepend: TensorLike | None = None,
    append: TensorLike | None = None,
) -> Tensor:
    if n == 0:  # NumPy joins nothing then
        return asarray(a)
    return joining.diff(a, n=n, axis=axis, prepend=prepend, append=append)


def ediff1d(
    ary: TensorLike, to_end: TensorLike | None = None, to_begin: TensorLike | None = None
) -> Tensor:
    ary = ravel(ary)
    ends = [None if end is None else cast(ravel(end), ary.dtype) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], joining.diff(ary), ends[1]) if part is not None]
    return joining.concat(parts, axis=0) if len(parts) > 1 else parts[0]


def tile(A: TensorLike, reps: Any) -> Tensor:
    return padding.tile(A, tuple(reps) if np.ndim(reps) else reps)


def pad(
    array: TensorLike,
    pad_width: ShapeLike | Sequence[ShapeLike],
    mode: str | Callable[..., object] = "constant",
    **kwargs: Any,
) -> Tensor:
    values = kwargs.pop("constant_values", 0)
    for name, value in kwargs.items():
        if not (name == "reflect_type" and value == "even"):
            raise refusal("np.pad", name, value)
    if callable(mode) or mode not in ("constant", *padding.COPYING):
        raise refusal("np.pad", "mode", mode)
    return padding.pad(array, pad_width, mode, values)


def astype(x: TensorLike, dtype: DTypeLike, /, *, copy: bool | None = True) -> Tensor:
    return cast(x, dtype)


def _like(ours: Function, of_shape: Function) -> Function:
    def call(
        a: TensorLike, /, dtype: DTypeLike | None = None, shape: ShapeLike | None = None
    ) -> Tensor:
        if shape is None:
            return ours(a, dtype=dtype)
        return of_shape(shape, dtype=asarray(a).dtype if dtype is None else dtype)

    return call


def full_like(
    a: TensorLike,
    fill_value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: Any = None,
) -> Tensor:
    a = asarray(a)
    dtype = a.dtype if dtype is None else dtype
    value = cast(asarray(fill_value), dtype)
    whole = a.shape if shape is None else (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return arithmetic.identity(movement.broadcast_to(value, whole))


def linspace(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor | tuple[Tensor, Tensor]:
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
    np.reshape: reshape,
    np.ravel: ravel,
    np.resize: resize,
    np.transpose: transpose,
    np.permute_dims: transpose,
    np.matrix_transpose: movement.matrix_transpose,
    np.rollaxis: rollaxis,
    np.rot90: rot90,
    np.flip: movement.flip,
    np.fliplr: _flipped("fliplr", 1),
    np.flipud: _flipped("flipud", 0),
    np.broadcast_to: movement.broadcast_to,
    np.expand_dims: movement.expand_dims,
    np.squeeze: movement.squeeze,
    np.moveaxis: movement.moveaxis,
    np.swapaxes: movement.swapaxes,
    np.roll: roll,
    np.broadcast_arrays: broadcast_arrays,
    np.atleast_1d: atleast_1d,
    np.atleast_2d: atleast_2d,
    np.atleast_3d: atleast_3d,
    np.concatenate: concatenate,
    np.stack: stack,
    np.hstack: hstack,
    np.vstack: vstack,
    np.dstack: dstack,
    np.column_stack: column_stack,
    np.append: append,
    np.block: block,
    np.split: split,
    np.array_split: array_split,
    np.unstack: unstack,
    np.hsplit: _split_along("hsplit", 1, 1),
    np.vsplit: _split_along("vsplit", 0, 2),
    np.dsplit: _split_along("dsplit", 2, 3),
    np.diag: diag,
    np.diagflat: diagflat,
    np.diagonal: diagonal,
    np.trace: trace,
    np.tril: _triangle(triangles.tril),
    np.triu: _triangle(triangles.triu),
    np.meshgrid: meshgrid,
    np.diff: diff,
    np.ediff1d: ediff1d,
    np.tile: tile,
    np.repeat: padding.repeat,
    np.pad: pad,
    np.astype: astype,
    np.zeros_like: _like(creation.zeros_like, creation.zeros),
    np.ones_like: _like(creation.ones_like, creation.ones),
    np.empty_like: _like(creation.empty_like, creation.empty),
    np.full_like: full_like,
    np.linspace: linspace,
    np.copy: arithmetic.identity,
}
