"""NumPy's functions that pick, sort and find elements, with NumPy's parameter names."""

from __future__ import annotations

import numpy as np

from gradtape.interop.numpy_protocols.arranging import ravel
from gradtape.interop.numpy_protocols.binding import AnyFunction, same_names
from gradtape.ops.arrays import creation, indexing, joining, movement, sorting
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.families.casting import cast
from gradtape.tensor.tensor import asarray

__all__ = ["FUNCTIONS"]


def _in_range(name, indices, length, mode):
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"{name}: mode={mode!r} is not one of 'raise', 'wrap', 'clip'.")
    if mode == "wrap":
        return arithmetic.remainder(asarray(indices), length)
    return arithmetic.clip(indices, 0, length - 1) if mode == "clip" else indices


def take(a, indices, axis=None, mode="raise"):
    if mode != "raise":
        length = asarray(a).size if axis is None else asarray(a).shape[axis]
        indices = _in_range("np.take", indices, length, mode)
    elif isinstance(indices, (list, tuple)):
        indices = np.asarray(indices, dtype=None if len(indices) else int)
    return indexing.take(a, indices, axis=axis)


def compress(condition, a, axis=None):
    flags = condition.numpy() if hasattr(condition, "enter") else np.asarray(condition)
    return indexing.take(a, np.flatnonzero(flags), axis=axis)


def delete(arr, obj, axis=None):
    arr = asarray(arr)
    length = arr.size if axis is None else arr.shape[axis]
    obj = obj.numpy() if hasattr(obj, "enter") else obj
    return indexing.take(arr, np.delete(np.arange(length), obj), axis=axis)


def insert(arr, obj, values, axis=None):
    arr = asarray(arr)
    values = cast(asarray(values), arr.dtype)
    obj = obj.numpy() if hasattr(obj, "enter") else obj
    # NumPy's own insert, of the numbers of all elements, gives the place of each.
    old = np.arange(arr.size).reshape(arr.shape)
    new = arr.size + np.arange(values.size).reshape(values.shape)
    both = joining.concat([ravel(arr), ravel(values)], axis=0)
    return indexing.take(both, np.insert(old, obj, new, axis))


def where(condition, x=None, y=None, /):
    if x is None and y is None:
        return sorting.nonzero(condition)
    if x is None or y is None:
        raise ValueError(f"np.where: x={x} and y={y}. Give both, or neither.")
    return arithmetic.where(condition, x, y)


def select(condlist, choicelist, default=0):
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = arithmetic.where(condition, choice, result)
    return result


def choose(a, choices, mode="raise"):
    choices = [asarray(choice) for choice in choices]
    places = _in_range("np.choose", asarray(a), len(choices), mode)
    parts = movement.broadcast_arrays(places, *choices)
    rows = movement.expand_dims(parts[0], 0)
    return indexing.take_along_axis(joining.stack(parts[1:]), rows, axis=0)[0]


def argwhere(a):
    a = asarray(a)
    if not a.ndim:
        return creation.zeros((int(bool(a)), 0), dtype="int64")
    return joining.stack(sorting.nonzero(a), axis=1)


def extract(condition, arr):
    return compress(ravel(condition), ravel(arr))


def sort(a, axis=-1):
    return sorting.sort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def argsort(a, axis=-1):
    return sorting.argsort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def partition(a, kth, axis=-1):
    # Sorted elements are in order around every one of them.
    return sort(a, axis)


def unique(
    ar,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    *,
    equal_nan=True,
    **kwargs,
):
    ar = asarray(ar)
    _, index, inverse, counts = np.unique(
        ar.numpy(), True, True, True, axis=axis, equal_nan=equal_nan
    )
    values = indexing.take(ar, index, axis=axis)
    wanted = (return_index, index), (return_inverse, inverse), (return_counts, counts)
    others = [asarray(found) for flag, found in wanted if flag]
    return (values, *others) if others else values


FUNCTIONS: dict[AnyFunction, AnyFunction] = {
    **same_names(
        np,
        globals(),
        "take compress delete insert where select choose argwhere extract sort argsort "
        "partition unique",
    ),
    np.take_along_axis: indexing.take_along_axis,
    **same_names(
        np,
        vars(sorting),
        "nonzero unique_all unique_counts unique_inverse unique_values searchsorted isin",
    ),
    np.flatnonzero: lambda a: sorting.nonzero(ravel(a))[0],
}
