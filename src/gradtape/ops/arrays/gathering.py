"""Gather and scatter along one axis: elements read, added to or replaced by position.

Positions are operands, not params, and are in range: `positions.py` checked them when they were
recorded. Gather and scatter-add are each other's transpose.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.config import DENSE_GATHERS
from gradtape.dtypes import Array
from gradtape.errors import ShapeError
from gradtape.ir import Node, Op, Rows, Rule, Shape, Spec, apply, constant, spec
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.arrays.positions import require_integers
from gradtape.ops.arrays.slicing import cast_value
from gradtape.ops.elementwise.arithmetic import WHERE
from gradtape.ops.families import (
    batching,
    broadcast_to,
    cast,
    independence,
    kind_of_operand,
    memory_copies,
)
from gradtape.ops.families.define import define
from gradtape.ops.families.native_code import NativeCall
from gradtape.ops.families.samples import Sample, generator, uniform
from gradtape.ops.families.sparsity import (
    SAME,
    Reads,
    RuleInput,
    agreeing,
    moved,
    numbered,
)
from gradtape.trace.record import record

if TYPE_CHECKING:
    from gradtape.ops.families.signatures import Tensor, TensorLike
    from gradtape.ops.families.sparsity import OpReads

INT64 = np.dtype(np.int64)


def as_positions(name: str, indices: Node) -> Node:
    require_integers(name, indices.dtype)
    return cast(indices, INT64)


def _read_promote(name: str) -> Rule:
    return lambda inputs: (inputs[0], as_positions(name, inputs[1]))


def _write_promote(name: str) -> Rule:
    return lambda inputs: (
        inputs[0],
        as_positions(name, inputs[1]),
        cast_value(name, inputs[0], inputs[2]),
    )


def _lines(shape: Shape, result: Shape, axis: int, tail: int) -> Reads:
    """Reads at unknown positions: each element may depend on all elements along `axis`.

    `tail` counts the axes behind `axis`, which stay last whatever the rank of the positions.
    """
    pairs = [(at, at) for at in range(axis)]
    pairs += [(len(shape) - at, len(result) - at) for at in range(tail, 0, -1)]
    return agreeing(shape, result, pairs)


def _read_sparsity(y: Node, operands: tuple[RuleInput, ...], axis: int) -> OpReads:
    x, indices = operands
    if indices.value is None:
        return (_lines(x.shape, y.shape, axis, x.ndim - axis - 1), None)
    return moved(y, operands, axis=axis)


def _added_sparsity(read: Rule) -> Rule:
    """The sparsity of scatter-add: `read` finds the target of each value; x stays in place."""

    def sparsity(y: Node, operands: tuple[RuleInput, ...], axis: int) -> OpReads:
        _, indices, values = operands
        if not values.active:
            return (SAME, None, None)
        if indices.value is None:
            return (SAME, None, _lines(values.shape, y.shape, axis, y.ndim - axis - 1))
        targets = read(numbered(y.shape), indices.value, axis)
        return (SAME, None, Reads(groups=np.reshape(targets, -1), count=y.size))

    return sparsity


def _set_sparsity(y: Node, operands: tuple[RuleInput, ...], axis: int) -> OpReads:
    if operands[1].value is None:
        return (SAME, None, _lines(operands[2].shape, y.shape, axis, y.ndim - axis - 1))
    return moved(y, operands, axis=axis)


def gathered_shape(shape: Shape, indices: Shape, axis: int) -> Shape:
    return (*shape[:axis], *indices, *shape[axis + 1 :])


def _same_shape(name: str, x: Spec, values: Spec, expected: Shape) -> Spec:
    if values.shape != expected:
        raise ShapeError(
            f"{name}: values of shape {values.shape} do not fit the positions of a tensor of shape "
            f"{x.shape}. They need shape {expected}."
        )
    return x


def add_rows(result: Array, rows: Array, values: Array) -> Array:
    """Add `values[i]` to `result[rows[i]]`, in place, where rows may repeat."""
    width = math.prod(result.shape[1:])
    flat = rows.reshape(-1)
    if width != 1:
        # One flat index per element, because NumPy's `add.at` is several times slower on rows.
        wrapped = np.where(flat < 0, flat + len(result), flat)
        flat = (wrapped[:, None] * width + np.arange(width)).reshape(-1)
    np.add.at(result.reshape(-1), flat, np.reshape(values, -1))
    return result


def _scatter_add_numpy(x: Array, indices: Array, values: Array, axis: int) -> Array:
    indices, values = np.asarray(indices), np.asarray(values)
    if axis == 0:
        return add_rows(np.array(x, order="C"), indices, values)
    front = np.moveaxis(values, range(axis, axis + indices.ndim), range(indices.ndim))
    result = add_rows(np.array(np.moveaxis(x, axis, 0), order="C"), indices, front)
    return np.moveaxis(result, 0, axis)


def _gather_transpose(g: Node, x: Node, indices: Node, axis: int) -> Node | Rows:
    if axis == 0 and indices.size < DENSE_GATHERS * x.shape[0]:
        values = reshape_node(g, (indices.size, *x.shape[1:]))
        return Rows(reshape_node(indices, (indices.size,)), values, x.spec)
    return apply(SCATTER_ADD, (constant(0, x.spec), indices, g), (axis,))


def _samples(*cases: tuple[Shape, Any, int], along: bool = False, values: bool = False) -> Rule:
    """Samples of an operand's shape, positions and an axis; some with values to write there."""

    def samples() -> list[Sample]:
        rng = generator("along_axis" if along else "gather")
        found = []
        for dtype in ("float64", "complex128", "float32", "int32", *([] if values else ["bool"])):
            for shape, listed, axis in cases:
                indices = np.asarray(listed)
                chosen = indices.shape if along else gathered_shape(shape, indices.shape, axis)
                shapes = (shape, chosen) if values else (shape,)
                x, *more = (uniform(rng, (-2, 2), one, dtype) for one in shapes)
                found.append(Sample((x, indices, *more), {"axis": axis}))
        return found

    return samples


_ROWS: list[tuple[Shape, Any, int]] = [
    ((4, 2), [3, 0, 3], 0),
    ((2, 4), [[1, 1], [0, 2]], 1),
    ((3,), 2, 0),
    ((2, 3, 2), [2, 0], 1),
    ((3, 2), np.zeros(0, int), 0),
    ((3, 0), [1], 0),
]
_LINES: list[tuple[Shape, Any, int]] = [
    ((2, 3), [[2, 0, 1, 1], [0, 0, 2, 1]], 1),
    ((3, 2), [[0, 2], [1, 1]], 0),
    ((2, 2, 2), [[[1, 0]], [[0, 1]]], 1),
    ((2, 3), np.zeros((2, 0), int), 1),
]
GATHER = define(
    "gather",
    "indexing",
    spec=lambda x, indices, axis: spec(gathered_shape(x.shape, indices.shape, axis), x.dtype),
    numpy=np.take,
    promote=_read_promote("gather"),
    weak=(0,),
    transpose=_gather_transpose,
    batch=batching.gather,
    examples=independence.gathered,
    sparsity=_read_sparsity,
    copies=memory_copies.gather(),
    samples=_samples(*_ROWS),
)


def _scatter_spec(name: str) -> Rule:
    return lambda x, indices, values, axis: _same_shape(
        name, x, values, gathered_shape(x.shape, indices.shape, axis)
    )


SCATTER_ADD = define(
    "scatter_add",
    "indexing",
    spec=_scatter_spec("scatter_add"),
    numpy=_scatter_add_numpy,
    promote=_write_promote("scatter_add"),
    weak=(0, 2),
    vjp=lambda index, g, y, inputs, axis: (
        g if index == 0 else apply(GATHER, (g, inputs[1]), (axis,))
    ),
    batch=batching.write,
    examples=independence.scattered,
    sparsity=_added_sparsity(np.take),
    copies=memory_copies.scatter(adds=True),
    expensive=True,
    samples=_samples(*_ROWS, values=True),
)


def _last_writer_numpy(indices: Array, length: int) -> Array:
    flat = np.reshape(indices, -1)
    order = np.arange(flat.size)
    last = np.zeros(length, np.int64)
    last[flat] = order
    return (last[flat] == order).reshape(np.shape(indices))


def _last_writer_natively(y: Node) -> NativeCall:
    (length,) = y.params
    return NativeCall("last_writers", (), (y.size,), 1, 2 * y.size, 8 * length)


LAST_WRITER = define(
    "last_writer",
    "indexing",
    params=("length",),
    spec=lambda indices, length: spec(indices.shape, np.dtype(bool)),
    numpy=_last_writer_numpy,
    undefined="last_writer gives booleans",
    batch=batching.last_writer,
    native=_last_writer_natively,
    samples=lambda: [
        Sample((np.array([[1, 0], [1, 2]]),), {"length": 3}),
        Sample((np.array(1),), {"length": 2}),
        Sample((np.zeros(0, int),), {"length": 0}),
    ],
    doc="Which of the writes to one position comes last, and so is the one that stays.",
)


def _winners(x: Node, indices: Node, values: Node, axis: int) -> Node:
    """For each value, whether it is the last one written to its position, and so stays."""
    stays = apply(LAST_WRITER, (indices,), (x.shape[axis],))
    lines = reshape_node(stays, (*indices.shape, *(1,) * (x.ndim - axis - 1)))
    return broadcast_to(lines, values.shape)


def _scatter_set_numpy(x: Array, indices: Array, values: Array, axis: int) -> Array:
    result = np.array(x)
    result[(slice(None),) * axis + (indices,)] = values
    return result


def _scatter_set_vjp(index: int, g: Node, y: Node, inputs: tuple[Node, ...], axis: int) -> Node:
    x, indices, values = inputs
    nothing = constant(0, spec(values.shape, g.dtype))
    if index == 0:
        return apply(SCATTER_SET, (g, indices, nothing), (axis,))
    stays = _winners(x, indices, values, axis)
    return apply(WHERE, (stays, apply(GATHER, (g, indices), (axis,)), nothing))


SCATTER_SET = define(
    "scatter_set",
    "indexing",
    spec=_scatter_spec("scatter_set"),
    numpy=_scatter_set_numpy,
    promote=_write_promote("scatter_set"),
    weak=(0, 2),
    vjp=_scatter_set_vjp,
    # The reverse rule only moves elements or drops them, so it also carries the mask back.
    mask=lambda index, mask, y, inputs, axis: _scatter_set_vjp(index, mask, y, inputs, axis),
    batch=batching.write,
    examples=independence.scattered,
    sparsity=_set_sparsity,
    copies=memory_copies.scatter(adds=False),
    samples=_samples(*_ROWS, values=True),
)


def _along_spec(x: Spec, indices: Spec, axis: int) -> Spec:
    expected = (*x.shape[:axis], indices.shape[axis], *x.shape[axis + 1 :])
    if indices.shape != expected:
        raise ShapeError(
            f"take_along_axis: indices of shape {indices.shape} do not fit shape {x.shape}: only "
            f"axis {axis} may differ."
        )
    return spec(indices.shape, x.dtype)


def _add_along_numpy(x: Array, indices: Array, values: Array, axis: int) -> Array:
    result = np.array(x, order="C")
    length, inner = result.shape[axis], math.prod(result.shape[axis + 1 :])
    wrapped = np.where(indices < 0, indices + length, indices)
    outer = math.prod(result.shape[:axis])
    grouped = wrapped.reshape(outer, wrapped.shape[axis], inner)
    lines = np.arange(outer)[:, None, None]
    flat = (lines * length + grouped) * inner + np.arange(inner)
    np.add.at(result.reshape(-1), flat.reshape(-1), np.reshape(values, -1))
    return result


TAKE_ALONG_AXIS = define(
    "take_along_axis",
    "indexing",
    spec=_along_spec,
    numpy=np.take_along_axis,
    promote=_read_promote("take_along_axis"),
    weak=(0,),
    transpose=lambda g, x, indices, axis: apply(
        ADD_ALONG_AXIS, (constant(0, x.spec), indices, g), (axis,)
    ),
    batch=batching.shifted("axis"),
    examples=independence.along_axes,
    sparsity=_read_sparsity,
    copies=memory_copies.gather(along=True),
    samples=_samples(*_LINES, along=True),
)
ADD_ALONG_AXIS: Op = define(
    "add_along_axis",
    "indexing",
    spec=lambda x, indices, values, axis: _same_shape(
        "add_along_axis", x, values, _along_spec(x, indices, axis).shape
    ),
    numpy=_add_along_numpy,
    promote=_write_promote("add_along_axis"),
    weak=(0, 2),
    vjp=lambda index, g, y, inputs, axis: (
        g if index == 0 else apply(TAKE_ALONG_AXIS, (g, inputs[1]), (axis,))
    ),
    batch=batching.shifted("axis"),
    examples=independence.along_axes,
    sparsity=_added_sparsity(np.take_along_axis),
    copies=memory_copies.scatter(adds=True, along=True),
    expensive=True,
    samples=_samples(*_LINES, along=True, values=True),
)


@kind_of_operand
def gather_host(x: TensorLike, positions: Array, axis: int) -> Tensor:
    """Gather at positions in a host array, which the caller guarantees to be in range."""
    return record(GATHER, (x, positions), (axis,))
