"""Lower: a fused loop becomes a kernel (structure) and its arguments (sizes, strides, places)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gradtape.codegen.kernels.builder import Builder, NotLowered, Vector, scalar_type
from gradtape.codegen.kernels.kernel import (
    SAME,
    SCALAR,
    STRIDED,
    UNIT,
    Instruction,
    Kernel,
    Operand,
    Reduce,
    Store,
)
from gradtape.codegen.kernels.loops import CHUNK, lane_count
from gradtape.graph.facts import Accumulation
from gradtape.graph.node import Node
from gradtape.graph.spec import Shape
from gradtape.ops.families.access import Access, Strides, is_strided_view, row_major
from gradtape.optimize.fuse import Content, Loop


@dataclass(frozen=True)
class Entry:
    """Something in memory that a loop touches: what it is, and its strides over the space."""

    node: Node
    dtype: Any
    strides: Strides
    offset: int


@dataclass
class Lowered:
    """A kernel with its arguments; places (slot, byte offset) are filled in by the plan."""

    kernel: Kernel
    sizes: tuple[int, ...]
    # For each thing in memory: the node it belongs to, its byte offset there, byte strides.
    entries: list[tuple[Node | str, int, tuple[int, ...]]]
    total: int
    grain: int
    work: int


def fusible(node: Node) -> bool:
    """Whether a node can be computed inside a loop; a movement, whether it can be copied in one."""
    if is_strided_view(node) or node.op.copies is not None:
        return _plain(node.dtype)
    if node.op.scan is not None:
        return _plain(node.dtype) and node.size > 0
    if node.op.reduction is not None:
        return _plain(node.spec.dtype) and _plain(node.inputs[0].dtype) and _reducible(node)
    if node.op.llvm is None or not node.op.elementwise or type(node.spec) is tuple:
        return False
    return _lowers(node.op, node.params, tuple(parent.dtype for parent in node.inputs), node.dtype)


def _plain(dtype: Any) -> bool:
    return dtype.kind in "biufc"


def _reducible(node: Node) -> bool:
    # An empty extremum raises, and an empty sum is a constant: both are rare enough for NumPy, and
    # so are extrema of booleans.
    operand = node.inputs[0]
    known = node.op.reduction not in _EXTREMA or operand.dtype.kind != "b"
    return known and operand.size > 0


_EXTREMA = (Accumulation.MAX, Accumulation.MIN, Accumulation.ARGMAX, Accumulation.ARGMIN)
_known: dict[Any, bool] = {}


def _lowers(op: Any, params: tuple[Any, ...], dtypes: tuple[Any, ...], result: Any) -> bool:
    """Try the op's lowering once per dtypes."""
    key = (op, params, dtypes)
    found = _known.get(key)
    if found is None:
        builder = Builder(4)
        try:
            values = [
                Vector(f"%x{n}", dtype, f"%y{n}" if dtype.kind == "c" else "")
                for n, dtype in enumerate(dtypes)
            ]
            for dtype in (*dtypes, result):
                scalar_type(dtype)
            value = op.llvm(builder, *values, **op.keywords(params))
            found = value.dtype == result
        except NotLowered:
            found = False
        if len(_known) > 10_000:
            _known.clear()
        _known[key] = found
    return found


def lower(
    loop: Loop,
    access: dict[Node, Access],
    constants: set[Node],
    bits: int,
    streamed: Collection[Node] = (),
) -> list[Lowered]:
    """The kernels of a loop: one, or two where a whole-tensor reduction needs a second.

    `streamed` nodes are results that nothing in the program reads, worth writing past the caches.
    """
    if loop.pieces is not None:
        from gradtape.codegen.kernels.copies import lower_pieces

        return lower_pieces(loop.nodes[0], loop.pieces, access, bits)
    if loop.alone:
        from gradtape.codegen.kernels.scans import lower_scan

        return [lower_scan(loop.nodes[0], access, bits)]
    operands, numbers = ([], []) if loop.content is None else _numbered(loop, access)
    if loop.content is None or numbers != loop.content.numbers:
        loop.content = _content(loop, access, constants)
        operands, _ = _numbered(loop, access)
    content = loop.content
    shape = _Shape(loop, operands, content.stores, content.reductions, streamed)
    return shape.kernels(content.body, bits)


def _numbered(loop: Loop, access: dict[Node, Access]) -> tuple[list[Entry], list[int]]:
    """What a loop reads from memory, each place once, and which of it each node is."""
    assert loop.content is not None
    operands: list[Entry] = []
    number: dict[Any, int] = {}
    numbers: list[int] = []
    for node in loop.content.reads:
        found = access[node]
        strides = found.stretched(loop.space)
        key = (found.base, strides, found.offset)
        at = number.get(key)
        if at is None:
            at = number[key] = len(operands)
            operands.append(Entry(found.base, node.spec.dtype, strides, found.offset))
        numbers.append(at)
    return operands, numbers


def _content(loop: Loop, access: dict[Node, Access], constants: set[Node]) -> Content:
    """What a loop computes, in instructions on operands by number."""
    # Operands are numbered before the body, so they are found first.
    reads = {
        parent: None
        for node in loop.nodes
        for parent in node.inputs
        if parent not in loop.pointwise and parent not in constants
    }
    loop.content = Content(list(reads), [], (), [], [])
    operands, numbers = _numbered(loop, access)
    read = dict(zip(reads, numbers, strict=True))
    first = len(operands)
    inside: dict[Node, int] = {}
    body: list[Instruction] = []

    def value_of(node: Node) -> int:
        found = inside.get(node)
        if found is None:
            found = read.get(node)
        if found is None:  # a constant
            _, value, dtype = node.params
            body.append(Instruction(node.op, ((), value, dtype), (), code_of(dtype)))
            found = inside[node] = first + len(body) - 1
        return found

    stores: list[tuple[int, Node]] = []
    reductions: list[tuple[int, Node]] = []
    wanted = set(loop.outputs)
    for node in loop.nodes:
        if node in loop.copies:
            stores.append((value_of(node.inputs[0]), node))
            continue
        arguments = tuple([value_of(parent) for parent in node.inputs])
        if node.op.reduction is not None:
            source = arguments[0]
            if node.inputs[0].dtype != node.dtype and not node.op.reduction.gives_positions:
                source = _cast(body, first, source, node)
            reductions.append((source, node))
            continue
        body.append(Instruction(node.op, node.params, arguments, code_of(node.dtype)))
        inside[node] = first + len(body) - 1
        if node in wanted:
            stores.append((inside[node], node))
    return Content(list(reads), numbers, tuple(body), stores, reductions)


def _cast(body: list[Instruction], first: int, source: int, node: Node) -> int:
    from gradtape.ops.families.casting import CAST

    body.append(Instruction(CAST, (node.dtype,), (source,), code_of(node.dtype)))
    return first + len(body) - 1


@lru_cache(maxsize=64)
def code_of(dtype: Any) -> str:
    return np.dtype(dtype).str[1:]


class _Shape:
    """Chooses axes and layout for one loop."""

    def __init__(
        self,
        loop: Loop,
        operands: list[Entry],
        stores: list[tuple[int, Node]],
        reductions: list[tuple[int, Node]],
        streamed: Collection[Node],
    ) -> None:
        self.loop = loop
        self.streamed = streamed
        self.operands = operands
        self.stores = stores
        self.reductions = reductions
        space = loop.space
        reduced = loop.axes or ()
        contiguous = row_major(space)
        strides = [entry.strides for entry in operands]
        strides += [contiguous for _ in stores]
        strides += [_reduced_strides(space, reduced) for _ in reductions]
        axes = [(n, axis in reduced, [s[axis] for s in strides]) for axis, n in enumerate(space)]
        axes = [axis for axis in axes if axis[0] != 1]
        if self._may_turn([axis for axis in axes if axis[1]]):
            # The axis with the shortest steps goes inside: transposed operands are read in order.
            read = len(operands) + len(stores)
            axes.sort(key=lambda axis: -sum(map(abs, axis[2][:read])))
        self.axes = merge_axes(axes)

    def _may_turn(self, reduced: list[Any]) -> bool:
        """Whether axes may change places: positions count along reduced axes in their order."""
        counted = any(_gives_positions(node) for _, node in self.reductions)
        return bool(self.reductions) and (len(reduced) < 2 or not counted)

    def kernels(self, body: tuple[Instruction, ...], bits: int) -> list[Lowered]:
        roles = [reduced for _, reduced, _ in self.axes]
        count = sum(roles)
        if not self.reductions:
            axes = self.axes or [(1, False, [1] * self._entries())]
            return [self._lowered("map", axes, body, bits)]
        if count == 0:  # reduced over axes of length 1: each result is its operand
            axes = [*self.axes, (1, True, [0] * self._entries())]
            return [self._lowered("rows", axes, body, bits)]
        if count == len(roles):
            return self._whole(self.axes, body, bits)
        reduced = [axis for axis in self.axes if axis[1]]
        kept = [axis for axis in self.axes if not axis[1]]
        if roles[-1]:
            return [self._lowered("rows", [*kept, *reduced], body, bits)]
        return [self._lowered("columns", [*kept[:-1], *reduced, kept[-1]], body, bits)]

    def _entries(self) -> int:
        return len(self.operands) + len(self.stores) + len(self.reductions)

    def _whole(self, axes: list[Any], body: tuple[Instruction, ...], bits: int) -> list[Lowered]:
        """Every element into one: chunks first, then the chunks' results."""
        if any(_gives_positions(node) for _, node in self.reductions):
            # A chunk would have to hand on two results, where and what.
            return [self._lowered("rows", axes, body, bits)]
        first = self._lowered("all", axes, body, bits)
        points = CHUNK * lane_count(first.kernel, bits)
        rows = max(1, points // math.prod(first.sizes[1:]))
        if len(axes) > 1:
            first.sizes = (*first.sizes, rows)
        chunks = -(-axes[0][0] // rows)
        first.total, first.grain = chunks, 1
        if chunks == 1:
            return [first]
        # Each chunk writes one partial result to scratch memory, which a second kernel combines.
        done = len(self.operands) + len(self.stores)
        lowered = [first]
        for position, (_, node) in enumerate(self.reductions):
            name = f"partial {position}"
            first.entries[done + position] = (name, chunks * node.dtype.itemsize, ())
            lowered += _combination(name, node, chunks, bits)
        return lowered

    def _known(self, kernel: Kernel) -> Kernel:
        """The kernel of another size of the same program, found without hashing all of it."""
        assert self.loop.content is not None
        kernels = self.loop.content.kernels
        found = next((known for known in kernels if known == kernel), None)
        if found is None:
            kernels.append(kernel)
        return found or kernel

    def _lowered(
        self, layout: str, axes: list[Any], body: tuple[Instruction, ...], bits: int
    ) -> Lowered:
        inner = len(axes) - 1
        strides = [[axis[2][entry] for axis in axes] for entry in range(self._entries())]
        operands = tuple(
            _operand(code_of(entry.dtype), access_of(strides[position]))
            for position, entry in enumerate(self.operands)
        )
        first = len(operands)
        stores = tuple(
            Store(
                value,
                Operand(code_of(node.dtype), target_access(strides[first + position])),
                # Only along one axis is every vector aligned.
                layout == "map" and len(axes) == 1 and node in self.streamed,
            )
            for position, (value, node) in enumerate(self.stores)
        )
        first += len(stores)
        reductions = tuple(
            _reduce(value, node, target_access(strides[first + position]))
            for position, (value, node) in enumerate(self.reductions)
        )
        reduced = sum(axis[1] for axis in axes)
        kernel = self._known(Kernel(layout, len(axes), operands, body, stores, reductions, reduced))
        owners: list[tuple[Node, Any, int]] = [
            (entry.node, entry.dtype, entry.offset) for entry in self.operands
        ]
        owners += [(node, node.dtype, 0) for _, node in self.stores]
        owners += [(node, node.dtype, 0) for _, node in self.reductions]
        entries: list[tuple[Node | str, int, tuple[int, ...]]] = [
            (node, offset * dtype.itemsize, tuple(s * dtype.itemsize for s in strides[position]))
            for position, (node, dtype, offset) in enumerate(owners)
        ]
        sizes = tuple(axis[0] for axis in axes)
        lanes = lane_count(kernel, bits)
        outer = inner > reduced if layout == "columns" else inner > 0
        total, grain = (sizes[0], 1) if outer else (sizes[inner], 8 * lanes)
        if reduced == len(axes):  # nothing to divide; `all` divides itself
            total = grain = 1
        return Lowered(kernel, sizes, entries, total, grain, kernel.cost * math.prod(sizes))


@lru_cache(maxsize=256)
def _operand(code: str, access: str) -> Operand:
    return Operand(code, access)


def _reduce(value: int, node: Node, access: str) -> Reduce:
    compared = code_of(node.inputs[0].dtype) if _gives_positions(node) else ""
    return Reduce(value, _kind(node), code_of(node.dtype), access, compared)


def _kind(node: Node) -> str:
    assert node.op.reduction is not None
    return node.op.reduction


def _gives_positions(node: Node) -> bool:
    return node.op.reduction is not None and node.op.reduction.gives_positions


def _combination(name: str, node: Node, count: int, bits: int) -> list[Lowered]:
    """The kernels that combine partial results that lie one after the other; nearly always one."""
    code = code_of(node.dtype)
    kernel = Kernel(
        "all", 1, (Operand(code, UNIT),), (), (), (Reduce(0, _kind(node), code, SAME),), 1
    )
    size = node.dtype.itemsize
    chunks = -(-count // (CHUNK * lane_count(kernel, bits)))
    if chunks == 1:
        return [Lowered(kernel, (count,), [(name, 0, (size,)), (node, 0, (0,))], 1, 1, count)]
    fewer = f"{name} again"
    entries: list[Any] = [(name, 0, (size,)), (fewer, chunks * size, ())]
    first = Lowered(kernel, (count,), entries, chunks, 1, count)
    return [first, *_combination(fewer, node, chunks, bits)]


def _reduced_strides(space: Shape, axes: tuple[int, ...]) -> Strides:
    kept = [n for axis, n in enumerate(space) if axis not in axes]
    given = iter(row_major(tuple(kept)))
    return tuple(0 if axis in axes else next(given) for axis in range(len(space)))


def merge_axes(axes: list[Any]) -> list[Any]:
    """Join neighbouring axes that every operand walks as one."""
    merged: list[Any] = []
    for n, reduced, strides in axes:
        if merged:
            m, role, outer = merged[-1]
            if role == reduced and all(a == b * n for a, b in zip(outer, strides, strict=True)):
                merged[-1] = (m * n, role, strides)
                continue
        merged.append((n, reduced, strides))
    return merged


def access_of(strides: list[int]) -> str:
    if not any(strides):
        return SCALAR
    return {0: SAME, 1: UNIT}.get(strides[-1], STRIDED)


def target_access(strides: list[int]) -> str:
    return {0: SAME, 1: UNIT}.get(strides[-1], STRIDED)
