"""Seeded values: a linear graph applied to all unit seeds at once, keeping the structure they have.

A Jacobian is a linear graph (tangents forward, or cotangents backward) applied to every seed of a
space of shape S. The identity that this begins with is mostly zeros, and stays so through
element-wise layers and views. So a value is kept as

    value[dense seed axes ..., axes of the node ...], zero wherever a tied pair differs,

where a seed axis is either *dense*, an axis of its own in front, or *tied* to an axis of the node:
only elements whose indices there differ by a fixed offset are not zero. The identity is all ties
and ones. A product with a vector keeps ties, a slice changes an offset, a sum over a tied axis
makes it dense without adding anything, and a matrix product that contracts a tied axis multiplies
elements: the Jacobian of `A @ x` is `A`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.graph.node import PICK, Node, apply, constant, pick
from gradtape.graph.op import REGISTRY
from gradtape.graph.spec import Shape, spec
from gradtape.graph.walk import topological
from gradtape.ops.arrays.movement import permute, reshape_node
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.ops.families.shapes import broadcast_to
from gradtape.transforms.batch import batch_all

# Node axis, seed axis, and how much larger the index of the seed is.
Tie = tuple[int, int, int]


@dataclass(frozen=True)
class Seeded:
    """The response of a node to every seed."""

    value: Node
    # Seed axes in front of the value, ascending.
    dense: tuple[int, ...]
    ties: tuple[Tie, ...]


Rule = Callable[[Node, Sequence[Seeded | None], Shape], Seeded | None]
# By op: how structure passes through. Filled by gradtape.transforms.seeded_rules.
RULES: dict[str, Rule] = {}


def identity_seeds(of: Any) -> Seeded:
    """Every element of a value of this spec as a seed of its own."""
    # Ties of length 1 say nothing: such axes are dense from the start.
    long = tuple(axis for axis, n in enumerate(of.shape) if n != 1)
    dense = tuple(axis for axis, n in enumerate(of.shape) if n == 1)
    ones = constant(1, spec((1,) * len(dense) + of.shape, of.dtype))
    return Seeded(ones, dense, tuple((axis, axis, 0) for axis in long))


def row_seeds(of: Any) -> Seeded:
    """The elements of a row as seeds, the same for every row: the first axis has none."""
    rows = identity_seeds(spec(of.shape[1:], of.dtype))
    lead = len(rows.dense)
    shape = rows.value.shape[:lead] + of.shape
    return Seeded(
        constant(1, spec(shape, of.dtype)),
        rows.dense,
        tuple((axis + 1, seed, 0) for axis, seed, _ in rows.ties),
    )


def respond(outputs: Iterable[Node], seed: Node, start: Seeded, space: Shape) -> list[Any]:
    """The response of each output of a graph that is linear in `seed`; None if it has none."""
    outputs = list(outputs)
    found: dict[Node, Seeded] = {seed: start}
    for node in topological(outputs, stop={seed}):
        if node in found:
            continue
        operands = [found.get(parent) for parent in node.inputs]
        if all(operand is None for operand in operands):
            continue
        rule = RULES.get(node.op.name)
        result = rule(node, operands, space) if rule is not None else None
        found[node] = one_by_one(node, operands, space) if result is None else result
    return [found.get(output) for output in outputs]


def one_by_one(node: Node, operands: Sequence[Seeded | None], space: Shape) -> Seeded:
    """What always works: all seed axes dense, as one batch axis."""
    if node.op is PICK:
        (several,) = operands
        assert several is not None
        outputs: Any = several.value
        position = node.params[0]
        part = outputs[position] if isinstance(outputs, tuple) else pick(outputs, position)
        return _spread(part, node.shape, space)
    batched = {
        parent: _flat(dense_form(operand, parent, space), parent, space)
        for parent, operand in zip(node.inputs, operands, strict=True)
        if operand is not None
    }
    (value,) = batch_all([node], batched, math.prod(space))
    if type(node.spec) is tuple:
        return Seeded(value, tuple(range(len(space))), ())
    return _spread(value, node.shape, space)


def _flat(seeded: Seeded, node: Node, space: Shape) -> Node:
    if type(node.spec) is tuple:  # has one batch axis already
        return seeded.value
    return reshape_node(seeded.value, (math.prod(space), *node.shape))


def _spread(value: Node, shape: Shape, space: Shape) -> Seeded:
    return Seeded(reshape_node(value, (*space, *shape)), tuple(range(len(space))), ())


def dense_form(seeded: Seeded, node: Node, space: Shape) -> Seeded:
    """The same without ties."""
    if type(node.spec) is tuple or not seeded.ties:
        return seeded
    return untied(seeded, node.shape, space, seeded.ties)


def untied(seeded: Seeded, shape: Shape, space: Shape, ties: Iterable[Tie]) -> Seeded:
    """The same with some ties written out as zeros beside the diagonal."""
    for tie in ties:
        axis, seed, offset = tie
        place = sum(other < seed for other in seeded.dense)
        dense = (*seeded.dense[:place], seed, *seeded.dense[place:])
        old = seeded.value.shape
        widened = reshape_node(seeded.value, (*old[:place], 1, *old[place:]))
        ndim = len(dense) + len(shape)
        seeds = _along(numbered(0, space[seed]), place, ndim)
        elements = _along(numbered(offset, offset + shape[axis]), len(dense) + axis, ndim)
        value = where(equal(seeds, elements), widened, constant(0, spec((), widened.dtype)))
        seeded = Seeded(value, dense, tuple(other for other in seeded.ties if other != tie))
    return seeded


def numbered(start: int, stop: int) -> Node:
    return apply(REGISTRY["arange"], (), (start, stop, 1, np.dtype(np.int32)))


def _along(numbers: Node, axis: int, ndim: int) -> Node:
    return reshape_node(numbers, (1,) * axis + numbers.shape + (1,) * (ndim - axis - 1))


def jacobian_forward(seeded: Seeded | None, target: Node, source: Any) -> Node:
    """The Jacobian, target axes first, from responses of the target to seeds of the source."""
    if seeded is None:
        return constant(0, spec(target.shape + source.shape, target.dtype))
    full = dense_form(seeded, target, source.shape).value
    full = broadcast_to(full, (*source.shape, *target.shape))
    count = len(source.shape)
    axes = (*range(count, full.ndim), *range(count))
    return permute(full, axes) if axes != tuple(range(full.ndim)) else full


def jacobian_reverse(seeded: Seeded | None, target: Any, source: Node) -> Node:
    """The same from responses of the source to seeds of the target."""
    if seeded is None:
        return constant(0, spec(target.shape + source.shape, source.dtype))
    full = dense_form(seeded, source, target.shape).value
    return broadcast_to(full, (*target.shape, *source.shape))
