"""The compiled plan, tier 1: one native call on a set of slots."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from gradtape.compiler.counts import COUNTS
from gradtape.compiler.emit import builder
from gradtape.compiler.emit.builder import rounding
from gradtape.compiler.emit.plans.instructions import ARENA, FIRST, Instructions
from gradtape.compiler.lower.beyond_memory import check_bytes
from gradtape.compiler.lower.lowered_program import LoweredProgram, is_fixed
from gradtape.compiler.lower.native_calls import copy_of
from gradtape.compiler.lower.native_loops import Body
from gradtape.compiler.lower.native_stretches import assembled, kernel_codes, stretch_of
from gradtape.compiler.lower.plan import Input, Layout, Run, RunMemory
from gradtape.compiler.passes import optimized
from gradtape.compiler.passes.resize import resized
from gradtape.compiler.passes.units import Fused
from gradtape.compiler.thread_team import get_num_threads
from gradtape.dtypes import REAL_OF
from gradtape.ir import Fact, Node, Program
from gradtape.runtime.buffer_pool import allocate
from gradtape.runtime.numpy_plan import NumpyPlan
from gradtape.runtime.probe import note_compiled_plan
from gradtape.runtime.written_out_plan import (
    FORMATS,
    python_number,
    python_types,
    unrolled_run,
)
from gradtape.trace import Content, Value


def body_of(program: Program) -> Body:
    """The native body of a program."""
    # Products are cut by the number of threads, so a body is made for each.
    key = Fact("native", (), (), (builder.rounding_mode(), get_num_threads()))
    return program.derived.once(key, lambda: _body(LoweredBody(program, body_of)))


def _body(lowered: LoweredBody) -> Body:
    items = lowered.items
    found = assembled(items, kernel_codes(items, repeated=True), repeated=True)
    stream = Instructions(found.instructions)
    place = lowered.place
    return Body(
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

    run: Run
    # How native code fills the slots; None if the plan calls Python.
    layout: Layout | None = None

    def __init__(
        self, program: Program, fused: Fused | None = None, sizes_vary: bool = False
    ) -> None:
        # What NumPy computes if native code fails: in the ops that have the error texts.
        self._source = program
        self.lowered = lowered = LoweredProgram(program, body_of, fused, sizes_vary)
        self.program = lowered.program
        self._ops = len(self.program.nodes)
        self.arena_size = lowered.arena_size
        self._slot_bytes = 8 * lowered.slots
        # Bytes of the outputs, whose slots follow those of the input arrays.
        self._written = [node.spec.nbytes for node in lowered.outputs.written]
        check_bytes(self.arena_size + sum(self._written))
        self.stretch = stretch_of(lowered.items, kernel_codes(lowered.items))
        note_compiled_plan(self)
        position = {node: index for index, node in enumerate(self.program.inputs)}
        self._array_positions = [position[node] for node in lowered.arrays]
        self._scalar_positions = [position[node] for node in lowered.scalars]
        self._numbers = _picker(self._scalar_positions)
        # `struct` takes anything for a boolean, a 0-d tensor included; and no complex number.
        self._must_convert = any(node.dtype.kind in "bc" for node in lowered.scalars)
        self._unset = self._later_slots()
        formats = "".join(FORMATS[node.dtype.str[1:]] for node in lowered.scalars)
        packer = struct.Struct(f"={lowered.slots}q{formats}")
        self._pack = packer.pack_into
        # The status of the run lies behind the numbers.
        self._status = packer.size
        # The memory of earlier runs; a run of another thread may have taken all of it.
        self._idle: list[RunMemory] = []
        number = {node: index for index, node in enumerate(lowered.outputs.written)}
        same = lowered.outputs.same
        self._order = [number[same.get(node, node)] for node in self.program.outputs]
        self.run = self._run
        if not self._must_convert:
            layout = self._layout()
            self.run = unrolled_run(layout, self._idle, self._run) or self._run
            # Native calls run without Python.
            self.layout = None if lowered.python_ops else layout

    def resized(
        self, inputs: tuple[Node, ...], sizes: dict[int, int], fast: bool
    ) -> CompiledPlan | None:
        """The plan of the same program with other sizes, if nothing in it depends on them."""
        if self.lowered.natives or self.lowered.fixed:
            return None
        with rounding(fast):
            found = resized(self.program, self.lowered.fused, inputs, sizes)
            return None if found is None else CompiledPlan(*found)

    def _later_slots(self) -> list[int]:
        """The contents of the slots after the outputs when a run begins: tables, or 0."""
        lowered = self.lowered
        preset = FIRST + len(lowered.arrays) + len(self._written)
        found = [0] * (lowered.slots - preset)
        for node, content in lowered.fixed.items():
            found[lowered.place[node][0] - preset] = content.ctypes.data
        return found

    def _layout(self) -> Layout:
        lowered = self.lowered
        scalars = lowered.scalars
        return Layout(
            arrays=self._array_positions,
            scalars=[(self._scalar_positions[n], node.dtype) for n, node in enumerate(scalars)],
            offsets=[self._slot_bytes + lowered.place[node][1] for node in scalars],
            written=self._written,
            order=self._order,
            unset=self._unset,
            status=self._status,
            arena=self.arena_size,
            slots=lowered.slots,
            ops=self._ops,
            stretch=self.stretch,
            pack=self._pack,
            converted=self._converted,
            new_memory=self._new_memory,
        )

    # Running.

    def _run(self, inputs: Sequence[Input]) -> list[Content]:
        """Evaluate on Values and Python numbers, with loops over inputs and outputs."""
        try:
            memory, base = self._idle.pop()
        except IndexError:
            memory, base = self._new_memory()
        arena = None
        start = 0
        if self.arena_size:
            arena = allocate(self.arena_size)
            start = arena
        try:
            words = [inputs[position].address for position in self._array_positions]
        except AttributeError:  # arrays, as tier 0 takes them
            inputs = self._as_values(inputs)
            words = [inputs[position].address for position in self._array_positions]
        buffers = [allocate(nbytes) for nbytes in self._written]
        words += buffers
        words += self._unset
        numbers_at = base + self._slot_bytes
        numbers = self._numbers(inputs)
        if self._must_convert:
            numbers = self._converted(numbers)
        try:
            self._pack(memory, 0, start, numbers_at, base + self._status, *words, *numbers)
        except (OverflowError, struct.error):
            numbers = self._converted(self._numbers(inputs))
            self._pack(memory, 0, start, numbers_at, base + self._status, *words, *numbers)
        if self.stretch.run(base):
            # A kernel has failed, such as a factorisation of a singular matrix. NumPy raises the
            # error for it, or has the result.
            return NumpyPlan(self._source).run(inputs)
        self._idle.append((memory, base))
        COUNTS.plans_run += 1
        COUNTS.ops_run += self._ops
        return [buffers[position] for position in self._order]

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
                # `struct` refuses a number that overflows float32; NumPy makes it infinite.
                real = REAL_OF.get(node.dtype, node.dtype).type
                found += [real(python_number(number, kind)).item() for kind in python_types(node)]
        return found

    def _new_memory(self) -> RunMemory:
        memory = ctypes.create_string_buffer(self._status + 8)
        return memory, ctypes.addressof(memory)


def _picker(positions: list[int]) -> Callable[[Sequence[Input]], Sequence[Input]]:
    """A function that takes the items at some positions from a sequence, as a sequence."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda inputs: [inputs[position] for position in positions]
