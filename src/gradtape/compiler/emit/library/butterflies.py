"""Butterflies: transforms of a few complex numbers, each of which is two vectors of real numbers.

They are written out without loops, for the passes of `fft_rows.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gradtape.compiler.emit.writer import Routine, Typed, constants
from gradtape.compiler.objects import llvm

# The real and the imaginary part.
Complex = tuple[str, str]


class Vectors:
    """Arithmetic with vectors of `lanes` lanes. Products and sums may be rounded once."""

    def __init__(self, r: Routine, real: str, lanes: int) -> None:
        self.r, self.real, self.lanes = r, real, lanes
        self.size = 4 if real == "float" else 8
        self.kind = llvm.vector(real, lanes)
        # The bytes of a vector.
        self.nbytes = self.size * lanes

    # Memory.

    def load(self, place: str) -> Typed:
        """A vector."""
        return self.r.load(self.kind, place, self.size)

    def store(self, place: str, value: str) -> None:
        """Write a vector."""
        self.r.store(value, place, self.kind, self.size)

    def load_block(self, place: str) -> Complex:
        """A vector of real parts, and one of imaginary parts behind it."""
        return self.load(place), self.load(self.r.at(place, self.nbytes))

    def store_block(self, place: str, value: Complex) -> None:
        """Write a vector of real parts, and one of imaginary parts behind it."""
        self.store(place, value[0])
        self.store(self.r.at(place, self.nbytes), value[1])

    def load_pairs(self, place: str, backwards: bool = False) -> Complex:
        """Consecutive complex numbers."""
        if self.lanes == 1:
            return self.load_block(place)
        both = self.r.load(llvm.vector(self.real, 2 * self.lanes), place, self.size)
        order = range(self.lanes)[::-1] if backwards else range(self.lanes)
        real, imaginary = (self.r.shuffle(both, [2 * k + odd for k in order]) for odd in (0, 1))
        return real, imaginary

    def store_pairs(self, place: str, value: Complex) -> None:
        """Write consecutive complex numbers."""
        if self.lanes == 1:
            self.store_block(place, value)
            return
        order = [k + odd * self.lanes for k in range(self.lanes) for odd in (0, 1)]
        self.r.store(self.r.shuffle(value[0], order, value[1]), place, align=self.size)

    def load_spread(self, place: str) -> Typed:
        """A number, in each lane."""
        return self.spread(self.r.load(self.real, place))

    def spread(self, number: str) -> Typed:
        """A vector with the same number in each lane."""
        return self.r.splat(number, self.lanes)

    # Real arithmetic.

    def constant(self, value: float) -> Typed:
        """A number that is known, in each lane."""
        return self.constants([value] * self.lanes)

    def constants(self, values: Sequence[float]) -> Typed:
        """Known numbers, one for each lane."""
        texts = [llvm.real_text(value, self.real) for value in values]
        return constants(self.real, texts) if self.lanes > 1 else Typed(texts[0], self.real)

    def add(self, x: str, y: str) -> Typed:
        """x + y."""
        return self.r.op("fadd contract", x, y)

    def subtract(self, x: str, y: str) -> Typed:
        """x - y."""
        return self.r.op("fsub contract", x, y)

    def multiply(self, x: str, y: str) -> Typed:
        """x y."""
        return self.r.op("fmul contract", x, y)

    # Complex arithmetic.

    def sum(self, x: Complex, y: Complex) -> Complex:
        """x + y."""
        return self.add(x[0], y[0]), self.add(x[1], y[1])

    def difference(self, x: Complex, y: Complex) -> Complex:
        """x - y."""
        return self.subtract(x[0], y[0]), self.subtract(x[1], y[1])

    def product(self, x: Complex, y: Complex) -> Complex:
        """x y."""
        real = self.subtract(self.multiply(x[0], y[0]), self.multiply(x[1], y[1]))
        imaginary = self.add(self.multiply(x[0], y[1]), self.multiply(x[1], y[0]))
        return real, imaginary

    def scaled(self, x: Complex, factor: str) -> Complex:
        """x times a real number."""
        return self.multiply(x[0], factor), self.multiply(x[1], factor)

    def conjugate(self, x: Complex) -> Complex:
        """The complex conjugate."""
        return x[0], self.r.negative(x[1])

    def turned(self, x: Complex) -> Complex:
        """-i x."""
        return x[1], self.r.negative(x[0])

    def swapped(self, x: Complex, condition: str) -> Complex:
        """Real and imaginary part exchanged if a condition holds.

        An inverse transform is one with these exchanged before and after.
        """
        if condition in ("true", "false"):
            return x[::-1] if condition == "true" else x
        return self.r.select(condition, x[1], x[0]), self.r.select(condition, x[0], x[1])

    # Butterflies.

    def butterfly(self, values: Sequence[Complex]) -> list[Complex]:
        """The transform of a few numbers: a power of two, or an odd prime."""
        count = len(values)
        if count == 1:
            return list(values)
        if count % 2:
            return self._odd_butterfly(values)
        even, odd = self.butterfly(values[0::2]), self.butterfly(values[1::2])
        odd = [self._rotated(x, k, count) for k, x in enumerate(odd)]
        sums = [self.sum(x, y) for x, y in zip(even, odd, strict=True)]
        return sums + [self.difference(x, y) for x, y in zip(even, odd, strict=True)]

    def _rotated(self, x: Complex, k: int, count: int) -> Complex:
        """x times exp(-2πi k / count), where that is an eighth of a turn or less often."""
        if k == 0:
            return x
        if 4 * k == count:
            return self.turned(x)
        root = self.constant(math.sqrt(0.5))
        if 8 * k == count:
            both = self.add(x[0], x[1]), self.subtract(x[1], x[0])
        else:
            assert 8 * k == 3 * count
            both = self.subtract(x[1], x[0]), self.r.negative(self.add(x[0], x[1]))
        return self.scaled(both, root)

    def _odd_butterfly(self, values: Sequence[Complex]) -> list[Complex]:
        """The numbers k and -k have the same cosines and opposite sines."""
        count, first = len(values), values[0]
        half = range(1, count // 2 + 1)
        plus = [self.sum(values[k], values[count - k]) for k in half]
        minus = [self.difference(values[k], values[count - k]) for k in half]
        total = first
        for each in plus:
            total = self.sum(total, each)
        found = [total] * count
        for j in half:
            even, odd = first, None
            for k, p, m in zip(half, plus, minus, strict=True):
                angle = 2 * math.pi * (j * k % count) / count
                cosine, sine = (self.constant(f(angle)) for f in (math.cos, math.sin))
                even = self.sum(even, self.scaled(p, cosine))
                part = self.scaled(m, sine)
                odd = part if odd is None else self.sum(odd, part)
            assert odd is not None
            found[j] = self.sum(even, self.turned(odd))
            found[count - j] = self.difference(even, self.turned(odd))
        return found
