"""Bidiagonal forms as instructions; `codegen.plans.bidiagonal` writes their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from gradtape.codegen import llvm
from gradtape.codegen.plans.bidiagonal import (
    STRIP,
    WIDTH,
    BidiagonalArguments,
    bidiagonal_ir,
    scratch_for,
)
from gradtape.codegen.plans.elements import Lanes, lanes_for
from gradtape.codegen.plans.instructions import Instruction
from gradtape.codegen.plans.reflectors import GROUP, step_of
from gradtape.graph import Node
from gradtape.ops.matrices.bidiagonal import LARGEST
from gradtape.process.records import dataclass
from gradtape.runtime.native_factors import PARALLEL_BYTES, PARALLEL_WORK, Take
from gradtape.runtime.native_stretches import PreparedInstruction
from gradtape.runtime.plan import Place

# Elements of a matrix below which a second thread costs more than it brings to a product with a
# vector. The measured time is about the same from half to twice as many.
PARALLEL_CELLS = 16_000
_LINE = 64


def bidiagonal_is_native(node: Node) -> bool:
    """Whether the form is computed here; others are LAPACK's."""
    x = node.inputs[0]
    known = x.ndim == 2 and x.dtype.name in ("float32", "float64")
    return known and 0 < x.spec.nbytes <= LARGEST


@dataclass(frozen=True)
class NativeBidiagonal:
    """The bidiagonal form of a matrix: four instructions for each column, two for each panel."""

    node: Node

    def instructions(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> Sequence[PreparedInstruction]:
        """The instructions, with operand and results at these places."""
        x = self.node.inputs[0]
        (rows, columns), size = x.shape, x.dtype.itemsize
        lanes = lanes_for(size, llvm.host().bits)
        compiled = _compiled(lanes)
        scratch = scratch_for(lanes, rows, columns)
        work = take(scratch.nbytes)
        # Nobody may read the reflectors; then they are not written.
        reduced = places.get(0)
        short = [places.get(number) or take(columns * size) for number in range(1, 5)]
        listed = (operands[0], reduced or work, *short, work)
        common = [word for place in listed for word in place]
        common += [*scratch[:-1], rows, columns]
        found: list[PreparedInstruction] = []

        def add(
            kernel: str, first: int, column: int, total: int, grain: int, work: int, parallel: bool
        ) -> None:
            words = BidiagonalArguments._make([*common, first, column])
            function = compiled.address(kernel)
            made = Instruction(function, words, total, grain, parallel, work, code=compiled)
            found.append(PreparedInstruction(made, False, work, parallel))

        step = step_of(lanes)
        tall, broad = (-(-count // step) * step for count in (rows, columns))
        large = x.spec.nbytes >= PARALLEL_BYTES
        add("copy", 0, 0, broad // GROUP, 1, rows * columns, large)
        for first in range(0, columns, WIDTH):
            end = min(first + WIDTH, columns)
            for column in range(first, end):
                narrow = 4 * (rows - column) * (column - first + 1)
                add("column", first, column, 1, 1, narrow, False)
                if column == columns - 1:
                    break
                begin = (column + 1) // step * step
                cells = (rows - column) * (columns - column)
                shared = cells >= PARALLEL_CELLS
                add("across", first, column, (broad - begin) // GROUP, 1, cells, shared)
                add("row", first, column, 1, 1, narrow, False)
                vectors, grain = (tall - begin) // lanes.per_vector, max(1, _LINE // lanes.bytes)
                add("down", first, column, vectors, grain, cells, shared)
            if end < columns:
                rest = (rows - end) * (columns - end) * 2 * WIDTH
                add("close", first, end - 1, 1, 1, 2 * WIDTH * rows, False)
                strips = (broad - end) // STRIP
                add("update", first, first, strips, 2, rest, rest >= PARALLEL_WORK)
            if reduced is not None:
                cells = (columns - first) * WIDTH
                add("keep", first, first, columns - first, GROUP, cells, cells >= PARALLEL_CELLS)
        return found


@lru_cache(maxsize=4)
def _compiled(lanes: Lanes) -> llvm.Compiled:
    # Not for good, so that its machine code is kept on disk; instructions hold it.
    return llvm.compile_ir(bidiagonal_ir(lanes), for_good=False)
