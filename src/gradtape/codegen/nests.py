"""Nests: the four shapes of loop that a kernel can have (see Kernel.layout)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.codegen.builder import Vector, memory_type, scalar_type
from gradtape.codegen.kernel import Reduce
from gradtape.codegen.loops import CHUNK, RADIX, Emitter

# A longer body is emitted once, always masked, instead of once full and once for the tail.
LONG_BODY = 48

_IDENTITY: dict[str, Any] = {"sum": 0, "prod": 1, "any": False, "all": True}


def emit(e: Emitter) -> None:
    """Fill the emitter with its kernel's loops."""
    {"map": _map, "rows": _rows, "columns": _columns, "all": _all}[e.kernel.layout](e)


def _entries(e: Emitter) -> int:
    return len(e.bases)


def _outer_loops(e: Emitter, count: int, body: Callable[[list[str]], None]) -> None:
    """Loops over the first `count` axes; the outermost runs over [lo, hi)."""

    def nest(indices: list[str]) -> None:
        axis = len(indices)
        if axis == count:
            body(indices)
            return
        low, high = ("%lo", "%hi") if axis == 0 else ("0", e.sizes[axis])
        e.loop(low, high, "1", lambda i: nest([*indices, i]))

    nest([])


def _vectors(e: Emitter, low: str, high: str, body: Callable[[str, str | None], None]) -> None:
    """One body per vector of points from low to high, the last one masked."""
    step = str(e.lanes)
    if len(e.kernel.body) > LONG_BODY:
        e.loop(low, high, step, lambda i: body(i, e.mask(i, high)))
        return
    count = e.b.let(f"sub nsw i64 {high}, {low}")
    rest = e.b.let(f"and i64 {count}, {e.lanes - 1}")
    full = e.b.let(f"sub nsw i64 {high}, {rest}")
    e.loop(low, full, step, lambda i: body(i, None))
    e.loop(full, high, step, lambda i: body(i, e.mask(i, high)))


def _map(e: Emitter) -> None:
    inner = e.kernel.axes - 1

    def row(outer: list[str]) -> None:
        rows = [e.row(outer, entry) for entry in range(_entries(e))]
        same = e.same_in_row(rows)
        low, high = ("%lo", "%hi") if inner == 0 else ("0", e.sizes[inner])
        _vectors(e, low, high, lambda i, mask: _ignore(e.point(rows, i, inner, mask, same)))

    _outer_loops(e, inner, row)


def _ignore(values: Any) -> None:
    return None


# Reductions.


def _start(e: Emitter, reduction: Reduce) -> Vector:
    dtype = np.dtype(reduction.dtype)
    value = _IDENTITY.get(reduction.kind)
    if value is None:
        sign = -1 if reduction.kind == "max" else 1
        if dtype.kind == "f":
            value = sign * np.inf
        else:
            bounds = np.iinfo(dtype)
            value = bounds.min if sign < 0 else bounds.max
    return e.b.constant(value, dtype)


def _combine(e: Emitter, kind: str, x: str, y: str, dtype: Any, lanes: int) -> str:
    """Two partial results into one; max and min let NaN through, as NumPy does."""
    b = e.b
    dtype = np.dtype(dtype)
    vector = f"<{lanes} x {scalar_type(dtype)}>" if lanes > 1 else scalar_type(dtype)
    real = dtype.kind == "f"
    if kind in ("sum", "prod"):
        word = {"sum": ("fadd", "add"), "prod": ("fmul", "mul")}[kind][0 if real else 1]
        return b.let(f"{word} {vector} {x}, {y}")
    if kind in ("any", "all"):
        return b.let(f"{'or' if kind == 'any' else 'and'} {vector} {x}, {y}")
    bit = f"<{lanes} x i1>" if lanes > 1 else "i1"
    if real:
        better = b.let(f"fcmp {'ogt' if kind == 'max' else 'olt'} {vector} {x}, {y}")
        unknown = b.let(f"fcmp uno {vector} {x}, {x}")
        choose = b.let(f"or {bit} {better}, {unknown}")
    else:
        word = ("s" if dtype.kind == "i" else "u") + ("gt" if kind == "max" else "lt")
        choose = b.let(f"icmp {word} {vector} {x}, {y}")
    return b.let(f"select {bit} {choose}, {vector} {x}, {vector} {y}")


def _across(e: Emitter, kind: str, value: str, dtype: Any) -> str:
    """All lanes into one scalar, halving each time."""
    b = e.b
    ty = scalar_type(dtype)
    lanes = e.lanes
    while lanes > 1:
        half = lanes // 2
        vector = f"<{lanes} x {ty}>"
        low = ", ".join(f"i32 {i}" for i in range(half))
        high = ", ".join(f"i32 {half + i}" for i in range(half))
        if half == 1:
            x = b.let(f"extractelement {vector} {value}, i32 0")
            y = b.let(f"extractelement {vector} {value}, i32 1")
        else:
            x = b.let(f"shufflevector {vector} {value}, {vector} poison, <{half} x i32> <{low}>")
            y = b.let(f"shufflevector {vector} {value}, {vector} poison, <{half} x i32> <{high}>")
        value = _combine(e, kind, x, y, dtype, half)
        lanes = half
    return value


def _levels(
    e: Emitter, low: str, high: str, unit: int, leaf: Callable[[str], list[str]], spans: list[str]
) -> list[str]:
    """Accumulate leaf(i) for i from low to high by `unit`, in levels that cover `spans` each."""
    reductions = e.kernel.reductions
    starts = [(e.b.vector_type(r.dtype), _start(e, r).name) for r in reductions]

    def merge(olds: list[str], news: list[str]) -> list[str]:
        return [
            _combine(e, r.kind, old, new, r.dtype, e.lanes)
            for r, old, new in zip(reductions, olds, news, strict=True)
        ]

    def level(depth: int, first: str, last: str) -> list[str]:
        if depth == len(spans):
            return e.carry(first, last, str(unit), starts, lambda i, c: merge(c, leaf(i)))

        def body(i: str, carried: list[str]) -> list[str]:
            end = e.b.let(f"add nsw i64 {i}, {spans[depth]}")
            short = e.b.let(f"icmp slt i64 {end}, {last}")
            end = e.b.let(f"select i1 {short}, i64 {end}, i64 {last}")
            return merge(carried, level(depth + 1, i, end))

        return e.carry(first, last, spans[depth], starts, body)

    return level(0, low, high)


def _masked(e: Emitter, values: list[Vector], mask: str | None) -> list[str]:
    """The reduced values, with what lies outside replaced by the identity."""
    names = []
    for reduction in e.kernel.reductions:
        value = values[reduction.value]
        if mask is not None:
            value = e.b.select(Vector(mask, np.dtype(bool)), value, _start(e, reduction))
        names.append(value.name)
    return names


def _store_scalar(e: Emitter, pointer: str, value: str, dtype: str) -> None:
    kind = memory_type(dtype)
    if dtype == "b1":
        value = e.b.let(f"zext i1 {value} to i8")
    e.b.line(f"store {kind} {value}, ptr {pointer}")


def _rows(e: Emitter) -> None:
    inner = e.kernel.axes - 1
    first = len(e.kernel.operands) + len(e.kernel.stores)

    def row(outer: list[str]) -> None:
        rows = [e.row(outer, entry) for entry in range(_entries(e))]
        same = e.same_in_row(rows)
        totals = _along(e, rows, same, inner, "0", e.sizes[inner])
        for number, (reduction, total) in enumerate(zip(e.kernel.reductions, totals, strict=True)):
            value = _across(e, reduction.kind, total, reduction.dtype)
            _store_scalar(e, rows[first + number], value, reduction.dtype)

    _outer_loops(e, inner, row)


def _along(
    e: Emitter, rows: list[str], same: dict[int, Vector], inner: int, low: str, high: str
) -> list[str]:
    """Vector accumulators over one stretch of the innermost axis."""

    def leaf(i: str) -> list[str]:
        mask = e.mask(i, high)
        return _masked(e, e.point(rows, i, inner, mask, same), mask)

    # Three levels, for rows may be short; where they are long, the second covers more.
    count = e.b.let(f"sub nsw i64 {high}, {low}")
    long = e.b.let(f"icmp sgt i64 {count}, {e.lanes * RADIX**4}")
    wide, narrow = e.lanes * RADIX**3, e.lanes * RADIX**2
    outer = e.b.let(f"select i1 {long}, i64 {wide}, i64 {narrow}")
    return _levels(e, low, high, e.lanes, leaf, [outer, str(e.lanes * RADIX)])


def _all(e: Emitter) -> None:
    first = len(e.kernel.operands) + len(e.kernel.stores)
    span = CHUNK * e.lanes
    rows = list(e.bases)
    same = e.same_in_row(rows)

    def chunk(index: str) -> None:
        low = e.b.let(f"mul nsw i64 {index}, {span}")
        end = e.b.let(f"add nsw i64 {low}, {span}")
        short = e.b.let(f"icmp slt i64 {end}, {e.sizes[0]}")
        high = e.b.let(f"select i1 {short}, i64 {end}, i64 {e.sizes[0]}")
        totals = _along(e, rows, same, 0, low, high)
        for number, (reduction, total) in enumerate(zip(e.kernel.reductions, totals, strict=True)):
            value = _across(e, reduction.kind, total, reduction.dtype)
            kind = memory_type(reduction.dtype)
            at = e.b.let(f"getelementptr {kind}, ptr {e.bases[first + number]}, i64 {index}", "p")
            _store_scalar(e, at, value, reduction.dtype)

    e.loop("%lo", "%hi", "1", chunk)


def _columns(e: Emitter) -> None:
    inner, reduced = e.kernel.axes - 1, e.kernel.axes - 2
    first = len(e.kernel.operands) + len(e.kernel.stores)

    def block(outer: list[str]) -> None:
        bases = [e.row(outer, entry) for entry in range(_entries(e))]
        low, high = ("%lo", "%hi") if not outer else ("0", e.sizes[inner])
        e.loop(low, high, str(e.lanes), lambda j: column(bases, j, high))

    def column(bases: list[str], j: str, high: str) -> None:
        mask = e.mask(j, high)

        def leaf(r: str) -> list[str]:
            rows = []
            for entry, base in enumerate(bases):
                step = e.b.let(f"mul nsw i64 {r}, {e.strides[entry][reduced]}", "o")
                rows.append(e.b.let(f"getelementptr i8, ptr {base}, i64 {step}", "p"))
            values = e.point(rows, j, inner, mask, e.same_in_row(rows))
            return _masked(e, values, None)

        # Here a level costs nothing beside a column of vectors.
        spans = [str(RADIX**depth) for depth in (4, 3, 2, 1)]
        totals = _levels(e, "0", e.sizes[reduced], 1, leaf, spans)
        for number, (reduction, total) in enumerate(zip(e.kernel.reductions, totals, strict=True)):
            entry = first + number
            target = e.reduce_target(number)
            vector = Vector(total, np.dtype(reduction.dtype))
            e.store(vector, target, bases[entry], j, e.strides[entry][inner], mask)

    _outer_loops(e, reduced, block)
