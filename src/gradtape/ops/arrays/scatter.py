"""Writing to rows by index: set, add and max, with values of shape indices.shape + x.shape[1:]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.errors import ShapeError
from gradtape.ir import Node, spec
from gradtape.ops.arrays import gathering
from gradtape.ops.arrays.movement import broadcast_to, reshape
from gradtape.ops.arrays.positions import as_operand, checked, shape_of
from gradtape.ops.elementwise.arithmetic import identity, maximum, where
from gradtape.ops.families import Sample, batching, generator, promotion
from gradtape.ops.families.define import define
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.signatures import Tensor, TensorLike, kind_of_operand
from gradtape.trace.record import record


def _operands(name: str, x: Any, indices: Any, values: Any) -> tuple[Any, Any, Any]:
    x = as_operand(x)
    if not x.ndim:
        raise ShapeError(f"{name}: a 0-d tensor has no rows. Reshape it to one axis.")
    positions = checked(name, indices, 0, x.shape[0])
    values = as_operand(values)
    shape = gathering.gathered_shape(x.shape, shape_of(positions), 0)
    if values.shape != shape:
        values = broadcast_to(values, shape)
    return x, positions, values


@kind_of_operand
def scatter_set(x: TensorLike, indices: TensorLike, values: TensorLike, /) -> Tensor:
    """The tensor with rows replaced; of several values for one row the last stays.

    >>> gt.scatter_set(gt.asarray([1.0, 2.0, 3.0]), [2, 0], [5.0, 6.0]).tolist()
    [6.0, 2.0, 5.0]
    """
    return record(gathering.SCATTER_SET, _operands("scatter_set", x, indices, values), (0,))


@kind_of_operand
def scatter_add(x: TensorLike, indices: TensorLike, values: TensorLike, /) -> Tensor:
    """The tensor with values added to rows; several values for one row all add.

    >>> gt.scatter_add(gt.asarray([1.0, 2.0, 3.0]), [2, 2], [5.0, 6.0]).tolist()
    [1.0, 2.0, 14.0]
    """
    return record(gathering.SCATTER_ADD, _operands("scatter_add", x, indices, values), (0,))


def _argmax_numpy(x: np.ndarray, indices: np.ndarray, values: np.ndarray) -> np.ndarray:
    """For each element of x, the number of the largest value written there, or -1 if x stays."""
    width = math.prod(x.shape[1:])
    rows = np.reshape(indices, -1)
    before, given = np.reshape(x, (len(x), width)), np.reshape(values, (rows.size, width))
    best = np.array(before)
    np.maximum.at(best, rows, given)
    old = before[rows]
    exceeds = ~((old >= given) | np.isnan(old)) & ((given == best[rows]) | np.isnan(given))
    number, column = np.nonzero(exceeds)
    winner = np.full(best.shape, -1, np.int64)
    # Reversed, so that among equal values the first one is written last and stays.
    winner[rows[number[::-1]], column[::-1]] = number[::-1]
    return winner.reshape(x.shape)


def _argmax_promote(inputs: Any) -> Any:
    x, values = promotion("scatter_max", "same", "real")((inputs[0], inputs[2]))
    return x, gathering.as_positions("scatter_max", inputs[1]), values


def _argmax_samples() -> list[Sample]:
    rng = generator("scatter_argmax")
    return [
        Sample((rng.normal(size=(3, 2)), np.array([0, 2, 0, 0]), rng.normal(size=(4, 2)))),
        Sample((np.array([1, 2, 3]), np.array([[1, 1], [0, 2]]), np.array([[5, 5], [1, 0]]))),
        Sample((np.array([1.0, np.nan]), np.array([1, 0]), np.array([3.0, np.nan])), order=0),
        Sample((np.zeros((2, 0)), np.array([1]), np.zeros((1, 0)))),
        Sample((np.zeros(2, np.float32), np.zeros(0, int), np.zeros(0, np.float32))),
    ]


def _argmax_natively(y: Node) -> NativeCall | None:
    x, indices, values = y.inputs
    if x.dtype.kind == "c":
        return None
    width, count = math.prod(x.shape[1:]), indices.size
    words, work = (width, count, x.shape[0]), x.size + 3 * values.size
    return NativeCall("scatter_winners", (x.dtype.str[1:],), words, width, work)


SCATTER_ARGMAX = define(
    "scatter_argmax",
    "indexing",
    spec=lambda x, indices, values: spec(x.shape, np.dtype(np.int64)),
    numpy=_argmax_numpy,
    promote=_argmax_promote,
    weak=(0, 2),
    params=(),
    undefined="scatter_argmax gives integers",
    batch=batching.scatter_argmax,
    expensive=True,
    native=_argmax_natively,
    samples=_argmax_samples,
)


@kind_of_operand
def scatter_max(x: TensorLike, indices: TensorLike, values: TensorLike, /) -> Tensor:
    """The tensor with rows raised to the values where these are larger.

    The derivative goes to the element that was chosen: the tensor's own in a tie, then the first.

    >>> gt.scatter_max(gt.asarray([1.0, 2.0, 3.0]), [2, 2], [5.0, 4.0]).tolist()
    [1.0, 2.0, 5.0]
    """
    target, positions, updates = _operands("scatter_max", x, indices, values)
    count = math.prod(shape_of(positions))
    if not count:
        return identity(target)
    winner = record(SCATTER_ARGMAX, (target, positions, updates))
    rows = reshape(updates, (count, *target.shape[1:]))
    chosen = record(gathering.TAKE_ALONG_AXIS, (rows, maximum(winner, 0)), (0,))
    return where(winner < 0, target, chosen)
