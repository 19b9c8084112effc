"""Loops: the IR function of a kernel, `void kernel(slots, args, lo, hi, worker)`.

`args` holds the sizes of the axes and, for everything in memory, slot, offset and strides in bytes.
[lo, hi) is the part of the outermost axis to do (for `all`: of the chunks).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.codegen.kernels.builder import Vector
from gradtape.codegen.kernels.kernel import SAME, SCALAR, Kernel, Operand
from gradtape.codegen.kernels.memory import Memory

# Sums add this many terms in a row before they are added to the next level, and so on: a few
# levels bound the error as pairwise summation does.
RADIX = 16
# Vectors per chunk of a whole-tensor reduction: fixed, so results do not depend on threads.
CHUNK = RADIX * RADIX * RADIX


class Emitter(Memory):
    """Emits one kernel."""

    def __init__(self, kernel: Kernel, lanes: int, name: str) -> None:
        super().__init__(lanes)
        self.kernel = kernel
        self.name = name
        self._blocks = 0
        self._argument = 0
        entries = (
            [("operand", o) for o in kernel.operands]
            + [("store", s.target) for s in kernel.stores]
            + [("reduce", Operand(r.dtype, r.access)) for r in kernel.reductions]
        )
        # A reduction of everything over several axes also gets the length of its chunks.
        more = 1 if kernel.layout == "all" and kernel.axes > 1 else 0
        self.sizes = [self._load_argument() for _ in range(kernel.axes + more)]
        self.bases: list[str] = []
        self.strides: list[list[str]] = []
        # Of what is moved by positions: bytes per position and the last position, for each.
        self.moves: list[list[tuple[str, str]]] = []
        self.operands = [operand for _, operand in entries]
        table = kernel.tabled
        # Where each scalar of the table lies in it, in bytes.
        self.tabled: dict[int, int] = {}
        for number, operand in enumerate(self.operands):
            if number in table:
                self.bases.append("")
                self.strides.append([])
                self.moves.append([])
                continue
            slot, offset = self._load_argument(), self._load_argument()
            self.bases.append(self._base(slot, offset))
            self.strides.append([self._load_argument() for _ in range(kernel.axes)])
            self.moves.append(
                [(self._load_argument(), self._load_argument()) for _ in operand.indices]
            )
        self.hoisted: dict[int, Vector] = {}
        self._fill_table(table)
        # Values that are stored or reduced; -1 where a reduction has no factor.
        self._results = {s.value for s in kernel.stores}
        for r in kernel.reductions:
            self._results |= {r.value, r.factor}
        self._results.discard(-1)
        for index, operand in enumerate(kernel.operands):
            if operand.access == SCALAR and index not in self.tabled:
                self.hoisted[index] = self.load_scalar(self.bases[index], operand)

    # Arguments.

    def _load_argument(self) -> str:
        pointer = self.b.let(f"getelementptr i64, ptr %args, i64 {self._argument}", "a")
        self._argument += 1
        return self.b.let(f"load i64, ptr {pointer}", "a")

    def _base(self, slot: str, offset: str) -> str:
        pointer = self.b.let(f"getelementptr ptr, ptr %slots, i64 {slot}", "p")
        base = self.b.let(f"load ptr, ptr {pointer}", "p")
        return self.b.let(f"getelementptr i8, ptr {base}, i64 {offset}", "p")

    def _fill_table(self, table: tuple[int, ...]) -> None:
        """Copy scalars from wherever they lie to one place on the stack, by a loop per dtype."""
        b = self.b
        if not table:
            return
        b.entry.append(f"  %table = alloca [{16 * len(table)} x i8], align 64")
        end = 0
        for dtype, group in itertools.groupby(table, lambda number: self.operands[number].dtype):
            members = list(group)
            size, kind = np.dtype(dtype).itemsize, f"i{8 * np.dtype(dtype).itemsize}"
            argument, start = self._argument, end

            def copy(index: str) -> None:
                at = b.let(f"mul nsw i64 {index}, 16", "o")
                place = b.let(f"getelementptr i8, ptr %args, i64 {at}", "a")
                place = b.let(f"getelementptr i64, ptr {place}, i64 {argument}", "a")  # noqa: B023
                other = b.let(f"getelementptr i64, ptr {place}, i64 1", "a")
                slot, offset = b.let(f"load i64, ptr {place}"), b.let(f"load i64, ptr {other}")
                value = b.let(f"load {kind}, ptr {self._base(slot, offset)}, align 1")  # noqa: B023
                to = b.let(f"mul nsw i64 {index}, {size}", "o")  # noqa: B023
                into = b.let(f"getelementptr i8, ptr %table, i64 {to}", "p")
                into = b.let(f"getelementptr i8, ptr {into}, i64 {start}", "p")  # noqa: B023
                b.line(f"store {kind} {value}, ptr {into}, align 1")  # noqa: B023

            self.loop("0", str(len(members)), "1", copy)
            for position, number in enumerate(members):
                self.tabled[number] = start + position * size
            self._argument += 2 * len(members)
            end += -(-len(members) * size // 16) * 16

    def _from_table(self, number: int) -> Vector:
        """A scalar of the table in all lanes."""
        at = self.b.let(f"getelementptr i8, ptr %table, i64 {self.tabled[number]}", "p")
        return self.load_scalar(at, self.operands[number])

    # Control flow.

    def block(self, hint: str) -> str:
        self._blocks += 1
        return f"{hint}{self._blocks}"

    def loop(self, low: str, high: str, step: str, body: Callable[[str], None]) -> None:
        """for i in range(low, high, step), where nothing is carried but memory."""

        def carrying_nothing(index: str, _: list[str]) -> list[str]:
            body(index)
            return []

        self.carry(low, high, step, [], carrying_nothing)

    def carry(
        self,
        low: str,
        high: str,
        step: str,
        start: list[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop that carries values; `start` lists (type, name); gives their final names."""
        b = self.b
        before, head, inner, after = (self.block(h) for h in ("before", "head", "body", "after"))
        b.line(f"br label %{before}")
        b.label(before)
        b.line(f"br label %{head}")
        b.label(head)
        index = b.fresh("i")
        following = b.fresh("i")
        names = [b.fresh("c") for _ in start]
        phi = len(b.lines)
        b.line("")  # filled below, when the names that come around are known
        done = b.let(f"icmp sge i64 {index}, {high}", "d")
        b.line(f"br i1 {done}, label %{after}, label %{inner}")
        b.label(inner)
        results = body(index, names)
        last = self.block("last")
        b.line(f"br label %{last}")
        b.label(last)
        b.line(f"{following} = add nsw i64 {index}, {step}")
        b.line(f"br label %{head}")
        b.label(after)
        lines = [f"  {index} = phi i64 [ {low}, %{before} ], [ {following}, %{last} ]"]
        for name, (kind, first), result in zip(names, start, results, strict=True):
            lines.append(f"  {name} = phi {kind} [ {first}, %{before} ], [ {result}, %{last} ]")
        b.lines[phi] = "\n".join(lines)
        return names

    # Addresses.

    def row(self, outer: list[str], entry: int) -> str:
        """The address of an entry at the given indices of the outer axes."""
        pointer = self.bases[entry]
        if self.operands[entry].access == SCALAR:
            return pointer
        for index, stride in zip(outer, self.strides[entry], strict=False):
            step = self.b.let(f"mul nsw i64 {index}, {stride}", "o")
            pointer = self.b.let(f"getelementptr i8, ptr {pointer}, i64 {step}", "p")
        return pointer

    def moved(self, rows: list[str]) -> list[str]:
        """Addresses, moved by positions that are the same all along a row."""
        b = self.b
        found = list(rows)
        for entry, operand in enumerate(self.operands):
            for index, (step, last) in zip(operand.indices, self.moves[entry], strict=True):
                if self.operands[index].access not in (SAME, SCALAR):
                    continue
                position = b.let(f"load i64, ptr {rows[index]}", "n")
                offset = self._bounded_offset("i64", position, step, last)
                found[entry] = b.let(f"getelementptr i8, ptr {found[entry]}, i64 {offset}", "p")
        return found

    def _bounded_offset(self, kind: str, position: str, step: str, last: str) -> str:
        """The way to a position. It is in range; were it not, memory would stay safe."""
        suffix = kind if kind == "i64" else f"v{self.lanes}i64"
        self.b.define(f"declare {kind} @llvm.umin.{suffix}({kind}, {kind})")
        inside = self.b.let(
            f"call {kind} @llvm.umin.{suffix}({kind} {position}, {kind} {last})", "n"
        )
        return self.b.let(f"mul nsw {kind} {inside}, {step}", "o")

    def _scattered(self, entry: int, values: list[Vector]) -> str | None:
        """Offsets by positions that change along a row, one per lane, if there are any."""
        b = self.b
        total = None
        kind = f"<{self.lanes} x i64>"
        for index, (step, last) in zip(
            self.operands[entry].indices, self.moves[entry], strict=True
        ):
            if self.operands[index].access in (SAME, SCALAR):
                continue
            steps, bound = b.splat(step, "i64"), b.splat(last, "i64")
            offset = self._bounded_offset(kind, values[index].name, steps, bound)
            total = offset if total is None else b.let(f"add nsw {kind} {total}, {offset}", "o")
        return total

    # The body.

    def point(
        self, rows: list[str], index: str, axis: int, mask: str | None, same: dict[int, Vector]
    ) -> list[Vector]:
        """All values of the body at one vector of points; elementwise results are stored."""
        b, kernel = self.b, self.kernel
        values: list[Any] = []
        for number, operand in enumerate(kernel.operands):
            if number in self.hoisted:
                values.append(self.hoisted[number])
            elif number in same:
                values.append(same[number])
            elif number in self.tabled:
                values.append(None)
            else:
                stride = self.strides[number][axis]
                away = self._scattered(number, values) if operand.indices else None
                values.append(self.load(operand, rows[number], index, stride, mask, away))
        for instruction in kernel.body:
            for number in instruction.arguments:
                # Read where it is first used: registers are few.
                if values[number] is None:
                    values[number] = self._from_table(number)
            arguments = [values[number] for number in instruction.arguments]
            keywords = instruction.op.keywords(instruction.params)
            values.append(instruction.op.llvm(b, *arguments, **keywords))
        # Scalars that are stored or summed as they are.
        for number in self._results:
            if values[number] is None:
                values[number] = self._from_table(number)
        first = len(kernel.operands)
        for position, item in enumerate(kernel.stores):
            entry = first + position
            stride = self.strides[entry][axis]
            value = values[item.value]
            if item.adds:
                there = self.load(item.target, rows[entry], index, stride, mask)
                value = b.arithmetic("fadd", "add", there, value, contract=False)
            self.store(value, item.target, rows[entry], index, stride, mask, item.streaming)
        return values

    def reduce_target(self, number: int) -> Operand:
        """Where a reduction that keeps the innermost axis goes."""
        reduction = self.kernel.reductions[number]
        return Operand(reduction.dtype, reduction.access)

    def same_in_row(self, rows: list[str]) -> dict[int, Vector]:
        """Operands that do not move along the innermost axis, loaded once per row."""
        return {
            number: self.load_scalar(rows[number], operand)
            for number, operand in enumerate(self.kernel.operands)
            if operand.access == SAME
        }

    def text(self) -> tuple[str, list[str]]:
        """The function, and the definitions it needs."""
        from gradtape.codegen.kernels import nests

        nests.emit(self)
        b = self.b
        head = (
            f"define void @{self.name}(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %worker) #0 {{"
        )
        if any(item.streaming for item in self.kernel.stores):
            # Other threads read the results: writes that pass the caches must have arrived.
            b.define("declare void @llvm.x86.sse.sfence()")
            b.line("call void @llvm.x86.sse.sfence()")
        lines = [head, "entry:", *b.entry, *b.lines, "  ret void", "}"]
        return "\n".join(lines), list(b.definitions)


def lane_count(kernel: Kernel, bits: int) -> int:
    """Lanes per vector: what fits the widest element, at least two."""
    return max(2, bits // (8 * kernel.width))
