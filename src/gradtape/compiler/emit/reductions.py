"""Reductions: the loops of kernels that combine values along axes (see KernelLayout).

Float sums are added in levels: RADIX values in a row, then RADIX such sums, and so on, so that
rounding errors grow with the logarithm of the length. `columns` has the loops of COLUMNS.
"""

from __future__ import annotations

from collections.abc import Callable

from gradtape.compiler.emit.accumulators import Parts, PointValues, Totals
from gradtape.compiler.emit.loops import Emitter
from gradtape.compiler.emit.writer import Word
from gradtape.compiler.lower.kernel import CHUNK, RADIX, SCALAR, Kernel, memory_type
from gradtape.config import (
    CHEAP_REDUCED_BODY,
    LARGEST_REDUCED_BLOCK,
    LONG_KERNEL_BODY,
    SHORT_REDUCED_BODY,
)
from gradtape.ops.families.vector_code import Vector


def levels(
    e: Emitter,
    totals: Totals,
    stretch: tuple[Word, Word],
    unit: int,
    leaf: Callable[[str], Parts],
    spans: list[Word],
) -> Parts:
    """Accumulate leaf(i) for i over a stretch by `unit`, in nested loops.

    `spans` are the lengths that one round of each outer loop covers, the longest first. Each loop
    starts from the identity and adds its total to that of the loop around it.
    """

    def level(depth: int, first: Word, last: Word) -> Parts:
        if depth == len(spans):
            return e.carry(first, last, unit, totals.start(), lambda i, c: totals.merge(c, leaf(i)))

        def body(i: str, carried: list[str]) -> list[str]:
            return totals.merge(carried, level(depth + 1, i, e.bounded(i, spans[depth], last)))

        return e.carry(first, last, spans[depth], totals.start(), body)

    return level(0, *stretch)


def column_spans() -> list[Word]:
    """The spans of the levels of an axis that is not the innermost, in elements."""
    return [RADIX**depth for depth in (4, 3, 2, 1)]


def following(e: Emitter, totals: Totals, before: str | None, axis: int, index: str) -> str | None:
    """The number of a point among the reduced ones: row-major over `before` and one more index."""
    if before is None or not totals.count_positions:
        return index
    return e.r.add(e.r.multiply(before, e.sizes[axis]), index)


def shifted(e: Emitter, rows: list[str], axis: int, index: str) -> list[str]:
    """Addresses, moved to an index along one more axis."""
    return [
        base if operand.access == SCALAR else e.r.at(base, e.r.multiply(index, strides[axis]))
        for base, operand, strides in zip(rows, e.operands, e.strides, strict=True)
    ]


def emit_rows(e: Emitter) -> None:
    """Reduce the innermost axes."""
    first = len(e.kernel.operands) + len(e.kernel.stores)
    kept = e.kernel.axes - e.kernel.reduced
    totals = Totals(e.b, e.kernel.reductions)

    def row(outer: list[str]) -> None:
        rows = e.rows(outer)
        total = _stretch(e, totals, rows, kept, (0, e.sizes[kept]), None)
        for number, (accumulator, parts) in enumerate(totals.apart(total)):
            parts = accumulator.result(accumulator.across(parts), 1)
            e.store_scalar(rows[first + number], parts, accumulator.reduction.dtype)

    e.outer_loops(kept, row)


def _stretch(
    e: Emitter,
    totals: Totals,
    rows: list[str],
    axis: int,
    stretch: tuple[Word, Word],
    before: str | None,
) -> Parts:
    """Vector accumulators over part of one reduced axis and all axes inside it."""
    if axis == e.kernel.axes - 1:
        return _along(e, totals, rows, stretch, before)

    def leaf(i: str) -> Parts:
        position = following(e, totals, before, axis, i)
        inside = (0, e.sizes[axis + 1])
        return _stretch(e, totals, shifted(e, rows, axis, i), axis + 1, inside, position)

    return levels(e, totals, stretch, 1, leaf, column_spans())


def _along(
    e: Emitter, totals: Totals, rows: list[str], stretch: tuple[Word, Word], before: str | None
) -> Parts:
    """Vector accumulators over one stretch of the innermost axis."""
    inner = e.kernel.axes - 1
    same = e.same_in_row(rows)
    low, high = stretch

    def point(i: str, mask: str | None) -> PointValues:
        values = e.point(rows, i, inner, mask, same)
        position = None
        if totals.count_positions:
            position = e.iota_plus(following(e, totals, before, inner, i) or i)
        return values, position

    def masked(i: str) -> Parts:
        mask = e.mask(i, high)
        return totals.of(*point(i, mask), mask)

    def several(i: str) -> Parts:
        """Some full vectors from i on."""
        starts = [i, *(e.r.add(i, n * e.lanes) for n in range(1, vectors))]
        return totals.of_several([point(start, None) for start in starts])

    count = e.r.subtract(high, low)
    if len(e.kernel.body) > LONG_KERNEL_BODY:
        return levels(e, totals, stretch, e.lanes, masked, _row_spans(e, count, e.lanes))
    vectors = _vectors_at_once(e.kernel, totals)
    unit = vectors * e.lanes
    full = e.r.subtract(high, e.r.op("and", count, unit - 1))
    found = levels(e, totals, (low, full), unit, several, _row_spans(e, count, unit))
    return e.carry(full, high, e.lanes, found, lambda i, c: totals.merge(c, masked(i)))


def _vectors_at_once(kernel: Kernel, totals: Totals) -> int:
    block = block_of(kernel, totals)
    if kernel.cost <= CHEAP_REDUCED_BODY:
        return max(4, block)
    return max(2 if len(kernel.body) <= SHORT_REDUCED_BODY else 1, block)


def block_of(kernel: Kernel, totals: Totals) -> int:
    """The number of vectors reduced at once: a power of two, fewer if the body is long."""
    block = totals.block
    while block > 1 and block * len(kernel.body) > LARGEST_REDUCED_BLOCK:
        block //= 2
    return block


def _row_spans(e: Emitter, count: str, unit: int) -> list[Word]:
    """The spans of the levels of a row: three, for rows may be short; the second may cover more."""
    long = e.r.compare("sgt", count, unit * RADIX**4)
    return [e.r.select(long, unit * RADIX**3, unit * RADIX**2), unit * RADIX]


def emit_whole(e: Emitter) -> None:
    """Reduce all axes: every chunk of the outermost writes one partial result."""
    first = len(e.kernel.operands) + len(e.kernel.stores)
    # With several axes the number of rows in a chunk is an argument: it depends on their length.
    span = CHUNK * e.lanes if e.kernel.axes == 1 else e.sizes[-1]
    rows = list(e.bases)
    totals = Totals(e.b, e.kernel.reductions)

    def chunk(index: str) -> None:
        low = e.r.multiply(index, span)
        stretch = (low, e.bounded(low, span, e.sizes[0]))
        total = _stretch(e, totals, rows, 0, stretch, None)
        for number, (accumulator, parts) in enumerate(totals.apart(total)):
            parts = accumulator.result(accumulator.across(parts), 1)
            dtype = accumulator.reduction.dtype
            kind = memory_type(dtype)
            if len(parts) > 1:
                kind = f"[{len(parts)} x {kind}]"
            e.store_scalar(e.r.item(kind, e.bases[first + number], index), parts, dtype)

    e.loop("%lo", "%hi", 1, chunk)


def emit_running(e: Emitter) -> None:
    """Walk the axis before the innermost, and write every partial result."""
    inner = e.kernel.axes - 1
    along = inner - 1
    totals = Totals(e.b, e.kernel.reductions)
    ((accumulator, _),) = totals.apart(totals.types)
    entry = len(e.kernel.operands)

    def block(outer: list[str]) -> None:
        bases = e.rows(outer)
        low, high = ("%lo", "%hi") if not outer else (0, e.sizes[inner])
        e.loop(low, high, e.lanes, lambda j: line(bases, j, high))

    def line(bases: list[str], j: str, high: str) -> None:
        mask = e.mask(j, high)

        def step(r: str, carried: list[str]) -> list[str]:
            rows = shifted(e, bases, along, r)
            values = e.point(rows, j, inner, mask, e.same_in_row(rows))
            parts = accumulator.following(carried, values)
            result = Vector(parts[0], accumulator.dtype, *parts[1:])
            e.store(result, e.operands[entry], e.place(entry, rows, j, inner, mask))
            return parts

        e.carry(0, e.sizes[along], 1, totals.start(), step)

    e.outer_loops(along, block)
