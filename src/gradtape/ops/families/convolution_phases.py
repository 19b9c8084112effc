"""Phases of a convolution: which outputs read which positions of the window, without the zeros.

Along one axis, output `p` reads at position `q` of the window the element `i` with

    stride * p + dilation * q - before = spread * i

if there is one. Otherwise it reads a zero: between two elements that are `spread` apart, or in the
padding. A phase is a run of outputs that read elements at the same run of positions. So in each
phase all pairs of an output and a position are products, and none of them has a zero as a factor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gradtape.caches import remembered
from gradtape.ir import Shape
from gradtape.ops.families.shapes import Ints

# Zeros before and after the elements along each axis; a negative number takes elements away.
Pairs = tuple[tuple[int, int], ...]


class Line(NamedTuple):
    """A convolution along one axis: lengths of the input, the window and the output, and steps."""

    length: int
    window: int
    number: int
    stride: int
    dilation: int
    spread: int
    before: int


class Run(NamedTuple):
    """Positions that are `step` apart."""

    start: int
    step: int
    number: int


class Phase(NamedTuple):
    """Outputs and positions of the window, every pair of which reads an element.

    The first pair reads the element `first`. The next output reads `by_output` elements further,
    the next position `by_tap`. Without any position, the outputs are zero.
    """

    outputs: Run
    taps: Run
    first: int
    by_output: int
    by_tap: int


class Steps(NamedTuple):
    """The params of a convolution: a number, or a pair of them, for each spatial axis."""

    strides: Ints
    dilations: Ints
    spreads: Ints
    padding: Pairs

    def counts(self, lengths: Shape, window: Shape) -> Shape:
        """The number of outputs along each axis."""
        return tuple(
            (max(e * (n - 1) + 1, 0) + sum(pair) - (w - 1) * d - 1) // s + 1
            for n, w, s, d, e, pair in zip(lengths, window, *self, strict=True)
        )

    def lines(self, lengths: Shape, window: Shape) -> list[Line]:
        """The convolution along each axis."""
        counts = self.counts(lengths, window)
        return [
            Line(n, w, count, s, d, e, before)
            for n, w, count, s, d, e, (before, _) in zip(
                lengths, window, counts, *self, strict=True
            )
        ]


Block = tuple[Phase, ...]


def blocks(lines: list[Line]) -> Iterator[Block]:
    """Each combination of a phase along each axis."""
    return itertools.product(*map(phases, lines))


def tap_blocks(lines: list[Line]) -> list[Block]:
    """Combinations of runs of positions of the window whose sums are to be added up.

    A run has the positions at which the same outputs read elements. The first block has all
    outputs, even if it has no position, in which case it is zero.
    """
    found = [
        block
        for block in itertools.product(*map(_tap_phases, lines))
        if all(phase.outputs.number for phase in block)
    ]
    counts = [line.number for line in lines]
    for block in found:
        if [phase.outputs.number for phase in block] == counts:
            return [block, *(other for other in found if other is not block)]
    return [tuple(Phase(Run(0, 1, n), Run(0, 1, 0), 0, 0, 0) for n in counts), *found]


def _tap_phases(line: Line) -> list[Phase]:
    """Runs of positions of the window that the same outputs have."""
    turned = line._replace(
        window=line.number, number=line.window, stride=line.dilation, dilation=line.stride
    )
    return [
        Phase(outputs, taps, first, by_output, by_tap)
        for taps, outputs, first, by_tap, by_output in phases(turned)
    ]


@remembered(512)
def phases(line: Line) -> tuple[Phase, ...]:
    """All phases along an axis; each output is in one of them."""
    _, _, count, stride, dilation, spread, before = line
    output_step = spread // math.gcd(stride, spread)
    tap_step = spread // math.gcd(dilation, spread)
    by_output, by_tap = stride * output_step // spread, dilation * tap_step // spread
    found: list[Phase] = []
    for residue in range(min(output_step, count)):
        outputs = np.arange(residue, count, output_step)
        # The element of position 0 of the window. Modulo the spread it is the same for all of
        # these.
        origins = stride * outputs - before
        firsts, numbers = _taps(origins, tap_step, line)
        changes = np.flatnonzero(np.diff(firsts) | np.diff(numbers)) + 1
        bounds = [0, *changes.tolist(), len(outputs)]
        for begin, end in itertools.pairwise(bounds):
            tap, number = int(firsts[begin]), int(numbers[begin])
            run = Run(int(outputs[begin]), output_step, end - begin)
            first = (int(origins[begin]) + dilation * tap) // spread if number else 0
            found.append(Phase(run, Run(tap, tap_step, number), first, by_output, by_tap))
    return tuple(found)


def _taps(origins: np.ndarray, tap_step: int, line: Line) -> tuple[np.ndarray, np.ndarray]:
    """For each output the first position of the window that reads an element, and how many do."""
    nothing = np.zeros_like(origins)
    last = line.spread * (line.length - 1)
    origin = int(origins[0]) % line.spread
    fitting = [q for q in range(tap_step) if (origin + line.dilation * q) % line.spread == 0]
    if not fitting:
        return nothing, nothing
    lowest = np.maximum(-(origins // line.dilation), 0)
    highest = np.minimum((last - origins) // line.dilation, line.window - 1)
    firsts = lowest + (fitting[0] - lowest) % tap_step
    numbers = np.maximum((highest - firsts) // tap_step + 1, 0)
    return np.where(numbers > 0, firsts, 0), numbers


def margins(line: Line) -> tuple[int, int]:
    """How many zeros before and after the elements make each phase as long as it can be."""
    lowest = -(line.before // line.spread)
    reach = line.stride * (line.number - 1) + line.dilation * (line.window - 1) - line.before
    return max(0, -lowest), max(0, reach // line.spread - (line.length - 1))


def within_margins(lengths: Shape, window: Shape, steps: Steps) -> tuple[Pairs, Steps]:
    """Zeros to put around the elements, and the steps that compute the same then.

    Along each axis there is one phase for each remainder of the position by the spread, at most.
    """
    widths = tuple(map(margins, steps.lines(lengths, window)))
    padding = tuple(
        (before - e * low, after - e * high)
        for (before, after), (low, high), e in zip(
            steps.padding, widths, steps.spreads, strict=True
        )
    )
    return widths, steps._replace(padding=padding)
