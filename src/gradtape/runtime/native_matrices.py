"""Matrix algorithms as instructions: LU factors, bidiagonal and tridiagonal forms.

`codegen.plans.factors`, `bidiagonal`, `tridiagonal`, `halves` and `reflected` write their kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from gradtape.codegen import llvm
from gradtape.codegen.plans import reduction, reflected, tridiagonal
from gradtape.codegen.plans.bidiagonal import BidiagonalArguments, bidiagonal_ir, scratch_for
from gradtape.codegen.plans.elements import Lanes, lanes_for
from gradtape.codegen.plans.factors import FactorArguments, factors_ir, update_range
from gradtape.codegen.plans.halves import HalvesArguments, halves_ir, words_of_halves
from gradtape.codegen.plans.instructions import Instruction
from gradtape.codegen.plans.panels import WIDTH, panel_bytes
from gradtape.codegen.plans.reflected import ReflectedArguments, reflected_ir
from gradtape.codegen.plans.reflectors import GROUP, step_of
from gradtape.codegen.plans.tridiagonal import TridiagonalArguments, tridiagonal_ir
from gradtape.graph import Node
from gradtape.ops.matrices import lapack
from gradtape.ops.matrices.bidiagonal import LARGEST
from gradtape.ops.matrices.tridiagonal import TRIDIAGONAL_HALVES
from gradtape.process.records import dataclass
from gradtape.runtime.native_stretches import PreparedInstruction
from gradtape.runtime.plan import Place

# Takes so many bytes of the arena around a node, for as long as the node is computed.
Take = Callable[[int], Place]

# Multiplications, and bytes to copy, below which a second thread costs more than it brings.
PARALLEL_WORK = 200_000
PARALLEL_BYTES = 1 << 19
# The same for a product with a vector, in elements of the matrix. The measured time is about the
# same from half to twice as many.
PARALLEL_CELLS = 16_000
_LINE = 64


def is_native(node: Node) -> bool:
    """Whether a matrix is one for these kernels; LAPACK takes others."""
    x = node.inputs[0]
    axes = 1 if node.op is TRIDIAGONAL_HALVES else 2
    return (
        x.ndim == axes and 0 < x.spec.nbytes <= LARGEST and x.dtype.name in ("float32", "float64")
    )


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
        compiled = _compiled(factors_ir, lanes)
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
        compiled = _compiled(bidiagonal_ir, lanes)
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
        for first in range(0, columns, reduction.WIDTH):
            end = min(first + reduction.WIDTH, columns)
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
                rest = (rows - end) * (columns - end) * 2 * reduction.WIDTH
                add("close", first, end - 1, 1, 1, 2 * reduction.WIDTH * rows, False)
                strips = (broad - end) // reduction.STRIP
                add("update", first, first, strips, 2, rest, rest >= PARALLEL_WORK)
            if reduced is not None:
                cells = (columns - first) * reduction.WIDTH
                add("keep", first, first, columns - first, GROUP, cells, cells >= PARALLEL_CELLS)
        return found


def slices_of(rest: int) -> int:
    """Slices of a product with the rest of a symmetric matrix, which threads share."""
    if rest * rest < 2 * PARALLEL_CELLS:
        return 1
    return tridiagonal.SLICES if rest >= 800 else tridiagonal.SLICES // 2


@dataclass(frozen=True)
class NativeTridiagonal:
    """The tridiagonal form of a matrix: two instructions for each column, three for each panel."""

    node: Node

    def instructions(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> Sequence[PreparedInstruction]:
        """The instructions, with operand and results at these places."""
        x = self.node.inputs[0]
        order, size = x.shape[0], x.dtype.itemsize
        lanes = lanes_for(size, llvm.host().bits)
        compiled = _compiled(tridiagonal_ir, lanes)
        scratch = tridiagonal.scratch_for(lanes, order)
        work = take(scratch.nbytes)
        # Nobody may read the reflectors; then they are not written.
        reduced = places.get(0)
        short = [places.get(number) or take(order * size) for number in range(1, 4)]
        listed = (operands[0], reduced or work, *short, work)
        common = [word for place in listed for word in place]
        common += [*scratch[:-1], order]
        found: list[PreparedInstruction] = []

        def add(
            kernel: str, first: int, column: int, slices: int, total: int, work: int, parallel: bool
        ) -> None:
            words = TridiagonalArguments._make([*common, first, column, slices])
            function = compiled.address(kernel)
            made = Instruction(function, words, total, 1, parallel, work, code=compiled)
            found.append(PreparedInstruction(made, False, work, parallel))

        step = step_of(lanes)
        padded = -(-order // step) * step
        large = x.spec.nbytes >= PARALLEL_BYTES
        add("copy", 0, 0, 1, -(-padded // (2 * GROUP)), order * order, large)
        for first in range(0, order, reduction.WIDTH):
            end = min(first + reduction.WIDTH, order)
            for column in range(first, end):
                rest = order - column
                narrow = 4 * rest * (column - first + 1)
                add("column", first, column, slices_of(rest), 1, narrow, False)
                if column < order - 1:
                    slices = slices_of(rest - 1)
                    cells = rest * rest // 2
                    add("product", first, column, slices, slices, cells, slices > 1)
            if end < order:
                rest = order - end
                add("close", first, end - 1, slices_of(rest), 1, 2 * reduction.WIDTH * rest, False)
                strips = (padded - end) // reduction.STRIP
                products = rest * rest * reduction.WIDTH
                parallel = products >= PARALLEL_WORK
                add("update", first, first, 1, -(-strips // 2), products, parallel)
            if reduced is not None:
                cells = (order - first) * reduction.WIDTH
                add("keep", first, first, 1, end - first, cells, cells >= PARALLEL_CELLS)
        return found


@dataclass(frozen=True)
class NativeHalves:
    """The eigenvectors of both halves of a tridiagonal matrix: an instruction that calls LAPACK."""

    node: Node

    def instructions(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> Sequence[PreparedInstruction]:
        """The instruction, with operands and results at these places."""
        x = self.node.inputs[0]
        (order,), size = x.shape, x.dtype.itemsize
        lanes = lanes_for(size, llvm.host().bits)
        compiled = _compiled(halves_ir, lanes)
        sizes = [one.nbytes for one in self.node.spec]
        results = [places.get(number) or take(nbytes) for number, nbytes in enumerate(sizes)]
        scratch, halves = words_of_halves(lanes, order)
        listed = (*operands, *results, take(2 * scratch[0]))
        common = [word for place in listed for word in place]
        routine = lapack.address(f"{lapack.LETTERS[x.dtype.name]}stedc"), ord("I")
        words = HalvesArguments._make([*common, *scratch, *routine, order, order // 2, *halves])
        work = order**3 // 3
        function = compiled.address("halves")
        made = Instruction(function, words, 2, 1, work >= PARALLEL_WORK, work, code=compiled)
        return [PreparedInstruction(made, True, work, work >= PARALLEL_WORK)]


@dataclass(frozen=True)
class NativeReflected:
    """The reflectors of a tridiagonal form times vectors: two instructions."""

    node: Node

    def instructions(
        self, operands: Sequence[Place], places: Mapping[int, Place], take: Take
    ) -> Sequence[PreparedInstruction]:
        """The instructions, with operands and results at these places."""
        x = self.node.inputs[0]
        order, size = x.shape[0], x.dtype.itemsize
        lanes = lanes_for(size, llvm.host().bits)
        compiled = _compiled(reflected_ir, lanes)
        scratch = reflected.scratch_for(lanes, order)
        listed = (*operands, places[0], take(scratch.nbytes))
        common = [word for place in listed for word in place]
        words = ReflectedArguments._make([*common, *scratch[:-1], order])
        packed, applied = order * order * reflected.WIDTH // 2, order**3
        blocks, strips = reflected.blocks_of(order), -(-order // reflected.strip_of(lanes))
        found: list[PreparedInstruction] = []
        for kernel, total, work in (("pack", -(-blocks // 2), packed), ("apply", strips, applied)):
            shared = work >= PARALLEL_WORK
            function = compiled.address(kernel)
            made = Instruction(function, words, total, 1, shared, work, code=compiled)
            found.append(PreparedInstruction(made, False, work, shared))
        return found


# Five modules, each for two sizes of elements.
@lru_cache(maxsize=16)
def _compiled(module: Callable[[Lanes], str], lanes: Lanes) -> llvm.Compiled:
    # Not for good, so that its machine code is kept on disk; instructions hold it.
    return llvm.compile_ir(module(lanes), for_good=False)
