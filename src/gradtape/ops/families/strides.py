"""Access: how a value lies in memory, which a view shares with the node that it is a view of."""

from __future__ import annotations

import math
from typing import NamedTuple

from gradtape.caches import remembered
from gradtape.ir import Node, Shape, View

Strides = tuple[int, ...]


class Access(NamedTuple):
    """The place of a value in the memory of `base`; `offset` and `strides` count elements."""

    base: Node
    shape: Shape
    strides: Strides
    offset: int = 0

    def is_contiguous(self) -> bool:
        expected = row_major(self.shape)
        return all(
            n == 1 or a == b for n, a, b in zip(self.shape, self.strides, expected, strict=True)
        )

    def stretched(self, shape: Shape) -> Strides:
        """Strides of this value broadcast to a shape."""
        lead = len(shape) - len(self.shape)
        return (0,) * lead + tuple(
            0 if n == 1 else stride for n, stride in zip(self.shape, self.strides, strict=True)
        )


@remembered(1024)
def row_major(shape: Shape) -> Strides:
    """Strides of a contiguous array."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def whole(node: Node) -> Access:
    """The access to a value that has contiguous memory of its own."""
    shape = node.spec.shape
    return Access(node, shape, row_major(shape))


def is_strided_view(node: Node) -> bool:
    """Whether a node is a view of one operand, which `viewed` can try to express by strides."""
    return node.op.view not in (None, View.OTHER) and len(node.inputs) == 1


def viewed(node: Node, source: Access) -> Access | None:
    """How a view reads its operand's memory; None for other nodes, or if it needs a copy."""
    match node.op.view:
        case View.RESHAPE:
            return reshaped(source, node.shape)
        case View.BROADCAST:
            return Access(source.base, node.shape, source.stretched(node.shape), source.offset)
        case View.PERMUTE:
            (axes,) = node.params
            strides = tuple(source.strides[axis] for axis in axes)
            return Access(source.base, node.shape, strides, source.offset)
        case View.SLICE if len(node.inputs) == 1:
            starts, lengths, steps, shape = node.params
            pairs = list(zip(starts, steps, source.strides, strict=True))
            offset = source.offset + sum(start * stride for start, _, stride in pairs)
            strides = tuple(step * stride for _, step, stride in pairs)
            return reshaped(Access(source.base, tuple(lengths), strides, offset), shape)
    return None


def reshaped(source: Access, shape: Shape) -> Access | None:
    """The same memory in another shape; None if no strides express that."""
    if math.prod(shape) == 0 or source.is_contiguous():
        return Access(source.base, shape, row_major(shape), source.offset)
    old = [(n, s) for n, s in zip(source.shape, source.strides, strict=True) if n != 1]
    strides: list[int] = []
    position = 0
    remaining, step = 1, 0
    # Walk the new axes from the left, taking old axes apart; a new axis may not join two old ones
    # unless they already lie one after the other in memory.
    for n in shape:
        if n == 1:
            strides.append(0)
            continue
        if remaining == 1:
            if position == len(old):
                return None
            remaining, step = old[position]
            position += 1
        while remaining % n and position < len(old):
            m, inner = old[position]
            if step != inner * m:
                return None
            remaining, step = remaining * m, inner
            position += 1
        if remaining % n:
            return None
        remaining //= n
        strides.append(step * remaining)
    return Access(source.base, shape, tuple(strides), source.offset)
