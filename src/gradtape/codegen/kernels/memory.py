"""Memory: vectors read from and written to memory, whole or masked, in a run or scattered."""

from __future__ import annotations

import numpy as np

from gradtape.codegen.kernels.builder import Builder, Vector, memory_type
from gradtape.codegen.kernels.kernel import UNIT, Operand


class Memory:
    """Appends what moves vectors of `lanes` elements between memory and registers."""

    def __init__(self, lanes: int) -> None:
        self.b = Builder(lanes)
        self.lanes = lanes

    def load_scalar(self, pointer: str, operand: Operand) -> Vector:
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


def _suffix(kind: str) -> str:
    return {"float": "f32", "double": "f64"}.get(kind, kind)
