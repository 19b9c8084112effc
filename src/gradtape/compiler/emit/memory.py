"""Memory: vectors read from and written to memory, whole or masked, in a run or scattered.

The last vector of a row may reach past the row's end. A mask says which of its lanes exist:
masked loads give 0 in the others, and masked stores leave memory as it is, so that a tail needs no
loop over single elements. A mask of None means that all lanes exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.compiler.emit.builder import Builder
from gradtape.compiler.lower.kernel import BOOL, UNIT, KernelArray, memory_type
from gradtape.ops.families.vector_code import Vector
from gradtape.records import dataclass


@dataclass(frozen=True)
class VectorPlace:
    """Where the lanes of a vector lie: from `index` on along the innermost axis of a row.

    `row` is an address, `stride` is in bytes, and `offsets` are more bytes for each lane.
    """

    row: str
    index: str
    stride: str
    mask: str | None
    offsets: str | None = None


class Memory:
    """Appends instructions that move vectors of `lanes` elements between memory and registers."""

    def __init__(self, lanes: int) -> None:
        self.b = Builder(lanes)
        self.lanes = lanes

    def load_scalar(self, pointer: str, operand: KernelArray) -> Vector:
        """One element in all lanes."""
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

    def store_scalar(self, pointer: str, parts: Sequence[str], dtype: str) -> None:
        """Write one element, given the names of its parts."""
        b, kind = self.b, memory_type(dtype)
        value = parts[0]
        if dtype == "b1":
            value = b.let(f"zext i1 {value} to i8")
        b.line(f"store {kind} {value}, ptr {pointer}")
        for other in parts[1:]:
            b.line(f"store {kind} {other}, ptr {self._imaginary(pointer, kind)}")

    def _imaginary(self, pointer: str, kind: str) -> str:
        """The address of the imaginary part of a complex number."""
        return self.b.let(f"getelementptr {kind}, ptr {pointer}, i64 1", "p")

    def load(self, operand: KernelArray, place: VectorPlace) -> Vector:
        """The elements at a place."""
        if operand.dtype[0] == "c":
            return self._load_complex(operand, place)
        b = self.b
        kind = memory_type(operand.dtype)
        size = np.dtype(operand.dtype).itemsize
        if operand.access == UNIT:
            at = b.let(f"getelementptr {kind}, ptr {place.row}, i64 {place.index}", "p")
            value = self._load_run(self.lanes, kind, at, size, place.mask)
        else:
            value = self._gather(kind, place.row, place, size)
        if operand.dtype == "b1":
            value = b.let(f"icmp ne <{self.lanes} x {kind}> {value}, zeroinitializer")
        return Vector(value, np.dtype(operand.dtype))

    def _load_complex(self, operand: KernelArray, place: VectorPlace) -> Vector:
        """Pairs of parts as they lie in memory, taken apart into two vectors."""
        b = self.b
        dtype = np.dtype(operand.dtype)
        kind, size = memory_type(dtype), dtype.itemsize // 2
        if operand.access != UNIT:
            rows = (place.row, self._imaginary(place.row, kind))
            parts = [self._gather(kind, row, place, size) for row in rows]
            return Vector(parts[0], dtype, parts[1])
        at = b.let(f"getelementptr [2 x {kind}], ptr {place.row}, i64 {place.index}", "p")
        both = self._load_run(2 * self.lanes, kind, at, size, self._doubled(place.mask))
        wide = f"<{2 * self.lanes} x {kind}>"
        parts = []
        for first in range(2):
            order = ", ".join(f"i32 {2 * lane + first}" for lane in range(self.lanes))
            parts.append(
                b.let(f"shufflevector {wide} {both}, {wide} poison, <{self.lanes} x i32> <{order}>")
            )
        return Vector(parts[0], dtype, parts[1])

    def _doubled(self, mask: str | None) -> str | None:
        """A mask with each lane twice, for both parts of a complex number."""
        if mask is None:
            return None
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

    def _pointers(self, row: str, place: VectorPlace) -> str:
        """The address of each lane."""
        b = self.b
        steps = self.iota_plus(place.index)
        every = b.splat(place.stride, "i64")
        offsets = b.let(f"mul <{self.lanes} x i64> {steps}, {every}", "o")
        if place.offsets is not None:
            offsets = b.let(f"add <{self.lanes} x i64> {offsets}, {place.offsets}", "o")
        return b.let(f"getelementptr i8, ptr {row}, <{self.lanes} x i64> {offsets}", "p")

    def _gather(self, kind: str, row: str, place: VectorPlace, size: int) -> str:
        """Elements at an address for each lane."""
        vector, bits = f"<{self.lanes} x {kind}>", f"<{self.lanes} x i1>"
        symbol = f"@llvm.masked.gather.v{self.lanes}{_suffix(kind)}.v{self.lanes}p0"
        mask = place.mask or self._all_lanes()
        self.b.define(f"declare {vector} {symbol}(<{self.lanes} x ptr>, i32, {bits}, {vector})")
        pointers = self._pointers(row, place)
        return self.b.let(
            f"call {vector} {symbol}(<{self.lanes} x ptr> {pointers}, i32 {size}, "
            f"{bits} {mask}, {vector} zeroinitializer)"
        )

    def store(
        self, value: Vector, target: KernelArray, place: VectorPlace, streaming: bool = False
    ) -> None:
        """Write the elements at a place."""
        if target.dtype[0] == "c":
            self._store_complex(value, target, place, streaming)
            return
        b = self.b
        kind = memory_type(target.dtype)
        size = np.dtype(target.dtype).itemsize
        name = value.name
        if target.dtype == "b1":
            name = b.let(f"zext <{self.lanes} x i1> {name} to <{self.lanes} x {kind}>")
        if target.access != UNIT:
            self._scatter(name, kind, place.row, place, size)
            return
        at = b.let(f"getelementptr {kind}, ptr {place.row}, i64 {place.index}", "p")
        self._store_run(self.lanes, name, kind, at, size, place.mask, streaming)

    def _store_complex(
        self, value: Vector, target: KernelArray, place: VectorPlace, streaming: bool
    ) -> None:
        """Two vectors as pairs of parts."""
        b = self.b
        dtype = np.dtype(target.dtype)
        kind, size = memory_type(dtype), dtype.itemsize // 2
        if target.access != UNIT:
            rows = (place.row, self._imaginary(place.row, kind))
            for name, row in zip(value.parts, rows, strict=True):
                self._scatter(name, kind, row, place, size)
            return
        vector = f"<{self.lanes} x {kind}>"
        order = ", ".join(f"i32 {lane}, i32 {lane + self.lanes}" for lane in range(self.lanes))
        both = b.let(
            f"shufflevector {vector} {value.name}, {vector} {value.imaginary}, "
            f"<{2 * self.lanes} x i32> <{order}>"
        )
        at = b.let(f"getelementptr [2 x {kind}], ptr {place.row}, i64 {place.index}", "p")
        mask = self._doubled(place.mask)
        self._store_run(2 * self.lanes, both, kind, at, size, mask, streaming)

    def _scatter(self, name: str, kind: str, row: str, place: VectorPlace, size: int) -> None:
        """Write elements to an address for each lane."""
        vector, bits = f"<{self.lanes} x {kind}>", f"<{self.lanes} x i1>"
        symbol = f"@llvm.masked.scatter.v{self.lanes}{_suffix(kind)}.v{self.lanes}p0"
        self.b.define(f"declare void {symbol}({vector}, <{self.lanes} x ptr>, i32, {bits})")
        pointers = self._pointers(row, place)
        mask = place.mask or self._all_lanes()
        self.b.line(
            f"call void {symbol}({vector} {name}, <{self.lanes} x ptr> {pointers}, i32 {size}, "
            f"{bits} {mask})"
        )

    def _store_run(
        self, lanes: int, name: str, kind: str, at: str, size: int, mask: str | None, past: bool
    ) -> None:
        """Write elements one after the other; whole vectors may go `past` the caches."""
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
        return self.b.constant(True, BOOL).name

    def iota_plus(self, index: str) -> str:
        """index, index + 1, index + 2, … in the lanes."""
        lanes = ", ".join(f"i64 {lane}" for lane in range(self.lanes))
        start = self.b.splat(index, "i64")
        return self.b.let(f"add <{self.lanes} x i64> {start}, <{lanes}>")

    def mask(self, index: str, high: str) -> str:
        """A mask of the lanes from `index` on that lie below `high`."""
        steps = self.iota_plus(index)
        bound = self.b.splat(high, "i64")
        return self.b.let(f"icmp slt <{self.lanes} x i64> {steps}, {bound}", "m")


def _suffix(kind: str) -> str:
    """The element type in the name of an intrinsic."""
    return {"float": "f32", "double": "f64"}.get(kind, kind)
