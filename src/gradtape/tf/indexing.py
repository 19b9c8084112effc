"""Look-ups: gather, where, slices and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.errors import DtypeError, ShapeError
from gradtape.ops.arrays import indexing as core
from gradtape.ops.arrays.movement import moveaxis, reshape
from gradtape.ops.arrays.sorting import nonzero
from gradtape.ops.elementwise import arithmetic
from gradtape.ops.families.casting import cast
from gradtape.tf.conversion import as_int, as_shape, common, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.dtypes import as_dtype, float32
from gradtape.tf.tensor import Tensor

__all__ = [
    "boolean_mask", "gather", "gather_nd", "one_hot", "slice", "strided_slice", "where",
]  # fmt: skip


def as_indices(name: str, indices: Any) -> Tensor:
    """Integer indices as a tensor."""
    found = convert(indices)
    if found.spec.dtype.kind not in "iu":
        if not found.spec.size:  # an empty list says nothing of its dtype
            return cast(found, np.dtype(np.int32))
        raise DtypeError(
            f"{name}: indices of dtype {found.dtype.name} are not integers. Cast them."
        )
    return found


@operation
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: Any = 0,
    name: str | None = None,
) -> Tensor:
    """Slices of `params` at indices along an axis, for each of the leading `batch_dims` axes.

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
    """Raise an error unless indices that do not fit are to be errors."""
    if policy not in ("", "DEFAULT", "ERROR"):
        raise ValueError(
            f"{name}: bad_indices_policy={policy!r} is not covered; indices that do not fit are "
            "errors. Leave it out, and mask them with tf.where."
        )


@operation
def gather_nd(
    params: Any,
    indices: Any,
    batch_dims: Any = 0,
    name: str | None = None,
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
    columns: tuple[Any, ...] = tuple(places[..., k] for k in range(depth))
    if batch:
        ndim = places.ndim - 1
        rows = [np.arange(n).reshape((n,) + (1,) * (ndim - at - 1)) for at, n in enumerate(lead)]
        columns = (*rows, *columns)
    if not columns:
        shape = (*places.spec.shape[:-1], *x.spec.shape)
        return arithmetic.identity(_stretched(x, shape))
    return x[columns]


def _stretched(x: Any, shape: tuple[int, ...]) -> Any:
    from gradtape.ops.arrays.movement import broadcast_to

    return broadcast_to(x, shape)


@operation
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """x where the condition holds, y elsewhere; alone, where it holds, as rows of indices.

    >>> tf.where([True, False], [1.0, 2.0], 0.0).numpy().tolist()
    [1.0, 0.0]
    >>> tf.where([False, True]).numpy().tolist()
    [[1]]

    The branch not taken never sends back a NaN.
    """
    chosen = convert(condition)
    if x is None and y is None:
        found = nonzero(chosen)
        from gradtape.ops.arrays.joining import stack

        return stack(list(found), axis=1)
    if x is None or y is None:
        raise ValueError("where: x and y must both be given, or neither.")
    if chosen.spec.dtype.kind != "b":
        raise DtypeError(f"where: a condition of dtype {chosen.dtype.name} is not bool. Cast it.")
    first, second = common([x, y], "where")
    return arithmetic.where(chosen, first, second)


@operation
def boolean_mask(tensor: Any, mask: Any, axis: Any = None, name: str = "boolean_mask") -> Tensor:
    """The elements or slices for which a mask holds; the mask is computed now.

    >>> tf.boolean_mask([1, 2, 3], [True, False, True]).numpy().tolist()
    [1, 3]
    """
    x, chosen = convert(tensor), convert(mask)
    at = 0 if axis is None else int(axis) % max(x.ndim, 1)
    shape = chosen.spec.shape
    if not shape:
        raise ValueError("boolean_mask: the mask cannot be a scalar.")
    if x.spec.shape[at : at + len(shape)] != shape:
        raise ShapeError(
            f"boolean_mask: a mask of shape {shape} does not fit the tensor of shape {x.shape}."
        )
    flat = reshape(x, (*x.spec.shape[:at], -1, *x.spec.shape[at + len(shape) :]))
    places = np.flatnonzero(np.asarray(chosen.read()))
    return core.take(flat, places, axis=at)


@operation
def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """A part of a tensor: where it begins along each axis, and its lengths, -1 for all the rest.

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


_part: Any = type(np.s_[:])


@operation
def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """What `x[begin:end:strides]` gives, with one entry for each axis.

    >>> tf.strided_slice([1, 2, 3, 4], [0], [4], [2]).numpy().tolist()
    [1, 3]
    """
    if var is not None:
        raise ValueError("strided_slice: var is not covered. Use v[begin:end].assign(value).")
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
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """One value at the index and another elsewhere, along a new axis, the last by default.

    >>> tf.one_hot([0, 2], 3).numpy().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    places = as_indices("one_hot", indices)
    if dtype is None:
        given = [convert(v).dtype for v in (on_value, off_value) if v is not None]
        dtype = given[0] if given else float32
    wanted = as_dtype(dtype).dtype
    if on_value is None and off_value is None:
        found = core.one_hot(places, int(depth), wanted)
    else:
        chosen = core.one_hot(places, int(depth), np.dtype(bool))
        on, off = (
            convert(default if value is None else value, hint=wanted)
            for value, default in ((on_value, 1), (off_value, 0))
        )
        found = arithmetic.where(chosen, cast(on, wanted), cast(off, wanted))
    last = found.ndim - 1
    at = last if axis is None or axis == -1 else int(axis)
    return found if at == last else moveaxis(found, last, at)
