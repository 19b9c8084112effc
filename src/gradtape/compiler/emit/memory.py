"""Memory: vectors read from and written to memory, whole or masked, in a run or scattered.

The last vector of a row may reach past the row's end. A mask says which of its lanes exist:
masked loads give 0 in the others, and masked stores leave memory as it is, so that a tail needs no
loop over single elements. A mask of None means that all lanes exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradtape.compiler.emit.builder import Builder
from gradtape.compiler.emit.writer import Routine, Typed, Word, constants, every_lane
from gradtape.compiler.lower.kernel import UNIT, KernelArray, memory_type
from gradtape.compiler.objects.llvm import vector
from gradtape.dtypes import DType
from gradtape.ops.families.vector_code import Vector
from gradtape.records import dataclass


@dataclass(frozen=True)
class VectorPlace:
    """The position of the lanes of a vector: from `index` on along the innermost axis of a row.

    `row` is an address, `stride` is in bytes, and `offsets` are more bytes for each lane.
    """

    row: str
    index: str
    stride: str
    mask: str | None
    offsets: str | None = None


class Memory:
    """Appends instructions that move vectors of `lanes` elements between memory and registers."""

    def __init__(self, lanes: int, r: Routine) -> None:
        self.b = Builder(lanes, r)
        self.r = r
        self.lanes = lanes

    def load_scalar(self, pointer: str, operand: KernelArray) -> Vector:
        """One element in all lanes."""
        r, kind = self.r, memory_type(operand.dtype)
        found = [r.load(kind, row) for row in self._rows(pointer, operand.dtype)]
        if operand.dtype == "b1":
            found = [r.unequal(found[0], 0)]
        first, *second = [r.splat(each, self.lanes) for each in found]
        return Vector(first, np.dtype(operand.dtype), *second)

    def store_scalar(self, pointer: str, parts: Sequence[str], dtype: str) -> None:
        """Write one element, given the names of its parts."""
        r, kind = self.r, memory_type(dtype)
        if dtype == "b1":
            parts = [r.cast("zext", Typed(parts[0], "i1"), "i8")]
        for value, row in zip(parts, self._rows(pointer, dtype), strict=True):
            r.store(value, row, kind)

    def _rows(self, row: str, dtype: str) -> list[str]:
        """The address of each part of an element: a complex number has two."""
        return [row, self.r.item(memory_type(dtype), row, 1)] if dtype[0] == "c" else [row]

    def load(self, operand: KernelArray, place: VectorPlace) -> Vector:
        """The elements at a place."""
        r, dtype = self.r, np.dtype(operand.dtype)
        kind, parts, size = _element(dtype)
        if operand.access == UNIT:
            at, mask = self._run(kind, parts, place)
            whole = vector(kind, parts * self.lanes)
            both = r.load_lanes(whole, at, mask, size)
            # Pairs of parts are taken apart into two vectors.
            names = [both]
            if parts == 2:
                names = [r.shuffle(both, range(part, 2 * self.lanes, 2)) for part in range(2)]
        else:
            whole, mask = vector(kind, self.lanes), place.mask or self._all_lanes()
            names = [
                r.gather(whole, self._pointers(row, place), mask, size, "zeroinitializer")
                for row in self._rows(place.row, operand.dtype)
            ]
        if operand.dtype == "b1":
            names = [r.compare("ne", names[0], "zeroinitializer")]
        return Vector(names[0], dtype, *names[1:])

    def _run(self, kind: str, parts: int, place: VectorPlace) -> tuple[str, str | None]:
        """The address of elements that lie one after the other, and the mask of their parts."""
        at = self.r.item(kind if parts == 1 else f"[2 x {kind}]", place.row, place.index)
        if place.mask is None or parts == 1:
            return at, place.mask
        mask = Typed(place.mask, vector("i1", self.lanes))
        return at, self.r.shuffle(mask, [lane // 2 for lane in range(2 * self.lanes)])

    def _pointers(self, row: str, place: VectorPlace) -> Typed:
        """The address of each lane."""
        r = self.r
        offsets = r.multiply(self.iota_plus(place.index), r.splat(place.stride, self.lanes))
        if place.offsets is not None:
            offsets = r.add(offsets, place.offsets)
        kind = vector("ptr", self.lanes)
        return r.let(f"getelementptr i8, ptr {row}, {offsets.kind} {offsets}", kind)

    def store(
        self, value: Vector, target: KernelArray, place: VectorPlace, streaming: bool = False
    ) -> None:
        """Write the elements at a place; whole vectors may be `streaming` past the caches."""
        r, lanes = self.r, self.lanes
        kind, parts, size = _element(np.dtype(target.dtype))
        whole = vector(kind, lanes)
        if target.dtype == "b1":
            names = [r.cast("zext", Typed(value.name, vector("i1", lanes)), whole)]
        else:
            names = [Typed(name, whole) for name in value.parts]
        if target.access != UNIT:
            mask = place.mask or self._all_lanes()
            for name, row in zip(names, self._rows(place.row, target.dtype), strict=True):
                r.scatter(name, self._pointers(row, place), mask, size)
            return
        at, mask_of_parts = self._run(kind, parts, place)
        order = [lane + part * lanes for lane in range(lanes) for part in range(2)]
        both = names[0] if parts == 1 else r.shuffle(names[0], order, names[1])
        if streaming and not mask_of_parts:
            # A run twice as long as a vector is aligned as a vector is.
            r.line(f"store {both.kind} {both}, ptr {at}, align {lanes * size}, !nontemporal !0")
        else:
            r.store_lanes(both, at, mask_of_parts, size)

    def _all_lanes(self) -> Typed:
        return every_lane("i1", "true", self.lanes)

    def iota_plus(self, index: str) -> Typed:
        """index, index + 1, index + 2, … in the lanes."""
        return self.r.add(self.r.splat(index, self.lanes), constants("i64", range(self.lanes)))

    def mask(self, index: str, high: Word) -> Typed:
        """A mask of the lanes from `index` on that lie below `high`."""
        return self.r.compare("slt", self.iota_plus(index), self.r.splat(high, self.lanes))


def _element(dtype: DType) -> tuple[str, int, int]:
    """The type in memory of a part of an element, how many it has, and the bytes of a part."""
    parts = 2 if dtype.kind == "c" else 1
    return memory_type(dtype), parts, dtype.itemsize // parts
