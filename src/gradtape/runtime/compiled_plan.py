"""The compiled plan, tier 1: native stretches and NumPy calls over one set of slots."""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from gradtape.codegen.kernels import builder
from gradtape.codegen.kernels.builder import rounding
from gradtape.codegen.plans.instructions import Instruction, Instructions
from gradtape.dtypes import REAL_OF
from gradtape.graph import Fact, Node, Program, constant_value
from gradtape.graph.lines import mark
from gradtape.ops.families.access import row_major, whole
from gradtape.optimize import optimized
from gradtape.optimize.fuse import Fused
from gradtape.optimize.resize import resized
from gradtape.recording import Content, Value
from gradtape.runtime.beyond_memory import check_bytes
from gradtape.runtime.buffer_pool import Buffer, allocate, array
from gradtape.runtime.counters import COUNTS
from gradtape.runtime.lowered_program import (
    ARENA,
    FIRST,
    LoweredProgram,
    NumpyCall,
    is_fixed,
    is_product,
)
from gradtape.runtime.native_loops import Body, copy_of, with_copies
from gradtape.runtime.native_stretches import assembled, kernel_codes, stretch_of
from gradtape.runtime.plan import BoundRun, Input, Layout, Run, RunMemory, Stretch
from gradtape.runtime.probe import PROBE, note_compiled_plan
from gradtape.runtime.thread_team import get_num_threads
from gradtape.runtime.written_out_plan import (
    FORMATS,
    bound_run,
    python_number,
    python_types,
    unrolled_run,
)


class NotNative(Exception):  # noqa: N818 - a question answered, not a fault
    """Something in a body has no native code."""


class Scattered(Exception):  # noqa: N818 - a question answered, not a fault
    """The operands of a product do not lie in memory as BLAS reads them."""


def body_of(program: Program) -> Body | None:
    """The native body of a program, or None if it is not all native."""
    # Products are cut by the number of threads, so a body is made for each.
    key = Fact("native", (), (), (builder.rounding_mode(), get_num_threads()))
    return program.derived.once(key, lambda: _new_body(program))


def _new_body(program: Program) -> Body | None:
    try:
        try:
            return _body(LoweredBody(program, body_of))
        except Scattered:
            return _body(CopyingBody(program, body_of))
    except (NotNative, Scattered):
        return None


def _body(lowered: LoweredBody) -> Body:
    if any(how != "written" for how in lowered.outputs.how.values()):
        raise NotNative
    stretches = [step for step in lowered.steps if not isinstance(step, NumpyCall)]
    items = [item for stretch in stretches for item in stretch]
    found = assembled(items, kernel_codes([items], repeated=True))
    stream = Instructions(found.instructions)
    place = lowered.place
    return Body(
        stream=stream,
        products=found.products,
        work=found.work,
        parallel=found.parallel or stream.parallel,
        slots=lowered.slots,
        input_slots=[place[node][0] for node in lowered.program.inputs],
        output_slots=[place[node][0] for node in lowered.program.outputs],
        arena_slot=ARENA,
        arena_size=lowered.arena_size,
        tables=[(place[node][0], table) for node, table in lowered.fixed.items()],
        kept=items,
    )


class LoweredBody(LoweredProgram):
    """A lowered program whose operands and results are wherever the loop says."""

    streams = False

    def _prepared(self, program: Program) -> Program:
        """Each output is written by an instruction of its own: no views, inputs or repetitions."""
        nodes = list(program.nodes)
        outputs: list[Node] = []
        inputs = set(program.inputs)
        for node in program.outputs:
            is_view = node.op.view is not None or node.op.constant
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

    def _product(self, node: Node) -> Instruction | None:
        found = super()._product(node)
        if found is None:
            raise Scattered
        return found

    def _call_numpy(self, node: Node) -> None:
        if node in self.place or not is_fixed(node):
            raise NotNative
        super()._call_numpy(node)


class CopyingBody(LoweredBody):
    """A body whose products read contiguous copies of views."""

    def _prepared(self, program: Program) -> Program:
        products = {node for node in program.nodes if is_product(node)}
        views = {
            parent
            for node in products
            for parent in node.inputs
            if parent.op.view is not None or constant_value(parent) is not None
        }
        return super()._prepared(with_copies(program, views, products)[0])


# The buffers and arrays of one run: written outputs, results of NumPy calls, and the arena.
Alive = dict[Node | str, Any]


class MixedSteps:
    """Runs steps in turn, and finds values by node, wherever they lie."""

    def __init__(
        self, lowered: LoweredProgram, steps: Sequence[Callable[[int], None] | NumpyCall]
    ) -> None:
        self._lowered = lowered
        self._steps = steps
        self._position = {node: index for index, node in enumerate(lowered.program.inputs)}
        same = lowered.outputs.same
        self._outputs = [same.get(node, node) for node in lowered.program.outputs]

    def run(
        self,
        inputs: Sequence[Input],
        run_memory: RunMemory,
        arena: Buffer | None,
        buffers: Sequence[Buffer],
    ) -> list[Content]:
        """Run all steps on slots that are filled; gives the content of each output."""
        memory, base = run_memory
        alive: Alive = dict(zip(self._lowered.outputs.written, buffers, strict=True))
        alive["arena"] = arena
        call = self._call if PROBE.sink is None else self._timed_call
        for step in self._steps:
            if isinstance(step, NumpyCall):
                call(step, inputs, memory, alive)
            else:
                step(base)
        found = {
            node: self._output(node, how, inputs, alive)
            for node, how in self._lowered.outputs.how.items()
        }
        return [found[node] for node in self._outputs]

    def _timed_call(
        self, step: NumpyCall, inputs: Sequence[Input], memory: Any, alive: Alive
    ) -> None:
        begin = time.perf_counter_ns()
        self._call(step, inputs, memory, alive)
        if PROBE.sink is not None:
            PROBE.sink.called(self._lowered, step.node, begin)

    def _call(self, step: NumpyCall, inputs: Sequence[Input], memory: Any, alive: Alive) -> None:
        node = step.node
        arrays = [self._array(parent, inputs, alive) for parent in node.inputs]
        try:
            with np.errstate(all="ignore"):
                result = node.op.numpy(*arrays, **node.keywords)
        except Exception as error:
            mark(error, node)
            raise
        if type(node.spec) is tuple:
            alive[node] = tuple(_kept(np.asarray(part), arrays) for part in result)
        elif step.placed:  # a loop that could not be compiled: its result has a place already
            self._array(node, inputs, alive)[...] = result
        else:
            result = _kept(np.ascontiguousarray(result, node.dtype), arrays).reshape(node.shape)
            alive[node] = result
            struct.pack_into("=q", memory, 8 * self._lowered.place[node][0], result.ctypes.data)

    def _array(self, node: Node, inputs: Sequence[Input], alive: Alive) -> Any:
        """A value as a NumPy array, for a NumPy call or as an output; a tuple for several."""
        if type(node.spec) is tuple:
            return alive[node]
        fused = self._lowered.fused
        if node in fused.constants:
            shape, value, dtype = node.params
            return np.full(shape, value, dtype)
        found = fused.access.get(node) or whole(node)
        base = found.base
        flat = self._memory_of(base, inputs, alive)
        if found.strides == row_major(found.shape) and found.shape == base.shape:
            return flat
        size = base.dtype.itemsize
        flat = np.ascontiguousarray(flat).reshape(-1)[found.offset :]
        return np.lib.stride_tricks.as_strided(
            flat, found.shape, [size * s for s in found.strides], writeable=False
        )

    def _memory_of(self, base: Node, inputs: Sequence[Input], alive: Alive) -> np.ndarray:
        """The array of a node that is not a view."""
        lowered = self._lowered
        if base in self._position:
            value = inputs[self._position[base]]
            return value.array if type(value) is Value else np.asarray(value, base.dtype)
        if base in lowered.fixed:
            return lowered.fixed[base]
        if base in alive:
            held = alive[base]
            return held if isinstance(held, np.ndarray) else array(held, base.shape, base.dtype)
        if base in lowered.outputs.parts:
            joined, offset = lowered.outputs.place(base)
            block = array(alive[joined], (joined.spec.nbytes,), np.uint8)
            if base in lowered.outputs.steps:
                steps = [step * base.dtype.itemsize for step in lowered.outputs.steps[base]]
                return np.ndarray(base.shape, base.dtype, block, offset, steps)
        else:
            _, offset = lowered.place[base]
            block = array(alive["arena"], (lowered.arena_size,), np.uint8)
        part: np.ndarray = block[offset : offset + base.spec.nbytes].view(base.dtype)
        return part.reshape(base.shape)

    def _output(self, node: Node, how: str, inputs: Sequence[Input], alive: Alive) -> Content:
        if how == "written":
            written: Buffer = alive[node]
            return written
        result: np.ndarray = self._array(node, inputs, alive)
        return result if how == "called" else np.array(result)


def _root(array: np.ndarray) -> np.ndarray:
    """The array whose memory an array is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _kept(result: np.ndarray, operands: Sequence[Any]) -> np.ndarray:
    """The result of a NumPy call as a value of its own.

    A view of an operand, or of memory that later steps use again, is copied, and so is a small part
    of something large.
    """
    root = _root(result)
    if (
        root.flags.owndata
        and root.nbytes <= 2 * result.nbytes
        and not any(root is _root(each) for each in operands if isinstance(each, np.ndarray))
    ):
        return result
    return np.array(result)


def compiled_plan(program: Program, fast: bool) -> CompiledPlan:
    """The compiled plan of a program; with `fast` its kernels round as is quickest."""
    with rounding(fast):
        return CompiledPlan(optimized(program, fast))


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
        # Bytes of the outputs, whose slots follow those of the input arrays.
        self._written = [node.spec.nbytes for node in lowered.outputs.written]
        outputs = sum(node.spec.nbytes for node in lowered.outputs.how)
        check_bytes(self.arena_size + outputs)
        self._steps = _compiled_steps(lowered)
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

    @property
    def steps(self) -> Sequence[Stretch | NumpyCall]:
        """The native stretches and NumPy calls, in the order they run."""
        return self._steps

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
    codes = kernel_codes(step for step in steps if not isinstance(step, NumpyCall))
    return [step if isinstance(step, NumpyCall) else stretch_of(step, codes) for step in steps]


def _picker(positions: list[int]) -> Callable[[Sequence[Input]], Sequence[Input]]:
    """A function that takes the items at some positions from a sequence, as a sequence."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda inputs: [inputs[position] for position in positions]
