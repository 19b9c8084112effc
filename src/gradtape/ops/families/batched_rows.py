"""Batch rules of ops that read and write by position: the rows of all examples are joined.

Where positions differ from example to example, the tensors of all examples become one tensor with
`size` times as many rows, and each example adds the number of rows before its own to positions.
"""

from __future__ import annotations

import numpy as np

from gradtape.graph import REGISTRY, Node, apply, constant, spec
from gradtape.ops.families import batching


def joined_rows(x: Node, axis: int) -> Node:
    """(size, ..., length, ...) to (size * length, ...), with `axis` counted in one example."""
    front = batching.moved(x, axis + 1, 1)
    size, length, *rest = front.shape
    return batching.reshaped(front, (size * length, *rest))


def parted_rows(rows: Node, size: int, axis: int) -> Node:
    """The inverse of `joined_rows`."""
    parted = batching.reshaped(rows, (size, rows.shape[0] // size if size else 0, *rows.shape[1:]))
    return batching.moved(parted, 1, axis + 1)


def joined_positions(indices: Node, length: int) -> Node:
    """The positions of each example, as positions in the joined rows."""
    if indices.dtype != np.dtype(np.int64):
        indices = apply(REGISTRY["cast"], (indices,), (np.dtype(np.int64),))
    return indices + batching.numbers(indices.shape[0], length, indices.ndim - 1)


def gather(inputs: batching.Inputs, batched: batching.Flags, y: Node, axis: int) -> Node:
    """The rule of `gather`: each example reads its own tensor, or all examples read one."""
    x, indices = inputs
    if not batched[1]:
        return apply(y.op, inputs, (axis + 1,))
    if not batched[0]:
        return batching.moved(apply(y.op, inputs, (axis,)), axis, 0)
    length = y.inputs[0].shape[axis]
    found = apply(y.op, (joined_rows(x, axis), joined_positions(indices, length)), (0,))
    # In the result, the axes of the indices replace the axis that was read.
    return batching.moved(found, 1, axis + 1, indices.ndim - 1)


def write(inputs: batching.Inputs, batched: batching.Flags, y: Node, axis: int = 0) -> Node:
    """The rule of scatters, which add or write values by position."""
    x, indices, values = inputs
    size = batching.size_of(inputs, batched)
    x = x if batched[0] else batching.spread(x, size)
    values = values if batched[2] else batching.spread(values, size)
    if not batched[1]:
        op = REGISTRY["scatter_add"] if y.op.name == "scatter_add_rows" else y.op
        return apply(op, (x, indices, values), (axis + 1,))
    if not size:
        return x
    length, count = y.inputs[0].shape[axis], indices.ndim - 1
    rows = joined_rows(x, axis)
    front = batching.moved(values, axis + 1, 1, count)
    params = () if y.op.name == "scatter_add_rows" else (0,)
    written = apply(y.op, (rows, joined_positions(indices, length), front), params)
    return parted_rows(written, size, axis)


def last_writer(inputs: batching.Inputs, batched: batching.Flags, y: Node, length: int) -> Node:
    """The rule of `last_writer`: in joined rows, examples never write to the same position."""
    (indices,) = inputs
    size = indices.shape[0]
    return apply(y.op, (joined_positions(indices, length),), (size * length,))


def scatter_argmax(inputs: batching.Inputs, batched: batching.Flags, y: Node) -> Node:
    """The rule of `scatter_argmax`: winners in joined rows, numbered from 0 in each example."""
    x, indices, values = batching.spread_all(inputs, batched)
    size = x.shape[0]
    if not size:
        return constant(0, spec((0, *y.shape), y.dtype))
    positions = joined_positions(indices, y.inputs[0].shape[0])
    winner = apply(y.op, (joined_rows(x, 0), positions, values))
    winner = parted_rows(winner, size, 0)
    own = winner - batching.numbers(size, y.inputs[1].size, y.ndim)
    return apply(REGISTRY["where"], (winner < 0, winner, own))
