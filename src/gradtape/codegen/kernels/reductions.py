"""Reductions: the loops of kernels that combine values along axes (see Layout).

Float sums are added in levels: RADIX vectors in a row, then RADIX such sums, and so on, so that
rounding errors grow with the logarithm of the length. A row has three levels, for rows may be
short; a column has five, because a level costs nothing beside a column of vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradtape.codegen.kernels.accumulators import Accumulator, Parts
from gradtape.codegen.kernels.kernel import CHUNK, RADIX, SCALAR, Layout, memory_type
from gradtape.codegen.kernels.loops import Emitter
from gradtape.graph.vector_code import Vector


def emit(e: Emitter) -> None:
    """Append the loops of a kernel with reductions."""
    loops = {
        Layout.ROWS: _rows,
        Layout.COLUMNS: _columns,
        Layout.WHOLE: _whole,
        Layout.RUNNING: _running,
    }
    loops[e.kernel.layout](e)


def _accumulators(e: Emitter) -> list[Accumulator]:
    return [Accumulator(e.b, reduction) for reduction in e.kernel.reductions]


def _column_spans() -> list[str]:
    """The spans of the levels of a column, in elements."""
    return [str(RADIX**depth) for depth in (4, 3, 2, 1)]


def _levels(
    e: Emitter, low: str, high: str, unit: int, leaf: Callable[[str], list[Parts]], spans: list[str]
) -> list[Parts]:
    """Accumulate leaf(i) for i from low to high by `unit`, in nested loops.

    `spans` are the lengths that one round of each outer loop covers, the longest first. Each loop
    starts from the identity and adds its total to that of the loop around it.
    """
    accumulators = _accumulators(e)
    # Type and name of every part.
    starts = [pair for a in accumulators for pair in zip(a.types(), a.start(), strict=True)]

    def merge(olds: list[str], news: list[Parts]) -> list[str]:
        pairs = zip(accumulators, _grouped(accumulators, olds), news, strict=True)
        return [part for a, old, new in pairs for part in a.combine(old, new)]

    def level(depth: int, first: str, last: str) -> list[str]:
        if depth == len(spans):
            return e.carry(first, last, str(unit), starts, lambda i, c: merge(c, leaf(i)))

        def body(i: str, carried: list[str]) -> list[str]:
            end = e.b.let(f"add nsw i64 {i}, {spans[depth]}")
            short = e.b.let(f"icmp slt i64 {end}, {last}")
            end = e.b.let(f"select i1 {short}, i64 {end}, i64 {last}")
            return merge(carried, _grouped(accumulators, level(depth + 1, i, end)))

        return e.carry(first, last, spans[depth], starts, body)

    return _grouped(accumulators, level(0, low, high))


def _grouped(accumulators: list[Accumulator], parts: list[str]) -> list[Parts]:
    """A flat list of parts as one list for each reduction."""
    left = iter(parts)
    return [[next(left) for _ in a.types()] for a in accumulators]


def _reduced(
    e: Emitter, values: list[Vector], position: str | None, mask: str | None
) -> list[Parts]:
    """The partial result of one vector of points, for each reduction."""
    return [a.of(values[a.reduction.value], position, mask) for a in _accumulators(e)]


def _counts(e: Emitter) -> bool:
    """Whether some reduction finds positions."""
    return any(a.finds_positions for a in _accumulators(e))


def _following(e: Emitter, before: str | None, axis: int, index: str) -> str | None:
    """The number of a point among the reduced ones: row-major over `before` and one more index."""
    if before is None or not _counts(e):
        return index
    scaled = e.b.let(f"mul nsw i64 {before}, {e.sizes[axis]}", "n")
    return e.b.let(f"add nsw i64 {scaled}, {index}", "n")


def _shifted(e: Emitter, rows: list[str], axis: int, index: str) -> list[str]:
    """Addresses, moved to an index along one more axis."""
    moved = []
    for entry, base in enumerate(rows):
        if e.operands[entry].access == SCALAR:
            moved.append(base)
            continue
        step = e.b.let(f"mul nsw i64 {index}, {e.strides[entry][axis]}", "o")
        moved.append(e.b.let(f"getelementptr i8, ptr {base}, i64 {step}", "p"))
    return moved


def _store_scalar(e: Emitter, pointer: str, parts: Parts, dtype: str) -> None:
    """Write one element: a result of all lanes."""
    kind = memory_type(dtype)
    value = parts[0]
    if dtype == "b1":
        value = e.b.let(f"zext i1 {value} to i8")
    e.b.line(f"store {kind} {value}, ptr {pointer}")
    for other in parts[1:]:
        at = e.b.let(f"getelementptr {kind}, ptr {pointer}, i64 1", "p")
        e.b.line(f"store {kind} {other}, ptr {at}")


def _rows(e: Emitter) -> None:
    first = len(e.kernel.operands) + len(e.kernel.stores)
    kept = e.kernel.axes - e.kernel.reduced

    def row(outer: list[str]) -> None:
        rows = e.rows(outer)
        totals = _stretch(e, rows, kept, "0", e.sizes[kept], None)
        for number, (accumulator, total) in enumerate(zip(_accumulators(e), totals, strict=True)):
            parts = accumulator.result(accumulator.across(total), 1)
            _store_scalar(e, rows[first + number], parts, accumulator.reduction.dtype)

    e.outer_loops(kept, row)


def _stretch(
    e: Emitter, rows: list[str], axis: int, low: str, high: str, before: str | None
) -> list[Parts]:
    """Vector accumulators over part of one reduced axis and all axes inside it."""
    if axis == e.kernel.axes - 1:
        return _along(e, rows, e.same_in_row(rows), low, high, before)

    def leaf(i: str) -> list[Parts]:
        position = _following(e, before, axis, i)
        return _stretch(e, _shifted(e, rows, axis, i), axis + 1, "0", e.sizes[axis + 1], position)

    return _levels(e, low, high, 1, leaf, _column_spans())


def _along(
    e: Emitter, rows: list[str], same: dict[int, Vector], low: str, high: str, before: str | None
) -> list[Parts]:
    """Vector accumulators over one stretch of the innermost axis."""
    inner = e.kernel.axes - 1

    def leaf(i: str) -> list[Parts]:
        mask = e.mask(i, high)
        values = e.point(rows, i, inner, mask, same)
        position = None
        if _counts(e):
            position = e.iota_plus(_following(e, before, inner, i) or i)
        return _reduced(e, values, position, mask)

    # In long rows the second of the three levels covers more.
    count = e.b.let(f"sub nsw i64 {high}, {low}")
    long = e.b.let(f"icmp sgt i64 {count}, {e.lanes * RADIX**4}")
    wide, narrow = e.lanes * RADIX**3, e.lanes * RADIX**2
    outer = e.b.let(f"select i1 {long}, i64 {wide}, i64 {narrow}")
    return _levels(e, low, high, e.lanes, leaf, [outer, str(e.lanes * RADIX)])


def _whole(e: Emitter) -> None:
    first = len(e.kernel.operands) + len(e.kernel.stores)
    # With several axes the number of rows in a chunk is an argument: it depends on their length.
    span = str(CHUNK * e.lanes) if e.kernel.axes == 1 else e.sizes[-1]
    rows = list(e.bases)

    def chunk(index: str) -> None:
        low = e.b.let(f"mul nsw i64 {index}, {span}")
        end = e.b.let(f"add nsw i64 {low}, {span}")
        short = e.b.let(f"icmp slt i64 {end}, {e.sizes[0]}")
        high = e.b.let(f"select i1 {short}, i64 {end}, i64 {e.sizes[0]}")
        totals = _stretch(e, rows, 0, low, high, None)
        for number, (accumulator, total) in enumerate(zip(_accumulators(e), totals, strict=True)):
            parts = accumulator.result(accumulator.across(total), 1)
            dtype = accumulator.reduction.dtype
            kind = memory_type(dtype)
            if len(parts) > 1:
                kind = f"[{len(parts)} x {kind}]"
            at = e.b.let(f"getelementptr {kind}, ptr {e.bases[first + number]}, i64 {index}", "p")
            _store_scalar(e, at, parts, dtype)

    e.loop("%lo", "%hi", "1", chunk)


def _columns(e: Emitter) -> None:
    inner = e.kernel.axes - 1
    reduced = inner - e.kernel.reduced
    first = len(e.kernel.operands) + len(e.kernel.stores)

    def block(outer: list[str]) -> None:
        bases = e.rows(outer)
        low, high = ("%lo", "%hi") if not outer else ("0", e.sizes[inner])
        e.loop(low, high, str(e.lanes), lambda j: column(bases, j, high))

    def column(bases: list[str], j: str, high: str) -> None:
        mask = e.mask(j, high)

        def down(bases: list[str], axis: int, before: str | None) -> list[Parts]:
            """Accumulators over a reduced axis and all axes inside it."""

            def leaf(r: str) -> list[Parts]:
                rows = _shifted(e, bases, axis, r)
                position = _following(e, before, axis, r)
                if axis < inner - 1:
                    return down(rows, axis + 1, position)
                values = e.point(rows, j, inner, mask, e.same_in_row(rows))
                if _counts(e):
                    position = e.b.splat(position or r, "i64")
                return _reduced(e, values, position, None)

            return _levels(e, "0", e.sizes[axis], 1, leaf, _column_spans())

        totals = down(bases, reduced, None)
        for number, (accumulator, total) in enumerate(zip(_accumulators(e), totals, strict=True)):
            entry = first + number
            parts = accumulator.result(total, e.lanes)
            vector = Vector(parts[0], np.dtype(accumulator.reduction.dtype), *parts[1:])
            e.store(vector, e.operands[entry], e.place(entry, bases, j, inner, mask))

    e.outer_loops(reduced, block)


def _running(e: Emitter) -> None:
    inner = e.kernel.axes - 1
    along = inner - 1
    (accumulator,) = _accumulators(e)
    entry = len(e.kernel.operands)

    def block(outer: list[str]) -> None:
        bases = e.rows(outer)
        low, high = ("%lo", "%hi") if not outer else ("0", e.sizes[inner])
        e.loop(low, high, str(e.lanes), lambda j: line(bases, j, high))

    def line(bases: list[str], j: str, high: str) -> None:
        mask = e.mask(j, high)
        start = list(zip(accumulator.types(), accumulator.start(), strict=True))

        def step(r: str, carried: list[str]) -> list[str]:
            rows = _shifted(e, bases, along, r)
            values = e.point(rows, j, inner, mask, e.same_in_row(rows))
            parts = accumulator.following(carried, values)
            result = Vector(parts[0], accumulator.dtype, *parts[1:])
            e.store(result, e.operands[entry], e.place(entry, rows, j, inner, mask))
            return parts

        e.carry("0", e.sizes[along], "1", start, step)

    e.outer_loops(along, block)
