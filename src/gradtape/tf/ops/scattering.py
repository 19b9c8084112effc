"""Scattering: updates written to positions of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.errors import IndexRangeError, ShapeError
from gradtape.ops.arrays import scatter as core
from gradtape.ops.arrays.creation import zeros
from gradtape.ops.arrays.movement import reshape
from gradtape.ops.arrays.positions import known_value
from gradtape.ops.families.casting import cast
from gradtape.tf.base.conversion import as_shape, convert
from gradtape.tf.base.dispatch import operation
from gradtape.tf.base.table import documented, named_in
from gradtape.tf.base.tensor import Tensor
from gradtape.tf.base.types import Array, Name, ShapeLike, TensorLike
from gradtape.tf.ops.indexing import as_indices, require_no_policy

__all__ = [
    "scatter_nd", "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub", "tensor_scatter_nd_update",
]  # fmt: skip


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
        column = cast(places[..., k], np.dtype(np.int64))
        flat = column if flat is None else flat * front[k] + column
    if flat is None:
        flat = convert(np.zeros(places.spec.shape[:-1], np.int64))
    merged = reshape(x, (math.prod(front), *rest))
    return merged, reshape(flat, (count,)), reshape(updates, (count, *rest))


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
    return reshape(function(*rows), whole.spec.shape)


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
    nothing = zeros(as_shape(shape), dtype=added.spec.dtype)
    return _scattered("scatter_nd", core.scatter_add, nothing, indices, added)


@operation
def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: Name = None
) -> Tensor:
    """The tensor with elements or slices at positions replaced.

    >>> tf.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [7, 8]).numpy().tolist()
    [7, 2, 8]
    """
    return _scattered("tensor_scatter_nd_update", core.scatter_set, tensor, indices, updates)


def _scatter(
    function: Callable[..., Any], negate: str, sentence: str, example: str, result: str
) -> Callable[..., Tensor]:
    """A row: gradtape's function, of the updates, of everything, or of nothing negated."""
    own = named_in(example)

    def scatter(
        tensor: TensorLike,
        indices: TensorLike,
        updates: TensorLike,
        bad_indices_policy: str = "",
        name: Name = None,
    ) -> Tensor:
        require_no_policy(own, bad_indices_policy)
        x = convert(tensor)
        if not negate:
            return _scattered(own, function, x, indices, updates)
        negated = -convert(updates, x.dtype)
        if negate == "updates":
            return _scattered(own, function, x, indices, negated)
        return -_scattered(own, function, -x, indices, negated)

    return operation(documented(scatter, __name__, sentence, example, result))


# fmt: off
tensor_scatter_nd_add = _scatter(core.scatter_add, "",
    "The tensor with updates added at positions.",
    "tf.tensor_scatter_nd_add([1, 2, 3], [[0], [0]], [7, 8]).numpy().tolist()", "[16, 2, 3]")
tensor_scatter_nd_sub = _scatter(core.scatter_add, "updates",
    "The tensor with updates subtracted at positions.",
    "tf.tensor_scatter_nd_sub([1, 2, 3], [[0]], [7]).numpy().tolist()", "[-6, 2, 3]")
tensor_scatter_nd_max = _scatter(core.scatter_max, "",
    "The tensor with elements raised to the updates where these are larger.",
    "tf.tensor_scatter_nd_max([1, 2, 3], [[0], [2]], [7, 0]).numpy().tolist()", "[7, 2, 3]")
tensor_scatter_nd_min = _scatter(core.scatter_max, "all",
    "The tensor with elements lowered to the updates where these are smaller.",
    "tf.tensor_scatter_nd_min([1, 2, 3], [[0], [2]], [7, 0]).numpy().tolist()", "[1, 2, 0]")
# fmt: on
