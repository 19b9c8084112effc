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

from collections.abc import Iterable

import numpy as np

from gradtape.ir import Node, Shape, Spec, apply, constant, spec
from gradtape.ops.arrays.creation import ARANGE
from gradtape.ops.arrays.movement import reshape_node
from gradtape.ops.elementwise.arithmetic import equal, where
from gradtape.records import dataclass

# Node axis, seed axis, and how much larger the index of the seed is.
Tie = tuple[int, int, int]


@dataclass(frozen=True)
class Seeded:
    """The response of a node to every seed."""

    value: Node
    # Seed axes in front of the value, ascending.
    dense: tuple[int, ...]
    ties: tuple[Tie, ...]


def identity_seeds(of: Spec) -> Seeded:
    """Every element of a value of this spec as a seed of its own."""
    # Ties of length 1 say nothing: such axes are dense from the start.
    long = tuple(axis for axis, n in enumerate(of.shape) if n != 1)
    dense = tuple(axis for axis, n in enumerate(of.shape) if n == 1)
    ones = constant(1, spec((1,) * len(dense) + of.shape, of.dtype))
    return Seeded(ones, dense, tuple((axis, axis, 0) for axis in long))


def row_seeds(of: Spec) -> Seeded:
    """The elements of a row as seeds, the same for every row: the first axis has none."""
    rows = identity_seeds(spec(of.shape[1:], of.dtype))
    lead = len(rows.dense)
    shape = rows.value.shape[:lead] + of.shape
    return Seeded(
        constant(1, spec(shape, of.dtype)),
        rows.dense,
        tuple((axis + 1, seed, 0) for axis, seed, _ in rows.ties),
    )


def dense_form(seeded: Seeded, node: Node, space: Shape) -> Seeded:
    """The same without ties."""
    return untied(seeded, node.shape, space, seeded.ties) if seeded.ties else seeded


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
    """The numbers from `start` up to `stop`."""
    return apply(ARANGE, (), (start, stop, 1, np.dtype(np.int32)))


def _along(numbers: Node, axis: int, ndim: int) -> Node:
    return reshape_node(numbers, (1,) * axis + numbers.shape + (1,) * (ndim - axis - 1))
