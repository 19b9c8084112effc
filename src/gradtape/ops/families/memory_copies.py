"""Copies: ops that move elements, as copies from memory to memory that run in list order.

These are the rules `copies(y, access)` of ops that only move elements. Concatenation is one copy
per operand; a slice put into zeros is a copy and fills around it; a gather is a copy whose source
address depends on an index; in a scatter the target address does. Each copy runs as its own loop.
`access(node)` is the Access of an operand, or None for a constant. A rule returns None if strides
cannot express how its operands lie in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from gradtape.config import MOST_COPIED_OPERANDS
from gradtape.ir import OPERATORS, Join, Node, Shape, spec
from gradtape.ops.families.strides import Access, Strides, reshaped, row_major, whole
from gradtape.records import dataclass


@dataclass(frozen=True)
class Index:
    """An index that adds `step` elements per position to an address; `last` is the highest one."""

    positions: Node
    strides: Strides
    step: int
    last: int


@dataclass(frozen=True)
class Piece:
    """A copy over `shape` of the memory of `source`, or of a constant if `strides` is None.

    `strides` and `offset` count elements in the source, `target` and `start` in the result.
    """

    shape: Shape
    source: Node
    strides: Strides | None
    offset: int
    target: Strides
    start: int
    reads: tuple[Index, ...] = ()
    writes: tuple[Index, ...] = ()
    adds: bool = False


Reader = Callable[[Node], Access | None]


_CopyRule = Callable[[Node, Reader], "list[Piece] | None"]


def pieces(node: Node, access: Reader) -> list[Piece] | None:
    """The copies that compute a node, by its op's rule; None if copies cannot compute it."""
    if not math.prod(node.shape):
        return None
    if len(node.inputs) > MOST_COPIED_OPERANDS or node.op.copies is None:
        return None
    found: list[Piece] | None = node.op.copies(node, access)
    # A part without elements is nothing to copy.
    return found and [piece for piece in found if math.prod(piece.shape)]


def _copy(
    source: Node, access: Reader, shape: Shape, target: Strides, start: int, **more: Any
) -> Piece | None:
    """A copy of a whole operand, broadcast and reshaped to a part of the result."""
    found = None if not math.prod(shape) else access(source)
    if found is None:
        return Piece(shape, source, None, 0, target, start, **more)
    fitting = found if found.shape == shape else reshaped(found, shape)
    if fitting is None:
        return None
    return Piece(shape, source, fitting.strides, fitting.offset, target, start, **more)


def _fill(node: Node, shape: Shape, start: int) -> Piece:
    number = Node(OPERATORS.full, (), ((), 0, node.dtype), spec((), node.dtype))
    return Piece(shape, number, None, 0, row_major(node.shape), start)


def _known(found: list[Piece | None]) -> list[Piece] | None:
    kept = [piece for piece in found if piece is not None]
    return kept if len(kept) == len(found) else None


def joined(node: Node, access: Reader) -> list[Piece] | None:
    """One copy per operand, to its place along the axis that joins them."""
    (axis,) = node.params
    concat = node.op.join is Join.CONCAT
    steps = row_major(node.shape)
    target = steps if concat else (*steps[:axis], *steps[axis + 1 :])
    found, place = [], 0
    for part in node.inputs:
        found.append(_copy(part, access, part.shape, target, place * steps[axis]))
        place += part.shape[axis] if concat else 1
    return _known(found)


# A regular part of memory: its strides, its start, and the positions that move the start.
_Part = tuple[Strides, int, tuple[Index, ...]]


def _part(memory: Access, moving: Sequence[Node], access: Reader, node: Node) -> _Part | None:
    """The part that a slice op reads or writes; None if a start is an operand without memory."""
    if any(access(start) is None for start in moving):
        return None
    starts, lengths, steps, _ = node.params
    given = iter(moving)
    offset, strides, found = memory.offset, [], []
    axes = zip(memory.shape, memory.strides, starts, lengths, steps, strict=True)
    for n, stride, first, length, step in axes:
        strides.append(stride * step)
        if first is None:
            # The last start with which the part still ends inside the axis.
            last = n - 1 - max(0, (length - 1) * step)
            found.append(Index(next(given), (0,) * len(lengths), stride, last))
        else:
            offset += first * stride
    return tuple(strides), offset, tuple(found)


def slice_(node: Node, access: Reader) -> list[Piece] | None:
    """One copy of the part, needed if a start is an operand: other slices are views."""
    x, *moving = node.inputs
    lengths = node.params[1]
    found = access(x)
    part = None if found is None else _part(found, moving, access, node)
    if part is None:
        return None
    strides, start, reads = part
    return [Piece(lengths, x, strides, start, row_major(lengths), 0, reads)]


def unslice(node: Node, access: Reader) -> list[Piece] | None:
    """A copy of the part, and fills of zeros around it."""
    g, *moving = node.inputs
    starts, lengths, steps, shape = node.params
    part = _part(whole(node), moving, access, node)
    if part is None:
        return None
    strides, start, writes = part
    piece = _copy(g, access, lengths, strides, start, writes=writes)
    if any(start is None for start in starts) or any(step != 1 for step in steps):
        return _known([_fill(node, shape, 0), piece])
    return _known([*_around(node, starts, lengths), piece])


def _around(node: Node, starts: Shape, lengths: Shape) -> list[Piece]:
    """Fills with 0 outside a box: for each axis a slab before the box and one behind."""
    steps = row_major(node.shape)
    found: list[Piece] = []
    shape, corner = list(node.shape), 0
    for axis, (n, start, length) in enumerate(zip(node.shape, starts, lengths, strict=True)):
        for first, count in ((0, start), (start + length, n - start - length)):
            if count:
                slab = (*shape[:axis], count, *shape[axis + 1 :])
                found.append(_fill(node, slab, corner + first * steps[axis]))
        # Slabs of later axes cover only the box along this axis: the rest is filled already.
        shape[axis] = length
        corner += start * steps[axis]
    return found


def set_slice(node: Node, access: Reader) -> list[Piece] | None:
    """A copy of the tensor, and then a copy of the value over the part."""
    x, value, *moving = node.inputs
    _, lengths, _, shape = node.params
    part = _part(whole(node), moving, access, node)
    if part is None:
        return None
    target, start, writes = part
    strides, offset = None, 0
    found = access(value)
    if found is not None:
        wide = Access(found.base, shape, found.stretched(shape), found.offset)
        lying = reshaped(wide, lengths)
        if lying is None:
            return None
        strides, offset = lying.strides, lying.offset
    piece = Piece(lengths, value, strides, offset, target, start, writes=writes)
    return _known([_copy(x, access, node.shape, row_major(node.shape), 0), piece])


def roll(node: Node, access: Reader) -> list[Piece] | None:
    """Along each axis two parts change places, so a roll of n axes is up to 2**n copies."""
    (x,) = node.inputs
    shift, axis = node.params
    found = access(x)
    if found is None or len(axis) > 3:
        return None
    amounts = dict.fromkeys(axis, 0)
    for at, amount in zip(axis, shift, strict=True):
        amounts[at] = (amounts[at] + amount) % node.shape[at]
    target = row_major(node.shape)
    boxes = [(node.shape, found.offset, 0)]
    for at, amount in amounts.items():
        n = node.shape[at]
        # `count` elements, from `first` on in the operand, go to `there` in the result.
        parts = [(0, n - amount, amount), (n - amount, amount, 0)]
        boxes = [
            (
                (*shape[:at], count, *shape[at + 1 :]),
                offset + first * found.strides[at],
                start + there * target[at],
            )
            for shape, offset, start in boxes
            for first, count, there in parts
            if count
        ]
    return [Piece(shape, x, found.strides, offset, target, start) for shape, offset, start in boxes]


def _steered(
    node: Node, access: Reader, strides: Strides, length: int, along: bool
) -> tuple[Strides, Index] | None:
    """The index of a gather or scatter, and strides without the axis along which it steps."""
    x, indices = node.inputs[:2]
    (axis,) = node.params
    positions = access(indices)
    if positions is None:
        return None
    before, after = (0, 0) if along else (axis, x.ndim - axis - 1)
    walk = (*(0,) * before, *positions.strides, *(0,) * after)
    # Axes of stride 0 replace the axis: the index moves the address.
    still = (0,) * (1 if along else indices.ndim)
    index = Index(indices, walk, strides[axis], length - 1)
    return (*strides[:axis], *still, *strides[axis + 1 :]), index


def gather(*, along: bool = False) -> _CopyRule:
    """A rule that reads rows; if `along`, elements that have their own positions."""

    def rule(node: Node, access: Reader) -> list[Piece] | None:
        x, (axis,) = node.inputs[0], node.params
        found = access(x)
        steered = found and _steered(node, access, found.strides, x.shape[axis], along)
        if found is None or steered is None:
            return None
        strides, index = steered
        return [Piece(node.shape, x, strides, found.offset, row_major(node.shape), 0, (index,))]

    return rule


def scatter(*, adds: bool, along: bool = False) -> _CopyRule:
    """A rule that writes or adds rows; if `along`, elements that have their own positions."""

    def rule(node: Node, access: Reader) -> list[Piece] | None:
        x, _, values = node.inputs
        steps = row_major(node.shape)
        steered = _steered(node, access, steps, node.shape[node.params[0]], along)
        if steered is None or (adds and node.dtype.kind == "b"):
            return None
        target, index = steered
        first = _copy(x, access, node.shape, steps, 0)
        second = _copy(values, access, values.shape, target, 0, writes=(index,))
        if first is None or second is None:
            return None
        return [first, replace(second, adds=adds)]

    return rule
