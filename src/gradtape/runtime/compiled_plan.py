"""The compiled plan, tier 1: one native call on a set of slots."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.emit import builder
from gradtape.compiler.emit.builder import rounding
from gradtape.compiler.emit.plans.instructions import ARENA, FIRST, Instructions
from gradtape.compiler.lower.lowered_program import LoweredProgram, is_fixed
from gradtape.compiler.lower.memory_limit import check_bytes
from gradtape.compiler.lower.native_calls import copy_of
from gradtape.compiler.lower.native_loops import NativeBody
from gradtape.compiler.lower.native_stretches import assembled, kernel_codes, stretch_of
from gradtape.compiler.lower.plan import Input, PlanFunction, RunMemory, SlotLayout
from gradtape.compiler.passes import optimized
from gradtape.compiler.passes.resize import resized
from gradtape.compiler.passes.units import Fused
from gradtape.compiler.thread_team import get_num_threads
from gradtape.dtypes import REAL_OF
from gradtape.ir import Fact, Node, Program
from gradtape.runtime.buffer_pool import allocate
from gradtape.runtime.generated_plan_run import FORMATS, unrolled_run
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.runtime.profiler_sink import note_compiled_plan
from gradtape.trace import Content, Value


def body_of(program: Program) -> NativeBody:
    """The native body of a program."""
    # Products are cut by the number of threads, so a body is made for each.
    key = Fact("native", (), (), (builder.rounding_mode(), get_num_threads()))
    return program.derived.once(key, lambda: _body(LoweredBody(program, body_of)))


def _body(lowered: LoweredBody) -> NativeBody:
    items = lowered.items
    found = assembled(items, kernel_codes(items, repeated=True), repeated=True)
    stream = Instructions(found.instructions)
    place = lowered.place
    return NativeBody(
        stream=stream,
        products=found.products,
        work=found.work,
        parallel=found.parallel,
        shared=found.parallel or stream.parallel,
        slots=lowered.slots,
        input_slots=[place[node][0] for node in lowered.program.inputs],
        output_slots=[place[node][0] for node in lowered.program.outputs],
        arena_slot=ARENA,
        arena_size=lowered.arena_size,
        tables=[(place[node][0], table) for node, table in lowered.fixed.items()],
        python_ops=lowered.python_ops,
        kept=items,
    )


class LoweredBody(LoweredProgram):
    """A lowered program whose operands and results are wherever the loop says."""

    streams = False
    repeated = True

    def _prepared(self, program: Program) -> Program:
        return self._with_results(program)

    def _with_results(self, program: Program) -> Program:
        """Each output is written by an instruction of its own: no views, inputs or repetitions."""
        nodes = list(program.nodes)
        outputs: list[Node] = []
        inputs = set(program.inputs)
        for node in program.outputs:
            is_view = node.op.view is not None or node.op.constant or is_fixed(node)
            if node in inputs or is_view or node in outputs:
                node = copy_of(node)
                nodes.append(node)
            outputs.append(node)
        return Program(program.inputs, tuple(nodes), tuple(outputs))

    def _number_inputs(self, program: Program) -> None:
        # Numbers are not passed by value to a body: each lies in memory like an array.
        self.arrays = list(program.inputs)
        for node in self.arrays:
            self.place[node] = (self._new_slot(), 0)


def compiled_plan(program: Program, fast: bool, sizes_vary: bool = False) -> CompiledPlan:
    """The compiled plan of a program; with `fast` its kernels round as is quickest.

    If the sizes of such programs vary, it has kernels that serve all sizes.
    """
    with rounding(fast):
        return CompiledPlan(optimized(program, fast), sizes_vary=sizes_vary)


class CompiledPlan:
    """Runs a program in one native call."""

    run: PlanFunction
    # The rows by which native code fills the slots; None if the plan calls Python.
    layout: SlotLayout | None = None

    def __init__(
        self, program: Program, fused: Fused | None = None, sizes_vary: bool = False
    ) -> None:
        # The program for NumPy if native code fails: in the ops that have the error texts.
        self._source = program
        self.lowered = lowered = LoweredProgram(program, body_of, fused, sizes_vary)
        self.program = lowered.program
        self.arena_size = lowered.arena_size
        written = [node.spec.nbytes for node in lowered.outputs.written]
        check_bytes(self.arena_size + sum(written))
        self.stretch = stretch_of(lowered.items, kernel_codes(lowered.items))
        note_compiled_plan(self)
        # The memory of earlier runs; a run of another thread may have taken all of it.
        self._idle: list[RunMemory] = []
        self._own = self._layout(written)
        self.run = self._run
        # `struct` takes anything for a boolean, a 0-d tensor included; and no complex number.
        self._must_convert = any(node.dtype.kind in "bc" for node in lowered.scalars)
        if not self._must_convert:
            self.run = unrolled_run(self._own, self._idle, self._run) or self._run
            # Native calls run without Python.
            self.layout = None if lowered.python_ops else self._own

    def resized(
        self, inputs: tuple[Node, ...], sizes: dict[int, int], fast: bool
    ) -> CompiledPlan | None:
        """The plan of the same program with other sizes, if nothing in it depends on them."""
        if self.lowered.natives or self.lowered.fixed:
            return None
        with rounding(fast):
            found = resized(self.program, self.lowered.fused, inputs, sizes)
            return None if found is None else CompiledPlan(*found)

    def _layout(self, written: list[int]) -> SlotLayout:
        lowered = self.lowered
        scalars, slots = lowered.scalars, lowered.slots
        position = {node: index for index, node in enumerate(self.program.inputs)}
        # The slots after the outputs hold tables, or 0 when a run begins.
        preset = FIRST + len(lowered.arrays) + len(written)
        unset = [0] * (slots - preset)
        for node, content in lowered.fixed.items():
            unset[lowered.place[node][0] - preset] = content.ctypes.data
        packer = struct.Struct(
            f"={slots}q" + "".join(FORMATS[node.dtype.str[1:]] for node in scalars)
        )
        number = {node: index for index, node in enumerate(lowered.outputs.written)}
        same = lowered.outputs.same
        return SlotLayout(
            arrays=[position[node] for node in lowered.arrays],
            scalars=[(position[node], node.dtype) for node in scalars],
            offsets=[8 * slots + lowered.place[node][1] for node in scalars],
            written=written,
            order=[number[same.get(node, node)] for node in self.program.outputs],
            unset=unset,
            # The status of the run lies behind the numbers.
            status=packer.size,
            arena=self.arena_size,
            slots=slots,
            ops=len(self.program.nodes),
            stretch=self.stretch,
            pack=packer.pack_into,
            converted=self._converted,
            new_memory=self._new_memory,
        )

    # Running.

    def _run(self, inputs: Sequence[Input]) -> list[Content]:
        """Evaluate on Values and Python numbers, with loops over inputs and outputs."""
        layout = self._own
        try:
            memory, base = self._idle.pop()
        except IndexError:
            memory, base = self._new_memory()
        # Held until the run has ended.
        arena = allocate(layout.arena) if layout.arena else 0
        try:
            words = [inputs[position].address for position in layout.arrays]
        except AttributeError:  # arrays, as tier 0 takes them
            inputs = self._as_values(inputs)
            words = [inputs[position].address for position in layout.arrays]
        buffers = [allocate(nbytes) for nbytes in layout.written]
        head = (arena, base + 8 * layout.slots, base + layout.status)
        words = [*head, *words, *buffers, *layout.unset]
        numbers = [inputs[position] for position, _ in layout.scalars]
        try:
            packed = self._converted(numbers) if self._must_convert else numbers
            layout.pack(memory, 0, *words, *packed)
        except (OverflowError, struct.error):
            layout.pack(memory, 0, *words, *self._converted(numbers))
        if self.stretch.run(base):
            # A kernel has failed, such as a factorisation of a singular matrix. NumPy raises the
            # error for it, or has the result.
            return NumpyPlan(self._source).run(inputs)
        self._idle.append((memory, base))
        COUNTS.plans_run += 1
        COUNTS.ops_run += layout.ops
        return [buffers[position] for position in layout.order]

    def _as_values(self, inputs: Sequence[Input]) -> list[Input]:
        return [
            value
            if type(value) is Value or node.spec.ndim == 0
            else Value(np.asarray(value), node.spec)
            for node, value in zip(self.program.inputs, inputs, strict=True)
        ]

    def _converted(self, numbers: Sequence[Input]) -> list[Any]:
        """Numbers for `struct` from 0-d tensors, numbers of another kind, and beyond float32."""
        found: list[Any] = []
        with np.errstate(over="ignore"):
            for node, number in zip(self.lowered.scalars, numbers, strict=True):
                value = number.array.item() if type(number) is Value else number
                kind = {"c": complex, "f": float, "b": bool}.get(node.dtype.kind, int)
                parts = [kind(value)]
                if kind is complex:
                    parts = [parts[0].real, parts[0].imag]
                # `struct` refuses a number that overflows float32; NumPy makes it infinite.
                real = REAL_OF.get(node.dtype, node.dtype).type
                found += [real(part).item() for part in parts]
        return found

    def _new_memory(self) -> RunMemory:
        memory = ctypes.create_string_buffer(self._own.status + 8)
        return memory, ctypes.addressof(memory)
