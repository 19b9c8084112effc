"""A program lowered to steps over slots: native instructions, with NumPy calls between them.

Every value of a plan has a *place*, a slot and an offset. A slot holds the address of a block of
memory during one run. Slots are numbered in this order:

    0           the arena: all intermediate values share it, by their lifetimes
    1           the numbers: 0-d inputs, by value
    2 ...       input arrays, then outputs, then results of NumPy calls and constant tables

Places are decided once, so kernels take slots and offsets as constants, and a run only writes the
addresses of its own buffers into the slots.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np

from gradtape.codegen import llvm
from gradtape.codegen.kernels.arguments import Lowered
from gradtape.codegen.kernels.lower import fusible, lower
from gradtape.codegen.plans.instructions import Instruction
from gradtape.graph import PICK, Node, NotLowered, Program
from gradtape.ops.blas_lapack import LETTERS
from gradtape.ops.matrices.contraction import MATMUL
from gradtape.optimize import for_loops, loops_of
from gradtape.optimize.fuse import Call, Fused, Loop
from gradtape.process.records import dataclass
from gradtape.runtime.arena import Arena, stored_bytes
from gradtape.runtime.beyond_memory import check_stored
from gradtape.runtime.buffer_pool import ALIGNMENT
from gradtape.runtime.machine_limits import third_cache
from gradtape.runtime.native_loops import Body, NativeNode, with_controls
from gradtape.runtime.native_stretches import PlacedKernel, StretchItem
from gradtape.runtime.output_places import place_outputs, read_again
from gradtape.runtime.plan import Place

ARENA, SCALARS, FIRST = 0, 1, 2
# Where results are written past the caches, at least from so many bytes, and at most.
STREAMED = (1 << 21, 1 << 24)


@functools.cache
def streamed_bytes() -> int:
    """Results from this many bytes on are written past the caches: half of the third-level one.

    A smaller one stays there for whoever reads it. Measured with a cache of 32 MB, milliseconds for
    the gradient of x², past the caches and not: 4 MB 0.19 and 0.11, 8 MB 0.36 and 0.15, 16 MB 0.73
    and 0.47, 32 MB 1.5 and 1.5, 64 MB 3.0 and 4.3.
    """
    least, most = STREAMED
    return max(least, min(third_cache() // 2, most))


# Constant tables up to this many bytes are kept with the plan.
FIXED = 1 << 20


@dataclass(frozen=True)
class NumpyCall:
    """A node that NumPy computes; `placed` if its result has a place that must be filled."""

    node: Node
    placed: bool


Step = list[StretchItem] | NumpyCall


class LoweredProgram:
    """A program as steps, with the place of every value.

    `body_of` lowers the body of a loop or branch, or says None if it is not all native. The program
    may be `fused` already, as `resized` leaves it.
    """

    # Whether large results that nothing in the program reads are written past the caches.
    streams = True

    def __init__(
        self,
        program: Program,
        body_of: Callable[[Program], Body | None],
        fused: Fused | None = None,
    ) -> None:
        self.controls: Mapping[Node, NativeNode] = {}
        if fused is None:
            program = self._prepared(for_loops(program))
            program, self.controls, fused = with_controls(program, body_of)
        self.program = program
        self.fused = fused
        self.place: dict[Node | str, Place] = {}
        self.slots = FIRST
        self.scalars: list[Node] = []
        self.arrays: list[Node] = []
        self._number_inputs(program)
        self.outputs = place_outputs(
            program, fused, lambda node: is_product(node) or self._control_of(node) is not None
        )
        self._number_outputs()
        self._arena = Arena()
        self.steps: list[Step] = []
        # For each step, the unit that each of its items computes.
        self.step_units: list[list[int]] = []
        # Tables that are the same in every run.
        self.fixed: dict[Node, np.ndarray] = {}
        self._lower_units(fused)
        self.arena_size = self._arena.size

    def _prepared(self, program: Program) -> Program:
        return program

    # Slots.

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _number_inputs(self, program: Program) -> None:
        # Every 0-d input may come as a Python number; it lies among the numbers, by value.
        self.scalars = [node for node in program.inputs if node.spec.ndim == 0]
        self.arrays = [node for node in program.inputs if node.spec.ndim != 0]
        offset = 0
        for node in self.scalars:
            self.place[node] = (SCALARS, offset)
            offset += max(8, node.dtype.itemsize)
        for node in self.arrays:
            self.place[node] = (self._new_slot(), 0)

    def _number_outputs(self) -> None:
        for node in self.outputs.written:
            self.place[node] = (self._new_slot(), 0)
        for part in self.outputs.parts:
            joined, offset = self.outputs.place(part)
            self.place[part] = (self.place[joined][0], offset)

    def _control_of(self, node: Node) -> NativeNode | None:
        """The native node that a node is a result of, if it is one."""
        return self.controls.get(node.inputs[0]) if node.op is PICK else None

    # Memory and instructions.

    def _lower_units(self, fused: Fused) -> None:
        over = over_after(last_reads(self.program, fused))
        bits = llvm.host().bits
        written = {*self.outputs.written, *self.outputs.parts}
        streamed = self._streamed(written)
        for index, unit in enumerate(fused.units):
            product = isinstance(unit, Call) and is_product(unit.node)
            outputs = unit.outputs if isinstance(unit, Loop) else [unit.node] if product else []
            for node in outputs:
                if node not in written:
                    self.place[node] = (ARENA, self._arena.take(node, node.spec.nbytes))
            if isinstance(unit, Call):
                self._lower_call(unit.node, product, written)
            else:
                past = set() if _is_slow(unit, streamed) else streamed
                try:
                    steps = self.outputs.steps
                    self._add_kernels(lower(unit, fused.access, fused.constants, bits, past, steps))
                except NotLowered:
                    for node in unit.nodes:
                        self._call_numpy(node)
            self._note_unit(index)
            self._arena.release(over.get(index, ()))

    def _note_unit(self, index: int) -> None:
        """Note that all items that were added since the last call compute this unit."""
        noted = self.step_units
        first = max(0, len(noted) - 1)
        noted += [[] for _ in range(len(self.steps) - len(noted))]
        for step, units in zip(self.steps[first:], noted[first:], strict=True):
            count = 1 if isinstance(step, NumpyCall) else len(step)
            units += [index] * (count - len(units))

    def _lower_call(self, node: Node, product: bool, written: set[Node]) -> None:
        if node in self.controls:
            self._add_control(node, written)
        elif self._control_of(node) is None:  # else it was written with all other results
            found = self._product(node) if product else None
            if found is None:
                self._call_numpy(node)
            else:
                self._stretch().append(found)

    def _streamed(self, written: set[Node]) -> set[Node]:
        """Results too large for the caches that nothing in the program reads again."""
        if not self.streams or llvm.host().machine != "x86_64":
            return set()
        # Streaming stores need vectors that are aligned.
        aligned = {node for node in written if self.place[node][1] % ALIGNMENT == 0}
        large = {n for n in aligned if n.spec.nbytes > streamed_bytes() and n.dtype.kind != "b"}
        # Few programs have any: the others need no walk.
        return large and large - read_again(self.program, self.fused, self.outputs.parts)

    def _add_kernels(self, lowered: list[Lowered]) -> None:
        scratch: list[str] = []
        for item in lowered:
            for owner, size, _ in item.entries:
                if isinstance(owner, str) and owner not in scratch:
                    self.place[owner] = (ARENA, self._arena.take(owner, size))
                    scratch.append(owner)
        # Scratch is reused by later loops, so its place is read now.
        places = {owner: self.place[owner] for item in lowered for owner, _, _ in item.entries}
        self._stretch().extend(PlacedKernel(item, places) for item in lowered)
        self._arena.release(scratch)

    def _add_control(self, node: Node, written: set[Node]) -> None:
        """A node with several results; these have places from here on."""
        picks = [n for n in self.program.nodes if n.op is PICK and n.inputs[0] is node]
        for pick in picks:
            if pick not in written:
                self.place[pick] = (ARENA, self._arena.take(pick, pick.spec.nbytes))
        scratch: list[str] = []

        def take(nbytes: int) -> Place:
            scratch.append(f"scratch {len(scratch)} of {id(node)}")
            return ARENA, self._arena.take(scratch[-1], nbytes)

        operands = [self._whole_place(parent) for parent in node.inputs]
        places = {pick.params[0]: self.place[pick] for pick in picks}
        self._stretch().append(self.controls[node].instruction(operands, places, take))
        self._arena.release(scratch)

    def _whole_place(self, node: Node) -> Place:
        """Where a contiguous operand lies."""
        found = self.fused.access[node]
        slot, start = self.place[found.base]
        return slot, start + found.offset * node.dtype.itemsize

    def _stretch(self) -> list[StretchItem]:
        """The native instructions since the last NumPy call."""
        if not self.steps or isinstance(self.steps[-1], NumpyCall):
            fresh: list[StretchItem] = []
            self.steps.append(fresh)
            return fresh
        return self.steps[-1]

    def _product(self, node: Node) -> Instruction | None:
        """A sum of products as an instruction, if the operands can be read where they lie."""
        operands = [self._matrix(parent) for parent in node.inputs]
        left, right = operands
        if left is None or right is None:
            return None
        # Loaded with the first product: most of the compiler's small programs have none.
        from gradtape.runtime.products.instruction import product_instruction

        return product_instruction(node, left, right, self.place[node])

    def _matrix(self, node: Node) -> tuple[int, int, tuple[int, ...]] | None:
        """The slot of an operand, and its offset and strides in bytes."""
        found = self.fused.access.get(node)
        if found is None or found.base not in self.place or node in self.fused.constants:
            return None
        slot, start = self.place[found.base]
        size = node.dtype.itemsize
        strides = tuple(size * step for step in found.strides)
        return slot, start + size * found.offset, strides

    def _call_numpy(self, node: Node) -> None:
        placed = node in self.place
        if not placed and is_fixed(node):
            # The same in every run: computed once, with the plan.
            check_stored([node])
            self.place[node] = (self._new_slot(), 0)
            self.fixed[node] = np.ascontiguousarray(node.op.numpy(**node.keywords), node.dtype)
            return
        if type(node.spec) is not tuple and not placed:
            self.place[node] = (self._new_slot(), 0)
        self.steps.append(NumpyCall(node, placed))


def _is_slow(loop: Loop, streamed: set[Node]) -> bool:
    """Whether a loop takes so long between its stores that lines would be written in halves.

    A store past the caches gathers in a buffer until its line is full. With several results and
    calls in between, buffers are given up half full: two results of tanh took 2.6 times as long.
    """
    several = sum(node in streamed for node in loop.outputs) > 1
    return several and any(node.op.function is not None for node in loop.nodes)


def is_fixed(node: Node) -> bool:
    """Whether a node is the same in every run, and small enough to be kept."""
    return node.op.constant and not node.inputs and node.spec.nbytes <= FIXED


def is_product(node: Node) -> bool:
    """Whether BLAS or tiles may compute this node."""
    if node.op.nest is not None:
        return node.dtype.kind == "f" and node.size > 0 and all(n.size for n in node.inputs)
    return node.op is MATMUL and node.dtype.name in LETTERS and node.size > 0


def last_reads(program: Program, fused: Fused) -> dict[Node, int]:
    """The last unit that reads each value from memory; outputs are read for ever."""
    last: dict[Node, int] = {}
    for index, unit in enumerate(fused.units):
        nodes = [unit.node] if isinstance(unit, Call) else unit.nodes
        for node in nodes:
            last.setdefault(node, index)
            for parent in node.inputs:
                found = fused.access.get(parent)
                if found is not None:
                    last[found.base] = index
    for node in program.outputs:
        found = fused.access.get(node)
        last[found.base if found is not None else node] = len(fused.units)
    return last


def over_after(last: Mapping[Node, int]) -> dict[int, list[Node]]:
    """For each unit, the values that nothing after it reads."""
    found: dict[int, list[Node]] = {}
    for node, index in last.items():
        found.setdefault(index, []).append(node)
    return found


def intermediate_bytes(program: Program) -> int:
    """Bytes that a compiled plan holds beside inputs and outputs, found without compiling it."""
    program, fused = loops_of(program, fusible)
    outputs = place_outputs(program, fused, is_product)
    elsewhere = {*outputs.written, *outputs.parts}
    over = over_after(last_reads(program, fused))
    arena, called = Arena(), 0
    for index, unit in enumerate(fused.units):
        made = unit.outputs if isinstance(unit, Loop) else [unit.node]
        for node in made:
            if node in elsewhere:
                continue
            if isinstance(unit, Call) and not is_product(node):
                # Results of NumPy calls live as long as the run.
                called += stored_bytes(node)
            else:
                arena.take(node, node.spec.nbytes)
        arena.release(over.get(index, ()))
    return arena.size + called
