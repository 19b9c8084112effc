"""Copies: movements as copies from one part of memory to another, in the order they are made.

These are the rules `copies(y, access)` of ops that only move elements. Concatenation is a copy per
operand, a slice put into zeros is a copy beside fills, a gather a copy whose source is moved by an
index, a scatter one whose target is. Each copy runs as a loop of its own. `access` says where an
operand lies, None for a constant. A rule gives None where its operands do not lie so that copies
can read them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradtape.graph.node import Node
from gradtape.graph.operators import OPERATORS
from gradtape.graph.spec import Shape, spec
from gradtape.ops.families.access import Access, Strides, reshaped, row_major, whole

# NumPy joins more operands than this in less time than so many copies take to set up.
MOST_OPERANDS = 256


@dataclass(frozen=True)
class Index:
    """Positions that move an address: by `step` elements each, and not past `last` positions."""

    positions: Node
    strides: Strides
    step: int
    last: int


@dataclass(frozen=True)
class Piece:
    """A copy over `shape`, of `source` or, without strides, of a constant.

    Strides and offsets are in elements: of the memory that the source lies in, and of the result.
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


Rule = Callable[[Node, Reader], "list[Piece] | None"]


def pieces(node: Node, access: Reader) -> list[Piece] | None:
    """The copies that make up a node, by its op's rule."""
    if not math.prod(node.shape) or any(parent.size == 0 for parent in node.inputs):
        return None
    if len(node.inputs) > MOST_OPERANDS or node.op.copies is None:
        return None
    found: list[Piece] | None = node.op.copies(node, access)
    return found


def _copy(
    source: Node, access: Reader, shape: Shape, target: Strides, start: int, **more: Any
) -> Piece | None:
    """All of an operand, broadcast and reshaped to a part of the result."""
    found = access(source)
    if found is None:
        return Piece(shape, source, None, 0, target, start, **more)
    fitting = found if found.shape == shape else reshaped(found, shape)
    if fitting is None:
        return None
    return Piece(shape, source, fitting.strides, fitting.offset, target, start, **more)


def _fill(value: complex, node: Node, shape: Shape, start: int) -> Piece:
    number = Node(OPERATORS.full, (), ((), value, node.dtype), spec((), node.dtype))
    return Piece(shape, number, None, 0, row_major(node.shape), start)


def _known(found: list[Piece | None]) -> list[Piece] | None:
    kept = [piece for piece in found if piece is not None]
    return kept if len(kept) == len(found) else None


def concat(node: Node, access: Reader) -> list[Piece] | None:
    """Each operand behind the one before it."""
    (axis,) = node.params
    target = row_major(node.shape)
    found, start = [], 0
    for part in node.inputs:
        found.append(_copy(part, access, part.shape, target, start * target[axis]))
        start += part.shape[axis]
    return _known(found)


def stack(node: Node, access: Reader) -> list[Piece] | None:
    """Each operand at its place along the new axis."""
    (axis,) = node.params
    steps = row_major(node.shape)
    target = (*steps[:axis], *steps[axis + 1 :])
    return _known([
        _copy(part, access, part.shape, target, number * steps[axis])
        for number, part in enumerate(node.inputs)
    ])  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """A regular part of memory: its strides, its start, and the positions that move the start."""

    strides: Strides
    start: int
    moving: tuple[Index, ...]


def _part(memory: Access, moving: Sequence[Node], access: Reader, node: Node) -> _Part | None:
    """The part of some memory that a slice of any kind names; None if a start has no memory."""
    if any(access(start) is None for start in moving):
        return None
    starts, lengths, steps, _ = node.params
    given = iter(moving)
    offset, strides, found = memory.offset, [], []
    axes = zip(memory.shape, memory.strides, starts, lengths, steps, strict=True)
    for n, stride, first, length, step in axes:
        strides.append(stride * step)
        if first is None:
            # The last position from which the part does not run out of the axis.
            last = n - 1 - max(0, (length - 1) * step)
            found.append(Index(next(given), (0,) * len(lengths), stride, last))
        else:
            offset += first * stride
    return _Part(tuple(strides), offset, tuple(found))


def slice_(node: Node, access: Reader) -> list[Piece] | None:
    """Only where a start is an operand; all others are views."""
    x, *moving = node.inputs
    lengths = node.params[1]
    found = access(x)
    part = None if found is None else _part(found, moving, access, node)
    if part is None:
        return None
    return [
        Piece(lengths, x, part.strides, part.start, row_major(lengths), 0, reads=part.moving)
    ]  # fmt: skip


def unslice(node: Node, access: Reader) -> list[Piece] | None:
    """The part, and zeros around it."""
    g, *moving = node.inputs
    starts, lengths, steps, shape = node.params
    part = _part(whole(node), moving, access, node)
    if part is None:
        return None
    piece = _copy(g, access, lengths, part.strides, part.start, writes=part.moving)
    if any(start is None for start in starts) or any(step != 1 for step in steps):
        return _known([_fill(0, node, shape, 0), piece])
    return _known([*_around(node, starts, lengths), piece])


def _around(node: Node, starts: Shape, lengths: Shape, value: complex = 0) -> list[Piece]:
    """Fills of all elements outside a box, in slabs: axis by axis, before it and behind it."""
    steps = row_major(node.shape)
    found: list[Piece] = []
    shape, corner = list(node.shape), 0
    for axis, (n, start, length) in enumerate(zip(node.shape, starts, lengths, strict=True)):
        for first, count in ((0, start), (start + length, n - start - length)):
            if count:
                slab = (*shape[:axis], count, *shape[axis + 1 :])
                found.append(_fill(value, node, slab, corner + first * steps[axis]))
        # Slabs of later axes cover only the rest of this one.
        shape[axis] = length
        corner += start * steps[axis]
    return found


def set_slice(node: Node, access: Reader) -> list[Piece] | None:
    """The tensor, and then the value where the part is."""
    x, value, *moving = node.inputs
    _, lengths, _, shape = node.params
    part = _part(whole(node), moving, access, node)
    if part is None:
        return None
    strides, offset = None, 0
    found = access(value)
    if found is not None:
        wide = Access(found.base, shape, found.stretched(shape), found.offset)
        lying = reshaped(wide, lengths)
        if lying is None:
            return None
        strides, offset = lying.strides, lying.offset
    piece = Piece(
        lengths, value, strides, offset, part.strides, part.start, writes=part.moving
    )  # fmt: skip
    return _known([_copy(x, access, node.shape, row_major(node.shape), 0), piece])


def resize_axis(node: Node, access: Reader) -> list[Piece] | None:
    """What stays of the operand, and fills before and behind it."""
    (x,) = node.inputs
    axis, before, _, fill = node.params
    found = access(x)
    old, new = x.shape[axis], node.shape[axis]
    start, stop = max(0, before), min(new, old + before)
    if found is None or start >= stop:
        return None
    starts = tuple(start if at == axis else 0 for at in range(node.ndim))
    lengths = tuple(stop - start if at == axis else n for at, n in enumerate(node.shape))
    target = row_major(node.shape)
    offset = found.offset + (start - before) * found.strides[axis]
    piece = Piece(lengths, x, found.strides, offset, target, start * target[axis])
    return [*_around(node, starts, lengths, fill), piece]


def roll(node: Node, access: Reader) -> list[Piece] | None:
    """Along each axis two parts change places."""
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
        # Elements from `first` on, so many, come to stand from `there` on.
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


def _along(strides: Strides, axis: int, count: int) -> Strides:
    """Strides with those of one axis replaced by `count` axes that an index walks."""
    return (*strides[:axis], *(0,) * count, *strides[axis + 1 :])


def gather(node: Node, access: Reader) -> list[Piece] | None:
    """Rows of the operand, at positions along an axis."""
    return _read(node, access, along=False)


def take_along_axis(node: Node, access: Reader) -> list[Piece] | None:
    """Elements of the operand, at positions along an axis that differ between lines."""
    return _read(node, access, along=True)


def _read(node: Node, access: Reader, along: bool) -> list[Piece] | None:
    x, indices = node.inputs
    (axis,) = node.params
    found, positions = access(x), access(indices)
    if found is None or positions is None:
        return None
    before, after = (0, 0) if along else (axis, x.ndim - axis - 1)
    walk = (*(0,) * before, *positions.strides, *(0,) * after)
    index = Index(indices, walk, found.strides[axis], x.shape[axis] - 1)
    strides = _along(found.strides, axis, 1 if along else indices.ndim)
    target = row_major(node.shape)
    return [Piece(node.shape, x, strides, found.offset, target, 0, reads=(index,))]


def scatter(*, adds: bool, along: bool = False) -> Rule:
    """Values written or added at positions: rows of them, or `along` lines with their own."""

    def rule(node: Node, access: Reader) -> list[Piece] | None:
        x, indices, values = node.inputs
        (axis,) = node.params or (0,)
        positions = access(indices)
        if positions is None or (adds and node.dtype.kind == "b"):
            return None
        steps = row_major(node.shape)
        before, after = (0, 0) if along else (axis, x.ndim - axis - 1)
        walk = (*(0,) * before, *positions.strides, *(0,) * after)
        index = Index(indices, walk, steps[axis], node.shape[axis] - 1)
        target = _along(steps, axis, 1 if along else indices.ndim)
        first = _copy(x, access, node.shape, steps, 0)
        second = _copy(values, access, values.shape, target, 0, writes=(index,))
        if first is None or second is None:
            return None
        return [first, replace(second, adds=adds)]

    return rule
