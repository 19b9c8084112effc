"""Writing at positions: scatter_nd and its relatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.errors import IndexRangeError, ShapeError
from gradtape.ops.arrays import scatter as core
from gradtape.ops.arrays.creation import zeros
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.arrays.positions import known_value
from gradtape.ops.families.casting import cast
from gradtape.tf.conversion import as_shape, convert
from gradtape.tf.dispatch import operation
from gradtape.tf.indexing import as_indices, require_no_policy
from gradtape.tf.tensor import Tensor

__all__ = [
    "scatter_nd", "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub", "tensor_scatter_nd_update",
]  # fmt: skip


def _rows(name: str, x: Any, indices: Any, updates: Any) -> tuple[Any, Any, Any]:
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
        column = cast(places[..., k], np.dtype(np.int64))
        flat = column if flat is None else flat * front[k] + column
    if flat is None:
        flat = convert(np.zeros(places.spec.shape[:-1], np.int64))
    merged = reshape(x, (math.prod(front), *rest))
    return merged, reshape(flat, (count,)), reshape(updates, (count, *rest))


def _check_range(name: str, places: Any, lengths: tuple[int, ...]) -> None:
    if places.size and ((places < 0) | (places >= np.array(lengths))).any():
        raise IndexRangeError(f"{name}: an index is outside a tensor of shape {lengths} and more.")


def _scattered(name: str, function: Any, x: Any, indices: Any, updates: Any) -> Tensor:
    x = convert(x)
    updates = convert(updates, x.dtype)
    return reshape(function(*_rows(name, x, indices, updates)), x.spec.shape)


@operation
def scatter_nd(
    indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """A tensor of zeros with updates added at positions.

    >>> tf.scatter_nd([[0], [2], [0]], [1.0, 2.0, 3.0], [4]).numpy().tolist()
    [4.0, 0.0, 2.0, 0.0]
    """
    require_no_policy("scatter_nd", bad_indices_policy)
    updates = convert(updates)
    nothing = zeros(as_shape(shape), dtype=updates.spec.dtype)
    return _scattered("scatter_nd", core.scatter_add, nothing, indices, updates)


@operation
def tensor_scatter_nd_update(
    tensor: Any, indices: Any, updates: Any, name: str | None = None
) -> Tensor:
    """The tensor with elements or slices at positions replaced.

    >>> tf.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [7, 8]).numpy().tolist()
    [7, 2, 8]
    """
    return _scattered("tensor_scatter_nd_update", core.scatter_set, tensor, indices, updates)


@operation
def tensor_scatter_nd_add(
    tensor: Any,
    indices: Any,
    updates: Any,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with updates added at positions.

    >>> tf.tensor_scatter_nd_add([1, 2, 3], [[0], [0]], [7, 8]).numpy().tolist()
    [16, 2, 3]
    """
    require_no_policy("tensor_scatter_nd_add", bad_indices_policy)
    return _scattered("tensor_scatter_nd_add", core.scatter_add, tensor, indices, updates)


@operation
def tensor_scatter_nd_sub(
    tensor: Any,
    indices: Any,
    updates: Any,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with updates subtracted at positions.

    >>> tf.tensor_scatter_nd_sub([1, 2, 3], [[0]], [7]).numpy().tolist()
    [-6, 2, 3]
    """
    require_no_policy("tensor_scatter_nd_sub", bad_indices_policy)
    x = convert(tensor)
    negated = -convert(updates, x.dtype)
    return _scattered("tensor_scatter_nd_sub", core.scatter_add, x, indices, negated)


@operation
def tensor_scatter_nd_max(
    tensor: Any,
    indices: Any,
    updates: Any,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with elements raised to the updates where these are larger.

    >>> tf.tensor_scatter_nd_max([1, 2, 3], [[0], [2]], [7, 0]).numpy().tolist()
    [7, 2, 3]
    """
    require_no_policy("tensor_scatter_nd_max", bad_indices_policy)
    return _scattered("tensor_scatter_nd_max", core.scatter_max, tensor, indices, updates)


@operation
def tensor_scatter_nd_min(
    tensor: Any,
    indices: Any,
    updates: Any,
    bad_indices_policy: str = "",
    name: str | None = None,
) -> Tensor:
    """The tensor with elements lowered to the updates where these are smaller.

    >>> tf.tensor_scatter_nd_min([1, 2, 3], [[0], [2]], [7, 0]).numpy().tolist()
    [1, 2, 0]
    """
    require_no_policy("tensor_scatter_nd_min", bad_indices_policy)
    x = convert(tensor)
    return -tensor_scatter_nd_max(-x, indices, -convert(updates, x.dtype))
