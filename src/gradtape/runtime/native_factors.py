"""LU factors of one matrix as instructions; `codegen.plans.factors` writes their kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from gradtape.codegen import llvm
from gradtape.codegen.plans.elements import Lanes, lanes_for
from gradtape.codegen.plans.factors import FactorArguments, factors_ir, update_range
from gradtape.codegen.plans.instructions import Instruction
from gradtape.codegen.plans.panels import WIDTH, panel_bytes
from gradtape.graph import Node
from gradtape.process.records import dataclass
from gradtape.runtime.native_stretches import PreparedInstruction
from gradtape.runtime.plan import Place

# Takes so many bytes of the arena around a node, for as long as the node is computed.
Take = Callable[[int], Place]

# Measured beside LAPACK: a larger matrix is read from memory for every panel, so the blocks of
# LAPACK, which are wider, take less time.
LARGEST = 1 << 24
# Multiplications, and bytes to copy, below which a second thread costs more than it brings.
PARALLEL_WORK = 200_000
PARALLEL_BYTES = 1 << 19


def factors_are_native(node: Node) -> bool:
    """Whether factors are computed here; others are LAPACK's."""
    x = node.inputs[0]
    return x.ndim == 2 and 0 < x.spec.nbytes <= LARGEST and x.dtype.name in ("float32", "float64")


@dataclass(frozen=True)
class NativeFactors:
    """The LU factors of a matrix: a copy, a panel, and an update for each panel but the last."""

    node: Node

    def instructions(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> Sequence[PreparedInstruction]:
        """The instructions, with operand and results at these places."""
        x = self.node.inputs[0]
        order, size = x.shape[0], x.dtype.itemsize
        lanes = lanes_for(size, llvm.host().bits)
        compiled = _compiled(lanes)
        nbytes = panel_bytes(lanes, order)
        panels = take(nbytes), take(nbytes)
        result = places.get(0) or take(x.spec.nbytes)
        pivots = places.get(1) or take(4 * order)

        def made(
            kernel: str, first: int, total: int, grain: int, work: int, parallel: bool
        ) -> PreparedInstruction:
            number, width = first // WIDTH, min(WIDTH, order - first)
            scratch = (*panels[number % 2], *panels[1 - number % 2])
            words = FactorArguments(*operands[0], *result, *pivots, *scratch, order, first, width)
            function = compiled.address(kernel)
            instruction = Instruction(function, words, total, grain, parallel, work, code=compiled)
            return PreparedInstruction(instruction, False, work, parallel)

        cells = order * order
        large = cells * size >= PARALLEL_BYTES
        found = [
            made("copy", 0, order, 1, cells, large),
            made("panel", 0, 1, 1, order * WIDTH * WIDTH // 2, False),
        ]
        for first in range(0, order - WIDTH, WIDTH):
            rest = order - first - WIDTH
            work = rest * rest * WIDTH
            total = update_range(rest)
            found.append(made("update", first, total, 1, work, work >= PARALLEL_WORK))
        found.append(made("interchange", 0, order, 8, cells, large))
        return found


@lru_cache(maxsize=4)
def _compiled(lanes: Lanes) -> llvm.Compiled:
    # Not for good, so that its machine code is kept on disk; instructions hold it.
    return llvm.compile_ir(factors_ir(lanes), for_good=False)
