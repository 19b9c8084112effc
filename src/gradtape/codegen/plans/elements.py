"""Routines over elements and vectors of one floating-point type, for kernels written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gradtape.codegen.routine import Routine, Word


class Lanes(NamedTuple):
    """The vectors of a module: elements of a type, their bytes, and how many a vector holds."""

    kind: str
    size: int
    per_vector: int

    @property
    def vector(self) -> str:
        """The type of a vector in IR."""
        return f"<{self.per_vector} x {self.kind}>"

    @property
    def bytes(self) -> int:
        """Bytes of a vector."""
        return self.per_vector * self.size


def lanes_for(size: int, bits: int) -> Lanes:
    """The vectors of some bits with elements of some bytes."""
    return Lanes({4: "float", 8: "double"}[size], size, bits // (8 * size))


class ElementRoutine(Routine):
    """A routine over elements and vectors of one type."""

    def __init__(self, head: str, lanes: Lanes) -> None:
        super().__init__(head)
        self.lanes = lanes

    def load(self, place: str, kind: str) -> str:
        """The element or vector at an address."""
        return self.let(f"load {kind}, ptr {place}, align {self.lanes.size}")

    def store(self, value: str, place: str, kind: str) -> None:
        """Store an element or vector at an address."""
        self.line(f"store {kind} {value}, ptr {place}, align {self.lanes.size}")

    def element(self, base: str, index: Word) -> str:
        """The address of an element."""
        return self.at(base, self.multiply(index, self.lanes.size))

    def intrinsic(self, name: str, kind: str, *values: str) -> str:
        """The result of one of LLVM's intrinsics, of elements or vectors."""
        suffix = f"f{8 * self.lanes.size}"
        if kind == self.lanes.vector:
            suffix = f"v{self.lanes.per_vector}{suffix}"
        return self.call(kind, f"@llvm.{name}.{suffix}", *(f"{kind} {value}" for value in values))

    def spread(self, scalar: str, kind: str) -> str:
        """A scalar in every lane, if a vector is asked for."""
        if kind != self.lanes.vector:
            return scalar
        one = self.let(f"insertelement {kind} poison, {self.lanes.kind} {scalar}, i32 0")
        return self.lane_everywhere(one, 0)

    def lane_everywhere(self, vector: str, lane: int) -> str:
        """One lane of a vector in every lane."""
        kind, count = self.lanes.vector, self.lanes.per_vector
        numbers = ", ".join([f"i32 {lane}"] * count)
        return self.let(
            f"shufflevector {kind} {vector}, {kind} poison, <{count} x i32> <{numbers}>"
        )

    def vectors_then_elements(self, count: str) -> tuple[tuple[str, str, str], ...]:
        """How a run of elements is walked: the type, the first element, and how many steps."""
        whole = self.let(f"sdiv i64 {count}, {self.lanes.per_vector}")
        done = self.multiply(whole, self.lanes.per_vector)
        return (
            (self.lanes.vector, "0", whole),
            (self.lanes.kind, done, self.subtract(count, done)),
        )

    def walk(self, base: str, kind: str, first: str, step: str) -> str:
        """The address of a step of such a walk."""
        size = self.lanes.bytes if kind == self.lanes.vector else self.lanes.size
        return self.at(self.element(base, first), self.multiply(step, size))


def in_pairs(r: Routine, count: Word, body: Callable[[str], None]) -> None:
    """Run lines for numbers of the kernel's range, and for those as far from the other end.

    The range is half of `count`: where the work of a number grows or falls with it, pairs
    are equal.
    """
    last = r.subtract(count, 1)
    with r.loop("%hi", "%lo") as number:
        body(number)
        other = r.subtract(last, number)
        with r.when(r.unequal(other, number)):
            body(other)


def ended(r: Routine) -> str:
    """The text of a routine that returns nothing."""
    r.end("ret void")
    return r.text()
