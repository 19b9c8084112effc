"""Columns: reductions over axes that are not the innermost.

Threads divide the columns. A thread takes a strip of columns, and of these RADIX rows at a time, so
that memory is read in long runs: partial results of a strip lie on the stack. Columns one vector
wide, from the first row to the last, would read half a cache line of each row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from gradtape.compiler.emit.accumulators import Parts, PointValues, Totals
from gradtape.compiler.emit.loops import Emitter
from gradtape.compiler.emit.reductions import block_of, column_spans, following, levels, shifted
from gradtape.compiler.emit.writer import Word
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
            low, high = ("%lo", "%hi") if not outer else (0, e.sizes[self.inner])
            if in_strips:
                low = self._strips(bases, low, high)
            e.loop(low, high, e.lanes, lambda j: self._column(bases, j, e.mask(j, high)))

        e.outer_loops(self.reduced, block)

    def _point(
        self, rows: list[str], j: str, mask: str | None, position: str | None
    ) -> PointValues:
        """The values of one vector of points, and their position."""
        e = self.e
        values = e.point(rows, j, self.inner, mask, e.same_in_row(rows))
        if self.totals.count_positions and position is not None:
            position = e.r.splat(position, e.lanes)
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
            return self._rows(bases, (r, e.bounded(r, RADIX, size)), j, mask, before)

        if axis < self.inner - 1:
            return levels(e, self.totals, (0, size), 1, leaf, spans)
        return levels(e, self.totals, (0, size), RADIX, rows, spans[:-1])

    def _rows(
        self,
        bases: list[str],
        rows: tuple[Word, Word],
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
            each = [i, *(e.r.add(i, n) for n in range(1, self._block))]
            return totals.merge(carried, totals.of_several([point(one) for one in each]))

        start = totals.start()
        if self._block > 1:
            rest = e.r.op("and", e.r.subtract(last, first), self._block - 1)
            full = e.r.subtract(last, rest)
            start, first = e.carry(first, full, self._block, start, several), full
        return e.carry(first, last, 1, start, step)

    # Strips.

    def _prefetch(self, bases: list[str], i: str, j: str) -> None:
        """Prefetch the operands at the same columns, RADIX rows further down."""
        e = self.e
        rows = shifted(e, bases, self.reduced, e.r.add(i, RADIX))
        rows = shifted(e, rows, self.inner, j)
        for row, operand in zip(rows, e.kernel.operands, strict=False):
            if operand.access == UNIT and not operand.indices:
                e.r.do("@llvm.prefetch.p0", row, "i32 0", "i32 3", "i32 1")

    def _strips(self, bases: list[str], low: Word, high: Word) -> str:
        """Reduce the full vectors of columns; gives the first column that is left.

        There are three levels: RADIX rows in registers, some such sums, and the total. A few rows
        need no levels, and no strips.
        """
        e, r, rows = self.e, self.e.r, self.e.sizes[self.reduced]
        memory = f"alloca [{self._strip_vectors} x {self._record}], align 64"
        total, middle = r.entry_line(memory), r.entry_line(memory)
        end = r.add(low, r.op("and", r.subtract(high, low), -e.lanes))
        first = r.select(r.compare("sgt", rows, RADIX), low, end)
        span = r.select(r.compare("sgt", rows, RADIX**4), RADIX**3, RADIX**2)
        width = self._strip_vectors * e.lanes
        with r.loop(first, low, e.lanes) as j:
            self._store(bases, j, None, self._rows(bases, (0, rows), j))
        with r.loop(end, first, width) as start:
            self._strip(bases, (start, e.bounded(start, width, end)), span, total, middle)
        return end

    def _strip(
        self, bases: list[str], columns: tuple[str, str], span: str, total: str, middle: str
    ) -> None:
        e, rows = self.e, self.e.sizes[self.reduced]

        self._clear(columns, total)
        with e.r.loop(rows, step=span) as r:
            self._clear(columns, middle)
            last = e.bounded(r, span, rows)
            with e.r.loop(last, r, RADIX) as i:
                part = (i, e.bounded(i, RADIX, last))
                with self._every(columns) as (j, n):
                    self._add(middle, n, self._rows(bases, part, j))
            with self._every(columns) as (_, n):
                self._add(total, n, self._read(middle, n))
        with self._every(columns) as (j, n):
            self._store(bases, j, None, self._read(total, n))

    @contextlib.contextmanager
    def _every(self, columns: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Lines for each vector of a strip, and its number."""
        start, stop = columns
        with self.e.r.loop(stop, start, self.e.lanes) as j:
            yield j, self.e.r.op("udiv exact", self.e.r.subtract(j, start), self.e.lanes)

    def _clear(self, columns: tuple[str, str], scratch: str) -> None:
        with self._every(columns) as (_, number):
            self._write(scratch, number, self.totals.start())

    def _places(self, scratch: str, number: str) -> list[tuple[str, str]]:
        """The type and the address of each part."""
        at = f"getelementptr {self._record}, ptr {scratch}, i64 {number}, i32"
        kinds = enumerate(self.totals.types)
        return [(kind, self.e.r.let(f"{at} {part}", "ptr")) for part, kind in kinds]

    def _read(self, scratch: str, number: str) -> Parts:
        return [self.e.r.load(kind, place) for kind, place in self._places(scratch, number)]

    def _write(self, scratch: str, number: str, parts: Parts) -> None:
        for (kind, place), part in zip(self._places(scratch, number), parts, strict=True):
            self.e.r.store(part, place, kind)

    def _add(self, scratch: str, number: str, parts: Parts) -> None:
        self._write(scratch, number, self.totals.merge(self._read(scratch, number), parts))
