"""A program lowered to native instructions over slots.

Every value of a plan has a *place*, a slot and an offset. A slot holds the address of a block of
memory during one run. Slots are numbered in this order:

    0           the arena: all intermediate values share it, by their lifetimes
    1           the numbers: 0-d inputs, by value
    2           the status of the run
    3 ...       input arrays, then outputs, then constant tables

Places are decided once, so kernels take slots and offsets as constants, and a run only writes the
addresses of its own buffers into the slots.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.compiler.emit.plans.instructions import ARENA, FIRST, SCALARS, Instruction
from gradtape.compiler.lower.arena import ALIGNMENT, Arena, stored_bytes
from gradtape.compiler.lower.arguments import Lowered
from gradtape.compiler.lower.fused_loops import fusible, lower
from gradtape.compiler.lower.memory_limit import check_stored
from gradtape.compiler.lower.native_calls import (
    copy_of,
    native_instruction,
    with_whole_operands,
)
from gradtape.compiler.lower.native_loops import NativeBody
from gradtape.compiler.lower.native_stretches import (
    PlacedKernel,
    PreparedInstruction,
    StretchItem,
    product_of,
)
from gradtape.compiler.lower.output_aliasing import place_outputs, read_again
from gradtape.compiler.lower.plan import CallMemory, SlotPlace
from gradtape.compiler.lower.register_routines import lower_routines
from gradtape.compiler.machine_limits import third_cache
from gradtape.compiler.objects import llvm
from gradtape.compiler.passes import for_loops, loops_of
from gradtape.compiler.passes.result_layouts import is_nest, layouts
from gradtape.compiler.passes.routines import with_routines
from gradtape.compiler.passes.units import Call, Fused, FusedLoop, Registers, nodes_of
from gradtape.config import LARGEST_KEPT_TABLE, STREAMED_BYTES
from gradtape.ir import PICK, Node, NotLowered, Program, constant, constant_value, spec
from gradtape.ir.node import bytes_of
from gradtape.ir.op_facts import View
from gradtape.ops.blas_lapack import LETTERS
from gradtape.ops.matrices.contraction import MATMUL


@functools.cache
def streamed_bytes() -> int:
    """Results from this many bytes on are written past the caches: half of the third-level one.

    A smaller one stays there for its readers. Measured with a cache of 32 MB, milliseconds for
    the gradient of x², past the caches and not: 4 MB 0.19 and 0.11, 8 MB 0.36 and 0.15, 16 MB 0.73
    and 0.47, 32 MB 1.5 and 1.5, 64 MB 3.0 and 4.3.
    """
    least, most = STREAMED_BYTES
    return max(least, min(third_cache() // 2, most))


class ScatteredError(Exception):
    """The operands of a product do not lie in memory as BLAS reads them."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.node = node


class LoweredProgram:
    """A program as native instructions, with the place of every value.

    `body_of` lowers the body of a loop or branch. The program may be `fused` already, as `resized`
    leaves it. If its sizes vary, it has loops only, which serve all sizes.
    """

    # Whether large results that nothing in the program reads are written past the caches.
    streams = True
    # Whether a loop runs the program again and again.
    repeated = False

    def __init__(
        self,
        program: Program,
        body_of: Callable[[Program], NativeBody],
        fused: Fused | None = None,
        sizes_vary: bool = False,
    ) -> None:
        self._body_of = body_of
        self.natives: dict[Node, PreparedInstruction] = {}
        self._recorded: Mapping[Node, Node] = {}
        # Kinds of products that have no instruction, though all operands are contiguous.
        self._beyond_products: set[object] = set()
        if fused is not None:
            self._lower(program, fused)
            return
        if not sizes_vary:
            program = with_routines(self._with_results(program), fusible, self.repeated)
        program = self._prepared(for_loops(program))
        # Kinds of nodes that turned out not to fit into loops.
        refused: set[object] = set()
        # Products read operands where they lie, unless BLAS cannot read them there.
        copies_for_products = False
        while True:
            made, fused, self._recorded = with_whole_operands(
                program,
                lambda n, copies=copies_for_products: copies or not is_product(n),  # type: ignore[misc]
                lambda n: kind_of(n) in refused,
            )
            try:
                return self._lower(made, fused)
            except ScatteredError as error:
                if copies_for_products:
                    self._beyond_products.add(kind_of(error.node))
                copies_for_products = True
            except _RefusedError as error:
                refused.update(map(kind_of, error.nodes))

    def _lower(self, program: Program, fused: Fused) -> None:
        self.program = program
        self.fused = fused
        self.place: dict[Node | str, SlotPlace] = {}
        self.slots = FIRST
        self.scalars: list[Node] = []
        self.arrays: list[Node] = []
        self._number_inputs(program)
        self.outputs = place_outputs(
            program, fused, lambda node: type(node.spec) is not tuple and not is_fixed(node)
        )
        for node in self.outputs.written:
            self.place[node] = (self._new_slot(), 0)
        for part in self.outputs.parts:
            joined, offset = self.outputs.place(part)
            self.place[part] = (self.place[joined][0], offset)
        self._arena = Arena()
        self.items: list[StretchItem] = []
        # For each item, the unit that it computes.
        self.item_units: list[int] = []
        # Tables that are the same in every run.
        self.fixed: dict[Node, np.ndarray] = {}
        # The names of ops that instructions call in Python.
        self.python_ops: frozenset[str] = frozenset()
        self._picks: dict[Node, list[Node]] = {}
        for node in program.nodes:
            if node.op is PICK:
                self._picks.setdefault(node.inputs[0], []).append(node)
        self._lower_units(fused)
        self.arena_size = self._arena.size

    def _prepared(self, program: Program) -> Program:
        """The program in which each output has memory of its own, by copies of those without.

        These are inputs, constants and views, but for a value that was only reshaped.
        """
        inputs, nodes, outputs = set(program.inputs), list(program.nodes), []
        copies: dict[Node, Node] = {}
        laid_out = layouts(program)
        for node in program.outputs:
            base = node
            while base not in inputs and (
                base.op.view is View.RESHAPE
                or (base.op.view is View.PERMUTE and base.inputs[0] in laid_out)
            ):
                base = base.inputs[0]
            if base in inputs or base.op.view is not None or is_fixed(base) or base.op.constant:
                if node not in copies:
                    copies[node] = copy_of(node)
                    nodes.append(copies[node])
                node = copies[node]
            outputs.append(node)
        return Program(program.inputs, tuple(nodes), tuple(outputs)) if copies else program

    def _with_results(self, program: Program) -> Program:
        """The program whose outputs are what instructions write."""
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

    # Memory and instructions.

    def _lower_units(self, fused: Fused) -> None:
        over = over_after(last_reads(self.program, fused))
        bits = llvm.host().bits
        streamed = self._streamed({*self.outputs.written, *self.outputs.parts})
        for index, unit in enumerate(fused.units):
            product = isinstance(unit, Call) and self._is_product(unit.node)
            if isinstance(unit, Call):
                outputs = [unit.node] if product else []
            else:
                outputs = unit.outputs
            for node in outputs:
                self._take(node)
            if isinstance(unit, Call):
                self._lower_call(unit.node, product)
            elif isinstance(unit, Registers):
                beside = {each: (self.scalars[0], self.place[each][1]) for each in self.scalars}
                self._add_kernels([lower_routines(unit, fused.access, fused.constants, beside)])
            else:
                past = set() if _is_slow(unit, streamed) else streamed
                try:
                    steps = self.outputs.steps
                    self._add_kernels(lower(unit, fused.access, fused.constants, bits, past, steps))
                except NotLowered as error:
                    raise _RefusedError(unit.nodes) from error
            self.item_units += [index] * (len(self.items) - len(self.item_units))
            self._arena.release(over.get(index, ()))

    def _is_product(self, node: Node) -> bool:
        return is_product(node) and kind_of(node) not in self._beyond_products

    def _take(self, node: Node) -> None:
        """Give a result a place in the arena, unless it is part of an output."""
        if node not in self.place:
            self.place[node] = (ARENA, self._arena.take(node, node.spec.nbytes))

    def _lower_call(self, node: Node, product: bool) -> None:
        if product:
            self.items.append(product_of(self._product(node)))
        elif is_fixed(node):
            # Of a node with several results, each result is a table.
            if type(node.spec) is not tuple:
                self._add_fixed(node)
        elif node.op is not PICK:  # else it was written with all other results
            self._add_native(node)

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
        self.items += [PlacedKernel(item, places) for item in lowered]
        self._arena.release(scratch)

    def _add_native(self, node: Node) -> None:
        """A node that one instruction computes; its results have places from here on."""
        several = type(node.spec) is tuple
        results = self._picks.get(node, []) if several else [node]
        if all(not each.spec.nbytes for each in results):
            for each in results:
                self.place.setdefault(each, (ARENA, 0))
            return
        for each in results:
            self._take(each)
        scratch: list[str] = []

        def take(nbytes: int) -> SlotPlace:
            scratch.append(f"scratch {len(scratch)} of {id(node)}")
            return ARENA, self._arena.take(scratch[-1], nbytes)

        recorded = self._recorded.get(node, node)
        operands = [self._whole_place(parent) for parent in node.inputs]
        places = {each.params[0] if several else 0: self.place[each] for each in results}
        memory = CallMemory(operands, places, take)
        native = self.natives[node] = native_instruction(node, recorded, self._body_of, memory)
        self.python_ops |= native.python_ops
        self.items.append(native)
        self._arena.release(scratch)

    def _whole_place(self, node: Node) -> SlotPlace:
        """The place of a contiguous operand."""
        found = self.fused.access[node]
        slot, start = self.place[found.base]
        return slot, start + found.offset * node.dtype.itemsize

    def _product(self, node: Node) -> Instruction:
        """A sum of products as an instruction, if the operands can be read where they lie."""
        left, right = (self._matrix(parent, node) for parent in node.inputs)
        # Loaded with the first product: most of the compiler's small programs have none.
        from gradtape.compiler.lower.products.instruction import product_instruction

        found = None
        if left is not None and right is not None:
            steps = self.fused.access[node].strides
            found = product_instruction(node, left, right, self.place[node], steps)
        if found is None:
            raise ScatteredError(node)
        return found

    def _matrix(self, node: Node, product: Node) -> tuple[int, int, tuple[int, ...]] | None:
        """The slot of an operand, and its offset and strides in bytes."""
        if node in self.fused.constants and product.op.nest is not None:
            # One number serves all elements.
            value = constant_value(node)
            assert value is not None
            number = constant(value, spec((), node.dtype))
            if number not in self.place:
                self._add_fixed(number)
            return *self.place[number], (0,) * node.ndim
        found = self.fused.access.get(node)
        if found is None or found.base not in self.place or node in self.fused.constants:
            return None
        slot, start = self.place[found.base]
        size = node.dtype.itemsize
        strides = tuple(size * step for step in found.strides)
        return slot, start + size * found.offset, strides

    def _add_fixed(self, node: Node) -> None:
        """A constant table: computed once, with the plan."""
        check_stored([node])
        self.place[node] = (self._new_slot(), 0)
        self.fixed[node] = np.ascontiguousarray(_fixed_value(node), node.dtype)


class _RefusedError(Exception):
    """Nodes of a loop that has no kernel."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__()
        self.nodes = nodes


def kind_of(node: Node) -> object:
    """All that decides whether a node fits into a loop."""
    return (node.op, node.params, node.spec, *[parent.spec for parent in node.inputs])


def _fixed_value(node: Node) -> Any:
    """The value of a node that is the same in every run."""
    if node.op is PICK:
        return _fixed_value(node.inputs[0])[node.params[0]]
    empty = [np.empty(parent.shape, parent.dtype) for parent in node.inputs]
    with np.errstate(all="ignore"):
        return node.op.numpy(*empty, **node.keywords)


def _is_slow(loop: FusedLoop, streamed: set[Node]) -> bool:
    """Whether the time between the stores of a loop is long: lines would be written in halves.

    A store past the caches gathers in a buffer until its line is full. With several results and
    calls in between, buffers are given up half full: two results of tanh took 2.6 times as long.
    """
    several = sum(node in streamed for node in loop.outputs) > 1
    return several and any(node.op.function is not None for node in loop.nodes)


def is_fixed(node: Node) -> bool:
    """Whether a node is the same in every run, and small enough to be kept.

    It is made of its params alone, or of operands without elements.
    """
    if node.op is PICK:
        return is_fixed(node.inputs[0])
    size = bytes_of(node.spec)
    if not node.inputs:
        return node.op.constant and size <= LARGEST_KEPT_TABLE
    empty = all(type(n.spec) is not tuple and not n.size for n in node.inputs)
    return empty and node.op.self_contained and not node.op.view and size <= LARGEST_KEPT_TABLE


def is_product(node: Node) -> bool:
    """Whether BLAS or tiles may compute this node."""
    if node.op.nest is not None:
        return is_nest(node)
    return node.op is MATMUL and node.dtype.name in LETTERS and node.size > 0


def last_reads(program: Program, fused: Fused) -> dict[Node, int]:
    """The last unit that reads each value from memory; outputs are read for ever."""
    last: dict[Node, int] = {}
    for index, unit in enumerate(fused.units):
        for node in nodes_of(unit):
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
    outputs = place_outputs(program, fused, lambda node: type(node.spec) is not tuple)
    elsewhere = {*outputs.written, *outputs.parts}
    over = over_after(last_reads(program, fused))
    arena, called = Arena(), 0
    for index, unit in enumerate(fused.units):
        made = [unit.node] if isinstance(unit, Call) else unit.outputs
        for node in made:
            if node in elsewhere:
                continue
            if type(node.spec) is tuple:
                called += stored_bytes(node)
            else:
                arena.take(node, node.spec.nbytes)
        arena.release(over.get(index, ()))
    return arena.size + called
