"""How a discrete Fourier transform of some length is computed: its steps, and its table of roots.

A transform of n points has `lanes` interleaved parts of n / lanes points each. These are
transformed beside each other, one in each lane of a vector, by Stockham's passes of small radices
(Temperton 1983). A last step combines the lanes. A length with a prime factor above 13 is a
convolution of a longer one (Bluestein 1970). A real signal of even length is a complex one of half
the length.

`compiler/emit/library/fft_rows.py` writes the native code of a plan, and reads the table in the
order in which it is made here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.caches import remembered

_ODD_PRIMES = (3, 5, 7, 11, 13)
# The number of parts that are transformed beside each other, at most.
_MOST_LANES = 8
# The alignment of areas of scratch memory, in bytes.
_ALIGNMENT = 64


@dataclass(frozen=True)
class FourierPlan:
    """The steps of a complex transform of `length` points."""

    length: int
    lanes: int
    # The radix of each pass. Their product is the length of a part.
    radices: tuple[int, ...]
    # The length of the convolution that it is instead, or 0.
    convolution: int = 0

    @property
    def inner(self) -> FourierPlan:
        """The plan of the convolution's transforms."""
        return plan_of(self.convolution)

    @property
    def part(self) -> int:
        """The points of a part."""
        return self.length // self.lanes

    def passes(self) -> list[tuple[int, int]]:
        """The radix of each pass, and how many butterflies a lane has for each stride."""
        found, rest = [], self.part
        for radix in self.radices:
            rest //= radix
            found.append((radix, rest))
        return found

    def table(self) -> np.ndarray:
        """Its roots of unity, as real numbers."""
        if self.convolution:
            return np.concatenate([*_chirps(self.length, self.convolution), self.inner.table()])
        parts = []
        for radix, rest in self.passes():
            powers = np.outer(np.arange(rest), np.arange(1, radix))
            parts.append(pairs(roots(powers, radix * rest)))
        for lane in range(1, self.lanes):
            found = roots(lane * np.arange(self.part), self.length)
            parts += [found.real, found.imag]
        return np.concatenate([np.empty(0), *parts])

    def table_size(self) -> int:
        """The length of the table."""
        if self.convolution:
            return 2 * self.length + 2 * self.convolution + self.inner.table_size()
        steps = sum((radix - 1) * rest for radix, rest in self.passes())
        return 2 * steps + 2 * (self.lanes - 1) * self.part

    def scratch(self, size: int) -> int:
        """The bytes of scratch memory that it needs, for real numbers of `size` bytes."""
        if self.convolution:
            return 2 * area(self.convolution, size) + self.inner.scratch(size)
        return 2 * area(self.length, size)


def area(points: int, size: int) -> int:
    """The bytes of an area for complex numbers, whose parts have `size` bytes."""
    return -(-2 * points * size // _ALIGNMENT) * _ALIGNMENT


@remembered(512)
def plan_of(length: int) -> FourierPlan:
    """The steps of a complex transform."""
    lanes = _MOST_LANES
    while length % lanes or length < lanes * lanes:
        lanes //= 2
    radices, rest = [], length // lanes
    for prime in _ODD_PRIMES:
        while rest % prime == 0:
            radices.append(prime)
            rest //= prime
    twos = rest.bit_length() - 1
    if rest != 1 << twos:
        return FourierPlan(length, 1, (), _convolution_length(2 * length - 1))
    # With three factors of two at a time there are the fewest passes over memory.
    powers = [8] * (twos // 3)
    if twos % 3 == 1 and powers:
        powers = [*powers[1:], 4, 4]
    elif twos % 3:
        powers.append(1 << twos % 3)
    # A large first radix leaves the fewest strides that are shorter than a vector.
    return FourierPlan(length, lanes, tuple(sorted((*powers, *radices), reverse=True)))


def _convolution_length(least: int) -> int:
    """The best length that is at least `least` and fills all lanes."""
    unit = _MOST_LANES * _MOST_LANES
    sizes = [unit * factor for factor in (1, 3, 5, 9, 15)]
    return min(size << max(0, (-(-least // size) - 1).bit_length()) for size in sizes)


def roots(powers: np.ndarray, order: int) -> np.ndarray:
    """exp(-2πi k / order) for integers k, each within an ulp.

    Angles are reduced to an eighth of a turn as integers: 2πk / order itself is rounded.
    """
    eighth, rest = np.divmod(8 * (powers % order), order)
    angle = np.where(eighth % 2, order - rest, rest) * (math.pi / 4 / order)
    cosine, sine = np.cos(angle), np.sin(angle)
    quarter = (eighth + 1) // 2 % 2 == 1
    x, y = np.where(quarter, sine, cosine), np.where(quarter, cosine, sine)
    left = (eighth >= 2) & (eighth < 6)
    return np.where(left, -x, x) - 1j * np.where(eighth >= 4, -y, y)


def pairs(values: np.ndarray) -> np.ndarray:
    """Complex numbers as real ones, real part first."""
    return np.ascontiguousarray(values).reshape(-1).view(np.float64)


def _chirps(length: int, longer: int) -> tuple[np.ndarray, np.ndarray]:
    """Bluestein's factors exp(-πi k² / length), and the spectrum of their conjugates."""
    k = np.arange(length)
    chirp = roots(k * k % (2 * length), 2 * length)
    padded = np.zeros(longer, complex)
    padded[:length] = chirp.conj()
    padded[longer - length + 1 :] = chirp[:0:-1].conj()
    return pairs(chirp), pairs(np.fft.fft(padded) / longer)


@dataclass(frozen=True)
class RowPlan:
    """The steps of a transform of rows: "complex", real ones "to_half" spectra, or "from_half"."""

    kind: str
    length: int

    @property
    def is_halved(self) -> bool:
        """Whether a real signal is transformed as a complex one of half the length."""
        return self.kind != "complex" and self.length % 2 == 0

    @property
    def core(self) -> FourierPlan:
        """The complex transform."""
        return plan_of(self.length // 2 if self.is_halved else self.length)

    def table(self, dtype: Any) -> np.ndarray:
        """The roots of unity: those of the step to or from a half spectrum, then the core's."""
        found = self.core.table()
        if self.is_halved:
            steps = roots(np.arange(self.core.length), self.length)
            found = np.concatenate([pairs(steps), found])
        return found.astype(dtype)

    def table_size(self) -> int:
        """The length of the table."""
        return self.core.table_size() + (2 * self.core.length if self.is_halved else 0)

    def scratch(self, size: int) -> int:
        """The bytes of scratch memory, for real numbers of `size` bytes."""
        areas = {"complex": 0}.get(self.kind, 1 if self.is_halved else 2)
        return areas * area(self.core.length, size) + self.core.scratch(size)
