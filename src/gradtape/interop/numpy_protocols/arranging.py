"""NumPy's functions that make, join, split and rearrange tensors, with NumPy's parameter names."""

from __future__ import annotations

import operator

import numpy as np

from gradtape.interop.numpy_protocols.binding import AnyFunction, refusal, same_names
from gradtape.ops.arrays import creation, indexing, joining, movement, padding, triangles
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.families.casting import cast
from gradtape.ops.families.shapes import normalize_axis
from gradtape.ops.reductions import reduction
from gradtape.tensor.tensor import asarray

__all__ = ["FUNCTIONS"]


def _by_columns(name, order):
    """Whether elements are read column by column. NumPy's other orders follow the memory."""
    if order is not None and order not in ("C", "F", "c", "f"):
        raise ValueError(
            f"{name}: order={order!r} is not 'C' or 'F'. A tensor has no memory layout to follow. "
            "Pass one of these."
        )
    return order in ("F", "f")


def _reversed_axes(a):
    return movement.permute_dims(a, tuple(reversed(range(a.ndim))))


def reshape(a, shape, order="C", copy=None):
    if not _by_columns("np.reshape", order):
        return movement.reshape(a, shape, copy=copy)
    lengths = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return _reversed_axes(movement.reshape(_reversed_axes(asarray(a)), lengths[::-1]))


def ravel(a, order="C"):
    a = asarray(a)
    return movement.reshape(_reversed_axes(a) if _by_columns("np.ravel", order) else a, (a.size,))


def resize(a, new_shape):
    flat = ravel(a)
    places = np.resize(np.arange(flat.size), new_shape)
    if not flat.size:
        return creation.zeros(places.shape, dtype=flat.dtype)
    return indexing.take(flat, places)


def transpose(a, axes=None):
    a = asarray(a)
    return _reversed_axes(a) if axes is None else movement.permute_dims(a, axes)


def roll(a, shift, axis=None):
    a = asarray(a)
    if axis is None:
        return movement.reshape(roll(ravel(a), shift, 0), a.shape)
    shifts: dict[int, int] = {}
    for each, along in np.broadcast(shift, axis):
        place = normalize_axis("roll", int(along), a.ndim)
        shifts[place] = shifts.get(place, 0) + operator.index(each)
    return movement.roll(a, tuple(shifts.values()), axis=tuple(shifts))


def rollaxis(a, axis, start=0):
    a = asarray(a)
    axis = normalize_axis("rollaxis", axis, a.ndim)
    start = start + a.ndim if start < 0 else start
    return movement.moveaxis(a, axis, start - 1 if axis < start else start)


def rot90(m, k=1, axes=(0, 1)):
    m = asarray(m)
    first, second = (normalize_axis("rot90", axis, m.ndim) for axis in axes)
    if first == second:
        raise ValueError(f"np.rot90: axes={tuple(axes)} are one axis. Give two.")
    found = m
    for _ in range(operator.index(k) % 4):
        found = movement.swapaxes(movement.flip(found, axis=second), first, second)
    return m.copy() if found is m else found


def _flipped(name, axis):
    def call(m):
        m = asarray(m)
        if m.ndim <= axis:
            raise ValueError(f"np.{name}: shape {m.shape} needs {axis + 1} axes or more.")
        return movement.flip(m, axis=axis)

    return call


def _at_least(theirs):
    def one(a):
        a = asarray(a)
        shape = theirs(np.broadcast_to(0, a.shape)).shape
        return a if shape == a.shape else movement.reshape(a, shape)

    def call(*arys):
        return one(arys[0]) if len(arys) == 1 else tuple(one(a) for a in arys)

    return call


atleast_1d, atleast_2d, atleast_3d = map(_at_least, (np.atleast_1d, np.atleast_2d, np.atleast_3d))


def broadcast_arrays(*args):
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


def _joined(parts, dtype, casting):
    tensors = [asarray(part) for part in parts]
    if dtype is None and (casting == "same_kind" or not tensors):
        return tensors
    dtype = np.result_type(*[t.dtype for t in tensors]) if dtype is None else dtype
    for tensor in tensors:
        if not np.can_cast(tensor.dtype, dtype, casting):
            raise TypeError(
                f"np.concatenate: casting={casting!r} does not allow {tensor.dtype} to become "
                f"{np.dtype(dtype)}. Cast with gt.cast first."
            )
    return [cast(tensor, dtype) for tensor in tensors]


def concatenate(arrays, /, axis=0, *, dtype=None, casting="same_kind"):
    return joining.concat(_joined(arrays, dtype, casting), axis=axis)


def stack(arrays, axis=0, *, dtype=None, casting="same_kind"):
    return joining.stack(_joined(arrays, dtype, casting), axis=axis)


def hstack(tup, *, dtype=None, casting="same_kind"):
    tensors = [atleast_1d(part) for part in tup]
    axis = 0 if tensors and tensors[0].ndim == 1 else 1
    return joining.concat(_joined(tensors, dtype, casting), axis=axis)


def vstack(tup, *, dtype=None, casting="same_kind"):
    return joining.concat(_joined([atleast_2d(part) for part in tup], dtype, casting), axis=0)


def dstack(tup):
    return joining.concat([atleast_3d(part) for part in tup], axis=2)


def column_stack(tup):
    parts = [asarray(part) for part in tup]
    return joining.concat([transpose(atleast_2d(p)) if p.ndim < 2 else p for p in parts], axis=1)


def append(arr, values, axis=None):
    if axis is None:
        return joining.concat([ravel(arr), ravel(values)], axis=0)
    return joining.concat([asarray(arr), asarray(values)], axis=axis)


def _depth(nest):
    return 1 + max(map(_depth, nest)) if isinstance(nest, list) else 0


def block(arrays):
    depth = _depth(arrays)

    def joined(nest, axis):
        if not isinstance(nest, list):
            a = asarray(nest)
            return movement.reshape(a, (1,) * (depth - a.ndim) + a.shape) if a.ndim < depth else a
        parts = [joined(item, axis + 1) for item in nest]
        ndim = max(part.ndim for part in parts)
        parts = [movement.reshape(p, (1,) * (ndim - p.ndim) + p.shape) for p in parts]
        return joining.concat(parts, axis=axis - depth)

    return joined(arrays, 0) if depth else asarray(arrays)


# Splitting.


def _sections(sections):
    return sections.numpy() if hasattr(sections, "enter") else sections


def split(ary, indices_or_sections, axis=0):
    return list(joining.split(ary, _sections(indices_or_sections), axis=axis))


def array_split(ary, indices_or_sections, axis=0):
    sections = _sections(indices_or_sections)
    if np.ndim(sections):
        return split(ary, sections, axis)
    sizes = [len(part) for part in np.array_split(np.arange(asarray(ary).shape[axis]), sections)]
    return split(ary, np.cumsum(sizes[:-1], dtype=int), axis)


def _split_along(name, axis, least):
    def call(ary, indices_or_sections):
        ary = asarray(ary)
        if ary.ndim < least:
            raise ValueError(f"np.{name}: shape {ary.shape} needs {least} axes or more.")
        return split(ary, indices_or_sections, 0 if ary.ndim == 1 else axis)

    return call


def unstack(x, /, *, axis=0):
    return joining.unstack(x, axis=axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis)


# Diagonals, differences, and new tensors.


def diagflat(v, k=0):
    return triangles.diag(ravel(v), k=k)


def diagonal(a, offset=0, axis1=0, axis2=1):
    return triangles.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


def trace(a, offset=0, axis1=0, axis2=1, dtype=None):
    return reduction.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


def _triangle(ours):
    def call(m, k=0):
        m = asarray(m)
        if m.ndim == 1:  # NumPy makes a matrix of equal rows first
            m = movement.broadcast_to(m, (m.size, m.size))
        return ours(m, k=k)

    return call


def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    grids = joining.meshgrid(*[ravel(x) for x in xi], indexing=indexing)
    if sparse:
        order = [1, 0, *range(2, len(xi))] if indexing == "xy" and len(xi) > 1 else range(len(xi))
        flat = [ravel(x) for x in xi]
        grids = [
            movement.reshape(x, tuple(x.size if axis == at else 1 for axis in order))
            for at, x in enumerate(flat)
        ]
    return tuple(grids)


def diff(a, n=1, axis=-1, prepend=None, append=None):
    if n == 0:  # NumPy joins nothing then
        return asarray(a)
    return joining.diff(a, n=n, axis=axis, prepend=prepend, append=append)


def ediff1d(ary, to_end=None, to_begin=None):
    ary = ravel(ary)
    ends = [None if end is None else cast(ravel(end), ary.dtype) for end in (to_begin, to_end)]
    parts = [part for part in (ends[0], joining.diff(ary), ends[1]) if part is not None]
    return joining.concat(parts, axis=0) if len(parts) > 1 else parts[0]


def tile(A, reps):
    return padding.tile(A, tuple(reps) if np.ndim(reps) else reps)


def pad(array, pad_width, mode="constant", **kwargs):
    values = kwargs.pop("constant_values", 0)
    for name, value in kwargs.items():
        if not (name == "reflect_type" and value == "even"):
            raise refusal("np.pad", name, value)
    if callable(mode) or mode not in ("constant", *padding.COPYING):
        raise refusal("np.pad", "mode", mode)
    return padding.pad(array, pad_width, mode, values)


def astype(x, dtype, /, *, copy=True):
    return cast(x, dtype)


def _like(ours, of_shape):
    def call(a, /, dtype=None, shape=None):
        if shape is None:
            return ours(a, dtype=dtype)
        return of_shape(shape, dtype=asarray(a).dtype if dtype is None else dtype)

    return call


def full_like(a, fill_value, dtype=None, shape=None):
    a = asarray(a)
    dtype = a.dtype if dtype is None else dtype
    value = cast(asarray(fill_value), dtype)
    whole = a.shape if shape is None else (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return arithmetic.identity(movement.broadcast_to(value, whole))


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
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


FUNCTIONS: dict[AnyFunction, AnyFunction] = {
    **same_names(
        np,
        globals(),
        "reshape ravel resize transpose rollaxis rot90 roll broadcast_arrays atleast_1d "
        "atleast_2d atleast_3d concatenate stack hstack vstack dstack column_stack append "
        "block split array_split unstack diagflat diagonal trace meshgrid diff ediff1d "
        "tile pad astype full_like linspace",
    ),
    **same_names(
        np,
        vars(movement),
        "matrix_transpose flip broadcast_to expand_dims squeeze moveaxis swapaxes",
    ),
    np.diag: triangles.diag,
    np.repeat: padding.repeat,
    np.permute_dims: transpose,
    np.fliplr: _flipped("fliplr", 1),
    np.flipud: _flipped("flipud", 0),
    np.hsplit: _split_along("hsplit", 1, 1),
    np.vsplit: _split_along("vsplit", 0, 2),
    np.dsplit: _split_along("dsplit", 2, 3),
    np.tril: _triangle(triangles.tril),
    np.triu: _triangle(triangles.triu),
    np.zeros_like: _like(creation.zeros_like, creation.zeros),
    np.ones_like: _like(creation.ones_like, creation.ones),
    np.empty_like: _like(creation.empty_like, creation.empty),
    np.copy: arithmetic.identity,
}
