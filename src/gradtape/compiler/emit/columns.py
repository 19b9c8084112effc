"""Columns: reductions over axes that are not the innermost.

Threads divide the columns. A thread takes a strip of columns, and of these RADIX rows at a time, so
that memory is read in long runs: partial results of a strip lie on the stack. Columns one vector
wide, from the first row to the last, would read half a cache line of each row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradtape.compiler.emit.accumulators import Parts, PointValues, Totals
from gradtape.compiler.emit.loops import Emitter
from gradtape.compiler.emit.reductions import block_of, column_spans, following, levels, shifted
from gradtape.compiler.lower.kernel import RADIX, UNIT
from gradtape.config import LONG_COLUMN_BODY, STRIP_VECTORS
from gradtape.ops.families.vector_code import Vector


def emit_columns(e: Emitter) -> None:
    """Reduce the axes before the innermost."""
    _Columns(e).emit()


class _Columns:
    """The loops of one kernel; `low` and `high` bound its columns, and `bases` are addresses."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.totals = Totals(e.b, e.kernel.reductions)
        self.inner = e.kernel.axes - 1
        self.reduced = self.inner - e.kernel.reduced
        parts = max(len(self.totals.types), 1)
        self._strip_vectors = min(
            STRIP_VECTORS, max(2 * STRIP_VECTORS // parts, STRIP_VECTORS // 8)
        )
        self._block = block_of(e.kernel, self.totals)
        # With the call of a function between two loads, the processor does not see a stream, and
        # kernels fetch rows ahead.
        self._calls_functions = any(one.op.compiled_cost > 1 for one in e.kernel.body)
        # The partial results of one vector of columns lie side by side: an array for each part
        # would have them all in the same set of the first cache.
        self._record = "{ " + ", ".join(self.totals.types) + " }"

    def emit(self) -> None:
        e = self.e
        # Vectors of single bits are slow to store.
        bits = any("x i1>" in kind for kind in self.totals.types)
        in_strips = e.kernel.reduced == 1 and len(e.kernel.body) <= LONG_COLUMN_BODY and not bits
        in_strips = in_strips and e.in_strips

        def block(outer: list[str]) -> None:
            bases = e.rows(outer)
            low, high = ("%lo", "%hi") if not outer else ("0", e.sizes[self.inner])
            if in_strips:
                low = self._strips(bases, low, high)
            e.loop(low, high, str(e.lanes), lambda j: self._column(bases, j, e.mask(j, high)))

        e.outer_loops(self.reduced, block)

    def _point(
        self, rows: list[str], j: str, mask: str | None, position: str | None
    ) -> PointValues:
        """The values of one vector of points, and their position."""
        e = self.e
        values = e.point(rows, j, self.inner, mask, e.same_in_row(rows))
        if self.totals.count_positions and position is not None:
            position = e.b.splat(position, "i64")
        return values, position

    def _store(self, bases: list[str], j: str, mask: str | None, total: Parts) -> None:
        e = self.e
        first = len(e.kernel.operands) + len(e.kernel.stores)
        for entry, (accumulator, parts) in enumerate(self.totals.apart(total), first):
            parts = accumulator.result(parts, e.lanes)
            vector = Vector(parts[0], np.dtype(accumulator.reduction.dtype), *parts[1:])
            e.store(vector, e.operands[entry], e.place(entry, bases, j, self.inner, mask))

    # One vector of columns.

    def _column(self, bases: list[str], j: str, mask: str) -> None:
        self._store(bases, j, mask, self._down(bases, self.reduced, None, j, mask))

    def _down(self, bases: list[str], axis: int, before: str | None, j: str, mask: str) -> Parts:
        """Accumulators over a reduced axis and all axes inside it."""
        e, size, spans = self.e, self.e.sizes[axis], column_spans()

        def leaf(r: str) -> Parts:
            position = following(e, self.totals, before, axis, r)
            return self._down(shifted(e, bases, axis, r), axis + 1, position, j, mask)

        def rows(r: str) -> Parts:
            return self._rows(bases, (r, e.bounded(r, str(RADIX), size)), j, mask, before)

        if axis < self.inner - 1:
            return levels(e, self.totals, ("0", size), 1, leaf, spans)
        return levels(e, self.totals, ("0", size), RADIX, rows, spans[:-1])

    def _rows(
        self,
        bases: list[str],
        rows: tuple[str, str],
        j: str,
        mask: str | None = None,
        before: str | None = None,
    ) -> Parts:
        """Accumulators over a few rows of one vector of columns."""
        e, totals, axis, (first, last) = self.e, self.totals, self.inner - 1, rows

        def point(i: str) -> PointValues:
            if mask is None and self._calls_functions:
                self._prefetch(bases, i, j)
            position = following(e, totals, before, axis, i)
            return self._point(shifted(e, bases, axis, i), j, mask, position)

        def step(i: str, carried: Parts) -> Parts:
            return totals.merge(carried, totals.of(*point(i), None))

        def several(i: str, carried: Parts) -> Parts:
            each = [i, *(e.b.let(f"add nsw i64 {i}, {n}") for n in range(1, self._block))]
            return totals.merge(carried, totals.of_several([point(one) for one in each]))

        start = totals.start()
        if self._block > 1:
            count = e.b.let(f"sub nsw i64 {last}, {first}")
            rest = e.b.let(f"and i64 {count}, {self._block - 1}")
            full = e.b.let(f"sub nsw i64 {last}, {rest}")
            found = e.carry(first, full, str(self._block), start, several)
            start, first = list(zip(totals.types, found, strict=True)), full
        return e.carry(first, last, "1", start, step)

    # Strips.

    def _prefetch(self, bases: list[str], i: str, j: str) -> None:
        """Ask for the operands at the same columns, RADIX rows further down."""
        e, b = self.e, self.e.b
        b.define("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        ahead = b.let(f"add nsw i64 {i}, {RADIX}")
        rows = shifted(e, bases, self.reduced, ahead)
        for number, operand in enumerate(e.kernel.operands):
            if operand.access == UNIT and not operand.indices:
                offset = b.let(f"mul nsw i64 {j}, {e.strides[number][self.inner]}", "o")
                at = b.let(f"getelementptr i8, ptr {rows[number]}, i64 {offset}", "p")
                b.line(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def _strips(self, bases: list[str], low: str, high: str) -> str:
        """Reduce the full vectors of columns; gives the first column that is left.

        There are three levels: RADIX rows in registers, some such sums, and the total. A few rows
        need no levels, and no strips.
        """
        e, b, rows = self.e, self.e.b, self.e.sizes[self.reduced]
        total, middle = self._scratch("total"), self._scratch("middle")
        many = b.let(f"icmp sgt i64 {rows}, {RADIX}")
        count = b.let(f"sub nsw i64 {high}, {low}")
        full = b.let(f"and i64 {count}, {-e.lanes}")
        end = b.let(f"add nsw i64 {low}, {full}")
        first = b.let(f"select i1 {many}, i64 {low}, i64 {end}")
        long = b.let(f"icmp sgt i64 {rows}, {RADIX**4}")
        span = b.let(f"select i1 {long}, i64 {RADIX**3}, i64 {RADIX**2}")
        width = self._strip_vectors * e.lanes

        def few(j: str) -> Parts:
            return self._rows(bases, ("0", rows), j)

        def strip(start: str) -> None:
            columns = (start, e.bounded(start, str(width), end))
            self._strip(bases, columns, span, total, middle)

        e.loop(low, first, str(e.lanes), lambda j: self._store(bases, j, None, few(j)))
        e.loop(first, end, str(width), strip)
        return end

    def _strip(
        self, bases: list[str], columns: tuple[str, str], span: str, total: str, middle: str
    ) -> None:
        e, rows = self.e, self.e.sizes[self.reduced]

        def few(r: str, last: str) -> None:
            """Add at most RADIX rows to the middle level."""
            part = (r, e.bounded(r, str(RADIX), last))
            self._every(columns, lambda j, n: self._add(middle, n, self._rows(bases, part, j)))

        def many(r: str) -> None:
            """Add `span` rows to the total."""
            self._clear(columns, middle)
            last = e.bounded(r, span, rows)
            e.loop(r, last, str(RADIX), lambda i: few(i, last))
            self._every(columns, lambda j, n: self._add(total, n, self._read(middle, n)))

        self._clear(columns, total)
        e.loop("0", rows, span, many)
        self._every(columns, lambda j, n: self._store(bases, j, None, self._read(total, n)))

    def _every(self, columns: tuple[str, str], body: Callable[[str, str], None]) -> None:
        """Run the body at each vector of a strip, with its number."""
        start, stop = columns

        def at(j: str) -> None:
            offset = self.e.b.let(f"sub nsw i64 {j}, {start}")
            body(j, self.e.b.let(f"udiv exact i64 {offset}, {self.e.lanes}"))

        self.e.loop(start, stop, str(self.e.lanes), at)

    def _clear(self, columns: tuple[str, str], scratch: str) -> None:
        first = [name for _, name in self.totals.start()]
        self._every(columns, lambda j, number: self._write(scratch, number, first))

    def _scratch(self, hint: str) -> str:
        """Memory on the stack for a strip of partial results."""
        size = f"[{self._strip_vectors} x {self._record}]"
        self.e.b.entry.append(f"  %{hint} = alloca {size}, align 64")
        return f"%{hint}"

    def _places(self, scratch: str, number: str) -> list[tuple[str, str]]:
        """The type and the address of each part."""
        at = f"getelementptr {self._record}, ptr {scratch}, i64 {number}, i32"
        kinds = enumerate(self.totals.types)
        return [(kind, self.e.b.let(f"{at} {part}", "p")) for part, kind in kinds]

    def _read(self, scratch: str, number: str) -> Parts:
        places = self._places(scratch, number)
        return [self.e.b.let(f"load {kind}, ptr {place}") for kind, place in places]

    def _write(self, scratch: str, number: str, parts: Parts) -> None:
        for (kind, place), part in zip(self._places(scratch, number), parts, strict=True):
            self.e.b.line(f"store {kind} {part}, ptr {place}")

    def _add(self, scratch: str, number: str, parts: Parts) -> None:
        self._write(scratch, number, self.totals.merge(self._read(scratch, number), parts))
