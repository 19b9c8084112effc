"""Forms of a convolution: what compiled programs compute instead of it, where that is faster.

Tiles multiply numbers of 4 and 8 bytes. Shorter integers are computed in 32 bits, which gives the
same remainder. Zeros around x are written to memory if phases of the edges would be too small or
too many.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import numpy as np

from gradtape.config import (
    BLOCK_CYCLES,
    CONVOLUTION_TILE_ROWS,
    COPIED_BYTES_PER_CYCLE,
    FEWEST_PACKED_ROWS,
    PACKING_CYCLES,
    TILE_BYTES_PER_CYCLE,
    TILE_PRODUCTS_PER_CYCLE,
    TILE_VECTOR_BYTES,
)
from gradtape.ir import REGISTRY, Node, apply
from gradtape.ops.arrays import movement
from gradtape.ops.arrays.slicing import UNSLICE
from gradtape.ops.families import cast
from gradtape.ops.families.convolution_phases import (
    Block,
    Pairs,
    Phase,
    Steps,
    blocks,
    tap_blocks,
    within_margins,
)

_INTEGER = np.dtype(np.int32)


def composed(x: Node, kernel: Node, **params: Any) -> Node | None:
    """The same result by other ops, or None where tiles compute it as it is."""
    steps = Steps(**params)
    if not kernel.size:
        return None
    if x.dtype.kind in "iu" and x.dtype.itemsize < _INTEGER.itemsize:
        return cast(_convolved(cast(x, _INTEGER), cast(kernel, _INTEGER), steps), x.dtype)
    return _in_margins(x, kernel, steps)


def _convolved(x: Node, kernel: Node, steps: Steps) -> Node:
    return apply(REGISTRY["convolve"], (x, kernel), tuple(steps))


def chosen_blocks(x: Node, kernel: Node, steps: Steps) -> tuple[list[Block], bool]:
    """The blocks that tiles compute, and whether all but the first are added to the others."""
    return _ways(x, kernel, steps)[1:]


def _ways(x: Node, kernel: Node, steps: Steps) -> tuple[float, list[Block], bool]:
    """About how long tiles take, with what blocks, and whether these are to be added up."""
    lines = steps.lines(x.shape[2:-1], kernel.shape[1:-2])
    found = list(blocks(lines))
    apart = _cycles(x, kernel, found), found, False
    if len(found) < 2:
        return apart
    found = tap_blocks(lines)
    return min(apart, (_cycles(x, kernel, found, adds=True), found, True), key=itemgetter(0))


def _in_margins(x: Node, kernel: Node, steps: Steps) -> Node | None:
    """The convolution of x with zeros around it in memory, if that is expected to be faster."""
    lengths, window = x.shape[2:-1], kernel.shape[1:-2]
    widths, inside = within_margins(lengths, window, steps)
    if not any(map(any, widths)):
        return None
    wide = tuple(n + sum(pair) for n, pair in zip(lengths, widths, strict=True))
    copied = x.spec.nbytes * (1 + math.prod(wide) / math.prod(lengths)) / COPIED_BYTES_PER_CYCLE
    padded = _cycles(x, kernel, list(blocks(inside.lines(wide, window))))
    if _ways(x, kernel, steps)[0] <= padded + copied:
        return None
    return _convolved(_surrounded(x, ((0, 0), (0, 0), *widths, (0, 0))), kernel, inside)


def _cycles(x: Node, kernel: Node, found: list[Block], adds: bool = False) -> float:
    """About how long tiles take for some blocks."""
    groups, batch, inside, outside = *x.shape[:2], *kernel.shape[-2:]
    item, single = x.dtype.itemsize, inside == outside == 1 < groups
    # Few columns are inner products, which fill vectors, and so do groups of a single channel.
    filled = outside * item / TILE_VECTOR_BYTES
    few = filled <= 0.5
    total = 0.0
    for block in found:
        rows = batch * math.prod(phase.outputs.number for phase in block)
        depth = inside * math.prod(phase.taps.number for phase in block)
        read = batch * inside * math.prod(map(_distinct, block)) + depth * outside
        if adds:
            read += 2 * rows * outside
        inner = few and (single or rows >= FEWEST_PACKED_ROWS)
        vectors = filled if inner else math.ceil(filled)
        total += (
            math.ceil(rows / CONVOLUTION_TILE_ROWS)
            * CONVOLUTION_TILE_ROWS
            * depth
            * vectors
            / TILE_PRODUCTS_PER_CYCLE
        )
        total += read * item / TILE_BYTES_PER_CYCLE
        total += depth * outside * PACKING_CYCLES if inner and not single else 0
    return groups * total + BLOCK_CYCLES * len(found) * (1 if single else groups)


def _distinct(phase: Phase) -> int:
    """The maximum number of elements that a phase reads."""
    outputs, taps = phase.outputs.number, phase.taps.number
    reach = (outputs - 1) * phase.by_output + (taps - 1) * phase.by_tap + 1
    return min(outputs * taps, max(reach, 0))


def _surrounded(x: Node, widths: Pairs) -> Node:
    """A tensor with zeros around it, in the order in which its elements lie in memory."""
    if x.op is movement.PERMUTE_DIMS:
        ((source,), (axes,)) = x.inputs, x.params
        inside = [(0, 0)] * len(axes)
        for axis, pair in zip(axes, widths, strict=True):
            inside[axis] = pair
        return movement.permute_dims(_surrounded(source, tuple(inside)), axes)
    shape = tuple(n + sum(pair) for n, pair in zip(x.shape, widths, strict=True))
    starts = tuple(low for low, _ in widths)
    return apply(UNSLICE, (x,), (starts, x.shape, (1,) * x.ndim, shape))
