"""Accumulators: the values that a reduction carries around its loops.

A partial result is a list of parts: one vector, two for complex numbers (real and imaginary parts)
and for positions (the best value so far, and its position).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gradtape.codegen.kernels.builder import Builder
from gradtape.codegen.kernels.kernel import BOOL, INDEX, Reduce, scalar_type
from gradtape.codegen.llvm import vector
from gradtape.dtypes import DType
from gradtape.graph.vector_code import Vector
from gradtape.ops.families.lowering import COMBINATIONS

Parts = list[str]

# The position of a partial result that has no value yet: it loses every tie.
_NOWHERE = 2**63 - 1


class Accumulator:
    """One reduction of a kernel."""

    def __init__(self, b: Builder, reduction: Reduce) -> None:
        self.b = b
        self.reduction = reduction
        self.combination = COMBINATIONS[reduction.accumulation]
        self.finds_positions = reduction.accumulation.gives_positions
        self.dtype: DType = np.dtype(reduction.compared or reduction.dtype)

    def types(self) -> Parts:
        """The vector type of each part."""
        values = self.b.vector_type(self.dtype)
        if self.finds_positions:
            return [values, self.b.vector_type(INDEX)]
        return [values] * (2 if self.dtype.kind == "c" else 1)

    def start(self) -> Parts:
        """The partial result of no values."""
        first = self._identity()
        if self.finds_positions:
            return [first.name, self.b.constant(_NOWHERE, INDEX).name]
        return list(first.parts)

    def _identity(self) -> Vector:
        return self.b.constant(self.combination.identity(self.dtype), self.dtype)

    def of(self, value: Vector, position: str | None, mask: str | None) -> Parts:
        """The partial result of one vector of points; masked lanes have the identity."""
        if mask is not None:
            value = self.b.select(Vector(mask, BOOL), value, self._identity())
        if self.finds_positions:
            assert position is not None
            return [value.name, position]
        return list(value.parts)

    def combine(self, x: Parts, y: Parts) -> Parts:
        """Two partial results into one, lane by lane; all values of x come before those of y."""
        return self._combine(x, y, self.b, ordered=True)

    def _combine(self, x: Parts, y: Parts, b: Builder, ordered: bool) -> Parts:
        if self.finds_positions:
            return self._better(x, y, b, ordered)
        first, second = Vector(x[0], self.dtype, *x[1:]), Vector(y[0], self.dtype, *y[1:])
        return list(self.combination.join(b, first, second).parts)

    def following(self, state: Parts, values: list[Vector]) -> Parts:
        """The state of a scan after one more element."""
        numbers = (self.reduction.factor, self.reduction.value)
        operands = [values[number] for number in numbers if number >= 0]
        step = self.combination.step or self.combination.join
        return list(step(self.b, Vector(state[0], self.dtype, *state[1:]), *operands).parts)

    def _better(self, x: Parts, y: Parts, b: Builder, ordered: bool) -> Parts:
        """The better value with its position; the first NaN beats everything, ties go to the first.

        If all of x comes before y, then y is chosen only if it is better. Otherwise positions
        decide between equal values.
        """
        values, bits, index = (b.vector_type(dtype) for dtype in (self.dtype, BOOL, INDEX))
        choose = self._beats(y[0], x[0], b)
        if not ordered:
            worse = self._beats(x[0], y[0], b)
            earlier = b.let(f"icmp slt {index} {y[1]}, {x[1]}")
            ones = "true" if b.lanes == 1 else "<" + ", ".join(["i1 true"] * b.lanes) + ">"
            level = b.let(f"xor {bits} {worse}, {ones}")
            level = b.let(f"and {bits} {level}, {earlier}")
            choose = b.let(f"or {bits} {choose}, {level}")
        return [
            b.let(f"select {bits} {choose}, {kind} {new}, {kind} {old}")
            for kind, old, new in zip((values, index), x, y, strict=True)
        ]

    def _beats(self, new: str, old: str, b: Builder) -> str:
        """A mask of lanes whose new value is better than the old one, or the first NaN."""
        values, word = b.vector_type(self.dtype), self.combination.better
        if self.dtype.kind != "f":
            sign = "s" if self.dtype.kind == "i" else "u"
            return b.let(f"icmp {sign}{word} {values} {new}, {old}")
        # "Unordered or greater": true for a NaN in either.
        found = b.let(f"fcmp u{word} {values} {new}, {old}")
        known = b.let(f"fcmp ord {values} {old}, {old}")
        return b.let(f"and {b.vector_type(BOOL)} {found}, {known}")

    def across(self, parts: Parts) -> Parts:
        """All lanes into one scalar, by combining the upper half with the lower half each time."""
        types = [scalar_type(self.dtype)] * len(parts)
        if self.finds_positions:
            types[1] = scalar_type(INDEX)
        lanes = self.b.lanes
        while lanes > 1:
            half = lanes // 2
            pairs = [
                _halves(self.b, value, vector(ty, lanes), half)
                for value, ty in zip(parts, types, strict=True)
            ]
            low, high = [low for low, _ in pairs], [high for _, high in pairs]
            parts = self._combine(low, high, self.b.narrowed(half), ordered=False)
            lanes = half
        return parts

    def result(self, parts: Parts, lanes: int) -> Parts:
        """The parts that are stored of a final partial result."""
        if not self.finds_positions:
            return parts
        # If nothing was better than the identity, every element equals it, the first one too.
        index = vector("i64", lanes)
        nowhere, zero = str(_NOWHERE), "0"
        if lanes > 1:
            nowhere = self.b.constant(_NOWHERE, INDEX).name
            zero = "zeroinitializer"
        none = self.b.let(f"icmp eq {index} {parts[1]}, {nowhere}")
        bits = vector("i1", lanes)
        return [self.b.let(f"select {bits} {none}, {index} {zero}, {index} {parts[1]}")]


class Totals:
    """The partial results of all reductions of a kernel, as one flat list of parts."""

    def __init__(self, b: Builder, reductions: Iterable[Reduce]) -> None:
        self._each = [Accumulator(b, reduction) for reduction in reductions]
        self.types = [kind for a in self._each for kind in a.types()]
        self.count_positions = any(a.finds_positions for a in self._each)

    def start(self) -> list[tuple[str, str]]:
        """The type and the name of each part of the result of no values."""
        return list(zip(self.types, (p for a in self._each for p in a.start()), strict=True))

    def of(self, values: list[Vector], position: str | None, mask: str | None) -> Parts:
        """The partial results of one vector of points."""
        parts = (a.of(values[a.reduction.value], position, mask) for a in self._each)
        return [part for some in parts for part in some]

    def merge(self, x: Parts, y: Parts) -> Parts:
        """Two partial results into one; all values of x come before those of y."""
        pairs = zip(self.apart(x), self.apart(y), strict=True)
        return [part for (a, old), (_, new) in pairs for part in a.combine(old, new)]

    def apart(self, parts: Parts) -> list[tuple[Accumulator, Parts]]:
        """Each reduction with its own parts."""
        left = iter(parts)
        return [(a, [next(left) for _ in a.types()]) for a in self._each]


def _halves(b: Builder, value: str, whole: str, half: int) -> tuple[str, str]:
    """The lower and the upper half of a vector."""
    if half == 1:
        low = b.let(f"extractelement {whole} {value}, i32 0")
        return low, b.let(f"extractelement {whole} {value}, i32 1")
    low, high = (
        b.let(
            f"shufflevector {whole} {value}, {whole} poison, <{half} x i32> <"
            + ", ".join(f"i32 {first + i}" for i in range(half))
            + ">"
        )
        for first in (0, half)
    )
    return low, high
