"""Tier 1: a program as compiled kernels and library calls over one block of memory."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from gradtape.codegen import llvm
from gradtape.codegen.kernels.builder import NotLowered
from gradtape.codegen.kernels.compile import compile_kernels
from gradtape.codegen.kernels.lower import Lowered, lower
from gradtape.codegen.plans.gemm import LETTERS
from gradtape.codegen.plans.instructions import Instruction
from gradtape.dtypes import REAL_OF
from gradtape.graph.lines import mark
from gradtape.graph.node import PICK, Node
from gradtape.graph.program import Program
from gradtape.optimize.compositions import expand
from gradtape.optimize.fuse import Call, Fused, Loop
from gradtape.optimize.resize import resized
from gradtape.optimize.split_reductions import separate
from gradtape.optimize.views import Access, row_major, whole
from gradtape.recording.value import Value
from gradtape.runtime import blas
from gradtape.runtime import native_loops as control
from gradtape.runtime.buffer_pool import ALIGNMENT, allocate, array
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.native_stretches import packed
from gradtape.runtime.output_places import find_results, read_again
from gradtape.runtime.packing import FORMATS, python_number, python_types
from gradtape.runtime.storage import Arena
from gradtape.runtime.written_out_plan import Layout, bound_run, unrolled_run

# Slots: the block of intermediate values, the scalars, then inputs, outputs, results of calls.
ARENA, SCALARS, FIRST = 0, 1, 2
# Results from this many bytes on are written past the caches: a second-level cache holds no more.
STREAMED = 1 << 21
# Constant tables up to this many bytes are kept with the plan.
FIXED = 1 << 20


class CompiledPlan:
    """Runs a program in as few native calls as its library calls allow."""

    # Whether large results that nothing in the program reads are written past the caches.
    streams = True

    def __init__(self, program: Program, fused: Fused | None = None) -> None:
        """Of a program, which may be fused already, as `resize` does."""
        self._controls: dict[Node, Any] = {}
        if fused is None:
            program = self._prepared(separate(expand(program)))
            program, self._controls, fused = control.with_controls(program)
        self.program = program
        self._fused = fused
        self._scalars = [n for n in program.inputs if n.spec.ndim == 0]
        self._place: dict[Node | str, tuple[int, int]] = {}
        self._slots = FIRST
        self._number_inputs(program)
        self._results = find_results(
            program, fused, lambda node: is_product(node) or self._control_of(node) is not None
        )
        self._number_outputs()
        self._arena = Arena()
        self._steps: list[tuple[str, Any]] = []
        self._fixed: dict[Node, Any] = {}
        self._lay_out(fused)
        self.arena_size = self._arena.size
        self._finish()

    def _prepared(self, program: Program) -> Program:
        return program

    def resized(self, inputs: tuple[Node, ...], sizes: dict[int, int]) -> CompiledPlan | None:
        """The plan of the same program with other sizes, if nothing in it depends on them."""
        if self._controls or self._fixed:
            return None
        found = resized(self.program, self._fused, inputs, sizes)
        return None if found is None else type(self)(*found)

    # Slots.

    def _new_slot(self) -> int:
        self._slots += 1
        return self._slots - 1

    def _number_inputs(self, program: Program) -> None:
        # Every 0-d input may come as a Python number; it lies among the scalars, by value.
        self._arrays = [n for n in program.inputs if n.spec.ndim != 0]
        offset = 0
        for node in self._scalars:
            self._place[node] = (SCALARS, offset)
            offset += max(8, node.dtype.itemsize)
        for node in self._arrays:
            self._place[node] = (self._new_slot(), 0)

    def _number_outputs(self) -> None:
        for node in self._results.written:
            self._place[node] = (self._new_slot(), 0)
        for part in self._results.parts:
            joined, offset = self._results.place(part)
            self._place[part] = (self._place[joined][0], offset)

    def _control_of(self, node: Node) -> Any:
        """The loop or branch in native code that a node is a result of, if it is one."""
        return self._controls.get(node.inputs[0]) if node.op is PICK else None

    # Memory and instructions.

    def _lay_out(self, fused: Fused) -> None:
        last = last_reads(self.program, fused)
        bits = llvm.host().bits
        parts = self._results.parts
        written = {*self._results.written, *parts}
        streamed: set[Node] = set()
        if self.streams:
            # Streams need vectors that are aligned.
            aligned = {node for node in written if self._place[node][1] % ALIGNMENT == 0}
            streamed = _streamed(aligned - read_again(self.program, fused, parts))
        for index, unit in enumerate(fused.units):
            product = isinstance(unit, Call) and is_product(unit.node)
            outputs = unit.outputs if isinstance(unit, Loop) else [unit.node] if product else []
            for node in outputs:
                if node not in written:
                    self._place[node] = (ARENA, self._arena.take(node, node.spec.nbytes))
            if isinstance(unit, Call) and unit.node in self._controls:
                self._control(unit.node, written)
            elif isinstance(unit, Call) and self._control_of(unit.node) is not None:
                pass  # it was written with all other results
            elif isinstance(unit, Call):
                found = self._product(unit.node) if product else None
                if found is None:
                    self._call(unit.node)
                else:
                    self._stretch().append(found)
            else:
                try:
                    lowered = lower(unit, fused.access, fused.constants, bits, streamed)
                except NotLowered:
                    for node in unit.nodes:
                        self._call(node)
                else:
                    self._native(lowered)
            self._arena.release(node for node, at in last.items() if at == index)

    def _native(self, lowered: list[Lowered]) -> None:
        scratch: list[str] = []
        for item in lowered:
            for owner, size, _ in item.entries:
                if isinstance(owner, str) and owner not in scratch:
                    self._place[owner] = (ARENA, self._arena.take(owner, size))
                    scratch.append(owner)
        # Scratch is reused by later loops, so its place is read now.
        places = {owner: self._place[owner] for item in lowered for owner, _, _ in item.entries}
        self._stretch().extend((item, places) for item in lowered)
        self._arena.release(scratch)

    def _control(self, node: Node, written: set[Node]) -> None:
        """A loop or branch as one instruction; its results have places from here on."""
        picks = [n for n in self.program.nodes if n.op is PICK and n.inputs[0] is node]
        for pick in picks:
            if pick not in written:
                self._place[pick] = (ARENA, self._arena.take(pick, pick.spec.nbytes))
        scratch: list[str] = []

        def take(nbytes: int) -> tuple[int, int]:
            scratch.append(f"scratch {len(scratch)} of {id(node)}")
            return ARENA, self._arena.take(scratch[-1], nbytes)

        operands = [self._whole_place(parent) for parent in node.inputs]
        places = {pick.params[0]: self._place[pick] for pick in picks}
        self._stretch().append(self._controls[node].instruction(operands, places, take))
        self._arena.release(scratch)

    def _whole_place(self, node: Node) -> tuple[int, int]:
        """Where a contiguous operand lies."""
        found = self._fused.access[node]
        slot, start = self._place[found.base]
        return slot, start + found.offset * node.dtype.itemsize

    def _stretch(self) -> list[Any]:
        """The native instructions since the last library call."""
        if not self._steps or self._steps[-1][0] != "native":
            self._steps.append(("native", []))
        return self._steps[-1][1]

    def _product(self, node: Node) -> Instruction | None:
        """A matrix product as BLAS does it, if BLAS can read the operands where they lie."""
        left, right = (self._matrix(parent) for parent in node.inputs)
        if left is None or right is None:
            return None
        a, b = node.inputs
        shape = node.shape
        if a.ndim == 1:
            left = blas.Operand(left.slot, left.offset, (1, *left.shape), (0, *left.strides))
            shape = (*shape[: max(b.ndim - 2, 0)], 1, *shape[max(b.ndim - 2, 0) :])
        if b.ndim == 1:
            right = blas.Operand(right.slot, right.offset, (*right.shape, 1), (*right.strides, 0))
            shape = (*shape, 1)
        slot, offset = self._place[node]
        size = node.dtype.itemsize
        strides = tuple(size * step for step in row_major(shape))
        return blas.gemm_instruction(
            node.dtype, left, right, blas.Operand(slot, offset, shape, strides)
        )

    def _matrix(self, node: Node) -> blas.Operand | None:
        found = self._fused.access.get(node)
        if found is None or found.base not in self._place or node in self._fused.constants:
            return None
        slot, start = self._place[found.base]
        size = node.dtype.itemsize
        strides = tuple(size * step for step in found.strides)
        return blas.Operand(slot, start + size * found.offset, node.shape, strides)

    def _call(self, node: Node) -> None:
        placed = node in self._place
        if not placed and is_fixed(node):
            # The same in every run: computed once, with the plan.
            self._place[node] = (self._new_slot(), 0)
            self._fixed[node] = np.ascontiguousarray(node.op.numpy(**node.keywords), node.dtype)
            return
        if type(node.spec) is not tuple and not placed:
            self._place[node] = (self._new_slot(), 0)
        self._steps.append(("call", (node, placed)))

    def _finish(self) -> None:
        kernels = [
            item[0].kernel
            for kind, group in self._steps
            if kind == "native"
            for item in group
            if isinstance(item, tuple)
        ]
        addresses, fresh = compile_kernels(kernels)
        COUNTS.kernels_compiled += fresh
        COUNTS.kernels_reused += len(kernels) - fresh
        steps: list[tuple[str, Any]] = []
        for kind, content in self._steps:
            if kind == "native":
                stretch = packed(content, addresses)
                steps.append((kind, stretch.run))
            else:
                steps.append((kind, content))
        self._steps = steps
        formats = "".join(FORMATS[node.dtype.str[1:]] for node in self._scalars)
        packer = struct.Struct(f"={self._slots}q{formats}")
        self._pack = packer.pack_into
        self._bytes = packer.size
        self._idle: list[tuple[Any, int]] = []
        self._position = {node: index for index, node in enumerate(self.program.inputs)}
        self._numbers = _picker([self._position[n] for n in self._scalars])
        # `struct` takes anything for a boolean, a 0-d tensor included; and no complex number.
        self._must_convert = any(node.dtype.kind in "bc" for node in self._scalars)
        self._array_positions = [self._position[n] for n in self._arrays]
        # Inputs, then outputs, are numbered first: they follow the two fixed slots in this order.
        self._written_nodes = self._results.written
        self._written = [node.spec.nbytes for node in self._written_nodes]
        preset = FIRST + len(self._arrays) + len(self._written)
        self._unset = [0] * (self._slots - preset)
        for node, content in self._fixed.items():
            self._unset[self._place[node][0] - preset] = content.ctypes.data
        # With library calls, or outputs that are views, values have to be found by name.
        self._mixed = any(kind == "call" for kind, _ in steps) or len(self._written) < len(
            self._results.how
        )
        number = {node: index for index, node in enumerate(self._written_nodes)}
        self._outputs = [self._results.same.get(node, node) for node in self.program.outputs]
        self._order = [] if self._mixed else [number[node] for node in self._outputs]
        self.ops = len(self.program.nodes)
        self.run: Callable[[Sequence[Any]], list[Any]] = self._run
        self.layout: Layout | None = None
        if len(steps) == 1 and not self._mixed and not self._must_convert:
            self.layout = Layout(
                arrays=self._array_positions,
                scalars=[(self._position[node], node.dtype) for node in self._scalars],
                offsets=[8 * self._slots + self._place[node][1] for node in self._scalars],
                written=self._written,
                order=self._order,
                unset=self._unset,
                arena=self.arena_size,
                slots=self._slots,
                ops=self.ops,
                stretch=stretch,
                pack=self._pack,
                pack_slots=struct.Struct(f"={self._slots}q").pack_into,
                converted=self._converted,
                new_memory=self._new_memory,
            )
            self.run = unrolled_run(self.layout, self._idle, self._run) or self._run

    def bound(self, fixed: Mapping[int, Any], slow: Callable[..., Any]) -> Any:
        """The run with some inputs fixed, as a function of the others; None if there is none."""
        return None if self.layout is None else bound_run(self.layout, fixed, slow)

    # Running.

    def _run(self, inputs: Sequence[Any]) -> list[Any]:
        """Evaluate on Values and Python numbers; gives a Buffer or array per output."""
        # The slots of one run: taken from those of earlier runs, unless another thread has them.
        try:
            memory, base = self._idle.pop()
        except IndexError:
            memory, base = self._new_memory()
        arena = None
        start = 0
        if self.arena_size:
            arena = allocate(self.arena_size)
            start = arena.address
        try:
            arrays = [inputs[position].address for position in self._array_positions]
        except AttributeError:  # arrays, as tier 0 takes them
            inputs = self._as_values(inputs)
            arrays = [inputs[position].address for position in self._array_positions]
        buffers = [allocate(nbytes) for nbytes in self._written]
        arrays += [buffer.address for buffer in buffers]
        numbers = self._numbers(inputs)
        if self._must_convert:
            numbers = self._converted(numbers)
        try:
            self._pack(memory, 0, start, base + 8 * self._slots, *arrays, *self._unset, *numbers)
        except (OverflowError, struct.error):
            numbers = self._converted(self._numbers(inputs))
            self._pack(memory, 0, start, base + 8 * self._slots, *arrays, *self._unset, *numbers)
        if self._mixed:
            alive: dict[Any, Any] = dict(zip(self._written_nodes, buffers, strict=True))
            alive["arena"] = arena
            self._run_steps(inputs, memory, base, alive)
            results = self._collected(inputs, alive)
        else:
            for _, run in self._steps:
                run(base)
            results = [buffers[position] for position in self._order]
        self._idle.append((memory, base))
        COUNTS.plans_run += 1
        COUNTS.ops_run += self.ops
        return results

    def _as_values(self, inputs: Sequence[Any]) -> list[Any]:
        return [
            given
            if type(given) is Value or node.spec.ndim == 0
            else Value(np.asarray(given), node.spec)
            for node, given in zip(self.program.inputs, inputs, strict=True)
        ]

    def _converted(self, numbers: Sequence[Any]) -> list[Any]:
        """What `struct` takes for 0-d tensors, for numbers of another kind and beyond float32."""
        found: list[Any] = []
        with np.errstate(over="ignore"):
            for node, number in zip(self._scalars, numbers, strict=True):
                # `struct` refuses what overflows float32; NumPy makes it infinite.
                real = REAL_OF.get(node.dtype, node.dtype).type
                found += [real(python_number(number, kind)).item() for kind in python_types(node)]
        return found

    def _new_memory(self) -> tuple[Any, int]:
        memory = ctypes.create_string_buffer(self._bytes)
        return memory, ctypes.addressof(memory)

    def _collected(self, inputs: Any, alive: dict[Any, Any]) -> list[Any]:
        """The outputs of a plan of which some are results of calls, views or constants."""
        found = {
            node: alive[node] if how == "written" else self._other(node, how, inputs, alive)
            for node, how in self._results.how.items()
        }
        return [found[node] for node in self._outputs]

    def _run_steps(self, inputs: Any, memory: Any, base: int, alive: dict[Any, Any]) -> None:
        """Native stretches and library calls in turn; `alive` gets what calls return."""
        for kind, content in self._steps:
            if kind == "native":
                content(base)
                continue
            node, placed = content
            arrays = [self._array(parent, inputs, alive) for parent in node.inputs]
            try:
                with np.errstate(all="ignore"):
                    result = node.op.numpy(*arrays, **node.keywords)
            except Exception as error:
                mark(error, node)
                raise
            if type(node.spec) is tuple:
                # Views of memory that later steps use again must become values of their own.
                alive[node] = tuple(np.array(part) for part in result)
                continue
            if placed:  # a loop that could not be compiled: its result has a place already
                self._array(node, inputs, alive)[...] = result
                continue
            if not result.flags.owndata if isinstance(result, np.ndarray) else False:
                result = np.array(result)
            result = np.ascontiguousarray(result, node.dtype).reshape(node.shape)
            alive[node] = result
            struct.pack_into("=q", memory, 8 * self._place[node][0], result.ctypes.data)

    def _array(self, node: Node, inputs: Any, alive: dict[Any, Any]) -> Any:
        """A value as a NumPy array, for a library call or as an output."""
        if type(node.spec) is tuple:
            return alive[node]
        if node in self._fused.constants:
            shape, value, dtype = node.params
            return np.full(shape, value, dtype)
        found: Access = self._fused.access.get(node) or whole(node)
        base = found.base
        if base in self._position:
            value = inputs[self._position[base]]
            flat = value.array if type(value) is Value else np.asarray(value, base.dtype)
        elif base in self._fixed:
            flat = self._fixed[base]
        elif base in alive:
            held = alive[base]
            flat = held if isinstance(held, np.ndarray) else array(held, base.shape, base.dtype)
        elif base in self._results.parts:
            joined, offset = self._results.place(base)
            held = array(alive[joined], (joined.spec.nbytes,), np.uint8)
            flat = held[offset : offset + base.spec.nbytes].view(base.dtype).reshape(base.shape)
        else:
            _, offset = self._place[base]
            block = array(alive["arena"], (self.arena_size,), np.uint8)
            flat = block[offset : offset + base.spec.nbytes].view(base.dtype).reshape(base.shape)
        if found.strides == row_major(found.shape) and found.shape == base.shape:
            return flat
        size = base.dtype.itemsize
        flat = np.ascontiguousarray(flat).reshape(-1)[found.offset :]
        return np.lib.stride_tricks.as_strided(
            flat, found.shape, [size * s for s in found.strides], writeable=False
        )

    def _other(self, node: Node, how: str, inputs: Any, alive: dict[Any, Any]) -> Any:
        result = self._array(node, inputs, alive)
        return result if how == "called" else np.array(result)


def _streamed(unread: set[Node]) -> set[Node]:
    """Results too large for the caches, of those that nothing in the program reads again."""
    if llvm.host().machine != "x86_64":
        return set()
    return {n for n in unread if n.spec.nbytes >= STREAMED and n.dtype.kind != "b"}


def is_fixed(node: Node) -> bool:
    """Whether a node is the same in every run, and small enough to be kept."""
    return node.op.family == "creation" and not node.inputs and node.spec.nbytes <= FIXED


def is_product(node: Node) -> bool:
    """Whether BLAS may compute this node."""
    return node.op.name == "matmul" and node.dtype.name in LETTERS and node.size > 0


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


def _picker(positions: list[int]) -> Callable[[Any], Sequence[Any]]:
    """What gives the items at some positions of a sequence, as a sequence."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda inputs: [inputs[position] for position in positions]
