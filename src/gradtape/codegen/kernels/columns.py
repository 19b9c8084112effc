"""Columns: reductions over axes that are not the innermost.

Threads divide the columns. A thread takes a strip of columns, and of these RADIX rows at a time, so
that memory is read in long runs: partial results of a strip lie on the stack. Columns one vector
wide, from the first row to the last, would read half a cache line of each row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradtape.codegen.kernels.accumulators import Parts, Totals
from gradtape.codegen.kernels.kernel import RADIX
from gradtape.codegen.kernels.loops import Emitter
from gradtape.codegen.kernels.reductions import column_spans, following, levels, shifted
from gradtape.graph.vector_code import Vector

# Vectors in a strip, if one result is reduced: with vectors of 256 bits it reads four pages of
# every row, and its partial results fill the first cache. Strips of several results are narrower.
_STRIP = 512
# A longer body computes more than it waits for memory: it is emitted once, and not in strips.
_LONG_BODY = 12


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
        self._strip_vectors = max(_STRIP // max(len(self.totals.types), 1), _STRIP // 8)
        self._total: list[str] = []
        self._middle: list[str] = []

    def emit(self) -> None:
        e = self.e
        # Vectors of single bits are slow to store.
        bits = any("x i1>" in kind for kind in self.totals.types)
        in_strips = e.kernel.reduced == 1 and len(e.kernel.body) <= _LONG_BODY and not bits

        def block(outer: list[str]) -> None:
            bases = e.rows(outer)
            low, high = ("%lo", "%hi") if not outer else ("0", e.sizes[self.inner])
            if in_strips:
                low = self._strips(bases, low, high)
            e.loop(low, high, str(e.lanes), lambda j: self._column(bases, j, e.mask(j, high)))

        e.outer_loops(self.reduced, block)

    def _point(self, rows: list[str], j: str, mask: str | None, position: str | None) -> Parts:
        """The partial results of one vector of points."""
        e = self.e
        values = e.point(rows, j, self.inner, mask, e.same_in_row(rows))
        if self.totals.count_positions and position is not None:
            position = e.b.splat(position, "i64")
        return self.totals.of(values, position, None)

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

        def leaf(r: str) -> Parts:
            rows = shifted(self.e, bases, axis, r)
            position = following(self.e, self.totals, before, axis, r)
            if axis < self.inner - 1:
                return self._down(rows, axis + 1, position, j, mask)
            return self._point(rows, j, mask, position)

        stretch = ("0", self.e.sizes[axis])
        return levels(self.e, self.totals, stretch, 1, leaf, column_spans())

    # Strips.

    def _strips(self, bases: list[str], low: str, high: str) -> str:
        """Reduce the full vectors of columns; gives the first column that is left.

        There are three levels: RADIX rows in registers, some such sums, and the total. A few rows
        need no levels, and no strips.
        """
        e, b, rows = self.e, self.e.b, self.e.sizes[self.reduced]
        self._total, self._middle = self._scratch("total"), self._scratch("middle")
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
            self._strip(bases, (start, e.bounded(start, str(width), end)), span)

        e.loop(low, first, str(e.lanes), lambda j: self._store(bases, j, None, few(j)))
        e.loop(first, end, str(width), strip)
        return end

    def _rows(self, bases: list[str], rows: tuple[str, str], j: str) -> Parts:
        """A few rows of one vector of columns."""

        def step(i: str, carried: Parts) -> Parts:
            part = self._point(shifted(self.e, bases, self.reduced, i), j, None, i)
            return self.totals.merge(carried, part)

        return self.e.carry(*rows, "1", self.totals.start(), step)

    def _strip(self, bases: list[str], columns: tuple[str, str], span: str) -> None:
        e, rows = self.e, self.e.sizes[self.reduced]
        total, middle = self._total, self._middle

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

    def _clear(self, columns: tuple[str, str], scratch: list[str]) -> None:
        first = [name for _, name in self.totals.start()]
        self._every(columns, lambda j, number: self._write(scratch, number, first))

    def _scratch(self, hint: str) -> list[str]:
        """Memory on the stack for a strip of partial results: an array for each part."""
        names = []
        for number, kind in enumerate(self.totals.types):
            name = f"%{hint}.{number}"
            self.e.b.entry.append(f"  {name} = alloca [{self._strip_vectors} x {kind}], align 64")
            names.append(name)
        return names

    def _address(self, scratch: str, kind: str, number: str) -> str:
        return self.e.b.let(f"getelementptr {kind}, ptr {scratch}, i64 {number}", "p")

    def _read(self, scratch: list[str], number: str) -> Parts:
        pairs = zip(scratch, self.totals.types, strict=True)
        return [
            self.e.b.let(f"load {kind}, ptr {self._address(name, kind, number)}")
            for name, kind in pairs
        ]

    def _write(self, scratch: list[str], number: str, parts: Parts) -> None:
        for name, kind, part in zip(scratch, self.totals.types, parts, strict=True):
            self.e.b.line(f"store {kind} {part}, ptr {self._address(name, kind, number)}")

    def _add(self, scratch: list[str], number: str, parts: Parts) -> None:
        self._write(scratch, number, self.totals.merge(self._read(scratch, number), parts))
