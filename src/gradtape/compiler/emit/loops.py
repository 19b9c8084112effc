"""Loops: the parts of a kernel's IR function, `void kernel(slots, args, lo, hi, worker)`.

`args` holds the sizes of the axes and, for each array, its slot, offset and strides in bytes.
[lo, hi) is the part of the outermost axis to compute (of the chunks, in a whole reduction).
`nests` and `reductions` put these parts together, one function for each layout.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from gradtape.compiler.emit.memory import Memory, VectorPlace
from gradtape.compiler.lower.kernel import BOOL, SAME, SCALAR, Kernel, KernelArray, KernelLayout
from gradtape.compiler.objects import llvm
from gradtape.ops.families.lowering import add
from gradtape.ops.families.vector_code import Vector

# Stands for a scalar of the table that is not loaded yet.
_UNREAD = Vector("", BOOL)


class Emitter(Memory):
    """Appends the loops of one kernel: arguments, control flow, addresses and the body."""

    def __init__(self, kernel: Kernel, lanes: int, name: str, in_strips: bool = True) -> None:
        super().__init__(lanes)
        self.kernel = kernel
        self.name = name
        # Whether columns are summed in strips, where that pays for many of them.
        self.in_strips = in_strips
        self._blocks = 0
        self._argument = 0
        # All arrays: first those that are read, then stores, then results of reductions.
        self.operands = [
            *kernel.operands,
            *(store.target for store in kernel.stores),
            *(KernelArray(reduction.dtype, reduction.access) for reduction in kernel.reductions),
        ]
        # A whole reduction over several axes also gets the length of its chunks.
        more = 1 if kernel.layout is KernelLayout.WHOLE and kernel.axes > 1 else 0
        self.sizes = [self._load_argument() for _ in range(kernel.axes + more)]
        self.bases: list[str] = []
        self.strides: list[list[str]] = []
        # For each array, bytes per position and the last position of each index that moves it.
        self.moves: list[list[tuple[str, str]]] = []
        table = kernel.tabled
        # The offset of each scalar in the table, in bytes.
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
        # The numbers of values that are stored or reduced; -1 stands for no factor.
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
        """Copy scalars from their slots to one table on the stack, by a loop per dtype."""
        if not table:
            return
        self.b.entry.append(f"  %table = alloca [{16 * len(table)} x i8], align 64")
        end = 0
        for dtype, group in itertools.groupby(table, lambda number: self.operands[number].dtype):
            members, size = list(group), np.dtype(dtype).itemsize
            copy = partial(self._copy_scalar, size, self._argument, end)
            self.loop("0", str(len(members)), "1", copy)
            for position, number in enumerate(members):
                self.tabled[number] = end + position * size
            self._argument += 2 * len(members)
            end += -(-len(members) * size // 16) * 16

    def _copy_scalar(self, size: int, argument: int, start: int, index: str) -> None:
        """Copy one scalar, whose slot and offset are arguments, to its place in the table."""
        b, kind = self.b, f"i{8 * size}"
        at = b.let(f"mul nsw i64 {index}, 16", "o")
        place = b.let(f"getelementptr i8, ptr %args, i64 {at}", "a")
        place = b.let(f"getelementptr i64, ptr {place}, i64 {argument}", "a")
        other = b.let(f"getelementptr i64, ptr {place}, i64 1", "a")
        slot, offset = b.let(f"load i64, ptr {place}"), b.let(f"load i64, ptr {other}")
        value = b.let(f"load {kind}, ptr {self._base(slot, offset)}, align 1")
        to = b.let(f"mul nsw i64 {index}, {size}", "o")
        into = b.let(f"getelementptr i8, ptr %table, i64 {to}", "p")
        into = b.let(f"getelementptr i8, ptr {into}, i64 {start}", "p")
        b.line(f"store {kind} {value}, ptr {into}, align 1")

    # Control flow.

    def block(self, hint: str) -> str:
        """A new label."""
        self._blocks += 1
        return f"{hint}{self._blocks}"

    def loop(self, low: str, high: str, step: str, body: Callable[[str], None]) -> None:
        """`for i in range(low, high, step)`, with results in memory only."""

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
        """A loop that carries values from one round to the next, and gives their final names.

        `start` lists the type and the first name of each. In SSA form a carried value is a phi: the
        first name if control comes from before the loop, the body's result if it comes around.
        """
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
        b.line("")  # The phis are filled in below, when the names that come around are known.
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

    def bounded(self, index: str, step: str, last: str) -> str:
        """The end of a step from an index on: `min(index + step, last)`."""
        end = self.b.let(f"add nsw i64 {index}, {step}")
        short = self.b.let(f"icmp slt i64 {end}, {last}")
        return self.b.let(f"select i1 {short}, i64 {end}, i64 {last}")

    def outer_loops(self, count: int, body: Callable[[list[str]], None]) -> None:
        """Loops over the first `count` axes; the outermost runs over [lo, hi)."""

        def nest(indices: list[str]) -> None:
            axis = len(indices)
            if axis == count:
                body(indices)
                return
            low, high = ("%lo", "%hi") if axis == 0 else ("0", self.sizes[axis])
            self.loop(low, high, "1", lambda i: nest([*indices, i]))

        nest([])

    # Addresses.

    def row(self, outer: list[str], entry: int) -> str:
        """The address of an array at these indices of the outer axes."""
        pointer = self.bases[entry]
        if self.operands[entry].access == SCALAR:
            return pointer
        for index, stride in zip(outer, self.strides[entry], strict=False):
            step = self.b.let(f"mul nsw i64 {index}, {stride}", "o")
            pointer = self.b.let(f"getelementptr i8, ptr {pointer}, i64 {step}", "p")
        return pointer

    def rows(self, outer: list[str]) -> list[str]:
        """The addresses of all arrays at these indices of the outer axes."""
        return [self.row(outer, entry) for entry in range(len(self.bases))]

    def place(
        self, entry: int, rows: list[str], index: str, axis: int, mask: str | None
    ) -> VectorPlace:
        """Where a vector of an array lies along the innermost axis."""
        return VectorPlace(rows[entry], index, self.strides[entry][axis], mask)

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
        """The offset of a position. The bound keeps a wrong position inside the array."""
        suffix = kind if kind == "i64" else f"v{self.lanes}i64"
        self.b.define(f"declare {kind} @llvm.umin.{suffix}({kind}, {kind})")
        inside = self.b.let(
            f"call {kind} @llvm.umin.{suffix}({kind} {position}, {kind} {last})", "n"
        )
        return self.b.let(f"mul nsw {kind} {inside}, {step}", "o")

    def _scattered(self, entry: int, values: list[Vector]) -> str | None:
        """The offset of each lane by positions that change along a row, if there are any."""
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
        values: list[Vector] = []
        for number, operand in enumerate(kernel.operands):
            if number in self.hoisted:
                values.append(self.hoisted[number])
            elif number in same:
                values.append(same[number])
            elif number in self.tabled:
                values.append(_UNREAD)
            else:
                offsets = self._scattered(number, values) if operand.indices else None
                stride = self.strides[number][axis]
                place = VectorPlace(rows[number], index, stride, mask, offsets)
                values.append(self.load(operand, place))
        # Functions that were computed together with an earlier one.
        computed: dict[int, Vector] = {}
        for position, instruction in enumerate(kernel.body):
            # A scalar of the table is read where it is first used: registers are few.
            op, params, numbers, _ = instruction
            if self.tabled:
                self._read_from_table(values, numbers)
            assert op.llvm is not None
            arguments = [values[number] for number in numbers]
            if position in kernel.joint:
                if position not in computed:
                    call = kernel.joint[position]
                    both = b.call_both(call.function, *arguments)
                    computed[call.beside], computed[call.position] = both
                values.append(computed[position])
                continue
            keywords = op.keywords(params) if params else {}
            values.append(op.llvm(b, *arguments, **keywords))
        self._read_from_table(values, self._results)
        first = len(kernel.operands)
        for entry, item in enumerate(kernel.stores, first):
            place = self.place(entry, rows, index, axis, mask)
            value = values[item.value]
            if item.adds:
                value = add(b, self.load(item.target, place), value)
            self.store(value, item.target, place, item.streaming)
        return values

    def element(self, rows: list[str]) -> None:
        """The one value of a kernel without vectors at these addresses, stored or added."""
        b, kernel = self.b, self.kernel
        (item,) = kernel.stores
        if item.value < len(kernel.operands):
            found = self.hoisted.get(item.value)
            value = found or self.load_scalar(rows[item.value], kernel.operands[item.value])
        else:
            (constant,) = kernel.body
            assert constant.op.llvm is not None
            value = constant.op.llvm(b, **constant.op.keywords(constant.params))
        if item.adds:
            value = add(b, self.load_scalar(rows[-1], item.target), value)
        self.store_scalar(rows[-1], value.parts, item.target.dtype)

    def _read_from_table(self, values: list[Vector], numbers: Iterable[int]) -> None:
        """Load the scalars of the table among these values that are not loaded yet."""
        for number in numbers:
            if values[number] is _UNREAD:
                at = self.b.let(f"getelementptr i8, ptr %table, i64 {self.tabled[number]}", "p")
                values[number] = self.load_scalar(at, self.operands[number])

    def same_in_row(self, rows: list[str]) -> dict[int, Vector]:
        """Operands that do not move along the innermost axis, loaded once per row."""
        return {
            number: self.load_scalar(rows[number], operand)
            for number, operand in enumerate(self.kernel.operands)
            if operand.access == SAME
        }

    def text(self) -> tuple[str, list[str]]:
        """The function, when its loops are emitted, and the definitions that it needs."""
        b = self.b
        head = (
            f"define void @{self.name}(ptr %slots, ptr %args, i64 %lo, i64 %hi, i64 %worker) "
            f"{llvm.aligned_stack(llvm.host().bits // 8)} #0 {{"
        )
        if any(item.streaming for item in self.kernel.stores):
            # Writes past the caches must have arrived before other threads read the results.
            b.define("declare void @llvm.x86.sse.sfence()")
            b.line("call void @llvm.x86.sse.sfence()")
        lines = [head, "entry:", *b.entry, *b.lines, "  ret void", "}"]
        return "\n".join(lines), list(b.definitions)
