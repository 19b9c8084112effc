"""Loops: the IR function of a kernel, `void kernel(slots, args, lo, hi, worker)`.

`args` holds the sizes of the axes and, for everything in memory, slot, offset and strides in bytes.
[lo, hi) is the part of the outermost axis to do (for `all`: of the chunks).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradtape.codegen.builder import Builder, Vector, memory_type
from gradtape.codegen.kernel import SAME, SCALAR, UNIT, Kernel, Operand

# Sums add this many terms in a row before they are added to the next level, and so on: a few
# levels bound the error as pairwise summation does.
RADIX = 16
# Vectors per chunk of a whole-tensor reduction: fixed, so results do not depend on threads.
CHUNK = RADIX * RADIX * RADIX


class Emitter:
    """Emits one kernel."""

    def __init__(self, kernel: Kernel, lanes: int, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.b = Builder(lanes)
        self.lanes = lanes
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
        for operand in self.operands:
            slot, offset = self._load_argument(), self._load_argument()
            self.bases.append(self._base(slot, offset))
            self.strides.append([self._load_argument() for _ in range(kernel.axes)])
            self.moves.append(
                [(self._load_argument(), self._load_argument()) for _ in operand.indices]
            )
        self.hoisted: dict[int, Vector] = {}
        for index, operand in enumerate(kernel.operands):
            if operand.access == SCALAR:
                self.hoisted[index] = self._load_scalar(self.bases[index], operand)

    # Arguments.

    def _load_argument(self) -> str:
        pointer = self.b.let(f"getelementptr i64, ptr %args, i64 {self._argument}", "a")
        self._argument += 1
        return self.b.let(f"load i64, ptr {pointer}", "a")

    def _base(self, slot: str, offset: str) -> str:
        pointer = self.b.let(f"getelementptr ptr, ptr %slots, i64 {slot}", "p")
        base = self.b.let(f"load ptr, ptr {pointer}", "p")
        return self.b.let(f"getelementptr i8, ptr {base}, i64 {offset}", "p")

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

    # Memory.

    def row(self, outer: list[str], entry: int) -> str:
        """The address of an entry at the given indices of the outer axes."""
        pointer = self.bases[entry]
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

    def _load_scalar(self, pointer: str, operand: Operand) -> Vector:
        b = self.b
        kind = memory_type(operand.dtype)
        value = b.let(f"load {kind}, ptr {pointer}")
        if operand.dtype == "b1":
            value = b.let(f"icmp ne i8 {value}, 0")
            kind = "i1"
        names = [b.splat(value, kind)]
        if operand.dtype[0] == "c":
            other = self._imaginary(pointer, kind)
            names.append(b.splat(b.let(f"load {kind}, ptr {other}"), kind))
        return Vector(names[0], np.dtype(operand.dtype), *names[1:])

    def _imaginary(self, pointer: str, kind: str) -> str:
        """Where the imaginary part of a complex number lies."""
        return self.b.let(f"getelementptr {kind}, ptr {pointer}, i64 1", "p")

    def load(
        self,
        operand: Operand,
        pointer: str,
        index: str,
        stride: str,
        mask: str | None,
        away: str | None = None,
    ) -> Vector:
        """`lanes` elements from `index` on along the innermost axis, each `away` as many bytes."""
        b = self.b
        if operand.dtype[0] == "c":
            return self._load_complex(operand, pointer, index, stride, mask, away)
        kind = memory_type(operand.dtype)
        size = np.dtype(operand.dtype).itemsize
        vector = f"<{self.lanes} x {kind}>"
        if operand.access == UNIT:
            at = b.let(f"getelementptr {kind}, ptr {pointer}, i64 {index}", "p")
            value = self._load_run(self.lanes, kind, at, size, mask)
        else:
            value = self._gather(vector, kind, pointer, index, stride, size, mask, away)
        if operand.dtype == "b1":
            value = b.let(f"icmp ne {vector} {value}, zeroinitializer")
        return Vector(value, np.dtype(operand.dtype))

    def _load_complex(
        self,
        operand: Operand,
        pointer: str,
        index: str,
        stride: str,
        mask: str | None,
        away: str | None,
    ) -> Vector:
        """Pairs of parts as they lie in memory, taken apart into two vectors."""
        b = self.b
        dtype = np.dtype(operand.dtype)
        kind, size = memory_type(dtype), dtype.itemsize // 2
        vector = f"<{self.lanes} x {kind}>"
        if operand.access != UNIT:
            parts = [
                self._gather(vector, kind, at, index, stride, size, mask, away)
                for at in (pointer, self._imaginary(pointer, kind))
            ]
            return Vector(parts[0], dtype, parts[1])
        at = b.let(f"getelementptr [2 x {kind}], ptr {pointer}, i64 {index}", "p")
        mask = None if mask is None else self._doubled(mask)
        both = self._load_run(2 * self.lanes, kind, at, size, mask)
        wide = f"<{2 * self.lanes} x {kind}>"
        parts = []
        for first in range(2):
            order = ", ".join(f"i32 {2 * lane + first}" for lane in range(self.lanes))
            parts.append(
                b.let(f"shufflevector {wide} {both}, {wide} poison, <{self.lanes} x i32> <{order}>")
            )
        return Vector(parts[0], dtype, parts[1])

    def _doubled(self, mask: str) -> str:
        """Each lane of a mask twice: for both parts of a complex number."""
        bits = f"<{self.lanes} x i1>"
        order = ", ".join(f"i32 {lane // 2}" for lane in range(2 * self.lanes))
        return self.b.let(
            f"shufflevector {bits} {mask}, {bits} poison, <{2 * self.lanes} x i32> <{order}>", "m"
        )

    def _load_run(self, lanes: int, kind: str, at: str, size: int, mask: str | None) -> str:
        """Elements that lie one after the other."""
        vector = f"<{lanes} x {kind}>"
        if mask is None:
            return self.b.let(f"load {vector}, ptr {at}, align {size}")
        symbol = f"@llvm.masked.load.v{lanes}{_suffix(kind)}.p0"
        self.b.define(f"declare {vector} {symbol}(ptr, i32, <{lanes} x i1>, {vector})")
        return self.b.let(
            f"call {vector} {symbol}(ptr {at}, i32 {size}, <{lanes} x i1> {mask}, "
            f"{vector} zeroinitializer)"
        )

    def _pointers(self, pointer: str, index: str, stride: str, away: str | None = None) -> str:
        b = self.b
        steps = self.iota_plus(index)
        every = b.splat(stride, "i64")
        offsets = b.let(f"mul <{self.lanes} x i64> {steps}, {every}", "o")
        if away is not None:
            offsets = b.let(f"add <{self.lanes} x i64> {offsets}, {away}", "o")
        return b.let(f"getelementptr i8, ptr {pointer}, <{self.lanes} x i64> {offsets}", "p")

    def _gather(
        self,
        vector: str,
        kind: str,
        pointer: str,
        index: str,
        stride: str,
        size: int,
        mask: str | None,
        away: str | None,
    ) -> str:
        symbol = f"@llvm.masked.gather.v{self.lanes}{_suffix(kind)}.v{self.lanes}p0"
        mask = mask or self._all_lanes()
        self.b.define(
            f"declare {vector} {symbol}(<{self.lanes} x ptr>, i32, <{self.lanes} x i1>, {vector})"
        )
        pointers = self._pointers(pointer, index, stride, away)
        return self.b.let(
            f"call {vector} {symbol}(<{self.lanes} x ptr> {pointers}, i32 {size}, "
            f"<{self.lanes} x i1> {mask}, {vector} zeroinitializer)"
        )

    def store(
        self,
        value: Vector,
        target: Operand,
        pointer: str,
        index: str,
        stride: str,
        mask: str | None,
        streaming: bool = False,
    ) -> None:
        """Write `lanes` elements from `index` on along the innermost axis."""
        b = self.b
        if target.dtype[0] == "c":
            self._store_complex(value, target, pointer, index, stride, mask, streaming)
            return
        kind = memory_type(target.dtype)
        size = np.dtype(target.dtype).itemsize
        name = value.name
        if target.dtype == "b1":
            name = b.let(f"zext <{self.lanes} x i1> {name} to <{self.lanes} x {kind}>")
        if target.access != UNIT:
            self._scatter(name, kind, pointer, index, stride, size, mask)
            return
        at = b.let(f"getelementptr {kind}, ptr {pointer}, i64 {index}", "p")
        self._store_run(self.lanes, name, kind, at, size, mask, streaming)

    def _store_complex(
        self,
        value: Vector,
        target: Operand,
        pointer: str,
        index: str,
        stride: str,
        mask: str | None,
        streaming: bool,
    ) -> None:
        """Two vectors as pairs of parts."""
        b = self.b
        dtype = np.dtype(target.dtype)
        kind, size = memory_type(dtype), dtype.itemsize // 2
        if target.access != UNIT:
            for name, at in zip(
                value.parts, (pointer, self._imaginary(pointer, kind)), strict=True
            ):
                self._scatter(name, kind, at, index, stride, size, mask)
            return
        vector = f"<{self.lanes} x {kind}>"
        order = ", ".join(f"i32 {lane}, i32 {lane + self.lanes}" for lane in range(self.lanes))
        both = b.let(
            f"shufflevector {vector} {value.name}, {vector} {value.imaginary}, "
            f"<{2 * self.lanes} x i32> <{order}>"
        )
        at = b.let(f"getelementptr [2 x {kind}], ptr {pointer}, i64 {index}", "p")
        mask = None if mask is None else self._doubled(mask)
        self._store_run(2 * self.lanes, both, kind, at, size, mask, streaming)

    def _scatter(
        self,
        name: str,
        kind: str,
        pointer: str,
        index: str,
        stride: str,
        size: int,
        mask: str | None,
    ) -> None:
        b = self.b
        vector = f"<{self.lanes} x {kind}>"
        symbol = f"@llvm.masked.scatter.v{self.lanes}{_suffix(kind)}.v{self.lanes}p0"
        b.define(f"declare void {symbol}({vector}, <{self.lanes} x ptr>, i32, <{self.lanes} x i1>)")
        pointers = self._pointers(pointer, index, stride)
        mask = mask or self._all_lanes()
        b.line(
            f"call void {symbol}({vector} {name}, <{self.lanes} x ptr> {pointers}, i32 {size}, "
            f"<{self.lanes} x i1> {mask})"
        )

    def _store_run(
        self, lanes: int, name: str, kind: str, at: str, size: int, mask: str | None, past: bool
    ) -> None:
        """Elements that are to lie one after the other; `past` the caches where all are stored."""
        b = self.b
        vector = f"<{lanes} x {kind}>"
        if mask is None:
            if past:
                # A run twice as long as a vector is aligned as a vector is.
                aligned = self.lanes * size
                b.line(f"store {vector} {name}, ptr {at}, align {aligned}, !nontemporal !0")
            else:
                b.line(f"store {vector} {name}, ptr {at}, align {size}")
            return
        symbol = f"@llvm.masked.store.v{lanes}{_suffix(kind)}.p0"
        b.define(f"declare void {symbol}({vector}, ptr, i32, <{lanes} x i1>)")
        b.line(f"call void {symbol}({vector} {name}, ptr {at}, i32 {size}, <{lanes} x i1> {mask})")

    def _all_lanes(self) -> str:
        return self.b.constant(True, np.dtype(bool)).name

    def iota_plus(self, index: str) -> str:
        lanes = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
        start = self.b.splat(index, "i64")
        return self.b.let(f"add <{self.lanes} x i64> {start}, <{lanes}>")

    def mask(self, index: str, high: str) -> str:
        """Which lanes from `index` on lie below `high`."""
        steps = self.iota_plus(index)
        bound = self.b.splat(high, "i64")
        return self.b.let(f"icmp slt <{self.lanes} x i64> {steps}, {bound}", "m")

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
            else:
                stride = self.strides[number][axis]
                away = self._scattered(number, values) if operand.indices else None
                values.append(self.load(operand, rows[number], index, stride, mask, away))
        for instruction in kernel.body:
            arguments = [values[number] for number in instruction.arguments]
            keywords = instruction.op.keywords(instruction.params)
            values.append(instruction.op.llvm(b, *arguments, **keywords))
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
            number: self._load_scalar(rows[number], operand)
            for number, operand in enumerate(self.kernel.operands)
            if operand.access == SAME
        }

    def text(self) -> tuple[str, list[str]]:
        """The function, and the definitions it needs."""
        from gradtape.codegen import nests

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


def _suffix(kind: str) -> str:
    return {"float": "f32", "double": "f64"}.get(kind, kind)


def lane_count(kernel: Kernel, bits: int) -> int:
    """Lanes per vector: what fits the widest element, at least two."""
    return max(2, bits // (8 * kernel.width))
