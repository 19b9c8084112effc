"""The arguments that a kernel is called with: sizes of axes, and where its arrays lie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gradtape.compiler.lower.kernel import SAME, SCALAR, STRIDED, UNIT, Kernel
from gradtape.ir.node import Node
from gradtape.records import dataclass

if TYPE_CHECKING:
    from gradtape.compiler.emit.register_code import RegisterCode

# An axis of an iteration space: its size, whether it is reduced, and the step of each array along
# it, in elements.
SpaceAxis = tuple[int, bool, list[int]]
# An array: the node whose memory holds it (or the name of scratch memory), its offset there in
# bytes (or the bytes of scratch memory), and its strides in bytes.
Entry = tuple[Node | str, int, tuple[int, ...]]


@dataclass
class Lowered:
    """A kernel with its arguments; the plan fills in the slots of nodes and their offsets.

    Threads divide `total` parts of the work, `grain` of them at a time. `work` is the rough cost of
    all of it, in loads.
    """

    kernel: Kernel | RegisterCode
    sizes: tuple[int, ...]
    entries: list[Entry]
    total: int
    grain: int
    work: int

    @property
    def points(self) -> int:
        """The points of the iteration space."""
        return math.prod(self.sizes)


def lowered(
    kernel: Kernel, axes: list[SpaceAxis], entries: list[Entry], total: int, grain: int
) -> Lowered:
    """A kernel with its arguments and the work that they make."""
    sizes = tuple(axis[0] for axis in axes)
    return Lowered(kernel, sizes, entries, total, grain, kernel.cost * math.prod(sizes))


def merge_axes(axes: list[SpaceAxis]) -> list[SpaceAxis]:
    """Join neighbouring axes that every array walks as one."""
    merged: list[SpaceAxis] = []
    for n, reduced, strides in axes:
        if merged:
            m, role, outer = merged[-1]
            if role == reduced and all(a == b * n for a, b in zip(outer, strides, strict=True)):
                merged[-1] = (m * n, role, strides)
                continue
        merged.append((n, reduced, strides))
    return merged


def walks_of(axes: list[SpaceAxis], arrays: int) -> list[list[int]]:
    """The steps of each array along the axes, from the outermost to the innermost."""
    return [[axis[2][array] for axis in axes] for array in range(arrays)]


def access_of(walk: list[int]) -> str:
    """The kind of step of a read array along the innermost axis."""
    return target_access(walk) if any(walk) else SCALAR


def target_access(walk: list[int]) -> str:
    """The kind of step of a written array along the innermost axis."""
    return {0: SAME, 1: UNIT}.get(walk[-1], STRIDED)
