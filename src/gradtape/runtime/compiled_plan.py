"""The compiled plan, tier 1: native stretches and NumPy calls over one set of slots."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from gradtape.codegen.kernels.builder import rounding
from gradtape.dtypes import REAL_OF
from gradtape.graph.node import Node
from gradtape.graph.program import Program
from gradtape.optimize.fuse import Fused
from gradtape.optimize.resize import resized
from gradtape.recording.value import Content, Value
from gradtape.runtime.buffer_pool import allocate
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.loop_bodies import body_of
from gradtape.runtime.lowered_program import FIRST, LoweredProgram, NumpyCall
from gradtape.runtime.mixed_steps import MixedSteps
from gradtape.runtime.native_stretches import kernel_addresses, stretch_of
from gradtape.runtime.packing import FORMATS, python_number, python_types
from gradtape.runtime.plan import BoundRun, Input, Layout, Run, RunMemory, Stretch
from gradtape.runtime.written_out_plan import bound_run, unrolled_run


def compiled_plan(program: Program, fast: bool) -> CompiledPlan:
    """The compiled plan of a program; with `fast` its kernels round as is quickest."""
    with rounding(fast):
        return CompiledPlan(program)


class CompiledPlan:
    """Runs a program in as few native calls as its NumPy calls allow."""

    run: Run
    # How native code fills the slots; None unless the plan is a single stretch.
    layout: Layout | None = None

    def __init__(self, program: Program, fused: Fused | None = None) -> None:
        self.lowered = lowered = LoweredProgram(program, body_of, fused)
        self.program = lowered.program
        self._ops = len(self.program.nodes)
        self.arena_size = lowered.arena_size
        self._slot_bytes = 8 * lowered.slots
        self._steps = _compiled_steps(lowered)
        position = {node: index for index, node in enumerate(self.program.inputs)}
        self._array_positions = [position[node] for node in lowered.arrays]
        self._scalar_positions = [position[node] for node in lowered.scalars]
        self._numbers = _picker(self._scalar_positions)
        # `struct` takes anything for a boolean, a 0-d tensor included; and no complex number.
        self._must_convert = any(node.dtype.kind in "bc" for node in lowered.scalars)
        # Bytes of the outputs, whose slots follow those of the input arrays.
        self._written = [node.spec.nbytes for node in lowered.outputs.written]
        self._unset = self._later_slots()
        formats = "".join(FORMATS[node.dtype.str[1:]] for node in lowered.scalars)
        packer = struct.Struct(f"={lowered.slots}q{formats}")
        self._pack = packer.pack_into
        self._bytes = packer.size
        # The memory of earlier runs; a run of another thread may have taken all of it.
        self._idle: list[RunMemory] = []
        self.run = self._run
        has_calls = any(isinstance(step, NumpyCall) for step in self._steps)
        self._mixed: MixedSteps | None = None
        if has_calls or len(self._written) < len(lowered.outputs.how):
            # Values have to be found by node.
            calls = [step.run if isinstance(step, Stretch) else step for step in self._steps]
            self._mixed = MixedSteps(lowered, calls)
            return
        number = {node: index for index, node in enumerate(lowered.outputs.written)}
        same = lowered.outputs.same
        self._order = [number[same.get(node, node)] for node in self.program.outputs]
        self._stretches = [step.run for step in self._steps if isinstance(step, Stretch)]
        if len(self._stretches) == 1 and not self._must_convert:
            self.layout = self._layout()
            self.run = unrolled_run(self.layout, self._idle, self._run) or self._run

    def resized(
        self, inputs: tuple[Node, ...], sizes: dict[int, int], fast: bool
    ) -> CompiledPlan | None:
        """The plan of the same program with other sizes, if nothing in it depends on them."""
        if self.lowered.controls or self.lowered.fixed:
            return None
        with rounding(fast):
            found = resized(self.program, self.lowered.fused, inputs, sizes)
            return None if found is None else CompiledPlan(*found)

    def bound(self, fixed: Mapping[int, Input], slow: BoundRun) -> BoundRun | None:
        """The run with some inputs fixed, as a function of the others; None if there is none."""
        return None if self.layout is None else bound_run(self.layout, fixed, slow)

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
        (stretch,) = (step for step in self._steps if isinstance(step, Stretch))
        return Layout(
            arrays=self._array_positions,
            scalars=[(self._scalar_positions[n], node.dtype) for n, node in enumerate(scalars)],
            offsets=[self._slot_bytes + lowered.place[node][1] for node in scalars],
            written=self._written,
            order=self._order,
            unset=self._unset,
            arena=self.arena_size,
            slots=lowered.slots,
            ops=self._ops,
            stretch=stretch,
            pack=self._pack,
            pack_slots=struct.Struct(f"={lowered.slots}q").pack_into,
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
            self._pack(memory, 0, start, numbers_at, *words, *numbers)
        except (OverflowError, struct.error):
            numbers = self._converted(self._numbers(inputs))
            self._pack(memory, 0, start, numbers_at, *words, *numbers)
        results: list[Content]
        if self._mixed is not None:
            results = self._mixed.run(inputs, (memory, base), arena, buffers)
        else:
            for run in self._stretches:
                run(base)
            results = [buffers[position] for position in self._order]
        self._idle.append((memory, base))
        COUNTS.plans_run += 1
        COUNTS.ops_run += self._ops
        return results

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
        memory = ctypes.create_string_buffer(self._bytes)
        return memory, ctypes.addressof(memory)


def _compiled_steps(lowered: LoweredProgram) -> list[Stretch | NumpyCall]:
    steps = lowered.steps
    addresses = kernel_addresses(step for step in steps if not isinstance(step, NumpyCall))
    return [step if isinstance(step, NumpyCall) else stretch_of(step, addresses) for step in steps]


def _picker(positions: list[int]) -> Callable[[Sequence[Input]], Sequence[Input]]:
    """A function that takes the items at some positions from a sequence, as a sequence."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda inputs: [inputs[position] for position in positions]
