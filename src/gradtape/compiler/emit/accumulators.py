"""Accumulators: the values that a reduction carries around its loops.

A partial result is a list of parts: one vector, two for complex numbers (real and imaginary parts)
and for positions (the best value so far, and its position), four for squared deviations (how many
values there are, their mean as a sum of two, and the sum of their squared distances from it).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partialmethod

import numpy as np

from gradtape.compiler.emit.builder import Builder
from gradtape.compiler.lower.kernel import BOOL, INDEX, Reduce
from gradtape.config import CACHE_LINE
from gradtape.dtypes import DType
from gradtape.ir import Accumulation
from gradtape.ops.families.lowering import COMBINATIONS
from gradtape.ops.families.vector_code import Vector

Parts = list[str]
# The values of one vector of points, by number, and the position of each lane.
PointValues = tuple[list[Vector], str | None]

# The position of a partial result that has no value yet: it loses every tie.
_NOWHERE = 2**63 - 1


class Accumulator:
    """One reduction of a kernel, by a combination of two values."""

    finds_positions = False

    def __init__(self, b: Builder, reduction: Reduce) -> None:
        # How many vectors of points are best reduced at once, if the body is short.
        self.block = 1
        self.b = b
        self.reduction = reduction
        self.combination = COMBINATIONS[reduction.accumulation]
        self.dtype: DType = np.dtype(reduction.compared or reduction.dtype)

    def types(self) -> Parts:
        """The vector type of each part."""
        return [self.b.vector_type(dtype) for dtype in self._dtypes()]

    def _dtypes(self) -> list[DType]:
        """The dtype of each part; of a complex number, both parts have its own."""
        return [self.dtype] * (2 if self.dtype.kind == "c" else 1)

    def start(self) -> Parts:
        """The partial result of no values."""
        return list(self._identity().parts)

    def _identity(self) -> Vector:
        return self.b.constant(self.combination.identity(self.dtype), self.dtype)

    def _unmasked(self, value: Vector, mask: str | None) -> Vector:
        """The value, with the identity in lanes that are masked."""
        if mask is None:
            return value
        return self.b.select(Vector(mask, BOOL), value, self._identity())

    def of(self, value: Vector, position: str | None, mask: str | None) -> Parts:
        """The partial result of one vector of points; masked lanes have the identity."""
        return list(self._unmasked(value, mask).parts)

    def of_several(self, points: Sequence[PointValues]) -> Parts:
        """The partial result of a power of two of full vectors, combined in pairs."""
        found = [self.of(values[self.reduction.value], at, None) for values, at in points]
        while len(found) > 1:
            found = [self.combine(*pair) for pair in zip(found[::2], found[1::2], strict=True)]
        return found[0]

    def combine(self, x: Parts, y: Parts) -> Parts:
        """Two partial results into one, lane by lane; all values of x come before those of y."""
        return self._combine(x, y, self.b, ordered=True)

    def _combine(self, x: Parts, y: Parts, b: Builder, ordered: bool) -> Parts:
        first, second = Vector(x[0], self.dtype, *x[1:]), Vector(y[0], self.dtype, *y[1:])
        return list(self.combination.join(b, first, second).parts)

    def following(self, state: Parts, values: list[Vector]) -> Parts:
        """The state of a scan after one more element."""
        numbers = (self.reduction.factor, self.reduction.value)
        operands = [values[number] for number in numbers if number >= 0]
        step = self.combination.step or self.combination.join
        return list(step(self.b, Vector(state[0], self.dtype, *state[1:]), *operands).parts)

    def across(self, parts: Parts) -> Parts:
        """All lanes into one scalar, by combining the upper half with the lower half each time."""
        r, lanes = self.b.r, self.b.lanes
        while lanes > 1:
            lanes //= 2
            low: Parts = [r.shuffle(part, range(lanes)) for part in parts]
            high: Parts = [r.shuffle(part, range(lanes, 2 * lanes)) for part in parts]
            parts = self._combine(low, high, Builder(lanes, r), ordered=False)
        return parts

    def result(self, parts: Parts, lanes: int) -> Parts:
        """The parts that are stored of a final partial result."""
        return parts


class Positions(Accumulator):
    """The position of the best value."""

    finds_positions = True

    def _dtypes(self) -> list[DType]:
        return [self.dtype, INDEX]

    def start(self) -> Parts:
        return [self._identity().name, self.b.constant(_NOWHERE, INDEX).name]

    def of(self, value: Vector, position: str | None, mask: str | None) -> Parts:
        assert position is not None
        return [self._unmasked(value, mask).name, position]

    def _combine(self, x: Parts, y: Parts, b: Builder, ordered: bool) -> Parts:
        """The better value with its position; the first NaN beats everything, ties go to the first.

        If all of x comes before y, then y is chosen only if it is better. Otherwise positions
        decide between equal values.
        """
        (old, at), (new, other) = (
            (Vector(parts[0], self.dtype), Vector(parts[1], INDEX)) for parts in (x, y)
        )
        choose = self._beats(new, old, b)
        if not ordered:
            level = b.invert(self._beats(old, new, b))
            earlier = b.compare("olt", "lt", other, at)
            choose = b.bits("or", choose, b.bits("and", level, earlier))
        return [b.select(choose, *pair).name for pair in ((new, old), (other, at))]

    def _beats(self, new: Vector, old: Vector, b: Builder) -> Vector:
        """A mask of lanes whose new value is better than the old one, or the first NaN."""
        # "Unordered or greater": true for a NaN in either.
        found = b.compare(f"u{self.combination.better}", self.combination.better, new, old)
        return (
            b.bits("and", found, b.compare("ord", "eq", old, old))
            if new.dtype.kind == "f"
            else found
        )

    def result(self, parts: Parts, lanes: int) -> Parts:
        # If nothing was better than the identity, every element equals it, the first one too.
        b, found = Builder(lanes, self.b.r), Vector(parts[1], INDEX)
        none = b.compare("oeq", "eq", found, b.constant(_NOWHERE, INDEX))
        return [b.select(none, b.constant(0, INDEX), found).name]


class SquaredDeviations(Accumulator):
    """The sum of squared distances from the mean, in one pass over the values.

    The mean of a block of values is known before their distances from it are squared, while the
    values are still in registers. Two partial results are combined by the formula of Chan, Golub
    and LeVeque (1979), which has the distance of two means in it. A mean is therefore a sum of two
    numbers: rounded to one it would be exact relative to itself, but not to that distance.
    """

    def __init__(self, b: Builder, reduction: Reduce) -> None:
        super().__init__(b, reduction)
        # Measured (0041): 16 vectors of whole cache lines were four times slower for 64 columns.
        self.block = 8 if b.lanes * self.dtype.itemsize >= CACHE_LINE else 16

    def _dtypes(self) -> list[DType]:
        return [self.dtype] * 4

    def start(self) -> Parts:
        return [self._identity().name] * 4

    def of(self, value: Vector, position: str | None, mask: str | None) -> Parts:
        floats, none = _Floats(self.b, self.dtype), self._identity().name
        one = self._unmasked(self.b.constant(1, self.dtype), mask).name
        mean = self._unmasked(value, mask).name
        # The distance is 0, or NaN if the value is not finite.
        return [one, mean, none, floats.minus(mean, mean)]

    def of_several(self, points: Sequence[PointValues]) -> Parts:
        floats, number = _Floats(self.b, self.dtype), len(points)
        values = [found[self.reduction.value].name for found, _ in points]
        share = floats.number(1 / number)
        # Shares are added, not values: the sum of large values could overflow.
        mean = floats.dot(values, [share] * number)
        distances = [floats.minus(value, mean) for value in values]
        rest = floats.dot(distances, [share] * number)
        squares = floats.dot(distances, distances)
        excess = floats.times(floats.times(floats.number(number), rest), rest)
        # If squares overflow, so may their excess, and the sum is infinite, not NaN.
        squares = floats.if_finite(squares, floats.minus(squares, excess), squares)
        return [floats.number(number), mean, rest, squares]

    def _combine(self, x: Parts, y: Parts, b: Builder, ordered: bool) -> Parts:
        floats = _Floats(b, self.dtype)
        (count, mean, rest, squares), (more, other, other_rest, others) = x, y
        total = floats.plus(count, more)
        # The share of y among the values of both; 0 if neither has any.
        share = floats.over(more, floats.at_least_one(total))
        coarse, fine = floats.minus(other, mean), floats.minus(other_rest, rest)
        distance = floats.plus(coarse, fine)
        between = floats.times(floats.times(floats.times(count, share), distance), distance)
        # The distance of two large means can overflow, and the mean of both cannot.
        apart = floats.minus(floats.times(other, share), floats.times(mean, share))
        moved = floats.if_finite(coarse, floats.times(coarse, share), apart)
        middle, lost = floats.exact_sum(mean, moved)
        rest = floats.plus(floats.plus(rest, floats.times(fine, share)), lost)
        return [total, middle, rest, floats.plus(floats.plus(squares, others), between)]

    def result(self, parts: Parts, lanes: int) -> Parts:
        return parts[3:]


class _Floats:
    """Arithmetic on vectors of one float dtype, by their IR names."""

    def __init__(self, b: Builder, dtype: DType) -> None:
        self._b = b
        self._dtype = dtype

    def number(self, value: float) -> str:
        return self._b.constant(value, self._dtype).name

    def _by(self, instruction: str, x: str, y: str) -> str:
        first, second = Vector(x, self._dtype), Vector(y, self._dtype)
        return self._b.arithmetic(instruction, "", first, second).name

    plus = partialmethod(_by, "fadd")
    minus = partialmethod(_by, "fsub")
    times = partialmethod(_by, "fmul")
    over = partialmethod(_by, "fdiv")

    def at_least_one(self, x: str) -> str:
        """A count, or 1 instead of 0."""
        count, one = Vector(x, self._dtype), self._b.constant(1, self._dtype)
        return self._b.select(self._b.compare("ogt", "gt", count, one), count, one).name

    def if_finite(self, x: str, then: str, otherwise: str) -> str:
        """`then` in lanes where x is finite."""
        none = Vector(self.minus(x, x), self._dtype)
        finite = self._b.compare("oeq", "eq", none, self._b.constant(0, self._dtype))
        found = self._b.select(finite, Vector(then, self._dtype), Vector(otherwise, self._dtype))
        return found.name

    def exact_sum(self, x: str, y: str) -> tuple[str, str]:
        """A rounded sum, and what rounding took from it (Knuth's two-sum)."""
        total = self.plus(x, y)
        second = self.minus(total, x)
        first = self.minus(total, second)
        return total, self.plus(self.minus(x, first), self.minus(y, second))

    def dot(self, x: list[str], y: list[str]) -> str:
        """The sum of an even number of products, in two chains of fused multiply-adds."""
        products = [self.times(*pair) for pair in zip(x, y, strict=True)]
        first, second = products[:2]
        for number in range(2, len(products), 2):
            first = self.plus(first, products[number])
            second = self.plus(second, products[number + 1])
        return self.plus(first, second)


def accumulator(b: Builder, reduction: Reduce) -> Accumulator:
    """The combination of values in a reduction."""
    if reduction.accumulation.gives_positions:
        return Positions(b, reduction)
    if reduction.accumulation is Accumulation.SQUARED_DEVIATIONS:
        return SquaredDeviations(b, reduction)
    return Accumulator(b, reduction)


class Totals:
    """The partial results of all reductions of a kernel, as one flat list of parts."""

    def __init__(self, b: Builder, reductions: Iterable[Reduce]) -> None:
        self._each = [accumulator(b, reduction) for reduction in reductions]
        self.types = [kind for a in self._each for kind in a.types()]
        self.count_positions = any(a.finds_positions for a in self._each)
        # How many vectors of points are best reduced at once, if the body is short.
        self.block = max((a.block for a in self._each), default=1)

    def start(self) -> Parts:
        """The parts of the result of no values."""
        return [part for a in self._each for part in a.start()]

    def of(self, values: list[Vector], position: str | None, mask: str | None) -> Parts:
        """The partial results of one vector of points."""
        parts = (a.of(values[a.reduction.value], position, mask) for a in self._each)
        return [part for some in parts for part in some]

    def of_several(self, points: Sequence[PointValues]) -> Parts:
        """The partial results of a power of two of full vectors of points, in their order."""
        return [part for a in self._each for part in a.of_several(points)]

    def merge(self, x: Parts, y: Parts) -> Parts:
        """Two partial results into one; all values of x come before those of y."""
        pairs = zip(self.apart(x), self.apart(y), strict=True)
        return [part for (a, old), (_, new) in pairs for part in a.combine(old, new)]

    def apart(self, parts: Parts) -> list[tuple[Accumulator, Parts]]:
        """Each reduction with its own parts."""
        left = iter(parts)
        return [(a, [next(left) for _ in a.types()]) for a in self._each]
