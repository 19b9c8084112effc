"""Batch rules: how an op is applied to operands with one more axis in front, that of examples.

A rule is called as `batch(inputs, batched, y, **params)`: `y` is the node of one example, `inputs`
are its operands, where each `batched` operand is replaced by a node with an additional axis 0.
The rule returns a node, or a tuple of nodes, with the axis of examples in front of the result.
An operand that is not batched is stretched only if the op cannot be applied otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ir import REGISTRY, Node, Rule, Shape, Spec, apply, closed, constant, outputs, spec
from gradtape.ir.node import placeholder

Inputs = tuple[Node, ...]
Flags = tuple[bool, ...]


def size_of(inputs: Inputs, batched: Flags) -> int:
    """The number of examples."""
    return next(node.shape[0] for node, flag in zip(inputs, batched, strict=True) if flag)


def reshaped(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else apply(REGISTRY["reshape"], (node,), (shape,))


def permuted(node: Node, axes: tuple[int, ...]) -> Node:
    if axes == tuple(range(node.ndim)):
        return node
    return apply(REGISTRY["permute_dims"], (node,), (axes,))


def moved(node: Node, source: int, target: int, count: int = 1) -> Node:
    """`count` neighbouring axes moved from one position to another."""
    block = list(range(source, source + count))
    rest = [axis for axis in range(node.ndim) if axis not in block]
    return permuted(node, (*rest[:target], *block, *rest[target:]))


def spread(node: Node, size: int) -> Node:
    """The same value for every example; a constant becomes a constant of the larger shape."""
    shape = (size, *node.shape)
    if node.op.name == "full":
        return constant(node.params[1], spec(shape, node.dtype))
    return apply(REGISTRY["broadcast_to"], (node,), (shape,))


def spread_all(inputs: Inputs, batched: Flags) -> Inputs:
    """All operands, each with an axis of examples."""
    size = size_of(inputs, batched)
    return tuple(
        node if flag else spread(node, size) for node, flag in zip(inputs, batched, strict=True)
    )


def lifted(node: Node, ndim: int) -> Node:
    """A batched operand whose examples get `ndim` axes: new axes of length 1 follow axis 0."""
    missing = ndim + 1 - node.ndim
    return reshaped(node, (node.shape[0], *(1,) * missing, *node.shape[1:]))


def aligned(inputs: Inputs, batched: Flags, ndim: int) -> Inputs:
    """Batched operands lifted, so that broadcasting aligns them with the others."""
    return tuple(
        lifted(node, ndim) if flag else node for node, flag in zip(inputs, batched, strict=True)
    )


def broadcasting(inputs: Inputs, batched: Flags, y: Node, **params: Any) -> Node:
    """The rule of ops that broadcast operands; params that are axes count from the last."""
    return apply(y.op, aligned(inputs, batched, y.ndim), y.params)


def leading(inputs: Inputs, batched: Flags, y: Node, **params: Any) -> Node:
    """The rule of ops on one operand that treat all leading axes as a batch already."""
    return apply(y.op, inputs, y.params)


def shifted(*names: str) -> Rule:
    """The rule of ops whose params `names` are axes (an int or a tuple), which move up by one."""

    def rule(inputs: Inputs, batched: Flags, y: Node, **params: Any) -> Node:
        later = dict(params)
        for name in names:
            axis = params[name]
            later[name] = axis + 1 if isinstance(axis, int) else tuple(one + 1 for one in axis)
        return apply(y.op, spread_all(inputs, batched), tuple(later[name] for name in y.op.params))

    return rule


def one_by_one(inputs: Inputs, batched: Flags, y: Node, **params: Any) -> Any:
    """The rule of last resort: one application for each example, and a stack of the results."""
    size = size_of(inputs, batched)
    found = [
        apply(
            y.op,
            tuple(
                example(node, number) if flag else node
                for node, flag in zip(inputs, batched, strict=True)
            ),
            y.params,
        )
        for number in range(size)
    ]
    if type(y.spec) is not tuple:
        return _stacked(found, y.spec)
    columns = [outputs(node) for node in found]
    return tuple(
        _stacked([row[position] for row in columns], of) for position, of in enumerate(y.spec)
    )


def by_scan(inputs: Inputs, batched: Flags, y: Node, **params: Any) -> Node:
    """The rule of ops whose result is not differentiated: a scan over the examples."""
    shared = [node for node, flag in zip(inputs, batched, strict=True) if not flag]
    rows = [node for node, flag in zip(inputs, batched, strict=True) if flag]
    outside = [placeholder(node.spec) for node in shared]
    inside = [placeholder(spec(node.shape[1:], node.dtype)) for node in rows]
    fixed, elements = iter(outside), iter(inside)
    operands = tuple(next(elements) if flag else next(fixed) for flag in batched)
    body = closed((*outside, *inside), (apply(y.op, operands, y.params),))
    # The body, the numbers of constants, of carried values and of steps, and two options.
    scan = (body, len(shared), 0, size_of(inputs, batched), False, False)
    return outputs(apply(REGISTRY["scan"], (*shared, *rows), scan))[0]


def rows_of(
    inputs: Inputs, over: Flags, batched: Flags, outer_size: int, inner_size: int
) -> tuple[Inputs, Flags]:
    """Operands with outer and inner axes of examples joined to one, and which of them have it."""
    rows = []
    for node, own, more in zip(inputs, over, batched, strict=True):
        if not own and not more:
            rows.append(node)
            continue
        if not more:
            node = spread(node, outer_size)
        elif not own:
            node = lifted(node, node.ndim)
            shape = (outer_size, inner_size, *node.shape[2:])
            node = apply(REGISTRY["broadcast_to"], (node,), (shape,))
        rows.append(reshaped(node, (outer_size * inner_size, *node.shape[2:])))
    return tuple(rows), tuple(own or more for own, more in zip(over, batched, strict=True))


def example(node: Node, number: int) -> Node:
    """Example number `number` of a batched node."""
    shape = node.shape
    starts = (number, *(0,) * (node.ndim - 1))
    part = (starts, (1, *shape[1:]), (1,) * node.ndim, shape[1:])
    return apply(REGISTRY["slice"], (node,), part)


def _stacked(nodes: list[Node], of: Spec) -> Node:
    if not nodes:
        return constant(0, spec((0, *of.shape), of.dtype))
    return apply(REGISTRY["stack"], tuple(nodes), (0,))


def numbers(size: int, step: int, ndim: int) -> Node:
    """0, step, 2 step, ..., one number per example, to be added to examples with `ndim` axes."""
    found = apply(REGISTRY["arange"], (), (0, size, 1, np.dtype(np.int64)))
    return reshaped(found if step == 1 else found * step, (size, *(1,) * ndim))


# Batch rules of ops that read and write by position: the rows of all examples are joined. Where
# positions differ from example to example, the tensors of all examples become one tensor with
# `size` times as many rows, and each example adds the number of rows before its own to positions.
def joined_rows(x: Node, axis: int) -> Node:
    """(size, ..., length, ...) to (size * length, ...), with `axis` counted in one example."""
    front = moved(x, axis + 1, 1)
    size, length, *rest = front.shape
    return reshaped(front, (size * length, *rest))


def parted_rows(rows: Node, size: int, axis: int) -> Node:
    """The inverse of `joined_rows`."""
    parted = reshaped(rows, (size, rows.shape[0] // size if size else 0, *rows.shape[1:]))
    return moved(parted, 1, axis + 1)


def joined_positions(indices: Node, length: int) -> Node:
    """The positions of each example, as positions in the joined rows."""
    if indices.dtype != np.dtype(np.int64):
        indices = apply(REGISTRY["cast"], (indices,), (np.dtype(np.int64),))
    return indices + numbers(indices.shape[0], length, indices.ndim - 1)


def gather(inputs: Inputs, batched: Flags, y: Node, axis: int) -> Node:
    """The rule of `gather`: each example reads its own tensor, or all examples read one."""
    x, indices = inputs
    if not batched[1]:
        return apply(y.op, inputs, (axis + 1,))
    if not batched[0]:
        return moved(apply(y.op, inputs, (axis,)), axis, 0)
    length = y.inputs[0].shape[axis]
    found = apply(y.op, (joined_rows(x, axis), joined_positions(indices, length)), (0,))
    # In the result, the axes of the indices replace the axis that was read.
    return moved(found, 1, axis + 1, indices.ndim - 1)


def write(inputs: Inputs, batched: Flags, y: Node, axis: int) -> Node:
    """The rule of scatters, which add or write values by position."""
    x, indices, values = inputs
    size = size_of(inputs, batched)
    x = x if batched[0] else spread(x, size)
    values = values if batched[2] else spread(values, size)
    if not batched[1]:
        return apply(y.op, (x, indices, values), (axis + 1,))
    if not size:
        return x
    length, count = y.inputs[0].shape[axis], indices.ndim - 1
    rows = joined_rows(x, axis)
    front = moved(values, axis + 1, 1, count)
    written = apply(y.op, (rows, joined_positions(indices, length), front), (0,))
    return parted_rows(written, size, axis)


def last_writer(inputs: Inputs, batched: Flags, y: Node, length: int) -> Node:
    """The rule of `last_writer`: in joined rows, examples never write to the same position."""
    (indices,) = inputs
    size = indices.shape[0]
    return apply(y.op, (joined_positions(indices, length),), (size * length,))


def scatter_argmax(inputs: Inputs, batched: Flags, y: Node) -> Node:
    """The rule of `scatter_argmax`: winners in joined rows, numbered from 0 in each example."""
    x, indices, values = spread_all(inputs, batched)
    size = x.shape[0]
    if not size:
        return constant(0, spec((0, *y.shape), y.dtype))
    positions = joined_positions(indices, y.inputs[0].shape[0])
    winner = apply(y.op, (joined_rows(x, 0), positions, values))
    winner = parted_rows(winner, size, 0)
    own = winner - numbers(size, y.inputs[1].size, y.ndim)
    return apply(REGISTRY["where"], (winner < 0, winner, own))
